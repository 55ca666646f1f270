"""The priors of MS-SAN's attention heads as plain strings, each a mask and a preference: ``forward/word``.

Qi et al. 2020 (MS-SAN, arXiv 2012.14642), section on multi-mask multi-head attention:
``M_h = M_dir(h) + alpha * M_dis(h)``; the rows of its ablation table are in ``ABLATIONS``. A configuration file can
name a layout, and a picture can show one.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

from structattn.data import parse_relation
from structattn.data.relation_names import parse_mask
from structattn.errors import ConfigError
from structattn.priors import LearnableAlpha, PerHead, Prior
from structattn.priors.relation import TABLES, import_prior, mask_prior, preference_prior, table_prior
from structattn.priors.sequence import alibi_slopes

_DIRECTIONS = ("forward", "backward")
_DISTANCES = ("word", "dependency", "constituency")

#: The six heads of MS-SAN: every direction with word distance, with dependency distance, and alone.
PAPER_HEADS = ("forward/word", "forward/dependency", "forward", "backward/word", "backward/dependency", "backward")

#: From a row of the paper's ablation to its heads. A row without one ingredient keeps the heads of the full model and
#: blanks the ingredient.
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


def heads_prior(
    heads: str | Sequence[str | Sequence[str]],
    *,
    alpha: int | float | Literal["alibi"] = 1.0,
    learnable_alpha: bool = False,
    missing_trees: Literal["error", "none", "word"] = "error",
) -> PerHead:
    """The prior of a layout of heads: ``M_h = M_dir(h) + alpha_h * M_dis(h)``.

    Args:
        heads: the name of a row of ``ABLATIONS``, or one entry per head. An entry names a mask and a preference, both
            relations of `structattn.data.parse_relation`, as ``"forward/word"`` or as the pair ``("forward", "word")``;
            the distances have the short names ``word``, ``dependency`` and ``constituency``. The forms of an entry:

            ======================  ============================================================================
            ``mask/preference``     ``ancestor/word``: only ancestors, near ones preferred
            a direction alone       ``forward``: a mask
            a relation alone        ``head:nsubj``: a preference; ``head:nsubj/none`` is the mask
            ``module:name``         a prior of your own, a class or an instance, or a function that computes a
                                    relation from a batch
            ``table``               a learnt bias of each word offset, `LearntTable`; ``dependency_table``,
                                    ``constituency_table`` and ``path_table`` of distances in trees
            ``none``                a plain head
            ======================  ============================================================================

        alpha: the weight of all distances, or ``"alibi"`` for a geometric series over the heads (Press et al. 2022).
        learnable_alpha: whether ``alpha`` is learnt, one for each head, starting from that value.
        missing_trees: what a tree distance does for a sentence without a tree, see ``DependencyDistance``.

    Raises:
        ConfigError: for an unknown row or relation, a distance as a mask, no head at all, a negative ``alpha``, or an
            ``alpha`` of 0 that should be learnt.

    Example:
        >>> heads_prior(["forward/word", ("none", "dependency"), "arc/none"], alpha=1.5).head_names
        ('forward/word', 'dependency', 'arc/none')
    """
    pairs = parse_heads(heads)
    alphas = _alphas(alpha, len(pairs))
    if learnable_alpha and not all(alphas):
        raise ConfigError("alpha expects a positive start to be learnt from, got 0")
    learnt = LearnableAlpha(len(pairs), initial=alphas) if learnable_alpha else None
    names = {preference for _, preference in pairs if preference in TABLES}
    tables = {name: table_prior(name, len(pairs), missing=missing_trees) for name in sorted(names)}
    priors: list[Prior | None] = []
    for (mask, preference), fixed in zip(pairs, alphas, strict=True):
        prior = None if mask == "none" else mask_prior(_relation_name(mask))
        if preference != "none":
            preferred = tables.get(preference)
            if preferred is None:
                preferred = preference_prior(_relation_name(preference), missing=missing_trees)
            scaled = (fixed if learnt is None else learnt) * preferred
            prior = scaled if prior is None else prior + scaled
        priors.append(prior)
    return PerHead(priors, head_names=[_head_name(*pair) for pair in pairs])


def parse_heads(heads: str | Sequence[str | Sequence[str]]) -> list[tuple[str, str]]:
    """Heads as pairs of a mask and a preference, each the name of a relation or prior, or ``none``."""
    if isinstance(heads, str):
        if heads not in ABLATIONS:
            raise ConfigError(f"unknown row of heads {heads!r}; known: {', '.join(ABLATIONS)}; or list the heads")
        heads = ABLATIONS[heads]
    if not heads:
        raise ConfigError("heads expects at least one head, got none")
    return [_parse_head(head) for head in heads]


def _parse_head(head: str | Sequence[str]) -> tuple[str, str]:
    parts = head.split("/") if isinstance(head, str) else list(head)
    if len(parts) == 1:
        parts = [parts[0], "none"] if parts[0] in _DIRECTIONS else ["none", parts[0]]
    try:
        mask, preference = parts
        if mask != "none" and import_prior(mask) is None:
            parse_mask(_relation_name(mask))
        if preference not in ("none", *TABLES) and import_prior(preference) is None:
            parse_relation(_relation_name(preference))
    except ValueError as error:
        reason = f": {error}" if isinstance(error, ConfigError) else ""
        raise ConfigError(
            f"a head is 'mask/preference', such as 'forward/word', or one of the two: a mask of "
            f"{', '.join(_DIRECTIONS)}, none and other relations, a preference of {', '.join((*_DISTANCES, *TABLES))}, "
            f"none and other relations; got {head!r}{reason}"
        ) from None
    return mask, preference


def _relation_name(name: str) -> str:
    """The full name of a relation: in the names of heads, distances omit ``_distance``."""
    return f"{name}_distance" if name in _DISTANCES else name


def _head_name(mask: str, preference: str) -> str:
    """The shortest way to write a head."""
    if preference == "none":
        return mask if mask in (*_DIRECTIONS, "none") else f"{mask}/none"
    return preference if mask == "none" else f"{mask}/{preference}"


def _alphas(alpha: int | float | Literal["alibi"], num_heads: int) -> tuple[float, ...]:
    if alpha == "alibi":
        return alibi_slopes(num_heads)
    if isinstance(alpha, str) or not 0 <= alpha < float("inf"):
        raise ConfigError(f"alpha expects a finite number that is not negative, or 'alibi'; got {alpha!r}")
    return (float(alpha),) * num_heads
