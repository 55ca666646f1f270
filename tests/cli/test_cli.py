"""The command line: every command on a toy corpus, exit codes and error texts."""

import contextlib
import csv
import dataclasses
import errno
import importlib.metadata
import io
import json
import math
import os
import random
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import yaml
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure

from forking import CONTEXT
from structattn.backbones.head_evaluation import RelationReport
from structattn.cli import arguments, compare_command, main, program, terminal_tables
from structattn.cli.train_command import command as train_command
from structattn.errors import ConfigError
from structattn.files.markdown import align_columns
from structattn.options.checking import parse_seeds
from structattn.options.hardware import Hardware
from structattn.tasks import TASKS
from structattn.training import Significance
from structattn.training.comparison import Comparison, Difference, Flip, Group
from structattn.training.parser_config import parser_optimization

pytestmark = pytest.mark.integration

CHEERFUL, SAD, PLAIN = ("fine", "great", "lovely"), ("dull", "awful", "bleak"), ("the", "a", "film", "plot", "of")


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two words decide: ``train.txt`` and ``dev.txt`` (label text), ``pairs.jsonl``, ``unlabelled.jsonl``."""
    folder = tmp_path_factory.mktemp("corpus")
    draw = random.Random(1)
    for name, count in (("train", 60), ("dev", 20)):
        lines = []
        for _ in range(count):
            label = draw.choice(("cheerful", "sad"))
            words = [*draw.choices(PLAIN, k=draw.randint(2, 5)), draw.choice(CHEERFUL if label == "cheerful" else SAD)]
            draw.shuffle(words)
            lines.append(f"{label} {' '.join(words)}\n")
        (folder / f"{name}.txt").write_text("".join(lines), encoding="utf-8")
    pair = {"premise": "a film", "hypothesis": "the plot", "label": "neutral"}
    (folder / "pairs.jsonl").write_text(json.dumps(pair) + "\n", encoding="utf-8")
    (folder / "unlabelled.jsonl").write_text('{"text": "a lovely plot", "id": "x"}\n', encoding="utf-8")
    (folder / "unseen.txt").write_text("furious a film\nsad the awful plot\n", encoding="utf-8")
    (folder / "one_class.txt").write_text("sad a film\nsad the plot\n", encoding="utf-8")
    (folder / "empty.txt").write_text("", encoding="utf-8")
    (folder / "bad.conllu").write_text("1\tdogs\n\n", encoding="utf-8")
    (folder / "broken.yaml").write_text("task: [\n", encoding="utf-8")
    (folder / "word.yaml").write_text("trec\n", encoding="utf-8")
    (folder / "vectors.txt").write_text("ein 1 2\nzwei 3 4\n", encoding="utf-8")
    (folder / "unknown.yaml").write_text("task: trec\ndata:\n  tran: x\n", encoding="utf-8")
    return folder


def train_arguments(corpus: Path, *more: str) -> list[str]:
    names = ["--task", "classification", "--encoder", "emb_s2t", "--options.dim", "8", "--device", "cpu"]
    files = [
        "--data.train",
        str(corpus / "train.txt"),
        "--data.dev",
        str(corpus / "dev.txt"),
        "--data.format",
        "labelled",
    ]
    return ["train", *names, *files, "--optimization.epochs", "2", "--optimization.learning_rate", "3e-2", *more]


@pytest.fixture(scope="session")
def runs(corpus: Path) -> Path:
    """A folder with the runs ``seed1`` and ``seed2``."""
    folder = corpus / "runs"
    assert main(train_arguments(corpus, "--seeds", "1..2", "--out", str(folder))) == 0
    return folder


Call = Callable[..., tuple[int, str, str]]


# The frame.


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; from structattn.cli import main; main(['--help']);"
        "heavy = {'torch', 'numpy', 'jsonargparse', 'transformers'} & set(sys.modules);"
        "sys.exit(f'loaded {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert all(name in done.stdout for name in program.COMMANDS)


def test_a_group_of_commands_has_help(call: Call) -> None:
    code, out, _ = call("hydra", "--help")
    assert (code, "hydra pretrain" in out, "hydra eval" in out, "parser train" in out) == (0, True, True, False)


@pytest.mark.parametrize("name", program.COMMANDS)
def test_every_command_has_help(name: str, call: Call) -> None:
    code, out, err = call(name, "--help")
    assert (code, err) == (0, "")
    assert out.startswith(f"usage: structattn {name}")


def test_help_of_many_options_starts_with_the_usual_ones(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    _, out, _ = call("train", "--help")
    lines = out.splitlines()
    assert len(lines) <= 200
    assert lines[0] == "usage: structattn train --task TASK --encoder ENCODER [OPTION...]"
    assert not [line for line in lines if "`" in line or "type:" in line or "null" in line or len(line) > 98]
    options = [line.split()[0].rstrip(",") for line in lines if line.startswith("  -")]
    known = {f"--{name}" for name in arguments.Signature(train_command, "train").options}
    assert {name.removesuffix(".NAME") for name in options} == known - {"--help"} | {"-h"}
    assert options[:5] == ["-h", "--config", "--task", "--encoder", "--options.NAME"]
    for said in ("structattn list encoders --options", "of random trees (default: 0)", "(default: 0.001)"):
        assert said in " ".join(out.split())


COMPLETED = {
    "structattn tr": {"train"},
    "structattn hydra ": {"pretrain", "eval"},
    "structattn parser t": {"train"},
    "structattn list e": {"encoders", "embedders"},
    "structattn train --data.tr": {"--data.train", "--data.trees", "--data.tree_seed"},
    "structattn hydra eval --bat": {"--batch_size"},
    "structattn train --device c": {"cpu", "cuda"},
    "structattn train --data.lowercase f": {"false"},
    "structattn train --encoder ms_": {"ms_san", "ms_san_sep"},
    "structattn sweep space.yaml --task sic": {"sick", "sick_entailment"},
    "structattn eval runs/a --data {here}/tr": {"{here}/train.csv"},
    "structattn export {here}/tr": {"{here}/train.csv"},
}


@pytest.mark.parametrize("line", COMPLETED)
def test_the_tab_key_completes_commands_options_and_values(line: str, tmp_path: Path) -> None:
    pytest.importorskip("argcomplete")
    (tmp_path / "train.csv").touch()
    typed, expected = line.format(here=tmp_path), {word.format(here=tmp_path) for word in COMPLETED[line]}
    asked = {"_ARGCOMPLETE": "1", "COMP_TYPE": "9", "_ARGCOMPLETE_IFS": "\n", "_ARGCOMPLETE_SUPPRESS_SPACE": "1"}
    where = {"COMP_LINE": typed, "COMP_POINT": str(len(typed)), "_ARGCOMPLETE_STDOUT_FILENAME": str(tmp_path / "found")}
    program = [sys.executable, "-c", "import sys; from structattn.cli import main; sys.exit(main([]))"]
    done = subprocess.run(program, env={**os.environ, **asked, **where}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert {word.strip() for word in (tmp_path / "found").read_text().split("\n")} == expected


def test_tables_for_a_terminal() -> None:
    assert align_columns(["encoder", "accuracy"], [["ms_san", "0.91"], ["disan", "0.9"]]) == [
        "encoder  accuracy",
        "ms_san       0.91",
        "disan         0.9",
    ]
    trees = RelationReport(0.07, 0.1, 0.09, 0.8, 0.5, 0.4, (0.6, 0.7))
    none = RelationReport(0.07, 0.1, 0.09, math.nan, None, None, ())
    _, *rows = terminal_tables.format_relations({"arc": trees, "x": none})
    assert [row.split() for row in rows] == [
        ["arc", "0.0700", "0.1000", "0.0900", "0.8000", "50.0", "40.0", "70.0"],
        ["x", "0.0700", "0.1000", "0.0900"],
    ]


def test_nothing_at_all_is_answered_with_the_usage_on_stderr(call: Call) -> None:
    code, out, err = call()
    assert (code, out) == (2, "")
    assert err.startswith("usage: structattn COMMAND")


def test_version(call: Call) -> None:
    assert call("--version")[:2] == (0, "structattn 0.1.0\n")


def failing(error: BaseException) -> Callable[..., Iterator[str]]:
    def command(*, json: bool = False) -> Iterator[str]:
        yield "first"
        raise error

    return command


FAILS = failing.__code__.co_firstlineno + 3


def test_an_error_of_a_process_of_torchrun_stands_in_its_report(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(tmp_path / "error.json"))
    _, _, err = call("predict", "nowhere", "--data", "x")
    failure = ProcessFailure(local_rank=0, pid=1, exitcode=2, error_file=str(tmp_path / "error.json"))
    assert err.strip() in str(ChildFailedError("structattn", {0: failure}))


@pytest.mark.parametrize(("world", "level"), [("2", "ERROR"), (None, None)])
def test_processes_side_by_side_do_not_repeat_warnings_of_torch(
    world: str | None, level: str | None, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("TORCH_CPP_LOG_LEVEL", None), ("WORLD_SIZE", world)):
        monkeypatch.setenv(name, "")  # so that it is as it was afterwards
        if value is None:
            monkeypatch.delenv(name)
        else:
            monkeypatch.setenv(name, value)
    assert call("list", "tasks")[0] == 0
    assert os.environ.get("TORCH_CPP_LOG_LEVEL") == level


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (
            RuntimeError("two\nlines"),  # of code that is not of the package
            2,
            f"structattn: error: RuntimeError: two lines ({__file__}, line {FAILS}; --debug shows the traceback)",
        ),
        (ConfigError("no such thing"), 2, "structattn: error: no such thing\n"),
        (FileNotFoundError(2, "No such file or directory", "a.txt"), 2, "a.txt: no such file or directory\n"),
        (OSError(28, "No space left on device"), 2, "structattn: error: no space left on device\n"),
        (OSError(errno.EIO, "Input/output error"), 2, "structattn: error: input/output error\n"),
        (OSError(errno.EDQUOT, "Disk quota exceeded", "a.txt"), 2, "a.txt: disk quota exceeded\n"),
        (OSError(errno.ELOOP, "Too many levels of symbolic links", "a"), 2, "a: too many levels of symbolic links\n"),
        (PermissionError(errno.EPERM, "Operation not permitted", "a.txt"), 2, "a.txt: operation not permitted\n"),
        (KeyboardInterrupt(), 130, "structattn: interrupted\n"),
    ],
)
def test_exit_codes(error: BaseException, code: int, said: str, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    import structattn.cli.doctor_command

    monkeypatch.setattr(structattn.cli.doctor_command, "command", failing(error))
    monkeypatch.delenv("STRUCTATTN_DEBUG", raising=False)
    found, out, err = call("doctor")
    assert (found, out) == (code, "first\n")
    assert said in err
    assert err.count("\n") == 1
    assert "Traceback" not in err


def test_an_error_of_the_package_is_a_bug(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    import structattn.cli.doctor_command

    monkeypatch.setattr(structattn.cli.doctor_command, "_versions", Mock(side_effect=RuntimeError("oops")))
    monkeypatch.delenv("STRUCTATTN_DEBUG", raising=False)
    code, _, err = call("doctor")
    hint = "this is a bug in structattn; --debug shows where"
    assert (code, err) == (1, f"structattn: error: RuntimeError: oops ({hint})\n")


def test_debug_shows_a_traceback(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    import structattn.cli.doctor_command

    monkeypatch.setattr(structattn.cli.doctor_command, "command", failing(RuntimeError("oops")))
    code, _, err = call("doctor", "--debug")
    assert code == 2
    assert "Traceback" in err
    assert "RuntimeError: oops" in err.splitlines()[-1]
    monkeypatch.setenv("STRUCTATTN_DEBUG", "1")
    assert "Traceback" in call("doctor")[2]


def test_what_a_verb_prints_is_a_log(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    import structattn.cli.doctor_command

    def command(*, json: bool = False) -> Iterator[str]:
        print("a library talks")
        yield "result"

    monkeypatch.setattr(structattn.cli.doctor_command, "command", command)
    assert call("doctor") == (0, "result\n", "a library talks\n")


def test_a_reader_that_goes_away_is_no_error(runs: Path, corpus: Path) -> None:
    many = corpus / "many.txt"
    many.write_text("a lovely film\n" * 5000, encoding="utf-8")
    reading, writing = CONTEXT.Pipe(duplex=False)
    words = ["predict", str(runs / "seed1"), "--data", str(many), "--format", "text"]
    errors = corpus / "errors.txt"
    process = CONTEXT.Process(target=write_to, args=(writing, errors, words))
    process.start()
    writing.close()
    with reading, open(reading.fileno(), encoding="utf-8", closefd=False) as lines:
        assert json.loads(lines.readline())["id"] == "0"
    process.join()
    assert (process.exitcode, errors.read_text()) == (141, "")
    process.close()


def write_to(pipe: Connection, errors: Path, words: list[str]) -> None:
    os.dup2(pipe.fileno(), 1)
    pipe.close()
    with errors.open("wb") as file:
        os.dup2(file.fileno(), 2)
    sys.argv = ["structattn", *words]
    runpy.run_module("structattn", run_name="__main__", alter_sys=True)


# Mistakes of the user: one line, exit code 2.

MISTAKES = {
    "unknown command": (["trian"], "unknown command 'trian' (did you mean 'train'?); known: demo, train"),
    "unknown option": (
        ["eval", "{run}", "--dta", "x"],
        "unknown option --dta (did you mean --data?); known: --data, --device, --f",
    ),
    "unknown group option": (
        ["train", "--optimization.epoch", "3"],
        "unknown option --optimization.epoch (did you mean --optimization.epochs?); known: --optimization.average",
    ),
    "a file for a group": (
        ["train", "--data", "x.txt"],
        "--data: expected one of its options, or a YAML file of them, got 'x.txt'; known: --data.train, --data.dev",
    ),
    "a word for options": (["train", "--options", "fast"], "--options: expected its options as --options.NAME VALUE"),
    "an option of the encoder": (["train", "--dim", "8"], "unknown option --dim (did you mean --options.dim?); known"),
    "missing positional": (["eval", "--data", "x"], "missing RUN; see structattn eval --help"),
    "missing option": (["eval", "{run}"], "missing --data; see structattn eval --help"),
    "no runs": (["compare"], "missing RUNS"),
    "wrong type": (["train", "--seed", "x"], "--seed: expected int, got x"),
    "wrong choice": (
        ["list", "verbs"],
        "KIND: expected one of 'encoders', 'embedders', 'decoders', 'tasks'",
    ),
    "missing configuration": (["train", "--config", "{corpus}/none.yaml"], "none.yaml: No such file or directory"),
    "broken configuration": (
        ["train", "--config", "{corpus}/broken.yaml"],
        "broken.yaml: expected YAML: while parsing",
    ),
    "configuration of one word": (
        ["train", "--config={corpus}/word.yaml"],
        "word.yaml: expected keys and values, got str",
    ),
    "unknown device": (["{train}", "--device", "tpu"], "--device: expected one of 'auto', 'cpu', 'cuda', got tpu; see"),
    "unknown key": (["train", "--config", "{corpus}/unknown.yaml"], "unknown.yaml: unknown option --data.tran (did"),
    "unknown encoder": (
        ["{train}", "--encoder", "disna"],
        "unknown encoder 'disna' (did you mean 'disan'?); known: backbone, bilstm",
    ),
    "unknown encoder option": (
        ["{train}", "--options.dmi", "3"],
        "unknown option 'dmi' for encoder 'emb_s2t' (did you",
    ),
    "encoder option of another type": (
        ["{train}", "--options.dim", "wide"],
        "option 'dim' of encoder 'emb_s2t': expected int | None, got 'wide'",
    ),
    "encoder option out of range": (["{train}", "--options.dropout", "1.5"], "encoder 'emb_s2t': dropout probability"),
    "vectors of other words": (
        ["{train}", "--data.vectors", "{corpus}/vectors.txt"],
        "words of the training data has a vector in",
    ),
    "empty batches": (["predict", "{run}", "--data", "x", "--batch_size", "0"], "--batch_size: expected at least 1"),
    "unknown task": (["{train}", "--task", "tec"], "unknown task 'tec' (did you mean 'trec'?); known: agreement"),
    "value out of range": (
        ["{train}", "--optimization.epochs", "0"],
        "optimization.epochs: expected at least 1, got 0",
    ),
    "missing data": (["{train}", "--data.train", "{corpus}/none.txt"], "none.txt: "),
    "empty data": (["{train}", "--data.train", "{corpus}/empty.txt"], "empty.txt: expected at least one"),
    "malformed data": (
        ["{train}", "--data.train", "{corpus}/bad.conllu", "--data.format", "conllu"],
        "bad.conllu:1: expected 10 tab-separated columns",
    ),
    "one class only": (
        ["{train}", "--data.train", "{corpus}/one_class.txt"],
        "all 2 training examples have the label 'sad'; classification needs at least two labels",
    ),
    "missing structure": (
        ["{train}", "--encoder", "ms_san", "--options.dim", "12", "--data.parser", "none"],
        "has none; it is of example '38'; parse the sentence (--parser en, sa.parse), or train without",
    ),
    "a folder that holds a run": (["{train}", "--out", "{run}"], "seed1 contains a finished run"),
    "one encoder twice": (
        ["{train}", "--encoder", "emb_s2t,emb_s2t"],
        "--encoder: expected different encoders, got emb_s2t,emb_s2t",
    ),
    "one of two encoders": (["{train}", "--encoder", "emb_s2t,mssan"], "'mssan' (did you mean 'ms_san'?)"),
    "bad seeds": (
        ["{train}", "--seeds", "5..1"],
        "--seeds: expected seeds such as 1..5 or 1,3,7, at most 1,000, got '5..1'",
    ),
    "too many seeds": (["{train}", "--seeds", "1..99999999999"], "at most 1,000, got '1..99999999999'"),
    "a large seed": (["{train}", "--seeds", "9" * 5000], "at most 1,000, got '99999"),
    "no run to evaluate": (["eval", "{corpus}/nowhere", "--data", "x"], "nowhere/config.json: cannot read this file"),
    "several runs to evaluate": (
        ["eval", "{corpus}/runs", "--data", "x"],
        "runs contains several runs; choose one of them: seed1, seed2",
    ),
    "runs further down": (["eval", "{corpus}", "--data", "x"], "choose one of them: runs/seed1, runs/seed2"),
    "no data to evaluate": (["eval", "{run}", "--data", "{corpus}/none.txt"], "none.txt: "),
    "nothing to compare with": (
        ["eval", "{run}", "--data", "{corpus}/unlabelled.jsonl"],
        "unlabelled.jsonl: example x (line 1) has no label to compare with",
    ),
    "pairs for a model of single sentences": (
        ["predict", "{run}", "--data", "{corpus}/pairs.jsonl"],
        "task 'classification' takes one sentence, example 0 (line 1) has 2",
    ),
    "unknown format": (
        ["predict", "{run}", "--data", "{corpus}/dev.txt", "--format", "xml"],
        "unknown data format 'xml'",
    ),
    "no run to compare": (["compare", "{run}", "{corpus}/nowhere"], "nowhere is not a run folder and contains none"),
    "a number of flips": (
        ["compare", "{run}", "{run}", "--flips", "10"],
        "--flips: expected a file that ends in .html, got '10'",
    ),
    "the format of no data": (
        ["compare", "{run}", "{run}", "--data_format", "csv"],
        "--data_format csv needs --data FILE",
    ),
    "two formats": (
        ["compare", "{run}", "--format", "latex", "--json"],
        "--format: expected none with --json, got latex",
    ),
    "fewer than no examples": (["compare", "{run}", "--examples", "-1"], "--examples: expected at least 0, got -1"),
    "trees for no data": (["export", "{run}", "x", "--parses", "a"], "--parses a needs --data FILE"),
    "unknown metric": (["compare", "{run}", "--metric", "f2"], "unknown metric 'f2'"),
    "no predictions": (["compare", "{run}", "--split", "test"], "this run has no predictions on 'test'; it has dev"),
    "nothing to plot": (["plot", "{run}"], "plot: expected one of --example, --text and --state"),
    "a second text alone": (
        ["plot", "{run}", "--example", "1", "--second", "a"],
        "--second a needs --text TEXT",
    ),
    "no words": (["plot", "{run}", "--text", " "], "--text: expected at least one word, got ' '"),
    "unknown parser": (
        ["eval", "{run}", "--data", "{corpus}/dev.txt", "--parser", "e"],
        "unknown parser 'e'; known: en",
    ),
    "data for a text": (["plot", "{run}", "--text", "a", "--data", "x"], "--data x needs --example ID"),
    "no such example": (["plot", "{run}", "--example", "99"], "no example '99' among the 20 of the dev data"),
    "a model without data": (
        ["plot", "{run}/best", "--example", "1"],
        "has no config.yaml that says where the data are",
    ),
    "unknown picture format": (
        ["plot", "{run}", "--text", "a", "--format", "gif"],
        "unknown format 'gif'; known: html",
    ),
    "a width for a page": (["plot", "{run}", "--text", "a", "--width", "3in"], "--width 3in needs --format svg, png"),
    "a width without a unit": (
        ["plot", "{run}", "--text", "a", "--format", "svg", "--width", "3"],
        "--width: expected a length above 0 in in, cm, mm or pt, as 3.3in, got '3'",
    ),
    "LaTeX of no picture": (["plot", "{run}", "--text", "a", "--format", "tex"], "--format tex shows a png or pdf"),
    "two texts for one sentence": (["plot", "{run}", "--text", "a", "--second", "b"], "takes one sentence"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name: str, call: Call, runs: Path, corpus: Path, tmp_path: Path) -> None:
    words, said = MISTAKES[name]
    given = [word.format(run=runs / "seed1", corpus=corpus, train="{train}") for word in words]
    if given[0] == "{train}":
        given = train_arguments(corpus, "--out", str(tmp_path / "run"), *given[1:])
    code, out, err = call(*given)
    assert code == 2, err
    assert out == ""
    *read, error = err.splitlines()
    assert all(line.startswith(("train: ", "dev: ", "warning: ")) for line in read), "what was read before the mistake"
    assert error.startswith("structattn: error: ")
    assert said in error
    # Only what is found in the middle of training leaves an unfinished run.
    assert not (tmp_path / "run").exists() or name == "missing structure"


def test_a_damaged_model_is_named(call: Call, runs: Path, corpus: Path, tmp_path: Path) -> None:
    best = runs / "seed1" / "best"
    for file in best.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    code, _, err = call("eval", tmp_path, "--data", corpus / "dev.txt")
    assert code == 2
    assert str(weights) in err


# train


def test_train_leaves_the_run_folder(runs: Path) -> None:
    found = {path.name for path in (runs / "seed1").iterdir()}
    assert {"config.yaml", "environment.json", "metrics.jsonl", "predictions", "best", "plots"} <= found


def test_train_prints_one_line_a_run_and_the_mean(call: Call, corpus: Path, runs: Path) -> None:
    code, out, _ = call(*train_arguments(corpus, "--seeds", "1,2", "--out", runs, "--resume"))
    first, second, *summary = out.splitlines()
    assert code == 0
    assert first.startswith(f"{runs / 'seed1'}  accuracy ")
    assert second.startswith(f"{runs / 'seed2'}  accuracy ")
    assert [line.split(":")[0] for line in summary] == ["accuracy", "macro_f1"]
    assert all(line.endswith("over 2 seeds") for line in summary)


def test_config_of_a_run_runs_again_with_the_same_figures(call: Call, runs: Path, tmp_path: Path) -> None:
    code, out, _ = call("train", "--config", runs / "seed1" / "config.yaml", "--out", tmp_path / "again", "--json")
    assert code == 0
    again = json.loads(out)
    before = json.loads((runs / "seed1" / "result.json").read_text(encoding="utf-8"))
    assert again["metrics"] == before["metrics"]
    assert again["seed"] == 1


def test_print_config_shows_what_would_run_and_runs_nothing(call: Call, corpus: Path) -> None:
    code, out, _ = call(*train_arguments(corpus, "--out", corpus / "unused", "--print_config"))
    values = yaml.safe_load(out)
    assert code == 0
    assert values["options"] == {"dim": 8}
    assert values["optimization"]["learning_rate"] == 3e-2
    assert not (corpus / "unused").exists()
    code, out, _ = call(
        *train_arguments(corpus, "--options.group.name", "3", "--options.group.other", "x"), "--print_config"
    )
    assert yaml.safe_load(out)["options"] == {"dim": 8, "group": {"name": 3, "other": "x"}}


def test_print_config_shows_defaults_that_depend_on_other_options(call: Call) -> None:
    words = ["parser", "train", "x", "--dev", "x", "--out", "x", "--print_config"]
    printed = [yaml.safe_load(call(*words, *more)[1]) for more in ([], ["--backbone", "x"])]
    for values, backbone in zip(printed, (None, "x"), strict=True):
        assert values["optimization"] == dataclasses.asdict(parser_optimization(backbone))


@pytest.mark.parametrize("text", ["", "x", "1..", "3..1", "1,1", "1,,2", "-1"])
def test_bad_seeds(text: str) -> None:
    with pytest.raises(ConfigError, match="--seeds: expected"):
        parse_seeds(text, "--seeds")


# eval and predict


def test_eval_agrees_with_the_run(call: Call, runs: Path, corpus: Path, tmp_path: Path) -> None:
    before = json.loads((runs / "seed1" / "result.json").read_text(encoding="utf-8"))["metrics"]
    code, out, _ = call("eval", runs / "seed1", "--data", corpus / "dev.txt", "--json")
    values = json.loads(out)
    assert code == 0
    assert values.pop("examples") == 20
    report = values.pop("report")
    assert values == pytest.approx(before)
    assert sum(map(sum, report["confusion"]["counts"])) == 20
    page = tmp_path / "report.html"
    _, out, _ = call("eval", runs / "seed1", "--data", corpus / "dev.txt", "--format", "labelled", "--page", page)
    line, _, *tables = out.splitlines()
    assert line == f"accuracy {before['accuracy']:.4f}  macro_f1 {before['macro_f1']:.4f}"
    assert tables[0] == "by class"
    for written in (page, runs / "seed1" / "plots" / "report.html"):
        assert written.read_text(encoding="utf-8").count("<svg") == 1
    assert "### On dev" in (runs / "seed1" / "best" / "README.md").read_text(encoding="utf-8")


def test_labels_that_training_never_saw_are_counted_and_named(call: Call, runs: Path, corpus: Path) -> None:
    _, out, told = call("eval", runs / "seed1", "--data", corpus / "unseen.txt", "--json")
    (said,) = [line for line in told.splitlines() if line.startswith("warning: ")]
    assert said.endswith("labels that are not among the 2 of the training data: 'furious'")
    code, _, told = call("compare", runs / "seed1", runs / "seed2", "--data", corpus / "unseen.txt")
    assert (code, told) == (0, said + "\n")
    values = json.loads(out)
    assert values["unseen_labels"] == 1
    assert values["accuracy"] <= 0.5


def test_predict_answers_every_example_in_order(call: Call, runs: Path, corpus: Path) -> None:
    code, out, err = call("predict", runs / "seed1", "--data", corpus / "dev.txt")
    rows = [json.loads(line) for line in out.splitlines()]
    gold = [json.loads(line) for line in (runs / "seed1/predictions/dev.jsonl").read_text().splitlines()]
    assert code == 0
    assert err.endswith("dev.txt: 20 examples (labelled); 4 words (median; at most 6); all sentences without a tree\n")
    assert [(row["id"], row["label"]) for row in rows] == [(row["id"], row["predicted"]) for row in gold]
    assert all(set(row) == {"id", "label", "probabilities"} for row in rows)
    assert all(sum(row["probabilities"].values()) == pytest.approx(1) for row in rows)


def test_predict_repeats_the_texts(call: Call, runs: Path, tmp_path: Path) -> None:
    (tmp_path / "new.txt").write_text("It isn't   bad.\n", encoding="utf-8")
    data = (runs / "seed1", "--data", tmp_path / "new.txt", "--format", "text")
    code, out, _ = call("predict", *data, "--texts")
    assert code == 0
    assert json.loads(out) == {**json.loads(call("predict", *data)[1]), "texts": ["It isn't   bad."]}


def test_predict_takes_lines_that_begin_with_no_label_for_texts(call: Call, runs: Path, tmp_path: Path) -> None:
    (tmp_path / "new.txt").write_text("a lovely film\nthe plot is dull\n", encoding="utf-8")
    _, out, err = call("predict", runs / "seed1", "--data", tmp_path / "new.txt", "--texts")
    assert [json.loads(line)["texts"] for line in out.splitlines()] == [["a lovely film"], ["the plot is dull"]]
    assert "new.txt: 2 examples (text)" in err


@contextlib.contextmanager
def pipe(content: str) -> Iterator[str]:
    """The path of a pipe, as a shell makes it for ``<(command)``."""
    read, written = os.pipe()
    with os.fdopen(written, "w", encoding="utf-8") as stream:
        stream.write(content)
    try:
        yield f"/dev/fd/{read}"
    finally:
        os.close(read)


def test_a_pipe_is_read_once_and_from_its_start(call: Call, runs: Path, corpus: Path, tmp_path: Path) -> None:
    with pipe("a lovely film\nthe plot is dull\n") as path:
        _, out, _ = call("predict", runs / "seed1", "--data", path, "--texts")
    assert [json.loads(line)["texts"] for line in out.splitlines()] == [["a lovely film"], ["the plot is dull"]]
    trees = tmp_path / "trees.conllu"
    trees.write_text("1\tdogs\t_\t_\t_\t_\t0\troot\t_\t_\n\n", encoding="utf-8")
    with pipe("dogs\n") as path:
        code, out, _ = call("parse", path, "--format", "words", "--parser", trees)
    assert code == 0
    assert "1\tdogs" in out
    with pipe((corpus / "train.txt").read_text()) as path:
        code, _, err = call("train", "--task", "trec", "--encoder", "emb_s2t", "--data.train", path, "--out", tmp_path)
    assert code == 2
    assert f"{path}: expected a file, as a run reads its data more than once, got a pipe" in err


def test_predict_needs_no_labels(call: Call, runs: Path, corpus: Path) -> None:
    _, out, _ = call("predict", runs / "seed1", "--data", corpus / "unlabelled.jsonl")
    assert json.loads(out)["id"] == "x"


def stdin(content: bytes) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(content), encoding="utf-8")


@pytest.mark.parametrize(
    ("format", "text", "ids"),
    [
        ([], "a lovely film\n\nunheard-of words\n", ["0", "1", "2"]),
        (["--format", "json"], '{"text": "a lovely film", "id": "q"}\n', ["q"]),
    ],
)
def test_predict_reads_stdin(
    format: list[str], text: str, ids: list[str], call: Call, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", stdin(text.encode()))
    code, out, _ = call("predict", runs / "seed1", "--data", "-", *format)
    assert code == 0
    assert [json.loads(line)["id"] for line in out.splitlines()] == ids


def test_mistakes_on_stdin_name_stdin(call: Call, runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", stdin(b"fine\na\tb\tc\n"))
    code, _, err = call("predict", runs / "seed1", "--data", "-")
    assert code == 2
    assert "stdin:2: expected one sentence, or two separated by a tab, got 3" in err
    monkeypatch.setattr(sys, "stdin", stdin("fine\ncaf\u00e9\n".encode("latin-1")))
    code, out, err = call("predict", runs / "seed1", "--data", "-")
    assert (code, len(out.splitlines())) == (2, 1)
    assert err.endswith(
        "structattn: error: 1 fault; the rest is predicted: stdin:2: expected UTF-8 text, but byte 4 of the line is "
        "0xe9; 'é' in Windows-1252 and Latin-1: iconv -f WINDOWS-1252 -t UTF-8 converts these\n"
    )


# Data of one's own


def test_a_table_of_ones_own(call: Call, tmp_path: Path) -> None:
    """A table with names of its own is trained on, evaluated and predicted: the run remembers which columns it read."""
    rows = [("id", "body", "mood")]
    rows += [
        (f"n{n}", f'a "{word}", really {word} day', mood)
        for n in range(12)
        for word, mood in (("bright", "cheerful"), ("grey", "sad"))
    ]
    for name, part in (("train", rows), ("dev", rows[:7])):
        with open(tmp_path / f"{name}.csv", "w", newline="", encoding="utf-8") as stream:
            csv.writer(stream, delimiter=";").writerows(part)
    files = ("--data.train", tmp_path / "train.csv", "--data.dev", tmp_path / "dev.csv")
    columns = ("--data.text_column", "body", "--data.label_column", "mood", "--data.id_column", "id")
    what = ("train", "--task", "classification", "--encoder", "emb_s2t", "--options.dim", 8, "--optimization.epochs", 1)
    code, _, err = call(*what, *files, *columns, "--out", tmp_path / "run")
    assert code == 0, err
    assert "train: 24 examples (csv); 2 labels (cheerful 12, sad 12); 8 words (median; at most 8);" in err
    code, out, err = call("eval", tmp_path / "run", "--data", tmp_path / "dev.csv")
    assert code == 0, err
    assert "dev.csv: 6 examples (csv); 2 labels (cheerful 3, sad 3)" in err
    code, out, err = call("predict", tmp_path / "run", "--data", tmp_path / "dev.csv")
    assert code == 0, err
    assert [json.loads(line)["id"] for line in out.splitlines()] == ["n0", "n0", "n1", "n1", "n2", "n2"]
    for text, message in (("a;b\n1;2\n", "expected a column 'body', got 'a, b'"), ("body\nx\n", "a column 'id'")):
        (tmp_path / "other.csv").write_text(text)
        code, _, err = call("predict", tmp_path / "run", "--data", tmp_path / "other.csv")
        assert code == 2
        assert message in err
    (tmp_path / "other.csv").write_text("text,mood\na bright day,blue\n")
    code, out, err = call(
        "eval", tmp_path / "run", "--data", tmp_path / "other.csv", "--text_column", "text", "--id_column", "text"
    )
    assert code == 0, err
    assert out.startswith("accuracy 0.0000  macro_f1 0.0000  unseen_labels 1\n")
    assert "warning: " in err
    assert "1 of 1 examples have labels that are not among the 2 of the training data: 'blue'" in err


def test_parse_takes_texts_out_of_a_table(call: Call, tmp_path: Path) -> None:
    (tmp_path / "gold.conllu").write_text("1\tFine\t_\t_\t_\t_\t0\troot\t_\t_\n\n")
    (tmp_path / "a.csv").write_text("Text,Label\nFine,pos\n")
    code, out, _ = call("parse", tmp_path / "a.csv", "--parser", tmp_path / "gold.conllu")
    assert code == 0
    assert "# newdoc id = 0\n# label = pos\n" in out
    assert "1\tFine\t" in out


# compare


def test_compare_two_runs(call: Call, runs: Path) -> None:
    code, out, _ = call("compare", runs / "seed1", runs / "seed2", "--examples", "2")
    head, _, header, *rows = out.splitlines()
    assert code == 0
    assert head == "accuracy on dev, 20 examples"
    assert header.split()[:4] == ["system", "seeds", "mean", "sd"]
    assert rows[0].startswith("emb_s2t (seed1)")
    assert rows[1].startswith("emb_s2t (seed2)")
    assert rows[2].startswith("one seed of emb_s2t (seed1), emb_s2t (seed2): no interval here says what another would")
    assert "emb_s2t (seed2) against emb_s2t (seed1): better on" in out


def test_compare_says_whose_seeds_are_one(call: Call, runs: Path) -> None:
    assert "one seed of emb_s2t (seed1): " in call("compare", runs, runs / "seed1")[1]
    assert "one seed" not in call("compare", runs, runs)[1]
    assert "one seed" not in call("compare", runs / "seed1")[1]  # which is compared with nothing


def test_compare_on_dev_names_the_means_on_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all runs predicted on test; what is compared on another part is not followed by it."""
    asked: list[str | None] = []

    def compared(*runs: str, split: str | None = None, **_: object) -> Comparison:
        asked.append(split)
        if "unfinished" in runs and split == "test":
            raise ConfigError("no predictions on test")
        means = (0.5, 0.9) if split == "test" else (1.0, 1.0)
        groups = tuple(Group(name, (), (mean,), mean, None) for name, mean in zip(runs, means, strict=True))
        test = Significance(means[1] - means[0], 0.3, 0.5, 0.0001, 0.031)
        difference = Difference(runs[0], runs[1], test, (Flip("7", ("a film",), "pos", ("neg",), ("pos",), True),))
        return Comparison("accuracy", split or "dev", 10, groups, (difference,))

    monkeypatch.setattr(compare_command, "compare", compared)

    def lines(*runs: str, **options: Any) -> list[str]:
        return list(compare_command.command(list(runs), hardware=Hardware("cpu"), **options))

    out = lines("plain", "tree")
    assert out[-1] == "accuracy on test: plain 0.5000, tree 0.9000 (--split test compares these)"
    assert "tree against plain: better on 1 example, worse on 0" in out
    assert out[4].split() == ["tree", "1", "1.0000", "+0.0000", "+0.3000", "to", "+0.5000", "<", ".001", ".031"]
    assert asked == [None, "test"]
    assert "on test" not in "".join(lines("plain", "unfinished"))
    assert "--split" not in "".join(lines("plain", "tree", split="test"))


def test_several_encoders_are_trained_side_by_side(corpus: Path, call: Call, tmp_path: Path) -> None:
    words = ("--encoder", "emb_s2t, emb_additive", "--seeds", "1..2", "--out", tmp_path / "both")
    code, out, _ = call(*train_arguments(corpus), *words)
    assert code == 0
    folders = [tmp_path / "both" / name / f"seed{seed}" for name in ("emb_s2t", "emb_additive") for seed in (1, 2)]
    assert [line.split()[0] for line in out.splitlines() if "both" in line] == [str(folder) for folder in folders]
    assert sum(line.endswith("over 2 seeds") for line in out.splitlines()) == 4
    code, out, _ = call("compare", folders[0].parent, folders[2].parent)
    assert code == 0
    assert "emb_additive" in out


def test_a_folder_with_one_run_says_which(runs: Path, tmp_path: Path, call: Call) -> None:
    shutil.copytree(runs / "seed1", tmp_path / "own" / "seed1")
    code, _, err = call("eval", tmp_path / "own", "--data", "x")
    assert code == 2
    assert f"own contains a run folder: give {tmp_path / 'own' / 'seed1'}" in err


@pytest.mark.parametrize(("layout", "start"), [("markdown", "| system | seeds |"), ("latex", "\\begin{table}\n")])
def test_compare_for_a_paper(call: Call, runs: Path, layout: str, start: str) -> None:
    code, out, _ = call("compare", runs / "seed1", runs / "seed2", "--format", layout)
    assert code == 0
    assert out.startswith(start)


def test_compare_names_as_much_of_a_folder_as_tells_runs_apart(call: Call, runs: Path, tmp_path: Path) -> None:
    for place in ("near", "far"):
        shutil.copytree(runs / "seed1", tmp_path / place / "seed1")
    code, out, _ = call("compare", tmp_path / "near" / "seed1", tmp_path / "far" / "seed1", tmp_path / "far" / "seed1")
    assert code == 0
    names = [line.split("  ")[0] for line in out.splitlines()[3:6]]
    assert names == ["emb_s2t (near/seed1)", "emb_s2t (far/seed1)", "emb_s2t (far/seed1)"]


def test_compare_takes_all_seeds_below_a_folder(call: Call, runs: Path) -> None:
    code, out, _ = call("compare", runs, "--json")
    (group,) = json.loads(out)["groups"]
    assert code == 0
    assert len(group["values"]) == 2
    assert group["mean"] == pytest.approx(sum(group["values"]) / 2)


# plot


def test_plot_an_example_of_the_run(call: Call, runs: Path, tmp_path: Path) -> None:
    code, out, _ = call(
        "plot", runs / "seed1", "--example", "17", "--format", "html,svg", "--influence", "--out", tmp_path
    )
    files = [Path(line) for line in out.splitlines()]
    words = (json.loads(line) for line in (runs / "seed1/predictions/dev.jsonl").read_text().splitlines())
    assert code == 0
    assert files[0] == tmp_path / "attention.html"
    assert tmp_path / "01-influence.svg" in files
    assert all(file.read_text(encoding="utf-8").lstrip().startswith(("<svg", "<!doctype")) for file in files)
    assert next(row for row in words if row["id"] == "17")["gold"] in files[0].read_text(encoding="utf-8")


def test_plot_a_text_into_the_run_folder(call: Call, runs: Path) -> None:
    code, out, _ = call("plot", runs / "seed1", "--text", "a lovely, bleak film")
    assert code == 0
    assert out == f"{runs / 'seed1' / 'plots' / 'attention.html'}\n"
    assert "bleak" in (runs / "seed1" / "plots" / "attention.html").read_text(encoding="utf-8")


def test_plot_into_a_file(call: Call, runs: Path, tmp_path: Path) -> None:
    words, page = ("plot", runs / "seed1", "--text", "a lovely film", "--out"), tmp_path / "new" / "page.html"
    code, out, _ = call(*words, page)
    assert (code, out) == (0, f"{page}\n")
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    code, out, err = call(*words, tmp_path / "two.svg")
    assert (code, out) == (2, "")
    assert "expected a folder for 2 pictures (01-pooling.svg, 01-pooling-features.svg), got the file " in err
    code, _, err = call(*words, page, "--format", "svg,pdf")
    assert (code, "--out: expected a folder for --format svg,pdf, got the name of a file, " in err) == (2, True)
    assert [path.name for path in tmp_path.rglob("*")] == ["new", "page.html"]
    (tmp_path / "folder.svg").mkdir()
    assert call(*words, tmp_path / "folder.svg", "--format", "svg")[1].startswith(
        f"{tmp_path}/folder.svg/01-pooling.svg\n"
    )


def test_plot_an_example_of_another_file(call: Call, runs: Path, corpus: Path, tmp_path: Path) -> None:
    words = ["--data", corpus / "unlabelled.jsonl", "--data_format", "json", "--out", tmp_path]
    assert call("plot", runs / "seed1", "--example", "x", *words)[0] == 0


def test_train_an_encoder_of_ones_own(
    call: Call, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = "from structattn.encoders import transformer\n\ndef small(vocab_size, *, dim: int = 8):\n"
    (tmp_path / "our_encoders.py").write_text(f"{lines}    return transformer(vocab_size, dim=dim, num_heads=2)\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    arguments = train_arguments(corpus, "--encoder", "our_encoders:small", "--options.dim", "4", "--json")
    code, out, _ = call(*arguments)
    assert code == 0
    run = Path(json.loads(out)["folder"])
    assert run.parent == Path("runs/classification/our_encoders.small")
    code, out, _ = call("eval", run, "--data", corpus / "dev.txt", "--json", "--trust-code")
    assert code == 0
    found, reported = json.loads(out), json.loads((run / "result.json").read_text())["metrics"]
    assert {name: found[name] for name in reported} == reported


# list and doctor


@pytest.mark.parametrize(
    ("what", "names"),
    [
        ("encoders", {"ms_san", "disan", "transformer"}),
        ("tasks", set(TASKS)),
        ("priors", {"Forward", "DependencyDistance"}),
        ("structures", {"dependency", "constituency", "relations"}),
    ],
)
def test_list(what: str, names: set[str], call: Call) -> None:
    code, out, _ = call("list", what)
    lines = [line.split(maxsplit=1) for line in out.splitlines()]
    assert code == 0
    assert names <= {line[0] for line in lines}
    assert all(len(line) == 2 for line in lines), "a name without a summary"
    assert names <= set(json.loads(call("list", what, "--json")[1]))


def test_list_shows_names_and_no_markup(call: Call) -> None:
    assert "over the children of every phrase, from the words up; see ChildAttention." in call("list", "encoders")[1]
    assert "`" not in call("list", "priors")[1]


def test_list_folds_its_lines_for_a_terminal_and_not_for_a_pipe(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = call("list", "encoders")[1].splitlines()
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("LINES", "24")
    assert call("list", "encoders")[1].splitlines() == whole
    monkeypatch.setattr("sys.__stdout__", Mock(isatty=lambda: True))
    folded = call("list", "encoders")[1]
    assert max(map(len, whole)) > 60 >= max(map(len, folded.splitlines()))
    assert folded.split() == " ".join(whole).split()
    names = {line.split()[0] for line in whole}
    assert {line.split()[0] for line in folded.splitlines() if not line.startswith(" ")} == names


def test_list_options_shows_every_option_with_its_default(call: Call) -> None:
    shown = call("list", "encoders", "--options")[1]
    assert "dropout: 0.25" in shown
    assert "    learnable_alpha: False" in shown
    assert "    accumulation.max_horizontal: 100" in shown
    assert "num_frozen: 0" in call("list", "embedders", "--options")[1]


def test_doctor(call: Call) -> None:
    code, out, _ = call("doctor")
    assert code == 0
    assert {"python", "torch", "threads", "devices", "kernels"} <= {line.split()[0] for line in out.splitlines()}
    assert json.loads(call("doctor", "--json")[1])["extras"]["train"] is True


def test_doctor_runs_from_sources_that_are_not_installed(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def requires(name: str) -> list[str]:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.requires", requires)
    code, out, _ = call("doctor")
    assert code == 0
    assert out.splitlines()[-1].split(maxsplit=1) == [
        "extras",
        "unknown, as structattn itself is not installed: pip install structattn",
    ]


def test_doctor_says_how_to_install_what_is_missing(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    import structattn.cli.doctor_command

    monkeypatch.setattr(structattn.cli.doctor_command, "_missing", lambda packages: list(packages))
    lines = call("doctor")[1].splitlines()
    assert next(line for line in lines if line.startswith("extra plot")).split(maxsplit=2)[2] == (
        "missing typst: pip install 'structattn[plot]'"
    )


def test_groups_of_options_have_dotted_names(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(
        "task: sst5\nencoder: tree_transformer\noptions: {accumulation: {max_vertical: 0, mode: ref}}\n",
        encoding="utf-8",
    )
    words = ["--config", str(file), "--data.train", "x"]
    for given, options, embedder in (
        ([], {"accumulation": {"max_vertical": 0, "mode": "ref"}}, {}),
        (
            ["--options.accumulation.mode=paper", "--options.accumulation.max-horizontal", "3", "--options.dim", "8"],
            {"accumulation": {"max_vertical": 0, "mode": "paper", "max_horizontal": 3}, "dim": 8},
            {},
        ),
        (
            ["--embedder.dim", "8", "--embedder.num_frozen", "2", "--options.accumulation", "{mode: paper}"],
            {"accumulation": {"mode": "paper"}},
            {"dim": 8, "num_frozen": 2},
        ),
        (
            ["--options.accumulation.mode", "paper", "--config", str(file)],
            {"accumulation": {"max_vertical": 0, "mode": "ref"}},
            {},
        ),
        (
            ["--options", "{dim: 8}", "--options.accumulation.mode", "paper"],
            {"dim": 8, "accumulation": {"mode": "paper"}},
            {},
        ),
        (
            ["--options.new.rate", "1e-3", "--options.new.name", "'3'"],
            {"accumulation": {"max_vertical": 0, "mode": "ref"}, "new": {"rate": 1e-3, "name": "'3'"}},
            {},
        ),
    ):
        values = arguments.parse(train_command, [*words, *given], name="train")
        assert values is not None
        assert values["config"].options == options
        assert values["config"].embedder == embedder


def test_a_configuration_is_read_once_and_sections_may_be_files(tmp_path: Path) -> None:
    section = tmp_path / "optimization.yaml"
    section.write_text("epochs: 7\nclip: .inf\n", encoding="utf-8")
    reading, writing = os.pipe()
    os.write(writing, b"task: sst5\nencoder: disan\nout: 2024-05-01\noptions: {dropout: 1e-3}\ndata.train: x\n")
    os.close(writing)
    words = [f"--config=/dev/fd/{reading}", "--optimization", str(section), "--optimization.patience", "3"]
    values = arguments.parse(train_command, words, name="train")
    os.close(reading)
    assert values is not None
    config = values["config"]
    assert (config.data.train, config.out, config.options) == ("x", "2024-05-01", {"dropout": 1e-3})
    assert (config.optimization.epochs, config.optimization.clip, config.optimization.patience) == (7, math.inf, 3)
