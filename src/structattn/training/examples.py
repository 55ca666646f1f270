"""The examples of a run: read from its files, split, and summarised in one line each."""

import dataclasses
import itertools
import os
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from structattn.data import Example
from structattn.data.data_summary import DataSummary, summarise
from structattn.data.formulas import GENERATORS
from structattn.data.model_config import (
    ADAPTER,
    check_backbone,
    model_folder,
    read_model_config,
    whole_model_folder,
)
from structattn.data.parses import with_parses
from structattn.data.readers.formats import all_files_of, check_format
from structattn.data.readers.python_objects import read_objects
from structattn.encoders.table import check_embedder, with_default_embedder
from structattn.errors import ConfigError, ParseError, naming, source_name
from structattn.files.text import Source, check_readable, is_pipe
from structattn.tasks import Task
from structattn.tasks.table import check_decoder, get_task, model_kind
from structattn.training.config import DataConfig, RunConfig
from structattn.training.streaming import check_streaming, streamed_examples

if TYPE_CHECKING:
    from typing_extensions import TypeIs


Data = Source | Iterable[Any]
"""A file, an open stream, or a collection that ``read_objects`` takes."""

FROM_PYTHON = "python:"
"""The prefix of the checksum that replaces a path, for examples that were not read from a file."""

# Splits are the same for every seed of a run, so that runs can be compared.
_SPLIT_SEED = 0


@dataclass(frozen=True)
class Split:
    """The examples of a run.

    Attributes:
        train: the training examples, phrases included.
        sentences: the training sentences without their phrases, which the vocabulary is made from.
        dev: the examples for choosing the best model.
        test: the examples the best model is evaluated on once; may be empty.
    """

    train: Sequence[Example]
    sentences: Sequence[Example]
    dev: Sequence[Example]
    test: Sequence[Example] = ()


def task_of(config: RunConfig, task: Task | None = None) -> Task:
    """The task of a run: the given one, or the one that its configuration names.

    Raises:
        ConfigError: for an unknown task or encoder, an unknown option of the encoder, or a section of the configuration
            that does not apply to the task; raised before any data are read.
    """
    task = get_task(config.task) if task is None else task
    kind = model_kind(task)
    sections = kind.sections
    if config.data.phrases is not None and "phrases" not in sections:
        raise ConfigError(f"data.phrases: task {task.name!r} is answered with {task.answer}, so phrases have no labels")
    if config.data.vectors is not None and "vectors" not in sections:
        raise ConfigError(f"data.vectors: task {task.name!r} learns its own vectors")
    if config.embedder and "vectors" not in sections:
        raise ConfigError(f"embedder: task {task.name!r} learns its own vectors")
    for name, given in (("classifier", config.classifier), ("decoder", config.decoder)):
        if name not in sections and given != type(given)():
            raise ConfigError(f"{name}: task {task.name!r} has none, as it is answered with {task.answer}")
    if kind.check_encoder is not None and ":" not in config.encoder:
        kind.check_encoder(config.encoder, config.options)
        if "vectors" in sections:
            check_embedder(with_default_embedder(config.encoder, config.embedder, config.options))
    if "decoder" in sections:
        check_decoder(config.decoder.name, config.decoder.options)
    longest = config.data.max_length or task.max_length
    return dataclasses.replace(task, max_length=longest, truncation=not config.data.refuse_longer)


def check_run(config: RunConfig, task: Task | None = None) -> Task:
    """The task of a run, once all names, options and files of its configuration have been checked.

    Nothing slow is imported, so that mistakes are reported at once.

    Raises:
        ConfigError: as ``task_of``; for an unknown format, or a folder ``config.init`` that this version cannot read.
        ParseError: for a missing, empty or unreadable file.
    """
    task, data = task_of(config, task), config.data
    check_format(data.format)
    if data.train is None:
        generator_of(config, task)
    for file in files_of_run(data):
        if not file.startswith(FROM_PYTHON):
            if is_pipe(file):
                raise ParseError(
                    "expected a file, as a run reads its data more than once, got a pipe or device", file=file
                )
            check_readable(file)
    for path in (data.train, data.dev, data.test):
        if path is not None and not path.startswith(FROM_PYTHON) and data.format is None:
            task.format_of(path)
    if config.init is not None:
        read_model_config(whole_model_folder(config.init), trust_code=True)
    if data.streaming:
        check_streaming(config, task)
    backbone, adapter = config.embedder.get("folder"), config.options.get("adapter")
    if isinstance(backbone, str):
        check_backbone(backbone)
    if isinstance(adapter, str):
        read_model_config(model_folder(adapter, layout=ADAPTER), layout=ADAPTER)
    return task


def read_split(config: RunConfig, task: Task, examples: Mapping[str, Sequence[Example]] | None = None) -> Split:
    """Read the files and split the examples.

    Args:
        config: configuration of the run.
        task: its task.
        examples: ``train``, ``dev`` and ``test`` from Python, in place of files.

    Raises:
        ParseError: with file and line, for a missing, empty or malformed file.
        ConfigError: if the data do not fit the task, or are too few to hold some out.
    """
    data = config.data
    if data.train is None:
        return _generated(config, task)

    def part(name: str, path: str) -> Iterable[Example]:
        """Examples truncated one by one, so that a long text is in memory whole only while it is read."""
        if not path.startswith(FROM_PYTHON):
            return map(task.limited, examples_of(task, path, data))
        if examples is None:
            raise ConfigError("the examples of this run came from a Python program: give a file (--data)")
        return map(task.limited, examples[name])

    streamed = streamed_examples(data, task) if data.streaming else None
    whole = [] if streamed is not None else list(itertools.islice(part("train", data.train), data.limit))
    if config.folds is not None:
        rest, test = _fold(whole, config.folds, config.fold or 1)
    else:
        rest, test = whole, [] if data.test is None else list(part("test", data.test))
    if data.dev is not None:
        train, dev = rest, list(part("dev", data.dev))
    else:
        train, dev = _held_out(rest, data.holdout)
    _check_labels(data, dev, test)
    if streamed is not None:
        return Split(streamed, streamed, dev, test)
    train = _sampled(train, config)
    learnt = _with_phrases(task, data, train)
    if task.answer == "label":
        with naming(name_of(data.train)):
            task.labels_of(learnt)
    return Split(learnt, train, dev, test)


def summaries_of(config: RunConfig, task: Task, split: Split) -> list[DataSummary]:
    """Summaries of what was read for a run: training, development and test data."""
    data = config.data
    found: list[DataSummary] = []
    known = task.classes
    parts = (("train", split.sentences, data.train), ("dev", split.dev, data.dev or data.train))
    for name, part, path in (*parts, ("test", split.test, data.test)):
        if not part or hasattr(part, "groups"):  # streamed
            continue
        if path is None or path.startswith(FROM_PYTHON):
            format = "generated" if path is None else "from Python"
        else:
            format = data.format or task.format_of(path)
        has_classes = task.answer == "label"
        found.append(summarise(part, name, format=format, known_labels=known, has_classes=has_classes))
        known = known or (tuple(found[0].labels) if has_classes and found[0].labels else None)
    return found


def examples_of(task: Task, source: Data, data: DataConfig, *, need_labels: bool = True) -> Iterator[Example]:
    """Stream the examples of a file or a collection, with trees from ``data.parses`` for sentences that have none.

    Args:
        task: their task.
        source: the file or collection.
        data: format, columns and parses; its training, dev and test files are not read.
        need_labels: whether an empty or unreadable label is an error.

    Raises:
        ParseError: for malformed data, with file and line, or the number of the row.
        ConfigError: if the examples do not fit the task.
    """
    if is_file(source):
        # Lines of text have no columns; the column names of the model's training data do not apply.
        columns = {} if data.format == "text" else data.columns
        found = task.read(source, format=data.format, columns=columns, need_labels=need_labels)
    else:
        target = "none" if not need_labels else "score" if task.is_regression else "class"
        objects = read_objects(source, **data.columns, target=target, num_texts=task.arity)
        found = task.prepare(objects, published=False)
    return with_parses(found, data.parses)


def labelled_examples(task: Task, source: Data, data: DataConfig) -> list[Example]:
    """The labelled examples of a file or a collection, for evaluation; long texts are truncated as the task says.

    Args:
        task: as for `examples_of`.
        source: likewise.
        data: likewise.

    Raises:
        ParseError: as `examples_of`.
        ConfigError: as `examples_of`; if an example has no label.
    """
    examples = [task.limited(example) for example in examples_of(task, source, data)]
    if unlabelled := _first_unlabelled(examples):
        raise ConfigError(f"{name_of(source)}: {unlabelled} has no label to compare with; predict needs none")
    return examples


def name_of(source: Data) -> str:
    """The path of a file; "the given data" for anything else, including what a run names by a checksum."""
    is_given = not is_file(source) or str(source).startswith(FROM_PYTHON)
    return "the given data" if is_given else source_name(source)


def is_file(source: Data) -> "TypeIs[Source]":
    """Whether this is a file or a stream rather than a collection."""
    return isinstance(source, str | os.PathLike) or hasattr(source, "read")


def files_of_run(data: DataConfig) -> list[str]:
    """Every file that a run reads its data from, with patterns expanded."""
    paths = (data.train, data.dev, data.test, data.parses, data.vectors)
    return [file for path in paths if path is not None for file in all_files_of(path)]


def generator_of(config: RunConfig, task: Task) -> str:
    """The name of the generator of the data, for a run without a training file.

    Raises:
        ConfigError: if the task's data are not generated, or the configuration needs files.
    """
    data = config.data
    if task.generated is None:
        raise ConfigError(f"data.train: task {task.name!r} needs a training file; see --data.train")
    if data.dev is not None or data.test is not None or config.folds is not None:
        raise ConfigError("data.train: expected a training file, as there is a dev or test file or cross-validation")
    return task.generated


def _first_unlabelled(examples: Iterable[Example]) -> str | None:
    """The first example without a label, as errors name it; ``None`` if there is none."""
    return next((example.described() for example in examples if example.label is None), None)


def _check_labels(data: DataConfig, dev: Sequence[Example], test: Sequence[Example]) -> None:
    """Refuse dev and test examples without a label; the error names the data that were given."""
    for name, path, measured in (("dev", data.dev, dev), ("test", data.test, test)):
        if unlabelled := _first_unlabelled(measured):
            which = f"{unlabelled} of the {'training' if path is None else name} data"
            purpose = "learn from" if path is None else "compare with"
            raise ConfigError(f"{name_of(path or data.train or '')}: {which} has no label to {purpose}")


def _generated(config: RunConfig, task: Task) -> Split:
    """Generated data; the same for every seed of a run, so that runs can be compared."""
    parts = GENERATORS.find(generator_of(config, task))(config.data.generated)
    train, dev, test = (list(task.prepare(part)) for part in parts)
    train = _sampled(train, config)
    return Split(train, train, dev, test)


def _sampled(examples: list[Example], config: RunConfig) -> list[Example]:
    """The first ``data.sample`` examples of a random order, which the seed decides, in the order of the data."""
    size = config.data.sample
    if size is None:
        return examples
    if size > len(examples):
        raise ConfigError(f"data.sample: expected at most the {len(examples)} training examples, got {size}")
    order = np.random.default_rng(config.seed).permutation(len(examples))
    return [examples[index] for index in sorted(order[:size].tolist())]


def _shuffled(number: int) -> list[int]:
    order: list[int] = np.random.default_rng(_SPLIT_SEED).permutation(number).tolist()
    return order


def _held_out(examples: Sequence[Example], share: float) -> tuple[list[Example], list[Example]]:
    number = max(1, round(len(examples) * share))
    if number >= len(examples):
        raise ConfigError(f"data.holdout: cannot hold out {number} of {len(examples)} examples; give data.dev")
    return _apart(examples, set(_shuffled(len(examples))[:number]))


def _fold(examples: Sequence[Example], folds: int, fold: int) -> tuple[list[Example], list[Example]]:
    if len(examples) < folds:
        raise ConfigError(f"folds: cannot make {folds} folds of {len(examples)} examples")
    return _apart(examples, set(_shuffled(len(examples))[fold - 1 :: folds]))


def _apart(examples: Sequence[Example], chosen: Container[int]) -> tuple[list[Example], list[Example]]:
    """The other examples, and those at the chosen positions."""
    return (
        [example for index, example in enumerate(examples) if index not in chosen],
        [example for index, example in enumerate(examples) if index in chosen],
    )


def _with_phrases(task: Task, data: DataConfig, sentences: Sequence[Example]) -> Sequence[Example]:
    """The phrases of the training sentences, without those of held-out sentences."""
    phrases = data.phrases or task.phrases
    if phrases == "none" or phrases == "nodes" or data.train is None:
        return sentences
    if data.train.startswith(FROM_PYTHON):
        raise ConfigError(f"data.phrases: {phrases!r} needs a training file; give the phrases as examples of their own")
    trees = {example.id for example in sentences}
    every = task.read(data.train, format=data.format, phrases=phrases, columns=data.columns)
    # The id of a phrase is its tree's id, a slash and a number; the id of a tree may begin with the name of its file.
    return [task.limited(one) for one in every if not trees.isdisjoint((one.id, one.id.rpartition("/")[0]))]
