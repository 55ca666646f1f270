"""Parts of structured attention by loops over all structures: boundaries, counted twice, own values, regularisers."""

import itertools

import pytest
import torch
from torch import Tensor, nn

from structattn.distributions import DependencyCRF, IndependentChoice, IndependentSelection
from structattn.layers import (
    DependencyScorer,
    HeadReader,
    LearnedBoundary,
    MeanBoundary,
    SegmentationScorer,
    StructuredAttention,
    TwoStateChain,
    binary_potentials,
    double_counted_potentials,
    entropy_term,
    squared_norm,
)


@pytest.mark.parametrize("boundary", [MeanBoundary(), LearnedBoundary()])
@torch.no_grad()
def test_boundaries_score_the_first_and_the_last_real_word(boundary: nn.Module) -> None:
    torch.manual_seed(0)
    chain = TwoStateChain(boundary)
    for parameter in chain.parameters():
        nn.init.normal_(parameter)
    scores, lengths = torch.randn(4, 1, 3), [3, 2, 1, 0]
    transition = chain.transition
    marginals = chain(scores, torch.tensor(lengths), temperature=0.5).marginals()
    start = transition.mean(0) if isinstance(boundary, MeanBoundary) else boundary.start
    stop = transition.mean(1) if isinstance(boundary, MeanBoundary) else boundary.stop
    for row, length in enumerate(lengths):
        selections = list(itertools.product(range(2), repeat=length))
        values = torch.tensor(
            [
                sum(scores[row, 0, i] * z for i, z in enumerate(zs))
                + sum(transition[a, b] for a, b in itertools.pairwise(zs))
                + (start[zs[0]] + stop[zs[-1]] if zs else 0.0)
                for zs in selections
            ]
        )
        expected = torch.zeros(3)
        for probability, zs in zip((values / 0.5).softmax(0), selections, strict=True):
            expected[:length] += probability * torch.tensor(zs)
        torch.testing.assert_close(marginals[row, 0], expected)


def test_boundaries_learn() -> None:
    scorer = SegmentationScorer(3, selection=TwoStateChain(LearnedBoundary()))
    states, mask = torch.randn(2, 4, 3), torch.tensor([[True] * 4, [True, True, False, False]])
    (scorer(states, mask, states).marginals() * torch.randn(4)).sum().backward()
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in scorer.parameters())


def test_counted_twice_is_once_more_for_the_first_and_the_last_fact() -> None:
    keys, queries = torch.randn(2, 3, 4, 5), torch.randn(2, 3, 5)
    once, edges = binary_potentials(keys, queries)
    twice, same_edges = double_counted_potentials(keys, queries)
    own = (keys @ queries.unsqueeze(-1)).squeeze(-1)
    torch.testing.assert_close(twice[:, 0], once[:, 0] + own[:, 0])
    torch.testing.assert_close(twice[:, 1], once[:, 1])
    torch.testing.assert_close(twice[:, 2], once[:, 2] + own[:, 2])
    torch.testing.assert_close(same_edges, edges)


def test_heads_are_scored_by_states_and_looked_at_as_values() -> None:
    attention = StructuredAttention(DependencyScorer(4), reader=HeadReader(4, with_children=True, value_dim=2))
    states, values = torch.randn(2, 3, 4), torch.randn(2, 3, 2)
    mask = torch.tensor([[True, True, True], [True, False, False]])
    output, weights = attention(states, mask, values=values, need_weights=True)
    parents = weights.squeeze(1)
    by_root = (1 - parents.sum(-1, keepdim=True)) * mask.unsqueeze(-1) * attention.reader.root_value
    torch.testing.assert_close(output, torch.cat([parents @ values + by_root, parents.mT @ values], -1))
    assert attention.reader.output_dim == 4 == output.shape[-1]
    with pytest.raises(ValueError, match="expects values of width 2, got 4"):
        attention(states, mask)
    with pytest.raises(ValueError, match="expects values of width 4, got 2"):
        StructuredAttention(DependencyScorer(4))(states, mask, values=values)


def test_the_gradient_of_the_squared_norm_is_the_strength() -> None:
    chain = TwoStateChain()
    nn.init.normal_(chain.transition)
    squared_norm(chain.transition).backward()
    torch.testing.assert_close(chain.transition.grad, 0.005 * chain.transition.detach())


def by_hand(p: Tensor) -> Tensor:
    return torch.special.entr(p).sum(-1)


def test_entropies_of_choices_coins_and_structures() -> None:
    scores, allowed = torch.randn(5, 4), torch.tensor([True, True, False, True])
    allowed = torch.stack([allowed, ~allowed, allowed & False, ~(allowed & False), allowed])
    choice, coins = IndependentChoice(scores, allowed), IndependentSelection(scores, allowed)
    torch.testing.assert_close(choice.entropy(), by_hand(choice.marginals()))
    p = coins.marginals()
    torch.testing.assert_close(coins.entropy(), (torch.special.entr(p) + torch.special.entr(1 - p)).sum(-1))
    chain = TwoStateChain()(scores.unsqueeze(1), torch.full((5,), 4), temperature=1.0)
    open_coins = IndependentSelection(scores, torch.ones_like(allowed))
    torch.testing.assert_close(chain.entropy().squeeze(1), open_coins.entropy())
    learnt = torch.randn(2, 3, 4, requires_grad=True)
    entropy_term(DependencyCRF(learnt), 0.5).backward()
    assert learnt.grad is not None
    assert learnt.grad.any()
