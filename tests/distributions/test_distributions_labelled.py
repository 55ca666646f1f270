"""Labels on the parts of structures, masks and other scores: numbers worked out elsewhere, identities, refusals."""

import inspect
import itertools
import math
from collections.abc import Callable
from contextlib import ExitStack
from unittest.mock import patch

import pytest
import torch
from test_distributions_golden import arcs, close, f

from structattn.distributions import (
    ConstituencyCRF,
    DependencyCRF,
    Labelled,
    LinearChainCRF,
    NonProjectiveDependencyCRF,
    SemiMarkovCRF,
    StructuredDistribution,
    WarpingCRF,
)

ARCS = arcs(3)
RELATIONS = torch.tensor(
    [[[((h + 2 * m + 3 * label * (m + 1)) % 5 - 2) / 2 for label in range(2)] for h in range(4)] for m in range(1, 4)]
).double()
LABELLED_ARCS = ARCS.unsqueeze(-1) + RELATIONS


@pytest.mark.parametrize(
    ("family", "single_root", "log_partition", "entropy"),
    [
        (DependencyCRF, True, 6.779664, 2.561795),
        (DependencyCRF, False, 6.953828, 3.087056),
        (NonProjectiveDependencyCRF, True, 6.924041, 2.831551),
    ],
)
def test_labelled_trees(
    family: type[StructuredDistribution], single_root: bool, log_partition: float, entropy: float
) -> None:
    trees = Labelled(family, LABELLED_ARCS, single_root=single_root)
    close(trees.log_partition(), log_partition)
    close(trees.entropy(), entropy)


def test_labelled_projective_trees() -> None:
    trees = Labelled(DependencyCRF, LABELLED_ARCS, single_root=True)
    assert round(trees.log_count().exp().item()) == 56
    heads, labels = trees.to_structure(trees.argmax())
    assert (heads.tolist(), labels.tolist()) == ([0, 1, 1], [1, 1, 1])
    close(trees.topk_scores(1), [5.5])
    other = torch.tensor([2, 0, 2])
    close(trees.log_prob(other, torch.tensor([0, 1, 1])), -7.279664)
    close(trees.log_prob(other), -4.477245)
    marginals = trees.marginals()
    close(marginals[0], [[0.363930, 0.600019], [0, 0], [0.028467, 0.003853], [0.001409, 0.002323]])
    close(marginals[1], [[0.007074, 0.004291], [0.089127, 0.658563], [0, 0], [0.149979, 0.090967]])


def test_labelled_spans() -> None:
    scores = torch.tensor(
        [
            [[f(i + 1, k, 3) + ((i + 2 * k + 3 * label) % 5 - 2) / 2 for label in range(2)] for k in range(4)]
            for i in range(4)
        ]
    ).double()
    trees = Labelled(ConstituencyCRF, scores)
    close(trees.log_partition(), 4.860762)
    close(trees.entropy(), 2.786807)
    assert round(trees.log_count().exp().item()) == 64
    close(trees.topk_scores(1), [3.5])
    marginals = trees.marginals()
    picked = torch.stack([marginals[0, 2], marginals[1, 3], marginals[0, 3]])
    close(picked, [[0.717910, 0.264104], [0.013149, 0.004837], [0.182426, 0.817574]])


def test_normalised_labels_leave_the_structures_as_they_are() -> None:
    labels = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(0)).double().log_softmax(-1)
    plain = DependencyCRF(ARCS, single_root=True)
    trees = Labelled(DependencyCRF, ARCS.unsqueeze(-1) + labels, single_root=True)
    torch.testing.assert_close(trees.log_partition(), plain.log_partition())
    torch.testing.assert_close(trees.marginals().sum(-1), plain.marginals())
    torch.testing.assert_close(trees.unlabelled().entropy(), plain.entropy())


def test_the_best_labels_are_not_those_of_the_best_sums() -> None:
    """Two labels of 1.0 add up to more than one of 1.5, which is the better label."""
    scores = torch.full((1, 2, 2), -torch.inf)
    scores[0, 0] = torch.tensor([1.0, 1.0])
    chain = Labelled(
        LinearChainCRF, torch.stack([scores[0, 0], torch.tensor([1.5, -torch.inf])])[None], transition=torch.zeros(2, 2)
    )
    tags, labels = chain.to_structure(chain.argmax())
    assert (tags.tolist(), labels.tolist()) == ([1], [0])
    assert int(chain.unlabelled().marginals().argmax()) == 0


@pytest.mark.parametrize("k", [1, 4, 30])
def test_the_best_labelled_structures_beyond_those_of_the_family(k: int) -> None:
    """More of them than there are structures, each with its labels sorted: the list of all says the same."""
    generator = torch.Generator().manual_seed(k)
    scores = torch.randn(3, 4, 3, generator=generator).double()
    scores[0, 2, 1] = scores[1, 0] = -torch.inf
    trees = Labelled(DependencyCRF, scores, single_root=True)
    plain = DependencyCRF(torch.zeros(3, 4).double(), single_root=True)
    totals = []
    for heads in plain.to_structure(plain.topk(7)).tolist():
        for labels in itertools.product(range(3), repeat=3):
            totals.append(
                sum(
                    scores[word, head, label].item()
                    for word, (head, label) in enumerate(zip(heads, labels, strict=True))
                )
            )
    best = torch.tensor(sorted(totals, reverse=True)[:k]).double()
    torch.testing.assert_close(trees.topk_scores(k), best)
    parts = trees.topk(k)
    assert len({tuple(row.flatten().tolist()) for row in parts}) == k
    torch.testing.assert_close((parts * scores.masked_fill(scores == -torch.inf, 0)).sum((1, 2, 3)), best)


def test_labels_that_are_all_forbidden_forbid_the_part_and_give_no_gradient() -> None:
    scores = LABELLED_ARCS.clone()
    scores[0, 2] = -torch.inf
    scores.requires_grad_()
    trees = Labelled(DependencyCRF, scores, single_root=True)
    (trees.entropy() + trees.log_partition()).backward()
    assert scores.grad is not None
    assert bool(scores.grad.isfinite().all())
    assert not bool(scores.grad[0, 2].any())
    assert round(trees.log_count().exp().item()) == 5 * 8
    assert trees.log_prob(torch.tensor([2, 0, 2]), torch.tensor([0, 0, 0])).item() == -torch.inf


def test_samples_of_a_sentence_do_not_depend_on_its_padding() -> None:
    scores = torch.randn(1, 6, 7, 3, generator=torch.Generator().manual_seed(1)).double()
    long = Labelled(DependencyCRF, scores, [4]).sample((50,), torch.Generator().manual_seed(2))
    short = Labelled(DependencyCRF, scores[:, :4, :5]).sample((50,), torch.Generator().manual_seed(2))
    assert torch.equal(long[:, :, :4, :5], short)


MASKED: dict[str, Callable[..., StructuredDistribution]] = {
    "chain": lambda scores, mask: LinearChainCRF(scores[..., :3, :], torch.zeros(4, 4).double(), mask=mask[..., :3, :]),
    "segments": lambda scores, mask: SemiMarkovCRF(
        scores[..., :3, :, None, None].expand(2, 3, 4, 2, 2), mask=mask[..., :3, :, None, None]
    ),
    "projective": lambda scores, mask: DependencyCRF(scores[..., :3, :], mask=mask[..., :3, :]),
    "spanning": lambda scores, mask: NonProjectiveDependencyCRF(scores[..., :3, :], mask=mask[..., :3, :]),
    "phrases": lambda scores, mask: ConstituencyCRF(scores, mask=mask),
    "labelled": lambda scores, mask: Labelled(ConstituencyCRF, scores[..., None].expand(2, 4, 4, 2), mask=mask),
}


@pytest.mark.parametrize("name", MASKED)
def test_a_mask_forbids_parts_whose_scores_are_not_read(name: str) -> None:
    generator = torch.Generator().manual_seed(3)
    scores = torch.randn(2, 4, 4, generator=generator).double()
    mask = torch.rand(4, 4, generator=generator) < 0.75
    mask[0] = mask[:, 0] = mask.diagonal(1)[:] = True
    spoilt = scores.masked_fill(~mask, torch.nan).requires_grad_()
    everything = torch.ones(4, 4, dtype=torch.bool)
    expected = MASKED[name](scores.masked_fill(~mask, -torch.inf), everything)
    masked = MASKED[name](spoilt, mask)
    assert bool(expected.log_partition().isfinite().all())
    for quantity in ("log_partition", "marginals", "entropy", "log_count", "argmax"):
        torch.testing.assert_close(getattr(masked, quantity)(), getattr(expected, quantity)())
    torch.testing.assert_close(masked[1].entropy(), expected.entropy()[1])
    torch.testing.assert_close(masked.expand((3, 2)).entropy()[2], expected.entropy())
    (gradient,) = torch.autograd.grad(masked.entropy().sum() + masked.log_partition().sum(), spoilt)
    assert bool(gradient.isfinite().all())
    assert not bool(gradient[:, ~mask].any())
    # Other scores keep the mask.
    again = masked.with_scores(torch.zeros_like(masked.scores))
    torch.testing.assert_close(again.log_partition(), expected.log_count())


def test_a_mask_of_golden_trees() -> None:
    mask = torch.ones(3, 4, dtype=torch.bool)
    mask[0, 2] = False
    trees = DependencyCRF(ARCS, single_root=True, mask=mask)
    assert round(trees.log_count().exp().item()) == 5
    close(trees.log_partition(), 3.571708)


def test_a_mask_that_forbids_everything() -> None:
    trees = DependencyCRF(ARCS, mask=torch.zeros(3, 4, dtype=torch.bool))
    assert trees.log_partition().item() == -torch.inf
    assert not bool(trees.marginals().any())
    assert not bool(trees.sample((2,)).any())


def test_other_scores() -> None:
    generator = torch.Generator().manual_seed(4)
    chain = LinearChainCRF(torch.randn(2, 5, 3, generator=generator), torch.randn(3, 3, generator=generator), [5, 3])
    unary = torch.randn(7, 2, 5, 3, generator=generator)
    many = chain.with_scores(unary)
    assert many.batch_shape == (7, 2)
    for row in range(7):
        twin = LinearChainCRF(unary[row], chain.transition, [5, 3])
        torch.testing.assert_close(many[row].marginals(), twin.marginals())
    torch.testing.assert_close(chain.with_scores(chain.scores).entropy(), chain.entropy())


def test_minimum_bayes_risk_has_the_highest_expected_number_of_correct_arcs() -> None:
    trees = NonProjectiveDependencyCRF(ARCS, single_root=True)
    parts = trees.topk(9)
    expected = (parts * trees.marginals()).sum((1, 2))
    decoded = trees.with_scores(trees.marginals()).argmax()
    assert torch.equal(decoded, parts[expected.argmax()])


def test_a_hidden_markov_model_is_a_chain() -> None:
    start, change = torch.tensor([0.6, 0.4]).double(), torch.tensor([[0.7, 0.3], [0.4, 0.6]]).double()
    emission = torch.tensor([[0.5, 0.4, 0.1], [0.1, 0.3, 0.6]]).double()
    unary = emission.log().T[torch.tensor([0, 2, 1])]
    unary = torch.cat([unary[:1] + start.log(), unary[1:]])
    close(LinearChainCRF(unary, change.log()).log_partition(), -3.454029)


def test_undirected_trees_are_rooted_anywhere() -> None:
    scores = torch.zeros(4, 4).double()
    for i, j in itertools.combinations(range(4), 2):
        scores[i, j] = scores[j, i] = f(i + 1, j + 1, 3)
    trees = NonProjectiveDependencyCRF(scores[1:])
    close(trees.log_partition(), 3.766062)
    arcs = torch.cat([torch.zeros(1, 4).double(), trees.marginals()])
    edges = torch.stack([(arcs + arcs.T)[pair] for pair in itertools.combinations(range(4), 2)])
    close(edges, [0.843792, 0.763974, 0.232676, 0.126565, 0.778229, 0.254764])


FAMILIES = (DependencyCRF, NonProjectiveDependencyCRF)

REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: Labelled(DependencyCRF, torch.zeros(3, 4)), r"without the last axis .*: scores of shape \(3,\): expected"),
    (
        lambda: Labelled(DependencyCRF, torch.zeros(3, 4, 0)),
        r"\(3, 4, 0\): expected at least one label",
    ),
    (lambda: Labelled(DependencyCRF, torch.zeros(3, 4, 2), [4]), "Labelled, without .*: lengths lie between 4 and 4"),
    (lambda: Labelled(DependencyCRF, torch.full((3, 4, 2), torch.nan)), "18 of 24 scores are nan"),
    (lambda: trees().log_prob(torch.tensor([0, 1, 1]), torch.tensor([0, 2, 1])), "row 1 has label 2: expected 0 to 1"),
    (lambda: trees().log_prob(torch.tensor([0, 1, 1]), torch.tensor([0, -1, 1])), "row 1 has label -1"),
    (
        lambda: trees().expand((2,)).log_prob(torch.tensor([0, 1, 1]), torch.tensor([[0, 0, 1], [0, 0, 5]])),
        r"item \(1,\), row 2 has label 5",
    ),
    (
        lambda: trees().log_prob(torch.tensor([0, 1, 1]), torch.zeros(2).long()),
        r"labels of shape \(2,\): expected \(3,\)",
    ),
    (
        lambda: trees().log_prob(torch.tensor([0, 1, 1]), torch.zeros(3)),
        "labels of type torch.float32: expected integers",
    ),
    (lambda: trees().log_prob(torch.tensor([-1, -1, -1]), torch.zeros(3).long()), "not a structure of DependencyCRF"),
    (lambda: trees().log_prob(trees().argmax(), torch.zeros(3).long()), "labels beside parts"),
    (lambda: trees().log_prob(torch.zeros(3, 4, 2)), "1 of 1 items are not a structure of Labelled"),
    (lambda: trees().log_prob(2 * trees().argmax()), "its parts are not all 0 or 1"),
    (lambda: trees().log_prob(trees().argmax().sum(-1, keepdim=True).expand(3, 4, 2)), r"has 2 labels"),
    (lambda: trees().from_structure(torch.tensor([0, 1, 1])), r"expected from_structure\(structure, labels\)"),
    (
        lambda: trees().cross_entropy(Labelled(NonProjectiveDependencyCRF, LABELLED_ARCS, single_root=True)),
        "cannot be compared with Labelled.*: expected the same options",
    ),
    (
        lambda: Labelled(WarpingCRF, torch.zeros(2, 3, 2)).log_prob(torch.zeros(2, 3, 2)),
        "with 2 queries and 3 keys: expected a path",
    ),
    (lambda: DependencyCRF(ARCS, mask=torch.ones(3, 4)), "mask of type torch.float32: expected a bool tensor"),
    (lambda: DependencyCRF(ARCS, mask=torch.ones(4, 4) > 0), r"mask of shape \(4, 4\) does not fit .* \(3, 4\)"),
    (
        lambda: DependencyCRF(ARCS).with_scores(torch.zeros(3, 3)),
        r"with_scores: scores of shape \(3, 3\): expected \(\.\.\., 3, 4\)",
    ),
    (lambda: DependencyCRF(ARCS).with_scores(torch.zeros(3, 4).long()), "with_scores: scores of type torch.int64"),
    (lambda: DependencyCRF(ARCS).with_scores(torch.full((3, 4), torch.nan)), "DependencyCRF: 9 of 12 scores are nan"),
    (
        lambda: DependencyCRF(ARCS.expand(2, 3, 4)).with_scores(torch.zeros(5, 3, 4)),
        r"do not fit the batch shape \(2,\)",
    ),
]


def trees() -> Labelled:
    return Labelled(DependencyCRF, LABELLED_ARCS, single_root=True)


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=range(len(REFUSED)))
def test_what_is_refused(call: Callable[[], object], message: str) -> None:
    with ExitStack() as patches:
        # Without the tests' own checks of types, which would refuse some of them first.
        for kind in {
            parent for family in (*FAMILIES, Labelled) for parent in family.__mro__ if "structattn" in parent.__module__
        }:
            for name in {"__init__", "with_scores", "log_prob", "from_structure"} & vars(kind).keys():
                patches.enter_context(patch.object(kind, name, inspect.unwrap(vars(kind)[name])))
        with pytest.raises(ValueError, match=message):
            call()


def test_small_entropies_of_labels_keep_their_digits() -> None:
    """One tree, whose labels are almost certain: the entropy of a softmax, of numbers that do not cancel."""
    scores = torch.tensor([[[0.0, -40.0], [-torch.inf, -torch.inf]]]).double()
    entropy = Labelled(DependencyCRF, scores).entropy().item()
    rare = math.exp(-40.0)
    assert entropy == pytest.approx(math.log1p(rare) + 40 * rare / (1 + rare), rel=1e-12)
