"""The configuration of the layers above an encoder: a classifier of sentences or words, or a decoder and a search."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from structattn.data.text_vocabulary import TokenUnit
from structattn.options.checking import Option, check, check_choice, check_choices
from structattn.tasks.combine import COMBINATIONS

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
        tags: for taggers: ``chain``, a linear-chain CRF (if ``None``), or ``independent``, a softmax per word.
    """

    hidden: int | None = None
    activation: str | None = None
    dropout: float | None = None
    combine: str | None = None
    output_bias: bool = True
    label_smoothing: float = 0.0
    tags: Literal["chain", "independent"] | None = None

    def __post_init__(self) -> None:
        check_choices(self, "classifier")
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
        source: token unit of the source: words, characters, or subwords learnt from the training data. If both sides
            use subwords, these are learnt jointly and share their ids.
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
        check_choices(self, "decoder")
        check(self.vocab_size >= 1, "decoder.vocab_size", "at least 1", self.vocab_size)
        check(0 <= self.label_smoothing < 1, "decoder.label_smoothing", "a share below 1", self.label_smoothing)
        _ = self.search

    @property
    def search(self) -> Search:
        """Options of the search for a text."""
        return Search(self.beam, self.length_penalty, self.max_length_ratio)
