"""Sentences longer than the maximum length: truncated with their trees, or refused; and running out of memory."""

import dataclasses
import itertools
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

import structattn as sa
from structattn.cli import main
from structattn.data.data_summary import summarise
from structattn.data.generated import agreement_treebank
from structattn.errors import ConfigError, StructAttnError
from structattn.parsing.parse_texts import parse_each
from structattn.syntax import ConstituencyTree, DependencyTree, Sentence
from structattn.tasks import Task, get_task
from structattn.training import loop

SENTENCES = [example.sentences[0] for example in itertools.islice(agreement_treebank(3), 10)]
ROWS = [("a fine film", "good"), ("a dull film", "bad"), ("fine indeed", "good"), ("dull indeed", "bad")] * 5
LONG = " ".join(["fine"] * 30)


def ancestors(tree: DependencyTree, word: int) -> list[int]:
    """The heads above a word, from the nearest to 0."""
    found = []
    while word:
        word = tree.heads[word - 1]
        found.append(word)
    return found


@pytest.mark.parametrize("seed", range(20))
def test_a_truncated_dependency_tree_keeps_nearest_ancestors(seed: int) -> None:
    generator = random.Random(seed)
    order = generator.sample(range(1, 13), 12)
    heads = [0] * 12
    for place, word in enumerate(order):
        heads[word - 1] = generator.choice([0, *order[:place]])
    tree = DependencyTree(heads, [str(word) for word in range(1, 13)])
    for left in range(1, 13):
        short = tree.truncated(left)
        assert short.labels == tree.labels[:left]
        for word in range(1, left + 1):
            assert short.heads[word - 1] == next(one for one in ancestors(tree, word) if one <= left)
        if tree.is_projective:
            assert short.is_projective


@pytest.mark.parametrize("sentence", SENTENCES)
def test_a_truncated_sentence_is_one_with_its_first_words(sentence: Sentence) -> None:
    assert sentence.truncated(len(sentence)) is sentence
    relations = {"near": [[abs(a - b) for b in range(len(sentence))] for a in range(len(sentence))]}
    sentence = dataclasses.replace(sentence, relations=relations)
    for left in range(1, len(sentence)):
        short = sentence.truncated(left)
        assert short.words == sentence.words[:left]
        assert short.text == " ".join(short.words)
        assert [list(row) for row in short.relations["near"]] == [row[:left] for row in relations["near"][:left]]
        for name in ("dependency", "constituency"):
            assert (getattr(short, name) is None) == (getattr(sentence, name) is None)
    with pytest.raises(ValueError, match="at least one word, got 0"):
        sentence.truncated(0)


def test_phrases_end_where_the_words_end() -> None:
    tree = ConstituencyTree.from_brackets("(S (NP (DT the) (NN cat)) (VP (VBD saw) (NP (DT a) (NN dog))))")
    assert tree.truncated(4).to_brackets() == "(S (NP (DT the) (NN cat)) (VP (VBD saw) (NP (DT a))))"
    assert tree.truncated(2).to_brackets() == "(S (NP (DT the) (NN cat)))"


def test_what_is_refused() -> None:
    long = sa.Example(LONG, "good", id="7")
    message = "example 7 has a sentence of 30 words, more than max_length 8: truncate it, or use a greater max_length"
    with pytest.raises(ConfigError, match=message):
        Task("short", max_length=8, truncation=False).limited(long)
    # The text of a translation and the heads of a tree are about every word.
    with pytest.raises(ConfigError, match="use a greater max_length"):
        dataclasses.replace(get_task("translation"), max_length=8).limited(long)
    with pytest.raises(ConfigError, match="max_length of at least 1"):
        Task("short", max_length=0)
    with pytest.raises(ConfigError, match=r"data\.max_length: expected at least 1, got 0"):
        sa.training.DataConfig(max_length=0)


def test_the_summary_counts_what_was_truncated() -> None:
    task = Task("short", max_length=2)
    examples = [task.limited(sa.Example(text, label)) for text, label in ROWS[:4]]
    assert "at most 2); 2 sentences truncated to 2 words;" in str(summarise(examples))
    assert "truncated" not in str(summarise(examples[2:]))


def arguments(tmp_path: Path, *options: str) -> list[str]:
    data = tmp_path / "reviews.csv"
    rows = [*ROWS, (LONG, "good")]
    data.write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in rows), encoding="utf-8")
    chosen = ["--task", "classification", "--encoder", "disan_nodir", "--options.dim", "4"]
    common = ["--data.train", str(data), "--data.dev", str(data), "--device", "cpu", "--optimization.epochs", "1"]
    return ["train", *chosen, *common, "--out", str(tmp_path / "run"), *options]


def test_the_length_is_part_of_the_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments(tmp_path, "--data.max_length", "8")) == 0
    assert "1 sentence truncated to 8 words" in capsys.readouterr().err
    short, long = " ".join(["fine"] * 8), tmp_path / "long.txt"
    long.write_text(f"{LONG}\n{short}\n", encoding="utf-8")
    assert main(["predict", str(tmp_path / "run"), "--data", str(long), "--format", "text"]) == 0
    shown = capsys.readouterr()
    first, second = (json.loads(line)["probabilities"] for line in shown.out.splitlines())
    assert first == second
    assert "1 sentence truncated to 8 words" in shown.err
    model = sa.load(tmp_path / "run")
    assert model.predict([LONG])[0].probabilities == model.predict([short])[0].probabilities
    assert model.task.max_length == 8


def test_what_is_truncated_is_not_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[tuple[str, ...]] = []

    def spy(sentences: Sequence[Sentence], *others: Any, **options: Any) -> Any:
        parsed.extend(sentence.words for sentence in sentences)
        return parse_each(sentences, *others, **options)

    def found() -> list[int]:
        lengths = sorted(len(words) for words in parsed)
        parsed.clear()
        return lengths

    monkeypatch.setattr("structattn.parsing.parse_texts.parse_each", spy)
    rows, values = [(LONG, "good"), ("a dull film", "bad")], {"options": {"dim": 6}, "optimization": {"epochs": 1}}
    result = sa.train(rows, rows, encoder="ms_san", max_length=8, out=tmp_path / "run", **values)
    assert found() == [3, 3, 8, 8]  # not 8 three times: what is learnt and its sentences share their examples
    model = sa.load(result.folder)
    assert [len(example.sentences[0]) for example in model.with_trees([sa.Example(LONG)])] == [8]
    sa.predict(model, [LONG])
    sa.evaluate(model, rows)
    assert found() == [3, 8, 8, 8]


def test_longer_sentences_may_be_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments(tmp_path, "--data.max_length", "8", "--data.refuse_longer", "true")) == 2
    assert "has a sentence of 30 words, more than max_length 8" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("error", [MemoryError(), torch.OutOfMemoryError("CUDA out of memory"), None])
def test_running_out_of_memory_names_the_batch(
    error: BaseException | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: Any) -> None:
        if error is None:
            torch.empty(10**15)  # what torch raises on a CPU
        else:
            raise error

    with monkeypatch.context() as patch:
        patch.setattr(loop._Loop, "_add_gradients", fail)
        assert main(arguments(tmp_path)) == 2
    assert "out of memory in a batch of 21 examples of up to 30 words; use a smaller optimization.batch_size or " in (
        capsys.readouterr().err
    )
    assert main(arguments(tmp_path)) == 0
    model = sa.load(tmp_path / "run")
    monkeypatch.setattr(model, "forward", fail)
    with pytest.raises(StructAttnError, match="out of memory in a batch of 2 examples of up to 3 words; use"):
        model.predict(["fine", "a fine film"])


def test_other_errors_stay_what_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("shapes do not match")

    assert main(arguments(tmp_path)) == 0
    model = sa.load(tmp_path / "run")
    monkeypatch.setattr(model, "forward", fail)
    with pytest.raises(RuntimeError, match="shapes do not match"):
        model.predict(["fine"])
