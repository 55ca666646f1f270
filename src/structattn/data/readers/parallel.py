"""Parallel text: a sentence and its translation, as two line-aligned files or one table of two columns.

The translation is the label of the example.
"""

import functools
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from structattn.data.example import Example
from structattn.data.readers.fields import Location, make_sentence
from structattn.data.readers.formats import split_paths
from structattn.data.readers.treebanks import make_bracketed, read_bracketed
from structattn.errors import ParseError, shown
from structattn.files.item_faults import answer_each
from structattn.files.text import Source, check_lines, read_lines
from structattn.syntax.brackets import read_trees
from structattn.syntax.conllu import read_blocks
from structattn.syntax.sentence import Sentence

_DEPENDENCIES, _BRACKETS = (".conllu", ".conll"), (".mrg", ".ptb")
_Unread = tuple[Location, Callable[[], Sentence]]
"""Where a sentence is, and what reads it."""


def read_parallel(path: Source, *, tokenised: bool = False) -> Iterator[Example]:
    """Pairs of a sentence and its translation: two files separated by a comma, or lines ``sentence TAB translation``.

    The first of two files may contain trees; alone, such a file gives sentences without translations.
    """
    if not isinstance(path, str | os.PathLike):
        return _read_lines(path, tokenised)
    files = split_paths(path)
    if len(files) == 2:
        return _read_pair(files[0], files[1], tokenised)
    ending = _ending(files[0])
    if ending in _DEPENDENCIES:
        blocks = enumerate(read_blocks(files[0]))
        return answer_each(lambda item: Example((item[1].parse(),), id=str(item[0])), blocks)
    return read_bracketed(files[0]) if ending in _BRACKETS else _read_lines(files[0], tokenised)


def _read_pair(first: Path, second: Path, tokenised: bool) -> Iterator[Example]:
    num_empty = 0

    def make_examples(item: tuple[int, _Unread, tuple[int, str]]) -> list[Example]:
        nonlocal num_empty
        index, (location, read), (number, text) = item
        check_lines(second, (number, text))
        sentence = read()
        if not len(sentence) and not text.strip():
            num_empty += 1
            return []
        if not text.strip():
            source = shown(" ".join(sentence.words), width=40)
            raise Location(second, number).error(f"expected a translation of {source}, got none")
        if not len(sentence):
            raise location.error(f"expected the sentence that {shown(text, width=40)} translates, got an empty line")
        return [Example((sentence,), text.strip(), id=str(index - num_empty), line=number)]

    return itertools.chain.from_iterable(answer_each(make_examples, _align(first, second, tokenised)))


def _align(first: Path, second: Path, tokenised: bool) -> Iterator[tuple[int, _Unread, tuple[int, str]]]:
    pairs = itertools.zip_longest(_read_sentences(first, tokenised), read_lines(second, escape=True))
    for index, (left, right) in enumerate(pairs):
        if left is None or right is None:
            short, long = (first, second) if left is None else (second, first)
            raise ParseError(f"expected as many sentences as {long} has, got {index}", file=short, line=index + 1)
        yield index, left, right


def _read_sentences(path: Path, tokenised: bool) -> Iterator[_Unread]:
    """The sentences of a file, all of them: the next translation is that of the next sentence."""
    ending = _ending(path)
    if ending in _DEPENDENCIES:
        for block in read_blocks(path):
            yield Location(path, block.lines[0][0]), block.parse
    elif ending in _BRACKETS:
        for tree in read_trees(path):
            yield Location(path, tree.line), functools.partial(make_bracketed, tree)
    else:

        def make(pair: tuple[int, str]) -> Sentence:
            check_lines(path, pair)
            return make_sentence(pair[1], tokenised=tokenised)

        for number, line in read_lines(path, escape=True):
            yield Location(path, number), functools.partial(make, (number, line))


def _ending(path: Path) -> str:
    return Path(path.name.removesuffix(".gz")).suffix


def _read_lines(path: Source, tokenised: bool) -> Iterator[Example]:
    def make_example(item: tuple[int, tuple[int, str]]) -> Example:
        count, (number, line) = item
        check_lines(path, item[1])
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
        return Example((sentence,), translation, id=str(count), line=number)

    filled = (row for row in read_lines(path, escape=True) if row[1].strip())
    return answer_each(make_example, enumerate(filled))
