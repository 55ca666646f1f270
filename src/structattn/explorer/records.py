"""The results of ``inspection`` as the plain JSON of a reply."""

from collections.abc import Sequence
from typing import Any

from structattn.data import Example
from structattn.explorer.packing import pack, pack_bits
from structattn.inspection import AttentionMap, LatentTree, Look, TreeEdit
from structattn.inspection.names import module_titles
from structattn.syntax import Sentence
from structattn.tasks import Prediction, TaskModel


def look_record(found: Look, name: str, model: TaskModel, reads: Sequence[str]) -> dict[str, Any]:
    """One entry of ``looks``."""
    sentences = found.example.sentences
    titles = module_titles(found.maps)
    together = model.reads_together
    latent = [None if tree is None else _latent_record(tree) for tree in found.latent]
    return {
        "model": name,
        "task": model.task.name,
        "reads": list(reads),
        "answer": answer_record(found.answer),
        "unknown": [model.unknown_words(sentence) for sentence in sentences],
        "maps": [map_record(one, sentences, titles[one.name], together=together) for one in found.maps],
        "latent": latent if any(latent) else None,
    }


def answer_record(answer: Prediction) -> dict[str, Any]:
    """Label or score with probabilities, or a text."""
    return {
        "label": answer.label,
        "probabilities": dict(answer.probabilities),
        "score": answer.score,
        "text": answer.text,
    }


def map_record(
    found: AttentionMap, sentences: Sequence[Sentence], title: str = "", *, together: bool = False
) -> dict[str, Any]:
    """One entry of ``maps``; axes that are the words of the sentence are ``None``.

    Args:
        found: the map.
        sentences: all sentences of the example.
        title: a short name of the module.
        together: whether the subwords are those of all sentences, read as one text.
    """
    words = sentences[found.index].words
    of_words = None if found.words is None else _places(found.words, sentences if together else sentences[:1])
    return {
        "name": found.name,
        "title": title,
        "kind": found.kind,
        "sentence": found.index,
        "heads": list(found.head_names),
        "rows": None if found.words is None and found.rows == words else list(found.rows),
        "columns": None if found.words is None and found.columns == words else list(found.columns),
        "words": None if of_words is None else {"rows": of_words, "columns": of_words},
        **pack(found.weights),
        "allowed": None if found.allowed is None else pack_bits(found.allowed),
    }


def edit_record(edit: TreeEdit) -> dict[str, Any]:
    """One entry of ``edits``: the whole new tree, and the new label with its probability, or the new score."""
    answer = edit.prediction
    return {
        "sentence": edit.sentence,
        "word": edit.word,
        "head": edit.head,
        "heads": list(edit.tree.heads),
        "labels": None if edit.tree.labels is None else list(edit.tree.labels),
        "label": answer.label,
        **({"score": answer.score} if answer.label is None else {"p": answer.probabilities[answer.label]}),
    }


def error_record(error: Exception) -> dict[str, Any]:
    """The error in a reply: its kind, a message of one line, and the sentence and word that it is about."""
    return {
        "kind": type(error).__name__,
        "message": " ".join(str(error).split()),
        "sentence": getattr(error, "sentence", getattr(error, "index", None)),
        "word": getattr(error, "word", None),
    }


def name_of(example: Example) -> str:
    """The beginning of an example's text.

    Example:
        >>> name_of(Example(("A dog.", "An animal.")))
        'A dog . / An animal .'
    """
    text = " / ".join(" ".join(sentence.words) for sentence in example.sentences)
    return f"{text[:87]}…" if len(text) > 88 else text


def _places(words: Sequence[int | None], sentences: Sequence[Sentence]) -> list[Any]:
    """The position of the word of each subword; if two sentences are one text, the sentence and the position."""
    if len(sentences) == 1:
        return list(words)
    first = len(sentences[0])
    return [None if word is None else [0, word] if word < first else [1, word - first] for word in words]


def _latent_record(tree: LatentTree) -> dict[str, Any]:
    return {**pack(tree.probabilities.clamp(min=0)), "heads": list(tree.heads)}
