"""The decoder interface of sequence models, and the table of decoders by name.

A decoder generates a text from an encoding, token by token: all steps of a known text at once in training, and one step
at a time in search. Both must give the same probabilities.
"""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor

from structattn.data import SentenceBatch
from structattn.data.text_vocabulary import TokenUnit
from structattn.encoders import SentenceEncoder
from structattn.encoders.sentence_encoder import Encoding
from structattn.syntax.errors import ConfigError
from structattn.syntax.options import Option, check, check_choices, check_options
from structattn.tasks.search import Search, State


@dataclass(frozen=True)
class DecoderConfig:
    """The decoder, for tasks whose answer is a text.

    Attributes:
        name: name of a decoder.
        options: keyword arguments of the decoder's builder.
        source: token unit of the source: words, characters, or subwords learnt from the training data. If both sides
            are subwords, they are learnt from both together and have the same ids.
        target: token unit of the target.
        vocab_size: maximum number of subwords.
        label_smoothing: share of the target probability that is spread over all tokens.
        beam: number of unfinished hypotheses in search; 1 is greedy.
        length_penalty: a text of ``n`` tokens scores ``log p / n ** length_penalty``.
        max_length_ratio: a text has at most ``max_length_ratio * n + 10`` tokens for ``n`` tokens of the source.
    """

    name: str = "lstm"
    options: dict[str, Option] = field(default_factory=dict)
    source: TokenUnit = "words"
    target: TokenUnit = "words"
    vocab_size: int = 8000
    label_smoothing: float = 0.0
    beam: int = 5
    length_penalty: float = 0.0
    max_length_ratio: float = 2.0

    def __post_init__(self) -> None:
        check_choices(self, "decoder")
        check(self.vocab_size >= 1, "decoder.vocab_size", "at least 1", self.vocab_size)
        check(0 <= self.label_smoothing < 1, "decoder.label_smoothing", "a share below 1", self.label_smoothing)
        _ = self.search

    @property
    def search(self) -> Search:
        """Options of the search for a text."""
        return Search(self.beam, self.length_penalty, self.max_length_ratio)


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


DECODERS: dict[str, str] = {
    "lstm": "structattn.tasks.lstm_decoder:lstm_decoder",
    "transformer": "structattn.tasks.transformer_decoder:transformer_decoder",
    "tree_transformer": "structattn.tasks.transformer_decoder:tree_transformer_decoder",
}


def decoder_builder(name: str) -> Callable[..., Decoder]:
    """The builder behind a name: ``(encoder, vocab_size, **options)`` to a decoder.

    Raises:
        ConfigError: if the name is unknown; the message lists the known names.
    """
    if name not in DECODERS:
        raise ConfigError(f"unknown decoder {name!r}; known: {', '.join(sorted(DECODERS))}")
    module, function = DECODERS[name].split(":")
    found: Callable[..., Decoder] = getattr(importlib.import_module(module), function)
    return found


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
    function = decoder_builder(name)
    checked = check_options(options, function, f"decoder {name!r}")
    try:
        decoder = function(encoder, vocab_size, **checked)
    except ConfigError:
        raise
    except ValueError as error:
        raise ConfigError(f"decoder {name!r}: {error}") from error
    decoder.description = {"name": name, "options": options}
    return decoder
