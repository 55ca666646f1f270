"""The decoder interface of sequence models, decoders built by name, and search: greedy or with a beam.

A decoder generates a text from an encoding, token by token: all steps of a known text at once in training, and one step
at a time in search. Both must give the same probabilities.

Reference: Graves (2012), Sequence transduction with recurrent neural networks, section 2.4 (beam search); Wu et al.
(2016), Google's neural machine translation system, section 7 (length normalisation, of which this is the plain form).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from structattn.data import SentenceBatch
from structattn.encoders import SentenceEncoder
from structattn.encoders.sentence_encoder import Encoding
from structattn.errors import ConfigError
from structattn.tasks.task_table import DECODERS

State = Mapping[str, Tensor]
"""The state of a decoder; the first axis of each tensor is the row, one for each hypothesis."""

Step = Callable[[Int[Tensor, " row"], State], tuple[Float[Tensor, "row token"], State]]
"""From the last tokens ``(row,)`` and a state to log-probabilities ``(row, token)`` and the next state.

It does not modify the tensors given, and should return those that do not change from step to step as they are."""


# Finished sequences are removed from the batch once at most this share remains; removal costs a copy of the state.
_WORTHWHILE = 0.75


@dataclass(frozen=True, eq=False)
class SearchResult:
    """The sequences that a search found, 0 after their ends, and their length-normalised log-probabilities."""

    tokens: Int[Tensor, "batch step"]
    scores: Float[Tensor, " batch"]


def greedy_search(step: Step, state: State, *, limits: Int[Tensor, " batch"], begin: int, end: int) -> SearchResult:
    """Take the most probable token at each step, up to the end; arguments are those of ``beam_search``."""
    last = torch.full_like(limits, begin)
    done = torch.zeros_like(limits, dtype=torch.bool)
    scores: Tensor | None = None
    written = []
    least, most = int(limits.min()), int(limits.max())
    for number in range(1, most + 1):
        logs, state = step(last, state)
        best, last = logs.max(-1)
        if number >= least:  # at its limit a sequence ends
            best, last = torch.where(number >= limits, logs[:, end], best), last.masked_fill(number >= limits, end)
        last = last.masked_fill(done, end)
        best = best.masked_fill(done, 0.0)
        scores = best if scores is None else scores + best
        written.append(last.masked_fill(done, 0))
        done = done | (last == end)
        if bool(done.all()):
            break
    if scores is None:
        raise ValueError(f"greedy_search expects limits of at least 1, got {limits.tolist()}")
    return SearchResult(torch.stack(written, 1), scores)


def beam_search(
    step: Step,
    state: State,
    *,
    limits: Int[Tensor, " batch"],
    begin: int,
    end: int,
    beam: int = 5,
    length_penalty: float = 0.0,
) -> SearchResult:
    r"""Keep the best unfinished sequences at each step; return the best finished one.

    A sequence of ``n`` tokens, its end included, scores ``log p / n ** length_penalty``. Each kept sequence may end at
    each step without taking up room in the beam; a search ends when no unfinished sequence can score more than the best
    finished one. With a beam as wide as the number of sequences the answer is exact.

    Args:
        step: the model.
        state: the model's state before the first token, a row for each sequence.
        limits: how many tokens each sequence may have, its end included; at its limit a sequence must end.
        begin: the token before the first one.
        end: the token that ends a sequence.
        beam: how many unfinished sequences are kept.
        length_penalty: 0 prefers short sequences, as probabilities do; 1 compares means over tokens.

    Raises:
        ValueError: for a beam below 1, a negative penalty or a limit below 1.

    Example:
        >>> table = torch.tensor([[0.0, 0.6, 0.4], [0.9, 0.05, 0.05], [0.0, 0.0, 0.0]]).log()
        >>> step = lambda last, state: (table[last], state)
        >>> result = beam_search(step, {}, limits=torch.tensor([3]), begin=0, end=2, beam=2)
        >>> result.tokens.tolist(), round(result.scores.exp().item(), 2)
        ([[2]], 0.4)
    """
    batch, least, most, device = len(limits), int(limits.min()), int(limits.max()), limits.device
    if beam < 1 or length_penalty < 0 or least < 1:
        raise ValueError(
            f"beam_search expects a beam and limits of at least 1 and a penalty of at least 0, "
            f"got {beam}, {least}, {length_penalty}"
        )
    best = torch.full((batch,), -torch.inf, device=device)
    answer = torch.zeros(batch, most, dtype=limits.dtype, device=device)
    active = torch.arange(batch, device=device)  # the sequences whose search goes on
    state = _select_rows(state, active.repeat_interleave(beam))
    shared = set(state)  # what no step has replaced, such as keys of the source: the same in all rows of a sequence
    last = torch.full((batch * beam,), begin, dtype=limits.dtype, device=device)
    # All rows of a sequence are the same at first: only one of them counts.
    live = torch.full((batch, beam), -torch.inf, device=device)
    live[:, 0] = 0.0
    written = torch.zeros(batch, beam, most, dtype=limits.dtype, device=device)
    for number in range(1, most + 1):
        previous = state
        logs, state = step(last, previous)
        shared = {name for name in shared if state.get(name) is previous[name]}
        logs = logs.unflatten(0, (-1, beam))
        live = live.to(logs.dtype)

        ended, which = ((live + logs[..., end]) / number**length_penalty).max(-1)
        better = ended > best[active]
        candidate = written[torch.arange(len(active), device=device), which]
        candidate[:, number - 1] = end
        answer[active] = torch.where(better[:, None], candidate, answer[active])
        best = best.to(ended.dtype).index_copy(0, active, torch.where(better, ended, best[active]))

        # The best of all rows are among the best of each, the end aside.
        logs, tokens = logs.topk(min(beam + 1, logs.shape[-1]))
        total = (live.unsqueeze(-1) + logs).masked_fill(tokens == end, -torch.inf)
        if number >= least:
            total = total.masked_fill((number >= limits[active])[:, None, None], -torch.inf)
        live, position = total.flatten(1).topk(beam)
        row, token = position // total.shape[-1], tokens.flatten(1).gather(1, position)
        written = written.gather(1, row.unsqueeze(-1).expand_as(written))
        written[..., number - 1] = token
        row += torch.arange(len(active), device=device)[:, None] * beam
        # Longer sequences divide by more: at their limit they are penalised least.
        (survivors,) = (live[:, 0] / limits[active].to(live.dtype) ** length_penalty > best[active]).nonzero(
            as_tuple=True
        )
        if len(survivors) == 0:
            break
        are_fewer = len(survivors) <= _WORTHWHILE * len(active)
        if are_fewer:
            active, live, written, row, token = (part[survivors] for part in (active, live, written, row, token))
        state = _select_rows(state, row.flatten(), except_for=() if are_fewer else shared)
        last = token.flatten()
    return SearchResult(answer[:, : int((answer == end).int().argmax(-1).max()) + 1], best)


def _select_rows(state: State, rows: Tensor, *, except_for: Collection[str] = ()) -> State:
    return {name: tensor if name in except_for else tensor.index_select(0, rows) for name, tensor in state.items()}


@runtime_checkable
class Decoder(Protocol):
    """A module that generates text.

    ``__call__`` is ``forward``: logits of every next token, given the tokens before it; the first of
    them is the begin token, and padding is on the right. ``start`` and ``step`` do the same one token at a time; each
    tensor of a state has the row first, so that a search may keep some rows and repeat others.

    Attributes:
        description: the name and options that ``build_decoder`` made it from, so that it can be saved.
    """

    description: Mapping[str, Any]

    def __call__(
        self, encoding: Encoding, source: SentenceBatch, tokens: Int[Tensor, "batch step"]
    ) -> Float[Tensor, "batch step vocabulary"]:
        """Logits of the next token at each step."""
        ...

    def start(self, encoding: Encoding, source: SentenceBatch) -> State:
        """The state before the first token, with a row for each sentence."""
        ...

    def step(self, last: Int[Tensor, " row"], state: State) -> tuple[Float[Tensor, "row vocabulary"], State]:
        """Logits of the next token, and the next state."""
        ...


class TokenDecoder(nn.Module, ABC):
    """A decoder that embeds tokens and reads any number of them after a state: those of a text at once, or one."""

    def __init__(self, vocab_size: int, dim: int, *, dropout: float) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, dim, padding_idx=0)
        nn.init.normal_(self.embedding.weight, std=dim**-0.5)
        with torch.no_grad():
            self.embedding.weight[0] = 0.0
        self.dropout = nn.Dropout(dropout)

    @abstractmethod
    def start(self, encoding: Encoding, source: SentenceBatch) -> State:
        """The state before the first token."""

    @abstractmethod
    def read(self, tokens: Int[Tensor, "row step"], state: State) -> tuple[Float[Tensor, "row step vocabulary"], State]:
        """Logits of the token after each of these, and the state after all of them."""

    def forward(
        self, encoding: Encoding, source: SentenceBatch, tokens: Int[Tensor, "batch step"]
    ) -> Float[Tensor, "batch step vocabulary"]:
        """Logits of the next token at each step."""
        scores, _ = self.read(tokens, self.start(encoding, source))
        return scores

    def step(self, last: Int[Tensor, " row"], state: State) -> tuple[Float[Tensor, "row vocabulary"], State]:
        """Logits of the next token, and the next state."""
        scores, state = self.read(last.unsqueeze(1), state)
        return scores.squeeze(1), state


def build_decoder(name: str, encoder: SentenceEncoder, vocab_size: int, **options: Any) -> Decoder:
    """Build a decoder by name for an encoder.

    Args:
        name: a key of ``DECODERS``.
        encoder: the encoder it attends to.
        vocab_size: number of tokens of the target side, the special ones included.
        **options: keyword arguments of the builder.

    Raises:
        ConfigError: for an unknown decoder or option (the message lists the known ones), or a value that does not fit.

    Example:
        >>> from structattn.encoders import build
        >>> encoder = build("lstm", vocab_size=5, dim=4)
        >>> build_decoder("lstm", encoder, 7, attention="segmentation").attention.reader.total
        2.0
    """
    checked = DECODERS.check_options(name, options)
    try:
        decoder = DECODERS[name](encoder, vocab_size, **checked)
    except ConfigError:
        raise
    except ValueError as error:
        raise ConfigError(f"decoder {name!r}: {error}") from error
    decoder.description = {"name": name, "options": options}
    return decoder
