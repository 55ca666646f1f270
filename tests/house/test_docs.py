"""The documents stay true: every place they name exists, and the code they show runs."""

import ast
import doctest
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from repository import ROOT

PACKAGE = ROOT / "src" / "structattn"
PAGES = sorted(
    [
        *(ROOT / "docs").rglob("[!_]*.md"),
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "papers/README.md")),
    ]
)


def names_in(path: Path) -> set[str]:
    """Top-level names of a module, and ``Class.member`` for classes."""
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        targets = [node.target] if isinstance(node, ast.AnnAssign) else getattr(node, "targets", [])
        found |= {target.id for target in targets if isinstance(target, ast.Name)}
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{member.name}" for member in node.body if isinstance(member, ast.FunctionDef)}
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_place_that_a_page_names_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for file, name in re.findall(r"`([\w/]+\.py)(?:::([\w.]+))?`", text):
        path = next((root / file for root in (ROOT, PACKAGE, page.parent) if (root / file).exists()), None)
        assert path is not None, f"{page.name} names {file}, which does not exist"
        if name:
            assert name in names_in(path), f"{page.name} names {file}::{name}, which does not exist"
    for link in re.findall(r"\]\(([^)#]+)\)", text):
        if "://" not in link:
            assert (page.parent / link).exists(), f"{page.name} links to {link}, which does not exist"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_that_a_page_shows_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One namespace for a page; a block with a prompt is also held to the results it prints. A block that begins with
    the name of a file is also written there, so that what follows can import it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    namespace: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL):
        if named := re.match(r"# (\w+)\.py\n", block):
            (tmp_path / f"{named[1]}.py").write_text(block, encoding="utf-8")
            sys.modules.pop(named[1], None)
        if ">>>" in block:
            example = doctest.DocTestParser().get_doctest(block, namespace, page.name, str(page), 0)
            runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
            assert runner.run(example, clear_globs=False).failed == 0
            namespace.update(example.globs)
        else:
            exec(compile(block, str(page), "exec"), namespace)
