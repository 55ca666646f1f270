"""SparseMAP: golden numbers, optimality against the list of all structures, derivatives, and what it refuses."""

import warnings

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from structattn.distributions import (
    AlignmentCRF,
    ConstituencyCRF,
    DependencyCRF,
    LinearChainCRF,
    NonProjectiveDependencyCRF,
)
from structattn.layers import DependencyScorer, SegmentationScorer, SparseMap, StructuredAttention
from structattn.testing import Family
from structures_by_hand import FAMILIES


def f(a: int, b: int, k: int) -> float:
    return (((a * k + b * (k + 2)) % 7) - 3) / 2


SCORES = torch.tensor([[f(head, word, 3) for head in range(4)] for word in range(1, 4)]).double()
DIRECTION = torch.tensor([[(word + 2 * head) % 3 - 1.0 for head in range(4)] for word in range(1, 4)]).double()
# The temperature, the weight of each tree by its heads, and the derivative along the direction.
GOLDEN = [
    (
        2.0,
        {(0, 1, 1): 0.625, (0, 3, 1): 0.125, (2, 3, 0): 0.25},
        [[0.25, 0, -0.25, 0], [0, -0.5, 0, 0.5], [-0.25, 0.25, 0, 0]],
    ),
    (
        4.0,
        {(0, 1, 1): 0.495192, (0, 3, 1): 0.096154, (2, 0, 2): 0.134615, (2, 3, 0): 0.274038},
        [[0.153846, 0, -0.153846, 0], [0.384615, -0.692308, 0, 0.307692], [-0.538462, 0.153846, 0.384615, 0]],
    ),
]


@pytest.mark.parametrize(("temperature", "trees", "derivative"), GOLDEN)
def test_golden_numbers(temperature: float, trees: dict[tuple[int, ...], float], derivative: list[list[float]]) -> None:
    expected = torch.zeros(3, 4).double()
    for heads, weight in trees.items():
        expected[range(3), heads] += weight
    for scale in (1.0, temperature):
        scores = (SCORES * scale / temperature).requires_grad_()
        weights = SparseMap(scale)(DependencyCRF(scores, single_root=True))
        torch.testing.assert_close(weights, expected, atol=1e-6, rtol=0)
        (gradient,) = torch.autograd.grad((weights * DIRECTION).sum(), scores)
        torch.testing.assert_close(gradient * scale, torch.tensor(derivative).double(), atol=6e-7, rtol=0)


@pytest.mark.parametrize("temperature", [0.3, 1.0, 5.0])
@pytest.mark.parametrize("family", [family for family in FAMILIES if len(family.shapes(3)) == 1], ids=lambda f: f.name)
def test_no_structure_improves_the_solution(family: Family, temperature: float) -> None:
    n = 4
    (scores,) = family.random_scores(n, 6, seed=1, forbidden=0.1)
    ours = family.build(scores, [4, 4, 4, 3, 2, 4])
    weights = SparseMap(temperature)(ours)
    for item, length in enumerate([4, 4, 4, 3, 2, 4]):
        listed = family.list_parts(length, n)[0]
        values = family.enumerate([scores[item]], length, n).values
        allowed = values > -torch.inf
        if not allowed.any():
            assert not weights[item].any()
            continue
        direction = scores[item].where(weights[item] > 0, 0) - temperature * weights[item]
        gains = values[allowed] - temperature * (listed[allowed] * weights[item]).flatten(1).sum(1)
        assert gains.max() - (direction * weights[item]).sum() <= 1.1e-6 * temperature
        # A mixture of structures: the nearest one to it is itself.
        assert ((weights[item] >= 0) & (weights[item] <= 1 + 1e-9)).all()


@pytest.mark.parametrize(
    "build",
    [
        lambda scores: DependencyCRF(scores[:, :3], single_root=True),
        lambda scores: NonProjectiveDependencyCRF(scores[:, :3], [3, 2]),
        ConstituencyCRF,
        lambda scores: AlignmentCRF(scores, [4, 3], [2, 4]),
        lambda scores: LinearChainCRF(scores[:, :3], scores[0]),
    ],
    ids=["trees", "all trees", "phrases", "alignments", "chains and transitions"],
)
def test_derivatives_off_the_kinks(build) -> None:  # type: ignore[no-untyped-def]
    scores = torch.randn(2, 4, 4, generator=torch.Generator().manual_seed(2), dtype=torch.float64).requires_grad_()
    for check in (gradcheck, gradgradcheck):
        assert check(lambda scores: SparseMap(1.3)(build(scores)), scores)


def test_padding_forbidden_parts_and_impossible_items() -> None:
    scores = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(3))
    scores[1, 2:] = torch.nan
    scores[2, 0] = -torch.inf
    scores[0, 0, 2] = -torch.inf
    scores.requires_grad_()
    weights = SparseMap()(DependencyCRF(scores, [4, 2, 4]))
    assert weights.dtype == torch.float32
    alone = SparseMap()(DependencyCRF(scores[1, :2, :3]))
    torch.testing.assert_close(weights[1, :2, :3], alone)
    assert not weights[1, 2:].any()
    assert not weights[2].any()
    assert weights[0, 0, 2] == 0
    (gradient,) = torch.autograd.grad(weights.square().sum(), scores)
    assert gradient.isfinite().all()
    assert not gradient[1, 2:].any()
    assert not gradient[2].any()
    assert not SparseMap()(DependencyCRF(torch.full((2, 3), -torch.inf))).any()
    assert SparseMap()(DependencyCRF(torch.zeros(2, 0, 1))).shape == (2, 0, 1)


def test_batch_axes() -> None:
    scores = torch.randn(2, 3, 3, 4, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    nested = SparseMap()(DependencyCRF(scores))
    torch.testing.assert_close(nested.flatten(0, 1), SparseMap()(DependencyCRF(scores.flatten(0, 1))))
    torch.testing.assert_close(nested[1, 2], SparseMap()(DependencyCRF(scores[1, 2])))


def test_a_low_temperature_gives_the_best_structure() -> None:
    ours = DependencyCRF(SCORES, single_root=True)
    torch.testing.assert_close(SparseMap(1e-3)(ours), ours.argmax())


@pytest.mark.parametrize(
    ("kind", "shape"),
    [(DependencyCRF, (16, 20, 21)), (NonProjectiveDependencyCRF, (16, 20, 21)), (ConstituencyCRF, (16, 21, 21))],
)
def test_sixty_iterations_solve_twenty_words(kind: type, shape: tuple[int, ...]) -> None:
    scores = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        weights = SparseMap(max_iterations=60)(kind(scores))
    assert (weights > 0).double().mean() < 0.3


def test_one_warning_if_it_is_not_solved() -> None:
    scores = torch.randn(4, 8, 9, generator=torch.Generator().manual_seed(0))
    with pytest.warns(
        RuntimeWarning, match="4 of 4 items are not solved after 3 iterations, by a gap of up to"
    ) as seen:
        SparseMap(max_iterations=3)(DependencyCRF(scores))
    assert len(seen) == 1


def test_in_structured_attention() -> None:
    torch.manual_seed(0)
    scorer = DependencyScorer(4, bound=torch.nn.Identity())
    attention = StructuredAttention(scorer, SparseMap(0.5))
    states = torch.randn(2, 6, 4).requires_grad_()
    output, weights = attention(3 * states, torch.tensor([[1] * 6, [1] * 4 + [0] * 2]), need_weights=True)
    assert (weights == 0).double().mean() > 0.5
    (gradient,) = torch.autograd.grad(output.square().sum(), states)
    assert gradient.isfinite().all()
    assert gradient.any()


def check_refused(call: object, kind: type, message: str) -> None:
    with pytest.raises(kind, match=message):
        call()  # type: ignore[operator]


def test_bad_input() -> None:
    check_refused(lambda: SparseMap(0.0), ValueError, "a temperature above 0, got 0.0")
    check_refused(lambda: SparseMap(-1.0), ValueError, "a temperature above 0, got -1.0")
    check_refused(lambda: SparseMap(max_iterations=0), ValueError, "at least 1 iteration, got 0")
    attention = StructuredAttention(SegmentationScorer(4), SparseMap())
    check_refused(lambda: attention(torch.zeros(1, 2, 4)), TypeError, r"with_scores\), .* got Segmentation")
