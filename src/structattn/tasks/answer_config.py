"""The configuration of what is above an encoder: how vectors combine, a classifier, or a decoder and its search.

How the vectors of one or two sentences become the input of a classifier, in the exact order of each paper:

| name | vector | source |
|---|---|---|
| `single` | `u` | one sentence |
| `product_absolute` | `[u; v; u * v; abs(u - v)]` | MS-SAN, pair classifier |
| `product_signed` | `[u; v; u - v; u * v]` | DiSAN, pair classifier |
| `tai` | `[u * v; abs(u - v)]` | Tai et al. 2015, section 4.2 |
| `together` | `u`, of both sentences read as one text | BERT and HYDRA; for encoders on a backbone that read pairs |
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from structattn.data.text_vocabulary import TokenUnit
from structattn.options.checking import Option, check, check_choice, check_fields

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor


@dataclass(frozen=True)
class Combination:
    """One way of combining sentence vectors: which are concatenated, and how many vectors wide the result is.

    An encoder that ``reads_together`` takes all sentences of an example as one text, and gives one vector.
    """

    arity: int
    width: int
    parts: "Callable[..., tuple[Tensor, ...]]"
    reads_together: bool = False


def combine(name: str, vectors: "Sequence[Float[Tensor, 'batch dim']]") -> "Float[Tensor, 'batch combined']":
    """The vectors of an example's sentences as one, by a key of ``COMBINATIONS``.

    Raises ``ValueError`` unless there are as many vectors as the combination takes.
    """
    import torch

    combination = COMBINATIONS[name]
    expected = 1 if combination.reads_together else combination.arity
    if len(vectors) != expected:
        raise ValueError(f"combine {name!r} expects {expected} vectors, got {len(vectors)}")
    return torch.cat(combination.parts(*vectors), dim=-1)


#: From the name of a combination of sentence vectors to the combination.
COMBINATIONS: Mapping[str, Combination] = {
    "single": Combination(arity=1, width=1, parts=lambda u: (u,)),
    "product_absolute": Combination(arity=2, width=4, parts=lambda u, v: (u, v, u * v, abs(u - v))),
    "product_signed": Combination(arity=2, width=4, parts=lambda u, v: (u, v, u - v, u * v)),
    "tai": Combination(arity=2, width=2, parts=lambda u, v: (u * v, abs(u - v))),
    "together": Combination(arity=2, width=1, parts=lambda u: (u,), reads_together=True),
}


ACTIVATIONS: Mapping[str, str] = {"relu": "ReLU", "elu": "ELU", "tanh": "Tanh", "sigmoid": "Sigmoid"}
"""From the name of each activation of a classifier to its class in ``torch.nn``."""


@dataclass(frozen=True)
class ClassifierConfig:
    """The layers between the vectors of sentences, or the states of words, and the labels.

    Attributes:
        hidden: width of the hidden layer; the task's own if ``None``.
        activation: activation of the hidden layer: ``relu``, ``elu``, ``tanh`` or ``sigmoid``; if ``None``, a
            sigmoid for scores and ReLU otherwise. DiSAN uses ``elu``.
        dropout: dropout on the inputs of both layers; the encoder's own ``dropout`` if ``None``.
        combine: how to combine the vectors of a pair, see ``COMBINATIONS``; the task's own if ``None``. DiSAN uses
            ``product_signed``.
        output_bias: whether the last layer has a bias.
        label_smoothing: share of the target probability spread over all classes.
        tags: for taggers: ``chain``, a linear-chain CRF (if ``None``); ``segments``, a semi-Markov CRF over spans in
            IOB2; or ``independent``, a softmax per word.
    """

    hidden: int | None = None
    activation: str | None = None
    dropout: float | None = None
    combine: str | None = None
    output_bias: bool = True
    label_smoothing: float = 0.0
    tags: Literal["chain", "segments", "independent"] | None = None

    def __post_init__(self) -> None:
        check_fields(self, "classifier")
        check_choice(self.activation, ACTIVATIONS, "classifier.activation")
        check_choice(self.combine, COMBINATIONS, "classifier.combine")
        check(self.hidden is None or self.hidden >= 1, "classifier.hidden", "at least 1", self.hidden)
        check(self.dropout is None or 0 <= self.dropout < 1, "classifier.dropout", "a share below 1", self.dropout)
        smoothing = self.label_smoothing
        check(0 <= smoothing < 1, "classifier.label_smoothing", "a share below 1", smoothing)


@dataclass(frozen=True)
class Search:
    """Options of the search for a text.

    Attributes:
        beam: number of unfinished hypotheses; 1 is greedy.
        length_penalty: a text of ``n`` tokens scores ``log p / n ** length_penalty``.
        max_length_ratio: a text has at most ``max_length_ratio * n + 10`` tokens for ``n`` tokens of the source.

    Raises:
        ConfigError: for a value out of its range.
    """

    beam: int = 5
    length_penalty: float = 0.0
    max_length_ratio: float = 2.0

    def __post_init__(self) -> None:
        for name, least in (("beam", 1), ("length_penalty", 0), ("max_length_ratio", 0)):
            value = getattr(self, name)
            check(least <= value < math.inf, f"decoder.{name}", f"at least {least}", value)


@dataclass(frozen=True)
class DecoderConfig:
    """The decoder, for tasks whose answer is a text.

    Attributes:
        name: name of a decoder.
        options: keyword arguments of the decoder's builder.
        source: token unit of the source: words, characters, or subwords learnt from the training data, jointly if both
            sides use them.
        target: token unit of the target.
        vocab_size: maximum number of subwords.
        label_smoothing: share of the target probability spread over all tokens.
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
        check_fields(self, "decoder")
        check(self.vocab_size >= 1, "decoder.vocab_size", "at least 1", self.vocab_size)
        check(0 <= self.label_smoothing < 1, "decoder.label_smoothing", "a share below 1", self.label_smoothing)
        _ = self.search

    @property
    def search(self) -> Search:
        """Options of the search for a text."""
        return Search(self.beam, self.length_penalty, self.max_length_ratio)
