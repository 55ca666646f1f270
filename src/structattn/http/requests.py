"""Checks of JSON that comes from a page: each says in one line what was expected and what was received."""

from collections.abc import Mapping, Sequence
from typing import Any

from structattn.errors import StructAttnError, shown
from structattn.files.text import parse_json

MOST_BYTES = 1_000_000


class RequestError(StructAttnError, ValueError):
    """A request that is refused, and where in its sentences the mistake is.

    Args:
        message: one sentence: what was expected and what was received.
        sentence: the index of the sentence, if the mistake is in one.
        word: the position of the word, from 0, likewise.
    """

    def __init__(self, message: str, *, sentence: int | None = None, word: int | None = None) -> None:
        self.sentence, self.word = sentence, word
        super().__init__(message)


def read_body(body: bytes) -> Mapping[str, Any]:
    """The JSON object in the body of a message.

    Raises:
        RequestError: if it is too long, or is not an object.

    Example:
        >>> read_body(b"[1]")
        Traceback (most recent call last):
        ...
        structattn.http.requests.RequestError: expected a JSON object, got [1]
    """
    if len(body) > MOST_BYTES:
        raise RequestError(f"expected a request of at most {MOST_BYTES:,} bytes, got {len(body):,}")
    try:
        value = parse_json(body)
    except ValueError as error:
        raise RequestError(f"expected JSON: {' '.join(str(error).split())}") from None
    if not isinstance(value, dict):
        raise RequestError(f"expected a JSON object, got {shown(value)}")
    return value


def object_of(value: Any, name: str, known: Sequence[str]) -> Mapping[str, Any]:
    """A JSON object with no other keys than these.

    Raises:
        RequestError: for anything else; the message begins with ``name``.
    """
    if not isinstance(value, dict):
        raise RequestError(f"{name}: expected an object, got {shown(value)}")
    for key in value:
        if key not in known:
            raise RequestError(f"{name}: unknown key {shown(key)}; known: {', '.join(known)}")
    return value


def list_of(value: Any, name: str, *, most: int, least: int = 1) -> list[Any]:
    """A list with a given number of entries.

    Raises:
        RequestError: for anything else; the message begins with ``name``.
    """
    if not isinstance(value, list):
        raise RequestError(f"{name}: expected a list, got {shown(value)}")
    if not least <= len(value) <= most:
        count = str(most) if least == most else f"{least} to {most}"
        raise RequestError(f"{name}: expected {count}, got {len(value):,}")
    return value


def strings_of(value: Any, name: str, *, most: int) -> tuple[str, ...]:
    """A list of texts, at least one and at most a given number.

    Raises:
        RequestError: for anything else; the message begins with ``name``.
    """
    found = list_of(value, name, most=most)
    for place, one in enumerate(found):
        if not is_text(one):
            raise RequestError(f"{name}: expected texts, got {shown(one)}", word=place)
    return tuple(found)


def is_text(value: Any) -> bool:
    """Whether a value is a text that can be encoded: JSON may contain half of a surrogate pair."""
    return isinstance(value, str) and not any("\ud800" <= character <= "\udfff" for character in value)


def one_of(value: Any, known: Sequence[str], name: str) -> str:
    """One of these texts.

    Raises:
        RequestError: for anything else; the message begins with ``name``.
    """
    if not isinstance(value, str) or value not in known:
        raise RequestError(f"{name}: expected one of {', '.join(known)}, got {shown(value)}")
    return value
