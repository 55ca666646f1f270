"""Dependency trees against brute force: every tree of up to four words, random ones above."""

import itertools
import random

import pytest

from ballgame import DISTANCES, HEADS
from structattn.syntax import DependencyTree
from structattn.syntax.dependency_tree import find_cycle


def reaches_root(heads, word):
    for _ in heads:
        word = heads[word - 1]
        if word == 0:
            return True
    return False


def all_trees(num_words):
    for heads in itertools.product(range(num_words + 1), repeat=num_words):
        if all(reaches_root(heads, word) for word in range(1, num_words + 1)):
            yield DependencyTree(heads)


def random_tree(generator, num_words):
    order = list(range(1, num_words + 1))
    generator.shuffle(order)
    heads = [0] * num_words
    for position, word in enumerate(order):
        heads[word - 1] = generator.choice([0, *order[:position]]) if position else 0
    return DependencyTree(heads)


def some_trees():
    generator = random.Random(0)
    for num_words in range(5):
        yield from all_trees(num_words)
    for num_words in (7, 12, 20):
        yield from (random_tree(generator, num_words) for _ in range(20))


def shortest_paths(tree):
    """Floyd-Warshall over the words and the virtual root."""
    size = len(tree) + 1
    far = size * 2
    distance = [[0 if i == j else far for j in range(size)] for i in range(size)]
    for word, head in enumerate(tree.heads, start=1):
        distance[word][head] = distance[head][word] = 1
    for k, i, j in itertools.product(range(size), repeat=3):
        distance[i][j] = min(distance[i][j], distance[i][k] + distance[k][j])
    return distance


def has_crossing_arcs(heads):
    arcs = [tuple(sorted((word, head))) for word, head in enumerate(heads, start=1)]
    return any(a < c < b < d for (a, b), (c, d) in itertools.permutations(arcs, 2))


def is_above(heads, upper, word):
    while word and word != upper:
        word = heads[word - 1]
    return word == upper


def lifted_by_the_book(heads):
    """Nivre and Nilsson (2005), written as the paper says it: lift the shortest arc until none is non-projective."""
    heads = list(heads)
    while True:
        bad = [
            (abs(word - head), min(word, head), word)
            for word, head in enumerate(heads, start=1)
            if not all(is_above(heads, head, between) for between in range(min(word, head) + 1, max(word, head)))
        ]
        if not bad:
            return tuple(heads)
        word = min(bad)[2]
        heads[word - 1] = heads[heads[word - 1] - 1]


def test_the_distances_of_the_paper():
    assert DependencyTree(HEADS).distances() == DISTANCES


def test_count_of_trees_is_the_closed_form():
    for num_words in range(1, 5):
        trees = list(all_trees(num_words))
        assert len(trees) == (num_words + 1) ** (num_words - 1)
        assert sum(len(tree.roots) == 1 for tree in trees) == num_words ** (num_words - 1)


def test_count_of_projective_trees_is_the_closed_form():
    # Trees over the words and the root in front with no crossing arcs: C(3n, n) / (2n + 1).
    for num_words, count in ((1, 1), (2, 3), (3, 12), (4, 55)):
        assert sum(tree.is_projective for tree in all_trees(num_words)) == count


def test_distances_and_depths_are_shortest_paths():
    for tree in some_trees():
        paths = shortest_paths(tree)
        assert tree.distances() == [row[1:] for row in paths[1:]]
        assert tree.depths() == paths[0][1:]


def test_words_under_the_root_are_two_apart():
    assert DependencyTree([0, 0, 2]).distances() == [[0, 2, 3], [2, 0, 1], [3, 1, 0]]


def test_projective_means_no_crossing_arcs():
    for tree in some_trees():
        assert tree.is_projective == (not has_crossing_arcs(tree.heads))


def test_projectivised_is_the_paper_algorithm():
    for tree in some_trees():
        lifted = tree.projectivised()
        assert lifted.heads == lifted_by_the_book(tree.heads)
        assert lifted.is_projective
        assert all(is_above(tree.heads, head, word) for word, head in enumerate(lifted.heads, start=1) if head)
        if len(tree.roots) == 1:
            assert lifted.roots == tree.roots
        if tree.is_projective:
            assert lifted is tree


def test_projectivised_keeps_labels():
    tree = DependencyTree([3, 0, 2, 1], ["a", "b", "c", "d"])
    assert tree.projectivised() == DependencyTree([2, 0, 2, 2], ["a", "b", "c", "d"])


def test_subtree_spans_are_the_outermost_words_below():
    for tree in some_trees():
        for word, (start, end) in enumerate(tree.subtree_spans(), start=1):
            below = [w for w in range(1, len(tree) + 1) if is_above(tree.heads, word, w)]
            assert (start, end) == (min(below) - 1, max(below))


def labelled(tree):
    return DependencyTree(tree.heads, [f"relation {word}" for word in range(len(tree))])


def edges(tree):
    """The arcs between words, without their direction; each with its label, if the tree has labels."""
    labels = tree.labels or [None] * len(tree)
    return {(frozenset((word, head)), labels[word - 1]) for word, head in enumerate(tree.heads, start=1) if head}


def test_a_moved_word_has_the_new_head_and_nothing_else_changes():
    for tree in map(labelled, some_trees()):
        for word, head in itertools.product(range(len(tree)), range(len(tree) + 1)):
            heads = tuple(head if other == word else old for other, old in enumerate(tree.heads))
            if all(reaches_root(heads, other) for other in range(1, len(tree) + 1)):
                assert tree.moved(word, head) == DependencyTree(heads, tree.labels)
            else:
                with pytest.raises(ValueError, match=rf"^word {head} (is below word {word + 1}, so|cannot be its own)"):
                    tree.moved(word, head)


def test_a_new_root_turns_round_the_path_to_the_old_one():
    for tree in map(labelled, some_trees()):
        for word in range(len(tree)):
            turned = tree.rerooted(word)
            assert turned.heads[word] == 0
            assert edges(turned) == edges(tree)
            assert len(turned.roots) == len(tree.roots)
            (old,) = set(tree.roots) - set(turned.roots) or {word}
            assert turned.labels[word] == tree.labels[old]
            assert turned.rerooted(old) == tree
            if len(tree.roots) == 1:
                assert turned.distances() == tree.distances()
            assert DependencyTree(tree.heads).rerooted(word).heads == turned.heads


def test_of_one_root_the_rerooted_tree_is_the_only_one_with_its_arcs():
    for tree in all_trees(4):
        if len(tree.roots) == 1:
            for word in range(4):
                rooted = [other for other in all_trees(4) if other.roots == (word,)]
                same = [other.heads for other in rooted if edges(other) == edges(tree)]
                assert same == [tree.rerooted(word).heads]


def test_a_relabelled_arc_stays_where_it_is():
    tree = DependencyTree([2, 0, 2], ["det", "root", "obj"])
    assert tree.relabelled(2, "iobj") == DependencyTree([2, 0, 2], ["det", "root", "iobj"])
    with pytest.raises(ValueError, match="expected a tree with labels to relabel word 3, got one without"):
        DependencyTree([2, 0, 2]).relabelled(2, "iobj")


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda tree: tree.moved(3, 1), "expected the position of one of 3 words, from 0, got 3"),
        (lambda tree: tree.moved(-1, 1), "expected the position of one of 3 words, from 0, got -1"),
        (lambda tree: tree.moved(0, 4), "head of word 1 must be from 0 to 3, got 4"),
        (lambda tree: tree.moved(0, -1), "head of word 1 must be from 0 to 3, got -1"),
        (lambda tree: tree.moved(0, 1), "word 1 cannot be its own head"),
        (lambda tree: tree.moved(1, 3), "word 3 is below word 2, so it cannot be its head: that would be a cycle"),
        (lambda tree: tree.rerooted(3), "expected the position of one of 3 words, from 0, got 3"),
        (lambda tree: tree.relabelled(7, "x"), "expected the position of one of 3 words, from 0, got 7"),
    ],
)
def test_an_impossible_edit_is_refused(edit, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        edit(DependencyTree([2, 0, 2], ["det", "root", "obj"]))


def test_a_chain_of_ten_thousand_words():
    tree = DependencyTree(range(10_000))
    assert tree.is_projective
    assert tree.projectivised() is tree
    assert tree.depths()[-1] == 10_000
    assert tree == DependencyTree(list(range(10_000)))


def test_no_words():
    tree = DependencyTree([])
    assert (len(tree), tree.roots, tree.distances(), tree.is_projective) == (0, (), [], True)


def test_is_a_value():
    assert hash(DependencyTree([0, 1], ["root", "obj"])) == hash(DependencyTree((0, 1), ("root", "obj")))
    assert DependencyTree([0, 1]) != DependencyTree([0, 1], ["root", "obj"])
    with pytest.raises(AttributeError):
        DependencyTree([0]).heads = (0,)


@pytest.mark.parametrize(
    ("heads", "labels", "message"),
    [
        ([3, 0], None, "head of word 1 must be from 0 to 2, got 3"),
        ([0, -1], None, "head of word 2 must be from 0 to 2, got -1"),
        ([1, 0], None, "heads must not form a cycle, got 1 -> 1"),
        ([0, 3, 4, 2], None, "heads must not form a cycle, got 2 -> 3 -> 4 -> 2"),
        ([0, 1], ["root"], "a tree of 2 words needs as many labels, got 1"),
    ],
)
def test_what_is_no_tree_is_refused(heads, labels, message):
    with pytest.raises(ValueError, match=message):
        DependencyTree(heads, labels)


def test_a_head_must_be_an_integer():
    with pytest.raises(TypeError):
        DependencyTree([0.5])


def test_find_cycle_finds_a_cycle_or_nothing():
    for heads in itertools.product(range(4), repeat=3):
        cycle = find_cycle(heads)
        assert bool(cycle) == (not all(reaches_root(heads, word) for word in range(1, 4)))
        for word, head in zip(cycle, [*cycle[1:], *cycle[:1]], strict=True):
            assert heads[word - 1] == head
