"""Checks of JSON that comes from a page: each says in one line what was expected and what was received."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

from structattn.errors import StructAttnError, shown
from structattn.files.text import parse_json

MOST_BYTES = 1_000_000


class RequestError(StructAttnError, ValueError):
    """A request that is refused, with the sentence and the word (both from 0) of the mistake if it is in one."""

    def __init__(self, message: str, *, sentence: int | None = None, word: int | None = None) -> None:
        self.sentence, self.word = sentence, word
        super().__init__(message)


def read_body(body: bytes) -> Mapping[str, Any]:
    """The JSON object in the body of a message."""
    if len(body) > MOST_BYTES:
        raise RequestError(f"expected a request of at most {MOST_BYTES:,} bytes, got {len(body):,}")
    try:
        value = parse_json(body)
    except ValueError as error:
        raise RequestError(f"expected JSON: {' '.join(str(error).split())}") from None
    if not isinstance(value, dict):
        raise RequestError(f"expected a JSON object, got {shown(value)}")
    return value


def check_object(value: Any, name: str, keys: Sequence[str]) -> Mapping[str, Any]:
    """A JSON object with no other keys than these; messages begin with its ``name``."""
    if not isinstance(value, dict):
        raise RequestError(f"{name}: expected an object, got {shown(value)}")
    for key in value:
        if key not in keys:
            raise RequestError(f"{name}: unknown key {shown(key)}; known: {', '.join(keys)}")
    return value


def check_list(value: Any, name: str, *, most: int, least: int = 1) -> list[Any]:
    """A list of ``least`` to ``most`` entries."""
    if not isinstance(value, list):
        raise RequestError(f"{name}: expected a list, got {shown(value)}")
    if not least <= len(value) <= most:
        count = str(most) if least == most else f"{least} to {most}"
        raise RequestError(f"{name}: expected {count}, got {len(value):,}")
    return value


def check_texts(value: Any, name: str, *, most: int) -> tuple[str, ...]:
    """A list of 1 to ``most`` texts."""
    texts = check_list(value, name, most=most)
    for index, text in enumerate(texts):
        if not is_text(text):
            raise RequestError(f"{name}: expected texts, got {shown(text)}", word=index)
    return tuple(texts)


def is_text(value: Any) -> bool:
    """Whether a value is a text that can be encoded: JSON may contain half of a surrogate pair."""
    return isinstance(value, str) and not any("\ud800" <= character <= "\udfff" for character in value)


def is_whole(value: Any) -> TypeGuard[int]:
    """Whether a value is a whole number, and neither true nor false."""
    return isinstance(value, int) and not isinstance(value, bool)


def check_choice(value: Any, choices: Sequence[str], name: str) -> str:
    """One of some texts."""
    if not isinstance(value, str) or value not in choices:
        raise RequestError(f"{name}: expected one of {', '.join(choices)}, got {shown(value)}")
    return value
