"""Words and subword tokens: which subword belongs to which word, and trees projected onto subwords.

Only character offsets and word numbers are needed, no tokenizer. The rules are those of HYDRA (arXiv 2109.05349,
wordpieces): a subword takes the relations of its word.
"""

import bisect
from collections.abc import Collection, Sequence
from typing import Literal, overload

from structattn.syntax.dependency import DependencyTree

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
    places = _find_words(words, text)
    return [None if offsets is None else _word_of(offsets, places, text) for offsets in text_or_offsets]


def project_heads(
    heads: Sequence[int],
    word_ids: Sequence[int | None],
    *,
    subword: Literal["all", "first"] = "all",
    relation: Literal["arc", "head", "child"] = "arc",
) -> list[list[int]]:
    r"""Project a dependency tree onto subwords, as a subword-by-subword relation; rows are queries, columns are keys.

    .. math:: M^*_{ab} = R[w(a), w(b)]

    with :math:`w(a)` the word of subword *a*. Subwords of one word are not related, nor are special tokens. A word
    without subwords is removed from the tree: its children are attached to its head.

    Args:
        heads: the head of each word, CoNLL ids.
        word_ids: for each subword the number of its word from 0, None for special tokens.
        subword: ``all`` subwords of a word take its relations, or only the ``first``.
        relation: ``R[i, j]`` is 1 if one is the head of the other (``arc``), if j is the head of i (``head``), or if
            i is the head of j (``child``).

    Raises:
        ValueError: if a word number is out of range, the heads do not form a tree, or an option has another value.

    Example:
        >>> project_heads([2, 0], [None, 0, 1, 1, None])      # [CLS] kids wash ##ing [SEP]
        [[0, 0, 0, 0, 0], [0, 0, 1, 1, 0], [0, 1, 0, 0, 0], [0, 1, 0, 0, 0], [0, 0, 0, 0, 0]]
    """
    if relation not in ("arc", "head", "child"):
        raise ValueError(f"relation must be 'arc', 'head' or 'child', got {relation!r}")
    num_words = len(heads)
    nearest = contract_heads(heads, {word for word in word_ids if word is not None})
    matrix = [[0] * num_words for _ in range(num_words)]
    for word, head in enumerate(nearest):
        if head > 0:
            if relation in ("arc", "head"):
                matrix[word][head - 1] = 1
            if relation in ("arc", "child"):
                matrix[head - 1][word] = 1
    return project_relation(matrix, word_ids, subword=subword)


def project_relation(
    relation: Sequence[Sequence[int]], word_ids: Sequence[int | None], *, subword: Literal["all", "first"] = "all"
) -> list[list[int]]:
    """Project any word-by-word relation onto subwords: 0 between subwords of one word and for special tokens.

    The relation of a word to itself becomes that of each of its subwords to itself, not to the word's other subwords.

    Args:
        relation: the matrix over words.
        word_ids: for each subword the number of its word from 0, None for special tokens.
        subword: ``all`` subwords of a word take its relations, or only the ``first``.

    Raises:
        ValueError: if a word number is out of range or ``subword`` has another value.

    Example:
        >>> project_relation([[0, 3], [3, 0]], [0, 1, 1])
        [[0, 3, 3], [3, 0, 0], [3, 0, 0]]
    """
    if subword not in ("all", "first"):
        raise ValueError(f"subword must be 'all' or 'first', got {subword!r}")
    seen: set[int] = set()
    owners: list[int | None] = []
    for word in word_ids:
        if word is not None and not 0 <= word < len(relation):
            raise ValueError(f"word ids must be from 0 to {len(relation) - 1}, got {word}")
        owners.append(None if word is None or (subword == "first" and word in seen) else word)
        if word is not None:
            seen.add(word)
    return [
        [
            0 if a is None or b is None or (a == b and row != column) else relation[a][b]
            for column, b in enumerate(owners)
        ]
        for row, a in enumerate(owners)
    ]


def contract_heads(heads: Sequence[int], present: Collection[int]) -> list[int]:
    """Remove words from a dependency tree: their children are attached to their nearest remaining ancestors.

    Args:
        heads: the head of each word, CoNLL ids.
        present: the words that stay, numbered from 0.

    Returns:
        A head for each of the words, the CoNLL id of a word that is present; 0 for words that are not.

    Raises:
        ValueError: if the heads do not form a tree.

    Example:
        >>> contract_heads([2, 3, 0], {0, 2})
        [3, 0, 0]
    """
    depths = DependencyTree(heads).depths()
    nearest = list(heads)
    for word in sorted(range(len(heads)), key=depths.__getitem__):
        head = heads[word]
        if head and head - 1 not in present:
            nearest[word] = nearest[head - 1]
    return [head if word in present else 0 for word, head in enumerate(nearest)]


def coverage(word_ids: Sequence[int | None], num_words: int) -> float:
    """Share of the words that have a subword: 1.0 unless a text was truncated or a tokenizer dropped characters.

    Args:
        word_ids: for each subword the number of its word from 0, None for special tokens.
        num_words: number of words; the coverage of no words is 1.0.

    Raises:
        ValueError: if a word number is out of range.

    Example:
        >>> coverage([None, 0, 0, 2, None], 4)
        0.5
    """
    found = {word for word in word_ids if word is not None}
    if found and not 0 <= min(found) <= max(found) < num_words:
        raise ValueError(f"word ids must be from 0 to {num_words - 1}, got {sorted(found)}")
    return len(found) / num_words if num_words else 1.0


def _find_words(words: Sequence[str], text: str) -> list[Offsets]:
    places = []
    position = 0
    for number, word in enumerate(words):
        forms = tuple(form for form in (word, _ESCAPED.get(word)) if form)
        # A word may begin with white space itself, such as a no-break space.
        while position < len(text) and text[position].isspace() and not text.startswith(forms, position):
            position += 1
        found = next((form for form in forms if text.startswith(form, position)), None)
        if found is None:
            rest = text[position : position + 20]
            raise ValueError(f"expected word {number} {word!r} at character {position} of the text, got {rest!r}")
        places.append((position, position + len(found)))
        position += len(found)
    return places


def _word_of(offsets: Offsets, places: Sequence[Offsets], text: str) -> int | None:
    start, end = offsets
    if not 0 <= start <= end <= len(text):
        raise ValueError(f"offsets must lie in a text of {len(text)} characters, got {offsets}")
    start += len(text[start:end]) - len(text[start:end].lstrip())
    shared: dict[int, int] = {}
    whole = []
    number = bisect.bisect_right(places, start, key=lambda place: place[1])
    while number < len(places) and places[number][0] < end:
        word_start, word_end = places[number]
        shared[number] = min(end, word_end) - max(start, word_start)
        if shared[number] == word_end - word_start:
            whole.append(number)
        number += 1
    return whole[0] if len(whole) > 1 else max(shared, key=shared.__getitem__, default=None)
