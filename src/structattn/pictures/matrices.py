"""Numbers on their way into a picture: nested lists, arrays and tensors become checked rows of floats.

A value is a finite number, or nothing: ``None`` and minus infinity both mean "not allowed" and are hatched.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from structattn.pictures.colours import Scale, scale_for
from structattn.pictures.numbers import Number

Matrix = list[list[Number | None]]


@dataclass(frozen=True)
class Panel:
    """One matrix with its words: a row is a query (it looks), a column is a key (it is looked at).

    Attributes:
        rows: a label for each row; may be empty if the rows have no names.
        columns: a label for each column; may be empty if the columns have no names.
        weights: the matrix, as nested sequences, an array or a tensor; ``None`` or minus infinity means "not allowed".
        title: what the matrix shows.
        marks: cells ``(row, column)`` to outline, for example the syntactic head of each word.

    Raises:
        ValueError: from the functions that draw it, if the sizes disagree or a value is NaN or plus infinity.

    Example:
        >>> Panel(["a", "b"], ["a", "b"], [[1, 0], [0.5, 0.5]], title="forward").title
        'forward'
    """

    rows: Sequence[str]
    columns: Sequence[str]
    weights: Any
    title: str = ""
    marks: Sequence[tuple[int, int]] = ()

    def matrix(self) -> Matrix:
        """The weights as checked rows of floats."""
        what = f"weights of {self.title!r}" if self.title else "weights"
        rows = matrix(self.weights, what)
        if self.rows and len(rows) != len(self.rows):
            raise ValueError(f"{what} have {len(rows)} rows; expected one for each of the {len(self.rows)} row labels")
        for index, row in enumerate(rows):
            if self.columns and len(row) != len(self.columns):
                raise ValueError(
                    f"row {index} of {what} has {len(row)} values; "
                    f"expected one for each of the {len(self.columns)} column labels"
                )
        for mark in self.marks:
            if not (0 <= mark[0] < len(rows) and 0 <= mark[1] < len(rows[0])):
                raise ValueError(f"mark {mark} lies outside {what}, which are {len(rows)} x {len(rows[0])}")
        return rows


def matrix(values: Any, what: str = "weights") -> Matrix:
    """Checked rows of floats from nested sequences, an array or a tensor.

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
    """Checked finite floats from a sequence, an array or a tensor.

    Raises:
        ValueError: if a value is not finite; the message names its place.
    """
    numbers = [float(value) for value in vector_of(values)]
    for index, value in enumerate(numbers):
        if not math.isfinite(value):
            raise ValueError(f"{what}[{index}] is {value}; expected a finite number")
    return numbers


def shared_scale(
    matrices: Iterable[Matrix],
    *,
    minimum: Number | None = None,
    maximum: Number | None = None,
    diverging: bool = False,
) -> Scale:
    """One scale for several matrices, so that equal colours mean equal values."""
    finite = [value for rows in matrices for row in rows for value in row if value is not None]
    return scale_for(finite, minimum=minimum, maximum=maximum, diverging=diverging)


def _value(cell: Any, where: str) -> Number | None:
    if cell is None:
        return None
    value = float(cell)
    if value == -math.inf:
        return None
    if not math.isfinite(value):
        raise ValueError(f"{where} is {value}; expected a finite number, or None where nothing is allowed")
    return value
