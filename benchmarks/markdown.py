"""Tables as they can be pasted into a page."""

from collections.abc import Sequence


def header(names: Sequence[str]) -> str:
    """The first two lines."""
    return f"{line(names)}\n|{'---|' * len(names)}"


def line(cells: Sequence[object]) -> str:
    """One line."""
    return f"| {' | '.join(map(str, cells))} |"
