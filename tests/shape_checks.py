"""Which functions are checked while tests run: those whose annotations name a shape.

jaxtyping's import hook checks every function of the package, and the arguments of each twice. What has plain types is
mypy's work already, and the checks took more than half of the tests' time.
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any, get_args

import jaxtyping
from beartype import beartype
from jaxtyping import AbstractArray, install_import_hook

_jaxtyped = jaxtyping.jaxtyped


def has_shapes(checked: Any) -> bool:
    """Whether annotations of a function, or of the fields of a dataclass, name a shape.

    Example:
        >>> def double(x: AbstractArray) -> AbstractArray: ...
        >>> def count(x: list[int]) -> int: ...
        >>> has_shapes(double), has_shapes(count)
        (True, False)
    """
    return any(map(_names_a_shape, inspect.get_annotations(checked).values()))


def _names_a_shape(annotation: object) -> bool:
    """Whether a type or a part of it, such as an argument of a ``Callable``, is an array of a shape."""
    if inspect.isclass(annotation) and issubclass(annotation, AbstractArray):
        return True
    parts = annotation if isinstance(annotation, list) else get_args(annotation)
    return any(map(_names_a_shape, parts))


def with_checked_shapes(defined: Any) -> Any:
    """A function, a descriptor of one, or a class as the import hook finds it, with shapes checked."""
    if isinstance(defined, property):
        return property(*map(with_checked_shapes, (defined.fget, defined.fset, defined.fdel)), defined.__doc__)
    if isinstance(defined, classmethod | staticmethod):
        return type(defined)(with_checked_shapes(defined.__func__))
    if inspect.isclass(defined):
        if dataclasses.is_dataclass(defined) and "__init__" in vars(defined):
            defined.__init__ = with_checked_shapes(defined.__init__)
        return defined
    return _checked(defined) if inspect.isfunction(defined) and has_shapes(defined) else defined


def _checked(function: Callable[..., Any]) -> Callable[..., Any]:
    annotations = function.__annotations__
    shapes = {name: one for name, one in annotations.items() if _names_a_shape(one)}
    function.__annotations__ = shapes  # others may be names that only mypy sees
    typed = beartype(function)
    function.__annotations__ = annotations
    if any("{" in str(one) for one in shapes.values()):  # lengths that are arguments are bound, which takes longer
        return _jaxtyped(typed, typechecker=None)

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        with _jaxtyped("context"):  # an axis has one length in all arguments and in the result
            return typed(*args, **kwargs)

    return checked


def check_shapes(modules: list[str]) -> None:
    """Check the shapes of what ``modules`` will define."""
    # The hook adds ``@jaxtyping.jaxtyped(typechecker=...)`` to each function and class, which finds this one there.
    jaxtyping.jaxtyped = lambda typechecker: with_checked_shapes
    install_import_hook(modules, None)
