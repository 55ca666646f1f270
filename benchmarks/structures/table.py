"""Results as one table in Markdown: milliseconds of ours, of each peer, and how many times faster we are."""

from collections.abc import Sequence

from benchmarks.structures.contest import Result

OURS = "structattn"


def header(names: Sequence[str]) -> str:
    """The first two lines."""
    columns = ["row", "size", "mode", "threads", *names, "faster than the best peer", "exact to"]
    return f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}"


def line(results: Sequence[Result], names: Sequence[str]) -> str:
    """One size and mode: ``median`` milliseconds, and in brackets the ratio to ours."""
    first = results[0]
    found = {result.name: result for result in results}
    ours = found[OURS].median
    peers = [r.median for name, r in found.items() if r.median is not None and not name.startswith(OURS)]
    ratio = f"{min(peers) / ours:.1f}x" if peers and ours else ""
    gaps = [result.difference for result in results if result.difference is not None and result.median is not None]
    size = ", ".join(map(str, first.size))
    cells = [_cell(found[name], ours) if name in found else "" for name in names]
    gap = f"{max(gaps):.0e}" if len(gaps) > 1 else ""
    return f"| {' | '.join([first.row, size, first.mode, str(first.threads), *cells, ratio, gap])} |"


def _cell(result: Result, ours: float | None) -> str:
    if result.median is None:
        wrong = "" if result.difference is None else f" by {result.difference:.0e}"
        return result.note + wrong
    if result.name == OURS or not ours:
        return f"{result.median:.3g}"
    return f"{result.median:.3g} ({result.median / ours:.1f}x)"
