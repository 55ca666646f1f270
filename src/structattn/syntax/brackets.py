r"""Penn-style brackets, including the labelled trees of SST: text to trees and back, and files of them.

The conventions (Marcus et al. 1993; Bies et al. 1995):

- brackets inside words and tags are written ``-LRB-``, ``-RRB-``, ``-LCB-`` and so on, and ``/`` and ``*`` inside
  words as ``\/`` and ``\*``; words are unescaped on reading and escaped on writing, traces are left as they are;
- the outermost bracket may be empty, ``( (S ...))``; the label of an inner bracket may be empty too;
- a word without a preterminal is written bare, ``(NP the cat)``, and where that would make it a preterminal of its
  phrase it is written with the tag ``_``: ``(NP (_ cat))``;
- only ASCII spaces, tabs and line ends are separators; a tree may span several lines, and a line may contain several
  trees;
- ``()`` is the tree without words.
"""

import os
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from structattn.errors import ParseError, shown
from structattn.files.replacing import replace_text
from structattn.files.text import MAX_BRACKETS, MAX_LINE, MAX_WORDS, Source, check_lines, read_lines
from structattn.syntax.constituency_tree import ConstituencyTree

Parsed = tuple[list[str], list[str | None], list[tuple[str, int, int]]]
"""Words, tags and spans of one tree."""

# A bracket around one word, with its tag and the word, or else a bracket or a token alone.
_TOKEN = re.compile(r"\(([^() \t\r\n]+)[ \t]+([^() \t\r\n]+)\)|([()]|[^() \t\r\n]+)")
_ESCAPES = {"(": "-LRB-", ")": "-RRB-", "[": "-LSB-", "]": "-RSB-", "{": "-LCB-", "}": "-RCB-"}
_BRACKETS = {escape: bracket for bracket, escape in _ESCAPES.items()}
_ESCAPED = re.compile(r"-[LR][RSC]B-|\\[/*]", re.IGNORECASE)
_UNESCAPED = re.compile(r"[][(){}/*]")
_NO_TAG = "_"


def read_brackets(path: Source) -> Iterator[ConstituencyTree]:
    """Stream the trees of a file of brackets, gzip or plain.

    Traces and function tags are kept; ``without_empty_leaves`` and ``without_function_tags`` remove them.

    Args:
        path: the file, or a stream.

    Yields:
        One tree after the other.

    Raises:
        ParseError: with the file and the line, if a bracket is missing or too many, a phrase has no words, a word is
            outside every bracket, or a tree has too many words, brackets or characters (``MAX_WORDS``,
            ``MAX_BRACKETS``, ``MAX_LINE``).

    Example:
        >>> import tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "trees.txt"
        >>> _ = path.write_text("(S (UH oh))\\n( (NP (DT the)\\n (NN cat)))\\n")
        >>> [tree.words for tree in read_brackets(path)]
        [('oh',), ('the', 'cat')]
    """
    for tree in read_trees(path):
        yield tree.parse()


class TreeLines(NamedTuple):
    """One tree of a file: the line where it starts, and what it consists of, or what is wrong with it."""

    line: int
    content: Parsed | ParseError

    def parse(self) -> ConstituencyTree:
        """The tree; errors as for ``read_brackets``."""
        if isinstance(self.content, ParseError):
            raise self.content
        words, tags, spans = self.content
        return ConstituencyTree(words, spans, tags=tags)


def read_trees(path: Source) -> Iterator[TreeLines]:
    """The trees of a file, of which a malformed one can be left out.

    From then on, a tree starts at each line that begins with a bracket; an error if one before had such a line within.
    """
    lines, again, taken = read_lines(path, escape=True), deque[tuple[int, str]](), list[tuple[int, str]]()
    trees, is_lost, has_inner = _Trees(path), False, False

    def next_line() -> tuple[int, str] | None:
        return again.popleft() if again else next(lines, None)

    while True:
        pair = next_line()
        try:
            if pair is None:
                trees.end("the end of the text")
                return
            if not trees.is_open:
                taken.clear()
            taken.append(pair)
            if is_lost and trees.is_open and pair[1].startswith("("):
                trees.end("the next one")
            check_lines(path, pair)
            for tree in trees.add_line(*pair):
                has_inner = has_inner or any(line.startswith("(") for _, line in taken[1:])
                yield TreeLines(taken[0][0], tree)
                del taken[:-1]
        except ParseError as error:
            if has_inner:
                raise
            yield TreeLines(taken[0][0], error)
            trees, is_lost = _Trees(path), True
            again.extendleft(reversed(taken[1:]))
            while (pair := next_line()) is not None and not pair[1].startswith("("):
                pass
            again.extendleft([pair] if pair is not None else [])


def write_brackets(path: str | os.PathLike[str], trees: Iterable[ConstituencyTree]) -> None:
    """Write trees to a file, one per line; the file appears whole or not at all.

    Args:
        path: the file; compressed when the name ends in ``.gz``.
        trees: the trees.

    Raises:
        ValueError: if a word, tag or label is empty or contains a space.

    Example:
        >>> import tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "trees.txt"
        >>> write_brackets(path, [ConstituencyTree(["a", "dog"], [("NP", 0, 2)])])
        >>> path.read_text()
        '(NP a dog)\\n'
    """
    with replace_text(path) as stream:
        for tree in trees:
            stream.write(tree.to_brackets() + "\n")


def parse_tree(text: str) -> Parsed:
    """Read exactly one tree; a ``ParseError`` gives the line in the text."""
    trees = list(parse_trees(enumerate(text.split("\n"), start=1)))
    if len(trees) != 1:
        raise ParseError(f"expected one tree in brackets, got {len(trees)}")
    return trees[0]


def parse_trees(lines: Iterable[tuple[int, str]], *, file: object = None) -> Iterator[Parsed]:
    """Stream the trees in numbered lines of text; errors name the file that the lines come from."""
    trees = _Trees(file)
    for number, line in lines:
        yield from trees.add_line(number, line)
    trees.end("the end of the text")


class _Trees:
    """Trees that are read line by line."""

    def __init__(self, file: object) -> None:
        self.file = file
        self.tree = _Builder(file)

    @property
    def is_open(self) -> bool:
        """Whether a tree has begun and not ended."""
        return bool(self.tree.stack)

    def add_line(self, number: int, line: str) -> Iterator[Parsed]:
        """The trees that end in the next line."""
        tree = self.tree
        for tag, word, token in _tokens(line):
            if token == "(":
                tree.open_bracket(number)
                continue
            if word:
                tree.add_tagged(tag, word, number)
            elif not tree.stack:
                raise ParseError(f"expected '(' to start a tree, got {shown(token)}", file=self.file, line=number)
            elif token == ")":
                tree.close_bracket(number)
            else:
                tree.add_token(token)
            if not tree.stack:
                yield tree.finish()
                tree = self.tree = _Builder(self.file)

    def end(self, follows: str) -> None:
        """Refuse a tree that has not ended before what follows."""
        if self.is_open:
            stack = self.tree.stack
            message = f"expected {len(stack)} more ')' for the tree that starts here, got {follows}"
            raise ParseError(message, file=self.file, line=stack[0].line)


def _tokens(line: str) -> Iterable[Sequence[str]]:
    # A list is faster; for a very long line it would need ten times the line's memory.
    return _TOKEN.findall(line) if len(line) < 1 << 16 else (match.groups("") for match in _TOKEN.finditer(line))


def format_tree(words: Sequence[str], tags: Sequence[str | None], spans: Sequence[tuple[str, int, int]]) -> str:
    """Write one tree, with its spans in the order of a ``ConstituencyTree``, on one line."""
    starting: list[list[tuple[str, int]]] = [[] for _ in words]
    for label, start, end in spans:
        starting[start].append((label, end))
    # Anything but a single bracket with a label is put into an empty outermost bracket, which reading removes again.
    is_single = len(words) == 1 if not spans else spans[0][1:] == (0, len(words)) and spans[0][0] != ""
    pieces: list[str] = []
    ends: list[int] = []
    for position, word in enumerate(words):
        opened = ""
        for label, end in starting[position]:
            pieces.append(f"{' ' if pieces else ''}({_escape_brackets(_checked(label, 'label')) if label else ''}")
            ends.append(end)
            opened = label
        tag = tags[position]
        # A bare word may not come where a label would be expected, nor be the only thing in its phrase.
        first = bool(starting[position])
        alone = first and ends[-1] == position + 1
        if tag is None and ends and not alone and not (first and opened == ""):
            pieces.append(f" {_escape(word)}")
        else:
            written = _escape(word) if tag != "-NONE-" else _checked(word, "word")
            name = _NO_TAG if tag is None else _escape_brackets(_checked(tag, "tag"))
            pieces.append(f"{' ' if pieces else ''}({name} {written})")
        while ends and ends[-1] == position + 1:
            ends.pop()
            pieces.append(")")
    text = "".join(pieces)
    return text if is_single else f"( {text})" if text else "()"


@dataclass(slots=True)
class _Open:
    """A bracket that is not closed yet: its first word, its index among the spans, and what has been read of it."""

    start: int
    span: int
    line: int
    label: str | None = None
    has_word: bool = False


class _Builder:
    """One tree while it is read, with a stack of open brackets in place of recursion."""

    def __init__(self, file: object) -> None:
        self.file = file
        self.words: list[str] = []
        self.tags: list[str | None] = []
        self.spans: list[tuple[str, int, int]] = []
        self.stack: list[_Open] = []
        self.num_brackets = 0
        self.num_characters = 0

    def open_bracket(self, line: int) -> None:
        if self.stack and self.stack[-1].label is None:
            self.stack[-1].label = ""
        self.num_brackets += 1
        if self.num_brackets > MAX_BRACKETS:
            raise self._too_large(line)
        self.stack.append(_Open(len(self.words), len(self.spans), line))
        self.spans.append(("", 0, 0))  # before the phrases inside it, until its end has been read

    def add_tagged(self, tag: str, word: str, line: int) -> None:
        """Add a whole bracket around one word, as if opened, filled and closed."""
        if self.stack and self.stack[-1].label is None:
            self.stack[-1].label = ""
        self.num_brackets += 1
        self.num_characters += len(tag) + len(word)
        if self.num_brackets > MAX_BRACKETS or self.num_characters > MAX_LINE or len(self.words) > MAX_WORDS:
            raise self._too_large(line)
        self.words.append(word)
        self.tags.append(None if tag == _NO_TAG else tag)

    def add_token(self, token: str) -> None:
        self.num_characters += len(token)
        if self.num_characters > MAX_LINE or len(self.words) > MAX_WORDS:
            raise self._too_large(self.stack[0].line)
        if self.stack[-1].label is None:
            self.stack[-1].label = token
        else:
            self.stack[-1].has_word = True
            self.words.append(token)
            self.tags.append(None)

    def close_bracket(self, line: int) -> None:
        closed = self.stack.pop()
        num_words = len(self.words) - closed.start
        is_empty_tree = closed.label is None and not self.stack
        if num_words == 0 and not is_empty_tree:
            name = (closed.label or "")[:60]
            message = f"expected a word in the bracket ({name} before it closes, got none"
            raise ParseError(message, file=self.file, line=line)
        if num_words == 0:
            self.spans.pop()
        elif num_words == 1 and closed.has_word:
            self.spans.pop()
            self.tags[-1] = None if closed.label == _NO_TAG else closed.label
        else:
            self.spans[closed.span] = (closed.label or "", closed.start, len(self.words))

    def _too_large(self, line: int) -> ParseError:
        limits = f"{MAX_WORDS:,} words, {MAX_BRACKETS:,} brackets and {MAX_LINE:,} characters"
        line = self.stack[0].line if self.stack else line
        return ParseError(f"expected trees of at most {limits}", file=self.file, line=line)

    def finish(self) -> Parsed:
        if self.spans and self.spans[0] == ("", 0, len(self.words)):
            self.spans.pop(0)
        return [_unescape(*pair) for pair in zip(self.words, self.tags, strict=True)], self.tags, self.spans


def _unescape(word: str, tag: str | None) -> str:
    if tag == "-NONE-":
        return word
    return _ESCAPED.sub(lambda match: _BRACKETS.get(match.group().upper(), match.group()[-1]), word)


def _escape(word: str) -> str:
    return _UNESCAPED.sub(lambda match: _ESCAPES.get(match.group(), f"\\{match.group()}"), _checked(word, "word"))


def _escape_brackets(tag: str) -> str:
    return _UNESCAPED.sub(lambda match: _ESCAPES.get(match.group(), match.group()), tag)


def _checked(text: str, kind: str) -> str:
    if not text or any(space in text for space in " \t\r\n"):
        raise ValueError(f"a {kind} in brackets must not be empty or have a space in it, got {text!r}")
    return text
