"""What a model is to predict: examples with labels or without, and lines that are nothing but texts."""

import dataclasses
import itertools
import logging
import math
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from structattn.data import Example
from structattn.data.readers.reading import all_files_of, matching_files, read_examples, recognise_format
from structattn.data.summary import DataSummary, summarise
from structattn.syntax.errors import ParseError, source_name
from structattn.syntax.files import Source, is_pipe, read_lines
from structattn.training.config import DataConfig
from structattn.training.examples import Data, examples_of, is_file, name_of

if TYPE_CHECKING:
    from structattn.tasks import TaskModel

LOGGER = logging.getLogger("structattn.training")

_LOOKED_AT = 100  # lines that tell labels from the first words of texts
_TREES = (".conllu", ".conll", ".mrg", ".ptb")  # endings of files that parallel text may begin with
_RECOGNISED = ("csv", "tsv", "json", "conllu", "documents", "parquet", "rows")  # that no words and tags look like


def inputs_of(model: "TaskModel", source: Data, data: DataConfig) -> tuple[str, Iterator[Example]]:
    """What a model is to predict, labels or not: the name of its format, and the examples.

    What comes from a stream or a pipe is one text per line, and so are lines of which fewer than nine in ten have a
    label of the model where labels stand, or fewer than half a tag of it where tags stand, or that are no treebank,
    unless the format says otherwise. For tasks on pairs, two fields with a tab between and no header are two texts, and
    for translation lines without a tab are texts, blank ones too. Labels of tables and JSON are not read.

    Args:
        model: a model of a task.
        source: as for `examples_of`.
        data: likewise.

    Raises:
        ParseError: as `examples_of`.
        ConfigError: as `examples_of`.
    """
    data = dataclasses.replace(data, label_column=None)
    name = "examples"
    if is_file(source):
        name = data.format or _format_of(model, source, data)
        data = dataclasses.replace(data, format=name)
    return name, examples_of(model.task, source, data, need_labels=False)


def summary_of(
    model: "TaskModel", examples: Iterable[Example], source: Data, *, format: str | None = None
) -> DataSummary:
    """What a model is to be measured by; a warning names labels and tags that it does not know.

    Args:
        model: a model of a task.
        examples: what was read.
        source: where they are from.
        format: the format they were read in; that which the task takes for this source if ``None``.
    """
    answer = model.task.answer
    known = {"known_labels": model.labels or None, "has_tags": answer == "tags"}
    format = format or (model.task.format_of(source) if is_file(source) else "examples")
    return summarise(examples, name_of(source), format=format, has_classes=answer in ("label", "facts"), **known)


def _format_of(model: "TaskModel", source: Source, data: DataConfig) -> str:
    """The format of a file or stream whose labels may be missing."""
    if not isinstance(source, str | os.PathLike) or is_pipe(source):
        return "text"
    task = model.task
    name = task.format_of(source)
    # A line of text looks like a label and words, or like words and a tag.
    if name == "columns" and _are_texts(model, source, name):
        return _other_format(source)
    if name == "labelled" and _are_texts(model, source, name):
        return "text"
    if name == "conllu":  # the only format to learn from, but any texts can be given tags
        other = _other_format(source)
        return name if other == "documents" else other
    if name == "parallel" and _are_sources(source):
        return "text"
    return "text" if name == "tsv" and task.arity == 2 and _are_pairs(source, data) else name


def _other_format(source: Source) -> str:
    """The format of a file without words and tags in columns: a recognised one, or else lines of text."""
    try:
        name = recognise_format(matching_files(source)[0])
    except ParseError:
        return "text"
    return name if name in _RECOGNISED else "text"


def _are_texts(model: "TaskModel", source: Source, format: str) -> bool:
    """Whether the first lines of a file are texts rather than labels or tags of the model with texts.

    Labels have to stand on nearly all lines, as each would take a word from a text; a warning says if they stand on
    some. Most tags have to be the model's: data may have others too, and a line of text hardly ends with one.
    """
    answers = known = 0
    try:
        for example in itertools.islice(read_examples(source, format), _LOOKED_AT):
            words = str(example.label).split()
            answers += len(words)
            known += sum(_is_answer(model, word) for word in words)
    except ParseError:
        answers += 1
    if format == "columns":
        return 2 * known < answers
    are_texts = 10 * known < 9 * answers
    if known and are_texts:
        LOGGER.warning(
            "warning: %s: a label of the model begins %d of the first %d lines, so each line is read as a text; with "
            "--format labelled the first word of each line is its label",
            *(source_name(source), known, answers),
        )
    return are_texts


def _are_pairs(source: Source, data: DataConfig) -> bool:
    """Whether the first lines of a file are two texts each, and the first one has no names of columns."""
    file = matching_files(source)[0]
    if Path(file).name.removesuffix(".gz").endswith(".tsv"):
        return False
    if any(line.count("\t") != 1 for _, line in itertools.islice(read_lines(file), _LOOKED_AT)):
        return False
    try:
        next(read_examples(file, "tsv", target="none", **data.columns))
    except ParseError:
        return True
    return False


def _are_sources(source: Source) -> bool:
    """Whether a file has sentences without translations: each line is one, so that the translations are aligned."""
    files = all_files_of(source)  # type: ignore[arg-type]  # a path
    if len(files) != 1 or Path(files[0].removesuffix(".gz")).suffix in _TREES:
        return False
    return not any("\t" in line for _, line in itertools.islice(read_lines(files[0]), _LOOKED_AT))


def _is_answer(model: "TaskModel", word: str) -> bool:
    """Whether a word is one that data of the model's task have as label or score."""
    if not model.task.is_regression:
        return word in model.labels or word in model.task.relabel
    try:
        return math.isfinite(float(word))
    except ValueError:
        return False
