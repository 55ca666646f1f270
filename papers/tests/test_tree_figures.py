"""The figures of ``figures/tree_figures.py``: a tree by itself, and runs by attractors and by size."""

import itertools
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

import structattn as sa
from structattn.data import agreement_treebank
from structattn.files.json_yaml import read_json_lines
from structattn.inspection import attention_maps
from structattn.training import DataConfig, OptimizationConfig, RunConfig, RunFolder, run
from structattn_papers.figures import tree_figures

Draw = Callable[..., list[str]]
TREE = sa.ConstituencyTree.from_brackets("(g x (h y z))")


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return tree_figures


@pytest.fixture
def draw(
    example: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Draw:
    """The lines that the example prints."""

    def main(*words: object) -> list[str]:
        monkeypatch.setattr("sys.argv", ["figures", "--out", str(tmp_path / "figures"), *map(str, words)])
        capsys.readouterr()
        example.main()
        return capsys.readouterr().out.splitlines()

    return main


def test_accumulation_shows_the_numbers_made_by_hand(example: ModuleType) -> None:
    svg = example.accumulation_figure(TREE, [2, 0, 6], [1, 3], [1, 0.5, 2])
    for number in ("1.5", "1.333", "3.333", "4.5", "2.944", "4.875"):
        assert number in svg


def test_indices_and_mask_are_drawn(example: ModuleType) -> None:
    svg = example.embedding_index_figure(TREE)
    # Down to x there is g alone, down to y and z there are g and h; their places in g are 1, 2, 3.
    assert re.findall(r"g \(x … z\)\u2069 → [xyz]: (\d)<", svg) == ["1", "2", "2", "1", "2", "3"]
    # 25 cells, of which 3 x 2 of the words' and 2 of the lower phrase's are hatched.
    assert example.subtree_mask_figure(TREE).count(": not allowed") == 8


def test_a_tree_by_itself(draw: Draw, tmp_path: Path) -> None:
    names = ["accumulation", "indices", "mask", "root-1", "root-2"]
    assert draw("--tree", "(g x (h y z))") == [str(tmp_path / "figures" / f"tree-{name}.svg") for name in names]
    assert "h (y … z)" in (tmp_path / "figures" / "tree-indices.svg").read_text(encoding="utf-8")


def test_times_by_length(example: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    svg = example.times_figure((3, 5), batch=2, repeats=1)
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


def test_a_phrase_is_drawn_with_what_it_attends_to() -> None:
    dog = sa.Sentence(["the", "dog", "barks"], constituency=sa.ConstituencyTree.from_brackets("(S (NP the dog) barks)"))
    vocabulary = sa.Vocabulary.from_examples([dog])
    encoder = sa.build("tree_transformer", vocab_size=len(vocabulary), dim=8, num_heads=2)
    (maps, *_) = attention_maps(encoder, dog, vocabulary=vocabulary)
    svg = tree_figures.phrase_query_figure(maps, 0, 1)
    assert svg.count('class="sa-phrase"') == 2
    percents = [f"{100 * weight:.0f}%" for weight in maps.weights[0, 4, :2].tolist()]
    assert all(text in svg for text in percents)
    with pytest.raises(ValueError, match="number of one of 2 phrases, got 2"):
        tree_figures.phrase_query_figure(maps, 0, 2)
    plain = sa.build("transformer", vocab_size=len(vocabulary), dim=6, num_heads=2)
    with pytest.raises(ValueError, match="expected a map over words and phrases, got 3 rows"):
        tree_figures.phrase_query_figure(attention_maps(plain, dog, vocabulary=vocabulary)[0], 0)
