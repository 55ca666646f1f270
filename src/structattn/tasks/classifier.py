"""The classifier on top of an encoder, and the target distributions of ordinal regression."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from structattn.errors import ConfigError
from structattn.functional.torch_state import full_precision
from structattn.tasks.config import ACTIVATIONS, ClassifierConfig


class Classifier(nn.Module):
    """Two layers: ``logits = W_2 activation(W_1 x + b_1) + b_2``, dropout on the input of both.

    MS-SAN uses ReLU, DiSAN ELU, Tai et al. (2015, section 4.2) a sigmoid: with the
    combination ``tai`` as input, ``W_1 [u*v; |u-v|] + b_1`` is exactly their ``W_x h_x + W_+ h_+ + b_h``.
    Matrices are initialised Glorot-uniform and biases to zero, as in DiSAN.

    Args:
        input_dim: width of the input.
        num_outputs: number of classes.
        hidden: width of the hidden layer.
        activation: ``"relu"``, ``"elu"``, ``"tanh"`` or ``"sigmoid"``.
        dropout: share of the inputs of both layers that is dropped in training.
        output_bias: whether ``b_2`` exists; DiSAN's code has none on SST.

    Raises:
        ConfigError: for an unknown activation.

    Example:
        >>> classifier = Classifier(2400, 3)
        >>> sum(parameter.numel() for parameter in classifier.parameters())
        721203
        >>> classifier(torch.zeros(2, 2400))
        tensor([[0., 0., 0.],
                [0., 0., 0.]], grad_fn=<AddmmBackward0>)
    """

    def __init__(
        self,
        input_dim: int,
        num_outputs: int,
        *,
        hidden: int = 300,
        activation: str = "relu",
        dropout: float = 0.0,
        output_bias: bool = True,
    ) -> None:
        super().__init__()
        if activation not in ACTIVATIONS:
            raise ConfigError(f"unknown activation {activation!r} of a classifier; known: {', '.join(ACTIVATIONS)}")
        self.first = nn.Linear(input_dim, hidden)
        self.second = nn.Linear(hidden, num_outputs, bias=output_bias)
        self.activation: nn.Module = getattr(nn, ACTIVATIONS[activation])()
        self.dropout = nn.Dropout(dropout)
        for linear in (self.first, self.second):
            nn.init.xavier_uniform_(linear.weight)
            if linear.bias is not None:
                nn.init.zeros_(linear.bias)

    @classmethod
    def from_config(
        cls, config: ClassifierConfig, input_dim: int, num_outputs: int, *, hidden: int, activation: str = "relu"
    ) -> "Classifier":
        """The layers that a configuration describes.

        Args:
            config: width, activation, dropout (none if it is not set) and bias.
            input_dim: width of the input.
            num_outputs: number of classes.
            hidden: width of the hidden layer, if the configuration has none.
            activation: its activation, likewise.
        """
        return cls(
            input_dim,
            num_outputs,
            hidden=hidden if config.hidden is None else config.hidden,
            activation=config.activation or activation,
            dropout=config.dropout or 0.0,
            output_bias=config.output_bias,
        )

    def forward(self, vector: Float[Tensor, "*batch input_dim"]) -> Float[Tensor, "*batch label"]:
        """Class scores before softmax."""
        hidden = self.activation(self.first(self.dropout(vector)))
        logits: Tensor = self.second(self.dropout(hidden))
        return logits


def smoothed(target: Float[Tensor, "*batch label"], share: float) -> Float[Tensor, "*batch label"]:
    """Target distributions with a share spread evenly: ``(1 - e) p + e / C`` (Szegedy et al. 2016, section 7).

    Args:
        target: distributions over ``C`` classes; a row of zeros, which stands for no label, stays.
        share: ``e``.

    Example:
        >>> smoothed(torch.tensor([[0.0, 1.0], [0.0, 0.0]]), 0.5)
        tensor([[0.2500, 0.7500],
                [0.0000, 0.0000]])
    """
    total = target.sum(-1, keepdim=True)
    return (1 - share) * target + share * total / target.shape[-1]


def score_targets(scores: Sequence[float], score_range: tuple[float, float]) -> Float[Tensor, "batch label"]:
    """The distribution over whole scores whose mean is the score (Tai et al. 2015, section 4.2).

    ``p_k = y - floor(y)`` for ``k = floor(y) + 1``, ``floor(y) - y + 1`` for ``k = floor(y)``, and 0 elsewhere.

    Args:
        scores: one score per example.
        score_range: lowest and highest score.

    Raises:
        ValueError: if a score lies outside of the range.

    Example:
        >>> score_targets([3.6, 5.0], (1.0, 5.0))
        tensor([[0.0000, 0.0000, 0.4000, 0.6000, 0.0000],
                [0.0000, 0.0000, 0.0000, 0.0000, 1.0000]])
    """
    low, high = score_range
    for score in scores:
        if not low <= score <= high:
            raise ValueError(f"expected a score in [{low}, {high}], got {score}")
    position = torch.tensor(scores, dtype=torch.float64)[:, None] - low
    # Both cases are one: a triangular function of width 1 around the score.
    classes = torch.arange(int(high - low) + 1, dtype=torch.float64)
    return (1 - (position - classes).abs()).clamp(min=0).float()


def expected_scores(
    probabilities: Float[Tensor, "batch label"], score_range: tuple[float, float]
) -> Float[Tensor, " batch"]:
    """The mean of a distribution over whole scores, the sum of ``k p_k`` (Tai et al. 2015, section 4.2).

    Example:
        >>> expected_scores(torch.tensor([[0.0, 0.0, 0.5, 0.5, 0.0]]), (1.0, 5.0))
        tensor([3.5000])
    """
    low, high = score_range
    classes = torch.arange(int(low), int(high) + 1, dtype=probabilities.dtype, device=probabilities.device)
    with full_precision(probabilities):  # scores are wanted as they are, not to three digits
        return probabilities @ classes
