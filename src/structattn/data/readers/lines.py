"""Plain lines: ``label text``, texts without labels, and one JSON object per line."""

import re
from collections.abc import Iterator, Sequence

from structattn.data.example import Example
from structattn.data.readers.fields import Place, check_target, json_objects, label_of, sentence_of
from structattn.data.readers.items import Columns, Item
from structattn.errors import shown
from structattn.files.text import Source, read_lines


def read_labelled(path: Source, *, target: str = "class", tokenised: bool = True) -> Iterator[Example]:
    """Lines ``label text``, separated by a space or a tab; the text may be empty (a sentence without words).

    Raises:
        ParseError: for a line without a space or tab, or a label that does not fit ``target``.
    """
    check_target(target)
    count = 0
    for number, line in read_lines(path):
        if not line.strip():
            continue
        place = Place(path, number)
        label, *text = re.split(r"[ \t]", line, maxsplit=1)
        if not (label and text):
            raise place.error(f"expected 'label text', got {shown(line, width=40)}")
        sentence = sentence_of(text[0], tokenised=tokenised)
        yield Example((sentence,), label_of(label, place, target=target), id=str(count), line=number)
        count += 1


def read_text(path: Source, *, tokenised: bool = False) -> Iterator[Example]:
    """One text per line, or two separated by a tab, without labels; an empty line is a text without words.

    Raises:
        ParseError: for a line of more than two texts.
    """
    for number, line in read_lines(path):
        texts = line.split("\t")
        if len(texts) > 2:
            raise Place(path, number).error(f"expected one sentence, or two separated by a tab, got {len(texts)}")
        yield Example([sentence_of(text, tokenised=tokenised) for text in texts], id=str(number - 1), line=number)


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
