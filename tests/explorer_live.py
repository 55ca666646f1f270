"""A live page whose server is a function, and a model in two lines behind it."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from explorer_pages import attention, boot, sentence
from structattn.explorer.explorer_page import live_page
from structattn.inspection.single_edits import move_word
from structattn.syntax import DependencyTree

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
        case "influence" | "gradient" | "arcs":
            return {**head, "model": request["models"][0], "values": [[0.5, -0.25, None, 0.0, 0.1]]}
        case "moves":
            trees = [move_word(DependencyTree(given["heads"]), *move) for move in request["moves"]]
            answers = [look({**given, "heads": list(tree.heads)})["looks"][0]["answer"] for tree in trees]
            return {**head, "model": request["models"][0], "answers": answers}
        case "flip":
            edit = {
                "sentence": 0,
                "word": 4,
                "head": 0,
                "heads": [2, 5, 5, 5, 0],
                "labels": None,
                "label": "singular",
                "p": 0.8,
            }
            # Two parts, of which the second has the edit.
            begins = request["from"] == 0
            found = {"edits": [], "found": 0, "tried": 6} if begins else {"edits": [edit], "found": 1, "tried": 12}
            return {**head, "model": request["models"][0], **found, "of": 12}
    return {**head, "error": {"kind": "ValueError", "message": "what was asked", "sentence": 0, "word": 1}}


def born() -> dict[str, Any]:
    first = {**boot([TREE], [], model="toy"), "host": "server", "token": "secret"}
    first["items"][0]["replies"] = {"look": look(TREE)}
    first["models"] = [{**first["models"][0], "name": name} for name in ("toy", "other")]
    return first


@contextmanager
def live(browser: Any, answer: Ask = ask, start: dict[str, Any] | None = None, **options: Any) -> Iterator[Any]:
    """A live page whose server is a function."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, accept_downloads=True, **options)
    page = context.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.asked = []

    def handle(route: Any) -> None:
        if route.request.method == "GET":
            return route.fulfill(
                status=200, content_type="text/html", body=live_page(born() if start is None else start)
            )
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
    assert not faults, faults


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


def name_phrase(page: Any, start: int, end: int, name: str) -> None:
    word(page, start).focus()
    for _ in range(end - start):
        page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("n")
    page.keyboard.type(name)
    page.keyboard.press("Enter")
