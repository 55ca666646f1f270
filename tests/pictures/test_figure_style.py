"""Figures for print: the width that was asked for, letters of seven points or more, the same picture in each format."""

import logging
import re
import struct
from pathlib import Path

import pytest
import torch

from small_models import sentence_model
from structattn import pictures
from structattn.data import Vocabulary
from structattn.errors import ConfigError
from structattn.explorer import save_plots
from structattn.inspection.sentence_figures import attention_figure, sentence_figures
from structattn.layers.attention_map import AttentionMap
from structattn.pictures.figure_style import FigureStyle, escape_latex, print_figure, read_length, write_snippet
from structattn.pictures.picture_files import encode
from structattn.syntax import DependencyTree, Sentence
from structattn.tasks import get_task

COLUMN = read_length("3.3in")
WORDS = tuple(f"word{number}" for number in range(12))
NAMES = ("forward · word", "backward", "all")
SENTENCE = Sentence(WORDS, dependency=DependencyTree(range(12), ["nsubj"] * 12))


def maps(words: tuple[str, ...] = WORDS, names: tuple[str, ...] = NAMES) -> list[AttentionMap]:
    weights = torch.softmax(torch.arange(len(names) * len(words) ** 2).view(len(names), len(words), -1) % 7.0, -1)
    return [AttentionMap("heads", words, words, weights, "attention", names)]


def letters(svg: str) -> float:
    """The smallest letters in points, as printed."""
    size = re.match(r'<svg [^>]*width="([\d.]+)"[^>]*viewBox="0 0 (\d+)', svg)
    assert size is not None
    return min(map(float, re.findall(r'font-size="([\d.]+)"', svg))) * float(size[1]) / float(size[2]) * 0.75


@pytest.mark.parametrize(
    ("text", "pixels"), [("3.3in", 316.8), ("2.54 cm", 96.0), ("25.4mm", 96.0), ("72pt", 96.0), ("0.5in", 48.0)]
)
def test_lengths(text: str, pixels: float) -> None:
    assert read_length(text) == pytest.approx(pixels)


@pytest.mark.parametrize("text", ["", "3.3", "0in", "-1in", "3px", "in", "1e3in"])
def test_what_is_no_length(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--width: expected a length above 0 in in, cm, mm or pt, as 3\.3in, got"):
        read_length(text)


@pytest.mark.parametrize("width", ["3.3in", "5in", "7in"])
@pytest.mark.parametrize("columns", [1, 2, 3, None])
@pytest.mark.parametrize("num_words", [1, 5, 12])
def test_heads_have_the_width_and_letters_of_seven_points(width: str, columns: int | None, num_words: int) -> None:
    style = FigureStyle(read_length(width), columns=columns)
    figure = print_figure(attention_figure(maps(WORDS[:num_words]), style=style), style)
    assert f'width="{read_length(width):g}"' in figure
    assert letters(figure) >= 7 - 1e-6
    assert figure.count("<text") > num_words


def test_chosen_heads_keep_the_scale_of_all() -> None:
    whole = attention_figure(maps())
    chosen = attention_figure(maps(), style=FigureStyle(heads=("backward",)))
    assert [name in chosen for name in NAMES] == [False, True, False]
    ticks = [re.findall(r">([\d.]+)</text>", figure)[-1] for figure in (whole, chosen)]
    assert ticks[0] == ticks[1]
    with pytest.raises(ConfigError, match="unknown head 'forwards'; known: forward · word, backward, all"):
        attention_figure(maps(), style=FigureStyle(heads=("forwards",)))


def test_what_cannot_be_read_is_left_out_and_named(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "structattn")
    figures = sentence_figures(SENTENCE, maps(), style=FigureStyle(COLUMN))
    assert list(figures) == ["attention"]
    (message,) = (record.getMessage() for record in caplog.records)
    needed = re.fullmatch(
        r"tree is left out: letters would be [\d.]+ pt, less than 7; it needs --width ([\d.]+)in, .*", message
    )
    assert needed is not None
    wide = FigureStyle(read_length(f"{needed[1]}in"))
    assert letters(sentence_figures(SENTENCE, maps(), style=wide)["tree"]) >= 7


def test_a_font_of_ones_own_comes_first() -> None:
    figure = print_figure(pictures.heatmap(["a"], ["a"], [[1]]), FigureStyle(font='Tim"es'))
    assert 'font-family="Tim&quot;es, ui-sans-serif' in figure


def test_formats_are_equal_and_have_the_width(tmp_path: Path) -> None:
    pypdf = pytest.importorskip("pypdf")
    pytest.importorskip("typst")
    style = FigureStyle(COLUMN, has_titles=False)
    model = sentence_model(
        "ms_san",
        get_task("agreement"),
        vocabulary=Vocabulary(["a"]),
        labels=["plural", "singular"],
        options={"dim": 12},
    )
    files = save_plots(tmp_path, model, [SENTENCE], formats=["svg", "png", "pdf", "tex"], style=style, name="a_b")
    by_name = {file.name: file for file in files}
    svg = by_name["01-attention.svg"].read_text(encoding="utf-8")
    (page,) = pypdf.PdfReader(by_name["01-attention.pdf"]).pages
    assert float(page.mediabox.width) == pytest.approx(3.3 * 72, abs=0.01)
    image = by_name["01-attention.png"].read_bytes()
    assert struct.unpack(">I", image[16:20])[0] == pytest.approx(3.3 * 192, abs=1)
    for ending in ("png", "pdf"):
        assert by_name[f"01-attention.{ending}"].read_bytes() == encode(svg, ending)
    texts = re.findall("<text[^>]*>(.*?)</text>", re.sub("<title.*?</title>", "", svg))
    shown = re.sub(r"\s", "", page.extract_text())
    assert all(re.sub(r"\s", "", text) in shown for text in texts)
    snippet = by_name["01-attention.tex"].read_text(encoding="utf-8")
    assert r"\includegraphics[width=3.3in]{01-attention}" in snippet
    assert r"\caption{Attention of a\_b on “word0 word1" in snippet
    assert not any("sentence vector</text>" in file.read_text("utf-8") for file in files if file.suffix == ".svg")
    with pytest.raises(ConfigError, match="--format tex shows a png or pdf: expected pdf,tex, got svg,tex"):
        save_plots(tmp_path, model, [SENTENCE], formats=["svg", "tex"])
    with pytest.raises(ConfigError, match="no picture can be drawn in this width"):
        save_plots(tmp_path, model, [SENTENCE], formats=["svg"], style=FigureStyle(40.0))


def test_latex_prints_any_text() -> None:
    assert escape_latex("a_b & 50% {x} ~^\\<>|$#") == (
        r"a\_b \& 50\% \{x\} \textasciitilde{}\textasciicircum{}\textbackslash{}\textless{}\textgreater{}\textbar{}\$\#"
    )
    assert "[width" not in write_snippet("a", "b", FigureStyle())


@pytest.mark.parametrize(
    ("wrong", "said"), [({"columns": 0}, "--columns: expected at least 1"), ({"font": " "}, "--font")]
)
def test_a_style_is_checked(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        FigureStyle(**wrong)  # type: ignore[arg-type]
