"""The figures of one sentence, drawn from its attention maps: heads, trees, gates, poolers, attribution.

Qi et al. 2020 (MS-SAN, arXiv 2012.14642), figure 4; Shen et al. 2018 (DiSAN), figures 6 and 7.
"""

import logging
from collections.abc import Sequence
from typing import Any, TypeVar

import torch

from structattn.encoders.latent_tree import LatentTree
from structattn.errors import ConfigError
from structattn.inspection.attention_statistics import find_tree
from structattn.inspection.occlusion import WordAttribution, attribution_figure
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
from structattn.pictures.figure_style import FigureStyle, print_figure, select_heads
from structattn.pictures.heatmap import gate_image
from structattn.pictures.svg import figure_width
from structattn.syntax import Sentence

LOGGER = logging.getLogger("structattn.inspection")
Numbered = TypeVar("Numbered")
HEAD_MARKS = Names(marks="syntactic head")


def attention_panels(maps: Sequence[AttentionMap]) -> list[Panel]:
    """One panel per head of the maps of kind ``"attention"``, titled by module and head where there are several.

    Keys that a query may not attend to are hatched; the syntactic head of a word is marked where it may attend to it.
    """
    maps = [attention_map for attention_map in maps if attention_map.kind == "attention"]
    panels = []
    for attention_map, titles in zip(maps, title_heads(maps), strict=True):
        tree = find_tree(attention_map)
        arcs = [] if tree is None else [(word, head - 1) for word, head in enumerate(tree.heads) if head]
        for number, (title, weights) in enumerate(zip(titles, attention_map.weights, strict=True)):
            whole = torch.ones_like(weights, dtype=torch.bool)
            allowed = whole if attention_map.allowed is None else attention_map.allowed[number]
            # Forbidden is not the same as a weight of zero: such cells are hatched.
            shown = weights.masked_fill(~allowed, -torch.inf)
            marks = [cell for cell in arcs if allowed[cell]]
            panels.append(Panel(attention_map.rows, attention_map.columns, shown, title=title, marks=marks))
    return panels


def attention_figure(
    maps: Sequence[AttentionMap],
    *,
    columns: int | None = None,
    title: str | None = None,
    by_row: bool = False,
    style: FigureStyle | None = None,
) -> str:
    """The heads of one or more modules side by side: MS-SAN's figure 4, DiSAN's figure 6.

    Args:
        maps: maps of one sentence, or of several; those of gates and poolers are left out.
        columns: how many heads are side by side; three or four by default.
        title: a heading.
        by_row: give the largest weight of each row the highest colour, instead of the largest of each head.
        style: for print: the heads to draw, on the scale of all, how many are side by side, and the width.

    Returns:
        An SVG text. Keys that a query may not attend to are hatched, and syntactic heads are framed.

    Raises:
        ValueError: if none of the maps is of kind ``"attention"``.

    Example:
        >>> weights = torch.tensor([[[1.0, 0.0], [0.5, 0.5]]])
        >>> forward = AttentionMap("forward", ("a", "b"), ("a", "b"), weights, "attention", ("forward",))
        >>> attention_figure([forward]).startswith("<svg")
        True
    """
    panels = attention_panels(maps)
    if not panels:
        kinds = [attention_map.kind for attention_map in maps]
        raise ValueError(f"expected at least one map of kind 'attention'; got {kinds}")
    style = FigureStyle() if style is None else style
    limits = None
    if style.heads:
        scale = Limits().scale(value for panel in panels for row in panel.matrix() for value in row)
        limits = Limits(scale.minimum, scale.maximum)
        panels = [panels[index] for index in select_heads([panel.title for panel in panels], style)]
    columns = style.columns if columns is None else columns
    wide = columns if columns is not None else (3 if len(panels) in (1, 2, 3, 5, 6, 9) else 4)
    options: dict[str, Any] = {"limits": limits, "width": style.width, "by_row": by_row}
    return heatmap_grid(panels, columns=wide, title=title, names=HEAD_MARKS, **options)


def features_figure(attention_map: AttentionMap, *, title: str | None = None) -> str:
    """A gate or a pooler feature by feature, with the mean of each word: DiSAN's figure 7.

    Args:
        attention_map: a map of a gate, where a value near 1 keeps the word itself, or of a pooler.
        title: a heading.

    Returns:
        An SVG text. Gates are drawn on a scale from 0 to 1, weights of a pooler from 0 to the largest.

    Raises:
        ValueError: if the map is of kind ``"attention"``, which has no features.

    Example:
        >>> gate = torch.tensor([[0.1, 0.9], [0.5, 0.5]])
        >>> gate_map = AttentionMap("gate", ("a", "b"), ("gate",), gate[None], "gate", ("gate",), features=gate)
        >>> "2 features" in features_figure(gate_map)
        True
    """
    if attention_map.features is None:
        raise ValueError(f"{attention_map.name}: expected a map of a gate or a pooler, got {attention_map.kind!r}")
    if attention_map.kind == "gate":
        return gate_image(attention_map.rows, attention_map.features, title=title)
    limits = Limits(minimum=0.0)
    return gate_image(attention_map.columns, attention_map.features, title=title, limits=limits, value_label="weight")


def pooling_figure(maps: Sequence[AttentionMap], *, title: str | None = None, width: float | None = None) -> str:
    """The weight of each word in the sentence vector, averaged over features, for one or more poolers.

    Args:
        maps: maps over the same words; those of attention and gates are left out.
        title: a heading.
        width: the pixels that the figure should take at most, for print.

    Returns:
        An SVG text, with a bar for each word and pooler.

    Raises:
        ValueError: if there is no map of kind ``"pooling"``, or the maps are about different words.

    Example:
        >>> weights = torch.tensor([[[0.2, 0.8]]])
        >>> pooler = AttentionMap("pooler", ("sentence",), ("a", "dog"), weights, "pooling", ("pooler",))
        >>> pooling_figure([pooler]).count('class="sa-bar"')
        2
    """
    poolers = [attention_map for attention_map in maps if attention_map.kind == "pooling"]
    if not poolers or any(pooler.columns != poolers[0].columns for pooler in poolers):
        kinds = [(attention_map.kind, len(attention_map.columns)) for attention_map in maps]
        raise ValueError(f"expected maps of kind 'pooling' over the same words; got (kind, words) {kinds}")
    series = [Series(pooler.layer or pooler.name, [], pooler.weights[0, 0].tolist()) for pooler in poolers]
    options: dict[str, Any] = {"title": title, "value_label": "mean weight over the features"}
    figure = bar_chart(poolers[0].columns, series, **options)
    if width is None or figure_width(figure) <= width:
        return figure
    return bar_chart(poolers[0].columns, series, width=max(420.0 - figure_width(figure) + width, 60.0), **options)


def latent_tree_figure(tree: LatentTree, sentence: Sentence, *, title: str | None = None) -> str:
    """The best tree under a model, arcs drawn by probability; the given tree below, if there is one."""
    return dependency_tree(
        sentence.words,
        tree.heads,
        weights=[tree.probabilities[word, head].item() for word, head in enumerate(tree.heads)],
        other=sentence.dependency,
        names=("induced", "given"),
        tags=sentence.tags,
        title="Best tree under the model" if title is None else title,
    )


def induced_tree_figure(attention_map: AttentionMap, sentence: Sentence, *, title: str | None = None) -> str:
    """The same from a map of the layer ``LATENT_TREES``, which has marginals and the best tree as its heads."""
    marginals, best = attention_map.weights
    root = (1 - marginals.sum(-1, keepdim=True)).clamp(0, 1)
    heads = torch.where(best.sum(-1) > 0, best.argmax(-1) + 1, 0).tolist() if len(best) else []
    return latent_tree_figure(LatentTree(torch.cat([root, marginals], -1), tuple(heads)), sentence, title=title)


def sentence_figures(
    sentence: Sentence,
    maps: Sequence[AttentionMap],
    attribution: WordAttribution | None = None,
    *,
    by_row: bool = False,
    style: FigureStyle | None = None,
) -> dict[str, str]:
    """All figures of one sentence, by name; ``by_row`` scales the colours of heads as in ``attention_figure``.

    A style for print leaves out what does not fit into its width, with a warning, and everything but chosen heads.
    """
    style = FigureStyle() if style is None else style
    figures: dict[str, str] = {}
    if any(attention_map.kind == "attention" for attention_map in maps):
        figures["attention"] = attention_figure(maps, by_row=by_row, style=style)
    if not style.heads:
        figures |= _other_figures(sentence, maps, attribution, style)
    printed = {}
    for name, figure in figures.items():
        try:
            printed[name] = print_figure(figure, style)
        except ConfigError as error:
            LOGGER.warning("%s is left out: %s", name, error)
    return printed


def _other_figures(
    sentence: Sentence, maps: Sequence[AttentionMap], attribution: WordAttribution | None, style: FigureStyle
) -> dict[str, str]:
    """All but the attention."""
    figures: dict[str, str] = {}

    def heading(title: str) -> str | None:
        return title if style.has_titles else None

    for attention_map in maps:
        if attention_map.layer == LATENT_TREES:
            title = None if style.has_titles else ""
            figures["induced"] = induced_tree_figure(attention_map, sentence, title=title)
    if sentence.dependency is not None:
        figures["tree"] = dependency_tree(sentence.words, sentence.dependency, tags=sentence.tags)
    titles = name_gates(maps)
    for name, gate in _number("gate", [attention_map for attention_map in maps if attention_map.kind == "gate"]):
        title = f"Gate {titles[gate.name]}".rstrip()
        figures[name] = features_figure(
            gate, title=heading(f"{title}: near 1 keeps the word, near 0 takes its context")
        )
    poolers: dict[tuple[str, ...], list[AttentionMap]] = {}
    for attention_map in maps:
        if attention_map.kind == "pooling":
            poolers.setdefault(attention_map.columns, []).append(attention_map)
    for name, group in _number("pooling", list(poolers.values())):
        figures[name] = pooling_figure(
            group, title=heading("Weight of each word in the sentence vector"), width=style.width
        )
    for name, pooler in _number("pooling", [pooler for group in poolers.values() for pooler in group]):
        figures[f"{name}-features"] = features_figure(pooler, title=heading(f"{pooler.layer}, feature by feature"))
    if sentence.constituency is not None:
        figures["phrases"] = constituency_tree(sentence.words, sentence.constituency)
    if attribution is not None:
        figures["influence"] = attribution_figure(
            [attribution], title=heading("Leave-one-out attribution of the prediction")
        )
    return figures


def _number(name: str, items: Sequence[Numbered]) -> list[tuple[str, Numbered]]:
    """A name for each item, with its number if there are several."""
    return [(name if len(items) == 1 else f"{name}-{number}", item) for number, item in enumerate(items, start=1)]


def title_heads(maps: Sequence[AttentionMap]) -> list[list[str]]:
    """A short title for each head of each map, distinct within a sentence: its name, after its module's if needed."""
    modules = _title_modules_of_kind(maps)
    titles = []
    for attention_map in maps:
        module, names = modules[attention_map.name], list(attention_map.head_names)
        if module:
            names = [module] if len(names) == 1 else [f"{module} · {name}" for name in names]
        titles.append(names)
    return titles


def title_modules(maps: Sequence[AttentionMap]) -> dict[str, str]:
    """A short title for the path of each module, empty if the names of its heads are enough."""
    titles: dict[str, str] = {}
    for kind in ("attention", "pooling"):
        titles |= _title_modules_of_kind([attention_map for attention_map in maps if attention_map.kind == kind])
    return titles | name_gates(maps)


def name_gates(maps: Sequence[AttentionMap]) -> dict[str, str]:
    """A short name for the path of each gate: that of the attention head that feeds it, if there is just one.

    Otherwise it is the path without the parts common to all gates, and empty for a single gate.
    """
    gates = list(dict.fromkeys(attention_map.name for attention_map in maps if attention_map.kind == "gate"))
    names = dict(zip(gates, _shorten(gates) if len(gates) > 1 else [""], strict=False))
    for gate in gates:
        block = gate.rpartition(".")[0] + "."
        feeding = {
            attention_map.name: attention_map.head_names
            for attention_map in maps
            if attention_map.kind == "attention" and attention_map.name.startswith(block)
        }
        heads = [head for head_names in feeding.values() for head in head_names]
        if len(heads) == 1:
            names[gate] = heads[0]
    return names


def _title_modules_of_kind(maps: Sequence[AttentionMap]) -> dict[str, str]:
    """The paths of modules in short; empty where no two modules share the name of a head, so that it is enough."""
    names = {attention_map.name: attention_map.head_names for attention_map in maps}
    paths = list(names)
    if len({name for heads in names.values() for name in heads}) == sum(map(len, names.values())):
        return dict.fromkeys(paths, "")
    return dict(zip(paths, _shorten(paths), strict=True))


def _shorten(paths: Sequence[str]) -> list[str]:
    """The paths without the parts common to all: ``blocks.0.attention``, ``blocks.1.attention`` are layers 1 and 2."""
    parts = [path.split(".") for path in paths]
    while all(len(part) > 1 for part in parts) and len({part[0] for part in parts}) == 1:
        parts = [part[1:] for part in parts]
    while all(len(part) > 1 for part in parts) and len({part[-1] for part in parts}) == 1:
        parts = [part[:-1] for part in parts]
    if len(parts) > 1 and all(len(part) == 1 and part[0].isdecimal() for part in parts):
        return [f"layer {int(number) + 1}" for (number,) in parts]
    return [".".join(part) for part in parts]
