"""The messages between a page and Python: requests as checked values, replies as plain JSON.

An invalid request is refused with a message of one line, before a model sees it.
"""

from dataclasses import dataclass
from typing import Any

from structattn.errors import shown
from structattn.explorer.sentences import MOST_CHARACTERS, sentence_of
from structattn.http.requests import RequestError, list_of, object_of, one_of, strings_of
from structattn.syntax import Sentence

VERSION = 1
MOST_SENTENCES = 2
MOST_MODELS = 2
ACTIONS = ("look", "parse", "influence", "arcs", "flip", "draw")
ONE_MODEL = ("influence", "arcs", "flip")
PICTURES = ("heads", "tree", "phrases", "pooling", "latent")
FORMATS = ("svg", "png", "pdf")
SCALES = ("shared", "row")

_REQUEST = ("v", "id", "do", "models", "sentences", "text", "figure", "from")
_FIGURE = ("what", "format", "before", "scale")


@dataclass(frozen=True)
class Figure:
    """A picture to draw.

    Attributes:
        what: one of ``PICTURES``.
        format: one of ``FORMATS``.
        before: the sentences before the edit, to draw the change; empty to draw the present state only.
        by_row: whether the largest weight of each row has the highest colour.
    """

    what: str
    format: str
    before: tuple[Sentence, ...] = ()
    by_row: bool = False


@dataclass(frozen=True)
class Request:
    """A request that has passed all checks.

    Attributes:
        id: repeated in the reply, so that a late one is recognised.
        do: one of ``ACTIONS``.
        models: names of models, one or two.
        sentences: for everything but ``parse``.
        texts: for ``parse``.
        figure: for ``draw``.
        start: for ``flip``, the index of the first edit to try.
    """

    id: int
    do: str
    models: tuple[str, ...] = ()
    sentences: tuple[Sentence, ...] = ()
    texts: tuple[str, ...] = ()
    figure: Figure | None = None
    start: int = 0


def check_request(value: Any) -> Request:
    """A request as a checked value.

    Raises:
        RequestError: if anything is wrong with it.

    Example:
        >>> check_request({"v": 1, "id": 7, "do": "parse", "text": ["a dog"]})
        Request(id=7, do='parse', models=(), sentences=(), texts=('a dog',), figure=None, start=0)
        >>> check_request({"v": 1, "id": 7, "do": "dance"})
        Traceback (most recent call last):
        ...
        structattn.http.requests.RequestError: do: expected one of look, parse, influence, arcs, flip, draw, ...
    """
    given = object_of(value, "request", _REQUEST)
    if given.get("v") != VERSION or isinstance(given["v"], bool):
        raise RequestError(f"v: expected {VERSION}, got {shown(given.get('v'))}")
    number = given.get("id")
    if not isinstance(number, int) or isinstance(number, bool):
        raise RequestError(f"id: expected a whole number, got {shown(number)}")
    do = one_of(given.get("do"), ACTIONS, "do")
    if do == "parse":
        return Request(number, do, texts=_texts(given.get("text")))
    most = 1 if do in ONE_MODEL else MOST_MODELS
    models = strings_of(given.get("models"), "models", most=most)
    sentences = tuple(
        sentence_of(one, place)
        for place, one in enumerate(list_of(given.get("sentences"), "sentences", most=MOST_SENTENCES))
    )
    figure = _figure(given.get("figure")) if do == "draw" else None
    return Request(number, do, models, sentences, figure=figure, start=_start(given.get("from", 0)))


def _start(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise RequestError(f"from: expected a whole number from 0, got {shown(value)}")
    return value


def _figure(value: Any) -> Figure:
    given = object_of(value, "figure", _FIGURE)
    before = given.get("before") or []
    sentences = list_of(before, "figure.before", most=MOST_SENTENCES, least=0)
    return Figure(
        one_of(given.get("what"), PICTURES, "figure.what"),
        one_of(given.get("format"), FORMATS, "figure.format"),
        tuple(sentence_of(one, number) for number, one in enumerate(sentences)),
        one_of(given.get("scale", "shared"), SCALES, "figure.scale") == "row",
    )


def _texts(value: Any) -> tuple[str, ...]:
    texts = strings_of(value, "text", most=MOST_SENTENCES)
    for text in texts:
        if not text.strip():
            raise RequestError("text: expected at least one word, got none")
        if len(text) > MOST_CHARACTERS:
            raise RequestError(f"text: expected at most {MOST_CHARACTERS:,} characters, got {len(text):,}")
    return texts
