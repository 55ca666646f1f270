"""Decomposable attention for pairs of sentences: align, compare, aggregate, with any attention inside each sentence.

An encoder of pairs: both sentences of an example are read together, so tasks on pairs need
``combine=together``.

Reference: Parikh et al. (2016), A decomposable attention model for natural language inference, section 3; Kim et al.
(2017), section 4.4.
"""

from typing import ClassVar, cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from structattn.data import SentenceBatch
from structattn.encoders.sentence_encoder import Encoding, SentenceEncoder, resolve_width
from structattn.encoders.structured import ReadingScorer
from structattn.errors import ConfigError
from structattn.functional import masked_softmax
from structattn.functional.masked_attention import masked_states
from structattn.layers import DependencyScorer, HeadReader, StructuredAttention
from structattn.layers.dependency_scorer import HeadFamily, dependency_family
from structattn.layers.linear import glorot_linear

INSIDE = ("none", "simple", "hard", "projective", "nonprojective")
ALIGNMENTS = ("soft", "monotone")


class GivenHead(nn.Module):
    """The head of each word in the given tree; a learnt value for the root: Kim et al. (2017), 4.4."""

    weights_axes: ClassVar[str] = "head query key"

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.root = nn.Parameter(torch.randn(dim) / dim**0.5)

    def forward(
        self,
        states: Float[Tensor, "batch word width"],
        batch: SentenceBatch,
        *,
        values: Float[Tensor, "batch word dim"],
        need_weights: bool = False,
    ) -> tuple[Float[Tensor, "batch word dim"], Float[Tensor, "batch 1 word word"] | None]:
        """The value of each word's head, whatever the states; padding gets zeros, and the root no weight."""
        parents = batch.require("dependency", wanted_by="GivenHead").parents
        columns = torch.arange(parents.shape[1], device=parents.device)
        is_root = parents == columns
        heads = values.gather(1, parents.unsqueeze(-1).expand_as(values))
        heads = torch.where(is_root.unsqueeze(-1), self.root.to(values.dtype), heads)
        heads = masked_states(heads, batch.mask)
        if not need_weights:
            return heads, None
        is_head = (parents.unsqueeze(-1) == columns) & (batch.mask & ~is_root).unsqueeze(-1)
        return heads, is_head.to(values.dtype).unsqueeze(1)


class Decomposable(nn.Module):
    """The contextualizer of pairs: Parikh et al. (2016), equations 1 to 4.

    ``x = [W a; inside(a, W a)]``, ``e_ij = F(x_i) . F(y_j)``, ``beta_i = sum_j softmax_j(e_ij) y_j``,
    ``alpha_j = sum_i softmax_i(e_ij) x_i``, ``v_i = G([x_i; beta_i])``, ``w_j = G([y_j; alpha_j])``. The states are
    ``[v_i; 0]`` and ``[0; w_j]``, so that their sum is ``[sum_i v_i; sum_j w_j]`` (equation 5).

    Args:
        width: width of the word vectors.
        dim: width of the projected words and of the hidden layers.
        inside: attention ``(states, batch, values=...)``, whose output is concatenated to each word: heads are scored
            from the word vectors, and the values are the projected words, as in Kim et al. (2017), section 4.4. Nothing
            if ``None``.
        alignment: ``(scores, lengths, temperature=1.0)`` to a distribution over the matches of two sentences, such as
            ``AlignmentSelection()``, whose marginals take the place of both softmaxes.
        dropout: before each linear map of ``F`` and ``G``.

    Example:
        >>> import structattn as sa
        >>> first, second = (sa.collate([sa.Sentence([word])], sa.Vocabulary(["a", "b"])) for word in "ab")
        >>> Decomposable(3, 4)(torch.ones(1, 2, 3), first, second).states.shape
        torch.Size([1, 2, 8])
    """

    def __init__(
        self,
        width: int,
        dim: int,
        *,
        inside: nn.Module | None = None,
        alignment: nn.Module | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.project = glorot_linear(width, dim, bias=False)
        self.inside = inside
        self.alignment = alignment
        beside = dim if inside is None else 2 * dim
        self.attend = _two_layers(beside, dim, dropout)
        self.compare = _two_layers(2 * beside, dim, dropout)

    def forward(
        self, states: Float[Tensor, "batch word width"], batch: SentenceBatch, *following: SentenceBatch
    ) -> Encoding:
        """Compare the words of two sentences.

        Args:
            states: the words of the first sentences, then those of the second.
            batch: the first sentences.
            following: the second sentences.

        Raises:
            ConfigError: unless there are two sentences.
        """
        if len(following) != 1:
            raise ConfigError(
                f"decomposable reads the two sentences of a pair together, got {1 + len(following)}: "
                "use a task on pairs, and --classifier.combine together"
            )
        second = following[0]
        length = batch.tokens.shape[1]
        x, y = self._beside(states[:, :length], batch), self._beside(states[:, length:], second)
        to_second, to_first = self._align(self.attend(x) @ self.attend(y).mT, batch.mask, second.mask)
        v = masked_states(self.compare(torch.cat([x, to_second @ y], -1)), batch.mask)
        w = masked_states(self.compare(torch.cat([y, to_first @ x], -1)), second.mask)
        both = torch.cat([torch.cat([v, torch.zeros_like(v)], -1), torch.cat([torch.zeros_like(w), w], -1)], 1)
        return Encoding(both, torch.cat([batch.mask, second.mask], 1))

    def _align(self, scores: Tensor, queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
        """The weights of the keys for each query, and of the queries for each key."""
        pairs = queries.unsqueeze(-1) & keys.unsqueeze(-2)
        if self.alignment is None:
            return masked_softmax(scores, pairs), masked_softmax(scores.mT, pairs.mT)
        matches = self.alignment(scores.where(pairs, -torch.inf), keys.sum(1), temperature=1.0).marginals()
        return matches, matches.mT

    def _beside(self, states: Tensor, batch: SentenceBatch) -> Tensor:
        projected: Tensor = self.project(states)
        if self.inside is None:
            return projected
        heads, _ = self.inside(states, batch, values=projected)
        return torch.cat([projected, heads], -1)


class SumPooling(nn.Module):
    """The sum of the real states."""

    weights_axes = "key feature"

    def forward(
        self, states: Float[Tensor, "batch key feature"], mask: Bool[Tensor, "batch key"], *, need_weights: bool = False
    ) -> tuple[Float[Tensor, "batch feature"], Float[Tensor, "batch key feature"] | None]:
        """Pool; every real state has weight 1."""
        vector = masked_states(states, mask).sum(1)
        return vector, mask.unsqueeze(-1).to(states.dtype).expand_as(states) if need_weights else None


def decomposable(
    embedder: nn.Module,
    *,
    inside: str = "projective",
    alignment: str = "soft",
    dim: int | None = None,
    hidden: int = 100,
    dropout: float = 0.2,
) -> SentenceEncoder:
    """Decomposable attention over pairs of sentences, with attention inside each (Kim et al. 2017, section 4.4).

    Args:
        embedder: gives a state for each word, from which heads are scored.
        inside: what is concatenated to each word: ``none``, the word it chooses (``simple``), its head in the given
            tree (``hard``), or its expected head in a latent tree (``projective``, ``nonprojective``).
        alignment: how the words of both sentences meet: ``soft``, each attends to all of the other sentence, or
            ``monotone``, by the marginals of an ``AlignmentCRF``, in which no two matches cross.
        dim: width of the projected words and of the hidden layers; that of the embedder's states if ``None``.
        hidden: width of each direction of the LSTM that scores heads.
        dropout: before each linear map.

    Raises:
        ConfigError: for an unknown ``inside`` or ``alignment``.

    Example:
        >>> import structattn as sa
        >>> first, second = (sa.collate([sa.Sentence([word])], sa.Vocabulary(["a", "b"])) for word in "ab")
        >>> decomposable(sa.layers.WordEmbedding(4, 6))(first, second).vector.shape
        torch.Size([1, 12])
    """
    if inside not in INSIDE:
        raise ConfigError(f"inside expects one of {', '.join(INSIDE)}; got {inside!r}")
    if alignment not in ALIGNMENTS:
        raise ConfigError(f"alignment expects one of {', '.join(ALIGNMENTS)}; got {alignment!r}")
    inputs, width = resolve_width(embedder), resolve_width(embedder, dim)
    layer: nn.Module | None = None
    if inside == "hard":
        layer = GivenHead(width)
    elif inside != "none":
        scorer = DependencyScorer(2 * hidden, family=dependency_family(cast(HeadFamily, inside)))
        reader = ReadingScorer(inputs, hidden, scorer=scorer)
        layer = StructuredAttention(reader, reader=HeadReader(inputs, value_dim=width))
    selection: nn.Module | None = None
    if alignment == "monotone":
        from structattn.layers.alignment_selection import AlignmentSelection

        selection = AlignmentSelection()
    contextualizer = Decomposable(inputs, width, inside=layer, alignment=selection, dropout=dropout)
    return SentenceEncoder(embedder, contextualizer, pooler=SumPooling(), output_dim=2 * width)


def _two_layers(inputs: int, outputs: int, dropout: float) -> nn.Sequential:
    first, second = glorot_linear(inputs, outputs), glorot_linear(outputs, outputs)
    return nn.Sequential(nn.Dropout(dropout), first, nn.ReLU(), nn.Dropout(dropout), second, nn.ReLU())
