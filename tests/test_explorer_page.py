"""Frozen pages: what they hold, what they may do, and what a browser shows of them."""

import base64
import hashlib
import html
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from explorer_pages import attention, boot, browser, chain, missing, opened, packed, sentence
from structattn.explorer.page import SCRIPT, explorer_element, frozen_page, live_page, policy
from structattn.pictures.colours import DIVERGING, INKS, LEVELS, SEQUENTIAL

WEIGHTS = np.array([[[1.0, 0.0], [0.25, 0.75]]])
NEEDS_BROWSER = pytest.mark.skipif(missing() is not None, reason=missing() or "")
HOSTILE = [
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "javascript:alert(1)",
    "{{7*7}}",
    "\u2028\u2029\u202e",
    "&lt;b&gt;",
    "' onfocus='alert(1)",
]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as found:
        yield found


def write(folder: Path, born: dict[str, Any]) -> Path:
    path = folder / "page.html"
    path.write_text(frozen_page(born), encoding="utf-8")
    return path


def two_words(**options: Any) -> dict[str, Any]:
    return boot([sentence(["dogs", "bark"], [2, 0])], [attention(WEIGHTS, allowed=WEIGHTS > 0)], **options)


def large(num_words: int, num_heads: int = 6) -> dict[str, Any]:
    """Weights that hardly compress, as those of a model do not."""
    weights = np.random.default_rng(0).dirichlet(np.ones(num_words), size=(num_heads, num_words))
    words = [f"word{i}" for i in range(num_words)]
    names = [f"head {i}" for i in range(num_heads)]
    return boot([sentence(words, chain(num_words))], [attention(weights, heads=names)])


def data_of(page: str) -> dict[str, Any]:
    (text,) = re.findall('<script type="application/json" class="structattn-explorer">(.*?)</script>', page, re.DOTALL)
    return dict(json.loads(text))


@pytest.mark.parametrize("text", HOSTILE)
def test_data_come_back_whole_and_never_end_their_element(text: str) -> None:
    born = boot([sentence([text, "b"], [2, 0])], [attention(WEIGHTS)], title=text, model=text)
    assert data_of(frozen_page(born)) == born


@pytest.mark.parametrize(("make", "connect"), [(frozen_page, "'none'"), (live_page, "'self'")])
def test_the_policy_names_each_script_and_style_of_the_page(make: Any, connect: str) -> None:
    page = make(two_words())
    (said,) = re.findall('Content-Security-Policy" content="(.*?)"', page)
    assert html.unescape(said) == policy(connect)
    inline = re.findall("<script>(.*?)</script>", page, re.DOTALL) + re.findall("<style>(.*?)</style>", page, re.DOTALL)
    assert len(inline) == 2
    for content in (*inline, SCRIPT):
        assert f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'" in policy(connect)
    assert "unsafe" not in policy(connect)


@pytest.mark.parametrize(("num_words", "most"), [(20, 100_000), (200, 1_000_000)])
def test_bytes_of_a_page_with_six_heads(num_words: int, most: int) -> None:
    assert len(frozen_page(large(num_words)).encode()) < most


def test_colours_are_those_of_the_figures() -> None:
    for colour_map in (SEQUENTIAL, DIVERGING):
        for colours in (colour_map.light, colour_map.dark):
            stops = " ".join(colour.removeprefix("#") for colour in colours[:: LEVELS // 16])
            assert f'"{stops}"' in SCRIPT
    for role in ("paper", "ink", "soft", "rule", "hatch", "chip", "mark"):
        for shade in INKS[role]:
            assert f'{role}: "{shade}"' in SCRIPT


def test_a_page_that_holds_more_than_the_explorer_has_its_data_once() -> None:
    part = explorer_element(two_words())
    assert data_of(part)["title"] == "Two words"
    assert SCRIPT not in part


@NEEDS_BROWSER
def test_a_page_shows_words_answer_and_weights(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, write(tmp_path, two_words())) as page:
        assert page.locator(".word").all_inner_texts() == ["dogs", "bark"]
        assert page.locator(".classes").inner_text().split() == ["plural", "75.0", "singular", "25.0"]
        page.get_by_role("button", name="Numbers").click()
        cells = page.locator("table td.number").all_inner_texts()
    assert cells == ["1.000", "–", ".250", ".750"]


@NEEDS_BROWSER
@pytest.mark.parametrize("num_words", [1, 20, 200])
def test_weights_in_the_page_are_those_that_were_packed(chromium: Any, tmp_path: Path, num_words: int) -> None:
    born = large(num_words)
    expected = np.random.default_rng(0).dirichlet(np.ones(num_words), size=(6, num_words))
    with opened(chromium, write(tmp_path, born)) as page:
        shown = page.evaluate(
            "[...document.querySelectorAll('div')].find(e => e.explorer).explorer.heads[0]"
            ".map(head => [...head.values])"
        )
    assert np.abs(np.array(shown).reshape(expected.shape) - expected).max() < 1e-5


@NEEDS_BROWSER
@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_are_shown_and_inert(chromium: Any, tmp_path: Path, text: str) -> None:
    words = sentence([text, "b"], [2, 0], labels=[text, "root"], tags=[text, text], phrases=[[text, 0, 2]])
    born = boot([words], [attention(WEIGHTS, heads=[text])], title=text, model=text, labels={text: 0.75, "b": 0.25})
    with opened(chromium, write(tmp_path, born)) as page:
        page.on("dialog", lambda dialog: pytest.fail("a text was run"))
        assert page.locator(".word").first.text_content() == text
        page.locator(".word").first.click()
        page.get_by_role("button", name="Numbers").click()
        assert page.locator("img, .explorer svg svg, .explorer script").count() == 0


@NEEDS_BROWSER
@pytest.mark.parametrize("words", [["dogs", "bark"], ["الكلاب", "تنبح"], ["犬が", "吠える"], ["x" * 60, "y"]])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_leaves_a_screen_of_400_pixels(chromium: Any, tmp_path: Path, words: list[str], scheme: str) -> None:
    names = {f"encoder.{'layer' * 12}.{i}": [f"a · long · name {i}", f"another {i}"] for i in range(3)}
    maps = [attention(np.concatenate([WEIGHTS] * 2), name=name, heads=heads) for name, heads in names.items()]
    born = boot([sentence(words, [2, 0])], maps)
    screen = {"viewport": {"width": 400, "height": 800}, "color_scheme": scheme}
    with opened(chromium, write(tmp_path, born), **screen) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
        assert page.locator(".explorer").get_attribute("data-theme") == scheme
        right = page.locator(".explorer").evaluate("box => box.getBoundingClientRect().right")
        outside = ":not(.scroll *, .large *, option, .menu:not([open]) *)"
        ends = page.locator(f".explorer *{outside}").evaluate_all(
            "elements => elements.filter(e => e.checkVisibility()).map(e => e.getBoundingClientRect().right)"
        )
        assert len(ends) > 50
        assert max(ends) <= right


@NEEDS_BROWSER
def test_words_run_from_right_to_left_where_their_script_does(chromium: Any, tmp_path: Path) -> None:
    for words, rises in ((["dogs", "bark"], True), (["الكلاب", "تنبح"], False)):
        born = boot([sentence(words, [2, 0])], [attention(WEIGHTS)])
        with opened(chromium, write(tmp_path, born)) as page:
            first, second = (page.locator(".word").nth(i).bounding_box()["x"] for i in (0, 1))
        assert (first < second) is rises


@NEEDS_BROWSER
def test_an_edit_of_a_frozen_page_is_refused_with_the_command_of_a_live_one(chromium: Any, tmp_path: Path) -> None:
    born = {**two_words(), "command": "structattn explore runs/one"}
    with opened(chromium, write(tmp_path, born)) as page:
        page.locator(".word").first.press("r")
        assert "structattn explore runs/one" in page.locator(".status").inner_text()
        assert page.locator("[data-key=undo]").is_disabled()


@NEEDS_BROWSER
@pytest.mark.parametrize("what", ["Dependency tree", "Heads", "Latent trees"])
def test_what_a_frozen_page_exports_has_its_words_as_text(chromium: Any, tmp_path: Path, what: str) -> None:
    words = ["الكلاب", "<b>&", "犬"]
    weights = np.full((1, 3, 3), 1 / 3)
    latent = {**packed(np.full((3, 4), 0.25)), "heads": [2, 0, 2]}
    born = boot([sentence(words, [2, 0, 2])], [attention(weights)], latent=[latent])
    with opened(chromium, write(tmp_path, born)) as page:
        for form in ("SVG", "PNG"):
            page.locator("summary", has_text="Export").click()
            with page.expect_download() as download:
                page.get_by_role("button", name=f"{what} as {form}").click()
            download.value.save_as(tmp_path / form)
    found = ElementTree.fromstring((tmp_path / "SVG").read_text())
    texts = [element.text for element in found.iter("{http://www.w3.org/2000/svg}text")]
    assert all(word in texts for word in words)
    picture = (tmp_path / "PNG").read_bytes()
    assert picture.startswith(b"\x89PNG")
    width = int.from_bytes(picture[16:20])
    assert width == 2 * int(float(found.attrib["width"]))


@NEEDS_BROWSER
def test_tokens_are_joined_to_words_as_sums_to_and_means_from_them(chromium: Any, tmp_path: Path) -> None:
    """Two tokens make the first word: keys add up, queries are averaged; special tokens stay."""
    tokens, words = ["[CLS]", "un", "##do", "it"], [None, 0, 0, 1]
    rows = [[0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1], [0.0, 0.5, 0.5, 0.0], [1.0, 0.0, 0.0, 0.0]]
    maps = [attention([rows], rows=tokens, columns=tokens, words={"rows": words, "columns": words})]
    with opened(chromium, write(tmp_path, boot([sentence(["undo", "it"], [0, 1])], maps))) as page:
        page.get_by_role("button", name="Numbers").click()
        shown = {}
        for unit in ("word", "token"):
            page.get_by_role("button", name=unit, exact=True).click()
            header = page.locator("table thead th").all_inner_texts()
            shown[unit] = (header, page.locator("table td.number").all_inner_texts())
    joined = [".100", ".500", ".400", ".200", ".750", ".050", "1.000", ".000", ".000"]
    assert shown["word"] == (["[CLS]", "undo", "it"], joined)
    assert shown["token"][0] == tokens
    assert len(shown["token"][1]) == 16


@NEEDS_BROWSER
def test_the_threshold_hides_improbable_arcs_but_never_the_best_tree(chromium: Any, tmp_path: Path) -> None:
    marginals = [[0.05, 0.0, 0.55, 0.4], [0.9, 0.1, 0.0, 0.0], [0.3, 0.3, 0.4, 0.0]]
    latent = {**packed(marginals), "heads": [2, 0, 2]}
    born = boot([sentence(["a", "b", "c"], [2, 0, 2])], [attention(np.full((1, 3, 3), 1 / 3))], latent=[latent])
    with opened(chromium, write(tmp_path, born)) as page:
        slider = page.get_by_label("least probability of an arc")
        counts = []
        for threshold in ("0.06", "0.35", "0.99"):
            slider.fill(threshold)
            counts.append(page.locator(".latent svg > g").first.locator(".arc").count())
        assert counts == [7, 4, 3]
        assert page.locator(".latent svg > g").nth(1).locator(".arc").count() == 3


@NEEDS_BROWSER
def test_what_is_forbidden_is_hatched_and_what_is_zero_is_not(chromium: Any, tmp_path: Path) -> None:
    """A hatched cell is mostly clear; a cell of weight zero has the lowest colour."""
    allowed = np.array([[[True, False], [True, True]]])
    weights = np.array([[[1.0, 0.0], [1.0, 0.0]]])
    born = boot([sentence(["a", "b"], [2, 0])], [attention(weights, allowed=allowed)])
    with opened(chromium, write(tmp_path, born)) as page:
        clear = page.locator(".head canvas").evaluate(
            """canvas => { const side = canvas.width / 2, pen = canvas.getContext("2d");
                return [[0, 0], [1, 0], [0, 1], [1, 1]].map(([x, y]) => {
                    const { data } = pen.getImageData(x * side + 3, y * side + 3, side - 6, side - 6);
                    return data.filter((value, i) => i % 4 === 3 && value === 0).length / (data.length / 4); }); }"""
        )
    assert [share > 0.3 for share in clear] == [False, True, False, False]


@NEEDS_BROWSER
@pytest.mark.parametrize("num_models", [1, 2])
def test_a_long_text_of_two_models_is_drawn(chromium: Any, tmp_path: Path, num_models: int) -> None:
    born = large(256, num_heads=2)
    looks = born["items"][0]["replies"]["look"]["looks"]
    names = [f"model {i}" for i in range(num_models)]
    born["models"] = [{**born["models"][0], "name": name} for name in names]
    born["items"][0]["replies"]["look"]["looks"] = [{**looks[0], "model": name} for name in names]
    born["view"]["models"] = names
    with opened(chromium, write(tmp_path, born)) as page:
        assert page.locator(".word").count() == 256
        assert page.locator(".head canvas").count() == 2 * num_models
        assert page.evaluate("document.documentElement.scrollWidth") <= 1280
