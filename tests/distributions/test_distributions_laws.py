"""Laws that every structured distribution obeys, against the brute-force twin; a new family joins by one entry."""

import dataclasses
import itertools
import math

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck
from torch.distributions import kl_divergence

from structattn.distributions import StructuredDistribution
from structures_by_hand import FAMILIES, Family

every_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)


def build(
    family: Family, potentials: list[Tensor], lengths: Tensor | None = None, **options: bool
) -> StructuredDistribution:
    return family.build(*potentials, lengths, **options)


def close(a: Tensor, b: Tensor, tolerance: float = 1e-9) -> None:
    torch.testing.assert_close(a, b, atol=tolerance, rtol=0)


@every_family
@pytest.mark.parametrize("forbidden", [0.0, 0.15, 0.5])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 5])
def test_agrees_with_the_list_of_all_structures(family: Family, n: int, forbidden: float) -> None:
    potentials = family.random(n, 50 if n < 5 else 8, seed=n, forbidden=forbidden)
    ours, twin = build(family, potentials), family.by_hand(potentials, n, n)
    shape = ours.batch_shape + ours.event_shape
    close(ours.log_partition(), twin.log_partition())
    close(ours.marginals(), twin.marginals()[:, : ours.event_shape.numel()].reshape(shape))
    close(ours.entropy(), twin.entropy())
    close(ours.log_count(), twin.log_count())
    close(ours.topk_scores(5), twin.topk_scores(5))
    feasible = twin.log_partition() > -torch.inf
    best = ours.log_prob(ours.argmax()[None])[0] if feasible.all() else None
    if best is not None:
        close(best, twin.topk_scores(1)[0] - twin.log_partition())
    assert (ours.argmax()[~feasible] == 0).all()
    assert (ours.sample((2,))[:, ~feasible] == 0).all()


@every_family
def test_the_k_best_are_different_structures_with_their_scores(family: Family) -> None:
    potentials = family.random(4, 10, seed=3)
    ours = build(family, potentials)
    parts, scores = ours.topk(6), ours.topk_scores(6)
    real = scores > -torch.inf
    for rank in range(6):
        if real[rank].all():
            close(ours.log_prob(parts[rank]) + ours.log_partition(), scores[rank])
    flat = parts.flatten(2)
    same = (flat[:, None] == flat[None]).all(-1) & real[:, None] & real[None]
    assert (same.sum((0, 1)) == real.sum(0)).all()
    close(parts[0], ours.argmax())
    close(parts[0], ours.mode)


@every_family
def test_divergence_and_cross_entropy(family: Family) -> None:
    potentials, others = (family.random(4, 20, seed=seed, forbidden=0.1) for seed in (1, 2))
    p, q = build(family, potentials), build(family, others)
    twin_p, twin_q = family.by_hand(potentials, 4, 4), family.by_hand(others, 4, 4)
    close(p.cross_entropy(q), twin_p.cross_entropy(twin_q))
    close(kl_divergence(p, q), twin_p.cross_entropy(twin_q) - twin_p.entropy())
    close(kl_divergence(p, p), torch.zeros(20, dtype=torch.float64))


@every_family
@pytest.mark.parametrize("what", ["log_partition", "marginals", "entropy"])
def test_exact_derivatives_of_second_order(family: Family, what: str) -> None:
    potentials = [p.requires_grad_() for p in family.random(3, 2, seed=5, spread=1.0, forbidden=0.1)]
    lengths = torch.tensor([3, 2])

    def function(*scores: Tensor) -> Tensor:
        return getattr(build(family, list(scores), lengths), what)()

    assert gradcheck(function, potentials, fast_mode=True)
    assert gradgradcheck(function, potentials, fast_mode=True)


@every_family
def test_exact_derivatives_of_log_prob_and_divergence(family: Family) -> None:
    potentials = [p.requires_grad_() for p in family.random(3, 2, seed=6, spread=1.0)]
    others = family.random(3, 2, seed=7, spread=1.0)
    parts = build(family, others).argmax()

    def function(*scores: Tensor) -> tuple[Tensor, Tensor]:
        ours = build(family, list(scores))
        return ours.log_prob(parts), kl_divergence(ours, build(family, others))

    assert gradcheck(function, potentials, fast_mode=True)
    assert gradgradcheck(function, potentials, fast_mode=True)


@every_family
def test_marginals_are_the_gradient_of_the_log_partition_and_the_fourth_derivative_is_refused(family: Family) -> None:
    potentials = [p.requires_grad_() for p in family.random(4, 3, seed=8)]
    ours = build(family, potentials)
    gradient = torch.autograd.grad(ours.log_partition().sum(), potentials, create_graph=True)
    close(gradient[0].reshape(ours.marginals().shape), ours.marginals())
    grad = gradient[0]
    for _ in range(2):
        (grad,) = torch.autograd.grad(grad.square().sum(), potentials[:1], create_graph=True)
    with pytest.raises(NotImplementedError, match="fourth derivative"):
        grad.square().sum().backward()


@every_family
def test_padding_is_not_read_and_a_batch_is_its_sentences(family: Family) -> None:
    n, lengths = 5, torch.tensor([5, 0, 3, 1, 4, 2])
    potentials = family.random(n, len(lengths), seed=9)
    whole = build(family, potentials, lengths)
    garbage = [p.clone() for p in potentials]
    # What the distribution gives no probability is padding, or no part at all: nothing in it may matter.
    unused = whole.marginals() == 0
    garbage[0][unused.reshape(garbage[0].shape)] = torch.nan
    spoilt = build(family, garbage, lengths)
    for name in ("log_partition", "marginals", "entropy", "argmax", "log_count"):
        close(getattr(spoilt, name)(), getattr(whole, name)())
    for item, length in enumerate(lengths.tolist()):
        alone = build(family, [p if p.dim() == 2 else p[item] for p in potentials], torch.tensor(length))
        close(alone.log_partition(), whole.log_partition()[item])
        close(alone.marginals(), whole.marginals()[item])
        close(alone.topk(2), whole.topk(2)[:, item])
        own = [p if p.dim() == 2 else p[item] for p in potentials]
        close(family.by_hand(own, length, n).log_partition(), whole.log_partition()[item])


@every_family
def test_any_number_of_batch_axes_and_expand(family: Family) -> None:
    flat = family.random(3, 6, seed=10)
    one = build(family, flat)
    two = build(family, [p if p.dim() == 2 else p.unflatten(0, (2, 3)) for p in flat], torch.full((2, 3), 3))
    assert two.batch_shape == (2, 3)
    close(two.marginals().flatten(0, 1), one.marginals())
    close(two.topk_scores(2).flatten(1), one.topk_scores(2))
    assert two.sample((4, 5)).shape == (4, 5, 2, 3, *two.event_shape)
    samples = two.sample((4,))
    close(two.log_prob(samples).flatten(1), one.log_prob(samples.flatten(1, 2)))
    wide = one.expand((4, 6))
    assert wide.batch_shape == (4, 6)
    assert wide.lengths.shape == (4, 6)
    close(wide.entropy()[2], one.entropy())
    assert one.batch_shape == (6,)


@every_family
def test_structures_and_parts_translate_into_each_other(family: Family) -> None:
    lengths = torch.tensor([5, 3, 1, 0])
    ours = build(family, family.random(5, 4, seed=11), lengths)
    parts = ours.sample((7,), generator=torch.Generator().manual_seed(0))
    close(ours.from_structure(ours.to_structure(parts)), parts)
    assert torch.isfinite(ours.log_prob(parts)).all()
    assert ((parts == 0) | (parts == 1)).all()


@every_family
@pytest.mark.parametrize("forbidden", [0.0, 0.3])
def test_samples_are_drawn_with_their_probabilities(family: Family, forbidden: float) -> None:
    n, draws = 3, 20_000
    potentials = family.random(n, 1, seed=37, spread=1.0, forbidden=forbidden)
    ours, twin = build(family, potentials), family.by_hand(potentials, n, n)
    samples = ours.sample((draws,), generator=torch.Generator().manual_seed(1)).flatten(2)[:, 0]
    shown = twin.used[:, : samples.shape[-1]]
    counts = (samples @ shown.T == shown.sum(-1)).sum(0).double()
    assert counts.sum() == draws
    expected = twin.probabilities()[0] * draws
    assert (counts[expected == 0] == 0).all()
    common = expected > 5
    chi_square = ((counts - expected).square() / expected)[common].sum()
    degrees = int(common.sum()) - 1
    assert chi_square < degrees + 4 * math.sqrt(2 * degrees) + 4
    mean, marginals = samples.mean(0), ours.marginals().flatten()
    assert ((mean - marginals).abs() <= 4.5 * (marginals * (1 - marginals) / draws).sqrt() + 1e-12).all()
    again = ours.sample((draws,), generator=torch.Generator().manual_seed(1)).flatten(2)[:, 0]
    assert torch.equal(samples, again)


@every_family
@pytest.mark.parametrize("n", [1, 2, 7, 20, 50])
def test_counts_are_the_closed_forms(family: Family, n: int) -> None:
    shapes = family.shapes(n)
    zeros = [torch.zeros(shape, dtype=torch.float64) for shape in shapes]
    ours = build(family, zeros)
    expected = torch.tensor(math.log(family.count(n)), dtype=torch.float64)
    close(ours.log_count(), expected, 1e-10 * max(1.0, expected.item()))
    close(ours.entropy(), expected, 1e-9 * max(1.0, expected.item()))


def test_a_count_that_takes_too_long_fails_with_a_message() -> None:
    endless = dataclasses.replace(FAMILIES[0], counts=lambda n: sum(0 for _ in itertools.count()))
    with pytest.raises(pytest.fail.Exception, match=r"'chain' took more than 0\.1 seconds for 50 words: expected"):
        endless.count(50, seconds=0.1)
