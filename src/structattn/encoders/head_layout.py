"""The priors of MS-SAN's attention heads as plain strings, each a direction and a distance.

Qi et al. 2020 (MS-SAN, arXiv 2012.14642), section on multi-mask multi-head attention:
``M_h = M_dir(h) + alpha * M_dis(h)``; the rows of its ablation table are the table here. A configuration file can name
a layout, and a picture can show one.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

from structattn.priors import (
    Backward,
    ConstituencyDistance,
    DependencyDistance,
    Forward,
    LearntAlpha,
    PerHead,
    Prior,
    WordDistance,
    alibi_slopes,
)
from structattn.syntax.errors import ConfigError

DIRECTIONS = ("forward", "backward", "none")
DISTANCES = ("word", "dependency", "constituency", "none")

PAPER_HEADS = ("forward/word", "forward/dependency", "forward", "backward/word", "backward/dependency", "backward")

# Name -> heads; the paper's rows. A row without one ingredient keeps the heads of the full model and blanks the
# ingredient.
ABLATIONS: Mapping[str, tuple[str, ...]] = {
    "san": ("none",) * 6,
    "direction": ("forward",) * 3 + ("backward",) * 3,
    "word": ("word", "none", "none") * 2,
    "dependency": ("none", "dependency", "none") * 2,
    "word_dependency": ("word", "dependency", "none") * 2,
    "direction_word": ("forward/word", "forward", "forward", "backward/word", "backward", "backward"),
    "direction_dependency": ("forward", "forward/dependency", "forward", "backward", "backward/dependency", "backward"),
    "ms_san": PAPER_HEADS,
}


def parse_heads(heads: str | Sequence[str | Sequence[str]]) -> list[tuple[str, str]]:
    """Heads as pairs of direction and distance.

    Args:
        heads: the name of a row of ``ABLATIONS``, or one entry per head: ``"forward/word"``, ``"word"``, ``"forward"``,
            ``"none"``, or a pair such as ``("forward", "word")``.

    Raises:
        ConfigError: for an unknown row, direction or distance, or no head at all; the message lists the known ones.

    Example:
        >>> parse_heads(["forward/word", "dependency", ("backward", "none")])
        [('forward', 'word'), ('none', 'dependency'), ('backward', 'none')]
    """
    if isinstance(heads, str):
        if heads not in ABLATIONS:
            raise ConfigError(f"unknown row of heads {heads!r}; known: {', '.join(ABLATIONS)}; or list the heads")
        heads = ABLATIONS[heads]
    if not heads:
        raise ConfigError("heads expects at least one head, got none")
    return [_pair(head) for head in heads]


def _pair(head: str | Sequence[str]) -> tuple[str, str]:
    parts = head.split("/") if isinstance(head, str) else list(head)
    if len(parts) == 1:
        parts = ["none", parts[0]] if parts[0] in DISTANCES else [parts[0], "none"]
    if len(parts) != 2 or parts[0] not in DIRECTIONS or parts[1] not in DISTANCES:
        raise ConfigError(
            f"a head is 'direction/distance', 'direction' or 'distance' with a direction of {', '.join(DIRECTIONS)} "
            f"and a distance of {', '.join(DISTANCES)}; got {head!r}"
        )
    return parts[0], parts[1]


def head_name(direction: str, distance: str) -> str:
    """The shortest way to write a head.

    Example:
        >>> head_name("forward", "word"), head_name("none", "word"), head_name("none", "none")
        ('forward/word', 'word', 'none')
    """
    return "/".join(part for part in (direction, distance) if part != "none") or "none"


def heads_prior(
    heads: str | Sequence[str | Sequence[str]],
    *,
    alpha: int | float | Literal["alibi"] = 1.0,
    learnable_alpha: bool = False,
    missing_trees: Literal["error", "none", "word"] = "error",
) -> PerHead:
    """The prior of a layout of heads: ``M_h = M_dir(h) + alpha_h * M_dis(h)``.

    Args:
        heads: as in :func:`parse_heads`.
        alpha: the weight of all distances, or ``"alibi"`` for a geometric series over the heads (Press et al. 2022).
        learnable_alpha: whether ``alpha`` is learnt, one for each head, from that start.
        missing_trees: what a distance in a tree does with a sentence without a tree, see ``DependencyDistance``.

    Raises:
        ConfigError: for unknown heads, a negative ``alpha``, or an ``alpha`` of 0 that should be learnt.

    Example:
        >>> heads_prior(["forward/word", "backward/word"], alpha=1.5).names
        ('forward/word', 'backward/word')
    """
    pairs = parse_heads(heads)
    alphas = _alphas(alpha, len(pairs))
    if learnable_alpha and not all(alphas):
        raise ConfigError("alpha expects a positive start to be learnt from, got 0")
    learnt = LearntAlpha(len(pairs), initial=alphas) if learnable_alpha else None
    directions: dict[str, Prior] = {"forward": Forward(), "backward": Backward()}
    distances: dict[str, Prior] = {
        "word": WordDistance(),
        "dependency": DependencyDistance(missing_trees),
        "constituency": ConstituencyDistance(missing_trees),
    }
    priors: list[Prior | None] = []
    for (direction, distance), fixed in zip(pairs, alphas, strict=True):
        prior = directions.get(direction)
        if distance in distances:
            preference = (fixed if learnt is None else learnt) * distances[distance]
            prior = preference if prior is None else prior + preference
        priors.append(prior)
    return PerHead(priors, names=[head_name(*pair) for pair in pairs])


def _alphas(alpha: int | float | Literal["alibi"], num_heads: int) -> tuple[float, ...]:
    if alpha == "alibi":
        return alibi_slopes(num_heads)
    if isinstance(alpha, str) or not 0 <= alpha < float("inf"):
        raise ConfigError(f"alpha expects a finite number that is not negative, or 'alibi'; got {alpha!r}")
    return (float(alpha),) * num_heads
