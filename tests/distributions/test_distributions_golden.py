"""Numbers worked out elsewhere: small chains and trees whose potentials come from ``f(a, b, k)``, to six digits."""

import math

import pytest
import torch
from torch import Tensor

from structattn.distributions import (
    AlignmentCRF,
    ConstituencyCRF,
    DependencyCRF,
    LinearChainCRF,
    NonProjectiveDependencyCRF,
    StructuredDistribution,
    WarpingCRF,
)
from structattn.kernels import cky, eisner, forward_backward, matrix_tree, semi_markov
from structattn.kernels.dual_numbers import make_dual
from structattn.kernels.matrix_tree import sum_trees
from structures_by_hand import delannoy


def f(a: int, b: int, k: int) -> float:
    return (((a * k + b * (k + 2)) % 7) - 3) / 2


def chain(n: int, states: int) -> LinearChainCRF:
    unary = [[f(i + 1, c + 1, 3) for c in range(states)] for i in range(n)]
    transition = [[f(a + 1, b + 1, 2) for b in range(states)] for a in range(states)]
    return LinearChainCRF(torch.tensor(unary).double(), torch.tensor(transition).double())


def arcs(n: int) -> Tensor:
    return torch.tensor([[f(head, word, 3) for head in range(n + 1)] for word in range(1, n + 1)]).double()


def phrases(n: int) -> ConstituencyCRF:
    # The reference scores the closed span i..j; here spans are half-open.
    return ConstituencyCRF(torch.tensor([[f(i + 1, j, 3) for j in range(n + 1)] for i in range(n + 1)]).double())


def close(actual: Tensor, expected: object) -> None:
    torch.testing.assert_close(actual, torch.tensor(expected).double(), atol=6e-7, rtol=0)


def test_chain_of_four_words_and_two_states() -> None:
    ours = chain(4, 2)
    close(ours.log_partition(), 4.840628)
    close(ours.entropy(), 1.859801)
    close(ours.marginals()[:, 1], [0.797439, 0.631923, 0.767716, 0.578866])
    close(ours.edge_marginals()[0], [[0.184038, 0.018523], [0.184038, 0.613400]])
    assert ours.to_structure(ours.topk(3)).tolist() == [[1, 1, 1, 1], [1, 1, 1, 0], [0, 0, 0, 0]]
    close(ours.topk_scores(3), [4.0, 3.0, 2.5])


def test_chain_of_three_words_and_three_states() -> None:
    ours = chain(3, 3)
    close(ours.log_partition(), 4.589900)
    close(ours.entropy(), 1.788477)
    expected = [[0.127549, 0.730099, 0.142352], [0.326362, 0.642650, 0.030988], [0.092124, 0.820531, 0.087345]]
    close(ours.marginals(), expected)
    best = ours.to_structure(ours.topk(3)).tolist()
    assert best[0] == [1, 1, 1]
    assert sorted(best[1:]) == [[0, 0, 1], [1, 0, 1]]
    close(ours.topk_scores(3), [4.0, 2.0, 2.0])


TREES = [
    (DependencyCRF, 3, False, 12, 3.850296, 1.679993, [[0, 1, 1], [0, 3, 1], [0, 1, 0]]),
    (DependencyCRF, 3, True, 7, 3.626842, 1.148116, [[0, 1, 1], [0, 3, 1], [0, 1, 2]]),
    (NonProjectiveDependencyCRF, 3, False, 16, 3.995238, 1.950557, [[0, 1, 1], [0, 3, 1]]),
    (NonProjectiveDependencyCRF, 3, True, 9, 3.697889, 1.325509, [[0, 1, 1], [0, 3, 1]]),
    (DependencyCRF, 4, False, 55, 7.218121, 2.979548, [[0, 1, 4, 0]]),
    (DependencyCRF, 4, True, 30, 6.418564, 2.489614, [[0, 1, 4, 2]]),
    (NonProjectiveDependencyCRF, 4, False, 125, 7.410934, 3.480290, [[0, 1, 4, 0]]),
    (NonProjectiveDependencyCRF, 4, True, 64, 6.630249, 2.906613, [[0, 1, 4, 2]]),
]


@pytest.mark.parametrize(("kind", "n", "single_root", "count", "log_partition", "entropy", "best"), TREES)
def test_dependency_trees(
    kind: type[StructuredDistribution],
    n: int,
    single_root: bool,
    count: int,
    log_partition: float,
    entropy: float,
    best: list[list[int]],
) -> None:
    ours = kind(arcs(n), single_root=single_root)
    assert round(ours.log_count().exp().item()) == count
    close(ours.log_partition(), log_partition)
    close(ours.entropy(), entropy)
    assert ours.to_structure(ours.topk(len(best))).tolist() == best


def test_arcs_from_the_root_and_all_arcs() -> None:
    def from_root(kind: type[StructuredDistribution], single_root: bool) -> Tensor:
        return kind(arcs(3), single_root=single_root).marginals()[:, 0]

    close(from_root(DependencyCRF, False), [0.931624, 0.054906, 0.234991])
    close(from_root(DependencyCRF, True), [0.930637, 0.009786, 0.059577])
    close(from_root(NonProjectiveDependencyCRF, False), [0.888398, 0.182426, 0.204795])
    close(from_root(NonProjectiveDependencyCRF, True), [0.866813, 0.077696, 0.055491])
    by_head = DependencyCRF(arcs(3)).marginals().T[1:]
    close(by_head, [[0, 0.588283, 0.686452], [0.055803, 0, 0.078556], [0.012573, 0.356812, 0]])
    by_head = DependencyCRF(arcs(4)).marginals().T
    expected = [
        [0.695791, 0.114434, 0.039276, 0.775486],
        [0, 0.534669, 0.168088, 0.056656],
        [0.124441, 0, 0.026531, 0.155179],
        [0.025760, 0.318281, 0, 0.012679],
        [0.154008, 0.032616, 0.766106, 0],
    ]
    close(by_head, expected)


def test_gradient_through_the_marginals_is_the_covariance() -> None:
    scores = arcs(3).requires_grad_()
    weights = torch.tensor([[((head + 2 * word) % 3) - 1 for head in range(4)] for word in range(1, 4)]).double()
    ours = DependencyCRF(scores)
    loss = (ours.marginals() * weights).sum()
    close(loss, 1.376045)
    loss.backward()
    assert scores.grad is not None
    expected = [
        [0.126413, -0.054823, -0.268169],
        [0, 0.321722, 0.169152],
        [-0.116938, 0, 0.099017],
        [-0.009475, -0.266899, 0],
    ]
    close(scores.grad.T, expected)
    everything = DependencyCRF(scores.detach())
    trees = everything.topk(12).flatten(1)
    p = everything.log_prob(everything.topk(12)).exp()
    inner = trees @ weights.flatten()
    covariance = (p * inner) @ trees - (p @ trees) * (p @ inner)
    torch.testing.assert_close(scores.grad.flatten(), covariance, atol=1e-14, rtol=0)


@pytest.mark.parametrize(
    ("n", "log_partition", "entropy"), [(3, 0.548587, 0.190865), (4, 0.899003, 1.043111), (5, 2.112659, 1.985559)]
)
def test_phrase_trees(n: int, log_partition: float, entropy: float) -> None:
    close(phrases(n).log_partition(), log_partition)
    close(phrases(n).entropy(), entropy)


def test_phrase_marginals() -> None:
    spans = phrases(4).marginals()
    picked = torch.stack([spans[0, 2], spans[0, 3], spans[1, 3], spans[1, 4], spans[2, 4]])
    close(picked, [0.820707, 0.704396, 0.088485, 0.145887, 0.240526])


def pairs(queries: int, keys: int) -> Tensor:
    return torch.tensor([[f(i + 1, j + 1, 3) for j in range(keys)] for i in range(queries)]).double()


def test_alignment_of_two_queries_and_three_keys() -> None:
    ours = AlignmentCRF(pairs(2, 3))
    close(ours.log_partition(), 2.423199)
    close(ours.entropy(), 1.818202)
    close(ours.marginals(), [[0.059662, 0.485884, 0.146139], [0.146139, 0.073539, 0.115691]])
    assert ours.to_structure(ours.argmax()).tolist() == [[0, 1], [-1, -1]]


def test_warping_of_two_queries_and_three_keys() -> None:
    ours = WarpingCRF(pairs(2, 3))
    close(ours.log_partition(), 0.284737)
    close(ours.marginals(), [[1, 0.900804, 0.456240], [0.061745, 0.267037, 1]])
    assert ours.to_structure(ours.topk(2)).tolist() == [
        [[0, 0], [0, 1], [0, 2], [1, 2]],
        [[0, 0], [0, 1], [1, 2], [-1, -1]],
    ]


def test_as_many_alignments_as_shuffles_and_paths_as_delannoy_numbers() -> None:
    queries, keys = torch.meshgrid(torch.arange(9), torch.arange(9), indexing="ij")
    shape = torch.zeros(9, 9, 8, 8, dtype=torch.float64)
    alignments = AlignmentCRF(shape, queries, keys).log_count().exp()
    warpings = WarpingCRF(shape, queries, keys).log_count().exp()
    for n in range(9):
        for m in range(9):
            close(alignments[n, m] / math.comb(n + m, n), 1)
            expected = delannoy(n - 1, m - 1) if n and m else int(n == m)
            close(warpings[n, m], expected) if not expected else close(warpings[n, m] / expected, 1)


def test_soft_dtw_is_a_log_partition_and_its_gradient_are_marginals() -> None:
    """The recursion of Cuturi and Blondel (2017), algorithm 1, cell by cell."""
    gamma = 0.7
    cost = torch.randn(4, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64).square().requires_grad_()
    path = [[torch.tensor(0.0 if i == j == 0 else torch.inf).double() for j in range(7)] for i in range(5)]
    for i in range(1, 5):
        for j in range(1, 7):
            before = torch.stack([path[i - 1][j], path[i][j - 1], path[i - 1][j - 1]])
            path[i][j] = cost[i - 1, j - 1] - gamma * (-before / gamma).logsumexp(0)
    ours = WarpingCRF(-cost / gamma)
    torch.testing.assert_close(-gamma * ours.log_partition(), path[4][6])
    (gradient,) = torch.autograd.grad(path[4][6], cost)
    torch.testing.assert_close(ours.marginals(), gradient)


def test_a_chain_without_transitions_is_independent_softmaxes() -> None:
    unary = torch.randn(2, 6, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    ours = LinearChainCRF(unary, torch.zeros(2, 2).double())
    torch.testing.assert_close(ours.marginals(), unary.softmax(-1))
    torch.testing.assert_close(ours.marginals()[..., 1], (unary[..., 1] - unary[..., 0]).sigmoid())


def test_the_hessian_product_of_each_kernel_is_the_gradient_of_its_marginals() -> None:
    generator = torch.Generator().manual_seed(0)
    lengths = torch.tensor([3, 2])

    def random(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    inputs = {
        eisner.OPERATORS: ([random(2, 3, 4)], [0]),
        matrix_tree.OPERATORS: ([random(2, 3, 4)], [1]),
        cky.OPERATORS: ([random(2, 4, 4)], []),
        semi_markov.OPERATORS: ([random(2, 3, 2, 2, 2)], []),
        forward_backward.OPERATORS: ([random(2, 3, 2), random(2, 2, 2)], []),
    }
    for operators, (scores, options) in inputs.items():
        if scores[0].shape[1:] == (3, 4):
            scores[0][1, 2:] = scores[0][1, :, 3:] = -torch.inf
            scores[0][:, range(3), range(1, 4)] = -torch.inf
        vectors = [random(*array.shape) for array in scores]
        leaves = [array.requires_grad_() for array in scores]
        _, parts = operators.evaluate(leaves, lengths, options)
        loss = sum((own * vector).sum() for own, vector in zip(parts, vectors, strict=True))
        gradients = torch.autograd.grad(loss, leaves)
        for ours, gradient in zip(operators.hvp(leaves, lengths, vectors, options), gradients, strict=True):
            torch.testing.assert_close(ours, gradient)


def by_inverse(weights: Tensor, lengths: Tensor, *, single_root: bool) -> tuple[Tensor, Tensor]:
    """Koo et al. (2007), sections 3.1 and 3.2: the log-determinant of the Laplacian, and marginals from its inverse."""
    raised, words = weights.exp(), weights.shape[-1]
    root, arcs = raised[:, :1], raised[:, 1:]
    laplacian = torch.diag_embed(raised.sum(-2)) - arcs
    if single_root:
        laplacian = torch.cat([root, (torch.diag_embed(arcs.sum(-2)) - arcs)[:, 1:]], 1)
    laplacian = laplacian + torch.diag_embed((torch.arange(words) >= lengths[:, None]).double())
    inverse = laplacian.inverse()
    own = inverse.diagonal(dim1=-2, dim2=-1).unsqueeze(-2)
    if not single_root:
        return laplacian.logdet(), raised * torch.cat([own, own - inverse.mT], -2)
    first = torch.arange(words) == 0
    others = own.masked_fill(first, 0) - inverse.mT.masked_fill(first[:, None], 0)
    return laplacian.logdet(), raised * torch.cat([inverse[..., :1].mT, others], -2)


@pytest.mark.parametrize("single_root", [False, True])
@pytest.mark.parametrize("forbidden", [0.0, 0.2])
def test_elimination_and_inverse_agree_where_both_are_safe(single_root: bool, forbidden: float) -> None:
    generator = torch.Generator().manual_seed(0)
    n, lengths = 8, torch.tensor([8, 5, 1, 0, 7, 8])
    weights, direction = torch.randn(2, 6, n + 1, n, generator=generator, dtype=torch.float64)
    weights = weights.masked_fill(torch.rand(weights.shape, generator=generator) < forbidden, -torch.inf)
    weights[:, range(1, n + 1), range(n)] = -torch.inf
    for item, length in enumerate(lengths.tolist()):
        weights[item, :, length:] = weights[item, length + 1 :] = -torch.inf

    def inverse(weights: Tensor) -> tuple[Tensor, Tensor]:
        return by_inverse(weights, lengths, single_root=single_root)

    values, parts = sum_trees(make_dual(weights, direction), lengths, single_root=single_root)
    feasible = values[0] > -torch.inf
    log_partition, marginals = inverse(weights)
    finite = weights.masked_fill(weights == -torch.inf, -700)  # e^-700 is lost beside the others
    direction = direction.masked_fill(weights == -torch.inf, 0)
    steps = (inverse(finite + sign * 1e-6 * direction)[1] for sign in (1, -1))
    product = (next(steps) - next(steps)) / 2e-6
    torch.testing.assert_close(log_partition[feasible], values[0][feasible], atol=1e-11, rtol=0)
    torch.testing.assert_close(marginals[feasible], parts[0][feasible], atol=1e-12, rtol=0)
    torch.testing.assert_close(product[feasible], parts[1][feasible], atol=1e-7, rtol=0)
