"""Parts of structured attention by loops over all structures: chains of selections, values of their own, entropies."""

import itertools

import pytest
import torch
from torch import Tensor, nn

from structattn.distributions import IndependentChoice, IndependentSelection
from structattn.layers import (
    DependencyScorer,
    HeadReader,
    SegmentationScorer,
    StructuredAttention,
    TwoStateChain,
)


@torch.no_grad()
def test_a_chain_selects_as_the_enumeration_of_its_selections_does() -> None:
    torch.manual_seed(0)
    chain = TwoStateChain()
    nn.init.normal_(chain.transition)
    scores, lengths = torch.randn(4, 1, 3), [3, 2, 1, 0]
    marginals = chain(scores, torch.tensor(lengths), temperature=0.5).marginals()
    for row, length in enumerate(lengths):
        selections = list(itertools.product(range(2), repeat=length))
        values = torch.tensor(
            [
                sum(scores[row, 0, i] * z for i, z in enumerate(zs))
                + sum(chain.transition[a, b] for a, b in itertools.pairwise(zs))
                for zs in selections
            ]
        )
        expected = torch.zeros(3)
        for probability, zs in zip((values / 0.5).softmax(0), selections, strict=True):
            expected[:length] += probability * torch.tensor(zs)
        torch.testing.assert_close(marginals[row, 0], expected)


def test_chains_learn() -> None:
    scorer = SegmentationScorer(3, selection=TwoStateChain())
    states, mask = torch.randn(2, 4, 3), torch.tensor([[True] * 4, [True, True, False, False]])
    (scorer(states, mask, states).marginals() * torch.randn(4)).sum().backward()
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in scorer.parameters())


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
