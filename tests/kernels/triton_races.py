"""Accesses of a Triton kernel to memory that no barrier orders; the interpreter, which has one thread, hides them.

Triton orders no accesses between the threads of a program by itself. Between two barriers, therefore, no cell may be
read or written that something else in the program writes; but a tile may be written to where it was read from. What
one program writes, no other program of the same launch may read or write.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest


class Races:
    """How many accesses lacked a barrier, or were to what another program of the launch wrote."""

    def __init__(self, *, barriers: bool, launches: bool) -> None:
        self.found = 0
        self._barriers, self._launches = barriers, launches
        self._program = 0
        self._users: dict[int, set[int]] = {}
        self._writers: dict[int, set[int]] = {}
        self._begin()

    def start(self, index: tuple[int, ...]) -> None:
        """A program starts, and with the first one a launch."""
        self._program += 1
        if not any(index) and self._launches:
            self._users, self._writers = {}, {}
        self._begin()

    def _begin(self) -> None:
        self._number = 0
        self._read: dict[int, set[int]] = {}
        self._written: dict[int, int] = {}
        self._tiles: list[list[int]] = []

    def pass_barrier(self) -> None:
        """What came before is ordered from now on."""
        if self._barriers:
            self._begin()

    def access(self, pointers: Any, mask: Any, *, writes: bool) -> None:
        """One access; cells where the mask is false are left alone."""
        cells = pointers.data[mask.data.astype(bool)].ravel().tolist()
        same = {number for number, tile in enumerate(self._tiles) if writes and tile == cells}
        for cell in cells:
            others = self._read.get(cell, set()) - same if writes else set()
            self.found += bool(others) or cell in self._written
            elsewhere = (self._users if writes else self._writers).get(cell, set()) - {self._program}
            self.found += bool(elsewhere)
        for cell in cells:
            self._users.setdefault(cell, set()).add(self._program)
            if writes:
                self._written[cell] = self._number
                self._writers.setdefault(cell, set()).add(self._program)
            else:
                self._read.setdefault(cell, set()).add(self._number)
        self._tiles.append(cells)
        self._number += 1


@contextmanager
def watched(*, barriers: bool = True, launches: bool = True) -> Iterator[Races]:
    """Watches all kernels in the interpreter; without barriers, as if there were none; or as if all were one launch."""
    from triton.runtime.interpreter import InterpreterBuilder

    races, patch = Races(barriers=barriers, launches=launches), pytest.MonkeyPatch()
    load, store = InterpreterBuilder.create_masked_load, InterpreterBuilder.create_masked_store
    place = InterpreterBuilder.set_grid_idx

    def watched_load(builder: Any, pointers: Any, mask: Any, *rest: Any) -> Any:
        races.access(pointers, mask, writes=False)
        return load(builder, pointers, mask, *rest)

    def watched_store(builder: Any, pointers: Any, value: Any, mask: Any, *rest: Any) -> Any:
        races.access(pointers, mask, writes=True)
        return store(builder, pointers, value, mask, *rest)

    def watched_place(builder: Any, *index: int) -> None:
        races.start(index)
        place(builder, *index)

    with patch.context() as patch:
        patch.setattr(InterpreterBuilder, "create_masked_load", watched_load)
        patch.setattr(InterpreterBuilder, "create_masked_store", watched_store)
        patch.setattr(InterpreterBuilder, "set_grid_idx", watched_place)
        patch.setattr(InterpreterBuilder, "create_barrier", lambda builder: races.pass_barrier())
        yield races
