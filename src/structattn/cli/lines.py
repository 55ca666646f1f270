"""Results as tables and rows of figures for a terminal."""

from collections.abc import Collection, Mapping, Sequence


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, left: Collection[int] = (0,)) -> list[str]:
    """Lines of a table: columns of names flush left, the others flush right.

    Args:
        header: the names of the columns.
        rows: the cells.
        left: the columns that are flush left.

    Example:
        >>> print("\\n".join(table(["encoder", "accuracy"], [["ms_san", "0.91"], ["disan", "0.9"]])))
        encoder  accuracy
        ms_san       0.91
        disan         0.9
    """
    widths = [max(len(cell) for cell in column) for column in zip(header, *rows, strict=True)]
    filled = [
        [
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        for row in (header, *rows)
    ]
    return ["  ".join(cells).rstrip() for cells in filled]


def figures(values: Mapping[str, float]) -> str:
    """Named figures in one line; counts have no decimals.

    Example:
        >>> figures({"accuracy": 0.5, "macro_f1": 1 / 3, "unseen_labels": 7})
        'accuracy 0.5000  macro_f1 0.3333  unseen_labels 7'
    """
    shown = {name: f"{value}" if isinstance(value, int) else f"{value:.4f}" for name, value in values.items()}
    return "  ".join(f"{name} {value}" for name, value in shown.items())
