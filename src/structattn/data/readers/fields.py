"""Fields of a line, a row of a table or a JSON object, and the example that they make: texts, label and id."""

import ast
import difflib
import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from structattn.data.example import Example, join_labels
from structattn.errors import ConfigError, ParseError, shown
from structattn.files.text import Source
from structattn.syntax.sentence import Sentence


@dataclass(frozen=True)
class Location:
    """Where a field comes from, so that an error can say so."""

    file: Source
    line: int
    within: str = ""
    is_line: bool = True

    @property
    def example_line(self) -> int | None:
        """The line; ``None`` if ``line`` counts rows of a collection, or is where the surrounding array begins."""
        return self.line if self.is_line else None

    def error(self, message: str) -> ParseError:
        """The error to raise about this field."""
        return ParseError(self.within + message, file=self.file, line=self.line)


def make_sentence(text: str, *, tokenised: bool) -> Sentence:
    """A sentence from words separated by ASCII spaces (a no-break space is part of a word), or from raw text."""
    return Sentence([word for word in text.split(" ") if word]) if tokenised else Sentence.from_text(text)


_WHOLE = re.compile(r"-?\d+\.0+")
_LIST = re.compile(r"\[\s*(['\"]).*\1\s*\]")
_SEPARATORS = re.compile("[|;,]")
TARGETS = ("class", "score", "labels", "none")
"""How a label may be read: ``labels`` are several classes; with ``none`` it is ignored, and may be missing."""


def parse_label(text: str, location: Location, *, target: str) -> str | float | None:
    """A class name as text, several as ``parse_labels``, a finite score, or ``None`` if the target is ``none``."""
    text = text.strip()
    if target == "none":
        return None
    if target == "labels":
        return parse_labels(text, location)
    if target == "class":
        if not text:
            raise location.error("expected a label, got an empty field")
        if _LIST.fullmatch(text):
            raise location.error(f"expected one label, got a list of labels written as text, {shown(text, width=40)}")
        return spell_class(text)
    try:
        score = float(text)
    except ValueError:
        score = math.nan
    if not math.isfinite(score):
        raise location.error(f"expected a number as score, got {shown(text)}")
    return score


def parse_labels(names: str | Collection[Any], location: Location) -> str:
    """Several class names: a list, also one written as text, or names with |, ; or a comma between them."""
    expected = "expected a list of labels, or labels with |, ; or a comma between them"
    if isinstance(names, str) and names.startswith("["):
        try:
            names = [*ast.literal_eval(names)]
        except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
            raise location.error(f"{expected}, got {shown(names, width=40)}") from None
    elif isinstance(names, str):
        names = [name for name in _SEPARATORS.split(names) if name.strip()]
    for name in names:
        if isinstance(name, bool) or not isinstance(name, str | int) or not str(name).strip() or "|" in str(name):
            raise location.error(f"{expected}, got {shown(name, width=40)} in a list")
    return join_labels(spell_class(str(name).strip()) for name in names)


def spell_class(text: str) -> str:
    """One spelling for what tables, JSON, Parquet and data frames write differently: 1.0 as 1, True as true."""
    if _WHOLE.fullmatch(text):
        return text.partition(".")[0]
    return text.lower() if text.lower() in ("true", "false") else text


def check_target(target: str, choices: tuple[str, ...] = TARGETS) -> str:
    """Return the target if it is among the choices."""
    if target not in choices:
        raise ConfigError(f"unknown target {target!r}; known: {', '.join(choices)}")
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
    "words", "tokens", "sentence", "text", "review", "question", "content", "comment", "tweet", "document", "message",
    "title",
)  # fmt: skip
LABELS = (
    "label", "labels", "gold_label", "Quality", "is_duplicate", "score", "class", "category", "sentiment", "polarity",
    "target", "topic", "stars", "rating", "ner_tags", "pos_tags", "tags",
)  # fmt: skip
IDS = ("id", "index", "pairID", "pair_ID")


@dataclass(frozen=True)
class Columns:
    """Which columns contain the texts of an example (one, or two for pairs), its label and its id.

    One that is ``None`` is to be found by its name; several columns of labels have 0 or 1 for the label of that name.
    ``target`` is how labels are read by default.
    """

    text: tuple[Column, ...] | None = None
    label: Column | tuple[Column, ...] | None = None
    id: Column | None = None
    target: str | None = None

    @classmethod
    def from_options(
        cls,
        text_column: Column | Sequence[Column] | None = None,
        label_column: Column | Sequence[Column] | None = None,
        id_column: Column | None = None,
    ) -> "Columns":
        """Columns as a caller names them."""
        is_one = isinstance(text_column, str | int)
        texts = (text_column,) if is_one else None if text_column is None else tuple(text_column)  # type: ignore[arg-type]
        if texts is not None and len(texts) not in (1, 2):
            raise ConfigError(f"text_column: expected one column, or two for pairs of texts, got {len(texts)}")
        label = label_column if isinstance(label_column, str | int | None) else tuple(label_column)
        return cls(texts, label, id_column)  # type: ignore[arg-type]

    def resolve(self, names: Sequence[Column], location: Location) -> "Columns":
        """The columns of a table with these names; one that is ``None`` is found by its usual names.

        Case, spaces, hyphens and underscores make no difference, unless a name is spelled exactly as it is.
        """
        listed = list_names(names)

        def find(column: Column, option: str) -> Column:
            matches = [name for name in names if name == column] or [
                name for name in names if normalise(name) == normalise(column)
            ]
            if len(matches) > 1:
                raise location.error(f"expected one column {column!r}, got {len(matches)}: {listed}")
            if not matches:
                close = difflib.get_close_matches(str(column), list(map(str, names)), n=1, cutoff=0.5)
                hint = f" (did you mean {option} {close[0]}?)" if close else ""
                raise location.error(f"expected a column {column!r}, got {listed}{hint}")
            return matches[0]

        usual = {normalise(name): name for name in reversed(names)}
        groups = (*PAIRS, *((name,) for name in TEXTS))
        pairs = ([usual.get(normalise(name)) for name in group] for group in groups)
        texts = self.text or next((pair for pair in pairs if None not in pair), None)
        if texts is None:
            raise location.error(
                f"expected a column such as text or review, or two such as premise and hypothesis, got {listed}; "
                "name the columns with text_column and label_column (by number from 0 in a table without a header)"
                f"{_guess(names)}"
            )
        text = tuple(find(column, "text_column") for column in texts if column is not None)

        def find_usual(column: Column | None, option: str, known: Sequence[str]) -> Column | None:
            if column is not None:
                return find(column, option)
            name = next((usual[normalise(name)] for name in known if normalise(name) in usual), None)
            return None if name is None or name in text else find(name, option)

        id = find_usual(self.id, "id_column", IDS)
        if isinstance(self.label, tuple):
            return Columns(text, tuple(find(column, "label_column") for column in self.label), id, "labels")
        label = find_usual(self.label, "label_column", LABELS)
        return Columns(text, label, id, "score" if normalise(label) == "score" else None)

    def describe(self, given: "Columns") -> str:
        """The columns that were found by their usual names, where others were not given."""
        texts = " and ".join(map(str, self.text or ()))
        parts = [] if given.text is not None else [f"texts from column {texts}"]
        if given.label is None and self.label is not None:
            parts.append(f"labels from {self.label}")
        return ", ".join(parts)


def normalise(name: object) -> str:
    """A name without case, spaces, hyphens and underscores."""
    return re.sub(r"[\s_-]+", "", str(name)).lower()


def _guess(names: Sequence[Column]) -> str:
    """What might be the columns of texts and labels, by parts of their names, as a hint."""
    guesses = []
    for option, known in (("text_column", (*TEXTS, "body", "description")), ("label_column", LABELS)):
        likely = [name for part in map(normalise, known) for name in names if part in normalise(name)]
        guesses += [f"{option} {likely[0]}"] if likely else []
    return f"; perhaps {' and '.join(guesses)}" if guesses else ""


def is_treebank_row(keys: Collection[str]) -> bool:
    """Whether a row with these keys is a sentence of a treebank in columns, as ``structattn convert`` writes them."""
    return all(key in keys for key in ("text", "starts", "ends"))


def list_names(names: Sequence[Column]) -> str:
    """Names of columns in an error message; names with a comma are in quotes, as an option takes them."""
    quoted = (f'"{name}"' if "," in str(name) else str(name) for name in names)
    return shown(", ".join(quoted) or "none", width=80)


@dataclass(frozen=True)
class Record:
    """One row of a table, or one JSON object: a value for each column, and how many records come before it."""

    location: Location
    values: Mapping[Any, Any]
    columns: Columns
    number: int

    @property
    def id(self) -> str:
        """Its id, or its number."""
        return str(self.number if self.columns.id is None else self.values[self.columns.id])

    @property
    def texts(self) -> tuple[str | Sequence[str], ...]:
        """Its texts: raw, or lists of words."""
        texts = tuple(self.values[column] for column in self.columns.text or ())
        for column, value in zip(self.columns.text or (), texts, strict=True):
            is_words = isinstance(value, list | tuple) and all(isinstance(word, str) for word in value)
            if not (isinstance(value, str) or is_words):
                raise self.location.error(
                    f"expected text or a list of words under {column!r}, got {shown(value, width=40)}"
                )
        return texts

    def label(self, target: str | None) -> str | float | None:
        """Its label, a class name or a score as the target says; with the target ``none`` it is not read.

        Without any target, a number with a decimal point is a score, and a string, a whole number or a Boolean a class.
        """
        if target == "none":
            return None
        if isinstance(self.columns.label, tuple):
            return self._join_marked(self.columns.label, target or "labels")
        value = None if self.columns.label is None else self.values[self.columns.label]
        if value is None or value != value:  # NaN is no label, as null is none
            return None
        if target == "labels" and isinstance(value, list | tuple | set):
            return parse_labels(value, self.location)
        if isinstance(value, list | tuple):
            return self._join_tags(value)
        if not isinstance(value, str | int | float):
            raise self.location.error(f"expected a string or a number as label, got {shown(value, width=40)}")
        if target is None:
            target = self.columns.target or ("score" if isinstance(value, float) else "class")
        if value in (math.inf, -math.inf):
            raise self.location.error(f"expected a label, got {value}")
        # json.dumps spells true and false as JSON does.
        return parse_label(value if isinstance(value, str) else json.dumps(value), self.location, target=target)

    def _join_marked(self, columns: Sequence[Column], target: str) -> str:
        """The names of the columns that have 1 or true."""
        if target != "labels":
            hint = "several columns of 0 and 1 are for --task multilabel"
            raise ConfigError(f"label_column: expected one column, got {list_names(columns)}; {hint}")
        marks = {column: spell_class(str(self.values[column]).strip()) for column in columns}
        for column, mark in marks.items():
            if mark not in ("0", "1", "false", "true"):
                raise self.location.error(f"expected 0 or 1 in column {column!r}, got {shown(mark, width=40)}")
        return parse_labels([str(column) for column, mark in marks.items() if mark in ("1", "true")], self.location)

    def _join_tags(self, tags: Sequence[Any]) -> str:
        """A tag for each word, as the label of an example has them."""
        (words, *further) = self.texts
        if further or isinstance(words, str) or len(words) != len(tags):
            got = "a text" if isinstance(words, str) else f"{len(words)} words"
            message = (
                f"expected a string or a number as label, got {shown(tags, width=40)}; a list is a tag for each word"
            )
            raise self.location.error(f"{message}, here {len(tags)} for {got}")
        for tag in tags:
            if isinstance(tag, bool) or not isinstance(tag, str | int) or len(str(tag).split()) != 1:
                raise self.location.error(f"expected tags that are strings without spaces, got {shown(tag, width=40)}")
        return " ".join(map(str, tags))

    def example(self, target: str | None = None, *, tokenised: bool = False, weight: float = 1.0) -> Example:
        """The record as an example."""
        sentences = (
            make_sentence(text, tokenised=tokenised) if isinstance(text, str) else Sentence(text) for text in self.texts
        )
        line = self.location.example_line
        row = self.number + 1 if line is None else None
        return Example(tuple(sentences), self.label(target), id=self.id, weight=weight, line=line, row=row)
