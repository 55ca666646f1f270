"""Words and subword tokens: which subword belongs to which word, and trees without the words that have none.

Only character offsets are needed, no tokenizer.
"""

import bisect
from collections.abc import Collection, Sequence
from typing import overload

from structattn.syntax.dependency_tree import DependencyTree

Offsets = tuple[int, int]
"""Half-open character offsets ``(start, end)`` into a text."""

_ESCAPED = {"-LRB-": "(", "-RRB-": ")", "-LCB-": "{", "-RCB-": "}", "-LSB-": "[", "-RSB-": "]", "``": '"', "''": '"'}


@overload
def align_words(words: Sequence[str], text_or_offsets: str) -> list[Offsets]: ...


@overload
def align_words(
    words: Sequence[str], text_or_offsets: Sequence[Offsets | None], *, text: str | None = None
) -> list[int | None]: ...


def align_words(
    words: Sequence[str], text_or_offsets: str | Sequence[Offsets | None], *, text: str | None = None
) -> list[Offsets] | list[int | None]:
    """Align words with the text they were split from, or subwords with words.

    Given a text, the result is the offsets of each word in it. Given the character offsets of subwords, as fast
    tokenizers report them, the result is the number of the word that each subword belongs to: the word with which it
    shares the most characters, the first in a tie; a subword that covers several whole words belongs to the first of
    them. Spaces inside a subword are ignored. None stands for a subword of no word, such as ``[CLS]``.

    Args:
        words: the words, in order. Penn escapes (``-LRB-``, two backquotes) match the characters they stand for.
        text_or_offsets: the text, or one ``(start, end)`` per subword; None or an empty span for special tokens.
        text: with offsets: the text that they point into; the words joined by single spaces if not given.

    Raises:
        ValueError: if a word does not come next in the text, or an offset lies outside the text.

    Example:
        >>> align_words(["do", "n't"], "don't")
        [(0, 2), (2, 5)]
        >>> align_words(["kids", "washing"], [(0, 0), (0, 4), (4, 9), (9, 12), (0, 0)])
        [None, 0, 1, 1, None]
    """
    if isinstance(text_or_offsets, str):
        return _find_words(words, text_or_offsets)
    text = " ".join(words) if text is None else text
    spans = _find_words(words, text)
    return [None if offsets is None else _find_owner(offsets, spans, text) for offsets in text_or_offsets]


def contract_heads(heads: Sequence[int], present: Collection[int]) -> list[int]:
    """Heads without the words that are not present: their children are attached to their nearest remaining ancestors.

    Present words are numbered from 0; heads are CoNLL ids, 0 for words that are not present.
    """
    depths = DependencyTree(heads).depths()
    nearest = list(heads)
    for word in sorted(range(len(heads)), key=depths.__getitem__):
        head = heads[word]
        if head and head - 1 not in present:
            nearest[word] = nearest[head - 1]
    return [head if word in present else 0 for word, head in enumerate(nearest)]


def _find_words(words: Sequence[str], text: str) -> list[Offsets]:
    spans = []
    position = 0
    for number, word in enumerate(words):
        forms = tuple(form for form in (word, _ESCAPED.get(word)) if form)
        # A word may begin with white space itself, such as a no-break space.
        while position < len(text) and text[position].isspace() and not text.startswith(forms, position):
            position += 1
        form = next((form for form in forms if text.startswith(form, position)), None)
        if form is None:
            start = text[position : position + 20]
            raise ValueError(f"expected word {number} {word!r} at character {position} of the text, got {start!r}")
        spans.append((position, position + len(form)))
        position += len(form)
    return spans


def _find_owner(offsets: Offsets, spans: Sequence[Offsets], text: str) -> int | None:
    """The number of the word that a subword belongs to, given where each word is in the text."""
    start, end = offsets
    if not 0 <= start <= end <= len(text):
        raise ValueError(f"offsets must lie in a text of {len(text)} characters, got {offsets}")
    start += len(text[start:end]) - len(text[start:end].lstrip())
    shared: dict[int, int] = {}
    whole = []
    number = bisect.bisect_right(spans, start, key=lambda span: span[1])
    while number < len(spans) and spans[number][0] < end:
        word_start, word_end = spans[number]
        shared[number] = min(end, word_end) - max(start, word_start)
        if shared[number] == word_end - word_start:
            whole.append(number)
        number += 1
    return whole[0] if len(whole) > 1 else max(shared, key=shared.__getitem__, default=None)
