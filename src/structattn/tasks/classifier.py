"""The layers between an encoder and labels: a classifier, the targets of ordinal regression, and chains of tags."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from structattn.data.span_tags import TagScheme, list_pairs, recognise_scheme
from structattn.distributions import LinearChainCRF, StructuredDistribution
from structattn.errors import ConfigError
from structattn.functional.torch_state import full_precision
from structattn.tasks.answer_config import ACTIVATIONS, ClassifierConfig


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
            activation: activation of the hidden layer, if the configuration has none.
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

    A row of zeros, which stands for no label, stays.
    """
    total = target.sum(-1, keepdim=True)
    return (1 - share) * target + share * total / target.shape[-1]


def score_targets(scores: Sequence[float], score_range: tuple[float, float]) -> Float[Tensor, "batch label"]:
    """The distribution over whole scores whose mean is the score (Tai et al. 2015, section 4.2).

    ``p_k = y - floor(y)`` for ``k = floor(y) + 1``, ``floor(y) - y + 1`` for ``k = floor(y)``, and 0 elsewhere.
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
    """The mean of a distribution over whole scores, the sum of ``k p_k`` (Tai et al. 2015, section 4.2)."""
    low, high = score_range
    classes = torch.arange(int(low), int(high) + 1, dtype=probabilities.dtype, device=probabilities.device)
    with full_precision(probabilities):  # scores are wanted as they are, not to three digits
        return probabilities @ classes


class TagChain(nn.Module):
    """``p(y)`` proportional to ``exp(sum_i s_{i, y_i} + sum_i A_{y_i, y_{i+1}})``, with a learnt matrix ``A``.

    Only in orders that the scheme of spans allows; independent tags have neither ``A`` nor this constraint.
    """

    forbidden: Bool[Tensor, "previous next"]

    def __init__(self, labels: Sequence[str], *, independent: bool = False, scheme: TagScheme | None = None) -> None:
        super().__init__()
        self.labels = tuple(labels)
        self.scheme = None if independent else find_constraint(self.labels, scheme)
        self.transition = None if independent else nn.Parameter(torch.zeros(len(self.labels), len(self.labels)))
        # The first row is the start of a sentence, and the last column its end.
        allowed = [[self._may_follow(left, right) for right in (*self.labels, None)] for left in (None, *self.labels)]
        self.register_buffer("forbidden", ~torch.tensor(allowed), persistent=False)
        # The tag of words without one: possible in every sentence of this tag alone, so that its score is finite.
        self.nothing = next(
            index
            for index, tag in enumerate(self.labels)
            if self._may_follow(None, tag) and self._may_follow(tag, tag) and self._may_follow(tag, None)
        )

    def forward(self, scores: Float[Tensor, "batch word tag"], lengths: Int[Tensor, " batch"]) -> LinearChainCRF:
        """The distribution over the tags of each sentence."""
        transition = scores.new_zeros(self.forbidden[1:, :-1].shape) if self.transition is None else self.transition
        if self.scheme is not None:
            position = torch.arange(scores.shape[1], device=scores.device)[:, None]
            impossible = (position == 0) & self.forbidden[0, :-1]
            impossible = impossible | ((position == lengths[:, None, None] - 1) & self.forbidden[1:, -1])
            scores = scores.masked_fill(impossible, -torch.inf)
            transition = transition.masked_fill(self.forbidden[1:, :-1], -torch.inf)
        return LinearChainCRF(scores, transition.to(scores.dtype), lengths, validate_args=False)

    def classes(self, tags: Sequence[str]) -> list[int] | None:
        """The index of each tag, ``None`` if one is unknown; ``ValueError`` for tags in an impossible order."""
        return find_classes(self.labels, self.scheme, tags)

    def log_prob(self, chain: StructuredDistribution, tags: Int[Tensor, "batch word"]) -> Float[Tensor, " batch"]:
        """The log-probability of tags."""
        return chain.log_prob(chain.from_structure(tags))

    def texts(self, parts: Float[Tensor, "batch word tag"], lengths: Int[Tensor, " batch"]) -> list[str]:
        """Sequences of tags as texts, separated by spaces."""
        rows = zip(parts.argmax(-1).tolist(), lengths.tolist(), strict=True)
        return [" ".join(self.labels[tag] for tag in tags[:length]) for tags, length in rows]

    @property
    def config(self) -> dict[str, int]:
        """What a model folder keeps of it, besides its tags."""
        return {}

    def _may_follow(self, left: str | None, right: str | None) -> bool:
        return self.scheme is None or self.scheme.may_follow(left, right)


def find_classes(labels: Sequence[str], scheme: TagScheme | None, tags: Sequence[str]) -> list[int] | None:
    """The index of each tag, ``None`` if one is unknown; ``ValueError`` for tags in an order that a scheme lacks."""
    indices = {label: index for index, label in enumerate(labels)}
    if not set(tags) <= indices.keys():
        return None
    for left, right in list_pairs(tags):
        if scheme is not None and not scheme.may_follow(left, right):
            position = f"{right} at the start" if left is None else f"{right or 'the end'} after {left}"
            hint = "mend the tags, or take --classifier.tags independent"
            raise ValueError(f"{position}, which {scheme} do not have: {hint}")
    return [indices[tag] for tag in tags]


def find_constraint(labels: Sequence[str], scheme: TagScheme | None) -> TagScheme | None:
    """The scheme of tags that mark spans; none for other tags, or if a sentence of one word could have no tag."""
    try:
        scheme = recognise_scheme(labels) if scheme is None else scheme
    except ValueError:
        return None
    alone = any(scheme.may_follow(None, tag) and scheme.may_follow(tag, None) for tag in labels)
    return scheme if alone and scheme.name != "types" else None
