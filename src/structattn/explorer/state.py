"""A state of the explorer as a JSON file to share: the sentences with their edited trees, and the view of them."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from structattn.errors import ParseError, shown
from structattn.explorer.protocol import MOST_MODELS, MOST_SENTENCES, SCALES, VERSION
from structattn.explorer.sentences import sentence_of
from structattn.http.requests import RequestError, list_of, object_of, one_of, read_body, strings_of
from structattn.syntax import Sentence

_KEYS = ("v", "sentences", "before", "view", "runs")
_VIEW = ("models", "mode", "scale", "word")
_MODES = ("weights", "change")


@dataclass(frozen=True)
class State:
    """A state of the explorer.

    Attributes:
        sentences: the edited sentences.
        before: the sentences before the edits.
        models: the names of the models that were shown.
        runs: the SHA-256 of each model's parameters, by its name.
        change: whether the change of the weights was shown.
        by_row: whether the largest weight of each row had the highest colour.
    """

    sentences: tuple[Sentence, ...]
    before: tuple[Sentence, ...]
    models: tuple[str, ...]
    runs: Mapping[str, str]
    change: bool = False
    by_row: bool = False


def check_state(value: Any) -> State:
    """A state as a checked value.

    Raises:
        RequestError: if anything is wrong with it.

    Example:
        >>> check_state({"v": 1, "sentences": [{"words": ["hush"]}]}).sentences[0].words
        ('hush',)
    """
    given = object_of(value, "state", _KEYS)
    if given.get("v") != VERSION or isinstance(given["v"], bool):
        raise RequestError(f"v: expected {VERSION}, got {shown(given.get('v'))}")
    sentences = _sentences(given.get("sentences"), "sentences")
    before = _sentences(given["before"], "before") if given.get("before") else sentences
    if [one.words for one in before] != [one.words for one in sentences]:
        raise RequestError("before: expected the words of the sentences, got others")
    view = object_of(given.get("view") or {}, "view", _VIEW)
    models = view.get("models") or []
    runs = given.get("runs") or {}
    if not isinstance(runs, dict) or any(not isinstance(value, str) for value in runs.values()):
        raise RequestError(f"runs: expected the SHA-256 of each model, got {shown(runs)}")
    return State(
        sentences,
        before,
        strings_of(models, "view.models", most=MOST_MODELS) if models else (),
        runs,
        change=one_of(view.get("mode", "weights"), _MODES, "view.mode") == "change",
        by_row=one_of(view.get("scale", "shared"), SCALES, "view.scale") == "row",
    )


def read_state(file: str | os.PathLike[str]) -> State:
    """The state in a file that the explorer saved.

    Raises:
        ParseError: if the file cannot be read, or is not a state.
    """
    try:
        return check_state(read_body(Path(file).read_bytes()))
    except OSError as error:
        raise ParseError(f"cannot read this file: {error.strerror}", file=file) from None
    except RequestError as error:
        raise ParseError(f"expected a state of the explorer: {error}", file=file) from None


def _sentences(value: Any, name: str) -> tuple[Sentence, ...]:
    return tuple(sentence_of(one, place) for place, one in enumerate(list_of(value, name, most=MOST_SENTENCES)))
