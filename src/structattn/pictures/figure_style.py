"""Figures for papers: as wide as a column, in the font of the text, with letters that can be read in print."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from structattn.errors import ConfigError
from structattn.pictures.drawn_numbers import Number
from structattn.pictures.svg import FONT, Picture, escape, number

PIXELS_PER_INCH = 96.0
LEAST_LETTERS = 7 * PIXELS_PER_INCH / 72
"""Letters of 7 points, in pixels."""

_UNITS = {"in": PIXELS_PER_INCH, "cm": PIXELS_PER_INCH / 2.54, "mm": PIXELS_PER_INCH / 25.4, "pt": PIXELS_PER_INCH / 72}
_LENGTH = re.compile(rf"(\d+(?:\.\d+)?)\s*({'|'.join(_UNITS)})")
_HEAD = re.compile(r'<svg ([^>]*?)width="([\d.]+)" height="([\d.]+)"')
_LETTERS = re.compile(r'font-size="([\d.]+)"')
_NAMED = {"\\": "backslash", "~": "asciitilde", "^": "asciicircum", "<": "less", ">": "greater", "|": "bar"}


@dataclass(frozen=True)
class FigureStyle:
    """How figures are drawn for print.

    Attributes:
        width: the width in print, in pixels of 1/96 inch, as ``read_length`` gives it; ``None`` as the content needs.
        font: the font family; that of the system if ``None``.
        heads: the attention heads that are drawn, by their titles; all if empty.
        columns: how many heads are side by side, at most.
        has_titles: whether figures have headings.
    """

    width: Number | None = None
    font: str | None = None
    heads: tuple[str, ...] = ()
    columns: int | None = None
    has_titles: bool = True

    def __post_init__(self) -> None:
        if self.columns is not None and self.columns < 1:
            raise ConfigError(f"--columns: expected at least 1, got {self.columns}")
        if self.font is not None and not self.font.strip():
            raise ConfigError("--font: expected the name of a font, got none")


def read_length(text: str) -> Number:
    """A length such as ``3.3in``, ``8.4cm``, ``84mm`` or ``240pt`` in pixels of 1/96 inch."""
    match = _LENGTH.fullmatch(text.strip())
    if match is None or float(match[1]) == 0:
        raise ConfigError(f"--width: expected a length above 0 in in, cm, mm or pt, as 3.3in, got {text!r}")
    return float(match[1]) * _UNITS[match[2]]


def print_figure(svg: str, style: FigureStyle) -> str:
    """The picture in the width and the font of a style; an error if letters would be smaller than 7 points."""
    match = _HEAD.match(svg)
    if match is None:
        raise ValueError(f"expected a picture of structattn.pictures, got {svg[:40]!r}")
    if style.width is not None:
        wide, high = float(match[2]), float(match[3])
        scale = style.width / wide
        smallest = min(map(float, _LETTERS.findall(svg)), default=math.inf)
        if smallest * scale < LEAST_LETTERS - 1e-9:
            needed = math.ceil(10 * wide * LEAST_LETTERS / smallest / PIXELS_PER_INCH) / 10
            raise ConfigError(
                f"letters would be {72 * smallest * scale / PIXELS_PER_INCH:.1f} pt, less than 7; it needs --width "
                f"{needed:g}in, or a shorter sentence"
            )
        size = f'width="{number(style.width)}" height="{number(high * scale)}"'
        svg = svg.replace(match[0], f"<svg {match[1]}{size}", 1)
    if style.font is not None:
        svg = svg.replace(f'font-family="{escape(FONT)}"', f'font-family="{escape(f"{style.font}, {FONT}")}"')
    return Picture(svg)


def write_snippet(file: str, caption: str, style: FigureStyle) -> str:
    """LaTeX that shows a picture, named without its ending, with a caption; it needs the package ``graphicx``."""
    width = "" if style.width is None else f"[width={number(style.width / PIXELS_PER_INCH)}in]"
    lines = [
        r"\begin{figure}",
        r"\centering",
        rf"\includegraphics{width}{{{file}}}",
        rf"\caption{{{escape_latex(caption)}}}",
        rf"\label{{fig:{file}}}",
        r"\end{figure}",
    ]
    return "\n".join(lines) + "\n"


def escape_latex(text: str) -> str:
    """Text that LaTeX prints as it is."""
    signs = {sign: rf"\text{name}{{}}" for sign, name in _NAMED.items()}
    return "".join(signs.get(sign, rf"\{sign}" if sign in "&%$#_{}" else sign) for sign in text)


def select_heads(titles: Sequence[str], style: FigureStyle) -> list[int]:
    """The positions of the heads that a style names, in its order; all by default."""
    if not style.heads:
        return list(range(len(titles)))
    unknown = [name for name in style.heads if name not in titles]
    if unknown:
        raise ConfigError(f"--heads: unknown head {unknown[0]!r}; known: {', '.join(titles)}")
    return [titles.index(name) for name in style.heads]
