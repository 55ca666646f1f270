"""Focus, undo and states from outside, in a browser; and the page of a real server, whose token nobody sees."""

import copy
import json
import random
import re
import threading
from typing import Any

import pytest

from explorer_live import HEADS, TREE, ask, born, by_mouse, heads, live, settle, status, word
from explorer_pages import attention, boot, missing, opened, sentence, write
from structattn.explorer.explorer_server import ExplorerServer

pytestmark = pytest.mark.skipif(missing() is not None, reason=missing() or "")

FOCUS = """() => { const { root } = [...document.querySelectorAll("div")].find(e => e.explorer).explorer;
    return root.activeElement === null ? "BODY" : root.activeElement.textContent.trim(); }"""


@pytest.mark.parametrize(
    "name", ["row", "shared", "dependency", "word", "influence of words", "influence of arcs", "Numbers", "Change"]
)
def test_focus_stays_on_what_was_pressed(chromium: Any, name: str) -> None:
    with live(chromium) as page:
        if name == "Change":
            by_mouse(page, 4, 0)
            settle(page)
        control = page.get_by_role("button", name=name).first
        control.focus()
        before = page.evaluate(FOCUS)
        page.keyboard.press("Enter")
        settle(page)
        assert page.evaluate(FOCUS) == before != "BODY"


@pytest.mark.parametrize("name", ["Compare from here", "undo", "Save state"])
def test_focus_goes_elsewhere_if_what_was_pressed_is_gone(chromium: Any, name: str) -> None:
    with live(chromium) as page:
        by_mouse(page, 4, 0)
        settle(page)
        if name == "Save state":
            page.locator("summary", has_text="Share").click()
        page.get_by_role("button", name=name).focus()
        page.keyboard.press("Enter")
        settle(page)
        assert page.evaluate(FOCUS) != "BODY"


@pytest.mark.parametrize("place", ["Change", "a blank place", "Export"])
def test_undo_works_wherever_the_focus_is(chromium: Any, place: str) -> None:
    with live(chromium) as page:
        by_mouse(page, 4, 0)
        settle(page)
        assert heads(page) != HEADS
        if place == "a blank place":
            page.mouse.click(5, 5)
        elif place == "Export":
            page.locator("summary", has_text="Export").click()
        else:
            page.get_by_role("button", name=place).click()
        page.keyboard.press("Control+z")
        settle(page)
        assert heads(page) == HEADS
        assert status(page).startswith("Undone: cabinet → the. No head moved; prediction unchanged.")


def test_words_stay_where_they_are_while_arcs_are_edited(chromium: Any) -> None:
    """Also for an arc that is higher than all before, and one with a name that is longer than it reaches."""
    start = copy.deepcopy(born())
    start["items"][0]["sentences"][0]["labels"][4] = "a relation with a long name"
    start["items"][0]["replies"] = {}
    with live(chromium, start=start) as page:
        places = [[word(page, i).bounding_box() for i in range(5)]]
        for head, dependent in ((0, 4), (1, 4), (0, 2)):
            by_mouse(page, head, dependent)
            settle(page)
            places.append([word(page, i).bounding_box() for i in range(5)])
        assert places == [places[0]] * 4
        selected = page.locator(".arcs").evaluate("arcs => getComputedStyle(arcs).userSelect")
    assert selected == "none"


def test_an_edit_changes_elements_and_makes_few(chromium: Any) -> None:
    with live(chromium) as page:
        by_mouse(page, 4, 0)
        settle(page)
        page.evaluate("""() => { const { root } = [...document.querySelectorAll("div")].find(e => e.explorer).explorer;
            window.added = 0; window.kept = [...root.querySelectorAll("button,canvas,select,.arc,.well")];
            const count = (records) => { for (const { addedNodes } of records)
                for (const node of addedNodes) window.added += node.nodeType === 1; };
            new MutationObserver(count).observe(root, { childList: true, subtree: true }); }""")
        by_mouse(page, 4, 3)
        settle(page)
        assert heads(page)[3] == 5
        assert page.evaluate("() => window.kept.filter(element => !element.isConnected).length") <= 1
        assert page.evaluate("() => window.added") <= 8


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_word_that_would_close_a_cycle_is_struck_out_and_can_be_read(chromium: Any, theme: str) -> None:
    with live(chromium, color_scheme=theme) as page:
        word(page, 4).focus()
        page.keyboard.press("a")
        closed = page.locator(".word.off")
        styles = closed.evaluate_all(
            """words => words.map(word => { const style = getComputedStyle(word);
                return [style.textDecorationLine, style.opacity, style.color, style.backgroundColor]; })"""
        )
        assert len(styles) == 2
        for line, opacity, *colours in styles:
            assert (line, opacity) == ("line-through", "1")
            lights = [luminance(colour) for colour in colours]
            assert (max(lights) + 0.05) / (min(lights) + 0.05) >= 4.5


def luminance(colour: str) -> float:
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_a_text_is_typed_parsed_edited_undone_and_exported_by_keyboard_alone(chromium: Any) -> None:
    """After every key something has the focus, and it is where one goes on."""
    with live(chromium) as page:
        place = """() => { const { root } = [...document.querySelectorAll("div")].find(e => e.explorer).explorer;
            const { activeElement: at } = root; return at && [at.className, at.dataset.key ?? at.dataset.word ?? "",
                at.getAttribute("aria-label") ?? at.textContent.trim()]; }"""

        def press(*keys: str) -> list[str]:
            for key in keys:
                page.keyboard.press(key)
                settle(page)
                assert page.evaluate(place) is not None, f"{key} of {keys}"
            found: list[str] = page.evaluate(place)
            return found

        def go_to(name: str, key: str = "Tab") -> None:
            for _ in range(80):
                page.keyboard.press(key)
                found = page.evaluate(place)
                if found and name in found:
                    return
            raise AssertionError(name)

        go_to("text0")
        page.keyboard.press("Control+a")
        page.keyboard.type("a b c d")
        assert press("Enter")[1] == "0"
        assert page.locator(".word").all_inner_texts() == ["a", "b", "c", "d"]
        assert press("ArrowRight", "ArrowRight", "ArrowRight")[1] == "3"  # grab the arc of "d" and drop it on "b"
        assert press("a", "ArrowLeft", "ArrowLeft", "Enter")[1] == "1"
        assert heads(page) == [0, 1, 2, 2]
        assert press("Control+z")[1] == "1"
        assert heads(page) == [0, 1, 2, 3]
        assert press("Enter")[1] == "1"  # "b" in hand, then another button of the line under the tree
        go_to("Move its own arc")
        assert press("Enter")[1] == "1"
        press("Escape", "r")
        assert heads(page) == [2, 0, 2, 3]
        press("Shift+ArrowRight", "n")  # a phrase
        assert press("Enter")[0].startswith("word")
        go_to("phrase NP: b c")
        press("Enter", "Escape")
        go_to("toy/attention/0/1")
        assert press("Enter")[1] == "toy/attention/0/1"
        for menu, names in (("Share", ["Save state"]), ("Export", ["Dependency tree as SVG"])):
            go_to(menu, "Shift+Tab")
            press("Enter")
            for name in names:
                go_to(name)
                assert press("Enter")[1] == menu


def test_the_sentence_about_an_edit_is_not_overwritten(chromium: Any) -> None:
    """A model without influence of arcs says so beside the bars of the other."""

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        reply = ask(request)
        return {**reply, "values": [None]} if request["do"] == "arcs" and request["models"] == ["other"] else reply

    start = born()
    start["models"][1]["reads"] = []
    start["view"]["models"] = ["toy", "other"]
    start["items"][0]["replies"] = {}
    with live(chromium, answer, start) as page:
        page.get_by_role("button", name="influence of arcs").click()
        page.get_by_text("reads no dependency tree, so it has no influence of arcs").wait_for()
        by_mouse(page, 4, 0)
        settle(page)
        page.wait_for_timeout(200)
        assert status(page).startswith("cabinet → the.")


def test_old_numbers_are_dimmed_while_an_answer_is_computed(chromium: Any) -> None:
    with live(chromium) as page:
        page.evaluate("""() => { const app = [...document.querySelectorAll("div")].find(e => e.explorer).explorer;
            app.replies.ask = () => new Promise(() => {}); }""")
        by_mouse(page, 4, 0)
        page.wait_for_timeout(250)
        assert page.locator(".answers").evaluate("e => Number(getComputedStyle(e).opacity)") < 0.5
        assert page.locator(".status").inner_text() == "cabinet → the."


def test_a_frozen_page_shows_nothing_that_cannot_work(chromium: Any, tmp_path: Any) -> None:
    start = boot([sentence(["dogs", "bark"], [2, 0])], [attention([[[1.0, 0.5], [0.5, 0.5]]])])
    with opened(chromium, write(tmp_path, start)) as page:
        for name in ("Parse", "undo", "redo", "Compare from here"):
            assert page.get_by_role("button", name=name).count() == 0
        assert page.locator(".texts").count() == 0


OTHERS: list[Any] = [
    None,
    0,
    -1,
    1.5,
    True,
    "",
    "x",
    "constructor",
    [],
    [[]],
    [None],
    {},
    {"a": 1},
    [3, 0, 1],
    ["a"],
    1e99,
]


def spoilt(state: Any, generator: random.Random) -> Any:
    """The state with one value, anywhere, replaced by another, left out, or doubled."""
    state = copy.deepcopy(state)
    node, places = state, []
    while isinstance(node, dict | list) and node:
        key = generator.choice(list(node) if isinstance(node, dict) else range(len(node)))
        places.append((node, key))
        node = node[key]
    parent, key = generator.choice(places)
    if generator.random() < 0.15:
        del parent[key]
    elif generator.random() < 0.15 and isinstance(parent, list):
        parent.append(parent[key])
    else:
        parent[key] = generator.choice(OTHERS)
    return state


def test_a_state_from_outside_never_throws(chromium: Any) -> None:
    """Of 600 spoilt states each is shown or refused in one line, and the page goes on."""
    generator = random.Random(0)
    view = {"models": ["toy"], "mode": "change", "scale": "row", "word": [0, 1], "head": "toy/attention/0/0"}
    view |= {"sort": "moved", "by": "words", "path": None, "numbers": True, "threshold": 0.3, "influence": ["arcs"]}
    state = {"v": 1, "sentences": [TREE], "before": [TREE], "view": view, "runs": {"toy": "0"}}
    states = [json.dumps(state)] + [json.dumps(spoilt(state, generator)) for _ in range(600)]
    with live(chromium) as page:
        results = page.evaluate(
            """async ([texts]) => { const box = [...document.querySelectorAll("div")].find(e => e.explorer);
                const app = box.explorer, results = [];
                const open = async (text) => { const event = new Event("change");
                    const input = app.root.querySelector("input[type=file]");
                    const file = { text: () => Promise.resolve(text) };
                    Object.defineProperty(input, "files", { value: [file], configurable: true });
                    input.dispatchEvent(event); await new Promise(done => setTimeout(done, 12)); };
                for (const text of texts) { await open(text);
                    results.push([app.status.textContent, app.root.querySelectorAll(".word").length]); }
                return results; }""",
            [states],
        )
        settle(page)
        page.locator("input[type=file]").set_input_files(
            [{"name": "s.json", "mimeType": "application/json", "buffer": states[0].encode()}]
        )
        settle(page)
        by_mouse(page, 4, 0)
        settle(page)
        assert heads(page)[0] == 5
    assert all("\n" not in said and words >= 1 for said, words in results)
    assert not [said for said, _ in results if "undefined" in said or "not a function" in said or "Cannot read" in said]
    assert sum(said.startswith("Expected") for said, _ in results) > 200


def test_a_shared_state_holds_what_is_looked_at(chromium: Any) -> None:
    with live(chromium) as page:
        page.get_by_role("button", name="word", exact=True).first.click()
        page.get_by_role("button", name="Numbers").click()
        page.locator("summary", has_text="Share").click()
        with page.expect_download() as download:
            page.get_by_role("button", name="Save state").click()
        saved = download.value.path().read_bytes()
    assert json.loads(saved)["view"]["head"] == "toy/attention/0/1"
    with live(chromium) as page:
        file = {"name": "state.json", "mimeType": "application/json", "buffer": saved}
        page.locator("input[type=file]").set_input_files([file])
        page.locator("table").wait_for()
        assert page.locator(".head.chosen").inner_text().split()[0] == "word"


def test_the_token_is_in_no_address_and_no_copied_link(chromium: Any) -> None:
    with ExplorerServer(lambda request: ask(request), {**born(), "title": "mine"}) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        context = chromium.new_context(permissions=["clipboard-read", "clipboard-write"])
        page = context.new_page()
        page.goto(server.url)
        settle(page)
        assert page.url == server.url.partition("#")[0]
        assert page.title() == "mine"
        assert page.get_by_role("heading", level=1).inner_text() == "Plural or singular?"
        by_mouse(page, 4, 0)
        settle(page)
        page.locator("summary", has_text="Share").click()
        page.get_by_role("button", name="Copy link").click()
        page.locator(".status", has_text="Link copied").wait_for()
        link = page.evaluate("() => navigator.clipboard.readText()")
        assert server.token not in link
        second = context.new_page()  # the same browser keeps the token
        second.goto(link)
        settle(second)
        second.wait_for_function("() => [...document.querySelectorAll('div')].some(e => e.explorer?.isEdited)")
        page.reload()
        settle(page)
        assert page.locator(".word").count() == 5
        context.close()
        stranger = chromium.new_page()
        stranger.goto(link)
        stranger.get_by_label("token").fill(server.token)
        stranger.get_by_role("button", name="Open").click()
        settle(stranger)
        server.token = "another, as after a restart"
        by_mouse(stranger, 4, 0)
        stranger.locator(".status.error").wait_for()
        assert status(stranger).startswith("The explorer was started anew, or ended: open the address")
        assert "Your edits are kept: Share, Save state." in status(stranger)
        stranger.close()
        server.shutdown()
        thread.join()
