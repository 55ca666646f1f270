"""Phrase trees and their brackets against recursive twins, over random trees and the shapes treebanks really have."""

import copy
import itertools
import pickle
import random
from collections import Counter

import pytest

from structattn.errors import ParseError
from structattn.syntax import ConstituencyTree, DependencyTree, read_brackets, write_brackets

WORDS = ["the", "(", "1/2", "*", "[x]", "{", "-", "`", "a\u00a0b", "\\/", "O'Neill", "ünï", "_", ")("]
LABELS = ["S", "NP-SBJ-1", "VP", "@NP", "2"]


def random_nested(generator, num_leaves):
    """A nested tree: a word is a string, a tagged word ``(tag, word)``, a phrase ``[label, child, ...]``."""
    if num_leaves == 1 and generator.random() < 0.6:
        word = generator.choice(WORDS)
        return word if generator.random() < 0.3 else (generator.choice(["NN", "-LRB-", ":"]), word)
    cuts = sorted(generator.sample(range(1, num_leaves), generator.randrange(min(3, num_leaves))))
    bounds = zip([0, *cuts], [*cuts, num_leaves], strict=True)
    return [generator.choice(LABELS), *(random_nested(generator, end - start) for start, end in bounds)]


def flatten(nested):
    """The recursive twin: words, tags and spans of a nested tree."""
    words, tags, spans = [], [], []

    def visit(node):
        if isinstance(node, list):
            place = len(spans)
            spans.append(None)
            start = len(words)
            for child in node[1:]:
                visit(child)
            spans[place] = (node[0], start, len(words))
        else:
            words.append(node if isinstance(node, str) else node[1])
            tags.append(None if isinstance(node, str) else node[0])

    visit(nested)
    return words, tags, spans


def some_nested():
    generator = random.Random(5)
    for size in (1, 2, 3, 5, 9):
        for _ in range(60):
            nested = random_nested(generator, size)
            yield nested if isinstance(nested, list) else ["S", nested]


def tree_of(nested):
    words, tags, spans = flatten(nested)
    return ConstituencyTree(words, spans, tags=tags)


def some_trees():
    yield from map(tree_of, some_nested())


def children_counts(tree):
    counts = [0] * len(tree.spans)
    for parent in (*tree.parents, *tree.leaf_parents):
        if parent >= 0:
            counts[parent] += 1
    return counts


def test_spans_are_those_of_the_nested_tree():
    for nested in some_nested():
        words, tags, spans = flatten(nested)
        tree = tree_of(nested)
        assert (tree.words, list(tree.tags), tree.spans) == (tuple(words), tags, spans)


def test_writing_and_reading_is_the_identity():
    for tree in some_trees():
        assert ConstituencyTree.from_brackets(tree.to_brackets()) == tree


def test_parents_are_the_smallest_phrase_around():
    for tree in some_trees():
        for index, (_, start, end) in enumerate(tree.spans):
            around = [k for k in range(index) if tree.spans[k][1] <= start and end <= tree.spans[k][2]]
            assert tree.parents[index] == max(around, default=-1)
        for word in range(len(tree)):
            around = [k for k, (_, start, end) in enumerate(tree.spans) if start <= word < end]
            assert tree.leaf_parents[word] == max(around, default=-1)


def test_spans_in_any_order_make_the_same_tree():
    generator = random.Random(0)
    for tree in some_trees():
        spans = list({span[1:]: span for span in tree.spans}.values())  # without chains, whose order matters
        shuffled = generator.sample(spans, len(spans))
        straight, mixed = (ConstituencyTree(tree.words, given, tags=tree.tags) for given in (spans, shuffled))
        assert straight == mixed
        assert hash(straight) == hash(mixed)


@pytest.mark.parametrize(
    ("text", "words", "tags", "spans"),
    [
        ("(S (NP (DT the) (NN cat)) (VP (VBD sat)))", "the cat sat", "DT NN VBD", "S03 NP02 VP23"),
        ("( (S (NN a) (NN b)) )", "a b", "NN NN", "S02"),
        ("((S (NN a) (NN b)))", "a b", "NN NN", "S02"),
        ("(3 (2 It) (4 works))", "It works", "2 4", "302"),
        ("(2 good)", "good", "2", ""),
        ("(NP (NP (NN a)))", "a", "NN", "NP01 NP01"),
        ("(NP the cat)", "the cat", "None None", "NP02"),
        ("(NP (_ cat))", "cat", "None", "NP01"),
        ("( (NP a b) (VP c d))", "a b c d", "None None None None", "NP02 VP24"),
        ("(\n(S\n (NN a)\t(NN b)\r\n))", "a b", "NN NN", "S02"),
        ("(-LRB- -LRB-)", "(", "-LRB-", ""),
        ("(X (-LRB- -lcb-) (CD 1\\/2) (-NONE- *-1))", "{ 1/2 *-1", "-LRB- CD -NONE-", "X03"),
        ("()", "", "", ""),
    ],
)
def test_the_shapes_that_treebanks_have(text, words, tags, spans):
    tree = ConstituencyTree.from_brackets(text)
    assert tree.words == tuple(words.split())
    assert [str(tag) for tag in tree.tags] == tags.split()
    assert [f"{label}{start}{end}" for label, start, end in tree.spans] == spans.split()
    assert ConstituencyTree.from_brackets(tree.to_brackets()) == tree


def test_text_that_needs_no_change_is_written_as_it_was():
    for text in (
        "(S (NP-SBJ-1 (DT the) (NN cat)) (VP (VBD sat) (-NONE- *T*-1)) (. .))",
        "(3 (2 1\\/2) (3 (2 -LRB-) (2 \\*)))",
        "( (NP (NN a) (NN b)) (: --))",
        "(NP (_ a))",
        "()",
    ):
        assert ConstituencyTree.from_brackets(text).to_brackets() == text


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("(S (NN a)", 3, "expected 1 more ')' for the tree that starts here, got the end of the text"),
        ("(S\n((NN a)", 3, "expected 2 more ')' for the tree that starts here, got the end of the text"),
        ("\n(NN a))", 4, "expected '(' to start a tree, got ')'"),
        ("word (NN a)", 3, "expected '(' to start a tree, got 'word'"),
        ("(S\n(NP ))", 4, "expected a word in the bracket (NP before it closes, got none"),
        ("(S (NN a) ())", 3, "expected a word in the bracket ( before it closes, got none"),
        ("(())", 3, "expected a word in the bracket ( before it closes, got none"),
        ("(NN)", 3, "expected a word in the bracket (NN before it closes, got none"),
    ],
)
def test_malformed_brackets_name_their_line(tmp_path, text, line, message):
    path = tmp_path / "trees.txt"
    path.write_text(f"(S (NN x)\n (NN y))\n{text}\n")
    with pytest.raises(ParseError) as caught:
        list(read_brackets(path))
    assert (caught.value.file, caught.value.line, caught.value.message) == (str(path), line, message)


def test_exactly_one_tree_is_wanted():
    for text, count in (("", 0), ("(NN a) (NN b)", 2)):
        with pytest.raises(ParseError, match=f"expected one tree in brackets, got {count}"):
            ConstituencyTree.from_brackets(text)


@pytest.mark.parametrize("name", ["trees.txt", "trees.txt.gz"])
def test_files_of_trees(tmp_path, name):
    trees = [*some_trees(), ConstituencyTree([])]
    write_brackets(tmp_path / name, trees)
    assert list(read_brackets(tmp_path / name)) == trees
    (tmp_path / "b.txt").write_text("(NN a) (NN b)\n\n(S (NN c)\n(NN d)) (NN e)")
    assert [tree.words for tree in read_brackets(tmp_path / "b.txt")] == [("a",), ("b",), ("c", "d"), ("e",)]


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        (ConstituencyTree(["New York"], tags=["NNP"]), "a word in brackets must not be empty or have a space in it"),
        (ConstituencyTree([""]), "a word in brackets must not be empty"),
        (ConstituencyTree(["a"], tags=["N N"]), "a tag in brackets must not be empty or have a space in it, got 'N N'"),
        (ConstituencyTree(["a", "b"], [("S P", 0, 2)]), "a label in brackets must not be empty or have a space"),
    ],
)
def test_what_brackets_cannot_hold_is_refused(tree, message):
    with pytest.raises(ValueError, match=message):
        tree.to_brackets()


@pytest.mark.parametrize(
    ("spans", "tags", "message"),
    [
        ([("NP", 1, 1)], None, r"span 'NP' must contain at least one of 3 words, got \(1, 1\)"),
        ([("NP", 1, 4)], None, r"span 'NP' must contain at least one of 3 words, got \(1, 4\)"),
        ([("NP", -1, 2)], None, r"span 'NP' must contain at least one of 3 words, got \(-1, 2\)"),
        ([("A", 0, 2), ("B", 1, 3)], None, r"spans must not cross, got \('A', 0, 2\) and \('B', 1, 3\)"),
        ([], ["NN"], "a tree of 3 words needs as many tags, got 1"),
    ],
)
def test_what_is_no_tree_is_refused(spans, tags, message):
    with pytest.raises(ValueError, match=message):
        ConstituencyTree(["a", "b", "c"], spans, tags=tags)


def deep_trees(depth):
    yield "(S " * depth + "(NN a)" + ")" * depth
    yield "(S (NN a) " * depth + "(NN b)" + ")" * depth
    yield "(S " * depth + "(NN b)" + " (NN a))" * depth


def test_ten_thousand_levels():
    text = next(deep_trees(10_000))
    tree = ConstituencyTree.from_brackets(text)
    assert len(tree.spans) == 10_000
    assert tree.to_brackets() == text
    again = pickle.loads(pickle.dumps(tree))
    assert again == tree
    assert hash(again) == hash(tree)
    assert repr(tree).startswith("ConstituencyTree(")
    assert tree.parents[-1] == 9_998


def test_no_method_needs_recursion():
    for text in deep_trees(2_000):  # twice what Python's recursion limit allows
        tree = ConstituencyTree.from_brackets(text)
        assert tree.to_brackets() == text
        assert copy.deepcopy(tree) == tree
        assert len(tree.labelled_subtrees()) == 2_000 + len(tree)
        assert tree.collapsed("join").spans[0][1:] == (0, len(tree))
        assert tree.without_empty_leaves() is tree
        assert tree.without_function_tags() == tree
        assert len(tree.binarised().spans) == len(tree) - 1
        heads = tree.to_dependency()
        assert ConstituencyTree.from_dependency(tree.words, heads).words == tree.words


def test_a_phrase_that_was_added_can_be_removed_again():
    for tree in some_trees():
        before = list(tree.spans)
        for start, end in itertools.combinations(range(len(tree) + 1), 2):
            crosses = any(s < start < e < end or start < s < end < e for _, s, e in tree.spans)
            if crosses:
                with pytest.raises(ValueError, match=r"^spans must not cross"):
                    tree.with_phrase("S", start, end)
                continue
            grown = tree.with_phrase("S", start, end)
            assert Counter(grown.spans) == Counter([*tree.spans, ("S", start, end)])
            assert (grown.words, grown.tags) == (tree.words, tree.tags)
            over = [label for label, s, e in grown.spans if (s, e) == (start, end)]
            assert over == [label for label, s, e in tree.spans if (s, e) == (start, end)] + ["S"]
            assert grown.without_phrase("S", start, end) == tree
        assert tree.spans == before


def test_of_equal_phrases_the_lowest_is_removed():
    tree = ConstituencyTree(["a", "b"], [("S", 0, 2), ("NP", 0, 2), ("S", 0, 2), ("NP", 0, 1)])
    assert tree.without_phrase("S", 0, 2).spans == [("S", 0, 2), ("NP", 0, 2), ("NP", 0, 1)]
    assert tree.without_phrase("NP", 0, 2).spans == [("S", 0, 2), ("S", 0, 2), ("NP", 0, 1)]
    assert tree.without_phrase("NP", 0, 1).leaf_parents == (2, 2)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda tree: tree.with_phrase("X", 1, 1), r"span 'X' must contain at least one of 3 words, got \(1, 1\)"),
        (lambda tree: tree.with_phrase("X", 2, 4), r"span 'X' must contain at least one of 3 words, got \(2, 4\)"),
        (lambda tree: tree.with_phrase("X", 1, 3), r"spans must not cross, got \('NP', 0, 2\) and \('X', 1, 3\)"),
        (lambda tree: tree.without_phrase("X", 0, 2), r"expected a phrase of the tree, got \('X', 0, 2\)"),
    ],
)
def test_an_impossible_phrase_is_refused(edit, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        edit(ConstituencyTree(["a", "b", "c"], [("NP", 0, 2)]))


def test_every_phrase_and_every_tagged_word_is_a_subtree():
    tree = ConstituencyTree.from_brackets("(4 (3 (2 a) b) (1 c))")
    assert tree.labelled_subtrees() == [("4", 0, 3), ("3", 0, 2), ("2", 0, 1), ("1", 2, 3)]
    assert ConstituencyTree.from_brackets("(3 good)").labelled_subtrees() == [("3", 0, 1)]


def test_empty_leaves_go_with_the_phrases_they_leave_empty():
    text = "( (S (NP-SBJ (-NONE- *)) (VP (VB go) (SBAR (-NONE- 0) (S (-NONE- *T*-1))) (NP (NN home) (-NONE- *U*)))))"
    tree = ConstituencyTree.from_brackets(text).without_empty_leaves()
    assert tree.to_brackets() == "(S (VP (VB go) (NP (NN home))))"
    nothing = ConstituencyTree.from_brackets("(S (NP (-NONE- *)))").without_empty_leaves()
    assert (nothing.words, nothing.spans) == ((), [])


def test_function_tags_are_cut_off_but_not_brackets():
    tree = ConstituencyTree.from_brackets("(S=2 (NP-SBJ-1 (-LRB- -LRB-) (PRP$ its)) (PRT|ADVP (-NONE- *)))")
    assert tree.without_function_tags().to_brackets() == "(S (NP (-LRB- -LRB-) (PRP$ its)) (PRT|ADVP (-NONE- *)))"


@pytest.mark.parametrize(
    ("unary", "expected"),
    [
        ("lowest", "(VP (VB go) (NP (NN home)))"),
        ("top", "(ROOT (VB go) (X (NN home)))"),
        ("join", "(ROOT+S+VP (VB go) (X+NP (NN home)))"),
        ("keep", "(ROOT (S (VP (VB go) (X (NP (NN home))))))"),
    ],
)
def test_chains_of_phrases_over_the_same_words(unary, expected):
    tree = ConstituencyTree.from_brackets("(ROOT (S (VP (VB go) (X (NP (NN home))))))")
    assert tree.collapsed(unary).to_brackets() == expected


def test_an_unknown_way_to_treat_chains_is_refused():
    # While tests run, the checked types are faster than the method's own ValueError; both name the known ways.
    with pytest.raises((ValueError, TypeError), match="'lowest', 'top', 'join'"):
        ConstituencyTree(["a"]).collapsed("first")


def test_binarised_phrases_have_two_children_and_the_old_spans():
    for tree in some_trees():
        binary = tree.binarised()
        assert set(children_counts(binary)) <= {2}
        assert len(binary.spans) == len(tree) - 1
        assert {span[1:] for span in tree.spans if span[2] - span[1] > 1} <= {span[1:] for span in binary.spans}
        assert (binary.words, binary.tags) == (tree.words, tree.tags)
        assert binary.binarised() == binary


def test_binarised_keeps_trees_side_by_side():
    tree = ConstituencyTree(["a", "b", "c"], [("NP", 0, 2)])
    assert tree.binarised() == tree


def test_from_dependency_has_a_phrase_for_every_word_with_dependents():
    heads = DependencyTree([2, 6, 5, 5, 2, 0, 8, 6])
    tree = ConstituencyTree.from_dependency(["Two", "kids", "at", "a", "ballgame", "wash", "their", "hands"], heads)
    assert tree.to_brackets() == "(X (X Two kids (X at a ballgame)) wash (X their hands))"
    for heads in ([0, 1, 2, 3], [2, 0, 2, 3], [0, 0, 2], [3, 0, 2, 1], [0], []):
        dependency = DependencyTree(heads)
        tree = ConstituencyTree.from_dependency([str(word) for word in range(len(heads))], dependency)
        expected = {span for span in dependency.projectivised().subtree_spans() if span[1] - span[0] > 1}
        assert {span[1:] for span in tree.spans} == expected | ({(0, len(heads))} if heads else set())


def test_from_dependency_labels():
    labelled = DependencyTree([2, 0, 0], ["nsubj", "root", "root"])
    tree = ConstituencyTree.from_dependency(["a", "b", "c"], labelled)
    assert tree.to_brackets() == "(ROOT (root a b) c)"
    assert ConstituencyTree.from_dependency(["a"], DependencyTree([0])).to_brackets() == "(ROOT (_ a))"
    with pytest.raises(ValueError, match="expected a dependency tree of 1 words, got one of 3"):
        ConstituencyTree.from_dependency(["a"], labelled)


def test_one_string_is_no_sequence_of_words():
    with pytest.raises(TypeError, match="got one string 'abc'"):
        ConstituencyTree("abc")
