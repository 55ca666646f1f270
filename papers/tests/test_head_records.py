"""Records of runs that pretrain heads: figures on test data, and those on dev under names of their own."""

from pathlib import Path

import numpy as np
import pytest
from test_hydra import SENTENCES, folder  # noqa: F401  # a fixture

import structattn as sa
from structattn.cli import main
from structattn.files.json_yaml import read_json
from structattn_papers.reproduction.records import record_of
from structattn_papers.reproduction.rows import Row


def test_a_test_treebank_is_recorded_as_other_test_data_are(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:  # noqa: F811
    sa.write_conllu(folder / "dev.conllu", SENTENCES[:20])
    sa.write_conllu(folder / "test.conllu", SENTENCES[20:40])
    options = {"dev": "{data}/dev.conllu", "test": "{data}/test.conllu", "backbone": "{data}/backbone"}
    options |= {"heads.relation": ["head", "ancestor"] * 2, "optimization.epochs": 1, "device": "cpu"}
    row = Row(folder, "heads", "hydra pretrain", arguments=("{data}/trees.conllu",), options=options)
    places = {"data": str(folder)}
    assert main([*row.words(places), "--out", str(folder / "run"), "--json"]) == 0
    record = record_of(row, 1, folder / "run", places=places)
    assert record.split == "test"
    result = read_json(folder / "run" / "result.json")
    for start, shown in (("dev_", "relations"), ("", "test_relations")):
        for relation, report in result[shown].items():
            assert record.metrics[f"{start}area_{relation}"] == pytest.approx(report["area"])
            assert record.metrics[f"{start}accuracy_{relation}"] == pytest.approx(np.mean(report["accuracy"]))
    assert "attachment_ancestor" not in record.metrics  # ancestors are no tree
