"""Hierarchical accumulation: made by hand, against the literal tensors, and the laws of its definition."""

import random
from typing import Any

import pytest
import torch
from torch import Tensor

import structattn as sa
from structattn.functional import TreeOperator, accumulate
from structattn.functional.tree_histogram import SparseMatrix
from structattn.functional.tree_operator import correlate
from trees_by_hand import literal_accumulation, random_tree

# A phrase g over all three leaves, and its child h over the last two.
LEAVES = torch.tensor([[2.0, 0.0], [0.0, 4.0], [6.0, 2.0]])
NODES = torch.tensor([[1.0, 1.0], [3.0, -1.0]])
WEIGHTS = torch.tensor([1.0, 0.5, 2.0])
SPANS, PARENTS = [(0, 3), (1, 3)], [-1, 0]
VERTICAL = torch.tensor([[0.0], [10.0], [20.0], [30.0]])
HORIZONTAL = torch.tensor([[0.0], [1.0], [2.0], [3.0]])
TABLES = {"vertical": VERTICAL, "horizontal": HORIZONTAL}

GOLDEN = [
    ({}, "paper", [[2.944444, 0.833333], [4.875, 0.875]]),
    (TABLES, "paper", [[12.944444, 2.277778], [11.125, 2.0]]),
    ({}, "ref", [[4.666667, 1.333333], [9.75, 1.75]]),
    (TABLES, "ref", [[20.5, 3.583333], [34.75, 4.0]]),
]


def closed(
    leaves: Tensor, nodes: Tensor, weights: Tensor, spans: Any = SPANS, parents: Any = PARENTS, **options: Any
) -> Tensor:
    """One head of one tree."""
    result = sa.functional.hierarchical_accumulation(
        leaves[None, None],
        nodes[None, None],
        weights[None, None],
        torch.tensor(spans, dtype=torch.int64).view(1, -1, 2),
        torch.tensor(parents, dtype=torch.int64).view(1, -1),
        **options,
    )
    return result[0, 0]


def example(seed: int, num_leaves: int, *, channels: int = 6) -> dict[str, Any]:
    rng, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    spans, parents = random_tree(rng, num_leaves)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=torch.float64, generator=generator)

    return {
        "leaves": draw(num_leaves, channels),
        "nodes": draw(len(spans), channels),
        "weights": draw(num_leaves),
        "spans": spans,
        "parents": parents,
        "vertical": draw(4, channels // 2),
        "horizontal": draw(6, channels // 2),
    }


@pytest.fixture(params=["sparse", "padded"])
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What meets what as a list of pairs, or as tensors of fixed shape, as in graphs and on accelerators."""
    if request.param == "padded":
        monkeypatch.setattr(TreeOperator, "_is_traced", True)


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize(("tables", "mode", "expected"), GOLDEN)
def test_numbers_made_by_hand(tables: dict[str, Tensor], mode: str, expected: list[list[float]]) -> None:
    found = closed(LEAVES, NODES, WEIGHTS, mode=mode, **tables)
    torch.testing.assert_close(found, torch.tensor(expected), atol=1e-5, rtol=0)
    *_, literal = literal_accumulation(LEAVES, NODES, WEIGHTS, SPANS, PARENTS, mode=mode, **tables)
    torch.testing.assert_close(literal, torch.tensor(expected), atol=1e-5, rtol=0)


def test_the_literal_tensors_made_by_hand() -> None:
    stacked, averaged, _ = literal_accumulation(LEAVES, NODES, WEIGHTS, SPANS, PARENTS)
    g, h, zero = [1.0, 1.0], [3.0, -1.0], [0.0, 0.0]
    assert stacked.tolist() == [LEAVES.tolist(), [g, g, g], [zero, h, h]]
    expected = [[[1.5, 0.5], [4 / 3, 4 / 3], [10 / 3, 2 / 3]], [zero, [1.5, 1.5], [4.5, 0.5]]]
    torch.testing.assert_close(averaged, torch.tensor(expected))
    _, averaged, _ = literal_accumulation(LEAVES, NODES, WEIGHTS, SPANS, PARENTS, **TABLES)
    expected = [[[6.5, 1.0], [34 / 3, 7 / 3], [40 / 3, 7 / 3]], [zero, [6.5, 2.0], [9.5, 1.5]]]
    torch.testing.assert_close(averaged, torch.tensor(expected))


@pytest.mark.parametrize(("batch", "length", "dim"), [(1, 1, 1), (2, 3, 1), (3, 4, 2), (2, 5, 3), (0, 2, 3), (2, 0, 3)])
def test_a_correlation_agrees_with_a_loop(batch: int, length: int, dim: int) -> None:
    generator = torch.Generator().manual_seed(length)
    rows = torch.randn(batch, length, generator=generator, dtype=torch.float64)
    values = torch.randn(batch, length, dim, generator=generator, dtype=torch.float64, requires_grad=True)
    expected = torch.zeros_like(values)
    for start in range(length):
        for place in range(start, length):
            expected[:, start] += rows[:, place - start, None] * values[:, place]
    torch.testing.assert_close(correlate(rows, values), expected)
    assert not values.numel() or torch.autograd.gradcheck(lambda values: correlate(rows, values), (values,))


def test_the_operator_made_by_hand() -> None:
    trees = TreeOperator.from_spans(torch.tensor([SPANS]), torch.tensor([PARENTS]), 3)
    assert trees.counts.tolist() == [[[1.0, 2.0, 2.0], [0.0, 1.0, 1.0]]]
    of_leaves = trees.operator[0] * WEIGHTS
    torch.testing.assert_close(of_leaves, torch.tensor([[1 / 6, 1 / 18, 2 / 9], [0.0, 0.125, 0.5]]))
    of_nodes = (of_leaves @ trees.cover[0].T) * trees.below[0]
    torch.testing.assert_close(of_nodes, torch.tensor([[4 / 9, 5 / 18], [0.0, 0.625]]))


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("mode", ["paper", "ref"])
@pytest.mark.parametrize("num_leaves", [1, 2, 5, 9, 20])
def test_equals_the_literal_form(num_leaves: int, mode: str) -> None:
    for seed in range(4):
        case = example(100 * num_leaves + seed, num_leaves)
        for left_out in ((), ("vertical",), ("horizontal",), ("vertical", "horizontal")):
            chosen = {name: value for name, value in case.items() if name not in left_out}
            *_, expected = literal_accumulation(**chosen, mode=mode)
            torch.testing.assert_close(closed(**chosen, mode=mode), expected, atol=1e-12, rtol=0)


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("mode", ["paper", "ref"])
def test_gradients(mode: str) -> None:
    case = example(3, 4, channels=2)
    inputs = [case[name].requires_grad_() for name in ("leaves", "nodes", "weights", "vertical", "horizontal")]

    def run(leaves: Tensor, nodes: Tensor, weights: Tensor, vertical: Tensor, horizontal: Tensor) -> Tensor:
        tables = {"vertical": vertical, "horizontal": horizontal}
        return closed(leaves, nodes, weights, case["spans"], case["parents"], mode=mode, **tables)

    assert torch.autograd.gradcheck(run, inputs)
    assert torch.autograd.gradgradcheck(run, inputs)


@pytest.mark.parametrize("num_leaves", [1, 7, 30])
def test_the_order_of_the_phrases_only_orders_the_result(num_leaves: int) -> None:
    case = example(num_leaves, num_leaves)
    before = closed(**case)
    order = list(range(len(case["spans"])))
    random.Random(1).shuffle(order)
    case["nodes"] = case["nodes"][order]
    case["spans"] = [case["spans"][old] for old in order]
    case["parents"] = [-1 if case["parents"][old] < 0 else order.index(case["parents"][old]) for old in order]
    torch.testing.assert_close(closed(**case), before[order], atol=1e-12, rtol=0)


def test_roots_may_point_to_themselves() -> None:
    case = example(5, 9)
    expected = closed(**case)
    case["parents"] = [number if parent < 0 else parent for number, parent in enumerate(case["parents"])]
    assert torch.equal(closed(**case), expected)


def test_trees_under_several_roots_are_independent() -> None:
    first, second = example(1, 6), example(2, 4)
    together = {
        "leaves": torch.cat([first["leaves"], second["leaves"]]),
        "nodes": torch.cat([first["nodes"], second["nodes"]]),
        "weights": torch.cat([first["weights"], second["weights"]]),
        "spans": first["spans"] + [(start + 6, end + 6) for start, end in second["spans"]],
        "parents": first["parents"] + [p if p < 0 else p + len(first["spans"]) for p in second["parents"]],
    }
    tables = {name: first[name] for name in ("vertical", "horizontal")}
    second |= tables
    expected = torch.cat([closed(**first), closed(**second)])
    torch.testing.assert_close(closed(**together, **tables), expected, atol=1e-12, rtol=0)


@pytest.mark.usefixtures("form")
def test_one_word_no_word_and_no_phrase() -> None:
    one = closed(LEAVES[:1], NODES[:1], WEIGHTS[:1], [(0, 1)], [-1], **TABLES)
    expected = (LEAVES[0] + NODES[0] + torch.tensor([10.0, 1.0])) / 2
    torch.testing.assert_close(one, expected[None])
    assert closed(LEAVES, NODES[:0], WEIGHTS, [], [], **TABLES).shape == (0, 2)
    nothing = closed(LEAVES[:0], NODES[:1], WEIGHTS[:0], [(0, 0)], [-1], **TABLES)
    assert nothing.tolist() == [[0.0, 0.0]]


def test_a_chain_of_phrases_over_the_same_words_counts_each() -> None:
    chain = [(0, 2)] * 3
    found = closed(LEAVES[:2], torch.zeros(3, 2), torch.ones(2), chain, [-1, 0, 1])
    mean = LEAVES[:2].mean(0)
    torch.testing.assert_close(found, torch.stack([mean / 4, mean / 3, mean / 2]))


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("more", [1, 7])
def test_padding_changes_nothing(more: int) -> None:
    case = example(8, 7)
    tables = {name: case[name] for name in ("vertical", "horizontal")}
    generator = torch.Generator().manual_seed(0)

    def padded(values: Tensor, size: int) -> Tensor:
        # Whatever stands in the padding has no influence.
        rest = torch.randn(size, *values.shape[1:], dtype=values.dtype, generator=generator)
        return torch.cat([values, rest])[None, None].requires_grad_()

    leaves, nodes, weights = padded(case["leaves"], more), padded(case["nodes"], more), padded(case["weights"], more)
    own = list(range(len(case["spans"]), len(case["spans"]) + more))
    found = sa.functional.hierarchical_accumulation(
        leaves,
        nodes,
        weights,
        torch.tensor([case["spans"] + [(0, 0)] * more]),
        torch.tensor([case["parents"] + own]),
        **tables,
    )
    torch.testing.assert_close(found[0, 0, : -more or None], closed(**case), atol=1e-12, rtol=0)
    assert not found[0, 0, -more:].any()
    found.sum().backward()
    for tensor in (leaves, nodes, weights):
        assert tensor.grad is not None
        assert not tensor.grad[0, 0, -more:].any()


@pytest.mark.usefixtures("form")
def test_a_batch_with_heads_is_each_alone() -> None:
    cases = [example(seed, size) for seed, size in ((1, 4), (2, 9), (3, 1))]
    most = max(len(case["spans"]) for case in cases)
    leaves, nodes = torch.zeros(3, 2, 9, 6, dtype=torch.float64), torch.zeros(3, 2, most, 6, dtype=torch.float64)
    weights = torch.zeros(3, 2, 9, dtype=torch.float64)
    spans = torch.zeros(3, most, 2, dtype=torch.int64)
    parents = torch.arange(most).repeat(3, 1)
    for row, case in enumerate(cases):
        size, phrases = len(case["leaves"]), len(case["spans"])
        for head, factor in enumerate((1.0, -2.0)):
            leaves[row, head, :size] = factor * case["leaves"]
            nodes[row, head, :phrases] = factor * case["nodes"]
            weights[row, head, :size] = case["weights"] + head
        spans[row, :phrases] = torch.tensor(case["spans"])
        parents[row, :phrases] = torch.tensor(case["parents"])
    tables = {name: cases[0][name] for name in ("vertical", "horizontal")}
    found = sa.functional.hierarchical_accumulation(leaves, nodes, weights, spans, parents, **tables)
    for row, case in enumerate(cases):
        for head, factor in enumerate((1.0, -2.0)):
            chosen = case | tables | {"weights": case["weights"] + head}
            chosen |= {"leaves": factor * case["leaves"], "nodes": factor * case["nodes"]}
            alone = closed(**chosen)
            torch.testing.assert_close(found[row, head, : len(alone)], alone, atol=1e-12, rtol=0)


def test_a_phrase_depends_on_its_subtree_and_on_nothing_else() -> None:
    case = example(11, 8)
    before = closed(**case)
    for phrase, (start, end) in enumerate(case["spans"]):
        inside = [t for t in range(len(before)) if phrase in _above(case["parents"], t)]
        changed = {name: case[name] + 1.0 for name in ("leaves", "nodes", "weights")}
        changed["leaves"][start:end] = case["leaves"][start:end]
        changed["weights"][start:end] = case["weights"][start:end]
        changed["nodes"][inside] = case["nodes"][inside]
        # Paths are differences of sums from the root: what is above them cancels, up to rounding.
        torch.testing.assert_close(closed(**case | changed)[phrase], before[phrase], atol=1e-12, rtol=0)


def _above(parents: list[int], phrase: int) -> list[int]:
    found = [phrase]
    while parents[found[-1]] >= 0:
        found.append(parents[found[-1]])
    return found


def test_deep_trees_stay_exact_in_single_precision() -> None:
    size = 100
    spans, parents = [(start, size) for start in range(size - 1)], list(range(-1, size - 2))
    case = example(0, size) | {"spans": spans, "parents": parents, "nodes": torch.randn(size - 1, 6).double()}
    single = {name: value.float() if isinstance(value, Tensor) else value for name, value in case.items()}
    torch.testing.assert_close(closed(**single).double(), closed(**case), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("mode", ["paper", "ref"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_deep_trees_are_the_same_under_autocast(dtype: torch.dtype, mode: str) -> None:
    size = 100
    spans, parents = [(start, size) for start in range(size - 1)], list(range(-1, size - 2))
    case = example(0, size) | {"spans": spans, "parents": parents, "nodes": torch.randn(size - 1, 6).double()}
    single = {name: value.float() if isinstance(value, Tensor) else value for name, value in case.items()}
    with torch.autocast("cpu", dtype):
        found = closed(**single, mode=mode)
    assert torch.equal(found, closed(**single, mode=mode))


def test_half_precision_accumulates_in_single() -> None:
    case = example(4, 12)
    half = {name: value.bfloat16() if isinstance(value, Tensor) else value for name, value in case.items()}
    found = closed(**half)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.double(), closed(**case), atol=0.2, rtol=0.05)


def test_tables_of_two_rows() -> None:
    tables = {name: torch.tensor([[100.0], [1.0]]) for name in TABLES}
    longer = {name: torch.tensor([[-5.0], [1.0], [1.0], [1.0]]) for name in TABLES}
    assert torch.equal(closed(LEAVES, NODES, WEIGHTS, **tables), closed(LEAVES, NODES, WEIGHTS, **longer))


def test_trees_that_are_an_operator_already_give_the_same() -> None:
    case = example(6, 7)
    spans, parents = torch.tensor([case["spans"]]), torch.tensor([case["parents"]])
    trees = TreeOperator.from_spans(spans, parents, 7, dtype=torch.float64)
    tables = {name: case[name] for name in ("vertical", "horizontal")}
    inputs = [case[name][None, None] for name in ("leaves", "nodes", "weights")]
    assert torch.equal(accumulate(*inputs, trees, **tables)[0, 0], closed(**case))


def test_an_operator_built_without_gradients_can_be_trained() -> None:
    case = example(6, 7)
    with torch.inference_mode():
        trees = TreeOperator.from_spans(torch.tensor([case["spans"]]), torch.tensor([case["parents"]]), 7)
        trees.by_place, trees.by_height  # noqa: B018  # remembered from here on
    table = torch.ones(3, 3, requires_grad=True)
    accumulate(
        torch.ones(1, 1, 7, 6), torch.ones(1, 1, len(case["spans"]), 6), torch.ones(1, 1, 7), trees, horizontal=table
    ).sum().backward()
    assert table.grad is not None
    assert table.grad[1:].all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mode": "published"}, r"mode expects one of paper, ref; got 'published'"),
        ({"spans": [(0, 4), (1, 3)]}, r"0 <= start <= end <= 3 leaves, got \(0, 4\) for phrase 0 of tree 0"),
        ({"spans": [(0, 3), (2, 1)]}, r"got \(2, 1\) for phrase 1"),
        ({"parents": [-1, 2]}, r"one of 2 that covers it .*, got 2 for phrase 1 of tree 0"),
        ({"spans": [(1, 3), (0, 3)]}, r"that covers it .*, got 0 for phrase 1 of tree 0"),
        ({"parents": [-1, 5]}, r"got 5 for phrase 1 of tree 0"),
        ({"parents": [-1, -1]}, r"spans must nest: phrases over leaf 1 of tree 0 cross"),
        ({"spans": [(0, 3), (0, 3)], "parents": [1, 0]}, r"not below it .*, got 1 for phrase 0 of tree 0"),
        ({"vertical": torch.zeros(3, 2)}, r"vertical expects .* half of 2 channels, got \(3, 2\)"),
        ({"horizontal": torch.zeros(1, 1)}, r"horizontal expects a table of at least 2 rows .*, got \(1, 1\)"),
    ],
)
def test_malformed_input_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        closed(**{"leaves": LEAVES, "nodes": NODES, "weights": WEIGHTS, **changes})


def test_a_sparse_matrix_is_the_dense_one() -> None:
    generator = torch.Generator().manual_seed(2)
    rows, columns = (torch.randint(size, (12,), generator=generator) for size in (4, 3))
    values = torch.randn(12, generator=generator, dtype=torch.float64)
    dense = torch.zeros(4, 3, dtype=torch.float64).index_put((rows, columns), values, accumulate=True)
    right = torch.randn(3, 2, generator=generator, dtype=torch.float64, requires_grad=True)
    matrix = SparseMatrix(rows, columns, values, shape=(4, 3))
    torch.testing.assert_close(matrix @ right, dense @ right)
    assert torch.autograd.gradcheck(lambda x: matrix @ x, (right,))
    several = torch.randn(3, 5, 2, generator=generator, dtype=torch.float64)
    one_by_one = torch.stack([matrix @ one for one in several.unbind(1)])
    for place in range(3):
        mapped = torch.func.vmap(lambda x: matrix @ x, in_dims=place)
        torch.testing.assert_close(mapped(several.movedim(1, place)), one_by_one)
    nothing = torch.empty(0, dtype=torch.int64)
    assert (SparseMatrix(nothing, nothing, torch.empty(0), shape=(2, 3)) @ torch.ones(3, 1)).tolist() == [[0.0], [0.0]]
    with pytest.raises(ValueError, match="4 by 3 expects 3 rows, got 2"):
        matrix @ right[:2]
