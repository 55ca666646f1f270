"""Plain lines: ``label text``, and one JSON object a line."""

import json
import re
from collections.abc import Iterator
from typing import Any

from structattn.data.example import Example
from structattn.data.readers.fields import Place, check_target, json_objects, label_of, sentence_of
from structattn.syntax import Sentence, read_lines
from structattn.syntax.errors import shown
from structattn.syntax.files import Source

_SINGLE = ("words", "text", "sentence")
_PAIRS = (("sentence1", "sentence2"), ("premise", "hypothesis"), ("sentence_A", "sentence_B"))


def read_labelled(path: Source, *, target: str = "class", tokenised: bool = True) -> Iterator[Example]:
    """Lines ``label text``, a space or a tab between; the text may be empty after it (a sentence without words).

    Raises:
        ParseError: for a line without a space or tab, or a label that is not what ``target`` says.
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
        yield Example((sentence,), label_of(label, place, target=target), id=str(count))
        count += 1


def read_jsonl(path: Source, *, target: str | None = None, tokenised: bool = False) -> Iterator[Example]:
    """One JSON object a line.

    The sentence is under ``words``, ``text`` or ``sentence``, a pair under ``sentence1`` and ``sentence2``, ``premise``
    and ``hypothesis``, or ``sentence_A`` and ``sentence_B``: raw text, or a list of words. ``label`` (or
    ``gold_label``), ``id`` (or ``pairID``) and ``weight`` may be missing. Without a ``target`` a string, a whole number
    and a truth value are class names, and a number with a decimal point is a score.

    Raises:
        ParseError: for a line that is no JSON object, lacks its text, or has a value of the wrong type.
    """
    if target is not None:
        check_target(target)
    for count, (place, item) in enumerate(json_objects(path)):
        sentences = tuple(_sentence(item[key], key, place, tokenised) for key in _text_keys(item, place))
        label = _label(item.get("label", item.get("gold_label")), target, place)
        weight = item.get("weight", 1.0)
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight < float("inf"):
            raise place.error(f"expected a weight of at least 0, got {shown(weight)}")
        yield Example(sentences, label, id=str(item.get("id", item.get("pairID", count))), weight=float(weight))


def _text_keys(item: dict[str, Any], place: Place) -> tuple[str, ...]:
    for pair in _PAIRS:
        if pair[0] in item and pair[1] in item:
            return pair
    for key in _SINGLE:
        if key in item:
            return (key,)
    known = ", ".join((*_SINGLE, *(f"{first} and {second}" for first, second in _PAIRS)))
    raise place.error(f"expected one of the keys {known}, got {', '.join(item)[:80] or 'none'}")


def _sentence(value: Any, key: str, place: Place, tokenised: bool) -> Sentence:
    if isinstance(value, str):
        return sentence_of(value, tokenised=tokenised)
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        return Sentence(value)
    raise place.error(f"expected text or a list of words under {key!r}, got {shown(value, width=40)}")


def _label(value: Any, target: str | None, place: Place) -> str | float | None:
    if value is None:
        return None
    if not isinstance(value, str | int | float):
        raise place.error(f"expected a string or a number as label, got {shown(value, width=40)}")
    if target is None:
        target = "score" if isinstance(value, float) else "class"
    # json.dumps spells true and false as they stand in the file.
    return label_of(value if isinstance(value, str) else json.dumps(value), place, target=target)
