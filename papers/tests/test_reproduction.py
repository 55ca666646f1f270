"""Rows, their queue and their records; the runs are a stub that leaves run folders at once."""

import dataclasses
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

from repository import ROOT
from structattn.cli import arguments
from structattn.cli.parse_command import command as parse_command
from structattn.cli.train_command import command as train_command
from structattn.encoders.encoder_table import BUILDERS, LANGUAGE_MODELS
from structattn.errors import ConfigError
from structattn.options.checking import check_options
from structattn.tasks import metric
from structattn.training import RunFolder
from structattn_papers.reproduction import (
    Queue,
    Row,
    all_rows,
    golden_output,
    parse_places,
    read_records,
    read_rows,
    selected,
)
from structattn_papers.reproduction.checks import has_drifted, read_checks
from structattn_papers.reproduction.golden import golden_step, same_output
from structattn_papers.reproduction.golden_inputs import golden_backbone
from structattn_papers.reproduction.queue import Progress
from structattn_papers.reproduction.records import Record, append_record, bits, processor, recorded, unpacked

pytestmark = pytest.mark.integration

ROWS = all_rows(ROOT / "papers")
TRAINED = [row for row in ROWS.values() if row.command == "train"]
# Answers the command line as `structattn train` does; `pause` in the folder of the data makes it wait for a signal.
STUB = """
import json, sys, time, yaml
from pathlib import Path
words = sys.argv[1:]
out, data = Path(words[words.index("--out") + 1]), Path(words[words.index("--data.train") + 1])
seed = int(words[words.index("--seed") + 1])
if words[0] == "sweep":
    (out / "trial000").mkdir(parents=True)
    (out / "trial000" / "environment.json").write_text(json.dumps({"sha256": {str(data): "ab" * 32}, "torch": "2"}))
    rows = [{"values": {"options.dropout": x}, "metric": 1 - abs(x - 0.3), "seconds": 2.0} for x in (0.1, 0.3, 0.5)]
    config = json.loads((data.parent / "configs.json").read_text())[out.parent.name]
    described = {name: config.pop(name) for name in ("space", "sampler", "trials")}
    (out / "study.json").write_text(json.dumps({**described, "config": config, "trials": rows}))
    sys.exit()
with open(data.parent / "calls", "a") as stream:
    stream.write(" ".join([out.parent.name, out.name, *[w for w in words if w in ("--resume", "--overwrite")]]) + "\\n")
if "bad" in out.parent.name:
    sys.exit("structattn: error: what was wrong")
out.mkdir(parents=True, exist_ok=True)
config = json.loads((data.parent / "configs.json").read_text())[out.parent.name]
(out / "config.yaml").write_text(yaml.safe_dump(config))
if (data.parent / "pause").exists():
    time.sleep(60)
(out / "predictions").mkdir(exist_ok=True)
rows = [{"id": str(i), "gold": "a", "predicted": "a" if i < seed else "b"} for i in range(4)]
(out / "predictions" / "dev.jsonl").write_text("".join(json.dumps(row) + "\\n" for row in rows))
environment = {"sha256": {str(data): "ab" * 32}, "threads": 1, "torch": "2", "device": "cpu"}
(out / "environment.json").write_text(json.dumps(environment))
result = {"metrics": {"accuracy": seed / 4}, "seconds": 2.0}
answers = data.parent / "test.jsonl"
if answers.exists():
    (out / "predictions" / "test.jsonl").write_text(answers.read_text())
    result["test"] = {"accuracy": 0.0}
(out / "result.json").write_text(json.dumps(result))
"""
ENTRIES = {
    "base": {
        "command": "train",
        "options": {"task": "trec", "encoder": "emb_s2t", "data.train": "{data}/train.txt"},
        "seeds": "1..2",
    },
    "wide": {"like": "base", "options": {"optimization.epochs": 3}, "seeds": 1},
    "after": {"like": "base", "options": {"init": "{run:base}"}, "seeds": 1},
    "bad": {"like": "base", "seeds": 1},
}


class Place:
    """A folder of papers with one paper, data, and a stub in place of the command line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / "data").mkdir()
        (path / "data" / "train.txt").write_text("a b\n", encoding="utf-8")
        (path / "stub.py").write_text(STUB, encoding="utf-8")
        self.write(ENTRIES)

    def write(self, entries: object) -> None:
        folder = self.path / "papers" / "mine"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "rows.yaml").write_text(yaml.safe_dump(entries, sort_keys=False), encoding="utf-8")

    def rows(self, patterns: str = "*") -> list[Row]:
        return selected(read_rows("mine", papers=self.path / "papers").values(), patterns)

    def queue(self, patterns: str = "*", seeds: Sequence[int] | None = None, *, is_check: bool = False) -> Queue:
        rows = self.rows(patterns)
        configs = {}
        for row in rows:
            text = json.dumps(row.config()).replace("{data}", str(self.path / "data"))
            configs[row.name] = json.loads(
                text.replace("{run:base}", str(self.path / "out" / "mine" / "base" / "seed1"))
            )
        (self.path / "data" / "configs.json").write_text(json.dumps(configs), encoding="utf-8")
        program = (sys.executable, str(self.path / "stub.py"))
        places = {"data": str(self.path / "data")}
        out = self.path / "out"
        return Queue(rows, seeds=seeds, places=places, out=out, is_check=is_check, program=program)

    def work(self, patterns: str = "*", *, processes: int = 2, hours: float | None = None) -> list[Progress]:
        return list(self.queue(patterns).work(processes=processes, hours=hours))

    def calls(self) -> list[str]:
        file = self.path / "data" / "calls"
        found = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        file.unlink(missing_ok=True)
        return found


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_every_finished_run_leaves_a_record_and_is_not_run_again(place: Place) -> None:
    ended = place.work("base,wide")
    assert [progress.failure for progress in ended] == [None] * 3
    assert ended[-1].left == 0
    base, _ = place.rows("base,wide")
    first, second = read_records(base)
    assert {first.seed, second.seed} == {1, 2}
    found = recorded(base, golden_output(base))
    assert found.values("accuracy") == [0.25, 0.5]
    assert [one.tolist() for one in (record.is_right for record in found.records) if one is not None] == [
        [True, False, False, False],
        [True, True, False, False],
    ]
    assert found.records[0].data == {"{data}/train.txt": "ab" * 8}
    assert found.records[0].command == ("structattn train --task trec --encoder emb_s2t --data.train {data}/train.txt")
    assert not found.is_older
    assert sorted(place.calls()) == ["base seed1", "base seed2", "wide seed1"]
    again = place.queue("base,wide")
    assert (again.jobs, again.num_finished) == ([], 3)


def test_recorded_runs_are_checked_beside_their_records(
    place: Place, call: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert place.queue("base", is_check=True).jobs == [], "nothing is recorded yet"
    place.work("base")
    base, *_ = place.rows("base")
    before = base.records.read_bytes()
    ended = list(place.queue("base", is_check=True).work())
    assert [progress.check and progress.check.differences for progress in ended] == [(), ()]
    stub = place.path / "stub.py"
    stub.write_text(STUB.replace("i < seed", "i < seed - 1").replace("seed / 4", "(seed - 1) / 4"), encoding="utf-8")
    ended = list(place.queue("base", [2], is_check=True).work())
    assert [progress.check and progress.check.differences for progress in ended] == [
        ("accuracy 0.5 on record, 0.25 now", "other answers to 1 of 4 examples")
    ]
    assert base.records.read_bytes() == before
    checks = [json.loads(line) for line in (base.folder / "checks.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [(line["seed"], len(line["differences"])) for line in checks] == [(1, 0), (2, 0), (2, 2)]
    assert [has_drifted(base, [record], read_checks(base.folder)) for record in read_records(base)] == [False, True]


def test_a_change_in_the_last_bits_of_training_is_seen(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.work("wide")
    (record,) = read_records(*place.rows("wide"))
    assert record.processor_seconds is not None
    assert record.step == golden_step(*place.rows("wide"))
    assert place.queue("wide").drifted == []
    step = {"norm": record.step["norm"] * (1 + 1e-7), "bits": "0"}  # type: ignore[index]
    monkeypatch.setattr("structattn_papers.reproduction.queue.golden_step", lambda row: step)
    for machine, count in (("another processor", 0), (processor(), 1)):
        monkeypatch.setattr("structattn_papers.reproduction.queue.processor", lambda machine=machine: machine)
        assert len(place.queue("wide").drifted) == count
    assert place.queue("wide").jobs == [], "an hour is not spent on a last bit unless it is asked for"


def test_a_record_is_of_the_test_data_where_a_run_has_any(place: Place) -> None:
    answers = '{"id": "0", "gold": "a", "predicted": "b"}\n'
    (place.path / "data" / "test.jsonl").write_text(answers, encoding="utf-8")
    place.work("wide")
    (record,) = read_records(*place.rows("wide"))
    assert (record.split, record.examples, record.metrics) == ("test", 1, {"accuracy": 0.0, "dev_accuracy": 0.25})
    assert record.is_right is not None
    assert record.is_right.mean() == record.metrics["accuracy"]


def test_a_record_keeps_the_counts_of_metrics_of_texts(place: Place) -> None:
    answers = [("B-NP I-NP O", "B-NP I-NP B-NP"), ("O O", "O O")]
    rows = [{"id": str(row), "gold": gold, "predicted": one} for row, (gold, one) in enumerate(answers)]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (place.path / "data" / "test.jsonl").write_text(text, encoding="utf-8")
    (place.path / "stub.py").write_text(STUB.replace('{"accuracy": 0.0}', '{"span_f1": 2 / 3}'), encoding="utf-8")
    place.work("wide")
    (record,) = read_records(*place.rows("wide"))
    assert record.counts is not None
    counts = unpacked(record.counts["span_f1"], 2)
    assert counts.tolist() == [[2, 3], [0, 0]]
    assert metric("span_f1").from_counts.value(np.zeros(2), counts) == record.metrics["span_f1"]
    assert record.right == bits([False, True])


def test_a_record_of_questions_keeps_which_were_answered(place: Place) -> None:
    rows = [
        {"id": "0", "gold": ["cats", "the cats"], "predicted": "the cats", "exact_match": True},
        {"id": "1", "gold": ["dogs"], "predicted": "cats", "exact_match": False},
    ]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (place.path / "data" / "test.jsonl").write_text(text, encoding="utf-8")
    (place.path / "stub.py").write_text(STUB.replace('{"accuracy": 0.0}', '{"exact_match": 50.0}'), encoding="utf-8")
    (progress,) = place.work("wide")
    assert progress.failure is None
    (record,) = read_records(*place.rows("wide"))
    assert (record.right, record.counts) == (bits([True, False]), None)


def test_a_record_keeps_answers_that_are_numbers(place: Place) -> None:
    lines = ['{"id": "0", "gold": 3.6, "predicted": 3.26397}', '{"id": "1", "gold": 4, "predicted": 0.000123456}']
    (place.path / "data" / "test.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    place.work("wide")
    (record,) = read_records(*place.rows("wide"))
    assert (record.gold, record.predicted, record.right) == ([3.6, 4], [3.264, 0.0001235], None)


def test_a_changed_configuration_or_model_is_run_again_and_older_until_then(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.work("wide")
    place.write({**ENTRIES, "wide": {**ENTRIES["wide"], "options": {"optimization.epochs": 4}}})
    (wide,) = place.rows("wide")
    assert recorded(wide, golden_output(wide)).is_older
    place.calls()
    place.work("wide")
    assert place.calls() == ["wide seed1 --overwrite"]
    assert not recorded(wide, golden_output(wide)).is_older
    assert recorded(wide, [0.5, 0.5]).is_older
    monkeypatch.setattr("structattn_papers.reproduction.queue.golden_output", lambda row: [0.5, 0.5])
    place.work("wide")
    assert place.calls() == ["wide seed1 --overwrite"]
    assert len(read_records(wide)) == 3


def test_rows_wait_for_those_that_they_read(place: Place) -> None:
    assert [row.name for row in place.rows("after")] == ["base", "after"]
    assert [str(progress.job) for progress in place.work("after", processes=3)][-1] == "mine/after seed 1"
    (after,) = [row for row in place.rows("after") if row.needs]
    assert read_records(after)[0].command.endswith("--init {run:base}")


def test_other_seeds_are_not_those_of_what_rows_read_or_of_studies(place: Place) -> None:
    assert [str(job) for job in place.queue("after", [7]).jobs] == [
        "mine/base seed 1",
        "mine/base seed 2",
        "mine/after seed 7",
    ]
    assert [str(job) for job in place.queue("base", [7]).jobs] == ["mine/base seed 7"]
    place.write({"study": {**ENTRIES["base"], "command": "sweep", "space": "space.yaml", "seeds": 1}})
    (place.path / "papers" / "mine" / "space.yaml").write_text("options.dropout: [0.1, 0.3]\n", encoding="utf-8")
    assert [str(job) for job in place.queue("study", [7]).jobs] == ["mine/study seed 1"]


def test_a_row_is_run_with_what_its_study_chose(
    place: Place, call: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    study = {**ENTRIES["base"], "command": "sweep", "space": "space.yaml", "seeds": 1}
    study["options"] = {**ENTRIES["base"]["options"], "trials": 3}  # type: ignore[dict-item]
    place.write({"study": study, "tuned": {**ENTRIES["base"], "tuned": "study", "seeds": 7}})
    space = place.path / "papers" / "mine" / "space.yaml"
    space.write_text("options.dropout: [0.1, 0.3, 0.5]\n", encoding="utf-8")
    assert [(row.name, row.waits_for) for row in place.rows("tuned")] == [("study", None), ("tuned", "study")]
    (ended,) = place.work("tuned")
    assert (str(ended.job), ended.failure) == ("mine/study seed 1", None)
    (record,) = read_records(place.rows("study")[0])
    assert (record.values, record.metrics, record.seconds) == (
        {"options.dropout": 0.3},
        {"accuracy": 1.0, "trials": 3},
        6.0,
    )
    assert record.command.startswith("structattn sweep papers/mine/space.yaml --task trec")
    (tuned,) = place.rows("tuned")
    assert (tuned.options["options.dropout"], tuned.waits_for) == (0.3, None)
    assert [str(progress.job) for progress in place.work("tuned")] == ["mine/tuned seed 7"]
    assert read_records(tuned)[0].command.endswith("--options.dropout 0.3")
    # Another space is another study, whose choice is not known yet.
    space.write_text("options.dropout: [0.1, 0.3]\n", encoding="utf-8")
    assert [row.waits_for for row in place.rows("tuned")] == [None, "study"]
    words = ("reproduce", "mine", "--rows", "tuned", "--papers", place.path / "papers", "--plan")
    _, out, _ = call(*words, "--places", f"data={place.path / 'data'}", "--out", place.path / "out")
    assert out.splitlines()[1:] == ["mine/study seed 1", "mine/tuned waits for study"]


def test_a_failure_is_reported_and_the_rest_goes_on(place: Place) -> None:
    ended = {progress.job.row.name: progress for progress in place.work("bad,wide")}
    assert ended["bad"].failure == "structattn: error: what was wrong"
    assert ended["wide"].failure is None
    assert not place.rows("bad")[0].records.exists()


def test_what_reads_a_run_that_failed_is_not_begun(place: Place) -> None:
    place.write({**ENTRIES, "worse": {"like": "base", "options": {"init": "{run:bad}"}, "seeds": 1}})
    assert [(str(progress.job), progress.failure, progress.done) for progress in place.work("worse")] == [
        ("mine/bad seed 1", "structattn: error: what was wrong", 1),
        ("mine/worse seed 1", "not run, as mine/bad failed", 2),
    ]
    assert place.calls() == ["bad seed1"]


def test_a_row_that_writes_a_file_has_flags(place: Place) -> None:
    entry = {"command": "parse", "arguments": ["{data}/train.txt"], "writes": "parses.conllu"}
    place.write(
        {
            "parses": {**entry, "options": {"whole": True, "limit": 3}},
            "sentences": {**entry, "options": {"whole": False}},
        }
    )
    assert [row.words() for row in place.rows()] == [
        ["parse", "{data}/train.txt", "--whole", "--limit", "3"],
        ["parse", "{data}/train.txt"],
    ]


def test_when_time_is_up_the_runs_are_stopped_and_continued_later(place: Place) -> None:
    pause = place.path / "data" / "pause"
    pause.touch()
    assert place.work("wide", hours=4 / 3600) == []
    pause.unlink()
    assert place.calls() == ["wide seed1"]
    assert [progress.failure for progress in place.work("wide")] == [None]
    assert place.calls() == ["wide seed1 --resume"]


def test_a_run_that_ended_without_its_queue_is_only_recorded(place: Place) -> None:
    place.work("wide")
    (wide,) = place.rows("wide")
    wide.records.unlink()
    place.calls()
    place.work("wide")
    assert place.calls() == ["wide seed1 --resume"], "which only reads a finished run"
    assert len(read_records(wide)) == 1


@pytest.mark.parametrize("kill", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_queue_stops_its_runs(
    place: Place, kill: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place.path / "data" / "pause").touch()
    queue = place.queue("base")
    started: list[subprocess.Popen[bytes]] = []
    start = Queue._start

    def starting(self: Queue, job: object) -> subprocess.Popen[bytes]:
        started.append(start(self, job))  # type: ignore[arg-type]
        if len(started) == 2:
            os.kill(os.getpid(), kill)
        return started[-1]

    monkeypatch.setattr(Queue, "_start", starting)
    with pytest.raises(KeyboardInterrupt):
        list(queue.work(processes=2))
    assert [process.returncode is not None for process in started] == [True, True]


def test_what_a_killed_process_left_of_a_line_is_removed(place: Place) -> None:
    (row,) = place.rows("wide")
    record = Record(1, "train", row.digest, "0", {}, "dev", {"accuracy": 0.5}, 1.0, "cpu")
    append_record(row, record)
    with open(row.records, "a", encoding="utf-8") as stream:
        stream.write('{"seed": 2, "conf')
    append_record(row, record)
    assert read_records(row) == [record, record]
    row.records.write_bytes(row.records.read_bytes().removesuffix(b"\n"))
    append_record(row, record)
    assert read_records(row) == [record, record, record]


def test_a_folder_of_another_configuration_is_no_record(place: Place) -> None:
    queue = place.queue("wide")
    configs = place.path / "data" / "configs.json"
    configs.write_text(configs.read_text(encoding="utf-8").replace('"epochs": 3', '"epochs": 5'), encoding="utf-8")
    (progress,) = queue.work()
    assert progress.failure is not None
    assert "another configuration than mine/wide" in progress.failure


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"x": {"command": "trian"}}, "command: expected one of train, parser train"),
        ({"x": {"comand": "train"}}, "unknown key 'comand' (did you mean 'command'?)"),
        ({"x": {"like": "x"}}, "like 'x': expected the name of another row"),
        ({"x": {"like": "y"}, "y": {"like": "x"}}, "expected the name of another row"),
        ({"x": {"command": "train", "options": {"init": "{run:y}"}}}, "there is no row 'y'"),
        ({"x": {"command": "train", "seeds": "3..1"}}, "expected seeds such as 1..5"),
        ({"x": {"command": "parse"}}, "expected `writes`"),
        ({"x": {"command": "sweep"}}, "expected `space`"),
        (
            {"x": {"command": "train", "space": "space.yaml"}},
            "the name of a file, for the command sweep alone",
        ),
        ({"x": {"command": "train", "tuned": "y"}}, "x: tuned: expected a study, a row with a space, got 'y'"),
        ({"x": 3}, "x: expected keys and values, got 3"),
    ],
)
def test_faults_in_a_file_of_rows(place: Place, entries: object, message: str) -> None:
    place.write(entries)
    with pytest.raises(ConfigError) as caught:
        place.rows()
    assert message in str(caught.value)
    assert "rows.yaml" in str(caught.value)


@pytest.mark.parametrize(
    "value", [None, "", "x", True, 3, math.nan, [], [1], {}, {"a": 1}, {"a": {3: 1}}, {3: {}}], ids=repr
)
def test_every_value_of_every_key_of_a_row(place: Place, value: object) -> None:
    keys = (
        "command",
        "preset",
        "like",
        "seeds",
        "arguments",
        "options",
        "encoders",
        "variants",
        "writes",
        "space",
        "tuned",
    )
    train = {"command": "train", "options": {"task": "trec", "encoder": "disan"}}
    files: list[object] = [value, {"x": value}, {value if isinstance(value, str | int) else "y": train}]
    files += [{"x": {**train, key: value}} for key in keys]
    files += [
        {"x": {**train, "options": {**train["options"], name: value}}} for name in ("data", "optimization.epochs", "")
    ]  # type: ignore[dict-item]
    for entries in files:
        place.write(entries)
        try:
            for row in place.rows():
                row.words()
                assert row.digest
        except ConfigError as error:
            assert "\n" not in str(error)  # noqa: PT017 - there need not be an error


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent has ended")
def test_runs_end_with_a_queue_that_is_killed() -> None:
    code = (
        "import subprocess, time; from structattn_papers.reproduction.queue import die_with_parent;"
        "print(subprocess.Popen(die_with_parent(['sleep', '600']), start_new_session=True).pid, flush=True);"
        "time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as queue:
        assert queue.stdout is not None
        child = Path(f"/proc/{int(queue.stdout.readline())}/cmdline")
        wait_until(lambda: child.read_bytes().startswith(b"sleep"))
        queue.kill()

    def is_gone() -> bool:  # or a zombie, without words
        try:
            return not child.read_bytes()
        except OSError:
            return True

    wait_until(is_gone)


def wait_until(holds: Callable[[], bool], seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_run_of_another_queue_is_waited_for_and_keeps_its_log(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    queue = place.queue("base", seeds=[1])
    (job,) = queue.jobs
    folder = queue.folder(job)
    log = folder.with_name(f"{folder.name}.log")
    folder.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("step 550\n", encoding="utf-8")
    with caplog.at_level("INFO", logger="structattn"), RunFolder(folder).claimed():
        assert list(queue.work(hours=1 / 3600)) == []
    assert "waits: " in caplog.text
    assert f"in use by process {os.getpid()}" in caplog.text
    assert log.read_text(encoding="utf-8") == "step 550\n"
    (progress,) = queue.work()
    assert progress.failure is None


def test_faults_of_whoever_asks(place: Place) -> None:
    with pytest.raises(ConfigError, match="no paper and no file of rows; known: mine"):
        read_rows("yours", papers=place.path / "papers")
    with pytest.raises(ConfigError, match=r"no row 'x\*'; known: base, wide, after, bad"):
        place.rows("x*")
    with pytest.raises(ConfigError, match="mine/wide needs the place 'data': --places data=FOLDER"):
        Queue(place.rows("wide"), seeds=None, places={}, out=place.path)
    with pytest.raises(ConfigError, match="there is no /nowhere"):
        parse_places("data=/nowhere")
    with pytest.raises(ConfigError, match="expected NAME=FOLDER"):
        parse_places("data")
    place.write({"x": {"command": "train", "options": {"data.trian": "x"}}})
    with pytest.raises(ConfigError, match=r"mine/x: data: unknown option 'trian' \(did you mean 'train'\?\)"):
        place.rows()[0].config()


def test_the_command_plans_and_runs(
    place: Place, call: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("structattn_papers.reproduction.queue.sys.executable", str(place.path / "nothing"))
    words = ["reproduce", "mine", "--papers", place.path / "papers", "--out", place.path / "out"]
    places = f"data={place.path / 'data'}"
    code, out, _ = call(*words, "--rows", "base,wide", "--places", places, "--plan")
    assert code == 0
    assert out.splitlines() == [
        "3 runs of 2 rows to do, 0 finished before",
        "mine/base seed 1",
        "mine/base seed 2",
        "mine/wide seed 1",
    ]
    code, _, err = call(*words, "--jobs", "0")
    assert (code, "--jobs" in err) == (2, True)


# The rows of the papers.


def test_rows_of_papers_are_possible_configurations() -> None:
    """Options are known, no two rows of a paper are the same, and no path of a machine is among them."""
    digests, checked = set(), set()
    for row in ROWS.values():
        assert not [word for word in row.words() if word.startswith(("/", "~"))], str(row)
        config = row.config()
        digests.add((row.folder, row.digest_of(config)))
        asked = json.dumps([config.get("encoder"), config.get("options")])
        if row in TRAINED and config["task"] != "fact_selection" and asked not in checked:
            builders = LANGUAGE_MODELS if config["task"] == "language_model" else BUILDERS
            check_options(config["options"], builders.find(config["encoder"]), str(row))
            checked.add(asked)
    assert len(digests) == len(ROWS)


@pytest.mark.parametrize("row", TRAINED[:: max(1, len(TRAINED) // 4)], ids=str)
def test_a_row_resolves_to_what_its_command_line_means(row: Row) -> None:
    words = row.words()
    if row.preset is not None:
        words[words.index("--config") + 1] = str(row.folder / row.preset)
    values = arguments.parse(train_command, words[1:], name="train")
    assert values is not None
    apart = {"seed", "out", "device", "mixed_precision"}
    resolved = {name: value for name, value in values["config"].to_dict().items() if name not in apart}
    assert json.loads(json.dumps(resolved)) == json.loads(json.dumps(row.config()))


@pytest.mark.parametrize("row", [row for row in ROWS.values() if row.command == "parse"], ids=str)
def test_a_row_that_parses_is_a_command_line(row: Row) -> None:
    values = arguments.parse(parse_command, row.words()[1:], name="parse")
    assert values is not None
    assert {name: values[name] for name in row.options} == row.options


def test_a_golden_output_changes_with_the_model_only() -> None:
    row = next(row for row in TRAINED if row.config()["encoder"] == "ms_san")
    assert golden_output(row) == golden_output(row)
    changed = Row(row.folder, row.name, row.command, options={**row.options, "options.alpha": 0.5})
    longer = Row(row.folder, row.name, row.command, options={**row.options, "optimization.epochs": 99})
    assert golden_output(changed) != golden_output(row) == golden_output(longer)


def test_a_golden_output_leaves_every_random_state_of_its_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    def seeding(row: Row, measure: object) -> list[float]:
        np.random.seed(5)  # as torch.manual_seed does those of all devices
        return []

    monkeypatch.setattr("structattn_papers.reproduction.golden._MAKERS", {"train": seeding})
    before = np.random.get_state()[1].copy()
    assert golden_output(ROWS["disan/trec-disan"]) == []
    assert (np.random.get_state()[1] == before).all()
    with golden_backbone():
        np.random.seed(5)
    assert (np.random.get_state()[1] == before).all()


# For each kind of model a row, and an option that makes it another model.
KINDS = (
    ("disan/trec-disan", {"options.masks": ["forward"]}),
    ("ms-san/trec-bert", {"options.dim": 24}),
    ("hydra/rte", {"options.heads": "random"}),
    ("curves/backbone-300-hydra", {"options.heads": "random"}),
    ("hydra/rte-sgnet", {"embedder.is_frozen": True}),
    ("hydra/rte-dependency", {"options.alpha": 1.0}),
    ("hydra/squad", {"heads": "random"}),
    ("hydra/heads", {"heads.relation": "head"}),
    ("structured-attention/babi-memn2n-2", {"options.num_steps": 3}),
    ("structured-attention/babi-binary-2", {"options.dim": 10}),
    ("a parser", {"trees": "projective"}),
)
# No published row is a parser's.
OWN = {"a parser": Row(ROOT / "papers", "parser", "parser train", arguments=("{data}/train.conllu",))}


@pytest.mark.parametrize(("name", "options"), KINDS, ids=[name for name, _ in KINDS])
def test_every_kind_of_model_has_a_golden_output_of_its_own(
    name: str, options: dict[str, object], capfd: pytest.CaptureFixture[str]
) -> None:
    row = {**ROWS, **OWN}[name]
    state = torch.get_rng_state()
    found = golden_output(row)
    assert found is not None
    assert golden_step(row) == golden_step(row)
    assert all(math.isfinite(value) for value in found)
    assert min(found[:2]) > 0, "a loss, and a gradient"
    assert same_output(golden_output(row), found)
    changed = dataclasses.replace(row, options={**row.options, **options})
    longer = dataclasses.replace(row, options={**row.options, "optimization.epochs": 99})
    assert not same_output(golden_output(changed), found)
    assert same_output(golden_output(longer), found)
    assert torch.equal(torch.get_rng_state(), state)
    assert capfd.readouterr() == ("", "")


def test_what_is_no_model_of_this_package_has_no_golden_output() -> None:
    parse = next(row for row in ROWS.values() if row.command == "parse")
    row = ROWS["disan/trec-disan"]
    other = dataclasses.replace(row, options={**row.options, "encoder": "mine:encoder", "options.dim": 8})
    assert (golden_output(parse), golden_output(other)) == (None, None)
