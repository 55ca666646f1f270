"""An endless treebank of subject-verb agreement with gold trees: data for the demo and the tests, without a download.

The task is that of Linzen et al. (2016), "Assessing the Ability of LSTMs to Learn Syntax-Sensitive Dependencies": given
the words before a verb, will the verb be singular or plural? An *attractor* is a noun between the subject and the verb
that differs from the subject in number.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from structattn.data.example import Example
from structattn.syntax.constituency_tree import ConstituencyTree
from structattn.syntax.dependency_tree import DependencyTree
from structattn.syntax.sentence import Sentence


def _pairs(text: str) -> tuple[tuple[str, str], ...]:
    """``"dog dogs, fox foxes"`` as pairs of a singular and a plural form."""
    return tuple((singular, plural) for singular, plural in (pair.split() for pair in text.split(",")))


_NOUNS = _pairs(
    "artist artists, author authors, baker bakers, boy boys, child children, clerk clerks, cook cooks, dancer dancers, "
    "doctor doctors, driver drivers, farmer farmers, fox foxes, girl girls, goose geese, guard guards, hunter hunters, "
    "judge judges, king kings, lady ladies, lawyer lawyers, man men, mouse mice, nurse nurses, painter painters, "
    "pilot pilots, poet poets, queen queens, sailor sailors, senator senators, singer singers, soldier soldiers, "
    "student students, teacher teachers, thief thieves, visitor visitors, wife wives, witch witches, wolf wolves, "
    "woman women, writer writers"
)
_VERBS = _pairs("is are, has have, sleeps sleep, smiles smile, waits wait, goes go, knows know, cries cry, does do")
_DETERMINERS = (("this", "that", "every", "each", "one"), ("these", "those", "many", "several", "two"))
_ADJECTIVES = ("young", "old", "tall", "clever", "quiet", "famous", "angry", "happy", "poor", "friendly")
_PREPOSITIONS = ("near", "behind", "beside", "with", "of", "from", "opposite", "around")
_CONJUNCTIONS = ("when", "because", "while", "after", "although")
_TRANSITIVE = ("admired", "helped", "visited", "praised", "followed", "thanked", "ignored", "met", "saw", "liked")
_INTRANSITIVE = ("smiled", "slept", "waited", "laughed", "danced")
_ADVERBS = ("often", "quietly", "never", "always", "rarely", "clearly")
_UNIVERSAL = {"DT": "DET", "JJ": "ADJ", "NN": "NOUN", "NNS": "NOUN", "IN": "ADP", "VBD": "VERB", "RB": "ADV"}
_UNIVERSAL |= {"WDT": "PRON", "WP": "PRON", ",": "PUNCT"}


def agreement_treebank(seed: int, num_attractors: Sequence[int] = range(3)) -> Iterator[Example]:
    """Generate agreement examples without end.

    An example is the part of a sentence before its main verb, with both gold trees: Penn-like phrases and UD-like
    dependencies. As the verb is absent, its subject is promoted to the root, as in UD's treatment of ellipsis. The
    subject is modified by nested prepositional phrases and subject and object relative clauses; prepositional phrases
    or adverbial clauses may precede it.

    Only the structure gives the answer away. Every example has as many singular nouns as plural ones, the choice of a
    noun does not depend on its position, and the embedded verbs are in the past tense, which does not mark number: a
    bag of words is at chance. The nouns after the subject are, in any order, attractors and harmless nouns of the
    subject's own number, so that over 0, 1 and 2 attractors the noun nearest to the verb is right in half of the
    examples; the first noun is right in fewer, because of the phrases in front of the subject.

    Args:
        seed: the same seed gives the same examples.
        num_attractors: the numbers of attractors to draw from, all equally likely.

    Yields:
        Examples labelled ``"singular"`` or ``"plural"``, one of each in every two successive examples. The metadata of
        the sentence has ``attractors``, ``verb`` (the right form of the verb that would follow) and ``wrong_verb``.

    Raises:
        ValueError: if ``num_attractors`` is empty or has a negative number.

    Example:
        >>> example = next(agreement_treebank(17, num_attractors=[1]))
        >>> " ".join(example.sentences[0].words), example.label
        ('the queens near the poet', 'plural')
        >>> example.sentences[0].metadata["attractors"], example.sentences[0].dependency.labels
        ('1', ('det', 'root', 'case', 'det', 'nmod'))
    """
    choices = tuple(num_attractors)
    if not choices or min(choices) < 0:
        raise ValueError(f"agreement_treebank expects numbers of attractors of at least 0, got {list(choices)}")
    return _endless(random.Random(seed), choices)


def _endless(rng: random.Random, choices: Sequence[int]) -> Iterator[Example]:
    count = 0
    while True:
        for number in rng.sample((0, 1), 2):
            attractors = rng.choice(choices)
            verbs = rng.choice(_VERBS)
            metadata = {"attractors": str(attractors), "verb": verbs[number], "wrong_verb": verbs[1 - number]}
            sentence = _sentence(_Grammar(rng).clause(number, attractors), metadata)
            yield Example((sentence,), ("singular", "plural")[number], id=str(count))
            count += 1


@dataclass
class _Node:
    """A phrase, or a word with its tag; ``relation`` is the dependency of its head word on the head of its parent."""

    label: str
    relation: str = "head"
    word: str = ""
    children: list["_Node"] = field(default_factory=list)

    def add(self, *children: "_Node") -> "_Node":
        self.children.extend(children)
        return self


class _Grammar:
    """Builds one tree from the top, with a list of unfinished noun phrases instead of recursion."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.unfinished: list[tuple[_Node, list[int]]] = []

    def clause(self, number: int, attractors: int) -> _Node:
        """A clause up to its verb, with a subject of this number (0 singular, 1 plural)."""
        harmless = self.rng.randint(0, max(1, attractors))
        inside = [1 - number] * attractors + [number] * harmless
        self.rng.shuffle(inside)
        # The nouns that balance singular and plural go in front of the subject, where they are no attractors.
        surplus = 1 + harmless - attractors
        outside = [1 - number if surplus > 0 else number] * abs(surplus)
        clause = _Node("S")
        while outside:
            cut = self.rng.randint(1, len(outside))
            clause.add(self.fronted(outside[:cut]))
            if self.rng.random() < 0.5:
                clause.add(_Node(",", "punct", ","))
            outside = outside[cut:]
        clause.add(self.noun_phrase("head", [number, *inside]))
        if self.rng.random() < 0.2:
            clause.add(self.adverb())
        while self.unfinished:
            self.finish(*self.unfinished.pop())
        return clause

    def noun_phrase(self, relation: str, numbers: list[int]) -> _Node:
        """A noun phrase with the first noun as its head and the other nouns in modifiers after it."""
        node = _Node("NP", relation)
        self.unfinished.append((node, numbers))
        return node

    def finish(self, node: _Node, numbers: list[int]) -> None:
        """Fill in a noun phrase, leaving the noun phrases inside it for later."""
        modifiers = []
        waiting = numbers[1:]
        while waiting:
            cut = self.rng.randint(1, len(waiting))
            modifiers.append(self.modifier(waiting[:cut]))
            waiting = waiting[cut:]
        if not modifiers and self.rng.random() < 0.15:
            relative = self.relativiser("nsubj")
            modifiers.append(self.relative(relative, self.verb_phrase(_INTRANSITIVE)))
        words = self.bare_noun_phrase(numbers[0])
        if modifiers:
            # The short modifiers come first, as writers prefer.
            modifiers.sort(key=lambda modifier: modifier.label != "PP")
            node.add(_Node("NP").add(*words), *modifiers)
        else:
            node.add(*words)

    def bare_noun_phrase(self, number: int) -> list[_Node]:
        determiner = "the" if self.rng.random() < 0.6 else self.rng.choice(_DETERMINERS[number])
        words = [_Node("DT", "det", determiner)]
        if self.rng.random() < 0.3:
            words.append(_Node("JJ", "amod", self.rng.choice(_ADJECTIVES)))
        return [*words, _Node(("NN", "NNS")[number], "head", self.rng.choice(_NOUNS)[number])]

    def modifier(self, numbers: list[int]) -> _Node:
        """A prepositional phrase, a subject relative clause or an object relative clause."""
        kind = self.rng.random()
        if kind < 0.5:
            return self.prepositional_phrase("nmod", numbers)
        if kind < 0.75:
            verb_phrase = self.verb_phrase(_TRANSITIVE).add(self.noun_phrase("obj", numbers))
            return self.relative(self.relativiser("nsubj"), verb_phrase)
        subject = self.noun_phrase("nsubj", numbers)
        relativiser = [] if self.rng.random() < 0.3 else self.relativiser("obj")
        return self.relative(relativiser, subject, self.verb_phrase(_TRANSITIVE))

    def relative(self, relativiser: list[_Node], *clause: _Node) -> _Node:
        return _Node("SBAR", "acl:relcl").add(*relativiser, _Node("S").add(*clause))

    def relativiser(self, relation: str) -> list[_Node]:
        tag, word = self.rng.choice((("WDT", "that"), ("WP", "who")))
        return [_Node("WHNP", relation).add(_Node(tag, "head", word))]

    def prepositional_phrase(self, relation: str, numbers: list[int]) -> _Node:
        preposition = _Node("IN", "case", self.rng.choice(_PREPOSITIONS))
        return _Node("PP", relation).add(preposition, self.noun_phrase("head", numbers))

    def verb_phrase(self, verbs: Sequence[str]) -> _Node:
        adverbs = [self.adverb()] if self.rng.random() < 0.15 else []
        return _Node("VP").add(*adverbs, _Node("VBD", "head", self.rng.choice(verbs)))

    def adverb(self) -> _Node:
        return _Node("ADVP", "advmod").add(_Node("RB", "head", self.rng.choice(_ADVERBS)))

    def fronted(self, numbers: list[int]) -> _Node:
        if self.rng.random() < 0.6:
            return self.prepositional_phrase("obl", numbers)
        conjunction = _Node("IN", "mark", self.rng.choice(_CONJUNCTIONS))
        subject = self.noun_phrase("nsubj", numbers)
        return _Node("SBAR", "advcl").add(conjunction, _Node("S").add(subject, self.verb_phrase(_INTRANSITIVE)))


def _sentence(root: _Node, metadata: dict[str, str]) -> Sentence:
    """Read words, spans and heads off a tree."""
    order, first = _preorder(root)
    leaves = [node for node in order if node.word]
    # Bottom-up: where each node ends, and which word heads it.
    end, head = dict(first), dict(first)
    for node in reversed(order):
        if node.word:
            end[id(node)] += 1
        else:
            end[id(node)] = end[id(node.children[-1])]
            head[id(node)] = next(head[id(child)] for child in node.children if child.relation == "head")
    heads, labels = [0] * len(leaves), ["root"] * len(leaves)
    for node in order:
        for child in node.children:
            if child.relation != "head":
                word = head[id(child)]
                heads[word], labels[word] = head[id(node)] + 1, child.relation
    words, tags = [leaf.word for leaf in leaves], [leaf.label for leaf in leaves]
    spans = [(node.label, first[id(node)], end[id(node)]) for node in order if not node.word]
    return Sentence(
        words,
        ["SCONJ" if leaf.relation == "mark" else _UNIVERSAL[leaf.label] for leaf in leaves],
        DependencyTree(heads, labels),
        ConstituencyTree(words, spans, tags=tags),
        metadata=metadata,
    )


def _preorder(root: _Node) -> tuple[list[_Node], dict[int, int]]:
    """All nodes, parents first and from left to right, and the number of words before each."""
    order, first = [], {}
    stack = [root]
    seen = 0
    while stack:
        node = stack.pop()
        order.append(node)
        first[id(node)] = seen
        seen += bool(node.word)
        stack.extend(reversed(node.children))
    return order, first
