"""JSON files, and folders that appear atomically: the common part of everything that this library saves."""

import contextlib
import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from structattn.syntax.errors import ParseError
from structattn.syntax.files import read_lines, replace_text


def write_json_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Replace a file by one JSON object a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replace_text(path) as stream:
        stream.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Replace a file by one JSON object."""
    with replace_text(path) as stream:
        stream.write(json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def read_json_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Stream JSON objects, one a line.

    Raises:
        ParseError: with file and line, if the file is missing or a line is no JSON object.
    """
    for number, line in read_lines(path):
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if not isinstance(row, dict):
            raise ParseError(f"expected a JSON object, got {line[:40]!r}", file=path, line=number)
        yield row


def read_json(path: Path) -> dict[str, Any]:
    """One JSON object.

    Raises:
        ParseError: with the file, if it is missing or holds anything else.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ParseError(f"cannot read this file: {error.strerror}", file=path) from None
    except ValueError as error:
        raise ParseError(f"expected a JSON object, the file is damaged: {error}", file=path) from None
    if not isinstance(value, dict):
        raise ParseError(f"expected a JSON object, got {type(value).__name__}", file=path)
    return value


@contextlib.contextmanager
def replaced_folder(path: Path) -> Iterator[Path]:
    """Write a folder under a temporary name and put it in place when the ``with`` block ends well.

    Example:
        >>> import tempfile
        >>> target = Path(tempfile.mkdtemp()) / "model"
        >>> with replaced_folder(target) as temporary:
        ...     _ = (temporary / "a.txt").write_text("done")
        >>> [item.name for item in target.parent.iterdir()]
        ['model']
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary, old = (path.with_name(f".{path.name}.{word}") for word in ("new", "old"))
    remove(temporary)
    temporary.mkdir()
    try:
        yield temporary
        remove(old)
        if path.exists():
            path.rename(old)
        temporary.rename(path)
    except BaseException:
        remove(temporary)
        if old.exists() and not path.exists():
            old.rename(path)
        raise
    remove(old)


def remove(path: Path) -> None:
    """Remove a file or a folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
