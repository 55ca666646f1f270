"""The inputs of prediction: examples with or without labels, and lines of plain text."""

import dataclasses
import itertools
import logging
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from structattn.data import Example
from structattn.data.data_summary import DataSummary, summarise
from structattn.data.readers.formats import describe_columns, list_files, match_files, read_examples, recognise_format
from structattn.errors import ParseError, source_name
from structattn.files.item_faults import collecting_faults
from structattn.files.text import Source, is_pipe, read_lines
from structattn.training.examples import Data, is_file, name_source, stream_examples
from structattn.training.run_config import DataConfig

if TYPE_CHECKING:
    from structattn.tasks import TaskModel

LOGGER = logging.getLogger("structattn.training")

_LOOKED_AT = 100  # lines that are read to tell labels from the first words of texts
_TREES = (".conllu", ".conll", ".mrg", ".ptb")  # suffixes of trees, which may be the first file of parallel text
_RECOGNISED = ("csv", "tsv", "json", "conllu", "documents", "parquet", "rows")  # that words and tags never look like


def read_inputs(model: "TaskModel", source: Data, data: DataConfig) -> tuple[str, Iterator[Example]]:
    """The examples that a model is to predict, with or without labels, and the name of their format.

    Labels of tables and JSON are not read; lines that are not clearly labelled, tagged or parsed are plain texts.
    """
    data = dataclasses.replace(data, label_column=None)
    name = "examples"
    if is_file(source):
        name = data.format or _recognise_input(model, source, data)
        data = dataclasses.replace(data, format=name)
    return name, stream_examples(model.task, source, data, need_labels=False)


def summarise_labelled(
    model: "TaskModel",
    examples: Iterable[Example],
    source: Data,
    *,
    format: str | None = None,
    columns: Mapping[str, Any] | None = None,
) -> DataSummary:
    """A summary of evaluation data; its warnings name labels and tags that the model does not know."""
    has_tags = model.task.answer == "tags"
    format = format or (model.task.recognise_format(source) if is_file(source) else "examples")
    if columns is not None and isinstance(source, str) and (guessed := describe_columns(source, format, columns)):
        format = f"{format}, {guessed}"
    return summarise(
        examples,
        name_source(source),
        format=format,
        known_labels=model.labels or None,
        has_tags=has_tags,
        has_spans="span_f1" in model.task.metrics,
        has_classes=bool(model.labels) and not has_tags,
        has_several=model.task.answer == "labels",
    )


def _recognise_input(model: "TaskModel", source: Source, data: DataConfig) -> str:
    """The format of a file or stream whose labels may be missing."""
    if not isinstance(source, str | os.PathLike) or is_pipe(source):
        return "text"
    task = model.task
    name = task.recognise_format(source)
    # A line of text looks like a label and words, or like words and a tag.
    if name == "columns" and _are_texts(model, source, name):
        return _recognise_untagged(source)
    if name == "labelled" and _are_texts(model, source, name):
        return "text"
    if name == "conllu":  # the only format for training, but any text can be tagged
        plain = _recognise_untagged(source)
        return name if plain == "documents" else plain
    if name == "parallel" and _are_sources(source):
        return "text"
    return "text" if name == "tsv" and task.arity == 2 and _are_pairs(source, data) else name


def _recognise_untagged(source: Source) -> str:
    """The format of a file without words and tags in columns: a recognised one, or else lines of text."""
    try:
        name = recognise_format(match_files(source)[0])
    except ParseError:
        return "text"
    return name if name in _RECOGNISED else "text"


def _are_texts(model: "TaskModel", source: Source, format: str) -> bool:
    """Whether the first lines of a file are plain texts rather than texts with labels or tags of the model."""
    answers = recognised = 0
    try:
        target = "labels" if format == "labelled" and model.task.answer == "labels" else None
        with collecting_faults() as faults:
            for example in itertools.islice(read_examples(source, format, target=target), _LOOKED_AT):
                words = str(example.label).split() if target is None else model.task.classes_in(example.label)
                answers += len(words)
                recognised += sum(_is_answer(model, word) for word in words)
        answers += len(faults)
    except ParseError:
        answers += 1
    if format == "columns":  # data may have tags that the model lacks, and a line of text rarely ends with a tag
        return 2 * recognised < answers
    # Each label that is read takes a word from a text.
    are_texts = 10 * recognised < 9 * answers
    if recognised and are_texts:
        LOGGER.warning(
            "%s: a label of the model begins %d of the first %d lines, so each line is read as a text; with "
            "--format labelled the first word of each line is its label",
            *(source_name(source), recognised, answers),
        )
    return are_texts


def _are_pairs(source: Source, data: DataConfig) -> bool:
    """Whether the first lines of a file are two texts each, and the first one is not a header."""
    file = match_files(source)[0]
    if Path(file).name.removesuffix(".gz").endswith(".tsv"):
        return False
    if any(line.count("\t") != 1 for _, line in itertools.islice(read_lines(file, escape=True), _LOOKED_AT)):
        return False
    try:
        with collecting_faults():
            next(read_examples(file, "tsv", target="none", **data.columns))
    except ParseError:
        return True
    return False


def _are_sources(source: Source) -> bool:
    """Whether a file has sentences without translations; each line is one, so that the translations stay aligned."""
    files = list_files(source)  # type: ignore[arg-type]  # a path
    if len(files) != 1 or Path(files[0].removesuffix(".gz")).suffix in _TREES:
        return False
    return not any("\t" in line for _, line in itertools.islice(read_lines(files[0], escape=True), _LOOKED_AT))


def _is_answer(model: "TaskModel", word: str) -> bool:
    """Whether a word can be a label or score in data of the model's task."""
    if not model.task.is_regression:
        return word in model.labels or word in model.task.relabel
    try:
        return math.isfinite(float(word))
    except ValueError:
        return False
