"""The compiled kernel for linear chains against the plain-torch program, which the laws hold to brute force."""

import itertools
import math

import pytest
import torch
from torch import Tensor

from structattn.distributions import LinearChainCRF
from structattn.kernels import forward_backward, native, plain_torch

pytestmark = pytest.mark.skipif(not native.status().active, reason=native.status().reason)


def random_chain(
    num_words: int, num_states: int, *, shared: bool, spread: float = 1.0, dtype: torch.dtype = torch.float64
) -> tuple[Tensor, Tensor, Tensor]:
    """Scores of seven sentences, of which a third are forbidden in every second one, and their lengths."""
    generator = torch.Generator().manual_seed(num_words + 10 * num_states)
    steps = () if shared else (max(num_words - 1, 0),)

    def scores(*shape: int) -> Tensor:
        numbers = spread * torch.randn(shape, generator=generator, dtype=torch.float64)
        forbidden = torch.rand(shape, generator=generator) < 0.3
        forbidden[::2] = False
        return numbers.masked_fill(forbidden, -torch.inf).to(dtype)

    lengths = torch.tensor(
        [num_words, max(num_words - 1, 0), num_words // 2, num_words, 0, min(num_words, 1), num_words]
    )
    return scores(7, num_words, num_states), scores(7, *steps, num_states, num_states), lengths


def results(unary: Tensor, transition: Tensor, lengths: Tensor) -> list[Tensor]:
    """Log-partition, marginals, and the Hessian times a vector with and without a part for the transitions."""
    vectors = [
        torch.linspace(-1, 1, scores.numel(), dtype=scores.dtype).view_as(scores) for scores in (unary, transition)
    ]
    scores = unary, transition
    log_partition, parts = forward_backward.OPERATORS.evaluate(scores, lengths)
    return [
        log_partition,
        *parts,
        *forward_backward.OPERATORS.hvp(scores, lengths, vectors),
        *forward_backward.OPERATORS.hvp(scores, lengths, [vectors[0], None]),
        *forward_backward.OPERATORS.hvp(scores, lengths, [None, vectors[1]]),
    ]


@pytest.mark.parametrize("spread", [1.0, 30.0, 300.0, 1e5])
@pytest.mark.parametrize("shared", [True, False], ids=["shared", "single"])
@pytest.mark.parametrize("num_states", [1, 2, 3, 6, 18])
@pytest.mark.parametrize("num_words", [0, 1, 2, 7])
def test_equals_the_plain_torch_program(num_words: int, num_states: int, shared: bool, spread: float) -> None:
    """Beyond a spread of some hundreds, doubles without exponents of their own would underflow."""
    arguments = random_chain(num_words, num_states, shared=shared, spread=spread)
    found = results(*arguments)
    with plain_torch():
        expected = results(*arguments)
    for got, wanted in zip(found, expected, strict=True):
        torch.testing.assert_close(got, wanted, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("shared", [True, False], ids=["shared", "single"])
def test_small_chains_by_brute_force(shared: bool) -> None:
    unary, transition, _ = random_chain(4, 3, shared=shared)
    for item in range(7):
        scores = {}
        for states in itertools.product(range(3), repeat=4):
            steps = [
                transition[item, before, after] if shared else transition[item, step, before, after]
                for step, (before, after) in enumerate(itertools.pairwise(states))
            ]
            scores[states] = float(sum(unary[item, word, state] for word, state in enumerate(states)) + sum(steps))
        chained = LinearChainCRF(unary[item], transition[item])
        total = torch.tensor(list(scores.values()), dtype=torch.float64).logsumexp(0)
        torch.testing.assert_close(chained.log_partition(), total)
        marginals = torch.zeros(4, 3, dtype=torch.float64)
        for states, score in scores.items():
            for word, state in enumerate(states):
                marginals[word, state] += math.exp(score - total)
        torch.testing.assert_close(chained.marginals(), marginals)
        best = chained.to_structure(chained.argmax())
        assert scores[tuple(best.tolist())] == max(scores.values())


def test_a_detour_that_underflow_would_hide() -> None:
    """The only good sequence begins and ends e^800 below the others, and they lose e^100 at every step between."""
    words = 20
    unary = torch.full((1, words, 2), -100.0, dtype=torch.float64)
    unary[:, :, 1] = 0
    unary[0, 0] = unary[0, -1] = torch.tensor([0.0, -800.0])
    stay = torch.eye(2, dtype=torch.float64).log().unsqueeze(0)
    log_partition, (states, _) = forward_backward.OPERATORS.evaluate([unary, stay], torch.tensor([words]))
    torch.testing.assert_close(log_partition, torch.tensor([-1600.0], dtype=torch.float64))
    torch.testing.assert_close(states[0, :, 1], torch.ones(words, dtype=torch.float64))


def test_four_hundred_words_at_any_spread() -> None:
    for spread in (1.0, 20.0, 1000.0):
        unary, transition, _ = random_chain(400, 3, shared=True, spread=spread, dtype=torch.float32)
        marginals = LinearChainCRF(unary[::2], transition[::2].mean(0)).marginals()
        torch.testing.assert_close(marginals.sum(-1), torch.ones(4, 400), atol=1e-5, rtol=0)


def test_nothing_allowed_is_zero_and_minus_infinity() -> None:
    unary = torch.zeros(1, 3, 2)
    unary[0, 1] = -torch.inf
    unary.requires_grad_()
    impossible = LinearChainCRF(unary, torch.zeros(2, 2))
    assert impossible.log_partition().item() == -torch.inf
    assert not impossible.marginals().any()
    assert not impossible.argmax().any()
    impossible.marginals().sum().backward()
    assert unary.grad is not None
    assert not unary.grad.any()


@pytest.mark.parametrize("shared", [True, False], ids=["shared", "single"])
def test_the_best_sequence_is_that_of_the_plain_program(shared: bool) -> None:
    for dtype in (torch.float32, torch.float64):
        unary, transition, lengths = random_chain(6, 4, shared=shared, dtype=dtype)
        for item in range(7):
            chained = LinearChainCRF(unary[item], transition[item], lengths[item])
            found = chained.argmax()
            with plain_torch():
                torch.testing.assert_close(found, chained.argmax())


def test_equal_sequences_go_to_the_first_states() -> None:
    best = LinearChainCRF(torch.zeros(2, 5, 3), torch.zeros(3, 3)).argmax()
    assert best[..., 0].all()


def test_scores_beyond_the_end_are_not_read() -> None:
    unary, transition, lengths = random_chain(6, 3, shared=False)
    expected = results(unary, transition, lengths)
    for item, length in enumerate(lengths.tolist()):
        unary[item, length:] = torch.nan
        transition[item, max(length - 1, 0) :] = torch.nan
    for got, wanted in zip(results(unary, transition, lengths), expected, strict=True):
        torch.testing.assert_close(got, wanted, atol=0, rtol=0)


def test_the_gradient_of_shared_transitions_is_summed_over_the_batch() -> None:
    unary, transition, lengths = random_chain(5, 3, shared=True)
    unary, shared = unary[::2], transition[0].requires_grad_()
    chained = LinearChainCRF(unary, shared, lengths[::2])
    (together,) = torch.autograd.grad(chained.marginals().square().sum(), shared)
    alone = torch.zeros_like(shared)
    for item, length in enumerate(lengths[::2]):
        one = LinearChainCRF(unary[item], shared, length)
        alone += torch.autograd.grad(one.marginals().square().sum(), shared)[0]
    torch.testing.assert_close(together, alone)


def test_the_number_of_threads_changes_nothing() -> None:
    arguments = random_chain(30, 20, shared=True)
    threads = torch.get_num_threads()
    try:
        found = []
        for number in (1, 3):
            torch.set_num_threads(number)
            found.append(results(*arguments))
    finally:
        torch.set_num_threads(threads)
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, atol=0, rtol=0)


def test_the_arguments_are_not_changed() -> None:
    arguments = random_chain(5, 3, shared=False)
    before = [argument.clone() for argument in arguments]
    results(*arguments)
    for argument, copy in zip(arguments, before, strict=True):
        assert torch.equal(argument, copy)
        assert not argument.requires_grad


@pytest.mark.parametrize("spread", [1.0, 1e5])
@pytest.mark.parametrize("shared", [True, False], ids=["shared", "single"])
@pytest.mark.parametrize("num_words", [0, 1, 2, 7])
def test_marginals_of_states_alone_and_their_gradients(num_words: int, shared: bool, spread: float) -> None:
    """What attention asks for: value, gradient and gradient of the gradient equal the plain program's."""
    unary, transition, lengths = random_chain(num_words, 3, shared=shared, spread=spread)
    given = [unary.requires_grad_(), (transition[0] if shared else transition).detach().requires_grad_()]
    vector = torch.linspace(-1, 1, unary.numel(), dtype=unary.dtype).view_as(unary)

    def states_and_gradients(create_graph: bool) -> list[Tensor]:
        states = LinearChainCRF(given[0], given[1], lengths).marginals()
        gradients = torch.autograd.grad((states * vector).sum(), given, create_graph=create_graph)
        if not create_graph:
            return [states, *gradients]
        again = torch.autograd.grad(sum(gradient.square().sum() for gradient in gradients), given)
        return [states, *gradients, *again]

    found = [*states_and_gradients(False), *states_and_gradients(True)]
    with plain_torch():
        expected = [*states_and_gradients(False), *states_and_gradients(True)]
    for got, wanted in zip(found, expected, strict=True):
        torch.testing.assert_close(got, wanted, atol=1e-8, rtol=1e-8)


@pytest.mark.parametrize("shared", [True, False], ids=["shared", "single"])
@pytest.mark.parametrize("num_words", [0, 1, 2, 7])
def test_the_log_partition_alone_and_its_gradients(num_words: int, shared: bool) -> None:
    """What training asks for, kept and asked again, and differentiated twice: as in the plain program."""
    unary, transition, lengths = random_chain(num_words, 3, shared=shared)
    given = [unary.requires_grad_(), (transition[0] if shared else transition).detach().requires_grad_()]
    signs = torch.linspace(-1, 1, 7, dtype=unary.dtype)

    def values() -> list[Tensor]:
        log_partition = LinearChainCRF(given[0], given[1], lengths).log_partition()
        loss = (log_partition.masked_fill(log_partition == -torch.inf, 0) * signs).sum()
        once = torch.autograd.grad(loss, given, retain_graph=True)
        kept = [gradient.clone() for gradient in once]
        twice = torch.autograd.grad(loss, given, retain_graph=True)
        again = torch.autograd.grad(loss, given, create_graph=True)
        second = torch.autograd.grad(sum(gradient.square().sum() for gradient in again), given)
        alone = torch.autograd.grad(LinearChainCRF(unary, given[1].detach(), lengths).log_partition().sum(), unary)
        return [log_partition, *kept, *once, *twice, *again, *second, *alone]

    found = values()
    with plain_torch():
        expected = values()
    for got, wanted in zip(found, expected, strict=True):
        torch.testing.assert_close(got, wanted, atol=1e-8, rtol=1e-8)
    with torch.no_grad():
        torch.testing.assert_close(LinearChainCRF(given[0], given[1], lengths).log_partition(), expected[0])
