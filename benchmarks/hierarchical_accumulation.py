"""Hierarchical accumulation as an operator against the literal form that builds the tensor S.

Nguyen et al. 2020, section 4.1; the literal form is written from the equations, as vectorised tensor algebra: leaves
and phrases interpolated to (phrases + 1) x leaves x channels, cumulated upwards, averaged. Both have learnt leaf
weights and both embeddings. Time is forward and backward, once with the matrices of the trees at hand, as layers share
them, and once with those built anew; memory is the largest tensor and the most that is alive at once.

    python -m benchmarks.hierarchical_accumulation [--leaves 30 60 120 400] [--batch-size 32] [--threads 1] [--chain]
"""

import argparse
import random
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakIdKeyDictionary

from benchmarks import markdown
from benchmarks.turns import medians, seconds
from structattn.functional import TreeOperator, accumulate


def random_tree(generator: random.Random, num_leaves: int) -> list[tuple[int, int]]:
    """A binary tree cut at random places near the middle: about as deep as a parse."""
    spans, waiting = [], [(0, num_leaves)]
    while waiting:
        start, end = waiting.pop()
        if end - start > 1:
            spans.append((start, end))
            cut = start + 1 + int(generator.betavariate(1.0, 1.5) * (end - start - 1))
            waiting += [(cut, end), (start, cut)]
    return spans


def chain(num_leaves: int) -> list[tuple[int, int]]:
    """The right-branching tree, the deepest there is."""
    return [(start, num_leaves) for start in range(num_leaves - 1)]


def collate_trees(trees: list[list[tuple[int, int]]]) -> tuple[Tensor, Tensor]:
    """Spans and parents; the trees are in pre-order, so a parent is the last earlier phrase that covers its child."""
    most = max(map(len, trees))
    spans = torch.zeros(len(trees), most, 2, dtype=torch.int64)
    parents = torch.arange(most).repeat(len(trees), 1)
    for row, tree in enumerate(trees):
        spans[row, : len(tree)] = torch.tensor(tree)
        open_phrases: list[int] = []
        for number, (start, end) in enumerate(tree):
            while open_phrases and tree[open_phrases[-1]][1] < end:
                open_phrases.pop()
            while open_phrases and tree[open_phrases[-1]][1] <= start:
                open_phrases.pop()
            parents[row, number] = open_phrases[-1] if open_phrases else number
            open_phrases.append(number)
    return spans, parents


def literal(
    leaves: Tensor, nodes: Tensor, weights: Tensor, trees: TreeOperator, *, vertical: Tensor, horizontal: Tensor
) -> Tensor:
    """S, S-hat and N-bar with all heads, as the published code has it: one cumulated sum and two means."""
    cover, below = trees.cover.unsqueeze(1), trees.below
    height = trees.counts.long().clamp(max=len(vertical) - 1)
    first = (trees.cover.cumsum(-1) == 0).sum(-1, keepdim=True)
    position = (torch.arange(leaves.shape[2]) - first + 1).clamp(0, len(horizontal) - 1)
    embedded = torch.cat([vertical[height], horizontal[position]], dim=-1).unsqueeze(1)
    stacked = (nodes.unsqueeze(3) + embedded) * cover.unsqueeze(-1)
    # Sums over a phrase and all phrases below it: what the published code does along a sorted axis by a cumulated sum.
    batch, heads, phrases, num_leaves, channels = stacked.shape
    summed = (below.unsqueeze(1) @ stacked.flatten(3)).view(batch, heads, phrases, num_leaves, channels)
    averaged = (summed + leaves.unsqueeze(2)) * (cover / (trees.counts.unsqueeze(1) + 1)).unsqueeze(-1)
    length = trees.cover.sum(-1).clamp(min=1)[:, None, :, None]
    return (averaged * weights[:, :, None, :, None]).sum(3) / length


class Memory(TorchDispatchMode):
    """The largest tensor made inside, and the most bytes alive at once."""

    def __init__(self) -> None:
        super().__init__()
        self.alive: Any = WeakIdKeyDictionary()
        self.largest = self.peak = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else (result,):
            if isinstance(tensor, Tensor):
                storage = tensor.untyped_storage()
                self.alive[storage] = storage.nbytes()
                self.largest = max(self.largest, storage.nbytes())
        self.peak = max(self.peak, sum(self.alive.values()))
        return result


def batch_size(num_leaves: int, dim: int, most: int) -> int:
    """As many trees as keep the literal form, which has some four tensors of the size of S alive, below 1 GB."""
    return max(1, min(most, 10**9 // (4 * 4 * (num_leaves - 1) * num_leaves * dim)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--leaves", type=int, nargs="+", default=[30, 60, 120, 400])
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--chain", action="store_true", help="right-branching trees")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    generator = random.Random(0)
    print(
        f"Forward and backward, {options.threads} threads, median of {options.repeats}; batches of "
        f"{options.batch_size} trees, of fewer where the literal form would take more than 1 GB.\n"
    )
    columns = ["leaves", "dim", "heads", "trees", "deepest", "literal, ms", "operator, ms", "with building, ms"]
    columns += ["faster", "with building", "literal, largest / peak MB", "operator, largest / peak MB", "smaller"]
    print(markdown.header([*columns, "difference"]), flush=True)
    for num_leaves in options.leaves:
        for dim, heads in ((64, 4), (512, 8)):
            trees = [
                chain(num_leaves) if options.chain else random_tree(generator, num_leaves)
                for _ in range(batch_size(num_leaves, dim, options.batch_size))
            ]
            compare(*collate_trees(trees), num_leaves, dim=dim, heads=heads, repeats=options.repeats)


def compare(spans: Tensor, parents: Tensor, num_leaves: int, *, dim: int, heads: int, repeats: int) -> None:
    """One row of the table."""
    torch.manual_seed(0)
    size, phrases = parents.shape
    channels = dim // heads
    inputs = [
        torch.randn(size, heads, num_leaves, channels),
        torch.randn(size, heads, phrases, channels),
        torch.randn(size, heads, num_leaves),
    ]
    tables = {"vertical": torch.randn(51, channels // 2), "horizontal": torch.randn(101, channels // 2)}
    for tensor in (*inputs, *tables.values()):
        tensor.requires_grad_()
    gradient = torch.randn(size, heads, phrases, channels)

    def build() -> TreeOperator:
        trees = TreeOperator.from_spans(spans, parents, num_leaves)
        trees.by_height, trees.by_place  # noqa: B018  # made on first use
        return trees

    trees = build()
    works: dict[str, Callable[[], None]] = {
        "literal": lambda: literal(*inputs, trees, **tables).backward(gradient),
        "operator": lambda: accumulate(*inputs, trees, **tables).backward(gradient),
        "built": lambda: accumulate(*inputs, build(), **tables).backward(gradient),
    }
    with torch.no_grad():
        gap = float((literal(*inputs, trees, **tables) - accumulate(*inputs, trees, **tables)).abs().max())
    memory = {}
    for name, work in works.items():
        with Memory() as memory[name]:
            work()
    taken = medians(list(works), lambda name, _: seconds(works[name]), turns=repeats, warm=0)
    cells = [num_leaves, dim, heads, size, int(trees.depths.max()), *(f"{1000 * taken[name]:.2f}" for name in works)]
    cells += [f"{taken['literal'] / taken[name]:.1f}x" for name in ("operator", "built")]
    cells += [f"{memory[name].largest / 1e6:.2f} / {memory[name].peak / 1e6:.1f}" for name in ("literal", "operator")]
    largest, peak = (
        getattr(memory["literal"], name) / getattr(memory["operator"], name) for name in ("largest", "peak")
    )
    print(markdown.line([*cells, f"{largest:.0f}x / {peak:.0f}x", f"{gap:.0e}"]), flush=True)


if __name__ == "__main__":
    main()
