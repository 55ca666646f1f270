"""The pictures of the explorer on the pages: `make pictures` takes them of demo/index.html, in Chromium.

``explorer.png`` is a screenshot at twice the size, ``explorer-moves.png`` an animated PNG of one arc that is moved.
Each carries the checksum of what draws the page, so that a test notices when they are older than the explorer. The
landing page embeds ``explorer.html``, the same sentence and model as a page that can be edited.
"""

import hashlib
import json
import shutil
import struct
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from structattn.explorer.explorer_page import frozen_page

DOCS = Path(__file__).parents[1]
PAGE = DOCS.parent / "src/structattn/explorer/page"
STILL, MOVING = DOCS / "explorer.png", DOCS / "explorer-moves.png"
EMBEDDED = DOCS / "site/extra/explorer.html"
# Modules of the page that no picture depends on: what they do is not seen before a person acts, or not at all.
_UNSEEN = ("export.js", "hosts.js", "latent.js", "number_table.js", "share.js")
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_KEY = b"explorer\0"

Chunk = tuple[bytes, bytes]


def checksum() -> str:
    """The SHA-256 of all that draws the page."""
    drawn_by = sorted(path for path in PAGE.glob("*.js") if path.name not in _UNSEEN)
    return hashlib.sha256(b"".join(path.read_bytes() for path in drawn_by)).hexdigest()


def read_chunks(png: bytes) -> Iterator[Chunk]:
    """The chunks of a PNG: their types and contents."""
    place = len(_SIGNATURE)
    while place < len(png):
        (size,) = struct.unpack_from(">I", png, place)
        yield png[place + 4 : place + 8], png[place + 8 : place + 8 + size]
        place += 12 + size


def find_checksum(png: bytes) -> str | None:
    """The checksum that a picture carries."""
    texts = [content for name, content in read_chunks(png) if name == b"tEXt" and content.startswith(_KEY)]
    return texts[0].removeprefix(_KEY).decode() if texts else None


def animate(frames: Sequence[tuple[bytes, int]]) -> bytes:
    """An animated PNG of PNGs of one size, each shown for some milliseconds; equal neighbours become one."""
    merged: list[tuple[bytes, int]] = []
    for png, duration in frames:
        last, shown = merged[-1] if merged else (b"", 0)
        merged[-1:] = [(last, shown + duration)] if last == png else [*merged[-1:], (png, duration)]
    (_, header), *_ = read_chunks(merged[0][0])
    size = header[:8]
    chunks: list[Chunk] = [(b"IHDR", header), (b"acTL", struct.pack(">II", len(merged), 0))]
    number = 0
    for place, (png, duration) in enumerate(merged):
        control = struct.pack(">I", number) + size + struct.pack(">IIHHBB", 0, 0, duration, 1000, 0, 0)
        chunks.append((b"fcTL", control))
        number += 1
        for name, content in read_chunks(png):
            if name == b"IDAT" and not place:
                chunks.append((name, content))
            elif name == b"IDAT":
                chunks.append((b"fdAT", struct.pack(">I", number) + content))
                number += 1
    return write_chunks([*chunks, (b"IEND", b"")])


def write_chunks(chunks: Iterable[Chunk]) -> bytes:
    """A PNG of some chunks."""
    parts = [
        struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
        for name, content in chunks
    ]
    return _SIGNATURE + b"".join(parts)


def stamp(png: bytes) -> bytes:
    """The picture with the checksum of what draws the page."""
    header, *others = read_chunks(png)
    return write_chunks([header, (b"tEXt", _KEY + checksum().encode()), *others])


_APP = "[...document.querySelectorAll('div')].find((element) => element.explorer).explorer"
# The first sentence of at most 14 words of which an arc flips the answer, and the arc that goes farthest of those that
# flip it to nine parts in ten, or else the best: one that hardly moves makes a film of few frames.
_CHOOSE = f"""async () => {{
  const app = {_APP};
  await app.setModels(["ms_san"]);
  for (let item = 0; item < app.boot.items.length; item++) {{
    if (app.boot.items[item].sentences[0].words.length > 14) continue;
    await app.choose(item);
    const edits = (await app.request("flip", {{ models: ["ms_san"] }})).edits.filter(({{ head }}) => head);
    const old = app.state.sentences[0].heads;
    const way = ({{ word, head, p }}) => (p >= 0.9 ? Math.abs(head - old[word]) : 0);
    const [edit] = edits.sort((one, other) => way(other) - way(one));
    if (edit) return [item, edit.word, edit.head];
  }}
  throw new Error("expected a short sentence of which an arc flips the answer, got none");
}}"""
_GRIP = f"""(word) => {{
  const {{ root, state }} = {_APP};
  const said = `→ ${{state.sentences[0].words[word]}}`;
  const grips = [...root.querySelectorAll(".grip")].filter((grip) => grip.parentNode.textContent.includes(said));
  const {{ left }} = root.querySelectorAll(".word")[word].getBoundingClientRect();
  const ends = grips.map((grip) => {{
    const box = grip.ownerSVGElement.getBoundingClientRect(), view = grip.ownerSVGElement.viewBox.baseVal;
    const [one, other] = [0.12, 0.9].map((share) => grip.getPointAtLength(share * grip.getTotalLength()));
    return [one, other].map(({{ x, y }}) => [box.left + x - view.x, box.top + y - view.y]);
  }});
  return ends.sort((a, b) => Math.abs(a[1][0] - left) - Math.abs(b[1][0] - left))[0][0];
}}"""


def _hide(parts: str) -> str:
    return f"""() => {{
      const sheet = new CSSStyleSheet();
      sheet.replaceSync("{parts}{{display:none}} .trees{{padding-top:14px}}");
      const {{ root }} = {_APP};
      root.adoptedStyleSheets = [...root.adoptedStyleSheets, sheet];
    }}"""


def film(page: Any, word: int, head: int) -> bytes:
    """One arc, grabbed at its head and dropped on another, as an animated PNG."""
    page.evaluate(_hide(".bar,.notes,.carried,.brackets,.status"))
    box = page.locator(".explorer").bounding_box()
    bottom = page.locator(".prompt").bounding_box()
    clip = {**box, "height": bottom["y"] + bottom["height"] + 8 - box["y"]}
    frames: list[tuple[bytes, int]] = []

    def take(duration: int) -> None:
        frames.append((page.screenshot(clip=clip), duration))

    take(1600)
    x, y = page.evaluate(_GRIP, word)
    target = page.locator(".word").nth(head - 1).bounding_box()
    to_x, to_y = target["x"] + target["width"] / 2, target["y"] + target["height"] / 2
    page.mouse.move(x, y)
    take(500)
    page.mouse.down()
    for step in range(1, 13):
        share = step / 12
        page.mouse.move(x + (to_x - x) * share, y + (to_y - y) * share)
        page.wait_for_timeout(150)
        take(180)
    take(1200)
    page.mouse.up()
    page.locator(".explorer:not([aria-busy])").wait_for()
    page.mouse.move(5, 5)
    page.wait_for_timeout(300)
    take(3000)
    return animate(frames)


def main(demo: Path) -> None:
    """Take both pictures of the page of the demo."""
    from playwright.sync_api import sync_playwright

    names = ("chromium", "chromium-browser", "google-chrome")
    chromium = next((path for path in map(shutil.which, names) if path), None)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for file, width, scale in ((MOVING, 1120, 1), (STILL, 1180, 2)):
            context = browser.new_context(viewport={"width": width, "height": 1000}, device_scale_factor=scale)
            page = context.new_page()
            page.goto(demo.resolve().as_uri())
            page.locator(".explorer:not([aria-busy])").wait_for()
            item, word, head = page.evaluate(_CHOOSE)
            if file == MOVING:
                png = film(page, word, head)
            else:
                page.evaluate(f"async () => {{ await {_APP}.move(0, {word}, {head}); }}")
                page.get_by_role("button", name="Change", exact=True).click()
                page.evaluate(_hide(".strips"))
                page.wait_for_timeout(500)
                png = page.locator(".explorer").screenshot()
            file.write_bytes(stamp(png))
            print(f"{file}: {file.stat().st_size:,} bytes")
        browser.close()
    page = embed(demo.read_text(encoding="utf-8"), item)
    EMBEDDED.write_text(f"{page.rstrip()}<!-- {checksum()} -->\n", encoding="utf-8")
    print(f"{EMBEDDED}: {EMBEDDED.stat().st_size:,} bytes")


def embed(html: str, number: int) -> str:
    """A page of one item and one model of the page of the demo."""
    boot = json.loads(html.partition('class="structattn-explorer">')[2].partition("</script>")[0])
    item = boot["items"][number]
    reply = item["replies"]["look"]
    look = {**reply, "looks": [each for each in reply["looks"] if each["model"] == "ms_san"]}
    shown = {**item, "replies": {"look": look}, "edits": {"ms_san": item["edits"]["ms_san"]}}
    models = [model for model in boot["models"] if model["name"] == "ms_san"]
    return str(frozen_page({**boot, "items": [shown], "models": models, "view": {"item": 0, "models": ["ms_san"]}}))


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo/index.html"))
