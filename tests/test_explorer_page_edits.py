"""Edits in a live page, in a browser: what is asked, what is shown, what is refused, and what is undone."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from explorer_pages import attention, boot, browser, missing, sentence
from structattn.explorer.page import live_page
from structattn.syntax import ConstituencyTree, DependencyTree

pytestmark = pytest.mark.skipif(missing() is not None, reason=missing() or "")

WORDS = ["the", "keys", "near", "the", "cabinet"]
HEADS = [2, 0, 5, 5, 2]
TREE = sentence(WORDS, HEADS, labels=["det", "root", "case", "det", "nmod"], phrases=[["S", 0, 5], ["NP", 0, 2]])
Ask = Callable[[dict[str, Any]], dict[str, Any]]


def closeness(distances: Any) -> Any:
    weights = 2.0 ** -np.asarray(distances, dtype=float)
    return weights / weights.sum(-1, keepdims=True)


def look(given: dict[str, Any], model: str = "toy") -> dict[str, Any]:
    """A model in two lines: heads over tree distances and over word distances; plural if the root ends in "s"."""
    places = np.arange(len(given["words"]))
    weights = [closeness(DependencyTree(given["heads"]).distances()), closeness(abs(places[:, None] - places))]
    plural = 0.9 if given["words"][given["heads"].index(0)].endswith("s") else 0.2
    maps = [attention(weights, heads=["dependency", "word"])]
    born = boot([given], maps, model=model, labels={"plural": plural, "singular": 1 - plural})
    return dict(born["items"][0]["replies"]["look"])


def ask(request: dict[str, Any]) -> dict[str, Any]:
    """What the explorer asks, answered by the model in two lines."""
    head = {"v": 1, "id": request["id"]}
    given = (request["sentences"] or [TREE])[0]
    match request["do"]:
        case "look":
            return {**look(given), **head, "looks": [look(given, name)["looks"][0] for name in request["models"]]}
        case "parse":
            words = request["text"][0].split()
            return {**head, "ms": 1.0, "sentences": [sentence(words, [0, *range(1, len(words))])]}
        case "influence" | "arcs":
            return {**head, "model": request["models"][0], "values": [[0.5, -0.25, None, 0.0, 0.1]]}
        case "flip":
            edit = {"sentence": 0, "word": 4, "head": 0, "heads": [2, 5, 5, 5, 0], "label": "singular", "p": 0.8}
            return {**head, "model": request["models"][0], "edits": [edit]}
    return {**head, "error": {"kind": "ValueError", "message": "what was asked", "sentence": 0, "word": 1}}


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as found:
        yield found


def born() -> dict[str, Any]:
    first = {**boot([TREE], [], model="toy"), "host": "server", "token": "secret"}
    first["items"][0]["replies"] = {"look": look(TREE)}
    first["models"] = [{**first["models"][0], "name": name} for name in ("toy", "other")]
    return first


@contextmanager
def live(browser: Any, answer: Ask = ask, **options: Any) -> Iterator[Any]:
    """A live page whose server is a function."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, accept_downloads=True, **options)
    page = context.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.asked = []

    def handle(route: Any) -> None:
        if route.request.method == "GET":
            return route.fulfill(status=200, content_type="text/html", body=live_page(born()))
        assert route.request.headers["x-token"] == "secret"
        request = json.loads(route.request.post_data)
        page.asked.append(request)
        return route.fulfill(status=200, content_type="application/json", body=json.dumps(answer(request)))

    page.route("**/*", handle)
    try:
        page.goto("http://localhost:1/")
        settle(page)
        yield page
    finally:
        context.close()
    assert not faults


def settle(page: Any) -> None:
    """Until what was asked is painted."""
    page.locator(".explorer:not([aria-busy])").first.wait_for()


def word(page: Any, place: int) -> Any:
    return page.locator(".word").nth(place)


def explorer(page: Any, expression: str) -> Any:
    return page.evaluate(
        f"(() => {{const app = [...document.querySelectorAll('div')].find(e => e.explorer).explorer;"
        f"return {expression}}})()"
    )


def heads(page: Any) -> list[int]:
    return list(explorer(page, "app.state.sentences[0].heads"))


def weights(page: Any) -> list[list[float]]:
    return list(explorer(page, "app.heads[0].map(head => [...head.values])"))


def status(page: Any) -> str:
    settle(page)
    return str(page.locator(".status").inner_text())


def by_mouse(page: Any, head: int, dependent: int) -> None:
    word(page, head).click()
    word(page, dependent).click()


def by_dragging(page: Any, head: int, dependent: int) -> None:
    word(page, head).hover()
    page.mouse.down()
    word(page, dependent).hover()
    page.mouse.up()


def by_keys(page: Any, head: int, dependent: int) -> None:
    word(page, 0).focus()
    for target, start in ((head, 0), (dependent, head)):
        for _ in range(abs(target - start)):
            page.keyboard.press("ArrowRight" if target > start else "ArrowLeft")
        page.keyboard.press("Enter")


@pytest.mark.parametrize("do", [by_mouse, by_dragging, by_keys])
def test_an_arc_is_moved_and_only_the_heads_that_read_the_tree_change(chromium: Any, do: Any) -> None:
    with live(chromium) as page:
        before = weights(page)
        do(page, 1, 2)
        assert "keys → near. 1 head moved; answer unchanged." in status(page)
        assert heads(page) == list(DependencyTree(HEADS).moved(2, 2).heads)
        after = weights(page)
        expected = closeness(DependencyTree(heads(page)).distances()).ravel()
        assert np.abs(np.array(after[0]) - expected).max() < 1e-5
        assert after[1] == before[1]
        assert page.locator(".arcs path[stroke-dasharray]").count() == 1


def test_undo_gives_back_every_bit_and_redo_the_edit(chromium: Any) -> None:
    with live(chromium) as page:
        states = [(heads(page), weights(page), page.locator(".classes").inner_text())]
        for head, dependent in ((1, 2), (0, 3), (2, 4)):
            by_mouse(page, head, dependent)
            settle(page)
            states.append((heads(page), weights(page), page.locator(".classes").inner_text()))
        asked = len(page.asked)
        for keys, order in (("Control+z", states[-2::-1]), ("Control+Shift+Z", states[1:])):
            for tree, values, _ in order:
                page.keyboard.press(keys)
                settle(page)
                assert (heads(page), weights(page)) == (tree, values)
        assert len(page.asked) == asked
        assert len({str(tree) for tree, *_ in states}) == 4


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda page: by_mouse(page, 0, 1), "“the” is below “keys”, so it cannot be its head: that would be a cycle."),
        (lambda page: name_phrase(page, 1, 2, "VP"), "“keys near” crosses NP “the keys”; phrases must nest."),
        (lambda page: name_phrase(page, 0, 1, "NP"), "NP “the keys” is there already."),
        (lambda page: page.get_by_label("text", exact=True).fill("") or page.keyboard.press("Enter"), "got none"),
        (lambda page: page.get_by_label("text", exact=True).fill("a " * 257) or page.keyboard.press("Enter"), "257"),
    ],
)
def test_what_cannot_be_is_refused_in_words_and_nothing_is_asked(chromium: Any, edit: Any, said: str) -> None:
    with live(chromium) as page:
        edit(page)
        assert said in status(page)
        assert (heads(page), page.asked) == (HEADS, [])
        assert page.locator("[data-key=undo]").is_disabled()


def name_phrase(page: Any, start: int, end: int, name: str) -> None:
    word(page, start).focus()
    for _ in range(end - start):
        page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("n")
    page.keyboard.type(name)
    page.keyboard.press("Enter")


def test_a_new_root_turns_the_path_round_and_flips_the_answer(chromium: Any) -> None:
    with live(chromium) as page:
        word(page, 4).focus()
        page.keyboard.press("r")
        assert "cabinet is the root." in status(page)
        assert "answer plural → singular" in status(page)
        tree = DependencyTree(HEADS, TREE["labels"]).rerooted(4)
        found = explorer(page, "[app.state.sentences[0].heads, app.state.sentences[0].labels]")
        assert found == [list(tree.heads), list(tree.labels or ())]
        assert page.locator(".classes").inner_text().split()[:4] == ["singular", "80.0", "+70.0", "plural"]


def test_phrases_are_added_renamed_and_deleted(chromium: Any) -> None:
    with live(chromium) as page:
        tree = ConstituencyTree(WORDS, [tuple(phrase) for phrase in TREE["phrases"]])
        name_phrase(page, 2, 4, "PP")
        assert "toy cannot see this: it reads the dependency tree." in status(page)
        tree = tree.with_phrase("PP", 2, 5)
        assert explorer(page, "app.state.sentences[0].phrases") == [list(span) for span in tree.spans]
        page.get_by_role("button", name="phrase PP").click()
        page.keyboard.type("XP")
        page.keyboard.press("Enter")
        settle(page)
        assert page.locator(".phrase").all_inner_texts() == ["S", "NP", "XP"]
        page.get_by_role("button", name="phrase XP").click()
        page.get_by_role("button", name="Delete").click()
        settle(page)
        assert explorer(page, "app.state.sentences[0].phrases") == TREE["phrases"]


def test_a_label_that_no_head_reads_says_so(chromium: Any) -> None:
    with live(chromium) as page:
        word(page, 4).focus()
        page.keyboard.press("l")
        page.keyboard.type("obl")
        page.keyboard.press("Enter")
        assert "cabinet is now obl. toy cannot see this: relations alone changed." in status(page)
        assert explorer(page, "app.state.sentences[0].labels")[4] == "obl"


def test_a_late_reply_never_paints_over_a_newer_one(chromium: Any) -> None:
    """The first edit's reply is held back until the second one's is painted."""
    held: list[Any] = []
    with live(chromium) as page:

        def late(route: Any) -> None:
            request = json.loads(route.request.post_data)
            if not held:
                held.append((route, request))
            else:
                route.fulfill(status=200, content_type="application/json", body=json.dumps(ask(request)))

        page.route("**/ask", late)
        by_mouse(page, 1, 2)
        page.locator(".explorer[aria-busy]").wait_for()
        by_mouse(page, 1, 3)
        settle(page)
        route, request = held[0]
        shown = (weights(page), status(page))
        with page.expect_response("**/ask"):
            route.fulfill(status=200, content_type="application/json", body=json.dumps(ask(request)))
        assert (weights(page), status(page)) == shown
        assert heads(page) == [2, 0, 2, 2, 2]
        expected = closeness(DependencyTree([2, 0, 2, 2, 2]).distances()).ravel()
        assert np.abs(np.array(weights(page)[0]) - expected).max() < 1e-5


def test_an_error_leaves_all_as_it_was_and_names_the_word(chromium: Any) -> None:
    def failing(request: dict[str, Any]) -> dict[str, Any]:
        return ask({**request, "do": "nothing"})

    with live(chromium, failing) as page:
        before = weights(page)
        by_mouse(page, 1, 2)
        assert status(page) == "what was asked (at “keys”)"
        assert (heads(page), weights(page)) == (HEADS, before)


def test_by_keyboard_alone_a_text_is_parsed(chromium: Any) -> None:
    with live(chromium) as page:
        page.get_by_label("text", exact=True).focus()
        page.keyboard.press("Control+a")
        page.keyboard.type("dogs bark")
        page.keyboard.press("Enter")
        assert "toy: plural, 90.0 %" in status(page)
        assert page.locator(".word").all_inner_texts() == ["dogs", "bark"]
        word(page, 0).focus()
        page.keyboard.press("Control+z")
        settle(page)
        assert page.locator(".word").all_inner_texts() == WORDS


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
