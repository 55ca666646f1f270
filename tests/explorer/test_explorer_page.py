"""Frozen pages: what they hold, what they may do, and what a browser shows of them."""

import base64
import hashlib
import html
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from explorer_pages import attention, boot, chain, missing, opened, sentence, write
from structattn.explorer.explorer_page import SCRIPT, embed_explorer, frozen_page, live_page, write_policy
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
    assert data_of(frozen_page(born)) == {**born, "level": 1}


@pytest.mark.parametrize(("make", "connect"), [(frozen_page, "'none'"), (live_page, "'self'")])
def test_the_policy_names_each_script_and_style_of_the_page(make: Any, connect: str) -> None:
    page = make(two_words())
    (said,) = re.findall('Content-Security-Policy" content="(.*?)"', page)
    assert html.unescape(said) == write_policy(connect)
    inline = re.findall("<script>(.*?)</script>", page, re.DOTALL) + re.findall("<style>(.*?)</style>", page, re.DOTALL)
    assert len(inline) == 2
    for content in (*inline, SCRIPT):
        assert f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'" in write_policy(
            connect
        )
    assert "unsafe" not in write_policy(connect)


@pytest.mark.parametrize(("num_words", "most"), [(20, 100_000), (200, 1_000_000)])
def test_bytes_of_a_page_with_six_heads(num_words: int, most: int) -> None:
    assert len(frozen_page(large(num_words)).encode()) < most


def test_colours_are_those_of_the_figures() -> None:
    for colour_map in (SEQUENTIAL, DIVERGING):
        for colours in (colour_map.light, colour_map.dark):
            stops = " ".join(colour.removeprefix("#") for colour in colours[:: LEVELS // 16])
            assert f'"{stops}"' in SCRIPT
    for role in ("paper", "ink", "soft", "rule", "hatch", "chip", "raises", "lowers", "edit", "accent", "error"):
        for shade in INKS[role]:
            assert f'{role}: "{shade}"' in SCRIPT


def test_a_page_that_holds_more_than_the_explorer_has_its_data_once() -> None:
    part = embed_explorer(two_words())
    assert data_of(part)["title"] == "Two words"
    assert SCRIPT not in part


@NEEDS_BROWSER
def test_a_page_shows_words_answer_and_weights(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, write(tmp_path, two_words())) as page:
        assert page.locator(".word").all_inner_texts() == ["dogs", "bark"]
        assert page.locator(".classes").inner_text().split() == ["plural", "75.0%", "singular", "25.0%"]
        page.get_by_role("button", name="Numbers").click()
        cells = page.locator("table td.number").all_inner_texts()
    assert cells == ["1.000", "–", "0.250", "0.750"]


@NEEDS_BROWSER
@pytest.mark.parametrize("num_words", [1, 20, 200])
def test_weights_in_the_page_are_those_that_were_packed(chromium: Any, tmp_path: Path, num_words: int) -> None:
    born = large(num_words, num_heads=2)
    expected = np.random.default_rng(0).dirichlet(np.ones(num_words), size=(2, num_words))
    with opened(chromium, write(tmp_path, born)) as page:
        shown = page.evaluate(
            "[...document.querySelectorAll('div')].find(e => e.explorer).explorer.heads[0]"
            ".map(head => [...head.values])"
        )
    assert np.abs(np.array(shown).reshape(expected.shape) - expected).max() < 1e-5


@NEEDS_BROWSER
@pytest.mark.parametrize("name", HOSTILE[:2])
def test_hostile_texts_are_shown_and_inert(chromium: Any, tmp_path: Path, name: str) -> None:
    size = len(HOSTILE)
    phrases = [[text, place, place + 1] for place, text in enumerate(HOSTILE)]
    words = sentence(HOSTILE, chain(size), labels=HOSTILE, tags=HOSTILE, phrases=phrases)
    maps = [attention(np.full((size, size, size), 1 / size), heads=HOSTILE, name=name)]
    answers = dict.fromkeys(HOSTILE, 1 / size)
    born = boot([words], maps, title=name, model=name, labels=answers)
    with opened(chromium, write(tmp_path, {**born, "command": name})) as page:
        page.on("dialog", lambda dialog: pytest.fail("a text was run"))
        page.get_by_role("button", name="phrases, not read").click()
        for place in (".word", ".phrase", ".classes bdi", ".head .title bdi"):
            assert set(page.locator(place).all_text_contents()) == set(HOSTILE)
        page.locator(".word").first.click()
        page.locator(".word").first.press("r")
        page.get_by_role("button", name="Numbers").click()
        assert page.locator("img, .explorer svg svg, .explorer script").count() == 0


@NEEDS_BROWSER
@pytest.mark.parametrize(
    ("words", "scheme"),
    [
        (["dogs", "bark"], "dark"),
        (["الكلاب", "تنبح"], "light"),
        (["犬が", "吠える"], "dark"),
        (["x" * 60, "y"], "light"),
    ],
)
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
def test_names_of_columns_stand_upright_where_their_script_is_written_downwards(chromium: Any, tmp_path: Path) -> None:
    born = boot([sentence(["看了", "bark"], [2, 0])], [attention(WEIGHTS)])
    with opened(chromium, write(tmp_path, born)) as page:
        turned = page.locator(".column-names bdi").evaluate_all(
            "names => names.map(e => getComputedStyle(e).transform)"
        )
    assert [transform == "none" for transform in turned] == [True, False]


@NEEDS_BROWSER
def test_an_edit_of_a_frozen_page_is_refused_with_the_command_of_a_live_one(chromium: Any, tmp_path: Path) -> None:
    born = {**two_words(), "command": "structattn explore runs/one"}
    with opened(chromium, write(tmp_path, born)) as page:
        page.locator(".word").first.press("r")
        assert "structattn explore runs/one" in page.locator(".status").inner_text()
        assert "`" not in page.locator(".status").inner_text()


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
        matrix, figure = (page.locator(name).first.bounding_box() for name in (".head canvas", ".head"))
        assert matrix["width"] == pytest.approx(matrix["height"])
        assert matrix["width"] <= figure["width"], "it lies over the next one"
