"""Parsed sentences as spaCy's documents and as data frames; for CoNLL-U see ``syntax.write_conllu``."""

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from structattn.errors import require
from structattn.syntax import Sentence
from structattn.syntax.conllu import conllu_rows
from structattn.syntax.word_alignment import align_words

_COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel")


def to_spacy(sentences: Iterable[Sentence], vocab: Any = None) -> Any:
    """Sentences as one spaCy ``Doc``: words, tags as ``pos_``, heads, labels as ``dep_``, and where sentences start.

    spaCy's pipelines, matchers and displaCy accept it. As in spaCy, a root is its own head and has the label ``ROOT``.
    Spaces between words are those of the sentence's text, if the text is known and has the same words.

    Args:
        sentences: parsed sentences.
        vocab: a pipeline's ``nlp.vocab``; a new one if ``None``.

    Raises:
        ValueError: if a sentence has no dependency tree.
        MissingExtra: if spaCy is not installed.
    """
    words: list[str] = []
    heads: list[int] = []
    labels: list[str] = []
    tags: list[str] = []
    spaces: list[bool] = []
    starts: list[bool] = []
    for sentence in sentences:
        tree = sentence.dependency
        if tree is None:
            raise ValueError(f"expected sentences with dependency trees, {' '.join(sentence.words[:6])!r} has none")
        first = len(words)
        heads += [first + (head - 1 if head else place) for place, head in enumerate(tree.heads)]
        named = tree.labels or ("dep",) * len(tree)
        labels += ["ROOT" if head == 0 else label for head, label in zip(tree.heads, named, strict=True)]
        tags += ["" if tag == "_" else tag for tag in sentence.tags or ("",) * len(sentence)]
        words += sentence.words
        spaces += _spaces(sentence)
        starts += [place == 0 for place in range(len(sentence))]
    doc = require("spacy.tokens", "spacy").Doc
    known = require("spacy.vocab", "spacy").Vocab() if vocab is None else vocab
    return doc(known, words=words, spaces=spaces, heads=heads, deps=labels, pos=tags, sent_starts=starts)


def _spaces(sentence: Sentence) -> list[bool]:
    """Whether a space follows each word; always after the last one, as another sentence may follow."""
    try:
        places = align_words(sentence.words, sentence.text)
    except ValueError:  # the text has other words
        return [True] * len(sentence)
    return [end < start for (_, end), (start, _) in pairwise(places)] + [True] * bool(sentence.words)


def to_pandas(sentences: Iterable[Sentence]) -> Any:
    """Sentences as a pandas ``DataFrame`` with a row for each word: ``sentence`` and the first columns of CoNLL-U.

    ``sentence`` is ``sent_id``, or else the sentence's number from 1. Ids and heads are numbers; missing values are
    ``None``.

    Args:
        sentences: sentences with or without trees.

    Raises:
        MissingExtra: if pandas is not installed.
    """
    rows = []
    for number, sentence in enumerate(sentences, start=1):
        name = sentence.metadata.get("sent_id", str(number))
        for columns in conllu_rows(sentence):
            if columns[0].isdecimal():
                values: list[Any] = [None if value == "_" else value for value in columns[: len(_COLUMNS)]]
                values[0], values[1] = int(columns[0]), columns[1]
                values[6] = None if values[6] is None else int(values[6])
                rows.append((name, *values))
    return require("pandas", "pandas").DataFrame(rows, columns=["sentence", *_COLUMNS])
