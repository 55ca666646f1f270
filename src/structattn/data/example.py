"""One labelled item of a data set: one or two sentences, a label, an id.

Single sentences and pairs are one type, shared by every reader, task and model.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from structattn.syntax import Sentence


@dataclass(frozen=True, init=False)
class Example:
    """One or two sentences and their label.

    Attributes:
        sentences: one sentence, or a pair.
        label: a class name, a score, or ``None`` when unknown.
        id: name of the example in its data set; predictions carry it.
        weight: factor of its loss.

    Raises:
        ValueError: not one or two sentences, or a weight or score that is not finite (a weight must not be negative).
        TypeError: an item that is not a ``Sentence``, or a label that is neither string nor float.

    Example:
        >>> from structattn.syntax import Sentence
        >>> example = Example((Sentence(["a", "dog"]), Sentence(["an", "animal"])), "entailment", id="7")
        >>> len(example.sentences), example.label
        (2, 'entailment')
    """

    sentences: tuple[Sentence, ...]
    label: str | float | None = None
    id: str = ""
    weight: float = 1.0

    def __init__(
        self, sentences: Sequence[Sentence], label: str | float | None = None, *, id: str = "", weight: float = 1.0
    ) -> None:
        sentences = tuple(sentences)
        if len(sentences) not in (1, 2):
            raise ValueError(f"Example expects one or two sentences, got {len(sentences)}")
        for sentence in sentences:
            if not isinstance(sentence, Sentence):
                raise TypeError(f"Example expects Sentence objects, got {type(sentence).__name__} {sentence!r:.60}")
        if isinstance(label, int):
            raise TypeError(f"Example expects a class name (str) or a score (float) as label, got {label!r}")
        if isinstance(label, float) and not math.isfinite(label):
            raise ValueError(f"Example expects a finite score, got {label}")
        if not (math.isfinite(weight) and weight >= 0):
            raise ValueError(f"Example expects a finite weight of at least 0, got {weight}")
        for name, value in (("sentences", sentences), ("label", label), ("id", id), ("weight", float(weight))):
            object.__setattr__(self, name, value)
