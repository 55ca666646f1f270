"""Any number of labels for a text: how they are written, learnt, decided, measured, calibrated, continued, exported."""

import csv
import io
import itertools
import json
import math
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

import structattn as sa
from structattn.cli import main
from structattn.data import Example, Vocabulary, read_examples
from structattn.data.example import join_labels, split_labels
from structattn.encoders import build
from structattn.errors import ConfigError, ParseError
from structattn.explorer import Answers
from structattn.syntax import DependencyTree, Sentence
from structattn.tasks import Task, get_task, metric
from structattn.tasks.calibration import Calibration
from structattn.tasks.multilabel import MultilabelModel
from structattn.training.calibrate_run import calibrate
from structattn.training.examples import balance

pytestmark = pytest.mark.integration

MULTILABEL = get_task("multilabel")
WORDS = {"sad": "sad", "long": "long", "loud": "loud"}
SETS = [set(each) for size in range(4) for each in itertools.combinations(WORDS, size)]
ROWS = [(" ".join(["a", *sorted(labels), "film"]), sorted(labels)) for labels in SETS]
OPTIONS = {
    "encoder": "emb_s2t",
    "options": {"dim": 16},
    "task": "multilabel",
    "optimization": {"epochs": 40, "learning_rate": 0.02},
}


def small_model(
    labels: Sequence[str] = ("long", "sad"), encoder: str = "emb_s2t", **options: object
) -> MultilabelModel:
    vocabulary = Vocabulary(["a", "film", "long", "sad"])
    return MultilabelModel(
        build(encoder, vocab_size=len(vocabulary), dim=8, **options), MULTILABEL, labels, vocabulary=vocabulary
    )


def as_table(rows: Sequence[tuple[str, Sequence[str]]], write: Callable[[Sequence[str]], str]) -> str:
    stream = io.StringIO()
    csv.writer(stream).writerows([("text", "labels"), *((text, write(labels)) for text, labels in rows)])
    return stream.getvalue()


def as_columns(rows: Sequence[tuple[str, Sequence[str]]]) -> str:
    lines = [",".join([text, *(str(int(name in labels)) for name in WORDS)]) for text, labels in rows]
    return "\n".join([",".join(["text", *WORDS]), *lines]) + "\n"


FORMS = {
    "bars.csv": as_table(ROWS, "|".join),
    "commas.csv": as_table(ROWS, ", ".join),
    "semicolons.csv": as_table(ROWS, "; ".join),
    "lists.csv": as_table(ROWS, str),
    "json.csv": as_table(ROWS, json.dumps),
    "columns.csv": as_columns(ROWS),
    "lists.jsonl": "".join(json.dumps({"text": text, "labels": labels}) + "\n" for text, labels in ROWS),
    "fast.txt": "".join(" ".join([*(f"__label__{each}" for each in labels), text]) + "\n" for text, labels in ROWS),
}


@pytest.mark.parametrize("name", FORMS)
def test_all_ways_to_write_several_labels_are_one(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(FORMS[name], encoding="utf-8")
    columns = {"label_column": list(WORDS)} if name == "columns.csv" else {}
    examples = list(MULTILABEL.read(tmp_path / name, columns=columns))
    assert [(" ".join(each.sentences[0].words), split_labels(str(each.label))) for each in examples] == ROWS


@pytest.mark.parametrize(
    ("text", "columns", "message"),
    [
        ("text,labels\nfine,['sad'\nfine,a\n", {}, "a quotation mark|expected a row|expected a list of labels"),
        ("text,labels\nfine,[sad]\n", {}, r":2: expected a list of labels, or labels with \|, ; or a comma"),
        ("text,labels\nfine,[1.5]\n", {}, r":2: expected a list of labels"),
        (
            "text,sad,loud\nfine,1,2\n",
            {"label_column": ["sad", "loud"]},
            ":2: expected 0 or 1 in column 'loud', got '2'",
        ),
        ("text,sad,loud\nfine,1,\n", {"label_column": ["sad", "loud"]}, ":2: expected 0 or 1 in column 'loud'"),
        ("text,sad\nfine,1\n", {"label_column": ["sad", "lod"]}, "expected a column 'lod'"),
    ],
)
def test_labels_that_cannot_be_read(text: str, columns: dict[str, object], message: str, tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ParseError, match=message):
        list(MULTILABEL.read(path, columns=columns))


def test_several_columns_or_labels_are_refused_where_one_is_expected(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text(FORMS["columns.csv"], encoding="utf-8")
    with pytest.raises(
        ConfigError, match=r"label_column: expected one column, got 'sad, long, loud'; .* --task multilabel"
    ):
        list(get_task("classification").read(path, columns={"label_column": list(WORDS)}))
    (tmp_path / "fast.txt").write_text("__label__sad __label__loud a film\n", encoding="utf-8")
    with pytest.raises(ParseError, match="expected one label, got 'sad' and 'loud'; --task multilabel"):
        list(read_examples(tmp_path / "fast.txt", "labelled"))
    with pytest.raises(ConfigError, match="metric 'macro_f1' compares one label with one"):
        Task("topics", answer="labels", metrics=("macro_f1",))


def test_labels_of_training_data() -> None:
    assert MULTILABEL.labels_of([Example("a", "b|c"), Example("b", ""), Example("c", "a|c")]) == ("a", "b", "c")
    assert MULTILABEL.labels_of([Example("a", "yes"), Example("b", "")]) == ("yes",)
    for answer, came in (("a|b", "the label 'a|b'"), ("", "no label")):
        with pytest.raises(
            ConfigError, match=f"all 2 training examples have {came}; nothing to learn".replace("|", r"\|")
        ):
            MULTILABEL.labels_of([Example("a", answer), Example("b", answer)])
    assert join_labels(split_labels("b|a")) == "a|b"
    assert split_labels("") == []


def test_loss_is_the_mean_binary_cross_entropy() -> None:
    model = small_model(("long", "sad", "loud"))
    # The second example has a label that the model does not know, and the last one none: only its weight is without.
    examples = [Example("a film", "long|sad"), Example("sad", "odd|sad", weight=3.0), Example("film", ""), Example("a")]
    batch = model.collate(examples)
    assert batch.target.tolist() == [[1, 1, 0], [0, 1, 0], [0, 0, 0], [0, 0, 0]]
    assert batch.weight.tolist() == [1, 3, 1, 0]
    scores = model(batch).detach()
    p = scores.sigmoid().tolist()
    losses = [
        sum(-math.log(value if on else 1 - value) for value, on in zip(row, target, strict=True)) / 3
        for row, target in zip(p, batch.target.tolist(), strict=True)
    ]
    expected = (losses[0] + 3 * losses[1] + losses[2]) / 5
    assert float(model.loss_of(scores, batch)) == pytest.approx(expected, rel=1e-5)
    with pytest.raises(ConfigError, match="no example of this batch of 1 is labelled"):
        model.loss([Example("a")])


def test_f1_of_several_labels_is_that_of_the_decisions() -> None:
    rng = np.random.default_rng(0)
    gold, predicted = (["|".join(name for name in "abc" if rng.random() < 0.4) for _ in range(50)] for _ in range(2))

    def f1(labels: str) -> float:
        both = [(g.split("|"), p.split("|")) for g, p in zip(gold, predicted, strict=True)]
        pairs = [(name in g, name in p) for g, p in both for name in labels]
        right = sum(g and p for g, p in pairs)
        return 2 * right / sum(g + p for g, p in pairs)

    assert metric("micro_f1").value(gold, predicted) == pytest.approx(f1("abc"))
    assert metric("labels_macro_f1").value(gold, predicted) == pytest.approx(sum(map(f1, "abc")) / 3)
    assert metric("micro_f1").value(["", ""], ["", ""]) == 0.0
    rows = zip(gold, predicted, strict=True)
    report = MULTILABEL.report([{"id": "0", "gold": g, "predicted": p, "texts": []} for g, p in rows])
    rates = {row["label"]: row["F1"] for row in report.tables["by label"]}
    assert [rates[name] for name in "abc"] == pytest.approx([f1(name) for name in "abc"])
    assert rates["micro average"] == pytest.approx(f1("abc"))


def test_report_names_labels_that_are_never_predicted_and_the_surest_mistakes() -> None:
    rows = [
        {"id": "0", "gold": "a|b", "predicted": "a", "scores": {"a": 0.9, "b": 0.4}, "texts": ["x"]},
        {"id": "1", "gold": "", "predicted": "a", "scores": {"a": 0.99, "b": 0.2}, "texts": ["y"]},
    ]
    report = MULTILABEL.report(rows)
    assert report.notes == ("never predicted: b (1 of 2 examples)",)
    assert [(row["label"], row["mistake"], row["example"]) for row in report.tables["surest mistakes"]] == [
        ("a", "wrong", "1"),
        ("b", "missing", "0"),
    ]


def test_decisions_of_separate_labels() -> None:
    calibration = Calibration(thresholds={"b": 0.8}, separate=True)
    assert calibration.select({"a": 0.5, "b": 0.7, "c": 0.2}) == ["a"]
    probabilities, gold = np.array([[0.5, 0.7], [0.1, 0.9]]), np.array([[True, True], [False, True]])
    decisions, right = calibration.list_decisions(probabilities, gold)
    assert decisions[:, 1].tolist() == [0.5, 0.7, 0.1, 0.9]
    assert np.allclose(decisions.sum(1), 1)
    assert right.tolist() == [1, 1, 0, 1]
    assert calibration.decide(decisions, ["a", "b"]) == ([1, 0, 0, 1], [False] * 4)
    with pytest.raises(ConfigError, match="abstain"):
        Calibration(abstain=0.5, separate=True)


def test_balanced_weights_are_those_of_the_rarest_label() -> None:
    examples = [Example("x", label) for label in ("a", "a|b", "a", "")]
    assert balance(MULTILABEL, examples) == pytest.approx([2 / 3, 2.0, 2 / 3, 2 / 3])
    single = [Example("x", label) for label in "aaab"]
    assert balance(get_task("classification"), single) == pytest.approx([2 / 3, 2 / 3, 2 / 3, 2.0])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("multilabel")
    for name in ("bars.csv", "fast.txt"):
        (folder / name).write_text(FORMS[name], encoding="utf-8")
    return sa.train(folder / "bars.csv", folder / "bars.csv", out=folder / "run", **OPTIONS).folder


def test_a_run_answers_with_all_labels_of_a_text(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    predictions = sa.load(run).predict([text for text, _ in ROWS])
    assert [prediction.details["labels"] for prediction in predictions] == [labels for _, labels in ROWS]
    assert [prediction.label for prediction in predictions] == ["|".join(labels) for _, labels in ROWS]
    evaluation = sa.evaluate(run, [*ROWS, ("a sad film", ["odd", "sad"])])
    assert evaluation.metrics["unseen_labels"] == 1
    assert evaluation.metrics["micro_f1"] == pytest.approx(26 / 27)
    assert main(["predict", str(run), "--data", str(run.parent / "fast.txt")]) == 0
    assert [json.loads(line)["labels"] for line in capsys.readouterr().out.splitlines()] == [
        labels for _, labels in ROWS
    ]
    assert "| micro average |" in (run / "best" / "README.md").read_text(encoding="utf-8")


def test_pairs_have_several_labels_too(tmp_path: Path) -> None:
    file = tmp_path / "pairs.csv"
    rows = [
        ("red dog", "a sun", "animal|sky"),
        ("red car", "a sun", "sky"),
        ("red dog", "a car", "animal"),
        ("a", "b", ""),
    ]
    file.write_text("premise,hypothesis,labels\n" + "".join(",".join(row) + "\n" for row in rows * 4))
    folder = sa.train(file, file, out=tmp_path / "run", **{**OPTIONS, "task": "pair_multilabel"}).folder
    predictions = sa.load(folder).predict([row[:2] for row in rows])
    assert ["|".join(prediction.details["labels"]) for prediction in predictions] == [row[2] for row in rows]
    with pytest.raises(ConfigError, match=r"task 'multilabel' takes one sentence, example 0 .* has 2"):
        sa.train(file, file, out=tmp_path / "other", **OPTIONS)


def test_calibration_is_of_each_decision_on_a_label(run: Path) -> None:
    noisy = [*ROWS, ("a sad film", ["loud"]), ("a long film", [])]
    result = calibrate(run, noisy, test=noisy, thresholds={"sad": 0.9})
    assert result.calibration.temperature > 1
    assert result.examples == len(noisy)
    assert result.after.negative_log_likelihood < result.before.negative_log_likelihood
    model = sa.load(run)
    assert model.calibration == result.calibration
    assert result.calibration.separate
    with pytest.raises(ConfigError, match="abstain"):
        calibrate(run, noisy, abstain=0.5)


def test_an_exported_program_answers_as_the_run(run: Path, tmp_path: Path) -> None:
    assert main(["export", str(run), str(tmp_path / "model.pt2"), "--check"]) == 0
    text = "a long loud film"
    command = [sys.executable, "load_exported.py", "model.pt2", text]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    answer, (expected,) = json.loads(done.stdout), sa.load(run).predict([text])
    assert answer["labels"] == expected.details["labels"]
    assert answer["probabilities"] == pytest.approx(expected.probabilities, abs=1e-5)


def test_a_continued_run_gets_rows_for_new_labels(run: Path, tmp_path: Path) -> None:
    more = [*ROWS, ("a dull film", ["dull"]), ("a dull sad film", ["dull", "sad"])]
    following = sa.train(more, continued=str(run), out=tmp_path / "next")
    assert sa.load(following.folder).labels == ("long", "loud", "sad", "dull")


def test_edits_are_judged_by_the_most_probable_label() -> None:
    torch.manual_seed(0)
    model = small_model(encoder="dependency_tree_lstm").eval()
    sentence = Sentence(["a", "sad", "film"], dependency=DependencyTree([3, 3, 0]))
    (prediction,) = model.predict([sentence])
    assert prediction.judged_class == max(prediction.probabilities, key=prediction.probabilities.__getitem__)
    (attribution,) = sa.inspection.leave_one_out(model, sentence)
    assert attribution.answer == prediction.judged_class
    # A page without a server carries the labels of each answer: no probability is the greatest one.
    boot = Answers({"mine": model}).boot([sentence], host="frozen")
    carried = boot["items"][0]["edits"]["mine"]["dependency"]["answers"]
    assert len(carried["probabilities"]) == 2
    assert carried["chosen"]["names"]
