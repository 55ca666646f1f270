"""Learning from the labels of all phrases at once, and the choice of phrase trees."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional as F

import structattn as sa
from structattn.data import Example, PhraseTrees, join_sentences
from structattn.encoders import build
from structattn.errors import ConfigError, MissingStructure
from structattn.syntax import DependencyTree
from structattn.tasks import ClassifierConfig, SentenceModel, get_task
from structattn.tasks.task_batch import TaskBatch, node_loss
from structattn.training import DataConfig, OptimizationConfig, RunConfig, run

BRACKETS = (
    "(3 (2 It) (4 (4 works) (3 (3 really) (4 well))))",
    "(1 (2 a) (1 (0 bad) (2 film)))",
    "(4 (3 fine) (2 film))",
    "(0 dull)",
)
TREES = [sa.ConstituencyTree.from_brackets(text) for text in BRACKETS]
EXAMPLES = [
    Example((sa.Sentence(tree.words, constituency=tree),), tree.labelled_subtrees()[0][0], id=str(number))
    for number, tree in enumerate(TREES)
]
VOCABULARY = sa.Vocabulary.from_examples(EXAMPLES)


def model(encoder: str = "tree_transformer", task: str = "sst5", **options: Any) -> SentenceModel:
    torch.manual_seed(0)
    sizes = {"dim": 16, "dropout": 0.0}
    built = build(encoder, vocab_size=len(VOCABULARY), **sizes)
    return SentenceModel(
        built, get_task(task), vocabulary=VOCABULARY, classifier=ClassifierConfig(hidden=16), **options
    )


@pytest.mark.parametrize("encoder", ["tree_transformer", "tree_lstm"])
def test_the_loss_is_the_mean_over_all_labelled_nodes(encoder: str) -> None:
    found = model(encoder, nodes=True)
    batch = found.collate(EXAMPLES)
    loss = found.loss(batch)
    one_by_one = []
    for example, tree in zip(EXAMPLES, TREES, strict=True):
        single = found.collate([example])
        states = found.encoder(single.sides[0]).states
        labels = [*tree.tags, *(label for label, _, _ in tree.spans)]
        logits = found.classifier(states[0])
        one_by_one += F.cross_entropy(logits, torch.tensor([int(label) for label in labels]), reduction="none").tolist()
    assert len(one_by_one) == sum(2 * len(tree) - 1 for tree in TREES)
    assert loss.item() == pytest.approx(sum(one_by_one) / len(one_by_one), abs=1e-5)


@pytest.mark.parametrize("encoder", ["tree_transformer", "tree_lstm"])
def test_the_answer_is_that_of_the_root(encoder: str) -> None:
    found = model(encoder, nodes=True)
    logits = found(found.collate(EXAMPLES))
    assert logits.shape == (4, 7, 5)
    roots = [len(max(TREES, key=len)) if len(tree) > 1 else 0 for tree in TREES]
    expected = logits[torch.arange(4), roots].double().softmax(-1)
    for row, prediction in enumerate(found.predict(EXAMPLES)):
        assert list(prediction.probabilities.values()) == pytest.approx(expected[row].tolist(), abs=1e-6)
    assert model(encoder).collate(EXAMPLES).node_classes is None


@pytest.mark.parametrize("encoder", ["tree_transformer", "tree_lstm"])
def test_it_learns_every_phrase(encoder: str) -> None:
    found = model(encoder, nodes=True)
    optimizer = torch.optim.Adam(found.parameters(), lr=0.01)
    batch = found.collate(EXAMPLES)
    for _ in range(80):
        optimizer.zero_grad()
        found.loss(batch).backward()
        optimizer.step()
    known = batch.node_classes >= 0
    assert torch.equal(found(batch).argmax(-1)[known], batch.node_classes[known])
    assert found.evaluate(EXAMPLES).metrics["accuracy"] == 1.0


def test_labels_are_renamed_and_dropped_as_the_task_says() -> None:
    found = model(task="sst2", nodes=True)
    task = get_task("sst2")
    batch = found.collate(list(task.prepare(EXAMPLES[:1])))
    # It 2, works 4, really 3, well 4; the sentence 3, works really well 4, really well 3.
    assert batch.node_classes.tolist() == [[-1, 1, 1, 1, 1, 1, 1]]


def test_weights_of_examples_count() -> None:
    found = model(nodes=True)
    light = [dataclasses.replace(EXAMPLES[0]), Example(EXAMPLES[1].sentences, "1", id="1", weight=0.0)]
    torch.testing.assert_close(found.loss(light), found.loss(EXAMPLES[:1]))


@pytest.mark.parametrize("brackets", ["(S (N a) (V film))", "(5 dull)", None])
def test_no_label_that_is_a_class_is_an_error_and_not_nan(brackets: str | None) -> None:
    found = model(nodes=True)
    tree = None if brackets is None else sa.ConstituencyTree.from_brackets(brackets)
    sentence = sa.Sentence(() if tree is None else tree.words, constituency=tree)
    without = Example((sentence,), "3")
    with pytest.raises(ConfigError, match="no word or phrase of this batch of 1 has a label that the model knows"):
        found.loss([without])
    # Beside others it counts as nothing, and so do all whose weight is zero.
    torch.testing.assert_close(found.loss([without, EXAMPLES[0]]), found.loss(EXAMPLES[:1]))
    assert found.loss([dataclasses.replace(EXAMPLES[0], weight=0.0)]) == 0.0
    # What needs no answer needs no label.
    assert found(found.collate([without])).shape[0] == 1


def test_only_encoders_with_states_of_phrases_can() -> None:
    plain = build("transformer", vocab_size=len(VOCABULARY), dim=12)
    of_words = SentenceModel(plain, get_task("sst5"), vocabulary=VOCABULARY, nodes=True)
    with pytest.raises(ConfigError, match=r"such as tree_transformer or tree_lstm; expected states of \(4, 7\) nodes"):
        of_words.loss(EXAMPLES)
    with pytest.raises(MissingStructure, match="learning from phrases needs constituency of every sentence"):
        model(nodes=True).collate([Example((sa.Sentence(["a"]),), "1")])
    pairs = SentenceModel(
        build("tree_lstm", vocab_size=len(VOCABULARY), dim=4), get_task("snli"), vocabulary=VOCABULARY, nodes=True
    )
    with pytest.raises(ConfigError, match="task 'snli': labels of phrases are learnt from single sentences"):
        pairs.collate([Example((EXAMPLES[0].sentences[0],) * 2, "neutral")])


def config(tmp_path: Path, **data: Any) -> RunConfig:
    path = tmp_path / "trees.txt"
    path.write_text("\n".join(BRACKETS * 3) + "\n", encoding="utf-8")
    return RunConfig(
        "sst5",
        "tree_transformer",
        DataConfig(str(path), dev=str(path), **data),
        options={"dim": 16, "dropout": 0.0},
        optimization=OptimizationConfig(epochs=1, batch_size=4),
        out=str(tmp_path / "run"),
    )


def test_a_run_trains_on_all_phrases_and_remembers_its_trees(tmp_path: Path) -> None:
    result = run(config(tmp_path, phrases="nodes", trees="balanced", unary="lowest"))
    assert 0 <= result.metrics["accuracy"] <= 1
    saved = json.loads((tmp_path / "run" / "best" / "config.json").read_text(encoding="utf-8"))
    assert (saved["trees"]["source"], saved["nodes"]) == ("balanced", True)
    loaded = sa.load(tmp_path / "run")
    assert loaded.trees == PhraseTrees("balanced", "lowest")
    # A sentence without any tree gets one before it is encoded.
    assert loaded.predict(["It works"])[0].label in "01234"
    maps = sa.inspection.attention_maps(loaded, sa.Sentence(["It", "works", "well"]))
    assert maps[0].weights.shape == (4, 5, 5)


def test_labels_that_are_the_answers_are_not_shown_to_the_encoder(tmp_path: Path) -> None:
    leaking = dataclasses.replace(config(tmp_path), options={"num_labels": 3})
    with pytest.raises(
        ConfigError, match=r"options.num_labels: expected 0, .* answers of task 'sst5' \(0, 1, 2, 3, 4\)"
    ):
        run(leaking)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("own", "(3 (2 It) (4 (4 works) (3 (3 really) (4 well))))"),
        ("left", "(3 (X (X (2 It) (4 works)) (3 really)) (4 well))"),
        ("right", "(3 (2 It) (4 (4 works) (3 (3 really) (4 well))))"),
        ("balanced", "(3 (X (2 It) (4 works)) (3 (3 really) (4 well)))"),
    ],
)
def test_trees_without_syntax_keep_the_labels_of_phrases_they_share(source: str, expected: str) -> None:
    assert PhraseTrees(source)(EXAMPLES[0].sentences[0]).constituency.to_brackets() == expected


def test_random_trees_are_binary_seeded_and_the_same_wherever_the_sentence_occurs() -> None:
    sentences = [sa.Sentence([f"w{number}" for number in range(size)]) for size in (0, 1, 2, 9, 30)]
    for sentence in sentences:
        tree = PhraseTrees("random", seed=3)(sentence).constituency
        assert len(tree.spans) == max(len(sentence) - 1, 0)
        assert tree == PhraseTrees("random", seed=3)(sentence).constituency
        assert tree == tree.binarised()
    longest = sentences[-1]
    assert PhraseTrees("random", seed=3)(longest) != PhraseTrees("random", seed=4)(longest)


def test_chains_of_phrases_are_treated_as_asked() -> None:
    tree = sa.ConstituencyTree.from_brackets("(S (VP (V go) (R away)))")
    sentence = sa.Sentence(tree.words, constituency=tree)
    labels = {
        unary: PhraseTrees("own", unary)(sentence).constituency.spans[0][0] for unary in ("keep", "lowest", "join")
    }
    assert labels == {"keep": "S", "lowest": "VP", "join": "S+VP"}
    assert PhraseTrees()(sentence) is sentence


def test_phrases_from_dependencies_and_missing_trees() -> None:
    sentence = sa.Sentence(["two", "kids", "wash"], dependency=DependencyTree([2, 3, 0]))
    assert PhraseTrees("dependency")(sentence).constituency.to_brackets() == "(X (X two kids) wash)"
    with pytest.raises(MissingStructure, match="need a dependency tree, 'a dog' has none"):
        PhraseTrees("dependency")(sa.Sentence(["a", "dog"]))
    with pytest.raises(MissingStructure, match="a rooted tree needs a phrase tree, 'a dog' has none"):
        PhraseTrees("rooted")(sa.Sentence(["a", "dog"]))
    with pytest.raises(ConfigError, match="unknown value 'up' for trees; known: own, rooted"):
        PhraseTrees("up")
    with pytest.raises(ConfigError, match="unknown value 'highest' for unary; known: keep, lowest"):
        PhraseTrees("own", "highest")


def test_documents_are_sentences_in_a_row() -> None:
    first = sa.Sentence(["dogs", "bark"], ["N", "V"], DependencyTree([2, 0], ["subj", "root"]), TREES[2])
    second = sa.Sentence(["hush"], ["V"], DependencyTree([0], ["root"]), sa.ConstituencyTree(["hush"]))
    document = join_sentences([dataclasses.replace(first, constituency=None), second])
    assert document.words == ("dogs", "bark", "hush")
    assert document.dependency.heads == (2, 0, 0)
    assert document.tags == ("N", "V", "V")
    assert document.constituency is None
    with pytest.raises(ValueError, match="at least one sentence, got none"):
        join_sentences([])


def test_label_smoothing_spreads_a_share_of_the_target_over_all_classes() -> None:
    """By hand: ``-(1 - e) log p_gold - e / C sum_c log p_c``, of sentences up to the entropy of the target."""
    logits = torch.tensor([[2.0, 0.0, -1.0]])
    logs = logits.log_softmax(-1)[0]
    by_hand = -0.7 * logs[0] - 0.1 * logs.sum()
    nodes = TaskBatch((), torch.zeros(1, 3), torch.ones(1), node_classes=torch.tensor([[0]]))
    torch.testing.assert_close(node_loss(logits[None], nodes, label_smoothing=0.3), by_hand)
    encoder = build("emb_s2t", vocab_size=3, dim=4)
    found = SentenceModel(
        encoder,
        get_task("snli"),
        vocabulary=VOCABULARY,
        classifier=ClassifierConfig(label_smoothing=0.3),
    )
    batch = TaskBatch((), torch.tensor([[1.0, 0.0, 0.0]]), torch.ones(1), ("a",), 1)
    target = torch.tensor([0.8, 0.1, 0.1])
    torch.testing.assert_close(found.loss_of(logits, batch), by_hand + (target * target.log()).sum())


def test_label_smoothing_is_a_share() -> None:
    with pytest.raises(ConfigError, match=r"classifier\.label_smoothing: expected a share below 1, got 1"):
        ClassifierConfig(label_smoothing=1.0)


def test_joining_looks_at_each_sentence_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, length = 0, sa.Sentence.__len__

    def counted(sentence: sa.Sentence) -> int:
        nonlocal calls
        calls += 1
        return length(sentence)

    sentences = [sa.Sentence(["a"], dependency=DependencyTree([0])) for _ in range(500)]
    monkeypatch.setattr(sa.Sentence, "__len__", counted)
    document = join_sentences(sentences)
    assert calls < 10 * len(sentences)
    assert document.dependency == DependencyTree([0] * 500)
