"""What a live page shows beside its trees, and how its state is kept, in a browser."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from explorer_live import (
    HEADS,
    by_mouse,
    explorer,
    heads,
    live,
    settle,
    status,
    weights,
)
from explorer_pages import browser, missing

pytestmark = pytest.mark.skipif(missing() is not None, reason=missing() or "")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as found:
        yield found


def test_influence_is_shown_and_an_edit_that_flips_is_applied(chromium: Any) -> None:
    with live(chromium) as page:
        page.get_by_role("button", name="influence of arcs").click()
        page.locator(".bars i").first.wait_for()
        assert page.locator(".bars i").count() == 5
        assert page.locator(".bars i.bar-down").count() == 1
        page.get_by_role("button", name="Find an edit that flips").click()
        page.get_by_role("button", name="cabinet as the root").click()
        assert "answer plural → singular" in status(page)


def test_two_models_stand_side_by_side(chromium: Any) -> None:
    with live(chromium) as page:
        page.get_by_role("button", name="+ compare").click()
        assert status(page) == "toy: plural, 90.0 %; other: plural, 90.0 %."
        assert page.locator(".pair > div").count() == 2
        by_mouse(page, 1, 2)
        assert status(page).count("1 head moved") == 2
        assert page.asked[-1]["models"] == ["toy", "other"]


def test_a_saved_state_is_opened_as_it_was_left(chromium: Any, tmp_path: Any) -> None:
    with live(chromium) as page:
        by_mouse(page, 1, 2)
        settle(page)
        page.get_by_role("button", name="Change").click()
        page.locator("summary", has_text="Share").click()
        with page.expect_download() as download:
            page.get_by_role("button", name="Save state").click()
        download.value.save_as(tmp_path / "state.json")
        shown = weights(page)
    state = json.loads((tmp_path / "state.json").read_text())
    assert state["runs"] == {"toy": "0", "other": "0"}
    with live(chromium) as page:
        page.locator("input[type=file]").set_input_files(tmp_path / "state.json")
        page.locator(".arcs path[stroke-dasharray]").wait_for()
        settle(page)
        assert weights(page) == shown
        assert explorer(page, "app.view.mode") == "change"
        assert explorer(page, "app.state.before[0].heads") == HEADS


@pytest.mark.parametrize("content", ["", "[]", '{"v": 2}', '{"v": 1}', '{"v": 1, "sentences": [{"words": [1]}]}'])
def test_a_file_that_is_no_state_is_refused(chromium: Any, content: str) -> None:
    with live(chromium) as page:
        file = {"name": "state.json", "mimeType": "application/json", "buffer": content.encode()}
        page.locator("input[type=file]").set_input_files([file])
        page.locator(".status.error").wait_for()
        assert status(page).startswith("Expected")
        assert heads(page) == HEADS
