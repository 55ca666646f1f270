"""Tasks: what they read, how sentence vectors combine, what a model is trained against, and what it answers."""

import dataclasses
import inspect
import json
from pathlib import Path

import pytest
import torch

from structattn.data import Example, Vocabulary, collate, read_examples
from structattn.data.treebank.writing import write_examples
from structattn.encoders import build
from structattn.errors import ConfigError, MissingStructure
from structattn.syntax import DependencyTree, Sentence
from structattn.tasks import (
    SENTIMENT,
    TASKS,
    AttachmentModel,
    Classifier,
    ClassifierConfig,
    SentenceModel,
    SequenceModel,
    Task,
    TaskModel,
    get_task,
)
from structattn.tasks.answer_config import combine
from structattn.tasks.classifier import expected_scores, score_targets
from structattn.training.preparation import count_parameters

WORDS = ["a", "bad", "dog", "film", "fine", "good", "runs"]
VOCABULARY = Vocabulary(WORDS)


def sentence(text: str) -> Sentence:
    words = text.split()
    return Sentence(words, dependency=DependencyTree(list(range(len(words)))))


def make(
    task: Task, labels: tuple[str, ...] | None = None, *, encoder: str = "transformer", dropout: float = 0.0
) -> SentenceModel:
    torch.manual_seed(0)
    options = {"dim": 12, "num_heads": 2} if encoder == "transformer" else {"dim": 12}
    built = build(encoder, vocab_size=len(VOCABULARY), dropout=0.0, **options)
    return SentenceModel(built, task, labels, vocabulary=VOCABULARY, classifier=ClassifierConfig(16, dropout=dropout))


def examples_for(task: Task) -> list[Example]:
    """Eight examples that fit a task."""
    texts = ["good film", "bad film", "a fine dog", "a bad dog", "good", "bad", "a dog runs", "a film runs bad"]
    classes = task.classes or ("x", "y", "z")
    found = []
    for index, text in enumerate(texts):
        label = classes[index % len(classes)]
        pair = (sentence(text), sentence(texts[0]))[: task.arity]
        found.append(Example(pair, float(label) if task.is_regression else label, id=f"e{index}"))
    return found


# Combinations and counts.


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("product_absolute", [2.0, 3.0, 5.0, 1.0, 10.0, 3.0, 3.0, 2.0]),
        ("product_signed", [2.0, 3.0, 5.0, 1.0, -3.0, 2.0, 10.0, 3.0]),
        ("tai", [10.0, 3.0, 3.0, 2.0]),
    ],
)
def test_combinations_by_hand(name: str, expected: list[float]) -> None:
    u, v = torch.tensor([[2.0, 3.0]]), torch.tensor([[5.0, 1.0]])
    assert combine(name, [u, v]).tolist() == [expected]


def test_swapping_the_sentences_negates_only_the_signed_difference() -> None:
    u, v = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0))
    here, there = combine("product_signed", [u, v]).chunk(4, -1), combine("product_signed", [v, u]).chunk(4, -1)
    assert torch.equal(here[2], -there[2])
    assert torch.equal(here[3], there[3])


def test_combine_refuses_the_wrong_number_of_vectors() -> None:
    with pytest.raises(ValueError, match="expects 2 vectors, got 1"):
        combine("tai", [torch.zeros(1, 2)])


def test_published_parameter_counts_of_pair_models() -> None:
    snli = get_task("snli")
    assert sum(parameter.numel() for parameter in Classifier(2400, 3).parameters()) == 721_203
    ms_san = SentenceModel(build("ms_san", vocab_size=9, dim=300), snli)
    assert count_parameters(ms_san) == 1_803_303
    signed = dataclasses.replace(snli, combine="product_signed")
    disan = SentenceModel(
        build("disan", vocab_size=9, dim=300, ref_biases=True), signed, classifier=ClassifierConfig(activation="elu")
    )
    assert count_parameters(disan) == 2_345_403


def test_classifier_without_output_bias_and_unknown_activation() -> None:
    assert sum(parameter.numel() for parameter in Classifier(600, 5, output_bias=False).parameters()) == 181_800
    with pytest.raises(ConfigError, match=r"unknown activation 'gelu'.*known: relu, elu, tanh, sigmoid"):
        Classifier(4, 2, activation="gelu")


# Regression.


def test_score_targets_by_hand() -> None:
    found = score_targets([3.6, 1.0, 5.0, 2.5], (1.0, 5.0))
    expected = [[0, 0, 0.4, 0.6, 0], [1, 0, 0, 0, 0], [0, 0, 0, 0, 1], [0, 0.5, 0.5, 0, 0]]
    torch.testing.assert_close(found, torch.tensor(expected))
    assert score_targets([2.25], (0.0, 5.0)).tolist() == [[0, 0, 0.75, 0.25, 0, 0]]


@pytest.mark.parametrize("score_range", [(1.0, 5.0), (0.0, 5.0)])
def test_score_targets_are_distributions_with_the_score_as_mean(score_range: tuple[float, float]) -> None:
    low, high = score_range
    scores = torch.linspace(low, high, 101).tolist()
    targets = score_targets(scores, score_range)
    assert targets.shape[1] == int(high - low) + 1
    torch.testing.assert_close(targets.sum(-1), torch.ones(101))
    torch.testing.assert_close(expected_scores(targets, score_range), torch.tensor(scores))
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(expected_scores(targets, score_range), torch.tensor(scores))


def test_score_out_of_range_is_refused() -> None:
    with pytest.raises(ValueError, match=r"score in \[1.0, 5.0\], got 5.5"):
        score_targets([5.5], (1.0, 5.0))


def test_loss_is_zero_where_the_prediction_is_the_target() -> None:
    model = make(get_task("sick"))
    batch = model.collate([Example((sentence("good"), sentence("bad")), 3.6)])
    assert float(model.loss_of((batch.target + 1e-20).log(), batch).detach()) == pytest.approx(0, abs=1e-6)
    assert float(model.loss(batch).detach()) > 0


def test_classification_loss_is_weighted_cross_entropy() -> None:
    model = make(SENTIMENT)
    rows = [Example((sentence("good"),), "positive", weight=3.0), Example((sentence("bad"),), "negative")]
    batch = model.collate(rows)
    entropy = torch.nn.functional.cross_entropy(model(batch), torch.tensor([1, 0]), reduction="none")
    expected = (entropy * torch.tensor([3.0, 1.0])).sum() / 4
    torch.testing.assert_close(model.loss(batch), expected)
    torch.testing.assert_close(model.loss(rows), expected)


# Every task.


@pytest.mark.parametrize("name", sorted(name for name, task in TASKS.items() if task.answer == "label"))
def test_every_task_learns_eight_examples_and_answers(name: str) -> None:
    task = get_task(name)
    rows = list(task.prepare(examples_for(task)))
    model = make(task, task.labels_of(rows))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    batch = model.collate(rows)
    for _ in range(40):
        optimizer.zero_grad()
        model.loss(batch).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    evaluation = model.evaluate(rows)
    assert set(evaluation.metrics) == set(task.metrics)
    main = evaluation.metrics[task.main_metric.name]
    assert main > 0.95
    for prediction, row in zip(evaluation.predictions, rows, strict=True):
        assert prediction.id == row.id
        assert sum(prediction.probabilities.values()) == pytest.approx(1)
        assert (prediction.score is None) != (prediction.label is None)


@pytest.mark.parametrize("name", sorted(TASKS))
def test_tasks_survive_json(name: str) -> None:
    task = get_task(name)
    assert Task.from_dict(json.loads(json.dumps(task.to_dict()))) == task


# Predictions.


def test_predict_takes_examples_sentences_texts_and_tuples() -> None:
    model = make(SENTIMENT)
    forms = [Example((sentence("good film"),), id="x"), Sentence(["good", "film"]), "good film", ("good film",)]
    found = model.predict(forms)
    assert [prediction.id for prediction in found] == ["x", "1", "2", "3"]
    assert len({json.dumps(dict(prediction.probabilities)) for prediction in found}) == 1
    pair = make(get_task("rte"))
    first, second = pair.predict([("good film", "bad film"), (Sentence(["good", "film"]), "bad film")])
    assert first.probabilities == second.probabilities


@pytest.mark.parametrize("kind", [SentenceModel, SequenceModel, AttachmentModel])
def test_texts_in_place_of_a_batch_are_answered_with_the_name_of_predict(kind: type[TaskModel]) -> None:
    model = kind.__new__(kind)
    for given, came in ((["good film"], "list"), ("good film", "str")):
        with pytest.raises(TypeError, match=rf"expected a \w+Batch .* got a {came}; .* write model\.predict\("):
            inspect.unwrap(kind.forward)(model, given)


def test_predict_takes_batches() -> None:
    model = make(SENTIMENT)
    batch = collate([sentence("good film"), sentence("bad")], VOCABULARY)
    by_text = model.predict(["good film", "bad"])
    for found in (model.predict(batch), model.predict(model.collate(["good film", "bad"]))):
        for here, there in zip(found, by_text, strict=True):
            assert here.id == there.id
            assert here.probabilities == pytest.approx(there.probabilities)


@pytest.mark.parametrize("encoder", ["transformer", "ms_san"])
def test_answers_do_not_depend_on_the_company(encoder: str) -> None:
    model = make(SENTIMENT, encoder=encoder)
    texts = ["good", "a film runs", "", "a good dog runs a bad film", "zzz yyy", "bad film"]
    rows = [sentence(text) for text in texts]
    together = model.predict(rows)
    for size in (1, 2, 4):
        for here, there in zip(model.predict(rows, batch_size=size), together, strict=True):
            assert here.probabilities == pytest.approx(dict(there.probabilities), abs=1e-6)


def test_predicting_leaves_training_mode_and_gradients_alone() -> None:
    model = make(SENTIMENT, dropout=0.5)
    model.train()
    model.encoder.eval()
    first, second = model.predict(["good film"]), model.predict(["good film"])
    assert first == second
    assert model.training
    assert model.classifier.training
    assert not model.encoder.training
    assert model.predict([]) == []


def test_hard_sentences_have_finite_answers() -> None:
    """No words, one word, only unknown words, and longer than anything seen."""
    model = make(SENTIMENT)
    for prediction in model.predict([sentence(""), sentence("dog"), sentence("qqq rrr"), sentence("dog " * 300)]):
        assert sum(prediction.probabilities.values()) == pytest.approx(1)
    batch = model.collate([Example((sentence(""),), "positive")])
    model.loss(batch).backward()  # type: ignore[no-untyped-call]
    assert all(parameter.grad is None or parameter.grad.isfinite().all() for parameter in model.parameters())


def test_labels_unseen_in_training_count_as_wrong_and_are_counted() -> None:
    model = make(get_task("classification"), ("x", "y"))
    rows = [Example((sentence("good"),), label) for label in ("x", "y", "w", "w")]
    evaluation = model.evaluate(rows)
    assert evaluation.metrics["unseen_labels"] == 2
    assert evaluation.metrics["accuracy"] <= 0.5
    assert "unseen_labels" not in model.evaluate(rows[:2]).metrics
    # In a loss they have no say, and alone they are refused.
    torch.testing.assert_close(model.loss(rows), model.loss(rows[:2]))
    with pytest.raises(ValueError, match="no example of this batch of 2 has a label"):
        model.loss(rows[2:])


def test_model_refuses_what_does_not_fit() -> None:
    model = make(SENTIMENT)
    with pytest.raises(ValueError, match=r"'sentiment' takes 1 sentence\(s\), example 0 has 2"):
        model.predict([("a", "b")])
    with pytest.raises(TypeError, match="item 0 is int"):
        model.predict([3])  # type: ignore[list-item]
    with pytest.raises(TypeError, match=r"write predict\(\['good film'\]\)"):
        model.predict("good film")
    with pytest.raises(ValueError, match="example 1 has no label"):
        model.evaluate([Example((sentence("a"),), "positive"), Example((sentence("a"),), id="")])
    with pytest.raises(ValueError, match="at least one example"):
        model.collate([])
    encoder = model.encoder
    with pytest.raises(ConfigError, match="no vocabulary"):
        SentenceModel(encoder, SENTIMENT).predict(["a"])
    with pytest.raises(ConfigError, match="batch_size: expected at least 1, got 0"):
        model.predict(["a"], batch_size=0)
    with pytest.raises(ConfigError, match="takes its labels from the training data"):
        SentenceModel(encoder, get_task("trec"))
    with pytest.raises(ConfigError, match="at least two labels, each once"):
        SentenceModel(encoder, get_task("trec"), ["x", "x"])


_TREES = "(1 (2 a) (0 bore))\n(2 (2 a) (2 film))\n(3 (2 a) (4 joy))\n"


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("trees.txt", _TREES, ["negative", "positive"]),
        ("labelled.txt", "1 a joy\n0 a bore\n", ["positive", "negative"]),
        ("glue.tsv", "sentence\tlabel\na joy\t1\na bore\t0\n", ["positive", "negative"]),
        ("texts.jsonl", '{"text": "a joy", "label": 1}\n{"text": "a bore", "label": 0}\n', ["positive", "negative"]),
    ],
)
def test_one_means_negative_among_five_classes_of_a_treebank_and_positive_among_two(
    tmp_path: Path, name: str, content: str, expected: list[str]
) -> None:
    path = tmp_path / name
    path.write_text(content)
    assert [example.label for example in get_task("sst2").read(str(path))] == expected


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_a_converted_treebank_keeps_the_meaning_of_its_labels(tmp_path: Path, ending: str) -> None:
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    (tmp_path / "trees.txt").write_text(_TREES)
    target = str(tmp_path / f"trees.{ending}")
    write_examples(target, read_examples(tmp_path / "trees.txt"))
    assert [example.label for example in get_task("sst2").read(target)] == ["negative", "positive"]


def test_a_missing_tree_is_reported_with_the_example() -> None:
    model = make(SENTIMENT, encoder="ms_san")
    examples = [Example((sentence("a good film"),), id="7"), Example((Sentence(["bad"]),), id="8")]
    with pytest.raises(MissingStructure, match=r"DependencyDistance .* \('bad'\) has none; it is of example '8'"):
        model.predict(examples)
    with pytest.raises(MissingStructure, match="it is of example '1'"):
        model.predict([sentence("a good film"), "bad"])


# Tasks as values.


def test_prepare_renames_drops_and_checks() -> None:
    rows = [Example((sentence("good"),), label, id=str(index)) for index, label in enumerate("01234")]
    found = list(get_task("sst2").prepare(rows))
    assert [(row.id, row.label) for row in found] == [
        ("0", "negative"),
        ("1", "negative"),
        ("3", "positive"),
        ("4", "positive"),
    ]
    with pytest.raises(ConfigError, match="task 'snli' takes two sentences, example 0 has 1"):
        list(get_task("snli").prepare(rows))
    with pytest.raises(ConfigError, match=r"expects a label, example 0 has 2.5"):
        list(get_task("trec").prepare([Example((sentence("a"),), 2.5)]))
    pair = (sentence("a"), sentence("a"))
    with pytest.raises(ConfigError, match=r"expects a score, example 9 has 'x'"):
        list(get_task("sick").prepare([Example(pair, "x", id="9")]))
    with pytest.raises(ConfigError, match=r"score in \[1.0, 5.0\], example 0 has 0.5"):
        list(get_task("sick").prepare([Example(pair, 0.5)]))


def test_labels_come_from_the_training_data() -> None:
    task = get_task("trec")
    rows = [Example((sentence("good"),), label, id=f"r{label}") for label in ("b", "a", "b")]
    assert task.labels_of(rows) == ("a", "b")
    with pytest.raises(ConfigError, match="all 2 training examples have the label 'b'"):
        task.labels_of(rows[::2])
    with pytest.raises(ConfigError, match="there are no training examples"):
        task.labels_of([])
    with pytest.raises(ConfigError, match="training example 0 has no label"):
        task.labels_of([Example((sentence("good"),))])
    with pytest.raises(ConfigError, match="training example rb has unknown label 'b'; known: negative, positive"):
        SENTIMENT.labels_of(rows)


def test_read_finds_the_format_and_the_target(tmp_path: Path) -> None:
    path = tmp_path / "pairs.txt"
    header = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"
    path.write_text(header + "7\tA dog runs\tA dog is fine\t3.5\tNEUTRAL\n", encoding="utf-8")
    assert [row.label for row in get_task("sick").read(path)] == [3.5]
    assert [row.label for row in get_task("sick_entailment").read(path)] == ["NEUTRAL"]
    lines = tmp_path / "scores.jsonl"
    lines.write_text('{"sentence1": "a", "sentence2": "b", "label": 4}\n', encoding="utf-8")
    assert [row.label for row in get_task("sick").read(lines)] == [4.0]
    assert [row.label for row in get_task("pair_classification").read(lines)] == ["4"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"arity": 3}, "arity of 1 or 2, got 3"),
        ({"combine": "sum"}, "unknown combine 'sum'; known: single"),
        ({"combine": "tai"}, "combine: expected single for an arity of 1, got 'tai'"),
        (
            {"arity": 2},
            "combine: expected product_absolute, product_signed, tai, together for an arity of 2, got 'single'",
        ),
        ({"metrics": ()}, "at least one metric"),
        ({"metrics": ("pearson",)}, "'pearson' does not compare labels"),
        ({"score_range": (1.0, 5.0)}, "'accuracy' does not compare scores"),
        ({"score_range": (1.5, 5.0), "metrics": ("pearson",)}, "whole scores"),
    ],
)
def test_contradictory_tasks_are_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Task("mine", **fields)  # type: ignore[arg-type]


def test_unknown_names_are_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"unknown task 'sst3' \(did you mean 'sst[25]'\?\); known: agreement"):
        get_task("sst3")
    with pytest.raises(ConfigError, match="unknown field 'colour' of a task"):
        Task.from_dict({"name": "mine", "colour": "red"})
    with pytest.raises(ConfigError, match="a task needs a name"):
        Task.from_dict({})
