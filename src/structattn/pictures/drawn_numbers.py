"""Numbers for pictures: checked on entry, rounded for axes and labels."""

import math
from collections.abc import Iterable
from typing import Any, TypeAlias

# Run-time type checkers take ``float`` literally, and pictures are often given counts.
Number: TypeAlias = int | float
Matrix = list[list[Number | None]]


def matrix(values: Any, subject: str = "weights") -> Matrix:
    """Rows of floats from nested sequences, an array or a tensor; ``None`` and minus infinity become ``None``."""
    nested: Iterable[Iterable[Any]] = values.tolist() if hasattr(values, "tolist") else values
    rows = [
        [_value(cell, f"{subject}[{r}][{c}]") for c, cell in enumerate(to_list(row))] for r, row in enumerate(nested)
    ]
    for index, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise ValueError(f"row {index} of {subject} has {len(row)} values; expected {len(rows[0])} like row 0")
    return rows


def to_list(values: Any) -> list[Any]:
    """A plain list from a sequence, an array or a tensor."""
    return list(values.tolist() if hasattr(values, "tolist") else values)


def vector(values: Any, subject: str) -> list[Number]:
    """Finite floats from a sequence, an array or a tensor."""
    numbers = [float(value) for value in to_list(values)]
    for index, value in enumerate(numbers):
        if not math.isfinite(value):
            raise ValueError(f"{subject}[{index}] is {value}; expected a finite number")
    return numbers


def format_tick(value: Number) -> str:
    """A number for an axis or a colour bar, with a real minus sign."""
    # Adding zero turns -0.0 into 0.0.
    return _minus(f"{value + 0.0:.2g}" if abs(value) < 100 else f"{value:.0f}")


def format_value(value: Number, *, percent: bool = False, trim: bool = True) -> str:
    """A value to three significant digits, from 1,000 as a whole number, or as a percentage with one decimal.

    ``trim`` drops the decimal of a whole percentage, as on an axis, but not beside values that have one.
    """
    if percent:
        digits = f"{100 * value:.1f}"
        return _minus((digits.removesuffix(".0") if trim else digits) + "%")
    # Not 1e+03.
    return _minus(f"{value:,.0f}" if abs(value) >= 999.5 else f"{value:.3g}")


def _minus(digits: str) -> str:
    return digits.replace("-", "−")


def _value(cell: Any, where: str) -> Number | None:
    if cell is None:
        return None
    value = float(cell)
    if value == -math.inf:
        return None
    if not math.isfinite(value):
        raise ValueError(f"{where} is {value}; expected a finite number, or None where nothing is allowed")
    return value
