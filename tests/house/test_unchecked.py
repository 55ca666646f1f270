"""Runs the tests of ``unchecked``, which compile, in a process in which no function checks its arguments."""

import os
import sys
from pathlib import Path

import pytest

from forking import run_forked
from repository import ROOT


def test_in_a_process_of_its_own(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one for all files, as torch takes seconds before it compiles anything."""
    monkeypatch.chdir(ROOT)
    words = ["-q", "-p", "no:cacheprovider", "--basetemp", str(tmp_path / "own"), str(ROOT / "tests" / "unchecked")]
    if request.config.getoption("--slow"):
        words.append("--slow")
    ended = run_forked(unchecked, words)
    assert ended.code == 0, ended.out[-6000:] + ended.err[-2000:]


def unchecked(words: list[str]) -> None:
    os.environ["STRUCTATTN_UNCHECKED"] = "1"
    # What the outer process says about its workers is not for the inner one.
    for name in [name for name in os.environ if name.startswith("PYTEST_")]:
        del os.environ[name]
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    sys.exit(pytest.main(words))
