"""JSON and YAML files. They may be untrusted: only plain values of limited size and depth are read."""

import contextlib
import functools
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from structattn.errors import ConfigError, ParseError, StructAttnError, shown
from structattn.files.replacing import replace_text
from structattn.files.text import MAX_LINE, parse_json, read_lines, read_text

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
_EXPONENT = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)[eE][-+]?\d+$")
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
        path: the file, gzip or plain.
        keys: what each object must have.

    Raises:
        ParseError: with file and line: for a line that is no JSON object, or lacks a key.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "rows.jsonl"
        >>> _ = path.write_text('{"id": "7", "gold": "a"}\\n')
        >>> list(read_json_lines(path, keys=["id"]))
        [{'id': '7', 'gold': 'a'}]
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
    """The JSON object of a file.

    Args:
        path: the file, gzip or plain.
        keys: what the object must have.

    Raises:
        ParseError: with the file: if it cannot be read, is no JSON object, lacks a key, or has too many or too deep
            values.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "result.json"
        >>> _ = path.write_text('{"accuracy": 0.5}')
        >>> read_json(path)
        {'accuracy': 0.5}
    """
    text = read_text(path, max_bytes=MAX_LINE)
    try:
        value = parse_json(text)
    except ValueError as error:
        raise ParseError(f"expected a JSON object, the file is damaged: {error}", file=path) from None
    if not isinstance(value, dict):
        raise ParseError(f"expected a JSON object, got {type(value).__name__}", file=path)
    if excess := _describe_excess(value):
        raise ParseError(excess, file=path)
    require_keys(value, keys, path)
    return value


def require_keys(value: Mapping[str, Any], keys: Iterable[str], path: Path, *, line: int | None = None) -> None:
    """Refuse an object that lacks a key; the error names the file, and the line if there is one."""
    for key in keys:
        if key not in value:
            raise ParseError(f"expected the key {key!r}, it is missing", file=path, line=line)


def read_yaml(path: str | os.PathLike[str], *, max_values: int = MAX_YAML_VALUES) -> dict[str, Any]:
    """The keys and values of a YAML file.

    Args:
        path: the file.
        max_values: how many values it may have, each alias counted as what it stands for.

    Raises:
        ConfigError: with the file: if it cannot be read, is no YAML of keys and plain values, or has too many of them.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "config.yaml"
        >>> _ = path.write_text("task: trec\\noptions: {dim: 8}")
        >>> read_yaml(path)
        {'task': 'trec', 'options': {'dim': 8}}
    """
    import yaml

    try:
        loader = _yaml_kinds()[0](_yaml_text(path, max_values))
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
    if excess := _describe_excess(values):
        raise ConfigError(f"{path}: {excess}")
    return values


def write_yaml(path: Path, values: Mapping[str, Any]) -> None:
    """Replace a file by keys and values, in their order."""
    import yaml

    with replace_text(path) as stream:
        stream.write(yaml.dump(dict(values), Dumper=_yaml_kinds()[1], sort_keys=False, allow_unicode=True))


@functools.cache
def _yaml_kinds() -> tuple[Any, Any]:
    """The safe loader, which ends at once where brackets are nested too deeply, and the safe dumper."""
    import yaml

    class Dumper(yaml.SafeDumper):
        pass

    class Loader(yaml.SafeLoader):
        def fetch_flow_collection_start(self, token: Any) -> None:  # scanning takes quadratic time
            if self.flow_level >= MAX_DEPTH:
                raise RecursionError
            super().fetch_flow_collection_start(token)

    for kind in (Loader, Dumper):  # to which 1e-3 is a number, as in YAML 1.2
        kind.add_implicit_resolver("tag:yaml.org,2002:float", _EXPONENT, [*"-+.0123456789"])
    return Loader, Dumper


def _yaml_text(path: str | os.PathLike[str], max_values: int) -> str:
    try:
        return read_text(path, max_bytes=max_values * MAX_YAML // MAX_YAML_VALUES)
    except ParseError as error:
        raise ConfigError(f"{path}: {error.message.removeprefix('cannot read this file: ')}") from None


def _check_size(root: Any, path: str | os.PathLike[str], max_values: int) -> None:
    """Count values on the nodes, which share what an alias stands for, before the aliases are expanded."""
    if root is not None and _count_values(root, {}, max_values) > max_values:
        raise ConfigError(f"{path}: expected at most {max_values:,} values, aliases included, got more")


def _count_values(node: Any, counts: dict[int, int], most: int) -> int:
    """How many values a YAML node makes, aliases included; a node within itself makes infinitely many."""
    if id(node) in counts:
        return counts[id(node)]
    children = [] if isinstance(node.value, str) else node.value
    counts[id(node)] = most + 1  # as long as its children are counted
    parts = [part for child in children for part in (child if isinstance(child, tuple) else (child,))]
    counts[id(node)] = 1 + sum(_count_values(part, counts, most) for part in parts)
    return counts[id(node)]


def check_counts(content: Mapping[str, Any], file: Path) -> None:
    """Refuse too many layers or steps; building them takes time even where they get no memory."""
    collections: list[Any] = [content]
    for collection in collections:
        for key, value in collection.items() if isinstance(collection, dict) else enumerate(collection):
            if isinstance(value, dict | list):
                collections.append(value)
            elif isinstance(value, int) and value > MAX_LAYERS and ("layer" in str(key) or key == "num_steps"):
                raise ConfigError(f"{file}: {key}: expected at most {MAX_LAYERS:,}, got {value:,}")


def _describe_excess(value: Any) -> str | None:
    """The error for values that are nested too deeply, or for a number that is too large; without recursion."""
    level = [value]
    for _ in range(MAX_DEPTH):
        inner: list[Any] = []
        for item in level:
            if isinstance(item, dict | list):
                inner += item.values() if isinstance(item, dict) else item
            elif isinstance(item, int) and abs(item) >= MAX_INTEGER:
                return "expected whole numbers below 2**64, got a larger one"
        if not inner:
            return None
        level = inner
    return f"expected values nested at most {MAX_DEPTH} times, got more"


@contextlib.contextmanager
def naming_description(file: Path, kind: str = "a model") -> Iterator[None]:
    """Build what a file describes within the ``with`` block: whatever fails there is an error that names the file."""
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
        raise ParseError(f"expected {kind} that can be built: {reason}", file=file) from error
