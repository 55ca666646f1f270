"""Packages whose public names load on first use, and functions whose options are read before their file is imported.

Importing torch takes longer than reading a command line. Code that checks names, options and files therefore does not
import it: a package loads a file when one of its names is first used, and a table of functions contains
``module:function`` for each name.
"""

import ast
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib.abc import InspectLoader
from operator import attrgetter
from types import ModuleType
from typing import Any

_FIRST_TYPE = "first_type"  # an attribute of outlines, which have no positional parameters


class _LazyPackage(ModuleType):
    """A package whose names are those that its source imports under ``if TYPE_CHECKING:``.

    A module's own ``__getattr__`` would not do: an import binds the file ``ms_san`` in its package, over the function
    of that name.
    """

    def __getattr__(self, name: str) -> Any:
        sources = public_names(self.__name__)
        if name not in sources:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        value = imported(sources[name])
        super().__setattr__(name, value)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        # An import also binds the file in its package; a function of the same name keeps the name.
        is_file = isinstance(value, ModuleType) and value.__name__ == f"{self.__name__}.{name}"
        if not is_file or name not in public_names(self.__name__):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *public_names(self.__name__)})


def load_lazily(package: str) -> None:
    """Let a package import its public names when they are first used.

    To be called in ``__init__.py``, which imports the names under ``if TYPE_CHECKING:``.

    Args:
        package: its ``__name__``.
    """
    sys.modules[package].__class__ = _LazyPackage


def imported(address: str) -> Any:
    """The object that ``module:name`` names, or a module.

    Example:
        >>> imported("structattn.syntax.tokenisation:split_words")("It's fine.")
        ['It', "'s", 'fine', '.']
    """
    module, _, name = address.partition(":")
    loaded = importlib.import_module(module)
    return attrgetter(name)(loaded) if name else loaded


@cache
def outline(address: str) -> Callable[..., Any]:
    """A function's documentation and keyword-only parameters, with their types and defaults, without importing it.

    ``structattn train --help`` and the check of a configuration need the options of some twenty builders, whose files
    import torch: that takes a second, and they have half of it. The options could be written down a second time, in
    classes that import no torch; then builders of our own and of users would differ, ``help(ms_san)`` would not show
    them, and each default would stand in two files. So they are read from the source: of the builder's file, only the
    statements that its keyword-only parameters depend on are executed, such as the definition of a type.

    Args:
        address: ``module:function`` of this package.

    Returns:
        A function that does nothing, for ``list_options`` and ``check_options``.

    Example:
        >>> outline("structattn.encoders.disan:emb_s2t").__kwdefaults__
        {'dim': None, 'activation': 'elu', 'dropout': 0.25}
    """
    module, _, name = address.partition(":")
    function: Callable[..., Any] = _Outline(module)[name]
    return function


def first_type(function: Callable[..., Any]) -> str:
    """The name of the type of a function's first parameter, also for an outline; empty if it has no annotation.

    Example:
        >>> first_type(outline("structattn.encoders.disan:emb_s2t"))
        'Module'
    """
    if _FIRST_TYPE in vars(function):
        return str(vars(function)[_FIRST_TYPE])
    first = next(iter(inspect.signature(function).parameters.values()), None)
    if first is None or first.annotation is first.empty:
        return ""
    return _last_name(inspect.formatannotation(first.annotation))


class _Outline(dict[str, Any]):
    """The names of a module, each defined when it is first used."""

    def __init__(self, module: str) -> None:
        super().__init__(__name__=module)
        body = _source(module).body
        statements = [*_for_type_checkers(body), *body]
        self._statements = {name: statement for statement in statements for name in _bound(statement)}

    def __missing__(self, name: str) -> Any:
        statement = self._statements[name]
        if isinstance(statement, ast.ImportFrom):
            original = next(alias.name for alias in statement.names if (alias.asname or alias.name) == name)
            self[name] = _from(statement.module or "", original)
            return self[name]
        first = ""
        if isinstance(statement, ast.FunctionDef):
            first = next((ast.unparse(arg.annotation) for arg in statement.args.args[:1] if arg.annotation), "")
            statement = _without_body(statement)
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and node.id in self._statements and node.id != name and node.id not in self:
                self.__missing__(node.id)
        exec(compile(ast.Module([statement], []), f"<outline of {self['__name__']}>", "exec"), self)
        if isinstance(statement, ast.FunctionDef):
            vars(self[name])[_FIRST_TYPE] = _last_name(first)
        return self[name]


def _last_name(dotted: str) -> str:
    return dotted.rpartition(".")[2]


def _from(module: str, name: str) -> Any:
    if module.split(".")[0] == __package__.split(".")[0]:
        return _Outline(module)[name]
    return getattr(importlib.import_module(module), name)


def _without_body(function: ast.FunctionDef) -> ast.FunctionDef:
    options = ast.arguments([], [], None, function.args.kwonlyargs, function.args.kw_defaults, None, [])
    body: list[ast.stmt] = [ast.Expr(ast.Constant(ast.get_docstring(function) or ""))]
    return ast.fix_missing_locations(ast.FunctionDef(function.name, options, body, [], None))


def _bound(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement of a module defines."""
    if isinstance(statement, ast.ImportFrom):
        yield from (alias.asname or alias.name for alias in statement.names)
    elif isinstance(statement, ast.FunctionDef | ast.ClassDef):
        yield statement.name
    elif isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        yield from (target.id for target in targets if isinstance(target, ast.Name))


@cache
def public_names(package: str) -> dict[str, str]:
    """From each public name of a package to the ``module:name`` that it is imported from, or to a subpackage.

    Example:
        >>> public_names("structattn")["load"], public_names("structattn")["layers"]
        ('structattn.training:load', 'structattn.layers')
    """
    names: dict[str, str] = {}
    for statement in _for_type_checkers(_source(package).body):
        if isinstance(statement, ast.ImportFrom):
            separator = "." if statement.module == package else ":"
            names |= {
                alias.asname or alias.name: f"{statement.module}{separator}{alias.name}" for alias in statement.names
            }
    return names


def _for_type_checkers(body: list[ast.stmt]) -> list[ast.stmt]:
    """The statements under ``if TYPE_CHECKING:``."""
    blocks = [node for node in body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    return [statement for block in blocks for statement in block.body]


def _source(module: str) -> ast.Module:
    spec = importlib.util.find_spec(module)
    text = spec.loader.get_source(module) if spec is not None and isinstance(spec.loader, InspectLoader) else None
    if text is None:
        raise ImportError(f"the source of {module} is not installed", name=module)
    return ast.parse(text)
