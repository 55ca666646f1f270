"""Lanes: how much one must open to follow one thing. ``python tests/lanes.py`` prints them beside their budgets.

The budgets are the table of ``CONTRIBUTING.md``.
"""

import re
from pathlib import Path
from typing import NamedTuple

import import_graph
from import_graph import Size

GUIDE = Path(__file__).parent.parent / "CONTRIBUTING.md"
#: A row of the table of budgets: what is followed, its module, files and lines at most.
_ROW = re.compile(r"\| (?P<name>[^|]+) \| `(?P<module>structattn[\w.]+)` \| (?P<files>[\d,]+) \| (?P<lines>[\d,]+) \|")


class Lane(NamedTuple):
    """One thing that people follow through the code, and what it may cost them."""

    name: str
    module: str
    budget: Size

    @property
    def size(self) -> Size:
        """Files and lines of everything that its module imports."""
        return import_graph.size(import_graph.closure(self.module))


def read_lanes() -> list[Lane]:
    """The lanes and their budgets, from the table of the guide."""
    rows = _ROW.finditer(GUIDE.read_text(encoding="utf-8"))
    return [Lane(row["name"], row["module"], Size(_number(row["files"]), _number(row["lines"]))) for row in rows]


def _number(text: str) -> int:
    return int(text.replace(",", ""))


def main() -> None:
    print(f"{'lane':34}{'files':>12}{'lines':>16}   without its heaviest modules it would lose (files, lines)")
    for lane in read_lanes():
        size = lane.size
        heaviest = "; ".join(
            f"{weight.module.removeprefix('structattn.')} ({weight.size.files}, {weight.size.lines:,})"
            for weight in import_graph.heaviest(lane.module)
        )
        over = any(has > may for has, may in zip(size, lane.budget, strict=True))
        files, lines = f"{size.files}/{lane.budget.files}", f"{size.lines:,}/{lane.budget.lines:,}"
        print(f"{lane.name.replace('`', ''):34}{files:>12}{lines:>16}{' OVER' * over}   {heaviest}")


if __name__ == "__main__":
    main()
