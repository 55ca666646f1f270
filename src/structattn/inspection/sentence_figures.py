"""All figures of one sentence, keyed by what they show."""

from collections.abc import Sequence

from structattn.inspection.attention_map import AttentionMap
from structattn.inspection.figures import (
    attention_figure,
    attention_panels,
    gate_figure,
    pooling_features_figure,
    pooling_figure,
)
from structattn.inspection.latent import LAYER as LATENT
from structattn.inspection.latent import induced_tree_figure
from structattn.inspection.names import gate_names
from structattn.inspection.occlusion import WordAttribution, attribution_figure
from structattn.pictures import Panel, constituency_tree, dependency_tree
from structattn.syntax import Sentence


def sentence_figures(
    sentence: Sentence, maps: Sequence[AttentionMap], influence: WordAttribution | None = None
) -> dict[str, str]:
    """Every figure of one sentence, by name."""
    figures = {}
    if any(found.kind == "attention" for found in maps):
        figures["attention"] = attention_figure(maps)
    for found in maps:
        if found.layer == LATENT:
            figures["induced"] = induced_tree_figure(found, sentence)
    if sentence.dependency is not None:
        figures["tree"] = dependency_tree(sentence.words, sentence.dependency, tags=sentence.tags)
    names = gate_names(maps)
    for what, found in _named(maps, "gate"):
        gate = f"Gate {names[found.name]}".rstrip()
        figures[what] = gate_figure(found, title=f"{gate}: near 1 keeps the word, near 0 takes its context")
    pooling = [found for found in maps if found.kind == "pooling" and found.columns == sentence.words]
    if pooling:
        figures["pooling"] = pooling_figure(pooling, title="Weight of each word in the sentence vector")
    for what, found in _named(pooling, "pooling"):
        figures[f"{what}-features"] = pooling_features_figure(found, title=f"{found.layer}, feature by feature")
    if sentence.constituency is not None:
        figures["phrases"] = constituency_tree(sentence.words, sentence.constituency)
    if influence is not None:
        figures["influence"] = attribution_figure([influence], title="Leave-one-out attribution of the answer")
    return figures


def sentence_matrices(maps: Sequence[AttentionMap]) -> dict[str, list[Panel]]:
    """What can be drawn as plain matrices: attention, gates, and feature-wise pooling."""
    matrices = {}
    names = gate_names(maps)
    attention = attention_panels(maps)
    if attention:
        matrices["attention"] = attention
    for kind in ("gate", "pooling"):
        for what, found in _named(maps, kind):
            words = found.rows if kind == "gate" else found.columns
            if words and found.features is not None:
                matrices[what] = [Panel(words, (), found.features, title=names.get(found.name) or found.layer)]
    return matrices


def _named(maps: Sequence[AttentionMap], kind: str) -> list[tuple[str, AttentionMap]]:
    """The maps of a kind, each with a name for its file."""
    chosen = [found for found in maps if found.kind == kind]
    return [(kind if len(chosen) == 1 else f"{kind}-{number}", found) for number, found in enumerate(chosen, start=1)]
