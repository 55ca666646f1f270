"""TreeBatch against plain Python: every fact about every pair of nodes, for trees, forests and padding."""

import random

import pytest
import torch

from structattn.data import TreeBatch


def random_forest(rng: random.Random, nodes: int, width: int, branching: int) -> list[int]:
    """Parents of a forest over the first ``nodes`` of ``width`` columns; padding and roots point to themselves."""
    order = rng.sample(range(nodes), nodes)
    parents = list(range(width))
    for place in range(1, nodes):
        if rng.random() < 0.9:
            parents[order[place]] = order[rng.randrange(max(0, place - branching), place)]
    return parents


def tree_batch(rows: list[list[int]], sizes: list[int], num_leaves: int | None = None) -> TreeBatch:
    width = len(rows[0])
    mask = torch.arange(width) < torch.tensor(sizes)[:, None]
    return TreeBatch(torch.tensor(rows), mask, None, num_leaves=width if num_leaves is None else num_leaves)


def path_up(parents: list[int], node: int) -> list[int]:
    path = [node]
    while parents[path[-1]] != path[-1]:
        path.append(parents[path[-1]])
    return path


@pytest.mark.parametrize("branching", [1, 3, 40])
@pytest.mark.parametrize("width", [1, 2, 3, 8, 9, 33])
def test_every_pair_agrees_with_walking_up(width: int, branching: int) -> None:
    rng = random.Random(width * 100 + branching)
    sizes = [rng.randint(0, width) for _ in range(5)] + [width]
    rows = [random_forest(rng, size, width, branching) for size in sizes]
    trees = tree_batch(rows, sizes)
    for index, (parents, size) in enumerate(zip(rows, sizes, strict=True)):
        paths = [path_up(parents, node) for node in range(size)]
        ancestors = [[k in paths[i] if i < size else False for k in range(width)] for i in range(width)]
        distances = [
            [len(set(paths[i]) ^ set(paths[k])) if max(i, k) < size else 0 for k in range(width)] for i in range(width)
        ]
        depths = [len(paths[i]) - 1 if i < size else 0 for i in range(width)]
        levels = [max((path.index(i) for path in paths if i in path), default=0) for i in range(width)]
        assert trees.ancestors()[index].tolist() == ancestors
        assert trees.subtrees()[index].tolist() == [list(column) for column in zip(*ancestors, strict=True)]
        assert trees.distances()[index].tolist() == distances
        assert trees.depths()[index].tolist() == depths
        assert trees.levels()[index].tolist() == levels


def test_leaf_distances_are_the_leaf_block() -> None:
    rng = random.Random(5)
    trees = tree_batch([random_forest(rng, 9, 9, 3) for _ in range(4)], [9] * 4, num_leaves=4)
    assert torch.equal(trees.leaf_distances(), trees.distances()[:, :4, :4])


@pytest.mark.parametrize("length", [400, 1024, 1025])
def test_long_chain(length: int) -> None:
    trees = tree_batch([[max(0, node - 1) for node in range(length)]], [length])
    position = torch.arange(length)
    assert torch.equal(trees.depths()[0], position)
    assert torch.equal(trees.levels()[0], length - 1 - position)
    assert torch.equal(trees.distances()[0], (position[:, None] - position).abs())


def test_two_roots_are_two_apart() -> None:
    trees = tree_batch([[0, 0, 2]], [3])
    assert trees.distances()[0].tolist() == [[0, 1, 2], [1, 0, 3], [2, 3, 0]]


def test_facts_are_computed_once() -> None:
    trees = tree_batch([[0, 0]], [2])
    assert trees.distances() is trees.distances()
    assert trees.ancestors() is trees.ancestors()


def test_distances_are_exact_under_autocast() -> None:
    length = 600
    trees = tree_batch([[max(0, node - 1) for node in range(length)]], [length])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        distances = trees.distances()
    assert int(distances[0, 0, length - 1]) == length - 1
    assert int(distances[0, length - 2, length - 1]) == 1


def test_what_inference_remembers_serves_training() -> None:
    trees = tree_batch([[0, 0]], [2])
    with torch.inference_mode():
        trees.distances()
    alpha = torch.tensor(1.0, requires_grad=True)
    (alpha * trees.distances()).sum().backward()
    assert alpha.grad is not None
    assert float(alpha.grad) == 2.0


def test_no_nodes() -> None:
    trees = TreeBatch(torch.zeros(2, 0, dtype=torch.long), torch.zeros(2, 0, dtype=torch.bool), None, num_leaves=0)
    assert trees.distances().shape == (2, 0, 0)
    assert trees.levels().shape == trees.depths().shape == (2, 0)


def test_to_keeps_everything(device: str) -> None:
    trees = TreeBatch(torch.tensor([[0, 0]]), torch.ones(1, 2, dtype=torch.bool), torch.tensor([[3, 1]]), num_leaves=2)
    moved = trees.to(device)
    assert moved.parents.device.type == torch.device(device).type
    assert moved.distances().tolist() == [[[0, 1], [1, 0]]]
    assert moved.labels is not None
    assert moved.labels.tolist() == [[3, 1]]
    assert moved.num_leaves == 2


@pytest.mark.parametrize(
    ("parents", "sizes", "message"),
    [
        ([[0, 2]], [2], "parent 2 for node 1 of tree 0"),
        ([[0, -1]], [2], "parent -1 for node 1 of tree 0"),
        ([[1, 1]], [1], "parent 1 for node 0 of tree 0"),  # the parent is padding
        ([[0, 1], [0, 0]], [2, 1], "parent 0 for node 1 of tree 1"),  # padding must point to itself
        ([[0, 2, 1]], [3], "above node 1 of tree 0 form a cycle"),
        ([[0, 2, 3, 1]], [4], "above node 1 of tree 0 form a cycle"),
    ],
)
def test_bad_parents(parents: list[list[int]], sizes: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tree_batch(parents, sizes)


def test_bad_number_of_leaves() -> None:
    with pytest.raises(ValueError, match="between 0 and its 2 nodes, got 3"):
        tree_batch([[0, 0]], [2], num_leaves=3)
