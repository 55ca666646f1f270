"""A type checker reads the package as a user's script does: what is right passes, what is misspelt does not."""

import os
import re
import subprocess
import sys

import pytest

from repository import ROOT

pytest.importorskip("mypy")
pytestmark = pytest.mark.integration

SCRIPTS = {name: ROOT / "tests" / "house" / f"{name}.py" for name in ("typed_script", "misspelt_script")}


@pytest.fixture(scope="module")
def lines_with_errors() -> dict[str, set[int]]:
    # Without the repository's settings. The library's own errors are silent, as those of an installed package.
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--follow-imports=silent"]
    command += ["--cache-dir", str(ROOT / ".mypy_cache" / "scripts"), *map(str, SCRIPTS.values())]
    environment = {**os.environ, "MYPYPATH": str(ROOT / "src")}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    errors: dict[str, set[int]] = {name: set() for name in SCRIPTS}
    for name, line in re.findall(r"(\w+)\.py:(\d+): error:", done.stdout):
        errors[name].add(int(line))
    return errors


@pytest.mark.parametrize("name", SCRIPTS)
def test_errors_stand_where_a_script_says(name: str, lines_with_errors: dict[str, set[int]]) -> None:
    lines = SCRIPTS[name].read_text(encoding="utf-8").splitlines()
    expected = {number for number, line in enumerate(lines, 1) if "  # error" in line}
    assert lines_with_errors[name] == expected


def test_one_script_is_right_and_one_is_not() -> None:
    marked = {name: script.read_text(encoding="utf-8").count("  # error") for name, script in SCRIPTS.items()}
    assert marked["typed_script"] == 0
    assert marked["misspelt_script"] > 10
