"""What a live page shows beside its trees, and how its state is kept, in a browser."""

import base64
import html
import json
from typing import Any

import pytest

from explorer_live import (
    HEADS,
    TREE,
    WORDS,
    ask,
    born,
    by_mouse,
    explorer,
    heads,
    live,
    settle,
    status,
    weights,
)
from explorer_pages import missing
from structattn.explorer.explorer_page import SCRIPT, frozen_page

pytestmark = pytest.mark.skipif(missing() is not None, reason=missing() or "")


def test_influence_is_shown_and_an_edit_that_flips_is_applied(chromium: Any) -> None:
    with live(chromium) as page:
        page.get_by_role("button", name="influence of arcs").click()
        page.locator(".bars i").first.wait_for()
        assert page.locator(".bars i").count() == 5
        assert page.locator(".bars i.bar-down").count() == 1
        page.get_by_role("button", name="Find an edit that flips").click()
        page.get_by_role("button", name="cabinet as the root").click()
        assert "prediction plural → singular" in status(page)
        assert [one["from"] for one in page.asked if one["do"] == "flip"] == [0, 6]


def test_a_search_for_edits_shows_how_far_it_is_and_can_be_stopped(chromium: Any) -> None:
    last = 10**6
    most = [10]

    def part(request: dict[str, Any]) -> dict[str, Any]:
        if request["do"] != "flip":
            return ask(request)
        tried = min(request["from"] + most[0], last)
        return {"v": 1, "id": request["id"], "model": "toy", "edits": [], "found": 0, "tried": tried, "of": last}

    with live(chromium, part) as page:
        page.get_by_role("button", name="Find an edit that flips").click()
        page.get_by_text("of 1000000 edits tried").wait_for()
        explorer(page, "app.views.find((view) => view.searches).element.querySelector('button').focus()")
        page.keyboard.press("Enter")
        page.get_by_role("button", name="Try the others").wait_for()
        assert explorer(page, "app.root.activeElement.textContent") == "Try the others"
        asked = [one["from"] for one in page.asked if one["do"] == "flip"]
        assert asked == list(range(0, 10 * len(asked), 10))
        most[0] = last
        page.get_by_role("button", name="Try the others").click()
        page.get_by_text("No single edit of the tree changes the prediction.").wait_for()
        later = [one["from"] for one in page.asked if one["do"] == "flip"][len(asked) :]
        assert len(later) == 1
        assert later[0] in (10 * len(asked), 10 * (len(asked) - 1))


def test_influence_that_comes_in_parts_is_put_together(chromium: Any) -> None:
    def part(request: dict[str, Any]) -> dict[str, Any]:
        reply = ask(request)
        if request["do"] != "arcs":
            return reply
        start = request.get("from", 0)
        values = [value if start <= at < start + 2 else None for at, value in enumerate(reply["values"][0])]
        return {**reply, "values": [values], "tried": min(start + 2, 5), "of": 5}

    shown = []
    for answer in (ask, part):
        with live(chromium, answer) as page:
            page.get_by_role("button", name="influence of arcs").click()
            page.locator(".bars i").first.wait_for()
            shown.append(page.locator(".bars i").evaluate_all("bars => bars.map((bar) => bar.title)"))
            asked = [one.get("from", 0) for one in page.asked if one["do"] == "arcs"]
    assert shown[0] == shown[1]
    assert asked == [0, 2, 4]


def test_two_models_stand_side_by_side(chromium: Any) -> None:
    with live(chromium) as page:
        page.get_by_role("button", name="+ compare").click()
        assert status(page) == "toy: plural, 90.0%; other: plural, 90.0%."
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


def test_by_keyboard_alone_a_picture_is_exported(chromium: Any, tmp_path: Any) -> None:
    def drawing(request: dict[str, Any]) -> dict[str, Any]:
        data = base64.b64encode(json.dumps(request["figure"]).encode()).decode()
        return {"v": 1, "id": request["id"], "type": "application/pdf", "data": data}

    with live(chromium, lambda request: drawing(request) if request["do"] == "draw" else ask(request)) as page:
        page.locator("summary", has_text="Export").focus()
        page.keyboard.press("Enter")
        for _ in range(3):
            page.keyboard.press("Tab")
        with page.expect_download() as download:
            page.keyboard.press("Enter")
        download.value.save_as(tmp_path / "tree.pdf")
        assert status(page) == "Saved structattn-tree.pdf."
        assert json.loads((tmp_path / "tree.pdf").read_text()) == {"what": "tree", "format": "pdf"}
        by_mouse(page, 1, 2)
        settle(page)
        page.get_by_role("button", name="Change").click()
        page.locator("summary", has_text="Export").click()
        with page.expect_download() as download:
            page.get_by_role("button", name="All heads as PNG").click()
        download.value.save_as(tmp_path / "heads.png")
    asked = json.loads((tmp_path / "heads.png").read_text())
    keys = ["toy/attention/0/0", "toy/attention/0/1"]
    assert asked == {"what": "heads", "format": "png", "scale": "shared", "heads": keys, "before": [TREE]}


def test_a_link_holds_the_state_after_its_sign_and_sends_none_of_it(chromium: Any) -> None:
    with live(chromium, permissions=["clipboard-read", "clipboard-write"]) as page:
        by_mouse(page, 1, 2)
        settle(page)
        page.locator("summary", has_text="Share").click()
        page.get_by_role("button", name="Copy link").click()
        page.locator(".status", has_text="Link copied").wait_for()
        link = page.evaluate("navigator.clipboard.readText()")
        address, _, fragment = link.partition("#")
        assert address == "http://localhost:1/"
        state = json.loads(base64.urlsafe_b64decode(fragment + "=" * (-len(fragment) % 4)))
        assert state["sentences"][0]["heads"] == [2, 0, 2, 5, 2]
        page.goto("about:blank")
        page.goto(link)
        page.locator(".arcs path[stroke-dasharray]").wait_for()
        assert heads(page) == [2, 0, 2, 5, 2]


def test_a_widget_asks_its_kernel_and_lets_go(chromium: Any) -> None:
    """A stand-in for anywidget's model: ``get``, ``send`` and messages."""
    page = chromium.new_context().new_page()
    page.expose_function("kernel", lambda request: {**ask(request)})
    page.set_content(f'<div id="cell"></div><script type="module">{SCRIPT}\nglobalThis.render = render;</script>')
    page.evaluate(
        """boot => {
            const listeners = new Set();
            globalThis.model = { get: () => boot, on: (_, f) => listeners.add(f), off: (_, f) => listeners.delete(f),
                send: async request => { const reply = await kernel(request); listeners.forEach(f => f(reply)); } };
            globalThis.listeners = listeners;
            globalThis.stop = globalThis.render({ model, el: document.getElementById("cell") }); }""",
        {**born(), "host": "widget", "token": None},
    )
    settle(page)
    by_mouse(page, 1, 2)
    assert "keys → near. 1 head moved" in status(page)
    assert heads(page) == [2, 0, 2, 5, 2]
    for light in ("false", "true"):
        page.evaluate("light => document.body.setAttribute('data-jp-theme-light', light)", light)
        page.locator(f".explorer[data-theme={'light' if light == 'true' else 'dark'}]").wait_for()
    page.evaluate("stop()")
    assert page.evaluate("listeners.size") == 0
    page.context.close()


def test_a_frozen_page_runs_in_a_sandboxed_frame(chromium: Any) -> None:
    page = chromium.new_context().new_page()
    frame = f'<iframe sandbox="allow-scripts" srcdoc="{html.escape(frozen_page(born()))}" width="900"></iframe>'
    page.set_content(frame)
    inside = page.frame_locator("iframe")
    inside.locator(".explorer:not([aria-busy]) .word").first.wait_for()
    assert inside.locator(".word").all_inner_texts() == WORDS
    page.context.close()


def test_edits_survive_a_reload_and_the_way_back_and_end_with_the_tab(chromium: Any) -> None:
    with live(chromium) as page:
        by_mouse(page, 4, 0)
        settle(page)
        edited = heads(page)
        for leave in (page.reload, lambda: (page.goto("http://localhost:1/elsewhere"), page.go_back())):
            leave()
            page.locator(".word").first.wait_for()
            page.wait_for_function(
                "() => [...document.querySelectorAll('div')].find(e => e.explorer)?.explorer.isEdited"
            )
            settle(page)
            assert heads(page) == edited != HEADS
        page.keyboard.press("Control+z")
        settle(page)
        assert heads(page) == HEADS
