"""The figures of ``examples/tree_attention_figures.py``: a tree by itself, and runs by attractors and by size."""

import importlib
import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

import structattn as sa
from structattn.data import agreement_treebank
from structattn.syntax.folders import read_json_lines
from structattn.training import DataConfig, OptimizationConfig, RunConfig, RunFolder, run

Draw = Callable[..., list[str]]


@pytest.fixture
def draw(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Draw:
    """The lines that the example prints."""
    monkeypatch.syspath_prepend(Path(__file__).parent.parent / "examples")

    def main(*words: object) -> list[str]:
        monkeypatch.setattr("sys.argv", ["figures", "--out", str(tmp_path / "figures"), *map(str, words)])
        capsys.readouterr()
        importlib.import_module("tree_attention_figures").main()
        return capsys.readouterr().out.splitlines()

    return main


def test_a_tree_by_itself(draw: Draw, tmp_path: Path) -> None:
    names = ["accumulation", "indices", "mask", "root-1", "root-2"]
    assert draw("--tree", "(g x (h y z))") == [str(tmp_path / "figures" / f"tree-{name}.svg") for name in names]
    assert "h (y … z)" in (tmp_path / "figures" / "tree-indices.svg").read_text(encoding="utf-8")


def test_times_by_length(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parent.parent / "examples")
    svg = importlib.import_module("tree_attention_figures").times_figure((3, 5), batch=2, repeats=1)
    printed = [line.split("\t")[0] for line in capsys.readouterr().out.splitlines()]
    assert printed == ["transformer", "length_matched_transformer", "tree_transformer", "tree_lstm"]
    assert all(f">{name}<" in svg for name in printed)


def test_runs_by_attractors_and_by_size(draw: Draw, tmp_path: Path) -> None:
    sentences = [
        sa.Sentence(one.words, dependency=one.dependency, metadata={"label": str(example.label), **one.metadata})
        for example in itertools.islice(agreement_treebank(3), 60)
        for one in example.sentences
    ]
    sa.write_conllu(tmp_path / "data.conllu", sentences)
    folders = []
    for limit in (20, 60):
        folders.append(tmp_path / str(limit))
        config = RunConfig(
            "agreement",
            "tree_transformer",
            DataConfig(
                str(tmp_path / "data.conllu"), dev=str(tmp_path / "data.conllu"), limit=limit, trees="dependency"
            ),
            options={"dim": 8, "num_heads": 2, "num_layers": 1},
            optimization=OptimizationConfig(epochs=1),
            out=str(folders[-1]),
        )
        run(config)
    lines = draw(
        "--attractors", f"small={folders[0]}", "--curve", f"tree={folders[0]},{folders[1]}", f"other={folders[1]}"
    )
    names, counts, shares = (line.split("\t")[1:] for line in lines[:3])
    right = [row["gold"] == row["predicted"] for row in read_json_lines(RunFolder(folders[0]).predictions("dev"))]
    for name, count, share in zip(names, counts, shares, strict=True):
        chosen = [sentence.metadata["attractors"] == name for sentence in sentences]
        assert int(count) == sum(chosen)
        found = [answer for answer, own in zip(right, chosen, strict=True) if own]
        assert float(share) == pytest.approx(sum(found) / len(found), abs=1e-4)
    assert [part.split(":")[0] for part in lines[3].split("\t")] == ["tree", "20", "60"]
    assert lines[4].split("\t")[0] == "other"
    assert lines[5].split("\t")[1:] == ["60: +0.00"]
    names = [Path(line).name for line in lines[6:]]
    assert names == ["tree-attractors.svg", "tree-curve.svg", "tree-curve-difference.svg"]
