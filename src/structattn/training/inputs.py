"""What a model is to predict: examples with labels or without, and lines that are nothing but texts."""

import dataclasses
import itertools
import math
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from structattn.data import Example
from structattn.data.readers.reading import read_examples
from structattn.syntax.errors import ParseError
from structattn.syntax.files import Source, is_pipe
from structattn.training.config import DataConfig
from structattn.training.examples import Data, examples_of, is_file

if TYPE_CHECKING:
    from structattn.tasks import TaskModel

_LOOKED_AT = 100  # lines that tell labels from the first words of texts


def inputs_of(model: "TaskModel", source: Data, data: DataConfig) -> tuple[str, Iterator[Example]]:
    """What a model is to predict, labels or not: the name of its format, and the examples.

    What comes from a stream or a pipe is one text a line, and so are lines of which none has a label of the model where
    labels or tags stand, unless the format says otherwise.

    Args:
        model: a model of a task.
        source: as for `examples_of`.
        data: likewise.

    Raises:
        ParseError: as `examples_of`.
        ConfigError: as `examples_of`.
    """
    task = model.task
    data = dataclasses.replace(data, label_column=None)
    if not is_file(source):
        return "examples", examples_of(task, source, data)
    if data.format is None and (not isinstance(source, str | os.PathLike) or is_pipe(source)):
        data = dataclasses.replace(data, format="text")
    name = data.format or task.format_of(source)
    # A line of text looks like a label and words, or like words and a tag.
    is_open = name == "columns" or (name == "labelled" and task.format is None)
    if data.format is None and is_open and _are_texts(model, source, name):
        name = "text"
        data = dataclasses.replace(data, format=name)
    return name, examples_of(task, source, data)


def _are_texts(model: "TaskModel", source: Source, format: str) -> bool:
    """Whether the first lines of a file have no label of the model where the format has labels."""
    examples = itertools.islice(read_examples(source, format), _LOOKED_AT)
    try:
        return not any(_is_answer(model, word) for example in examples for word in str(example.label).split())
    except ParseError:
        return True


def _is_answer(model: "TaskModel", word: str) -> bool:
    """Whether a word is one that data of the model's task have as label or score."""
    if not model.task.is_regression:
        return word in model.labels or word in model.task.relabel
    try:
        return math.isfinite(float(word))
    except ValueError:
        return False
