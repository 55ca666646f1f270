"""DiSAN, which has no recurrence, convolution or heads that mix features, and the encoders it was compared with.

Shen et al. 2018, "DiSAN: Directional Self-Attention Network for RNN/CNN-Free Language Understanding", section on DiSAN
and the table on SNLI, whose parameter counts these builders reproduce (``bilstm_s2t`` is in ``bilstm.py``).
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from structattn.data import SentenceBatch
from structattn.encoders.sentence_encoder import Encoding, NoContext, SentenceEncoder, resolve_width
from structattn.errors import ConfigError
from structattn.functional.masked_attention import masked_states
from structattn.layers import AdditivePooling, DirectionalSelfAttention, MultiHeadAttention, Source2Token
from structattn.layers.positions import SinusoidalPositions


class DiSAN(nn.Module):
    """The contextualizer of DiSAN: blocks with different directional masks, their states concatenated.

    ``u = [u_fw ; u_bw]`` (Shen et al. 2018, section on DiSAN).

    Args:
        blocks: modules ``(states, batch) -> (states, weights)``, at least one.

    Raises:
        ValueError: without any block.

    Example:
        >>> import structattn as sa
        >>> batch = sa.collate([sa.Sentence(["a"])], sa.Vocabulary(["a"]))
        >>> both = DiSAN([DirectionalSelfAttention(4, 3, "forward"), DirectionalSelfAttention(4, 3, "backward")])
        >>> both(torch.ones(1, 1, 4), batch).states.shape
        torch.Size([1, 1, 6])
    """

    def __init__(self, blocks: Sequence[nn.Module]) -> None:
        super().__init__()
        if not blocks:
            raise ValueError("DiSAN expects at least one block, got none")
        self.blocks = nn.ModuleList(blocks)

    def forward(self, states: Float[Tensor, "batch word dim"], batch: SentenceBatch) -> Encoding:
        """Contextualise the words of a batch; padded states are zero."""
        return Encoding(torch.cat([block(states, batch)[0] for block in self.blocks], dim=-1), batch.mask)


class PositionedAttention(nn.Module):
    """Sinusoidal positions added to the words, then one attention module and nothing around it."""

    def __init__(self, attention: nn.Module) -> None:
        super().__init__()
        self.positions = SinusoidalPositions()
        self.attention = attention

    def forward(self, states: Float[Tensor, "batch word dim"], batch: SentenceBatch) -> Encoding:
        """Contextualise the words of a batch; padded states are zero."""
        attended, _ = self.attention(self.positions(states), batch)
        return Encoding(masked_states(attended, batch.mask), batch.mask)


def disan(
    embedder: nn.Module,
    *,
    dim: int | None = None,
    masks: Sequence[str] = ("forward", "backward"),
    scale: int | float = 5.0,
    activation: str = "elu",
    ref_biases: bool = False,
    dropout: float = 0.25,
) -> SentenceEncoder:
    """DiSAN: a forward and a backward DiSA block over the words, pooled by source2token attention.

    At ``dim=300`` with ``ref_biases`` it has 1,624,200 parameters besides the word vectors; with the paper's classifier
    for sentence pairs, 2,345,403 (the paper's table: 2.35 million).

    Args:
        embedder: gives a state for each word, which the blocks read as they are.
        dim: width of each direction; that of the embedder's states if ``None``. The sentence vector is twice as wide.
        masks: the masks of the blocks: ``"forward"``, ``"backward"`` or ``"diagonal"``.
        scale: the bound ``c`` of the scores.
        activation: ``"elu"`` (the paper), or ``"relu"`` (the authors' code for SST).
        ref_biases: three redundant biases in each gate, as in the authors' code.
        dropout: on the inputs of the linear maps; the word vectors have none of their own.

    Raises:
        ConfigError: for an unknown activation.
        ValueError: for an unknown mask, or none.

    Example:
        >>> import structattn as sa
        >>> encoder = disan(sa.layers.WordEmbedding(4, 6))
        >>> encoder(sa.collate([sa.Sentence(["dogs", "bark"])], sa.Vocabulary(["bark", "dogs"]))).vector.shape
        torch.Size([1, 12])
    """
    inputs, width = resolve_width(embedder), resolve_width(embedder, dim)
    blocks = [
        DirectionalSelfAttention(
            inputs, width, mask, ref_biases, scale=scale, activation=resolve_activation(activation), dropout=dropout
        )
        for mask in masks
    ]
    output_dim = len(blocks) * width
    pooler = Source2Token(output_dim, activation=resolve_activation(activation), dropout=dropout)
    return SentenceEncoder(embedder, DiSAN(blocks), pooler=pooler, output_dim=output_dim)


def disan_nodir(
    embedder: nn.Module,
    *,
    dim: int | None = None,
    scale: int | float = 5.0,
    activation: str = "elu",
    ref_biases: bool = False,
    dropout: float = 0.25,
) -> SentenceEncoder:
    """DiSAN without directions: in both blocks a word attends to every word but itself, so word order is unknown.

    See :func:`disan` for the options, and for the errors.

    Example:
        >>> from structattn.layers import WordEmbedding
        >>> disan_nodir(WordEmbedding(4, 6)).contextualizer.blocks[1].attention.head_names
        ('not self',)
    """
    return disan(
        embedder,
        dim=dim,
        masks=("diagonal", "diagonal"),
        scale=scale,
        activation=activation,
        ref_biases=ref_biases,
        dropout=dropout,
    )


def emb_s2t(
    embedder: nn.Module, *, dim: int | None = None, activation: str = "elu", dropout: float = 0.25
) -> SentenceEncoder:
    """Source2token attention over the word vectors themselves.

    Args:
        embedder: gives a state for each word.
        dim: width of the states and of the sentence vector; the embedder's if ``None``.
        activation: of the pooler: ``"elu"``, or ``"relu"`` as in the authors' code for SST.
        dropout: on the inputs of the pooler's linear maps.

    Raises:
        ConfigError: for an unknown activation.

    Example:
        >>> from structattn.layers import WordEmbedding
        >>> emb_s2t(WordEmbedding(4, 6)).output_dim
        6
    """
    width = resolve_width(embedder, dim)
    pooler = Source2Token(width, activation=resolve_activation(activation), dropout=dropout)
    return SentenceEncoder(embedder, NoContext(), pooler=pooler, output_dim=width, input_dim=width)


def emb_additive(
    embedder: nn.Module, *, dim: int | None = None, activation: str = "elu", dropout: float = 0.25
) -> SentenceEncoder:
    """Additive attention over the word vectors themselves.

    See :func:`emb_s2t` for the options, and for the errors.

    Example:
        >>> from structattn.layers import WordEmbedding
        >>> emb_additive(WordEmbedding(4, 6)).output_dim
        6
    """
    width = resolve_width(embedder, dim)
    pooler = AdditivePooling(width, activation=resolve_activation(activation), dropout=dropout)
    return SentenceEncoder(embedder, NoContext(), pooler=pooler, output_dim=width, input_dim=width)


def mh_s2t(
    embedder: nn.Module,
    *,
    dim: int | None = None,
    num_heads: int = 8,
    activation: str = "elu",
    dropout: float = 0.25,
) -> SentenceEncoder:
    """Multi-head attention without output map over words and sinusoidal positions, then source2token attention.

    Args:
        embedder: gives a state for each word.
        dim: width of the words' states; the embedder's if ``None``. The concatenated heads and the sentence vector are
            twice as wide: 8 heads of 75 in the paper.
        num_heads: number of heads, a divisor of twice that width.
        activation: of the pooler: ``"elu"``, or ``"relu"`` as in the authors' code for SST.
        dropout: on attention weights and on the inputs of the pooler's linear maps.

    Raises:
        ConfigError: for an unknown activation, or a number of heads that does not divide twice the width.

    Example:
        >>> from structattn.layers import WordEmbedding
        >>> mh_s2t(WordEmbedding(4, 12)).output_dim
        24
    """
    width = resolve_width(embedder, dim)
    both = 2 * width
    if num_heads < 1 or both % num_heads:
        raise ConfigError(
            f"mh_s2t expects 2 * dim to be a multiple of the heads, got dim={width} for {num_heads} heads"
        )
    attention = MultiHeadAttention(width, num_heads, head_dim=both // num_heads, output=nn.Identity(), dropout=dropout)
    pooler = Source2Token(both, activation=resolve_activation(activation), dropout=dropout)
    return SentenceEncoder(embedder, PositionedAttention(attention), pooler=pooler, output_dim=both, input_dim=width)


def resolve_activation(name: str) -> nn.Module:
    """The activation of that name."""
    activations: dict[str, type[nn.Module]] = {"elu": nn.ELU, "relu": nn.ReLU}
    if name not in activations:
        raise ConfigError(f"activation expects one of {', '.join(activations)}; got {name!r}")
    return activations[name]()
