"""Pictures: well-formed, complete, self-contained, deterministic; sizes and colours against numbers made by hand."""

import colorsys
import itertools
import math
import random
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from structattn import pictures
from structattn.pictures import Arc, Limits, Names, Panel, Series, cells
from structattn.pictures.axes import nice_ticks
from structattn.pictures.colours import DIVERGING, INKS, LEVELS, SEQUENTIAL, ColourMap, luminance
from structattn.pictures.heatmap import gate_image
from structattn.pictures.html_page import Section, code, figure, side_by_side
from structattn.pictures.svg import shorten, text_width
from structattn.pictures.tree_pictures import edited_tree
from structattn.syntax import ConstituencyTree, DependencyTree

WORDS = ["Two", "kids", "at", "a", "ballgame", "wash", "their", "hands"]
HEADS = [2, 6, 5, 5, 2, 0, 8, 6]
LABELS = ["nummod", "nsubj", "case", "det", "nmod", "root", "nmod:poss", "obj"]
HARD_WORDS = ["<b>&\"'", "שלום", "مرحبا", "語言処理", "e\u0301", "", " ", "Donaudampfschifffahrtsgesellschaft"]
HARD_WORDS.append("\x00\ud800")
SVG = "{http://www.w3.org/2000/svg}"
UNIFORM = [[1 / 8] * 8 for _ in range(8)]
UNIFORM_OF_3 = [[1 / 3] * 3] * 3

# Every picture of the package, drawn from words; a new picture joins here and inherits the laws below.
DRAWN: dict[str, Callable[[list[str]], str]] = {
    "heatmap": lambda words: pictures.heatmap(words, words, _identity(len(words)), title=" ".join(words)),
    "heatmap_values": lambda words: pictures.heatmap(words, words, _identity(len(words)), show_values=True),
    "heatmap_grid": lambda words: pictures.heatmap_grid([Panel(words, words, _identity(len(words)), title="a")] * 2),
    "arc_diagram": lambda words: pictures.arc_diagram(words, [Arc(i, i) for i in range(len(words))]),
    "dependency_tree": lambda words: pictures.dependency_tree(words, list(range(len(words))), tags=words),
    "constituency_tree": lambda words: pictures.constituency_tree(
        words,
        [("S<&>", 0, len(words)), ("NP", 0, 1), ("N", 0, 1)] if words else [],
        tags=words,
        values=[0.5, 1.0, 0.0] if words else [],
    ),
    "gate_image": lambda words: gate_image(words, _identity(len(words)), title="gate"),
    "bar_chart": lambda words: pictures.bar_chart(words, [Series("a", [], [1.0] * len(words))]),
}


@pytest.mark.parametrize("name", DRAWN)
@pytest.mark.parametrize("words", [WORDS, HARD_WORDS, ["one"], [], [f"word{i}" for i in range(30)]])
def test_every_picture_is_one_sound_self_contained_file(name: str, words: list[str]) -> None:
    svg = DRAWN[name](words)
    root = ET.fromstring(svg)
    assert root.tag == f"{SVG}svg"
    assert svg == DRAWN[name](words)
    assert not re.search(r"href|url\(|@import|<script|<foreignObject|\bid=", svg)
    assert re.findall(r"\w+://[^\"']*", svg) == ["http://www.w3.org/2000/svg"]
    assert "nan" not in svg.lower().replace("nanum", "")
    svg.encode("utf-8")
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    assert root.attrib["viewBox"] == f"0 0 {root.attrib['width']} {root.attrib['height']}"
    for box in root.iter(f"{SVG}rect"):
        x, y = float(box.get("x", 0)), float(box.get("y", 0))
        assert 0 <= x <= x + float(box.attrib["width"]) <= width
        assert 0 <= y <= y + float(box.attrib["height"]) <= height
    for text in root.iter(f"{SVG}text"):
        x, y = float(text.attrib["x"]), float(text.attrib["y"])
        assert 0 <= y <= height
        if "transform" in text.attrib:
            assert 0 <= x <= width
        else:
            before = {"start": 0.0, "middle": 0.5, "end": 1.0}[text.get("text-anchor", "start")]
            reach = text_width(text.text or "", float(text.attrib["font-size"]))
            assert 0 <= x - before * reach <= x + (1 - before) * reach <= width


@pytest.mark.parametrize("name", DRAWN)
def test_words_are_escaped_and_kept_whole_somewhere(name: str) -> None:
    root = ET.fromstring(DRAWN[name](HARD_WORDS))
    said = "".join(root.itertext())
    for word in ("<b>&\"'", "שלום", "語言処理", "Donaudampfschifffahrtsgesellschaft"):
        assert word in said
    assert "\x00" not in said
    assert "\ufffd\ufffd" in said


def test_a_heat_map_has_one_cell_for_each_pair_with_its_words_and_value() -> None:
    svg = pictures.heatmap(["x", "y"], ["u", "v", "w"], [[0.1, 0.2, 0.7], [0.0, 0.25, 0.75]])
    cells = _cells(svg)
    assert len(cells) == 6
    assert cells[2][0] == "x → w: 0.7"
    assert _cells(pictures.heatmap(["x"], ["u", "v"], [[0.00005502, 0.9]]))[0][0] == "x → u: 0.0001", "no exponent"
    assert cells[5][1] == SEQUENTIAL.light[LEVELS]
    assert cells[3][1] == SEQUENTIAL.light[0]
    assert cells[4][1] == SEQUENTIAL.light[round(LEVELS / 3)]
    assert "query" in svg
    assert "key" in svg


def test_the_maximum_of_a_heat_map_can_be_fixed() -> None:
    ((_, colour),) = _cells(pictures.heatmap(["x"], ["y"], [[0.25]], limits=Limits(maximum=1.0)))
    assert colour == SEQUENTIAL.light[LEVELS // 4]


@pytest.mark.parametrize("nothing", [None, -math.inf])
def test_what_is_not_allowed_is_hatched(nothing: float | None) -> None:
    svg = pictures.heatmap(["x", "y"], ["x", "y"], [[0, nothing], [-1, 0]])
    cells = _cells(svg)
    assert [colour for _, colour in cells] == [
        SEQUENTIAL.light[LEVELS],
        INKS["chip"][0],
        SEQUENTIAL.light[0],
        SEQUENTIAL.light[LEVELS],
    ]
    assert cells[1][0].endswith("not allowed")
    assert "not allowed</text>" in svg


def test_a_row_that_attends_to_nothing_is_hatched_and_named_in_the_legend() -> None:
    svg = pictures.heatmap(["x", "y"], ["x", "y"], [[0, 0], [1, 0]])
    assert [colour for _, colour in _cells(svg)][:2] == [INKS["chip"][0]] * 2
    assert "not allowed</text>" in svg
    assert "not allowed</text>" not in pictures.heatmap(["x", "y"], ["x", "y"], [[0, 1], [1, 0]])


def test_a_diverging_heat_map_is_symmetric_around_zero() -> None:
    cells = _cells(pictures.heatmap(["x"], ["a", "b", "c"], [[-0.5, 0.0, 0.25]], limits=Limits(diverging=True)))
    expected = [0, LEVELS // 2, 3 * LEVELS // 4]
    assert [colour for _, colour in cells] == [DIVERGING.light[level] for level in expected]


def test_a_grid_draws_every_panel_on_one_scale_and_marks_cells() -> None:
    panels = [
        Panel(["x"], ["y"], [[0.5]], title="forward · word"),
        Panel(["x"], ["y"], [[1.0]], title="backward · none", marks=[(0, 0)]),
    ]
    svg = pictures.heatmap_grid(panels, title="heads", names=Names(marks="syntactic head"))
    assert [colour for _, colour in _cells(svg)] == [SEQUENTIAL.light[LEVELS // 2], SEQUENTIAL.light[LEVELS]]
    for text in ("heads", "forward · word", "backward · none", "syntactic head"):
        assert text in svg
    # One outline in the panel, one in the legend.
    assert len(re.findall('<rect[^>]*stroke="#ffffff"[^>]*><rect[^>]*stroke="#14171c"', svg.replace("/>", ">"))) == 2


def test_labels_that_all_panels_share_stand_once() -> None:
    words = ["kids", "wash", "hands"]
    svg = pictures.heatmap_grid([Panel(words, words, UNIFORM_OF_3, title=f"head {i}") for i in range(6)], columns=3)
    texts = [text.text for text in ET.fromstring(svg).iter(f"{SVG}text")]
    # Columns above the three panels of the first row, rows before the first panel of both rows.
    assert [texts.count(word) for word in words] == [3 + 2] * 3
    assert (texts.count("key →"), texts.count("← query")) == (1, 2)
    other = Panel(words, [*words[:2], "feet"], UNIFORM_OF_3, title="other")
    mixed = pictures.heatmap_grid([Panel(words, words, UNIFORM_OF_3), other], columns=1)
    assert [text.text for text in ET.fromstring(mixed).iter(f"{SVG}text")].count("kids") == 2 + 2


@pytest.mark.parametrize("size", [1, 5, 12, 25, 40, 57, 90])
def test_labels_of_columns_do_not_touch(size: int) -> None:
    words = [f"Wort{number}" for number in range(size)]
    grid = pictures.heatmap_grid([Panel(words, words, _identity(size))])
    for svg in (pictures.heatmap(words, words, _identity(size)), grid):
        texts = ET.fromstring(svg).iter(f"{SVG}text")
        tilted = [text for text in texts if text.text in words and text.get("transform")]
        places = [float(text.attrib["x"]) for text in tilted]
        for text, left, right in zip(tilted, places, places[1:], strict=False):
            angle = -float(text.attrib["transform"].split("(")[1].split()[0])
            assert (right - left) * math.sin(math.radians(angle)) >= float(text.attrib["font-size"])


def test_by_row_each_row_reaches_the_highest_colour_and_keeps_its_values() -> None:
    weights = [[0.1, 0.2, 0.2], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]
    cells = _cells(pictures.heatmap(list("abc"), list("xyz"), weights, by_row=True))
    half, whole, nothing = (SEQUENTIAL.light[level] for level in (LEVELS // 2, LEVELS, 0))
    hatched = INKS["chip"][0]
    assert [colour for _, colour in cells] == [half, whole, whole, nothing, nothing, whole, *[hatched] * 3]
    assert cells[0][0] == "a → x: 0.1"
    assert "share of row&#x27;s max." in pictures.heatmap(["a"], ["x"], [[1]], by_row=True)


def test_faded_rows_are_lighter_and_in_the_legend() -> None:
    svg = pictures.heatmap_grid([Panel(["a", "b"], ["x"], [[1], [1]], faded=[1])], names=Names(faded="no relation"))
    (cells,) = _of_class(ET.fromstring(svg), "sa-cells sa-s-paper")
    assert [cell.get("opacity") for cell in cells] == [None, "0.3"]
    assert svg.count("no relation") == 1
    assert "no relation" not in pictures.heatmap(["a"], ["x"], [[1]], names=Names(faded="no relation"))


def test_every_cell_has_a_place_of_its_own_beside_its_words() -> None:
    words = ["Donaudampfschifffahrt", "kids", "a"]
    svg = pictures.heatmap_grid([Panel(words, words, UNIFORM_OF_3, title=f"head {i}") for i in range(5)], columns=2)
    root = ET.fromstring(svg)
    panels = [
        [[float(cell.attrib[side]) for side in ("x", "y", "width", "height")] for cell in group]
        for group in _of_class(root, "sa-cells sa-s-paper")
    ]
    cells = [cell for panel in panels for cell in panel]
    assert len(cells) == 5 * 9
    for i, (x, y, width, height) in enumerate(cells):
        assert all(abs(x - a) >= width or abs(y - b) >= height for a, b, *_ in cells[:i])
    # Two rows of two, then the fifth below the first.
    corners = [panel[0][:2] for panel in panels]
    assert corners[4][0] == corners[2][0] == corners[0][0] < corners[1][0] == corners[3][0]
    assert corners[0][1] == corners[1][1] < corners[2][1] < corners[4][1]
    labels = [(text, float(text.attrib["x"]), float(text.attrib["y"])) for text in root.iter(f"{SVG}text")]
    for word, (x, y, width, height) in zip(words, panels[0][::4], strict=True):
        named = [
            (at, down, "transform" in text.attrib) for text, at, down in labels if (text.text or "")[:4] == word[:4]
        ]
        assert any(tilted and x <= at <= x + width and down <= panels[0][0][1] for at, down, tilted in named)
        assert any(not tilted and at <= panels[0][0][0] and y <= down <= y + height for at, down, tilted in named)


def test_tensors_and_arrays_are_drawn_like_lists() -> None:
    torch = pytest.importorskip("torch")
    assert pictures.heatmap(WORDS, WORDS, torch.full((8, 8), 0.125)) == pictures.heatmap(WORDS, WORDS, UNIFORM)


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: pictures.heatmap(["a"], ["a"], [[1], [2]]), "weights have 2 rows; expected one for each of the 1 row"),
        (lambda: pictures.heatmap(["a"], ["a", "b"], [[1]]), "row 0 of weights has 1 values; .* the 2 column labels"),
        (lambda: pictures.heatmap(["a"], ["b"], [[math.nan]]), r"weights\[0\]\[0\] is nan"),
        (lambda: pictures.heatmap(["a"], ["b"], [[math.inf]]), r"weights\[0\]\[0\] is inf"),
        (lambda: pictures.heatmap(["a"], ["b"], [[1]], marks=[(0, 1)]), r"mark \(0, 1\) lies outside weights.* 1 x 1"),
        (lambda: pictures.heatmap(["a"], ["b"], [[1]], limits=Limits(2, 1)), "minimum 2 and maximum 1"),
        (lambda: pictures.heatmap_grid([]), "0 panels in 3 columns"),
        (lambda: pictures.dependency_tree(["a", "b"], [0]), "1 heads for 2 words"),
        (lambda: pictures.dependency_tree(["a"], [2]), "word 1 has head 2; expected another word up to 1, or 0"),
        (lambda: pictures.dependency_tree(["a"], [1]), "word 1 has head 1"),
        (lambda: pictures.dependency_tree(["a"], [0], ["x", "y"]), "2 labels for 1 words"),
        (lambda: pictures.arc_diagram(["a"], [Arc(0, 1)]), "position 1 of 1 words; expected 0 to 0"),
        (lambda: pictures.arc_diagram(["a"], [], notes=[("n", [])]), "'n' have 0 entries; .* the 1 words"),
        (
            lambda: pictures.constituency_tree(["a"], [("S", 0, 2)]),
            r"span 'S' must contain at least one of 1 words, got \(0, 2\)",
        ),
        (
            lambda: pictures.constituency_tree(list("abc"), [("A", 0, 2), ("B", 1, 3)]),
            r"spans must not cross, got \('A', 0, 2\) and \('B', 1, 3\)",
        ),
        (lambda: pictures.constituency_tree(["a"], [("S", 0, 1)], values=[1, 2]), "got 2 values; expected 1"),
        (lambda: pictures.constituency_tree(["a"], [("S", 0, 1)], values=[math.nan]), r"values\[0\] is nan"),
        (lambda: pictures.constituency_tree(["a"], ConstituencyTree(["a", "b"])), "got 1 words; expected 2"),
        (lambda: gate_image(["a"], [[1], [2]]), "2 rows; expected one for each of the 1 words"),
        (lambda: Series("s", [1], [1, 2]), "series 's' has 2 values but 1 places"),
        (lambda: Series("s", [1], [math.nan]), "series 's' contains nan"),
        (lambda: pictures.line_chart([]), "at least one place"),
        (lambda: pictures.line_panels([], Series("s", [1], [1])), "at least one series and one column, got 0 and 3"),
        (lambda: pictures.line_panels([Series("s", [1], [1])], Series("t", [], [1])), "at least one place"),
        (lambda: pictures.line_chart([Series("s", [1], [1])], counts=[1, 2]), "2 counts for the 1 places of 's'"),
        (lambda: pictures.bar_chart(["a"], [Series("s", [], [1, 2])]), "'s' has 2 values for 1 labels"),
        (lambda: pictures.table([["a"], ["b", "c"]]), "row 1 of the table has 2 cells; expected 1"),
    ],
)
def test_malformed_input_is_refused_with_its_numbers(draw: Callable[[], str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        draw()


def test_a_dependency_tree_has_one_arc_for_each_word() -> None:
    root = ET.fromstring(pictures.dependency_tree(WORDS, DependencyTree(HEADS, LABELS)))
    said = [arc.findtext(f"{SVG}title") or "" for arc in _of_class(root, "sa-arc")]
    assert len(said) == 8
    assert "kids → Two (nummod)" in said
    assert "root → wash" in said
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert set(LABELS) <= set(texts)


def test_two_trees_are_compared_arc_by_arc() -> None:
    other = [2, 5, 5, 5, 6, 0, 8, 6]
    svg = pictures.dependency_tree(WORDS, HEADS, other=other, names=("gold", "predicted"))
    root = ET.fromstring(svg)
    assert len(_of_class(root, "sa-arc")) == 16
    assert ">predicted<" in svg
    assert ">6 of 8 agree<" in svg
    assert sum(path.get("stroke") == INKS["series3"][0] for path in root.iter(f"{SVG}path")) == 2
    assert sum(path.get("stroke") == INKS["series2"][0] for path in root.iter(f"{SVG}path")) == 2


@pytest.mark.parametrize(
    ("other", "faint"), [([2, 5, 5, 5, 6, 0, 8, 6], "shared"), ([2, 3, 0, 3, 4, 5, 6, 7], "others")]
)
def test_of_two_trees_the_rarer_arcs_stand_out(other: list[int], faint: str) -> None:
    root = ET.fromstring(pictures.dependency_tree(WORDS, HEADS, other=other))
    for arc in _of_class(root, "sa-arc"):
        is_shared = arc[1].get("stroke") == INKS["ink"][0]
        assert ((arc.get("opacity") or "1") < "1") == (is_shared == (faint == "shared"))


def test_the_name_of_a_root_at_the_end_is_inside_the_picture() -> None:
    for words in (["a", "dog"], ["هذا", "كلب"]):
        root = ET.fromstring(pictures.dependency_tree(words, DependencyTree([2, 0], ["det", "a long relation"])))
        (label,) = [text for text in root.iter(f"{SVG}text") if text.text == "a long relation"]
        assert float(label.get("x") or 0) + text_width("a long relation", 10.5) <= float(root.get("width") or 0)


def test_labels_of_arcs_never_share_a_place_even_if_arcs_cross() -> None:
    words = ["A", "hearing", "is", "scheduled", "on", "the", "issue", "today", "."]
    root = ET.fromstring(pictures.dependency_tree(words, [2, 4, 4, 0, 2, 7, 5, 4, 4], ["label"] * 9))
    places = [
        (float(text.attrib["x"]), float(text.attrib["y"]))
        for text in root.iter(f"{SVG}text")
        if text.text == "label" and text.get("text-anchor") == "middle"
    ]
    assert len(places) == 8
    half = text_width("label", 10.5) / 2
    for i, (x, y) in enumerate(places):
        for other_x, other_y in places[:i]:
            assert abs(x - other_x) > 2 * half or abs(y - other_y) >= 10


def test_weights_make_arcs_wider_and_darker() -> None:
    root = ET.fromstring(pictures.dependency_tree(["a", "b", "c"], [0, 1, 1], weights=[1.0, 0.2, 0.8]))
    arcs = _of_class(root, "sa-arc")
    drawn = [(float(arc.attrib["opacity"]), float(arc[1].attrib["stroke-width"])) for arc in arcs]
    assert drawn == sorted(drawn)
    assert len(set(drawn)) == 3


@pytest.mark.parametrize(("words", "mirrored"), [(["שלום", "עולם"], True), (["hello", "world"], False)])
def test_right_to_left_sentences_start_on_the_right(words: list[str], mirrored: bool) -> None:
    for svg in (pictures.dependency_tree(words, [0, 1]), pictures.constituency_tree(words, [("S", 0, 2)])):
        places = {text.text: float(text.attrib["x"]) for text in ET.fromstring(svg).iter(f"{SVG}text")}
        assert (places[words[0]] > places[words[1]]) is mirrored


def test_a_phrase_tree_has_one_box_for_each_phrase_and_one_line_for_each_child() -> None:
    tree = ConstituencyTree.from_brackets("(S (NP (DT the) (NN dog)) (VP (VBZ barks)))")
    root = ET.fromstring(pictures.constituency_tree(tree.words, tree))
    phrases = _of_class(root, "sa-phrase")
    assert [phrase.findtext(f"{SVG}text") for phrase in phrases] == ["S", "NP", "VP"]
    assert phrases[1].findtext(f"{SVG}title") == "NP: the dog"
    (links,) = [path for path in root.iter(f"{SVG}path") if path.get("stroke") == INKS["soft"][0]]
    assert links.attrib["d"].count("M") == 2 + 3
    assert {"DT", "NN", "VBZ"} <= {text.text for text in root.iter(f"{SVG}text")}
    height = {phrase[-1].text: float(phrase[-1].attrib["y"]) for phrase in phrases}
    assert height["S"] < height["NP"] == height["VP"]


def random_spans(chance: random.Random, start: int, end: int, label: str = "X") -> list[tuple[str, int, int]]:
    inner = sorted(chance.sample(range(start + 1, end), min(end - start - 1, chance.choice((1, 1, 2)))))
    parts = list(itertools.pairwise([start, *inner, end])) if inner else []
    below = [random_spans(chance, *part) for part in parts if chance.random() < 0.8]
    return [(label, start, end), *itertools.chain(*below)]


@pytest.mark.parametrize("seed", range(8))
def test_edges_of_a_phrase_tree_never_cross(seed: int) -> None:
    chance = random.Random(seed)
    words = ["w" * chance.randint(1, 12) for _ in range(12)]
    root = ET.fromstring(pictures.constituency_tree(words, random_spans(chance, 0, len(words))))
    (path,) = [path.attrib["d"] for path in root.iter(f"{SVG}path") if path.get("stroke") == INKS["soft"][0]]
    across, down, x, y = [], [], 0.0, 0.0
    for letter, values in re.findall(r"([A-Z])([^A-Z]*)", path):
        numbers = [float(value) for value in values.split()]
        assert letter in "MHV", "edges go down and along"
        if letter == "H":
            across.append((*sorted((x, numbers[0])), y))
            x = numbers[0]
        elif letter == "V":
            down.append((x, *sorted((y, numbers[0]))))
            y = numbers[0]
        else:
            x, y = numbers
    assert across
    crossings = [
        (one, other) for one in across for other in down if one[0] < other[0] < one[1] and other[1] < one[2] < other[2]
    ]
    assert crossings == []


def test_phrases_are_shaded_by_their_values() -> None:
    spans = [("4", 0, 2), ("0", 0, 1)]
    root = ET.fromstring(
        pictures.constituency_tree(["a", "b"], spans, values=[4, 0], limits=Limits(0, 4, diverging=True))
    )
    boxes = [phrase[1].attrib["fill"] for phrase in _of_class(root, "sa-phrase")]
    assert boxes == [DIVERGING.light[LEVELS], DIVERGING.light[0]]


def test_a_chain_of_unary_phrases_and_a_deep_tree_are_drawn() -> None:
    spans = [(f"X{i}", 0, 1) for i in range(1200)]
    assert pictures.constituency_tree(["a"], spans).count('class="sa-phrase"') == 1200


def test_a_gate_shows_every_value_and_the_mean_of_each_word() -> None:
    svg = gate_image(["a", "dog"], [[0.5, 1.0], [0.0, 0.5]])
    assert "a: mean gate 0.7500, 2 features" in svg
    assert "dog: mean gate 0.2500, 2 features" in svg
    root = ET.fromstring(svg)
    drawn = {path.attrib["stroke"]: path.attrib["d"] for path in root.iter(f"{SVG}path") if path.get("shape-rendering")}
    places = {stroke: re.findall(r"M([\d.]+) ([\d.]+)h([\d.]+)", path) for stroke, path in drawn.items()}
    low, middle, high = (SEQUENTIAL.light[level] for level in (0, LEVELS // 2, LEVELS))
    assert [len(places[stroke]) for stroke in (low, middle, high)] == [1, 2, 1]
    # Row by row and column by column, without a gap.
    (left, top, wide), (right, bottom, _) = places[middle]
    assert (places[high][0][:2], places[low][0][:2]) == ((right, top), (left, bottom))
    assert float(right) - float(left) == float(wide)
    assert {path.get("stroke-width") for path in root.iter(f"{SVG}path") if path.get("shape-rendering")} == {
        f"{float(bottom) - float(top):g}"
    }
    bars = [float(box.attrib["width"]) for box in root.iter(f"{SVG}rect") if box.find(f"{SVG}title") is not None]
    assert bars[0] == pytest.approx(3 * bars[1])


def test_error_bars_may_reach_further_to_one_side() -> None:
    series = Series("heads", [], [0.5, 0.25], errors=[0.25, (0.25, 0.5)])
    assert series.ends() == [(0.25, 0.75), (0.0, 0.75)]
    root = ET.fromstring(pictures.bar_chart(["one", "two"], [series]))
    hints = [title.text for title in root.iter(f"{SVG}title")]
    assert hints[-2:] == ["one, heads: 0.5 ± 0.25", "two, heads: 0.25 (0 to 0.75)"]
    # Both bars end at the same place.
    ends = [path.attrib["d"].rsplit("H", 1)[1] for path in root.iter(f"{SVG}path") if "H" in path.attrib["d"]]
    assert ends[-1] == ends[-2]
    with pytest.raises(ValueError, match="expected finite numbers"):
        Series("heads", [], [0.5], errors=[(0.0, math.inf)])


def test_a_line_chart_has_a_point_for_each_value_with_its_deviation_and_count() -> None:
    series = [Series("DiSAN", [0, 1, 2], [0.9, 0.8, 0.7], errors=[0.01, 0.02, 0.0]), Series("LSTM", [0, 1], [0.8, 0.5])]
    svg = pictures.line_chart(series, x_names=["1-9", "10-19", "20+"], counts=[5, 40, 7], percent=True, title="T")
    assert svg.count('class="sa-point"') == 5
    assert "DiSAN, 1: 80% ± 2%" in svg
    for text in ("n = 40", "10-19", "LSTM"):
        assert text in svg
    ET.fromstring(svg)


def test_bands_reach_as_far_as_the_errors() -> None:
    series = [Series("DiSAN", [0, 2, 1], [0.8, 0.9, 0.7], errors=[0.1, 0.05, 0.0]), Series("LSTM", [0, 1], [0.6, 0.7])]
    svg = pictures.line_chart(series, x_names=["100", "300", "all"], bands=True)
    bars = pictures.line_chart([series[0]], x_names=["100", "300", "all"])
    assert (svg.count('class="sa-band"'), bars.count('class="sa-band"')) == (2, 0)
    root = ET.fromstring(svg)
    band, flat = _of_class(root, "sa-band")
    corners = [tuple(map(float, corner.split())) for corner in re.split("[MLZ]", band[0].attrib["d"]) if corner]
    circles = [float(circle.attrib["cy"]) for circle in root.iter(f"{SVG}circle")][:3]
    middles = {place: (corners[place][1] + corners[5 - place][1]) / 2 for place in range(3)}
    assert [corners[place][0] == corners[5 - place][0] for place in range(3)] == [True] * 3
    assert [middles[0], middles[2], middles[1]] == pytest.approx(circles, abs=0.02)
    # Heights are linear: from .8 to .9 it is as far as the first error is long.
    up = corners[0][1] - circles[0]
    assert up == pytest.approx(circles[1] - circles[0], abs=0.02)
    assert corners[2][1] - circles[1] == pytest.approx(up / 2, abs=0.02)
    edges = [float(corner.split()[1]) for corner in re.split("[MLZ]", flat[0].attrib["d"]) if corner]
    assert edges == pytest.approx([edges[0], edges[1], edges[1], edges[0]])


@pytest.mark.parametrize(("panels", "columns"), [(1, 3), (3, 3), (4, 3), (5, 2), (2, 1)])
def test_panels_share_one_scale_and_the_line_of_the_baseline(panels: int, columns: int) -> None:
    baseline = Series("plain", [0, 1, 2], [0.5, 0.6, 0.7], errors=[0.1, 0.1, 0.1])
    series = [Series(f"system {i}", [0, 1, 2], [0.5, 0.6 + i / 10, 0.7], errors=[0.1] * 3) for i in range(panels)]
    root = ET.fromstring(pictures.line_panels(series, baseline, x_names=["100", "300", "all"], columns=columns))
    found = _of_class(root, "sa-panel")
    assert len(found) == panels
    corners = []
    for one, panel in zip(series, found, strict=True):
        grey, blue = (path for path in panel.iter(f"{SVG}path") if path.attrib.get("stroke-linejoin") == "round")
        points, others = (
            [tuple(map(float, at.split())) for at in re.split("[ML]", path.attrib["d"])[1:]] for path in (grey, blue)
        )
        corners.append(points[0])
        # The first and the last values are those of the baseline, the middle one is as much higher as in the numbers.
        assert others[::2] == points[::2]
        tenth = points[0][1] - points[1][1]
        assert points[1][1] - others[1][1] == pytest.approx((one.y[1] - 0.6) * 10 * tenth, abs=0.05)
        bands = [part for part in panel if part.attrib.get("class") == "sa-band"]
        assert len(bands) == 2
    assert len({x for x, _ in corners}) == min(panels, columns)
    assert len({y for _, y in corners}) == -(-panels // columns)
    # What the places are called stands once below each column, the values once beside each row.
    assert [text.text for text in root.iter(f"{SVG}text")].count("300") == min(panels, columns)
    assert "plain, in every panel" in [text.text for text in root.iter(f"{SVG}text")]


def test_bars_of_shares_end_at_all_and_nothing() -> None:
    shares = pictures.line_chart([Series("a", [0, 1], [0.02, 0.9], errors=[0.1, 0.3])], percent=True)
    assert "100%" in shares
    assert "150%" not in shares
    assert "-" not in "".join(re.findall(r">([^<]*%)<", shares))
    assert "150%" in pictures.line_chart([Series("growth", [0, 1], [0.02, 1.2], errors=[0.1, 0.3])], percent=True)


def test_points_stand_at_their_heights() -> None:
    root = ET.fromstring(pictures.line_chart([Series("s", [0, 1, 2], [0.0, 0.5, 1.0])], height=200))
    low, middle, high = (float(circle.attrib["cy"]) for circle in root.iter(f"{SVG}circle"))
    assert low - high == pytest.approx(200, abs=0.1)
    assert middle == pytest.approx((low + high) / 2, abs=0.1)


def test_bars_are_as_long_as_their_values() -> None:
    root = ET.fromstring(pictures.bar_chart(["a", "b", "c"], [Series("s", [], [4.0, 2.0, -1.0])]))
    lengths = [float(bar[1].attrib["width"]) for bar in _of_class(root, "sa-bar")]
    assert lengths[0] == pytest.approx(2 * lengths[1], abs=0.1)
    assert lengths[1] == pytest.approx(2 * lengths[2], abs=0.1)


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (0.617, 0.934), (3.0, 3.0), (-2.0, 5e6), (1e-9, 2e-9)])
def test_ticks_are_even_and_cover(low: float, high: float) -> None:
    ticks = nice_ticks(low, high)
    assert ticks[0] <= low + 1e-12
    assert ticks[-1] >= high - 1e-12
    steps = [b - a for a, b in pairwise(ticks)]
    assert 2 <= len(ticks) <= 9
    assert max(steps) == pytest.approx(min(steps))


@pytest.mark.parametrize("colours", [SEQUENTIAL, DIVERGING])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colour_maps_are_perceptually_even(colours: ColourMap, theme: str) -> None:
    labs = [_lab(colour) for colour in getattr(colours, theme)]
    steps = [math.dist(a, b) for a, b in zip(labs[::4], labs[4::4], strict=False)]
    assert max(steps) / min(steps) < 1.6
    lightness = [lab[0] for lab in labs]
    halves = [lightness] if colours is SEQUENTIAL else [lightness[: LEVELS // 2 + 1], lightness[LEVELS // 2 :]]
    for half in halves:
        falls = [a - b for a, b in pairwise(half)]
        assert all(fall > -0.35 for fall in falls) or all(fall < 0.35 for fall in falls)
        assert abs(half[0] - half[-1]) > 45


def test_letters_can_be_read_on_every_colour_in_both_themes() -> None:
    for diverging in (False, True):
        scale = Limits(diverging=diverging).scale([-1.0, 1.0] if diverging else [0.0, 1.0])
        for level in range(LEVELS + 1):
            value = scale.minimum + (scale.maximum - scale.minimum) * level / LEVELS
            light, dark = INKS[scale.text_role(value)]
            assert _contrast(light, scale.colours.light[level]) > 4
            assert _contrast(dark, scale.colours.dark[level]) > 4
    for role in ("ink", "soft", "raises", "lowers", "edit", "accent", "error", *(f"series{i}" for i in range(6))):
        assert _contrast(INKS[role][0], INKS["paper"][0]) > 4.5
        assert _contrast(INKS[role][1], INKS["paper"][1]) > 4.5


def test_an_outline_is_seen_on_every_colour_in_both_themes() -> None:
    outline = re.findall(r'stroke="(#\w+)"', cells.outline(0, 0, 20))
    assert outline == [INKS["white"][0], INKS["black"][0]] == [INKS["white"][1], INKS["black"][1]]
    for colours in (SEQUENTIAL, DIVERGING):
        for shade in (*colours.light, *colours.dark):
            assert max(_contrast(line, shade) for line in outline) >= 3


def test_orange_raises_and_blue_lowers() -> None:
    """The inks of signed numbers have the hues of the ends of the diverging map, and no other ink has them."""

    def hue(colour: str) -> float:
        return 360 * colorsys.rgb_to_hsv(*(int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)))[0]

    for theme, shades in enumerate((DIVERGING.light, DIVERGING.dark)):
        for role, end in (("lowers", shades[LEVELS // 4]), ("raises", shades[-LEVELS // 4])):
            assert abs(hue(INKS[role][theme]) - hue(end)) < 15
            for other in ("edit", "accent", "error"):
                assert abs(hue(INKS[role][theme]) - hue(INKS[other][theme])) > 25


def test_an_edited_tree_has_its_new_arcs_thick_and_its_former_arcs_dashed() -> None:
    before, after = DependencyTree([2, 3, 0, 3]), DependencyTree([2, 3, 0, 1])
    root = ET.fromstring(edited_tree(WORDS[:4], after, before))
    lines = [arc[1] for arc in _of_class(root, "sa-arc")]
    drawn = sorted((line.get("stroke") or "", line.get("stroke-dasharray") or "") for line in lines)
    assert drawn == sorted([(INKS["soft"][0], "")] * 3 + [(INKS["edit"][0], ""), (INKS["soft"][0], "4 3")])
    assert {"edited", "before"} <= {text.text for text in root.iter(f"{SVG}text")}
    renamed = edited_tree(["a"], DependencyTree([0], ["root"]), DependencyTree([0], ["dep"]))
    assert ("stroke-dasharray" in renamed, ">before<" in renamed, ">edited<" in renamed) == (False, False, True)


def test_every_class_that_is_used_has_a_rule_for_dark_screens() -> None:
    svg = pictures.heatmap(WORDS, WORDS, _identity(8), marks=[(0, 0)])
    style = ET.fromstring(svg).findtext(f"{SVG}style") or ""
    used = set(re.findall(r"sa-[fs]-\w+", svg.replace(style, "")))
    assert used
    assert used == set(re.findall(r"sa-[fs]-\w+", style))


def test_long_words_are_shortened_to_their_room() -> None:
    for word in ("Donaudampfschifffahrtsgesellschaft", "語" * 40, "i" * 100):
        short = shorten(word, 100, 12)
        assert short.endswith("…")
        assert text_width(short, 12) <= 100
    assert shorten("dog", 100, 12) == "dog"


class _Tags(HTMLParser):
    """Checks that tags close in order, and collects them."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        if tag not in {"meta", "br"}:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_a_page_is_one_file_without_network() -> None:
    heads = [pictures.heatmap(HARD_WORDS, HARD_WORDS, _identity(9), title=f"{i}") for i in range(3)]
    sections = [
        Section("Sentence <1>", side_by_side(heads) + code("<b>"), note="a < b"),
        ("Scores", pictures.table([["encoder", "accuracy"], ["<i>", 0.85]], caption="dev & test")),
        ("Tree", side_by_side([pictures.dependency_tree(WORDS, HEADS), figure("<svg/>", "<u>")])),
    ]
    html = pictures.page("Page <title>", sections, lead="x & y")
    tags = _Tags()
    tags.feed(html)
    tags.close()
    assert tags.open == []
    assert tags.seen.count("svg") == 5
    assert tags.seen.count("section") == 3
    assert not {"b", "i", "u", "link", "img", "iframe"} & set(tags.seen)
    assert tags.seen.count("title") > 1
    assert not re.search(r"\bsrc=|@import|url\(|fetch\(|XMLHttp", html)
    assert set(re.findall(r"https?://[^\"'<\s]*", html)) == {"http://www.w3.org/2000/svg"}
    assert html == pictures.page("Page <title>", sections, lead="x & y")


def test_sentences_in_tables_are_not_squeezed_into_a_column_of_words() -> None:
    html = pictures.table([["text", "label"], ["behind the child who one woman helped", "plural"]])
    assert re.findall(r'<td class="prose"><bdi>(.*?)<', html) == ["behind the child who one woman helped"]
    assert "td.prose{min-width:" in pictures.page("t", [("a", html)])


def test_tables_align_numbers_on_the_right() -> None:
    html = pictures.table([["name", "score", "±"], ["a", 0.123456, "85.6% ± 0.4"], ["b", 2, "−3"]])
    assert html.count('class="number"') == 6
    assert "0.1235" in html


def _identity(size: int) -> list[list[float]]:
    return [[float(r == c) for c in range(size)] for r in range(size)]


def _cells(svg: str) -> list[tuple[str, str]]:
    """The tooltip and the fill of each cell, row by row."""
    groups = _of_class(ET.fromstring(svg), "sa-cells sa-s-paper")
    return [(cell.findtext(f"{SVG}title") or "", cell.attrib["fill"]) for group in groups for cell in group]


def _of_class(root: ET.Element, name: str) -> list[ET.Element]:
    return [element for element in root.iter() if element.get("class") == name]


def _contrast(first: str, second: str) -> float:
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


def _lab(colour: str) -> tuple[float, float, float]:
    red, green, blue = (_linear(int(colour[i : i + 2], 16) / 255) for i in (1, 3, 5))
    x = (0.4124564 * red + 0.3575761 * green + 0.1804375 * blue) / 0.95047
    y = 0.2126729 * red + 0.7151522 * green + 0.0721750 * blue
    z = (0.0193339 * red + 0.1191920 * green + 0.9503041 * blue) / 1.08883
    a, b, c = (t ** (1 / 3) if t > 216 / 24389 else (24389 / 27 * t + 16) / 116 for t in (x, y, z))
    return 116 * b - 16, 500 * (a - b), 200 * (b - c)


def _linear(channel: float) -> float:
    return channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4
