"""All figures of a trained model on some sentences, as one HTML page or as single files."""

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from torch import nn

from structattn.data.tensors import checksum
from structattn.errors import ConfigError
from structattn.explorer.answers import Answers
from structattn.explorer.drawing import draw, draw_all
from structattn.explorer.explorer_page import frozen_page
from structattn.explorer.protocol import MOST_WORDS, State
from structattn.files.replacing import replace_text
from structattn.files.urls import check_local
from structattn.http.request_checks import RequestError
from structattn.inspection.attention_maps import add_trees, attention_maps, list_items
from structattn.inspection.occlusion import leave_one_out
from structattn.inspection.sentence_figures import sentence_figures
from structattn.pictures import save
from structattn.pictures.figure_style import FigureStyle, write_snippet
from structattn.pictures.picture_files import FORMATS as PICTURE_FORMATS
from structattn.pictures.picture_files import check_formats
from structattn.tasks.answering import Item, to_sentences

LOGGER = logging.getLogger("structattn.explorer")
FORMATS = ("html", *PICTURE_FORMATS, "tex")
_CAPTIONS = {
    "attention": "Attention of {name} on {text}: each row is a word that attends, each column a word attended to; "
    "framed: the syntactic head; hatched: not allowed.",
    "induced": "The best latent tree of {name} for {text}.",
    "tree": "The dependency tree of {text}.",
    "phrases": "The phrases of {text}.",
    "gate": "A gate of {name} on {text}: near 1 it keeps the word, near 0 it takes its context.",
    "pooling": "The weight of each word of {text} in the sentence vector of {name}.",
    "influence": "Leave-one-out attribution of the prediction of {name} to the words of {text}.",
}


def attention_page(
    model: nn.Module,
    sentences: Item | Sequence[Item],
    title: str = "Attention",
    *,
    name: str = "model",
    influence: bool = False,
    command: str | None = None,
) -> str:
    """The explorer of a model as a page that needs no model: sentences with trees, answers and all attention.

    Args:
        model: a model of a task, as ``structattn.load`` returns it.
        sentences: an example, a sentence, a text, a pair of these, or a list.
        title: the heading.
        name: name of the model in the page.
        influence: include the leave-one-out attribution of the prediction to words and arcs, and the edits that flip
            it.
        command: the command that opens a live explorer of the model, shown in the page.

    Returns:
        A self-contained HTML document.

    Raises:
        ConfigError: for a model that has no task.
        RequestError: for a sentence that is too long for a page.
        ValueError: if there are no sentences, or an item has the wrong number of them.

    Example:
        >>> import structattn as sa
        >>> vocabulary = sa.Vocabulary(["dull", "fine"])
        >>> encoder = sa.encoders.build("emb_s2t", vocab_size=len(vocabulary), dim=4)
        >>> model = sa.tasks.SentenceModel(encoder, sa.tasks.SENTIMENT, vocabulary=vocabulary)
        >>> attention_page(model, "a fine film", "Fine").startswith("<!doctype html>")
        True
    """
    items = list_items(sentences)
    if not items:
        raise ValueError("expected at least one sentence, got none")
    longest = max(len(sentence) for item in items for sentence in to_sentences(item))
    if longest > MOST_WORDS:
        raise RequestError(
            f"expected sentences of at most {MOST_WORDS} words in a page, got one of {longest:,}; "
            "pictures (structattn plot --format svg) may be longer"
        )
    answers = Answers({name: model})
    boot = answers.boot(items, host="frozen", title=title, command=command, influence=influence)
    return frozen_page(boot)


def save_plots(
    folder: str | os.PathLike[str],
    model: nn.Module,
    sentences: Item | Sequence[Item],
    *,
    title: str = "Attention",
    formats: Sequence[str] = ("html", "svg"),
    influence: bool = False,
    by_row: bool = False,
    name: str = "model",
    command: str | None = None,
    style: FigureStyle | None = None,
) -> list[Path]:
    """Write the page and each figure of each sentence into a folder, which is created if missing.

    Files are named by the number of the sentence and what they show: ``attention.html``, ``01-attention.svg``,
    ``01-tree.svg``, ``01-gate.svg``, ``01-pooling.svg``, ``01-influence.svg``. All picture formats have the same names.

    Args:
        folder: where to write.
        model: a model of a task, as ``structattn.load`` returns it; for pictures alone, also an encoder.
        sentences: an example, a sentence, a text, a pair of these, or a list.
        title: the heading of the page.
        formats: some of ``html``, ``svg``, ``png``, ``pdf``; and ``tex`` beside png or pdf, LaTeX with a caption.
        influence: include the leave-one-out attribution of the prediction to words, in the page also to arcs, and the
            edits that flip it.
        by_row: give the largest weight of each row of a picture the highest colour.
        name: name of the model in the page.
        command: the command that opens a live explorer of the model, shown in the page.
        style: width, font and heads of pictures for print. What cannot be read in this width is left out, with a
            warning.

    Returns:
        The files that were written.

    Raises:
        ConfigError: for an unknown format; the message lists the known ones. For a page of a model that has no task;
            for a style in which no picture can be read, or an unknown head.
        MissingExtra: for PNG or PDF without the extra ``plot``.
        RequestError: for a sentence that is too long for a page.
        TypeError: if folder and model are swapped.
        ValueError: if there are no sentences, or an item has the wrong number of them.

    Example:
        >>> import tempfile, structattn as sa
        >>> vocabulary = sa.Vocabulary(["dull", "fine"])
        >>> encoder = sa.encoders.build("emb_s2t", vocab_size=len(vocabulary), dim=4)
        >>> model = sa.tasks.SentenceModel(encoder, sa.tasks.SENTIMENT, vocabulary=vocabulary)
        >>> [file.name for file in save_plots(tempfile.mkdtemp(), model, "a fine film", formats=["html", "svg"])]
        ['attention.html', '01-pooling.svg', '01-pooling-features.svg']
    """
    if isinstance(folder, nn.Module) or not isinstance(model, nn.Module):
        types = f"{type(folder).__name__} and {type(model).__name__}"
        raise TypeError(f"expected save_plots(folder, model, sentences): a path, then a model; got {types}")
    check_formats(formats, FORMATS)
    if "tex" in formats and not {"png", "pdf"} & set(formats):
        raise ConfigError(f"--format tex shows a png or pdf: expected pdf,tex, got {','.join(formats)}")
    style = FigureStyle() if style is None else style
    items = cast("list[Item]", add_trees(model, list_items(sentences)))
    page = "html" in formats
    html = attention_page(model, items, title, name=name, influence=influence, command=command) if page else None
    endings = [ending for ending in PICTURE_FORMATS if ending in formats]
    figures = _draw_figures(model, items, influence=influence, by_row=by_row, style=style) if endings else []
    if endings and not any(figures):
        raise ConfigError("no picture can be drawn in this width, or the model has none of the heads")
    texts = [sentence.text for item in items for sentence in to_sentences(item)]
    folder = check_local(folder)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    if html is not None:
        written.append(folder / "attention.html")
        with replace_text(written[-1]) as stream:
            stream.write(html)
    for number, drawn in enumerate(figures, start=1):
        for figure, svg in drawn.items():
            for ending in endings:
                written.append(folder / f"{number:02}-{figure}.{ending}")
                save(written[-1], svg)
            if "tex" in formats:
                caption = _CAPTIONS[figure.split("-")[0]].format(name=name, text=f"“{texts[number - 1]}”")
                written.append(folder / f"{number:02}-{figure}.tex")
                with replace_text(written[-1]) as stream:
                    stream.write(write_snippet(f"{number:02}-{figure}", caption, style))
    return written


def save_state(
    folder: str | os.PathLike[str],
    model: nn.Module,
    state: State,
    *,
    title: str = "Attention",
    formats: Sequence[str] = ("html",),
    name: str = "model",
    command: str | None = None,
) -> list[Path]:
    """Write what a shared state of the explorer shows into a folder, which is created if missing.

    The files are the page ``attention.html``, with the sentences after and before the edit, and each picture that the
    explorer exports: ``heads.svg``, ``tree.svg``, ``phrases.svg``, ``pooling.svg``, ``latent.svg``.

    Args:
        folder: where to write.
        model: a model of a task. If the state was saved with other models, this is logged.
        state: as ``read_state`` returns it.
        title: the heading of the page.
        formats: some of ``html``, ``svg``, ``png``, ``pdf``.
        name: name of the model in the page.
        command: the command that opens a live explorer of the model, shown in the page.

    Returns:
        The files that were written.

    Raises:
        ConfigError: for an unknown format; the message lists the known ones. For a model that has no task.
        MissingExtra: for PNG or PDF without the extra ``plot``.
        RequestError: for another number of sentences than the model reads.

    Example:
        >>> import pathlib, tempfile, structattn as sa
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (folder / "state.json").write_text('{"v": 1, "sentences": [{"words": ["fine", "film"]}]}')
        >>> vocabulary = sa.Vocabulary(["dull", "fine"])
        >>> encoder = sa.encoders.build("emb_s2t", vocab_size=len(vocabulary), dim=4)
        >>> model = sa.tasks.SentenceModel(encoder, sa.tasks.SENTIMENT, vocabulary=vocabulary)
        >>> state = sa.explorer.read_state(folder / "state.json")
        >>> [file.name for file in save_state(folder, model, state, formats=["svg"])]
        ['pooling.svg']
    """
    check_formats(formats, FORMATS[:-1])
    if state.runs and checksum(model.state_dict()) not in state.runs.values():
        saved = ", ".join(state.runs)
        LOGGER.warning("the state was saved with %s, whose parameters differ from those of %s", saved, name)
    answers = Answers({name: model})
    now, then = answers.looks([name], state.sentences), answers.looks([name], state.originals)
    folder = check_local(folder)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    if "html" in formats:
        items = [look.example for look in (now[name], then[name])][: 1 + (state.sentences != state.originals)]
        names = ["after the edit", "before"][: len(items)]
        boot = answers.boot(items, host="frozen", title=title, command=command, names=names)
        written.append(folder / "attention.html")
        with replace_text(written[-1]) as stream:
            stream.write(frozen_page(boot))
    endings = [ending for ending in PICTURE_FORMATS if ending in formats]
    drawn = draw_all(now, originals=then if state.change else None, by_row=state.by_row) if endings else {}
    if "tree" in drawn:  # the explorer, too, shows the former arcs in both views
        drawn["tree"] = draw("tree", now, originals=then)
    for picture, svg in drawn.items():
        for ending in endings:
            written.append(folder / f"{picture}.{ending}")
            save(written[-1], svg)
    return written


def _draw_figures(
    model: nn.Module, items: Sequence[Item], *, influence: bool, by_row: bool, style: FigureStyle
) -> list[dict[str, str]]:
    """Every figure of every sentence, by name."""
    maps = attention_maps(model, items)
    figures: list[dict[str, str]] = []
    for item in items:
        sentences = to_sentences(item)
        attributions = leave_one_out(model, item) if influence else (None,) * len(sentences)
        for sentence, attribution in zip(sentences, attributions, strict=True):
            of_sentence = [part for part in maps if part.index == len(figures)]
            figures.append(sentence_figures(sentence, of_sentence, attribution, by_row=by_row, style=style))
    return figures
