"""The exceptions of the library.

Each message is one sentence: what was expected, what came instead, and where.
"""

import importlib
import io
import reprlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType


class StructAttnError(Exception):
    """Base of every error that the user can fix."""


class ParseError(StructAttnError, ValueError):
    """Malformed input data, in a file or stream and a line (from 1) as far as the message concerns one."""

    def __init__(self, message: str, *, file: object = None, line: int | None = None) -> None:
        self.message = message
        self.file = None if file is None else source_name(file)
        self.line = line
        position = ":".join(str(part) for part in (self.file, line) if part is not None)
        super().__init__(f"{position}: {message}" if position else message)


def shown(value: object, *, width: int = 60) -> str:
    """A value for an error message: its ``repr``, truncated if it is long."""
    if isinstance(value, str):
        return repr(value[:width]) + "..." * (len(value) > width)
    text = reprlib.repr(value)
    return text[:width] + "..." * (len(text) > width)


def source_name(source: object) -> str:
    """The path of a file, or the name of a stream."""
    if source is sys.stdin or source is getattr(sys.stdin, "buffer", None):
        return "stdin"
    if not isinstance(source, io.IOBase):
        return str(source)
    name = getattr(source, "name", None)
    return name if isinstance(name, str) else "stream"


class ConfigError(StructAttnError, ValueError):
    """An option or a name that the library does not know, or a text, the one at ``index`` in its batch, beyond it."""

    def __init__(self, message: str = "", *, index: int | None = None) -> None:
        self.message = message
        self.index = index
        super().__init__(message)


@contextmanager
def naming(source: object) -> Iterator[None]:
    """Prefix the message of a ``ConfigError`` that is raised in the block with the file that it is about."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{source_name(source)}: {error}") from None


_HINTS = {
    "dependency": "; parse the sentence (--parser en, sa.parse), or train without (--options.missing_trees word)",
    "constituency": "; parse the sentence (--parser en, sa.parse with constituency=True)",
}


class MissingStructure(StructAttnError, ValueError):  # noqa: N818 - named for what is wrong, as in the documents
    """A sentence, the one at ``index`` in its batch, lacks a structure (a tree, a relation) that a model needs.

    For trees, ``dependency`` and ``constituency``, the message adds what to do.
    """

    def __init__(self, message: str, *, index: int | None = None, structure: str | None = None) -> None:
        self.message = message
        self.index = index
        self.structure = structure
        super().__init__(message + _HINTS.get(structure or "", ""))


class MissingExtra(StructAttnError, ImportError):  # noqa: N818
    """An optional dependency is not installed; the message gives the command that installs it."""


def require(module: str, extra: str) -> ModuleType:
    """Import an optional dependency, or say which extra of this package installs it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        if error.name is not None and module.split(".")[0] != error.name.split(".")[0]:
            raise
        raise MissingExtra(
            f"{module.split('.')[0]} is not installed; run: pip install 'structattn[{extra}]'", name=error.name
        ) from None
