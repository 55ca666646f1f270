"""Trees are edited in the page before they are asked for: as Python edits them, over all edits of many trees."""

import itertools
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from explorer_pages import browser, missing, sentence
from structattn.explorer.explorer_page import SCRIPT
from structattn.syntax import ConstituencyTree, DependencyTree

pytestmark = pytest.mark.skipif(missing() is not None, reason=missing() or "")

EVERY = """([name, cases]) => cases.map(([given, ...edit]) => {
    try { return globalThis.trees[name](given, ...edit) } catch (error) { return error.message } })"""


@pytest.fixture(scope="module")
def edited() -> Iterator[Callable[[str, list[Any]], list[Any]]]:
    """The results of a function of the page, or the messages of its refusals."""
    with browser() as chromium:
        page = chromium.new_page()
        names = "{ moved, rerooted, withPhrase, distances: ({ heads }) => distances(heads) }"
        page.set_content(
            f'<script type="module">{SCRIPT}\nglobalThis.trees = {names}; document.title = "ready"</script>'
        )
        page.wait_for_function("document.title === 'ready'")
        yield lambda name, cases: list(page.evaluate(EVERY, [name, cases]))


def trees(count: int = 40) -> list[DependencyTree]:
    generator = random.Random(0)
    sizes = [generator.randrange(1, 7) for _ in range(count)]
    return [DependencyTree(heads_of(generator, size), [f"r{i}" for i in range(size)]) for size in sizes]


def heads_of(generator: random.Random, size: int) -> list[int]:
    """Every word hangs from one before it in a random order, or from the root."""
    order = generator.sample(range(1, size + 1), size)
    heads = {word: generator.choice([0, *order[:place]]) for place, word in enumerate(order)}
    return [heads[word] for word in range(1, size + 1)]


def given(tree: DependencyTree) -> dict[str, Any]:
    return sentence([f"w{i}" for i in range(len(tree))], list(tree.heads), labels=list(tree.labels or ()))


def test_every_move_is_that_of_python_or_refused_as_there(edited: Any) -> None:
    cases = [
        (tree, word, head)
        for tree in trees()
        for word, head in itertools.product(range(len(tree)), range(1, len(tree) + 1))
    ]
    found = edited("moved", [[given(tree), word, head] for tree, word, head in cases])
    refused = 0
    for (tree, word, head), result in zip(cases, found, strict=True):
        try:
            expected = tree.moved(word, head)
        except ValueError:
            assert isinstance(result, str)
            refused += 1
        else:
            assert (result["heads"], result["labels"]) == (list(expected.heads), list(expected.labels or ()))
    assert 0 < refused < len(cases)


def test_every_new_root_and_all_distances_are_those_of_python(edited: Any) -> None:
    cases = [(tree, word) for tree in trees() for word in range(len(tree))]
    for (tree, word), result in zip(
        cases, edited("rerooted", [[given(tree), word] for tree, word in cases]), strict=True
    ):
        expected = tree.rerooted(word)
        assert (result["heads"], result["labels"]) == (list(expected.heads), list(expected.labels or ()))
    found = edited("distances", [[given(tree)] for tree in trees()])
    assert found == [tree.distances() for tree in trees()]


def test_every_phrase_is_added_as_in_python_or_refused_as_there(edited: Any) -> None:
    words = [f"w{i}" for i in range(5)]
    spans = [(label, a, b) for label in ("A", "S") for a in range(5) for b in range(a + 1, 6)]
    start = [("S", 0, 5), ("A", 1, 4), ("B", 1, 4), ("C", 1, 3)]
    record = sentence(words, None, phrases=[list(span) for span in ConstituencyTree(words, start).spans])
    found = edited("withPhrase", [[record, *span] for span in spans])
    refused = 0
    for span, result in zip(spans, found, strict=True):
        try:
            expected = ConstituencyTree(words, start).with_phrase(*span)
        except ValueError:
            assert isinstance(result, str)
            refused += 1
        else:
            assert [tuple(phrase) for phrase in result["phrases"]] == list(expected.spans)
    assert 0 < refused < len(spans)
