"""Faults of single items among many, such as a row of a table: they end the reading, or are collected."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import TypeVar

from structattn.errors import ParseError, StructAttnError

_Item = TypeVar("_Item")
_Answer = TypeVar("_Answer")
_refused: ContextVar[list[StructAttnError] | None] = ContextVar("refused", default=None)


@contextmanager
def collecting_faults() -> Iterator[list[StructAttnError]]:
    """In the block, what is wrong with single items of a file is added to a list, and readers go on with the next."""
    faults: list[StructAttnError] = []
    with _noting(faults):
        yield faults


def raising_faults() -> AbstractContextManager[None]:
    """In the block, what is wrong with one item is raised, for answers that must be as many as the items."""
    return _noting(None)


@contextmanager
def _noting(faults: list[StructAttnError] | None) -> Iterator[None]:
    token = _refused.set(faults)
    try:
        yield
    finally:
        _refused.reset(token)


def count_faults() -> int:
    """How many faults have been collected so far."""
    return len(_refused.get() or ())


def refuse_item(error: StructAttnError) -> None:
    """Raise what is wrong with one item among many, unless ``collecting_faults``."""
    faults = _refused.get()
    if faults is None:
        raise error
    faults.append(error.with_traceback(None))  # whose frames hold the item


def answer_each(answer: Callable[[_Item], _Answer], items: Iterable[_Item]) -> Iterator[_Answer]:
    """The answers to items; an item whose answer is an error is refused."""
    for item in items:
        try:
            result = answer(item)
        except StructAttnError as error:
            refuse_item(error)
        else:
            yield result


def read_rest(read: Callable[[], Iterable[_Item]]) -> Iterator[_Item]:
    """The items of one file among many, up to what is wrong with the file, which is refused."""
    try:
        yield from read()
    except ParseError as error:
        refuse_item(error)
