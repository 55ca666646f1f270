"""Labelled spans as one tag for each word, in the schemes of the field, and back.

``B-X`` begins a span of label ``X``, ``I-X`` continues it, and ``O`` is outside all spans. In IOB1, ``B-`` only
separates neighbours of the same label; in IOB2, every span begins with it. IOBES and BILOU also mark the last word of
a span (``E``, ``L``) and spans of one word (``S``, ``U``). Bare types have no such letter: a run of the same type is a
span.

References: Ramshaw and Marcus (1995), Text chunking using transformation-based learning, for IOB1; Tjong Kim Sang and
Veenstra (1999), Representing text chunks, for IOB2; Ratinov and Roth (2009), Design challenges and misconceptions in
named entity recognition, for BILOU.
"""

import itertools
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

Span = tuple[int, int, str]
"""Start and end (half-open, counted from 0), and label."""

Pair = tuple[str | None, str | None]
"""Neighbouring tags; ``None`` before the first and after the last of a sentence."""

OUTSIDE: Final = "O"
_LETTERS: Final = {"B": "B", "I": "I", "M": "I", "E": "E", "L": "E", "S": "S", "U": "S", "W": "S"}
_FORMS: Final = {
    "prefix": re.compile(r"(?P<letter>[BIMELSUW])(?:[-_:/.|](?P<label>.+))?", re.IGNORECASE),
    "suffix": re.compile(r"(?:(?P<label>.+)[-_:/.|])?(?P<letter>[BIMELSUW])", re.IGNORECASE),
}
_BY_LETTERS: Final = (("IOB2", "BI"), ("IOBES", "BIES"), ("BILOU", "BILU"), ("BMES", "BMES"), ("BMEWO", "BMEW"))
_SHOWN: Final = 8


@dataclass(frozen=True)
class TagScheme:
    """How tags mark spans.

    Attributes:
        name: ``IOB1``, ``IOB2``, ``IOBES``, ``BILOU``, ``BMES``, ``BMEWO``, or ``types`` for bare types.
        form: where the letter stands, ``prefix`` as in ``B-X`` or ``suffix`` as in ``X-B``; ``bare`` without one.
    """

    name: str
    form: str = "prefix"

    def __str__(self) -> str:
        return (
            "bare types" if self.name == "types" else f"{self.name} {'suffixes' if self.form == 'suffix' else 'tags'}"
        )

    def parse(self, tag: str) -> tuple[str, str]:
        """The part of a span that a tag marks, ``B``, ``I``, ``E``, ``S`` or ``O``, and the span's label."""
        if tag.upper() == OUTSIDE:
            return OUTSIDE, ""
        match = _FORMS[self.form].fullmatch(tag) if self.form in _FORMS else None
        return ("I", tag) if match is None else (_LETTERS[match["letter"].upper()], match["label"] or "")

    def find_spans(self, tags: Sequence[str]) -> list[Span]:
        """The spans of tags in any order: a tag that may not continue the span before it begins one.

        This is how the scorer of CoNLL-2000 reads IOB1, IOB2 and IOBES.

        Example:
            >>> TagScheme("IOBES").find_spans(["B-PER", "E-PER", "O", "S-LOC"])
            [(0, 2, 'PER'), (3, 4, 'LOC')]
        """
        spans: list[Span] = []
        is_open = False
        for position, tag in enumerate(tags):
            part, label = self.parse(tag)
            if is_open and part in ("I", "E") and label == spans[-1][2]:
                spans[-1] = (spans[-1][0], position + 1, label)
            elif part != OUTSIDE:
                spans.append((position, position + 1, label))
            is_open = part in ("B", "I")
        return spans

    def may_follow(self, previous: str | None, tag: str | None) -> bool:
        """Whether a tag may follow another one; ``None`` is the start of a sentence before, and its end after."""
        before, before_label = (OUTSIDE, "") if previous is None else self.parse(previous)
        part, label = (OUTSIDE, "") if tag is None else self.parse(tag)
        same = label == before_label
        if self.name == "types":
            return True
        if self.name == "IOB1":
            return part != "B" or (before in ("B", "I") and same)
        if part in ("I", "E"):
            return before in ("B", "I") and same
        return self.name == "IOB2" or before not in ("B", "I")


def tag_spans(spans: Iterable[Span], num_words: int) -> list[str]:
    """The tags of spans that do not overlap, in IOB2."""
    tags = [OUTSIDE] * num_words
    for start, end, label in spans:
        if not 0 <= start < end <= num_words:
            raise ValueError(f"span {start}:{end} does not fit {num_words} words")
        if any(tag != OUTSIDE for tag in tags[start:end]):
            raise ValueError(f"span {start}:{end} overlaps with another one, which one tag per word cannot represent")
        tags[start:end] = [f"B-{label}"] + [f"I-{label}"] * (end - start - 1)
    return tags


def list_pairs(tags: Sequence[str]) -> list[Pair]:
    """Neighbouring tags of a sentence, its start and its end included.

    Example:
        >>> list_pairs(["O", "B-PER"])
        [(None, 'O'), ('O', 'B-PER'), ('B-PER', None)]
    """
    return list(itertools.pairwise((None, *tags, None))) if tags else []


def recognise_scheme(tags: Collection[str], pairs: Iterable[Pair] = ()) -> TagScheme:
    """The scheme that all tags of a data set follow.

    IOB1 and IOB2 have the same tags; only which tag follows which tells them apart.

    Args:
        tags: every tag that occurs.
        pairs: every tag with the one before it in its sentence, as ``list_pairs`` gives them.

    Raises:
        ValueError: if some tags mark parts of spans and some do not, or with the letters of several schemes.

    Example:
        >>> recognise_scheme(["O", "B-PER", "L-PER", "U-LOC"]).name, recognise_scheme(["O", "PER"]).name
        ('BILOU', 'types')
    """
    marks = sorted(tag for tag in set(tags) if tag.upper() != OUTSIDE)
    for form, pattern in _FORMS.items():
        matches = [pattern.fullmatch(tag) for tag in marks]
        if marks and all(matches):
            letters = {match["letter"].upper() for match in matches if match is not None}
            name = next((name for name, alphabet in _BY_LETTERS if letters <= set(alphabet)), None)
            if name is None:
                raise ValueError(f"{_list(marks)}: the letters {', '.join(sorted(letters))} are of no one scheme")
            scheme = TagScheme(name, form)
            return TagScheme("IOB1", form) if name == "IOB2" and _is_iob1(scheme, letters, pairs) else scheme
    unmarked = [tag for tag in marks if not any(_is_marked(form, tag) for form in _FORMS)]
    if len(unmarked) == len(marks):
        return TagScheme("types", "bare")
    marked = [tag for tag in marks if tag not in unmarked]
    raise ValueError(
        f"some tags mark the first and further words of spans ({_list(marked)}) and some do not ({_list(unmarked)}): "
        "expected IOB1, IOB2, IOBES or BILOU tags such as B-PER, or bare types such as PER, with O outside spans"
    )


def _is_marked(form: str, tag: str) -> bool:
    match = _FORMS[form].fullmatch(tag)
    return match is not None and match["label"] is not None


def _is_iob1(scheme: TagScheme, letters: set[str], pairs: Iterable[Pair]) -> bool:
    """Whether ``B`` begins no span but those that follow one of the same label, and some begin with ``I``."""
    iob1 = TagScheme("IOB1", scheme.form)
    pairs = list(pairs)
    return all(iob1.may_follow(*pair) for pair in pairs) and not (
        "B" in letters and all(scheme.may_follow(*pair) for pair in pairs)
    )


def _list(tags: Sequence[str]) -> str:
    more = f" and {len(tags) - _SHOWN} more" if len(tags) > _SHOWN else ""
    return ", ".join(tags[:_SHOWN]) + more
