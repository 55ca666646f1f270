"""Every attention layer and pooler, small, and sentences for them."""

from collections.abc import Callable
from functools import partial

from torch import nn

import structattn as sa
from structattn.distributions import DependencyCRF, NonProjectiveDependencyCRF
from structattn.layers import (
    AdditivePooling,
    AttentivePooling,
    Concat,
    CountedPositions,
    DependencyScorer,
    DirectionalSelfAttention,
    HeadReader,
    MaxPooling,
    MeanPooling,
    MultiHeadAttention,
    SegmentationScorer,
    ShawPosition,
    Source2Token,
    SpanScorer,
    StructuredAttention,
    Token2Token,
    TreeAttention,
    XLPosition,
    independent_heads,
)
from structattn.priors import DependencyDistance, Forward, LearnableAlpha, PerHead, Relation, WordDistance

DIM, HEADS = 8, 2


def sentence(brackets: str, heads: list[int]) -> sa.Sentence:
    tree = sa.ConstituencyTree.from_brackets(brackets)
    return sa.Sentence(tree.words, dependency=sa.DependencyTree(heads), constituency=tree)


LONG = sentence("(S (N kids) (VP (V wash) (NP (D their) (N hands))))", [2, 0, 4, 2])
SHORT = sentence("(S (N dogs) (V bark))", [2, 0])
MIDDLE = sentence("(S (N kids) (VP (V see) (N dogs)))", [2, 0, 2])
VOCABULARY = sa.Vocabulary(["bark", "dogs", "hands", "kids", "see", "their", "wash"])


def latent(family: Callable[..., object]) -> StructuredAttention:
    scorer = DependencyScorer(DIM, family=family)  # type: ignore[arg-type]
    return StructuredAttention(scorer, reader=HeadReader(DIM, with_children=True))


# Those that a mask is enough for.
LAYERS: dict[str, Callable[[], nn.Module]] = {
    "multi-head": partial(MultiHeadAttention, DIM, HEADS),
    "multi-head, prior": lambda: MultiHeadAttention(DIM, HEADS, PerHead([Forward() + 0.5 * WordDistance(), None])),
    "multi-head, learnt prior": lambda: MultiHeadAttention(DIM, HEADS, LearnableAlpha(HEADS) * WordDistance()),
    "shaw": lambda: MultiHeadAttention(DIM, HEADS, position=ShawPosition(DIM // HEADS, 2)),
    "xl": lambda: MultiHeadAttention(DIM, HEADS, position=XLPosition(HEADS, DIM // HEADS)),
    "token2token": partial(Token2Token, DIM, "diagonal"),
    "directional": partial(DirectionalSelfAttention, DIM, DIM, "backward"),
    "simple heads": partial(latent, independent_heads),
    "projective heads": partial(latent, DependencyCRF),
    "nonprojective heads": partial(latent, NonProjectiveDependencyCRF),
    "counted heads": lambda: StructuredAttention(DependencyScorer(DIM, positions=CountedPositions(DIM, 2))),
    "segments": lambda: StructuredAttention(SegmentationScorer(DIM)),
    "phrases": lambda: StructuredAttention(SpanScorer(DIM)),
    "source2token": partial(Source2Token, DIM),
    "additive": partial(AdditivePooling, DIM),
    "attentive": partial(AttentivePooling, DIM),
    "mean and max": lambda: Concat([MeanPooling(), MaxPooling()]),
}
# Those that read structures; with the structure that they name when it is missing.
ON_TREES: dict[str, tuple[str, Callable[[], nn.Module]]] = {
    "dependency prior": ("DependencyDistance", lambda: MultiHeadAttention(DIM, HEADS, DependencyDistance())),
    "relation": (
        r"Relation\('head'\)",
        lambda: DirectionalSelfAttention(DIM, DIM, Relation("head", as_mask=True)),
    ),
    "tree attention": ("TreeAttention", partial(TreeAttention, DIM, HEADS)),
}
