"""Sentences as the plain JSON that a page and Python exchange."""

import dataclasses
from collections.abc import Collection, Sequence
from typing import Any

from structattn.errors import shown
from structattn.http.requests import RequestError, is_text, list_of, object_of, strings_of
from structattn.syntax import ConstituencyTree, DependencyTree, Sentence

MOST_WORDS = 256
MOST_CHARACTERS = 20_000

_KEYS = ("words", "tags", "heads", "labels", "phrases", "text", "leaves")


def sentence_of(value: Any, number: int = 0) -> Sentence:
    """A sentence from its record; ``record_of`` turns it into the same record again.

    Args:
        value: ``words`` and, if there are any, ``tags``, ``heads`` with ``labels``, and ``phrases``; also ``text``, the
            text that the words are from, and ``leaves``, the tags of the phrase tree if they differ from ``tags``.
        number: its index among the sentences, for error messages.

    Raises:
        RequestError: if anything is wrong with it.

    Example:
        >>> sentence_of({"words": ["loud", "dogs"], "heads": [2, 0], "phrases": [["NP", 0, 2]]}).dependency.heads
        (2, 0)
    """
    try:
        given = object_of(value, "sentence", _KEYS)
        words = strings_of(given.get("words"), "words", most=MOST_WORDS)
        for place, word in enumerate(words):
            if not word or word.isspace():
                raise RequestError(f"words: expected no empty word, got {word!r}", word=place)
        tags = _of_words(given.get("tags"), "tags", words)
        leaves = _of_words(given.get("leaves"), "leaves", words, nullable=True)
        text = given.get("text")
        if text is not None and (not is_text(text) or len(text) > MOST_CHARACTERS):
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


def with_needed_trees(sentence: Sentence, needed: Collection[str]) -> Sentence:
    """Add the needed trees that are missing: a chain as dependency tree, the phrases of the dependencies or of a chain.

    What is not needed stays unknown, so that nobody takes it for a parse.

    Args:
        sentence: words, with the trees that are known.
        needed: ``dependency`` and ``constituency``, or one of them.

    Example:
        >>> found = with_needed_trees(Sentence(["kids", "wash"]), ["constituency"])
        >>> found.dependency, found.constituency.to_brackets()
        (None, '(X kids wash)')
        >>> with_needed_trees(found, ["dependency"]).dependency.heads
        (0, 1)
    """
    tree = DependencyTree(range(len(sentence))) if sentence.dependency is None else sentence.dependency
    if sentence.constituency is None and "constituency" in needed:
        phrases = ConstituencyTree.from_dependency(sentence.words, tree)
        sentence = dataclasses.replace(sentence, constituency=phrases)
    return dataclasses.replace(sentence, dependency=tree) if "dependency" in needed else sentence


def check_length(sentences: Sequence[Sentence]) -> None:
    """Refuse a sentence without words, or with too many.

    Raises:
        RequestError: with the index of the sentence.
    """
    for number, sentence in enumerate(sentences):
        if not 1 <= len(sentence) <= MOST_WORDS:
            raise RequestError(
                f"sentence {number}: expected 1 to {MOST_WORDS} words, got {len(sentence):,}", sentence=number
            )


def _dependency(heads: Any, labels: Any, words: Sequence[str]) -> DependencyTree | None:
    names = _of_words(labels, "labels", words)
    if heads is None:
        if names is not None:
            raise RequestError("labels: expected heads with them, got none")
        return None
    found = list_of(heads, "heads", most=MOST_WORDS)
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
    for phrase in list_of(phrases, "phrases", most=4 * MOST_WORDS, least=0):
        is_span = isinstance(phrase, list) and len(phrase) == 3 and is_text(phrase[0])
        if not is_span or any(not isinstance(end, int) or isinstance(end, bool) for end in phrase[1:]):
            raise RequestError(f"phrases: expected [label, start, end] each, got {shown(phrase)}")
        spans.append((phrase[0], phrase[1], phrase[2]))
    return ConstituencyTree(words, spans, tags=tags)


def _of_words(value: Any, name: str, words: Sequence[str], *, nullable: bool = False) -> tuple[str | None, ...] | None:
    if value is None:
        return None
    found = list_of(value, name, most=MOST_WORDS)
    if len(found) != len(words):
        raise RequestError(f"{name}: expected one for each of {len(words)} words, got {len(found)}")
    for word, one in enumerate(found):
        if not is_text(one) and not (nullable and one is None):
            raise RequestError(f"{name}: expected a text for word {word + 1}, got {shown(one)}", word=word)
    return tuple(found)
