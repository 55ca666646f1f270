"""A browser for the tests of the explorer, and what a page is born with, made by hand."""

import base64
import itertools
import shutil
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from structattn.explorer.explorer_page import frozen_page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def missing() -> str | None:
    """Why there is no browser, or ``None``."""
    try:
        import playwright.sync_api  # noqa: F401
    except ImportError:
        return "needs playwright, of the extra dev"
    return None if CHROMIUM else "needs Chromium: apt-get install chromium"


@contextmanager
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            yield found
        finally:
            found.close()


@contextmanager
def opened(browser: Any, path: Path, **options: Any) -> Iterator[Any]:
    """A page from a file; an error of its script, or a request for anything else, is an error of the test."""
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
    page = context.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    page.on("request", lambda request: faults.append(request.url) if _foreign(request.url, path) else None)
    try:
        page.goto(path.as_uri())
        page.locator(".explorer:not([aria-busy])").first.wait_for()
        yield page
    finally:
        context.close()
    assert not faults, faults


def write(folder: Path, born: dict[str, Any]) -> Path:
    path = folder / "page.html"
    path.write_text(frozen_page(born), encoding="utf-8")
    return path


def _foreign(url: str, path: Path) -> bool:
    return not url.startswith(("data:", "blob:", path.as_uri()))


def packed(values: Any, allowed: Any = None) -> dict[str, Any]:
    """Weights as replies carry them."""
    weights = np.asarray(values, dtype=np.float64)
    scale = float(weights.max()) or 1.0
    steps = np.round(65535 * weights / scale).astype(np.uint16).ravel()
    data = (steps >> 8).astype(np.uint8).tobytes() + (steps & 255).astype(np.uint8).tobytes()
    bits = None if allowed is None else _text(np.packbits(np.asarray(allowed, dtype=bool).ravel()).tobytes())
    return {"shape": list(weights.shape), "scale": scale, "data": _text(data), "allowed": bits}


def unpack(record: Mapping[str, Any]) -> np.ndarray:
    """The weights of a reply, up to rounding."""
    content = np.frombuffer(zlib.decompress(base64.b64decode(record["data"])), np.uint8)
    high, low = content.reshape(2, -1).astype(int)
    return np.asarray((256 * high + low) * (record["scale"] / 65535)).reshape(record["shape"])


def _text(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data)).decode()


def sentence(words: Sequence[str], heads: Sequence[int] | None, **more: Any) -> dict[str, Any]:
    return {"words": list(words), "tags": None, "heads": heads, "labels": None, "phrases": None, **more}


def attention(values: Any, *, heads: Sequence[str] = ("forward",), allowed: Any = None, **more: Any) -> dict[str, Any]:
    named = {"name": "attention", "kind": "attention", "sentence": 0, "heads": list(heads)}
    return {**named, "rows": None, "columns": None, "words": None, **packed(values, allowed), **more}


def boot(
    sentences: Sequence[Mapping[str, Any]],
    maps: Sequence[Mapping[str, Any]],
    *,
    model: str = "ms_san",
    labels: Mapping[str, float] | None = None,
    title: str = "Two words",
    **look: Any,
) -> dict[str, Any]:
    """A page of one model and one item."""
    probabilities = dict(labels or {"plural": 0.75, "singular": 0.25})
    answer = {"label": max(probabilities, key=lambda name: probabilities[name]), "probabilities": probabilities}
    looks = {"model": model, "task": "agreement", "reads": ["dependency"], "unknown": [[] for _ in sentences]}
    looks |= {"answer": {**answer, "score": None, "text": None}, "maps": list(maps), "latent": None, **look}
    reply = {"v": 1, "id": 0, "ms": 1.0, "sentences": list(sentences), "looks": [looks]}
    item = {"name": "1", "sentences": list(sentences), "expected": None, "replies": {"look": reply}}
    named = {"name": model, "task": "agreement", "labels": list(probabilities), "reads": ["dependency"]}
    models = [{**named, "parser": None, "arity": len(sentences), "sha256": "0"}]
    view = {"item": 0, "models": [model]}
    return {"v": 1, "title": title, "host": "frozen", "models": models, "items": [item], "view": view, "command": None}


def chain(size: int) -> list[int]:
    """Heads of a tree in which every word depends on the word before it."""
    return list(itertools.islice(range(size), size))
