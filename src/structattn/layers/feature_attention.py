"""Feature-wise attention: every feature has its own distribution over the words.

Shen et al. 2018, "DiSAN: Directional Self-Attention Network for RNN/CNN-Free Language Understanding", section 3:
token2token and source2token self-attention, the DiSA block, and the additive attention they grew from. The paper writes
``i`` for the key and ``j`` for the query; here rows are queries and columns are keys.
"""

import math
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn

from structattn.data import SentenceBatch
from structattn.functional import token2token, token2token_weights
from structattn.functional.masked_attention import masked_states
from structattn.layers.batch_argument import resolve_batch
from structattn.layers.gates import FusionGate
from structattn.layers.linear import glorot_linear
from structattn.layers.poolers import ScoredPooling
from structattn.priors import Backward, Forward, NotSelf, Prior

_DIRECTIONS: dict[str, tuple[type[Prior], dict[str, bool]]] = {
    "forward": (Forward, {"include_self": False}),
    "backward": (Backward, {"include_self": False}),
    "diagonal": (NotSelf, {}),
}


class Token2Token(nn.Module):
    r"""The attention inside a DiSA block: masked self-attention with a separate distribution for each feature.

    ``l_ij = c tanh((W_2 h_i + W_1 h_j + b_1) / c)``, ``P_ij = softmax_j(l_ij)`` over allowed keys,
    ``s_i = sum_j P_ij * h_j`` (Shen et al. 2018, directional self-attention; ``i`` and ``j`` swapped). A word with
    no allowed key gets zero. Memory is linear in the number of words (``functional.token2token``).

    Args:
        dim: width of the states.
        mask: ``"forward"`` (``j < i``), ``"backward"`` (``j > i``), ``"diagonal"`` (``j != i``), or a prior, of which
            only the mask is used, for example ``Relation("link", as_mask=True)``.
        scale: the bound ``c`` of the scores.
        dropout: applied once to the common input of ``W_1`` and ``W_2``, but not to values and weights.

    Raises:
        ValueError: for a scale that is not positive, an unknown mask, a relation that is not a mask, or a prior that is
            made for several heads or, in ``forward``, forbids nothing.

    Example:
        >>> attention = Token2Token(4, "forward")
        >>> output, weights = attention(torch.ones(1, 3, 4), need_weights=True)
        >>> output.shape, weights[0, 0]
        (torch.Size([1, 3, 4]), tensor([[0.0000, 0.0000, 0.0000],
                [1.0000, 0.0000, 0.0000],
                [0.5000, 0.5000, 0.0000]]))
    """

    weights_axes: ClassVar[str] = "head query key"

    def __init__(
        self, dim: int, mask: str | Prior = "forward", scale: int | float = 5.0, *, dropout: float = 0.0
    ) -> None:
        super().__init__()
        if not 0.0 < scale < math.inf:
            raise ValueError(f"Token2Token expects a positive, finite scale, got {scale}")
        self.prior = _resolve_prior(mask)
        self.scale = float(scale)
        self.from_query = glorot_linear(dim, dim, bias=False)
        self.from_key = glorot_linear(dim, dim, bias=False)
        self.bias = nn.Parameter(torch.zeros(dim))
        self.dropout = nn.Dropout(dropout)

    @property
    def head_names(self) -> tuple[str, ...]:
        """The mask's name; there is one head."""
        return self.prior.head_names

    def forward(
        self,
        states: Float[Tensor, "batch word dim"],
        batch: SentenceBatch | Shaped[Tensor, "batch word"] | None = None,
        *,
        need_weights: bool = False,
    ) -> tuple[Float[Tensor, "batch word dim"], Float[Tensor, "batch 1 word word"] | None]:
        """Attend; the weights, on request, are averaged over features.

        Args:
            states: the words' states.
            batch: the sentences; their mask is enough unless the prior reads more, and ``None`` means no padding.
            need_weights: whether to compute the weights as well.
        """
        batch = resolve_batch(states, batch, wanted_by=self)
        allowed = self._allowed(batch)
        states = masked_states(states, batch.mask)
        dropped = self.dropout(states)
        a, b_keys = self.from_query(dropped), self.from_key(dropped)
        output = token2token(a, b_keys, self.bias, states, allowed, self.scale)
        if not need_weights:
            return output, None
        return output, token2token_weights(a, b_keys, self.bias, allowed, self.scale).unsqueeze(1)

    def allowed_keys(
        self,
        states: Float[Tensor, "batch word dim"],
        batch: SentenceBatch | Shaped[Tensor, "batch word"] | None = None,
    ) -> Bool[Tensor, "batch 1 word word"]:
        """Which keys each query may attend to. Padding is neither query nor key.

        Args:
            states: the words' states.
            batch: the sentences; their mask is enough unless the prior reads more, and ``None`` means no padding.
        """
        return self._allowed(resolve_batch(states, batch, wanted_by=self)).unsqueeze(1)

    def _allowed(self, batch: SentenceBatch) -> Tensor:
        allowed = self.prior(batch).allowed
        if allowed is None:
            raise ValueError(
                f"Token2Token expects a prior that forbids something, got {self.prior.name!r}, which has a bias only"
            )
        if allowed.shape[1] != 1 or allowed.shape[-1] not in (1, batch.mask.shape[1]):
            raise ValueError(
                f"Token2Token expects a prior for one head and {batch.mask.shape[1]} words, "
                f"got {allowed.shape[1]} heads and {allowed.shape[-1]} words from {self.prior.name!r}"
            )
        pairs: Tensor = allowed[:, 0] & batch.mask[:, None, :] & batch.mask[:, :, None]
        return pairs


class DirectionalSelfAttention(nn.Module):
    r"""The DiSA block: a layer, token2token attention under a mask, and a fusion gate.

    ``h = act(W_h x + b_h)``, ``s = Token2Token(h)``, ``F = sigmoid(W_f1 h + W_f2 s + b_f)``,
    ``u = F * h + (1 - F) * s`` (Shen et al. 2018, from equation 14 on); ``u`` is zero at padding.

    Args:
        dim: width of the input.
        hidden: width of everything else, the output included.
        mask: ``"forward"`` (``j < i``), ``"backward"`` (``j > i``), ``"diagonal"`` (``j != i``), or a prior, of which
            only the mask is used; see :class:`Token2Token`.
        ref_biases: three redundant biases in the gate, as in the authors' code.
        scale: the bound ``c`` of the scores.
        activation: ``act``; ELU if ``None``, as in the paper.
        dropout: applied to the input of each of the five matrices, once for the two of the attention, which share
            theirs.

    Raises:
        ValueError: for a scale that is not positive, or a mask that :class:`Token2Token` refuses.

    Example:
        >>> block = DirectionalSelfAttention(300, 300, "forward", ref_biases=True)
        >>> block(torch.zeros(2, 5, 300))[0].shape, sum(parameter.numel() for parameter in block.parameters())
        (torch.Size([2, 5, 300]), 451500)
    """

    def __init__(
        self,
        dim: int,
        hidden: int,
        mask: str | Prior = "forward",
        ref_biases: bool = False,
        *,
        scale: int | float = 5.0,
        activation: nn.Module | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.enter = glorot_linear(dim, hidden)
        self.activation = nn.ELU() if activation is None else activation
        self.attention = Token2Token(hidden, mask, scale=scale, dropout=dropout)
        self.gate = FusionGate(hidden, dropout=dropout, ref_biases=ref_biases)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        states: Float[Tensor, "batch word dim"],
        batch: SentenceBatch | Shaped[Tensor, "batch word"] | None = None,
        *,
        need_weights: bool = False,
    ) -> tuple[Float[Tensor, "batch word hidden"], Float[Tensor, "batch 1 word word"] | None]:
        """Contextualise the words.

        Args:
            states: the words' states.
            batch: the sentences; their mask is enough unless the prior reads more, and ``None`` means no padding.
            need_weights: whether to compute the weights as well, averaged over features.
        """
        batch = resolve_batch(states, batch, wanted_by=self)
        entered = self.activation(self.enter(self.dropout(masked_states(states, batch.mask))))
        attended, weights = self.attention(entered, batch, need_weights=need_weights)
        output, _ = self.gate(entered, attended)
        return masked_states(output, batch.mask), weights


class Source2Token(ScoredPooling):
    r"""Feature-wise attention of the whole sentence to its words, which pools them into one vector.

    ``f_j = W_b act(W_a x_j + b_a) + b_b``, ``P = softmax_j(f)`` over real words, ``s = sum_j P_j * x_j``
    (Shen et al. 2018, source2token self-attention).

    Args:
        dim: width of the states and of the vector.
        activation: ``act``; ELU if ``None``, as in the paper.
        dropout: applied to the inputs of ``W_a`` and ``W_b``, but not to the values ``x``.

    Example:
        >>> pooler = Source2Token(300)
        >>> pooler(torch.zeros(2, 5, 300))[0].shape, sum(parameter.numel() for parameter in pooler.parameters())
        (torch.Size([2, 300]), 180600)
    """

    def __init__(self, dim: int, *, activation: nn.Module | None = None, dropout: float = 0.0) -> None:
        super().__init__(_scorer(dim, dim, nn.ELU() if activation is None else activation, dropout=dropout))


class AdditivePooling(ScoredPooling):
    r"""Additive attention with one weight per word, the ancestor of :class:`Source2Token`.

    ``s_j = w^T act(W x_j + b)``, ``p = softmax_j(s)`` over real words, output ``sum_j p_j x_j``
    (Bahdanau et al. 2015; Shen et al. 2018, background on attention, here without a query).

    Args:
        dim: width of the states and of the vector.
        activation: ``act``; ELU if ``None``.
        dropout: applied to the inputs of ``W`` and ``w``, but not to the values.

    Example:
        >>> pooler = AdditivePooling(300)
        >>> pooler(torch.zeros(2, 5, 300))[0].shape, sum(parameter.numel() for parameter in pooler.parameters())
        (torch.Size([2, 300]), 90600)
    """

    def __init__(self, dim: int, *, activation: nn.Module | None = None, dropout: float = 0.0) -> None:
        super().__init__(_scorer(dim, 1, nn.ELU() if activation is None else activation, dropout=dropout, bias=False))


def _scorer(dim: int, outputs: int, activation: nn.Module, *, dropout: float, bias: bool = True) -> nn.Sequential:
    return nn.Sequential(
        nn.Dropout(dropout),
        glorot_linear(dim, dim),
        activation,
        nn.Dropout(dropout),
        glorot_linear(dim, outputs, bias=bias),
    )


def _resolve_prior(mask: str | Prior) -> Prior:
    if not isinstance(mask, str):
        if mask.num_heads not in (None, 1):
            raise ValueError(
                f"Token2Token has one head, but its prior is made for {mask.num_heads} heads ({mask.name})"
            )
        if not getattr(mask, "as_mask", True):
            raise ValueError(f"Token2Token expects a mask, got {mask!r}; write as_mask=True")
        return mask
    if mask not in _DIRECTIONS:
        raise ValueError(f"Token2Token expects a mask among {', '.join(_DIRECTIONS)} or a prior, got {mask!r}")
    prior, options = _DIRECTIONS[mask]
    return prior(**options)
