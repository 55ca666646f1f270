"""Which package may import which: the levels of the packages, read from the source with ``ast``."""

import ast
import functools
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from repository import ROOT
from structattn.lazy import public_names

PACKAGE = ROOT / "src" / "structattn"

LOWEST = {"errors", "files", "options", "lazy", "tables"}
ABOVE_DISTRIBUTIONS = LOWEST | {
    "syntax",
    "data",
    "functional",
    "kernels",
    "distributions",
    "priors",
    "layers",
    "encoders",
}
ALLOWED = {
    "errors": set(),
    "lazy": set(),
    "entry_points": set(),
    "files": {"errors", "lazy"},
    "options": {"errors", "files"},
    "tables": {"errors", "entry_points", "lazy", "options"},
    "http": {"errors", "files"},
    "syntax": LOWEST,
    "pictures": LOWEST | {"syntax"},
    "data": LOWEST | {"syntax"},
    "functional": {"kernels", "lazy"},
    "kernels": {"errors"},
    "distributions": {"errors", "lazy", "functional", "kernels"},
    "priors": LOWEST | {"data", "functional", "syntax"},
    "layers": LOWEST | {"priors", "distributions", "data", "functional", "kernels", "syntax"},
    "encoders": LOWEST | {"layers", "priors", "distributions", "data", "functional", "syntax"},
    "tasks": ABOVE_DISTRIBUTIONS,
    "backbones": ABOVE_DISTRIBUTIONS,
    "parsing": ABOVE_DISTRIBUTIONS | {"backbones"},
    "training": ABOVE_DISTRIBUTIONS | {"tasks", "backbones", "parsing"},
    "inspection": ABOVE_DISTRIBUTIONS | {"tasks", "backbones", "parsing", "training", "pictures"},
    "explorer": ABOVE_DISTRIBUTIONS | {"http", "tasks", "backbones", "parsing", "training", "pictures", "inspection"},
    "serving": ABOVE_DISTRIBUTIONS | {"http", "tasks", "backbones", "parsing", "training", "inspection", "explorer"},
    "testing": ABOVE_DISTRIBUTIONS | {"tasks"},
}
# Packages that only put others together, and the top-level module.
TOP = {"cli", "__init__", "__main__"}
# Tables name what higher-level packages bring, as ``module:name``, without importing it.
TABLES = {("encoders", "encoder_table.py"), ("data", "model_folder.py")}
NO_TORCH = {"errors", "files", "entry_points", "lazy", "tables", "http", "syntax", "pictures"}
EXTRAS = {
    "accelerate",
    "anywidget",
    "datasets",
    "fsspec",
    "gradio",
    "matplotlib",
    "optuna",
    "pyarrow",
    "ray",
    "sacrebleu",
    "spacy",
    "stanza",
    "tokenizers",
    "transformers",
    "triton",
}
# Files that are themselves loaded only where the extra is needed: they subclass its classes.
LAZY_FILES = {("training", "hugging_face.py"), ("explorer", "widget.py")}
# Subpackages of such files; what is imported with the subpackage itself is not.
LAZY_PACKAGES = {("kernels", "gpu")}
SOURCES = sorted(PACKAGE.rglob("*.py"))
UNKNOWN = "a name made at run time"


class Edge(NamedTuple):
    """One mention of another module: its dotted name, where, whether it is imported with the file, or only named."""

    module: str
    line: int
    at_import: bool
    is_name: bool


def package_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def edges(path: Path) -> list[Edge]:
    """Every import of a file, by statement, by ``importlib``, as ``module:function``, or off the package itself."""
    return _edges(path.read_text(encoding="utf-8"))


@functools.cache
def _edges(source: str) -> list[Edge]:
    tree = ast.parse(source)
    lazy = {
        id(node)
        for outer in ast.walk(tree)
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef)
        or (isinstance(outer, ast.If) and "TYPE_CHECKING" in ast.dump(outer.test))
        for node in ast.walk(outer)
    }
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    names = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name == "structattn"
    }
    found = []
    for node in ast.walk(tree):
        for module in _modules(node, names, ignored=prose | parts):
            at_import = isinstance(node, ast.Import | ast.ImportFrom) and id(node) not in lazy
            is_name = isinstance(node, ast.Constant | ast.JoinedStr)
            found.append(Edge(module, int(getattr(node, "lineno", 0)), at_import, is_name))
    return found


def _modules(node: ast.AST, names: set[str], *, ignored: set[int]) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        assert node.level == 0, f"line {node.lineno}: relative import"
        module = node.module or ""
        return [_below_top(alias.name) for alias in node.names] if module == "structattn" else [module]
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in ignored:
        named = re.fullmatch(r"(structattn(?:\.\w+)+)(?::\w*)?", node.value)
        return [named[1]] if named else []
    if isinstance(node, ast.JoinedStr) and isinstance(node.values[0], ast.Constant):
        start = str(node.values[0].value)
        package = re.match(r"structattn\.(\w+)\.", start)
        return [f"structattn.{package[1]}" if package else UNKNOWN] if start.startswith("structattn.") else []
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in names:
        return [_below_top(node.attr)]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr":
        owner, name = node.args[:2]
        if isinstance(owner, ast.Name) and owner.id in names:
            return [_below_top(str(name.value)) if isinstance(name, ast.Constant) else UNKNOWN]
    return []


def _below_top(name: str) -> str:
    """The module behind a name of the package: a subpackage, that of a public name, or the top-level module."""
    return public_names("structattn").get(name, f"structattn.{name}").partition(":")[0]


def forbidden(path: Path, package: str) -> list[str]:
    """What a file of a package mentions that it may not."""
    found = []
    for module, line, _, is_name in edges(path):
        first, *rest = module.split(".")
        if is_name and path.parts[-2:] in TABLES:
            continue
        if module == UNKNOWN:
            found.append(f"{path.name}:{line}: {module}")
        elif first != "structattn" or not rest or rest[0] in (package, "__version__", *ALLOWED[package]):
            continue
        else:
            found.append(f"{path.name}:{line}: {package} may not import {rest[0]}")
    return found


def test_every_package_has_a_level() -> None:
    packages = {package_of(path) for path in SOURCES}
    assert packages - TOP == set(ALLOWED), "add it to CONTRIBUTING.md and to this table"


def test_no_import_from_a_higher_level() -> None:
    assert not [fault for path in SOURCES if package_of(path) not in TOP for fault in forbidden(path, package_of(path))]


def test_no_import_cycles() -> None:
    order: list[str] = []
    while len(order) < len(ALLOWED):
        ready = [package for package in ALLOWED if package not in order and ALLOWED[package] <= set(order)]
        assert ready, f"the packages {set(ALLOWED) - set(order)} import each other"
        order += ready


def test_the_lowest_level_does_not_import_torch() -> None:
    lowest = [path for path in SOURCES if package_of(path) in NO_TORCH]
    assert lowest
    assert not [(path.name, edge) for path in lowest for edge in edges(path) if edge.module.split(".")[0] == "torch"]


def test_extras_are_imported_where_they_are_used() -> None:
    for path in SOURCES:
        lazy = path.parts[-2:] in LAZY_FILES or (path.parts[-3:-1] in LAZY_PACKAGES and path.name != "__init__.py")
        if not lazy:
            early = [edge for edge in edges(path) if edge.at_import and edge.module.split(".")[0] in EXTRAS]
            assert not early, f"{path.name}: an extra, imported with the file"
    for file in LAZY_FILES:
        assert PACKAGE.joinpath(*file) in SOURCES


def test_importing_the_package_changes_nothing_else() -> None:
    code = """
import sys, warnings, logging
import importlib.metadata, typing
def state():
    return [list(sys.meta_path), list(sys.path_hooks), list(warnings.filters), list(logging.root.handlers), sys.path[:]]
before, loaded = state(), set(sys.modules)
import structattn
assert state() == before
assert {name.split(".")[0] for name in set(sys.modules) - loaded} == {"structattn"}, set(sys.modules) - loaded
assert not [name for name in sys.modules if name.startswith("structattn.")]
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_guard_sees_every_kind_of_edge(tmp_path: Path) -> None:
    path = tmp_path / "bad.py"
    kinds = {
        "import torch": "torch",
        "import structattn.training.run": "structattn.training.run",
        "from structattn.training import run": "structattn.training",
        "from structattn import training": "structattn.training",
        "from structattn import load": "structattn.training",
        "def f():\n    import matplotlib": "matplotlib",
        "if TYPE_CHECKING:\n    import structattn.cli": "structattn.cli",
        "x = importlib.import_module('structattn.training.run')": "structattn.training.run",
        "TABLE = {'hydra': 'structattn.backbones.hydra_encoder:hydra'}": "structattn.backbones.hydra_encoder",
        "x = importlib.import_module(f'structattn.cli.{command}')": "structattn.cli",
        "x = importlib.import_module(f'structattn.{package}')": UNKNOWN,
        "import structattn as sa\nx = sa.training": "structattn.training",
        "import structattn\nx = structattn.load('run')": "structattn.training",
        "import structattn\nx = getattr(structattn, 'training')": "structattn.training",
        "import structattn\nx = getattr(structattn, package)": UNKNOWN,
    }
    for text, module in kinds.items():
        path.write_text(text, encoding="utf-8")
        assert module in [edge.module for edge in edges(path)], text
        if module.startswith("structattn.") or module == UNKNOWN:
            assert forbidden(path, "syntax"), text
    path.write_text("import torch\ndef f():\n    import matplotlib\n", encoding="utf-8")
    assert [edge.at_import for edge in edges(path)] == [True, False]
    path.write_text('"""See structattn.training."""\nx = "structattn"\ny = f"structattn {x}"\n', encoding="utf-8")
    assert not edges(path)
    table = tmp_path / "encoders" / "encoder_table.py"
    table.parent.mkdir()
    table.write_text("TABLE = {'hydra': 'structattn.backbones.hydra_encoder:hydra'}", encoding="utf-8")
    assert not forbidden(table, "encoders"), "a table names what it does not import"
    table.write_text("from structattn.backbones import hydra_encoder", encoding="utf-8")
    assert forbidden(table, "encoders")
