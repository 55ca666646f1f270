"""The results of ``inspection`` as plain JSON; matrices take two bytes for a number and one bit for a flag."""

import base64
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from structattn.data import Example
from structattn.encoders.latent_tree import LatentTree
from structattn.inspection import AttentionMap, Look
from structattn.inspection.sentence_figures import title_modules
from structattn.inspection.structure_edits import TreeEdit
from structattn.syntax import Sentence
from structattn.tasks import Prediction, TaskModel

_LEVELS = 65535


def look_to_json(look: Look, name: str, model: TaskModel, reads: Sequence[str]) -> dict[str, Any]:
    """One entry of ``looks``."""
    sentences = look.example.sentences
    titles = title_modules(look.maps)
    together = model.reads_together
    latent = [None if tree is None else _latent_to_json(tree) for tree in look.latent]
    return {
        "model": name,
        "task": model.task.name,
        "reads": list(reads),
        "answer": answer_to_json(look.answer),
        "unknown": [model.unknown_words(sentence) for sentence in sentences],
        "maps": [_map_to_json(part, sentences, titles[part.name], together=together) for part in look.maps],
        "latent": latent if any(latent) else None,
    }


def answer_to_json(answer: Prediction) -> dict[str, Any]:
    """Label or score with probabilities, or a text."""
    return {
        "label": answer.label,
        "probabilities": dict(answer.probabilities),
        "score": answer.score,
        "text": answer.text,
        **answer.details,
    }


def _map_to_json(part: AttentionMap, sentences: Sequence[Sentence], title: str, *, together: bool) -> dict[str, Any]:
    """One entry of ``maps``; axes that are the words of the sentence are ``None``.

    ``together`` says whether the subwords are those of all sentences, read as one text.
    """
    words = sentences[part.index].words
    by_subword = part.words is not None
    positions = None if part.words is None else _word_positions(part.words, sentences if together else sentences[:1])
    return {
        "name": part.name,
        "title": title,
        "kind": part.kind,
        "sentence": part.index,
        "heads": list(part.head_names),
        "rows": None if not by_subword and part.rows == words else list(part.rows),
        "columns": None if not by_subword and part.columns == words else list(part.columns),
        "words": None if positions is None else {"rows": positions, "columns": positions},
        **pack(part.weights),
        "allowed": None if part.allowed is None else pack_bits(part.allowed),
    }


def edit_to_json(edit: TreeEdit) -> dict[str, Any]:
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


def error_to_json(error: Exception) -> dict[str, Any]:
    """The error in a reply: its kind, a message of one line, and the sentence and word that it is about."""
    return {
        "kind": type(error).__name__,
        "message": " ".join(str(error).split()),
        "sentence": getattr(error, "sentence", getattr(error, "index", None)),
        "word": getattr(error, "word", None),
    }


def shorten_text(example: Example) -> str:
    """The beginning of an example's text."""
    text = " / ".join(" ".join(sentence.words) for sentence in example.sentences)
    return f"{text[:87]}…" if len(text) > 88 else text


def pack(weights: Any) -> dict[str, Any]:
    r"""Non-negative numbers in two bytes each: :math:`\mathrm{round}(65535\,w / s)` with the largest as *s*.

    All high bytes go before all low bytes, row by row; then zlib and base64. The error is at most ``scale / 131070``.
    """
    values = np.asarray(weights, dtype=np.float64)
    if not np.isfinite(values).all():
        raise ValueError("expected finite weights, got some that are not")
    if values.size and values.min() < 0:
        raise ValueError(f"expected weights of at least 0, got {values.min():g}")
    scale = float(values.max(initial=0.0)) or 1.0
    levels = np.rint(values.ravel() / scale * _LEVELS).astype(">u2")
    return {"shape": list(values.shape), "scale": scale, "data": _compress(levels.view(np.uint8).reshape(-1, 2).T)}


def pack_bits(flags: Any) -> str | None:
    """Flags, eight in a byte with the first in the highest bit; ``None`` if all are true."""
    bits = np.asarray(flags, dtype=bool)
    return None if bits.all() else _compress(np.packbits(bits.ravel()))


def _compress(content: np.ndarray) -> str:
    return base64.b64encode(zlib.compress(np.ascontiguousarray(content).tobytes(), 6)).decode("ascii")


def _word_positions(words: Sequence[int | None], sentences: Sequence[Sentence]) -> list[Any]:
    """The position of the word of each subword; if two sentences are one text, the sentence and the position."""
    if len(sentences) == 1:
        return list(words)
    first = len(sentences[0])
    return [None if word is None else [0, word] if word < first else [1, word - first] for word in words]


def _latent_to_json(tree: LatentTree) -> dict[str, Any]:
    return {**pack(tree.probabilities.clamp(min=0)), "heads": list(tree.heads)}
