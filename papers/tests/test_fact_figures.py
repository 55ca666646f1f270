"""Lattices of facts: what is drawn and how dark, and the script that draws them from a run."""

import re
import sys
from pathlib import Path

import pytest
import torch

from structattn import Vocabulary
from structattn.tasks import get_task
from structattn_papers.facts import FactModel
from structattn_papers.figures import fact_figures
from structattn_papers.figures.lattice import lattice

STORY = """1 mary took the milk
2 mary went to the office
3 john went to the garden
4 where is the milk?\toffice\t1 2
1 mary took the milk
2 john went to the garden
3 where is john?\tgarden\t2
"""


def test_nodes_and_edges_are_as_dark_as_they_are_probable() -> None:
    nodes, edges = torch.tensor([[0.75, 0.25], [0.0, 1.0]]), torch.tensor([[[0.0, 0.75], [0.0, 0.25]]])
    svg = lattice(["a", "b"], ["first", "second"], nodes, edges=list(edges), path=[0, 1], notes=["0.750 · a → b"])
    assert svg.count('class="sa-edge"') == 2
    assert [float(found) for found in re.findall(r'class="sa-edge" opacity="([\d.]+)"', svg)] == [0.33, 0.78]
    for said in ("first: a: 0.750", "second: a: 0.000", "a → b: 0.750", "b → b: 0.250", "0.750 · a → b"):
        assert said in svg
    # Two of the four nodes are ringed.
    assert svg.count("sa-s-series1") - svg.count(".sa-s-series1") == 2
    assert lattice(["a", "b"], ["1", "2"], nodes, edges=list(edges), threshold=0.5).count('class="sa-edge"') == 1


def test_sizes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="lattice expects edges between 2 steps, got 0 matrices"):
        lattice(["a"], ["1", "2"], [[1.0], [1.0]], edges=[])
    with pytest.raises(ValueError, match="lattice expects as path one of 1 states for each of 1 steps"):
        lattice(["a"], ["1"], [[1.0]], edges=[], path=[1])
    with pytest.raises(ValueError, match="expected one for each of the 2 column labels"):
        lattice(["a", "b"], ["1"], [[1.0]], edges=[])


def saved(folder: Path, encoder: str) -> str:
    torch.manual_seed(0)
    vocabulary = Vocabulary(["mary", "john", "took", "the", "milk", "went", "to", "office", "garden", "where", "is"])
    task = get_task("fact_selection")
    model = FactModel.build(encoder, task, ("garden", "office"), vocabulary=vocabulary, dim=6)
    model.save_pretrained(folder)
    return str(folder)


def draw(monkeypatch: pytest.MonkeyPatch, out: Path, encoder: str, *arguments: str) -> dict[str, str]:
    stories = out / "qa.txt"
    stories.write_text(STORY, encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["fact_figures", saved(out / "run", encoder), str(stories), *arguments])
    monkeypatch.setattr(sys, "argv", [*sys.argv, "--out", str(out)])
    fact_figures.main()
    return {path.stem: path.read_text(encoding="utf-8") for path in out.glob("*.svg")}


@pytest.mark.parametrize("encoder", ["binary", "unary"])
def test_the_script_draws_the_lattice_of_a_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoder: str
) -> None:
    drawn = draw(monkeypatch, tmp_path, encoder, "--example", "0", "1")
    svg = drawn["facts-0"]
    assert "2. mary went to the office" in svg
    for step in ("step 1", "step 2"):
        shares = [float(share) for share in re.findall(rf"<title>{step}: [^<]*: ([\d.]+)</title>", svg)]
        assert len(shares) == 3
        assert sum(shares) == pytest.approx(1, abs=2e-3)
    best = [float(share) for share in re.findall(r">(\d\.\d{3}) · ", svg)]
    assert len(best) == 3
    assert best == sorted(best, reverse=True)
    assert sum(best) <= 1.002
    assert "expected: office" in svg
    assert svg.count("sa-s-series1") - svg.count(".sa-s-series1") == 2
    # The second question names a single fact, so there is no sequence to ring; a chain that repeats none has two.
    assert "sa-s-series1" not in drawn["facts-1"]
    assert len(re.findall(r">\d\.\d{3} · ", drawn["facts-1"])) == (2 if encoder == "binary" else 3)


def test_what_has_no_lattice_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="a lattice needs a chain of facts"):
        draw(monkeypatch, tmp_path, "memn2n")
    with pytest.raises(SystemExit):
        draw(monkeypatch, tmp_path, "binary", "--example", "7")
    assert "--example: no 7 among the 2 questions" in capsys.readouterr().err
