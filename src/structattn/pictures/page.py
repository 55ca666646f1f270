"""One self-contained HTML file: sections of pictures and tables, and selectors to leaf through many of them.

Nothing is fetched; without scripts every option of a selector is simply shown one after the other, and paper shows what
was selected.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from structattn.pictures.display import Document
from structattn.pictures.svg import escape

_STYLE = """
:root{color-scheme:light dark;--ground:#f4f6f8;--card:#ffffff;--ink:#1b1f24;--soft:#5b6470;--rule:#d5dae0;
--accent:#2b5fa8}
*{box-sizing:border-box}
body{margin:0;background:var(--ground);color:var(--ink);font:15px/1.5 ui-sans-serif,system-ui,-apple-system,"Segoe UI",
"Helvetica Neue",Arial,"Noto Sans",sans-serif}
main{max-width:1180px;margin:0 auto;padding:28px 20px 60px}
h1{font-size:26px;line-height:1.2;margin:0 0 6px}
h2{font-size:18px;margin:0 0 4px}
h3{font-size:14px;margin:14px 0 2px}
p{margin:0 0 10px;max-width:75ch}
.soft{color:var(--soft)}
nav{display:flex;flex-wrap:wrap;gap:4px 16px;margin:12px 0 0;font-size:14px}
a{color:var(--accent)}
.card{background:var(--card);border:1px solid var(--rule);border-radius:10px;padding:18px 20px;margin:18px 0 0}
.figure{overflow-x:auto;margin:8px 0 0}
.figure svg{display:block}
.row{display:flex;flex-wrap:wrap;gap:8px 20px;align-items:flex-start}
.row>*{max-width:100%}
.caption{color:var(--soft);font-size:13px;margin:2px 0 0}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;margin:8px 0 0}
caption{text-align:left;color:var(--soft);font-size:13px;padding:0 0 4px}
th,td{padding:5px 14px 5px 0;border-bottom:1px solid var(--rule);text-align:left;vertical-align:top}
th{font-weight:600}
.number{text-align:right}
.controls{display:flex;flex-wrap:wrap;gap:6px;align-items:center;margin:10px 0 6px;font-size:14px}
.controls .name{color:var(--soft);margin-right:4px}
.controls label{border:1px solid var(--rule);border-radius:999px;padding:2px 12px;cursor:pointer}
.controls input{position:absolute;opacity:0;pointer-events:none}
.controls label:has(:checked){background:var(--accent);border-color:var(--accent);color:var(--card)}
.controls label:has(:focus-visible){outline:2px solid var(--accent);outline-offset:2px}
.controls select{font:inherit;max-width:100%;padding:3px 6px;border:1px solid var(--rule);border-radius:6px;
background:var(--card);color:var(--ink)}
.live>.option>h3{display:none}
@media screen and (prefers-color-scheme:dark){:root{--ground:#0d0f12;--card:#14171c;--ink:#e8eaed;--soft:#a3abb6;
--rule:#39404a;--accent:#6fb1f0}}
@media print{:root{--ground:#fff}main{max-width:none;padding:0}nav,.controls{display:none}
.live>.option>h3{display:block}
.card{border:0;padding:0;break-inside:avoid}.figure{overflow:visible}.figure svg{max-width:100%;height:auto}}
"""

# Selectors that carry the same name move together, so a chosen head stays chosen when the sentence changes.
_SCRIPT = """
(function(){
var all=[].slice.call(document.querySelectorAll('.choice'));
function options(box){return [].slice.call(box.children).filter(function(e){return e.className==='option'})}
function show(box,name){
var found=options(box).some(function(o){return o.dataset.name===name});
if(!found)return;
options(box).forEach(function(o){o.hidden=o.dataset.name!==name});
[].slice.call(box.firstChild.querySelectorAll('input')).forEach(function(i){i.checked=i.value===name});
[].slice.call(box.firstChild.querySelectorAll('select')).forEach(function(s){s.value=name});
}
function pick(box,name){all.forEach(function(other){if(other.dataset.label===box.dataset.label)show(other,name)})}
all.forEach(function(box,index){
var bar=document.createElement('div'),names=options(box).map(function(o){return o.dataset.name});
bar.className='controls';
var said=document.createElement('span');said.className='name';said.textContent=box.dataset.label;bar.appendChild(said);
var few=names.length<10&&names.join('').length<110;
var list=few?bar:bar.appendChild(document.createElement('select'));
if(!few)list.setAttribute('aria-label',box.dataset.label);
names.forEach(function(name){
if(few){var l=document.createElement('label'),i=document.createElement('input');i.type='radio';i.name='choice'+index;
i.value=name;l.appendChild(i);l.appendChild(document.createTextNode(name));list.appendChild(l)}
else{var o=document.createElement('option');o.value=name;o.textContent=name;list.appendChild(o)}
});
bar.addEventListener('change',function(e){pick(box,e.target.value)});
box.insertBefore(bar,box.firstChild);box.classList.add('live');show(box,names[0]);
});
})();
"""


# Numbers as tables show them ("0.85", "−3", "85.6% ± 0.4"), and the signs for "none".
_NUMBER = re.compile(r"[-–—]?|[-+−]?[\d.,]+(e-?\d+)?\s*%?(\s*±\s*[\d.,]+\s*%?)?")


@dataclass(frozen=True)
class Section:
    """A part of a page.

    Attributes:
        heading: plain text.
        body: SVG or HTML, as the functions of this room return it; it is not escaped.
        note: a sentence of plain text under the heading.

    Example:
        >>> Section("Heads", "<svg/>").note
        ''
    """

    heading: str
    body: str
    note: str = ""


def page(title: str, sections: Sequence[Section | tuple[str, str]], *, lead: str = "") -> Document:
    """A whole HTML document in one string: no network, light and dark, and it prints.

    Args:
        title: plain text.
        sections: the parts; a tuple is ``(heading, body)``.
        lead: a sentence of plain text under the title.

    Example:
        >>> html = page("Two kids", [("Head 1", "<svg/>"), Section("Head 2", "<svg/>", note="backward")])
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
        f"{cards}</main><script>{_SCRIPT}</script></body></html>\n"
    )


def choices(label: str, options: Sequence[tuple[str, str]]) -> str:
    """A selector: one of several bodies is shown. Selectors with the same label on a page move together.

    Args:
        label: what is chosen, for example ``"Sentence"`` or ``"Head"``.
        options: ``(name, body)``; names must differ.

    Raises:
        ValueError: if there is no option or a name occurs twice.

    Example:
        >>> choices("Head", [("forward", "<svg/>"), ("backward", "<svg/>")]).count('class="option"')
        2
    """
    names = [name for name, _ in options]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if not options or repeated:
        raise ValueError(f"the selector {label!r} needs options with different names; got {repeated or 'none'}")
    inside = "".join(
        f'<div class="option" data-name="{escape(name)}"><h3>{_bidi(name)}</h3>{_framed(body)}</div>'
        for name, body in options
    )
    return f'<div class="choice" data-label="{escape(label)}">{inside}</div>'


def figure(body: str, caption: str = "") -> str:
    """A picture with a caption; wide pictures scroll inside their own frame.

    Example:
        >>> figure("<svg/>", "Head 1")
        '<div class="figure"><svg/><p class="caption"><bdi>Head 1</bdi></p></div>'
    """
    below = f'<p class="caption">{_bidi(caption)}</p>' if caption else ""
    return f'<div class="figure">{body}{below}</div>'


def paragraph(content: str) -> str:
    """A line of plain text between pictures.

    Example:
        >>> paragraph("a < b")
        '<p><bdi>a &lt; b</bdi></p>'
    """
    return f"<p>{_bidi(content)}</p>"


def side_by_side(bodies: Sequence[str]) -> str:
    """Pictures in a row that wraps where the window ends.

    Example:
        >>> side_by_side(["<svg/>", "<svg/>"]).count("figure")
        2
    """
    return f'<div class="row">{"".join(_framed(body) for body in bodies)}</div>'


def table(rows: Sequence[Sequence[object]], *, header: bool = True, caption: str = "") -> str:
    """Rows of plain values as an HTML table; numbers are aligned on the right.

    Args:
        rows: all rows; the first one is the header unless ``header`` is false.
        header: whether there is a header.
        caption: plain text above the table.

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
    return f'<div class="figure"><table>{above}<thead>{head}</thead><tbody>{lines}</tbody></table></div>'


def _table_row(row: Sequence[object], name: str, numeric: Sequence[bool]) -> str:
    cells = ""
    for cell, right in zip(row, numeric, strict=True):
        shown = f"{cell:.4g}" if isinstance(cell, float) else str(cell)
        cells += f'<{name} class="number">' if right else f"<{name}>"
        cells += f"{_bidi(shown)}</{name}>"
    return f"<tr>{cells}</tr>"


def _is_number(cell: object) -> bool:
    if isinstance(cell, int | float):
        return True
    return bool(_NUMBER.fullmatch(str(cell)))


def _framed(body: str) -> str:
    return figure(body) if body.startswith("<svg") else body


def _bidi(content: str) -> str:
    return f"<bdi>{escape(content)}</bdi>"


def _soft(content: str) -> str:
    return f'<p class="soft">{escape(content)}</p>' if content else ""
