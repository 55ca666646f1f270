"""RelationHeads: the hand-made numbers of HYDRA's equations, brute-force twins of every loss, the linear-time form."""

import itertools
import math
from typing import get_args

import pytest
import torch
from torch import Tensor

import structattn as sa
from structattn.backbones import RelationHeads, relation_loss
from structattn.backbones.hydra_config import Objective
from structattn.backbones.relation_heads import relation_attention
from structattn.data import word_relation

HEADS = [2, 6, 5, 5, 2, 0, 8, 6]


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def arcs(heads: list[int]) -> Tensor:
    sentence = sa.Sentence(["w"] * len(heads), dependency=sa.DependencyTree(heads))
    return word_relation("arc", sa.collate([sentence], sa.Vocabulary([]))) != 0


def a_case(dtype: torch.dtype = torch.float32) -> tuple[RelationHeads, Tensor, Tensor, Tensor]:
    """Heads, states, a relation for each head, and a mask with padding and an excluded node in the middle."""
    draw = generator()
    heads = RelationHeads(6, 3, 4).to(dtype)
    for parameter in heads.parameters():
        torch.nn.init.normal_(parameter, generator=draw)
    states = torch.randn(3, 5, 6, generator=draw, dtype=dtype)
    relation = (torch.rand(3, 3, 5, 5, generator=draw) < 0.3).to(dtype)
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 0, 1, 1, 0], [1, 1, 0, 0, 0]], dtype=torch.bool)
    return heads, states, relation, mask


def test_counts_of_bert_base():
    assert sum(parameter.numel() for parameter in RelationHeads(768, 12).parameters()) == 1_181_184


def test_identity_states_reach_any_relation_exactly():
    """``X = I``, ``W_q = sqrt(d_k) M*``, ``W_k = I`` (a weight of ``nn.Linear`` is transposed)."""
    relation = arcs(HEADS)[0].float()
    heads = RelationHeads(8, 1)
    with torch.no_grad():
        heads.query.weight.copy_(math.sqrt(8) * relation.T)
        heads.key.weight.copy_(torch.eye(8))
    states, mask = torch.eye(8)[None], torch.ones(1, 8, dtype=torch.bool)
    torch.testing.assert_close(heads.scores(states)[0, 0], relation)
    assert heads.loss(states, relation[None], mask).item() < 1e-12


def test_zero_weights_give_the_density():
    heads = RelationHeads(8, 2)
    torch.nn.init.zeros_(heads.query.weight)
    relation, mask = arcs(HEADS), torch.ones(1, 8, dtype=torch.bool)
    assert heads.loss(torch.ones(1, 8, 8), relation, mask).item() == pytest.approx(14 / 64)


@pytest.mark.parametrize(("n", "density", "error"), [(10, 0.180, 0.148), (25, 0.077, 0.071), (50, 0.039, 0.038)])
def test_the_best_constant(n: int, density: float, error: float):
    """Reference numbers: ``p = 2 (n - 1) / n^2`` and ``p (1 - p)``, here for a chain of n words."""
    relation, mask = arcs(list(range(n))).float(), torch.ones(1, n, dtype=torch.bool)
    share = relation.mean().item()
    assert share == pytest.approx(density, abs=6e-4)
    constant = relation_loss(torch.full((1, 1, n, n), share), relation, mask)
    assert constant.item() == pytest.approx(share * (1 - share), abs=1e-6)
    assert constant.item() == pytest.approx(error, abs=6e-4)


def brute_force(scores: Tensor, relation: Tensor, mask: Tensor, objective: str, reduction: str) -> float:
    """Sentence by sentence, head by head, pair by pair."""
    values, counts = [], []
    related = sum(relation[b, h, i, j].item() for b, h, i, j in pairs(scores, mask))
    share = related / sum(1 for _ in pairs(scores, mask))
    for b in range(len(scores)):
        real = [i for i in range(scores.shape[2]) if mask[b, i]]
        total, count = 0.0, 0
        for h, i in itertools.product(range(scores.shape[1]), real):
            row = [(scores[b, h, i, j].item(), relation[b, h, i, j].item()) for j in real]
            if objective == "mse":
                total, count = total + sum((t - s) ** 2 for s, t in row), count + len(row)
            elif objective == "bce":
                weight = (1 - share) / share
                for s, t in row:
                    p = 1 / (1 + math.exp(-s))
                    total -= weight * t * math.log(p) + (1 - t) * math.log(1 - p)
                count += len(row)
            elif any(t for _, t in row):
                log_sum = math.log(sum(math.exp(s) for s, _ in row))
                whole = sum(t for _, t in row)
                for s, t in row:
                    if t:
                        total -= t / whole * (s - log_sum)
                        total += t / whole * math.log(t / whole) if objective == "kl" else 0.0
                count += 1
        values.append(total)
        counts.append(count)
    if reduction == "pairs":
        return sum(values) / sum(counts)
    kept = [value / count for value, count in zip(values, counts, strict=True) if count]
    return sum(kept) / len(kept)


def pairs(scores: Tensor, mask: Tensor):
    batch, heads, nodes, _ = scores.shape
    for b, h, i, j in itertools.product(range(batch), range(heads), range(nodes), range(nodes)):
        if mask[b, i] and mask[b, j]:
            yield b, h, i, j


@pytest.mark.parametrize("reduction", ["sentences", "pairs"])
@pytest.mark.parametrize("objective", get_args(Objective))
def test_losses_equal_loops(objective, reduction):
    heads, states, relation, mask = a_case(torch.float64)
    found = heads.loss(states, relation, mask, objective=objective, reduction=reduction)
    expected = brute_force(heads.scores(states), relation, mask, objective, reduction)
    assert found.item() == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("objective", get_args(Objective))
def test_padding_and_order_do_not_matter(objective):
    heads, states, relation, mask = a_case()
    whole = heads.loss(states, relation, mask, objective=objective)
    spoilt = torch.where(mask[..., None], states, torch.inf if objective == "mse" else 1e6)
    loud = relation.masked_fill(~(mask[:, None, :, None] & mask[:, None, None, :]), 7.0)
    spoilt = spoilt.nan_to_num(posinf=1e6)
    torch.testing.assert_close(heads.loss(spoilt, loud, mask, objective=objective), whole)
    order = torch.tensor([3, 0, 4, 1, 2])
    moved = heads.loss(states[:, order], relation[:, :, order][..., order], mask[:, order], objective=objective)
    torch.testing.assert_close(moved, whole)


@pytest.mark.parametrize("objective", get_args(Objective))
def test_a_batch_without_words_has_no_loss_and_no_gradient(objective):
    heads, states, relation, mask = a_case()
    loss = heads.loss(states, relation, torch.zeros_like(mask), objective=objective)
    loss.backward()
    assert loss.item() == 0
    assert all(torch.equal(p.grad, torch.zeros_like(p)) for p in heads.parameters() if p.grad is not None)


def test_kl_is_ce_without_the_entropy_of_the_relation():
    heads, states, relation, mask = a_case(torch.float64)
    losses = [heads.loss(states, relation, mask, objective=name, reduction="pairs") for name in ("ce", "kl")]
    gradients = [torch.autograd.grad(loss, heads.query.weight)[0] for loss in losses]
    torch.testing.assert_close(*gradients)
    assert losses[0] > losses[1] > 0


@pytest.mark.parametrize("weighted", [False, True])
def test_the_linear_form_is_the_dense_one(weighted):
    heads, states, relation, mask = a_case(torch.float64)
    relation = relation * (mask[:, None, :, None] & mask[:, None, None, :])
    if weighted:
        relation = relation * torch.rand(relation.shape, generator=generator(1), dtype=relation.dtype)
    where = relation.nonzero()
    weights = relation[tuple(where.T)] if weighted else None
    dense, linear = heads.loss(states, relation, mask), heads.linear_loss(states, where, mask, weights=weights)
    torch.testing.assert_close(linear, dense, rtol=1e-12, atol=1e-12)
    for one, other in zip(*(torch.autograd.grad(loss, [*heads.parameters()]) for loss in (dense, linear)), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)
    states.requires_grad_()
    assert torch.autograd.gradcheck(lambda x: heads.linear_loss(x, where, mask, weights=weights), states)


def test_the_linear_form_in_single_precision():
    torch.manual_seed(0)
    heads = RelationHeads(64, 4)
    states, relation = torch.randn(2, 300, 64), arcs([0, *range(1, 300)]).repeat(2, 1, 1)
    mask = torch.ones(2, 300, dtype=torch.bool)
    where = relation[:, None].expand(2, 4, 300, 300).nonzero()
    linear, dense = heads.linear_loss(states, where, mask), heads.loss(states, relation, mask)
    torch.testing.assert_close(linear, dense, rtol=1e-5, atol=0)


def test_the_linear_form_refuses_pairs_of_padding():
    heads, states, _, mask = a_case()
    with pytest.raises(ValueError, match="pairs of unmasked nodes"):
        heads.linear_loss(states, torch.tensor([[1, 0, 0, 4]]), mask)
    for outside in ([len(mask), 0, 0, 0], [0, -1, 0, 0], [0, heads.num_heads, 0, 0], [0, 0, mask.shape[1], 0]):
        with pytest.raises(ValueError, match="pairs of unmasked nodes"):
            heads.linear_loss(states, torch.tensor([outside]), mask)


def test_scores_have_the_rank_of_a_head():
    heads, _, _, _ = a_case(torch.float64)
    states = torch.randn(1, 20, 6, generator=generator(), dtype=torch.float64)
    assert torch.linalg.matrix_rank(heads.scores(states)).max() <= 4


def test_scores_stay_in_single_precision_under_autocast():
    heads, states, _, _ = a_case()
    with torch.autocast("cpu", torch.bfloat16):
        found = heads.scores(states.bfloat16())
    assert found.dtype == torch.float32


def test_perfect_scores_are_a_mild_bias_only():
    """``e / (e k + n - k)``: .081 for n = 30 and k = 2, where a plain head gives .033."""
    n, k = 30, 2
    relation = torch.zeros(1, 1, n, n)
    relation[..., :k] = 1.0
    weights = relation_attention(relation, torch.ones(1, n, dtype=torch.bool))
    assert weights[0, 0, 0, 0].item() == pytest.approx(math.e / (math.e * k + n - k))
    assert weights[0, 0, 0, 0].item() == pytest.approx(0.081, abs=5e-4)


def test_bad_input():
    with pytest.raises(ValueError, match="multiple of num_heads, got 7 and 2"):
        RelationHeads(7, 2)
    with pytest.raises(ValueError, match="sizes of at least 1, got 8, 0"):
        RelationHeads(8, 0)
    heads, states, relation, mask = a_case()
    with pytest.raises((ValueError, TypeError), match=r"'mse', 'bce'|mse, bce"):
        heads.loss(states, relation, mask, objective="hinge")
    with pytest.raises((ValueError, TypeError), match="'sentences'"):
        heads.loss(states, relation, mask, reduction="heads")
