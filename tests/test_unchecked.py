"""Runs the tests of ``unchecked``, which compile, in processes in which no function checks its arguments."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
FILES = sorted((HERE / "unchecked").glob("test_*.py"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_in_a_process_of_its_own(file: Path, request: pytest.FixtureRequest) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--numprocesses", "0", str(file)]
    if request.config.getoption("--slow"):
        command.append("--slow")
    environment = os.environ | {"STRUCTATTN_UNCHECKED": "1"}
    # What the outer process says about its workers is not for the inner one.
    environment = {name: value for name, value in environment.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(command, env=environment, cwd=HERE.parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
