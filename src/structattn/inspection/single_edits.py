"""All edits of the trees of an example that are one step away, or two."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

from structattn.data import Example
from structattn.inspection.occlusion import replace_sentence
from structattn.syntax import ConstituencyTree, DependencyTree, Sentence


def single_edits(tree: DependencyTree) -> Iterator[tuple[int, int, DependencyTree]]:
    """Every tree that is one edit away: the word, its new head, and the tree; head 0 makes the word the root."""
    for word, head in list_moves(tree):
        yield word, head, move_word(tree, word, head)


def list_edits(example: Example, structure: str) -> list[Example]:
    """Every example that is one edit of its dependency trees, or of its phrases (``"constituency"``), away."""
    if structure == "dependency":
        trees = list_trees(example)
        return [edit_example(example, number, edited) for number, tree in trees for *_, edited in single_edits(tree)]
    return [
        replace_sentence(example, number, replace(sentence, constituency=edited, rows=(), comments=()))
        for number, sentence in enumerate(example.sentences)
        if sentence.constituency is not None
        for edited in _list_phrase_edits(sentence.constituency)
    ]


def moved_twice(tree: DependencyTree) -> Iterator[DependencyTree]:
    """Every tree in which two words have other heads, and the roots stay."""
    moves = [
        (word, head)
        for word, old in enumerate(tree.heads)
        for head in range(1, len(tree) + 1)
        if old not in (0, head) and head != word + 1
    ]
    for (word, head), (other, above) in itertools.combinations(moves, 2):
        heads = list(tree.heads)
        heads[word], heads[other] = head, above
        if word != other and not _has_cycle(heads, (word, other)):
            yield DependencyTree(heads, tree.labels)


def _has_cycle(heads: Sequence[int], words: Sequence[int]) -> bool:
    """Whether one of some words is above itself."""
    for word in words:
        head = heads[word]
        for _ in heads:
            if head in (0, word + 1):
                break
            head = heads[head - 1]
        if head:
            return True
    return False


def _list_phrase_edits(tree: ConstituencyTree) -> Iterator[ConstituencyTree]:
    """The phrases without each of them, then with each further one of two words or more, an ``NP``."""
    for index in range(len(tree.spans)):
        yield ConstituencyTree(tree.words, [*tree.spans[:index], *tree.spans[index + 1 :]], tags=tree.tags)
    for start, end in itertools.combinations(range(len(tree.words) + 1), 2):
        spans = [(first, last) for _, first, last in tree.spans]
        crosses = any(first < start < last < end or start < first < end < last for first, last in spans)
        if end - start > 1 and (start, end) not in spans and not crosses:
            yield ConstituencyTree(tree.words, [*tree.spans, ("NP", start, end)], tags=tree.tags)


def count_edits(example: Example) -> int:
    """How many trees of an example are one edit away."""
    return sum(1 for _, tree in list_trees(example) for _ in list_moves(tree))


def list_moves(tree: DependencyTree) -> Iterator[tuple[int, int]]:
    """The word and the new head of every single edit."""
    above = [set(tree.path_to_root(word)) for word in range(len(tree))]
    for word, old in enumerate(tree.heads):
        if old:
            for head in range(1, len(tree) + 1):
                if head != old and word + 1 not in above[head - 1]:
                    yield word, head
    yield from ((word, 0) for word, old in enumerate(tree.heads) if old)


def move_word(tree: DependencyTree, word: int, head: int) -> DependencyTree:
    """The tree after one edit; head 0 makes the word the root."""
    return tree.moved(word, head) if head else tree.rerooted(word)


def replace_tree(sentence: Sentence, tree: DependencyTree) -> Sentence:
    """The same sentence with another dependency tree."""
    # The lines of a CoNLL-U sentence would still have the old tree.
    return replace(sentence, dependency=tree, rows=(), comments=())


def edit_example(example: Example, number: int, tree: DependencyTree) -> Example:
    """The example with another tree of one of its sentences."""
    return replace_sentence(example, number, replace_tree(example.sentences[number], tree))


def list_trees(example: Example) -> Iterator[tuple[int, DependencyTree]]:
    """The sentences that have a dependency tree, by their index."""
    for number, sentence in enumerate(example.sentences):
        if sentence.dependency is not None:
            yield number, sentence.dependency
