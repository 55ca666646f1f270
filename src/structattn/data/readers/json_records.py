"""Examples as JSON objects: one per line, or an array of them."""

import itertools
import json
from collections.abc import Iterator, Sequence
from typing import Any

from structattn.data.example import Example
from structattn.data.readers.fields import Columns, Location, Record, check_target
from structattn.errors import ParseError, shown
from structattn.files.item_faults import answer_each, refuse_item
from structattn.files.text import (
    MAX_FILE,
    Source,
    check_lines,
    has_halves,
    is_blank,
    is_unicode,
    parse_json,
    read_lines,
)


def read_json(
    path: Source,
    *,
    text_column: str | Sequence[str] | None = None,
    label_column: str | Sequence[str] | None = None,
    id_column: str | None = None,
    target: str | None = None,
    tokenised: bool = False,
) -> Iterator[Example]:
    """Examples of JSON objects; a text is raw, or a list of words, and keys that are not given are found by name.

    Without a target, a number with a decimal point is a score, and a string, a whole number or a Boolean a class.
    """
    if target is not None:
        check_target(target)

    def make_example(record: Record) -> Example:
        weight = record.values.get("weight", 1.0)
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight < float("inf"):
            raise record.location.error(f"expected a weight of at least 0, got {shown(weight)}")
        return record.example(target, tokenised=tokenised, weight=float(weight))

    records = read_json_records(path, Columns.from_options(text_column, label_column, id_column))
    return answer_each(make_example, records)


def read_json_records(path: Source, columns: Columns) -> Iterator[Record]:
    """Stream the objects of a JSON file, with which of their keys are read."""
    resolved: dict[tuple[str, ...], Columns] = {}
    for location, values, number in read_json_objects(path):
        keys = tuple(values)
        if keys not in resolved:
            try:
                resolved[keys] = columns.resolve(keys, location)
            except ParseError as error:
                if not resolved:  # the columns are wrong, not this object
                    raise
                refuse_item(error)
                continue
        yield Record(location, values, resolved[keys], number)


def read_json_objects(path: Source) -> Iterator[tuple[Location, dict[str, Any], int]]:
    """The JSON objects of a file, one per line or one array of all; where each is, and how many come before it."""
    lines = read_lines(path, escape=True)
    first = next(((number, line) for number, line in lines if not is_blank(line)), None)
    if first is None:
        return
    if first[1].lstrip().startswith("["):
        yield from _parse_array(path, first[0], _join_lines(path, itertools.chain([first], lines)))
        return
    filled = ((number, line) for number, line in itertools.chain([first], lines) if not is_blank(line))
    for count, (number, line) in enumerate(filled):
        location, reason = Location(path, number), ""
        try:
            check_lines(path, (number, line))
            record = parse_json(line)
        except ParseError as error:
            refuse_item(error)
            continue
        except ValueError as error:
            record, reason = None, f" ({error})"
        if isinstance(record, dict):
            yield location, record, count
        else:
            refuse_item(location.error(f"expected a JSON object, got {shown(line, width=40)}{reason}"))


def _join_lines(path: Source, lines: Iterator[tuple[int, str]]) -> str:
    """The lines as one text, up to the maximum size of a file that is read as a whole."""
    collected, size = [], 0
    for number, line in lines:
        collected.append(line)
        size += len(line)
        if size > MAX_FILE:
            message = f"expected an array of at most {MAX_FILE:,} characters, got more; JSON lines have no limit"
            raise ParseError(message, file=path, line=number)
    return "\n".join(collected)


def _parse_array(path: Source, line: int, text: str) -> Iterator[tuple[Location, dict[str, Any], int]]:
    start = Location(path, line)
    try:
        items = parse_json(text, halves=True)
    except ValueError as error:
        raise start.error(f"expected an array of JSON objects, got {shown(text, width=40)} ({error})") from None
    is_damaged = has_halves(text, items)
    for number, record in enumerate(items):
        location = Location(path, line, f"item {number + 1}: ", is_line=False)
        if is_damaged and not is_unicode(json.dumps(record, ensure_ascii=False)):
            refuse_item(
                location.error("expected UTF-8 text, got half of a surrogate pair or bytes of another encoding")
            )
        elif isinstance(record, dict):
            yield location, record, number
        else:
            refuse_item(location.error(f"expected a JSON object, got {shown(record, width=40)}"))
