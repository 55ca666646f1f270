"""Parsing one field of a line: text to a sentence, text to a label."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from structattn.errors import ConfigError, ParseError, shown
from structattn.files.text import MAX_FILE, Source, parse_json, read_lines
from structattn.syntax import Sentence


@dataclass(frozen=True)
class Place:
    """Where a field comes from, so that an error can say so."""

    file: Source
    line: int
    within: str = ""
    is_line: bool = True

    @property
    def own_line(self) -> int | None:
        """The line; ``None`` if ``line`` counts rows of a collection, or is where the surrounding array begins."""
        return self.line if self.is_line else None

    def error(self, message: str) -> ParseError:
        """The error to raise at this place."""
        return ParseError(self.within + message, file=self.file, line=self.line)


def json_objects(path: Source) -> Iterator[tuple[Place, dict[str, Any]]]:
    """The JSON objects of a file, each with its place: one per line, or one array of all of them.

    Raises:
        ParseError: for anything but a JSON object; in an array the message gives its number, as it may share its line
            with others.
    """
    lines = read_lines(path)
    first = next(((number, line) for number, line in lines if line.strip()), None)
    if first is None:
        return
    if first[1].lstrip().startswith("["):
        yield from _array_objects(path, first[0], _joined(path, itertools.chain([first], lines)))
        return
    for number, line in itertools.chain([first], lines):
        if not line.strip():
            continue
        place = Place(path, number)
        try:
            item = parse_json(line)
        except ValueError as error:
            raise place.error(f"expected a JSON object, got {shown(line, width=40)} ({error})") from None
        if not isinstance(item, dict):
            raise place.error(f"expected a JSON object, got {shown(line, width=40)}")
        yield place, item


def _joined(path: Source, lines: Iterator[tuple[int, str]]) -> str:
    """The lines as one text, up to the maximum size of a file that is read as a whole."""
    kept, size = [], 0
    for number, line in lines:
        kept.append(line)
        size += len(line)
        if size > MAX_FILE:
            message = f"expected an array of at most {MAX_FILE:,} characters, got more; JSON lines have no limit"
            raise ParseError(message, file=path, line=number)
    return "\n".join(kept)


def _array_objects(path: Source, line: int, text: str) -> Iterator[tuple[Place, dict[str, Any]]]:
    start = Place(path, line)
    try:
        items = parse_json(text)
    except ValueError as error:
        raise start.error(f"expected an array of JSON objects, got {shown(text, width=40)} ({error})") from None
    for number, item in enumerate(items, 1):
        place = Place(path, line, f"item {number}: ", is_line=False)
        if not isinstance(item, dict):
            raise place.error(f"expected a JSON object, got {shown(item, width=40)}")
        yield place, item


def sentence_of(text: str, *, tokenised: bool) -> Sentence:
    """A sentence from words separated by ASCII spaces (a no-break space is part of a word), or from raw text."""
    return Sentence([word for word in text.split(" ") if word]) if tokenised else Sentence.from_text(text)


TARGETS = ("class", "score", "none")
"""How a label may be read; with ``none`` it is ignored, and may be missing or unreadable."""


def label_of(text: str, place: Place, *, target: str) -> str | float | None:
    """A class name as text, a score as a finite number, or ``None`` if the target is ``none``.

    Raises:
        ParseError: for an empty class name, or a score that is not a number.
    """
    text = text.strip()
    if target == "none":
        return None
    if target == "class":
        if not text:
            raise place.error("expected a label, got an empty field")
        return text
    try:
        score = float(text)
    except ValueError:
        score = math.nan
    if not math.isfinite(score):
        raise place.error(f"expected a number as score, got {shown(text)}")
    return score


def check_target(target: str, known: tuple[str, ...] = TARGETS) -> str:
    """Return the target if it is known.

    Raises:
        ConfigError: if it is not; the message lists the known ones.
    """
    if target not in known:
        raise ConfigError(f"unknown target {target!r}; known: {', '.join(known)}")
    return target
