"""An arc in hand: what each place would answer is the model's own answer there, by pointer and by keyboard."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_explorer_answers import DOG, words_model
from test_explorer_carried import write_page

from explorer_live import HEADS, WORDS, born, explorer, heads, live, look, settle, status, word
from explorer_pages import missing, opened
from structattn.data import Example
from structattn.inspection import look as look_at
from structattn.inspection.single_edits import edit_example
from structattn.syntax import DependencyTree

pytestmark = pytest.mark.skipif(missing() is not None, reason=missing() or "")


def grip(page: Any, dependent: int, share: float) -> tuple[float, float]:
    """A point of the arc of a word: at 0 near its head, at 1 near the word."""
    index = explorer(
        page,
        f"""[...app.root.querySelectorAll(".grip")].findIndex(grip =>
            grip.previousSibling.textContent.includes("→ {WORDS[dependent]} ("))""",
    )
    found = page.locator(".grip").nth(index)
    x, y = found.evaluate(
        """(path, share) => { const box = path.ownerSVGElement.getBoundingClientRect();
        const view = path.ownerSVGElement.viewBox.baseVal;
        const { x, y } = path.getPointAtLength(share * path.getTotalLength());
        return [box.left + x - view.x, box.top + y - view.y]; }""",
        share,
    )
    return x, y


def drag(page: Any, dependent: int, share: float, target: int) -> None:
    page.mouse.move(*grip(page, dependent, share))
    page.mouse.down()
    box = word(page, target).bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 10, steps=4)


def outcomes(page: Any) -> list[str]:
    page.wait_for_function(
        "() => [...document.querySelectorAll('div')].find(e => e.explorer).explorer.hand?.answers.size"
    )
    return list(page.locator(".outcomes").first.evaluate("row => [...row.children].map(cell => cell.textContent)"))


def marked(page: Any, name: str) -> list[int]:
    selector = ".word" if name == "off" else ".outcomes span"
    return list(
        page.locator(selector).evaluate_all(
            f"all => all.flatMap((one, i) => one.classList.contains('{name}') ? [i] : [])"
        )
    )


def plural(tree: DependencyTree) -> str:
    answer = look({"words": WORDS, "heads": list(tree.heads), "tags": None})["looks"][0]["answer"]
    return f"{100 * answer['probabilities']['plural']:.1f}"


def expected(dependent: int) -> list[str]:
    """What each place would answer as the head of a word; nothing where that would be a cycle."""
    texts = []
    for place in range(len(WORDS)):
        try:
            texts.append(plural(DependencyTree(HEADS).moved(dependent, place + 1)))
        except ValueError:
            texts.append("")
    return texts


def test_the_upper_end_of_an_arc_shows_each_possible_head_and_is_dropped_on_one(chromium: Any) -> None:
    with live(chromium) as page:
        drag(page, 4, 0.1, 3)
        assert outcomes(page) == expected(4)
        assert marked(page, "off") == [2, 3], "the words below it"
        assert "not possible: a cycle" in page.locator(".prompt").inner_text()
        box = word(page, 0).bounding_box()
        page.mouse.move(box["x"] + 5, box["y"] + 5)
        assert "Here: plural, 90.0%" in page.locator(".prompt").inner_text()
        page.mouse.up()
        assert status(page).startswith("the → cabinet.")
        assert heads(page) == list(DependencyTree(HEADS).moved(4, 1).heads)
        assert marked(page, "off") == []
        assert not page.locator(".outcomes").inner_text().strip()


def test_the_lower_end_hangs_another_word_from_the_same_head(chromium: Any) -> None:
    with live(chromium) as page:
        drag(page, 4, 0.9, 2)
        outcomes(page)
        assert marked(page, "off") == [], "every other word may hang from the root"
        page.mouse.up()
        settle(page)
        assert heads(page) == list(DependencyTree(HEADS).moved(2, 2).heads)


def test_the_arc_of_the_root_makes_another_word_the_root_and_flips_are_marked(chromium: Any) -> None:
    with live(chromium) as page:
        drag(page, 1, 0.5, 4)
        roots = [DependencyTree(HEADS).rerooted(place) for place in range(len(WORDS))]
        assert outcomes(page) == list(map(plural, roots))
        assert marked(page, "flips") == [0, 2, 3, 4]
        page.mouse.up()
        assert "prediction plural → singular" in status(page)
        assert heads(page) == list(roots[4].heads)


@pytest.mark.parametrize("how", ["Escape", "outside", "cycle"])
def test_what_is_let_go_changes_nothing(chromium: Any, how: str) -> None:
    with live(chromium) as page:
        drag(page, 4, 0.1, 3)
        if how == "Escape":
            page.keyboard.press("Escape")
        elif how == "outside":
            page.mouse.move(5, 5)
        page.mouse.up()
        settle(page)
        assert heads(page) == HEADS
        assert explorer(page, "app.hand") is None
        assert ("that would be a cycle" in status(page)) == (how == "cycle")


def test_by_keyboard_an_arc_is_taken_by_its_upper_end_and_each_word_says_its_answer(chromium: Any) -> None:
    with live(chromium) as page:
        word(page, 4).focus()
        page.keyboard.press("a")
        assert outcomes(page) == expected(4)
        assert word(page, 3).get_attribute("aria-label") == "the, head cabinet, det, not possible: a cycle"
        page.keyboard.press("Home")
        assert word(page, 0).get_attribute("aria-label") == "the, head keys, det, plural, 90.0%"
        page.keyboard.press("Enter")
        assert status(page).startswith("the → cabinet.")
        assert word(page, 0).get_attribute("aria-label") == "the, head keys, det"
        word(page, 1).focus()
        page.keyboard.press("a")
        assert "Choose the root." in page.locator(".prompt").inner_text()
        page.get_by_role("button", name="Cancel").click()
        assert explorer(page, "app.hand") is None


def test_two_models_have_a_row_each_and_one_that_reads_no_tree_has_none(chromium: Any) -> None:
    start = born()
    start["view"]["models"] = ["toy", "other"]
    start["items"][0]["replies"] = {}
    for reads, rows in ((["dependency"], 2), ([], 1)):
        start["models"][1]["reads"] = reads
        with live(chromium, start=start) as page:
            word(page, 1).click()
            outcomes(page)
            assert page.locator(".outcomes").count() == rows
            assert sum(request["do"] == "moves" for request in page.asked) == rows


def test_words_do_not_move_while_an_arc_is_in_hand(chromium: Any) -> None:
    with live(chromium) as page:
        before = [word(page, place).bounding_box() for place in range(5)]
        drag(page, 4, 0.1, 0)
        outcomes(page)
        assert [word(page, place).bounding_box() for place in range(5)] == before
        page.mouse.up()


def test_a_page_without_a_server_shows_the_answers_that_it_carries(chromium: Any, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = words_model("ms_san").eval()
    with opened(chromium, write_page(tmp_path, model, Example((DOG,)))) as page:
        word(page, 0).focus()
        page.keyboard.press("a")
        first = outcomes(page)
    tree = DOG.dependency
    assert tree is not None
    label = look_at(model, DOG).answer.label
    for place, text in enumerate(first):
        if place == 0:
            assert text == ""
            continue
        answer = look_at(model, edit_example(Example((DOG,)), 0, tree.moved(0, place + 1))).answer
        assert float(text) == pytest.approx(100 * answer.probabilities[label], abs=0.051)


@pytest.mark.parametrize("how", ["pointer", "keyboard"])
def test_words_that_do_not_fit_stand_one_under_the_other_and_are_edited_there(chromium: Any, how: str) -> None:
    with live(chromium) as page:
        page.set_viewport_size({"width": 320, "height": 900})
        page.locator(".upright").wait_for()
        boxes = [word(page, place).bounding_box() for place in range(5)]
        assert len({box["x"] for box in boxes}) == 1
        tops = [box["y"] for box in boxes]
        assert np.diff(tops).tolist() == [28] * 4
        assert page.locator(".relations span").all_inner_texts() == ["det", "root", "case", "det", "nmod"]
        lines = page.locator(".arc path:first-child").evaluate_all(
            "paths => paths.map(path => path.getBoundingClientRect().right)"
        )
        assert max(lines) <= boxes[0]["x"] + 1
        if how == "keyboard":
            word(page, 4).focus()
            page.keyboard.press("a")
            assert outcomes(page) == expected(4)
            for _ in range(4):
                page.keyboard.press("ArrowUp")
            page.keyboard.press("Enter")
        else:
            drag_upright(page, 4, 0)
            assert outcomes(page) == expected(4)
            page.mouse.up()
        settle(page)
        assert heads(page) == list(DependencyTree(HEADS).moved(4, 1).heads)
        assert [word(page, place).bounding_box() for place in range(5)] == boxes
        scrolls = page.locator(".trees .scroll").evaluate("box => box.scrollWidth - box.clientWidth")
        assert scrolls <= 0


def drag_upright(page: Any, dependent: int, target: int) -> None:
    """Drag the arc of a word by the end at its head."""
    x, y = (
        page.locator(".grip")
        .nth(dependent)
        .evaluate(
            """path => { const { x, y } = path.getPointAtLength(0.1 * path.getTotalLength());
        const matrix = path.getScreenCTM();
        return [matrix.a * x + matrix.c * y + matrix.e, matrix.b * x + matrix.d * y + matrix.f]; }"""
        )
    )
    page.mouse.move(x, y)
    page.mouse.down()
    box = word(page, target).bounding_box()
    page.mouse.move(box["x"] + 10, box["y"] + box["height"] / 2, steps=4)
