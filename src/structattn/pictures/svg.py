"""The SVG writer behind every picture: elements, text that is measured and escaped, two themes in one file.

Each figure is self-contained: no script, no external font, no reference to another file, and no ``id`` (so any number
of figures can live in one HTML page). Colours are written as plain attributes for light paper, which every converter to
PDF understands; a style sheet replaces them by class on a dark screen. Paper is always light.
"""

import html
import math
import re
import unicodedata
from collections.abc import Iterable, Sequence

from structattn.pictures.colours import DIVERGING, INKS, SEQUENTIAL, Scale
from structattn.pictures.drawn_numbers import Number

MARGIN = 16.0
TITLE_SIZE = 15.0
FONT = (
    "ui-sans-serif, system-ui, -apple-system, 'Segoe UI', 'Helvetica Neue', Arial, 'Noto Sans', 'Liberation Sans', "
    "'DejaVu Sans', sans-serif"
)
BOLD = 700

_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_CLASS = re.compile(r"\bsa-([fs])-([a-z0-9]+)\b")
_SIZE = re.compile(r'<svg [^>]*?width="(\d+)" height="(\d+)"[^>]*?aria-label="([^"]*)"')
_MAPS = {colour_map.key: colour_map for colour_map in (SEQUENTIAL, DIVERGING)}
# Parts of an em, by the widest of these families, DejaVu Sans.
_WIDTHS = {
    character: width
    for characters, width in (
        ("ijlIJ'", 0.28),
        (" .,/:;\\|", 0.34),
        ("frt()[]-!", 0.4),
        ('sczL?*`"_', 0.55),
        ("NHDGOQ&", 0.8),
        ("wM#+<=>^~←→±−", 0.86),
        ("mW%@—…", 1.0),
    )
    for character in characters
}


class Picture(str):
    """An SVG document, which a notebook displays."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """The picture, which scrolls where the notebook is narrower."""
        return f'<div style="overflow-x:auto">{self}</div>'


def escape(text: object) -> str:
    """Text that is safe inside XML: markup is escaped, characters XML cannot carry become U+FFFD."""
    return html.escape(_FORBIDDEN.sub("\ufffd", str(text)))


def number(value: Number) -> str:
    """A coordinate with at most two decimals and no trailing zeros."""
    short = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if short in {"-0", ""} else short


def element(name: str, content: str = "", /, **attributes: object) -> str:
    """One XML element; ``content`` is already escaped, ``None`` attributes are left out, ``_`` becomes ``-``."""
    parts = [name]
    for key, value in attributes.items():
        if value is not None:
            shown = number(value) if isinstance(value, Number) else escape(value)
            parts.append(f'{key.rstrip("_").replace("_", "-")}="{shown}"')
    opening = " ".join(parts)
    return f"<{opening}>{content}</{name}>" if content else f"<{opening}/>"


def fill(role: str) -> dict[str, object]:
    """Attributes that fill with an ink, in both themes."""
    return {"class_": f"sa-f-{role}", "fill": INKS[role][0]}


def stroke(role: str, width: Number = 1.0) -> dict[str, object]:
    """Attributes that draw a line with an ink, in both themes."""
    return {"class_": f"sa-s-{role}", "stroke": INKS[role][0], "stroke_width": width, "fill": "none"}


def colour(scale: Scale, value: Number) -> dict[str, object]:
    """Attributes that fill with the colour of a value, in both themes."""
    return level_colour(scale, scale.level(value))


def level_colour(scale: Scale, level: int) -> dict[str, object]:
    """Attributes that fill with one level of a scale, in both themes."""
    return {"class_": f"sa-f-{scale.colours.key}{level}", "fill": scale.colours.light[level]}


def level_stroke(scale: Scale, level: int, width: Number) -> dict[str, object]:
    """Attributes that draw a line with one level of a scale, in both themes."""
    shade = {"class_": f"sa-s-{scale.colours.key}{level}", "stroke": scale.colours.light[level]}
    return {**shade, "stroke_width": width, "fill": "none"}


def tooltip(content: str) -> str:
    """The element that browsers show when the pointer rests on its parent."""
    return f"<title>{escape(content)}</title>"


def isolate(word: str) -> str:
    """A word for a tooltip, isolated so that right-to-left script does not reorder its neighbours."""
    return word if word.isascii() else f"\u2068{word}\u2069"


def text(
    x: Number,
    y: Number,
    content: str,
    *,
    size: Number = 12.0,
    anchor: str = "start",
    role: str = "ink",
    weight: int | None = None,
    rotate: Number = 0.0,
    width: Number = math.inf,
    halo: bool = False,
    inert: bool = False,
) -> str:
    """A line of text; if it is wider than ``width`` it is cut with an ellipsis and shown whole in a tooltip.

    ``halo`` puts paper behind the letters, for text on lines; ``inert`` lets the pointer through to what lies below.
    """
    shown = shorten(visible(content), width, size)
    body = escape(shown) + (tooltip(content) if shown != visible(content) else "")
    attributes: dict[str, object] = {"x": x, "y": y, "font_size": size, **fill(role)}
    if anchor != "start":
        attributes["text_anchor"] = anchor
    if weight is not None:
        attributes["font_weight"] = weight
    if rotate:
        attributes["transform"] = f"rotate({number(rotate)} {number(x)} {number(y)})"
    if inert:
        attributes["pointer_events"] = "none"
    if halo:
        attributes |= {"class_": f"sa-f-{role} sa-s-paper", "stroke": INKS["paper"][0], "stroke_width": 3.5}
        attributes |= {"stroke_linejoin": "round", "paint_order": "stroke"}
    return element("text", body, **attributes)


def visible(word: str) -> str:
    """A word in visible form: the empty word and blanks get signs of their own."""
    if not word:
        return "∅"
    return word if word.strip() else "␣" * len(word)


def shorten(content: str, width: Number, size: Number) -> str:
    """The content, or as much of its beginning as fits into ``width`` with an ellipsis."""
    if text_width(content, size) <= width:
        return content
    start = ""
    for character in content:
        if text_width(start + character + "…", size) > width:
            break
        start += character
    return start.rstrip() + "…"


def text_width(content: str, size: Number = 12.0) -> Number:
    """An estimate of the width of a line, in pixels, that errs on the wide side.

    Wide and full-width characters (CJK, emoji) count one em, combining marks nothing.
    """
    return size * math.fsum(map(_character_width, content))  # the same bits in every version of Python


def is_right_to_left(words: Iterable[str]) -> bool:
    """Whether most letters of a sentence belong to a script that runs from right to left."""
    directions = [unicodedata.bidirectional(character) for word in words for character in word]
    return 2 * sum(d in {"R", "AL"} for d in directions) > sum(d in {"R", "AL", "L"} for d in directions)


def find_top(title: str | None) -> Number:
    """Where the drawing begins: below the margin, and below the title if there is one."""
    return MARGIN + (30.0 if title else 0.0)


def picture(width: Number, height: Number, body: Sequence[str], *, label: str, title: str | None = None) -> Picture:
    """A whole SVG document on its own paper, with the rules for dark screens that it uses.

    The body is drawn back to front; the label is for readers who cannot see it.
    """
    heading = [text(MARGIN, MARGIN + 14, title, size=TITLE_SIZE, weight=BOLD)] if title else []
    width = math.ceil(max(width, 2 * MARGIN + text_width(title or "", TITLE_SIZE) * 1.15))
    height = math.ceil(height)
    drawing = element("rect", width=width, height=height, rx=4, **fill("paper")) + "".join([*heading, *body])
    rules = "".join(sorted({_dark_rule(kind, role) for kind, role in _CLASS.findall(drawing)}))
    style = (
        f".sa-cells>*:hover{{stroke:#f59e0b;stroke-width:2}}@media screen and (prefers-color-scheme:dark){{{rules}}}"
    )
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'role="img" aria-label="{escape(label)}" font-family="{escape(FONT)}">'
    )
    return Picture(f"{head}<style>{style}</style>{drawing}</svg>")


def figure_width(svg: str) -> int:
    """The width of a picture of this package, in pixels."""
    match = _SIZE.match(svg)
    if match is None:
        raise ValueError(f"expected a picture of structattn.pictures, got {svg[:40]!r}")
    return int(match[1])


def stack(pictures: Sequence[str]) -> str:
    """Pictures below each other, as one SVG document."""
    if not pictures:
        raise ValueError("expected at least one picture, got none")
    body, labels = [], []
    top, widest = 0.0, 0
    for svg in pictures:
        match = _SIZE.match(svg)
        if match is None:
            raise ValueError(f"expected a picture of structattn.pictures, got {svg[:40]!r}")
        body.append(svg.replace("<svg ", f'<svg y="{number(top)}" ', 1))
        top += int(match[2]) + MARGIN
        widest = max(widest, int(match[1]))
        labels.append(match[3])
    return picture(widest, top - MARGIN, body, label=html.unescape("; ".join(labels)))


def _dark_rule(kind: str, role: str) -> str:
    dark = INKS[role][1] if role in INKS else _MAPS[role[0]].dark[int(role[1:])]
    return f".sa-{kind}-{role}{{{'fill' if kind == 'f' else 'stroke'}:{dark}}}"


def _character_width(character: str) -> Number:
    width = _WIDTHS.get(character)
    if width is not None:
        return width
    if unicodedata.combining(character) or unicodedata.category(character) in {"Mn", "Me", "Cf"}:
        return 0.0
    if unicodedata.east_asian_width(character) in {"W", "F"}:
        return 1.0
    return 0.72 if character.isupper() else 0.64
