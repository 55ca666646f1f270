"""The figures of one sentence, drawn from its attention maps: heads, trees, gates, poolers, attribution.

Qi et al. 2020 (MS-SAN, arXiv 2012.14642), figure 4; Shen et al. 2018 (DiSAN), figures 6 and 7.
"""

from collections.abc import Sequence
from typing import TypeVar

import torch

from structattn.inspection.latent import induced_tree_figure
from structattn.inspection.names import gate_names, titles_of
from structattn.inspection.occlusion import WordAttribution, attribution_figure
from structattn.inspection.summary import tree_of
from structattn.layers.attention_map import LATENT_TREES, AttentionMap
from structattn.pictures import (
    Limits,
    Names,
    Panel,
    Series,
    bar_chart,
    constituency_tree,
    dependency_tree,
    heatmap_grid,
)
from structattn.pictures.heatmap import gate_image
from structattn.syntax import Sentence

Numbered = TypeVar("Numbered")
HEAD_MARKS = Names(marks="syntactic head")


def attention_panels(maps: Sequence[AttentionMap]) -> list[Panel]:
    """One panel per head, titled by module and head where there are several.

    Keys that a query may not attend to are hatched; the syntactic head of a word is marked where it may attend to it.
    Only maps of kind ``"attention"`` are taken.

    Example:
        >>> import torch
        >>> weights = torch.tensor([[[1.0, 0.0], [0.5, 0.5]]])
        >>> found = AttentionMap("forward", ("a", "b"), ("a", "b"), weights, "attention", ("forward",))
        >>> [panel.title for panel in attention_panels([found])]
        ['forward']
    """
    chosen = [found for found in maps if found.kind == "attention"]
    panels = []
    for found, names in zip(chosen, titles_of(chosen), strict=True):
        tree = tree_of(found)
        heads = [] if tree is None else [(word, head - 1) for word, head in enumerate(tree.heads) if head]
        for number, (name, weights) in enumerate(zip(names, found.weights, strict=True)):
            allowed = torch.ones_like(weights, dtype=torch.bool) if found.allowed is None else found.allowed[number]
            # Forbidden is not the same as a weight of zero: such cells are hatched.
            shown = weights.masked_fill(~allowed, -torch.inf)
            marks = [cell for cell in heads if allowed[cell]]
            panels.append(Panel(found.rows, found.columns, shown, title=name, marks=marks))
    return panels


def attention_figure(
    maps: Sequence[AttentionMap], *, columns: int | None = None, title: str | None = None, by_row: bool = False
) -> str:
    """The heads of one or more modules side by side: MS-SAN's figure 4, DiSAN's figure 6.

    Args:
        maps: maps of one sentence, or of several.
        columns: how many heads are side by side; three or four by default.
        title: a heading.
        by_row: as in ``heatmap``.

    Raises:
        ValueError: if none of the maps is of kind ``"attention"``.
    """
    panels = attention_panels(maps)
    if not panels:
        raise ValueError(f"expected at least one map of kind 'attention'; got {[found.kind for found in maps]}")
    wide = columns if columns is not None else (3 if len(panels) in (1, 2, 3, 5, 6, 9) else 4)
    return heatmap_grid(panels, columns=wide, title=title, names=HEAD_MARKS, by_row=by_row)


def features_figure(attention_map: AttentionMap, *, title: str | None = None) -> str:
    """A gate or a pooler feature by feature, with the mean of each word: DiSAN's figure 7.

    A gate near 1 keeps the word itself. Weights of a pooler are drawn from 0 to the largest.

    Raises:
        ValueError: if the map is of kind ``"attention"``, which has no features.
    """
    if attention_map.features is None:
        raise ValueError(f"{attention_map.name}: expected a map of a gate or a pooler, got {attention_map.kind!r}")
    if attention_map.kind == "gate":
        return gate_image(attention_map.rows, attention_map.features, title=title)
    limits = Limits(minimum=0.0)
    return gate_image(attention_map.columns, attention_map.features, title=title, limits=limits, value_label="weight")


def pooling_figure(maps: Sequence[AttentionMap], *, title: str | None = None) -> str:
    """The weight of each word in the sentence vector, averaged over features, for one or more poolers.

    Raises:
        ValueError: if there is no map of kind ``"pooling"``, or the maps are about different words.
    """
    chosen = [found for found in maps if found.kind == "pooling"]
    if not chosen or any(found.columns != chosen[0].columns for found in chosen):
        kinds = [(found.kind, len(found.columns)) for found in maps]
        raise ValueError(f"expected maps of kind 'pooling' over the same words; got (kind, words) {kinds}")
    series = [Series(found.layer or found.name, [], found.weights[0, 0].tolist()) for found in chosen]
    return bar_chart(chosen[0].columns, series, title=title, value_label="mean weight over the features")


def sentence_figures(
    sentence: Sentence,
    maps: Sequence[AttentionMap],
    attribution: WordAttribution | None = None,
    *,
    by_row: bool = False,
) -> dict[str, str]:
    """All figures of one sentence, by name.

    Args:
        sentence: the sentence.
        maps: its maps.
        attribution: attribution of the answer to its words.
        by_row: as in ``heatmap``, for the heads.
    """
    figures = {}
    if any(found.kind == "attention" for found in maps):
        figures["attention"] = attention_figure(maps, by_row=by_row)
    for found in maps:
        if found.layer == LATENT_TREES:
            figures["induced"] = induced_tree_figure(found, sentence)
    if sentence.dependency is not None:
        figures["tree"] = dependency_tree(sentence.words, sentence.dependency, tags=sentence.tags)
    names = gate_names(maps)
    for what, found in _numbered("gate", [found for found in maps if found.kind == "gate"]):
        gate = f"Gate {names[found.name]}".rstrip()
        figures[what] = features_figure(found, title=f"{gate}: near 1 keeps the word, near 0 takes its context")
    pooling: dict[tuple[str, ...], list[AttentionMap]] = {}
    for found in maps:
        if found.kind == "pooling":
            pooling.setdefault(found.columns, []).append(found)
    for what, group in _numbered("pooling", list(pooling.values())):
        figures[what] = pooling_figure(group, title="Weight of each word in the sentence vector")
    for what, found in _numbered("pooling", [found for group in pooling.values() for found in group]):
        figures[f"{what}-features"] = features_figure(found, title=f"{found.layer}, feature by feature")
    if sentence.constituency is not None:
        figures["phrases"] = constituency_tree(sentence.words, sentence.constituency)
    if attribution is not None:
        figures["influence"] = attribution_figure([attribution], title="Leave-one-out attribution of the prediction")
    return figures


def _numbered(name: str, items: Sequence[Numbered]) -> list[tuple[str, Numbered]]:
    """A name for each item, with its number if there are several."""
    return [(name if len(items) == 1 else f"{name}-{number}", item) for number, item in enumerate(items, start=1)]
