"""CoNLL-U: from a treebank file to sentences and back, byte for byte.

Whatever a ``Sentence`` has no field for (lemmas, features, ``1-2`` ranges of multiword tokens, ``7.1`` empty nodes) is
kept as rows. Format: https://universaldependencies.org/format.html
"""

import itertools
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from structattn.errors import ParseError, shown
from structattn.files.replacing import replace_text
from structattn.files.text import MAX_LINE, MAX_WORDS, Source, check_lines, is_blank, read_lines
from structattn.syntax.dependency_tree import DependencyTree, find_cycle
from structattn.syntax.sentence import Sentence

_STANDARD = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")
_GLOBAL = re.compile(r"# global\.columns = (.+)")
_ID, _FORM, _UPOS, _HEAD, _DEPREL = 0, 1, 3, 6, 7
_PLAIN = (_FORM, _UPOS, _HEAD, _DEPREL)
_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")
_RANGE = re.compile(r"([1-9][0-9]{0,8})-([1-9][0-9]{0,8})")
_EMPTY = re.compile(r"[0-9]{1,9}\.[1-9][0-9]{0,8}")
_Lines = list[tuple[int, str]]


def read_conllu(path: Source) -> Iterator[Sentence]:
    r"""Stream the sentences of a CoNLL-U file, gzip or plain.

    ``tags`` are the universal tags (column 4), ``metadata`` the comments ``# key = value`` (a comment without ``=``
    has an empty value). A sentence whose heads are all ``_`` has no dependency tree. Whatever else is in the file is
    kept, so that ``write_conllu`` writes the same bytes. CoNLL-U Plus, whose first line ``# global.columns = ...``
    names the columns, becomes CoNLL-U: what has no column there goes to MISC, as ``NAME=value``.

    Args:
        path: the file, or a stream.

    Yields:
        One sentence after the other.

    Raises:
        ParseError: with file and line, what came and what was expected: a wrong number of columns, an empty
            column, an id out of order, a bad range, a head that is not a number, out of range or part of a cycle, a
            comment inside a sentence, too many lines or characters in a sentence (``MAX_WORDS``, ``MAX_LINE``), bytes
            that are not UTF-8, a truncated gzip file.

    Example:
        >>> import tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "a.conllu"
        >>> kids = Sentence(["kids", "wash"], dependency=DependencyTree([2, 0]), metadata={"label": "good"})
        >>> write_conllu(path, [kids])
        >>> list(read_conllu(path)) == [kids]
        True
    """
    for block in read_blocks(path):
        yield block.parse()


class Block(NamedTuple):
    """The lines of one sentence, before they are checked."""

    lines: _Lines
    path: object
    columns: Sequence[str]
    #: What is wrong with it as a whole, of which only the first line is kept then.
    fault: ParseError | None = None

    @property
    def comments(self) -> list[str]:
        """The comments before the first word."""
        return [line for _, line in itertools.takewhile(lambda pair: pair[1].startswith("#"), self.lines)]

    @property
    def metadata(self) -> dict[str, str]:
        """The comments as the ``metadata`` of the sentence."""
        return _metadata(self.comments)

    def parse(self) -> Sentence:
        """The sentence; errors as for ``read_conllu``."""
        check_lines(self.path, *self.lines)
        if self.fault is not None:
            raise self.fault
        comments = self.comments
        lines = self.lines[len(comments) :]
        rows = _split(lines, self.path, self.columns)
        is_word = _check_ids(rows, [number for number, _ in lines], self.path)
        words = list(itertools.compress(rows, is_word))
        numbers = [number for number, _ in itertools.compress(lines, is_word)]
        plain = Sentence(
            [row[_FORM] for row in words],
            _unless_all_missing([row[_UPOS] for row in words]),
            _dependency(words, numbers, self.path),
            metadata=_metadata(comments),
        )
        # Rows and comments that the plain fields can restore are not kept: a sentence read equals the one written.
        return Sentence(
            plain.words,
            plain.tags,
            plain.dependency,
            metadata=plain.metadata,
            rows=() if _plain_rows(plain) == rows else rows,
            comments=() if _plain_comments(plain.metadata, len(plain)) == comments else comments,
        )


def read_blocks(path: Source) -> Iterator[Block]:
    """The sentences of a CoNLL-U file, to be parsed one by one, so that a malformed one can be left out."""
    block: _Lines = []
    size = 0
    columns: Sequence[str] = _STANDARD
    for number, line in itertools.chain(read_lines(path, escape=True), [(0, "")]):
        if number == 1 and (match := _GLOBAL.match(line)):
            columns = _check_columns(match[1].split(), path)
        elif line and size <= MAX_LINE:
            block.append((number, line))
            size += len(line)
            if len(block) > MAX_WORDS or size > MAX_LINE:
                limits = f"{MAX_WORDS:,} lines and {MAX_LINE:,} characters"
                fault = ParseError(f"expected sentences of at most {limits}", file=path, line=block[0][0])
                yield Block(block[:1], path, columns, fault)
                block, size = [], MAX_LINE + 1  # so that its other lines are passed over
        elif not line:
            if block:
                yield Block(block, path, columns)
            block, size = [], 0


def write_conllu(path: str | os.PathLike[str], sentences: Iterable[Sentence]) -> None:
    """Write sentences as CoNLL-U; the file appears whole or not at all.

    Args:
        path: the file; compressed when the name ends in ``.gz``.
        sentences: the sentences.

    Raises:
        ValueError: if a word, tag, label or metadata entry is empty or contains a tab or a line end.

    Example:
        >>> import tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "a.conllu"
        >>> write_conllu(path, [Sentence(["hush"], metadata={"sent_id": "7"})])
        >>> path.read_text().split("\\t")[:2]
        ['# sent_id = 7\\n1', 'hush']
    """
    with replace_text(path) as stream:
        for sentence in sentences:
            stream.write(format_conllu(sentence))


def _split(lines: _Lines, path: object, columns: Sequence[str]) -> list[tuple[str, ...]]:
    rows = []
    for number, line in lines:
        if line.startswith("#"):
            raise ParseError(f"expected comments before the first word, got {shown(line)}", file=path, line=number)
        row = tuple(line.split("\t"))
        if len(row) != len(columns):
            hint = f" in a line that only looks empty, {shown(line)}: leave it empty" if is_blank(line) else ""
            message = f"expected {len(columns)} tab-separated columns, got {len(row)}{hint}"
            raise ParseError(message, file=path, line=number)
        if "" in row:
            raise ParseError(
                f"expected '_' for no value, got an empty column {row.index('') + 1}", file=path, line=number
            )
        rows.append(row if columns is _STANDARD else _standardise(dict(zip(columns, row, strict=True))))
    return rows


def _check_columns(names: Sequence[str], path: object) -> Sequence[str]:
    """The columns of CoNLL-U Plus, which the first line of a file names."""
    if len(set(names)) < len(names) or not {"ID", "FORM"} <= set(names):
        message = f"expected different columns, ID and FORM among them, got {shown(' '.join(names))}"
        raise ParseError(message, file=path, line=1)
    return names


def _standardise(values: Mapping[str, str]) -> tuple[str, ...]:
    """A row of CoNLL-U Plus as one of CoNLL-U; its further columns are in MISC, as ``NAME=value``."""
    *row, misc = (values.get(name, "_") for name in _STANDARD)
    further = [f"{name}={value}" for name, value in values.items() if name not in _STANDARD and value not in ("_", "*")]
    return (*row, "|".join(part for part in (misc, *further) if part != "_" or not further))


def _check_ids(rows: Sequence[Sequence[str]], numbers: Sequence[int], path: object) -> list[bool]:
    """Whether each row is a word. Ids must be in order: words from 1, the empty nodes after word ``k`` from ``k.1``.

    A range such as ``1-2`` comes before its first word and does not overlap the range before it.
    """
    is_word = []
    word, empty, range_end, range_line = 0, 0, 0, 0
    for row, number in zip(rows, numbers, strict=True):
        kind, last = _kind_of_id(row[_ID])
        expected = {"word": f"{word + 1}", "range": f"{word + 1}-{last}", "empty": f"{word}.{empty + 1}"}[kind]
        if row[_ID] != expected:
            raise ParseError(f"expected the id {expected}, got {shown(row[_ID])}", file=path, line=number)
        if kind == "range":
            if word < range_end:
                message = f"expected no range before the one up to {range_end} is over, got {row[_ID]!r}"
                raise ParseError(message, file=path, line=number)
            range_end, range_line = last, number
        word, empty = (word + 1, 0) if kind == "word" else (word, empty + (kind == "empty"))
        is_word.append(kind == "word")
    if range_end > word:
        message = f"expected a range that ends by the last word {word}, got one up to {range_end}"
        raise ParseError(message, file=path, line=range_line)
    return is_word


def _kind_of_id(text: str) -> tuple[str, int]:
    """``word``, ``range`` or ``empty``, with the last number in the id; anything else counts as a word."""
    match = _RANGE.fullmatch(text)
    if match and int(match[1]) <= int(match[2]):
        return "range", int(match[2])
    return ("empty" if _EMPTY.fullmatch(text) else "word"), 0


def _dependency(words: Sequence[Sequence[str]], numbers: Sequence[int], path: object) -> DependencyTree | None:
    if all(row[_HEAD] == "_" for row in words):
        return None
    heads = []
    for row, number in zip(words, numbers, strict=True):
        head = int(row[_HEAD]) if _NUMBER.fullmatch(row[_HEAD]) else -1
        if not 0 <= head <= len(words):
            message = f"expected a head from 0 to {len(words)}, got {shown(row[_HEAD])}"
            raise ParseError(message, file=path, line=number)
        heads.append(head)
    cycle = find_cycle(heads)
    if cycle:
        way = " -> ".join(map(str, [*cycle[:10], *(["..."] if len(cycle) > 10 else []), cycle[0]]))
        message = f"expected heads that lead to the root, got the cycle {way}"
        raise ParseError(message, file=path, line=numbers[min(cycle) - 1])
    return DependencyTree(heads, _unless_all_missing([row[_DEPREL] for row in words]))


def _unless_all_missing(values: list[str]) -> list[str] | None:
    return None if all(value == "_" for value in values) else values


def _metadata(comments: Iterable[str]) -> dict[str, str]:
    metadata = {}
    for comment in comments:
        key, _, value = comment[1:].partition("=")
        if key.strip():
            metadata[key.strip()] = value.strip()
    return metadata


def format_conllu(sentence: Sentence) -> str:
    """The lines of one sentence, including the empty line that ends it.

    Args:
        sentence: the sentence.

    Raises:
        ValueError: if a word, tag, label or metadata entry is empty or contains a tab or a line end.

    Example:
        >>> format_conllu(Sentence(["hush"])).split("\\t")[:2]
        ['1', 'hush']
    """
    comments = _current_comments(sentence) or _plain_comments({}, len(sentence))
    rows = conllu_rows(sentence)
    for text in (column for row in rows for column in row):
        if not text or "\t" in text or "\n" in text:
            message = f"a word, tag or label in CoNLL-U must not be empty or have a tab or line end in it, got {text!r}"
            raise ValueError(f"{message} in the sentence that starts {' '.join(sentence.words[:5])!r}")
    return "".join(f"{line}\n" for line in (*comments, *map("\t".join, rows))) + "\n"


def _current_comments(sentence: Sentence) -> list[str]:
    """The comments as they were read, except where ``metadata`` now says otherwise."""
    read = _metadata(sentence.comments)
    new = {key: _comment(key, value) for key, value in sentence.metadata.items() if read.get(key) != value}
    comments = []
    for comment in sentence.comments:
        key = "".join(_metadata([comment]))
        if key in new and new[key] not in comments:
            comments.append(new[key])
        elif not key or (key in sentence.metadata and key not in new):
            comments.append(comment)
    return comments + [comment for key, comment in new.items() if key not in read]


def conllu_rows(sentence: Sentence) -> list[tuple[str, ...]]:
    """The ten columns of every line: as they were read, but with the current words, tags, heads and labels."""
    plain = _plain_rows(sentence)
    if not sentence.rows:
        return plain
    rows = []
    words = iter(plain)
    for row in sentence.rows:
        if "-" in row[_ID] or "." in row[_ID]:
            rows.append(row)
        else:
            word = next(words)
            rows.append(tuple(new if k in _PLAIN else old for k, (old, new) in enumerate(zip(row, word, strict=True))))
    return rows


def _plain_comments(metadata: Mapping[str, str], num_words: int) -> list[str]:
    # A sentence without any line would disappear from the file, so one without words has at least a bare comment.
    return [_comment(key, value) for key, value in metadata.items()] or ([] if num_words else ["#"])


def _comment(key: str, value: str) -> str:
    text = f"# {key} = {value}" if value else f"# {key}"
    if _metadata([text]) != {key: value} or "\n" in text:
        raise ValueError(
            f"metadata in CoNLL-U must have no line end, no space at either end and no '=' in its key, "
            f"got {key!r}: {value!r}"
        )
    return text


def _plain_rows(sentence: Sentence) -> list[tuple[str, ...]]:
    missing = ["_"] * len(sentence)
    tree = sentence.dependency
    columns = (
        [str(index) for index in range(1, len(sentence) + 1)],
        sentence.words,
        missing,
        sentence.tags or missing,
        missing,
        missing,
        missing if tree is None else [str(head) for head in tree.heads],
        missing if tree is None else tree.labels or missing,
        missing,
        missing,
    )
    return list(zip(*columns, strict=True))
