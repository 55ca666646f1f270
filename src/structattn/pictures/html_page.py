"""One self-contained HTML file: sections of pictures and tables; nothing is fetched."""

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass

from structattn.pictures.svg import escape

_STYLE = """
:root{color-scheme:light dark;--ground:#f4f6f8;--card:#ffffff;--ink:#1b1f24;--soft:#5b6470;--rule:#d5dae0;
--accent:#2b5fa8}
*{box-sizing:border-box}
body{margin:0;background:var(--ground);color:var(--ink);font:15px/1.5 ui-sans-serif,system-ui,-apple-system,"Segoe UI",
"Helvetica Neue",Arial,"Noto Sans",sans-serif}
main{max-width:1280px;margin:0 auto;padding:28px 20px 60px}
h1{font-size:26px;line-height:1.2;margin:0 0 6px}
h2{font-size:18px;margin:0 0 4px}
h3{font-size:14px;margin:14px 0 2px}
p{margin:0 0 10px;max-width:75ch}
pre{margin:0 0 10px;white-space:pre-wrap;overflow-wrap:anywhere}
.soft{color:var(--soft)}
nav{display:flex;flex-wrap:wrap;gap:4px 16px;margin:12px 0 0;font-size:14px}
a{color:var(--accent)}
.card{background:var(--card);border:1px solid var(--rule);border-radius:10px;padding:18px 20px;margin:18px 0 0}
.figure{overflow-x:auto;margin:8px 0 0;--shade:light-dark(#1b1f2433,#00000099);
background:linear-gradient(90deg,var(--card) 40%,transparent) 0 0/40px 100% no-repeat local,
linear-gradient(270deg,var(--card) 40%,transparent) 100% 0/40px 100% no-repeat local,
linear-gradient(90deg,var(--shade),transparent) 0 0/12px 100% no-repeat scroll,
linear-gradient(270deg,var(--shade),transparent) 100% 0/12px 100% no-repeat scroll}
.figure svg{display:block}
.figure svg>.sa-f-paper{fill:none}
.row{display:flex;flex-wrap:wrap;gap:8px 20px;align-items:flex-start}
.row>*{max-width:100%}
.caption{color:var(--soft);font-size:13px;margin:2px 0 0}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;margin:8px 0 0}
caption{text-align:left;color:var(--soft);font-size:13px;padding:0 0 4px}
th,td{padding:5px 14px 5px 0;border-bottom:1px solid var(--rule);text-align:left;vertical-align:top;min-width:4ch}
td.prose{min-width:26ch}
th{font-weight:600}
.number{text-align:right}
@media screen and (prefers-color-scheme:dark){:root{--ground:#0d0f12;--card:#14171c;--ink:#e8eaed;--soft:#a3abb6;
--rule:#39404a;--accent:#6fb1f0}}
@media print{:root{--ground:#fff}main{max-width:none;padding:0}nav{display:none}
.card{border:0;padding:0;break-inside:avoid}.figure{overflow:visible}.figure svg{max-width:100%;height:auto}}
"""

# A cell of more characters is wrapped, but not into a column of single words.
_PROSE = 30
# Numbers as tables show them ("0.85", "−3", "85.6% ± 0.4"), and the signs for "none".
_NUMBER = re.compile(r"[-–—]?|[-+−]?[\d.,]+(e-?\d+)?\s*%?(\s*±\s*[\d.,]+\s*%?)?")


@dataclass(frozen=True)
class Section:
    """A part of a page: SVG or HTML, which is not escaped, between a heading and a note of plain text."""

    heading: str
    body: str
    note: str = ""


class Document(str):
    """A whole HTML page, which a notebook displays."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """The page in a frame of its own: its scripts run, but cannot reach the notebook."""
        style = "width:100%;height:760px;border:0"
        return (
            f'<iframe sandbox="allow-scripts allow-downloads" srcdoc="{html.escape(self)}" title="structattn" '
            f'style="{style}"></iframe>'
        )


def page(title: str, sections: Sequence[Section | tuple[str, str]], *, lead: str = "") -> Document:
    """A whole HTML document in one string: without network access, in light and dark, and printable.

    Args:
        title: plain text.
        sections: the parts, as ``(heading, body)``: plain text, and SVG or HTML, which is not escaped.
        lead: a sentence of plain text under the title.

    Returns:
        The document, which a notebook displays.

    Example:
        >>> html = page("Two kids", [("Head 1", "<svg/>"), ("Head 2", "<svg/>")])
        >>> html.startswith("<!doctype html>"), html.count("<h2")
        (True, 2)
    """
    parts = [part if isinstance(part, Section) else Section(*part) for part in sections]
    links = "".join(f'<a href="#part{i}">{escape(part.heading)}</a>' for i, part in enumerate(parts, start=1))
    cards = "".join(
        f'<section class="card" id="part{i}"><h2>{_bidi(part.heading)}</h2>{_soft(part.note)}'
        f"{_framed(part.body)}</section>"
        for i, part in enumerate(parts, start=1)
    )
    return Document(
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body><main>"
        f"<h1>{_bidi(title)}</h1>{_soft(lead)}{f'<nav>{links}</nav>' if len(parts) > 2 else ''}"
        f"{cards}</main></body></html>\n"
    )


def figure(body: str, caption: str = "") -> str:
    """A picture with a caption; wide pictures scroll inside their own frame."""
    below = f'<p class="caption">{_bidi(caption)}</p>' if caption else ""
    return f"{_open_frame(caption or 'picture')}{body}{below}</div>"


def paragraph(content: str) -> str:
    """A line of plain text between pictures."""
    return f"<p>{_bidi(content)}</p>"


def code(content: str) -> str:
    """A command, to be copied."""
    return f"<pre><code>{escape(content)}</code></pre>"


def side_by_side(bodies: Sequence[str]) -> str:
    """Pictures in a row that wraps where the window ends."""
    return f'<div class="row">{"".join(_framed(body) for body in bodies)}</div>'


def table(rows: Sequence[Sequence[object]], *, header: bool = True, caption: str = "") -> str:
    """Rows of plain values as an HTML table; numbers are aligned on the right.

    Args:
        rows: all rows; the first of them is the header unless ``header`` is false.
        header: whether there is a header.
        caption: plain text above the table.

    Returns:
        HTML, for a section of a page.

    Raises:
        ValueError: if rows differ in length.

    Example:
        >>> table([["encoder", "accuracy"], ["DiSAN", 0.8562]]).count("<td")
        2
    """
    for index, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise ValueError(f"row {index} of the table has {len(row)} cells; expected {len(rows[0])} like the first")
    body = list(rows[1:] if header else rows)
    numeric = [bool(body) and all(_is_number(row[i]) for row in body) for i in range(len(rows[0]) if rows else 0)]
    head = _table_row(rows[0], "th", numeric) if header and rows else ""
    lines = "".join(_table_row(row, "td", numeric) for row in body)
    above = f"<caption>{_bidi(caption)}</caption>" if caption else ""
    content = f"<table>{above}<thead>{head}</thead><tbody>{lines}</tbody></table>"
    return f"{_open_frame(caption or 'table')}{content}</div>"


def _table_row(row: Sequence[object], name: str, numeric: Sequence[bool]) -> str:
    cells = ""
    for cell, right in zip(row, numeric, strict=True):
        shown = f"{cell:.4g}" if isinstance(cell, float) else str(cell)
        kind = "number" if right else "prose" if len(shown) > _PROSE else ""
        cells += f'<{name} class="{kind}">' if kind else f"<{name}>"
        cells += f"{_bidi(shown)}</{name}>"
    return f"<tr>{cells}</tr>"


def _is_number(cell: object) -> bool:
    if isinstance(cell, int | float):
        return True
    return bool(_NUMBER.fullmatch(str(cell)))


def _open_frame(name: str) -> str:
    """A frame that scrolls, also by keyboard."""
    return f'<div class="figure" tabindex="0" role="group" aria-label="{escape(name)}">'


def _framed(body: str) -> str:
    return figure(body) if body.startswith("<svg") else body


def _bidi(content: str) -> str:
    return f"<bdi>{escape(content)}</bdi>"


def _soft(content: str) -> str:
    return f'<p class="soft">{escape(content)}</p>' if content else ""
