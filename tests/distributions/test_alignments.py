"""Alignments and warpings whose items have numbers of queries and of keys of their own."""

import itertools

import pytest
import torch
from torch.distributions import kl_divergence

from structattn.distributions import AlignmentCRF, Labelled, StructuredDistribution, WarpingCRF
from structures_by_hand import all_alignments, all_warpings, one_hot_rows

SIZES = list(itertools.product(range(4), range(4)))
LENGTHS, KEY_LENGTHS = torch.tensor(SIZES).T
SCORES = 2 * torch.randn(len(SIZES), 3, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
BY_HAND = {AlignmentCRF: all_alignments, WarpingCRF: all_warpings}
both = pytest.mark.parametrize("kind", BY_HAND)


@both
def test_padding_of_queries_and_of_keys_is_not_read(kind: type[StructuredDistribution]) -> None:
    real = (torch.arange(3)[:, None] < LENGTHS[:, None, None]) & (torch.arange(3) < KEY_LENGTHS[:, None, None])
    scores = SCORES.masked_fill(~real, torch.nan).requires_grad_()
    together = kind(scores, LENGTHS, KEY_LENGTHS)
    torch.testing.assert_close(
        together.log_partition().isfinite(),
        (kind is AlignmentCRF) | real.any(-1).any(-1) | ((LENGTHS == 0) & (KEY_LENGTHS == 0)),
    )
    (gradient,) = torch.autograd.grad(together.entropy().sum() + together.log_partition()[1:].exp().sum(), scores)
    assert gradient.isfinite().all()
    assert not gradient[~real].any()
    for item, (queries, keys) in enumerate(SIZES):
        listed = one_hot_rows((3, 3), list(BY_HAND[kind](queries, keys)))
        values = (listed * SCORES[item]).sum((1, 2))
        alone = kind(SCORES[item, :queries, :keys])
        for ours in (together[item], alone):
            torch.testing.assert_close(ours.log_partition(), values.logsumexp(0))
            marginals = (values.softmax(0)[:, None, None] * listed).sum(0)[: ours.event_shape[0], : ours.event_shape[1]]
            torch.testing.assert_close(ours.marginals(), marginals)
        samples = together[item].sample((20,), torch.Generator().manual_seed(1))
        padded = torch.nn.functional.pad(
            alone.sample((20,), torch.Generator().manual_seed(1)), (0, 3 - keys, 0, 3 - queries)
        )
        assert torch.equal(samples, padded)
        if len(listed):
            assert together[item].log_prob(samples).isfinite().all()


@both
def test_numbers_of_keys_have_the_batch_axes(kind: type[StructuredDistribution]) -> None:
    ours = kind(SCORES, LENGTHS, KEY_LENGTHS)
    wide = ours.expand((2, len(SIZES)))
    assert wide.key_lengths.shape == (2, len(SIZES))
    torch.testing.assert_close(wide.log_partition()[1], ours.log_partition())
    nested = kind(SCORES.view(4, 4, 3, 3), LENGTHS.view(4, 4), KEY_LENGTHS.view(4, 4))
    torch.testing.assert_close(nested.marginals().flatten(0, 1), ours.marginals())
    torch.testing.assert_close(kl_divergence(wide, ours), torch.zeros(2, len(SIZES), dtype=torch.float64))
    assert wide.support.check(ours.argmax())[:, ours.log_partition().isfinite()].all()


def test_what_is_part_of_a_structure_is_not_always_one() -> None:
    """A matching less a match is one; a path less a cell is one only where a diagonal step skips it."""
    alignment, warping = AlignmentCRF(SCORES[-1]), WarpingCRF(SCORES[-1])
    path = torch.tensor([[1, 1, 0], [0, 1, 0], [0, 1, 1]]).double()
    assert warping.support.check(path)
    for cell, is_path in (((0, 1), True), ((1, 1), False), ((2, 1), True)):
        part = path.clone()
        part[cell] = 0
        assert warping.support.check(part) == is_path
    assert not warping.support.check(torch.zeros(3, 3))
    assert not alignment.support.check(path)
    for matches in ([[0, 1], [1, 2]], [[0, 1]], [[-1, -1]]):
        assert alignment.support.check(alignment.from_structure(torch.tensor(matches)))


@both
def test_labels_of_pairs(kind: type[StructuredDistribution]) -> None:
    ours = Labelled(kind, torch.zeros(3, 2, 3, 4, dtype=torch.float64), [2, 2, 1], key_lengths=[3, 2, 3])
    for item, (queries, keys) in enumerate([(2, 3), (2, 2), (1, 3)]):
        count = sum(4 ** len(pairs) for pairs in BY_HAND[kind](queries, keys))
        torch.testing.assert_close(ours.log_count()[item].exp(), torch.tensor(float(count)).double())
    samples = ours.sample((5,), torch.Generator().manual_seed(0))
    assert (ours.log_prob(samples) > -torch.inf).all()
    assert (samples.sum(-1) <= 1).all()


def test_the_entropy_of_parts_that_may_be_left_out() -> None:
    """A single match is a coin, whose entropy is that of its less probable side; near certainty it keeps its digits."""
    for score in (0.5, 3.0, 30.0):
        coin = torch.distributions.Bernoulli(logits=torch.tensor(score, dtype=torch.float64))
        entropy = AlignmentCRF(torch.tensor([[score]], dtype=torch.float64)).entropy()
        torch.testing.assert_close(entropy, coin.entropy(), atol=1e-14, rtol=1e-6)
