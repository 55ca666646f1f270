"""Edits in a live page, in a browser: what is asked, what is shown, what is refused, and what is undone."""

import json
from typing import Any

import numpy as np
import pytest

from explorer_live import (
    HEADS,
    TREE,
    WORDS,
    ask,
    born,
    by_mouse,
    closeness,
    explorer,
    heads,
    live,
    name_phrase,
    settle,
    status,
    weights,
    word,
)
from explorer_pages import missing
from structattn.syntax import ConstituencyTree, DependencyTree

pytestmark = pytest.mark.skipif(missing() is not None, reason=missing() or "")


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
        assert "keys → near. 1 head moved; prediction unchanged." in status(page)
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


def press_grey(page: Any) -> None:
    """A word that would close a cycle is grey, and says why when it is pressed nonetheless."""
    word(page, 0).click()
    word(page, 1).click(force=True)


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (press_grey, "“the” is below “keys”, so it cannot be its head: that would be a cycle."),
        (lambda page: name_phrase(page, 1, 2, "VP"), "“keys near” crosses NP “the keys”; phrases must nest."),
        (lambda page: page.get_by_label("text", exact=True).fill("") or page.keyboard.press("Enter"), "got none"),
        (lambda page: page.get_by_label("text", exact=True).fill("a " * 257) or page.keyboard.press("Enter"), "257"),
    ],
)
def test_what_cannot_be_is_refused_in_words_and_nothing_is_asked(chromium: Any, edit: Any, said: str) -> None:
    with live(chromium) as page:
        edit(page)
        assert said in status(page)
        assert (heads(page), [request for request in page.asked if request["do"] != "moves"]) == (HEADS, [])
        assert page.locator("[data-key=undo]").is_disabled()


def test_a_new_root_turns_the_path_round_and_flips_the_answer(chromium: Any) -> None:
    with live(chromium) as page:
        word(page, 4).focus()
        page.keyboard.press("r")
        assert "cabinet is the root." in status(page)
        assert "prediction plural → singular" in status(page)
        tree = DependencyTree(HEADS, TREE["labels"]).rerooted(4)
        found = explorer(page, "[app.state.sentences[0].heads, app.state.sentences[0].labels]")
        assert found == [list(tree.heads), list(tree.labels or ())]
        assert page.locator(".classes").inner_text().split()[:5] == ["singular", "80.0%", "+70.0", "points", "plural"]


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
        assert "cabinet is now obl. toy cannot see this: only relations changed." in status(page)
        assert explorer(page, "app.state.sentences[0].labels")[4] == "obl"


def test_a_late_reply_never_paints_over_a_newer_one(chromium: Any) -> None:
    """The first edit's reply is held back until the second one's is painted."""
    held: list[Any] = []
    with live(chromium) as page:

        def late(route: Any) -> None:
            request = json.loads(route.request.post_data)
            if not held and request["do"] == "look":
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
        assert "toy: plural, 90.0%" in status(page)
        assert page.locator(".word").all_inner_texts() == ["dogs", "bark"]
        word(page, 0).focus()
        page.keyboard.press("Control+z")
        settle(page)
        assert page.locator(".word").all_inner_texts() == WORDS


def test_a_page_without_items_waits_for_a_text(chromium: Any) -> None:
    with live(chromium, start={**born(), "items": []}) as page:
        assert page.locator(".word").count() == 0
        page.get_by_label("text", exact=True).fill("dogs bark")
        page.keyboard.press("Enter")
        assert "toy: plural, 90.0%" in status(page)


def test_a_name_that_is_being_typed_outlives_a_reply(chromium: Any) -> None:
    with live(chromium) as page:
        word(page, 4).focus()
        page.keyboard.press("l")
        page.keyboard.type("ob")
        explorer(page, "app.extras.fetch('influence', 'toy').then(() => app.draw())")
        page.keyboard.type("l")
        page.keyboard.press("Enter")
        assert "cabinet is now obl." in status(page)


def chips(page: Any) -> list[str]:
    return [text for text in page.locator(".chip").all_inner_texts() if "reads" not in text]


def test_a_chip_says_where_the_tree_comes_from(chromium: Any) -> None:
    def answer(request: dict[str, Any]) -> dict[str, Any]:
        reply = ask(request)
        if request["do"] == "parse":
            source = "chain" if "chain" in request["text"][0] else "en 0.1.0"
            reply["sentences"][0]["found_by"] = {"dependency": source, "constituency": source}
            reply["sentences"][0]["phrases"] = [["S", 0, 3]]
        return reply

    start = born()
    start["models"][0]["reads"] = ["dependency", "constituency"]
    with live(chromium, answer, start) as page:
        assert chips(page) == ["tree from the data", "phrases from the data"]
        by_mouse(page, 4, 0)
        settle(page)
        assert chips(page) == ["tree from the data, edited", "phrases from the data"]
        page.get_by_role("button", name="Compare from here").click()
        settle(page)
        assert chips(page)[0] == "tree from the data, edited", "comparing does not make an edited tree one of the data"
        page.get_by_role("button", name="undo").click()
        page.get_by_role("button", name="undo").click()
        settle(page)
        assert chips(page)[0] == "tree from the data"
        for text, tree, phrases in (
            ("two kids wash", "tree by en 0.1.0", "phrases made from the tree by en 0.1.0"),
            ("a chain indeed", "tree: a chain of words, not a parse", "phrases made from a chain of words"),
        ):
            page.get_by_label("text", exact=True).fill(text)
            page.keyboard.press("Enter")
            page.get_by_text(tree, exact=True).wait_for()
            kind = "toy was trained on the phrases of its data, which may be of another kind"
            assert chips(page) == [tree, phrases, kind]


def reading(*structures: str) -> dict[str, Any]:
    start = born()
    start["models"][0]["reads"] = list(structures)
    start["items"][0]["replies"] = {}
    return start


def test_what_no_model_reads_is_folded_until_it_is_asked_for_or_edited(chromium: Any) -> None:
    def shown(page: Any) -> list[int]:
        return [page.locator(selector).count() for selector in (".arc", ".phrase")]

    with live(chromium, start=reading("dependency")) as page:
        assert shown(page) == [5, 0]
        page.get_by_role("button", name="phrases, not read").click()
        assert shown(page) == [5, 2]
        page.get_by_role("button", name="phrases, not read").click()
        assert shown(page) == [5, 0]
        name_phrase(page, 3, 4, "NP")
        settle(page)
        assert shown(page) == [5, 3]
    with live(chromium, start=reading("order")) as page:
        assert shown(page) == [0, 0]
        assert "Drag an arc" not in page.locator(".prompt").inner_text()
        page.get_by_role("button", name="tree and phrases, not read").click()
        assert shown(page) == [5, 2]


def test_a_phrase_and_a_relation_say_what_they_would_do_before_they_are_made(chromium: Any) -> None:
    """The model in two lines answers by its words alone; here by the relation of the first word and by the phrases."""

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        reply = ask(request)
        for look in reply.get("looks", ()):
            (given,) = request["sentences"]
            share = 0.7 if given["labels"][0] == "amod" else 0.9 - 0.2 * len(given["phrases"][2:])
            look["answer"] |= {"probabilities": {"plural": share, "singular": 1 - share}}
            look["answer"]["label"] = "plural" if share > 0.5 else "singular"
        return reply

    with live(chromium, answer, reading("dependency", "constituency")) as page:
        prompt = page.locator(".prompt")
        word(page, 3).focus()
        page.keyboard.press("Shift+ArrowRight")
        prompt.get_by_text("Here: plural, 70.0%.").wait_for()
        page.keyboard.press("n")
        prompt.get_by_text("Here: plural, 70.0%.").wait_for()
        page.keyboard.press("Enter")
        settle(page)
        word(page, 0).focus()
        page.keyboard.press("Shift+ArrowRight")
        page.keyboard.press("Shift+ArrowRight")
        prompt.get_by_text("Here: singular, 50.0%, a flip.").wait_for()
        page.keyboard.press("Escape")
        word(page, 0).focus()
        page.keyboard.press("l")
        page.keyboard.type("amod")
        prompt.get_by_text("Here: plural, 70.0%.").wait_for()
        page.keyboard.press("Escape")
        assert status(page).startswith("NP “the cabinet” added.")
