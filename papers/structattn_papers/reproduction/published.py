"""Published results beside the results measured here: claims, rows and their verdicts on the reproduction page.

``papers/<system>/published.yaml`` lists what a paper claims, and the rows of its tables and its figures::

    paper: "Shen et al. 2018, DiSAN"
    claims:
      - {claim: above Bi-LSTM with source2token on SST-5, published: "51.7 to 50.0", ours: disan/sst5-disan,
         over: disan/sst5-bilstm_s2t}
    tables:
      - title: SNLI
        measured: test
        differs: measured on dev
        other: a hundredth of the training pairs
        rows:
          - {row: DiSAN, published: 85.62, ours: disan/snli-disan, tried: vectors of two sizes}
          - {row: LSTM, published: 80.6, quoted: true}
          - {row: BERT, published: 85.7, needs: BERT-base}
          - {row: figure 6, drawn: figures.md}
        missing: seconds of an epoch

``differs`` says how the data and the setting differ from the paper's; ``other`` names a difference of data, generator,
backbone or construction that leaves nothing to compare, so that the row gets no verdict. Values that were not read in
the paper itself are ``recalled``. ``ours`` may be a list of rows, for an average over them; ``beside`` names a metric
that is shown next to the compared one. Claims are described in ``claims.py``.
"""

import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from structattn.errors import ConfigError
from structattn.files.json_yaml import read_yaml
from structattn.options.checking import suggest
from structattn_papers.reproduction.claims import CLAIM_KEYS, WORDS, claim_table, judge
from structattn_papers.reproduction.figures import Figure, figure, legend, marks_of
from structattn_papers.reproduction.intervals import half_width, interval, seed_interval, seed_means
from structattn_papers.reproduction.reading import MAX_VALUES
from structattn_papers.reproduction.records import ANSWERED, Recorded
from structattn_papers.reproduction.tables import NONE, Evidence

PUBLISHED = "published.yaml"
MARGINS: Mapping[str, float] = {
    "accuracy": 0.01,
    "exact_match": 0.01,
    "f1": 0.01,
    "correct_prefix": 0.01,
    "pearson": 0.01,
    "spearman": 0.01,
    "mean_squared_error": 0.01,
    "bleu": 0.5,
}
"""How far below a published value, or above an error, a mean may lie and still count as equal, by measure."""
REPRODUCED, RECALLED, INCONCLUSIVE, LOWER, INCOMPARABLE, MEASURED, MISSING, WAITING, QUOTED, DRAWN = (
    "reproduced",
    "as recalled",
    "inconclusive",
    "lower",
    "not comparable",
    "measured",
    "cannot be run here",
    "not run yet",
    "quoted",
    "drawn",
)
MEANING: Mapping[str, str] = {
    REPRODUCED: "our mean is at most one margin below the published value, and our interval excludes three margins",
    RECALLED: "the same, but the published value was recalled and not read in the paper: not counted as reproduced",
    INCONCLUSIVE: "neither reproduced nor lower; the note says how many seeds would settle it, if seeds can",
    LOWER: "our whole interval is more than one margin below the published value; the note says what was tried",
    INCOMPARABLE: "other data, generator, backbone or construction, as named: the value is shown, without verdict",
    MEASURED: "an additional row that is not in the paper",
    MISSING: "the data or pretrained model named in the note is not available here",
    WAITING: "a configuration exists, but there is no record yet",
    QUOTED: "the paper quotes it from other work; it was not run for this table",
    DRAWN: "a figure without numbers of its own, drawn by a command on the linked page",
}

_MOST_SEEDS = 1_000
_DEFAULTS = {"metric": "accuracy", "scale": 100, "digits": 1}
_TABLE_KEYS = {"title", "rows", "measured", "differs", "other", "recalled", "tried", "missing", *_DEFAULTS, "lowest"}
_TABLE_KEYS |= {"beside"}
_ROW_KEYS = {"row", "published", "ours", "quoted", "needs", "drawn"} | (_TABLE_KEYS - {"title", "rows", "missing"})


@dataclass(frozen=True)
class Verdict:
    """The verdict on a published row.

    Attributes:
        name: a key of ``MEANING``.
        note: what was tried, which data are missing, how many seeds would settle it, where it is drawn.
        value: our value as it is printed, with its deviation and seeds.
        interval: its 95 % interval.
    """

    name: str
    note: str = ""
    value: str = NONE
    interval: str = NONE


@dataclass(frozen=True)
class _Measured:
    """Our side of a row: its figure, its 95 % interval and, for a share of answers, the number of examples."""

    figure: Figure
    bounds: tuple[float, float] | None
    examples: int | None

    def bounded(self, count: int, scale: float) -> tuple[float, float] | None:
        """The interval that ``count`` seeds with the same mean and deviation would have."""
        half = half_width([value / scale for value in self.figure.values], self.examples, count=count)
        middle = mean(self.figure.values)
        return None if half is None else (middle - half * scale, middle + half * scale)


def verdict(entry: Mapping[str, Any], evidence: Evidence, place: str) -> Verdict:
    """The verdict on a published row.

    Args:
        entry: the row, with the defaults of its table.
        evidence: the records.
        place: name of the row in errors.

    Raises:
        ConfigError: if the row does not say what it is compared with, names an unknown row, or has a published value
            of a measure without a margin.
    """
    if entry.get("drawn"):
        return Verdict(DRAWN, f"[page]({entry['drawn']})")
    if entry.get("quoted"):
        return Verdict(QUOTED)
    if not entry.get("ours"):
        if not entry.get("needs"):
            raise ConfigError(f"{place}: expected ours, needs, quoted or drawn: no row without a verdict")
        return Verdict(MISSING, f"needs {entry['needs']}")
    measured = _measure(entry, evidence, place)
    if measured is None:
        return Verdict(WAITING)
    name, note = _judge(entry, measured, place)
    digits, bounds = entry["digits"], measured.bounds
    text = NONE if bounds is None else f"{bounds[0]:.{digits}f} to {bounds[1]:.{digits}f}"
    value = measured.figure.text(digits)
    if entry.get("beside") and (beside := _measure({**entry, "metric": entry["beside"]}, evidence, place)) is not None:
        value += f" / {beside.figure.text(digits)}"
    return Verdict(name, note, value, text)


def _measure(entry: Mapping[str, Any], evidence: Evidence, place: str) -> _Measured | None:
    metric, scale = entry["metric"], entry["scale"]
    names = [entry["ours"]] if isinstance(entry["ours"], str) else entry["ours"]
    rows = [evidence.of(name, place) for name in names]
    if len(rows) > 1:
        values = seed_means(rows, metric)
        if not values:
            return None
        shown = Figure(tuple(value * scale for value in values), None, marks_of(rows))
        return _Measured(shown, seed_interval(shown.values), None)
    result = rows[0]
    alone = figure(result, metric, scale)
    if result is None or alone is None:
        return None
    return _Measured(alone, interval(result, metric, scale), _answered(result, metric))


def _answered(result: Recorded, metric: str) -> int | None:
    return result.records[0].examples if metric in ANSWERED else None


def _judge(entry: Mapping[str, Any], measured: _Measured, place: str) -> tuple[str, str]:
    """The name of the verdict on a measured row, and its note."""
    published = _number(entry.get("published"))
    if published is None:
        return MEASURED, ""
    if entry.get("other"):
        return INCOMPARABLE, str(entry["other"])
    margin = _margin(entry["metric"], place) * entry["scale"]
    sign = -1 if entry.get("lowest") else 1
    decided = _decide(sign * published, margin, sign * mean(measured.figure.values), _signed(measured.bounds, sign))
    if decided == LOWER:
        return LOWER, f"tried {entry['tried']}" if "tried" in entry else ""
    if decided == INCONCLUSIVE:
        return INCONCLUSIVE, _settling(measured, entry, sign, published, margin)
    return (RECALLED if entry.get("recalled") else REPRODUCED), ""


def _decide(published: float, margin: float, middle: float, bounds: tuple[float, float] | None) -> str:
    """The rule for measures of which more is better: the others come with the sign changed."""
    if bounds is None:
        return INCONCLUSIVE
    if middle >= published - margin and bounds[0] >= published - 3 * margin:
        return REPRODUCED
    return LOWER if bounds[1] < published - margin else INCONCLUSIVE


def _settling(measured: _Measured, entry: Mapping[str, Any], sign: int, published: float, margin: float) -> str:
    """How many seeds of the same mean and deviation would lead to another verdict."""
    middle = sign * mean(measured.figure.values)
    if len(measured.figure.values) < 2:
        return "a single run: its deviation is not known"
    for count in range(len(measured.figure.values), _MOST_SEEDS + 1):
        bounds = _signed(measured.bounded(count, entry["scale"]), sign)
        if _decide(sign * published, margin, middle, bounds) != INCONCLUSIVE:
            return f"{count} seeds would settle it"
    if measured.examples is not None:
        return f"more seeds do not settle it: {measured.examples:,} examples are too few"
    return f"more than {_MOST_SEEDS:,} seeds would be needed"


def _signed(bounds: tuple[float, float] | None, sign: int) -> tuple[float, float] | None:
    return bounds if bounds is None or sign > 0 else (-bounds[1], -bounds[0])


def _margin(metric: str, place: str) -> float:
    name = metric.removeprefix("dev_")
    known = next((margin for key, margin in MARGINS.items() if name == key or name.startswith(f"{key}_")), None)
    if known is None:
        raise ConfigError(f"{place}: no margin is stated for {metric!r}; known: {', '.join(MARGINS)}")
    return known


def reproduction_page(papers: str | os.PathLike[str] = "papers", evidence: Evidence | None = None) -> str:
    """The reproduction page: what every paper claims, counts, and the published rows with their verdicts.

    Raises:
        ConfigError: for an unknown key or row, a row without a verdict, or a record that two rows show.
    """
    evidence = Evidence(papers) if evidence is None else evidence
    counted: Counter[str] = Counter()
    words: Counter[tuple[bool, str]] = Counter()
    shown: dict[tuple[str, str], str] = {}
    claims: list[str] = []
    parts: list[str] = []
    for file in sorted(Path(papers).glob(f"*/{PUBLISHED}")):
        values = read_yaml(file, max_values=MAX_VALUES)
        judged = []
        for number, claim in enumerate(values.get("claims", ()), 1):
            place = f"{file}: claim {number}"
            _check_keys(claim, CLAIM_KEYS, place)
            judged.append((claim, judge({**_DEFAULTS, **claim}, evidence, place)))
        words.update((bool(claim.get("control")), result.word) for claim, result in judged)
        claims += [claim_table(values["paper"], judged)] if judged else []
        parts.append(f"## {values['paper']}")
        for table in values["tables"]:
            _check_keys(table, _TABLE_KEYS, f"{file}: {table.get('title')}")
            results = []
            for row in table["rows"]:
                place = f"{file}: {table['title']}: {row.get('row')}"
                _check_keys(row, _ROW_KEYS, place)
                entry = {**_DEFAULTS, **{name: value for name, value in table.items() if name != "rows"}, **row}
                _check_unique(entry, shown, place)
                results.append((entry, verdict(entry, evidence, place)))
            counted.update(result.name for _, result in results)
            parts.append(_table(table, results))
    return "\n\n".join([_head(counted, words, claims), *parts]) + "\n"


_HEAD = """# Reproduction: claims, and row by row

Generated from `papers/*/published.yaml` and the records of runs by `make tables`. Published values are on the split
that each table names, most on test; ours are on development data, because test splits stay untouched. First
[what the papers claim](#what-the-papers-claim), then [their rows](#verdicts-on-rows); in numbers:"""
_CLAIMS = """## What the papers claim

Each claim is a difference between two systems; among them is the strongest baseline of the paper's own that was run
here. *Holds* means that the 95 % interval of our difference lies above zero, *reversed* that it lies below, and *does
not hold* that it contains zero: no difference is shown either way. Intervals are a paired bootstrap over seeds and the
same examples, or Welch's t over seeds alone, marked *t*, where records do not keep the answer to each example. A
*control* is a comparison that the paper does not print. What holds here holds on the data and at the sizes of the
rows, which are mostly smaller than the paper's."""
_ROWS = """## Verdicts on rows

A row is one record here beside one row of the paper; values on dev and on test stand in one row. Ours are mean ±
standard deviation (number of seeds). Intervals are 95 %, over examples and seeds for accuracy and exact match, and over
seeds for other measures. The margins, where 0.01 is a point of a percentage, are {margins}. *Recalled* values were not
read in the paper itself: do not cite them. What a paper quotes from other work is listed below a table, as is what its
tables have and this page does not."""


def _head(counted: Mapping[str, int], words: Mapping[tuple[bool, str], int], claims: Sequence[str]) -> str:
    lines = ["| verdict | rows | meaning |", "|---|---|---|"]
    lines += [f"| {name} | {counted[name]} | {meaning} |" for name, meaning in MEANING.items()]
    lines.append(f"| all | {sum(counted.values())} | |")
    verdicts = "\n".join(lines)
    sizes = sorted(set(MARGINS.values()))
    margins = "; ".join(
        f"{size:g} for {', '.join(name for name in MARGINS if MARGINS[name] == size)}" for size in sizes
    )
    tally = ["| here it | claims | controls |", "|---|---|---|"]
    tally += [f"| {word} | {words[False, word]} | {words[True, word]} |" for word in WORDS]
    head = [_HEAD, "\n".join(tally), verdicts, _CLAIMS, *claims] if claims else [_HEAD, verdicts]
    return "\n\n".join([*head, _ROWS.format(margins=margins)])


def _table(table: Mapping[str, Any], results: Sequence[tuple[Mapping[str, Any], Verdict]]) -> str:
    told = [f"Published on {table['measured']}."] if table.get("measured") else []
    told += [f"Here: {table['differs']}."] if table.get("differs") else []
    told += [
        f"{entry['row']}: {entry['differs']}." for entry, _ in results if entry.get("differs") != table.get("differs")
    ]
    reasons = {result.note for entry, result in results if result.name == INCOMPARABLE}
    shared = reasons.pop() if len(reasons) == 1 else None
    told += [f"Not comparable: {shared}."] if shared else []
    lines = [_line(entry, result, shared) for entry, result in results if result.name not in (QUOTED, DRAWN)]
    columns = ["| row | published | ours | 95 % interval | row here | verdict |", "|---|---|---|---|---|---|"]
    quoted = [f"{entry['row']} {_published(entry)}" for entry, result in results if result.name == QUOTED]
    drawn = [f"- {entry['row']}{_of(entry)}: {result.note}" for entry, result in results if result.name == DRAWN]
    text = [f"### {table['title']}", *([" ".join(told)] if told else [])]
    text += ["\n".join([*columns, *lines])] if lines else []
    text += ["\n".join(drawn)] if drawn else []
    text += [f"Quoted by the paper: {'; '.join(quoted)}."] if quoted else []
    text += [f"Not listed: {table['missing']}."] if table.get("missing") else []
    return "\n\n".join([*text, *legend("\n".join(lines))])


def _line(entry: Mapping[str, Any], result: Verdict, shared: str | None) -> str:
    note = f": {result.note}" if result.note and result.note != shared else ""
    names = [entry["ours"]] if isinstance(entry.get("ours"), str) else entry.get("ours", ())
    row = ", ".join(f"`{name}`" for name in names[:1]) + (f" and {len(names) - 1} more" if len(names) > 1 else "")
    cells = (entry["row"], _published(entry), result.value, result.interval, row or NONE, f"{result.name}{note}")
    return f"| {' | '.join(cells)} |"


def _published(entry: Mapping[str, Any]) -> str:
    value = entry.get("published")
    if value is None:
        return NONE
    text = value if isinstance(value, str) else f"{value:.{entry['digits']}f}"
    return f"*{text}, recalled*" if entry.get("recalled") else text


def _of(entry: Mapping[str, Any]) -> str:
    return f", published {_published(entry)}" if entry.get("published") is not None else ""


def _number(published: float | int | str | None) -> float | None:
    """A published value; the first one if a cell has several."""
    return float(published.split(" ")[0]) if isinstance(published, str) else published


def _check_unique(entry: Mapping[str, Any], shown: dict[tuple[str, str], str], place: str) -> None:
    """A record stands for one row of one table."""
    for name in [entry["ours"]] if isinstance(entry.get("ours"), str) else ():
        key = (name, entry["metric"])
        if key in shown:
            raise ConfigError(f"{place}: {name!r} is shown already in {shown[key]}: one record stands for one row")
        shown[key] = place


def _check_keys(values: Mapping[str, Any], known: Collection[str], place: str) -> None:
    if unknown := [key for key in values if key not in known]:
        raise ConfigError(f"{place}: unknown key {unknown[0]!r}{suggest(unknown[0], known)}")
