"""Scores in a column of numbers: the range is that of the training data; what is beyond is learnt as its end."""

from pathlib import Path

import pytest

import structattn as sa
from structattn.cli import main
from structattn.data import Example
from structattn.errors import ConfigError, ParseError
from structattn.tasks import get_task, metric

pytestmark = pytest.mark.integration

OPTIONS = {
    "encoder": "emb_s2t",
    "options": {"dim": 8},
    "task": "regression",
    "optimization": {"epochs": 30, "learning_rate": 0.05},
}


def rows(*scores: float) -> list[tuple[str, float]]:
    names = {-1.5: "awful", 0.0: "so so", 2.25: "fine"}
    return [(f"{names.get(score, 'odd')} film", score) for score in scores]


def test_scores_of_a_table_are_learnt_in_their_range(tmp_path: Path) -> None:
    table = tmp_path / "prices.csv"
    lines = [f"{text},{score}" for text, score in rows(-1.5, 0.0, 2.25) * 6]
    table.write_text("\n".join(["text,price", *lines]) + "\n", encoding="utf-8")
    result = sa.train(table, table, label_column="price", out=tmp_path / "run", **OPTIONS)
    model = sa.load(result.folder)
    assert model.task.score_range == (-2.0, 3.0)
    answers = [prediction.score for prediction in model.predict(["awful film", "so so film", "fine film"])]
    assert answers == pytest.approx([-1.5, 0.0, 2.25], abs=0.3)
    # What lies beyond the range is measured as it is, and learnt as the end of the range.
    evaluation = sa.evaluate(result.folder, rows(-1.5, 0.0, 9.0))
    gold, predicted = evaluation.gold, [prediction.score for prediction in evaluation.predictions]
    assert gold == (-1.5, 0.0, 9.0)
    assert evaluation.metrics["mean_squared_error"] == pytest.approx(
        metric("mean_squared_error").value(gold, predicted)
    )
    assert model.collate([Example("odd", 9.0)]).target.tolist() == [[0.0, 0.0, 0.0, 0.0, 0.0, 1.0]]
    assert "residuals, predicted minus gold" in str(evaluation.report())
    following = sa.train(rows(0.0, 9.0) * 4, continued=str(result.folder), out=tmp_path / "next")
    assert sa.load(following.folder).task.score_range == (-2.0, 3.0)


def test_pairs_have_scores_too(tmp_path: Path) -> None:
    pairs = [("a dog", "a cat", 1.5), ("a dog", "a dog", 3.0)] * 4
    result = sa.train(pairs, pairs, out=tmp_path / "run", **{**OPTIONS, "task": "pair_regression"})
    assert sa.load(result.folder).task.score_range == (1.0, 3.0)


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ((0.0, 500.0), r"the training scores are 0 to 500, expected different ones that span at most 100; rescale"),
        ((2.0, 2.0), r"the training scores are 2 to 2, expected different ones"),
    ],
)
def test_scores_that_cannot_be_learnt(scores: tuple[float, ...], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        sa.train(rows(*scores) * 4, rows(*scores), out=tmp_path / "run", **OPTIONS)


def test_a_word_among_the_scores_is_named_with_its_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "stars.csv"
    table.write_text("text,stars\nfine,4\ndull,two\n", encoding="utf-8")
    assert main(["train", "--task", "regression", "--encoder", "emb_s2t", "--data.train", str(table)]) == 2
    assert f"{table}:3: expected a number as score, got 'two'" in capsys.readouterr().err
    with pytest.raises(ParseError, match="expected a number"):
        list(get_task("regression").read(table))
