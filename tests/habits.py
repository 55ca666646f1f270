"""Habits of the code that a test counts: nouns as names, short docstrings inside; ``python tests/habits.py`` lists.

A name is public if a package exports it in ``__all__``, or if the signature or the bases of what is exported mention
it: users hold its values. So are the methods of a public class. Everything else is internal, whatever its first letter.
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


def functions(path: Path) -> set[str]:
    """The names of its functions and methods."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def exported() -> set[str]:
    """The public names of all packages."""
    exports: set[str] = set()
    for path in PACKAGE.rglob("__init__.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Assign) and any(ast.unparse(target) == "__all__" for target in node.targets):
                exports |= set(ast.literal_eval(node.value))
    return exports


def public_names(exports: set[str]) -> set[str]:
    """The names that signatures and bases of these functions and classes mention, and those that these mention."""
    mentions: dict[str, set[str]] = {}
    for path in files():
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                mentions.setdefault(node.name, set()).update(_mentions(node))
    public, further = set(exports), set(exports)
    while further:
        further = set().union(*(mentions.get(name, ()) for name in further)) & set(mentions) - public
        public |= further
    return public


def _mentions(node: ast.AST) -> Iterator[str]:
    """The names in the annotations of a function, or in the bases, fields and public methods of a class."""
    if isinstance(node, ast.FunctionDef):
        annotations = [
            node.returns,
            *(argument.annotation for argument in ast.walk(node.args) if isinstance(argument, ast.arg)),
        ]
        parts = [part for part in annotations if part is not None]
    elif isinstance(node, ast.ClassDef):
        parts = [*node.bases, *(child.annotation for child in node.body if isinstance(child, ast.AnnAssign))]
        for child in node.body:
            if isinstance(child, ast.FunctionDef) and not child.name.startswith("_"):
                yield from _mentions(child)
    for part in parts:
        yield from (name.id for name in ast.walk(part) if isinstance(name, ast.Name))


def internal_docstrings(path: Path, exports: set[str]) -> Iterator[Docstring]:
    """The docstrings of everything internal in a file."""
    yield from _docstrings(ast.parse(path.read_text(encoding="utf-8")), str(path.relative_to(SOURCE)), exports, False)


def _docstrings(node: ast.AST, file: str, exports: set[str], is_public: bool) -> Iterator[Docstring]:
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from _docstrings(child, file, exports, is_public)
            continue
        inside = isinstance(node, ast.ClassDef) and is_public
        is_special = child.name.startswith("__") and child.name.endswith("__")
        public = (is_special or not child.name.startswith("_")) and (
            inside or child.name in exports or child.name in PRINTED
        )
        if not public and (docstring := ast.get_docstring(child)):
            yield Docstring(file, child.name, len(docstring.splitlines()))
        yield from _docstrings(child, file, exports, public and isinstance(child, ast.ClassDef))


class Measures(NamedTuple):
    """What a test counts in one file."""

    path: Path
    names: int
    pronouns: dict[str, int]
    long_docstrings: list[Docstring]


def measure() -> Iterator[Measures]:
    """The measures of each file."""
    public = public_names(exported())
    for path in files():
        mentions = names(path)
        pronouns = {name: count for name, count in mentions.items() if name in PRONOUNS}
        long = [docstring for docstring in internal_docstrings(path, public) if docstring.lines > MAX_INTERNAL_LINES]
        yield Measures(path.relative_to(PACKAGE), mentions.total(), pronouns, long)


def main(packages: list[str]) -> None:
    measures = list(measure())
    for file in measures:
        if file.path.parts[0] in packages:
            print(file.path, *(f"{name}={count}" for name, count in file.pronouns.items()))
            print(*(f"    {docstring.name}: {docstring.lines} lines" for docstring in file.long_docstrings), sep="\n")
    pronouns = sum(sum(file.pronouns.values()) for file in measures)
    print(f"{pronouns} of {sum(file.names for file in measures)} names are pronouns; ", end="")
    print(f"{sum(len(file.long_docstrings) for file in measures)} internal docstrings are too long; ", end="")
    print(f"{len(exported())} names are exported")


if __name__ == "__main__":
    main(sys.argv[1:])
