"""SQuAD from its files to answers: reading, a run with and without HYDRA heads, what stays frozen, and mistakes."""

import copy
import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from backbones import minilm_tokenizer, opened, tiny
from interrupting import interrupted
from structattn.backbones import HydraConfig, HydraModelForQuestionAnswering, add_heads, load_backbone
from structattn.cli import main
from structattn.errors import ConfigError, ParseError
from structattn.files.json_yaml import read_json_lines
from structattn_papers.questions import read_squad, run_questions
from structattn_papers.questions.questions_config import QuestionRun, question_optimization

pytestmark = pytest.mark.integration

CONTEXT = "The kids wash their hands . The dog barks at the ballgame . " * 3
SQUAD = {
    "version": "1.1",
    "data": [
        {
            "title": "Kids",
            "paragraphs": [
                {
                    "context": CONTEXT,
                    "qas": [
                        {"id": "a", "question": "Who washes?", "answers": [{"text": "kids", "answer_start": 4}]},
                        {"id": "b", "question": "Who barks?", "answers": [{"text": "dog", "answer_start": 32}]},
                        {"id": "c", "question": "Who sings?", "is_impossible": True, "answers": []},
                    ],
                }
            ],
        }
    ],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("squad")
    tiny("bert").save_pretrained(found / "backbone")
    minilm_tokenizer().save_pretrained(found / "backbone")
    opened(add_heads(tiny("bert"), HydraConfig(num_heads=4, gate_init=0.5))).save_pretrained(found / "adapter")
    (found / "squad.json").write_text(json.dumps(SQUAD), encoding="utf-8")
    return found


def run_of(folder: Path, out: Path, **options: Any) -> QuestionRun:
    squad = str(folder / "squad.json")
    sizes = {"max_length": 30, "stride": 8, "device": "cpu"}
    own = {name: options.pop(name) for name in ("epochs", "learning_rate", "warmup", "clip") if name in options}
    optimization = replace(question_optimization(), **{"batch_size": 4, "learning_rate": 1e-3, **own})
    paths = {"train": squad, "dev": squad, "backbone": str(folder / "backbone"), "out": str(out)}
    return QuestionRun(**{**paths, **sizes, **options, "optimization": optimization})


def test_reading(folder: Path) -> None:
    asked = read_squad(folder / "squad.json")
    assert [(one.id, one.answers, one.starts) for one in asked] == [
        ("a", ("kids",), (4,)),
        ("b", ("dog",), (32,)),
        ("c", (), ()),
    ]
    assert asked[1].context == CONTEXT


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data.pop("data"), r"expected a list under 'data' of the file"),
        (lambda data: data["data"][0].pop("paragraphs"), "under 'paragraphs' of an article"),
        (lambda data: data["data"][0]["paragraphs"][0].pop("context"), "text under 'context' of a paragraph"),
        (lambda data: data["data"].clear(), "expected at least one question"),
        (lambda data: _asked(data).update(question=7), "text under 'question' of question 'b'"),
        (lambda data: _asked(data)["answers"][0].update(answer_start="1"), "question 'b': expected a whole number"),
        (lambda data: _asked(data)["answers"][0].update(answer_start=5), "expected 'dog' at character 5"),
        (lambda data: _asked(data).update(id="a"), "an id of its own for each question, 2 have the id 'a'"),
    ],
)
def test_files_that_are_not_squad(tmp_path: Path, change: Any, message: str) -> None:
    data = copy.deepcopy(SQUAD)
    change(data)
    (tmp_path / "squad.json").write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(ParseError, match=message) as caught:
        read_squad(tmp_path / "squad.json")
    assert "squad.json" in str(caught.value)


def _asked(data: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = data["data"][0]["paragraphs"][0]["qas"][1]
    return found


def test_damaged_and_missing_files(tmp_path: Path) -> None:
    (tmp_path / "squad.json").write_text('{"data": [', encoding="utf-8")
    with pytest.raises(ParseError, match=r"squad\.json: expected SQuAD's JSON, the file is damaged"):
        read_squad(tmp_path / "squad.json")
    with pytest.raises(ParseError, match=r"nowhere\.json"):
        read_squad(tmp_path / "nowhere.json")


def test_a_run_with_heads_learns_answers_and_is_only_read_again(folder: Path, tmp_path: Path) -> None:
    before = torch.get_rng_state()
    run = run_of(folder, tmp_path / "run", adapter=str(folder / "adapter"), epochs=12, limit=2, dev_limit=2)
    found = run_questions(run)
    assert torch.equal(torch.get_rng_state(), before)
    assert found.losses[-1] < found.losses[0]
    assert found.questions == {"train": 2, "dev": 2}
    assert found.windows > 2
    answers = json.loads((tmp_path / "run" / "predictions.json").read_text())
    assert list(answers) == ["a", "b"]
    assert all(answer in CONTEXT for answer in answers.values())
    scored = list(read_json_lines(tmp_path / "run" / "predictions" / "dev.jsonl"))
    assert {row["id"]: row["predicted"] for row in scored} == answers
    for name in ("exact_match", "f1"):
        assert sum(row[name] for row in scored) / 2 == pytest.approx(found.metrics[name])
    model = HydraModelForQuestionAnswering.from_pretrained(tmp_path / "run" / "best")
    assert sum(parameter.numel() for parameter in model.parameters()) == found.parameters
    assert [row["epoch"] for row in read_json_lines(tmp_path / "run" / "metrics.jsonl")] == [*range(1, 13)]
    assert run_questions(run, resume=True) == found
    with pytest.raises(ConfigError, match="contains a finished run"):
        run_questions(run)
    with pytest.raises(ConfigError, match="cannot resume with other values of limit, dev_limit, optimization"):
        run_questions(run_of(folder, tmp_path / "run", adapter=str(folder / "adapter")), resume=True)


@pytest.mark.parametrize("precision", ["no", "bf16"])
def test_an_interrupted_run_goes_on_to_the_same_bits(folder: Path, tmp_path: Path, precision: str) -> None:
    options = {"adapter": str(folder / "adapter"), "epochs": 4, "mixed_precision": precision}
    whole = run_questions(run_of(folder, tmp_path / "whole", **options))
    assert not (tmp_path / "whole" / "checkpoint.safetensors").exists()
    run = run_of(folder, tmp_path / "parts", **options)
    with interrupted(after=2):
        run_questions(run)
    with pytest.raises(ConfigError, match="contains an unfinished run"):
        run_questions(run)
    parts = run_questions(run, resume=True)
    assert parts.losses == whole.losses
    assert parts.metrics == whole.metrics
    weights = [(tmp_path / name / "best" / "model.safetensors").read_bytes() for name in ("whole", "parts")]
    assert weights[0] == weights[1]


def test_sixteen_bits_are_near_thirty_two(folder: Path, tmp_path: Path) -> None:
    single, half = (
        run_questions(run_of(folder, tmp_path / precision, mixed_precision=precision, epochs=1, learning_rate=1e-9))
        for precision in ("no", "bf16")
    )
    assert half.losses[0] != single.losses[0]
    assert half.losses[0] == pytest.approx(single.losses[0], rel=1e-2)


def test_what_is_frozen_stays(folder: Path, tmp_path: Path) -> None:
    backbone, _ = load_backbone(folder / "backbone")
    adapter = add_heads(backbone, folder / "adapter").hydra.heads
    for frozen, heads in (("backbone", "trained"), ("heads", "trained"), ("backbone", "random")):
        out = tmp_path / f"{frozen}-{heads}"
        run_questions(run_of(folder, out, adapter=str(folder / "adapter"), frozen=frozen, heads=heads, epochs=1))
        model = HydraModelForQuestionAnswering.from_pretrained(out / "best")
        same = [torch.equal(one, model.hydra.base.state_dict()[name]) for name, one in backbone.state_dict().items()]
        assert all(same) == (frozen == "backbone")
        assert torch.equal(model.hydra.hydra.heads.query.weight, adapter.query.weight) == (frozen == "heads")


def test_the_backbone_alone_is_a_model_of_transformers(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    from transformers import AutoModelForQuestionAnswering

    squad = str(folder / "squad.json")
    words = ["squad", "--train", squad, "--dev", squad, "--backbone", str(folder / "backbone"), "--device", "cpu"]
    words += ["--optimization.epochs", "1", "--max_length", "40", "--stride", "8", "--out", str(tmp_path / "run")]
    with caplog.at_level(logging.ERROR):
        assert main([*words, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert set(found["metrics"]) == {"exact_match", "f1"}
        assert found["windows"] >= 3
        AutoModelForQuestionAnswering.from_pretrained(tmp_path / "run" / "best")
        assert main(words) == 2
        assert "contains a finished run" in capsys.readouterr().err
        assert main([*words, "--resume"]) == 0
        assert "3 training questions" in capsys.readouterr().out
        assert main([*words, "--seed", "2", "--resume"]) == 2
        assert "cannot resume with other values of seed" in capsys.readouterr().err
        assert main([*words, "--seed", "2", "--overwrite"]) == 0
        assert "3 training questions" in capsys.readouterr().out
        assert main([*words, "--heads", "random"]) == 2
        assert "give an adapter" in capsys.readouterr().err


@pytest.mark.parametrize(
    "options", [{"epochs": 0}, {"learning_rate": 0.0}, {"warmup": 1.5}, {"max_length": 0}, {"clip": 0.0}, {"seed": -1}]
)
def test_values_out_of_range(folder: Path, tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        run_of(folder, tmp_path, **options)


def test_windows_are_no_longer_than_the_backbone_reads(folder: Path, tmp_path: Path) -> None:
    for adapter in (None, str(folder / "adapter")):
        with pytest.raises(ConfigError, match="max_length: expected at most the 64 tokens of this backbone, got 65"):
            run_questions(run_of(folder, tmp_path / "run", adapter=adapter, max_length=65))
        assert not (tmp_path / "run").exists()
