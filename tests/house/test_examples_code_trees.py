"""The phrase trees of ``examples/code_trees.py``: hand-made trees of the traps of ``ast`` and ``tokenize``."""

import importlib
from pathlib import Path
from types import ModuleType

import pytest

from repository import ROOT


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "examples")
    return importlib.import_module("code_trees")


@pytest.mark.parametrize(
    ("source", "brackets"),
    [
        ("x = a + b", "(Assign x = (BinOp a + b))"),
        ('é = "ö" + b', '(Assign é = (BinOp "ö" + b))'),
        ("y = p if t else q", "(Assign y = (IfExp p if t else q))"),
        ("f(*a, k=1)", "(Expr (Call f -LRB- (Starred \\* a) , (keyword k = 1) -RRB-))"),
        (
            "@d\ndef f(a, b=2): # one\n    return a",
            "(FunctionDef @ d def f -LRB- (arguments a , b = 2) -RRB- : (Return return a))",
        ),
        ("[i for i in s]", "(Expr (ListComp -LSB- i for (comprehension i in s) -RSB-))"),
    ],
)
def test_trees_by_hand(example: ModuleType, source: str, brackets: str) -> None:
    assert example.phrase_tree(source).to_brackets() == brackets


def test_a_page_with_the_tree_and_its_distances(example: ModuleType, tmp_path: Path) -> None:
    tree = example.main(
        [str(ROOT / "examples" / "code_trees.py"), "--function", "children", "--out", str(tmp_path / "c.html")]
    )
    assert tree.words[:4] == ("def", "children", "(", "node")
    assert (tmp_path / "c.html").read_text(encoding="utf-8").count("<svg") == 2
    with pytest.raises(SystemExit, match="expected a function nothing; it has read_tokens, "):
        example.main([str(ROOT / "examples" / "code_trees.py"), "--function", "nothing"])
