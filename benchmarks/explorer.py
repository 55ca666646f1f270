"""The explorer: milliseconds from an edit of an arc to its picture, in Chromium; bytes and seconds of a frozen page.

An edit is a word moved in the page, the request to the server of ``structattn explore``, MS-SAN's six heads, the reply,
and the frame after the one that draws it. Words hang on random heads; influence is switched off.

    python -m benchmarks.explorer [--words 20 30 60 200 256] [--edits 9] [--threads 1]
"""

import argparse
import contextlib
import random
import shutil
import statistics
import threading
import time
from collections.abc import Iterator
from typing import Any

import torch
from playwright.sync_api import Page, sync_playwright

import structattn as sa
from benchmarks.markdown import header, line
from benchmarks.sentences import WORDS, random_sentence
from structattn.explorer import Answers, frozen_page
from structattn.explorer.explorer_server import ExplorerServer

_TIMED = """async ([word, head]) => {
    const app = [...document.querySelectorAll('div')].find((element) => element.explorer).explorer;
    const begun = performance.now();
    await app.move(0, word, head);
    await new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)));
    return [performance.now() - begun, app.state.sentences[0].heads[word] === head];
}"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--words", type=int, nargs="+", default=[20, 30, 60, 200, 256])
    parser.add_argument("--edits", type=int, default=9)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    answers = {count: Answers({f"model {i}": _model() for i in range(count)}) for count in (1, 2)}
    print(header(["words", "models", "edit to redraw, ms", "longest", "frozen page, KB", "made in, s"]), flush=True)
    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for size in options.words:
            for count, answer in answers.items():
                generator = random.Random(size)
                sentence = random_sentence(generator, size)
                times = _edits(chromium, answer, sentence, options.edits, generator)
                begun = time.perf_counter()
                page = frozen_page(answer.boot([sentence], host="frozen"))
                made = time.perf_counter() - begun
                shown = [
                    f"{statistics.median(times):.0f}",
                    f"{max(times):.0f}",
                    f"{len(page) / 1000:.0f}",
                    f"{made:.2f}",
                ]
                print(line([size, count, *shown]), flush=True)
        chromium.close()


def _model() -> sa.tasks.SentenceModel:
    vocabulary = sa.Vocabulary(WORDS)
    encoder = sa.encoders.build("ms_san", vocab_size=len(vocabulary), dim=48)
    return sa.tasks.SentenceModel(encoder, sa.tasks.SENTIMENT, vocabulary=vocabulary).eval()


def _edits(chromium: Any, answer: Answers, sentence: sa.Sentence, edits: int, generator: random.Random) -> list[float]:
    """Milliseconds of each edit; the first is not counted."""
    tree = sentence.dependency
    assert tree is not None
    times = []
    with _serving(answer, sentence) as address:
        page: Page = chromium.new_page(viewport={"width": 1280, "height": 900})
        page.goto(address)
        page.locator(".explorer:not([aria-busy])").first.wait_for()
        while len(times) <= edits:
            word, head = generator.randrange(len(tree)), generator.randrange(1, len(tree) + 1)
            if tree.heads[word] in (0, head) or word + 1 in tree.path_to_root(head - 1):
                continue
            tree = tree.moved(word, head)
            milliseconds, done = page.evaluate(_TIMED, [word, head])
            assert done
            times.append(milliseconds)
        page.close()
    return times[1:]


@contextlib.contextmanager
def _serving(answer: Answers, sentence: sa.Sentence) -> Iterator[str]:
    with ExplorerServer(answer.ask, answer.boot([sentence], host="server")) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.url
        server.shutdown()


if __name__ == "__main__":
    main()
