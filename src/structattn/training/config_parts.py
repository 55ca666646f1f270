"""The parts of a run's configuration: data, classifier, decoder and optimisation, as frozen values."""

import math
from dataclasses import dataclass, field
from typing import Any, Literal, get_args, get_type_hints

from structattn.data.phrase_trees import TreeSource, Unary
from structattn.data.text_vocabulary import TokenUnit
from structattn.syntax.errors import ConfigError

# What an option of an encoder, decoder or parser may be in a configuration: plain values, in lists and sections.
# ``Any`` would let jsonargparse import and call whatever class a value names.
_Plain = bool | int | float | str | None
_Listed = _Plain | list[_Plain | list[_Plain]]
Option = _Listed | dict[str, _Listed | dict[str, _Listed]]
Supervision = Literal["none", "all", "unique", "weighted", "nodes"]
Optimizer = Literal["adam", "adamw", "adadelta", "adagrad", "sgd"]
Schedule = Literal["constant", "linear", "inverse_sqrt", "halving"]
MixedPrecision = Literal["no", "bf16", "fp16"]
Frozen = Literal["none", "dev", "all"]
Activation = Literal["relu", "elu", "tanh", "sigmoid"]
Combine = Literal["single", "product_absolute", "product_signed", "tai", "together"]


@dataclass(frozen=True)
class DataConfig:
    """Where the examples come from.

    Attributes:
        train: the training file; ``None`` for tasks that generate their data. Parallel text may be two files with a
            comma between, ``train.de,train.en``.
        dev: the development file; without one, a part of the training data is held out.
        test: a file on which the best model is measured once, at the end.
        format: data format of all three; recognised from each file if ``None``.
        parses: a CoNLL-U file; sentences that come without a dependency tree get the one of the same words from there.
        columns: for tables of an unknown layout, which column is ``first``, ``second``, ``label`` and ``id``.
        phrases: train on the phrases of labelled trees too: ``all``, ``unique``, or ``weighted`` (unique, neutral ones
            count a quarter), each an example of its own; or ``nodes``, where one encoding of the sentence is trained
            on the labels of all its words and phrases (for encoders with states of phrases). The task's own choice if
            ``None``. Never for dev and test.
        trees: which phrase trees sentences get, at prediction too: their ``own``; ``rooted``, with one root over
            several trees; from their ``dependency`` trees; or trees without syntax: ``left``, ``right``,
            ``balanced``, ``random``.
        unary: treatment of unary chains, phrases over the same words: ``keep``, ``lowest``, ``top``, ``join``.
        tree_seed: of random trees.
        holdout: share of the training data that becomes dev where there is no dev file; the same for every seed.
        vectors: pretrained vectors: a GloVe text file, or a Hugging Face model folder.
        vectors_size: scale the vectors so that their elements have this root mean square; ``None`` takes them as they
            are. Input embeddings of language models are some ten times smaller than GloVe's vectors.
        frozen: which words outside of the training data get their pretrained vector, untrained: those of dev and test,
            all the vectors file has, or none.
        min_count: rarer words of the training data are unknown.
        lowercase: whether ``The`` and ``the`` are one word; subwords keep their case.
        limit: maximum number of training examples, from the start of the file.
        generated: number of training examples of tasks that generate their data; dev and test have a fifteenth each.
    """

    train: str | None = None
    dev: str | None = None
    test: str | None = None
    format: str | None = None
    parses: str | None = None
    columns: dict[str, str | int] | None = None
    phrases: Supervision | None = None
    trees: TreeSource = "own"
    unary: Unary = "keep"
    tree_seed: int = 0
    holdout: float = 0.1
    vectors: str | None = None
    vectors_size: float | None = None
    frozen: Frozen = "dev"
    min_count: int = 1
    lowercase: bool = True
    limit: int | None = None
    generated: int = 15_000

    def __post_init__(self) -> None:
        check_choices(self, "data")
        check(0 < self.holdout < 1, "data.holdout", "a share between 0 and 1", self.holdout)
        size = self.vectors_size
        check(size is None or 0 < size < math.inf, "data.vectors_size", "a number above 0", size)
        check(self.min_count >= 1, "data.min_count", "at least 1", self.min_count)
        check(self.limit is None or self.limit >= 1, "data.limit", "at least 1", self.limit)
        check(self.generated >= 1, "data.generated", "at least 1", self.generated)


@dataclass(frozen=True)
class ClassifierConfig:
    """The layers between the sentence vectors and the labels.

    Attributes:
        hidden: width of the hidden layer; the task's own if ``None``.
        activation: of the hidden layer; a sigmoid for scores and ReLU otherwise if ``None``. DiSAN uses ``elu``.
        dropout: on the inputs of both layers; the encoder's own ``dropout`` if ``None``.
        combine: how the vectors of a pair become one; the task's own if ``None``. DiSAN uses ``product_signed``.
        output_bias: whether the last layer has a bias.
    """

    hidden: int | None = None
    activation: Activation | None = None
    dropout: float | None = None
    combine: Combine | None = None
    output_bias: bool = True

    def __post_init__(self) -> None:
        check_choices(self, "classifier")
        check(self.hidden is None or self.hidden >= 1, "classifier.hidden", "at least 1", self.hidden)
        check(self.dropout is None or 0 <= self.dropout < 1, "classifier.dropout", "a share below 1", self.dropout)


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
        check(self.beam >= 1, "decoder.beam", "at least 1", self.beam)
        check(self.length_penalty >= 0, "decoder.length_penalty", "at least 0", self.length_penalty)
        check(0 <= self.max_length_ratio < math.inf, "decoder.max_length_ratio", "at least 0", self.max_length_ratio)


@dataclass(frozen=True)
class OptimizationConfig:
    """Optimiser, schedule and batches. The defaults suit MS-SAN.

    Attributes:
        initial_range: every weight and bias starts uniformly between minus and plus this, apart from normalisations
            and given word vectors; ``None`` keeps each module's own initialisation.
        optimizer: ``adadelta`` has rho .95 and epsilon 1e-8, as DiSAN's TensorFlow had.
        learning_rate: peak learning rate.
        weight_decay: of matrices only; never of biases, normalisation or word vectors. Coupled with the gradient as
            an L2 penalty, except for ``adamw``.
        embedding_lr_scale: learning rate of the word vectors as a share of ``learning_rate``; with little data
            a small share is better for pretrained vectors, and 0 freezes them.
        backbone_lr_scale: learning rate of a pretrained backbone as a share of ``learning_rate``; new layers on top
            often need a higher rate than the backbone.
        momentum: of ``sgd``.
        batch_size: examples per step and process.
        batch_tokens: instead of ``batch_size``, the maximum number of words (or tokens) per step and process, padding
            included; the longer one of a sentence and its text counts.
        epochs: maximum number of epochs.
        patience: stop after this number of evaluations without improvement; ``None`` never stops.
        clip: maximum norm of the gradient; ``None`` does not clip.
        schedule: ``linear`` falls to zero at the end of the last epoch; ``inverse_sqrt`` falls with the square root of
            the step after the warm-up (Vaswani et al. 2017, section 5.3); ``halving`` halves at the start of
            ``halve_from`` and then after every ``halve_every`` epochs.
        halve_from: an epoch, counted from 1.
        halve_every: a number of epochs.
        warmup: share of all steps over which the learning rate rises from zero.
        mixed_precision: ``fp16`` needs a GPU.
        evaluations_per_epoch: evenly spaced; the last is at the end of the epoch.
        average: number of latest evaluations whose parameters are averaged in what is evaluated and kept.
    """

    initial_range: float | None = None
    optimizer: Optimizer = "adam"
    learning_rate: float = 1e-3
    weight_decay: float = 1e-5
    embedding_lr_scale: float = 1.0
    backbone_lr_scale: float = 1.0
    momentum: float = 0.9
    batch_size: int = 32
    batch_tokens: int | None = None
    epochs: int = 30
    patience: int | None = 5
    clip: float | None = 5.0
    schedule: Schedule = "constant"
    halve_from: int = 9
    halve_every: int = 1
    warmup: float = 0.0
    mixed_precision: MixedPrecision = "no"
    evaluations_per_epoch: int = 1
    average: int = 1

    def __post_init__(self) -> None:
        check_choices(self, "optimization")
        for name in ("batch_size", "epochs", "evaluations_per_epoch", "average", "halve_from", "halve_every"):
            value = getattr(self, name)
            check(value >= 1, f"optimization.{name}", "at least 1", value)
        bound = self.initial_range
        check(bound is None or 0 < bound < math.inf, "optimization.initial_range", "a number above 0", bound)
        rate = self.learning_rate
        check(math.isfinite(rate) and rate > 0, "optimization.learning_rate", "a number above 0", rate)
        check(self.weight_decay >= 0, "optimization.weight_decay", "at least 0", self.weight_decay)
        check(
            0 <= self.embedding_lr_scale < math.inf,
            "optimization.embedding_lr_scale",
            "at least 0",
            self.embedding_lr_scale,
        )
        check(
            0 < self.backbone_lr_scale < math.inf,
            "optimization.backbone_lr_scale",
            "a number above 0",
            self.backbone_lr_scale,
        )
        check(self.patience is None or self.patience >= 1, "optimization.patience", "at least 1", self.patience)
        check(self.clip is None or self.clip > 0, "optimization.clip", "a number above 0", self.clip)
        check(0 <= self.warmup < 1, "optimization.warmup", "a share below 1", self.warmup)
        check(0 <= self.momentum < 1, "optimization.momentum", "a share below 1", self.momentum)
        tokens = self.batch_tokens
        check(tokens is None or tokens >= 1, "optimization.batch_tokens", "at least 1", tokens)
        if self.schedule == "inverse_sqrt" and self.warmup == 0:
            raise ConfigError("optimization.schedule: inverse_sqrt needs a warm-up, from whose end it falls")


def check(holds: bool, place: str, expected: str, value: object) -> None:
    """Raise for a value out of its range.

    Raises:
        ConfigError: unless it holds.
    """
    if not holds:
        raise ConfigError(f"{place}: expected {expected}, got {value!r}")


def check_choices(config: Any, place: str) -> None:
    """Raise for unknown names in fields with a fixed set of values, also of values not from ``from_dict``.

    Raises:
        ConfigError: for a name that is not among them.
    """
    for name, hint in get_type_hints(type(config)).items():
        choices = [choice for part in (hint, *get_args(hint)) for choice in get_args(part) if isinstance(choice, str)]
        value = getattr(config, name)
        where = f"{place}.{name}" if place else name
        if choices and value is not None and value not in choices:
            raise ConfigError(f"{where}: unknown value {value!r}; known: {', '.join(choices)}")
