"""What a page and Python say to each other: requests as checked values, replies as plain JSON, matrices packed.

A request that is wrong in any way is refused in one line, before a model sees it.
"""

import base64
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from structattn.syntax import ConstituencyTree, DependencyTree, Sentence
from structattn.syntax.errors import StructAttnError, shown
from structattn.syntax.files import parse_json

VERSION = 1
MOST_BYTES = 1_000_000
MOST_WORDS = 256
MOST_SENTENCES = 2
MOST_MODELS = 2
MOST_CHARACTERS = 20_000
ACTIONS = ("look", "parse", "influence", "arcs", "flip", "draw")
ONE_MODEL = ("influence", "arcs", "flip")
PICTURES = ("heads", "tree", "phrases", "pooling", "latent")
FORMATS = ("svg", "png", "pdf")

_LEVELS = 65535
_REQUEST = ("v", "id", "do", "models", "sentences", "text", "figure")
_SENTENCE = ("words", "tags", "heads", "labels", "phrases", "text", "leaves")
_FIGURE = ("what", "format", "before")


class RequestError(StructAttnError, ValueError):
    """A request that is refused, and where in its sentences the mistake is.

    Args:
        message: one sentence: what was expected and what came.
        sentence: the number of the sentence, if the mistake is in one.
        word: the position of the word, from 0, likewise.
    """

    def __init__(self, message: str, *, sentence: int | None = None, word: int | None = None) -> None:
        self.sentence, self.word = sentence, word
        super().__init__(message)


@dataclass(frozen=True)
class Figure:
    """What is to be drawn.

    Attributes:
        what: one of ``PICTURES``.
        format: one of ``FORMATS``.
        before: the sentences from which the change of the weights is drawn; none for the weights themselves.
    """

    what: str
    format: str
    before: tuple[Sentence, ...] = ()


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
    """

    id: int
    do: str
    models: tuple[str, ...] = ()
    sentences: tuple[Sentence, ...] = ()
    texts: tuple[str, ...] = ()
    figure: Figure | None = None


def read_body(body: bytes) -> Mapping[str, Any]:
    """The JSON object in the body of a message.

    Raises:
        RequestError: if it is too long, or no object.

    Example:
        >>> read_body(b"[1]")
        Traceback (most recent call last):
        ...
        structattn.explorer.protocol.RequestError: expected a JSON object, got [1]
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


def check_request(value: Any) -> Request:
    """A request as a checked value.

    Raises:
        RequestError: for whatever is wrong with it.

    Example:
        >>> check_request({"v": 1, "id": 7, "do": "parse", "text": ["a dog"]})
        Request(id=7, do='parse', models=(), sentences=(), texts=('a dog',), figure=None)
        >>> check_request({"v": 1, "id": 7, "do": "dance"})
        Traceback (most recent call last):
        ...
        structattn.explorer.protocol.RequestError: do: expected one of look, parse, influence, arcs, flip, draw, ...
    """
    given = _object(value, "request", _REQUEST)
    if given.get("v") != VERSION or isinstance(given["v"], bool):
        raise RequestError(f"v: expected {VERSION}, got {shown(given.get('v'))}")
    number = given.get("id")
    if not isinstance(number, int) or isinstance(number, bool):
        raise RequestError(f"id: expected a whole number, got {shown(number)}")
    do = _one_of(given.get("do"), ACTIONS, "do")
    if do == "parse":
        return Request(number, do, texts=_texts(given.get("text")))
    most = 1 if do in ONE_MODEL else MOST_MODELS
    models = _strings(given.get("models"), "models", most=most)
    sentences = tuple(
        sentence_of(one, place)
        for place, one in enumerate(_list(given.get("sentences"), "sentences", most=MOST_SENTENCES))
    )
    return Request(number, do, models, sentences, figure=_figure(given.get("figure")) if do == "draw" else None)


def sentence_of(value: Any, number: int = 0) -> Sentence:
    """A sentence from its record; ``record_of`` makes the same record of it again.

    Args:
        value: ``words``, and where there are any ``tags``, ``heads`` with ``labels``, ``phrases``; also ``text``, the
            text that the words are from, and ``leaves``, the tags of the phrase tree if they are others.
        number: its place among the sentences, for the error.

    Raises:
        RequestError: for whatever is wrong with it.

    Example:
        >>> sentence_of({"words": ["loud", "dogs"], "heads": [2, 0], "phrases": [["NP", 0, 2]]}).dependency.heads
        (2, 0)
    """
    try:
        given = _object(value, "sentence", _SENTENCE)
        words = _strings(given.get("words"), "words", most=MOST_WORDS)
        for place, word in enumerate(words):
            if not word or word.isspace():
                raise RequestError(f"words: expected no empty word, got {word!r}", word=place)
        tags = _of_words(given.get("tags"), "tags", words)
        leaves = _of_words(given.get("leaves"), "leaves", words, nullable=True)
        text = given.get("text")
        if text is not None and (not _is_text(text) or len(text) > MOST_CHARACTERS):
            raise RequestError(f"text: expected a text of at most {MOST_CHARACTERS:,} characters, got {shown(text)}")
        dependency = _dependency(given.get("heads"), given.get("labels"), words)
        constituency = _constituency(given.get("phrases"), words, tags if leaves is None else leaves)
        metadata = {} if text is None else {"text": text}
        return Sentence(words, tags, dependency, constituency, metadata=metadata)  # type: ignore[arg-type]
    except RequestError as error:
        raise RequestError(f"sentence {number}: {error}", sentence=number, word=error.word) from None
    except ValueError as error:
        raise RequestError(f"sentence {number}: {error}", sentence=number) from None


def record_of(sentence: Sentence) -> dict[str, Any]:
    """A sentence as plain JSON.

    Example:
        >>> record_of(Sentence(["loud", "dogs"], dependency=DependencyTree([2, 0])))
        {'words': ['loud', 'dogs'], 'tags': None, 'heads': [2, 0], 'labels': None, 'phrases': None}
    """
    tree, phrases = sentence.dependency, sentence.constituency
    tags = sentence.tags
    leaves = phrases.tags if phrases is not None and any(tag is not None for tag in phrases.tags) else None
    if tags is None and leaves is not None and None not in leaves:
        tags = leaves  # type: ignore[assignment]  # every word has one
    record: dict[str, Any] = {
        "words": list(sentence.words),
        "tags": None if tags is None else list(tags),
        "heads": None if tree is None else list(tree.heads),
        "labels": None if tree is None or tree.labels is None else list(tree.labels),
        "phrases": None if phrases is None else [list(span) for span in phrases.spans],
    }
    if sentence.text != " ".join(sentence.words):
        record["text"] = sentence.text
    if phrases is not None and phrases.tags != (tags or (None,) * len(sentence)):
        record["leaves"] = list(phrases.tags)
    return record


def pack(weights: Any) -> dict[str, Any]:
    r"""Numbers that are not negative, in two bytes each: :math:`\mathrm{round}(65535\,w / s)` with the largest as *s*.

    All high bytes go before all low bytes, row by row; then zlib and base64. The error is at most ``scale / 131070``.

    Args:
        weights: an array, a tensor on the CPU or nested lists.

    Raises:
        ValueError: for a negative number, or one that is not finite.

    Example:
        >>> packed = pack([[0.0, 0.5], [0.25, 0.25]])
        >>> packed["shape"], packed["scale"], unpack(packed)[0].round(4).tolist()
        ([2, 2], 0.5, [0.0, 0.5])
    """
    values = np.asarray(weights, dtype=np.float64)
    if not np.isfinite(values).all():
        raise ValueError("expected finite weights, got some that are not")
    if values.size and values.min() < 0:
        raise ValueError(f"expected weights of at least 0, got {values.min():g}")
    scale = float(values.max(initial=0.0)) or 1.0
    levels = np.rint(values.ravel() / scale * _LEVELS).astype(">u2")
    return {"shape": list(values.shape), "scale": scale, "data": _zipped(levels.view(np.uint8).reshape(-1, 2).T)}


def unpack(packed: Mapping[str, Any]) -> np.ndarray:
    """The numbers that ``pack`` packed, up to rounding."""
    high, low = np.frombuffer(zlib.decompress(base64.b64decode(packed["data"])), np.uint8).reshape(2, -1).astype(int)
    values: np.ndarray = ((256 * high + low) * (packed["scale"] / _LEVELS)).reshape(packed["shape"])
    return values


def pack_bits(flags: Any) -> str | None:
    """Flags, eight in a byte with the first in the highest bit; ``None`` if all are true.

    Example:
        >>> pack_bits([True, True]), len(pack_bits([True, False]))
        (None, 12)
    """
    bits = np.asarray(flags, dtype=bool)
    return None if bits.all() else _zipped(np.packbits(bits.ravel()))


def _zipped(content: np.ndarray) -> str:
    return base64.b64encode(zlib.compress(np.ascontiguousarray(content).tobytes(), 6)).decode("ascii")


def _dependency(heads: Any, labels: Any, words: Sequence[str]) -> DependencyTree | None:
    names = _of_words(labels, "labels", words)
    if heads is None:
        if names is not None:
            raise RequestError("labels: expected heads with them, got none")
        return None
    found = _list(heads, "heads", most=MOST_WORDS)
    if len(found) != len(words):
        raise RequestError(f"heads: expected one for each of {len(words)} words, got {len(found)}")
    for word, head in enumerate(found):
        if not isinstance(head, int) or isinstance(head, bool) or not 0 <= head <= len(words):
            message = f"heads: expected a number from 0 to {len(words)}, got {shown(head)} at word {word + 1}"
            raise RequestError(message, word=word)
    return DependencyTree(found, names)  # type: ignore[arg-type]  # without None


def _constituency(phrases: Any, words: Sequence[str], tags: Sequence[str | None] | None) -> ConstituencyTree | None:
    if phrases is None:
        return None
    spans = []
    for phrase in _list(phrases, "phrases", most=4 * MOST_WORDS, least=0):
        is_span = isinstance(phrase, list) and len(phrase) == 3 and _is_text(phrase[0])
        if not is_span or any(not isinstance(end, int) or isinstance(end, bool) for end in phrase[1:]):
            raise RequestError(f"phrases: expected [label, start, end] each, got {shown(phrase)}")
        spans.append((phrase[0], phrase[1], phrase[2]))
    return ConstituencyTree(words, spans, tags=tags)


def _figure(value: Any) -> Figure:
    given = _object(value, "figure", _FIGURE)
    before = given.get("before") or []
    sentences = _list(before, "figure.before", most=MOST_SENTENCES, least=0)
    return Figure(
        _one_of(given.get("what"), PICTURES, "figure.what"),
        _one_of(given.get("format"), FORMATS, "figure.format"),
        tuple(sentence_of(one, number) for number, one in enumerate(sentences)),
    )


def _texts(value: Any) -> tuple[str, ...]:
    texts = _strings(value, "text", most=MOST_SENTENCES)
    for text in texts:
        if not text.strip():
            raise RequestError("text: expected at least one word, got none")
        if len(text) > MOST_CHARACTERS:
            raise RequestError(f"text: expected at most {MOST_CHARACTERS:,} characters, got {len(text):,}")
    return texts


def _object(value: Any, name: str, known: Sequence[str]) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise RequestError(f"{name}: expected an object, got {shown(value)}")
    for key in value:
        if key not in known:
            raise RequestError(f"{name}: unknown key {shown(key)}; known: {', '.join(known)}")
    return value


def _list(value: Any, name: str, *, most: int, least: int = 1) -> list[Any]:
    if not isinstance(value, list):
        raise RequestError(f"{name}: expected a list, got {shown(value)}")
    if not least <= len(value) <= most:
        count = str(most) if least == most else f"{least} to {most}"
        raise RequestError(f"{name}: expected {count}, got {len(value):,}")
    return value


def _strings(value: Any, name: str, *, most: int) -> tuple[str, ...]:
    found = _list(value, name, most=most)
    for place, one in enumerate(found):
        if not _is_text(one):
            raise RequestError(f"{name}: expected texts, got {shown(one)}", word=place)
    return tuple(found)


def _of_words(value: Any, name: str, words: Sequence[str], *, nullable: bool = False) -> tuple[str | None, ...] | None:
    if value is None:
        return None
    found = _list(value, name, most=MOST_WORDS)
    if len(found) != len(words):
        raise RequestError(f"{name}: expected one for each of {len(words)} words, got {len(found)}")
    for word, one in enumerate(found):
        if not _is_text(one) and not (nullable and one is None):
            raise RequestError(f"{name}: expected a text for word {word + 1}, got {shown(one)}", word=word)
    return tuple(found)


def _is_text(value: Any) -> bool:
    """Whether a value is a text that can be written: JSON can name half a character, too."""
    return isinstance(value, str) and not any("\ud800" <= character <= "\udfff" for character in value)


def _one_of(value: Any, known: Sequence[str], name: str) -> str:
    if not isinstance(value, str) or value not in known:
        raise RequestError(f"{name}: expected one of {', '.join(known)}, got {shown(value)}")
    return value
