"""Parallel text: a sentence and its translation, as two line-aligned files or one table of two columns.

The translation is the label of the example.
"""

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from structattn.data.example import Example
from structattn.data.readers.fields import Place, sentence_of
from structattn.data.readers.formats import files_of
from structattn.data.readers.treebanks import read_bracketed, read_treebank
from structattn.errors import ParseError, shown
from structattn.files.text import Source, read_lines
from structattn.syntax import Sentence

_TREES: dict[str, Callable[[Path], Iterator[Example]]] = {
    ".conllu": read_treebank,
    ".conll": read_treebank,
    ".mrg": read_bracketed,
    ".ptb": read_bracketed,
}


def read_parallel(path: Source, *, tokenised: bool = False) -> Iterator[Example]:
    r"""Pairs of a sentence and its translation; gzip is transparent.

    Args:
        path: two files separated by a comma, ``train.de,train.en``, with the same number of lines; or one file or
            stream with lines ``sentence TAB translation``. The first of two files may contain trees: CoNLL-U
            (``.conllu``) or brackets (``.mrg``, ``.ptb``). Alone, such a file gives sentences without translations.
        tokenised: ``True`` if the words of the sentence are separated by spaces. The translation is kept as it is.

    Raises:
        ParseError: with file and line: for a missing file, files of different lengths, a side without text, or a line
            of more than two columns. A table may lack its second column; then there is no label.

    Example:
        >>> import pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (folder / "a.de").write_text("ein Hund\n"), (folder / "a.en").write_text("a dog\n")
        >>> [(e.sentences[0].words, e.label) for e in read_parallel(f"{folder / 'a.de'},{folder / 'a.en'}")]
        [(('ein', 'Hund'), 'a dog')]
    """
    if not isinstance(path, str | os.PathLike):
        yield from _table(path, tokenised)
        return
    files = files_of(path)
    if len(files) == 2:
        yield from _two_files(files[0], files[1], tokenised)
    elif _tree_reader(files[0]) is not None:
        for count, (_, sentence) in enumerate(_sentences(files[0], tokenised)):
            yield Example((sentence,), id=str(count))
    else:
        yield from _table(files[0], tokenised)


def _two_files(first: Path, second: Path, tokenised: bool) -> Iterator[Example]:
    count = 0
    lines = itertools.zip_longest(_sentences(first, tokenised), read_lines(second))
    for index, (left, right) in enumerate(lines):
        if left is None or right is None:
            short, long = (first, second) if left is None else (second, first)
            raise ParseError(f"expected as many sentences as {long} has, got {index}", file=short, line=index + 1)
        (place, sentence), (number, text) = left, right
        if not len(sentence) and not text.strip():
            continue
        if not text.strip():
            source = shown(" ".join(sentence.words), width=40)
            raise Place(second, number).error(f"expected a translation of {source}, got none")
        if not len(sentence):
            raise place.error(f"expected the sentence that {shown(text, width=40)} translates, got an empty line")
        yield Example((sentence,), text.strip(), id=str(count), line=number)
        count += 1


def _sentences(path: Path, tokenised: bool) -> Iterator[tuple[Place, Sentence]]:
    reader = _tree_reader(path)
    if reader is not None:
        for number, example in enumerate(reader(path), start=1):
            yield Place(path, number), example.sentences[0]
        return
    for number, line in read_lines(path):
        yield Place(path, number), sentence_of(line, tokenised=tokenised)


def _tree_reader(path: Path) -> Callable[[Path], Iterator[Example]] | None:
    return _TREES.get(Path(path.name.removesuffix(".gz")).suffix)


def _table(path: Source, tokenised: bool) -> Iterator[Example]:
    count = 0
    for number, line in read_lines(path):
        if not line.strip():
            continue
        place = Place(path, number)
        fields = line.split("\t")
        if len(fields) > 2:
            raise place.error(f"expected 'sentence TAB translation', got {len(fields)} columns")
        sentence = sentence_of(fields[0], tokenised=tokenised)
        if not len(sentence):
            raise place.error(f"expected a sentence before the tab, got {shown(line, width=40)}")
        if len(fields) == 2 and not fields[1].strip():
            raise place.error(f"expected a translation after the tab, got {shown(line, width=40)}")
        translation = fields[1].strip() if len(fields) == 2 else None
        yield Example((sentence,), translation, id=str(count), line=number)
        count += 1
