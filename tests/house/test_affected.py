"""Which tests a change touches, on a small repository that is written here."""

from pathlib import Path

import pytest

from affected import FileGraph, select

FILES = {
    "src/structattn/__init__.py": '_NAMES = {"load": "training"}\n',
    "src/structattn/layers/__init__.py": (
        "if TYPE_CHECKING:\n"
        "    from structattn.layers.attention import Attention\n"
        "    from structattn.layers.gates import Gate\n"
    ),
    "src/structattn/layers/attention.py": "from structattn.priors.prior import Prior\n",
    "src/structattn/layers/gates.py": '"""A gate: >>> is no example."""\n\nopen("gates.json")\n',
    "src/structattn/layers/gates.json": "{}",
    "src/structattn/priors/prior.py": '"""A prior.\n\n>>> 1 + 1\n2\n"""\n',
    "src/structattn/training/__init__.py": "if TYPE_CHECKING:\n    from structattn.training.models import load\n",
    "src/structattn/training/models.py": "def load():\n    from structattn.layers import Attention\n",
    "src/structattn/encoders/table.py": 'ROWS = {"tree": "structattn.encoders.tree:tree"}\n',
    "src/structattn/encoders/tree.py": "def tree(): ...\n",
    "examples/picture.py": "import structattn as sa\n\nsa.layers.Gate()\n",
    "docs/guide.md": "# Guide\n",
    "pyproject.toml": "",
    "CHANGELOG.md": "",
    "conftest.py": "",
    "tests/helper.py": "import structattn\n\nstructattn.layers.Gate\n",
    "tests/reading.py": "ROOT = None\n",
    "tests/layers/test_attention.py": "from structattn.layers import Attention\n",
    "tests/layers/test_gates.py": "from helper import gate\n",
    "tests/training/test_load.py": "import structattn as sa\n\nsa.load\n",
    "tests/encoders/test_table.py": "from structattn.encoders.table import ROWS\n",
    "tests/house/test_docs.py": 'from reading import ROOT\n\nPAGES = (ROOT / "docs").glob("*")\nFILES = ROOT / name\n',
    "tests/house/test_examples.py": 'from reading import ROOT\n\nEXAMPLE = ROOT / "examples" / "picture.py"\n',
}
GATES = ["tests/house/test_examples.py", "tests/layers/test_gates.py"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def touched(root: Path, *changes: str) -> tuple[list[str], str]:
    """What is selected, in order, and why it is everything."""
    paths = [root / name for name in changes]
    removed = [path for path in paths if path.suffix == ".py" and not path.exists()]
    files, reason = select(FileGraph(root, removed), paths)
    return [str(file.relative_to(root)) for file in files], reason


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("src/structattn/layers/gates.py", GATES),  # through a helper, and through an example that a test reads
        ("src/structattn/layers/gates.json", GATES),
        ("src/structattn/training/models.py", ["tests/training/test_load.py"]),  # sa.load
        ("src/structattn/encoders/tree.py", ["tests/encoders/test_table.py"]),  # named in a string
        (
            "src/structattn/layers/__init__.py",
            ["tests/layers/test_attention.py", *GATES, "tests/training/test_load.py"],
        ),
        ("tests/helper.py", ["tests/layers/test_gates.py"]),
        ("tests/layers/test_gates.py", ["tests/layers/test_gates.py"]),
        ("examples/picture.py", ["tests/house/test_examples.py"]),
        ("docs/guide.md", ["tests/house/test_docs.py"]),
        ("CHANGELOG.md", []),
    ],
)
def test_a_change_touches_what_needs_it(root: Path, change: str, expected: list[str]) -> None:
    files, reason = touched(root, change)
    assert (sorted(files), reason) == (sorted(expected), "")


def test_the_closest_tests_come_first(root: Path) -> None:
    """A doctest, a test that imports it, and one that imports what imports it within a function."""
    files, _ = touched(root, "src/structattn/priors/prior.py")
    assert files == ["src/structattn/priors/prior.py", "tests/layers/test_attention.py", "tests/training/test_load.py"]


def test_several_changes_touch_all_that_each_touches(root: Path) -> None:
    files, reason = touched(root, "docs/guide.md", "tests/helper.py", "CHANGELOG.md")
    assert (sorted(files), reason) == (["tests/house/test_docs.py", "tests/layers/test_gates.py"], "")


@pytest.mark.parametrize("change", ["pyproject.toml", "conftest.py", "src/structattn/layers/new.py"])
def test_what_no_test_mentions_may_touch_all(root: Path, change: str) -> None:
    (root / change).touch()
    assert touched(root, change, "tests/helper.py") == ([], f"no test mentions {change}")


def test_a_file_that_is_gone_touches_what_still_mentions_it(root: Path) -> None:
    (root / "src" / "structattn" / "layers" / "gates.py").unlink()
    files, reason = touched(root, "src/structattn/layers/gates.py")
    assert (sorted(files), reason) == (GATES, "")
    assert touched(root, "src/structattn/layers/poolers.py") == (
        [],
        "no test mentions src/structattn/layers/poolers.py",
    )


def test_what_reads_the_whole_package_reads_its_code(root: Path) -> None:
    levels = root / "tests" / "house" / "test_levels.py"
    levels.write_text('from reading import ROOT\n\nPACKAGE = ROOT / "src" / "structattn"\n', encoding="utf-8")
    code, data = "src/structattn/layers/new.py", "src/structattn/layers/new.json"
    for name in (code, data):
        (root / name).touch()
    assert touched(root, code) == (["tests/house/test_levels.py"], "")
    assert touched(root, data) == ([], f"no test mentions {data}"), "anything may read it"
