"""Shapes are checked while tests run: of arguments, results, methods, properties and dataclasses, and nothing else."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

from shape_checks import with_checked_shapes
from structattn.functional import attention


@with_checked_shapes
def scale(x: Float[Tensor, "row column"], by: Float[Tensor, " column"] | None = None) -> Float[Tensor, "row column"]:
    return x if by is None else x * by


@with_checked_shapes
def flatten(x: Float[Tensor, "row column"], unknown: "NotImported" = None) -> Float[Tensor, "row column"]:
    return x.flatten()


@with_checked_shapes
def draw(count: int) -> Float[Tensor, "{count} 2"]:
    return torch.zeros(min(count, 3), 2)


@with_checked_shapes
def plain(x: list[int]) -> Callable[[int], str]:
    return str


@with_checked_shapes
@dataclass(frozen=True)
class Pair:
    first: Float[Tensor, " word"]
    second: Float[Tensor, " word"]

    @with_checked_shapes
    @property
    def both(self) -> Float[Tensor, "1 word"]:
        return self.first

    @with_checked_shapes
    @classmethod
    def doubled(cls, first: Float[Tensor, " word"]) -> "Pair":
        return cls(first, first)

    @with_checked_shapes
    @staticmethod
    def last(states: Float[Tensor, "word 2"]) -> Float[Tensor, "2"]:
        return states[-1]


of_the_package = pytest.mark.skipif("STRUCTATTN_CHECKED" in os.environ, reason="not all of the package is checked")
ONE, TWO, ROWS = torch.zeros(1), torch.zeros(2), torch.zeros(3, 2)


@pytest.mark.parametrize(
    "called",
    [
        lambda: scale(ONE),
        lambda: scale(ROWS, ONE),
        lambda: scale(ROWS.long()),
        lambda: flatten(ROWS),
        lambda: draw(4),
        lambda: Pair(ONE, TWO),
        lambda: Pair(ONE, ONE).both,
        lambda: Pair.doubled(ROWS),
        lambda: Pair.last(TWO),
        pytest.param(lambda: attention(ROWS, ROWS, torch.zeros(4, 2)), marks=of_the_package),
    ],
)
def test_a_wrong_shape_is_found(called: Callable[[], Any]) -> None:
    with pytest.raises(Exception, match="violates type hint"):
        called()


def test_right_shapes_and_plain_types_pass() -> None:
    assert scale(ROWS) is ROWS
    assert scale(ROWS, TWO).shape == (3, 2)
    assert scale(torch.zeros(1, 5)).shape == (1, 5)
    assert draw(3).shape == (3, 2)
    assert Pair.doubled(TWO).second is TWO
    assert Pair.last(ROWS).shape == (2,)
    assert plain("not a list")(3) == "3"  # type: ignore[arg-type]
