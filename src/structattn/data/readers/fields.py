"""Parsing one field of a line: text to a sentence, text to a label."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from structattn.syntax import ConfigError, ParseError, Sentence, read_lines
from structattn.syntax.errors import shown
from structattn.syntax.files import Source, parse_json


@dataclass(frozen=True)
class Place:
    """Where a field comes from, so that an error can say so."""

    file: Source
    line: int

    def error(self, message: str) -> ParseError:
        """The error to raise at this place."""
        return ParseError(message, file=self.file, line=self.line)


def json_objects(path: Source) -> Iterator[tuple[Place, dict[str, Any]]]:
    """The JSON objects of a file, one a line, each with its place; empty lines are left out.

    Raises:
        ParseError: for a line that is no JSON object.
    """
    for number, line in read_lines(path):
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


def sentence_of(text: str, *, tokenised: bool) -> Sentence:
    """Words between ASCII spaces (a no-break space is part of a word), or the words of raw text."""
    return Sentence([word for word in text.split(" ") if word]) if tokenised else Sentence.from_text(text)


def label_of(text: str, place: Place, *, target: str) -> str | float:
    """A class name as it stands, or a score as a finite number.

    Raises:
        ParseError: for an empty class name, or a score that is no number.
    """
    text = text.strip()
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


def check_target(target: str, known: tuple[str, ...] = ("class", "score")) -> str:
    """Give the target back if it is known.

    Raises:
        ConfigError: if it is not; the message lists the known ones.
    """
    if target not in known:
        raise ConfigError(f"unknown target {target!r}; known: {', '.join(known)}")
    return target
