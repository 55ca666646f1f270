"""The explorer as HTML: a page that contains its replies, the page of a server, and a part of another page."""

import base64
import hashlib
import json
import re
import zlib
from collections.abc import Mapping
from importlib import resources
from typing import Any

from structattn.pictures.html_page import Document
from structattn.pictures.svg import escape

_IMPORT = re.compile(r'import \{[^}]*\} from "\./(\w+\.js)";\n')


def _join_modules(entry: str) -> str:
    """One script of a module and those that it imports, each after its own; the exports of ``entry`` alone remain."""
    folder = resources.files(__package__).joinpath("page")
    joined: dict[str, str] = {}

    def add(name: str, above: tuple[str, ...]) -> None:
        if name in above:
            raise ImportError(f"modules import each other: {' → '.join((*above, name))}")
        if name in joined:
            return
        text = folder.joinpath(name).read_text(encoding="utf-8")
        for imported in _IMPORT.findall(text):
            add(imported, (*above, name))
        text = _IMPORT.sub("", text)
        joined[name] = text if not above else re.sub("^export ", "", text, flags=re.MULTILINE)

    add(entry, ())
    return "\n".join(joined.values())


SCRIPT = _join_modules("hosts.js")
# The script is embedded compressed, at a third of its size; it runs only if its SHA-256 matches once unpacked.
_UNPACK = (
    "const here=document.currentScript;(async()=>{"
    "const bytes=Uint8Array.from(atob(here.previousElementSibling.textContent),c=>c.charCodeAt(0));"
    'const text=new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));'
    'const script=document.createElement("script");script.type="module";'
    "script.textContent=await new Response(text).text();document.head.append(script)})()"
)

_STYLE = (
    ":root{color-scheme:light dark}body{margin:0;padding:16px;background:light-dark(#f4f6f8,#0d0f12);"
    "color:light-dark(#1b1f24,#e8eaed);font:15px/1.5 system-ui,sans-serif}main{max-width:1280px;margin:0 auto}"
    "code{overflow-wrap:anywhere}"
)


def frozen_page(boot: Mapping[str, Any]) -> Document:
    """A whole HTML document that shows the explorer without a model: it contains the replies for its own items.

    Nothing is fetched, and the content security policy enforces this: scripts are named by their SHA-256.

    Args:
        boot: what ``Answers.boot`` returns.

    Returns:
        The document. Words, labels and names cannot break out of the data that contain them.

    Example:
        >>> html = frozen_page({"v": 1, "title": "</script>", "host": "frozen", "models": [], "items": []})
        >>> html.count("</script>"), "connect-src" in html
        (3, True)
    """
    return Document(_document({**boot, "host": "frozen"}, "'none'"))


def live_page(boot: Mapping[str, Any]) -> str:
    """The page of a server: it may ask the server that sent it, and no other, also for data that ``boot`` lacks."""
    return _document({**boot, "host": "server"}, "'self'")


def write_policy(connect: str = "'none'") -> str:
    """The content security policy of a page: its own script and style, pictures that it drew, and nothing else.

    It may connect to ``'none'`` or ``'self'``.
    """
    rules = {
        "default-src": "'none'",
        "script-src": f"{_hash(_UNPACK)} {_hash(SCRIPT)}",
        "style-src": _hash(_STYLE),
        "img-src": "data: blob:",
        "connect-src": connect,
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in rules.items())


def embed_explorer(boot: Mapping[str, Any]) -> str:
    """The explorer as a part of a larger page; its script starts in every such part."""
    packed = base64.b64encode(zlib.compress(SCRIPT.encode(), 9)).decode()
    script = f'<script type="application/octet-stream">{packed}</script><script>{_UNPACK}</script>'
    return _data(boot) + script


def _hash(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def _document(boot: Mapping[str, Any], connect: str) -> str:
    title = escape(boot["title"])
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(write_policy(connect))}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta name="referrer" content="no-referrer"><link rel="icon" href="data:,">'
        f"<title>{title}</title><style>{_STYLE}</style></head>"
        f"<body><main>{embed_explorer({**boot, 'level': 1})}</main></body></html>\n"
    )


def _data(boot: Mapping[str, Any]) -> str:
    """JSON that cannot end its element: no ``<``, and none of the characters that end lines in JavaScript only."""
    text = json.dumps(boot, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return f'<script type="application/json" class="structattn-explorer">{text}</script>'
