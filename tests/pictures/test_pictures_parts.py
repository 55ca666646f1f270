"""The small parts of pictures: numbers, text, ticks, colours, and pictures below each other."""

import math

import pytest

from structattn.pictures import heatmap
from structattn.pictures.axes import nice_ticks
from structattn.pictures.colours import LEVELS, SEQUENTIAL, Scale, luminance
from structattn.pictures.drawn_numbers import format_tick, format_value, matrix, vector
from structattn.pictures.html_page import Document, figure, paragraph
from structattn.pictures.svg import Picture, element, escape, is_right_to_left, number, stack, text_width, visible
from structattn.pictures.tree_pictures import tree_arcs


def test_coordinates_are_short():
    assert [number(value) for value in (3.0, 0.125, -0.001, 0.0, -2.5)] == ["3", "0.12", "0", "0", "-2.5"]
    assert element("rect", x=1.5, stroke_width=2, opacity=None) == '<rect x="1.5" stroke-width="2"/>'


def test_numbers_are_rounded_for_people():
    assert [format_tick(value) for value in (0.25, -3.0, 0.123456, -0.0, 250.4)] == ["0.25", "−3", "0.12", "0", "250"]
    assert [format_value(value) for value in (0.8562, -20.0, 1500, 999.6)] == ["0.856", "−20", "1,500", "1,000"]
    assert [format_value(0.8562, percent=True), format_value(0.5, percent=True)] == ["85.6%", "50%"]
    assert format_value(0.5, percent=True, trim=False) == "50.0%"
    assert nice_ticks(0.62, 0.93) == [0.6, 0.7, 0.8, 0.9, 1.0]
    assert nice_ticks(0, 9.5) == [0.0, 2.5, 5.0, 7.5, 10.0]


def test_what_is_not_allowed_is_none():
    assert matrix([[1, None], [-math.inf, 0]]) == [[1.0, None], [None, 0.0]]
    with pytest.raises(ValueError, match=r"values\[1\] is nan; expected a finite number"):
        vector([1, math.nan], "values")


def test_words_that_could_not_be_seen():
    assert [visible(word) for word in ("dog", "", " ")] == ["dog", "∅", "␣"]
    assert escape('<b> & "c"') == "&lt;b&gt; &amp; &quot;c&quot;"
    assert text_width("語語", 10) == 20.0
    assert text_width("e\u0301", 10) == text_width("e", 10)
    assert is_right_to_left(["שלום", "OK"])
    assert not is_right_to_left(["hello"])


def test_colours_of_values():
    assert (SEQUENTIAL.light[0], SEQUENTIAL.light[LEVELS]) == ("#f6fbfd", "#262067")
    assert [Scale(0.0, 0.5, SEQUENTIAL).level(value) for value in (-1, 0.25, 2)] == [0, 32, LEVELS]
    assert luminance("#ffffff") == pytest.approx(1)
    assert [luminance(colour) for colour in ("#000000", "#00ff00")] == [0.0, 0.7152]


def test_pictures_below_each_other():
    picture = heatmap(["a"], ["b"], [[1]])
    tall = int(picture.split('height="')[1].split('"')[0])
    stacked = stack([picture, picture])
    assert stacked.count("<svg") == 3
    assert f'<svg y="{tall + 16}" ' in stacked
    with pytest.raises(ValueError, match=r"expected a picture of structattn.pictures, got '<p>'"):
        stack(["<p>"])


def test_notebooks_display_pictures_and_pages():
    assert Picture("<svg/>")._repr_html_() == '<div style="overflow-x:auto"><svg/></div>'
    assert 'srcdoc="&lt;p&gt;Hush&lt;/p&gt;"' in Document("<p>Hush</p>")._repr_html_()
    frame = '<div class="figure" tabindex="0" role="group" aria-label="Head 1">'
    assert figure("<svg/>", "Head 1") == frame + '<svg/><p class="caption"><bdi>Head 1</bdi></p></div>'
    assert paragraph("a < b") == "<p><bdi>a &lt; b</bdi></p>"


def test_an_arc_for_each_word():
    assert [(arc.start, arc.end, arc.label) for arc in tree_arcs([2, 0])] == [(1, 0, ""), (None, 1, "root")]
