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


def look_to_json(
    look: Look, name: str, model: TaskModel, reads: Sequence[str], scales: Sequence[float] | None = None
) -> dict[str, Any]:
    """One entry of ``looks``; ``scales`` are those of its maps, by default the largest weight of each."""
    scales = [find_scale(part.weights) for part in look.maps] if scales is None else scales
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
        "maps": [
            {
                "name": part.name,
                "title": titles[part.name],
                "kind": part.kind,
                "sentence": part.index,
                "heads": list(part.head_names),
                **axes_to_json(part, sentences, together=together),
                **pack(part.weights, scale),
                "allowed": None if part.allowed is None else pack_bits(part.allowed),
            }
            for part, scale in zip(look.maps, scales, strict=True)
        ],
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


def axes_to_json(part: AttentionMap, sentences: Sequence[Sentence], *, together: bool) -> dict[str, Any]:
    """The names of the rows and columns of a map; ``None`` if they are the words of the sentence.

    ``together`` says whether the subwords are those of all sentences, read as one text.
    """
    words = sentences[part.index].words
    by_subword = part.words is not None
    positions = None if part.words is None else _word_positions(part.words, sentences if together else sentences[:1])
    return {
        "rows": None if not by_subword and part.rows == words else list(part.rows),
        "columns": None if not by_subword and part.columns == words else list(part.columns),
        "words": None if positions is None else {"rows": positions, "columns": positions},
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
        **({"p": answer.probabilities[name]} if (name := answer.judged_class) is not None else {"score": answer.score}),
    }


def error_to_json(error: Exception) -> dict[str, Any]:
    """The error in a reply: its kind, a message of one line, and the sentence and word that it is about."""
    return {
        "kind": type(error).__name__,
        "message": " ".join(str(error).split()),
        "sentence": getattr(error, "sentence", getattr(error, "index", None)),
        "word": getattr(error, "word", None),
    }


def find_completions(example: Example, labels: Sequence[str]) -> dict[str, str]:
    """The word that each of two labels would go on with, where the data say the verb and the wrong one."""
    label, metadata = example.label, example.sentences[-1].metadata
    if len(labels) != 2 or label not in labels:
        return {}
    (other,) = (name for name in labels if name != label)
    verbs = {str(label): metadata.get("verb"), other: metadata.get("wrong_verb")}
    return {name: verb for name, verb in verbs.items() if verb is not None}


def shorten_text(example: Example) -> str:
    """The beginning of an example's text."""
    text = " / ".join(" ".join(sentence.words) for sentence in example.sentences)
    return f"{text[:87]}…" if len(text) > 88 else text


def find_scale(weights: Any) -> float:
    """The largest of some numbers, or 1 if all are 0."""
    return float(np.asarray(weights).max(initial=0.0)) or 1.0


def quantise(weights: Any, scale: float) -> np.ndarray:
    r"""Numbers from 0 in 16 bits: :math:`\mathrm{round}(65535\,w / s)`; the error is at most ``scale / 131070``."""
    values = np.asarray(weights, dtype=np.float64)
    if not np.isfinite(values).all():
        raise ValueError("expected finite weights, got some that are not")
    if values.size and values.min() < 0:
        raise ValueError(f"expected weights of at least 0, got {values.min():g}")
    return np.asarray(np.rint(values.ravel() / scale * _LEVELS).astype(np.uint16))


def pack(weights: Any, scale: float | None = None, steps: int = _LEVELS) -> dict[str, Any]:
    """Non-negative numbers in steps of their scale, by default 65,535 of the largest."""
    values = np.asarray(weights, dtype=np.float64)
    scale = find_scale(values) if scale is None else scale
    coarse = {} if steps == _LEVELS else {"steps": steps}
    data = pack_levels(quantise(values, scale * _LEVELS / steps))
    return {"shape": list(values.shape), "scale": scale, **coarse, "data": data}


def pack_levels(levels: np.ndarray) -> str:
    """Numbers of 16 bits: all high bytes before all low bytes; then zlib and base64."""
    return compress(levels.astype(">u2").view(np.uint8).reshape(-1, 2).T.tobytes())


def pack_bits(flags: Any) -> str | None:
    """Flags, eight in a byte with the first in the highest bit; ``None`` if all are true."""
    bits = np.asarray(flags, dtype=bool)
    return None if bits.all() else compress(np.packbits(bits.ravel()).tobytes())


def compress(content: bytes) -> str:
    """Base64 of zlib."""
    return base64.b64encode(zlib.compress(content, 9)).decode("ascii")


def _word_positions(words: Sequence[int | None], sentences: Sequence[Sentence]) -> list[Any]:
    """The position of the word of each subword; if two sentences are one text, the sentence and the position."""
    if len(sentences) == 1:
        return list(words)
    first = len(sentences[0])
    return [None if word is None else [0, word] if word < first else [1, word - first] for word in words]


def _latent_to_json(tree: LatentTree) -> dict[str, Any]:
    return {**pack(tree.probabilities.clamp(min=0)), "heads": list(tree.heads)}
