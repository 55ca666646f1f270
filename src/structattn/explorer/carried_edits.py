"""What a page answers without a server: every single edit of the trees that a model reads, in few bytes.

An edit is answered by its prediction and by all weights, as differences of 16 bits from those before the edit: most are
0, or repeat from edit to edit, so that zlib packs them well. Pairs of moves have predictions alone, where they are few,
and so have all edits of an item with too many weights. The page lists the edits in the same order, see ``carried.js``.
"""

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from structattn.explorer.reply_records import axes_to_json, compress, find_scale, pack, pack_levels, quantise
from structattn.inspection import Look, look
from structattn.inspection.occlusion import predict_answers
from structattn.inspection.single_edits import list_edits, moved_twice, replace_tree
from structattn.tasks import Prediction, TaskModel

MOST_WEIGHTS = 1_000_000
"""Weights of all edits of an item: about those of six heads over 20 words. Beyond, it carries predictions alone."""
MOST_PAIRS = 10_000
"""Pairs of moves of an item: about those of 14 words. Beyond, it carries none."""
STEPS_OF_PAIRS = 2047
"""Steps of a probability after two moves: its error is at most 0.00025."""
MOST_WORK = 5_000_000
"""Pairs of words in all edits of an item: about those of 47 words. Beyond, it carries no edits."""
STRUCTURES = ("dependency", "constituency")


class CarriedEdits:
    """The answers of a model to the edits of one item.

    Args:
        model: predicts a label or a score.
        base: its look at the item before any edit.
        reads: the structures that it reads.
    """

    def __init__(self, model: TaskModel, base: Look, reads: Sequence[str]) -> None:
        self.base = base
        self.together = model.reads_together
        self.answers: dict[str, list[Prediction]] = {}
        self.looks: dict[str, list[Look]] = {}
        self.pairs: list[Prediction] = []
        if base.answer.label is None and base.answer.score is None:
            return
        example = base.example
        for structure in [name for name in STRUCTURES if name in reads]:
            edits = list_edits(example, structure)
            if len(edits) * max(len(sentence) for sentence in example.sentences) ** 2 > MOST_WORK:
                continue
            weights = len(edits) * sum(part.weights.numel() for part in base.maps)
            if weights <= MOST_WEIGHTS and not any(base.latent):
                self.looks[structure] = [look(model, edit) for edit in edits]
                self.answers[structure] = [seen.answer for seen in self.looks[structure]]
            else:
                self.answers[structure] = predict_answers(model, edits, 64) if edits else []
        if "dependency" in self.answers and len(example.sentences) == 1:
            self.pairs = self._predict_pairs(model)

    def _predict_pairs(self, model: TaskModel) -> list[Prediction]:
        (sentence,) = self.base.example.sentences
        tree = sentence.dependency
        if tree is None or len(tree) ** 4 // 2 > 4 * MOST_PAIRS:
            return []
        trees = list(moved_twice(tree))
        edits = [dataclasses.replace(self.base.example, sentences=(replace_tree(sentence, tree),)) for tree in trees]
        return predict_answers(model, edits, 64) if 0 < len(edits) <= MOST_PAIRS else []

    @property
    def flips(self) -> bool:
        """Whether an edit changes the predicted label, or there are edits that move a score."""
        label = self.base.answer.label
        return any(label is None or answer.label != label for answers in self.answers.values() for answer in answers)

    @property
    def scales(self) -> list[float]:
        """The largest weight of each map, before and after all edits."""
        seen = [self.base, *(edit for looks in self.looks.values() for edit in looks)]
        weights = zip(*([part.weights for part in edited.maps] for edited in seen), strict=True)
        return [max(map(find_scale, part)) for part in weights]

    def to_json(self) -> dict[str, Any]:
        """For each structure: the predictions, and the looks, if they are carried."""
        return {
            structure: {
                "answers": self._pack_answers(answers),
                "looks": self._pack_looks(self.looks[structure]) if self.looks.get(structure) else None,
                "pairs": self._pack_answers(self.pairs, STEPS_OF_PAIRS)
                if structure == "dependency" and self.pairs
                else None,
            }
            for structure, answers in self.answers.items()
        }

    def _pack_answers(self, answers: Sequence[Prediction], steps: int = 65535) -> dict[str, Any]:
        """Probabilities, scores and which label is answered, first those before the edit.

        The second of two labels has the rest, if both exclude each other.
        """
        answers = [self.base.answer, *answers]
        labels = list(self.base.answer.probabilities)
        exclude = all(abs(sum(answer.probabilities.values()) - 1) < 1e-6 for answer in answers)
        carried = labels[:-1] if len(labels) == 2 and exclude else labels
        columns = [pack([answer.probabilities[label] for answer in answers], steps=steps) for label in carried]
        scores = [float(answer.score) for answer in answers if answer.score is not None]
        low = min(scores, default=0.0)
        packed = None if not scores else {"low": low, **pack([score - low for score in scores])}
        return {"labels": labels, "probabilities": columns, "score": packed, "chosen": _pack_labels(answers)}

    def _pack_looks(self, looks: Sequence[Look]) -> dict[str, Any]:
        """Weights as differences of levels, or as levels where the axes are others; and which keys are allowed."""
        scales = self.scales
        base_axes = self._axes(self.base)
        base = [quantise(part.weights, scale) for part, scale in zip(self.base.maps, scales, strict=True)]
        allowed = [_flags(part) for part in self.base.maps]
        axes: list[Any] = []
        levels: list[np.ndarray] = []
        flags: list[np.ndarray] = []
        for seen in looks:
            edited_axes = self._axes(seen)
            is_same = edited_axes == base_axes
            axes.append(None if is_same else edited_axes)
            for number, (part, scale) in enumerate(zip(seen.maps, scales, strict=True)):
                edited = quantise(part.weights, scale)
                levels.append(edited - base[number] if is_same else edited)
                flags.append(_flags(part) ^ allowed[number] if is_same else _flags(part))
        changes = np.concatenate(flags)
        bits = compress(np.packbits(changes).tobytes()) if changes.any() else None
        named = compress(json.dumps(axes).encode()) if any(axes) else None
        return {"levels": pack_levels(np.concatenate(levels)), "allowed": bits, "axes": named}

    def _axes(self, seen: Look) -> list[dict[str, Any]]:
        sentences = seen.example.sentences
        return [
            {"shape": list(part.weights.shape), **axes_to_json(part, sentences, together=self.together)}
            for part in seen.maps
        ]


def _pack_labels(answers: Sequence[Prediction]) -> dict[str, Any] | None:
    """The labels of the answers, where these are not always the most probable ones."""
    labels = [answer.label for answer in answers if answer.label is not None]
    best = [max(each.probabilities, key=lambda label: each.probabilities[label], default="") for each in answers]
    if not labels or labels == best:
        return None
    names = sorted(set(labels))
    return {"names": names, **pack([names.index(label) for label in labels])}


def _flags(part: Any) -> np.ndarray:
    flags = np.ones(part.weights.shape, bool) if part.allowed is None else part.allowed.numpy()
    return np.asarray(np.broadcast_to(flags, part.weights.shape).ravel())
