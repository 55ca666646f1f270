"""Fusion gates: a learnt, feature-wise mixture of a layer's input and its update, in place of a residual sum.

Shen et al. 2018 (DiSAN), section 3.2; Qi et al. 2020 (MS-SAN, arXiv 2012.14642), section on the fusion gate.
"""

from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from structattn.layers.linear import glorot_linear


class FusionGate(nn.Module):
    r"""The gate of DiSAN: ``F = sigmoid(W1 x + W2 s + b)``, output ``F * x + (1 - F) * s``.

    Shen et al. 2018, equations of section 3.2 (``x`` is the input, ``s`` the update). A large gate keeps the input.

    Args:
        dim: width of input, update and output.
        dropout: applied to the inputs of ``W1`` and ``W2``, but not to the values that are mixed.
        ref_biases: three redundant biases (one per matrix and one for the sum), as in the authors' code.

    Example:
        >>> gate = FusionGate(4)
        >>> output, weights = gate(torch.ones(1, 2, 4), torch.zeros(1, 2, 4), need_weights=True)
        >>> output.shape, bool((output == weights).all())
        (torch.Size([1, 2, 4]), True)
    """

    weights_axes: ClassVar[str] = "query feature"

    def __init__(self, dim: int, *, dropout: float = 0.0, ref_biases: bool = False) -> None:
        super().__init__()
        self.from_input = glorot_linear(dim, dim, bias=ref_biases)
        self.from_update = glorot_linear(dim, dim, bias=ref_biases)
        self.bias = nn.Parameter(torch.zeros(dim))
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        input: Float[Tensor, "batch query dim"],
        update: Float[Tensor, "batch query dim"],
        *,
        need_weights: bool = False,
    ) -> tuple[Float[Tensor, "batch query dim"], Float[Tensor, "batch query dim"] | None]:
        """Mix input and update.

        Args:
            input: the input of the layer.
            update: what the layer made of it.
            need_weights: also return the gate.

        Returns:
            The mixture, and the gate or ``None``.
        """
        # The biases are summed first: they are vectors, which the scores are not.
        bias: Tensor = self.bias
        for linear in (self.from_input, self.from_update):
            bias = bias if linear.bias is None else bias + linear.bias
        scores = F.linear(self.dropout(input), self.from_input.weight, bias)
        gate = (scores + F.linear(self.dropout(update), self.from_update.weight)).sigmoid()
        # Mixed precision may give three different types; lerp expects one.
        dtype = torch.promote_types(input.dtype, update.dtype)
        return torch.lerp(update.to(dtype), input.to(dtype), gate.to(dtype)), gate if need_weights else None


class ProjectedFusionGate(nn.Module):
    r"""The gate of MS-SAN: input and update are projected first, then mixed by a :class:`FusionGate`.

    ``I = W_I x``, ``O = W_O s``, ``f = sigmoid(W_1 I + W_2 O + b)``, output ``f * I + (1 - f) * O`` (arXiv 2012.14642,
    fusion gate): four square matrices and one bias, ``4 dim^2 + dim`` parameters. It declares no ``weights_axes`` of
    its own: the inner gate does, and a picture should show the gate once.

    Args:
        dim: width of input, update and output.
        dropout: applied to the inputs of ``W_1`` and ``W_2``.

    Example:
        >>> gate = ProjectedFusionGate(3)
        >>> output, weights = gate(torch.ones(1, 2, 3), torch.ones(1, 2, 3))
        >>> output.shape, weights, sum(parameter.numel() for parameter in gate.parameters())
        (torch.Size([1, 2, 3]), None, 39)
    """

    def __init__(self, dim: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.project_input = glorot_linear(dim, dim, bias=False)
        self.project_update = glorot_linear(dim, dim, bias=False)
        self.gate = FusionGate(dim, dropout=dropout)

    def forward(
        self,
        input: Float[Tensor, "batch query dim"],
        update: Float[Tensor, "batch query dim"],
        *,
        need_weights: bool = False,
    ) -> tuple[Float[Tensor, "batch query dim"], Float[Tensor, "batch query dim"] | None]:
        """Project both, then mix them; see :class:`FusionGate` for the arguments."""
        mixed: tuple[Tensor, Tensor | None] = self.gate(
            self.project_input(input), self.project_update(update), need_weights=need_weights
        )
        return mixed
