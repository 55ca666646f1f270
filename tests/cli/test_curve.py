"""``structattn curve``: sizes times seeds, the table, the picture, and what continues."""

import json
from pathlib import Path
from statistics import mean

import pytest

from structattn.cli import main
from structattn.files.json_yaml import read_json, read_yaml

pytestmark = pytest.mark.integration


@pytest.fixture
def arguments(tmp_path: Path) -> list[str]:
    rows = [f"so {'fine' if number % 2 else 'dull'} {number},{'good' if number % 2 else 'bad'}" for number in range(20)]
    (tmp_path / "data.csv").write_text("\n".join(["text,label", *rows]) + "\n", encoding="utf-8")
    data = str(tmp_path / "data.csv")
    names = ["--task", "classification", "--encoder", "emb_s2t", "--options.dim", "4", "--data.train", data]
    return [*names, "--data.dev", data, "--optimization.epochs", "1", "--out", str(tmp_path / "curve")]


def test_a_curve_has_a_row_for_each_size(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["curve", *arguments, "--sizes", "12,all", "--seeds", "1,2"]) == 0
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split() == ["encoder", "examples", "accuracy", "on", "dev", "sd", "seeds"]
    for line, folder, size in zip(lines, ("12", "all"), (12, 20), strict=True):
        results = [read_json(tmp_path / "curve" / folder / f"seed{seed}" / "result.json") for seed in (1, 2)]
        assert {result["examples"]["train"] for result in results} == {size}
        value = mean(result["metrics"]["accuracy"] for result in results)
        assert line.split()[:3] == ["emb_s2t", str(size), f"{value:.4f}"]
    assert read_yaml(tmp_path / "curve" / "12" / "seed2" / "config.yaml")["data"]["sample"] == 12
    assert (tmp_path / "curve" / "curve.svg").read_text(encoding="utf-8").count('class="sa-point"') == 2
    assert main(["curve", *arguments, "--sizes", "12,all,10", "--seeds", "1,2", "--resume", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["size"], row["seed"]) for row in rows] == [(12, 1), (12, 2), (20, 1), (20, 2), (10, 1), (10, 2)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--sizes", "12,some"], "--sizes: expected numbers of examples or all, such as 100,300,all, got 'some'"),
        (["--sizes", "0"], "--sizes: expected numbers of examples or all"),
        (["--sizes", "30"], "data.sample: expected at most the 20 training examples, got 30"),
        (["--sizes", "all", "--seeds", "1,1"], "--seeds: expected each seed once"),
        ([], "missing --sizes"),
    ],
)
def test_what_is_no_curve(
    arguments: list[str], options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["curve", *arguments, *options]) == 2
    assert message in capsys.readouterr().err
    assert main(["curve", *arguments[:-2], "--sizes", "all"]) == 2
    assert "--out: expected a folder for the runs and the curve" in capsys.readouterr().err
