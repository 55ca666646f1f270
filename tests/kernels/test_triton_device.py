"""What only a GPU can show of the Triton kernels: nothing waits for it, runs have the same bits, graphs replay them.

``pytest tests/kernels/test_triton_device.py --device cuda``.
"""

import pytest
import torch
from test_triton import Kernel, every_kernel, lengths_of
from torch import Tensor

from structattn.kernels import plain_torch

pytest.importorskip("triton", reason="Triton is not installed: pip install 'structattn[gpu]'")


@pytest.fixture(autouse=True)
def gpu(device: str) -> None:
    if not device.startswith("cuda"):
        pytest.skip("no GPU: pytest --device cuda")


def inputs(kernel: Kernel, n: int, batch: int, device: str) -> tuple[list[Tensor], Tensor, list[Tensor]]:
    scores, vectors = [[array.to(device) for array in kernel.random(n, batch, seed=seed)] for seed in (1, 2)]
    return scores, lengths_of(batch, n).to(device), vectors


@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
@every_kernel
def test_nothing_waits_from_scores_to_gradients(kernel: Kernel, device: str) -> None:
    scores, lengths, _ = inputs(kernel, 30, 4, device)
    scores = [array.requires_grad_() for array in scores]
    # Kernels are compiled by the first call.
    kernel.operators.marginals(scores, lengths, kernel.options).sum().backward()
    mode = torch.cuda.get_sync_debug_mode()
    try:
        torch.cuda.set_sync_debug_mode("error")
        kernel.operators.marginals(scores, lengths, kernel.options).square().sum().backward()
    finally:
        torch.cuda.set_sync_debug_mode(mode)


@every_kernel
def test_a_hundred_runs_have_the_same_bits(kernel: Kernel, device: str) -> None:
    given = inputs(kernel, 40, 8, device)
    first = kernel.results(*given)
    for _ in range(100):
        for name, value in kernel.results(*given).items():
            assert torch.equal(value, first[name]), name


@every_kernel
def test_a_graph_replays_a_call(kernel: Kernel, device: str) -> None:
    given = inputs(kernel, 20, 3, device)
    expected = kernel.results(*given)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = kernel.results(*given)
    for value in captured.values():
        value.zero_()
    graph.replay()
    for name, value in captured.items():
        assert torch.equal(value, expected[name]), name


@every_kernel
@pytest.mark.parametrize("n", [100, 160, 400])
def test_long_sentences_are_those_of_plain_torch(kernel: Kernel, n: int, device: str) -> None:
    """Of more than 128 words charts are in tiles."""
    given = inputs(kernel, n, 3, device)
    found = kernel.results(*given)
    with plain_torch():
        twins = kernel.results(*given)
    for name, twin in twins.items():
        scale = 1 + twin.abs().max().item()
        torch.testing.assert_close(
            found[name], twin, atol=1e-12 * scale, rtol=0, msg=lambda text, name=name: name + text
        )
