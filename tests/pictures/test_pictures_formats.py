"""Pictures as files: every format holds the same picture, and a PDF its text."""

import html
import io
import re
import struct
import sys
import zlib
from pathlib import Path

import pytest

from structattn import pictures
from structattn.errors import ConfigError, MissingExtra
from structattn.pictures import Arc, Panel, Series
from structattn.pictures.heatmap import gate_image
from structattn.pictures.picture_files import encode

pytest.importorskip("typst")

WORDS = ["dogs", "naïve", "Donaudampfschifffahrt", "$x$", "#let", "\\", '"', "<b>"]
ARABIC, HEBREW = "مرحبا", "שלום"
DRAWN = {
    "heatmap": pictures.heatmap_grid([Panel(WORDS, WORDS, [[1.0] * 8] * 8, title="forward · word")], title="heads"),
    "tree": pictures.dependency_tree(WORDS, list(range(8)), ["rel"] * 8, title="tree"),
    "arcs": pictures.arc_diagram([*WORDS, ARABIC, HEBREW], [Arc(1, 0, "det", weight=0.5)]),
    "phrases": pictures.constituency_tree(WORDS, [("S", 0, 8), ("NP", 0, 2)], values=[0.5, 1.0]),
    "gate": gate_image(WORDS, [[0.5] * 30] * 8),
    "bars": pictures.bar_chart(WORDS, [Series("weight", [], [0.5] * 8)]),
    "lines": pictures.line_chart([Series("dev", [0, 1], [0.5, 0.75]), Series("test", [0, 1], [0.1, 0.2])]),
    "panels": pictures.line_panels([Series("dev", [0, 1], [0.5, 0.75])] * 4, Series("base", [0, 1], [0.1, 0.2])),
    "nothing": pictures.heatmap([], [], []),
}


@pytest.mark.parametrize("name", DRAWN)
def test_a_png_has_two_pixels_for_one_and_shows_the_text(name: str) -> None:
    svg = DRAWN[name]
    image = encode(svg, "png")
    size = re.match(r'<svg [^>]*width="(\d+)" height="(\d+)"', svg)
    assert size is not None
    assert image.startswith(b"\x89PNG")
    assert struct.unpack(">II", image[16:24]) == (2 * int(size[1]), 2 * int(size[2]))
    assert image == encode(svg, "png")
    without = re.sub("<text.*?</text>", "", svg)
    assert _pixels(image) != _pixels(encode(without, "png"))
    assert _pixels(image) == _pixels(encode(re.sub("<title.*?</title>", "", svg), "png"))


@pytest.mark.parametrize("name", DRAWN)
def test_a_pdf_has_the_text_as_text(name: str) -> None:
    pypdf = pytest.importorskip("pypdf")
    svg = DRAWN[name]
    document = encode(svg, "pdf")
    assert document == encode(svg, "pdf")
    (page,) = pypdf.PdfReader(io.BytesIO(document)).pages
    found = re.sub(r"\s", "", page.extract_text())
    for text in re.findall("<text[^>]*>(.*?)</text>", re.sub("<title.*?</title>", "", svg)):
        shown = re.sub(r"\s", "", html.unescape(text))
        # Readers return right-to-left words in either order.
        assert shown in found or shown[::-1] in found


def test_the_ending_of_a_file_chooses_the_format(tmp_path: Path) -> None:
    for ending in ("svg", "png", "pdf", "PNG"):
        path = tmp_path / f"tree.{ending}"
        pictures.save(path, DRAWN["tree"])
        assert path.read_bytes() == encode(DRAWN["tree"], ending.lower())
    with pytest.raises(ConfigError, match=r"tree\.jpg: expected a file name that ends in \.svg, \.png, \.pdf"):
        pictures.save(tmp_path / "tree.jpg", DRAWN["tree"])
    with pytest.raises(ConfigError, match="unknown format 'jpg'; known: svg, png, pdf"):
        encode(DRAWN["tree"], "jpg")
    assert len(list(tmp_path.iterdir())) == 4


def test_a_picture_too_large_for_pixels_is_refused_and_is_fine_as_pdf() -> None:
    wide = pictures.line_chart([Series("dev", [0, 1], [0.5, 0.75])], width=10_000, height=10_000)
    with pytest.raises(ConfigError, match=r"a picture of \d+ x \d+ pixels is too large for PNG; use SVG or PDF"):
        encode(wide, "png")
    assert encode(wide, "pdf").startswith(b"%PDF")


def test_what_is_no_picture_is_refused() -> None:
    with pytest.raises(ConfigError, match="Typst cannot read this SVG: "):
        encode("<svg", "pdf")


def test_without_the_extra_only_svg_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "typst", None)
    assert encode(DRAWN["tree"], "svg").decode("utf-8") == DRAWN["tree"]
    for ending in ("png", "pdf"):
        with pytest.raises(MissingExtra, match=r"typst is not installed; run: pip install 'structattn\[plot\]'"):
            encode(DRAWN["tree"], ending)


def _pixels(image: bytes) -> bytes:
    """The compressed rows of a PNG, unpacked."""
    data, place = b"", 8
    while place < len(image):
        length, kind = struct.unpack(">I4s", image[place : place + 8])
        data += image[place + 8 : place + 8 + length] if kind == b"IDAT" else b""
        place += 12 + length
    return zlib.decompress(data)
