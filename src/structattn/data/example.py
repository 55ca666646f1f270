"""One labelled item of a data set: one or two sentences, a label, an id.

Single sentences and pairs are one type, shared by every reader, task and model.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from structattn.syntax import Sentence
from structattn.syntax.errors import shown


@dataclass(frozen=True, init=False)
class Example:
    """One or two sentences and their label.

    Attributes:
        sentences: one sentence, or a pair; a text is split into words by ``Sentence.from_text``.
        label: a class name, a score, or ``None`` when unknown.
        id: name of the example in its data set; predictions carry it.
        weight: factor of its loss.
        line: the line of its file that it was read from, counted from 1, so that an error can name it; ``None`` where
            it is from no file, or from one that names its sentences. Examples that differ in nothing else are equal.

    Raises:
        ValueError: not one or two sentences, or a weight or score that is not finite (a weight must not be negative).
        TypeError: an item that is neither a ``Sentence`` nor, alone or in a tuple, a text; or a label that is neither
            string nor float.

    Example:
        >>> from structattn.syntax import Sentence
        >>> example = Example((Sentence(["a", "dog"]), Sentence(["an", "animal"])), "entailment", id="7")
        >>> len(example.sentences), example.label
        (2, 'entailment')
        >>> Example("a dog").sentences == Example(Sentence.from_text("a dog")).sentences
        True
    """

    sentences: tuple[Sentence, ...]
    label: str | float | None = None
    id: str = ""
    weight: float = 1.0
    line: int | None = field(default=None, compare=False, repr=False)

    def __init__(
        self,
        sentences: Sentence | str | Sequence[Sentence | str],
        label: str | float | None = None,
        *,
        id: str = "",
        weight: float = 1.0,
        line: int | None = None,
    ) -> None:
        parts = (sentences,) if isinstance(sentences, Sentence | str) else tuple(sentences)
        if isinstance(sentences, list) and any(isinstance(part, str) for part in parts):
            got = shown(list(parts))
            raise TypeError(f"Example expects sentences or a tuple of texts, got {got}; Sentence([...]) takes words")
        if len(parts) not in (1, 2):
            raise ValueError(f"Example expects one or two sentences, got {len(parts)}")
        for part in parts:
            if not isinstance(part, Sentence | str):
                raise TypeError(f"Example expects sentences or texts, got {type(part).__name__} {shown(part)}")
        pair = tuple(Sentence.from_text(part) if isinstance(part, str) else part for part in parts)
        if isinstance(label, int):
            raise TypeError(f"Example expects a class name (str) or a score (float) as label, got {label!r}")
        if isinstance(label, float) and not math.isfinite(label):
            raise ValueError(f"Example expects a finite score, got {label}")
        if not (math.isfinite(weight) and weight >= 0):
            raise ValueError(f"Example expects a finite weight of at least 0, got {weight}")
        values = {"sentences": pair, "label": label, "id": id, "weight": float(weight), "line": line}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def described(self, index: int | None = None) -> str:
        """What an error calls it: by its id, or else by its index among the others, and by its line.

        Example:
            >>> Example("a dog", id="7", line=9).described(0), Example("a dog").described(0)
            ('example 7 (line 9)', 'example 0')
        """
        name = "without an id" if not self.id and index is None else self.id or index
        return f"example {name}" + ("" if self.line is None else f" (line {self.line:,})")


def sentences_of(item: "Example | Sentence | str") -> tuple[Sentence, ...]:
    """The sentences of an example, or the sentence that a text is.

    Raises:
        TypeError: for anything else.

    Example:
        >>> [sentence.words for sentence in sentences_of("It isn't.")]
        [('It', 'is', "n't", '.')]
    """
    if isinstance(item, Example):
        return item.sentences
    if isinstance(item, str):
        return (Sentence.from_text(item),)
    if isinstance(item, Sentence):
        return (item,)
    raise TypeError(f"expected an Example, a Sentence or a text, got {type(item).__name__} {shown(item)}")
