"""Which child is the head of a phrase, for Penn Treebank labels.

The scheme of priorities is that of Magerman (1995, appendix) and Collins (1999, appendix A); directions follow the
usual conversion to dependencies, in which the last conjunct heads a noun phrase or sentence and the verb, not ``to``,
heads an infinitive.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache

from structattn.syntax import lexical_heads

_PUNCTUATION = frozenset(["''", "``", ",", ".", ":", "-LRB-", "-RRB-"])

# For each phrase: the end to search from, then what to look for, in order; "/" separates labels of equal rank.
_RULES: Mapping[str, tuple[str, str]] = {
    "ADJP": ("right", "NNS QP NN $ ADVP JJ VBN VBG ADJP JJR NP JJS DT FW RBR RBS SBAR RB"),
    "ADVP": ("left", "RB RBR RBS FW ADVP TO CD JJR JJ IN NP JJS NN"),
    "CONJP": ("left", "CC RB IN"),
    "FRAG": ("left", ""),
    "INTJ": ("left", ""),
    "LST": ("right", "LS :"),
    "NAC": ("right", "NN/NNS NNP/NNPS NP NAC EX $ CD QP PRP VBG JJ JJS JJR ADJP FW"),
    "NP": ("right", "NN/NNP/NNPS/NNS/NX/POS/JJR NP CD $/ADJP/PRN JJ/JJS/RB/QP"),
    "NX": ("right", "NN/NNP/NNPS/NNS/NX/POS/JJR NP CD $/ADJP/PRN JJ/JJS/RB/QP"),
    "PP": ("left", "IN TO VBG VBN RP FW"),
    "PRN": ("right", ""),
    "PRT": ("right", "RP"),
    "QP": ("right", "$ IN NNS NN CD JJ RB DT QP JJR JJS"),
    "RRC": ("right", "VP NP ADVP ADJP PP"),
    "S": ("right", "VP S SBAR ADJP UCP NP"),
    "SBAR": ("right", "WHNP WHPP WHADVP WHADJP IN DT S SQ SINV SBAR FRAG"),
    "SBARQ": ("left", "SQ S SINV SBARQ FRAG"),
    "SINV": ("left", "VBZ VBD VBP VB MD VP S SINV ADJP NP"),
    "SQ": ("left", "VBZ VBD VBP VB MD VP SQ"),
    "UCP": ("left", ""),
    "VP": ("left", "VBD VBN MD VBZ VB VBG VBP VP TO ADJP NN NNS NP"),
    "WHADJP": ("left", "CC WRB JJ ADJP"),
    "WHADVP": ("right", "CC WRB"),
    "WHNP": ("left", "WDT WP WP$ WHADJP WHPP WHNP"),
    "WHPP": ("right", "IN TO FW"),
}

_WANTED = {
    label: (direction, tuple(frozenset(group.split("/")) for group in wanted.split()))
    for label, (direction, wanted) in _RULES.items()
}


def find_heads(
    words: Sequence[str],
    tags: Sequence[str | None],
    spans: Sequence[tuple[str, int, int]],
    *,
    parents: Sequence[int],
    leaf_parents: Sequence[int],
) -> list[int]:
    """Head of every word as a CoNLL id, for a tree given as the fields of a ``ConstituencyTree``.

    Example:
        >>> find_heads(["the", "cat"], ["DT", "NN"], [("NP", 0, 2)], parents=[-1], leaf_parents=[0, 0])
        [2, 0]
    """
    is_penn = any(plain_label(label) in _RULES for label, _, _ in spans)
    # The category of a child: its label, or the rough class of its words where labels say nothing.
    names = [plain_label(label) for label, _, _ in spans]
    word_names = [plain_label(tag or "") for tag in tags] if is_penn else [lexical_heads.word_class(w) for w in words]
    # A child is the index of a span, or ~word for a word; both kinds in one list, sorted by where they start.
    children: list[list[tuple[int, int]]] = [[] for _ in spans]
    for index, parent in enumerate(parents):
        if parent >= 0:
            children[parent].append((spans[index][1], index))
    for word, parent in enumerate(leaf_parents):
        if parent >= 0:
            children[parent].append((word, ~word))
    heads = [0] * len(words)
    head_word = [0] * len(spans)
    for index in range(len(spans) - 1, -1, -1):
        ordered = [child for _, child in sorted(children[index])]
        candidates = [head_word[child] if child >= 0 else ~child for child in ordered]
        child_names = [names[child] if child >= 0 else word_names[~child] for child in ordered]
        if is_penn:
            position = choose_head(names[index], child_names)
        else:
            position, names[index] = lexical_heads.choose_head(child_names)
        head_word[index] = candidates[position]
        for candidate in candidates:
            if candidate != head_word[index]:
                heads[candidate] = head_word[index] + 1
    return heads


def choose_head(label: str, children: Sequence[str]) -> int:
    """Position of the head among the children of a phrase, all given by their plain labels.

    Example:
        >>> choose_head("VP", ["VBD", "NP", "PP"])
        0
    """
    direction, wanted = _WANTED.get(label, ("right", ()))
    order = range(len(children)) if direction == "left" else range(len(children) - 1, -1, -1)
    for group in wanted:
        for position in order:
            if children[position] in group:
                return position
    for position in order:
        if children[position] not in _PUNCTUATION:
            return position
    return order[0]


@lru_cache(1 << 12)
def plain_label(label: str) -> str:
    """Cut function tags and indices off a label.

    Example:
        >>> plain_label("NP-SBJ-1"), plain_label("NP=2"), plain_label("-LRB-")
        ('NP', 'NP', '-LRB-')
    """
    return label if label.startswith("-") else label.split("-")[0].split("=")[0]
