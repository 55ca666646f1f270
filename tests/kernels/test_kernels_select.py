"""Compiled selections against their plain-torch twins: the same best structures in the same order, the same samples."""

import math

import pytest
import torch
from torch import Tensor

from structattn.distributions import LinearChainCRF, StructuredDistribution
from structattn.kernels import native, plain_torch
from structattn.testing import Family
from structures_by_hand import FAMILIES, MAY_BE_EMPTY

pytestmark = pytest.mark.skipif(not native.status().active, reason="nothing is compiled here")
every_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)


def selected(ours: StructuredDistribution, *, best: int = 6, samples: int = 9) -> dict[str, Tensor]:
    return {
        "argmax": ours.argmax(),
        "topk": ours.topk(best),
        "topk_scores": ours.topk_scores(best),
        "sample": ours.sample(samples, generator=torch.Generator().manual_seed(5)),
    }


def compare(ours: StructuredDistribution) -> dict[str, Tensor]:
    found = selected(ours)
    with plain_torch():
        twin = selected(ours)
    tolerance = 1e-9 if ours.scores.dtype == torch.float64 else 1e-5
    for name, value in found.items():
        if name == "topk_scores":
            torch.testing.assert_close(value, twin[name], atol=tolerance, rtol=tolerance)
        else:
            assert torch.equal(value, twin[name]), name
    return found


@every_family
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("forbidden", [0.0, 0.2, 0.8])
def test_programs_agree_for_all_lengths_and_forbidden_parts(
    family: Family, forbidden: float, dtype: torch.dtype
) -> None:
    n = 6
    potentials = [own.to(dtype) for own in family.random_scores(n, 2 * n + 2, seed=1, forbidden=forbidden)]
    found = compare(family.build(*potentials, torch.arange(2 * n + 2) % (n + 1)))
    impossible = found["topk_scores"][0] == -torch.inf
    assert impossible.any() or forbidden < 0.8 or family.name in MAY_BE_EMPTY
    assert not impossible.any() or forbidden > 0
    assert (found["sample"][:, impossible] == 0).all()


@every_family
@pytest.mark.parametrize("spread", [1e-3, 20.0, 3000.0])
def test_programs_agree_at_any_spread(family: Family, spread: float) -> None:
    # Doubles are proved to be enough for some of these sentences only; the others get exponents of their own.
    potentials = family.random_scores(17, 5, seed=2, spread=spread)
    compare(family.build(*potentials, [17, 11, 17, 0, 16]))


@every_family
def test_all_structures_in_order_and_each_once(family: Family) -> None:
    n, extra = 4, 3
    potentials = family.random_scores(n, 3, seed=3)
    ours, count = family.build(*potentials), family.count(n)
    parts, scores = ours.topk(count + extra), ours.topk_scores(count + extra)
    torch.testing.assert_close(scores, family.enumerate(potentials, n, n).topk_scores(count + extra))
    assert (scores[count:] == -torch.inf).all()
    assert (parts[count:] == 0).all()
    assert (scores[: count - 1] >= scores[1:count]).all()
    for item in range(3):
        assert len(parts[:count, item].flatten(1).unique(dim=0)) == count
    torch.testing.assert_close(
        ours.log_prob(parts[:count]) + ours.log_partition(), scores[:count], atol=1e-9, rtol=1e-9
    )


@every_family
def test_topk_of_equal_structures_has_each_once(family: Family) -> None:
    n = 4
    ours = family.build(*(torch.zeros_like(own) for own in family.random_scores(n, 2)))
    parts, scores = ours.topk(family.count(n)), ours.topk_scores(family.count(n))
    assert (scores == 0).all()
    assert len(parts[:, 0].flatten(1).unique(dim=0)) == family.count(n)
    assert torch.equal(parts[0], ours.argmax())


@every_family
def test_many_best_structures_of_long_sentences_are_in_order_and_different(family: Family) -> None:
    ours = family.build(*family.random_scores(23, 2, seed=4), [23, 19])
    parts, scores = ours.topk(50), ours.topk_scores(50)
    assert (scores[:-1] >= scores[1:]).all()
    assert len(parts[:, 1].flatten(1).unique(dim=0)) == 50
    torch.testing.assert_close(ours.log_prob(parts) + ours.log_partition(), scores, atol=1e-9, rtol=1e-9)
    # Nothing that is drawn is better than what is found.
    drawn = ours.log_prob(ours.sample(200, generator=torch.Generator().manual_seed(0))) + ours.log_partition()
    assert (drawn <= scores[0] + 1e-9).all()


@every_family
def test_threads_change_nothing(family: Family) -> None:
    # Long enough to wake a second thread.
    ours = family.build(*family.random_scores(31, 13, seed=5), [31, 1, 0, 7, 30, 29, 12, 3, 3, 18, 2, 30, 5])
    threads, found = torch.get_num_threads(), []
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            found.append(selected(ours, samples=40))
    finally:
        torch.set_num_threads(threads)
    for name, value in found[0].items():
        assert torch.equal(value, found[1][name]), name


@every_family
@pytest.mark.parametrize("value", [math.nan, math.inf, 1e308, -1e308])
def test_undefined_scores_without_checks_do_no_harm(family: Family, value: float) -> None:
    potentials = family.random_scores(5, 40, seed=6)
    for own in potentials:
        own[torch.rand(own.shape, generator=torch.Generator().manual_seed(7)) < 0.3] = value
    ours = family.build(*potentials, [5, 4, 3, 2, 1] * 8, validate_args=False)
    for found in selected(ours).values():
        assert found.shape[-len(ours.event_shape) :] == ours.event_shape or found.shape[-1] == 40
    assert ((ours.topk(6) == 0) | (ours.topk(6) == 1)).all()


def test_a_sentence_may_be_longer_than_the_call_stack_is_deep() -> None:
    n = 50_000
    unary = torch.zeros(n, 2, dtype=torch.float64)
    unary[:, 1] = -1 - torch.arange(n, dtype=torch.float64) / n
    ours = LinearChainCRF(unary, torch.zeros(2, 2, dtype=torch.float64))
    tags = ours.to_structure(ours.topk(3))
    assert tags.sum(-1).tolist() == [0, 1, 1]
    assert tags[1:, :2].tolist() == [[1, 0], [0, 1]]
