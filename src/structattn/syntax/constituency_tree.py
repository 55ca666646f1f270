"""Phrase trees over the words of one sentence, kept flat: words, tags and a list of spans.

Flat trees need no recursion, so a depth of 10,000 works as well as a depth of 3.
"""

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from structattn.syntax.dependency_tree import DependencyTree

Span = tuple[str, int, int]
"""A labelled phrase: label, first word, word after the last."""


@dataclass(frozen=True)
class ConstituencyTree:
    """A phrase tree (or several side by side): spans are phrases, tags belong to the words.

    A preterminal, a bracket around one bare word such as ``(NN cat)``, is the tag of its word and not a span.

    Args:
        words: the words, from left to right.
        spans: labelled half-open spans ``(label, start, end)``; of two equal spans the earlier is the parent. They are
            kept with every parent before its children and siblings from left to right.
        tags: one tag per word, None for a word without a preterminal.

    Raises:
        ValueError: if a span is empty, out of range, or crosses another, or tags and words differ in number.

    Example:
        >>> tree = ConstituencyTree.from_brackets("(S (NP (DT the) (NN cat)) (VP (VBD sat)))")
        >>> tree.words, tree.tags
        (('the', 'cat', 'sat'), ('DT', 'NN', 'VBD'))
        >>> tree.spans, tree.parents, tree.leaf_parents
        ([('S', 0, 3), ('NP', 0, 2), ('VP', 2, 3)], (-1, 0, 0), (1, 1, 2))
        >>> tree.to_brackets()
        '(S (NP (DT the) (NN cat)) (VP (VBD sat)))'
    """

    words: tuple[str, ...]
    spans: list[Span]
    tags: tuple[str | None, ...]

    def __init__(
        self, words: Sequence[str], spans: Sequence[Span] = (), *, tags: Sequence[str | None] | None = None
    ) -> None:
        if isinstance(words, str):
            raise TypeError(f"words must be a sequence of words, got one string {words!r}")
        ordered = [(label, operator.index(start), operator.index(end)) for label, start, end in spans]
        object.__setattr__(self, "words", tuple(words))
        object.__setattr__(self, "spans", sorted(ordered, key=_outermost_first))
        object.__setattr__(self, "tags", (None,) * len(self.words) if tags is None else tuple(tags))
        if len(self.tags) != len(self.words):
            raise ValueError(f"a tree of {len(self.words)} words needs as many tags, got {len(self.tags)}")
        _check_nesting(self.spans, len(self.words))

    def __len__(self) -> int:
        return len(self.words)

    def __hash__(self) -> int:
        # The spans are a list, so the hash that a frozen dataclass would have made does not work.
        return hash((self.words, tuple(self.spans), self.tags))

    @cached_property
    def parents(self) -> tuple[int, ...]:
        """For each span, the index of its parent span, -1 for a root."""
        return tuple(_parents(self.spans))

    @cached_property
    def leaf_parents(self) -> tuple[int, ...]:
        """For each word, the index of the lowest span over it, -1 if there is none."""
        return tuple(_leaf_parents(self.spans, len(self.words)))

    def labelled_subtrees(self) -> list[Span]:
        """Every phrase and every tagged word as ``(label, start, end)``, parents first: the labelled units of SST.

        Example:
            >>> ConstituencyTree.from_brackets("(3 (2 It) (4 works))").labelled_subtrees()
            [('3', 0, 2), ('2', 0, 1), ('4', 1, 2)]
        """
        tagged = [(tag, word, word + 1) for word, tag in enumerate(self.tags) if tag is not None]
        return sorted([*self.spans, *tagged], key=_outermost_first)

    @classmethod
    def from_brackets(cls, text: str) -> "ConstituencyTree":
        """Read one tree from Penn-style brackets; see ``brackets.py`` for the notation.

        Args:
            text: the brackets, on one line or several.

        Raises:
            ParseError: if the text is not exactly one well-formed tree.
        """
        from structattn.syntax.brackets import parse_tree

        words, tags, spans = parse_tree(text)
        return cls(words, spans, tags=tags)

    def to_brackets(self) -> str:
        """Write the tree as Penn-style brackets on one line; ``from_brackets`` reads the same tree back.

        Raises:
            ValueError: if a word, tag or label cannot be written in brackets: it is empty or contains a space.
        """
        from structattn.syntax.brackets import format_tree

        return format_tree(self.words, self.tags, self.spans)

    @classmethod
    def from_dependency(cls, words: Sequence[str], tree: DependencyTree) -> "ConstituencyTree":
        """Make a phrase of every word that has dependents: it spans the word and all words below it.

        A tree that is not projective is projectivised first. A phrase is labelled with the relation of its head word,
        or ``X`` if the tree has no labels. If that gives no phrase (one word) or several side by side (several roots),
        a phrase ``ROOT`` covers the sentence.

        Args:
            words: the words, from left to right.
            tree: a dependency tree over them.

        Raises:
            ValueError: if there are not as many words as heads.

        Example:
            >>> tree = ConstituencyTree.from_dependency(["two", "kids", "wash"], DependencyTree([2, 3, 0]))
            >>> tree.to_brackets()
            '(X (X two kids) wash)'
        """
        if len(words) != len(tree):
            raise ValueError(f"expected a dependency tree of {len(words)} words, got one of {len(tree)}")
        tree = tree.projectivised()
        spans = []
        for word, (start, end) in enumerate(tree.subtree_spans()):
            if end - start > 1:
                spans.append(("X" if tree.labels is None else tree.labels[word], start, end))
        if words and (0, len(words)) not in [(start, end) for _, start, end in spans]:
            spans.append(("ROOT", 0, len(words)))
        return cls(words, spans)

    def to_dependency(self) -> DependencyTree:
        """Find the head of every phrase and attach the other children to it (Magerman 1995; Collins 1999, appendix A).

        The rules are for Penn Treebank labels; function tags are ignored, and so are the ``@`` phrases that
        ``binarised`` makes. A phrase with an unknown label is headed by its last child that is not punctuation. In a
        tree where no label is known, such as SST's, heads are guessed from the words (``head_rules.py``). The result
        has no labels and is projective; words outside every phrase are roots. On the Penn Treebank sample of NLTK the
        heads agree with the usual conversion for 99.6 % of the words, after ``binarised`` for 94.5 %, and with all
        labels removed for 77.6 %.

        Example:
            >>> tree = ConstituencyTree.from_brackets("(S (NP (DT the) (NN cat)) (VP (VBD sat)))")
            >>> tree.to_dependency().heads
            (2, 3, 0)
        """
        from structattn.syntax.head_rules import find_heads

        spans = [span for span in self.spans if not span[0].startswith("@")]
        leaf_parents = _leaf_parents(spans, len(self.words))
        heads = find_heads(self.words, self.tags, spans, parents=_parents(spans), leaf_parents=leaf_parents)
        return DependencyTree(heads)

    def without_empty_leaves(self) -> "ConstituencyTree":
        """Remove the words tagged ``-NONE-`` (traces, null elements) and the phrases that are left without words.

        Example:
            >>> tree = ConstituencyTree.from_brackets("(S (NP (-NONE- *)) (VP (VB go)))")
            >>> tree.without_empty_leaves().to_brackets()
            '(S (VP (VB go)))'
        """
        full = [word for word, tag in enumerate(self.tags) if tag != "-NONE-"]
        if len(full) == len(self.words):
            return self
        moved = [0]  # from each position between words to that between the words that stay
        for tag in self.tags:
            moved.append(moved[-1] + (tag != "-NONE-"))
        spans = [(label, moved[start], moved[end]) for label, start, end in self.spans if moved[start] < moved[end]]
        return ConstituencyTree([self.words[i] for i in full], spans, tags=[self.tags[i] for i in full])

    def without_function_tags(self) -> "ConstituencyTree":
        """Cut function tags and indices off phrase labels and tags: ``NP-SBJ-1`` and ``NP=2`` become ``NP``.

        Example:
            >>> ConstituencyTree.from_brackets("(S (NP-SBJ-1 (PRP It)) (VP (VBZ works)))").without_function_tags().spans
            [('S', 0, 2), ('NP', 0, 1), ('VP', 1, 2)]
        """
        from structattn.syntax.head_rules import plain_label

        spans = [(plain_label(label), start, end) for label, start, end in self.spans]
        tags = [None if tag is None else plain_label(tag) for tag in self.tags]
        return ConstituencyTree(self.words, spans, tags=tags)

    def truncated(self, num_words: int) -> "ConstituencyTree":
        """The tree over the first words: phrases end where the words end, and those that would be empty are left out.

        Args:
            num_words: how many words stay at most.

        Example:
            >>> tree = ConstituencyTree.from_brackets("(S (NP (DT the) (NN cat)) (VP (VBD sat)))")
            >>> tree.truncated(1).to_brackets()
            '(S (NP (DT the)))'
        """
        spans = [(label, start, min(end, num_words)) for label, start, end in self.spans if start < num_words]
        return ConstituencyTree(self.words[:num_words], spans, tags=self.tags[:num_words])

    def with_phrase(self, label: str, start: int, end: int) -> "ConstituencyTree":
        """Make a phrase of the words from ``start`` up to, but not including, ``end``.

        It goes below existing phrases over the same words, even below one with the same label.

        Args:
            label: of the new phrase.
            start: its first word, counted from 0.
            end: the word after its last.

        Raises:
            ValueError: if it is empty, out of range, or crosses a phrase.

        Example:
            >>> ConstituencyTree(["a", "dog", "barks"], [("S", 0, 3)]).with_phrase("NP", 0, 2).to_brackets()
            '(S (NP a dog) barks)'
        """
        return ConstituencyTree(self.words, [*self.spans, (label, start, end)], tags=self.tags)

    def without_phrase(self, label: str, start: int, end: int) -> "ConstituencyTree":
        """Remove a phrase, so that its children belong to the phrase around it; of several identical ones, the lowest.

        Args:
            label: of the phrase.
            start: its first word, counted from 0.
            end: the word after its last.

        Raises:
            ValueError: if there is no such phrase.

        Example:
            >>> tree = ConstituencyTree.from_brackets("(S (NP a dog) barks)")
            >>> tree.without_phrase("NP", 0, 2).to_brackets()
            '(S a dog barks)'
        """
        span = (label, start, end)
        if span not in self.spans:
            raise ValueError(f"expected a phrase of the tree, got {span}")
        index = len(self.spans) - 1 - self.spans[::-1].index(span)
        return ConstituencyTree(self.words, self.spans[:index] + self.spans[index + 1 :], tags=self.tags)

    def collapsed(self, unary: Literal["lowest", "top", "join", "keep"] = "lowest") -> "ConstituencyTree":
        """Make one phrase of every chain of phrases over the same words.

        Args:
            unary: the label that remains: that of the ``lowest`` or ``top`` phrase, or all of them joined from the top
                (``S+VP``); ``keep`` changes nothing.

        Raises:
            ValueError: if ``unary`` is none of these.

        Example:
            >>> tree = ConstituencyTree.from_brackets("(S (VP (VB go) (RB away)))")
            >>> [tree.collapsed(unary).spans[0][0] for unary in ("lowest", "top", "join")]
            ['VP', 'S', 'S+VP']
        """
        if unary not in ("lowest", "top", "join", "keep"):
            raise ValueError(f"unary must be 'lowest', 'top', 'join' or 'keep', got {unary!r}")
        if unary == "keep":
            return self
        chains: dict[tuple[int, int], list[str]] = {}
        for label, start, end in self.spans:
            chains.setdefault((start, end), []).append(label)
        choose = {"lowest": lambda chain: chain[-1], "top": lambda chain: chain[0], "join": "+".join}[unary]
        return ConstituencyTree(
            self.words, [(choose(chain), start, end) for (start, end), chain in chains.items()], tags=self.tags
        )

    def binarised(self) -> "ConstituencyTree":
        """Make every phrase have exactly two children.

        Chains of phrases over the same words keep their lowest label, phrases over one word are removed, and a phrase
        ``NP`` of more than two children is split from the left: its first child, and a phrase ``@NP`` with the others.
        Trees side by side stay separate.

        Example:
            >>> ConstituencyTree.from_brackets("(NP (DT a) (JJ big) (NN cat))").binarised().to_brackets()
            '(NP (DT a) (@NP (JJ big) (NN cat)))'
        """
        tree = self.collapsed("lowest")
        tree = ConstituencyTree(tree.words, [span for span in tree.spans if span[2] - span[1] > 1], tags=tree.tags)
        starts: list[list[int]] = [[] for _ in tree.spans]
        for index, parent in enumerate(tree.parents):
            if parent >= 0:
                starts[parent].append(tree.spans[index][1])
        for word, parent in enumerate(tree.leaf_parents):
            if parent >= 0:
                starts[parent].append(word)
        spans = list(tree.spans)
        for (label, _, end), children in zip(tree.spans, starts, strict=True):
            name = label if label.startswith("@") else f"@{label}"
            spans.extend((name, start, end) for start in sorted(children)[1:-1])
        return ConstituencyTree(tree.words, spans, tags=tree.tags)


def _outermost_first(span: Span) -> tuple[int, int]:
    return span[1], -span[2]


def _parents(spans: Sequence[Span]) -> list[int]:
    """For each of these spans, which are ordered and nested, the index of its parent, -1 for a root."""
    parents = []
    open_spans: list[int] = []
    for index, (_, start, _) in enumerate(spans):
        while open_spans and spans[open_spans[-1]][2] <= start:
            open_spans.pop()
        parents.append(open_spans[-1] if open_spans else -1)
        open_spans.append(index)
    return parents


def _leaf_parents(spans: Sequence[Span], num_words: int) -> list[int]:
    """For each word, the index of the lowest of these spans over it, -1 if there is none."""
    lowest = []
    open_spans: list[int] = []
    index = 0
    for word in range(num_words):
        while open_spans and spans[open_spans[-1]][2] <= word:
            open_spans.pop()
        while index < len(spans) and spans[index][1] == word:
            open_spans.append(index)
            index += 1
        lowest.append(open_spans[-1] if open_spans else -1)
    return lowest


def _check_nesting(spans: Sequence[Span], num_words: int) -> None:
    open_spans: list[Span] = []
    for span in spans:
        label, start, end = span
        if not 0 <= start < end <= num_words:
            raise ValueError(f"span {label!r} must contain at least one of {num_words} words, got ({start}, {end})")
        while open_spans and open_spans[-1][2] <= start:
            open_spans.pop()
        if open_spans and end > open_spans[-1][2]:
            raise ValueError(f"spans must not cross, got {open_spans[-1]} and {span}")
        open_spans.append(span)
