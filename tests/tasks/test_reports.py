"""Reports agree with the metrics that they explain, and with what is counted by hand."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from structattn.data import Example
from structattn.errors import ConfigError
from structattn.syntax import DependencyTree, Sentence
from structattn.tasks import SENTIMENT, Evaluation, Prediction, Task, get_task, metric
from structattn.tasks.reports import Report

CLASSES = Task("classes")


def rows(gold: Sequence[Any], predicted: Sequence[Any], **more: Sequence[Any]) -> list[dict[str, Any]]:
    columns = {"gold": gold, "predicted": predicted, **more}
    each = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    return [{"id": str(number), "texts": [f"text {number}"], **row} for number, row in enumerate(each)]


def row(table: Sequence[Mapping[str, Any]], name: str) -> Mapping[str, Any]:
    (match,) = (values for values in table if name in values.values())
    return match


@pytest.mark.parametrize("seed", range(5))
def test_a_report_on_classes_is_what_counting_gives(seed: int) -> None:
    generator = np.random.default_rng(seed)
    gold, predicted = (generator.choice(list("abcd"), size=60, p=[0.5, 0.3, 0.15, 0.05]).tolist() for _ in range(2))
    report = CLASSES.report(rows(gold, predicted))
    table = report.tables["by class"]
    for label in "abcd":
        right = sum(g == p == label for g, p in zip(gold, predicted, strict=True))
        each = row(table, label)
        assert each["support"] == gold.count(label)
        assert each["precision"] == pytest.approx(right / max(1, predicted.count(label)))
        assert each["recall"] == pytest.approx(right / max(1, gold.count(label)))
    weights = [gold.count(label) / 60 for label in "abcd"]
    assert row(table, "macro average")["F1"] == pytest.approx(metric("macro_f1").value(gold, predicted))
    assert row(table, "micro average")["F1"] == pytest.approx(metric("accuracy").value(gold, predicted))
    assert row(table, "weighted average")["recall"] == pytest.approx(
        sum(weight * float(row(table, label)["recall"]) for weight, label in zip(weights, "abcd", strict=True))
    )
    assert report.confusion is not None
    assert np.trace(np.array(report.confusion.counts)) == sum(g == p for g, p in zip(gold, predicted, strict=True))


def test_a_class_that_is_never_predicted_is_named() -> None:
    report = CLASSES.report(rows(["good", "good", "so-so", "bad"], ["good", "bad", "good", "bad"]))
    assert report.notes == ("never predicted: so-so (1 of 4 examples)",)
    assert row(report.tables["by class"], "so-so")["F1"] == 0.0
    assert report.confusion is not None
    assert report.confusion.pairs() == [(1, "good", "bad"), (1, "so-so", "good")]
    assert "never predicted: so-so" in str(report)
    assert "never predicted: so\\-so" not in report.markdown()
    assert report.markdown().endswith("never predicted: so-so (1 of 4 examples)")


def test_the_surest_mistakes_come_first() -> None:
    scores = [{"a": 0.9, "b": 0.1}, {"a": 0.6, "b": 0.4}, {"a": 0.3, "b": 0.7}]
    report = CLASSES.report(rows(["b", "b", "b"], ["a", "a", "b"], scores=scores))
    assert [mistake["probability"] for mistake in report.tables["surest mistakes"]] == [0.9, 0.6]


def test_many_classes_are_listed_by_their_confusions() -> None:
    labels = [f"label{number:02}" for number in range(20)]
    report = CLASSES.report(rows(labels, [*labels[1:], labels[0]]))
    assert len(report.tables["most frequent confusions"]) == 10
    assert "gold \\ predicted" not in str(report)


def test_spans_are_counted_by_type() -> None:
    gold, predicted = ["B-PER I-PER O B-LOC", "O B-LOC"], ["B-PER I-PER O O", "O B-PER"]
    report = get_task("span_tagging").report(rows(gold, predicted))
    table = report.tables["by type of span"]
    assert [row(table, "PER")[key] for key in ("precision", "recall", "support")] == [0.5, 1.0, 1]
    assert row(table, "micro average")["F1"] == pytest.approx(metric("span_f1").value(gold, predicted))
    assert report.notes == ("never predicted: LOC (2 spans)",)
    assert [row["example"] for row in report.tables["sentences with most mistakes"]] == ["0", "1"]


def test_tags_are_counted_by_word() -> None:
    gold, predicted = ["N V", "N"], ["N N", "N"]
    report = get_task("tagging").report(rows(gold, predicted))
    assert row(report.tables["by tag"], "micro average")["F1"] == metric("tag_accuracy").value(gold, predicted)
    assert report.notes == ("never predicted: V (1 of 3 words)",)


def test_trees_are_counted_by_relation_length_and_projectivity() -> None:
    # "2 0 2" is projective; in "3 4 0 3" the arcs of the first two words cross.
    kept = rows(["2 0 2", "3 4 0 3"], ["2 0 1", "3 4 0 1"], relations=["nsubj root obj", "a b root a"])
    tables = get_task("attachment").report(kept).tables
    assert row(tables["by relation"], "root") == {"relation": "root", "right": 1.0, "support": 2}
    assert row(tables["by relation"], "obj")["right"] == 0.0
    assert [row(tables["by tree"], name)["right"] for name in ("projective", "non-projective")] == [2 / 3, 3 / 4]
    lengths = {values["length"]: (values["recall"], values["support"]) for values in tables["by length of the arc"]}
    assert lengths == {"root": (1.0, 2), "1": (1 / 3, 3), "2": (1.0, 2)}


def test_residuals_are_predicted_minus_gold() -> None:
    gold, predicted = [1.0, 2.0, 5.0, 5.0], [2.0, 2.0, 3.0, 4.0]
    report = get_task("sick").report(rows(gold, predicted))
    table = report.tables["residuals, predicted minus gold"]
    whole = row(table, "all")
    assert [whole[key] for key in ("mean residual", "mean absolute residual", "support")] == [-0.5, 1.0, 4]
    assert whole["root mean square"] == pytest.approx(metric("mean_squared_error").value(gold, predicted) ** 0.5)
    assert [values["support"] for values in table] == [1, 1, 2, 4]
    assert [values["residual"] for values in report.tables["largest residuals"]][:2] == [-2.0, 1.0]
    assert "all" in str(report)


@pytest.mark.parametrize(
    ("task", "gold", "predicted"),
    [
        ("classification", ["a", "b"], ["a", "a"]),
        ("tagging", ["N V", "N"], ["N N", "N"]),
        ("span_tagging", ["B-X O"], ["O O"]),
        ("attachment", ["2 0"], ["0 1"]),
        ("sick", [1.0, 1.0], [2.0, 1.0]),
        ("translation", ["ein Hund"], ["ein"]),
    ],
)
def test_a_report_is_plain_values(task: str, gold: Sequence[Any], predicted: Sequence[Any]) -> None:
    report = get_task(task).report(rows(gold, predicted))
    assert str(Report.from_dict(json.loads(json.dumps(report.to_dict())))) == str(report)


def evaluation(task: Task, gold: Sequence[Any], predictions: Sequence[Prediction], *examples: Example) -> Evaluation:
    return Evaluation({"accuracy": 0.5}, tuple(predictions), tuple(gold), examples, task)


def test_an_evaluation_has_a_report_a_confusion_matrix_and_a_frame() -> None:
    answers = [
        Prediction("x", "good", None, {"bad": 0.2, "good": 0.8}),
        Prediction("y", "good", None, {"bad": 0.4, "good": 0.6}),
    ]
    result = evaluation(SENTIMENT, ["good", "bad"], answers, Example("so fine"), Example("so dull"))
    assert repr(result) == "Evaluation(accuracy=0.5, predictions=2)"
    assert result.confusion().counts == ((0, 1), (0, 1))
    pandas = pytest.importorskip("pandas")
    frame = result.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert frame.to_dict("list") == {
        "id": ["x", "y"],
        "gold": ["good", "bad"],
        "predicted": ["good", "good"],
        "p(bad)": [0.2, 0.4],
        "p(good)": [0.8, 0.6],
        "texts": ["so fine", "so dull"],
    }
    with pytest.raises(ConfigError, match="only answers that are classes"):
        evaluation(get_task("sick"), [1.0], [Prediction("x", None, 2.0, {})], Example(("a", "b"))).confusion()


def test_rows_of_trees_have_the_relations_of_gold() -> None:
    sentence = Sentence(["dogs", "bark"], dependency=DependencyTree([2, 0], ["nsubj", "root"]))
    result = evaluation(
        get_task("attachment"), ["2 0"], [Prediction("x", None, None, {}, text="2 0")], Example((sentence,))
    )
    (kept,) = result.rows()
    assert kept["relations"] == "nsubj root"
    assert row(result.report().tables["by relation"], "nsubj")["right"] == 1.0
