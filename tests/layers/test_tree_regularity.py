"""TreeReg beside a loop over phrases and places, on words and on subwords."""

import math

import pytest
import torch

from structattn.layers.tree_regularity import greedy_tree, split_scores, tree_regularity, tree_splits
from structattn.syntax import ConstituencyTree

TREES = (
    "(S (S (NP the dog) (NP near trees)) barks)",
    "(S the (VP dog near trees) (X (Y barks)))",
    "(S (NP a b c d))",
    "(S two kids)",
    "(S hush)",
)


def states_of(trees, seed=0, dim=6):
    longest = max(len(tree) for tree in trees)
    states = torch.randn(len(trees), longest, dim, generator=torch.Generator().manual_seed(seed))
    mask = torch.arange(longest) < torch.tensor([len(tree) for tree in trees])[:, None]
    return states, mask


def part(states, first, second):
    """The norm of a state without its projection on another; 0 outside the text."""
    if not (0 <= first < len(states) and 0 <= second < len(states)):
        return 0.0
    axis, state = states[first].double(), states[second].double()
    return float((state - (state @ axis) / (axis @ axis) * axis).norm())


def scores_by_hand(states, start, end):
    return [
        part(states, start - 1, place)
        + part(states, place, place + 1)
        + part(states, place, end)
        + part(states, end, end + 1)
        for place in range(start, end)
    ]


def binary(tree):
    """Phrases of a tree binarised to the right, by recursion: (start, end, last of the first part)."""
    spans = {(start, end) for _, start, end in tree.spans}

    def visit(start, end):
        inner = sorted(
            (span for span in spans if start <= span[0] and span[1] <= end and span != (start, end)),
            key=lambda span: (span[0], -span[1]),
        )
        cuts, position = [], start
        while position < end:
            stop = next((last for first, last in inner if first == position), position + 1)
            cuts.append((position, stop))
            position = stop
        phrases = []
        for first, stop in cuts[:-1]:
            phrases.append((first, end - 1, stop - 1))
        for first, stop in cuts:
            if stop - first > 1:
                phrases += visit(first, stop)
        return phrases

    return [phrase for phrase in visit(0, len(tree)) if phrase[1] - phrase[0] > 1] if len(tree) > 1 else []


def test_the_loss_is_that_of_a_loop_over_phrases_and_places():
    trees = [ConstituencyTree.from_brackets(text) for text in TREES]
    states, mask = states_of(trees)
    expected = []
    for row, tree in enumerate(trees):
        losses = []
        for start, end, split in binary(tree):
            scores = scores_by_hand(states[row, : len(tree)], start, end)
            losses.append(math.log(sum(map(math.exp, scores))) - scores[split - start])
        if losses:
            expected.append(sum(losses) / len(losses))
    loss = tree_regularity(states, tree_splits(trees), mask, channels=1.0)
    assert loss.item() == pytest.approx(sum(expected) / len(expected), abs=1e-5)
    assert len(expected) == 3


def test_golden_scores():
    tree = ConstituencyTree.from_brackets(TREES[0])
    states = torch.tensor([[[1.0, 0, 0], [1, 1, 0], [0, 2, 1], [1, 0, 2], [2, 1, 1]]])
    splits = tree_splits([tree])
    scores, is_possible = split_scores(states, splits, torch.ones(1, 5, dtype=torch.bool))
    assert (splits.start.tolist(), splits.end.tolist(), splits.split.tolist()) == ([0, 0], [4, 3], [3, 1])
    torch.testing.assert_close(scores[0], torch.tensor([2.414214, 2.956796, 4.098780, 3.346640]), atol=1e-6, rtol=0)
    torch.testing.assert_close(scores[1, :3], torch.tensor([4.673320, 5.526691, 5.772100]), atol=1e-6, rtol=0)
    assert is_possible.tolist() == [[True] * 4, [True] * 3 + [False]]
    loss = tree_regularity(states, splits, torch.ones(1, 5, dtype=torch.bool), channels=1.0)
    assert loss.item() == pytest.approx(1.214013, abs=1e-6)


def test_padding_and_texts_without_a_tree_change_nothing():
    trees = [ConstituencyTree.from_brackets(text) for text in TREES[:2]]
    states, mask = states_of(trees)
    loss = tree_regularity(states, tree_splits(trees), mask)
    words = torch.where(mask, torch.arange(5), -1)
    wide = torch.cat([states, torch.full((2, 3, 6), math.inf)], dim=1)
    more = torch.cat([wide, torch.randn(1, 8, 6)])
    words = torch.nn.functional.pad(words, (0, 3, 0, 1), value=-1)
    real = torch.nn.functional.pad(mask, (0, 3, 0, 1))
    again = tree_regularity(more, tree_splits([*trees, None], words), real)
    torch.testing.assert_close(again, loss)


def test_words_of_several_states_split_before_words_only():
    tree = ConstituencyTree.from_brackets("(S (S the dog) barks)")
    words = torch.tensor([[0, 0, 1, 2, 2]])
    splits = tree_splits([tree], words)
    assert (splits.start.tolist(), splits.end.tolist(), splits.split.tolist()) == ([0], [4], [2])
    states = torch.randn(1, 5, 4, generator=torch.Generator().manual_seed(1))
    scores, is_possible = split_scores(states, splits, torch.ones(1, 5, dtype=torch.bool))
    assert is_possible.tolist() == [[False, True, True, False]]
    assert scores[0, 1:3].tolist() == pytest.approx(scores_by_hand(states[0], 0, 4)[1:3], abs=1e-5)


def test_gradients_are_finite_where_states_are_parallel_and_zero_where_nothing_splits():
    tree = ConstituencyTree.from_brackets("(S (S the dog) barks)")
    states = torch.ones(1, 3, 4, requires_grad=True)
    tree_regularity(states, tree_splits([tree]), torch.ones(1, 3, dtype=torch.bool)).backward()
    assert states.grad is not None
    assert states.grad.isfinite().all()
    short = torch.randn(2, 2, 4, requires_grad=True)
    trees = [ConstituencyTree.from_brackets(text) for text in TREES[3:]]
    loss = tree_regularity(short, tree_splits(trees), torch.tensor([[True, True], [True, False]]))
    loss.backward()
    assert (loss.item(), short.grad.abs().sum().item()) == (0.0, 0.0)
    padded = short.detach().clone()
    padded[1, 1] = math.inf
    assert tree_regularity(padded, tree_splits(trees), torch.tensor([[True, True], [True, False]])).item() == 0.0


def test_only_the_first_channels_are_regularised():
    trees = [ConstituencyTree.from_brackets(TREES[0])]
    states, mask = states_of(trees, dim=8)
    states.requires_grad_()
    tree_regularity(states, tree_splits(trees), mask, channels=0.25).backward()
    assert states.grad[..., :2].abs().sum() > 0
    assert states.grad[..., 2:].abs().sum() == 0


@pytest.mark.parametrize("size", range(1, 8))
def test_a_greedy_tree_has_the_loss_of_a_tree_whose_splits_are_the_best(size):
    states = torch.randn(size, 5, generator=torch.Generator().manual_seed(size))
    tree = greedy_tree(states, [str(number) for number in range(size)], channels=1.0)
    assert len(tree.spans) == max(0, size - 1)
    for start, end, split in binary(tree):
        scores = scores_by_hand(states, start, end)
        assert split - start == max(range(len(scores)), key=scores.__getitem__)


def test_faults_of_whoever_asks():
    tree = ConstituencyTree.from_brackets("(S (S the dog) barks)")
    with pytest.raises(ValueError, match="expects the words of 1 texts, got those of 2"):
        tree_splits([tree], torch.zeros(2, 3, dtype=torch.int64))
    with pytest.raises(ValueError, match="expects states for each of the 3 words of text 0"):
        tree_splits([tree], torch.tensor([[0, 0, 1]]))
    with pytest.raises(ValueError, match="expects states for each of the 3 words of text 0"):
        tree_splits([tree], torch.tensor([[0, 1, 3]]))
