"""What a paper claims, beside our difference between the same two systems.

A claim of ``papers/<system>/published.yaml`` names a row, ``ours``, and the row that it should be better than,
``over``; lists of rows stand for the mean over them. What cannot be measured names what it ``needs``. A ``control`` is
a comparison that the paper does not print.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from structattn.errors import ConfigError
from structattn_papers.reproduction.differences import mean_difference
from structattn_papers.reproduction.intervals import seed_difference, seed_means
from structattn_papers.reproduction.tables import NONE, Evidence

HOLDS, FAILS, REVERSED, UNMEASURED = "holds", "does not hold", "reversed", "not measured"
WORDS = (HOLDS, FAILS, REVERSED, UNMEASURED)
CLAIM_KEYS = {
    "claim",
    "control",
    "published",
    "recalled",
    "ours",
    "over",
    "needs",
    "metric",
    "scale",
    "digits",
    "lowest",
}


@dataclass(frozen=True)
class Judgement:
    """What our records say of a claim.

    Attributes:
        word: ``holds``, ``does not hold``, ``reversed`` or ``not measured``.
        difference: our difference as it is printed.
        interval: its 95 % interval.
        seeds: the numbers of seeds of both sides.
        note: what is needed to measure it.
    """

    word: str
    difference: str = NONE
    interval: str = NONE
    seeds: str = NONE
    note: str = ""


def judge(claim: Mapping[str, Any], evidence: Evidence, place: str) -> Judgement:
    """What our records say of a claim.

    Args:
        claim: the claim, with ``metric``, ``scale`` and ``digits``.
        evidence: the records.
        place: name of the claim in errors.

    Raises:
        ConfigError: if it names neither two rows nor what it needs, as many rows on one side as on the other, or an
            unknown row.
    """
    if claim.get("needs"):
        return Judgement(UNMEASURED, note=f"needs {claim['needs']}")
    first, second = _names(claim.get("ours")), _names(claim.get("over"))
    if not first or len(first) != len(second):
        raise ConfigError(f"{place}: expected ours and over, as many rows each, or needs")
    better = [evidence.of(name, place) for name in first]
    worse = [evidence.of(name, place) for name in second]
    pairs = [(ours, other) for ours, other in zip(better, worse, strict=True) if ours is not None and other is not None]
    if len(pairs) < len(first):
        return Judgement(UNMEASURED, note="needs runs of " + ", ".join(f"`{name}`" for name in (*first, *second)))
    metric, scale, digits = claim["metric"], claim["scale"], claim["digits"]
    tested = mean_difference(pairs, metric)
    values = [seed_means(side, metric) for side in (better, worse)]
    seeds = " and ".join(str(len(side)) for side in values)
    if tested is not None:
        difference, low, high, test = tested.difference, tested.low, tested.high, ""
    else:
        result = seed_difference(values[1], values[0])
        if result is None:
            return Judgement(UNMEASURED, seeds=seeds, note="needs two seeds of both")
        (difference, low, high), test = result, " *t*"
    sign = -1 if claim.get("lowest") else 1
    ends = sorted((sign * low, sign * high))
    word = HOLDS if ends[0] > 0 else REVERSED if ends[1] < 0 else FAILS
    return Judgement(
        word,
        f"{scale * difference:+.{digits}f}",
        f"{scale * low:.{digits}f} to {scale * high:.{digits}f}{test}",
        seeds,
    )


def claim_table(paper: str, judged: Sequence[tuple[Mapping[str, Any], Judgement]]) -> str:
    """The claims of a paper as a table under its name."""
    lines = [
        "| claim | published | our difference | 95 % interval | seeds | rows here | here it |",
        "|---|---|---|---|---|---|---|",
    ]
    for claim, result in judged:
        published = f"*{claim['published']}, recalled*" if claim.get("recalled") else claim.get("published", NONE)
        first, second = _names(claim.get("ours")), _names(claim.get("over"))
        more = f", and {len(first) - 1} more pairs" if len(first) > 1 else ""
        rows = f"`{first[0]}`, `{second[0]}`{more}" if first else NONE
        word = f"{result.word}: {result.note}" if result.note else f"**{result.word}**"
        text = f"control: {claim['claim']}" if claim.get("control") else claim["claim"]
        cells = (text, published, result.difference, result.interval, result.seeds, rows, word)
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n\n".join([f"### Claims: {paper}", "\n".join(lines)])


def _names(rows: Any) -> list[str]:
    return [rows] if isinstance(rows, str) else list(rows or ())
