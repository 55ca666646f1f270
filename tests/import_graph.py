"""The import graph of the package, read from the source: what one has to open to read one thing.

An edge is an import at module level; imports in functions and for type checkers are none. A name that is imported from
a package leads to the file that defines it.
"""

import ast
import functools
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

import structattn

SOURCE = Path(structattn.__file__).parent.parent


class Size(NamedTuple):
    """Files and lines of some modules."""

    files: int
    lines: int


class Weight(NamedTuple):
    """A module of a lane, and what the lane would lose without it."""

    module: str
    size: Size


def file_of(module: str) -> Path | None:
    """The file of a module of the package; ``None`` for anything else."""
    path = SOURCE.joinpath(*module.split("."))
    for file in (path / "__init__.py", path.with_suffix(".py")):
        if file.exists():
            return file
    return None


def closure(module: str, *, without: Collection[str] = ()) -> set[str]:
    """A module and all that it imports, directly or not.

    Args:
        module: its dotted name.
        without: modules that are left out, with what only they import.
    """
    lane: set[str] = set()
    waiting = [module]
    while waiting:
        current = waiting.pop()
        if current not in lane and current not in without:
            lane.add(current)
            waiting += imports(current)
    return lane


def size(modules: Collection[str]) -> Size:
    """Files and lines of some modules."""
    return Size(len(modules), sum(_num_lines(module) for module in modules))


def heaviest(module: str, *, count: int = 3) -> list[Weight]:
    """The modules that drag the most lines into a lane, none of them below another."""
    lane = closure(module)
    lost = {other: lane - closure(module, without={other}) for other in lane - {module}}
    chosen: list[str] = []
    for other in sorted(lost, key=lambda other: (-size(lost[other]).lines, other)):
        if len(chosen) < count and not any(other in lost[above] for above in chosen):
            chosen.append(other)
    return [Weight(other, size(lost[other])) for other in chosen]


@functools.cache
def imports(module: str) -> frozenset[str]:
    """The modules of the package that a module imports when it is imported itself."""
    targets: set[str] = set()
    for statement in _at_import(_tree(module).body):
        if isinstance(statement, ast.Import):
            targets |= {alias.name for alias in statement.names if file_of(alias.name)}
        elif isinstance(statement, ast.ImportFrom) and file_of(statement.module or ""):
            targets |= {_definer(statement.module or "", alias.name) for alias in statement.names}
    return frozenset(targets - {module})


def _definer(module: str, name: str) -> str:
    """The module that defines what ``from module import name`` imports."""
    source = _names_of_package(module).get(name)
    if source is not None and source != (module, name):
        return _definer(*source)
    return f"{module}.{name}" if file_of(f"{module}.{name}") else module


@functools.cache
def _names_of_package(module: str) -> dict[str, tuple[str, str]]:
    """Where each name that an ``__init__`` imports comes from, imports for type checkers included."""
    file = file_of(module)
    if file is None or file.name != "__init__.py":
        return {}
    return {
        alias.asname or alias.name: (statement.module or "", alias.name)
        for statement in ast.walk(_tree(module))
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }


def _at_import(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements that are executed when a module is imported."""
    for statement in body:
        if isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.unparse(statement.test):
            yield from _at_import(statement.orelse)
            continue
        yield statement
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for block in ("body", "orelse", "finalbody"):
            yield from _at_import(getattr(statement, block, []))
        for handler in getattr(statement, "handlers", []):
            yield from _at_import(handler.body)


@functools.cache
def _tree(module: str) -> ast.Module:
    file = file_of(module)
    assert file is not None, module
    return ast.parse(file.read_text(encoding="utf-8"))


@functools.cache
def _num_lines(module: str) -> int:
    file = file_of(module)
    assert file is not None, module
    return len(file.read_text(encoding="utf-8").splitlines())
