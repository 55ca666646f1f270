"""Who may import whom: the floors of the house, read from the source with ``ast``."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "src" / "structattn"

ABOVE_DISTRIBUTIONS = {"syntax", "data", "functional", "kernels", "distributions", "priors", "layers", "encoders"}
ALLOWED = {
    "syntax": set(),
    "pictures": {"syntax"},
    "data": {"syntax"},
    "functional": {"kernels"},
    "kernels": set(),
    "distributions": {"functional", "kernels", "syntax"},
    "priors": {"data", "functional", "syntax"},
    "layers": {"priors", "distributions", "data", "functional", "kernels", "syntax"},
    "encoders": {"layers", "priors", "distributions", "data", "functional", "syntax"},
    "tasks": ABOVE_DISTRIBUTIONS,
    "pretrained": ABOVE_DISTRIBUTIONS,
    "parsing": ABOVE_DISTRIBUTIONS,
    "training": ABOVE_DISTRIBUTIONS | {"tasks", "pretrained", "parsing"},
    "inspection": ABOVE_DISTRIBUTIONS | {"tasks", "pretrained", "parsing", "training", "pictures"},
}
# Rooms that only put others together, and the doorstep.
TOP = {"cli", "demo", "registration", "__init__", "__main__"}
NO_TORCH = {"syntax", "pictures"}
EXTRAS = {
    "accelerate",
    "datasets",
    "gradio",
    "sacrebleu",
    "spacy",
    "stanza",
    "tokenizers",
    "transformers",
    "typst",
}
SOURCES = sorted(PACKAGE.rglob("*.py"))


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path: Path) -> list[tuple[str, int, bool]]:
    """(dotted module, line, whether it runs at import time) for every import in a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    lazy = {
        id(node)
        for outer in ast.walk(tree)
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef)
        or (isinstance(outer, ast.If) and "TYPE_CHECKING" in ast.dump(outer.test))
        for node in ast.walk(outer)
    }
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(alias.name, node.lineno, id(node) not in lazy) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}:{node.lineno}: relative import"
            module = node.module or ""
            if module == "structattn":
                found += [(f"structattn.{alias.name}", node.lineno, id(node) not in lazy) for alias in node.names]
            else:
                found.append((module, node.lineno, id(node) not in lazy))
    return found


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_import_goes_upstairs(path: Path) -> None:
    room = room_of(path)
    if room in TOP:
        return
    assert room in ALLOWED, f"{room} has no floor: add it to the architecture and to this table"
    for module, line, _ in imports(path):
        parts = module.split(".")
        if parts[0] != "structattn" or len(parts) == 1:
            continue
        assert parts[1] == room or parts[1] in ALLOWED[room], f"{path.name}:{line}: {room} may not import {parts[1]}"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_torch_stays_above_the_ground_floor_and_extras_are_lazy(path: Path) -> None:
    for module, line, at_import in imports(path):
        package = module.split(".")[0]
        assert not (package == "torch" and room_of(path) in NO_TORCH), f"{path.name}:{line}: torch on floor 0"
        if package in EXTRAS and at_import:
            assert path.parts[-2:] in LAZY_FILES, f"{path.name}:{line}: import {package}, an extra, where it is used"


# Files that are themselves loaded only where the extra is needed: they subclass its classes.
LAZY_FILES = {("training", "callbacks.py"), ("training", "trainer.py"), ("training", "hugging_face.py")}


def test_the_guard_can_fail(tmp_path: Path) -> None:
    path = tmp_path / "bad.py"
    path.write_text("import torch\ndef f():\n    import typst\n", encoding="utf-8")
    assert imports(path) == [("torch", 1, True), ("typst", 3, False)]
