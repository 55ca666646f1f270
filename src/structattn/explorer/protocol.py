"""The messages between a page and Python: sentences, requests and shared states as checked values.

An invalid one is refused with a message of one line, before a model sees it.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from structattn.errors import ParseError, shown
from structattn.http.request_checks import (
    RequestError,
    check_choice,
    check_list,
    check_object,
    check_texts,
    is_text,
    is_whole,
    read_body,
)
from structattn.syntax import ConstituencyTree, DependencyTree, Sentence

VERSION = 1
MOST_SENTENCES = 2
MOST_MODELS = 2
MOST_WORDS = 256
MOST_CHARACTERS = 20_000
_MOST_OF_A_NAME = 200
_MOST_HEADS = 4096
ACTIONS = ("look", "parse", "influence", "gradient", "arcs", "flip", "moves", "draw")
ONE_MODEL = ("influence", "gradient", "arcs", "flip", "moves")
PICTURES = ("heads", "tree", "phrases", "pooling", "latent")
PAGE = "page"
FORMATS = ("svg", "png", "pdf")
SCALES = ("shared", "row")
MODES = ("weights", "change", "difference")

_REQUEST = ("v", "id", "do", "models", "sentences", "text", "figure", "from", "number", "moves")
_FIGURE = ("what", "format", "before", "scale", "heads")
_SENTENCE = ("words", "tags", "heads", "labels", "phrases", "text", "leaves", "found_by")
_TREES = ("dependency", "constituency")
_STATE = ("v", "sentences", "before", "view", "runs")
_VIEW = ("models", "mode", "scale", "word", "head", "sort", "by", "path", "numbers", "threshold", "influence", "arcs")


# Sentences.


def read_sentence(value: Any, number: int = 0) -> Sentence:
    """A sentence from its record: ``words``, and, if there are any, ``tags``, ``heads`` with ``labels``, ``phrases``.

    Also ``text``, the text that the words are from, ``leaves``, the tags of the phrase tree if they differ, and
    ``found_by``, the source of each tree that did not come with the sentence.
    """
    try:
        record = check_object(value, "sentence", _SENTENCE)
        words = check_texts(record.get("words"), "words", most=MOST_WORDS)
        for index, word in enumerate(words):
            if not word or word.isspace():
                raise RequestError(f"words: expected no empty word, got {word!r}", word=index)
        tags = _for_words(record.get("tags"), "tags", words)
        leaves = _for_words(record.get("leaves"), "leaves", words, nullable=True)
        text = record.get("text")
        if text is not None and (not is_text(text) or len(text) > MOST_CHARACTERS):
            raise RequestError(f"text: expected a text of at most {MOST_CHARACTERS:,} characters, got {shown(text)}")
        dependency = _read_dependency(record.get("heads"), record.get("labels"), words)
        constituency = _read_constituency(record.get("phrases"), words, tags if leaves is None else leaves)
        metadata = ({} if text is None else {"text": text}) | _read_sources(record.get("found_by"))
        return Sentence(words, tags, dependency, constituency, metadata=metadata)  # type: ignore[arg-type]
    except RequestError as error:
        raise RequestError(f"sentence {number}: {error}", sentence=number, word=error.word) from None
    except ValueError as error:
        raise RequestError(f"sentence {number}: {error}", sentence=number) from None


def sentence_to_json(sentence: Sentence) -> dict[str, Any]:
    """A sentence as plain JSON, which ``read_sentence`` reads."""
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
    sources = {tree: source for tree in _TREES if (source := sentence.metadata.get(source_key(tree))) is not None}
    return {**record, "found_by": sources} if sources else record


def source_key(tree: str) -> str:
    """The key of the source of a tree in the metadata of its sentence."""
    return f"{tree} found by"


def _read_sources(value: Any) -> dict[str, str]:
    sources = {} if value is None else check_object(value, "found_by", _TREES)
    for tree, source in sources.items():
        if not is_text(source) or len(source) > _MOST_OF_A_NAME:
            raise RequestError(f"found_by.{tree}: expected at most {_MOST_OF_A_NAME} characters, got {shown(source)}")
    return {source_key(tree): source for tree, source in sources.items()}


def check_length(sentences: Sequence[Sentence]) -> None:
    """Refuse a sentence without words, or with too many."""
    for number, sentence in enumerate(sentences):
        if not 1 <= len(sentence) <= MOST_WORDS:
            raise RequestError(
                f"sentence {number}: expected 1 to {MOST_WORDS} words, got {len(sentence):,}", sentence=number
            )


def _read_dependency(heads: Any, labels: Any, words: Sequence[str]) -> DependencyTree | None:
    names = _for_words(labels, "labels", words)
    if heads is None:
        if names is not None:
            raise RequestError("labels: expected heads with them, got none")
        return None
    ids = check_list(heads, "heads", most=MOST_WORDS)
    if len(ids) != len(words):
        raise RequestError(f"heads: expected one for each of {len(words)} words, got {len(ids)}")
    for word, head in enumerate(ids):
        if not is_whole(head) or not 0 <= head <= len(words):
            message = f"heads: expected a number from 0 to {len(words)}, got {shown(head)} at word {word + 1}"
            raise RequestError(message, word=word)
    return DependencyTree(ids, names)  # type: ignore[arg-type]  # without None


def _read_constituency(
    phrases: Any, words: Sequence[str], tags: Sequence[str | None] | None
) -> ConstituencyTree | None:
    if phrases is None:
        return None
    spans = []
    for phrase in check_list(phrases, "phrases", most=4 * MOST_WORDS, least=0):
        is_span = isinstance(phrase, list) and len(phrase) == 3 and is_text(phrase[0])
        if not is_span or not all(map(is_whole, phrase[1:])):
            raise RequestError(f"phrases: expected [label, start, end] each, got {shown(phrase)}")
        spans.append((phrase[0], phrase[1], phrase[2]))
    return ConstituencyTree(words, spans, tags=tags)


def _for_words(value: Any, name: str, words: Sequence[str], *, nullable: bool = False) -> tuple[str | None, ...] | None:
    if value is None:
        return None
    texts = check_list(value, name, most=MOST_WORDS)
    if len(texts) != len(words):
        raise RequestError(f"{name}: expected one for each of {len(words)} words, got {len(texts)}")
    for word, text in enumerate(texts):
        if not is_text(text) and not (nullable and text is None):
            raise RequestError(f"{name}: expected a text for word {word + 1}, got {shown(text)}", word=word)
    return tuple(texts)


def _read_sentences(value: Any, name: str, *, least: int = 1) -> tuple[Sentence, ...]:
    records = check_list(value, name, most=MOST_SENTENCES, least=least)
    return tuple(read_sentence(record, number) for number, record in enumerate(records))


# Requests.


@dataclass(frozen=True)
class Figure:
    """A picture to draw, or a page to write; with ``originals``, the sentences before an edit, its change."""

    picture: str
    format: str
    originals: tuple[Sentence, ...] = ()
    by_row: bool = False
    #: The heads to draw; all if ``None``.
    heads: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Request:
    """A request that has passed all checks. The ``id`` is repeated in the reply, so that a late one is recognised."""

    id: int
    do: str
    models: tuple[str, ...] = ()
    #: For everything but ``parse``.
    sentences: tuple[Sentence, ...] = ()
    #: For ``parse``.
    texts: tuple[str, ...] = ()
    #: For ``draw``.
    figure: Figure | None = None
    #: For ``flip``, the index of the first edit to try.
    start: int = 0
    #: For ``moves``, the index of the sentence, and pairs of a word and its new head; 0 makes it the root.
    number: int = 0
    moves: tuple[tuple[int, int], ...] = ()


def check_request(value: Any) -> Request:
    """A request as a checked value."""
    record = check_object(value, "request", _REQUEST)
    _check_version(record)
    number = record.get("id")
    if not is_whole(number):
        raise RequestError(f"id: expected a whole number, got {shown(number)}")
    do = check_choice(record.get("do"), ACTIONS, "do")
    if do == "parse":
        return Request(number, do, texts=_check_texts(record.get("text")))
    models = check_texts(record.get("models"), "models", most=1 if do in ONE_MODEL else MOST_MODELS)
    sentences = _read_sentences(record.get("sentences"), "sentences")
    figure = _check_figure(record.get("figure")) if do == "draw" else None
    moved = _check_moves(record, sentences) if do == "moves" else {}
    return Request(number, do, models, sentences, figure=figure, start=_check_start(record.get("from", 0)), **moved)


def _check_version(record: Mapping[str, Any]) -> None:
    version = record.get("v")
    if version != VERSION or isinstance(version, bool):
        raise RequestError(f"v: expected {VERSION}, got {shown(version)}")


def _check_start(value: Any) -> int:
    if not is_whole(value) or value < 0:
        raise RequestError(f"from: expected a whole number from 0, got {shown(value)}")
    return value


def _check_moves(record: Mapping[str, Any], sentences: Sequence[Sentence]) -> dict[str, Any]:
    number = record.get("number")
    if not is_whole(number) or not 0 <= number < len(sentences):
        raise RequestError(f"number: expected that of a sentence, got {shown(number)}")
    moves = check_list(record.get("moves"), "moves", most=MOST_WORDS)
    size = len(sentences[number])
    for move in moves:
        is_pair = isinstance(move, list) and len(move) == 2 and all(map(is_whole, move))
        if not is_pair or not (0 <= move[0] < size and 0 <= move[1] <= size):
            raise RequestError(f"moves: expected a word and its new head each, got {shown(move)}", sentence=number)
    return {"number": number, "moves": tuple(map(tuple, moves))}


def _check_figure(value: Any) -> Figure:
    record = check_object(value, "figure", _FIGURE)
    sentences = _read_sentences(record.get("before") or [], "figure.before", least=0)
    what = check_choice(record.get("what"), (*PICTURES, PAGE), "figure.what")
    return Figure(
        what,
        check_choice(record.get("format"), ("html",) if what == PAGE else FORMATS, "figure.format"),
        sentences,
        check_choice(record.get("scale", "shared"), SCALES, "figure.scale") == "row",
        None if record.get("heads") is None else check_texts(record["heads"], "figure.heads", most=_MOST_HEADS),
    )


def _check_texts(value: Any) -> tuple[str, ...]:
    texts = check_texts(value, "text", most=MOST_SENTENCES)
    for text in texts:
        if not text.strip():
            raise RequestError("text: expected at least one word, got none")
        if len(text) > MOST_CHARACTERS:
            raise RequestError(f"text: expected at most {MOST_CHARACTERS:,} characters, got {len(text):,}")
    return texts


# States.


@dataclass(frozen=True)
class State:
    """A state of the explorer to share: the sentences with their edited trees, and the view of them."""

    sentences: tuple[Sentence, ...]
    #: The sentences before the edits.
    originals: tuple[Sentence, ...]
    #: The names of the models that were shown.
    models: tuple[str, ...]
    #: The SHA-256 of each model's parameters, by its name.
    runs: Mapping[str, str]
    #: Whether the change of the weights was shown.
    change: bool = False
    #: Whether the largest weight of each row had the highest colour.
    by_row: bool = False


def check_state(value: Any) -> State:
    """A state as a checked value."""
    record = check_object(value, "state", _STATE)
    _check_version(record)
    sentences = _read_sentences(record.get("sentences"), "sentences")
    originals = _read_sentences(record["before"], "before") if record.get("before") else sentences
    if [sentence.words for sentence in originals] != [sentence.words for sentence in sentences]:
        raise RequestError("before: expected the words of the sentences, got others")
    view = check_object(record.get("view") or {}, "view", _VIEW)
    models = view.get("models") or []
    runs = record.get("runs") or {}
    if not isinstance(runs, dict) or any(not isinstance(value, str) for value in runs.values()):
        raise RequestError(f"runs: expected the SHA-256 of each model, got {shown(runs)}")
    return State(
        sentences,
        originals,
        check_texts(models, "view.models", most=MOST_MODELS) if models else (),
        runs,
        change=check_choice(view.get("mode", "weights"), MODES, "view.mode") == "change",
        by_row=check_choice(view.get("scale", "shared"), SCALES, "view.scale") == "row",
    )


def read_state(file: str | os.PathLike[str]) -> State:
    """Read a file that the explorer saved: sentences with edited trees, and the view of them.

    Args:
        file: the JSON file.

    Returns:
        The state: ``sentences`` after the edits and their ``originals``, the names of ``models`` that were shown, the
        SHA-256 of their parameters in ``runs``, and whether the ``change`` was shown and colours were ``by_row``.

    Raises:
        ParseError: if the file cannot be read, or is not a state.

    Example:
        >>> import pathlib, tempfile
        >>> file = pathlib.Path(tempfile.mkdtemp()) / "state.json"
        >>> _ = file.write_text('{"v": 1, "sentences": [{"words": ["loud", "dogs"], "heads": [2, 0]}]}')
        >>> read_state(file).sentences[0].dependency.heads
        (2, 0)
    """
    try:
        return check_state(read_body(Path(file).read_bytes()))
    except OSError as error:
        raise ParseError(f"cannot read this file: {error.strerror}", file=file) from None
    except RequestError as error:
        raise ParseError(f"expected a state of the explorer: {error}", file=file) from None
