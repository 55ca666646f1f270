"""How often a run opens the files of its data and of its folder: what is in memory is not read again."""

import os
import sys
from collections import Counter
from pathlib import Path

import pytest

from forking import run_forked
from structattn.cli import main

pytestmark = pytest.mark.integration

TRAIN = (
    *("train", "--task", "classification", "--encoder", "transformer", "--data.train", "reviews.csv", "--out", "run"),
    *("--options.dim", "8", "--options.num_heads", "2", "--optimization.epochs", "1", "--device", "cpu"),
)


def train_with_opens(report: Path) -> None:
    """Train in the present folder, and write the files below it that were opened into a report, one a line."""
    folder, opened = str(Path.cwd()), []

    def record(event: str, arguments: tuple[object, ...]) -> None:
        if event == "open" and isinstance(arguments[0], str | os.PathLike):
            path = os.path.abspath(arguments[0])
            if path.startswith(folder):
                opened.append(os.path.relpath(path, folder))

    sys.addaudithook(record)
    status = main(list(TRAIN))
    report.write_text("\n".join(opened), encoding="utf-8")
    sys.exit(status)


def test_a_run_on_a_table_opens_fifteen_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of them are the table: once for its first line and its checksum, once for its rows."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    rows = (f"a {'good' if number % 2 else 'bad'} film of {number},{number % 2}\n" for number in range(60))
    Path("reviews.csv").write_text("text,label\n" + "".join(rows), encoding="utf-8")
    ended = run_forked(train_with_opens, tmp_path / "opened")
    assert ended.code == 0, ended.err
    opened = (tmp_path / "opened").read_text(encoding="utf-8").splitlines()
    assert len(opened) <= 15, opened
    assert Counter(opened)["reviews.csv"] == 2
    written = {path.name for path in Path("run").rglob("*") if path.is_file()}
    assert len(written) == 10, written
    for name in written:
        assert sum(name in Path(path).name for path in opened) == (2 if name == "config.json" else 1), opened
