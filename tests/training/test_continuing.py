"""A run continued on further data: classes and words grow, and its answers are at first those of the run."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

import structattn as sa
from structattn.cli import main
from structattn.data import Example
from structattn.errors import ConfigError
from structattn.files.json_yaml import read_yaml
from structattn.syntax import DependencyTree, Sentence
from structattn.tasks import ModelConfig, Task, get_task, model_class
from structattn.training.continuing import take_over

pytestmark = pytest.mark.integration

TREE = Sentence(["dogs", "bark"], dependency=DependencyTree([2, 0]))
OLD = {
    "classification": [Example("a fine film", "good"), Example("a dull film", "bad")],
    "tagging": [Example("dogs bark", "N V"), Example("cats sleep", "N V")],
    "span_tagging": [Example("Ann Lee sleeps", "B-PER I-PER O"), Example("in Rome", "O B-LOC")],
    "attachment": [Example((TREE,), "2 0")],
    "sick": [Example(("a dog", "a cat"), 2.0), Example(("a dog", "a dog"), 5.0)],
}
NEW = {
    "classification": [Example("an odd opera", "odd"), Example("a fine opera", "good")],
    "tagging": [Example("the dogs bark", "D N V")],
    "span_tagging": [Example("Acme grows", "B-ORG O")],
    "attachment": [Example((Sentence(["cats", "bark"], dependency=DependencyTree([2, 0])),), "2 0")],
    "sick": [Example(("an opera", "a cat"), 1.0)],
}


def labels(task: Task, examples: Sequence[Example]) -> tuple[str, ...]:
    names = [str(example.label) for example in examples]
    return tuple(sorted({tag for name in names for tag in name.split()} if task.answer == "tags" else set(names)))


def build(task: Task, examples: Sequence[Example], **options: Any) -> Any:
    torch.manual_seed(len(examples))
    encoder = "structured" if task.answer == "tree" else "bilstm"
    return model_class(task).from_examples(task, ModelConfig(encoder, {"dim": 6}, **options), examples)


@pytest.mark.parametrize("name", OLD)
def test_a_grown_model_answers_as_before(name: str) -> None:
    task = get_task(name)
    old = build(task, OLD[name])
    with torch.no_grad():
        for parameter in old.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    grown_task = task
    if old.labels and not task.is_regression:
        new = [label for label in labels(task, NEW[name]) if label not in old.labels]
        grown_task = Task.from_dict({**task.to_dict(), "labels": [*old.labels, *new]})
    grown = build(grown_task, NEW[name], base=old.vocabulary)
    take_over(grown, old, "run")
    assert len(grown.vocabulary) > len(old.vocabulary)
    assert grown.labels[: len(old.labels)] == old.labels
    before, after = (model.eval().predict(OLD[name]) for model in (old, grown))
    if task.is_regression:
        assert [each.score for each in after] == pytest.approx([each.score for each in before])
    else:
        assert [each.answer for each in after] == [each.answer for each in before]
    if name == "classification":
        odds = [[each.probabilities["good"] / each.probabilities["bad"] for each in each_run] for each_run in
                (before, after)]  # fmt: skip
        assert odds[0] == pytest.approx(odds[1], rel=1e-4)


def test_another_encoder_is_refused() -> None:
    old = build(get_task("classification"), OLD["classification"])
    torch.manual_seed(1)
    task = get_task("classification")
    other = model_class(task).from_examples(task, ModelConfig("emb_s2t", {"dim": 6}), OLD["classification"])
    with pytest.raises(ConfigError, match="continued: the parameters of run are not those"):
        take_over(other, old, "run")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run, its table with columns of its own, and a table with more rows, a new word and a new class."""
    folder = tmp_path_factory.mktemp("continuing")
    old = [f"a fine film,good,{n}" for n in range(8)] + [f"a dull film,bad,{n}" for n in range(8)]
    for name, rows in (("old", old), ("more", [*old[:4], *old[8:12], "an odd opera,odd,1", "so odd,odd,2"])):
        (folder / f"{name}.csv").write_text("\n".join(["body,kind,stars", *rows]) + "\n", encoding="utf-8")
    arguments = ["train", "--task", "classification", "--encoder", "bilstm", "--options.dim", "6", "--data.train"]
    arguments += [str(folder / "old.csv"), "--data.dev", str(folder / "old.csv"), "--data.text_column", "body"]
    arguments += ["--data.label_column", "kind", "--optimization.epochs", "2", "--optimization.optimizer", "adamw"]
    assert main([*arguments, "--out", str(folder / "run")]) == 0
    return folder


def test_a_run_is_continued_with_all_that_it_was_told(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "structattn.training")
    out = folder / "next"
    arguments = ["train", "--continue", str(folder / "run"), "--data.train", str(folder / "more.csv")]
    assert main([*arguments, "--optimization.learning_rate", "1e-9", "--out", str(out)]) == 0
    config = read_yaml(out / "config.yaml")
    assert config["optimization"]["optimizer"] == "adamw"
    assert (config["data"]["text_column"], config["data"]["dev"]) == ("body", str(folder / "old.csv"))
    assert sa.load(out).labels == ("bad", "good", "odd")
    before, after = (sa.evaluate(folder / name, folder / "old.csv") for name in ("run", "next"))
    assert before.metrics == after.metrics
    # The vectors of the run, and those of the words that it had not seen.
    assert "continues" in caplog.text
    assert "new classes: odd" in caplog.text
    again = sa.train(
        folder / "more.csv", continued=str(folder / "run"), out=folder / "again", optimization={"epochs": 3}
    )
    assert again.best["epoch"] <= 3
    assert sa.load(again.folder).vocabulary == sa.load(out).vocabulary


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--task", "trec"], "task: the run {run} has classification, which stays when it is continued, got trec"),
        (["--encoder", "disan"], "encoder: the run {run} has bilstm, which stays"),
        (["--options.dim", "8"], "options: the run {run} has {{'dim': 6}}, which stays"),
        (["--data.parser", "none"], "data.parser: the run {run} has None, which stays"),
        (["--init", "{run}"], "continued: expected no init beside it"),
        (["--out", "{run}", "--overwrite"], "out: expected another folder than that of the run to continue"),
        (["--continue", "nowhere"], "continued: expected a run folder, nowhere has no config.yaml"),
        (["--continue"], "--continued: expected one argument"),
    ],
)
def test_what_stays_cannot_be_changed(
    folder: Path, options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(folder / "run")
    changes = [option.format(run=run) for option in options]
    arguments = ["train", "--data.train", str(folder / "more.csv")]
    first = [] if "--continue" in options else ["--continue", run]
    assert main([*arguments, *first, *changes]) == 2
    assert message.format(run=run) in capsys.readouterr().err


def test_classes_that_the_new_data_lack_stay_and_are_named(
    folder: Path, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    rows = [("an odd opera", "odd"), ("so odd", "odd"), ("a fine film", "good"), ("fine", "good")]
    result = sa.train(rows, rows, continued=str(folder / "run"), out=tmp_path / "run", optimization={"epochs": 1})
    assert sa.load(result.folder).labels == ("bad", "good", "odd")
    assert "no example of bad: the model keeps these classes" in caplog.text
    with pytest.raises(ConfigError, match="train: expected encoder="):
        sa.train(rows, rows)


def test_init_says_what_it_leaves_behind(folder: Path, caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    caplog.set_level("INFO", "structattn.training")
    options: dict[str, Any] = {"text_column": "body", "label_column": "kind", "optimization": {"epochs": 1}}
    sa.train(
        folder / "more.csv",
        encoder="bilstm",
        options={"dim": 6},
        init=str(folder / "run"),
        out=tmp_path / "run",
        **options,
    )
    assert "its classifier, its labels and its other words stay behind (--continue keeps them)" in caplog.text


def test_translation_is_not_continued(tmp_path: Path) -> None:
    lines = ["a dog\tein Hund", "a cat\teine Katze", "the dog\tder Hund", "the cat\tdie Katze"]
    (tmp_path / "pairs.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    options: dict[str, Any] = {"options": {"dim": 6}, "holdout": 0.5, "optimization": {"epochs": 1}}
    result = sa.train(tmp_path / "pairs.tsv", encoder="bilstm", task="translation", out=tmp_path / "run", **options)
    with pytest.raises(ConfigError, match="continued: task 'translation' is answered with text"):
        sa.train(tmp_path / "pairs.tsv", continued=str(result.folder), holdout=0.5, out=tmp_path / "next")
