"""Arbitrary text inside Markdown: it stays plain text, on one line, whatever it contains."""

import re
from collections.abc import Iterable, Sequence

_SIGNS = re.compile(r"[\\`*_|<>\[\]&#~$]")


def escaped(text: object, *, width: int | None = None) -> str:
    r"""A text escaped for Markdown, so that no markup, HTML, formula, line break or table cell begins in it.

    Args:
        text: any object; its ``str`` is used.
        width: a longer text is truncated to this width, with an ellipsis.

    Example:
        >>> print(escaped("a|b *c*"), escaped("one\ntwo"), escaped("a long text", width=6))
        a\|b \*c\* one two a lon…
    """
    plain = "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in " ".join(str(text).split()))
    if width is not None and len(plain) > width:
        plain = f"{plain[: width - 1]}…"
    return _SIGNS.sub(r"\\\g<0>", plain)


def fenced(text: str, language: str) -> str:
    """A block of code with a fence longer than any in the text.

    Example:
        >>> print(fenced("a: 1", "yaml"))
        ```yaml
        a: 1
        ```
    """
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def table_of(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; its cells are Markdown already, see :func:`escaped`.

    Example:
        >>> print(table_of(["name", "value"], [["dim", "8"]]))
        | name | value |
        |---|---|
        | dim | 8 |
    """
    lines = [header, *rows]
    head, *rest = (f"| {' | '.join(line)} |" for line in lines)
    return "\n".join([head, f"|{'---|' * len(header)}", *rest])
