"""A model in double precision computes nothing in single precision."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import every_model
import structattn as sa
from attention_layers import DIM, HEADS, LAYERS, LONG, MIDDLE, ON_TREES, SHORT, VOCABULARY
from structattn.encoders.encoder_table import BUILDERS, needs_backbone
from structattn.layers import MultiHeadAttention
from structattn.priors import Forward, PerHead, WordDistance


class Rounded(TorchDispatchMode):
    """Operators whose results are rounded to single precision."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        results = func(*args, **(kwargs or {}))
        for result in tree_leaves(results):
            if not isinstance(result, Tensor) or not result.is_floating_point() or result.dtype == torch.float64:
                continue
            # Whole numbers and infinities are exact in any precision.
            if (result.isfinite() & (result != result.round())).any():
                self.names.add(func.name())
        return results


@pytest.fixture
def doubles() -> Iterator[None]:
    """New modules are in double precision."""
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(default)


@pytest.mark.parametrize("name", [*LAYERS, "dependency prior"])
def test_a_layer_made_in_double_precision_is_one_that_was_converted(name: str, doubles: None) -> None:
    """No number that is not learnt was rounded before."""
    build = LAYERS[name] if name in LAYERS else ON_TREES[name][1]
    torch.manual_seed(0)
    made = build().eval()
    torch.set_default_dtype(torch.float32)
    converted = build().double().eval()
    converted.load_state_dict(made.state_dict())
    batch = sa.collate([LONG, SHORT, MIDDLE], VOCABULARY)
    states = torch.randn(3, 4, DIM, dtype=torch.float64)
    torch.testing.assert_close(made(states, batch)[0], converted(states, batch)[0], atol=1e-14, rtol=1e-13)


@pytest.mark.parametrize("name", [name for name in BUILDERS if not needs_backbone(name)])
def test_an_encoder_made_in_double_precision_is_one_that_was_converted(
    name: str, tmp_path: Path, doubles: None
) -> None:
    made, batch = every_model.classifier(name, tmp_path)
    torch.set_default_dtype(torch.float32)
    converted = every_model.classifier(name, tmp_path)[0].double().eval()
    converted.load_state_dict(made.state_dict())
    first, second = (tree_leaves(model(batch)) for model in (made.eval(), converted))
    torch.testing.assert_close(first, second, atol=1e-14, rtol=1e-12)


@pytest.mark.parametrize("name", {**LAYERS, **ON_TREES})
def test_every_layer(name: str) -> None:
    torch.manual_seed(0)
    build = LAYERS[name] if name in LAYERS else ON_TREES[name][1]
    layer = build().double()
    batch = sa.collate([LONG, SHORT, MIDDLE], VOCABULARY)
    width = batch.require("constituency", wanted_by="a test").mask.shape[1] if name == "tree attention" else 4
    states = torch.randn(3, width, DIM, dtype=torch.float64, requires_grad=True)
    with Rounded() as rounded:
        output, _ = layer(states, batch)
        output.sum().backward()
    assert output.dtype == torch.float64
    assert not rounded.names


@pytest.mark.parametrize("name", BUILDERS)
def test_every_encoder(name: str, tmp_path: Path) -> None:
    model, batch = every_model.classifier(name, every_model.write_backbones(tmp_path))
    model = model.double().eval()
    with Rounded() as rounded:
        encoding = model(batch)
    assert encoding is not None
    assert not rounded.names


def test_factors_of_heads_are_those_of_the_precision() -> None:
    priors = PerHead([Forward() + 0.7 * WordDistance(), None])
    for dtype in (torch.float32, torch.float64, torch.float16, torch.float64):
        assert priors.to(dtype).factors[1, 0] == torch.tensor(0.7, dtype=dtype)
    layer = MultiHeadAttention(DIM, HEADS, priors)
    assert layer.double().prior.factors.dtype == torch.float64
