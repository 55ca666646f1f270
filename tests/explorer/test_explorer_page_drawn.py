"""What a frozen page draws, in a browser: exported pictures, tokens and words, latent trees, what is forbidden."""

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from explorer_pages import attention, boot, missing, opened, packed, sentence, write

pytestmark = pytest.mark.skipif(missing() is not None, reason=missing() or "")


@pytest.mark.parametrize("what", ["Dependency tree", "Head", "Latent trees"])
def test_what_a_frozen_page_exports_has_its_words_as_text(chromium: Any, tmp_path: Path, what: str) -> None:
    words = ["الكلاب", "<b>&", "犬"]
    weights = np.full((1, 3, 3), 1 / 3)
    latent = {**packed(np.full((3, 4), 0.25)), "heads": [2, 0, 2]}
    born = boot([sentence(words, [2, 0, 2])], [attention(weights)], latent=[latent])
    with opened(chromium, write(tmp_path, born)) as page:
        for form in ("SVG", "PNG"):
            page.locator("summary", has_text="Export").click()
            with page.expect_download() as download:
                page.get_by_role("button", name=f"{what} as {form}", exact=True).click()
            download.value.save_as(tmp_path / form)
    found = ElementTree.fromstring((tmp_path / "SVG").read_text())
    texts = [element.text for element in found.iter("{http://www.w3.org/2000/svg}text")]
    assert all(word in texts for word in words)
    picture = (tmp_path / "PNG").read_bytes()
    assert picture.startswith(b"\x89PNG")
    width = int.from_bytes(picture[16:20])
    assert width == 2 * round(float(found.attrib["width"]))


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
    joined = ["0.100", "0.500", "0.400", "0.200", "0.750", "0.050", "1.000", "0.000", "0.000"]
    assert shown["word"] == (["[CLS]", "undo", "it"], joined)
    assert shown["token"][0] == tokens
    assert len(shown["token"][1]) == 16


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
