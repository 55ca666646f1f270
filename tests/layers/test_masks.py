"""One meaning of a mask in every layer, pooler and scorer, whatever the type of its numbers."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from attention_layers import DIM, LAYERS
from structattn.layers import (
    ChainScorer,
    CrossAttention,
    DependencyScorer,
    SegmentationScorer,
    SpanScorer,
    WindowAttention,
)

TYPES = [torch.int64, torch.int32, torch.uint8, torch.float32, torch.float16]
Ask = Callable[[nn.Module, Tensor, Tensor], Tensor]
# Those that take states and a mask but are no layer: how to make one, and a result in which the mask counts.
DIRECT: dict[str, tuple[Callable[[], nn.Module], Ask]] = {
    "scorer of heads": (
        lambda: DependencyScorer(DIM),
        lambda scorer, states, mask: scorer(torch.cat([states[:, :1], states], 1), mask).marginals(),
    ),
    "scorer of spans": (lambda: SpanScorer(DIM), lambda scorer, states, mask: scorer(states, mask).marginals()),
    "scorer of segments": (
        lambda: SegmentationScorer(DIM),
        lambda scorer, states, mask: scorer(states, mask).marginals(),
    ),
    "scorer of facts": (
        lambda: ChainScorer(DIM, 2),
        lambda scorer, states, mask: scorer(states, mask, states[:, 0]).marginals(),
    ),
    "cross attention": (
        lambda: CrossAttention(DIM, 2),
        lambda layer, states, mask: layer(states, layer.source(states, mask))[0],
    ),
    "window": (
        lambda: WindowAttention(DIM),
        lambda layer, states, mask: layer(states, mask, queries=states)[0],
    ),
}
CASES: dict[str, tuple[Callable[[], nn.Module], Ask]] = {
    **{name: (make, lambda layer, states, mask: layer(states, mask)[0]) for name, make in LAYERS.items()},
    **DIRECT,
}
every_case = pytest.mark.parametrize("name", CASES)
MASK = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])


def build(name: str) -> tuple[nn.Module, Ask, Tensor]:
    torch.manual_seed(0)
    make, ask = CASES[name]
    return make().eval(), ask, torch.randn(2, 4, DIM)


@every_case
def test_zeros_and_ones_of_any_type_are_a_mask(name: str) -> None:
    layer, ask, states = build(name)
    expected = ask(layer, states, MASK.bool())
    assert not torch.equal(expected, ask(layer, states, torch.ones_like(MASK).bool()))
    for dtype in TYPES:
        assert torch.equal(ask(layer, states, MASK.to(dtype)), expected)


@every_case
@pytest.mark.parametrize("wrong", [2, -1, 0.5, float("nan")])
def test_other_numbers_are_refused_by_name(name: str, wrong: float) -> None:
    layer, ask, states = build(name)
    mask = MASK.float()
    mask[1, 3] = wrong
    with pytest.raises(ValueError, match=rf": mask: expected True or 1 .* got {wrong}"):
        ask(layer, states, mask)


@pytest.mark.parametrize("name", ["scorer of heads", "scorer of spans", "scorer of segments"])
def test_a_scorer_refuses_a_mask_with_holes(name: str) -> None:
    scorer, ask, states = build(name)
    message = r"mask: expected words first and padding after them, got \[1, 0, 1, 0\]; StructuredAttention"
    with pytest.raises(ValueError, match=message):
        ask(scorer, states, torch.tensor([[1, 1, 1, 1], [1, 0, 1, 0]]))


@pytest.mark.parametrize("name", LAYERS)
def test_states_of_another_precision_are_refused_by_name(name: str) -> None:
    layer, ask, states = build(name)
    if not list(layer.parameters()):
        return
    with pytest.raises(ValueError, match=r"states of shape \(2, 4, 8\) and type torch.float64: expected torch.float32"):
        ask(layer, states.double(), MASK)
