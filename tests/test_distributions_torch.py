"""How structured distributions live with torch: graphs, transforms, ``torch.distributions``; and what they refuse."""

import doctest
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.distributions import kl_divergence

from structattn.distributions import (
    ConstituencyCRF,
    DependencyCRF,
    LinearChainCRF,
    NonProjectiveDependencyCRF,
    SemiMarkovCRF,
)
from structures_by_hand import FAMILIES, Family

every_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)


# sizes, and number of scores, for two words
KERNELS = {
    "chain": ([2, 3, 1], 15),
    "segments": ([2, 2, 2], 16),
    "dependency": ([2, 1], 6),
    "spanning_tree": ([2, 0], 6),
    "constituency": ([2], 9),
}


class Marginals(torch.nn.Module):
    def __init__(self, family: Family) -> None:
        super().__init__()
        self.family = family

    def forward(self, *potentials: Tensor) -> Tensor:
        return self.family.build(*potentials, validate_args=False).marginals()


@every_family
def test_export_keeps_one_node(family: Family) -> None:
    potentials = tuple(family.random(4, 2, seed=0))
    program = torch.export.export(Marginals(family), potentials)
    nodes = [str(node.target) for node in program.graph.nodes if "structattn" in str(node.target)]
    assert len(nodes) == 1
    assert "_marginals" in nodes[0]
    torch.testing.assert_close(program.module()(*potentials), Marginals(family)(*potentials))


@pytest.mark.parametrize("kernel", KERNELS)
def test_torch_finds_the_operators_sound(kernel: str) -> None:
    # Schema, fake kernel, autograd registration, and the compiled (aot) graph against the eager one.
    scores, lengths, sizes = (
        torch.randn(2, KERNELS[kernel][1], dtype=torch.float64),
        torch.tensor([2, 1]),
        KERNELS[kernel][0],
    )
    for name, count in (("marginals", 1), ("hvp", 2)):
        tensors = [torch.randn_like(scores).requires_grad_() for _ in range(count)]
        operator = getattr(torch.ops.structattn, f"{kernel}_{name}").default
        torch.library.opcheck(operator, (tensors[0], lengths, *tensors[1:], sizes))


@every_family
def test_a_mapped_axis_is_a_batch_axis(family: Family) -> None:
    potentials = family.random(4, 3, 2, seed=1)
    mapped = torch.vmap(Marginals(family), in_dims=tuple(None if p.dim() == 2 else 0 for p in potentials))
    torch.testing.assert_close(mapped(*potentials), Marginals(family)(*potentials))


# torch's own forward mode still scripts a few decompositions when it is first used.
@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")
def test_forward_mode_is_refused_and_not_silently_zero() -> None:
    scores = torch.randn(3, 4)
    with pytest.raises(NotImplementedError, match="forward-mode"):
        torch.func.jvp(lambda s: DependencyCRF(s).log_partition(), (scores,), (scores,))


def test_each_call_has_its_own_graph() -> None:
    scores = torch.randn(3, 4, requires_grad=True)
    ours = DependencyCRF(scores)
    ours.log_partition().backward()
    ours.entropy().backward()
    ours.marginals().square().sum().backward()
    assert scores.grad is not None


@every_family
def test_a_batch_may_be_empty(family: Family) -> None:
    ours = family.build(*family.random(3, 0))
    assert ours.log_partition().shape == ours.entropy().shape == (0,)
    assert ours.marginals().shape == ours.argmax().shape == (0, *ours.event_shape)
    assert ours.log_prob(ours.sample((2,))).shape == (2, 0)


def test_it_is_a_distribution_of_torch() -> None:
    ours = NonProjectiveDependencyCRF(torch.randn(2, 3, 4))
    assert isinstance(ours, torch.distributions.Distribution)
    assert (ours.batch_shape, ours.event_shape) == (torch.Size([2]), torch.Size([3, 4]))
    torch.testing.assert_close(ours.mean, ours.marginals())
    torch.testing.assert_close(ours.mode, ours.argmax())
    assert "NonProjectiveDependencyCRF" in repr(ours)


def test_chains_with_shared_and_with_single_matrices_can_be_compared() -> None:
    unary, transition = torch.randn(4, 2), torch.randn(2, 2)
    shared, single = LinearChainCRF(unary, transition), LinearChainCRF(unary, transition.expand(3, 2, 2))
    torch.testing.assert_close(kl_divergence(shared, single), torch.tensor(0.0), atol=1e-6, rtol=0)
    torch.testing.assert_close(shared.edge_marginals(), single.edge_marginals())
    torch.testing.assert_close(shared.cross_entropy(single), single.entropy())


def test_edges_agree_with_states() -> None:
    ours = LinearChainCRF(torch.randn(2, 5, 3), torch.randn(3, 3), torch.tensor([5, 3]))
    edges, states = ours.edge_marginals(), ours.marginals()
    torch.testing.assert_close(edges[0].sum(-1), states[0, :-1])
    torch.testing.assert_close(edges[0].sum(-2), states[0, 1:])
    assert (edges[1, 2:] == 0).all()


REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: DependencyCRF(torch.zeros(2, 3, 3)), r"scores of shape \(2, 3, 3\): expected \(\.\.\., n, n \+ 1\)"),
    (lambda: ConstituencyCRF(torch.zeros(3, 4)), r"scores of shape \(3, 4\): expected \(\.\.\., n \+ 1, n \+ 1\)"),
    (lambda: SemiMarkovCRF(torch.zeros(3, 2, 2, 3)), r"scores of shape \(3, 2, 2, 3\)"),
    (lambda: LinearChainCRF(torch.zeros(4, 2), torch.zeros(3, 3)), r"transition of shape \(3, 3\): expected \(2, 2\)"),
    (lambda: LinearChainCRF(torch.zeros(4, 2), torch.zeros(2, 2, 2)), r"expected \(2, 2\) or \(3, 2, 2\)"),
    (lambda: DependencyCRF(torch.zeros(2, 3, 4), torch.tensor([3, 4])), "between 3 and 4: expected 0 to 3"),
    (lambda: DependencyCRF(torch.zeros(2, 3, 4), torch.tensor([-1, 4])), "between -1 and 4"),
    (lambda: DependencyCRF(torch.zeros(2, 3, 4), torch.tensor([1, 2, 3])), r"lengths of shape \(3,\).* shape \(2,\)"),
    (lambda: DependencyCRF(torch.zeros(2, 3, 4), torch.tensor([1.0, 2.0])), "lengths have type torch.float32"),
    (lambda: DependencyCRF(torch.full((3, 4), torch.nan)), "9 of 12 scores are nan"),
    (lambda: DependencyCRF(torch.full((3, 4), torch.inf)), r"\+inf"),
    (lambda: DependencyCRF(torch.zeros(3, 4)).topk(k=0), "topk of 0: expected at least 1"),
    (
        lambda: DependencyCRF(torch.zeros(3, 4)).log_prob(torch.zeros(4, 4)),
        r"parts of shape \(4, 4\): expected \(3, 4\)",
    ),
    (lambda: DependencyCRF(torch.zeros(3, 4)).log_prob(torch.zeros(3, 4)), "1 of 1 items are no structure"),
    (lambda: DependencyCRF(torch.zeros(3, 4)).cross_entropy(DependencyCRF(torch.zeros(2, 3))), "cannot be compared"),
    (
        lambda: kl_divergence(DependencyCRF(torch.zeros(2, 3)), NonProjectiveDependencyCRF(torch.zeros(2, 3))),
        "DependencyCRF with parts .* cannot be compared with NonProjectiveDependencyCRF",
    ),
    (
        lambda: SemiMarkovCRF(torch.zeros(4, 2, 1, 1)).from_structure(torch.tensor([[0, 4, 0]])),
        "a segment has 4 words: expected at most 2",
    ),
]


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_what_is_refused_and_why(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    ("kind", "heads"),
    [
        (DependencyCRF, [2, 1, 0, 0]),  # a cycle
        (DependencyCRF, [3, 4, 0, 0]),  # crossing arcs
        (NonProjectiveDependencyCRF, [2, 3, 1, 0]),
    ],
)
def test_what_is_no_tree_has_no_probability(kind: type[DependencyCRF], heads: list[int]) -> None:
    ours = kind(torch.zeros(4, 5))
    with pytest.raises(ValueError, match="no structure"):
        ours.log_prob(ours.from_structure(torch.tensor(heads)))
    crossing = NonProjectiveDependencyCRF(torch.zeros(4, 5))
    assert torch.isfinite(crossing.log_prob(crossing.from_structure(torch.tensor([3, 4, 0, 0]))))


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


def test_the_worked_example_of_the_page_runs() -> None:
    page = Path(__file__).parent.parent / "docs" / "distributions.md"
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    test = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, page.name, str(page), 0)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    runner.run(test)
    assert len(test.examples) > 10
    assert runner.failures == 0
