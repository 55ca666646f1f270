"""Examples as JSON objects: one per line, or an array of them."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from structattn.data.example import Example
from structattn.data.readers.fields import Columns, Item, Place, check_target
from structattn.errors import ParseError, shown
from structattn.files.text import MAX_FILE, Source, parse_json, read_lines


def read_json(
    path: Source,
    *,
    text_column: str | Sequence[str] | None = None,
    label_column: str | None = None,
    id_column: str | None = None,
    target: str | None = None,
    tokenised: bool = False,
) -> Iterator[Example]:
    """JSON objects: one per line, or an array of them.

    A text is raw, or a list of words. Keys that are not given are found by their names, like the columns of
    ``read_csv``: for example ``text`` or ``sentence``, or ``premise`` and ``hypothesis`` for a pair. Label, id and
    ``weight`` may be missing. Without a ``target``, a string, a whole number or a Boolean is a class name, and a number
    with a decimal point is a score.

    Raises:
        ParseError: for anything but a JSON object, a missing key, or a value of the wrong type.
    """
    if target is not None:
        check_target(target)
    for item in json_items(path, Columns.given(text_column, label_column, id_column)):
        weight = item.values.get("weight", 1.0)
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight < float("inf"):
            raise item.place.error(f"expected a weight of at least 0, got {shown(weight)}")
        yield item.example(target, tokenised=tokenised, weight=float(weight))


def json_items(path: Source, columns: Columns) -> Iterator[Item]:
    """Stream the objects of a JSON file; errors as for ``read_json``."""
    known: dict[tuple[str, ...], Columns] = {}
    for number, (place, values) in enumerate(json_objects(path)):
        keys = tuple(values)
        if keys not in known:
            known[keys] = columns.found_in(keys, place)
        yield Item(place, values, known[keys], number)


def json_objects(path: Source) -> Iterator[tuple[Place, dict[str, Any]]]:
    """The JSON objects of a file, each with its place: one per line, or one array of all of them.

    Raises:
        ParseError: for anything but a JSON object; in an array the message gives its number, as it may share its line
            with others.
    """
    lines = read_lines(path)
    first = next(((number, line) for number, line in lines if line.strip()), None)
    if first is None:
        return
    if first[1].lstrip().startswith("["):
        yield from _array_objects(path, first[0], _joined(path, itertools.chain([first], lines)))
        return
    for number, line in itertools.chain([first], lines):
        if not line.strip():
            continue
        place = Place(path, number)
        try:
            item = parse_json(line)
        except ValueError as error:
            raise place.error(f"expected a JSON object, got {shown(line, width=40)} ({error})") from None
        if not isinstance(item, dict):
            raise place.error(f"expected a JSON object, got {shown(line, width=40)}")
        yield place, item


def _joined(path: Source, lines: Iterator[tuple[int, str]]) -> str:
    """The lines as one text, up to the maximum size of a file that is read as a whole."""
    kept, size = [], 0
    for number, line in lines:
        kept.append(line)
        size += len(line)
        if size > MAX_FILE:
            message = f"expected an array of at most {MAX_FILE:,} characters, got more; JSON lines have no limit"
            raise ParseError(message, file=path, line=number)
    return "\n".join(kept)


def _array_objects(path: Source, line: int, text: str) -> Iterator[tuple[Place, dict[str, Any]]]:
    start = Place(path, line)
    try:
        items = parse_json(text)
    except ValueError as error:
        raise start.error(f"expected an array of JSON objects, got {shown(text, width=40)} ({error})") from None
    for number, item in enumerate(items, 1):
        place = Place(path, line, f"item {number}: ", is_line=False)
        if not isinstance(item, dict):
            raise place.error(f"expected a JSON object, got {shown(item, width=40)}")
        yield place, item
