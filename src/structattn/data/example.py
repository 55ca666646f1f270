"""One labelled item of a data set: one or two sentences, a label, an id.

Single sentences and pairs are one type, shared by every reader, task and model.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from structattn.errors import shown
from structattn.syntax.sentence import Sentence


@dataclass(frozen=True, init=False)
class Example:
    """One or two sentences and their label.

    Attributes:
        sentences: one sentence, or a pair; a text is split into words by ``Sentence.from_text``.
        label: a class name, several of them as ``join_labels`` writes them, a score, or ``None`` when unknown.
        id: name of the example in its data set; predictions carry it.
        weight: factor that multiplies its loss, at least 0.
        line: number, from 1, of the line it was read from, for error messages; ``None`` if it is not from a file, or
            from one that names its sentences. Ignored when examples are compared.
        row: its number, from 1, among the rows of a collection or of an array, in place of a line.
        file: the file among several that it was read from.

    Raises:
        ValueError: unless there are one or two sentences; for a weight or score that is not finite, or a negative
            weight.
        TypeError: for an item that is neither a ``Sentence`` nor a text (texts come alone or in a tuple), or a label
            that is neither a string nor a float.

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
    row: int | None = field(default=None, compare=False, repr=False)
    file: str | None = field(default=None, compare=False, repr=False)

    def __init__(
        self,
        sentences: Sentence | str | Sequence[Sentence | str],
        label: str | float | None = None,
        *,
        id: str = "",
        weight: float = 1.0,
        line: int | None = None,
        row: int | None = None,
        file: str | None = None,
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
        values = {"sentences": pair, "label": label, "id": id, "weight": float(weight), "line": line, "row": row}
        values |= {"file": file}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def describe(self, index: int | None = None) -> str:
        """Its name in error messages: its id, or else its index, and its line or row.

        Args:
            index: how many examples come before it, if that is known.

        Example:
            >>> Example("a dog", id="7", line=9).describe(0), Example("a dog").describe(0)
            ('example 7 (line 9)', 'example 0')
        """
        name = "without an id" if not self.id and index is None else self.id or index
        places = {"line": self.line, "row": self.row}
        return f"example {name}" + "".join(
            f" ({kind} {place:,})" for kind, place in places.items() if place is not None
        )


def join_labels(labels: Iterable[str]) -> str:
    """Several classes as the label of an example: sorted, each once, with bars between them; empty for none."""
    return "|".join(sorted(set(labels)))


def split_labels(label: str) -> list[str]:
    """The inverse of ``join_labels``."""
    return label.split("|") if label else []


def list_sentences(item: "Example | Sentence | str") -> tuple[Sentence, ...]:
    """The sentences of an example, or a sentence or text as a tuple of one sentence."""
    if isinstance(item, Example):
        return item.sentences
    if isinstance(item, str):
        return (Sentence.from_text(item),)
    if isinstance(item, Sentence):
        return (item,)
    raise TypeError(f"expected an Example, a Sentence or a text, got {type(item).__name__} {shown(item)}")
