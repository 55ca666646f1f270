"""Multi-head attention with a prior: one mask and one bias, one call of the fused kernel, whatever the prior.

Vaswani et al. 2017, section 3.2; with priors it is the multi-mask multi-head attention of MS-SAN (arXiv 2012.14642).
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, overload

from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn

from structattn.data import SentenceBatch
from structattn.functional import attention
from structattn.functional.masked_attention import masked_states
from structattn.layers.batch_argument import resolve_batch
from structattn.layers.linear import glorot_linear
from structattn.priors import AttentionBias, Prior

if TYPE_CHECKING:
    from structattn.layers.positions import RelativePosition


class MultiHeadAttention(nn.Module):
    r"""Scaled dot-product self-attention under a prior.

    ``S_h = Q_h K_h^T / sqrt(head_dim) + bias_h``, ``P_h = softmax_j(S_h)`` over allowed keys,
    ``O = [P_1 V_1; ...; P_H V_H] W^O``.

    A query with no allowed key, such as padding, gives zero weights and a zero output, with zero gradient.

    Args:
        dim: width of the states.
        num_heads: number of heads.
        prior: the attention bias of the heads, computed from the sentence; ``None`` for plain attention.
        dropout: applied to the weights.
        head_dim: width of a head; ``dim / num_heads`` if ``None``.
        position: relative positions, added to scores and values.
        output: the map ``W^O`` from the concatenated heads; a linear map to ``dim`` if ``None``.
        bias: whether the linear maps have biases; the paper's have none.

    Raises:
        ValueError: if ``dim`` is not a multiple of ``num_heads`` and no ``head_dim`` is given, or the prior is made for
            another number of heads.

    Example:
        >>> import structattn as sa, torch
        >>> from structattn.priors import Backward, Forward, PerHead, WordDistance
        >>> vocabulary = sa.Vocabulary.from_examples([sa.Example((sa.Sentence(["a", "dog"]),))])
        >>> batch = sa.collate([sa.Sentence(["a", "dog"]), sa.Sentence(["dog"])], vocabulary)
        >>> attention = MultiHeadAttention(4, 2, PerHead([Forward() + WordDistance(), Backward()]))
        >>> output, weights = attention(torch.ones(2, 2, 4), batch, need_weights=True)
        >>> output.shape, weights[0, 0, 0], weights[1, 0, 1]
        (torch.Size([2, 2, 4]), tensor([1., 0.], grad_fn=...), tensor([0., 0.], grad_fn=...))
    """

    weights_axes: ClassVar[str] = "head query key"

    def __init__(
        self,
        dim: int,
        num_heads: int,
        prior: Prior | None = None,
        dropout: float = 0.0,
        *,
        head_dim: int | None = None,
        position: "RelativePosition | None" = None,
        output: nn.Module | None = None,
        bias: bool = False,
    ) -> None:
        super().__init__()
        if head_dim is None and dim % num_heads:
            raise ValueError(f"MultiHeadAttention expects dim to be a multiple of num_heads, got {dim} and {num_heads}")
        if prior is not None and prior.num_heads not in (None, num_heads):
            raise ValueError(
                f"MultiHeadAttention has {num_heads} heads, but its prior is made for {prior.num_heads} ({prior.name})"
            )
        self.num_heads = num_heads
        self.head_dim = dim // num_heads if head_dim is None else head_dim
        self.prior = prior
        self.position = position
        # One matrix for queries, keys and values: one large product is faster than three small ones.
        self.project = glorot_linear(dim, 3 * num_heads * self.head_dim, bias=bias, blocks=3)
        self.output = glorot_linear(num_heads * self.head_dim, dim, bias=bias) if output is None else output
        # The heads are zero at padding. A linear map without a bias keeps them zero; other maps may not.
        self.output_moves_zero = bias or output is not None
        self.dropout = dropout

    @property
    def head_names(self) -> Sequence[str]:
        """The prior of each head, in words."""
        names = ("none",) if self.prior is None else self.prior.head_names
        return names if len(names) == self.num_heads else names * self.num_heads

    def forward(
        self,
        states: Float[Tensor, "batch word dim"],
        batch: SentenceBatch | Shaped[Tensor, "batch word"] | None = None,
        *,
        need_weights: bool = False,
    ) -> tuple[Float[Tensor, "batch word output"], Float[Tensor, "batch head word word"] | None]:
        """Attend.

        Args:
            states: the words' states.
            batch: the sentences; a word mask is enough unless the prior reads more, and ``None`` means no padding.
            need_weights: also return the weights, as they are before dropout.
        """
        batch = resolve_batch(states, batch, wanted_by=self)
        num, length, _ = states.shape
        projected = self.project(masked_states(states, batch.mask)).view(num, length, 3, self.num_heads, self.head_dim)
        queries, keys, values = projected.permute(2, 0, 3, 1, 4)
        prior = self._prior_value(batch)
        heads, weights = attention(
            queries,
            keys,
            values,
            _allowed(prior, batch),
            self._bias(prior, queries, keys),
            dropout=self.dropout if self.training else 0.0,
            term=self.position.values if self.position is not None and self.position.needs_weights else None,
            need_weights=need_weights,
        )
        output: Tensor = self.output(heads.transpose(1, 2).flatten(2))
        if self.output_moves_zero:
            output = masked_states(output, batch.mask)
        return output, weights

    if TYPE_CHECKING:  # for torch, the call of a module returns anything

        @overload
        def __call__(
            self, states: Tensor, batch: SentenceBatch | Tensor | None = None, *, need_weights: Literal[True]
        ) -> tuple[Tensor, Tensor]: ...
        @overload
        def __call__(
            self, states: Tensor, batch: SentenceBatch | Tensor | None = None, *, need_weights: Literal[False] = False
        ) -> tuple[Tensor, None]: ...
        @overload
        def __call__(
            self, states: Tensor, batch: SentenceBatch | Tensor | None = None, *, need_weights: bool
        ) -> tuple[Tensor, Tensor | None]: ...
        def __call__(self, *args: Any, **options: Any) -> Any: ...  # noqa: D102

    def allowed_keys(
        self,
        states: Float[Tensor, "batch word dim"],
        batch: SentenceBatch | Shaped[Tensor, "batch word"] | None = None,
    ) -> Bool[Tensor, "batch #head word word"]:
        """Which keys each query may attend to. Padding is neither query nor key.

        Args:
            states: the words' states.
            batch: the sentences; a word mask is enough unless the prior reads more, and ``None`` means no padding.
        """
        batch = resolve_batch(states, batch, wanted_by=self)
        return _allowed(self._prior_value(batch), batch)

    def _prior_value(self, batch: SentenceBatch) -> AttentionBias:
        if self.prior is None:
            return AttentionBias()
        value: AttentionBias = self.prior(batch)
        for part in (value.allowed, value.bias):
            if part is not None and part.shape[-1] not in (1, batch.mask.shape[1]):
                raise ValueError(
                    f"MultiHeadAttention got {batch.mask.shape[1]} states per sentence, but its prior "
                    f"({self.prior.name}) is for {part.shape[-1]}"
                )
        return value

    def _bias(self, prior: AttentionBias, queries: Tensor, keys: Tensor) -> Tensor | None:
        """The bias of the scores, from the prior and relative positions."""
        if self.position is None:
            return prior.bias
        scores = self.position.scores(queries, keys) / math.sqrt(self.head_dim)
        return scores if prior.bias is None else scores + prior.bias


def _allowed(prior: AttentionBias, batch: SentenceBatch) -> Tensor:
    """The mask of the scores, from padding and the prior."""
    pairs = batch.mask[:, None, :, None] & batch.mask[:, None, None, :]
    return pairs if prior.allowed is None else pairs & prior.allowed
