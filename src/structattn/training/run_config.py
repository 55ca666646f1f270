"""The configuration of a training run, as one frozen value; a run folder's ``config.yaml`` is exactly this."""

import csv
import dataclasses
import inspect
import math
import os
from argparse import ArgumentError
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_type_hints

from structattn.data.phrase_trees import TreeSource, Unary
from structattn.errors import ConfigError, naming
from structattn.files.json_yaml import read_yaml, write_yaml
from structattn.options.checking import Option, check, check_fields, explain
from structattn.options.sections import check_sections
from structattn.tasks.answer_config import ClassifierConfig, DecoderConfig
from structattn.training.optimization_config import OptimizationConfig, RunSettings

if TYPE_CHECKING:
    import jsonargparse

FROM_PYTHON = "python:"
"""The prefix of the checksum that replaces a path, for examples that were not read from a file."""
Supervision = Literal["none", "all", "unique", "weighted", "nodes"]
Frozen = Literal["none", "dev", "all"]


@dataclass(frozen=True)
class DataConfig:
    """Where the examples come from.

    Attributes:
        train: the training file; ``None`` for tasks that generate their data. Parallel text may be two files separated
            by a comma, ``train.de,train.en``.
        dev: the development file; without one, a part of the training data is held out.
        test: a file on which the best model is evaluated once, at the end.
        format: data format of all three; recognised from each file if ``None``.
        parses: a CoNLL-U file with trees of the same words, for sentences without one.
        parser: finds the trees that the encoder needs and sentences still lack; the model remembers it. ``en``, the
            English parser of this package, if ``None``; ``none`` for no parser.
        text_column: for tables and JSON: the column (or key) of texts, or two for pairs, ``premise,hypothesis``; a name
            (in quotes if it has a comma), or a number from 0 in a table without a header; found by its name (``text``,
            ``review``, ...) if ``None``.
        label_column: the column of labels, or several, ``a,b``, of 0 and 1.
        id_column: the column of ids, by name or number.
        phrases: train on the phrases of labelled trees too: ``all``, ``unique``, or ``weighted`` (unique, neutral ones
            by a quarter), each an example of its own; or ``nodes``, one encoding of the sentence on the labels of all
            its words and phrases. The task's own choice if ``None``. Never for dev and test.
        trees: which phrase trees sentences get, at prediction too: their ``own``; ``rooted``, with one root over
            several trees; from their ``dependency`` trees; or trees without syntax: ``left``, ``right``,
            ``balanced``, ``random``.
        unary: what to do with unary chains, phrases over the same words.
        tree_seed: random seed of ``random`` trees.
        holdout: share of the training data held out as dev if there is no dev file; the same examples for every seed.
        test_size: number of last examples, or of those after ``limit``, held out as test data.
        vectors: pretrained vectors: a GloVe text file, or a Hugging Face model folder.
        vectors_size: scale the vectors to this root mean square of their elements; input embeddings of language models
            are ten times smaller than GloVe's.
        frozen: which other words get their pretrained vector, frozen: those of dev and test, all in the file, or none.
        min_count: rarer words of the training data are treated as unknown.
        lowercase: whether ``The`` and ``the`` are one word; subwords keep their case.
        limit: maximum number of training examples, from the start of the file.
        sample: number of training examples to draw with the run's seed, after dev and test are split off; a smaller
            sample is a subset of a larger one.
        max_length: maximum number of words of a sentence, 5,000 if ``None``. Longer ones are truncated, at prediction
            too.
        refuse_longer: refuse longer sentences instead of truncating them.
        generated: number of training examples for tasks that generate data; dev has a fifteenth as many, test 1.4 times
            as many as dev.
        streaming: read training examples from Parquet files (``structattn convert``) as batches need them; for tasks
            whose answer is a class or a score.
        buffer: number of streamed examples that are shuffled together; 65,536 if ``None``.
        loader_workers: number of processes that prepare streamed batches in advance.
        stratify: hold out class by class; if ``None``, in tasks for files of your own.
        class_weights: factors of the loss: ``balanced``, or a mapping such as {rare: 4}.
        sampling: ``balanced`` draws examples so that all classes come equally often.
    """

    train: str | None = None
    dev: str | None = None
    test: str | None = None
    format: str | None = None
    parses: str | None = None
    parser: str | None = None
    text_column: int | str | None = None
    label_column: int | str | None = None
    id_column: int | str | None = None
    phrases: Supervision | None = None
    trees: TreeSource = "own"
    unary: Unary = "keep"
    tree_seed: int = 0
    holdout: float = 0.1
    test_size: int | None = None
    vectors: str | None = None
    vectors_size: float | None = None
    frozen: Frozen = "dev"
    min_count: int = 1
    lowercase: bool = True
    limit: int | None = None
    sample: int | None = None
    max_length: int | None = None
    refuse_longer: bool = False
    generated: int = 15_000
    streaming: bool = False
    buffer: int | None = None
    loader_workers: int = 0
    stratify: Literal["always", "never"] | None = None
    class_weights: Literal["balanced"] | dict[str, float] | None = None
    sampling: Literal["balanced"] | None = None

    @property
    def has_test(self) -> bool:
        """Whether a run has test data."""
        return self.test is not None or self.test_size is not None

    def __post_init__(self) -> None:
        check_fields(self, "data")
        check(0 < self.holdout < 1, "data.holdout", "a share between 0 and 1", self.holdout)
        size = self.vectors_size
        check(size is None or 0 < size < math.inf, "data.vectors_size", "a number above 0", size)
        check(self.min_count >= 1, "data.min_count", "at least 1", self.min_count)
        for name in ("limit", "sample", "buffer", "test_size"):
            value = getattr(self, name)
            check(value is None or value >= 1, f"data.{name}", "at least 1", value)
        longest = self.max_length
        check(longest is None or longest >= 1, "data.max_length", "at least 1", longest)
        check(self.generated >= 1, "data.generated", "at least 1", self.generated)
        check(self.loader_workers >= 0, "data.loader_workers", "at least 0", self.loader_workers)
        weights = self.class_weights.values() if isinstance(self.class_weights, dict) else ()
        wrong = next((value for value in weights if not 0 < value < math.inf), None)
        check(wrong is None, "data.class_weights", "numbers above 0", wrong)
        both = self.class_weights is not None and self.sampling is not None
        check(not both, "data.sampling", "none beside data.class_weights, which has the same purpose", self.sampling)
        self._check_has_effect(self.vectors is not None, "without data.vectors", "vectors_size", "frozen")
        self._check_has_effect(self.trees == "random", "without data.trees random", "tree_seed")
        self._check_has_effect(self.streaming, "without data.streaming", "buffer", "loader_workers")
        self._check_has_effect(self.train is None, "beside data.train", "generated")
        is_held_out = self.train is not None and self.test is None and not self.streaming
        self._check_has_effect(is_held_out, "without data.train, beside data.test or data.streaming", "test_size")

    def _check_has_effect(self, has_effect: bool, where: str, *names: str) -> None:
        for name in names:
            value = getattr(self, name)
            check(has_effect or value == getattr(DataConfig, name), f"data.{name}", f"none {where}", value)

    @property
    def window(self) -> int:
        """How many streamed examples are shuffled together."""
        # Not the default of the field, as that would change the hash of every recorded configuration, streamed or not.
        return 65_536 if self.buffer is None else self.buffer

    @property
    def columns(self) -> dict[str, Any]:
        """The columns that are given, as arguments of ``read_examples``.

        Example:
            >>> DataConfig(text_column="premise,hypothesis", label_column="gold").columns
            {'text_column': ['premise', 'hypothesis'], 'label_column': 'gold'}
            >>> DataConfig(text_column='"review, in full"').columns
            {'text_column': 'review, in full'}
        """
        texts, labels = _split_columns(self.text_column), _split_columns(self.label_column)
        columns = {"text_column": texts, "label_column": labels, "id_column": self.id_column}
        return {name: column for name, column in columns.items() if column is not None}


def _split_columns(columns: int | str | None) -> Any:
    """One column, or a list of several that are separated by commas; quotes keep a comma in a name."""
    if not isinstance(columns, str) or "," not in columns:
        return columns
    (names,) = csv.reader([columns], skipinitialspace=True)
    several = [int(name) if name.isdecimal() else name for name in map(str.strip, names)]
    return several if len(several) > 1 else several[0]


@dataclass(frozen=True)
class RunConfig(RunSettings):
    """One training run.

    Attributes:
        task: name of a task.
        encoder: name of an encoder (``structattn train`` takes several: ``ms_san,disan``), or ``module:function`` for
            one of your own, which takes the embedder and its options by keyword.
        data: the examples; tasks that generate their own need none.
        options: keyword arguments of the encoder's builder; structattn list encoders --options shows them.
        embedder: the source of word states, word vectors by default; see structattn list embedders.
        classifier: the layers above the encoder.
        decoder: the decoder, in place of the classifier, for tasks whose answer is a text.
        optimization: optimiser and schedule.
        init: folder of a run or model, of any task, whose encoder initialises this one.
        continued: folder of a run to continue on further data; typed --continue RUN.
        seed: random seed of parameters, dropout and order of examples.
        out: the run folder; ``runs/<task>/<encoder>/seed<k>-<time>`` if ``None``.
        folds: number of folds of cross-validation, all made from the training file.
        fold: train this fold only, counted from 1.
        device: ``cpu`` or ``cuda``; ``auto`` uses CUDA if available.
        mixed_precision: ``bf16`` or ``fp16`` computes products in 16 bits; ``fp16`` needs a GPU.
        report_to: tracker of losses, scores and configuration: ``tensorboard`` or ``wandb``.

    Raises:
        ConfigError: if a value is out of range, or two values contradict each other.

    Example:
        >>> config = RunConfig("trec", "ms_san", DataConfig("TREC.train.all"), options={"dim": 100})
        >>> RunConfig.from_dict(config.to_dict()) == config
        True
    """

    task: str
    encoder: str
    data: DataConfig = field(default_factory=DataConfig)
    options: dict[str, Option] = field(default_factory=dict)
    embedder: dict[str, Option] = field(default_factory=dict)
    classifier: ClassifierConfig = field(default_factory=ClassifierConfig)
    decoder: DecoderConfig = field(default_factory=DecoderConfig)
    optimization: OptimizationConfig = field(default_factory=OptimizationConfig)
    init: str | None = None
    continued: str | None = None
    out: str | None = None
    folds: int | None = None
    fold: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check(self.folds is None or self.folds >= 2, "folds", "at least 2", self.folds)
        if self.fold is not None:
            check(self.folds is not None, "folds", "a number, as fold is given", self.folds)
            check(1 <= self.fold <= (self.folds or 0), "fold", f"1 to {self.folds}", self.fold)
        if self.folds is not None and (self.data.dev is not None or self.data.has_test):
            options = "data.dev, data.test, data.test_size"
            raise ConfigError(f"folds: cross-validation makes its own dev and test parts; leave out {options}")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "RunConfig":
        """The inverse of ``to_dict``.

        Raises:
            ConfigError: for an unknown or missing key, or a value of the wrong type.
        """
        check_sections(values, list(_list_names(cls)), _make_unknown_error)
        parser = _parser()
        try:
            sections = parser.instantiate(parser.parse_object(dict(values)))
        except ArgumentError as error:
            raise ConfigError(explain(str(error))) from None
        return cls(**{item.name: sections[item.name] for item in dataclasses.fields(cls)})


def load_config(path: str | os.PathLike[str]) -> RunConfig:
    """Read a YAML file, such as the ``config.yaml`` of a run folder.

    Raises:
        ConfigError: if the file is missing or malformed; the message names the file and the key.
    """
    values = read_yaml(path)
    with naming(path):
        return RunConfig.from_dict(values)


def save_config(config: RunConfig, path: str | os.PathLike[str]) -> None:
    """Write the YAML file that ``load_config`` reads."""
    write_yaml(Path(path), config.to_dict())


@cache
def _parser() -> "jsonargparse.ArgumentParser":
    """The parser of a configuration's values; cached, as building it takes longer than using it."""
    import jsonargparse

    parser = jsonargparse.ArgumentParser(exit_on_error=False)
    parser.add_class_arguments(RunConfig, as_group=False)
    return parser


def _list_names(kind: type, section: str = "") -> Iterator[str]:
    """The option names of a configuration, dotted for those in sections."""
    hints = get_type_hints(kind)
    for name in inspect.signature(kind).parameters:
        hint = hints[name]
        if dataclasses.is_dataclass(hint):
            yield from _list_names(hint, f"{section}{name}.")  # type: ignore[arg-type]
        else:
            yield section + name


def _make_unknown_error(name: str) -> ConfigError:
    """An error that lists the known keys of the same section."""
    section = name.rpartition(".")[0]
    prefix = f"{section}." if section else ""
    inner = (key.removeprefix(prefix) for key in _list_names(RunConfig) if key.startswith(prefix))
    listed = ", ".join(dict.fromkeys(prefix + key.partition(".")[0] for key in inner))
    return ConfigError(f"unknown key {name!r}; known: {listed}")
