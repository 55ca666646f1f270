"""What this package adds to structattn: its names, what they import, and the laws of what structattn has itself."""

import io
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import test_damaged_folders
import test_data_readers
import test_devices
import test_limits
import test_model_card
import test_model_folder
import test_resumption
import test_startup
import test_tasks
import test_trusted_code

import structattn as sa
from structattn.data import read_examples
from structattn.data.model_card import CARDS
from structattn.errors import ConfigError, ParseError
from structattn.explorer.answers import Answers
from structattn.files.text import MAX_FILE
from structattn.tables import Table
from structattn.tasks import ANSWERS, GENERATORS, METRICS, TASKS, Task
from structattn_papers import facts, questions
from structattn_papers.additions import FACT_MODELS
from structattn_papers.commands.squad import command as squad

payload, place, linear_types, whole = (
    test_trusted_code.payload,
    test_devices.place,
    test_devices.linear_types,
    test_resumption.whole,
)
OURS = "of structattn-papers"
VOCABULARY = sa.Vocabulary(["mary", "took", "the", "milk", "john", "went", "home", "where"])
STORY = "1 Mary moved.\n2 Who moved?\tMary\t1\n"
MANY_FACTS = "expected stories of at most"
CONTEXT = "The kids wash their hands . The dog barks . "
SQUAD = (
    "--train",
    "squad.json",
    "--dev",
    "squad.json",
    "--backbone",
    "backbone",
    "--max_length",
    "30",
    "--stride",
    "8",
)


def fact_model(task: Task | None = None) -> facts.FactModel:
    return facts.FactModel.build(
        "unary", task or Task("qa", answer="facts", arity=2), ("a", "b"), vocabulary=VOCABULARY, dim=4
    )


def write_questions(folder: Path) -> None:
    answers = {"Who washes?": {"text": "kids", "answer_start": 4}, "Who barks?": {"text": "dog", "answer_start": 32}}
    asked = [{"id": name, "question": name, "answers": [answer]} for name, answer in answers.items()]
    data = {"version": "1.1", "data": [{"title": "Kids", "paragraphs": [{"context": CONTEXT, "qas": asked}]}]}
    (folder / "squad.json").write_text(json.dumps(data), encoding="utf-8")


# Names.


@pytest.mark.parametrize(
    ("table", "names"),
    [
        (TASKS, {"fact_selection", "transduction"}),
        (ANSWERS, {"facts"}),
        (GENERATORS, {"formulas"}),
        (METRICS, {"correct_prefix", *(f"correct_prefix_depth{depth}" for depth in range(2, 9))}),
        (CARDS, {"facts"}),
    ],
    ids=lambda value: value.name if isinstance(value, Table) else "",
)
def test_rows_are_known_by_whom_they_are_of(table: Table[Any], names: set[str]) -> None:
    assert names <= set(table.added())
    for name in names:
        assert f"{name} ({OURS})" in str(table.unknown("nothing"))
        assert getattr(table[name], "name", name) == name


def test_nothing_is_imported_before_it_is_used() -> None:
    commands = [["--help"], ["train", "--help"], ["squad"], ["train", "--task", "trecc", "--encoder", "disan"]]
    code = f"""
import sys
from structattn.cli import main
for words in {commands}:
    main(words)
    print(sorted(name for name in sys.modules if name.startswith("structattn_papers")), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert re.search(rf"^  squad +\({OURS}\)$", done.stdout, flags=re.MULTILINE)
    said = done.stderr.splitlines()
    assert said[:2] == ["[]", "[]"]
    assert "missing --" in said[2]
    assert "structattn_papers.commands.squad" in said[3]
    assert "fact_selection (of structattn-papers)" in said[4]
    assert said[5] == said[3]


# Mistakes on the command line.

QUESTIONS = ["squad", "--dev", "{data}", "--out", "{here}/run"]
ROWS = 'trec: {command: train, options: {task: trec, encoder: disan, data.train: "{data}/trec.gz"}}\n'
WRONG = {
    "encoder of facts": (["train", "--task", "fact_selection", "--encoder", "disan"], "known: memn2n, unary, binary"),
    "questions": (
        [*QUESTIONS, "--train", "nowhere.json", "--backbone", "{model}"],
        "nowhere.json: cannot read this file",
    ),
    "backbone of questions": (
        [*QUESTIONS, "--train", "{data}", "--backbone", "nowhere"],
        "'nowhere' has no config.json",
    ),
    "adapter of questions": (
        [*QUESTIONS, "--train", "{data}", "--backbone", "{model}", "--adapter", "nowhere"],
        "nowhere/adapter_config.json: cannot read this file",
    ),
    "length of windows": (
        [*QUESTIONS, "--train", "{data}", "--backbone", "{model}", "--max_length", "0"],
        "max_length: expected at least 1, got 0",
    ),
    "paper": (["reproduce", "nowhere"], "nowhere: no paper and no file of rows"),
    "folder of a paper": (
        ["reproduce", "{here}/rows.yaml", "--papers", "{here}"],
        "/trec needs the place 'data': --places data=FOLDER",
    ),
    "seeds of a paper": (
        ["reproduce", "{here}/rows.yaml", "--seeds", "some"],
        "--seeds: expected seeds such as 1..5",
    ),
    "papers of tables": (["reproduce", "tables", "--papers", "nowhere"], "nowhere: expected the folder of the papers"),
}


def test_mistakes_are_found_without_torch(tmp_path: Path) -> None:
    (tmp_path / "rows.yaml").write_text(ROWS, encoding="utf-8")
    found = test_startup.answers([words for words, _ in WRONG.values()], tmp_path)
    for (name, (_, message)), (code, log, out, heavy) in zip(WRONG.items(), found, strict=True):
        assert not heavy, f"{name}: imports {heavy}"
        assert (code, out) == (2, ""), (name, log)
        assert message in log, name
        assert log.startswith("structattn: error: "), name
        assert log.count("\n") == 1, name


@pytest.mark.parametrize("address", FACT_MODELS.values())
def test_an_outline_has_the_options_of_the_function(address: str) -> None:
    test_startup.test_an_outline_has_the_options_of_the_function(address)


@pytest.mark.parametrize("package", ["facts", "questions", "reproduction"])
def test_a_lazy_package_has_the_names_that_it_lists(package: str) -> None:
    test_startup.test_a_lazy_package_has_the_names_that_it_lists(f"structattn_papers.{package}")


# Stories.


def test_streams_of_stories_are_read_like_files(tmp_path: Path) -> None:
    test_data_readers.test_streams_are_read_like_files("babi", STORY, tmp_path)


def test_examples_know_their_line(tmp_path: Path) -> None:
    test_data_readers.test_examples_know_their_line(tmp_path, "babi", STORY, [2])


@pytest.fixture
def low_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts.babi, "MAX_WORDS", test_limits.WORDS)
    monkeypatch.setattr(facts.babi, "MAX_FACTS", 50)


@pytest.mark.usefixtures("low_limits")
@pytest.mark.parametrize("line", ["{} Mary moved.\n", "{} " + "a " * 100 + "\n", "{} Who moved?\tMary\n"])
def test_stories_without_end_are_an_error(line: str) -> None:
    stream = test_limits.Endless(test_limits.numbered(line))
    with pytest.raises(ParseError, match=MANY_FACTS):
        for _ in read_examples(stream, "babi"):
            pass
    assert stream.given <= 3 * test_limits.LINE


@pytest.mark.usefixtures("low_limits")
def test_a_story_within_the_limits_is_read() -> None:
    lines = "".join(f"{number} a\n" for number in range(1, 50))
    (example,) = read_examples(io.StringIO(f"{lines}50 who?\ta\n"), "babi")
    assert len(example.sentences[0]) == 49


@pytest.mark.parametrize("number", ["9" * 5000, "-1", "1e3", "٣", "9" * 10])
def test_numbers_nobody_writes_are_no_numbers(number: str) -> None:
    with pytest.raises(ParseError, match="expected") as caught:
        list(read_examples(io.StringIO(f"{number} a\n"), "babi"))
    assert len(str(caught.value)) < 200


# Models.


def test_a_model_comes_back_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(test_model_folder.SAVED, "facts", lambda: fact_model(TASKS["fact_selection"]))
    test_model_folder.test_every_kind_of_model_comes_back_the_same("facts", tmp_path)


def test_a_model_has_a_card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(test_model_card.WRITTEN, "facts", fact_model)
    test_model_card.test_every_card_is_read_by_the_hub_and_by_python("facts", tmp_path)


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setitem(test_damaged_folders.KINDS, "facts", (None, sa.load, ("config.json",)))
    fact_model().save_pretrained(tmp_path / "folders" / "facts")
    return tmp_path / "folders"


def test_other_texts_in_a_folder_give_an_error_of_ours(folders: Path, tmp_path: Path) -> None:
    test_damaged_folders.test_other_texts_give_an_error_of_ours("facts", folders, tmp_path)


def test_other_values_in_a_folder_give_an_error_of_ours(
    folders: Path, tmp_path: Path, mutants: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    test_damaged_folders.test_other_values_give_an_error_of_ours("facts", folders, tmp_path, mutants, monkeypatch)


@pytest.mark.parametrize("name", [test_trusted_code.NAME, "os:_exit", "payload:"])
def test_a_model_folder_names_no_code(name: str, tmp_path: Path, payload: Path) -> None:
    test_trusted_code.test_a_model_folder_names_no_code(
        lambda folder: fact_model().save_pretrained(folder), name, tmp_path, payload
    )


def test_texts_in_place_of_a_batch_are_answered_with_the_name_of_predict() -> None:
    test_tasks.test_texts_in_place_of_a_batch_are_answered_with_the_name_of_predict(facts.FactModel)


def test_a_model_without_a_sentence_encoder_is_not_explored() -> None:
    with pytest.raises(ConfigError, match="expected a model with a sentence encoder, got one of task 'qa' without"):
        Answers({"facts": fact_model()})


# Questions.


def test_a_file_of_squad_has_the_limits_of_other_files(tmp_path: Path) -> None:
    path = tmp_path / "squad.json"
    with open(path, "wb") as stream:
        stream.truncate(MAX_FILE + 1)
    with pytest.raises(ParseError, match="expected at most") as caught:
        questions.read_squad(path)
    assert caught.value.file == str(path)


def test_the_command_takes_the_configuration_of_a_card(tmp_path: Path) -> None:
    config = questions.QuestionRun("a.json", "b.json", "bert", out="old", limit=3)
    test_model_card.test_every_command_takes_the_configuration_of_a_card("squad", squad, config, tmp_path)


def test_a_file_of_the_command_is_refused_without_importing_or_opening_what_it_names(
    call: Callable[..., tuple[int, str, str]], tmp_path: Path, payload: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(
        test_trusted_code.COMMANDS, "squad", ("--train x --dev x --backbone x --out x", ("optimization",))
    )
    law = test_trusted_code.test_a_file_of_a_command_is_refused_without_importing_or_opening_what_it_names
    law("squad", call, tmp_path, payload)


def test_hardware_is_as_asked(
    place: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    linear_types: set[Any],
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_questions(place)
    monkeypatch.setitem(test_devices.COMMANDS, "squad", (*SQUAD, "--optimization.epochs", "1"))
    monkeypatch.setattr(test_devices, "WRITE_A_RUN", (*test_devices.WRITE_A_RUN, "squad"))
    test_devices.test_products_are_computed_as_asked("squad", place, tmp_path, monkeypatch, linear_types)
    test_devices.test_what_is_not_there_is_said("squad", place, tmp_path, monkeypatch, capsys)


def test_a_killed_run_goes_on_to_the_same_bits(
    place: Path, whole: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_questions(place)
    words = ("squad", *SQUAD, "--optimization.epochs", "3", "--optimization.batch_size", "2")
    monkeypatch.setitem(test_resumption.KINDS, "questions", words)
    test_resumption.test_a_killed_run_goes_on_to_the_same_bits(
        "questions", "after", place, whole, tmp_path, monkeypatch
    )
