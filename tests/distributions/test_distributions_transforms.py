"""Distributions under the transforms of ``torch.func``, in forward mode and mapped: the numbers of autograd.

Arguments are the defaults: nothing has to be switched off.
"""

from collections.abc import Callable

import pytest
import torch
from test_encoders import SENTENCES, VOCABULARY, tiny
from torch import Tensor
from torch.autograd import forward_ad
from torch.distributions import kl_divergence
from torch.utils._pytree import tree_flatten

import structattn as sa
from structattn.distributions import LinearChainCRF, StructuredDistribution
from structattn.functional.tree_histogram import SparseMatrix
from structattn.testing import Family
from structures_by_hand import FAMILIES, LABELLED

every_family = pytest.mark.parametrize("family", [*FAMILIES, *LABELLED], ids=lambda family: family.name)
# torch's own forward mode still scripts a few decompositions when it is first used.
forward_mode = pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")


def flat(family: Family) -> Callable[..., StructuredDistribution]:
    """The family with scores that are nearly all alike, to compare with."""
    return lambda *scores: family.build(*(0.1 * torch.ones_like(own).cumsum(-1) for own in scores))


DIFFERENTIABLE: dict[str, Callable[[StructuredDistribution, StructuredDistribution], Tensor]] = {
    "log_partition": lambda p, q: p.log_partition(),
    "marginals": lambda p, q: p.marginals().square(),
    "entropy": lambda p, q: p.entropy(),
    "variance": lambda p, q: p.variance,
    "log_prob": lambda p, q: p.log_prob(p.argmax()),
    "cross_entropy": lambda p, q: p.cross_entropy(q),
    "divergence": lambda p, q: kl_divergence(q, p),
}
every_question = pytest.mark.parametrize("question", DIFFERENTIABLE)
# What is differentiated twice of every family; the other questions ask the same operators, and are of the first family.
TWICE = ("log_partition", "entropy")
slowly = pytest.mark.slow
CHOSEN: dict[str, Callable[[StructuredDistribution], Tensor]] = {
    "argmax": lambda ours: ours.argmax(),
    "mode": lambda ours: ours.mode,
    "topk": lambda ours: ours.topk(3),
    "topk_scores": lambda ours: ours.topk_scores(3),
    "log_count": lambda ours: ours.log_count(),
    "structure": lambda ours: tree_flatten(ours.to_structure(ours.argmax()))[0][-1],
    "there and back": lambda ours: ours.from_structure(ours.to_structure(ours.topk(2))),
    "a sentence": lambda ours: ours[0].mean,
}


def answer(family: Family, question: str) -> Callable[..., Tensor]:
    def function(*scores: Tensor) -> Tensor:
        return DIFFERENTIABLE[question](family.build(*scores), flat(family)(*scores))

    return function


def total(family: Family, question: str) -> Callable[..., Tensor]:
    return lambda *scores: answer(family, question)(*scores).sum()


def mapped_axes(potentials: list[Tensor]) -> tuple[int | None, ...]:
    """A matrix that all sentences share is not mapped."""
    return tuple(None if own.dim() == 2 else 0 for own in potentials)


def by_autograd(function: Callable[..., Tensor], potentials: list[Tensor]) -> tuple[Tensor, ...]:
    leaves = [own.clone().requires_grad_() for own in potentials]
    found = torch.autograd.grad(function(*leaves), leaves, allow_unused=True)
    return tuple(torch.zeros_like(own) if grad is None else grad for own, grad in zip(leaves, found, strict=True))


@every_family
@every_question
def test_grad_and_vjp_are_those_of_autograd(family: Family, question: str) -> None:
    potentials, function = family.random_scores(4, 2, seed=1), total(family, question)
    expected = by_autograd(function, potentials)
    arguments = tuple(range(len(potentials)))
    torch.testing.assert_close(torch.func.grad(function, argnums=arguments)(*potentials), expected)
    value, pull = torch.func.vjp(function, *potentials)
    torch.testing.assert_close(pull(torch.ones_like(value)), expected)


@pytest.mark.parametrize(
    ("family", "question"),
    [
        pytest.param(
            family, question, id=f"{family.name}-{question}", marks=() if question in TWICE or not number else slowly
        )
        for number, family in enumerate(FAMILIES)
        for question in DIFFERENTIABLE
    ],
)
@forward_mode
def test_hessians_agree_whichever_mode_makes_them(family: Family, question: str) -> None:
    potentials, function = family.random_scores(3, seed=2), total(family, question)
    expected = torch.autograd.functional.hessian(function, tuple(potentials))[0][0]
    torch.testing.assert_close(torch.func.hessian(function)(*potentials), expected)
    torch.testing.assert_close(torch.func.jacrev(torch.func.jacrev(function))(*potentials), expected)
    torch.testing.assert_close(torch.func.jacfwd(torch.func.jacfwd(function))(*potentials), expected)


@every_family
@forward_mode
def test_jacobians_may_be_vectorised(family: Family) -> None:
    potentials, marginals = tuple(family.random_scores(3, seed=3)), answer(family, "marginals")
    expected = torch.autograd.functional.jacobian(marginals, potentials)
    torch.testing.assert_close(torch.autograd.functional.jacobian(marginals, potentials, vectorize=True), expected)
    torch.testing.assert_close(torch.func.jacrev(marginals)(*potentials), expected[0])
    torch.testing.assert_close(torch.func.jacfwd(marginals)(*potentials), expected[0])
    total = torch.autograd.functional.hessian(lambda *scores: family.build(*scores).log_partition(), potentials)
    again = torch.autograd.functional.hessian(
        lambda *scores: family.build(*scores).log_partition(), potentials, vectorize=True
    )
    torch.testing.assert_close(again, total)


@every_family
@every_question
@forward_mode
def test_forward_mode_is_the_derivative_along_a_direction(family: Family, question: str) -> None:
    potentials, directions = family.random_scores(4, 2, seed=4), family.random_scores(4, 2, seed=5)
    function = answer(family, question)
    value, slope = torch.func.jvp(function, tuple(potentials), tuple(directions))
    _, expected = torch.autograd.functional.jvp(function, tuple(potentials), tuple(directions))
    torch.testing.assert_close(value, function(*potentials))
    torch.testing.assert_close(slope, expected)
    with forward_ad.dual_level():
        duals = [forward_ad.make_dual(own, along) for own, along in zip(potentials, directions, strict=True)]
        torch.testing.assert_close(forward_ad.unpack_dual(function(*duals)).tangent, expected)


@every_family
@pytest.mark.parametrize("question", ["log_partition", "entropy", "marginals"])
@forward_mode
def test_forward_over_forward_mode_is_the_second_derivative(family: Family, question: str) -> None:
    """Of scores that are no linear function of what is changed, so that the first tangents have tangents, too."""
    potentials, direction = family.random_scores(3, 2, seed=4), family.random_scores(3, 2, seed=5)

    def at(step: Tensor) -> Tensor:
        return total(family, question)(
            *(own + (step * along).sin() for own, along in zip(potentials, direction, strict=True))
        )

    def slope(step: Tensor) -> Tensor:
        tangent: Tensor = torch.func.jvp(at, (step,), (torch.ones_like(step),))[1]
        return tangent

    step = torch.tensor(0.3, dtype=torch.float64)
    _, second = torch.func.jvp(slope, (step,), (torch.ones_like(step),))
    torch.testing.assert_close(second, torch.autograd.functional.hessian(at, step))


@every_family
@pytest.mark.parametrize("question", TWICE)
def test_hessians_times_vectors(family: Family, question: str) -> None:
    potentials, vectors = tuple(family.random_scores(3, seed=4)), tuple(family.random_scores(3, seed=5))
    function = total(family, question)
    rows = torch.autograd.functional.hessian(function, potentials)
    expected = [
        sum(
            (block.flatten(own.dim()) @ vector.flatten()).view_as(own)
            for block, vector in zip(row, vectors, strict=True)
        )
        for row, own in zip(rows, potentials, strict=True)
    ]
    _, found = torch.autograd.functional.vhp(function, potentials, vectors)
    for own, by_hand in zip(found, expected, strict=True):
        torch.testing.assert_close(own, by_hand)
    if question == "entropy":
        with pytest.raises(NotImplementedError, match=r"fourth derivative .* one derivative more than vhp"):
            torch.autograd.functional.hvp(function, potentials, vectors)
    else:
        torch.testing.assert_close(torch.autograd.functional.hvp(function, potentials, vectors)[1], found)


@every_family
@every_question
def test_a_mapped_axis_is_a_batch_axis(family: Family, question: str) -> None:
    potentials, function = family.random_scores(4, 3, 2, seed=6), total(family, question)
    axes, arguments = mapped_axes(potentials), tuple(range(len(potentials)))
    together = torch.vmap(answer(family, question), in_dims=axes)(*potentials)
    gradients = torch.vmap(torch.func.grad(function, argnums=arguments), in_dims=axes)(*potentials)
    summed = torch.func.grad(lambda *scores: torch.vmap(function, in_dims=axes)(*scores).sum(), argnums=arguments)(
        *potentials
    )
    for index in range(3):
        own = [scores if axis is None else scores[index] for scores, axis in zip(potentials, axes, strict=True)]
        torch.testing.assert_close(together[index], answer(family, question)(*own))
        torch.testing.assert_close(tuple(grad[index] for grad in gradients), by_autograd(function, own))
    for grads, all_grads, axis in zip(summed, gradients, axes, strict=True):
        torch.testing.assert_close(grads, all_grads.sum(0) if axis is None else all_grads)


@every_family
@pytest.mark.parametrize("choice", CHOSEN)
def test_structures_are_chosen_under_vmap(family: Family, choice: str) -> None:
    potentials = family.random_scores(4, 3, 2, seed=7)
    axes = mapped_axes(potentials)
    choose = CHOSEN[choice]
    together = torch.vmap(lambda *scores: choose(family.build(*scores)), in_dims=axes)(*potentials)
    moved = tuple(None if axis is None else 1 for axis in axes)
    swapped = [own if axis is None else own.movedim(0, 1) for own, axis in zip(potentials, axes, strict=True)]
    again = torch.vmap(lambda *scores: choose(family.build(*scores)), in_dims=moved)(*swapped)
    for index in range(3):
        own = [scores if axis is None else scores[index] for scores, axis in zip(potentials, axes, strict=True)]
        torch.testing.assert_close(together[index], choose(family.build(*own)))
    torch.testing.assert_close(again, together)


@every_family
def test_samples_under_vmap_are_different_or_the_same_as_requested(family: Family) -> None:
    potentials = [own * 0.1 for own in family.random_scores(5, 2, seed=8)]
    mapped = [own if own.dim() == 2 else own.expand(3, *own.shape) for own in potentials]
    axes = mapped_axes(potentials)

    def draw(*scores: Tensor) -> Tensor:
        return family.build(*scores).sample((20,))

    same = torch.vmap(draw, in_dims=axes, randomness="same")(*mapped)
    torch.testing.assert_close(same, same[:1].expand_as(same))
    torch.manual_seed(0)
    different = torch.vmap(draw, in_dims=axes, randomness="different")(*mapped)
    assert not torch.equal(different[0], different[1])
    assert torch.isfinite(family.build(*potentials).log_prob(different.flatten(0, 1))).all()
    with pytest.raises(RuntimeError, match="randomness"):
        torch.vmap(draw, in_dims=axes)(*mapped)


@every_family
def test_mapped_twice(family: Family) -> None:
    potentials = family.random_scores(3, 2, 3, 2, seed=9)
    axes = mapped_axes(potentials)
    twice = torch.vmap(torch.vmap(lambda *scores: family.build(*scores).topk(2), in_dims=axes), in_dims=axes)
    torch.testing.assert_close(twice(*potentials).movedim(2, 0), family.build(*potentials).topk(2))


def test_a_matrix_of_transitions_may_be_mapped_alone() -> None:
    unary, matrices = torch.randn(2, 5, 3).double(), torch.randn(4, 3, 3).double()

    def loss(transition: Tensor) -> Tensor:
        return LinearChainCRF(unary, transition, [5, 3]).marginals().square().sum()

    values, gradients = torch.vmap(loss)(matrices), torch.vmap(torch.func.grad(loss))(matrices)
    for value, gradient, matrix in zip(values, gradients, matrices, strict=True):
        torch.testing.assert_close(value, loss(matrix))
        torch.testing.assert_close((gradient,), by_autograd(loss, [matrix]))


def test_a_gradient_of_the_fourth_order_is_refused_in_every_mode() -> None:
    scores = torch.randn(3, 4).double()
    projective = next(family for family in FAMILIES if family.name == "projective")

    def third(own: Tensor) -> Tensor:
        function = total(projective, "log_partition")
        for _ in range(3):
            function = _squared_gradient(function)
        return function(own)

    with pytest.raises(NotImplementedError, match="fourth derivative"):
        torch.func.grad(third)(scores)
    with pytest.raises(NotImplementedError, match="fourth derivative"):
        torch.func.jvp(third, (scores,), (scores,))


def _squared_gradient(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda own: torch.func.grad(function)(own).square().sum()


@pytest.mark.parametrize("name", ["structured", "tree_transformer", "disan"])
def test_encoders_with_kernels_in_them_can_be_transformed(name: str) -> None:
    encoder, batch = tiny(name).eval(), sa.collate(SENTENCES, VOCABULARY)
    parameters = {key: value.detach() for key, value in encoder.named_parameters()}

    def loss(*values: Tensor) -> Tensor:
        given = dict(zip(parameters, values, strict=True))
        vector = torch.func.functional_call(encoder, given, (batch,)).vector
        assert vector is not None
        return vector.square().sum()

    values = list(parameters.values())
    gradients = torch.func.grad(loss, argnums=tuple(range(len(values))))(*values)
    torch.testing.assert_close(gradients, by_autograd(loss, values), atol=1e-5, rtol=1e-4)


@forward_mode
def test_a_sparse_product_can_be_transformed() -> None:
    rows, columns = torch.tensor([0, 2, 2]), torch.tensor([1, 0, 1])
    matrix = SparseMatrix(rows, columns, torch.tensor([2.0, 3.0, 4.0]), shape=(3, 2))
    full = torch.tensor([[0.0, 2.0], [0.0, 0.0], [3.0, 4.0]])
    dense, direction = torch.randn(5, 2, 6), torch.randn(5, 2, 6)

    def loss(own: Tensor) -> Tensor:
        return (matrix @ own).square().sum()

    torch.testing.assert_close(torch.vmap(lambda own: matrix @ own)(dense), full @ dense)
    torch.testing.assert_close(torch.vmap(torch.func.grad(loss))(dense), 2 * full.T @ (full @ dense))
    _, slope = torch.func.jvp(lambda own: matrix @ own, (dense[0],), (direction[0],))
    torch.testing.assert_close(slope, full @ direction[0])
    same = torch.vmap(lambda scale: (matrix @ dense[0]) * scale)(torch.ones(3))
    torch.testing.assert_close(same, (full @ dense[0]).expand(3, 3, 6))
