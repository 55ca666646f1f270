"""Attention of each word to its head in a latent dependency tree.

Words do not choose independently: their heads must form a tree.

Reference: Kim et al. (2017), Structured attention networks, sections 3.2, 4.1 and 4.4.
"""

from collections.abc import Callable
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from structattn.distributions import DependencyCRF, IndependentChoice
from structattn.layers.additive_scores import AdditiveScores
from structattn.layers.expectations import Expectation, PartDistribution, checked_temperature, marginals

DependencyFamily = Callable[[Tensor, Tensor], PartDistribution]


def independent_heads(scores: Float[Tensor, "batch word head_id"], lengths: Int[Tensor, " batch"]) -> IndependentChoice:
    """Simple attention, ``p(head of j = i) = softmax_i(theta_ij)``: Kim et al. (2017), section 4.1.

    There is no tree constraint: every word chooses independently, and may choose itself.

    Args:
        scores: row = word, column = CoNLL id of its head, 0 for the root.
        lengths: number of words of each sentence.

    Example:
        >>> independent_heads(torch.zeros(1, 2, 3), torch.tensor([1])).marginals()[0]
        tensor([[0.5000, 0.5000, 0.0000], [0.0000, 0.0000, 0.0000]])
    """
    head = torch.arange(scores.shape[-1], device=scores.device)
    return IndependentChoice(scores, (head[1:, None] <= lengths[:, None, None]) & (head <= lengths[:, None, None]))


class DependencyScorer(nn.Module):
    r"""Scores of all arcs, and a distribution over trees: Kim et al. (2017), sections 3.2 and 4.1.

    ``theta_ij = tanh( s^T tanh(W_1 h_i + W_2 h_j + b) )`` for the head ``i`` of word ``j``. The paper's states ``h``
    come from a bidirectional LSTM.

    Args:
        dim: width of the states.
        hidden: width of the hidden layer; ``dim`` if ``None``.
        family: from scores ``(batch, n, n + 1)`` and lengths to a distribution: ``DependencyCRF`` (projective trees),
            ``NonProjectiveDependencyCRF`` (all trees), either with ``functools.partial(..., single_root=True)``, or
            `independent_heads` (simple attention).
        bound: the outer function; ``nn.Tanh()`` if ``None``.
        temperature: all scores are divided by it.
        noise: changes the scores, as `GumbelNoise` does.

    Raises:
        ValueError: if the temperature is not positive.

    Example:
        >>> from functools import partial
        >>> from structattn.distributions import NonProjectiveDependencyCRF
        >>> scorer = DependencyScorer(4, family=partial(NonProjectiveDependencyCRF, single_root=True))
        >>> trees = scorer(torch.ones(1, 4, 4), torch.ones(1, 3, dtype=torch.bool))
        >>> round(trees.log_count().exp().item())
        9
    """

    def __init__(
        self,
        dim: int,
        hidden: int | None = None,
        *,
        family: DependencyFamily = DependencyCRF,
        bound: nn.Module | None = None,
        temperature: float = 1.0,
        noise: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.scores = AdditiveScores(dim, hidden, bound=bound)
        self.family = family
        self.temperature = checked_temperature(temperature, wanted_by="DependencyScorer")
        self.noise = nn.Identity() if noise is None else noise

    def forward(self, states: Float[Tensor, "batch node dim"], mask: Bool[Tensor, "batch word"]) -> PartDistribution:
        """A distribution over the heads of the words; the state of the root comes first."""
        # The head is the first of the pair, as in the paper; rows are words here.
        scores = self.noise(self.scores(states, states[:, 1:]).mT) / self.temperature
        return self.family(scores, mask.sum(-1))


class SyntacticAttention(nn.Module):
    r"""The expected head of each word under a distribution over dependency trees: Kim et al. (2017), section 3.2.

    ``parent_j = sum_i p(z_ij = 1) x_i``, and with ``with_children`` also ``child_i = sum_j p(z_ij = 1) x_j``. The
    output is ``parent``, or ``[parent; child]``; the paper puts the word itself in front. ``x_0`` is the learned state
    of the root. The weights ``(batch, 1, word, word)`` leave it out: what is missing to one in a row is its share.

    Padding, which is on the right, gives zeros.

    Args:
        dim: width of the states.
        scorer: module ``(states with the root in front, mask)`` to a distribution; a `DependencyScorer` if ``None``.
        expectation: from the distribution to weights: `marginals`, `straight_through_argmax`, `StraightThroughSample`.
        with_children: whether the expected sum of the children stands next to the expected head.
        value_dim: width of the values, if they differ from the states that score heads; in the paper
            (section 4.4) a BiLSTM scores, and projected word vectors are the values. The states themselves if ``None``.

    Raises:
        ValueError: if values come without ``value_dim``, or do not come with it.

    Example:
        >>> attention = SyntacticAttention(4)
        >>> output, weights = attention(torch.ones(1, 2, 4), torch.tensor([[True, True]]), need_weights=True)
        >>> output.shape, weights.shape, weights[0, 0].diagonal()
        (torch.Size([1, 2, 4]), torch.Size([1, 1, 2, 2]), tensor([0., 0.], grad_fn=...))
    """

    weights_axes: ClassVar[str] = "head query key"

    def __init__(
        self,
        dim: int,
        scorer: nn.Module | None = None,
        *,
        expectation: Expectation = marginals,
        with_children: bool = False,
        value_dim: int | None = None,
    ) -> None:
        super().__init__()
        self.scorer = DependencyScorer(dim) if scorer is None else scorer
        self.expectation = expectation
        self.with_children = with_children
        self.root = nn.Parameter(torch.randn(dim) / dim**0.5)
        self.root_value = None if value_dim is None else nn.Parameter(torch.randn(value_dim) / value_dim**0.5)

    @property
    def output_dim(self) -> int:
        """Width of the output."""
        root = self.root if self.root_value is None else self.root_value
        return len(root) * (2 if self.with_children else 1)

    def distribution(
        self, states: Float[Tensor, "batch word dim"], mask: Bool[Tensor, "batch word"]
    ) -> PartDistribution:
        """The distribution over trees, for its entropy, its best tree or a supervised loss."""
        trees: PartDistribution = self.scorer(_behind(self.root, states), mask)
        return trees

    def forward(
        self,
        states: Float[Tensor, "batch word dim"],
        mask: Bool[Tensor, "batch word"],
        *,
        values: Float[Tensor, "batch word value"] | None = None,
        need_weights: bool = False,
    ) -> tuple[Float[Tensor, "batch word output"], Float[Tensor, "batch 1 word word"] | None]:
        """Attend to heads; ``values`` are the states themselves if not given."""
        root = self.root if self.root_value is None else self.root_value
        if (values is None) != (self.root_value is None):
            wanted = "no values" if self.root_value is None else f"values of width {len(root)}"
            raise ValueError(f"SyntacticAttention expects {wanted}, got {'none' if values is None else 'some'}")
        looked_at = states if values is None else values
        parents = self.expectation(self.distribution(states, mask))
        output = parents @ _behind(root, looked_at)
        if self.with_children:
            output = torch.cat([output, parents[..., 1:].mT @ looked_at], -1)
        return output, parents[:, None, :, 1:] if need_weights else None


def _behind(root: Tensor, states: Tensor) -> Tensor:
    """States with that of the root in front."""
    return torch.cat([root.to(states.dtype).expand(states.shape[0], 1, -1), states], 1)
