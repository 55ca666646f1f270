"""Contenders take turns in one process, so that a busy machine slows all of them alike."""

import statistics
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

Name = TypeVar("Name")


def seconds(work: Callable[[], object], count: int = 1) -> float:
    """Seconds of one call, as a mean over repeats."""
    start = time.perf_counter()
    for _ in range(count):
        work()
    return (time.perf_counter() - start) / count


def medians(
    names: Sequence[Name], work: Callable[[Name, int], float], *, turns: int, warm: int = 2
) -> dict[Name, float]:
    """Median seconds of each contender; every turn begins with another one.

    ``work`` returns the seconds of a contender and turn; the ``warm`` first turns, numbered below zero, do not count.
    """
    times: dict[Name, list[float]] = {name: [] for name in names}
    for turn in range(-warm, turns):
        first = turn % len(names)
        for name in (*names[first:], *names[:first]):
            taken = work(name, turn)
            if turn >= 0:
                times[name].append(taken)
    return {name: statistics.median(taken) for name, taken in times.items()}
