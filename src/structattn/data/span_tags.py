"""Labelled spans as one tag for each word, in the BIO scheme, and back.

``B-X`` begins a span of label ``X``, ``I-X`` continues it, and ``O`` is outside all spans.

Reference: Ramshaw and Marcus (1995), Text chunking using transformation-based learning; the variant in which every span
begins with ``B-`` is that of Tjong Kim Sang and Veenstra (1999), there called IOB2.
"""

from collections.abc import Iterable, Sequence

Span = tuple[int, int, str]
"""Start and end (half-open, counted from 0), and label."""


def tag_spans(spans: Iterable[Span], num_words: int) -> list[str]:
    """The tags of spans that do not overlap."""
    tags = ["O"] * num_words
    for start, end, label in spans:
        if not 0 <= start < end <= num_words:
            raise ValueError(f"span {start}:{end} does not fit {num_words} words")
        if any(tag != "O" for tag in tags[start:end]):
            raise ValueError(f"span {start}:{end} overlaps with another one, which BIO tags cannot represent")
        tags[start:end] = [f"B-{label}"] + [f"I-{label}"] * (end - start - 1)
    return tags


def find_spans(tags: Sequence[str]) -> list[Span]:
    """The spans of tags; an ``I-`` tag that may not follow the tag before it begins a span, as in the CoNLL scorer.

    Tags of other forms are outside all spans.
    """
    spans: list[Span] = []
    previous: str | None = None
    for position, tag in enumerate(tags):
        kind, _, label = tag.partition("-")
        if kind == "I" and may_follow(previous, tag):
            spans[-1] = (spans[-1][0], position + 1, label)
        elif kind in ("B", "I") and label:
            spans.append((position, position + 1, label))
        previous = tag
    return spans


def is_bio(tags: Iterable[str]) -> bool:
    """Whether tags follow the scheme: only ``O``, ``B-X`` and ``I-X``, with at least one ``B-X`` among them."""
    kinds = {tag if tag == "O" else tag[:2] if len(tag) > 2 else "" for tag in tags}
    return "B-" in kinds and kinds <= {"O", "B-", "I-"}


def may_follow(previous: str | None, tag: str) -> bool:
    """Whether a tag may follow another one or, after ``None``, start a sentence."""
    if not tag.startswith("I-"):
        return True
    return previous is not None and previous in (f"B-{tag[2:]}", tag)
