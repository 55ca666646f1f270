"""What the explorer shows, as one SVG: the picture that it exports, and that ``structattn plot --state`` writes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from torch import Tensor

from structattn.errors import ConfigError, shown
from structattn.explorer.protocol import PICTURES
from structattn.inspection import AttentionMap, Look
from structattn.inspection.sentence_figures import HEAD_MARKS, attention_panels, latent_tree_figure, pooling_figure
from structattn.pictures import Limits, Panel, constituency_tree, dependency_tree, heatmap_grid
from structattn.pictures.svg import stack
from structattn.pictures.tree_pictures import edited_tree
from structattn.syntax import Sentence

Looks = Mapping[str, Look]


def draw(
    picture: str,
    looks: Looks,
    *,
    originals: Looks | None = None,
    by_row: bool = False,
    heads: Sequence[str] | None = None,
) -> str:
    """One picture of what models, by their names, computed for the same sentences; see ``draw_all``.

    Of heads only some are drawn, if they are named, on the scale of all: ``model/module/sentence/number``.
    """
    if picture not in PICTURES:
        raise ConfigError(f"unknown picture {picture!r}; known: {', '.join(PICTURES)}")
    if heads is not None and picture == "heads":
        parts = _draw_heads(looks, originals or {}, by_row=by_row, selected=heads)
        drawn = {picture: parts[0]} if parts else {}
    else:
        drawn = draw_all(looks, originals=originals, by_row=by_row, pictures=[picture])
    if not drawn:
        raise ConfigError(f"expected {_CONTENTS[picture]}, got {' and '.join(looks)} without")
    return drawn[picture]


def draw_all(
    looks: Looks, *, originals: Looks | None = None, by_row: bool = False, pictures: Sequence[str] = PICTURES
) -> dict[str, str]:
    """All pictures that can be drawn, by name. With the looks before an edit, heads are drawn as the change since then.

    ``by_row`` gives the largest weight of each row of a head the highest colour; changes always share one scale.
    """
    drawn = {}
    for picture in pictures:
        is_heads = picture == "heads"
        earlier = originals or {}
        parts = _draw_heads(looks, earlier, by_row=by_row) if is_heads else _DRAWN[picture](looks, earlier)
        if parts:
            drawn[picture] = parts[0] if len(parts) == 1 else stack(parts)
    return drawn


def _draw_heads(looks: Looks, originals: Looks, *, by_row: bool, selected: Sequence[str] | None = None) -> list[str]:
    panels: list[Panel] = []
    keys: list[str] = []
    for name, look in looks.items():
        maps = _select_maps(look, "attention")
        if originals:
            maps = _subtract(maps, _select_maps(originals[name], "attention"))
        numbers = [part.index for part in maps for _ in part.head_names]
        keys += [f"{name}/{part.name}/{part.index}/{head}" for part in maps for head in range(len(part.head_names))]
        for number, panel in zip(numbers, attention_panels(maps), strict=True):
            titles = [name] if len(looks) > 1 else []
            titles += [f"sentence {number + 1}"] if len(look.example.sentences) > 1 else []
            panels.append(replace(panel, title=": ".join([*titles, panel.title])))
    if not panels:
        return []
    scale = Limits(diverging=bool(originals)).scale(
        value for panel in panels for row in panel.matrix() for value in row
    )
    limits = Limits(scale.minimum, scale.maximum, diverging=bool(originals))
    names = replace(HEAD_MARKS, values="change of weight") if originals else HEAD_MARKS
    if selected is not None:
        panels = [panel for key, panel in zip(keys, panels, strict=True) if key in selected]
        if not panels:
            raise ConfigError(f"figure.heads: expected some of {', '.join(keys)}, got {shown(list(selected))}")
    return [heatmap_grid(panels, columns=3, limits=limits, names=names, by_row=by_row and not originals)]


def _subtract(maps: Sequence[AttentionMap], originals: Sequence[AttentionMap]) -> list[AttentionMap]:
    if [(part.name, part.columns) for part in maps] != [(part.name, part.columns) for part in originals]:
        raise ConfigError("figure.before: expected the same words and phrases as now, got others")
    return [
        replace(new, weights=new.weights - old.weights, allowed=_unite_allowed(new, old))
        for new, old in zip(maps, originals, strict=True)
    ]


def _unite_allowed(new: AttentionMap, old: AttentionMap) -> Tensor | None:
    """Allowed now or before, as either weight may differ from 0."""
    return None if new.allowed is None or old.allowed is None else new.allowed | old.allowed


def _draw_pooling(looks: Looks, originals: Looks) -> list[str]:
    parts = []
    for name, look in looks.items():
        groups: dict[tuple[int, tuple[str, ...]], list[AttentionMap]] = {}
        for part in _select_maps(look, "pooling"):
            groups.setdefault((part.index, part.columns), []).append(part)
        parts += [pooling_figure(group, title=_title(looks, name)) for group in groups.values()]
    return parts


def _draw_trees(looks: Looks, originals: Looks) -> list[str]:
    pairs = zip(_sentences(looks), _sentences(originals or looks), strict=True)
    return [
        dependency_tree(now.words, now.dependency, tags=now.tags)
        if then.dependency in (None, now.dependency)
        else edited_tree(now.words, now.dependency, then.dependency, tags=now.tags)
        for now, then in pairs
        if now.dependency is not None
    ]


def _draw_phrases(looks: Looks, originals: Looks) -> list[str]:
    return [
        constituency_tree(sentence.words, sentence.constituency)
        for sentence in _sentences(looks)
        if sentence.constituency is not None
    ]


def _draw_latent(looks: Looks, originals: Looks) -> list[str]:
    return [
        latent_tree_figure(tree, sentence, title=_title(looks, name))
        for name, look in looks.items()
        for tree, sentence in zip(look.latent, look.example.sentences, strict=True)
        if tree is not None
    ]


def _sentences(looks: Looks) -> Sequence[Sentence]:
    return next(iter(looks.values())).example.sentences


def _select_maps(look: Look, kind: str) -> list[AttentionMap]:
    return [part for part in look.maps if part.kind == kind]


def _title(looks: Looks, name: str) -> str | None:
    return name if len(looks) > 1 else None


_DRAWN: Mapping[str, Callable[[Looks, Looks], list[str]]] = {
    "tree": _draw_trees,
    "phrases": _draw_phrases,
    "pooling": _draw_pooling,
    "latent": _draw_latent,
}
_CONTENTS = {
    "heads": "a model with attention",
    "tree": "a dependency tree",
    "phrases": "a phrase tree",
    "pooling": "a model with a pooler",
    "latent": "a model with latent trees",
}
