"""Pictures tell the truth: one scale, one meaning of a colour, and exports that show what the page shows."""

import colorsys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from explorer_live import HEADS, WORDS, ask, born, by_mouse, live, settle
from explorer_pages import attention, boot, missing, opened, sentence, write

pytestmark = pytest.mark.skipif(missing() is not None, reason=missing() or "")

SVG = "{http://www.w3.org/2000/svg}"
SHAPES = """canvas => { const pen = canvas.getContext("2d"), size = canvas.width / 2;
    return [0, 1].map(row => [0, 1].map(column => { const { data } =
        pen.getImageData(column * size, row * size, size, size);
        const seen = new Set(); for (let i = 0; i < data.length; i += 4) seen.add(data.slice(i, i + 3).join(" "));
        return [...seen]; })); }"""


def influence(page: Any) -> list[tuple[float, bool, str]]:
    """Height, direction and title of every bar."""
    return [
        tuple(row)
        for row in page.locator(".bars i").evaluate_all(
            "bars => bars.map(bar => [parseFloat(bar.style.height), bar.className == 'bar-up', bar.title])"
        )
    ]


def show_influence(page: Any) -> None:
    for name in ("influence of words", "influence of arcs"):
        page.get_by_role("button", name=name).click()


def with_influence(values: list[float | None], arcs: list[float | None]) -> dict[str, Any]:
    page = boot([sentence(WORDS, HEADS)], [attention(np.full((1, 5, 5), 0.2))])
    for do, row in (("influence", values), ("arcs", arcs)):
        page["items"][0]["replies"][do] = {"ms_san": {"v": 1, "id": 0, "model": "ms_san", "values": [row]}}
    return page


def test_bars_of_words_and_arcs_have_one_scale_and_the_same_unit(chromium: Any, tmp_path: Path) -> None:
    start = with_influence([0.33, -0.11, 0.0, None, 0.165], [0.011, 0, 0, 0, -0.0055])
    with opened(chromium, write(tmp_path, start)) as page:
        show_influence(page)
        bars, notes = influence(page), page.locator(".bars-note").all_inner_texts()
    assert [height for height, _, _ in bars] == pytest.approx([18, 6, 0, 0, 9, 0.6, 0, 0, 0, 0.3], abs=0.01)
    assert [title for _, _, title in bars[:5]] == [
        "+33.0 points",
        "−11.0 points",
        "0.0 points",
        "not defined",
        "+16.5 points",
    ]
    assert ["largest +33.0 points, full height 33.0 points" in notes[0], "largest +1.1 points" in notes[1]] == [
        True
    ] * 2


def test_a_bar_of_nothing_looks_like_nothing(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, write(tmp_path, with_influence([0.001, 0, 0, 0, 0], [0, 0, 0, 0, 0]))) as page:
        show_influence(page)
        assert influence(page)[0][0] == pytest.approx(18 * 0.001 / 0.05, abs=0.01)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_what_supports_is_orange_and_what_opposes_is_blue(chromium: Any, tmp_path: Path, theme: str) -> None:
    path = write(tmp_path, with_influence([0.3, -0.3, 0, 0, 0], [0, 0, 0, 0, 0]))
    with opened(chromium, path, color_scheme=theme) as page:
        show_influence(page)
        colours = page.locator(".bars i").evaluate_all("bars => bars.map(bar => getComputedStyle(bar).backgroundColor)")
    up, down = ([int(part) / 255 for part in colour[4:-1].split(", ")] for colour in colours[:2])
    assert 15 < 360 * colorsys.rgb_to_hsv(*up)[0] < 40
    assert 200 < 360 * colorsys.rgb_to_hsv(*down)[0] < 230


def test_ticks_of_before_stay_inside(chromium: Any) -> None:
    """The weights of the pooler and the probabilities before the edit were the largest possible."""

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        reply = ask(request)
        if request["do"] == "look":
            for entry, given in ((entry, request["sentences"][0]) for entry in reply["looks"]):
                was = given["heads"] == HEADS
                weights = [[[0.9, 0.1, 0, 0, 0]] if was else [[0.1, 0.3, 0.2, 0.2, 0.2]]]
                pooler = attention(weights, name="pooler", heads=["pooler"], kind="pooling", rows=["sentence"])
                entry["maps"].append(pooler)
                share = 1.0 if was else 0.0
                entry["answer"]["probabilities"] = {"plural": share, "singular": 1 - share}
        return reply

    start = born()
    start["items"][0]["replies"] = {}
    with live(chromium, answer, start) as page:
        by_mouse(page, 4, 0)
        settle(page)
        outside = page.evaluate(
            """() => { const { root } = [...document.querySelectorAll("div")].find(e => e.explorer).explorer;
                return [...root.querySelectorAll(".bar-box b, .well b")].map(tick => {
                    const [one, box] = [tick, tick.parentNode].map(e => e.getBoundingClientRect());
                    const across = tick.parentNode.className === "bar-box";
                    return across ? Math.max(box.left - one.left, one.right - box.right)
                        : Math.max(box.top - one.top, one.bottom - box.bottom); }); }"""
        )
    assert len(outside) == 2 + 5
    assert max(outside) <= 0.01


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_frame_of_a_syntactic_head_is_seen_on_every_weight(chromium: Any, tmp_path: Path, theme: str) -> None:
    """The framed cell has a light and a dark line, whatever its colour; others have neither."""
    for weight in np.linspace(0.05, 1, 6):
        start = boot([sentence(["a", "b"], [2, 0])], [attention([[[1.0, weight], [0.5, 0.5]]])])
        with opened(chromium, write(tmp_path, start), color_scheme=theme) as page:
            cells = page.locator(".head canvas").evaluate(SHAPES)
        lines = {"255 255 255", "20 23 28"}
        assert lines <= {*cells[0][1]}
        assert not lines & {*cells[1][0], *cells[1][1]}


def picture(page: Any, name: str, form: str, folder: Path) -> bytes:
    page.locator("summary", has_text="Export").click()
    with page.expect_download() as download:
        page.get_by_role("button", name=f"{name} as {form}", exact=True).click()
    download.value.save_as(folder / form)
    return (folder / form).read_bytes()


@pytest.fixture
def two_models(chromium: Any, tmp_path: Path) -> Iterator[Any]:
    """A frozen page of two models with three heads each, some keys of which are not allowed."""
    allowed = np.ones((2, 5, 5), dtype=bool)
    allowed[:, 0, 3] = False
    weights = np.random.default_rng(0).uniform(0.1, 1, (2, 5, 5)) * allowed
    maps = [
        attention(weights, heads=["forward", "backward"], allowed=allowed),
        attention(np.full((1, 5, 5), 0.2), name="other", heads=["global"]),
    ]
    start = boot([sentence(WORDS, HEADS)], maps)
    (first,) = start["items"][0]["replies"]["look"]["looks"]
    start["models"].append({**start["models"][0], "name": "disan"})
    start["items"][0]["replies"]["look"]["looks"].append({**first, "model": "disan"})
    start["view"]["models"] = ["ms_san", "disan"]
    with opened(chromium, write(tmp_path, start)) as page:
        yield page


def test_an_export_of_heads_has_scale_names_and_legend(two_models: Any, tmp_path: Path) -> None:
    text = picture(two_models, "All heads", "SVG", tmp_path).decode()
    assert "[object" not in text
    root = ElementTree.fromstring(text)
    texts = [element.text for element in root.iter(f"{SVG}text")]
    steps = [element.get("fill") for element in root.iter(f"{SVG}rect") if element.get("class") == "step"]
    assert len(steps) == 33
    assert len(set(steps)) > 25
    for model in ("ms_san", "disan"):
        assert {f"{model}: {head}" for head in ("forward", "backward", "global")} <= set(texts)
    assert {"not allowed", "syntactic head", "0"} <= set(texts)
    assert any("query" in (label or "") for label in texts)
    assert texts.count("keys") == 6 * 2, "each matrix has its words at both of its sides"


def test_the_chosen_head_is_exported_alone_on_the_scale_of_the_page(two_models: Any, tmp_path: Path) -> None:
    two_models.get_by_role("button", name="global").first.click()
    root = ElementTree.fromstring(picture(two_models, "Chosen head", "SVG", tmp_path))
    texts = [element.text for element in root.iter(f"{SVG}text")]
    assert [text for text in texts if text and text.startswith(("ms_san", "disan"))] == ["ms_san: global"]
    page_scale = two_models.locator(".legend").inner_text().split()[1]
    assert page_scale in texts, "the end of the colour scale"


@pytest.mark.parametrize("form", ["SVG", "PNG"])
@pytest.mark.parametrize("name", ["Dependency tree", "Chosen head", "All heads"])
def test_every_export_opens_as_a_picture(two_models: Any, tmp_path: Path, name: str, form: str) -> None:
    content = picture(two_models, name, form, tmp_path)
    suffix = {"SVG": ".svg", "PNG": ".png"}[form]
    path = tmp_path / f"picture{suffix}"
    path.write_bytes(content)
    view = two_models.context.browser.new_page()
    view.goto(path.as_uri())
    size = view.evaluate(
        "() => { const e = document.querySelector('img, svg'), box = e.getBoundingClientRect();"
        "return [box.width, box.height, document.body?.innerText ?? ''] }"
    )
    view.close()
    assert min(size[:2]) > 40
    assert "error" not in size[2]


def test_an_edited_arc_looks_the_same_on_the_page_and_in_its_export(chromium: Any, tmp_path: Path) -> None:
    """Colours, dashes and widths of the arcs on the screen are those of ``pictures.tree_pictures.edited_tree``."""
    from structattn.pictures.tree_pictures import edited_tree
    from structattn.syntax import DependencyTree

    with live(chromium) as page:
        by_mouse(page, 4, 0)
        settle(page)
        after = page.evaluate(
            "() => [...document.querySelectorAll('div')].find(e => e.explorer).explorer.state.sentences[0].heads"
        )
        shown = page.locator(".arcs .arc path:first-child").evaluate_all(
            """lines => lines.map(line => { const style = getComputedStyle(line); return [style.stroke,
                style.strokeDasharray === "none" ? "" : "dashed", parseFloat(style.strokeWidth) > 2]; })"""
        )
    root = ElementTree.fromstring(edited_tree(WORDS, DependencyTree(after), DependencyTree(HEADS)))
    drawn = []
    for group in root.iter(f"{SVG}g"):
        if group.get("class") == "sa-arc":
            line = group[1]
            rgb = [int((line.get("stroke") or "")[i : i + 2], 16) for i in (1, 3, 5)]
            thick = float(line.get("stroke-width") or 0) > 2
            drawn.append([f"rgb({', '.join(map(str, rgb))})", "dashed" if line.get("stroke-dasharray") else "", thick])
    assert sorted(shown) == sorted(drawn)
    assert len(drawn) == 6


def test_a_live_export_names_the_heads_that_were_chosen(chromium: Any) -> None:
    with live(chromium) as page:
        for name, expected in (("Chosen head", 1), ("All heads", 2)):
            page.locator("summary", has_text="Export").click()
            page.get_by_role("button", name=f"{name} as SVG").click()
            settle(page)
            drawn = [request for request in page.asked if request["do"] == "draw"]
            assert len(drawn[-1]["figure"]["heads"]) == expected
    assert drawn[-1]["figure"]["heads"] == ["toy/attention/0/0", "toy/attention/0/1"]


def test_labels_and_units_fit_beside_each_other(chromium: Any) -> None:
    def answer(request: dict[str, Any]) -> dict[str, Any]:
        reply = ask(request)
        for entry in reply.get("looks", []):
            share = 0.433 if request["sentences"][0]["heads"] == HEADS else 0.436
            entry["answer"] |= {"probabilities": {"negative": 1 - share, "positive": share}, "label": "negative"}
        return reply

    start = born()
    start["items"][0]["replies"] = {}
    with live(chromium, answer, start) as page:
        by_mouse(page, 4, 0)
        settle(page)
        assert "+0.3 points" in page.locator(".classes").inner_text()
        heights = page.locator(".classes .class").evaluate_all("all => all.map(e => e.getBoundingClientRect().height)")
        widths = page.locator(".bar-box").evaluate_all("all => all.map(e => e.getBoundingClientRect().width)")
    assert max(heights) < 25, "one line each"
    assert min(widths) >= 32


CENTRES = """(canvas, side) => { const pen = canvas.getContext("2d"), size = canvas.width / side;
    return Array.from({ length: side * side }, (_, i) => { const [row, column] = [Math.floor(i / side), i % side];
        const at = (share) => Math.floor(share * size);
        return [...pen.getImageData(at(column + 0.3), at(row + 0.35), 1, 1).data.slice(0, 3)]; }); }"""


@pytest.mark.parametrize("scale", ["shared", "row"])
def test_the_cells_of_an_export_have_the_colours_of_the_page(two_models: Any, tmp_path: Path, scale: str) -> None:
    """Every cell of every head that may be attended to, but for those in a frame."""
    two_models.get_by_role("group", name="Scale").get_by_role("button", name=scale, exact=True).click()
    shown = [canvas.evaluate(CENTRES, 5) for canvas in two_models.locator(".head canvas").all()]
    root = ElementTree.fromstring(picture(two_models, "All heads", "SVG", tmp_path))
    groups = [(group, group.findall(f"{SVG}rect")) for group in root.iter(f"{SVG}g")]
    matrices = [group for group, rects in groups if len(rects) >= 5 and rects[0].get("class") != "step"]
    assert len(matrices) == len(shown) == 6
    framed = [5 * word + head - 1 for word, head in enumerate(HEADS) if head]
    for cells, group in zip(shown, matrices, strict=True):
        rects = [rect for rect in group.findall(f"{SVG}rect") if rect.get("fill") != "none"]
        side = float(rects[0].get("height") or 0)
        for rect in rects:
            fill = rect.get("fill") or ""
            row, first = (round(float(rect.get(name) or 0) / side) for name in ("y", "x"))
            for column in range(first, first + round(float(rect.get("width") or 0) / side)):
                if fill.startswith("#") and 5 * row + column not in framed:
                    assert cells[5 * row + column] == [int(fill[i : i + 2], 16) for i in (1, 3, 5)]
