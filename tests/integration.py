"""Which tests are no units: those that run a training or a command as users do, drive a browser, or start a process.

``make quick`` leaves them out, with the files that say ``pytestmark = pytest.mark.integration``.
"""

import functools
import multiprocessing.process
import platform
import subprocess
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest

from repository import ROOT

# What such a test mentions, in its own code or in that of a helper or a fixture that it uses: names, and the modules
# of functions.
MENTIONED = {
    *("chromium", "subprocess", "run_forked", "CONTEXT", "structattn.cli", "structattn.cli.program"),
    *(f"structattn.training.{name}" for name in ("run", "objects", "heads", "parser")),
}
TESTS = tuple(str(ROOT / name) for name in ("conftest.py", "tests", "papers/tests"))


def is_integration(item: pytest.Item) -> bool:
    """Whether a test is marked, or mentions a run, a command, a browser or a process."""
    if item.get_closest_marker("integration") is not None:
        return True
    if not isinstance(item, pytest.Function):
        return False
    definitions = item._fixtureinfo.name2fixturedefs
    fixtures = [definition.func for name in item.fixturenames for definition in definitions.get(name, ())]
    names = {*item.fixturenames}.union(*map(mentions, (item.function, *fixtures)))
    return not names.isdisjoint(MENTIONED)


@functools.cache
def mentions(function: Callable[..., Any]) -> frozenset[str]:
    """The names in a function of the tests and in those that it calls, and the modules that these functions are of."""
    names: set[str] = set()
    reached: set[object] = set()
    waiting: list[object] = [function]
    while waiting:
        current = waiting.pop()
        current = getattr(current, "__wrapped__", current)
        if isinstance(current, FunctionType) and current not in reached:
            reached.add(current)
            names.add(current.__module__)
            if current.__code__.co_filename.startswith(TESTS):
                mentioned = {*_names(current.__code__)}
                names |= mentioned
                waiting += _values(current.__globals__, mentioned)
    return frozenset(names)


def _values(module: dict[str, Any], names: set[str]) -> Iterator[Any]:
    """What names stand for in a module, and in the modules of tests that are among them."""
    for name in names & module.keys():
        value = module[name]
        yield value
        if isinstance(value, ModuleType) and str(getattr(value, "__file__", "")).startswith(TESTS):
            yield from (vars(value).get(inner) for inner in names)


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


class Guard:
    """Refuses processes while a unit runs."""

    def __init__(self) -> None:
        self.unit: str | None = None
        platform.platform()  # once, it asks a process
        subprocess.Popen.__init__ = self._guarded(subprocess.Popen.__init__)  # type: ignore[method-assign]
        process = multiprocessing.process.BaseProcess
        process.start = self._guarded(process.start)  # type: ignore[method-assign]

    def _guarded(self, start: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(start)
        def guarded(*arguments: Any, **options: Any) -> Any:
            if self.unit is not None:
                pytest.fail(f"{self.unit} starts a process: mark it, or its file, with pytest.mark.integration")
            return start(*arguments, **options)

        return guarded
