"""Fields of a line, a row of a table or a JSON object, and the example that they make: texts, label and id."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from structattn.data.example import Example
from structattn.errors import ConfigError, ParseError, shown
from structattn.files.text import Source
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


Column = str | int
"""A column of a table: its name in the header, or its number from 0 in a file without one. Of JSON: a key."""

PAIRS = (
    ("sentence1", "sentence2"),  # RTE, MNLI, STS-B with a header, SNLI
    ("question", "sentence"),  # QNLI
    ("question1", "question2"),  # QQP
    ("#1 String", "#2 String"),  # MRPC
    ("premise", "hypothesis"),
    ("sentence_A", "sentence_B"),
    ("text1", "text2"),
)
TEXTS = (
    "words", "sentence", "text", "review", "question", "content", "comment", "tweet", "document", "message", "title"
)  # fmt: skip
LABELS = (
    "label", "gold_label", "Quality", "is_duplicate", "score", "class", "category", "sentiment", "polarity", "target",
    "topic", "stars", "rating",
)  # fmt: skip
IDS = ("id", "index", "pairID", "pair_ID")


@dataclass(frozen=True)
class Columns:
    """Which columns contain the texts of an example, its label and its id.

    Attributes:
        text: one column, or two for pairs of texts; ``None`` if it is to be found by its name.
        label: ``None`` if it is to be found, or there is none.
        id: ``None`` if it is to be found, or there is none.
        target: ``"class"`` or ``"score"``, how labels are read by default; ``None`` if that depends on each value.
    """

    text: tuple[Column, ...] | None = None
    label: Column | None = None
    id: Column | None = None
    target: str | None = None

    @classmethod
    def given(
        cls,
        text_column: Column | Sequence[Column] | None = None,
        label_column: Column | None = None,
        id_column: Column | None = None,
    ) -> "Columns":
        """Columns as a caller names them.

        Raises:
            ConfigError: if the number of text columns is not one or two.
        """
        is_one = isinstance(text_column, str | int)
        texts = (text_column,) if is_one else None if text_column is None else tuple(text_column)  # type: ignore[arg-type]
        if texts is not None and len(texts) not in (1, 2):
            raise ConfigError(f"text_column: expected one column, or two for pairs of texts, got {len(texts)}")
        return cls(texts, label_column, id_column)  # type: ignore[arg-type]

    @property
    def chosen(self) -> tuple[Column, ...]:
        """Those that are not ``None``."""
        return tuple(column for column in (*(self.text or ()), self.label, self.id) if column is not None)

    def found_in(self, names: Sequence[Column], place: Place) -> "Columns":
        """The columns of a table with these names; one that is ``None`` is found by its usual names, ignoring case.

        Raises:
            ParseError: at ``place``, if a column is missing or occurs twice, or no column looks like text.

        Example:
            >>> Columns(label="Stars").found_in(["Review", "Date", "Stars"], Place("a.csv", 1))
            Columns(text=('Review',), label='Stars', id=None, target=None)
        """
        listed = listed_names(names)
        for column in self.chosen:
            if column not in names:
                raise place.error(f"expected a column {column!r}, got {listed}")
        usual = {str(name).strip().lower(): name for name in reversed(names)}
        known = (*PAIRS, *((name,) for name in TEXTS))
        pairs = ([usual.get(name.lower()) for name in group] for group in known)
        text = self.text or next((tuple(found) for found in pairs if None not in found), None)
        if text is None:
            raise place.error(
                f"expected a column such as text or review, or two such as premise and hypothesis, got {listed}; "
                "name the columns with text_column and label_column (by number from 0 in a table without a header)"
            )
        label = next((usual[name.lower()] for name in LABELS if name.lower() in usual), None)
        id = next((usual[name.lower()] for name in IDS if name.lower() in usual), None)
        label = label if self.label is None and label not in text else self.label
        id = id if self.id is None and id not in text else self.id
        found = Columns(text, label, id, "score" if str(label).strip().lower() == "score" else None)  # type: ignore[arg-type]
        for column in found.chosen:
            if names.count(column) > 1:
                raise place.error(f"expected one column {column!r}, got {names.count(column)}: {listed}")
        return found


def listed_names(names: Sequence[Column]) -> str:
    """Names of columns in an error message; names with a comma are in quotes, as an option takes them.

    Example:
        >>> print(listed_names(["id", "review, in full"]))
        'id, "review, in full"'
    """
    quoted = (f'"{name}"' if "," in str(name) else str(name) for name in names)
    return shown(", ".join(quoted) or "none", width=80)


@dataclass(frozen=True)
class Item:
    """One row of a table, or one JSON object.

    Attributes:
        place: its place in the file.
        values: a value for each column.
        columns: which of them are its texts, its label and its id.
        number: how many come before it.
    """

    place: Place
    values: Mapping[Any, Any]
    columns: Columns
    number: int

    @property
    def id(self) -> str:
        """Its id, or its number."""
        return str(self.number if self.columns.id is None else self.values[self.columns.id])

    @property
    def texts(self) -> tuple[str | Sequence[str], ...]:
        """Its texts: raw, or lists of words.

        Raises:
            ParseError: if one is neither.
        """
        found = tuple(self.values[column] for column in self.columns.text or ())
        for column, value in zip(self.columns.text or (), found, strict=True):
            is_words = isinstance(value, list | tuple) and all(isinstance(word, str) for word in value)
            if not (isinstance(value, str) or is_words):
                raise self.place.error(
                    f"expected text or a list of words under {column!r}, got {shown(value, width=40)}"
                )
        return found

    def label(self, target: str | None) -> str | float | None:
        """Its label: a class name or a score, as ``target`` says.

        If neither the call nor the columns give a target, a number with a decimal point is a score, and a string, a
        whole number or a Boolean is a class name. With the target ``none`` the label is not read.

        Raises:
            ParseError: if it is none of these, empty, or not a number where a score is expected.
        """
        value = None if self.columns.label is None else self.values[self.columns.label]
        if value is None or target == "none":
            return None
        if not isinstance(value, str | int | float):
            raise self.place.error(f"expected a string or a number as label, got {shown(value, width=40)}")
        if target is None:
            target = self.columns.target or ("score" if isinstance(value, float) else "class")
        # json.dumps spells true and false as the file does.
        return label_of(value if isinstance(value, str) else json.dumps(value), self.place, target=target)

    def example(self, target: str | None = None, *, tokenised: bool = False, weight: float = 1.0) -> Example:
        """The item as an example.

        Raises:
            ParseError: as `texts` and `label`.
        """
        sentences = (
            sentence_of(text, tokenised=tokenised) if isinstance(text, str) else Sentence(text) for text in self.texts
        )
        return Example(tuple(sentences), self.label(target), id=self.id, weight=weight, line=self.place.own_line)
