"""Trees handed to data that come without: by words, to every split, in training and in use."""

import json
import logging
from pathlib import Path

import pytest

import structattn as sa
from structattn.cli import main
from structattn.data import Example
from structattn.data.parses import ParseLookup, add_parses
from structattn.errors import ParseError

WASH = sa.Sentence(["Kids", "wash", "hands"], ["NOUN", "VERB", "NOUN"], sa.DependencyTree([2, 0, 2]))
BARK = sa.Sentence(["Dogs", "bark"], dependency=sa.DependencyTree([2, 0]))


def test_trees_go_by_words_and_own_trees_stay() -> None:
    own = sa.Sentence(["Dogs", "bark"], dependency=sa.DependencyTree([0, 1]))
    known = ParseLookup([WASH, BARK, own])
    pair = known(Example((sa.Sentence(WASH.words, metadata={"text": "Kids wash hands"}), own), "x", id="7", weight=2.0))
    assert pair.sentences[0].dependency == WASH.dependency
    assert pair.sentences[0].tags == WASH.tags
    assert pair.sentences[0].metadata == {"text": "Kids wash hands"}
    assert pair.sentences[1] == own
    assert (pair.label, pair.id, pair.weight) == ("x", "7", 2.0)
    found = known(Example((sa.Sentence(BARK.words),)))
    assert found.sentences[0].dependency == BARK.dependency  # the first of two
    assert known(Example((sa.Sentence([]),))).sentences[0].dependency is None
    assert known.missing == 0


def test_what_is_missing_is_counted_and_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    sa.write_conllu(tmp_path / "trees.conllu", [BARK])
    examples = [Example((sa.Sentence(words),)) for words in (["Dogs", "bark"], ["dogs", "bark"], ["hush"])]
    with caplog.at_level(logging.WARNING, logger="structattn.data"):
        found = list(add_parses(examples, tmp_path / "trees.conllu"))
    assert [example.sentences[0].dependency is None for example in found] == [False, True, True]
    assert "trees.conllu has no tree for 2 sentences" in caplog.text
    assert list(add_parses(examples, None)) == examples


def test_a_file_without_trees_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bare.conllu").write_text("1\tDogs" + "\t_" * 8 + "\n\n", encoding="utf-8")
    with pytest.raises(ParseError, match=r"bare\.conllu: expected heads of every word, sentence 1 has none"):
        ParseLookup.from_file(tmp_path / "bare.conllu")


def test_training_and_use_with_trees_of_another_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """MS-SAN with a tree distance, which refuses sentences without trees, on pairs that come without."""
    rows = ["Kids wash hands\tDogs bark\tentailment", "Dogs bark\tKids wash hands\tnot_entailment"] * 4
    lines = ["sentence1\tsentence2\tlabel", *rows]
    (tmp_path / "rte.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    sa.write_conllu(tmp_path / "trees.conllu", [WASH, BARK])
    data, trees = str(tmp_path / "rte.tsv"), str(tmp_path / "trees.conllu")
    words = ["train", "--task", "rte", "--encoder", "ms_san", "--options.dim", "6", "--optimization.epochs", "1"]
    words += ["--data.train", data, "--data.dev", data, "--device", "cpu", "--out", str(tmp_path / "run")]
    with caplog.at_level(logging.ERROR):
        assert main([*words, "--data.parser", "none"]) == 2
        assert "dependency" in capsys.readouterr().err
        assert main([*words, "--data.parses", trees]) == 0
        assert main(["eval", str(tmp_path / "run"), "--data", data]) == 2
        capsys.readouterr()
        assert main(["eval", str(tmp_path / "run"), "--data", data, "--parses", trees, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["examples"] == 8
        assert main(["predict", str(tmp_path / "run"), "--data", data, "--parses", trees]) == 0
        assert len(capsys.readouterr().out.splitlines()) == 8
    environment = json.loads((tmp_path / "run" / "environment.json").read_text())
    assert trees in environment["sha256"]
