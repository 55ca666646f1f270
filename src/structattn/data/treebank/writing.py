"""Examples to files: Parquet, its rows as JSON lines, CoNLL-U and brackets, chosen by the ending of the name."""

import dataclasses
import itertools
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import PurePath
from typing import TypeVar

from structattn.data.example import Example
from structattn.data.treebank.example_rows import write_rows
from structattn.data.treebank.parquet import write_parquet
from structattn.errors import ConfigError, MissingStructure, ParseError
from structattn.syntax.brackets import write_brackets
from structattn.syntax.conllu import write_conllu
from structattn.syntax.constituency_tree import ConstituencyTree
from structattn.syntax.sentence import Sentence

LOGGER = logging.getLogger("structattn.data")
_Item = TypeVar("_Item", Sentence, ConstituencyTree)
_Path = str | os.PathLike[str]
_Writer = Callable[[_Path, Iterable[Example]], int]
_ListItems = Callable[[Iterable[Example], Counter[str]], Iterator[_Item]]


def write_examples(path: str | os.PathLike[str], examples: Iterable[Example]) -> int:
    """Write examples in the format that the ending of the name gives; the file appears whole or not at all.

    ``.parquet`` and ``.jsonl`` keep every field. ``.conllu`` keeps sentences, dependency trees, ids and labels, and
    ``.mrg`` or ``.brackets`` phrase trees; whatever they cannot represent is logged. All but the first may end in
    ``.gz``.

    Args:
        path: the file.
        examples: the examples.

    Returns:
        The number of sentences.

    Raises:
        ConfigError: for any other ending.
        ParseError: if a word or label cannot be written in the format.
        MissingStructure: for brackets, if a sentence has no phrase tree.
        MissingExtra: if pyarrow, or the package of a remote file system, is not installed.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "kids.conllu"
        >>> write_examples(path, [Example("Kids wash.", "fine", id="a")])
        1
        >>> path.read_text().split("\\n")[:3]
        ['# text = Kids wash.', '# sent_id = a', '# label = fine']
    """
    writer = WRITERS[check_ending(path)]
    try:
        return writer(path, examples)
    except ParseError:
        raise
    except ValueError as error:
        if isinstance(error, MissingStructure):
            raise
        raise ParseError(str(error), file=path) from None


def check_ending(path: str | os.PathLike[str]) -> str:
    """The ending of a name, which gives the format; an unknown one is refused."""
    name = os.fspath(path)
    ending = PurePath(name.removesuffix(".gz")).suffix
    if ending not in WRITERS or (ending == ".parquet" and name.endswith(".gz")):
        raise ConfigError(f"{name}: expected a name that ends in {', '.join(WRITERS)}")
    return ending


def _list_sentences(examples: Iterable[Example], lost: Counter[str]) -> Iterator[Sentence]:
    """The sentences of examples with their ids; an id that only counts the examples is not written."""
    for number, example in enumerate(examples):
        lost["weights"] += example.weight != 1
        for part, sentence in enumerate(example.sentences, start=1):
            lost["phrase trees"] += sentence.constituency is not None
            lost["relations"] += bool(sentence.relations)
            is_pair, is_named = len(example.sentences) > 1, example.id not in ("", str(number))
            metadata = dict(sentence.metadata)
            # The id and label of the example replace those that a file once gave its sentence.
            if is_named or (is_pair and "sent_id" not in metadata):
                metadata["sent_id"] = f"{example.id or number}-{part}" if is_pair else example.id
            if example.label is not None:
                metadata["label"] = str(example.label)
            yield sentence if metadata == sentence.metadata else dataclasses.replace(sentence, metadata=metadata)


def _list_trees(examples: Iterable[Example], lost: Counter[str]) -> Iterator[ConstituencyTree]:
    for example in examples:
        lost["labels"] += example.label is not None
        for sentence in example.sentences:
            lost["dependency trees"] += sentence.dependency is not None
            if sentence.constituency is None:
                message = f"example {example.id!r} has no phrase tree to write as brackets"
                raise MissingStructure(message, structure="constituency")
            yield sentence.constituency


def _make_writer(write: Callable[[_Path, Iterable[_Item]], None], list_items: _ListItems[_Item]) -> _Writer:
    """A writer for a format that represents only a part of each example; whatever it cannot is logged."""

    def write_and_count(path: _Path, examples: Iterable[Example]) -> int:
        lost, count = Counter[str](), itertools.count()
        write(path, (item for item, _ in zip(list_items(examples, lost), count, strict=False)))
        losses = [f"{number:,} {name}" for name, number in lost.items() if number]
        if losses:
            LOGGER.warning("%s cannot represent %s; .parquet and .jsonl can", os.fspath(path), ", ".join(losses))
        return next(count)

    return write_and_count


WRITERS: Mapping[str, _Writer] = {
    ".parquet": write_parquet,
    ".jsonl": write_rows,
    ".conllu": _make_writer(write_conllu, _list_sentences),
    ".mrg": _make_writer(write_brackets, _list_trees),
    ".brackets": _make_writer(write_brackets, _list_trees),
}
