"""Reports: what lies behind the metrics of predictions, for each kind of answer: classes, spans, trees, scores.

A report is made of the rows that runs keep, and consists of plain values, so that a terminal, a page, a model card and
JSON show the same.

References: precision by predicted and recall by gold length of arcs are those of McDonald and Nivre (2007),
Characterizing the errors of data-driven dependency parsing models, section 4.
"""

import bisect
import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from structattn.data.example import split_labels
from structattn.data.span_tags import recognise_scheme
from structattn.files.markdown import align_columns, escape_markdown, format_table
from structattn.syntax import DependencyTree

if TYPE_CHECKING:
    from structattn.tasks.task import Task

Cell = str | int | float | None
Rows = Sequence[Mapping[str, Any]]
_SHOWN, _WIDTH, _LONGEST, _MOST_CLASSES = 10, 60, 300, 12
# The lengths of arcs that share a row of a report, each from this one to the next.
_LENGTHS = (1, 2, 3, 6, 11)


@dataclass(frozen=True)
class Confusion:
    """How often each class, in rows, was answered with each class, in columns; as text it is that table.

    Example:
        >>> print(Confusion(("bad", "good"), ((3, 1), (0, 4))))
        gold \\ predicted  bad  good
        bad                 3     1
        good                0     4
    """

    labels: Sequence[str]
    counts: Sequence[Sequence[int]]

    def __str__(self) -> str:
        rows = [[label, *map(str, row)] for label, row in zip(self.labels, self.counts, strict=True)]
        return "\n".join(align_columns([r"gold \ predicted", *self.labels], rows))

    def pairs(self) -> list[tuple[int, str, str]]:
        """The count, gold class and predicted class of every confusion that occurs, the most frequent first."""
        each = (
            (count, gold, label)
            for gold, row in zip(self.labels, self.counts, strict=True)
            for label, count in zip(self.labels, row, strict=True)
        )
        return sorted((pair for pair in each if pair[0] and pair[1] != pair[2]), key=lambda pair: -pair[0])


@dataclass(frozen=True)
class Report:
    """Tables, notes and, for classes, a confusion matrix; ``print`` shows all of it, ``to_dict`` is for JSON.

    Attributes:
        tables: from the title of a table to its rows, which map the names of columns to values.
        notes: sentences on what is striking, such as the classes that are never predicted.
        confusion: for classes and tags.

    Example:
        >>> rows = [{"id": "0", "gold": "bad", "predicted": "good", "scores": {"bad": 0.1, "good": 0.9}, "texts": []}]
        >>> from structattn.tasks import SENTIMENT
        >>> SENTIMENT.report(rows).notes
        ('never predicted: bad (1 of 1 examples)',)
    """

    tables: Mapping[str, Sequence[Mapping[str, Cell]]]
    notes: Sequence[str] = ()
    confusion: Confusion | None = None

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Report":
        """The inverse of ``to_dict``."""
        confusion = values["confusion"]
        return cls(values["tables"], values["notes"], None if confusion is None else Confusion(**confusion))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return dataclasses.asdict(self)

    def texts(self) -> dict[str, list[list[str]]]:
        """The tables as text, each with its header as the first row; long texts are shortened."""
        return {
            title: [list(rows[0]), *([_shown(cell) for cell in row.values()] for row in rows)]
            for title, rows in self.tables.items()
            if rows
        }

    def __str__(self) -> str:
        parts = []
        for title, (header, *rows) in self.texts().items():
            words = {column for column, name in enumerate(header) if isinstance(self.tables[title][0][name], str)}
            parts.append("\n".join([title, *align_columns(header, rows, left=words)]))
        if self.confusion is not None and len(self.confusion.labels) <= _MOST_CLASSES:
            parts.insert(1, str(self.confusion))
        return "\n\n".join([*parts, *(["\n".join(self.notes)] if self.notes else [])])

    def markdown(self) -> str:
        """The first table and the notes, for a model card."""
        tables = [
            format_table(list(map(escape_markdown, header)), [list(map(escape_markdown, row)) for row in rows])
            for header, *rows in list(self.texts().values())[:1]
        ]
        return "\n\n".join([*tables, *map(escape_markdown, self.notes)])


def make_report(task: "Task", rows: Rows) -> Report:
    """The report on predictions of a task; see ``Task.report``."""
    kind = "scores" if task.is_regression else "spans" if "span_f1" in task.metrics else task.answer
    return _REPORTS[kind](rows) if kind in _REPORTS else Report({})


def _report_labels(rows: Rows) -> Report:
    gold, predicted = ([str(row[key]) for row in rows] for key in ("gold", "predicted"))
    mistakes = [
        {
            "probability": row.get("scores", {}).get(row["predicted"]),
            "gold": row["gold"],
            "predicted": row["predicted"],
            "example": row["id"],
            "text": _join(row),
        }
        for row in rows
        if row["gold"] != row["predicted"]
    ]
    mistakes.sort(key=lambda mistake: -(mistake["probability"] or 0))
    return _report_classes("class", gold, predicted, noun="examples", more={"surest mistakes": mistakes[:_SHOWN]})


def _report_several(rows: Rows) -> Report:
    """For answers of any number of labels: a row for each label, and the decisions that are most surely wrong."""
    pairs = [(set(split_labels(row["gold"])), set(split_labels(row["predicted"]))) for row in rows]
    right, in_gold, in_predicted = (
        Counter(label for pair in pairs for label in choose(pair))
        for choose in (lambda pair: pair[0] & pair[1], lambda pair: pair[0], lambda pair: pair[1])
    )
    counts = {label: (right[label], in_gold[label], in_predicted[label]) for label in sorted(in_gold | in_predicted)}
    mistakes = [
        {
            "probability": row.get("scores", {}).get(label),
            "label": label,
            "mistake": "missing" if label in gold else "wrong",
            "example": row["id"],
            "text": _join(row),
        }
        for row, (gold, predicted) in zip(rows, pairs, strict=True)
        for label in sorted(gold ^ predicted)
    ]
    mistakes.sort(key=lambda mistake: -abs((mistake["probability"] or 0) - 0.5))
    tables = {"by label": [*_rates("label", counts), *_averages("label", counts)], "surest mistakes": mistakes[:_SHOWN]}
    absent = [f"{label} ({in_gold[label]:,} of {len(rows):,} examples)" for label in counts if not in_predicted[label]]
    return Report(tables, (f"never predicted: {', '.join(absent)}",) if absent else ())


def _report_tags(rows: Rows) -> Report:
    gold, predicted = ([tag for row in rows for tag in str(row[key]).split()] for key in ("gold", "predicted"))
    return _report_classes("tag", gold, predicted, noun="words", more=_worst_sentences(rows))


def _report_classes(
    name: str, gold: Sequence[str], predicted: Sequence[str], *, noun: str, more: Mapping[str, Any]
) -> Report:
    pairs = Counter(zip(gold, predicted, strict=True))
    in_gold, in_predicted = Counter(gold), Counter(predicted)
    labels = sorted(in_gold | in_predicted)
    counts = {label: (pairs[label, label], in_gold[label], in_predicted[label]) for label in labels}
    confusion = Confusion(tuple(labels), tuple(tuple(pairs[row, column] for column in labels) for row in labels))
    tables: dict[str, Any] = {f"by {name}": [*_rates(name, counts), *_averages(name, counts)], **more}
    if len(labels) > _MOST_CLASSES:
        tables["most frequent confusions"] = [
            {"count": count, "gold": row, "predicted": column} for count, row, column in confusion.pairs()[:_SHOWN]
        ]
    absent = [f"{label} ({in_gold[label]:,} of {len(gold):,} {noun})" for label in labels if not in_predicted[label]]
    return Report(tables, (f"never predicted: {', '.join(absent)}",) if absent else (), confusion)


def _report_spans(rows: Rows) -> Report:
    pairs = [(str(row["gold"]).split(), str(row["predicted"]).split()) for row in rows]
    scheme = recognise_scheme({tag for pair in pairs for tags in pair for tag in tags})
    counts = [Counter[str](), Counter[str](), Counter[str]()]
    for pair in pairs:
        gold, predicted = (set(scheme.find_spans(tags)) for tags in pair)
        for counter, spans in zip(counts, (gold & predicted, gold, predicted), strict=True):
            counter.update(label or "span" for _, _, label in spans)
    right, in_gold, in_predicted = counts
    each = {label: (right[label], in_gold[label], in_predicted[label]) for label in sorted(in_gold | in_predicted)}
    absent = [f"{label} ({count:,} spans)" for label, count in in_gold.items() if not in_predicted[label]]
    tables = {"by type of span": [*_rates("type", each), *_averages("type", each)], **_worst_sentences(rows)}
    return Report(tables, (f"never predicted: {', '.join(absent)}",) if absent else ())


def _report_trees(rows: Rows) -> Report:
    lengths = [Counter[str](), Counter[str](), Counter[str]()]
    relations, trees = (Counter[tuple[str, bool]]() for _ in range(2))
    for row in rows:
        gold, predicted = ([int(head) for head in str(row[key]).split()] for key in ("gold", "predicted"))
        is_right = [head == answer for head, answer in zip(gold, predicted, strict=True)]
        trees.update(("projective" if DependencyTree(gold).is_projective else "non-projective", ok) for ok in is_right)
        relations.update(zip(str(row.get("relations", "")).split(), is_right, strict=False))
        for position, (head, answer) in enumerate(zip(gold, predicted, strict=True), start=1):
            lengths[0][_name_length(position, head)] += head == answer
            lengths[1][_name_length(position, head)] += 1
            lengths[2][_name_length(position, answer)] += 1
    names = ["root", *(_name_length(0, length) for length in _LENGTHS)]
    counts = {name: (lengths[0][name], lengths[1][name], lengths[2][name]) for name in names if lengths[1][name]}
    tables = {
        "by relation": _shares("relation", relations),
        "by length of the arc": _rates("length", counts),
        "by tree": _shares("tree", trees),
        **_worst_sentences(rows),
    }
    return Report(tables)


def _report_scores(rows: Rows) -> Report:
    gold, predicted = (np.asarray([row[key] for row in rows], dtype=float) for key in ("gold", "predicted"))
    residuals = predicted - gold
    edges = np.linspace(gold.min(), gold.max(), 6)
    bins = np.clip(np.searchsorted(edges, gold, side="right") - 1, 0, 4)
    parts = {f"{edges[number]:.3g} to {edges[number + 1]:.3g}": bins == number for number in range(5)}
    table: list[dict[str, Cell]] = [
        {
            "gold score": name,
            "mean predicted": float(predicted[part].mean()),
            "mean residual": float(residuals[part].mean()),
            "mean absolute residual": float(np.abs(residuals[part]).mean()),
            "root mean square": math.sqrt(float((residuals[part] ** 2).mean())),
            "support": int(part.sum()),
        }
        for name, part in {**parts, "all": np.ones(len(gold), dtype=bool)}.items()
        if part.any()
    ]
    largest: list[dict[str, Cell]] = [
        {
            "residual": float(residuals[index]),
            "gold": float(gold[index]),
            "predicted": float(predicted[index]),
            "example": rows[index]["id"],
            "text": _join(rows[index]),
        }
        for index in np.argsort(-np.abs(residuals), kind="stable")[:_SHOWN].tolist()
    ]
    return Report({"residuals, predicted minus gold": table, "largest residuals": largest})


_REPORTS: Mapping[str, Callable[[Rows], Report]] = {
    "label": _report_labels,
    "labels": _report_several,
    "tags": _report_tags,
    "spans": _report_spans,
    "tree": _report_trees,
    "scores": _report_scores,
}
"""From each kind of answer to the report on it; other answers, such as translations, have an empty one."""


def _rates(name: str, counts: Mapping[str, tuple[int, int, int]]) -> list[dict[str, Cell]]:
    """A row for each label, from the numbers of right, gold and predicted answers."""
    return [{name: label, **_measure(*row), "support": row[1], "predicted": row[2]} for label, row in counts.items()]


def _averages(name: str, counts: Mapping[str, tuple[int, int, int]]) -> list[dict[str, Cell]]:
    each = [(_measure(*row), row[1]) for row in counts.values()]
    _, support, predicted = totals = tuple(map(sum, zip(*counts.values(), strict=True))) or (0, 0, 0)
    rates = {
        "macro average": _mean((measures, 1) for measures, _ in each),
        "weighted average": _mean(each),
        "micro average": _measure(*totals),
    }
    return [{name: title, **measures, "support": support, "predicted": predicted} for title, measures in rates.items()]


def _measure(right: int, gold: int, predicted: int) -> dict[str, float]:
    pairs = {"precision": (right, predicted), "recall": (right, gold), "F1": (2 * right, gold + predicted)}
    return {name: above / below if below else 0.0 for name, (above, below) in pairs.items()}


def _mean(weighted: Iterable[tuple[Mapping[str, float], int]]) -> dict[str, float]:
    rows = list(weighted)
    total = sum(weight for _, weight in rows) or 1
    return {name: sum(row[name] * weight for row, weight in rows) / total for name in ("precision", "recall", "F1")}


def _shares(name: str, counts: Counter[tuple[str, bool]]) -> list[dict[str, Cell]]:
    """The share of words with the right head, for each of these names."""
    support = Counter[str]()
    for (label, _), count in counts.items():
        support[label] += count
    return [
        {name: label, "right": counts[label, True] / number, "support": number}
        for label, number in support.most_common()
    ]


def _worst_sentences(rows: Rows) -> dict[str, list[dict[str, Cell]]]:
    """The sentences in which most words are answered wrongly."""
    table: list[dict[str, Any]] = []
    for row in rows:
        pairs = list(zip(str(row["gold"]).split(), str(row["predicted"]).split(), strict=False))
        wrong = sum(gold != answer for gold, answer in pairs)
        table.append({"wrong": wrong, "words": len(pairs), "example": row["id"], "text": _join(row)})
    table.sort(key=lambda row: -row["wrong"])
    return {"sentences with most mistakes": [row for row in table[:_SHOWN] if row["wrong"]]}


def _name_length(position: int, head: int) -> str:
    if position and not head:
        return "root"
    index = bisect.bisect_right(_LENGTHS, abs(head - position)) - 1
    if index + 1 == len(_LENGTHS):
        return f"{_LENGTHS[index]}+"
    last = _LENGTHS[index + 1] - 1
    return str(last) if last == _LENGTHS[index] else f"{_LENGTHS[index]}–{last}"


def _join(row: Mapping[str, Any]) -> str:
    return " / ".join(row.get("texts", ()))[:_LONGEST]


def _shown(cell: Cell) -> str:
    if isinstance(cell, float):
        return f"{cell:.3f}" if not 0 < abs(cell) < 0.0005 else f"{cell:.0e}"
    text = "" if cell is None else " ".join(str(cell).split())
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"
