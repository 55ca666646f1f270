"""What a run remembers of its data, at every door, from every folder: columns, format, places, texts."""

import csv
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import structattn as sa
from structattn.cli.program import main
from structattn.data import Example
from structattn.errors import ParseError
from structattn.explorer import Answers
from structattn.explorer.explorer_server import ExplorerServer
from structattn.training.run_data import inherit_data_config, read_run_examples

pytestmark = pytest.mark.integration

MOODS = [(f"a {word} day", mood) for word, mood in (("bright", "good"), ("grey", "bad"), ("fine", "good"))] * 6
SMALL: dict[str, Any] = {"encoder": "emb_s2t", "options": {"dim": 8}, "optimization": {"epochs": 1}}
COLUMNS = {"text_column": "body", "label_column": "kind", "id_column": "number"}


def write(path: Path, *names: str) -> Path:
    rows = [{"number": f"r{index}", "body": text, "kind": mood} for index, (text, mood) in enumerate(MOODS)]
    with open(path, "w", newline="", encoding="utf-8") as stream:
        table = csv.DictWriter(stream, names or ("number", "body", "kind"), extrasaction="ignore")
        table.writeheader()
        table.writerows(rows)
    return path


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data in columns of unusual names, named from there, and a run on them."""
    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write(Path("train.csv"))
        write(Path("dev.csv"))
        write(Path("plain.csv"), "number", "body")
        sa.train("train.csv", "dev.csv", out="run", **COLUMNS, **SMALL)
    return folder


def explored(run: Path, *words: str) -> Sequence[Example]:
    """The examples that ``structattn explore`` offers."""
    offered: list[Example] = []

    def boot(answers: Answers, examples: Sequence[Example], **_: Any) -> dict[str, Any]:
        offered.extend(examples)
        return {}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Answers, "boot", boot)
        patch.setattr(ExplorerServer, "serve_forever", lambda server: None)
        assert main(["explore", str(run), "--no_browser", *words]) == 0
    return offered


def plotted(run: Path, out: Path, *words: str) -> str:
    assert main(["plot", str(run), "--example", "r4", "--out", str(out), *words]) == 0
    return (out / "attention.html").read_text(encoding="utf-8")


def rows_of(file: Path) -> list[dict[str, str]]:
    with open(file, newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


DOORS: dict[str, Callable[[Path, Path], int]] = {
    "evaluate": lambda run, file: len(sa.evaluate(run, file).gold),
    "predict": lambda run, file: len(sa.predict(run, file)),
    "predict without labels": lambda run, file: len(sa.predict(run, file.with_name("plain.csv"))),
    "predict rows": lambda run, file: len(sa.predict(run, [{"body": text, "number": 1} for text, _ in MOODS])),
    "evaluate by a model": lambda run, file: len(sa.evaluate(sa.load(run), file).gold),
    "evaluate rows by a model": lambda run, file: len(sa.evaluate(sa.load(run), rows_of(file)).gold),
    "predict by a model": lambda run, file: len(sa.predict(sa.load(run), file.with_name("plain.csv"))),
    "predict rows by a model": lambda run, file: len(sa.predict(sa.load(run), rows_of(file))),
    "a model's predict": lambda run, file: len(sa.load(run).predict(rows_of(file))),
    "a model's predict without labels": lambda run, file: len(
        sa.load(run).predict([{"body": t, "number": 1} for t, _ in MOODS])
    ),
    "a model's evaluate": lambda run, file: len(sa.load(run).evaluate(rows_of(file)).gold),
    "evaluate tuples": lambda run, file: len(sa.evaluate(run, MOODS).gold),
    "explore": lambda run, file: len(explored(run, "--data", str(file))),
    "explore without labels": lambda run, file: len(explored(run, "--data", str(file.with_name("plain.csv")))),
    "eval": lambda run, file: len(MOODS) * (main(["eval", str(run), "--data", str(file)]) == 0),
}


@pytest.mark.parametrize("door", DOORS)
def test_every_door_reads_the_columns_of_the_training_data(home: Path, door: str) -> None:
    assert DOORS[door](home / "run", home / "dev.csv") == len(MOODS)


def test_a_model_answers_rows_frames_and_files_as_the_command_does(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)
    model = sa.load("run")
    monkeypatch.chdir("/")
    expected = sa.predict(home / "run", home / "dev.csv")
    assert [prediction.id for prediction in expected] == [f"r{index}" for index in range(len(MOODS))]
    assert model.predict(rows_of(home / "dev.csv")) == expected
    assert sa.evaluate(model, home / "dev.csv").metrics == sa.evaluate(home / "run", home / "dev.csv").metrics
    assert model.evaluate(rows_of(home / "dev.csv")).metrics == sa.evaluate(home / "run", home / "dev.csv").metrics
    with pytest.raises(ParseError, match="expected a column 'body', got 'words'"):
        model.predict([{"words": "a day"}])
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    assert model.predict(pandas.read_csv(home / "dev.csv")) == expected


def test_columns_can_be_named_wherever_a_file_of_examples_can(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "other.csv"
    text = (home / "dev.csv").read_text(encoding="utf-8").replace("number,body,kind", "key,essay,mood")
    file.write_text(text, encoding="utf-8")
    named = ["--data", str(file), "--text_column", "essay", "--id_column", "key"]
    labelled = [*named, "--label_column", "mood"]
    assert len(explored(home / "run", *labelled)) == len(MOODS)
    assert "grey" in plotted(home / "run", tmp_path / "plots", *named)
    assert main(["eval", str(home / "run"), *labelled]) == 0
    assert main(["predict", str(home / "run"), *named]) == 0
    capsys.readouterr()
    for command in (["explore", str(home / "run")], ["plot", str(home / "run"), "--example", "r4"]):
        assert main([*command, "--text_column", "essay"]) == 2
        assert "--text_column essay needs --data FILE" in capsys.readouterr().err


def test_plot_reads_the_columns_too(home: Path, tmp_path: Path) -> None:
    for file in ("dev.csv", "plain.csv"):
        assert "grey" in plotted(home / "run", tmp_path / file, "--data", str(home / file))


def test_the_data_of_a_run_are_found_from_any_folder(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("dev.csv").write_text("number,body,kind\nx,not these,bad\n", encoding="utf-8")
    examples, split = read_run_examples(home / "run")
    assert (split, [example.id for example in examples]) == ("dev", [f"r{index}" for index in range(len(MOODS))])
    assert len(explored(home / "run")) == len(MOODS)
    assert "grey" in plotted(home / "run", tmp_path / "plots")


def test_the_texts_of_its_predictions_stand_in_for_data_that_are_gone(
    home: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.copytree(home / "run", tmp_path / "copy")
    environment = tmp_path / "copy" / "environment.json"
    environment.write_text(environment.read_text().replace(str(home), str(tmp_path / "gone")), encoding="utf-8")
    sa.train([*MOODS], [*MOODS], out=tmp_path / "objects", **SMALL)
    for run, message in (("copy", "dev.csv: cannot read this file"), ("objects", "came from a Python program")):
        caplog.clear()
        examples, _ = read_run_examples(tmp_path / run)
        assert [(example.sentences[0].text, example.label) for example in examples] == MOODS
        assert message in caplog.text
        assert "predictions/dev.jsonl are used" in caplog.text


def read_bars(path: Any) -> Iterator[Example]:
    for index, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines()):
        text, label = line.split("|")
        yield Example(text, label, id=str(index))


def test_a_format_is_that_of_files_which_end_alike(home: Path, tmp_path: Path) -> None:
    for name in ("train.bars", "test.bars"):
        (tmp_path / name).write_text("".join(f"{text}|{mood}\n" for text, mood in MOODS), encoding="utf-8")
    format = f"{__name__}:{read_bars.__name__}"
    run = sa.train(tmp_path / "train.bars", format=format, holdout=0.2, out=tmp_path / "run", **SMALL).folder
    assert len(sa.evaluate(run, tmp_path / "test.bars").gold) == len(sa.predict(run, tmp_path / "test.bars")) == 18
    assert inherit_data_config(run, tmp_path / "other.txt").format is None
    assert inherit_data_config(run, tmp_path / "test.bars", format="csv").format == "csv"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.conllu", "1\tfine\t_\t_\t_\t_\t_\t_\t_\t_\n\n"),
        ("a.mrg", "(S (JJ fine) (NN day))\n"),
        ("a.txt", "a fine day\n"),
        ("labelled.txt", "good a fine day\n"),
    ],
)
def test_columns_are_not_those_of_formats_without_any(name: str, text: str, home: Path, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    run = home / "run"
    assert len(sa.predict(run, tmp_path / name)) == 1
    assert inherit_data_config(run, tmp_path / name).columns == {}
    assert inherit_data_config(run, tmp_path / name, text_column="x").columns == {"text_column": "x"}
