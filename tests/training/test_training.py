"""Training: what a run leaves behind, that a seed decides everything, and that an interruption changes nothing."""

import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch

import structattn as sa
from forking import CONTEXT, run_forked
from interrupting import interrupted
from structattn.data import Vocabulary
from structattn.data.tensors import read_with_metadata, serialise
from structattn.errors import ConfigError, MissingStructure, ParseError, StructAttnError
from structattn.files.json_yaml import read_json, read_json_lines
from structattn.tasks import ClassifierConfig, get_task
from structattn.training import (
    DataConfig,
    OptimizationConfig,
    RunConfig,
    RunFolder,
    is_first_process,
    load_config,
    resume,
    run,
)
from structattn.training.examples import read_split
from structattn.training.optimization import build_optimizer, build_schedule
from structattn.training.plan import plan_run
from structattn.training.preparation import prepare_model
from structattn.training.run_config import save_config
from structattn.training.sampler import LengthBatchSampler

pytestmark = pytest.mark.integration

GOOD, BAD, OTHER = ["good", "fine", "great"], ["bad", "dull", "poor"], ["a", "the", "film", "plot", "very", "this"]


def write_reviews(path: Path, number: int, seed: int = 0) -> Path:
    """Lines ``label words``; the label follows from one word."""
    generator = np.random.default_rng(seed)
    lines = []
    for _ in range(number):
        label = int(generator.integers(2))
        words = generator.choice(OTHER, generator.integers(1, 9)).tolist()
        words.insert(int(generator.integers(len(words) + 1)), str(generator.choice((BAD, GOOD)[label])))
        lines.append(f"{label} {' '.join(words)}\n")
    path.write_text("".join(lines), encoding="utf-8")
    return path


@pytest.fixture
def data(tmp_path: Path) -> DataConfig:
    return DataConfig(
        str(write_reviews(tmp_path / "train.txt", 96)), dev=str(write_reviews(tmp_path / "dev.txt", 24, seed=1))
    )


def configure(data: DataConfig, out: Path | None = None, *, seed: int = 1, **optimization: Any) -> RunConfig:
    chosen = {"epochs": 3, "batch_size": 16, "learning_rate": 2e-2, **optimization}
    return RunConfig(
        "classification",
        "transformer",
        data,
        options={"dim": 8, "num_heads": 2, "dropout": 0.2},
        classifier=ClassifierConfig(hidden=8),
        optimization=OptimizationConfig(**chosen),
        seed=seed,
        out=None if out is None else str(out),
        device="cpu",
    )


def curve(folder: Path) -> list[dict[str, Any]]:
    """Everything that was measured, apart from the clock."""
    rows = list(read_json_lines(RunFolder(folder).metrics))
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


def weights(folder: Path) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = safetensors.torch.load_file(folder / "best" / "model.safetensors")
    return found


# One run.


def test_a_run_learns_and_leaves_its_folder(data: DataConfig, tmp_path: Path) -> None:
    out = tmp_path / "run"
    config = configure(dataclasses.replace(data, test=data.dev), out, epochs=6)
    before = torch.get_rng_state(), np.random.get_state()[1].tolist()  # type: ignore[index]
    result = run(config)
    assert torch.equal(before[0], torch.get_rng_state()), "a run must leave its caller's random numbers alone"
    assert before[1] == np.random.get_state()[1].tolist()  # type: ignore[index]
    assert result.folder == out
    assert result.metrics["accuracy"] > 0.9
    assert result.test == result.metrics
    assert result.parameters > 0
    names = {path.name for path in out.iterdir()}
    expected = {"config.yaml", "environment.json", "metrics.jsonl", "predictions", "best", "plots", "result.json"}
    assert names == expected

    rows = curve(out)
    assert [row["step"] for row in rows] == [6 * epoch for epoch in range(1, len(rows) + 1)]
    assert [row["epoch"] for row in rows] == list(range(1, len(rows) + 1))
    best = [row for row in rows if row["is_best"]][-1]
    assert best["metrics"]["accuracy"] == max(row["metrics"]["accuracy"] for row in rows) == result.metrics["accuracy"]

    predictions = list(read_json_lines(RunFolder(out).predictions("dev")))
    assert [set(row) for row in predictions] == [{"id", "gold", "predicted", "scores", "texts"}] * 24
    assert np.mean([row["gold"] == row["predicted"] for row in predictions]) == best["metrics"]["accuracy"]
    model = sa.load(out)
    answers = model.predict(list(get_task("classification").read(config.data.dev or "")))
    assert [answer.label for answer in answers] == [row["predicted"] for row in predictions]

    environment = read_json(RunFolder(out).environment)
    assert environment["structattn"] == sa.__version__
    assert set(environment["sha256"]) == {data.train, data.dev}


def test_config_yaml_runs_again_to_the_same_end(data: DataConfig, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    run(configure(data, first))
    again = load_config(first / "config.yaml")
    assert again.out is None
    run(dataclasses.replace(again, out=str(second)))
    assert curve(first) == curve(second)
    assert all(torch.equal(weights(first)[name], weights(second)[name]) for name in weights(first))
    assert (first / "predictions/dev.jsonl").read_bytes() == (second / "predictions/dev.jsonl").read_bytes()


def test_another_seed_is_another_run(data: DataConfig, tmp_path: Path) -> None:
    run(configure(data, tmp_path / "one", epochs=1))
    run(configure(data, tmp_path / "two", epochs=1, seed=2))
    assert curve(tmp_path / "one")[0]["training"] != curve(tmp_path / "two")[0]["training"]


def test_patience_ends_a_run_and_keeps_the_best(data: DataConfig, tmp_path: Path) -> None:
    result = run(configure(data, tmp_path / "run", learning_rate=1e-9, epochs=9, patience=2))
    rows = curve(tmp_path / "run")
    assert [row["is_best"] for row in rows] == [True, False, False]
    assert result.best["step"] == rows[0]["step"]


def test_evaluations_within_an_epoch(data: DataConfig, tmp_path: Path) -> None:
    run(configure(data, tmp_path / "run", epochs=2, evaluations_per_epoch=3))
    assert [row["step"] for row in curve(tmp_path / "run")] == [2, 4, 6, 8, 10, 12]


@pytest.mark.parametrize("optimizer", ["adadelta", "adagrad", "sgd"])
def test_every_optimizer_takes_steps_and_resumes(optimizer: str, data: DataConfig, tmp_path: Path) -> None:
    options = {"optimizer": optimizer, "epochs": 2, "schedule": "linear", "warmup": 0.25}
    run(configure(data, tmp_path / "whole", **options))
    run_interrupted(configure(data, tmp_path / "parts", **options), after=1)
    resume(tmp_path / "parts")
    assert curve(tmp_path / "parts") == curve(tmp_path / "whole")


def test_bfloat16_trains(data: DataConfig, tmp_path: Path) -> None:
    result = run(dataclasses.replace(configure(data, tmp_path / "run", epochs=4), mixed_precision="bf16"))
    assert result.metrics["accuracy"] > 0.6
    assert all(tensor.dtype == torch.float32 for tensor in weights(tmp_path / "run").values())


def test_a_loss_that_is_not_finite_ends_the_run(data: DataConfig, tmp_path: Path) -> None:
    with pytest.raises(StructAttnError, match=r"training loss is (nan|inf) at step .*lower learning rate"):
        run(configure(data, tmp_path / "run", optimizer="sgd", learning_rate=1e30, clip=None))


def test_regression_runs_too(tmp_path: Path) -> None:
    lines = [
        {"sentence1": f"{'good ' * (index % 5)}film", "sentence2": "good film", "label": float(1 + index % 5)}
        for index in range(40)
    ]
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    config = dataclasses.replace(configure(DataConfig(str(path)), tmp_path / "run", epochs=10), task="sick")
    result = run(config)
    assert set(result.metrics) == {"pearson", "spearman", "mean_squared_error"}
    assert result.metrics["pearson"] > 0.5
    row = next(read_json_lines(RunFolder(result.folder).predictions("dev")))
    assert isinstance(row["predicted"], float)
    assert set(row["scores"]) == {"1", "2", "3", "4", "5"}


# Interruption.


def run_interrupted(config: RunConfig, *, after: int) -> None:
    """Run, and stop dead after some checkpoints."""
    with interrupted(after=after):
        run(config)


@pytest.mark.parametrize(
    ("after", "every", "epochs"), [(1, 2.0, 8), (3, 2.0, 8), (4, 2.0, 8), (1, 0.5, 20), (4, 0.5, 20)]
)
def test_resuming_changes_nothing(
    after: int, every: float | int, epochs: int, data: DataConfig, tmp_path: Path
) -> None:
    """Also between two evaluations of an epoch, between epochs with one, and with the patience half used up."""
    options = {"epochs": epochs, "patience": 3, "evaluations_per_epoch": every, "schedule": "linear"}
    options["learning_rate"] = 2e-2
    run(configure(data, tmp_path / "whole", **options))
    run_interrupted(configure(data, tmp_path / "parts", **options), after=after)
    resume(tmp_path / "parts")
    whole = curve(tmp_path / "whole")
    assert len(whole) > after
    assert not whole[-1]["is_best"], "patience must have ended this run"
    assert curve(tmp_path / "parts") == whole
    assert all(
        torch.equal(weights(tmp_path / "whole")[key], value) for key, value in weights(tmp_path / "parts").items()
    )


def test_resuming_after_the_last_step_only_finishes(data: DataConfig, tmp_path: Path) -> None:
    run(configure(data, tmp_path / "whole", epochs=2))
    run_interrupted(configure(data, tmp_path / "parts", epochs=2), after=2)
    resume(tmp_path / "parts")
    assert curve(tmp_path / "parts") == curve(tmp_path / "whole")


def test_damaged_checkpoints_are_named(data: DataConfig, tmp_path: Path) -> None:
    run_interrupted(configure(data, tmp_path / "run", epochs=2), after=1)
    file = tmp_path / "run" / "checkpoint.safetensors"
    content = file.read_bytes()
    tensors, metadata = read_with_metadata(file)
    state = json.loads(metadata["state"])
    states = [{name: value for name, value in state.items() if name != missing} for missing in state]
    others = (json.dumps(each) for each in (*states, {**state, "history": []}, {**state, "optimizer": {}}, []))
    texts = [b"".join(serialise(tensors, state=text)) for text in (*others, "{", "")]
    model = b"".join(serialise({"model/none": torch.ones(1)}, state=metadata["state"]))
    # Of more averaged states than the run has, those beyond its number are not read.
    more = {f"earlier{number}/weight": torch.ones(1) for number in range(3)}
    averaged = b"".join(serialise({**tensors, **more}, state=metadata["state"]))
    for damaged in (content[: len(content) // 2], b"", b"{}", model, *texts):
        file.write_bytes(damaged)
        with pytest.raises(ParseError) as caught:
            resume(tmp_path / "run")
        assert caught.value.file == str(file), damaged[:20]
    file.write_bytes(averaged)
    resume(tmp_path / "run")


def test_leftovers_of_a_killed_process_are_tidied(data: DataConfig, tmp_path: Path) -> None:
    out = tmp_path / "run"
    run(configure(data, out, epochs=1))
    (out / "result.json").unlink()
    (out / "best").rename(out / ".best.old")
    (out / ".best.new").mkdir()
    (out / ".latest.0a1b2c3d.new").mkdir()
    for name in (".dev.jsonl.7.tmp", ".dev.jsonl.0a1b2c3d.tmp"):
        (out / "predictions" / name).touch()
    (out / ".notes").write_text("mine", encoding="utf-8")
    with RunFolder(out).running(configure(data, out, epochs=1), lambda folder: None, resume=True):
        pass
    assert (out / "best" / "config.json").is_file()
    assert [*out.glob(".*"), *out.glob("predictions/.*")] == [out / ".notes"]


def test_a_finished_run_is_only_read(data: DataConfig, tmp_path: Path) -> None:
    result = run(configure(data, tmp_path / "run", epochs=1))
    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "run").rglob("*") if file.is_file()}
    assert resume(tmp_path / "run") == result
    assert {file: file.stat().st_mtime_ns for file in (tmp_path / "run").rglob("*") if file.is_file()} == before


def test_a_run_does_not_go_on_with_other_data(data: DataConfig, tmp_path: Path) -> None:
    out = tmp_path / "run"
    run_interrupted(configure(data, out), after=1)
    before = (out / "environment.json").read_bytes()
    for number, name in enumerate(("train", "dev"), start=5):
        path = Path(str(getattr(data, name)))
        content = path.read_bytes()
        write_reviews(path, 24, seed=number)
        with pytest.raises(ConfigError, match=f"run: cannot resume: the content of {path} has changed"):
            resume(out)
        assert (out / "environment.json").read_bytes() == before
        path.write_bytes(content)
    resume(out)
    folder = RunFolder(out)
    sums = read_json(folder.environment)["sha256"]
    folder.check_data({f"moved/{file}": checksum for file, checksum in sums.items()})
    with pytest.raises(ConfigError, match=r"cannot resume: the content of new\.txt"):
        folder.check_data({**sums, "new.txt": "0"})


def test_two_processes_cannot_share_a_folder(data: DataConfig, tmp_path: Path) -> None:
    out = tmp_path / "run"
    process = CONTEXT.Process(target=hold, args=(out,))
    process.start()
    try:
        wait_for(lambda: (out / "lock").is_file() and (out / "lock").read_text().strip() != "", process)
        with pytest.raises(ConfigError, match=f"run is in use by process {process.pid}"):
            run(configure(data, out))
    finally:
        process.kill()
        process.join()
        process.close()
    run(configure(data, out, epochs=1))


def test_checkpoints_hold_no_pickle(data: DataConfig, tmp_path: Path) -> None:
    run_interrupted(configure(data, tmp_path / "run"), after=2)
    checkpoint = tmp_path / "run" / "checkpoint.safetensors"
    assert "state" in read_with_metadata(checkpoint)[1]
    checkpoint.write_bytes(b"truncated")
    with pytest.raises(ParseError, match=r"checkpoint.safetensors: expected a whole safetensors file"):
        resume(tmp_path / "run")


def hold(out: Path) -> None:
    with RunFolder(out).claimed():
        time.sleep(600)


def wait_for(condition: Any, process: BaseProcess, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert process.is_alive(), "the process ended too early"
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.01)


# Folders.


def test_a_folder_with_a_run_is_refused(data: DataConfig, tmp_path: Path) -> None:
    out = tmp_path / "run"
    config = configure(data, out, epochs=1)
    result = run(config)
    with pytest.raises(ConfigError, match="contains a finished run; choose another folder, or overwrite it"):
        run(config)
    assert run(config, resume=True) == result
    with pytest.raises(ConfigError, match="cannot resume with other values of optimization, seed; see"):
        run(configure(data, out, epochs=2, seed=2), resume=True)
    assert len(curve(run(configure(data, out, epochs=2), overwrite=True).folder)) == 2
    (out / "result.json").unlink()
    with pytest.raises(ConfigError, match="contains an unfinished run, which can be resumed"):
        run(config)
    other = tmp_path / "photos"
    other.mkdir()
    (other / "cat.jpg").touch()
    with pytest.raises(ConfigError, match="is not empty and not a run folder"):
        run(configure(data, other), overwrite=True)
    with pytest.raises(ConfigError, match="resume needs out"):
        run(configure(data), resume=True)


def files_of(folder: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_a_run_is_replaced_once_the_new_one_has_an_evaluation(data: DataConfig, tmp_path: Path) -> None:
    out = tmp_path / "run"
    run(configure(data, out, epochs=1))
    before = files_of(out)
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("zzz 1 2 3 4 5 6 7 8\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="has a vector"):
        run(configure(dataclasses.replace(data, vectors=str(vectors)), out), overwrite=True)
    assert files_of(out) == before
    # A process that is killed before the new run is described, and after.
    config = configure(data, out, epochs=2)
    folder = RunFolder(out)
    for described in (False, True):
        assert run_forked(replace_and_die, config, described).code == -signal.SIGKILL
        assert not folder.is_finished
        assert folder.config.is_file() == described
        with pytest.raises(ConfigError, match="contains a finished run"):
            run(config)
        assert files_of(out) == before
    (out / ".moving").mkdir()
    (out / "metrics.jsonl").rename(out / ".moving" / "metrics.jsonl")
    with pytest.raises(ConfigError, match="contains a finished run"):
        run(config)
    assert files_of(out) == before
    with interrupted(after=1):
        run(configure(data, out, epochs=2), overwrite=True)
    assert not [*out.glob(".*")]
    assert len(curve(resume(out).folder)) == 2


def replace_and_die(config: RunConfig, described: bool) -> None:
    def describe(folder: RunFolder) -> None:
        if not described:
            die()
        save_config(config, folder.config)

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    with RunFolder(str(config.out)).running(config, describe, overwrite=True):
        die()


def test_bad_data_leave_no_folder(data: DataConfig, tmp_path: Path) -> None:
    out = tmp_path / "run"
    for broken, message in (
        ("", "empty file"),
        ("1 good\n1 fine\n1 great\n", "all . training examples have the label '1'"),
        ("1 good\n", "cannot hold out 1 of 1 examples"),
    ):
        path = tmp_path / "broken.txt"
        path.write_text(broken, encoding="utf-8")
        with pytest.raises((ParseError, ConfigError), match=message):
            run(configure(DataConfig(str(path)), out))
        assert not out.exists()
    with pytest.raises(ConfigError, match=r"unknown encoder 'transfomer'.*did you mean 'transformer'"):
        run(dataclasses.replace(configure(data, out), encoder="transfomer"))
    with pytest.raises(ConfigError, match="unknown option 'width' for encoder 'transformer'"):
        run(dataclasses.replace(configure(data, out), options={"width": 3}))
    without_parser = configure(dataclasses.replace(data, parser="none"), out)
    with pytest.raises(MissingStructure, match="DependencyDistance"):  # only found out once training has begun
        run(dataclasses.replace(without_parser, encoder="ms_san", options={"dim": 12}))
    assert not out.exists()


def test_default_folder_is_named_after_task_encoder_and_seed(
    data: DataConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(configure(data, epochs=1, seed=7))
    assert result.folder.parts[:3] == ("runs", "classification", "transformer")
    assert result.folder.name.startswith("seed7-")


# Several processes.


def launched_by_accelerate(config: Path, folder: Path) -> str:
    """What two processes print that ``accelerate launch`` starts."""
    code = folder / "train.py"
    code.write_text(
        "import sys, structattn.training as t\n"
        "r = t.run(t.load_config(sys.argv[1]))\n"
        "if t.is_first_process(): print(r.metrics['accuracy'])\n",
        encoding="utf-8",
    )
    # accelerate starts several processes only under this flag; without a GPU they talk through gloo.
    flags = ["--multi_gpu", "--num_processes", "2", "--num_machines", "1", "--main_process_port", "0"]
    flags += ["--mixed_precision", "no", "--dynamo_backend", "no", "--num_cpu_threads_per_process", "1"]
    launch = [sys.executable, "-m", "accelerate.commands.launch", *flags, str(code), str(config)]
    done = subprocess.run(launch, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def launched_here(config: Path, folder: Path) -> str:
    """What two processes print that are told of each other by the environment, as ``accelerate launch`` does it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with ThreadPoolExecutor() as pool:
        ended = list(pool.map(lambda rank: run_forked(train_as, rank, port, config), range(2)))
    for one in ended:
        assert one.code == 0, one.err
    return "".join(one.out for one in ended)


def train_as(rank: int, port: int, config: Path) -> None:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "ACCELERATE_USE_CPU": "true"}
    result = run(load_config(config), resume=True)
    if is_first_process():
        print(result.metrics["accuracy"])


@pytest.mark.parametrize(
    "launched",
    [launched_here, pytest.param(launched_by_accelerate, marks=pytest.mark.slow)],
    ids=["here", "accelerate"],
)
def test_two_processes_train_one_model(launched: Callable[[Path, Path], str], data: DataConfig, tmp_path: Path) -> None:
    config = configure(data, tmp_path / "run", epochs=3, batch_size=8)
    save_config(config, tmp_path / "config.yaml")
    printed = launched(tmp_path / "config.yaml", tmp_path).splitlines()
    (accuracy,) = [line for line in printed if not line.startswith("[Gloo]")]  # which some versions of it greet by
    rows = curve(tmp_path / "run")
    assert float(accuracy) == max(row["metrics"]["accuracy"] for row in rows)
    # Two processes with batches of 8 take the steps of one with batches of 16.
    assert [row["step"] for row in rows] == [6, 12, 18]
    predictions = read_json_lines(RunFolder(tmp_path / "run").predictions("dev"))
    assert [row["id"] for row in predictions] == [str(index) for index in range(24)]


def test_a_run_goes_on_with_another_number_of_processes(data: DataConfig, tmp_path: Path) -> None:
    schedule = {"epochs": 3, "batch_size": 8, "schedule": "linear", "warmup": 0}
    config = configure(data, tmp_path / "run", **schedule)
    save_config(config, tmp_path / "config.yaml")
    with interrupted(after=1):
        run(config)
    (before,) = curve(tmp_path / "run")
    launched_here(tmp_path / "config.yaml", tmp_path)
    rows = curve(tmp_path / "run")
    assert rows[0] == before
    # Alone an epoch has twelve steps, for two processes six.
    assert [(row["epoch"], row["step"]) for row in rows] == [(1, 12), (2, 12), (3, 18)]
    rate = config.optimization.learning_rate
    assert [row["training"]["learning_rate"] for row in rows[1:]] == pytest.approx(
        [rate * left / 18 for left in (7, 1)]
    )


# Data.


def split_of(data: DataConfig, **fields: Any) -> Any:
    config = dataclasses.replace(configure(data), **fields)
    return read_split(plan_run(config))


def test_peak_memory_is_that_of_training(data: DataConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test data are not even predicted when it is read off."""
    file = RunFolder(tmp_path / "run").predictions("test")
    monkeypatch.setattr(sys.modules["structattn.training.run"], "peak_memory", lambda _: float(file.exists()))
    result = run(configure(dataclasses.replace(data, test=data.dev), tmp_path / "run", epochs=1))
    assert file.exists()
    assert result.peak_memory == 0.0


def test_holdout_is_the_same_for_every_seed(data: DataConfig) -> None:
    alone = dataclasses.replace(data, dev=None, holdout=0.25)
    first, second = split_of(alone, seed=1), split_of(alone, seed=2)
    assert first == second
    assert len(first.dev) == 24
    ids = {example.id for example in first.train} | {example.id for example in first.dev}
    assert len(ids) == len(first.train) + len(first.dev) == 96


@pytest.mark.parametrize("limit", [None, 60, 96])
def test_the_end_of_the_training_file_is_test_data(data: DataConfig, limit: int | None) -> None:
    alone = dataclasses.replace(data, dev=None, test=None)
    whole = [example.id for example in split_of(alone).train] + [example.id for example in split_of(alone).dev]
    whole.sort(key=int)
    if limit == 96:
        with pytest.raises(ConfigError, match=r"data\.test_size: cannot hold out 20 of 96 examples after the first 96"):
            split_of(dataclasses.replace(alone, test_size=20, limit=limit))
        return
    split = split_of(dataclasses.replace(alone, test_size=20, limit=limit))
    end = limit or 76
    assert [example.id for example in split.test] == whole[end : end + 20]
    assert sorted((example.id for example in (*split.train, *split.dev)), key=int) == whole[:end]


@pytest.mark.parametrize("parts", [{}, {"dev": None, "holdout": 0.25}])
def test_samples_are_nested_and_leave_dev_alone(data: DataConfig, parts: dict[str, Any]) -> None:
    whole = split_of(dataclasses.replace(data, **parts))
    everyone = [example.id for example in whole.train]

    def drawn(size: int, seed: int = 1) -> list[str]:
        split = split_of(dataclasses.replace(data, sample=size, **parts), seed=seed)
        assert split.dev == whole.dev
        assert split.sentences == split.train
        return [example.id for example in split.train]

    small, large = drawn(10), drawn(40)
    assert (len(small), len(large)) == (10, 40)
    assert set(small) < set(large) < set(everyone)
    assert large == [one for one in everyone if one in large], "in the order of the data"
    assert drawn(10, seed=2) != small
    assert drawn(len(everyone)) == everyone
    with pytest.raises(ConfigError, match=rf"data.sample: expected at most the {len(everyone)} training examples"):
        drawn(len(everyone) + 1)


def test_a_sample_of_folds_and_of_phrases(data: DataConfig, tmp_path: Path) -> None:
    alone = dataclasses.replace(data, dev=None, sample=20)
    whole = split_of(dataclasses.replace(alone, sample=None), folds=4, fold=2)
    part = split_of(alone, folds=4, fold=2)
    assert (part.dev, part.test, len(part.train)) == (whole.dev, whole.test, 20)
    path = tmp_path / "trees.txt"
    path.write_text("".join(f"(3 (2 very) (3 {word}))\n" for word in "abcdefghij"), encoding="utf-8")
    split = split_of(DataConfig(str(path), phrases="all", sample=4), task="sst5")
    assert (len(split.sentences), len(split.train)) == (4, 12)


def test_folds_part_the_data(data: DataConfig) -> None:
    alone = dataclasses.replace(data, dev=None)
    parts = [split_of(alone, folds=4, fold=fold) for fold in range(1, 5)]
    tested = [example.id for part in parts for example in part.test]
    assert sorted(tested, key=int) == [str(index) for index in range(96)]
    for part in parts:
        ids = [example.id for example in (*part.train, *part.dev, *part.test)]
        assert len(ids) == len(set(ids)) == 96


def test_phrases_are_for_training_only(tmp_path: Path) -> None:
    path = tmp_path / "trees.txt"
    words = [f"{first}{second}" for first in "abcde" for second in "xy"]
    rows = [f"({1 if word.endswith('x') else 3} (2 very) (4 (2 so) (3 {word})))\n" for word in words]
    path.write_text("".join(rows), encoding="utf-8")
    for phrases, number in (("none", 9), ("all", 45), ("unique", 27 + 2), ("weighted", 27 + 2)):
        data = DataConfig(str(path), phrases=phrases)
        split = split_of(data, task="sst5")
        (held_out,) = split.dev
        assert len(held_out.sentences[0]) == 3
        assert len(split.sentences) == 9
        assert len(split.train) == number
        assert not any(held_out.sentences[0].words[-1] in example.sentences[0].words for example in split.train)
        assert {example.weight for example in split.train} == ({0.25, 1.0} if phrases == "weighted" else {1.0})


def test_phrases_of_several_files_are_those_of_one(tmp_path: Path) -> None:
    rows = [f"({1 + 2 * (k % 2)} (2 very) (4 (2 so) (3 w{k})))\n" for k in range(10)]
    for name, part in (("whole.txt", rows), ("part-1.txt", rows[:4]), ("part-2.txt", rows[4:])):
        (tmp_path / name).write_text("".join(part), encoding="utf-8")
    for phrases in ("none", "all", "unique"):
        found = [
            [
                one.sentences[0].words
                for one in split_of(DataConfig(str(tmp_path / name), phrases=phrases), task="sst5").train
            ]
            for name in ("whole.txt", "part-*.txt")
        ]
        assert len(found[1]) >= len(found[0]) >= 9
        assert phrases == "unique" or found[0] == found[1]


def test_frozen_words_are_those_of_dev_with_a_vector(tmp_path: Path) -> None:
    train, dev, vectors = (tmp_path / name for name in ("train.txt", "dev.txt", "vectors.txt"))
    train.write_text("1 good film\n0 bad film\n", encoding="utf-8")
    dev.write_text("1 Lovely weird film\n", encoding="utf-8")
    vectors.write_text("good 1 0\nlovely 0 1\nunheard 1 1\n", encoding="utf-8")
    for frozen, words in (("dev", ("lovely",)), ("all", ("lovely", "unheard")), ("none", ())):
        data = DataConfig(str(train), dev=str(dev), vectors=str(vectors), frozen=frozen)
        config = configure(data)
        model = prepare_model(plan_run(config), split_of(data))
        vocabulary = model.vocabulary
        assert vocabulary.words[len(vocabulary) - vocabulary.num_frozen :] == words
        embedder = model.encoder.embedder
        assert embedder.weight[vocabulary["good"]].tolist() == [1.0, 0.0]
        assert embedder.frozen.tolist() == [[0.0, 1.0], [1.0, 1.0]][: len(words)]
        assert model.config["embedder"] == {"name": "words", "dim": 2, "num_frozen": len(words), "dropout": 0.0}
        assert model.config["options"] == config.options
        model.save_pretrained(tmp_path / frozen)
        again = sa.load(tmp_path / frozen)
        assert torch.equal(again.encoder.embedder.frozen, embedder.frozen)
        assert again.config == model.config
    for embedder, message in (
        ({"dim": 3}, r"embedder.dim: the vectors of .* have 2 numbers, got 3"),
        ({"name": "backbone"}, "data.vectors: embedder 'backbone' has no table of word vectors"),
    ):
        with pytest.raises(ConfigError, match=message):
            prepare_model(plan_run(dataclasses.replace(config, embedder=embedder)), split_of(data))


def test_uniform_values_reach_all_but_normalisations_given_vectors_and_empty_rows(
    data: DataConfig, tmp_path: Path
) -> None:
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("good 7 7 7 7 7 7 7 7\n", encoding="utf-8")
    given = dataclasses.replace(data, vectors=str(vectors))
    config = dataclasses.replace(configure(given), optimization=OptimizationConfig(initial_range=0.01))
    model = prepare_model(plan_run(config), split_of(given))
    table = model.encoder.embedder.weight
    assert table[model.vocabulary["good"]].tolist() == [7.0] * 8
    assert not table[:2].any()
    norms = {name for name, part in model.named_modules() if isinstance(part, torch.nn.LayerNorm)}
    assert norms
    for name, value in model.named_parameters():
        place, _, kind = name.rpartition(".")
        if place in norms:
            assert (value == float(kind == "weight")).all(), name
        elif value is not table:
            assert 0 < value.abs().max() <= 0.01, name
    with pytest.raises(ConfigError, match=r"optimization\.initial_range: expected a number above 0, got 0\.0"):
        OptimizationConfig(initial_range=0.0)


def test_classifier_options_reach_the_model(data: DataConfig) -> None:
    config = dataclasses.replace(
        configure(data), classifier=ClassifierConfig(hidden=5, activation="elu", output_bias=False)
    )
    model = prepare_model(plan_run(config), split_of(data))
    assert model.classifier.first.out_features == 5
    assert model.classifier.second.bias is None
    assert isinstance(model.classifier.activation, torch.nn.ELU)
    assert model.classifier.dropout.p == 0.2, "the encoder's own dropout"


# The order of examples.


@pytest.mark.parametrize(
    ("number", "batch_size", "processes"), [(10, 3, 1), (10, 3, 2), (7, 2, 4), (1, 4, 2), (64, 8, 3)]
)
def test_batches_cover_the_examples(number: int, batch_size: int, processes: int) -> None:
    lengths = [index % 5 for index in range(number)]
    shares = [
        list(LengthBatchSampler(lengths, batch_size, seed=3, process=process, processes=processes))
        for process in range(processes)
    ]
    assert len({len(share) for share in shares}) == 1, "every process takes as many steps"
    assert len(shares[0]) == len(LengthBatchSampler(lengths, batch_size, seed=3, processes=processes))
    found = [index for share in shares for batch in share for index in batch]
    assert set(found) == set(range(number))
    if processes == 1:
        assert len(found) == number


def test_batches_hold_similar_lengths_and_follow_seed_and_epoch() -> None:
    lengths = np.random.default_rng(0).integers(1, 40, 800).tolist()
    sampler = LengthBatchSampler(lengths, 16, seed=1)

    def padding(batches: Sequence[Sequence[int]]) -> int:
        return sum(max(lengths[index] for index in batch) * len(batch) for batch in batches)

    batches = list(sampler)
    assert padding(batches) < 1.1 * sum(lengths)
    assert batches == list(LengthBatchSampler(lengths, 16, seed=1))
    assert batches != list(LengthBatchSampler(lengths, 16, seed=2))
    sampler.set_epoch(1)
    assert batches != list(sampler)


# Optimizer and configuration.


def test_only_matrices_decay() -> None:
    vocabulary = Vocabulary(["a", "b"])
    encoder = sa.encoders.build("transformer", vocab_size=len(vocabulary), dim=8, num_heads=2, embedder={"dim": 4})
    model = sa.tasks.SentenceModel(encoder, sa.tasks.SENTIMENT)
    groups = build_optimizer(model, OptimizationConfig(weight_decay=0.1)).param_groups
    found = {id(parameter): group["weight_decay"] for group in groups for parameter in group["params"]}
    assert len(found) == len(list(model.parameters()))
    for name, parameter in model.named_parameters():
        decays = parameter.ndim == 2 and name != "encoder.embedder.weight"
        assert found[id(parameter)] == (0.1 if decays else 0.0), name


def test_adadelta_has_the_values_of_tensorflow() -> None:
    optimizer = build_optimizer(torch.nn.Linear(2, 2), OptimizationConfig(optimizer="adadelta", learning_rate=0.5))
    assert (optimizer.defaults["rho"], optimizer.defaults["eps"], optimizer.defaults["lr"]) == (0.95, 1e-8, 0.5)


def test_constant_schedule_stays() -> None:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    schedule = build_schedule(optimizer, OptimizationConfig(), num_steps=3)
    for _ in range(3):
        optimizer.step()
        schedule.step()
    assert schedule.get_last_lr() == [1.0]


def test_configurations_survive_yaml(data: DataConfig, tmp_path: Path) -> None:
    config = dataclasses.replace(
        configure(dataclasses.replace(data, text_column=1, label_column="gold"), tmp_path / "run"),
        options={"dim": 8, "heads": [["f", "w"], ["b", None]]},
    )
    save_config(config, tmp_path / "config.yaml")
    assert load_config(tmp_path / "config.yaml") == config


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("task: [", "expected YAML"),
        ("- a", "expected keys and values, got list"),
        ("task: trec", "required: encoder"),
        ("{task: a, encoder: b, data: {train: x, trian: y}}", "unknown key 'data.trian'; known: data.train, data.dev"),
        ("{task: a, encoder: b, data: {train: x}, tusk: 1}", "unknown key 'tusk'; known: task, encoder, data, options"),
        ("{task: a, encoder: b, data: {train: x, holdout: z}}", "data.holdout: expected float, got z"),
        (
            "{task: a, encoder: b, data: {train: x, holdout: 1.5}}",
            "data.holdout: expected a share between 0 and 1, got",
        ),
        (
            "{task: a, encoder: b, data: {train: x, frozen: no}}",
            "data.frozen: expected one of 'none', 'dev', 'all', got False",
        ),
        ("{task: a, encoder: b, data: {train: x}, optimization: {epochs: 0}}", "epochs: expected at least 1, got 0"),
        ("{task: a, encoder: b, data: {train: x}, folds: 1}", "folds: expected at least 2, got 1"),
        ("{task: a, encoder: b, data: {train: x}, fold: 1}", "folds: expected a number, as fold is given"),
        (
            "{task: a, encoder: b, data: {train: x, frozen: all}}",
            "data.frozen: expected none without data.vectors, got",
        ),
        ("{task: a, encoder: b, data: {vectors_size: 0.1}}", "data.vectors_size: expected none without data.vectors"),
        ("{task: a, encoder: b, data: {trees: left, tree_seed: 3}}", "expected none without data.trees random, got 3"),
        (
            "{task: a, encoder: b, data: {train: x, buffer: 9}}",
            "data.buffer: expected none without data.streaming, got",
        ),
        (
            "{task: a, encoder: b, data: {loader_workers: 2}}",
            "data.loader_workers: expected none without data.streaming",
        ),
        (
            "{task: a, encoder: b, data: {train: x, generated: 9}}",
            "data.generated: expected none beside data.train, got",
        ),
        ("{task: a, encoder: b, data: {train: x, dev: y}, folds: 3}", "cross-validation makes its own dev"),
        ("{task: a, encoder: b, data: {train: x}, folds: 3, fold: 4}", "fold: expected 1 to 3, got 4"),
    ],
)
def test_malformed_configurations_name_file_and_key(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=message) as caught:
        load_config(path)
    assert str(caught.value).startswith(f"{path}: ")


def test_choices_are_checked() -> None:
    with pytest.raises(ConfigError, match=r"optimization.optimizer: unknown value 'lion'; known: adam, adamw"):
        OptimizationConfig(optimizer="lion")  # type: ignore[arg-type]


def test_fp16_needs_a_gpu(data: DataConfig) -> None:
    with pytest.raises(ConfigError, match="fp16 needs a GPU"):
        dataclasses.replace(configure(data), mixed_precision="fp16")


def test_missing_configuration_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nothing.yaml: No such file"):
        load_config(tmp_path / "nothing.yaml")


# Cross-validation.


def test_cross_validation_summarises_its_folds(data: DataConfig, tmp_path: Path) -> None:
    config = dataclasses.replace(configure(dataclasses.replace(data, dev=None), tmp_path / "run", epochs=4), folds=3)
    result = run(config)
    assert {path.name for path in result.folder.iterdir()} >= {"fold01", "fold02", "fold03", "result.json"}
    values = [read_json(result.folder / f"fold{fold:02d}" / "result.json")["test"]["accuracy"] for fold in (1, 2, 3)]
    assert result.metrics["accuracy"] == pytest.approx(np.mean(values))
    assert result.metrics["accuracy_sd"] == pytest.approx(np.std(values, ddof=1))
    rows = list(read_json_lines(RunFolder(result.folder).predictions("test")))
    assert sorted(int(row["id"]) for row in rows) == list(range(96))
    assert run(config, resume=True) == result
    again = load_config(result.folder / "fold02" / "config.yaml")
    assert (again.folds, again.fold) == (3, 2)


@pytest.mark.parametrize(
    ("train", "dev", "message"),
    [
        (
            "1 good\n7 bad\n",
            "1 good\n",
            "train.txt: task 'sst5': training example 1 (line 2) has unknown label '7'; known: 0, 1, 2",
        ),
        ("1 good\n1 bad\n", "1 good\n", "train.txt: task 'sst5': all 2 training examples have the label '1'"),
    ],
)
def test_what_is_wrong_with_labels_is_said_with_the_file(tmp_path: Path, train: str, dev: str, message: str) -> None:
    for name, text in (("train.txt", train), ("dev.txt", dev)):
        (tmp_path / name).write_text(text, encoding="utf-8")
    data = DataConfig(str(tmp_path / "train.txt"), dev=str(tmp_path / "dev.txt"))
    with pytest.raises(ConfigError) as caught:
        split_of(data, task="sst5")
    assert f"{tmp_path}{os.sep}{message}" in str(caught.value)


def test_what_is_wrong_with_labels_of_objects_names_no_file() -> None:
    with pytest.raises(
        ConfigError, match=r"^the given data: task 'sst5': training example 1 \(row 2\) has unknown label '7'"
    ):
        sa.train([("good", "1"), ("bad", "7")], [("good", "1")], task="sst5", encoder="ms_san")
