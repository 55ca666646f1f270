"""Which child is the head of a phrase whose label says nothing about syntax, as in the sentiment treebank (SST).

Nothing here comes from a treebank's annotation: closed-class English words give the category of a leaf, and a small
table gives that of two neighbours together. It is a rough guess, for trees without tags and without a parser at hand.
"""

from collections.abc import Sequence

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
    """Rough class of a word: from the lists, or from its ending; any other word is a noun.

    Example:
        >>> word_class("The"), word_class("boring"), word_class("film"), word_class("...")
        ('determiner', 'participle', 'noun', 'punctuation')
    """
    word = word.lower()
    if word in _CLASS_OF:
        return _CLASS_OF[word]
    if not any(character.isalnum() or character in "$%#" for character in word):
        return "punctuation"
    if word.endswith("ly"):
        return "adverb"
    return "participle" if word.endswith("ing") else "verb" if word.endswith("ed") else "noun"


def choose_head(classes: Sequence[str]) -> tuple[int, str]:
    """Position of the head among a phrase's children, and the class of the phrase; children are joined from the right.

    Example:
        >>> choose_head(["noun phrase", "verb"]), choose_head(["verb", "noun phrase", "prepositional phrase"])
        ((1, 'clause'), (0, 'verb'))
    """
    position, made = len(classes) - 1, classes[-1]
    for left in range(len(classes) - 2, -1, -1):
        side, name = next(
            (side, name)
            for first, second, side, name in _TABLE
            if first in (_ANY, classes[left]) and second in (_ANY, made)
        )
        position = left if side == "left" else position
        made = {"left": classes[left], "right": made}.get(name, name)
    return position, made
