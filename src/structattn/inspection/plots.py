"""All figures of a trained model on some sentences, as one HTML page or as single files."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from structattn.data import Example, SentenceBatch, Vocabulary
from structattn.inspection.attention_map import AttentionMap
from structattn.inspection.figures import (
    HEAD_MARKS,
    attention_panels,
    phrase_query_figure,
    sentence_figures,
    tree_figure,
)
from structattn.inspection.items import items_of, sentences_of, with_found_trees
from structattn.inspection.maps import attention_maps
from structattn.inspection.occlusion import WordAttribution, leave_one_out
from structattn.inspection.summary import summarise
from structattn.pictures import Section, heatmap, page, save, table
from structattn.pictures.convert import FORMATS as PICTURE_FORMATS
from structattn.pictures.convert import check_formats
from structattn.pictures.page import choices, figure, paragraph, side_by_side
from structattn.syntax import Sentence, replace_text
from structattn.tasks.model import Item

FORMATS = ("html", *PICTURE_FORMATS)


@dataclass(frozen=True)
class _Shown:
    """One item of the page: its sentences, their maps, the prediction, and its attributions."""

    name: str
    sentences: tuple[Sentence, ...]
    maps: tuple[tuple[AttentionMap, ...], ...]
    answer: str
    attributions: tuple[WordAttribution | None, ...]

    def figures(self, number: int) -> dict[str, str]:
        """Every figure of one of the sentences, by name."""
        return sentence_figures(self.sentences[number], self.maps[number], self.attributions[number])


def attention_page(
    model: nn.Module,
    sentences: SentenceBatch | Item | Sequence[Item],
    title: str = "Attention",
    *,
    influence: bool = False,
    vocabulary: Vocabulary | None = None,
) -> str:
    """A page with the attention of a model on some sentences: choose a sentence, then a head.

    For each sentence: the prediction, all heads side by side, one head large with its arcs under the dependency
    tree, the gates, the weight of each word in the sentence vector, and the phrase tree. Below them, the heads in
    numbers.

    Args:
        model: as in ``attention_maps``.
        sentences: as in ``attention_maps``. Twenty sentences make a comfortable page, two hundred a large one.
        title: the heading.
        influence: also show leave-one-out attribution, see ``leave_one_out``: one prediction per word.
        vocabulary: for models that have none.

    Returns:
        A self-contained HTML document.

    Raises:
        ValueError: if there are no sentences.
        ConfigError: as in ``attention_maps``; likewise ``MissingStructure`` and ``TypeError``.
    """
    return _page(_collect(model, sentences, vocabulary, influence=influence), title)


def save_plots(
    folder: str | os.PathLike[str],
    model: nn.Module,
    sentences: SentenceBatch | Item | Sequence[Item],
    *,
    title: str = "Attention",
    formats: Sequence[str] = ("html", "svg"),
    influence: bool = False,
    vocabulary: Vocabulary | None = None,
) -> list[Path]:
    """Write the page and each figure of each sentence into a folder, which is made if missing.

    Files are named by the number of the sentence and what they show: ``attention.html``, ``01-attention.svg``,
    ``01-tree.svg``, ``01-gate.svg``, ``01-pooling.svg``, ``01-influence.svg``. Every format has the same figures.

    Args:
        folder: where to write.
        model: as in ``attention_maps``.
        sentences: as in ``attention_maps``.
        title: the heading of the page.
        formats: some of ``html``, ``svg``, ``png``, ``pdf``.
        influence: as in ``attention_page``.
        vocabulary: for models that have none.

    Returns:
        The files that were written.

    Raises:
        ConfigError: for an unknown format; the message lists the known ones.
        MissingExtra: for PNG or PDF without the extra ``plot``.
        TypeError: if folder and model are given the other way round.
        ValueError: if there are no sentences.
    """
    if isinstance(folder, nn.Module) or not isinstance(model, nn.Module):
        came = f"{type(folder).__name__} and {type(model).__name__}"
        raise TypeError(f"expected save_plots(folder, model, sentences): a path, then a model; got {came}")
    check_formats(formats, FORMATS)
    shown = _collect(model, sentences, vocabulary, influence=influence)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    if "html" in formats:
        written.append(folder / "attention.html")
        with replace_text(written[-1]) as stream:
            stream.write(_page(shown, title))
    endings = [ending for ending in PICTURE_FORMATS if ending in formats]
    numbered = [(item, part) for item in shown for part in range(len(item.sentences))]
    for number, (item, part) in enumerate(numbered if endings else (), start=1):
        for what, svg in item.figures(part).items():
            for ending in endings:
                written.append(folder / f"{number:02}-{what}.{ending}")
                save(written[-1], svg)
    return written


def _collect(
    model: nn.Module,
    sentences: SentenceBatch | Item | Sequence[Item],
    vocabulary: Vocabulary | None,
    *,
    influence: bool,
) -> list[_Shown]:
    sentences = with_found_trees(model, sentences)  # type: ignore[assignment]
    maps = attention_maps(model, sentences, vocabulary=vocabulary)
    if isinstance(sentences, SentenceBatch):
        items: list[Any] = list(sentences.sentences)
        answers = [""] * len(items)
    else:
        items = items_of(sentences)
        answers = _answers(model, items)
    if not items:
        raise ValueError("expected at least one sentence, got none")
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
        attributions = leave_one_out(model, item) if influence else (None,) * len(parts)
        shown.append(_Shown(name, parts, of_parts, answer, attributions))
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
    content = choices("Sentence", [(item.name, _item(item)) for item in shown])
    note = "Each row is a query: the word that attends. Each column is a key: the word attended to."
    sections = [Section("Sentences", content, note=note)]
    rows = summarise(maps)
    if len(rows) > 1:
        count = sum(len(item.sentences) for item in shown)
        said = f"Means over the words of {count} sentences." if count > 1 else "Means over the words of one sentence."
        sections.append(Section("Heads in numbers", table(rows), note=said))
    return page(title, sections)


def _item(item: _Shown) -> str:
    parts = [paragraph(item.answer)] if item.answer else []
    for number, sentence in enumerate(item.sentences):
        if len(item.sentences) > 1:
            parts.append(paragraph(" ".join(sentence.words)))
        parts.append(_sentence(item.maps[number], item.figures(number)))
    return "".join(parts)


def _sentence(maps: Sequence[AttentionMap], figures: dict[str, str]) -> str:
    attention = [found for found in maps if found.kind == "attention"]
    parts = [figure(figures.pop("influence"))] if "influence" in figures else []
    if attention:
        parts.append(figure(figures.pop("attention")))
        figures.pop("tree", None)
        heads = [(found, head) for found in attention for head in range(len(found.head_names))]
        options = []
        for panel, (found, head) in zip(attention_panels(attention), heads, strict=True):
            large = heatmap(
                panel.rows,
                panel.columns,
                panel.weights,
                title=panel.title,
                marks=panel.marks,
                names=HEAD_MARKS,
                show_values=len(panel.rows) <= 16,
            )
            beside = []
            if found.rows == found.columns:
                # Attention over a phrase tree is drawn on the tree, as its root sees it. Subwords have no tree.
                over_phrases = found.sentence is not None and len(found.rows) > len(found.sentence)
                beside = [phrase_query_figure(found, head) if over_phrases else tree_figure(found, head)]
            options.append((panel.title, side_by_side([large, *beside])))
        parts.append(choices("Head", _distinct(options)))
    if figures:
        parts.append(side_by_side(list(figures.values())))
    return "".join(parts)


def _distinct(options: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Names that a selector can tell apart."""
    seen: dict[str, int] = {}
    result = []
    for name, content in options:
        seen[name] = seen.get(name, 0) + 1
        result.append((name if seen[name] == 1 else f"{name} #{seen[name]}", content))
    return result
