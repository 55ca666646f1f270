"""On an accelerator no model waits for the device or makes a tensor elsewhere, in training or evaluation."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_leaves

from every_model import MODELS, model_of
from triton_launches import WAITING, Called


class Made(Called):
    """The operators of torch that are called, and the devices of what they give."""

    def __init__(self) -> None:
        super().__init__()
        self.devices: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = super().__torch_dispatch__(func, types, args, kwargs)
        self.devices |= {one.device.type for one in tree_leaves(found) if isinstance(one, torch.Tensor)}
        return found


@pytest.mark.parametrize("training", [False, True], ids=["evaluation", "training"])
@pytest.mark.parametrize("name", MODELS)
def test_no_model_waits_for_the_device(name: str, training: bool, backbones: Path) -> None:
    model, batch = model_of(name, backbones)
    model.train(training).to("meta")
    moved = batch.to("meta")
    with Made() as made, torch.set_grad_enabled(training):
        loss = model.loss(moved)
        if training:
            loss.backward()
    assert not WAITING & set(made.names)
    assert made.devices == {"meta"}
