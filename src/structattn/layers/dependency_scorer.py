"""Heads of words in a latent dependency tree: scores of all arcs, and what each word reads from its head.

Words do not choose independently: their heads must form a tree.

Reference: Kim et al. (2017), Structured attention networks, sections 3.2, 4.1 and 4.4.
"""

from collections.abc import Callable
from functools import partial
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn

from structattn.distributions.independent import IndependentChoice
from structattn.layers.additive_scores import AdditiveScores
from structattn.layers.batch_argument import count_words
from structattn.layers.structured_attention import PartDistribution, Reader, Scorer

DependencyFamily = Callable[[Tensor, Tensor], PartDistribution]
HeadFamily = Literal["simple", "projective", "nonprojective"]


def independent_heads(scores: Float[Tensor, "batch word head_id"], lengths: Int[Tensor, " batch"]) -> IndependentChoice:
    """Simple attention, ``p(head of j = i) = softmax_i(theta_ij)``: Kim et al. (2017), section 4.1.

    There is no tree constraint: every word chooses independently, and may choose itself.

    Args:
        scores: row = word, column = CoNLL id of its head, 0 for the root.
        lengths: number of words of each sentence.

    Returns:
        For each word a choice among the root and the words.

    Example:
        >>> independent_heads(torch.zeros(1, 2, 3), torch.tensor([1])).marginals()[0]
        tensor([[0.5000, 0.5000, 0.0000], [0.0000, 0.0000, 0.0000]])
    """
    head = torch.arange(scores.shape[-1], device=scores.device)
    return IndependentChoice(scores, (head[1:, None] <= lengths[:, None, None]) & (head <= lengths[:, None, None]))


def dependency_family(name: HeadFamily, *, single_root: bool = False) -> DependencyFamily:
    """The distribution over heads of that name, imported when it is used."""
    from structattn.distributions import DependencyCRF, NonProjectiveDependencyCRF

    families = {"projective": DependencyCRF, "nonprojective": NonProjectiveDependencyCRF}
    return independent_heads if name == "simple" else partial(families[name], single_root=single_root)


class CountedPositions(nn.Module):
    r"""Positions that count particular words, such as brackets: ``p_j = sum_{i <= j} tanh(W x_i + b)``.

    The difference of two ordinary positions is their distance in words; here it is the sum of the steps from one word
    to the other. With steps of +1 at an opening and -1 at a closing bracket, it is zero between words directly inside
    the same pair of brackets, however deeply nested, which no bounded LSTM state can express. Not from one of the five
    papers: in Golovneva et al. (2024), "Contextual position encoding", a query decides which words to count.

    Args:
        dim: width of the states.
        num_axes: number of sums.

    Raises:
        ValueError: for fewer than one sum.

    Example:
        >>> positions = CountedPositions(1, 1)
        >>> with torch.no_grad():
        ...     _ = positions.steps.weight.fill_(20.0), positions.steps.bias.zero_()
        >>> brackets = torch.tensor([[[1.0], [0.0], [1.0], [0.0], [-1.0], [-1.0]]])
        >>> positions(brackets, torch.ones(1, 6, dtype=torch.bool)).flatten().tolist()
        [1.0, 1.0, 2.0, 2.0, 1.0, 0.0]
    """

    def __init__(self, dim: int, num_axes: int) -> None:
        super().__init__()
        if num_axes < 1:
            raise ValueError(f"CountedPositions expects at least one sum, got {num_axes}")
        self.num_axes = num_axes
        self.steps = nn.Linear(dim, num_axes)

    def forward(
        self, states: Float[Tensor, "batch word dim"], mask: Bool[Tensor, "batch word"]
    ) -> Float[Tensor, "batch word axis"]:
        """The sum up to every word, its own step included.

        Args:
            states: the words.
            mask: which of them are real; padding adds no step.
        """
        return torch.tanh(self.steps(states)).masked_fill(~mask.unsqueeze(-1), 0.0).cumsum(1)


class DependencyScorer(Scorer):
    r"""Scores of all arcs, and a distribution over trees: Kim et al. (2017), sections 3.2 and 4.1.

    ``theta_ij = tanh( s^T tanh(W_1 h_i + W_2 h_j + b) )`` for the head ``i`` of word ``j``. The paper's states ``h``
    come from a bidirectional LSTM.

    Not in the paper: positions ``p`` of the words, such as `CountedPositions`, add ``V (p_j - p_i)`` inside the inner
    tangent; the root's position is zero.

    Args:
        dim: width of the states.
        hidden: width of the hidden layer; ``dim`` if ``None``.
        family: from scores ``(batch, n, n + 1)`` and lengths to a distribution: ``DependencyCRF`` (projective trees,
            also if ``None``), ``NonProjectiveDependencyCRF`` (all trees), either with
            ``functools.partial(..., single_root=True)``, or `independent_heads` (simple attention).
        bound: the outer function; ``nn.Tanh()`` if ``None``.
        temperature: all scores are divided by it.
        noise: module that perturbs the scores, such as `GumbelNoise`.
        positions: module from ``(states of the words, mask)`` to positions ``(batch, word, axis)``, with the number of
            axes in ``num_axes``.

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
        family: DependencyFamily | None = None,
        bound: nn.Module | None = None,
        temperature: float = 1.0,
        noise: nn.Module | None = None,
        positions: CountedPositions | None = None,
    ) -> None:
        super().__init__(temperature=temperature, noise=noise)
        self.dim = dim
        self.positions = positions
        axes = 0 if positions is None else positions.num_axes
        self.scores = AdditiveScores(dim, hidden, bound=bound, axes=axes)
        self.family = dependency_family("projective") if family is None else family

    def reader(self) -> "HeadReader":
        """Each word reads the state of its head."""
        return HeadReader(self.dim)

    def forward(self, states: Float[Tensor, "batch node dim"], mask: Shaped[Tensor, "batch word"]) -> PartDistribution:
        """A distribution over the heads of the words.

        Args:
            states: that of the root, then those of the words.
            mask: which words count; these come first.
        """
        # The head is the first of the pair, as in the paper; rows are words here.
        mask, lengths = count_words(mask, wanted_by=self)
        words, positions = states[:, 1:], None
        if self.positions is not None:
            of_words = self.positions(words, mask)
            positions = (F.pad(of_words, (0, 0, 1, 0)), of_words)
        return self.family(self.adjusted(self.scores(states, words, lengths, positions=positions).mT), lengths)


class HeadReader(Reader):
    r"""The expected head of each word: Kim et al. (2017), section 3.2.

    ``parent_j = sum_i p(z_ij = 1) x_i``, and with ``with_children`` also ``child_i = sum_j p(z_ij = 1) x_j``. The
    output is ``parent``, or ``[parent; child]``; the paper puts the word itself in front. ``x_0`` is the learnt state
    of the root. The weights ``(batch, 1, word, word)`` leave the root out: a row sums to one minus the root's share.

    Args:
        dim: width of the states.
        with_children: whether the expected sum of the children is concatenated to the expected head.
        value_dim: width of the values, if these are not the states that heads are scored from: in the paper (section
            4.4), a BiLSTM scores and the values are projected word vectors. If ``None``, the values are the states.

    Raises:
        ValueError: in ``forward``, for values of another width.

    Example:
        >>> reader = HeadReader(4)
        >>> output, weights = reader(torch.tensor([[[0.0, 0.0, 1.0], [0.0, 1.0, 0.0]]]), torch.eye(2, 4)[None], None)
        >>> output.tolist(), weights.tolist()
        ([[[0.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]]], [[[[0.0, 1.0], [1.0, 0.0]]]])
    """

    reads_heads: ClassVar[bool] = True

    def __init__(self, dim: int, *, with_children: bool = False, value_dim: int | None = None) -> None:
        super().__init__()
        self.with_children = with_children
        self.root = nn.Parameter(torch.randn(dim) / dim**0.5)
        self.root_value = None if value_dim is None else nn.Parameter(torch.randn(value_dim) / value_dim**0.5)

    @property
    def output_dim(self) -> int:
        """Width of the output."""
        return len(self._value_of_root) * (2 if self.with_children else 1)

    @property
    def _value_of_root(self) -> Tensor:
        return self.root if self.root_value is None else self.root_value

    def enter(self, states: Float[Tensor, "batch word dim"]) -> Float[Tensor, "batch node dim"]:
        """The states with that of the root in front."""
        return _prepend(self.root, states)

    def forward(
        self,
        parts: Float[Tensor, "batch word head_id"],
        values: Float[Tensor, "batch word value"],
        mask: Bool[Tensor, "batch word"] | None,
    ) -> tuple[Float[Tensor, "batch word output"], Float[Tensor, "batch 1 word word"]]:
        """What each word reads from its head, and from its children.

        Args:
            parts: for each word the weight of each head, that of the root first.
            values: the words' values.
            mask: which words are real; not needed, as others have no head.

        Returns:
            The output, and the weights of words as heads.
        """
        root = self._value_of_root
        if values.shape[-1] != len(root):
            raise ValueError(f"HeadReader expects values of width {len(root)}, got {values.shape[-1]}")
        output = parts @ _prepend(root, values)
        if self.with_children:
            output = torch.cat([output, parts[..., 1:].mT @ values], -1)
        return output, parts[:, None, :, 1:]


def _prepend(root: Tensor, states: Tensor) -> Tensor:
    """States with that of the root in front."""
    return torch.cat([root.to(states.dtype).expand(states.shape[0], 1, -1), states], 1)
