"""DiSAN and the encoders it was compared with: sentences without recurrence, convolution or heads that mix features.

Shen et al. 2018, "DiSAN: Directional Self-Attention Network for RNN/CNN-Free Language Understanding", section on DiSAN
and the table on SNLI, whose parameter counts these builders reproduce (``bilstm_s2t`` is in ``bilstm.py``).
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from structattn.data import SentenceBatch
from structattn.encoders.sentence_encoder import Encoding, NoContext, SentenceEncoder
from structattn.layers import (
    AdditivePooling,
    DirectionalSelfAttention,
    MultiHeadAttention,
    SinusoidalPositions,
    Source2Token,
    WordEmbedding,
)
from structattn.syntax.errors import ConfigError


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
        """Contextualise the words of a batch; padded states come out zero."""
        return Encoding(torch.cat([block(states, batch)[0] for block in self.blocks], dim=-1), batch.mask)


class PositionedAttention(nn.Module):
    """Sinusoidal positions added to the words, then one attention module and nothing around it.

    Args:
        attention: ``(states, batch) -> (states, weights)``.

    Example:
        >>> import structattn as sa
        >>> batch = sa.collate([sa.Sentence(["a"])], sa.Vocabulary(["a"]))
        >>> PositionedAttention(MultiHeadAttention(4, 2))(torch.ones(1, 1, 4), batch).states.shape
        torch.Size([1, 1, 4])
    """

    def __init__(self, attention: nn.Module) -> None:
        super().__init__()
        self.positions = SinusoidalPositions()
        self.attention = attention

    def forward(self, states: Float[Tensor, "batch word dim"], batch: SentenceBatch) -> Encoding:
        """Contextualise the words of a batch; padded states come out zero."""
        attended, _ = self.attention(self.positions(states), batch)
        return Encoding(attended.masked_fill(~batch.mask.unsqueeze(-1), 0.0), batch.mask)


def disan(
    vocab_size: int,
    *,
    dim: int = 300,
    embedding_dim: int | None = None,
    num_frozen: int = 0,
    scale: int | float = 5.0,
    activation: str = "elu",
    ref_biases: bool = False,
    dropout: float = 0.25,
) -> SentenceEncoder:
    """DiSAN: a forward and a backward DiSA block over the words, pooled by source2token attention.

    At ``dim=300`` with ``ref_biases`` it has 1,624,200 parameters beside the word vectors; with the paper's classifier
    for sentence pairs, 2,345,403 (the paper's table: 2.35 million).

    Args:
        vocab_size: number of word ids.
        dim: width of each direction. The sentence vector is twice as wide.
        embedding_dim: width of the word vectors, if it differs; the blocks take them as they are.
        num_frozen: number of words whose vectors are not trained.
        scale: the bound ``c`` of the scores.
        activation: ``"elu"`` (the paper), or ``"relu"`` (the authors' code for SST).
        ref_biases: three redundant biases in each gate, as in the authors' code.
        dropout: on what enters the linear maps; there is none on the word vectors themselves.

    Raises:
        ConfigError: for an unknown activation.

    Example:
        >>> import structattn as sa
        >>> encoder = disan(4, dim=6)
        >>> encoder(sa.collate([sa.Sentence(["dogs", "bark"])], sa.Vocabulary(["bark", "dogs"]))).vector.shape
        torch.Size([1, 12])
    """
    return _two_blocks(
        ("forward", "backward"),
        vocab_size,
        dim=dim,
        embedding_dim=embedding_dim,
        num_frozen=num_frozen,
        scale=scale,
        activation=activation,
        ref_biases=ref_biases,
        dropout=dropout,
    )


def disan_nodir(
    vocab_size: int,
    *,
    dim: int = 300,
    embedding_dim: int | None = None,
    num_frozen: int = 0,
    scale: int | float = 5.0,
    activation: str = "elu",
    ref_biases: bool = False,
    dropout: float = 0.25,
) -> SentenceEncoder:
    """DiSAN without directions: in both blocks a word attends to every word but itself, so word order is unknown.

    Options are those of :func:`disan`.

    Example:
        >>> disan_nodir(4, dim=6).contextualizer.blocks[1].attention.head_names
        ('not self',)
    """
    return _two_blocks(
        ("diagonal", "diagonal"),
        vocab_size,
        dim=dim,
        embedding_dim=embedding_dim,
        num_frozen=num_frozen,
        scale=scale,
        activation=activation,
        ref_biases=ref_biases,
        dropout=dropout,
    )


def emb_s2t(
    vocab_size: int,
    *,
    dim: int = 300,
    embedding_dim: int | None = None,
    num_frozen: int = 0,
    activation: str = "elu",
    dropout: float = 0.25,
) -> SentenceEncoder:
    """Source2token attention over the word vectors themselves.

    Args:
        vocab_size: number of word ids.
        dim: width of the words and of the sentence vector.
        embedding_dim: width of the word vectors, if it differs.
        num_frozen: number of words whose vectors are not trained.
        activation: as in :func:`disan`.
        dropout: on what enters the pooler's linear maps.

    Raises:
        ConfigError: for an unknown activation.

    Example:
        >>> emb_s2t(4, dim=6).output_dim
        6
    """
    embedding = WordEmbedding(vocab_size, dim, embedding_dim=embedding_dim, num_frozen=num_frozen)
    pooler = Source2Token(dim, activation=activation_of(activation), dropout=dropout)
    return SentenceEncoder(embedding, NoContext(), pooler=pooler, output_dim=dim)


def emb_additive(
    vocab_size: int,
    *,
    dim: int = 300,
    embedding_dim: int | None = None,
    num_frozen: int = 0,
    activation: str = "elu",
    dropout: float = 0.25,
) -> SentenceEncoder:
    """Additive attention over the word vectors themselves; options are those of :func:`emb_s2t`.

    Example:
        >>> emb_additive(4, dim=6).output_dim
        6
    """
    embedding = WordEmbedding(vocab_size, dim, embedding_dim=embedding_dim, num_frozen=num_frozen)
    pooler = AdditivePooling(dim, activation=activation_of(activation), dropout=dropout)
    return SentenceEncoder(embedding, NoContext(), pooler=pooler, output_dim=dim)


def mh_s2t(
    vocab_size: int,
    *,
    dim: int = 300,
    embedding_dim: int | None = None,
    num_frozen: int = 0,
    num_heads: int = 8,
    activation: str = "elu",
    dropout: float = 0.25,
) -> SentenceEncoder:
    """Multi-head attention without output map over words and sinusoidal positions, then source2token attention.

    Args:
        vocab_size: number of word ids.
        dim: width of the words. Heads and sentence vector together are twice as wide: 8 heads of 75 in the paper.
        embedding_dim: width of the word vectors, if it differs.
        num_frozen: number of words whose vectors are not trained.
        num_heads: number of heads, a divisor of ``2 * dim``.
        activation: as in :func:`disan`.
        dropout: on attention weights and on what enters the pooler's linear maps.

    Raises:
        ConfigError: for an unknown activation, or a number of heads that does not divide ``2 * dim``.

    Example:
        >>> mh_s2t(4, dim=12).output_dim
        24
    """
    if num_heads < 1 or 2 * dim % num_heads:
        raise ConfigError(f"mh_s2t expects 2 * dim to be a multiple of the heads, got dim={dim} for {num_heads} heads")
    attention = MultiHeadAttention(dim, num_heads, head_dim=2 * dim // num_heads, output=nn.Identity(), dropout=dropout)
    embedding = WordEmbedding(vocab_size, dim, embedding_dim=embedding_dim, num_frozen=num_frozen)
    pooler = Source2Token(2 * dim, activation=activation_of(activation), dropout=dropout)
    return SentenceEncoder(embedding, PositionedAttention(attention), pooler=pooler, output_dim=2 * dim)


def activation_of(name: str) -> nn.Module:
    """The activation of that name.

    Raises:
        ConfigError: for an unknown name; the message lists the known ones.

    Example:
        >>> activation_of("elu")
        ELU(alpha=1.0)
    """
    activations: dict[str, type[nn.Module]] = {"elu": nn.ELU, "relu": nn.ReLU}
    if name not in activations:
        raise ConfigError(f"activation expects one of {', '.join(activations)}; got {name!r}")
    return activations[name]()


def _two_blocks(
    masks: tuple[str, str],
    vocab_size: int,
    *,
    dim: int,
    embedding_dim: int | None,
    num_frozen: int,
    scale: int | float,
    activation: str,
    ref_biases: bool,
    dropout: float,
) -> SentenceEncoder:
    width = dim if embedding_dim is None else embedding_dim
    blocks = [
        DirectionalSelfAttention(
            width, dim, mask, ref_biases, scale=scale, activation=activation_of(activation), dropout=dropout
        )
        for mask in masks
    ]
    embedding = WordEmbedding(vocab_size, width, num_frozen=num_frozen)
    pooler = Source2Token(2 * dim, activation=activation_of(activation), dropout=dropout)
    return SentenceEncoder(embedding, DiSAN(blocks), pooler=pooler, output_dim=2 * dim)
