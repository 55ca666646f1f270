"""Tables as plain text, and arbitrary text inside Markdown: it stays plain text, on one line, whatever it contains."""

import re
from collections.abc import Collection, Iterable, Sequence

_SIGNS = re.compile(r"[\\`*_|<>\[\]&#~$]")


def escape_markdown(text: object, *, width: int | None = None) -> str:
    """An object as text without markup, HTML, formulas, line breaks or table cells, truncated to a width."""
    plain = "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in " ".join(str(text).split()))
    if width is not None and len(plain) > width:
        plain = f"{plain[: width - 1]}…"
    return _SIGNS.sub(r"\\\g<0>", plain)


def fence_code(text: str, language: str) -> str:
    """A block of code with a fence longer than any in the text."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def format_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are Markdown already."""
    head, *body = (f"| {' | '.join(line)} |" for line in (header, *rows))
    return "\n".join([head, f"|{'---|' * len(header)}", *body])


def align_columns(header: Sequence[str], rows: Sequence[Sequence[str]], *, left: Collection[int] = (0,)) -> list[str]:
    """Lines of a table: the columns ``left``, of names, are flush left, the others flush right."""
    widths = [max(len(cell) for cell in column) for column in zip(header, *rows, strict=True)]
    filled = [
        [
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        for row in (header, *rows)
    ]
    return ["  ".join(cells).rstrip() for cells in filled]
