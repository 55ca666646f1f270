"""On an accelerator no family of structures waits for what the device has found: on ``meta`` there is nothing to find.

Numbers of operators are those of the plain-torch programs; how many launches a Triton kernel takes, `test_triton` says.
"""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from structattn.kernels import cky, eisner, forward_backward, matrix_tree, semi_markov
from structattn.kernels.family import Family
from structattn.kernels.operators import Operators
from triton_launches import WAITING, Called

FAMILIES = [
    (eisner.OPERATORS, (0,), [(2, 4, 5)]),
    (eisner.OPERATORS, (1,), [(2, 4, 5)]),
    (matrix_tree.OPERATORS, (0,), [(2, 4, 5)]),
    (matrix_tree.OPERATORS, (1,), [(2, 4, 5)]),
    (cky.OPERATORS, (), [(2, 5, 5)]),
    (forward_backward.OPERATORS, (), [(2, 4, 3), (2, 3, 3, 3)]),
    (semi_markov.OPERATORS, (), [(2, 4, 3, 2, 2)]),
]
every_family = pytest.mark.parametrize(
    ("operators", "options", "shapes"),
    FAMILIES,
    ids=lambda value: getattr(getattr(value, "family", None), "name", None),
)
Call = Callable[[Family, list[Tensor], Tensor, tuple[int, ...]], object]
# What is asked for, given a family, its scores, lengths and options; lengths are streams of random numbers, too.
CALLS: dict[str, Call] = {
    "evaluate": lambda family, scores, lengths, options: family.evaluate(scores, lengths, options),
    "hvp": lambda family, scores, lengths, options: family.hvp(scores, lengths, scores, options),
    "third": lambda family, scores, lengths, options: family.third(scores, lengths, scores, scores, options),
    "entropy": lambda family, scores, lengths, options: family.entropy(scores, lengths, scores, options),
    "argmax": lambda family, scores, lengths, options: family.argmax(scores, lengths, options),
    "topk": lambda family, scores, lengths, options: family.topk(scores, lengths, options, 2),
    "sample": lambda family, scores, lengths, options: family.sample(scores, lengths, lengths, options, 3),
}


@every_family
@pytest.mark.parametrize("name", CALLS)
def test_no_family_waits_for_the_device(
    name: str, operators: Operators, options: tuple[int, ...], shapes: list[tuple[int, ...]]
) -> None:
    scores = [torch.empty(shape, device="meta") for shape in shapes]
    with Called() as called:
        CALLS[name](operators.family, scores, torch.empty(2, dtype=torch.int64, device="meta"), options)
    assert called.names
    assert not WAITING & set(called.names)


@every_family
def test_shape_functions_of_operators(
    operators: Operators, options: tuple[int, ...], shapes: list[tuple[int, ...]]
) -> None:
    """Forward and backward, with one operator of torch each."""
    scores = [torch.empty(shape, device="meta", requires_grad=True) for shape in shapes]
    lengths = torch.empty(2, dtype=torch.int64, device="meta")
    with Called() as called:
        log_partition, parts = operators.evaluate(scores, lengths, options)
        (log_partition.sum() + sum(own.sum() for own in parts)).backward()
    name = operators.family.name
    own = [called_name for called_name in called.names if called_name.startswith("structattn::")]
    assert own == [f"structattn::{name}_evaluate", f"structattn::{name}_hvp"]
    assert log_partition.shape == (2,)
    for array, part in zip(scores, parts, strict=True):
        assert part.shape == array.shape
        assert array.grad is not None
        assert array.grad.shape == array.shape
