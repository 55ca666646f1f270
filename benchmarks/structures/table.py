"""Results in Markdown: milliseconds and megabytes of ours and of each peer, and how many times better ours are."""

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks import markdown
from benchmarks.structures.contest import Result

OURS = "structattn"


def header(names: Sequence[str]) -> str:
    """The first two lines of the table of times."""
    return markdown.header(["row", "size", "mode", "threads", *names, "faster than the best peer", "exact to"])


def line(results: Sequence[Result], names: Sequence[str]) -> str:
    """One size and mode: ``median`` milliseconds, and in brackets the ratio to ours."""
    first = results[0]
    by_name = {result.name: result for result in results}
    ours = by_name[OURS].median
    peers = [r.median for name, r in by_name.items() if r.median is not None and not name.startswith(OURS)]
    ratio = f"{min(peers) / ours:.1f}x" if peers and ours else ""
    gaps = [result.difference for result in results if result.difference is not None and result.median is not None]
    size = ", ".join(map(str, first.size))
    cells = [_cell(by_name[name], ours) if name in by_name else "" for name in names]
    gap = f"{max(gaps):.0e}" if len(gaps) > 1 else ""
    return markdown.line([first.row, size, first.mode, first.threads, *cells, ratio, gap])


def memory_header(names: Sequence[str]) -> str:
    """The first two lines of the table of memory."""
    return markdown.header(["row", "size", "mode", *names, "less than the best torch peer"])


def memory_line(row: Mapping[str, Any], names: Sequence[str]) -> str:
    """One row, size and mode: megabytes, or why there are none."""
    weights: Mapping[str, float | str] = row["weights"]
    cells = [weights.get(name, "") for name in names]
    shown = [cell if isinstance(cell, str) else f"{cell:.1f}" for cell in cells]
    ours = weights[OURS]
    peers = [
        weight
        for name, weight in weights.items()
        if name != "SynJax" and not name.startswith(OURS) and not isinstance(weight, str)
    ]
    # Below a tenth of a megabyte pages decide.
    ratio = f"{min(peers) / max(ours, 0.1):.1f}x" if peers and not isinstance(ours, str) else ""
    return markdown.line([row["row"], ", ".join(map(str, row["size"])), row["mode"], *shown, ratio])


def _cell(result: Result, ours: float | None) -> str:
    if result.median is None:
        wrong = "" if result.difference is None else f" by {result.difference:.0e}"
        return result.note + wrong
    if result.name == OURS or not ours:
        return f"{result.median:.3g}"
    return f"{result.median:.3g} ({result.median / ours:.1f}x)"
