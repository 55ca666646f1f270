"""Every attention layer in a graph: compiled, exported, on the meta device, and without a look at any number."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._dynamo.testing
from torch import Tensor, nn

import structattn as sa
from attention_layers import DIM, LAYERS, LONG, MIDDLE, ON_TREES, SHORT, VOCABULARY
from refusing import refuse_numbers

BUILDERS: dict[str, Callable[[], nn.Module]] = {**LAYERS, **{name: build for name, (_, build) in ON_TREES.items()}}
# In the first no two sizes are the same: torch takes equal ones for one.
BATCHES = [[LONG, SHORT, MIDDLE], [MIDDLE, SHORT, LONG, MIDDLE], [MIDDLE, SHORT]]
every_layer = pytest.mark.parametrize("name", BUILDERS)
EXPORTED_SOON = {"directional"}
slowly = pytest.mark.slow
# What no encoder of test_encoder_graphs has; the others trace what these and the encoders do, or more of it.
COMPILED_SOON = {"projective heads", "phrases", "source2token"}
CALLS = [pytest.param(name, "batch", marks=() if name in COMPILED_SOON else slowly) for name in BUILDERS]
CALLS += [
    pytest.param(name, "mask", marks=() if name in ("multi-head", "source2token") else slowly)
    for name in ("multi-head", "projective heads", "segments", "phrases", "source2token")
]


def layer_of(name: str) -> nn.Module:
    torch.manual_seed(3)
    return BUILDERS[name]()


def inputs(name: str, sentences: list[sa.Sentence]) -> tuple[Tensor, sa.SentenceBatch]:
    batch = sa.collate(sentences, VOCABULARY)
    mask = batch.constituency.mask if name == "tree attention" else batch.mask
    return torch.randn(*mask.shape, DIM, generator=torch.Generator().manual_seed(0)), batch


def answer_and_gradients(function: Callable[..., Any], layer: nn.Module, states: Tensor, *given: Any) -> list[Tensor]:
    layer.zero_grad()
    states = states.clone().requires_grad_()
    output, weights = function(states, *given, need_weights=True)
    (output * torch.linspace(-1, 1, output.shape[-1])).sum().backward()
    found = [parameter.grad for parameter in layer.parameters() if parameter.grad is not None]
    return [output.detach(), weights.detach(), states.grad, *(gradient.clone() for gradient in found)]


@pytest.mark.parametrize(("name", "by"), CALLS)
def test_one_graph_has_the_same_answers_and_gradients_at_every_length(name: str, by: str) -> None:
    layer = layer_of(name)
    counter = torch._dynamo.testing.CompileCounterWithBackend("eager")
    torch._dynamo.reset()
    compiled = torch.compile(layer, fullgraph=True, dynamic=True, backend=counter)
    for sentences in BATCHES:
        states, batch = inputs(name, sentences)
        given = batch.in_graph() if by == "batch" else batch.mask
        expected = answer_and_gradients(layer, layer, states, batch)
        torch.testing.assert_close(answer_and_gradients(compiled, layer, states, given), expected, atol=2e-6, rtol=1e-4)
    assert counter.frame_count == 1


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in EXPORTED_SOON else slowly) for name in BUILDERS]
)
def test_a_program_that_is_exported_gives_the_same_answers(name: str, tmp_path: Path) -> None:
    layer = layer_of(name).eval()
    first, *others = (inputs(name, sentences) for sentences in BATCHES)
    shapes = [dict.fromkeys(range(own.dim()), torch.export.Dim.AUTO) for own in torch.utils._pytree.tree_leaves(first)]
    with torch.no_grad():
        program = torch.export.export(layer, first, dynamic_shapes=(shapes[0], shapes[1:]))
        program.example_inputs = None
        torch.export.save(program, tmp_path / "layer.pt2")
        loaded = torch.export.load(tmp_path / "layer.pt2").module()
        for states, batch in (first, *others):
            torch.testing.assert_close(loaded(states, batch)[0], layer(states, batch)[0], atol=2e-6, rtol=1e-4)


@every_layer
def test_on_the_meta_device_there_are_shapes_and_gradients(name: str) -> None:
    layer, (states, batch) = layer_of(name), inputs(name, BATCHES[0])
    expected = layer(states, batch, need_weights=True)
    states = states.to("meta").requires_grad_()
    found = layer.to("meta")(states, batch.to("meta"), need_weights=True)
    for own, other in zip(found, expected, strict=True):
        assert own.is_meta
        assert (own.shape, own.dtype) == (other.shape, other.dtype)
    found[0].sum().backward()
    assert states.grad is not None


@every_layer
def test_nothing_waits_for_an_accelerator(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    layer = layer_of(name).eval()
    states, batch = inputs(name, BATCHES[0])
    expected = layer(states, batch, need_weights=True)
    states, batch = inputs(name, BATCHES[0])
    refuse_numbers(monkeypatch)
    found = layer(states, batch, need_weights=True)
    monkeypatch.undo()
    for own, other in zip(found, expected, strict=True):
        torch.testing.assert_close(own, other)
