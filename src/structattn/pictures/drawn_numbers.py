"""Numbers for pictures: checked on entry, rounded for axes and labels."""

import math
from collections.abc import Iterable
from typing import Any, TypeAlias

# Run-time type checkers take ``float`` literally, and pictures are often given counts.
Number: TypeAlias = int | float
Matrix = list[list[Number | None]]


def matrix(values: Any, what: str = "weights") -> Matrix:
    """Rows of floats from nested sequences, an array or a tensor; ``None`` and minus infinity become ``None``.

    Raises:
        ValueError: if rows differ in length or a value is NaN or plus infinity; the message names the cell.

    Example:
        >>> matrix([[1, None], [float("-inf"), 0]])
        [[1.0, None], [None, 0.0]]
    """
    nested: Iterable[Iterable[Any]] = values.tolist() if hasattr(values, "tolist") else values
    rows = [
        [_value(cell, f"{what}[{r}][{c}]") for c, cell in enumerate(vector_of(row))] for r, row in enumerate(nested)
    ]
    for index, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise ValueError(f"row {index} of {what} has {len(row)} values; expected {len(rows[0])} like row 0")
    return rows


def vector_of(values: Any) -> list[Any]:
    """A plain list from a sequence, an array or a tensor."""
    return list(values.tolist() if hasattr(values, "tolist") else values)


def vector(values: Any, what: str) -> list[Number]:
    """Finite floats from a sequence, an array or a tensor.

    Raises:
        ValueError: if a value is not finite; the message names its place.
    """
    numbers = [float(value) for value in vector_of(values)]
    for index, value in enumerate(numbers):
        if not math.isfinite(value):
            raise ValueError(f"{what}[{index}] is {value}; expected a finite number")
    return numbers


def tick(value: Number) -> str:
    """A number for an axis or a colour bar, with a real minus sign.

    Example:
        >>> tick(0.25), tick(-3.0), tick(0.123456)
        ('0.25', '−3', '0.12')
    """
    # Adding zero turns -0.0 into 0.0.
    return _minus(f"{value + 0.0:.2g}" if abs(value) < 100 else f"{value:.0f}")


def rounded(value: Number, *, percent: bool = False, trim: bool = True) -> str:
    """A value to three significant digits, from 1,000 as a whole number, or as a percentage with one decimal.

    Args:
        value: the value to show.
        percent: show it as a percentage.
        trim: drop the decimal of a whole percentage, as on an axis, but not beside values that have one.

    Example:
        >>> rounded(0.8562, percent=True), rounded(0.8562), rounded(-20.0), rounded(1500)
        ('85.6%', '0.856', '−20', '1,500')
    """
    if percent:
        digits = f"{100 * value:.1f}"
        return _minus((digits.removesuffix(".0") if trim else digits) + "%")
    # Not 1e+03.
    return _minus(f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}")


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
