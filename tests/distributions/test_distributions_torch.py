"""Structured distributions as distributions of torch: what PyTorch users expect to find on them."""

import copy
import inspect
import pickle

import pytest
import torch
from torch import Tensor
from torch.distributions import kl_divergence

from structattn.distributions import (
    DependencyCRF,
    IndependentChoice,
    IndependentSelection,
    LinearChainCRF,
    NonProjectiveDependencyCRF,
    StructuredDistribution,
)
from structattn.testing import Family
from structures_by_hand import FAMILIES, MAY_BE_EMPTY, ShortArcs

every_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)


# Shapes of the scores of two words, and options.
KERNELS: dict[str, tuple[list[tuple[int, ...]], list[int]]] = {
    "chain": ([(2, 2, 3), (3, 3)], []),
    "segments": ([(2, 2, 2, 2, 2)], []),
    "dependency": ([(2, 2, 3)], [1]),
    "spanning_tree": ([(2, 2, 3)], [0]),
    "constituency": ([(2, 3, 3)], []),
}


@pytest.mark.parametrize("kernel", KERNELS)
def test_torch_finds_the_operators_sound(kernel: str) -> None:
    # Schema, fake kernel, autograd registration, and the compiled (aot) graph against the eager one.
    shapes, options = KERNELS[kernel]
    scores = [torch.randn(shape, dtype=torch.float64).requires_grad_() for shape in shapes]
    lengths, streams = torch.tensor([2, 1]), torch.tensor([5, -7])
    each = [scores[0], *(array.expand(2, *array.shape) for array in scores[1:])]
    vectors = [torch.randn_like(array).requires_grad_() for array in each]
    numbers = [array.detach() for array in scores]  # nothing that chooses a structure has a gradient
    arguments = {
        "evaluate": (*scores, lengths, options),
        "entropy": (*scores, lengths, *vectors, options),
        "hvp": (*scores, lengths, *vectors, options),
        "argmax": (*numbers, lengths, options),
        "topk": (*numbers, lengths, options, 3),
        "sample": (*numbers, lengths, streams, options, 2),
    }
    for name, given in arguments.items():
        torch.library.opcheck(getattr(torch.ops.structattn, f"{kernel}_{name}").default, given)


def test_each_call_has_its_own_graph() -> None:
    scores = torch.randn(3, 4, requires_grad=True)
    ours = DependencyCRF(scores)
    ours.log_partition().backward()
    ours.entropy().backward()
    ours.marginals().square().sum().backward()
    assert scores.grad is not None


@every_family
def test_a_batch_may_be_empty(family: Family) -> None:
    ours = family.build(*family.random_scores(3, 0))
    assert ours.log_partition().shape == ours.entropy().shape == (0,)
    assert ours.marginals().shape == ours.argmax().shape == (0, *ours.event_shape)
    assert ours.log_prob(ours.sample((2,))).shape == (2, 0)


def test_is_a_distribution_of_torch() -> None:
    ours = NonProjectiveDependencyCRF(torch.randn(2, 3, 4))
    assert isinstance(ours, torch.distributions.Distribution)
    assert (ours.batch_shape, ours.event_shape) == (torch.Size([2]), torch.Size([3, 4]))
    torch.testing.assert_close(ours.mean, ours.marginals())
    torch.testing.assert_close(ours.mode, ours.argmax())
    assert not ours.has_rsample


@every_family
def test_repr_tells_names_shapes_and_options(family: Family) -> None:
    ours = family.build(*family.random_scores(3, 2, seed=1))
    shapes = [f"{name}: {array.shape}" for name, array in zip(ours._names, ours._arrays, strict=True)]
    shapes.append(f"lengths: {ours.lengths.shape}")
    options = [f"{name}: {value}" for name, value in family.options.items()]
    assert repr(ours) == f"{type(ours).__name__}({', '.join(shapes + options)})"
    assert repr(ours.support) == f"Structures({ours!r})"


def test_repr_of_independent_keys_shows_shapes() -> None:
    scores = torch.zeros(3, 2)
    for kind in (IndependentChoice, IndependentSelection):
        shapes = "scores: torch.Size([3, 2]), allowed: torch.Size([3, 2])"
        assert repr(kind(scores, scores == 0)) == f"{kind.__name__}({shapes})"


def test_scores_are_returned_as_they_were_passed() -> None:
    scores = torch.randn(2, 3, 4)
    assert DependencyCRF(scores).scores is scores
    unary, transition = torch.randn(2, 3, 4), torch.randn(4, 4)
    chain = LinearChainCRF(unary, transition)
    assert chain.unary is chain.scores is unary
    assert chain.transition is transition


@every_family
def test_an_index_takes_batch_axes(family: Family) -> None:
    potentials = family.random_scores(4, 2, 3, seed=2)
    ours = family.build(*potentials, torch.tensor([[4, 3, 2], [1, 0, 4]]))
    marginals = ours.marginals()
    mask = torch.tensor([True, False])
    for index in (0, -1, (1, 2), slice(1), (slice(None), 1), (..., 0), None, (mask, 1), torch.tensor([1, 1]), [0, 1]):
        one = ours[index]
        where = index if isinstance(index, tuple) else (index,)
        assert one.batch_shape == ours.lengths[index].shape
        rest = () if Ellipsis in where else (...,)
        expected = marginals[(*where, *rest, *(slice(None) for _ in ours.event_shape))]
        torch.testing.assert_close(one.marginals(), expected)
        torch.testing.assert_close(one.lengths, ours.lengths[index])
    assert [one.batch_shape for one in ours] == [torch.Size([3])] * 2
    for wrong in (2, (0, 3), (0, 0, 0), (0, 0, 0, 0), 0.5):
        with pytest.raises(IndexError, match=rf"{type(ours).__name__} with batch shape \(2, 3\), index"):
            ours[wrong]
    with pytest.raises(IndexError, match=r"batch shape \(\), index"):
        ours[0, 0][0]


@every_family
def test_mean_and_variance_are_those_of_samples(family: Family) -> None:
    ours = family.build(*family.random_scores(3, seed=3, spread=1.0))
    samples = ours.sample(5000, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(samples.mean(0), ours.mean, atol=0.03, rtol=0)
    torch.testing.assert_close(samples.var(0), ours.variance, atol=0.03, rtol=0)
    assert ours.stddev.shape == ours.event_shape


@every_family
def test_the_support_is_all_structures(family: Family) -> None:
    ours = family.build(*family.random_scores(3, 2, seed=4), torch.tensor([3, 2]))
    assert ours.support.is_discrete
    assert ours.support.event_dim == len(ours.event_shape)
    structures = ours.sample(20)
    assert ours.support.check(structures).shape == (20, 2)
    assert ours.support.check(structures).all()
    assert not ours.support.check(structures + 1).any()
    assert not ours.support.check(structures / 2)[structures.flatten(2).any(-1)].any()
    assert (ours.support.check(torch.zeros(ours.event_shape)) == (family.name in MAY_BE_EMPTY)).all()
    assert not ours.support.check(structures * torch.nan).any()


@every_family
def test_a_structure_has_the_probability_of_its_parts(family: Family) -> None:
    ours = family.build(*family.random_scores(5, 2, seed=5), torch.tensor([5, 3]))
    parts = ours.sample(7)
    expected = ours.log_prob(parts)
    torch.testing.assert_close(ours.log_prob(ours.to_structure(parts)), expected)
    torch.testing.assert_close(ours.log_prob(parts.bool()), expected)
    torch.testing.assert_close(ours.log_prob(parts.long()), expected)
    torch.testing.assert_close(ours[0].log_prob(parts[:, 0]), expected[:, 0])
    assert (expected <= 0).all()


def test_one_structure_is_scored_for_a_whole_batch() -> None:
    ours = DependencyCRF(torch.randn(4, 3, 4))
    heads = torch.tensor([0, 1, 1])
    torch.testing.assert_close(ours.log_prob(heads), ours.log_prob(heads.expand(4, 3)))
    assert ours.log_prob(heads.expand(5, 1, 3)).shape == (5, 4)


def test_integers_that_may_be_tags_or_parts_are_refused() -> None:
    ours = LinearChainCRF(torch.randn(3, 3), torch.randn(3, 3))
    with pytest.raises(ValueError, match=r"may be parts \(3, 3\) or tags"):
        ours.log_prob(torch.eye(3).long())
    tags = torch.tensor([0, 1, 2])
    torch.testing.assert_close(ours.log_prob(torch.eye(3)), ours.log_prob(tags))
    torch.testing.assert_close(ours.log_prob(ours.from_structure(tags.expand(3, 3))), ours.log_prob(tags).expand(3))


@every_family
def test_is_copied_and_pickled_like_the_distributions_of_torch(family: Family) -> None:
    ours = family.build(*family.random_scores(3, 2, seed=6), torch.tensor([3, 2]))
    for copied in (copy.deepcopy(ours), copy.copy(ours), pickle.loads(pickle.dumps(ours))):
        torch.testing.assert_close(copied.marginals(), ours.marginals())
        assert repr(copied) == repr(ours)
    leaves = [scores.requires_grad_() for scores in family.random_scores(3, 2, seed=6)]
    copied = copy.deepcopy(family.build(*leaves))
    assert all(array.requires_grad for array in copied._arrays)


@every_family
def test_lengths_may_be_lists_or_one_number(family: Family) -> None:
    potentials = family.random_scores(4, 2, seed=7)
    expected = family.build(*potentials, torch.tensor([3, 2])).marginals()
    torch.testing.assert_close(family.build(*potentials, [3, 2]).marginals(), expected)
    torch.testing.assert_close(family.build(*potentials, (3, 2)).marginals(), expected)
    torch.testing.assert_close(family.build(*potentials, torch.tensor([3, 2], dtype=torch.int16)).marginals(), expected)
    torch.testing.assert_close(family.build(*potentials, 3)[0].marginals(), expected[0])


@every_family
def test_samples_of_any_shape(family: Family) -> None:
    ours = family.build(*family.random_scores(3, 2, seed=8))
    for shape, expected in (
        (3, (3,)),
        ((), ()),
        ((2, 3), (2, 3)),
        ([2], (2,)),
        (0, (0,)),
        (torch.Size([1, 0]), (1, 0)),
    ):
        assert ours.sample(shape).shape == (*expected, 2, *ours.event_shape)


@every_family
def test_samples_depend_on_the_generator_and_the_place_in_the_batch_alone(family: Family) -> None:
    potentials = [own * 0.2 for own in family.random_scores(6, 5, seed=9)]

    def draw(ours: StructuredDistribution, seed: int = 3) -> Tensor:
        return ours.sample(40, generator=torch.Generator().manual_seed(seed))

    whole = family.build(*potentials, [4, 6, 3, 5, 1])
    samples = draw(whole)
    assert torch.equal(samples, draw(whole))
    assert not torch.equal(samples, draw(whole, seed=4))
    assert torch.equal(samples[:, :2], draw(whole[:2]))
    assert torch.equal(samples[:, :1], draw(whole[:1]))
    # Neither do padding and the type of the scores matter.
    shorter = [own if own.dim() == 2 else _first_words(own, 4) for own in potentials]
    short = family.build(*(own if own.dim() == 2 else own[:1] for own in shorter), [4])
    first, alone = whole.to_structure(samples)[:, 0], short.to_structure(draw(short))
    assert torch.equal(first.clamp(min=0).sum(), alone.clamp(min=0).sum())
    single = family.build(*(own.float() for own in potentials), [4, 6, 3, 5, 1])
    assert torch.equal(samples.float(), draw(single))
    torch.manual_seed(5)
    expected = whole.sample(3)
    torch.manual_seed(5)
    assert torch.equal(whole.sample(3), expected)
    # The random numbers of the samples of one call, and of its sentences, are independent.
    alike = whole[1:2].expand((5,))
    assert not torch.equal(draw(alike)[:, 0], draw(alike)[:, 1])
    assert not torch.equal(samples[0], samples[1])


def _first_words(scores: Tensor, words: int) -> Tensor:
    """Scores of shorter sentences: of each axes that counts words, or fenceposts, the front."""
    n = 6
    sizes = {n: words, n + 1: words + 1, n - 1: words - 1}
    return scores[(slice(None), *(slice(sizes.get(size, size)) for size in scores.shape[1:]))]


def test_expanding_and_comparing_say_what_does_not_fit() -> None:
    ours = DependencyCRF(torch.zeros(5, 2, 3))
    with pytest.raises(ValueError, match=r"batch shape \(5,\) cannot be expanded to \(5, 3\)"):
        ours.expand((5, 3))
    with pytest.raises(ValueError, match=r"cannot be expanded to -1"):
        inspect.unwrap(DependencyCRF.expand)(ours, -1)
    with pytest.raises(ValueError, match="expected the same options"):
        kl_divergence(ours, DependencyCRF(torch.zeros(5, 2, 3), single_root=True))
    with pytest.raises(ValueError, match="sentences of different lengths"):
        ours.cross_entropy(DependencyCRF(torch.zeros(5, 2, 3), 1))


def test_distributions_are_compared_on_the_options_of_a_subclass() -> None:
    """Without a method of its own, whatever the options are; distributions over different structures have no KL."""
    scores = torch.zeros(5, 3, 4)
    near, far = (ShortArcs(scores, max_distance=distance) for distance in (1, 2))
    assert torch.equal(kl_divergence(near, near.expand((2, 5))[0]), torch.zeros(5))
    for p, q in ((near, far), (far, near)):
        with pytest.raises(
            ValueError, match=r"max_distance: \d.* cannot be compared with .*: expected the same options"
        ):
            kl_divergence(p, q)
        with pytest.raises(ValueError, match="expected the same options"):
            p.cross_entropy(q)
    first, second, third = (ShortArcs(scores, max_distance=1) for _ in range(3))
    first.weights, second.weights, third.weights = torch.ones(2), torch.ones(2), torch.zeros(2)  # type: ignore[attr-defined]
    assert "weights: torch.Size([2])" in repr(first)
    assert torch.equal(first.cross_entropy(second), first.entropy())
    for other in (third, near):
        with pytest.raises(ValueError, match="expected the same options"):
            first.cross_entropy(other)


@every_family
def test_distributions_of_different_batches_are_compared_one_by_one(family: Family) -> None:
    p, q = family.build(*family.random_scores(3, 4, seed=10)), family.build(*family.random_scores(3, 4, seed=11))
    divergence = kl_divergence(p, q[1])
    for index in range(4):
        torch.testing.assert_close(divergence[index], kl_divergence(p[index], q[1]))
    half = family.build(*(own.float() for own in family.random_scores(3, 4, seed=11)))
    torch.testing.assert_close(p.cross_entropy(half), p.cross_entropy(q).float().double(), atol=1e-5, rtol=1e-5)


def test_chains_with_shared_and_with_single_matrices_can_be_compared() -> None:
    unary, transition = torch.randn(4, 2), torch.randn(2, 2)
    shared, single = LinearChainCRF(unary, transition), LinearChainCRF(unary, transition.expand(3, 2, 2))
    torch.testing.assert_close(kl_divergence(shared, single), torch.tensor(0.0), atol=1e-6, rtol=0)
    torch.testing.assert_close(shared.edge_marginals(), single.edge_marginals())
    torch.testing.assert_close(shared.cross_entropy(single), single.entropy())
    everywhere = LinearChainCRF(torch.randn(3, 4, 2), torch.randn(2, 2))
    each = LinearChainCRF(everywhere.unary, everywhere.transition.expand(3, 3, 2, 2))
    other = LinearChainCRF(torch.randn(3, 4, 2), torch.randn(3, 3, 2, 2))
    torch.testing.assert_close(everywhere.cross_entropy(other), each.cross_entropy(other))
    torch.testing.assert_close(other.cross_entropy(everywhere), other.cross_entropy(each))


def test_edges_agree_with_states() -> None:
    ours = LinearChainCRF(torch.randn(2, 5, 3), torch.randn(3, 3), torch.tensor([5, 3]))
    edges, states = ours.edge_marginals(), ours.marginals()
    torch.testing.assert_close(edges[0].sum(-1), states[0, :-1])
    torch.testing.assert_close(edges[0].sum(-2), states[0, 1:])
    assert (edges[1, 2:] == 0).all()


def test_a_forbidden_part_makes_a_structure_impossible() -> None:
    scores = torch.zeros(3, 4)
    scores[0, 0] = -torch.inf
    scores.requires_grad_()
    ours = DependencyCRF(scores)
    log_prob = ours.log_prob(ours.from_structure(torch.tensor([[0, 1, 1], [2, 0, 2]])))
    assert log_prob[0] == -torch.inf
    assert torch.isfinite(log_prob[1])
    log_prob[log_prob > -torch.inf].sum().backward()
    assert scores.grad is not None
    assert torch.isfinite(scores.grad).all()
