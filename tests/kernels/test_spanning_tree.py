"""All dependency trees twice: compiled, and in plain torch, the reference; with lengths, forbidden arcs, any spread."""

import pytest
import torch
from torch import Tensor

from structattn.distributions import NonProjectiveDependencyCRF
from structattn.kernels import native, plain_torch
from structattn.kernels.matrix_tree import OPERATORS, _start_of_top_detour

pytestmark = pytest.mark.skipif(not native.status().active, reason=native.status().reason)
one_root_or_several = pytest.mark.parametrize("single_root", [False, True])


def random_arcs(n: int, batch: int, spread: float, *, forbidden: float) -> tuple[Tensor, Tensor]:
    """Scores as the kernels want them: ``-inf`` for padding and for a word under itself."""
    generator = torch.Generator().manual_seed(n)
    scores = spread * torch.randn(batch, n, n + 1, generator=generator, dtype=torch.float64)
    scores = scores.masked_fill(torch.rand(scores.shape, generator=generator) < forbidden, -torch.inf)
    lengths = torch.randint(0, n + 1, (batch,), generator=generator)
    words, heads = torch.arange(n), torch.arange(n + 1)
    real = (words[:, None] < lengths[:, None, None]) & (heads <= lengths[:, None, None]) & (heads != words[:, None] + 1)
    return scores.masked_fill(~real, -torch.inf), lengths


@pytest.mark.parametrize("words", [1, 2, 9, 40])
def test_the_top_of_many_detours_is_found_however_deep(words: int) -> None:
    """In a chain below the last word, alone in its batch; a detour at the first word and one above it."""
    heads = torch.arange(2, words + 2).where(torch.arange(1, words + 1) < words, 0).view(1, 1, -1)
    for top in {1, words // 2 + 1, words}:
        detour = torch.zeros_like(heads, dtype=torch.bool)
        detour[..., 0] = detour[..., top - 1] = True
        assert _start_of_top_detour(heads, detour).item() == (0 if top == words else top + 1)


@one_root_or_several
@pytest.mark.parametrize("spread", [1.0, 30.0, 1e4, 1e30])
@pytest.mark.parametrize("n", [1, 2, 6, 13])
def test_marginals_and_hessians(n: int, spread: float, single_root: bool) -> None:
    scores, lengths = random_arcs(n, 9, spread, forbidden=0.15)
    vector = torch.randn(scores.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    ours = OPERATORS.evaluate([scores], lengths, [single_root])
    (product,) = OPERATORS.hvp([scores], lengths, [vector], [single_root])
    with plain_torch():
        plain = OPERATORS.evaluate([scores], lengths, [single_root])
        (plain_product,) = OPERATORS.hvp([scores], lengths, [vector], [single_root])
    torch.testing.assert_close(ours[0], plain[0], atol=1e-10, rtol=1e-12)
    torch.testing.assert_close(ours[1][0], plain[1][0], atol=1e-10, rtol=0)
    torch.testing.assert_close(product, plain_product, atol=1e-9, rtol=0)


@one_root_or_several
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("n", [0, 1, 3, 12, 30])
def test_best_trees_ties_included(n: int, ties: bool, single_root: bool) -> None:
    scores, lengths = random_arcs(n, 20, 2.0, forbidden=0.3)
    scores = scores.round() if ties else scores
    ours = OPERATORS.argmax([scores], lengths, [single_root])
    with plain_torch():
        plain = OPERATORS.argmax([scores], lengths, [single_root])
    torch.testing.assert_close(ours, plain)


@one_root_or_several
def test_a_weak_root_and_strong_cycles_lose_no_digits(single_root: bool) -> None:
    # A cycle over all words, and a root that is e^-300 weaker: in doubles its determinant would cancel to nothing.
    n = 40
    scores = torch.full((n, n + 1), -40.0, dtype=torch.float64)
    scores[:, 0] = -300.0
    scores[torch.arange(n), (torch.arange(n) + 1) % n + 1] = 40.0
    trees = NonProjectiveDependencyCRF(scores, single_root=single_root)
    marginals = trees.marginals()
    # By symmetry every word is the root equally often.
    torch.testing.assert_close(marginals[:, 0], torch.full((n,), 1 / n, dtype=torch.float64), atol=1e-12, rtol=0)
    torch.testing.assert_close(marginals.sum(-1), torch.ones(n, dtype=torch.float64), atol=1e-12, rtol=0)


def test_the_number_of_threads_changes_nothing() -> None:
    scores, lengths = random_arcs(25, 40, 1.0, forbidden=0.1)
    found = []
    before = torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            value, parts = OPERATORS.evaluate([scores], lengths, [0])
            found.append((value, *parts, OPERATORS.argmax([scores], lengths, [1])))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


@one_root_or_several
def test_sentences_that_doubles_cannot_answer_are_answered_beside_the_others(single_root: bool) -> None:
    scores, lengths = random_arcs(8, 6, 1.0, forbidden=0.0)
    lengths[:] = 8
    scores[1::2] *= 2000.0

    def values(scores: Tensor, lengths: Tensor) -> list[Tensor]:
        scores = scores.nan_to_num(neginf=0.0).requires_grad_()
        trees = NonProjectiveDependencyCRF(scores, lengths, single_root=single_root)
        marginals, log_partition = trees.marginals(), trees.log_partition()
        gradients = [
            torch.autograd.grad(loss, scores, retain_graph=True)[0]
            for loss in (log_partition.sum(), log_partition.sum(), marginals.square().sum())
        ]
        return [marginals.detach(), log_partition.detach(), *gradients]

    together = values(scores, lengths)
    with plain_torch():
        plain = values(scores, lengths)
    for got, wanted in zip(together, plain, strict=True):
        torch.testing.assert_close(got, wanted, atol=1e-9, rtol=1e-9)
