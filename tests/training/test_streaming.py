"""Training on examples that stay on disk: the same examples, an order with laws, the same bits when resumed."""

import dataclasses
import itertools
import pickle
from collections.abc import Callable, Sequence
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import structattn as sa
from structattn.data.treebank.parquet import write_parquet
from structattn.data.treebank.stream import StreamedExamples
from structattn.errors import ConfigError, ParseError
from structattn.functional import TreeOperator
from structattn.layers.tree_attention import tree_operator
from structattn.parsing.missing_trees import MissingTrees
from structattn.training import loop
from structattn.training.batches import BatchesAhead, BatchMaker
from structattn.training.optimization_config import OptimizationConfig
from structattn.training.run import resume, run
from structattn.training.run_config import DataConfig, RunConfig
from structattn.training.sampler import WindowBatchSampler

pytestmark = pytest.mark.integration

pytest.importorskip("pyarrow", reason="pyarrow is not installed")
arrow = pytest.importorskip("pyarrow.parquet")

PHRASES = sa.ConstituencyTree(["so", "Fine"], [("S", 0, 2)], tags=["ADV", None])
TREE = sa.DependencyTree([2, 0], ["advmod", "root"])


def some(number: int) -> list[sa.Example]:
    """Sentences of two classes, told apart by a word, of 1 to 7 words."""
    found = []
    for index in range(number):
        words = ["word"] * (index % 7) + [("good", "bad")[index % 2]]
        found.append(sa.Example(sa.Sentence(words), ("good", "bad")[index % 2], id=str(index)))
    return found


KINDS: dict[str, list[sa.Example]] = {
    "sentences": some(40),
    "trees": [sa.Example(sa.Sentence(["so", "Fine"], ["X", "Y"], TREE, PHRASES), "a"), *some(3)] * 4,
    "phrases with the tags of words": [
        sa.Example(sa.Sentence(["so"], ["X"], None, sa.ConstituencyTree(["so"], tags=["X"])), "a"),
        sa.Example(sa.Sentence(["so"], ["Z"]), "b"),
    ],
    "pairs": [sa.Example((sa.Sentence(["a"] * (k % 3)), sa.Sentence(["b", "A"])), "xyz"[k % 3]) for k in range(20)],
    "none without a label": [sa.Example("a b"), *some(2)],
}


def shards(folder: Path, examples: Sequence[sa.Example], *, of: int = 13, group_size: int = 4) -> list[str]:
    names = []
    for start in range(0, len(examples), of):
        names.append(str(folder / f"{start:04d}.parquet"))
        write_parquet(names[-1], examples[start : start + of], group_size=group_size)
    return names


@pytest.mark.parametrize("name", KINDS)
def test_streamed_examples_are_those_of_the_files(name: str, tmp_path: Path) -> None:
    examples = KINDS[name]
    streamed = StreamedExamples(shards(tmp_path, examples), cached=5)
    assert len(streamed) == len(examples)
    assert list(streamed) == examples
    order = np.random.default_rng(1).permutation(len(examples)).tolist()
    for some in (order, [*order, *order[::-1]], [0, 0], []):  # also one that is asked for more than once
        assert streamed.read(some) == [examples[index] for index in some]
    assert (streamed[-1], streamed[1:4]) == (examples[-1], examples[1:4])
    with pytest.raises(IndexError):
        streamed[len(examples)]
    assert streamed.lengths.tolist() == [sum(map(len, example.sentences)) for example in examples]
    for lowercase, min_count in itertools.product((True, False), (1, 3)):
        expected = sa.Vocabulary.from_examples(examples, min_count, lowercase=lowercase)
        assert sa.Vocabulary.from_counts(streamed.counts, min_count, lowercase=lowercase) == expected
    first = {example.label: example for example in reversed(examples)}
    assert sorted(streamed.one_of_each(), key=examples.index) == sorted(first.values(), key=examples.index)


def test_classes_that_are_left_out(tmp_path: Path) -> None:
    examples = KINDS["pairs"]
    streamed = StreamedExamples(shards(tmp_path, examples), dropped={"y"}, max_length=1)
    kept = [example for example in examples if example.label != "y"]
    assert list(streamed) == kept
    assert streamed.lengths.tolist() == [sum(min(1, len(one)) for one in example.sentences) for example in kept]
    assert streamed.counts.words == {"a": sum(len(one.sentences[0]) > 0 for one in kept), "b": len(kept)}
    with pytest.raises(ParseError, match="expected at least one example, got none"):
        StreamedExamples(shards(tmp_path, examples), dropped={"x", "y", "z"})


def test_a_pair_across_two_groups_is_refused(tmp_path: Path) -> None:
    table = arrow.read_table(shards(tmp_path, KINDS["pairs"])[0])
    arrow.write_table(table, tmp_path / "a.parquet", row_group_size=3)
    with pytest.raises(ParseError, match=r"a.parquet: row group 1: expected both sentences of a pair"):
        StreamedExamples([str(tmp_path / "a.parquet")])


@pytest.mark.parametrize("processes", [1, 2, 3])
@pytest.mark.parametrize("window", [1, 10, 1000])
def test_the_order_of_an_epoch(processes: int, window: int) -> None:
    sizes = [4, 4, 1, 7, 4, 2]
    lengths = np.random.default_rng(0).integers(1, 30, sum(sizes))

    def sampler(process: int, seed: int = 1) -> WindowBatchSampler:
        share: dict[str, Any] = {"seed": seed, "process": process, "processes": processes}
        return WindowBatchSampler(lengths, sizes, batch_size=3, window=window, **share)

    epochs = []
    samplers = [sampler(process) for process in range(processes)]
    for epoch in range(3):
        for one in samplers:
            one.set_epoch(epoch)
        parts = [list(one) for one in samplers]
        assert {len(part) for part in parts} == {len(samplers[0])}
        batches = [batch for step in zip(*parts, strict=True) for batch in step]
        seen = [row for batch in batches[: samplers[0].num_batches] for row in batch]
        assert sorted(seen) == list(range(sum(sizes))), "every example once"
        assert batches[samplers[0].num_batches :] == batches[: len(batches) - samplers[0].num_batches]
        assert [list(one) for one in samplers] == parts
        epochs.append(batches)
        # The examples of a window come before those of the next one.
        windows = [{row for start, end in one for row in range(start, end)} for one in samplers[0].windows]
        order = [next(k for k, one in enumerate(windows) if set(batch) <= one) for batch in batches[: len(seen)]]
        order = order[: samplers[0].num_batches]
        assert [key for key, _ in itertools.groupby(order)] == list(dict.fromkeys(order))
        assert all(sum(sizes) >= len(one) and (len(one) <= window or len(one) in sizes) for one in windows)
    assert epochs[0] != epochs[1]
    assert list(sampler(0, seed=2)) != list(sampler(0))


def test_batches_made_in_another_process_bring_the_operators_of_their_trees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    examples = KINDS["trees"][::4]
    streamed = StreamedExamples(shards(tmp_path, examples))
    torch.manual_seed(1)
    vocabulary = sa.Vocabulary.from_examples(examples)
    encoder = sa.encoders.build("tree_transformer", vocab_size=len(vocabulary), dim=8, num_heads=2)
    task = dataclasses.replace(sa.tasks.get_task("classification"), labels=("a", "b"))
    model = sa.tasks.SentenceModel(encoder, task, vocabulary=vocabulary)
    expected = model.loss_of(model.eval()(model.collate(examples)), model.collate(examples))

    model.find_trees = MissingTrees("en")
    make = pickle.loads(ForkingPickler.dumps(BatchMaker(streamed, model, torch.device("cpu"))))
    assert make.model.find_trees is None
    assert {one.device.type for one in make.model.state_dict().values()} == {"meta"}
    batch = pickle.loads(ForkingPickler.dumps(make(list(range(len(examples))))))
    monkeypatch.setattr(TreeOperator, "__init__", None)
    assert model.loss_of(model(batch), batch).equal(expected)
    (sentences,) = batch.to("meta").sides
    assert tree_operator(sentences.constituency).operator.is_meta

    model.register_forward_hook(lambda *_: None)
    with pytest.raises(ConfigError, match=r"data.loader_workers: expected an encoder that can be pickled; .*lambda"):
        BatchMaker(streamed, model, torch.device("cpu"))


def test_batches_made_ahead_are_those_that_are_asked_for(tmp_path: Path) -> None:
    examples = KINDS["sentences"]
    streamed = StreamedExamples(shards(tmp_path, examples))
    sampler = WindowBatchSampler(streamed.lengths, list(map(len, streamed.groups)), batch_size=3, window=8, seed=1)
    ahead = BatchesAhead(streamed.read, sampler, workers=1)
    try:
        assert list(ahead) == list(sampler)
        assert ahead._pool is None, "nothing is read until the first batch is asked for"
        rest = itertools.islice(iter(ahead), 4, None)
        for rows in rest:
            assert ahead.batch(rows) == [examples[row] for row in rows]
        assert not ahead._making
    finally:
        ahead.close()


@pytest.fixture
def config(tmp_path: Path) -> RunConfig:
    shards(tmp_path, some(60))
    write_parquet(tmp_path / "dev.parq", some(10))
    return RunConfig(
        "classification",
        "lstm",
        DataConfig(str(tmp_path / "*.parquet"), str(tmp_path / "dev.parq"), streaming=True, buffer=16),
        options={"dim": 4},
        optimization=OptimizationConfig(epochs=2, batch_size=4, evaluations_per_epoch=3),
        device="cpu",
        out=str(tmp_path / "whole"),
    )


def weights(folder: Path) -> bytes:
    return (folder / "best" / "model.safetensors").read_bytes()


def test_a_run_that_is_resumed_in_the_middle_of_an_epoch(
    config: RunConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run(config)
    rows = (tmp_path / "whole" / "metrics.jsonl").read_text().splitlines()
    assert len(rows) == 6
    part = dataclasses.replace(config, out=str(tmp_path / "part"))
    for _ in range(2):
        save: Callable[..., None] = loop._Loop._save

        def interrupted(self: Any, save: Callable[..., None] = save) -> None:
            save(self)
            raise KeyboardInterrupt

        monkeypatch.setattr(loop._Loop, "_save", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(part, resume=(tmp_path / "part").exists())
        monkeypatch.setattr(loop._Loop, "_save", save)
    resumed = resume(tmp_path / "part")
    assert weights(tmp_path / "part") == weights(tmp_path / "whole")
    assert resumed.metrics == whole.metrics
    assert whole.metrics["accuracy"] > 0


def test_batches_of_other_processes_give_the_same_bits(config: RunConfig, tmp_path: Path) -> None:
    trees = [dataclasses.replace(KINDS["trees"][0], label="ab"[place % 2], id=str(place)) for place in range(30)]
    for file in tmp_path.glob("*.parq*"):
        file.unlink()
    shards(tmp_path, trees)
    write_parquet(tmp_path / "dev.parq", trees[:10])
    config = dataclasses.replace(config, encoder="tree_transformer", options={"dim": 8, "num_heads": 2})
    data = dataclasses.replace(config.data, loader_workers=2)
    run(config)
    run(dataclasses.replace(config, data=data, out=str(tmp_path / "workers")))
    assert weights(tmp_path / "workers") == weights(tmp_path / "whole")


def test_as_much_is_learnt_as_from_memory(config: RunConfig, tmp_path: Path) -> None:
    """The same vocabulary, classes and first parameters; only the order of the examples differs."""
    streamed = run(
        dataclasses.replace(config, optimization=dataclasses.replace(config.optimization, epochs=6, learning_rate=0.03))
    )
    assert streamed.metrics["accuracy"] == 1.0
    data = dataclasses.replace(config.data, streaming=False, buffer=None)
    run(dataclasses.replace(config, data=data, out=str(tmp_path / "memory")))
    names = ["config.json", "vocabulary.json"]
    for name in names:
        assert (tmp_path / "memory" / "best" / name).read_bytes() == (tmp_path / "whole" / "best" / name).read_bytes()


def test_scores_are_streamed_too(config: RunConfig, tmp_path: Path) -> None:
    pairs = [
        sa.Example((one.sentences[0], one.sentences[0]), float(k % 6), id=one.id) for k, one in enumerate(some(24))
    ]
    for file in tmp_path.glob("*.parq*"):
        file.unlink()
    shards(tmp_path, pairs)
    write_parquet(tmp_path / "dev.parq", pairs[:10])
    result = run(dataclasses.replace(config, task="stsb"))
    assert -1 <= result.metrics["pearson"] <= 1


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (["--task", "attachment"], "expected a task that is answered with a class or score, got 'attachment'"),
        (["--data.limit", "3"], "expected no data.limit; structattn convert and parse make the files"),
        (["--data.parser", "en"], "expected no data.parser"),
        (["--optimization.batch_tokens", "99"], "expected optimization.batch_size, got batch_tokens"),
        (["--data.train", "{}/a.txt"], "expected Parquet files (structattn convert makes them), got"),
        (["--data.buffer", "0"], "data.buffer: expected at least 1, got 0"),
        (["--data.loader_workers", "-1"], "data.loader_workers: expected at least 0, got -1"),
    ],
)
def test_mistakes_are_one_line(
    changes: list[str], expected: str, config: RunConfig, tmp_path: Path, call: Callable[..., tuple[int, str, str]]
) -> None:
    (tmp_path / "a.txt").write_text("good so fine\n")
    given = ["--data.train", config.data.train, "--data.dev", config.data.dev, "--data.streaming", "true"]
    words = ["train", "--task", "classification", "--encoder", "lstm", "--out", tmp_path / "run", *given]
    code, _, error = call(*words, *(word.format(tmp_path) for word in changes))
    assert code == 2
    assert expected in error
    assert len(error.strip().splitlines()) == 1


def test_nothing_is_held_out(config: RunConfig, call: Callable[..., tuple[int, str, str]]) -> None:
    words = ["train", "--task", "classification", "--encoder", "lstm", "--data.train", config.data.train]
    code, _, error = call(*words, "--data.streaming", "true")
    assert code == 2
    assert "data.streaming: expected data.train and data.dev" in error
