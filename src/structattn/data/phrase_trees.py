"""Phrase trees for sentences: their own in another shape, those of their dependencies, or trees without syntax.

The uninformed trees are the controls of Shi et al. 2018, "On Tree-Based Neural Sentence Modeling": they show whether
syntax helps, or just any tree.
"""

import dataclasses
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from structattn.errors import ConfigError, MissingStructure
from structattn.syntax.constituency_tree import ConstituencyTree
from structattn.syntax.sentence import Sentence

TreeSource = Literal["own", "rooted", "dependency", "left", "right", "balanced", "random"]
Unary = Literal["keep", "lowest", "top", "join"]

_Cut = Callable[[int, int], int]
_NO_LABEL = "X"


@dataclass(frozen=True)
class PhraseTrees:
    """A choice of phrase trees, as a function from sentences to sentences.

    Attributes:
        source: where the trees come from. ``own``: the sentence's phrase tree. ``rooted``: the same with a phrase
            ``ROOT`` on top if there are several trees, as in a document, or words outside any phrase. ``dependency``: a
            phrase for each word with dependents. ``left``, ``right``, ``balanced`` and ``random``: binary trees that
            branch to one side, in the middle, or at random; a phrase that is also in the sentence's own tree keeps its
            label.
        unary: how to treat a chain of phrases over the same words; see ``ConstituencyTree.collapsed``.
        seed: seed of random trees. A sentence gets the same tree wherever it occurs.

    Raises:
        ConfigError: for an unknown ``source`` or ``unary``.
        MissingStructure: when it is called with a sentence that lacks the tree that the new one is made from.

    Example:
        >>> sentence = Sentence("the old cat sat".split())
        >>> for source in ("left", "right", "balanced"):
        ...     PhraseTrees(source)(sentence).constituency.to_brackets()
        '(X (X (X the old) cat) sat)'
        '(X the (X old (X cat sat)))'
        '(X (X the old) (X cat sat))'
    """

    source: str = "own"
    unary: str = "keep"
    seed: int = 0

    def __post_init__(self) -> None:
        for name, value, choices in (
            ("trees", self.source, get_args(TreeSource)),
            ("unary", self.unary, get_args(Unary)),
        ):
            if value not in choices:
                raise ConfigError(f"unknown value {value!r} for {name}; known: {', '.join(choices)}")
        if type(self.seed) is not int:
            raise ConfigError(f"seed of random trees: expected a whole number, got {self.seed!r}")

    def __call__(self, sentence: Sentence) -> Sentence:
        """The sentence with its new phrase tree; it must have the tree that this is made from."""
        tree = self._derive(sentence)
        if tree is not None:
            tree = tree.collapsed(self.unary)  # type: ignore[arg-type]  # checked above
        return sentence if tree is sentence.constituency else dataclasses.replace(sentence, constituency=tree)

    def _derive(self, sentence: Sentence) -> ConstituencyTree | None:
        words, tree = sentence.words, sentence.constituency
        if self.source == "own":
            return tree
        if self.source == "dependency":
            if not words:
                return ConstituencyTree(())
            if sentence.dependency is None:
                raise MissingStructure(
                    f"phrases from dependencies need a dependency tree, {_quote_start(words)} has none",
                    structure="dependency",
                )
            return ConstituencyTree.from_dependency(words, sentence.dependency)
        if self.source == "rooted":
            if tree is None:
                raise MissingStructure(
                    f"a rooted tree needs a phrase tree, {_quote_start(words)} has none", structure="constituency"
                )
            return _add_root(tree)
        labels = {} if tree is None else {(start, end): label for label, start, end in reversed(tree.spans)}
        binary = _split_spans(len(words), self._cut(words))
        spans = [(labels.get(span, _NO_LABEL), *span) for span in binary]
        return ConstituencyTree(words, spans, tags=None if tree is None else tree.tags)

    def _cut(self, words: Sequence[str]) -> _Cut:
        if self.source == "left":
            return lambda start, end: end - 1
        if self.source == "right":
            return lambda start, end: start + 1
        if self.source == "balanced":
            return lambda start, end: (start + end) // 2
        rng = random.Random(f"{self.seed} {' '.join(words)}")
        return lambda start, end: rng.randrange(start + 1, end)


def _add_root(tree: ConstituencyTree) -> ConstituencyTree:
    several = tree.parents.count(-1) + tree.leaf_parents.count(-1) > 1
    if not several:
        return tree
    return ConstituencyTree(tree.words, [("ROOT", 0, len(tree)), *tree.spans], tags=tree.tags)


def _split_spans(num_words: int, cut: _Cut) -> list[tuple[int, int]]:
    """The spans of a binary tree, each split at the position that ``cut`` returns."""
    spans, waiting = [], [(0, num_words)]
    while waiting:
        start, end = waiting.pop()
        if end - start > 1:
            spans.append((start, end))
            middle = cut(start, end)
            waiting += [(middle, end), (start, middle)]
    return spans


def _quote_start(words: Sequence[str]) -> str:
    return repr(" ".join(words[:6]))
