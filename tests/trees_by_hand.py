"""A literal twin of hierarchical accumulation, and random trees, for the tests.

The twin builds the tensors S, S-hat and N-bar one entry at a time, as Nguyen et al. 2020 print them (equations 4 to 9).
"""

import random
from collections.abc import Sequence

import torch
from torch import Tensor

Span = tuple[int, int]


def literal_accumulation(
    leaves: Tensor,
    nodes: Tensor,
    weights: Tensor,
    spans: Sequence[Span],
    parents: Sequence[int],
    *,
    vertical: Tensor | None = None,
    horizontal: Tensor | None = None,
    mode: str = "paper",
) -> tuple[Tensor, Tensor, Tensor]:
    """S, S-hat and N-bar of one head of one tree; ``parents`` has -1 at roots."""
    num_leaves, channels = leaves.shape
    above = [ancestors(parents, phrase) for phrase in range(len(spans))]
    stacked = leaves.new_zeros(len(spans) + 1, num_leaves, channels)
    for leaf in range(num_leaves):
        stacked[0, leaf] = leaves[leaf]
        for phrase, (start, end) in enumerate(spans):
            if start <= leaf < end:
                stacked[phrase + 1, leaf] = nodes[phrase]
    averaged = leaves.new_zeros(len(spans), num_leaves, channels)
    result = leaves.new_zeros(len(spans), channels)
    for phrase, (start, end) in enumerate(spans):
        for leaf in range(start, end):
            total = stacked[0, leaf]
            path = [
                lower
                for lower in range(len(spans))
                if phrase in above[lower] and spans[lower][0] <= leaf < spans[lower][1]
            ]
            for lower in path:
                total = total + stacked[lower + 1, leaf]
                below = [t for t in path if lower in above[t]]
                height = len(below) if mode == "paper" else len(above[lower])
                place = leaf - spans[lower][0] + 1
                halves = [leaves.new_zeros(channels // 2), leaves.new_zeros(channels // 2)]
                if vertical is not None:
                    halves[0] = vertical[min(height, len(vertical) - 1)]
                if horizontal is not None:
                    halves[1] = horizontal[min(place, len(horizontal) - 1)]
                total = total + torch.cat(halves)
            averaged[phrase, leaf] = total / (len(path) + (mode == "paper"))
            result[phrase] = result[phrase] + weights[leaf] * averaged[phrase, leaf] / (end - start)
    return stacked, averaged, result


def ancestors(parents: Sequence[int], phrase: int) -> list[int]:
    """The phrase and all above it."""
    found = [phrase]
    while parents[found[-1]] != -1:
        found.append(parents[found[-1]])
    return found


def random_tree(rng: random.Random, num_leaves: int) -> tuple[list[Span], list[int]]:
    """Phrases with any number of children, chains over the same leaves among them; parents first."""
    spans: list[Span] = []
    parents: list[int] = []
    waiting = [(0, num_leaves, -1)]
    while waiting:
        start, end, parent = waiting.pop()
        spans.append((start, end))
        parents.append(parent)
        number = len(spans) - 1
        if rng.random() < 0.2:
            waiting.append((start, end, number))
        elif end - start > 1:
            cuts = sorted(rng.sample(range(start + 1, end), rng.randint(1, min(3, end - start - 1))))
            subwords = list(zip([start, *cuts], [*cuts, end], strict=True))
            waiting += [(left, right, number) for left, right in subwords if right - left > 1 or rng.random() < 0.2]
    return spans, parents
