"""Everything there is to see of a trained model on some sentences: one HTML page, and single figures as files.

Separate from ``figures`` because this file decides what to draw, and where it goes.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from structattn.data import Example, SentenceBatch, Vocabulary
from structattn.inspection.attention_map import AttentionMap
from structattn.inspection.figures import (
    attention_figure,
    attention_panels,
    gate_figure,
    pooling_features_figure,
    pooling_figure,
    tree_figure,
)
from structattn.inspection.items import Item, sentences_of
from structattn.inspection.latent import LAYER as LATENT
from structattn.inspection.latent import induced_tree_figure
from structattn.inspection.maps import attention_maps
from structattn.inspection.names import gate_names
from structattn.inspection.summary import summarise
from structattn.inspection.tree_figures import phrase_query_figure
from structattn.pictures import (
    Panel,
    Section,
    choices,
    constituency_tree,
    dependency_tree,
    heatmap,
    page,
    paragraph,
    save_panels,
    side_by_side,
    table,
)
from structattn.syntax import Sentence, replace_text
from structattn.syntax.errors import ConfigError

FORMATS = ("html", "svg", "png", "pdf")


@dataclass(frozen=True)
class _Shown:
    """One item of the page: its sentences, the maps of each, and what the model answers."""

    name: str
    sentences: tuple[Sentence, ...]
    maps: tuple[tuple[AttentionMap, ...], ...]
    answer: str


def attention_page(
    model: nn.Module,
    sentences: SentenceBatch | Item | Sequence[Item],
    title: str = "Attention",
    *,
    vocabulary: Vocabulary | None = None,
) -> str:
    """A page with the attention of a model on some sentences: choose a sentence, then a head.

    For each sentence: what the model answers, all heads side by side, one head large with its arcs under the dependency
    tree, the gates, the weight of each word in the sentence vector, and the phrase tree. Below them, the heads in
    numbers.

    Args:
        model: as in ``attention_maps``.
        sentences: as in ``attention_maps``. A page of twenty sentences is comfortable, one of two hundred is large.
        title: the heading.
        vocabulary: for models that have none.

    Returns:
        A self-contained HTML document.

    Raises:
        ValueError: if there are no sentences.
        ConfigError: as in ``attention_maps``; likewise ``MissingStructure`` and ``TypeError``.
    """
    return _page(_look(model, sentences, vocabulary), title)


def save_plots(
    folder: str | os.PathLike[str],
    model: nn.Module,
    sentences: SentenceBatch | Item | Sequence[Item],
    *,
    title: str = "Attention",
    formats: Sequence[str] = ("html", "svg"),
    vocabulary: Vocabulary | None = None,
) -> list[Path]:
    """Write the page and each figure of each sentence into a folder, which is made if missing.

    Files are named by the number of the sentence and what they show: ``attention.html``, ``01-attention.svg``,
    ``01-tree.svg``, ``01-gate.svg``, ``01-pooling.svg``. PNG and PDF hold the matrices: attention, gates, and the
    pooling weights of every feature.

    Args:
        folder: where to write.
        model: as in ``attention_maps``.
        sentences: as in ``attention_maps``.
        title: the heading of the page.
        formats: some of ``html``, ``svg``, ``png``, ``pdf``.
        vocabulary: for models that have none.

    Returns:
        The files that were written.

    Raises:
        ConfigError: for an unknown format; the message lists the known ones.
        MissingExtra: for PNG or PDF without matplotlib.
        ValueError: if there are no sentences.
    """
    for name in formats:
        if name not in FORMATS:
            raise ConfigError(f"unknown format {name!r}; known: {', '.join(FORMATS)}")
    shown = _look(model, sentences, vocabulary)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    texts: dict[str, str] = {"attention.html": _page(shown, title)} if "html" in formats else {}
    panels: dict[str, list[Panel]] = {}
    numbered = [(sentence, maps) for item in shown for sentence, maps in zip(item.sentences, item.maps, strict=True)]
    for number, (sentence, maps) in enumerate(numbered, start=1):
        if "svg" in formats:
            texts |= {f"{number:02}-{what}.svg": svg for what, svg in _figures(sentence, maps).items()}
        panels |= {f"{number:02}-{what}": chosen for what, chosen in _matrices(maps).items()}
    written = []
    for name, content in texts.items():
        written.append(folder / name)
        with replace_text(folder / name) as stream:
            stream.write(content)
    for ending in ("png", "pdf"):
        for name, chosen in panels.items() if ending in formats else ():
            written.append(folder / f"{name}.{ending}")
            between_words = name.endswith("attention")
            axis = "query" if between_words else "word"
            save_panels(written[-1], chosen, columns=3 if between_words else 1, row_axis=axis)
    return written


def _look(
    model: nn.Module, sentences: SentenceBatch | Item | Sequence[Item], vocabulary: Vocabulary | None
) -> list[_Shown]:
    maps = attention_maps(model, sentences, vocabulary=vocabulary)
    if isinstance(sentences, SentenceBatch):
        items: list[Any] = list(sentences.sentences)
        answers = [""] * len(items)
    else:
        items = [sentences] if isinstance(sentences, Example | Sentence | str | tuple) else list(sentences)
        answers = _answers(model, items)
    if not items:
        raise ValueError("expected at least one sentence to look at, got none")
    by_sentence: dict[int, list[AttentionMap]] = {}
    for found in maps:
        by_sentence.setdefault(found.index, []).append(found)
    shown: list[_Shown] = []
    first = 0
    for number, (item, answer) in enumerate(zip(items, answers, strict=True), start=1):
        parts = sentences_of(item)
        of_parts = tuple(tuple(by_sentence.get(first + part, ())) for part in range(len(parts)))
        first += len(parts)
        text = " / ".join(" ".join(part.words) for part in parts)
        name = f"{number}. {text[:87]}…" if len(text) > 88 else f"{number}. {text}"
        shown.append(_Shown(name, parts, of_parts, answer))
    return shown


def _answers(model: nn.Module, items: Sequence[Any]) -> list[str]:
    predict = getattr(model, "predict", None)
    if predict is None or not items:
        return [""] * len(items)
    answers = []
    for item, prediction in zip(items, predict(items), strict=True):
        if prediction.text is not None:
            said = f"answer {prediction.text}"
        elif prediction.label is None:
            said = f"answer {prediction.answer:.2f}"
        else:
            said = f"answer {prediction.label} ({100 * prediction.probabilities[prediction.label]:.0f}%)"
        gold = item.label if isinstance(item, Example) else None
        answers.append(said if gold is None else f"{said}, expected {gold}")
    return answers


def _page(shown: Sequence[_Shown], title: str) -> str:
    maps = [found for item in shown for of_part in item.maps for found in of_part]
    body = choices("Sentence", [(item.name, _item(item)) for item in shown])
    note = "Each row is a query: the word that looks. Each column is a key: the word that is looked at."
    sections = [Section("Sentences", body, note=note)]
    rows = summarise(maps)
    if len(rows) > 1:
        count = sum(len(item.sentences) for item in shown)
        said = f"Means over the words of {count} sentences." if count > 1 else "Means over the words of one sentence."
        sections.append(Section("Heads in numbers", table(rows), note=said))
    return page(title, sections)


def _item(item: _Shown) -> str:
    parts = [paragraph(item.answer)] if item.answer else []
    for sentence, maps in zip(item.sentences, item.maps, strict=True):
        if len(item.sentences) > 1:
            parts.append(paragraph(" ".join(sentence.words)))
        parts.append(_sentence(sentence, maps))
    return "".join(parts)


def _sentence(sentence: Sentence, maps: Sequence[AttentionMap]) -> str:
    attention = [found for found in maps if found.kind == "attention"]
    figures = _figures(sentence, maps)
    parts = []
    if attention:
        parts.append(figures.pop("attention"))
        figures.pop("tree", None)
        heads = [(found, head) for found in attention for head in range(len(found.head_names))]
        options = []
        for panel, (found, head) in zip(attention_panels(attention), heads, strict=True):
            large = heatmap(
                panel.rows,
                panel.columns,
                panel.weights,
                title=panel.title,
                show_values=len(panel.rows) <= 16,
                marks=panel.marks,
                marks_label="syntactic head",
            )
            beside = []
            if found.rows == found.columns:
                # Attention over a phrase tree is drawn on the tree, as its root sees it. Pieces have no tree.
                over_phrases = found.sentence is not None and len(found.rows) > len(found.sentence)
                beside = [phrase_query_figure(found, head) if over_phrases else tree_figure(found, head)]
            options.append((panel.title, side_by_side([large, *beside])))
        parts.append(choices("Head", _distinct(options)))
    if figures:
        parts.append(side_by_side(list(figures.values())))
    return "".join(parts)


def _figures(sentence: Sentence, maps: Sequence[AttentionMap]) -> dict[str, str]:
    """Every figure of one sentence by what it shows."""
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
        title = f"Gate {names[found.name]}: near 1 keeps the word, near 0 takes its context"
        figures[what] = gate_figure(found, title=title)
    pooling = [found for found in maps if found.kind == "pooling" and found.columns == sentence.words]
    if pooling:
        figures["pooling"] = pooling_figure(pooling, title="Weight of each word in the sentence vector")
    for what, found in _named(pooling, "pooling"):
        figures[f"{what}-features"] = pooling_features_figure(found, title=f"{found.layer}, feature by feature")
    if sentence.constituency is not None:
        figures["phrases"] = constituency_tree(sentence.words, sentence.constituency)
    return figures


def _matrices(maps: Sequence[AttentionMap]) -> dict[str, list[Panel]]:
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
                matrices[what] = [Panel(words, (), found.features, title=names.get(found.name, found.layer))]
    return matrices


def _named(maps: Sequence[AttentionMap], kind: str) -> list[tuple[str, AttentionMap]]:
    """The maps of a kind, each with a name for its file."""
    chosen = [found for found in maps if found.kind == kind]
    return [(kind if len(chosen) == 1 else f"{kind}-{number}", found) for number, found in enumerate(chosen, start=1)]


def _distinct(options: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Names that a selector can tell apart."""
    seen: dict[str, int] = {}
    result = []
    for name, body in options:
        seen[name] = seen.get(name, 0) + 1
        result.append((name if seen[name] == 1 else f"{name} #{seen[name]}", body))
    return result
