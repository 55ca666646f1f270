"""Faults of single items among many, such as a row of a table: they end the reading, or are collected."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from structattn.errors import StructAttnError

_refused: ContextVar[list[StructAttnError] | None] = ContextVar("refused", default=None)


@contextmanager
def collecting_faults() -> Iterator[list[StructAttnError]]:
    """In the block, what is wrong with single items of a file is added to a list, and readers go on with the next."""
    faults: list[StructAttnError] = []
    token = _refused.set(faults)
    try:
        yield faults
    finally:
        _refused.reset(token)


def refuse_item(error: StructAttnError) -> None:
    """Raise what is wrong with one item among many, unless ``collecting_faults``."""
    faults = _refused.get()
    if faults is None:
        raise error
    faults.append(error)
