"""Tables that anyone can add rows to: names of encoders, tasks, data formats, commands, and what is behind each.

A row comes from structattn itself, from a program that calls ``Table.add``, or from an installed package that declares
an entry point in the group ``structattn.TABLE``, such as

```toml
[project.entry-points."structattn.tasks"]
irony = "my_package.tasks:IRONY"
```

Nothing is imported before its row is used, and entry points are read only if a name is not in the table.
"""

import contextlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, Generic, TypeVar

from structattn.entry_points import entry_points
from structattn.errors import ConfigError, shown

Value = TypeVar("Value")
Trust = bool | Collection[str]
"""Which code that a file or folder names may be imported and run: all, none, or a ``module:name`` or several."""


class Table(Mapping[str, Value], Generic[Value]):
    """Names and what is behind them.

    Args:
        name: the table's name, which ends the group of its entry points: ``structattn.NAME``.
        what: what a row is, for errors: "encoder", "data format".
        rows: the rows of structattn itself: values, or ``module:name`` for what is imported when it is used.
        hint: how to use a value without a row, added to the error of an unknown name.
        accepts: whether a value is of the right kind, for ``module:name`` in place of a row; ``None`` allows rows only.
        expected: that kind, in words.

    Example:
        >>> table = Table("readers", "reader", {"words": "structattn.syntax.tokenisation:split_words"})
        >>> table.add("upper", str.upper)
        >>> sorted(table), table["words"]("It's"), table["upper"]("yes")
        (['upper', 'words'], ['It', "'s"], 'YES')
        >>> table.find("word")
        Traceback (most recent call last):
        ...
        structattn.errors.ConfigError: unknown reader 'word' (did you mean 'words'?); known: upper, words
    """

    def __init__(
        self,
        name: str,
        what: str,
        rows: Mapping[str, Value | str],
        *,
        hint: str = "",
        accepts: Callable[[Any], bool] | None = None,
        expected: str = "",
    ) -> None:
        self.name = name
        self.what = what
        self._rows: dict[str, Value | str] = dict(rows)
        self._built_in = frozenset(rows)
        self._hint = hint
        self._accepts = accepts
        self._expected = expected

    def add(self, name: str, value: Value | str) -> None:
        """Add a row.

        Args:
            name: a new name.
            value: the value, or ``module:name`` for what is to be imported when it is used.

        Raises:
            ConfigError: if the name is taken.
        """
        if name in self:
            source = self.source(name)
            raise ConfigError(f"{self.what} {name!r} exists{f' (of {source})' if source else ''}; choose another name")
        self._rows[name] = value

    def __contains__(self, name: object) -> bool:
        return name in self._rows or name in entry_points(self.name)

    def __getitem__(self, name: str) -> Value:
        row = self._row(name)
        return self._load(name, row) if isinstance(row, str) else row

    def __iter__(self) -> Iterator[str]:
        yield from self._rows
        yield from (name for name in entry_points(self.name) if name not in self._rows)

    def __len__(self) -> int:
        return len({*self._rows, *entry_points(self.name)})

    def address(self, name: str) -> str | None:
        """The ``module:name`` behind a row; ``None`` if the row is a value.

        Raises:
            KeyError: if there is no such row.
        """
        row = self._row(name)
        return row if isinstance(row, str) else None

    def source(self, name: str) -> str:
        """The installed package that brought a row; empty for structattn's own rows and those of a program."""
        return "" if name in self._rows else entry_points(self.name)[name].package

    def added(self) -> list[str]:
        """The names of the rows that programs and installed packages have brought."""
        return [name for name in self if name not in self._built_in]

    def find(self, name: str) -> Value:
        """The value of a row or, where the table takes values without one, what ``module:name`` names.

        Raises:
            ConfigError: if there is none of that name; the message lists the known ones and the packages they are of.
                As ``named``, for ``module:name``.
        """
        if self._accepts is not None and self._is_address(name):
            value: Value = named(name, self.what, self._accepts, self._expected)
            return value
        self.check(name)
        return self[name]

    def check(self, name: str) -> None:
        """Refuse an unknown name; nothing is imported, so ``module:name`` passes where the table takes it.

        Raises:
            ConfigError: as ``find``.
        """
        if not self._is_address(name) and (not isinstance(name, str) or name not in self):
            raise self.unknown(name)

    def outline(self, name: str) -> Callable[..., Any]:
        """A function with the options of a row of a table of functions, which is not imported for it.

        Raises:
            ConfigError: as ``find``.
        """
        from structattn.lazy import outline

        self.check(name)
        address = self.address(name) if name in self else None
        return self.find(name) if address is None else outline(address)  # type: ignore[return-value]  # functions

    def check_options(self, name: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """Plain options as the function of a row takes them; only ``module:name`` is imported.

        Raises:
            ConfigError: as ``find``; for an unknown option (the message lists the known ones), or a value that does not
                fit.
        """
        from structattn.options.checking import check_options

        return check_options(options, self.outline(name), f"{self.what} {name!r}")

    def unknown(self, name: object) -> ConfigError:
        """The error for a name that is not in the table."""
        from structattn.options.checking import suggest

        names = ", ".join(f"{row} (of {source})" if (source := self.source(row)) else row for row in sorted(self))
        close = suggest(name, self) if isinstance(name, str) else ""
        return ConfigError(f"unknown {self.what} {shown(name)}{close}; known: {names}{self._hint}")

    def _is_address(self, name: object) -> bool:
        """Whether this is ``module:name``, and the table takes it in place of a row."""
        return self._accepts is not None and isinstance(name, str) and ":" in name

    def _row(self, name: str) -> Value | str:
        return self._rows[name] if name in self._rows else entry_points(self.name)[name].address

    def _load(self, name: str, address: str) -> Value:
        from structattn.lazy import imported

        try:
            value: Value = imported(address)
        except (ImportError, AttributeError) as error:
            source = self.source(name)
            if not source:
                raise
            raise ConfigError(f"{self.what} {name!r} of {source}: cannot import {address}: {error}") from error
        return value


def named(address: str, what: str, kind: Callable[[Any], bool], expected: str) -> Any:
    """What ``module:name`` names, for a value of one's own in place of a row.

    Args:
        address: ``module:name``.
        what: what the value is, for the error.
        kind: whether a value is of the right kind.
        expected: the right kind, in words.

    Raises:
        ConfigError: if there is nothing at that address, or something else; inside ``restricted``, for an address that
            is not trusted, before anything is imported.

    Example:
        >>> named("math:tau", "number", lambda value: isinstance(value, float), "a number")
        6.283185307179586
        >>> named("math:tao", "number", lambda value: isinstance(value, float), "a number")
        Traceback (most recent call last):
        ...
        structattn.errors.ConfigError: number 'math:tao': expected module:name, where the module can be imported: module
        'math' has no attribute 'tao'
    """
    from structattn.lazy import imported

    for source, trusted in _RESTRICTIONS.get():
        if address not in trusted:
            raise untrusted(address, what, source)
    try:
        value = imported(address)
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        raise ConfigError(
            f"{what} {address!r}: expected module:name, where the module can be imported: {error}"
        ) from None
    if not kind(value):
        raise ConfigError(f"{what} {address!r}: expected {expected}, got {type(value).__name__}")
    return value


def untrusted(address: object, what: str, source: object) -> ConfigError:
    """The error for code that a file or folder names."""
    return ConfigError(
        f"{source}: its {what} {shown(address)} is code that would be imported and run; expected one of the names that "
        "are known. If you trust this code, pass trust_code=True (--trust-code on the command line)"
    )


def addresses(values: object) -> frozenset[str]:
    """Every ``module:name`` among the texts of nested plain values.

    Example:
        >>> addresses({"encoder": "mine:small", "options": {"heads": ["mine:near/word", "word"]}}) == {
        ...     "mine:small", "mine:near"}
        True
    """
    if isinstance(values, str):
        return frozenset(re.findall(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*", values))
    parts = values.values() if isinstance(values, Mapping) else values if isinstance(values, list | tuple) else ()
    return frozenset().union(*map(addresses, parts))


@contextlib.contextmanager
def restricted(source: object, trust_code: Trust) -> Iterator[None]:
    """Inside, ``named`` imports only what the caller trusts: for names that come from a file or a folder.

    Args:
        source: the file or folder, named in the error.
        trust_code: everything, nothing, or these addresses.

    Example:
        >>> with restricted("config.json", False):
        ...     named("math:tau", "number", callable, "a number")
        Traceback (most recent call last):
        ...
        structattn.errors.ConfigError: config.json: its number 'math:tau' is code that would be imported and run; ...
    """
    if trust_code is True:
        yield
        return
    trusted = (
        frozenset() if trust_code is False else frozenset([trust_code] if isinstance(trust_code, str) else trust_code)
    )
    token = _RESTRICTIONS.set((*_RESTRICTIONS.get(), (source, trusted)))
    try:
        yield
    finally:
        _RESTRICTIONS.reset(token)


_RESTRICTIONS: ContextVar[tuple[tuple[object, frozenset[str]], ...]] = ContextVar("restrictions", default=())
