"""Weights as arcs, the difference of two models, gradients beside occlusion, the table of examples."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from explorer_live import HEADS, WORDS, ask, born, explorer, live, settle, status
from explorer_pages import attention, boot, missing, opened, sentence, write

pytestmark = pytest.mark.skipif(missing() is not None, reason=missing() or "")

FIRST = np.array([[0.7, 0.2, 0.1], [0.0, 1.0, 0.0], [0.4, 0.3, 0.3]])
SECOND = np.array([[0.2, 0.2, 0.6], [0.5, 0.25, 0.25], [0.4, 0.0, 0.6]])
NAMES = ["dependency", "word"]


def two_models(second: list[str] | None = None) -> dict[str, Any]:
    """A page of two models, whose heads have the same names unless others are given."""
    given = [sentence(["the", "dogs", "bark"], [2, 3, 0])]
    page = boot(given, [attention([FIRST, SECOND], heads=NAMES)], model="one")
    other = boot(given, [attention([SECOND, FIRST], heads=second or NAMES)], model="two")
    page["items"][0]["replies"]["look"]["looks"] += other["items"][0]["replies"]["look"]["looks"]
    page["models"] += other["models"]
    page["view"]["models"] = ["one", "two"]
    return page


def drawn_arcs(page: Any) -> int:
    return int(page.locator(".weights g g").count())


@pytest.mark.parametrize("width", [1280, 300])
@pytest.mark.parametrize("least", [0.02, 0.26, 0.5, 0.98])
def test_weights_are_arcs_from_the_threshold_on(chromium: Any, tmp_path: Path, width: int, least: float) -> None:
    page_file = write(tmp_path, boot([sentence(["the", "dogs", "bark"], [2, 3, 0])], [attention([FIRST])]))
    with opened(chromium, page_file, viewport={"width": width, "height": 800}) as page:
        assert drawn_arcs(page) == 0
        page.get_by_role("button", name="weights as arcs").click()
        page.get_by_label("least weight of an arc").fill(str(least))
        assert drawn_arcs(page) == int((least - 1e-4 <= FIRST).sum())
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.locator(".word").nth(2).hover()
        assert page.locator(".weights .dim").count() == int((least - 1e-4 <= FIRST[:2]).sum())
        page.get_by_role("button", name="weights as arcs").click()
        assert drawn_arcs(page) == 0


def test_the_difference_is_the_first_minus_the_second(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, write(tmp_path, two_models()), accept_downloads=True) as page:
        page.get_by_role("button", name="Difference").click()
        assert page.locator(".heads h3").all_inner_texts() == ["one − two"]
        assert page.locator(".head").count() == 2
        page.get_by_role("button", name="Numbers").click()
        cells = [float(text.replace("−", "-")) for text in page.locator("td.number").all_inner_texts()]
        chosen = page.locator(".chosen-head figcaption").inner_text()
        expected = FIRST - SECOND if "dependency" in chosen else SECOND - FIRST
        assert "one − two" in chosen
        assert np.allclose(np.reshape(cells, (3, 3)), expected, atol=6e-4)
        page.get_by_text("Export ▾").click()
        with page.expect_download() as download:
            page.get_by_role("button", name="All heads as SVG").click()
        tree = ElementTree.parse(download.value.path())
    texts = " ".join(text for element in tree.iter() for text in [element.text or ""])
    assert "one − two: dependency" in texts
    assert "difference of the weights, one − two" in texts


def test_numbers_of_a_long_sentence_push_no_head_out_of_the_page(chromium: Any, tmp_path: Path) -> None:
    words = [f"word{number}" for number in range(16)]
    weights = np.full((6, 16, 16), 1 / 16)
    names = [f"head {number}" for number in range(6)]
    page_file = boot([sentence(words, [0, *range(1, 16)])], [attention(weights, heads=names)])
    with opened(chromium, write(tmp_path, page_file), viewport={"width": 1440, "height": 900}) as page:
        page.get_by_role("button", name="Numbers").click()
        box = page.locator(".explorer").bounding_box()
        heads = [head.bounding_box() for head in page.locator(".head").all()]
        table = page.get_by_role("region", name="numbers").bounding_box()
    assert all(head["x"] + head["width"] <= box["x"] + box["width"] for head in heads)
    assert table["x"] + table["width"] <= min(head["x"] for head in heads)


def test_models_without_heads_of_one_name_have_no_difference(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, write(tmp_path, two_models(["a", "b"]))) as page:
        button = page.get_by_role("button", name="Difference")
        assert button.is_disabled()
        assert button.get_attribute("title") == "the models have no heads of the same name"


def test_gradients_have_their_own_unit_and_scale(chromium: Any, tmp_path: Path) -> None:
    page_file = boot([sentence(WORDS, HEADS)], [attention(np.full((1, 5, 5), 0.2))])
    rows = {"influence": [0.3, 0.0, 0.0, 0.0, 0.0], "gradient": [0.0, -4.0, 2.0, 0.0, 0.0]}
    for do, values in rows.items():
        page_file["items"][0]["replies"][do] = {"ms_san": {"v": 1, "id": 0, "model": "ms_san", "values": [values]}}
    with opened(chromium, write(tmp_path, page_file)) as page:
        page.get_by_role("button", name="influence of words").click()
        page.get_by_role("button", name="gradient × input").click()
        notes = page.locator(".bars-note").all_inner_texts()
        heights = page.locator(".bars i").evaluate_all("bars => bars.map(bar => parseFloat(bar.style.height))")
    assert "largest +30.0 points, full height 30.0 points" in notes[0]
    assert "largest −4.00 in log-odds, full height 4.00" in notes[1]
    assert [heights[0], heights[6], heights[7]] == pytest.approx([18, 18, 9])


def answered(share: float) -> Mapping[str, Any]:
    label = "plural" if share > 0.5 else "singular"
    return {"label": label, "probabilities": {"plural": share, "singular": 1 - share}, "score": None, "text": None}


def many() -> dict[str, Any]:
    """A live page of three examples, with the answers of two models."""
    start = born()
    (first,) = start["items"]
    words = (["a", "bird"], ["loud", "birds"])
    others = [{**first, "sentences": [sentence(text, [2, 0])], "replies": {}} for text in words]
    start["items"] = [first, *others]
    shares = ((0.9, 0.4), (0.1, 0.2), (0.6, 0.99))
    for item, gold, (one, other) in zip(start["items"], ("plural", "singular", "plural"), shares, strict=True):
        item |= {"expected": gold, "answers": {"toy": answered(one), "other": answered(other)}}
    start["view"] = {"item": 0, "models": ["toy", "other"]}
    return start


def names(page: Any) -> list[str]:
    return [text.strip() for text in page.locator(".examples tbody th").all_inner_texts()]


def test_the_table_has_every_example_finds_sorts_and_opens_them(chromium: Any) -> None:
    with live(chromium, ask, many()) as page:
        page.locator(".examples summary").click()
        assert names(page) == ["the keys near the cabinet", "a bird", "loud birds"]
        cells = [row.split("\t") for row in page.locator(".examples tbody tr").all_inner_texts()]
        shown = [[cell.strip() for cell in row] for row in cells]
        assert shown[0][1:] == ["plural", "plural", "90.0%", "✗ singular", "40.0%", "−50.0 points"]
        assert shown[1][1:] == ["singular", "singular", "90.0%", "singular", "80.0%", "−10.0 points"]
        page.get_by_role("button", name="order by movement").click()
        assert names(page) == ["the keys near the cabinet", "a bird", "loud birds"]
        page.get_by_role("button", name="order by movement").click()
        assert names(page) == ["loud birds", "a bird", "the keys near the cabinet"]
        assert page.locator("[aria-sort=descending]").inner_text().startswith("movement")
        search = page.get_by_label("search examples")
        search.fill("BIRD")
        assert names(page) == ["loud birds", "a bird"]
        assert page.locator(".examples [role=status]").inner_text() == "2 of 3"
        search.fill("singular")
        assert names(page) == ["a bird", "the keys near the cabinet"]
        search.fill("loud")
        page.get_by_role("button", name="loud birds").click()
        settle(page)
        assert explorer(page, "app.state.item") == 2
        assert page.locator(".examples tr.shown").inner_text().startswith("loud birds")
        assert "plural" in status(page)


def test_one_example_has_no_table(chromium: Any) -> None:
    with live(chromium) as page:
        assert page.locator(".examples").is_hidden()


def test_in_forced_colours_no_title_touches_its_matrix(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, write(tmp_path, two_models()), forced_colors="active") as page:
        gaps = page.locator(".head").evaluate_all(
            "heads => heads.map(head => head.querySelector('.matrix').getBoundingClientRect().top"
            " - head.querySelector('.title').getBoundingClientRect().bottom)"
        )
    assert len(gaps) == 4
    assert min(gaps) >= 3
