"""Every model trains in bfloat16 and float16: gradients are those of float32 but for rounding, and a loss scale too
large for float16 is noticed."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from every_model import MODELS, model_of
from structattn.tasks import TaskModel

# How far the gradient may turn: cosine with that of float32.
COSINES = {torch.bfloat16: 0.95, torch.float16: 0.995}
every_model = pytest.mark.parametrize("name", MODELS)


def scaled_loss(model: TaskModel, batch: Any, dtype: torch.dtype, scale: float) -> Tensor:
    with torch.autocast("cpu", dtype=dtype):
        loss = model.loss(batch)
    return loss * scale


def gradient(model: TaskModel, loss: Tensor) -> Tensor:
    given = [one for one in model.parameters() if one.requires_grad]
    found = torch.autograd.grad(loss, given, allow_unused=True, materialize_grads=True)
    return torch.cat([one.double().flatten() for one in found])


@pytest.mark.parametrize("dtype", COSINES)
@every_model
def test_gradients_are_those_of_float32(name: str, dtype: torch.dtype, backbones: Path) -> None:
    model, batch = model_of(name, backbones)
    model.eval()
    expected = gradient(model, model.loss(batch))
    scale = 1024.0 if dtype == torch.float16 else 1.0
    found = gradient(model, scaled_loss(model, batch, dtype, scale)) / scale
    assert found.isfinite().all()
    assert torch.nn.functional.cosine_similarity(found, expected, dim=0) > COSINES[dtype]
    torch.testing.assert_close(found.norm(), expected.norm(), rtol=0.05, atol=0.0)


@every_model
def test_a_loss_scale_that_overflows_skips_the_step(name: str, backbones: Path) -> None:
    model, batch = model_of(name, backbones)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**60)
    scaler.scale(scaled_loss(model, batch, torch.float16, 1.0)).backward()
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 2.0**59
    for key, value in model.state_dict().items():
        assert torch.equal(value, before[key])
    scaler.update(2.0**6)
    optimizer.zero_grad()
    scaler.scale(scaled_loss(model, batch, torch.float16, 1.0)).backward()
    scaler.step(optimizer)
    assert any(not torch.equal(value, before[key]) for key, value in model.state_dict().items())
