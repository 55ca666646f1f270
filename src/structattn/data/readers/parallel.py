"""Parallel text: a sentence and its translation, as two line-aligned files or one table of two columns.

The translation is the label of the example.
"""

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from structattn.data.example import Example
from structattn.data.readers.fields import Location, make_sentence
from structattn.data.readers.formats import split_paths
from structattn.data.readers.treebanks import read_bracketed, read_treebank
from structattn.errors import ParseError, shown
from structattn.files.text import Source, read_lines
from structattn.syntax.sentence import Sentence

_TREES: dict[str, Callable[[Path], Iterator[Example]]] = {
    ".conllu": read_treebank,
    ".conll": read_treebank,
    ".mrg": read_bracketed,
    ".ptb": read_bracketed,
}


def read_parallel(path: Source, *, tokenised: bool = False) -> Iterator[Example]:
    """Pairs of a sentence and its translation: two files separated by a comma, or lines ``sentence TAB translation``.

    The first of two files may contain trees; alone, such a file gives sentences without translations.
    """
    if not isinstance(path, str | os.PathLike):
        yield from _read_lines(path, tokenised)
        return
    files = split_paths(path)
    if len(files) == 2:
        yield from _read_pair(files[0], files[1], tokenised)
    elif _find_tree_reader(files[0]) is not None:
        for count, (_, sentence) in enumerate(_read_sentences(files[0], tokenised)):
            yield Example((sentence,), id=str(count))
    else:
        yield from _read_lines(files[0], tokenised)


def _read_pair(first: Path, second: Path, tokenised: bool) -> Iterator[Example]:
    count = 0
    lines = itertools.zip_longest(_read_sentences(first, tokenised), read_lines(second))
    for index, (left, right) in enumerate(lines):
        if left is None or right is None:
            short, long = (first, second) if left is None else (second, first)
            raise ParseError(f"expected as many sentences as {long} has, got {index}", file=short, line=index + 1)
        (location, sentence), (number, text) = left, right
        if not len(sentence) and not text.strip():
            continue
        if not text.strip():
            source = shown(" ".join(sentence.words), width=40)
            raise Location(second, number).error(f"expected a translation of {source}, got none")
        if not len(sentence):
            raise location.error(f"expected the sentence that {shown(text, width=40)} translates, got an empty line")
        yield Example((sentence,), text.strip(), id=str(count), line=number)
        count += 1


def _read_sentences(path: Path, tokenised: bool) -> Iterator[tuple[Location, Sentence]]:
    reader = _find_tree_reader(path)
    if reader is not None:
        for number, example in enumerate(reader(path), start=1):
            yield Location(path, number), example.sentences[0]
        return
    for number, line in read_lines(path):
        yield Location(path, number), make_sentence(line, tokenised=tokenised)


def _find_tree_reader(path: Path) -> Callable[[Path], Iterator[Example]] | None:
    return _TREES.get(Path(path.name.removesuffix(".gz")).suffix)


def _read_lines(path: Source, tokenised: bool) -> Iterator[Example]:
    count = 0
    for number, line in read_lines(path):
        if not line.strip():
            continue
        location = Location(path, number)
        fields = line.split("\t")
        if len(fields) > 2:
            raise location.error(f"expected 'sentence TAB translation', got {len(fields)} columns")
        sentence = make_sentence(fields[0], tokenised=tokenised)
        if not len(sentence):
            raise location.error(f"expected a sentence before the tab, got {shown(line, width=40)}")
        if len(fields) == 2 and not fields[1].strip():
            raise location.error(f"expected a translation after the tab, got {shown(line, width=40)}")
        translation = fields[1].strip() if len(fields) == 2 else None
        yield Example((sentence,), translation, id=str(count), line=number)
        count += 1
