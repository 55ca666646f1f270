"""What an installed wheel must do without the repository: its kernels are there and agree with plain torch.

python -m pytest release/test_installed.py
"""

from pathlib import Path

import pytest
import torch

import structattn
from structattn.distributions import (
    ConstituencyCRF,
    DependencyCRF,
    LinearChainCRF,
    NonProjectiveDependencyCRF,
    SemiMarkovCRF,
)
from structattn.kernels import native, plain_torch

FAMILIES = {
    "linear chain": (LinearChainCRF, [(3, 6, 4), (4, 4)]),
    "segments": (SemiMarkovCRF, [(3, 6, 3, 2, 2)]),
    "projective trees": (DependencyCRF, [(3, 6, 7)]),
    "all trees": (NonProjectiveDependencyCRF, [(3, 6, 7)]),
    "constituency trees": (ConstituencyCRF, [(3, 7, 7)]),
}


def answers(family: type, scores: list[torch.Tensor]) -> list[torch.Tensor]:
    learnt = [array.clone().requires_grad_() for array in scores]
    distribution = family(*learnt)
    marginals = distribution.marginals()
    gradients = torch.autograd.grad((marginals * marginals).sum(), learnt)
    return [distribution.log_partition(), marginals, distribution.argmax(), distribution.entropy(), *gradients]


def test_the_package_is_the_installed_one() -> None:
    assert "site-packages" in Path(structattn.__file__).parts


def test_kernels_are_compiled() -> None:
    assert native.status().reason.startswith("compiled"), native.status().reason


@pytest.mark.parametrize("name", FAMILIES)
def test_kernels_agree_with_plain_torch(name: str) -> None:
    family, shapes = FAMILIES[name]
    generator = torch.Generator().manual_seed(1)
    scores = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]
    compiled = answers(family, scores)
    with plain_torch():
        plain = answers(family, scores)
    for pair in zip(compiled, plain, strict=True):
        torch.testing.assert_close(*pair, rtol=1e-9, atol=1e-9)


def test_the_parser_is_in_the_package() -> None:
    (sentence,) = structattn.parse("Two kids wash their hands.")
    assert sentence.dependency is not None
    assert sentence.dependency.heads[1] == 3  # kids <- wash
