"""SVG files as PNG and PDF: the same picture in every format, with text that stays text in a PDF.

Typst (extra ``plot``) does the work. It draws right-to-left and CJK scripts with the fonts of the system, and falls
back on fonts of its own, so no text is ever lost. The same SVG gives the same bytes.
"""

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from structattn.errors import ConfigError, require
from structattn.files.replacing import replace_text

FORMATS = ("svg", "png", "pdf")
# One page, as large as the picture. No date, so that files do not differ from run to run.
_PAGE = b"""#set document(date: none)
#set page(width: auto, height: auto, margin: 0pt)
#image(bytes(sys.inputs.svg), format: "svg")
"""
# An inch has 96 pixels of an SVG, and twice as many of a PNG.
_PIXELS_PER_INCH = 192.0
_MOST_PIXELS = 100_000_000


def check_formats(formats: Iterable[str], choices: Iterable[str] = FORMATS) -> None:
    """Refuse formats that cannot be written, before anything is drawn: unknown ones, PNG and PDF without Typst."""
    choices = tuple(choices)
    for name in formats:
        if name not in choices:
            raise ConfigError(f"unknown format {name!r}; known: {', '.join(choices)}")
        if name in ("png", "pdf"):
            require("typst", "plot")


def encode(svg: str, format: str) -> bytes:
    """A picture as the bytes of an SVG, PNG or PDF file."""
    check_formats([format])
    if format == "svg":
        return svg.encode("utf-8")
    size = re.match(r'<svg [^>]*?width="([\d.]+)" height="([\d.]+)"', svg)
    if format == "png" and size is not None and 4 * float(size[1]) * float(size[2]) > _MOST_PIXELS:
        raise ConfigError(f"a picture of {size[1]} x {size[2]} pixels is too large for PNG; use SVG or PDF")
    typst: Any = require("typst", "plot")
    # Nothing is read, so any existing folder will do as the root; the working directory may not exist.
    options = {"root": str(Path(__file__).parent), "ppi": _PIXELS_PER_INCH, "sys_inputs": {"svg": svg}}
    try:
        compiled: bytes = typst.compile(_PAGE, format=format, **options)
    except typst.TypstError as error:
        raise ConfigError(f"Typst cannot read this SVG: {error}") from None
    return compiled


def choose_format(path: str | os.PathLike[str]) -> str:
    """The format that matches the ending of a file name, checked by ``check_formats``."""
    ending = Path(path).suffix.removeprefix(".").lower()
    if ending not in FORMATS:
        raise ConfigError(f"{os.fspath(path)}: expected a file name that ends in .{', .'.join(FORMATS)}")
    check_formats([ending])
    return ending


def save(path: str | os.PathLike[str], svg: str) -> None:
    """Write a picture; the ending of the file, ``.svg``, ``.png`` or ``.pdf``, chooses the format.

    Args:
        path: the file, which appears whole or not at all.
        svg: the picture, as the functions of this package return it.

    Raises:
        ConfigError: for another ending, or a picture too large for PNG.
        MissingExtra: for PNG or PDF without Typst (``pip install 'structattn[plot]'``).

    Example:
        >>> import tempfile
        >>> from structattn.pictures import heatmap
        >>> path = Path(tempfile.mkdtemp(), "heads.svg")
        >>> save(path, heatmap(["a"], ["a"], [[1]]))
        >>> path.read_text()[:4]
        '<svg'
    """
    content = encode(svg, choose_format(path))
    with replace_text(path) as stream:
        stream.buffer.write(content)
