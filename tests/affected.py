"""The tests that a change touches: ``python tests/affected.py [--since COMMIT] [--list] [options of pytest]``.

A change of a test file, of what it imports, directly or not, and of what it reads from the repository touches it. What
no test file needs, such as ``conftest.py``, may touch all of them.
"""

import argparse
import ast
import functools
import itertools
import re
import subprocess
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

from repository import ROOT

FOLDERS = ("benchmarks", "docs", "examples", "papers", "release", "src", "tests")
# Nothing that a test could see.
UNSEEN = re.compile(r"CHANGELOG\.md|CITATION\.cff|LICENSE|SECURITY\.md|\.git.*|\.ci/.*|\.pre-commit-config\.yaml")
_MODULE = re.compile(r"(?P<module>(?:structattn|structattn_papers|benchmarks)(?:\.\w+)+)(?::(?P<name>\w+))?")
_FILE = re.compile(r"[\w-]+(\.\w+)?")
_DOCTEST = re.compile(r"^\s*>>> ", re.MULTILINE)


class FileGraph:
    """Which file of a repository needs which.

    Unlike in the lanes of ``import_graph``, imports in functions count, and so do modules that are named in a string
    and files that are read: ``ROOT / "docs" / name`` needs all of ``docs``.

    Args:
        root: the repository.
        removed: Python files that are no longer there, but may still be mentioned.
    """

    def __init__(self, root: Path, removed: Collection[Path] = ()) -> None:
        self.root = root
        self.removed = frozenset(removed)
        files = sorted({*(file for folder in FOLDERS for file in (root / folder).rglob("*.py")), *removed})
        # Tests, examples and tools import each other by the names of their files.
        self.modules = {file.stem: file for file in files if file.name != "__init__.py"}
        for start in (root, root / "papers", root / "src"):
            inside = [file.relative_to(start) for file in files if file.is_relative_to(start)]
            self.modules |= {".".join(_dotted(file)): start / file for file in inside}

    def closure(self, path: Path) -> dict[Path, int]:
        """A file and all that it needs, files and folders, each with the number of steps to it."""
        closure: dict[Path, int] = {}
        steps = {path}
        while steps:
            closure |= dict.fromkeys(steps, len(set(closure.values())))
            steps = {needed for current in steps for needed in self.needs(current)} - closure.keys()
        return closure

    @functools.cache  # noqa: B019
    def needs(self, path: Path) -> frozenset[Path]:
        """What a Python file imports and reads, or the Python files of a folder."""
        if path.is_dir():
            return frozenset(path.rglob("*.py"))
        if path.suffix != ".py" or path in self.removed:
            return frozenset()
        nodes = [*_at_run_time(_parse(path))]
        packages = {
            (alias.asname or alias.name): f"{prefix}{alias.name}"
            for node in nodes
            if isinstance(node, ast.Import | ast.ImportFrom)
            for prefix in [f"{node.module}." if isinstance(node, ast.ImportFrom) else ""]
            for alias in node.names
            if self._is_package(f"{prefix}{alias.name}")
        }
        inner = {id(node.value) for node in nodes if isinstance(node, ast.Attribute) and not _is_path(node.value)}
        inner |= {id(node.left) for node in nodes if isinstance(node, ast.BinOp)}
        outer = [node for node in nodes if id(node) not in inner]
        return frozenset(file for node in outer for file in self._mentions(node, path.parent, packages))

    def _mentions(self, node: ast.AST, folder: Path, packages: dict[str, str]) -> Iterator[Path]:
        """What a node of a file in a folder mentions, where some names are bound to packages."""
        match node:
            case ast.Import(names):
                for alias in names:
                    yield from self._resolve(alias.name)
            case ast.ImportFrom(module, names):
                for alias in names:
                    yield from self._resolve(module or "", alias.name)
            case ast.Name() | ast.Attribute():  # sa.layers.MultiHeadAttention
                first, *names = ast.unparse(node).split(".")
                module = packages.get(first, "")
                while names and self._is_package(module):
                    yield from self._resolve(module, names[0])
                    module = f"{module}.{names.pop(0)}"
                if self._is_package(module) and module != "structattn":  # as a whole
                    yield self.modules[module].parent
            case ast.Constant(str(text)) if address := _MODULE.fullmatch(text):
                yield from self._resolve(address["module"], address["name"] or "")
            case ast.Constant(str(text)) if _FILE.fullmatch(text) and (folder / text).exists():
                if not (folder / text / "__init__.py").exists():
                    yield folder / text
            case ast.JoinedStr([ast.Constant(str(text)), *_]) if text.endswith("."):  # f"structattn.cli.{command}"
                if self._is_package(text[:-1]) and text != "structattn.":
                    yield self.modules[text[:-1]].parent
            case ast.BinOp(op=ast.Div()):
                parts = ast.unparse(node).split(" / ")
                written = [*itertools.takewhile(lambda part: part[0] == "'", parts[1:])]
                if parts[0] == "ROOT" and written:
                    yield self.root.joinpath(*map(ast.literal_eval, written))

    def _resolve(self, module: str, name: str = "") -> Iterator[Path]:
        """The file of a module, those of the packages it is in, and that which defines a name of it."""
        parts = module.split(".")
        for length in range(1, len(parts) + 1):
            file = self.modules.get(".".join(parts[:length]))
            if file is not None:
                yield file
        if f"{module}.{name}" in self.modules:
            yield self.modules[f"{module}.{name}"]
        elif name and self._is_package(module):
            source = self._names(self.modules[module]).get(name)
            if source is not None:
                yield from self._resolve(*source)

    def _is_package(self, module: str) -> bool:
        return module in self.modules and self.modules[module].name == "__init__.py"

    @functools.cache  # noqa: B019
    def _names(self, package: Path) -> dict[str, tuple[str, str]]:
        """Where a package has its names from: what it imports, for type checkers, too, and its table ``_NAMES``."""
        names: dict[str, tuple[str, str]] = {}
        for node in ast.walk(_parse(package)) if package not in self.removed else ():
            match node:
                case ast.ImportFrom(module, aliases):
                    names |= {alias.asname or alias.name: (module or "", alias.name) for alias in aliases}
                case ast.Assign([ast.Name("_NAMES")], ast.Dict() as table):
                    sources = ast.literal_eval(table)
                    names |= {name: (f"{package.parent.name}.{source}", name) for name, source in sources.items()}
        return names


def _is_path(node: ast.AST) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)


def _dotted(file: Path) -> tuple[str, ...]:
    parts = file.with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" else parts


@functools.cache
def _parse(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def _at_run_time(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a file without those for type checkers."""
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _at_run_time(child)


def select(graph: FileGraph, changes: Collection[Path]) -> tuple[list[Path], str]:
    """The test files and the modules with doctests that changes touch, the closest first.

    Args:
        graph: the files of the repository.
        changes: files that have been changed, added or removed.

    Returns:
        The paths, and an empty string; or no paths, and the reason why every test may be touched.
    """
    package = graph.root / "src" / "structattn"
    changes = {file for file in changes if not UNSEEN.fullmatch(str(file.relative_to(graph.root)))}
    distances: dict[Path, int] = {}
    unknown = set(changes)
    for test in itertools.chain(graph.root.glob("tests/*/test_*.py"), graph.root.glob("papers/tests/test_*.py")):
        if test.parent.name == "unchecked":  # what test_unchecked runs
            continue
        closure = graph.closure(test)
        for file in changes:
            needed = closure.keys() & {file, *file.parents}
            if needed:
                distances[test] = min(distances.get(test, len(closure)), *map(closure.__getitem__, needed))
            # That a test reads all of the package does not tell what reads a file of data in it.
            if needed - ({package} if file.suffix != ".py" else set()):
                unknown.discard(file)
    if unknown:
        return [], "no test mentions " + ", ".join(sorted(str(file.relative_to(graph.root)) for file in unknown))
    distances |= {file: 0 for file in changes if file.is_relative_to(package) and has_doctests(file)}
    return sorted(distances, key=lambda file: (distances[file], file)), ""


def has_doctests(file: Path) -> bool:
    return file.suffix == ".py" and file.exists() and _DOCTEST.search(file.read_text(encoding="utf-8")) is not None


def changed_files(root: Path, since: str) -> list[Path]:
    """The files that differ from a commit, and those that git does not know yet."""
    tracked = _git(root, "diff", "--name-only", "--no-renames", since)
    return [root / name for name in tracked + _git(root, "ls-files", "--others", "--exclude-standard")]


def left_main(root: Path) -> str:
    """The commit at which the branch left ``main``; the present one without a branch of that name."""
    try:
        return _git(root, "merge-base", "main", "HEAD")[0]
    except subprocess.CalledProcessError:
        return "HEAD"


def _git(root: Path, *words: str) -> list[str]:
    return subprocess.run(["git", *words], cwd=root, check=True, capture_output=True, text=True).stdout.splitlines()


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--since", help="a commit; without it, where this branch left main")
    parser.add_argument("--list", action="store_true", help="only print the files")
    options, for_pytest = parser.parse_known_args(words)
    since = options.since or left_main(ROOT)
    changes = changed_files(ROOT, since)
    graph = FileGraph(ROOT, removed=[file for file in changes if file.suffix == ".py" and not file.exists()])
    files, reason = select(graph, changes)
    paths = [str(file.relative_to(ROOT)) for file in files]
    if reason:
        print(f"every test, as {reason}", flush=True)
    else:
        print(f"{len(changes)} files changed since {since[:10]}; {len(paths)} files with tests", flush=True)
    if options.list:
        print(*paths, sep="\n")
    if options.list or not (paths or reason):
        return 0
    return subprocess.run([sys.executable, "-m", "pytest", *for_pytest, *paths], cwd=ROOT).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
