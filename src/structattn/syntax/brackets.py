r"""Penn-style brackets: text to trees and back, also for SST's labelled ones.

Separate from the tree because brackets are a notation with its own escapes (Marcus et al. 1993; Bies et al. 1995):

- brackets inside words and tags are written ``-LRB-``, ``-RRB-``, ``-LCB-`` and so on, and ``/`` and ``*`` inside
  words come as ``\/`` and ``\*``; words are unescaped on reading and escaped on writing, traces are left as they are;
- the outermost bracket may be empty, ``( (S ...))``; the label of an inner bracket may be empty too;
- a word without a preterminal is written bare, ``(NP the cat)``, and where that would make it a preterminal of its
  phrase it is written with the tag ``_``: ``(NP (_ cat))``;
- only ASCII spaces, tabs and line ends separate; a tree may run over several lines and a line may hold several trees.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from structattn.syntax.errors import ParseError
from structattn.syntax.files import read_lines, replace_text

if TYPE_CHECKING:
    from structattn.syntax.constituency import ConstituencyTree

Parsed = tuple[list[str], list[str | None], list[tuple[str, int, int]]]
"""Words, tags and spans of one tree."""

_TOKEN = re.compile(r"[()]|[^() \t\r\n]+")
_ESCAPES = {"(": "-LRB-", ")": "-RRB-", "[": "-LSB-", "]": "-RSB-", "{": "-LCB-", "}": "-RCB-"}
_BRACKETS = {escape: bracket for bracket, escape in _ESCAPES.items()}
_ESCAPED = re.compile(r"-[LR][RSC]B-|\\[/*]", re.IGNORECASE)
_UNESCAPED = re.compile(r"[][(){}/*]")
_NO_TAG = "_"


def read_brackets(path: str | os.PathLike[str]) -> "Iterator[ConstituencyTree]":
    """Stream the trees of a file of brackets, gzip or plain.

    Traces and function tags are kept; ``without_empty_leaves`` and ``without_function_tags`` remove them.

    Args:
        path: the file.

    Yields:
        One tree after the other.

    Raises:
        ParseError: with the file and the line, if a bracket is missing or too many, a phrase has no words, or a word
            stands outside every bracket.

    Example:
        >>> import tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "trees.txt"
        >>> _ = path.write_text("(S (UH oh))\\n( (NP (DT the)\\n (NN cat)))\\n")
        >>> [tree.words for tree in read_brackets(path)]
        [('oh',), ('the', 'cat')]
    """
    from structattn.syntax.constituency import ConstituencyTree

    for words, tags, spans in _parse(read_lines(path), file=path):
        yield ConstituencyTree(words, spans, tags=tags)


def write_brackets(path: str | os.PathLike[str], trees: "Iterable[ConstituencyTree]") -> None:
    """Write trees to a file, one a line; the file appears whole or not at all.

    Args:
        path: the file; compressed when the name ends in ``.gz``.
        trees: the trees.

    Raises:
        ValueError: if a word, tag or label cannot stand in brackets.
    """
    with replace_text(path) as stream:
        for tree in trees:
            stream.write(tree.to_brackets() + "\n")


def parse_one(text: str) -> Parsed:
    """Read exactly one tree.

    Raises:
        ParseError: with the line in the text.
    """
    trees = list(_parse(enumerate(text.split("\n"), start=1), file=None))
    if len(trees) != 1:
        raise ParseError(f"expected one tree in brackets, got {len(trees)}")
    return trees[0]


def format_one(words: Sequence[str], tags: Sequence[str | None], spans: Sequence[tuple[str, int, int]]) -> str:
    """Write one tree on one line.

    Raises:
        ValueError: if a word, tag or label cannot stand in brackets.
    """
    starting: list[list[tuple[str, int]]] = [[] for _ in words]
    for label, start, end in spans:
        starting[start].append((label, end))
    # Whatever is not one bracket with a label goes into an outermost empty bracket, which reading takes off again.
    is_single = len(words) == 1 if not spans else spans[0][1:] == (0, len(words)) and spans[0][0] != ""
    pieces: list[str] = []
    ends: list[int] = []
    for position, word in enumerate(words):
        opened = ""
        for label, end in starting[position]:
            pieces.append(f"{' ' if pieces else ''}({_checked(label, 'label') if label else ''}")
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


def _parse(lines: Iterable[tuple[int, str]], *, file: object) -> Iterator[Parsed]:
    words: list[str] = []
    tags: list[str | None] = []
    spans: list[tuple[str, int, int]] = []
    stack: list[_Open] = []
    number = 0
    for number, line in lines:
        for token in _TOKEN.findall(line):
            if token == "(":
                if stack and stack[-1].label is None:
                    stack[-1].label = ""
                stack.append(_Open(len(words), len(spans), number))
                spans.append(("", 0, 0))
            elif token == ")":
                if not stack:
                    raise ParseError("expected '(', got ')' that closes nothing", file=file, line=number)
                closed = stack.pop()
                if closed.label is None and not stack and len(spans) == 1:
                    yield [], [], []
                    words, tags, spans = [], [], []
                    continue
                if closed.start == len(words):
                    name = closed.label or ""
                    raise ParseError(f"expected words in bracket '({name}', got ')'", file=file, line=number)
                if closed.has_word and len(words) == closed.start + 1:
                    spans.pop()
                    tags[-1] = None if closed.label == _NO_TAG else closed.label
                else:
                    spans[closed.span] = (closed.label or "", closed.start, len(words))
                if not stack:
                    if spans and spans[0] == ("", 0, len(words)):
                        spans = spans[1:]
                    yield [_unescape(w, t) for w, t in zip(words, tags, strict=True)], tags, spans
                    words, tags, spans = [], [], []
            elif not stack:
                raise ParseError(f"expected '(' before a tree, got {token!r}", file=file, line=number)
            elif stack[-1].label is None:
                stack[-1].label = token
            else:
                stack[-1].has_word = True
                words.append(token)
                tags.append(None)
    if stack:
        raise ParseError(
            f"expected {len(stack)} more ')' for the tree that starts on line {stack[0].line}, got the end of the text",
            file=file,
            line=number,
        )


class _Open:
    """A bracket that is not closed yet."""

    __slots__ = ("has_word", "label", "line", "span", "start")

    def __init__(self, start: int, span: int, line: int) -> None:
        self.label: str | None = None
        self.start = start
        self.span = span
        self.line = line
        self.has_word = False


def _unescape(word: str, tag: str | None) -> str:
    if tag == "-NONE-":
        return word
    return _ESCAPED.sub(lambda found: _BRACKETS.get(found.group().upper(), found.group()[-1]), word)


def _escape(word: str) -> str:
    return _UNESCAPED.sub(lambda found: _ESCAPES.get(found.group(), f"\\{found.group()}"), _checked(word, "word"))


def _escape_brackets(tag: str) -> str:
    return _UNESCAPED.sub(lambda found: _ESCAPES.get(found.group(), found.group()), tag)


def _checked(text: str, what: str) -> str:
    if not text or any(space in text for space in " \t\r\n"):
        raise ValueError(f"a {what} in brackets must not be empty or have a space in it, got {text!r}")
    return text
