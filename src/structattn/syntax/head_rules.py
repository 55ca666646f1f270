"""Which child is the head of a phrase: by its Penn Treebank label, or by its words where labels say nothing of syntax.

The scheme of priorities is that of Magerman (1995, appendix) and Collins (1999, appendix A); directions follow the
usual conversion to dependencies, in which the last conjunct heads a noun phrase or sentence and the verb, not ``to``,
heads an infinitive.

For trees such as those of the sentiment treebank (SST), closed-class English words give the category of a leaf, and a
small table gives that of two neighbours together. It is a rough guess, and uses nothing of a treebank's annotation.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache

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

_PRIORITIES = {
    label: (direction, tuple(frozenset(group.split("/")) for group in groups.split()))
    for label, (direction, groups) in _RULES.items()
}


def find_heads(
    words: Sequence[str],
    tags: Sequence[str | None],
    spans: Sequence[tuple[str, int, int]],
    *,
    parents: Sequence[int],
    leaf_parents: Sequence[int],
) -> list[int]:
    """Head of every word as a CoNLL id; the arguments are fields of a ``ConstituencyTree``."""
    is_penn = any(plain_label(label) in _RULES for label, _, _ in spans)
    # The category of a child: its label, or the rough class of its words where labels say nothing.
    names = [plain_label(label) for label, _, _ in spans]
    word_names = [plain_label(tag or "") for tag in tags] if is_penn else [word_class(word) for word in words]
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
            position = find_head_child(names[index], child_names)
        else:
            position, names[index] = guess_head_child(child_names)
        head_word[index] = candidates[position]
        for candidate in candidates:
            if candidate != head_word[index]:
                heads[candidate] = head_word[index] + 1
    return heads


def find_head_child(label: str, children: Sequence[str]) -> int:
    """Position of the head among the children of a phrase, all given by their plain labels."""
    direction, groups = _PRIORITIES.get(label, ("right", ()))
    order = range(len(children)) if direction == "left" else range(len(children) - 1, -1, -1)
    for group in groups:
        for position in order:
            if children[position] in group:
                return position
    for position in order:
        if children[position] not in _PUNCTUATION:
            return position
    return order[0]


@lru_cache(1 << 12)
def plain_label(label: str) -> str:
    """A label without function tags and indices: ``NP`` for ``NP-SBJ-1`` and ``NP=2``; ``-LRB-`` stays."""
    return label if label.startswith("-") else label.split("-")[0].split("=")[0]


_WORDS = {
    "auxiliary": "will would can could may might must shall should wo ca ai 'll 'd is are was were be been being am 're"
    " 'm has have had 've do does did",
    "adverb": "not n't very too so more most less least also just only even still never ever always often well much"
    " quite rather almost really then there here about as perhaps maybe far again once already yet",
    "complementizer": "that who which what when where why how whom whose",
    "conjunction": "and or but nor & plus",
    "determiner": "the a an this these those some any no every each all both another its his her their our my"
    " your 's '",
    "noun phrase": "i he she it they we you him them us me himself herself itself themselves yourself nothing something"
    " anything everything nobody someone one",
    "preposition": "of in for with on at by from into like after before between through over under against during"
    " without within among than because if while although though since until whether despite upon toward towards"
    " across behind near per unless whereas amid out off up down beyond",
    "to": "to",
    "verb": "say says said make makes made get gets got go goes went gone come comes came take takes took taken give"
    " gives gave given see sees saw seen know knows knew known think thinks thought find finds found become becomes"
    " became feel feels felt keep keeps kept let lets seem seems leave leaves left put puts bring brings brought begin"
    " begins began begun run runs ran hold holds held tell tells told rise rose fall fell sell sold buy bought pay paid"
    " lose loses lost meet met set sit sits stand stood build built send sent spend spent win won grow grows grew want"
    " wants need needs help helps try tries remain remains offer offers provide provides work works show shows showed"
    " shown turn turns play plays look looks manage manages deliver delivers lack lacks prove proves deserve deserves"
    " enjoy love loves believe believes expect expects likes hope hopes add adds mean means suggest suggests",
}
_CLASS_OF = {word: name for name, words in _WORDS.items() for word in words.split()}

_ANY = "any"
# Left neighbour, right neighbour, which of the two is the head, and what they make. The first match applies.
_TABLE = (
    (_ANY, "punctuation", "left", "left"),
    ("punctuation", _ANY, "right", "right"),
    ("conjunction", _ANY, "right", "right"),
    (_ANY, "conjunction", "left", "left"),
    ("to", "noun phrase", "left", "prepositional phrase"),
    ("to", _ANY, "right", "verb"),
    ("preposition", _ANY, "left", "prepositional phrase"),
    ("complementizer", _ANY, "left", "prepositional phrase"),
    ("auxiliary", _ANY, "left", "verb"),
    ("determiner", _ANY, "right", "noun phrase"),
    (_ANY, "prepositional phrase", "left", "left"),
    (_ANY, "preposition", "left", "left"),
    (_ANY, "adverb", "left", "left"),
    ("adverb", _ANY, "right", "right"),
    ("noun phrase", "participle", "left", "noun phrase"),
    ("noun phrase", "clause", "left", "noun phrase"),
    ("noun phrase", "noun phrase", "right", "noun phrase"),
    ("noun phrase", _ANY, "right", "clause"),  # a complete noun phrase is followed by its verb, known or not
    ("participle", "noun", "right", "noun"),
    ("participle", _ANY, "left", "participle"),
    ("verb", _ANY, "left", "verb"),
    ("noun", "noun phrase", "left", "verb"),  # what looked like a noun takes an object: it was an unlisted verb
    ("noun", "clause", "left", "verb"),
    ("noun", "verb", "right", "clause"),
    ("noun", "auxiliary", "right", "clause"),
    (_ANY, _ANY, "right", "right"),
)


def word_class(word: str) -> str:
    """Rough class of a word: from the lists, or from its ending; any other word is a noun."""
    word = word.lower()
    if word in _CLASS_OF:
        return _CLASS_OF[word]
    if not any(character.isalnum() or character in "$%#" for character in word):
        return "punctuation"
    if word.endswith("ly"):
        return "adverb"
    return "participle" if word.endswith("ing") else "verb" if word.endswith("ed") else "noun"


def guess_head_child(classes: Sequence[str]) -> tuple[int, str]:
    """Position of the head among the children, and the class of the phrase; children are joined from the right."""
    position, joined = len(classes) - 1, classes[-1]
    for left in range(len(classes) - 2, -1, -1):
        side, name = next(
            (side, name)
            for first, second, side, name in _TABLE
            if first in (_ANY, classes[left]) and second in (_ANY, joined)
        )
        position = left if side == "left" else position
        joined = {"left": classes[left], "right": joined}.get(name, name)
    return position, joined
