"""Word vectors concatenated with the output of structured attention, and nothing else, to isolate its effect.

Reference: Kim et al. (2017), Structured attention networks, sections 3.2 and 4.1.
"""

from typing import TYPE_CHECKING, cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from structattn.data import SentenceBatch
from structattn.encoders.sentence_encoder import Encoding, SentenceEncoder, resolve_width
from structattn.errors import ConfigError
from structattn.functional.masked_attention import masked_states
from structattn.layers import CountedPositions, DependencyScorer, HeadReader, MeanPooling, StructuredAttention
from structattn.layers.dependency_scorer import HeadFamily, dependency_family
from structattn.layers.recurrent import bidirectional_lstm, read_both_ways
from structattn.layers.structured_attention import PartDistribution

if TYPE_CHECKING:
    from structattn.encoders.bilstm import BiLSTM

STRUCTURES = ("none", "simple", "projective", "nonprojective", "constituency")


class ReadingScorer(nn.Module):
    """A scorer that first reads the sentence in both directions: the parsing LSTM of Kim et al. (2017), section 4.1.

    The values are the words; their scores depend on context.
    """

    def __init__(self, dim: int, hidden: int, *, scorer: nn.Module) -> None:
        super().__init__()
        self.lstm = bidirectional_lstm(dim, hidden)
        self.scorer = scorer

    def forward(self, states: Float[Tensor, "batch node dim"], mask: Bool[Tensor, "batch word"]) -> PartDistribution:
        """A distribution over structures; if there is one more state than words, the first is the root."""
        in_front = states.shape[1] - mask.shape[1]
        real = torch.cat([mask.new_ones(mask.shape[0], in_front), mask], 1)
        distribution: PartDistribution = self.scorer(read_both_ways(self.lstm, states, real), mask)
        return distribution


class ConcatContext(nn.Module):
    """The contextualizer: each word's state, concatenated with the output of attention.

    Args:
        attention: ``(states, batch)`` to ``(output, weights)``; no attention if ``None``.
        below: reads the words first; its states are attended to, and the output of attention is concatenated to them.

    Example:
        >>> import structattn as sa
        >>> batch = sa.collate([sa.Sentence(["a", "dog"])], sa.Vocabulary(["a", "dog"]))
        >>> ConcatContext(StructuredAttention(DependencyScorer(3)))(torch.ones(1, 2, 3), batch).states.shape
        torch.Size([1, 2, 6])
    """

    def __init__(self, attention: nn.Module | None = None, *, below: "BiLSTM | None" = None) -> None:
        super().__init__()
        self.attention = attention
        self.below = below

    def read(
        self, states: Float[Tensor, "batch word dim"], batch: SentenceBatch
    ) -> Float[Tensor, "batch word attended"]:
        """The states that are attended to.

        Args:
            states: the words.
            batch: the sentences.
        """
        return states if self.below is None else self.below.read(states, batch.mask)

    def forward(self, states: Float[Tensor, "batch word dim"], batch: SentenceBatch) -> Encoding:
        """Compute ``[x_j; context_j]`` for every word; padded states are zero.

        Args:
            states: the words.
            batch: the sentences.
        """
        states = self.read(states, batch)
        if self.attention is not None:
            context, _ = self.attention(states, batch)
            states = torch.cat([states, context], -1)
        return Encoding(masked_states(states, batch.mask), batch.mask)


def structured(
    embedder: nn.Module,
    *,
    attention: str = "projective",
    dim: int | None = None,
    hidden: int | None = None,
    num_layers: int | None = None,
    single_root: bool = False,
    with_children: bool = False,
    outer_tanh: int = 1,
    counts: int | None = None,
    dropout: float = 0.0,
) -> SentenceEncoder:
    """Word vectors concatenated with their soft heads in a latent tree (Kim et al. 2017, section 4.1).

    Args:
        embedder: gives a state for each word.
        attention: ``none`` (word vectors only), ``simple`` (each word chooses any word), ``projective`` and
            ``nonprojective`` (its head in a dependency tree), or ``constituency`` (the words of the phrases around it).
        dim: width of the words' states; the embedder's if ``None``.
        hidden: width of each direction of the LSTM that scores the structure or, with ``counts``, of the scorer's
            hidden layer; that of the states if ``None``.
        num_layers: layers of a bidirectional LSTM below the attention, as wide in each direction as the words' states;
            none if ``None``, as in the paper, to isolate the effect of attention.
        single_root: whether exactly one word has the root as its head; dependency trees only.
        with_children: whether the expected sum of the children is concatenated to the head; dependency trees only.
        outer_tanh: how many times a hyperbolic tangent is applied to the scores: once in the paper, twice in one path
            of its code. Without it, scores are unbounded, trees can become peaked, and training depends less on the
            initialisation.
        counts: number of axes of `CountedPositions` that relate a word to its head. With these, heads are scored
            directly from the words' states, without an LSTM; heads of words only. Not in the paper.
        dropout: on the words' states.

    Raises:
        ConfigError: for an unknown attention, or an option that it does not have.

    Example:
        >>> import structattn as sa
        >>> encoder = structured(sa.layers.WordEmbedding(4, 6))
        >>> encoder(sa.collate([sa.Sentence(["dogs", "bark"])], sa.Vocabulary(["bark", "dogs"]))).states.shape
        torch.Size([1, 2, 12])
    """
    if attention not in STRUCTURES:
        raise ConfigError(f"attention expects one of {', '.join(STRUCTURES)}; got {attention!r}")
    if single_root and attention not in ("projective", "nonprojective"):
        raise ConfigError(f"single_root concerns dependency trees; attention is {attention!r}")
    for option, is_set in (("with_children", with_children), ("counts", counts is not None)):
        if is_set and attention not in ("simple", "projective", "nonprojective"):
            raise ConfigError(f"{option} concerns heads; attention is {attention!r}")
    if outer_tanh not in (0, 1, 2) or (attention == "none" and outer_tanh != 1):
        raise ConfigError(
            f"outer_tanh must be 0, 1 or 2, and 1 with attention='none', which has no scores; got {outer_tanh}"
        )
    # The order in which the parts are made determines what a seed gives, and so which recorded runs can be reproduced.
    inputs = width = resolve_width(embedder, dim)
    below = None
    if num_layers is not None:
        from structattn.encoders.bilstm import BiLSTM

        below, width = BiLSTM(inputs, inputs, num_layers=num_layers, dropout=dropout), 2 * inputs
    lstm_dim = inputs if hidden is None else hidden
    bound = nn.Sequential(*(nn.Tanh() for _ in range(outer_tanh)))
    layer, output_dim = None, width
    if attention == "constituency":
        from structattn.layers import SpanScorer
        from structattn.layers.span_scorer import PhraseReader

        spans = ReadingScorer(width, lstm_dim, scorer=SpanScorer(2 * lstm_dim, bound=bound))
        layer, output_dim = StructuredAttention(spans, reader=PhraseReader()), 2 * width
    elif attention != "none":
        family = dependency_family(cast(HeadFamily, attention), single_root=single_root)
        scorer: nn.Module
        if counts is None:
            heads = DependencyScorer(2 * lstm_dim, family=family, bound=bound)
            scorer = ReadingScorer(width, lstm_dim, scorer=heads)
            reader = HeadReader(width, with_children=with_children)
        else:
            reader, positions = HeadReader(width, with_children=with_children), CountedPositions(width, counts)
            scorer = DependencyScorer(width, hidden, family=family, bound=bound, positions=positions)
        layer, output_dim = StructuredAttention(scorer, reader=reader), width + reader.output_dim
    return SentenceEncoder(
        embedder,
        ConcatContext(layer, below=below),
        pooler=MeanPooling(),
        output_dim=output_dim,
        input_dim=inputs,
        dropout=dropout,
    )
