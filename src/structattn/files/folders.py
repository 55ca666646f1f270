"""JSON and YAML files, and folders that appear atomically: shared by everything that this library saves.

A folder may be untrusted: only plain values of limited size and depth are read.
"""

import contextlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from structattn.errors import ConfigError, ParseError, StructAttnError, shown
from structattn.files.replacing import alone_in, naming_written, temporary_name
from structattn.files.text import MAX_LINE, parse_json, read_lines, read_text, replace_text

MAX_DEPTH = 100
"""How deeply the values of one file may be nested."""
MAX_INTEGER = 2**64
"""Exclusive upper bound of whole numbers; those of a random generator's state are below it."""
MAX_YAML = 100_000
"""Bytes of a configuration."""
MAX_YAML_VALUES = 1_000
"""Values of a configuration, each alias counted as what it stands for."""
MAX_LAYERS = 1_000
"""Layers, or steps, of a model that a file describes."""
_LONGEST_REASON = 500
_TOO_DEEP = "expected keys and values, it is nested too deeply"


def write_json_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Replace a file by one JSON object per line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replace_text(path) as stream:
        stream.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Replace a file by one JSON object."""
    with replace_text(path) as stream:
        stream.write(json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def read_json_lines(path: Path, *, keys: Iterable[str] = ()) -> Iterator[dict[str, Any]]:
    """Stream JSON objects, one per line.

    Args:
        path: the file.
        keys: the keys that each object must have.

    Raises:
        ParseError: with file and line, if the file is missing, or a line is not a JSON object or lacks a key.
    """
    for number, line in read_lines(path):
        try:
            row = parse_json(line)
        except ValueError:
            row = None
        if not isinstance(row, dict):
            raise ParseError(f"expected a JSON object, got {shown(line, width=40)}", file=path, line=number)
        require_keys(row, keys, path, line=number)
        yield row


def read_json(path: Path, *, keys: Iterable[str] = ()) -> dict[str, Any]:
    """One JSON object.

    Args:
        path: the file.
        keys: the keys that the object must have.

    Raises:
        ParseError: with the file, if it is missing, contains anything else, or lacks a key.
    """
    text = read_text(path, max_bytes=MAX_LINE)
    try:
        value = parse_json(text)
    except ValueError as error:
        raise ParseError(f"expected a JSON object, the file is damaged: {error}", file=path) from None
    if not isinstance(value, dict):
        raise ParseError(f"expected a JSON object, got {type(value).__name__}", file=path)
    if excess := _excess(value):
        raise ParseError(excess, file=path)
    require_keys(value, keys, path)
    return value


def require_keys(value: Mapping[str, Any], keys: Iterable[str], path: Path, *, line: int | None = None) -> None:
    """Refuse an object that lacks a key.

    Raises:
        ParseError: with the file, and the line if there is one.
    """
    for key in keys:
        if key not in value:
            raise ParseError(f"expected the key {key!r}, it is missing", file=path, line=line)


def read_yaml(path: str | os.PathLike[str], *, max_values: int = MAX_YAML_VALUES) -> dict[str, Any]:
    """The keys and values of a configuration, or of a longer file.

    Args:
        path: the file.
        max_values: maximum number of values; the number of bytes per value is limited as in a configuration.

    Raises:
        ConfigError: with the file, if it is missing, not YAML, beyond the limits of ``yaml_text``, or not keys and
            values.
    """
    import yaml

    try:
        loader = yaml.SafeLoader(_yaml_text(path, max_values))
        root = loader.get_single_node()
        _check_size(root, path, max_values)
        values = None if root is None else loader.construct_document(root)
    except ConfigError:
        raise
    except RecursionError:
        raise ConfigError(f"{path}: {_TOO_DEEP}") from None
    except (yaml.YAMLError, ValueError) as error:  # a date that does not exist is a ValueError
        raise ConfigError(f"{path}: expected YAML: {' '.join(str(error).split())}") from None
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: expected keys and values, got {type(values).__name__}")
    if excess := _excess(values):
        raise ConfigError(f"{path}: {excess}")
    return values


def write_yaml(path: Path, values: Mapping[str, Any]) -> None:
    """Replace a file by keys and values, in their order."""
    import yaml

    with replace_text(path) as stream:
        stream.write(yaml.safe_dump(dict(values), sort_keys=False, allow_unicode=True))


def yaml_text(path: str | os.PathLike[str], *, max_values: int = MAX_YAML_VALUES) -> str:
    """The text of a YAML file, after checking that it has neither too many values nor too deep ones.

    Args:
        path: the file.
        max_values: maximum number of values, an alias counted as what it stands for.

    Raises:
        ConfigError: with the file, if it is missing, has more than ``max_values`` values or more than 100 bytes for
            each of them, or is nested more deeply than Python can read.
    """
    import yaml

    text = _yaml_text(path, max_values)
    try:
        _check_size(yaml.compose(text, yaml.SafeLoader), path, max_values)
    except RecursionError:
        raise ConfigError(f"{path}: {_TOO_DEEP}") from None
    except yaml.YAMLError:
        return text  # whose reader says what is wrong with it
    return text


def _yaml_text(path: str | os.PathLike[str], max_values: int) -> str:
    try:
        return read_text(path, max_bytes=max_values * MAX_YAML // MAX_YAML_VALUES)
    except ParseError as error:
        raise ConfigError(f"{path}: {error.message.removeprefix('cannot read this file: ')}") from None


def _check_size(root: Any, path: str | os.PathLike[str], max_values: int) -> None:
    """Count values on the nodes, which share what an alias stands for, before the aliases are expanded."""
    if root is not None and _num_values(root, {}, max_values) > max_values:
        raise ConfigError(f"{path}: expected at most {max_values:,} values, aliases included, got more")


def _num_values(node: Any, known: dict[int, int], most: int) -> int:
    """How many values a YAML node makes, aliases included; a node within itself makes infinitely many."""
    if id(node) in known:
        return known[id(node)]
    children = [] if isinstance(node.value, str) else node.value
    known[id(node)] = most + 1  # as long as its children are counted
    parts = [part for child in children for part in (child if isinstance(child, tuple) else (child,))]
    known[id(node)] = 1 + sum(_num_values(part, known, most) for part in parts)
    return known[id(node)]


def check_counts(content: Mapping[str, Any], file: Path) -> None:
    """Refuse too many layers or steps; building them takes time even where they get no memory.

    Raises:
        ConfigError: with the file and the key.
    """
    inner: list[Any] = [content]
    for one in inner:
        for key, value in one.items() if isinstance(one, dict) else enumerate(one):
            if isinstance(value, dict | list):
                inner.append(value)
            elif isinstance(value, int) and value > MAX_LAYERS and ("layer" in str(key) or key == "num_steps"):
                raise ConfigError(f"{file}: {key}: expected at most {MAX_LAYERS:,}, got {value:,}")


def _excess(value: Any) -> str | None:
    """The error for values that are nested too deeply, or for a number that is too large; without recursion."""
    level = [value]
    for _ in range(MAX_DEPTH):
        inner: list[Any] = []
        for one in level:
            if isinstance(one, dict | list):
                inner += one.values() if isinstance(one, dict) else one
            elif isinstance(one, int) and abs(one) >= MAX_INTEGER:
                return "expected whole numbers below 2**64, got a larger one"
        if not inner:
            return None
        level = inner
    return f"expected values nested at most {MAX_DEPTH} times, got more"


@contextlib.contextmanager
def described_by(file: Path, what: str = "a model") -> Iterator[None]:
    """Build what a file describes within the ``with`` block; errors there name the file.

    Raises:
        ParseError: if a key is missing, or the description makes the builder fail in any way.
        ConfigError: if the builder refuses it.

    Example:
        >>> with described_by(Path("config.json")):
        ...     {"dim": 4}["num_heads"]
        Traceback (most recent call last):
        ...
        structattn.errors.ParseError: config.json: expected the key 'num_heads', it is missing
    """
    try:
        yield
    except ConfigError as error:
        if str(error).startswith(str(file.parent)):  # it names a file already
            raise
        raise ConfigError(f"{file}: {str(error)[:_LONGEST_REASON]}") from error
    except StructAttnError:
        raise
    except KeyError as error:
        raise ParseError(f"expected the key {shown(error.args[0])}, it is missing", file=file) from None
    except Exception as error:  # a hand-made description may fail anywhere, in torch too
        reason = str(error).strip().split("\n")[0][:_LONGEST_REASON]
        raise ParseError(f"expected {what} that can be built: {reason}", file=file) from error


@contextlib.contextmanager
def replaced_folder(path: Path) -> Iterator[Path]:
    """Write a folder under a temporary name and put it in place when the ``with`` block succeeds.

    Of several concurrent writers, the last one to finish wins. One that is killed between the two renamings leaves the
    previous folder under the name ``.<name>.old``.

    Raises:
        ConfigError: for the working folder, or one above it.

    Example:
        >>> import tempfile
        >>> target = Path(tempfile.mkdtemp()) / "model"
        >>> with replaced_folder(target) as temporary:
        ...     _ = (temporary / "a.txt").write_text("done")
        >>> [item.name for item in target.parent.iterdir()]
        ['model']
    """
    path = _replaceable(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary, old = temporary_name(path, "new"), path.with_name(f".{path.name}.old")
    with naming_written(path, temporary):
        temporary.mkdir()
    try:
        with naming_written(path):
            yield temporary
        with alone_in(path.parent):
            if path.exists():
                remove(old)
                path.rename(old)
            temporary.rename(path)
            remove(old)
    except BaseException:
        remove(temporary)
        with alone_in(path.parent):
            if old.exists() and not path.exists():
                old.rename(path)
        raise


def _replaceable(path: Path) -> Path:
    """The path with a proper name; a process whose working folder is replaced could no longer find any file."""
    path = path if path.name not in ("", "..") else path.resolve()
    with contextlib.suppress(FileNotFoundError):  # it may have been removed already
        if path.is_dir() and Path.cwd().is_relative_to(path.resolve()):
            raise ConfigError(f"{path}: expected a folder that can be replaced, got one that this process works in")
    return path


def remove(path: Path) -> None:
    """Remove a file or a folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
