"""Every kind of training, killed with signal 9 at a checkpoint, goes on to the same bits."""

import contextlib
import functools
import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import structattn as sa
from backbones import save_tiny
from interrupting import MOMENTS, kill_at
from structattn.cli import main
from structattn.data.generated import agreement_treebank
from structattn.files.json_yaml import read_json_lines

WORDS = ["kids", "wash", "their", "hands", "the", "dog", "barks"]
# Arguments of each kind of training, apart from --out; they stop after three evaluations.
KINDS: Mapping[str, tuple[str, ...]] = {
    "task": (
        *("train", "--task", "classification", "--encoder", "transformer", "--data.train", "labelled.txt"),
        *("--options.dim", "8", "--options.num_heads", "2", "--options.dropout", "0.2", "--optimization.epochs", "3"),
        *("--optimization.batch_size", "8", "--optimization.average", "2", "--optimization.gradient_accumulation", "2"),
    ),
    "parser": (
        *("parser", "train", "trees.conllu", "--dev", "trees.conllu", "--encoder.word_dim", "6"),
        *("--encoder.hidden", "6", "--encoder.num_layers", "1", "--optimization.epochs", "3"),
        *("--optimization.batch_size", "8"),
    ),
    "language model": (
        *("train", "--task", "language_model", "--encoder", "causal", "--data.train", "trees.conllu"),
        *("--options.config.model_type", "gpt2", "--options.config.n_layer", "1", "--options.config.n_embd", "8"),
        *("--options.config.n_head", "2", "--options.num_subwords", "60", "--options.planting.weight", "1"),
        *("--optimization.epochs", "3", "--optimization.batch_size", "8"),
    ),
    "heads": (
        *("hydra", "pretrain", "trees.conllu", "--backbone", "backbone", "--heads.relation", "head arc head arc"),
        *("--optimization.epochs", "3", "--optimization.batch_size", "8", "--optimization.patience", "3"),
    ),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    save_tiny(folder / "backbone")
    trees = (example.sentences[0] for example in itertools.islice(agreement_treebank(seed=5), 24))
    tagged = [sa.Sentence(one.words, one.tags or ["X"] * len(one), one.dependency) for one in trees]
    sa.write_conllu(folder / "trees.conllu", tagged)
    lines = (f"{number % 2} {WORDS[number % 7]} {WORDS[number % 5]} {WORDS[number % 3]}" for number in range(40))
    (folder / "labelled.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def curve(run: Path) -> list[dict[str, Any]]:
    """The evaluations of a run without its speed."""
    rows = list(read_json_lines(run / "metrics.jsonl"))
    for row in rows:
        del row["seconds"]
        row["values"].pop("sentences_per_second", None)
    return rows


def train(kind: str, out: Path) -> list[str]:
    return [*KINDS[kind], "--device", "cpu", "--out", str(out)]


@pytest.fixture(scope="module")
def whole(place: Path) -> Callable[[str], Path]:
    """The run of a kind of training that nothing interrupts."""

    @functools.cache
    def of(kind: str) -> Path:
        with contextlib.chdir(place):
            assert main(train(kind, place / f"whole {kind}")) == 0
        return place / f"whole {kind}"

    return of


@pytest.mark.parametrize(
    ("kind", "moment"),
    [
        *(("task", moment) for moment in MOMENTS),
        ("parser", "after"),
        # These read a backbone, which takes long to import; test_questions interrupts a run in this process.
        *(pytest.param(kind, "after", marks=pytest.mark.slow) for kind in ("questions", "heads", "language model")),
    ],
)
def test_a_killed_run_goes_on_to_the_same_bits(
    kind: str,
    moment: str,
    place: Path,
    whole: Callable[[str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(place)
    expected, broken = whole(kind), tmp_path / "broken"
    kill_at(train(kind, broken), checkpoint=2, moment=moment)
    assert not (broken / "result.json").exists()
    assert main([*train(kind, broken), "--resume"]) == 0
    assert len(curve(expected)) >= 3
    assert curve(broken) == curve(expected)
    (best,) = (expected / "best").glob("*.safetensors")
    assert (broken / "best" / best.name).read_bytes() == best.read_bytes()
    assert not (broken / "checkpoint.safetensors").exists()
