"""The tagger of ``examples/``, on a tiny treebank."""

import importlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

import structattn as sa
from repository import ROOT

Load = Callable[[str], ModuleType]
EXAMPLES = ROOT / "examples"
BIG_DOG = sa.Sentence(
    ["The", "big", "dog", "of", "Mary", "Smith", "saw", "it"],
    tags=["DET", "ADJ", "NOUN", "ADP", "PROPN", "PROPN", "VERB", "PRON"],
    dependency=sa.DependencyTree(
        [3, 3, 7, 5, 3, 5, 0, 7], ["det", "amod", "nsubj", "case", "nmod", "flat", "root", "obj"]
    ),
)


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Load:
    monkeypatch.syspath_prepend(EXAMPLES)

    def load(name: str) -> ModuleType:
        return importlib.import_module(name)

    return load


def test_f1_counts_spans_with_their_labels(example: Load) -> None:
    f1 = example("noun_phrases").f1
    assert f1([[(0, 1, 1), (2, 3, 1)]], [[(0, 1, 1), (2, 3, 2)]]) == 50
    assert f1([[]], [[]]) == 0


def test_words_between_phrases_are_segments(example: Load) -> None:
    assert example("noun_phrases").phrases(BIG_DOG) == [(0, 3, 1), (4, 6, 2), (7, 8, 3)]
    assert example("tag_spans").with_outside([(1, 3, 2)], 4) == [(0, 1, 0), (1, 3, 2), (3, 4, 0)]


def test_both_choices_of_spans_learn_a_tiny_treebank(
    example: Load, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "tiny.conllu"
    short = sa.Sentence(["She", "ran"], tags=["PRON", "VERB"], dependency=sa.DependencyTree([2, 0], ["nsubj", "root"]))
    sa.write_conllu(path, [BIG_DOG, short] * 8)
    scores = example("tag_spans").main([str(path), str(path), "--epochs", "30", "--sentences", "16"])
    assert scores["structured"] > 70
    assert scores["independent"] > 70
    assert "F1" in capsys.readouterr().out
    with pytest.raises(SystemExit) as stopped:
        example("tag_spans").main(["--help"])
    assert stopped.value.code == 0
