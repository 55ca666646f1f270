"""TreeReg: a loss that makes the states of a language model compose along given trees (Nandi et al. 2025).

A span of states is as independent of its surroundings as they are orthogonal to it. The loss asks that of all ways to
split a phrase in two, the one of its tree has the most independent parts. A trained model needs no parser.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from structattn.syntax.constituency_tree import ConstituencyTree

_SMALLEST = 1e-8


@dataclass(frozen=True, eq=False)
class TreeSplits:
    """Where the phrases of some trees split in two, in positions of states; made by :func:`tree_splits`.

    Attributes:
        row: the text of each phrase.
        start: its first state.
        end: its last state.
        split: the last state of its first part.
        may_split: where a phrase may split after a state: where the next one begins a word.
    """

    row: Int64[Tensor, " phrase"]
    start: Int64[Tensor, " phrase"]
    end: Int64[Tensor, " phrase"]
    split: Int64[Tensor, " phrase"]
    may_split: Bool[Tensor, "batch state"]

    def to(self, device: torch.device | str) -> "TreeSplits":
        """The same splits on another device."""
        return TreeSplits(*(getattr(self, name).to(device) for name in ("row", "start", "end", "split", "may_split")))


def tree_splits(
    trees: Sequence[ConstituencyTree | None], words: Int64[Tensor, "batch state"] | None = None
) -> TreeSplits:
    """The phrases of trees that could split in more than one place, binarised to the right.

    Args:
        trees: one for each text, ``None`` for a text that does not count.
        words: the word of each state, -1 where it belongs to none; one state for each word if ``None``.

    Raises:
        ValueError: if the texts are not as many as the trees, or their words not those of the trees.

    Example:
        >>> tree = ConstituencyTree.from_brackets("(S (NP the dog) (VP near (NP trees barks)))")
        >>> splits = tree_splits([tree])
        >>> list(zip(splits.start.tolist(), splits.end.tolist(), splits.split.tolist()))
        [(0, 4, 1), (2, 4, 2)]
    """
    if words is None:
        lengths = torch.tensor([0 if tree is None else len(tree) for tree in trees], dtype=torch.int64)
        position = torch.arange(max(lengths.tolist(), default=0)).expand(len(trees), -1)
        words = torch.where(position < lengths[:, None], position, -1)
    if len(words) != len(trees):
        raise ValueError(f"tree_splits expects the words of {len(trees)} texts, got those of {len(words)}")
    following = torch.nn.functional.pad(words[:, 1:], (0, 1), value=-1)
    may_split = (words >= 0) & (following > words)
    rows: list[tuple[int, int, int, int]] = []
    for row, tree in enumerate(trees):
        if tree is None:
            continue
        states = [(word, state) for state, word in enumerate(words[row].tolist()) if word >= 0]
        first, last = dict(reversed(states)), dict(states)
        if set(last) != set(range(len(tree))):
            raise ValueError(f"tree_splits expects states for each of the {len(tree)} words of text {row}")
        rows += [(row, first[start], last[end], last[split]) for start, end, split in _binary_phrases(tree)]
    numbers = torch.tensor(rows, dtype=torch.int64, device=words.device).reshape(-1, 4)
    row_numbers, starts, stops, cuts = numbers.unbind(1)
    return TreeSplits(row_numbers, starts, stops, cuts, may_split)


def _binary_phrases(tree: ConstituencyTree) -> list[tuple[int, int, int]]:
    """First word, last word and last word of the first part of each phrase with several places to split."""
    phrases = []
    spans = sorted(
        {(start, end) for _, start, end in tree.spans if end - start > 1}, key=lambda span: (span[0], -span[1])
    )
    for start, end in spans:
        inner = [span for span in spans if start <= span[0] and span[1] <= end and span != (start, end)]
        while start < end:
            cut = max((last for first, last in inner if first == start), default=start + 1)
            if cut < end and end - start > 2:
                phrases.append((start, end - 1, cut - 1))
            start = cut
    return phrases


def tree_regularity(
    states: Float[Tensor, "batch state dim"],
    splits: TreeSplits,
    mask: Bool[Tensor, "batch state"],
    *,
    channels: float = 0.25,
) -> Float[Tensor, ""]:
    r"""The loss of states whose phrases split elsewhere than their trees do.

    With ``O_ij = ||h_j - (h_j . h_i) h_i / ||h_i||^2||``, the part of state ``j`` orthogonal to state ``i``, the score
    of the split after ``q`` of a phrase from ``s`` to ``e`` is ``O_{s-1,q} + O_{q,q+1} + O_{q,e} + O_{e,e+1}``; it is 0
    for states outside the text. The loss is the cross-entropy of the tree's split among all of a phrase, averaged over
    phrases and then over texts. ``O`` comes from one Gram matrix, so memory is ``(state, state)`` for each text.

    Args:
        states: states of one layer, without those of special tokens.
        splits: of the trees of the texts, see :func:`tree_splits`.
        mask: which states are real.
        channels: share of the first channels that are regularised, as in the published code.

    Returns:
        The loss, computed in float32; a zero that is connected to the states if no phrase has two places to split.

    Example:
        >>> tree = ConstituencyTree.from_brackets("(S (S (NP the dog) (NP near trees)) barks)")
        >>> h = torch.tensor([[[1.0, 0, 0], [1, 1, 0], [0, 2, 1], [1, 0, 2], [2, 1, 1]]])
        >>> tree_regularity(h, tree_splits([tree]), torch.ones(1, 5, dtype=torch.bool), channels=1.0)
        tensor(1.2140)
    """
    scores, is_possible = split_scores(_first_channels(states, channels), splits, mask)
    logs = scores.masked_fill(~is_possible, -torch.inf).log_softmax(1)
    losses = -logs.gather(1, (splits.split - splits.start)[:, None]).squeeze(1)
    # A phrase of two words has one place to split, whatever its subwords.
    several = is_possible.sum(1) > 1
    sums, counts = (torch.zeros(len(states), device=states.device) for _ in range(2))
    sums = sums.index_add(0, splits.row, torch.where(several, losses, 0.0))
    counts = counts.index_add(0, splits.row, several.float())
    return (sums / counts.clamp(min=1)).sum() / (counts > 0).sum().clamp(min=1)


def split_scores(
    states: Float[Tensor, "batch state dim"], splits: TreeSplits, mask: Bool[Tensor, "batch state"]
) -> tuple[Float[Tensor, "phrase split"], Bool[Tensor, "phrase split"]]:
    """The score of a split after each state of a phrase, from its first one on, and which of these are possible."""
    distance = _orthogonal_parts(torch.where(mask[..., None], states, 0.0), mask)
    row, start, end = splits.row[:, None], splits.start[:, None], splits.end[:, None]
    width = int((splits.end - splits.start).max()) if len(splits.row) else 1
    split = start + torch.arange(width, device=states.device)
    is_possible = split < end
    split = torch.where(is_possible, split, start)
    return _add_parts(distance, row, start, end, split), is_possible & splits.may_split[row, split]


def _first_channels(states: Tensor, share: float) -> Tensor:
    return states[..., : max(1, int(states.shape[-1] * share))].float()


def _add_parts(distance: Tensor, row: Tensor | int, start: Tensor | int, end: Tensor | int, split: Tensor) -> Tensor:
    """``O_{s-1,q} + O_{q,q+1} + O_{q,e} + O_{e,e+1}``."""
    # The matrix has a border of zeros around the text, so positions are shifted by one.
    scores = distance[row, start, split + 1] + distance[row, split + 1, split + 2]
    return scores + distance[row, split + 1, end + 1] + distance[row, end + 1, end + 2]


def _orthogonal_parts(states: Tensor, mask: Tensor) -> Tensor:
    """``O`` with a border of zeros: ``O_ij^2 = G_jj - G_ij^2 / G_ii`` for the Gram matrix ``G``."""
    gram = states @ states.transpose(1, 2)
    norms = gram.diagonal(dim1=1, dim2=2)
    squares = norms[:, None, :] - gram.square() / norms[:, :, None].clamp(min=_SMALLEST)
    # Parallel states have no orthogonal part, where the gradient of the root is infinite.
    parts = squares.clamp(min=_SMALLEST).sqrt()
    real = mask[:, :, None] & mask[:, None, :]
    return torch.nn.functional.pad(torch.where(real, parts, 0.0), (1, 1, 1, 1))


def greedy_tree(
    states: Float[Tensor, "state dim"], words: Sequence[str], *, channels: float = 0.25
) -> ConstituencyTree:
    """The binary tree of one sentence whose every phrase splits at its best place, by the scores of the loss.

    Args:
        states: one state for each word.
        words: the words.

    Example:
        >>> h = torch.tensor([[1.0, 0, 0], [1, 1, 0], [0, 2, 1], [1, 0, 2], [2, 1, 1]])
        >>> [span[1:] for span in greedy_tree(h, "the dog near trees barks".split(), channels=1.0).spans]
        [(0, 5), (0, 3), (0, 2), (3, 5)]
    """
    part = _first_channels(states[None], channels)
    distance = _orthogonal_parts(part, torch.ones(1, len(words), dtype=torch.bool, device=part.device)).detach().cpu()
    spans: list[tuple[str, int, int]] = []
    waiting = [(0, len(words) - 1)]
    while waiting:
        start, end = waiting.pop()
        if start >= end:
            continue
        spans.append(("", start, end + 1))
        best = start + int(_add_parts(distance, 0, start, end, torch.arange(start, end)).argmax())
        waiting += [(start, best), (best + 1, end)]
    return ConstituencyTree(words, spans)
