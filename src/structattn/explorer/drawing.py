"""What the explorer shows, as one SVG: the picture that it exports, and that ``structattn plot --state`` writes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from torch import Tensor

from structattn.errors import ConfigError
from structattn.explorer.protocol import PICTURES
from structattn.inspection import AttentionMap, Look
from structattn.inspection.figures import HEAD_MARKS, attention_panels, pooling_figure
from structattn.inspection.latent import latent_tree_figure
from structattn.pictures import Limits, Panel, constituency_tree, dependency_tree, heatmap_grid
from structattn.pictures.svg import stack
from structattn.syntax import Sentence

Looks = Mapping[str, Look]


def draw(what: str, looks: Looks, *, before: Looks | None = None, by_row: bool = False) -> str:
    """A picture of what models computed for the same sentences.

    Args:
        what: ``heads``, all attention of all models; ``pooling``, the weights of words in the sentence vector; ``tree``
            and ``phrases``, the trees of the sentences; ``latent``, the trees that a model attends with.
        looks: looks by the names of the models.
        before: the looks before an edit; if given, heads are drawn as the change since then, and the tree with the
            former one below.
        by_row: give the largest weight of each row of a head the highest colour; changes always share one scale.

    Raises:
        ConfigError: for an unknown ``what``, or if there is nothing of the kind.
    """
    if what not in PICTURES:
        raise ConfigError(f"unknown picture {what!r}; known: {', '.join(PICTURES)}")
    found = pictures_of(looks, before=before, by_row=by_row, wanted=[what])
    if not found:
        raise ConfigError(f"expected {_NOTHING[what]}, got {' and '.join(looks)} without")
    return found[what]


def pictures_of(
    looks: Looks, *, before: Looks | None = None, by_row: bool = False, wanted: Sequence[str] = PICTURES
) -> dict[str, str]:
    """All pictures that can be drawn, by ``what``; arguments as for ``draw``."""
    found = {}
    for what in wanted:
        parts = _heads(looks, before or {}, by_row=by_row) if what == "heads" else _DRAWN[what](looks, before or {})
        if parts:
            found[what] = parts[0] if len(parts) == 1 else stack(parts)
    return found


def _heads(looks: Looks, before: Looks, *, by_row: bool) -> list[str]:
    panels: list[Panel] = []
    for name, found in looks.items():
        maps = _of_kind(found, "attention")
        if before:
            maps = _changes(maps, _of_kind(before[name], "attention"))
        shown = attention_panels(maps)
        numbers = [one.index for one in maps for _ in one.head_names]
        for number, panel in zip(numbers, shown, strict=True):
            parts = [name] if len(looks) > 1 else []
            parts += [f"sentence {number + 1}"] if len(found.example.sentences) > 1 else []
            panels.append(replace(panel, title=": ".join([*parts, panel.title])))
    if not panels:
        return []
    limits = Limits(diverging=True) if before else Limits()
    names = replace(HEAD_MARKS, values="change of weight") if before else HEAD_MARKS
    return [heatmap_grid(panels, columns=3, limits=limits, names=names, by_row=by_row and not before)]


def _changes(after: Sequence[AttentionMap], before: Sequence[AttentionMap]) -> list[AttentionMap]:
    if [(one.name, one.columns) for one in after] != [(one.name, one.columns) for one in before]:
        raise ConfigError("figure.before: expected the same words and phrases as now, got others")
    return [
        replace(one, weights=one.weights - other.weights, allowed=_either(one, other))
        for one, other in zip(after, before, strict=True)
    ]


def _either(one: AttentionMap, other: AttentionMap) -> Tensor | None:
    """Allowed now or before, as either weight may differ from 0."""
    return None if one.allowed is None or other.allowed is None else one.allowed | other.allowed


def _pooling(looks: Looks, before: Looks) -> list[str]:
    parts = []
    for name, found in looks.items():
        groups: dict[tuple[int, tuple[str, ...]], list[AttentionMap]] = {}
        for one in _of_kind(found, "pooling"):
            groups.setdefault((one.index, one.columns), []).append(one)
        parts += [pooling_figure(group, title=_title(looks, name)) for group in groups.values()]
    return parts


def _trees(looks: Looks, before: Looks) -> list[str]:
    pairs = zip(_sentences(looks), _sentences(before or looks), strict=True)
    return [
        dependency_tree(
            now.words,
            now.dependency,
            tags=now.tags,
            other=None if now.dependency == then.dependency else then.dependency,
            names=("now", "before"),
        )
        for now, then in pairs
        if now.dependency is not None
    ]


def _phrases(looks: Looks, before: Looks) -> list[str]:
    return [
        constituency_tree(sentence.words, sentence.constituency)
        for sentence in _sentences(looks)
        if sentence.constituency is not None
    ]


def _latent(looks: Looks, before: Looks) -> list[str]:
    return [
        latent_tree_figure(tree, sentence, title=_title(looks, name))
        for name, found in looks.items()
        for tree, sentence in zip(found.latent, found.example.sentences, strict=True)
        if tree is not None
    ]


def _sentences(looks: Looks) -> Sequence[Sentence]:
    return next(iter(looks.values())).example.sentences


def _of_kind(found: Look, kind: str) -> list[AttentionMap]:
    return [one for one in found.maps if one.kind == kind]


def _title(looks: Looks, name: str) -> str | None:
    return name if len(looks) > 1 else None


_DRAWN: Mapping[str, Callable[[Looks, Looks], list[str]]] = {
    "tree": _trees,
    "phrases": _phrases,
    "pooling": _pooling,
    "latent": _latent,
}
_NOTHING = {
    "heads": "a model with attention",
    "tree": "a dependency tree",
    "phrases": "a phrase tree",
    "pooling": "a model with a pooler",
    "latent": "a model with latent trees",
}
