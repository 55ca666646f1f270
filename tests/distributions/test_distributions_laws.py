"""The laws of ``structattn.testing`` for every family, and what no distribution of one's own has to obey."""

from collections.abc import Callable

import pytest
import torch

from structattn.testing import DISTRIBUTION_LAWS, Family
from structures_by_hand import FAMILIES, LABELLED

every_family = pytest.mark.parametrize("family", [*FAMILIES, *LABELLED], ids=lambda family: family.name)


@every_family
@pytest.mark.parametrize("law", DISTRIBUTION_LAWS.values(), ids=DISTRIBUTION_LAWS)
def test_laws(law: Callable[[Family], None], family: Family) -> None:
    law(family)


@every_family
def test_the_fourth_derivative_is_refused(family: Family) -> None:
    potentials = [p.requires_grad_() for p in family.random_scores(4, 3, seed=8)]
    (gradient, *_) = torch.autograd.grad(family.build(*potentials).log_partition().sum(), potentials, create_graph=True)
    for _ in range(2):
        (gradient,) = torch.autograd.grad(gradient.square().sum(), potentials[:1], create_graph=True)
    with pytest.raises(NotImplementedError, match="fourth derivative"):
        gradient.square().sum().backward()
