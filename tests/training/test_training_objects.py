"""Training from Python objects: the same runs as from files, and one clear error for what is no data."""

import csv
import re
from pathlib import Path
from typing import Any

import pytest

import structattn as sa
from small_models import sentence_model
from structattn.data import Example
from structattn.errors import ConfigError, ParseError
from structattn.tasks import Task, get_task
from structattn.training import DataConfig, RunFolder, load_config
from structattn.training.in_memory import checksum
from structattn.training.prediction_inputs import read_inputs

pytestmark = pytest.mark.integration

ROWS = [(f"a {word} day", mood) for word, mood in (("bright", "cheerful"), ("grey", "sad"), ("fine", "cheerful"))] * 6
SMALL: dict[str, Any] = {"encoder": "emb_s2t", "options": {"dim": 8}, "optimization": {"epochs": 2}}


def table(path: Path) -> Path:
    with open(path, "w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([("text", "label"), *ROWS])
    return path


@pytest.mark.parametrize(
    "data",
    [
        ROWS,
        [{"text": text, "label": label} for text, label in ROWS],
        [Example(text, label, id=str(number)) for number, (text, label) in enumerate(ROWS)],
    ],
    ids=["tuples", "mappings", "examples"],
)
def test_objects_train_what_a_file_trains(tmp_path: Path, data: Any) -> None:
    path = table(tmp_path / "train.csv")
    from_file = sa.train(path, path, out=tmp_path / "file", **SMALL)
    from_objects = sa.train(data, data, out=tmp_path / "objects", **SMALL)
    assert from_objects.metrics == from_file.metrics
    predictions = [RunFolder(result.folder).predictions("dev").read_text() for result in (from_file, from_objects)]
    assert predictions[0] == predictions[1]
    assert sa.evaluate(from_objects.folder, data).metrics == pytest.approx(dict(from_file.metrics))
    assert sa.evaluate(from_objects.folder, path).metrics == sa.evaluate(sa.load(from_file.folder), data).metrics


def test_a_part_is_held_out_and_test_data_are_measured(tmp_path: Path) -> None:
    result = sa.train(ROWS, test=table(tmp_path / "test.csv"), holdout=0.2, out=tmp_path / "run", **SMALL)
    assert set(result.test) == {"accuracy", "macro_f1"}
    assert len(RunFolder(result.folder).predictions("dev").read_text().splitlines()) == round(0.2 * len(ROWS))


def test_the_run_folder_names_the_data_by_their_checksum(tmp_path: Path) -> None:
    out = tmp_path / "run"
    sa.train(ROWS, ROWS, out=out, **SMALL)
    examples = [Example(text, label, id=str(number)) for number, (text, label) in enumerate(ROWS)]
    assert load_config(RunFolder(out).config).data.train == f"python:{checksum(examples)}"
    assert sa.train(ROWS, ROWS, out=out, resume=True, **SMALL).folder == out
    with pytest.raises(ConfigError, match="cannot resume with other values of data"):
        sa.train(ROWS[1:], ROWS, out=out, resume=True, **SMALL)


def test_the_command_line_says_that_the_data_came_from_python(tmp_path: Path, call: Any) -> None:
    sa.train(ROWS, ROWS, out=tmp_path / "run", **SMALL)
    code, _, err = call("plot", tmp_path / "run", "--example", 0, "--out", tmp_path / "plots")
    assert code == 0
    assert "the examples of this run came from a Python program: give a file (--data)" in err
    code, out, _ = call("predict", tmp_path / "run", "--data", table(tmp_path / "a.csv"))
    assert code == 0
    assert len(out.splitlines()) == len(ROWS)


def test_predictions_of_texts_files_and_mappings_agree(tmp_path: Path) -> None:
    result = sa.train(ROWS, ROWS, out=tmp_path / "run", **SMALL)
    texts = [text for text, _ in ROWS]
    answers = [prediction.answer for prediction in sa.predict(result.folder, texts)]
    assert answers == [one.answer for one in sa.predict(result.folder, table(tmp_path / "a.csv"))]
    assert answers == [
        one.answer for one in sa.predict(sa.load(result.folder), [{"body": t} for t in texts], text_column="body")
    ]
    (tmp_path / "lines.txt").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    assert answers == [one.answer for one in sa.predict(result.folder, tmp_path / "lines.txt")]
    with pytest.raises(
        ConfigError, match=r"expected a file or a list of texts, got 'a day'; write predict\(model, \[te"
    ):
        sa.predict(result.folder, "a day")
    shown = repr(sa.evaluate(result.folder, ROWS))
    assert re.fullmatch(r"Evaluation\(accuracy=[\d.]+, macro_f1=[\d.]+, predictions=\d+\)", shown)


def test_lines_that_begin_with_scores_have_labels_where_the_task_has_scores(tmp_path: Path) -> None:
    task = Task("grades", score_range=(0.0, 5.0), metrics=("pearson",))
    model = sentence_model("emb_s2t", task, vocabulary=sa.Vocabulary(["a"]))
    (tmp_path / "scored.txt").write_text("2.5 a dog\n", encoding="utf-8")
    (tmp_path / "lines.txt").write_text("a dog\n", encoding="utf-8")
    assert read_inputs(model, tmp_path / "scored.txt", DataConfig())[0] == "labelled"
    assert read_inputs(model, tmp_path / "lines.txt", DataConfig())[0] == "text"


SENTIMENT = ("sentiment", ["negative", "positive"])
PAIRS = ("pair_classification", ["x", "y"])
SCORES = ("stsb", None)
TREC = ("trec", ["DESC", "HUM"])


@pytest.mark.parametrize(
    ("task", "name", "text", "columns", "format", "expected"),
    [
        (SENTIMENT, "a.txt", "positive a\n0 b c\n", {}, "labelled", [("a",), ("b c",)]),
        (SENTIMENT, "a.txt", "positive a\nb c\n0 d\n", {}, "text", [("positive a",), ("b c",), ("0 d",)]),
        (SENTIMENT, "a.txt", "positive is a word\nnegative\n", {}, "text", [("positive is a word",), ("negative",)]),
        (
            ("trec", ("DESC", "HUM")),
            "a.txt",
            "Who is it ?\nWhat now ?\n",
            {},
            "text",
            [("Who is it ?",), ("What now ?",)],
        ),
        (("sst5", None), "a.txt", "a film\nthe end\n", {}, "text", [("a film",), ("the end",)]),
        (SENTIMENT, "a.csv", "text,label\na,\nb,positive\n", {}, "csv", [("a",), ("b",)]),
        (SENTIMENT, "a.json", '{"text": "a", "label": [1]}\n', {}, "json", [("a",)]),
        (SCORES, "a.csv", "text1,text2,score\na,b,nan\nc,d,\n", {}, "csv", [("a", "b"), ("c", "d")]),
        (SCORES, "a.txt", "a b\tc\nd\te\n", {}, "text", [("a b", "c"), ("d", "e")]),
        (PAIRS, "a.txt", "a b\tc\nd\te\n", {}, "text", [("a b", "c"), ("d", "e")]),
        (PAIRS, "a.txt", "question\tsentence\nd\te\n", {}, "tsv", [("d", "e")]),
        (PAIRS, "a.txt", "q\tr\nd\te\n", {"text_column": "q,r"}, "tsv", [("d", "e")]),
    ],
)
def test_what_is_predicted_needs_no_labels_and_keeps_its_words(
    tmp_path: Path, task: Any, name: str, text: str, columns: Any, format: str, expected: list[tuple[str, ...]]
) -> None:
    model = sentence_model("emb_s2t", get_task(task[0]), vocabulary=sa.Vocabulary(["a"]), labels=task[1])
    (tmp_path / name).write_text(text, encoding="utf-8")
    found, examples = read_inputs(model, tmp_path / name, DataConfig(**columns))
    assert (found, [tuple(one.text for one in example.sentences) for example in examples]) == (format, expected)


@pytest.mark.parametrize(
    ("text", "said"),
    [("positive a\nb c\n0 d\n", ["a.txt: a label of the model begins 2 of the first 3 lines"]), ("a b\nc d\n", [])],
)
def test_texts_of_which_some_begin_with_a_label_are_warned_of(
    tmp_path: Path, text: str, said: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    model = sentence_model("emb_s2t", get_task("sentiment"), vocabulary=sa.Vocabulary(["a"]))
    (tmp_path / "a.txt").write_text(text, encoding="utf-8")
    read_inputs(model, tmp_path / "a.txt", DataConfig())
    assert len(caplog.messages) == len(said)
    assert all(part in message for part, message in zip(said, caplog.messages, strict=True))


def test_labels_are_needed_where_they_are_measured_and_pairs_need_two_texts(tmp_path: Path) -> None:
    model = sentence_model("emb_s2t", get_task("stsb"), vocabulary=sa.Vocabulary(["a"]))
    (tmp_path / "a.csv").write_text("text1,text2,score\na,b,nan\n", encoding="utf-8")
    assert len(sa.predict(model, tmp_path / "a.csv")) == 1
    with pytest.raises(ParseError, match=r"a.csv:2: expected a number as score, got 'nan'"):
        sa.evaluate(model, tmp_path / "a.csv")
    (tmp_path / "a.csv").write_text("text,label\na,good\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"takes two sentences, example 0 \(line 2\) has 1"):
        sa.predict(model, tmp_path / "a.csv")


def test_pairs_are_predicted_as_the_model_predicts_them() -> None:
    task = get_task("pair_classification")
    model = sentence_model("emb_s2t", task, vocabulary=sa.Vocabulary(["a", "dog"]), labels="xy", options={"dim": 4})
    pairs = [("a dog", "a"), ("dog", "a dog")]
    assert sa.predict(model, pairs) == model.predict(pairs)


def test_runs_are_compared_on_objects_too(tmp_path: Path) -> None:
    folders = [sa.train(ROWS, ROWS, out=tmp_path / f"run{seed}", seed=seed, **SMALL).folder for seed in (1, 2)]
    own = sa.compare([folders[0]], [folders[1]], samples=99)
    given = sa.compare([folders[0]], [folders[1]], data=iter(ROWS), samples=99)
    assert (own.metric, own.split, given.split) == ("accuracy", "dev", "the given data")
    assert given.groups == own.groups
    assert given.differences == own.differences


@pytest.mark.parametrize(
    ("data", "options", "error", "message"),
    [
        (ROWS, {"optimisation": {}}, ConfigError, "train has no option 'optimisation' \\(did you mean 'optimization'"),
        (ROWS, {"optimization": {"epoch": 2}}, ConfigError, "epoch"),
        (ROWS, {"label_column": "mood"}, ParseError, "data:1: expected a column 'mood', got 'text, label'"),
        ([("a", "x"), 3], {}, ParseError, "data:2: expected a mapping, a tuple"),
        ([("a", "b", "x")], {}, ConfigError, r"takes one sentence, example 0 \(row 1\) has 2"),
        ({"text": ["a"]}, {}, ParseError, "expected a data frame, a data set or a list of examples"),
        (ROWS, {"phrases": "all"}, ConfigError, "'all' needs a training file"),
        (["a", "b"] * 8, {}, ConfigError, "the given data: example .* of the training data has no label to learn from"),
        ([], {}, ConfigError, "data.train: expected at least one example, got none"),
        (ROWS, {"dev": []}, ConfigError, "data.dev: expected at least one example, got none"),
    ],
)
def test_mistakes(tmp_path: Path, data: Any, options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        sa.train(data, out=tmp_path / "run", **{**SMALL, **options})
    assert not (tmp_path / "run").exists() or not any((tmp_path / "run").iterdir())


def test_only_models_of_tasks_predict_and_are_evaluated(tmp_path: Path) -> None:
    encoder = sa.encoders.build("emb_s2t", vocab_size=3, dim=4)
    encoder.save_pretrained(tmp_path / "encoder")
    for answer in (sa.predict, sa.evaluate):
        with pytest.raises(ConfigError, match="encoder: expected the model of a task, it contains a SentenceEncoder"):
            answer(tmp_path / "encoder", ROWS)


@pytest.mark.parametrize("words", ["eval --data", "predict --data", "phrases --data", "plot --text", "serve --device"])
def test_commands_for_models_of_tasks_refuse_others(words: str, tmp_path: Path, call: Any) -> None:
    sa.encoders.build("emb_s2t", vocab_size=3, dim=4).save_pretrained(tmp_path / "encoder")
    (tmp_path / "texts.tsv").write_text("1\ta day\n")
    command, option = words.split()
    value = {"--data": tmp_path / "texts.tsv", "--text": "a day", "--device": "cpu"}[option]
    code, out, err = call(command, tmp_path / "encoder", option, value)
    assert (code, out) == (2, "")
    assert "encoder: expected the model of a task, it contains a SentenceEncoder" in err


def test_evaluation_needs_labels(tmp_path: Path) -> None:
    result = sa.train(ROWS, ROWS, out=tmp_path / "run", **SMALL)
    with pytest.raises(ConfigError, match=r"example 0 \(row 1\) has no label to compare with; predict needs none"):
        sa.evaluate(result.folder, ["a day"])


def test_a_collection_is_not_streamed(tmp_path: Path) -> None:
    def forever() -> Any:
        while True:
            yield "a fine film", "good"

    with pytest.raises(ConfigError, match=r"data\.streaming: expected Parquet files .*, got a collection"):
        sa.train(forever(), [("so", "good")], encoder="emb_s2t", streaming=True, out=tmp_path / "run")
