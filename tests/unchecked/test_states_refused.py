"""Errors for states of a wrong shape, which the shape checks of the other tests would raise first."""

import pytest
import torch

from attention_layers import DIM, LAYERS


@pytest.mark.parametrize("name", LAYERS)
def test_states_without_a_batch_axis_are_refused_by_name(name: str) -> None:
    with pytest.raises(ValueError, match=r"states of shape \(4, 8\): expected \(sentence, word, dim\)"):
        LAYERS[name]()(torch.ones(4, DIM))
