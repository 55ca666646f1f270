"""Habits of the code that a test counts: nouns as names, short docstrings inside; ``python tests/habits.py`` lists.

A name is public if a package exports it in ``__all__``; so are the methods of a public class. Everything else is
internal, whatever its first letter.
"""

import ast
import collections
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from import_graph import SOURCE

PACKAGE = SOURCE / "structattn"
#: Names that say nothing of what they hold.
PRONOUNS = frozenset(
    (
        *("found", "one", "own", "given", "known", "said", "place", "other", "others", "some", "here", "there"),
        *("wanted", "asked", "chosen", "kept", "what", "before", "rest"),
    )
)
MAX_INTERNAL_LINES = 3
#: Functions whose docstring users see: ``--help`` prints that of a command.
PRINTED = frozenset(("command",))


class Docstring(NamedTuple):
    """The docstring of an internal function, class or method."""

    file: str
    name: str
    lines: int


def files(package: Path = PACKAGE) -> list[Path]:
    """All sources."""
    return sorted(package.rglob("*.py"))


def names(path: Path) -> collections.Counter[str]:
    """How often each variable is mentioned."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return collections.Counter(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))


def exported() -> set[str]:
    """The public names of all packages."""
    exports: set[str] = set()
    for path in PACKAGE.rglob("__init__.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Assign) and any(ast.unparse(target) == "__all__" for target in node.targets):
                exports |= set(ast.literal_eval(node.value))
    return exports


def internal_docstrings(path: Path, exports: set[str]) -> Iterator[Docstring]:
    """The docstrings of everything internal in a file."""
    yield from _docstrings(ast.parse(path.read_text(encoding="utf-8")), str(path.relative_to(SOURCE)), exports, False)


def _docstrings(node: ast.AST, file: str, exports: set[str], is_public: bool) -> Iterator[Docstring]:
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from _docstrings(child, file, exports, is_public)
            continue
        inside = isinstance(node, ast.ClassDef) and is_public
        public = not child.name.startswith("_") and (inside or child.name in exports or child.name in PRINTED)
        if not public and (docstring := ast.get_docstring(child)):
            yield Docstring(file, child.name, len(docstring.splitlines()))
        yield from _docstrings(child, file, exports, public and isinstance(child, ast.ClassDef))


def main(packages: list[str]) -> None:
    exports = exported()
    total: collections.Counter[str] = collections.Counter()
    for path in files():
        room = path.relative_to(PACKAGE).parts[0]
        mentioned = names(path)
        pronouns = {name: count for name, count in mentioned.items() if name in PRONOUNS}
        long = [one for one in internal_docstrings(path, exports) if one.lines > MAX_INTERNAL_LINES]
        total["names"] += mentioned.total()
        total["pronouns"] += sum(pronouns.values())
        total["docstrings"] += len(long)
        total["lines over"] += sum(docstring.lines - MAX_INTERNAL_LINES for docstring in long)
        if room in packages:
            print(path.relative_to(PACKAGE), *(f"{name}={count}" for name, count in pronouns.items()))
            print(*(f"    {docstring.name}: {docstring.lines} lines" for docstring in long), sep="\n")
    print(f"{total['pronouns']} of {total['names']} names are pronouns; ", end="")
    print(f"{total['docstrings']} internal docstrings are too long, by {total['lines over']} lines in all; ", end="")
    print(f"{len(exports)} names are exported")


if __name__ == "__main__":
    main(sys.argv[1:])
