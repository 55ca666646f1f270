"""Summaries of data: one line about the examples of a file, and warnings where they look wrong."""

import logging
import statistics
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from structattn.data.example import Example, split_labels
from structattn.data.span_tags import OUTSIDE, Pair, list_pairs, recognise_scheme
from structattn.errors import shown
from structattn.syntax.sentence import TRUNCATED

_MANY_LABELS = 10
_SHOWN = 6
_WIDTH = 40
_FIRST_WORDS = frozenset({
    "a", "an", "and", "are", "as", "at", "but", "can", "did", "do", "does", "for", "from", "he", "how", "i", "if", "in",
    "is", "it", "my", "of", "on", "one", "our", "she", "so", "some", "that", "the", "their", "there", "these", "they",
    "this", "those", "to", "was", "we", "were", "what", "when", "where", "which", "who", "why", "with", "you", "your",
})  # fmt: skip


@dataclass(frozen=True)
class DataSummary:
    """Counts over the examples of one file, and a warning for each thing that looks wrong."""

    name: str
    format: str
    examples: int
    labels: dict[str, int]  # the most frequent first; empty for scores
    scores: tuple[float, float] | None  # the lowest and the highest
    unlabelled: int
    lengths: tuple[int, int]  # median and maximum of the sentences
    words: int
    unknown_words: int | None  # of words without a vector; none if there are no vectors
    without_trees: int  # of sentences with neither dependencies nor phrases
    truncated: int  # of sentences
    sentences: int
    warnings: tuple[str, ...]
    tags: str = ""  # how tags mark spans
    bare: int = 0  # examples without any of several labels

    def __str__(self) -> str:
        parts = [f"{self.name}: {self.examples:,} {_inflect('example', self.examples)} ({self.format})"]
        if self.labels:
            most = ", ".join(f"{_truncate(label)} {count:,}" for label, count in list(self.labels.items())[:_SHOWN])
            more = f", {len(self.labels) - _SHOWN} more" if len(self.labels) > _SHOWN else ""
            parts.append(f"{len(self.labels)} {_inflect('label', len(self.labels))} ({most}{more})")
        if self.bare:
            parts.append(f"{self.bare:,} with none of them")
        if self.tags:
            parts.append(self.tags)
        if self.scores is not None:
            parts.append(f"scores {self.scores[0]:g} to {self.scores[1]:g}")
        if self.unlabelled and (self.labels or self.scores):
            parts.append(f"{self.unlabelled:,} without a label")
        parts.append(f"{self.lengths[0]} words (median; at most {self.lengths[1]:,})")
        if self.truncated:
            parts.append(
                f"{self.truncated:,} {_inflect('sentence', self.truncated)} truncated to {self.lengths[1]:,} words"
            )
        if self.unknown_words is not None:
            parts.append(f"{self.unknown_words / max(1, self.words):.1%} of the words without a vector")
        if self.without_trees:
            every = "all" if self.without_trees == self.sentences else f"{self.without_trees:,}"
            parts.append(f"{every} sentences without a tree")
        return "; ".join(parts)

    def log(self, logger: logging.Logger) -> None:
        """Log one line, and one more for each warning."""
        logger.info("%s", self)
        for warning in self.warnings:
            logger.warning("%s", warning)


class ExampleCounts:
    """Counts examples as they pass by, whose labels are classes, several of them, texts, or one tag for each word.

    ``known_labels`` are the classes of the training data, or of a model; ``known_words`` have a vector.
    """

    def __init__(
        self,
        name: str = "data",
        *,
        format: str = "examples",
        known_labels: Collection[str] | None = None,
        known_words: Collection[str] | None = None,
        lowercase: bool = False,
        has_classes: bool = True,
        has_tags: bool = False,
        has_spans: bool = False,
        has_several: bool = False,
    ) -> None:
        self._name = name
        self._format = format
        self._known_labels = known_labels
        self._known_words = known_words
        self._lowercase = lowercase
        self._has_classes = has_classes
        self._has_tags = has_tags or has_spans
        self._has_spans = has_spans
        self._has_several = has_several
        self._pairs: set[Pair] = set()
        self._examples = 0
        self._labels, self._tags = Counter[str](), Counter[str]()
        self._scores: list[float] = []
        self._lengths: list[int] = []
        self._bare = self._unlabelled = self._unknown = self._without_trees = self._truncated = self._empty = 0

    def add(self, example: Example) -> None:
        """Count one more."""
        self._examples += 1
        if isinstance(example.label, str):
            if self._has_tags:
                tags = example.label.split()
                self._tags.update(tags)
                if self._has_spans:
                    self._pairs.update(list_pairs(tags))
            elif self._has_classes:
                self._labels.update(split_labels(example.label) if self._has_several else [example.label])
                self._bare += self._has_several and not example.label
        elif example.label is None:
            self._unlabelled += 1
        else:
            self._scores.append(example.label)
        for sentence in example.sentences:
            self._lengths.append(len(sentence))
            self._empty += len(sentence) == 0
            self._truncated += TRUNCATED in sentence.metadata
            self._without_trees += sentence.dependency is None and sentence.constituency is None
            if self._known_words is not None:
                words = (word.lower() if self._lowercase else word for word in sentence.words)
                self._unknown += sum(word not in self._known_words for word in words)

    def over(self, examples: Iterable[Example]) -> Iterator[Example]:
        """Count examples as they pass through."""
        for example in examples:
            self.add(example)
            yield example

    def summary(self) -> DataSummary:
        """The summary of the examples counted so far."""
        lengths = self._lengths
        warnings = [*_warn(self._name, self._format, self._labels, self._known_labels, self._has_several)]
        warnings += _warn_unseen(self._name, "tags", self._tags, self._known_labels)
        description, warning = _describe_tags(self._tags, self._pairs) if self._has_spans else ("", "")
        if warning:
            warnings.append(f"{self._name}: {warning}")
        if self._empty:
            are = "is" if self._empty == 1 else "are"
            warnings.append(f"{self._name}: {self._empty:,} of {len(lengths):,} texts {are} empty")
        return DataSummary(
            self._name,
            self._format,
            self._examples,
            dict(self._labels.most_common()),
            (min(self._scores), max(self._scores)) if self._scores else None,
            self._unlabelled,
            (int(statistics.median(lengths)), max(lengths)) if lengths else (0, 0),
            sum(lengths),
            None if self._known_words is None else self._unknown,
            self._without_trees,
            self._truncated,
            len(lengths),
            tuple(warnings),
            description,
            self._bare,
        )


def summarise(examples: Iterable[Example], name: str = "data", **options: Any) -> DataSummary:
    """Summarise examples; the options are those of ``ExampleCounts``."""
    counts = ExampleCounts(name, **options)
    for _ in counts.over(examples):
        pass
    return counts.summary()


def _describe_tags(tags: Counter[str], pairs: Iterable[Pair]) -> tuple[str, str]:
    """The scheme of tags that mark spans, with their labels, and a warning where there are no spans."""
    if all(tag.upper() == OUTSIDE for tag in tags):
        outside = "no word is in a span, so span_f1 is 0 whatever a model answers and cannot choose an epoch"
        return "", outside if tags else ""
    try:
        scheme = recognise_scheme(tags, pairs)
    except ValueError as error:
        return "", str(error)
    labels = sorted({scheme.parse(tag)[1] for tag in tags if tag.upper() != OUTSIDE})
    return f"spans of {_list(labels)} as {scheme}", ""


def _warn(
    name: str, format: str, labels: Counter[str], known_labels: Collection[str] | None, has_several: bool
) -> Iterable[str]:
    number = labels.total()
    if format == "labelled" and not has_several and looks_like_words(labels):
        yield (
            f"{name}: the {len(labels)} labels ({_list(list(labels))}) look like the first words of sentences, not "
            "like labels: a line of this format is 'label text'"
        )
    elif known_labels is None and _are_wordlike(labels) and 2 * len(labels) > number:
        yield (
            f"{name}: {number:,} examples have {len(labels):,} labels ({_list(list(labels))}), which look like "
            "texts, not like labels; label_column names the column of labels"
        )
    spellings: dict[str, list[str]] = {}
    for label in labels:
        spellings.setdefault(label.casefold(), []).append(label)
    for alike in spellings.values():
        if len(alike) > 1:
            yield f"{name}: the labels {_list(alike)} differ only by case, and are different classes"
    if known_labels is None:
        if len(labels) == 1 and not has_several:
            yield f"{name}: every example has the same label {_list(list(labels))}; there is nothing to learn"
        return
    yield from _warn_unseen(name, "examples have labels that", labels, known_labels)
    if len(labels) == 1 and len(known_labels) > 1 and not has_several:
        yield f"{name}: every example has the same label {_list(list(labels))}, so accuracy says little"


def _warn_unseen(name: str, subject: str, labels: Counter[str], known_labels: Collection[str] | None) -> Iterable[str]:
    unseen = [label for label in labels if known_labels is not None and label not in known_labels]
    if unseen:
        count = f"{sum(labels[label] for label in unseen):,} of {labels.total():,}"
        total = len(known_labels or ())
        yield f"{name}: {count} {subject} are not among the {total} of the training data: {_list(unseen)}"


def looks_like_words(labels: Counter[str]) -> bool:
    """Whether labels look like first words of sentences: at least four are function words, or most are rare.

    Real labels occur many times each; first words are mostly rare, except for those that often begin English sentences.
    """
    if len({label.lower() for label in labels} & _FIRST_WORDS) >= 4:
        return True
    rare = sum(count <= 2 for count in labels.values())
    return 2 * rare >= len(labels) and _are_wordlike(labels)


def _are_wordlike(labels: Collection[str]) -> bool:
    """Whether there are many labels and most look like words: neither numbers nor subtypes like ``ENTY:animal``."""
    wordlike = sum(label[:1].isalpha() and ":" not in label for label in labels)
    return len(labels) >= _MANY_LABELS and 10 * wordlike >= 7 * len(labels)


def _list(labels: Sequence[str]) -> str:
    return ", ".join(shown(label, width=_WIDTH) for label in labels[:_SHOWN]) + (", ..." * (len(labels) > _SHOWN))


def _truncate(label: str) -> str:
    """A label on one line, truncated if it is long."""
    return " ".join(label[:_WIDTH].split()) + "..." * (len(label) > _WIDTH)


def _inflect(word: str, number: int) -> str:
    return word if number == 1 else f"{word}s"
