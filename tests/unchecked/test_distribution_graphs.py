"""Distributions in graphs: compiled, exported and on the meta device, one node for each question."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.distributions import kl_divergence

from structattn.distributions import DependencyCRF, StructuredDistribution
from structattn.testing import Family
from structures_by_hand import FAMILIES

every_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)

QUESTIONS: dict[str, Callable[[StructuredDistribution], Tensor]] = {
    "log_partition": lambda ours: ours.log_partition(),
    "marginals": lambda ours: ours.marginals(),
    "entropy": lambda ours: ours.entropy(),
    "argmax": lambda ours: ours.argmax(),
    "topk": lambda ours: ours.topk(3),
    "sample": lambda ours: ours.sample(2),
}
OTHERS: dict[str, Callable[[StructuredDistribution], Tensor]] = {
    "topk_scores": lambda ours: ours.topk_scores(2),
    "log_count": lambda ours: ours.log_count(),
    "divergence": lambda ours: kl_divergence(ours, ours.expand((2, 3))),
    "log_prob": lambda ours: ours.log_prob(ours.to_structure(ours.argmax())),
    "variance": lambda ours: ours.variance,
    "there and back": lambda ours: ours.from_structure(ours.to_structure(ours.argmax())),
}


class Answers(torch.nn.Module):
    """Answers to some questions."""

    def __init__(self, family: Family, questions: dict[str, Callable[[StructuredDistribution], Tensor]]) -> None:
        super().__init__()
        self.family, self.questions = family, questions

    def forward(self, *arguments: Tensor) -> tuple[Tensor, ...]:
        ours = self.family.build(*arguments)
        return tuple(question(ours) for question in self.questions.values())


def inputs(family: Family) -> tuple[Tensor, ...]:
    return *family.random_scores(5, 3, seed=1), torch.tensor([5, 3, 0])


def nodes(graph: Any) -> list[str]:
    return [str(node.target).split(".")[1] for node in graph.nodes if str(node.target).startswith("structattn")]


def seeded(function: Callable[..., Any], arguments: tuple[Tensor, ...]) -> Any:
    torch.manual_seed(0)
    return function(*arguments)


@every_family
def test_every_question_is_one_node_of_one_compiled_graph(family: Family) -> None:
    graphs = []

    def keep(module: torch.fx.GraphModule, _: Any) -> Any:
        graphs.append(module.graph)
        return module

    torch._dynamo.reset()
    answers = Answers(family, QUESTIONS)
    compiled = torch.compile(answers, fullgraph=True, backend=keep)
    torch.testing.assert_close(seeded(compiled, inputs(family)), seeded(answers, inputs(family)))
    assert len(graphs) == 1
    prefix = nodes(graphs[0])[0].rsplit("_", 1)[0]
    kinds = ["evaluate", "evaluate", "entropy", "argmax", "topk", "sample"]
    assert nodes(graphs[0]) == [f"{prefix}_{kind}" for kind in kinds]


@pytest.mark.skipif(torch.__version__ < "2.13", reason="PyTorch 2.10 cannot copy an object within a graph")
@pytest.mark.parametrize(
    "family",
    [pytest.param(family, marks=() if family.name == "projective" else pytest.mark.slow) for family in FAMILIES],
    ids=lambda family: family.name,
)
def test_everything_else_is_in_the_graph_too_and_gradients_come_through(family: Family) -> None:
    torch._dynamo.reset()
    answers = Answers(family, QUESTIONS | OTHERS)
    compiled = torch.compile(answers, fullgraph=True, backend="aot_eager")
    *scores, lengths = inputs(family)
    results = []
    for function in (compiled, answers):
        leaves = [own.clone().requires_grad_() for own in scores]
        found = seeded(function, (*leaves, lengths))
        loss = sum(own[own.isfinite()].square().sum() for own in found if own.requires_grad)
        results.append([own.detach() for own in (*found, *torch.autograd.grad(loss, leaves))])
    torch.testing.assert_close(*results)


@every_family
def test_sentences_of_other_lengths_need_no_other_graph(family: Family) -> None:
    counter = torch._dynamo.testing.CompileCounter()
    torch._dynamo.reset()
    compiled = torch.compile(
        lambda *scores: family.build(*scores).marginals(), fullgraph=True, dynamic=True, backend=counter
    )
    for words in (7, 8, 11, 13):
        scores = family.random_scores(words, 5, seed=words)
        torch.testing.assert_close(compiled(*scores), family.build(*scores).marginals())
    assert counter.frame_count == 1


@every_family
def test_a_program_that_is_exported_gives_the_same_answers(family: Family) -> None:
    answers = Answers(family, {name: ask for name, ask in QUESTIONS.items() if name != "sample"})
    program = torch.export.export(answers, inputs(family))
    assert len(nodes(program.graph)) == len(answers.questions)
    torch.testing.assert_close(program.module()(*inputs(family)), answers(*inputs(family)))


@every_family
def test_on_the_meta_device_there_are_shapes(family: Family) -> None:
    answers = Answers(family, QUESTIONS | OTHERS)
    without_numbers = answers(*(own.to("meta") for own in inputs(family)))
    for own, expected in zip(without_numbers, answers(*inputs(family)), strict=True):
        assert own.is_meta
        assert (own.shape, own.dtype) == (expected.shape, expected.dtype)
    leaves = [own.to("meta").requires_grad_() for own in family.random_scores(5, 3)]
    family.build(*leaves).marginals().sum().backward()
    assert leaves[0].grad is not None
    assert leaves[0].grad.shape == leaves[0].shape


@every_family
def test_nothing_waits_for_an_accelerator(family: Family, monkeypatch: pytest.MonkeyPatch) -> None:
    # Every way in which Python can look at a number of a tensor ends here.
    arguments = inputs(family)

    def refuse(*_: Any) -> Any:
        raise AssertionError("a number was read")

    monkeypatch.setattr(Tensor, "is_cpu", property(lambda _: False))
    for name in ("item", "tolist", "__bool__", "__int__", "__float__", "__index__", "nonzero", "numpy"):
        monkeypatch.setattr(Tensor, name, refuse)
    answers = Answers(family, QUESTIONS | OTHERS)(*arguments)
    monkeypatch.undo()
    for own, expected in zip(answers[:5], Answers(family, QUESTIONS)(*arguments)[:5], strict=True):
        torch.testing.assert_close(own, expected)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")
def test_forward_mode_interrupts_the_graph() -> None:
    """A node of a graph has no tangents, and torch takes what is missing for zero."""

    def function(scores: Tensor) -> Tensor:
        return DependencyCRF(scores).entropy()

    def tangent(called: Callable[[Tensor], Tensor]) -> Tensor | None:
        with forward_ad.dual_level():
            return forward_ad.unpack_dual(called(forward_ad.make_dual(scores, direction))).tangent

    scores, direction = torch.randn(2, 1, 2, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    expected = tangent(function)
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="eager")
    torch.testing.assert_close(compiled(scores), function(scores))  # this graph is not taken for one with tangents
    torch.testing.assert_close(tangent(compiled), expected)
    torch._dynamo.reset()
    with pytest.raises(RuntimeError, match="`disable`"):
        tangent(torch.compile(function, backend="eager", fullgraph=True))
