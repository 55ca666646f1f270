"""Latent trees learnt from given ones, an encoder that starts from another one, and the entropy that runs note."""

import dataclasses
import json
import math
from itertools import permutations
from pathlib import Path

import pytest
import torch

import structattn as sa
from small_models import attachment_model, sentence_model
from structattn.data import Example, Vocabulary
from structattn.encoders import build
from structattn.errors import ConfigError, MissingStructure
from structattn.syntax import DependencyTree, Sentence, write_conllu
from structattn.tasks import AttachmentModel, get_task, metric
from structattn.training import DataConfig, OptimizationConfig, RunConfig, load, run
from structattn.training.preparation import start_from
from structattn.training.run import tree_entropy
from structures_by_hand import all_heads

WORDS = ["a", "dog", "barks", "cat", "sleeps"]
VOCABULARY = Vocabulary(WORDS)
TASK = get_task("attachment")


def sentence(text: str, heads: list[int]) -> Sentence:
    return Sentence(text.split(), dependency=DependencyTree(heads))


def model_of(attention: str = "projective", **options: object) -> AttachmentModel:
    torch.manual_seed(2)
    encoder = build("structured", vocab_size=len(VOCABULARY), attention=attention, dim=6, **options).double()
    return AttachmentModel(encoder, TASK, vocabulary=VOCABULARY)


@pytest.mark.parametrize("attention", ["projective", "nonprojective"])
@pytest.mark.parametrize("single_root", [False, True])
@pytest.mark.parametrize("num_layers", [None, 2])
def test_the_likelihoods_of_all_trees_sum_to_one(attention: str, single_root: bool, num_layers: int | None) -> None:
    model = model_of(attention, single_root=single_root, num_layers=num_layers)
    trees = all_heads(4, projective=attention == "projective", single_root=single_root)
    batch = model.collate([Example((sentence("a dog barks cat", list(heads)),)) for heads in trees])
    assert model(batch).exp().sum().item() == pytest.approx(1)
    best = trees[int(model(batch).argmax())]
    answer = model.predict(["a dog barks cat"])[0]
    assert answer.text == " ".join(map(str, best))
    assert answer.log_probability == pytest.approx(model(batch).max().item())


def test_the_loss_is_a_mean_over_words_whatever_the_company() -> None:
    model = model_of()
    first, second = sentence("a dog barks", [2, 3, 0]), sentence("sleeps", [0])
    together = model.loss([Example((first,)), Example((second,))])
    apart = 3 * model.loss([Example((first,))]) + model.loss([Example((second,))])
    assert together.item() == pytest.approx(apart.item() / 4)
    together.backward()  # type: ignore[no-untyped-call]
    scorer = model.encoder.contextualizer.attention.scorer
    for name, parameter in scorer.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name


def test_crossing_arcs_are_lifted_for_projective_trees_only() -> None:
    crossing = Example((sentence("a dog barks cat", [3, 4, 0, 3]),))
    lifted = crossing.sentences[0].dependency.projectivised()  # type: ignore[union-attr]
    model = model_of("projective")
    expected = model(model.collate([Example((sentence("a dog barks cat", list(lifted.heads)),))]))
    assert model(model.collate([crossing])).item() == pytest.approx(expected.item())
    both = model_of("nonprojective")
    assert both.collate([crossing]).sentences[0].dependency == crossing.sentences[0].dependency


def test_attachment_counts_words_not_sentences() -> None:
    found = metric("attachment")
    assert found.value(["2 0", "0"], ["2 0", "0"]) == 1
    assert found.value(["2 0 2", "0"], ["0 1 2", "0"]) == pytest.approx(2 / 4)
    with pytest.raises(ValueError, match="attachment: expected an answer for each of the 2 words of example 0, got 1"):
        found.value(["2 0"], ["0"])


@pytest.mark.parametrize(("attention", "expected"), [("simple", math.log(4)), ("projective", math.log(12) / 3)])
def test_entropy_of_scores_that_say_nothing(attention: str, expected: float) -> None:
    """Three words: four heads each where they choose alone, twelve trees where they do not."""
    task = get_task("sentiment")
    model = sentence_model("structured", task, vocabulary=VOCABULARY, options={"attention": attention, "dim": 4})
    torch.nn.init.zeros_(model.encoder.contextualizer.attention.scorer.scorer.scores.score.weight)  # type: ignore[union-attr, arg-type]
    examples = [Example([Sentence(["a", "dog", "barks"])])] * 3
    assert tree_entropy(model, examples, batch_size=2) == pytest.approx(expected)
    plain = sentence_model("emb_s2t", task, vocabulary=VOCABULARY, options={"dim": 4})
    assert tree_entropy(plain, examples) is None


@pytest.fixture(scope="module")
def treebank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Words in any order, all of which hang from the verb."""
    path = tmp_path_factory.mktemp("trees") / "toy.conllu"
    orders = [words for size in (2, 3, 4) for words in permutations(["a", "dog", "barks", "cat"], size)]
    starred = [(words, words.index("barks") + 1) for words in orders if "barks" in words]
    rows = [(words, [0 if word == "barks" else verb for word in words]) for words, verb in starred]
    write_conllu(path, [Sentence(words, dependency=DependencyTree(heads)) for words, heads in rows])
    return path


def config_of(file: Path, out: Path, **changes: object) -> RunConfig:
    config = RunConfig(
        "attachment",
        "decomposable",
        DataConfig(str(file), str(file)),
        options={"inside": "projective", "dim": 16, "hidden": 8},
        optimization=OptimizationConfig(learning_rate=0.02, weight_decay=0.0, batch_size=16, epochs=6, patience=None),
        out=str(out),
    )
    return dataclasses.replace(config, **changes)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def pretrained(treebank: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("run") / "heads"
    assert run(config_of(treebank, out)).metrics["attachment"] > 0.9
    return out


def test_a_run_leaves_a_model_that_finds_heads(treebank: Path, pretrained: Path) -> None:
    model = load(pretrained)
    examples = list(model.task.read(treebank))
    result = json.loads((pretrained / "result.json").read_text(encoding="utf-8"))
    assert model.evaluate(examples).metrics == result["metrics"]
    assert examples[0].label == " ".join(map(str, examples[0].sentences[0].dependency.heads))  # type: ignore[union-attr]
    rows = (pretrained / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    entropies = [json.loads(row)["values"]["tree_entropy"] for row in rows]
    assert entropies[-1] < entropies[0]


def test_pairs_start_from_the_pretrained_heads(pretrained: Path, tmp_path: Path) -> None:
    rows = [("no cat", "cat a cat", "same"), ("zebra barks", "barks a zebra", "other")] * 8
    table = tmp_path / "pairs.tsv"
    table.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    config = config_of(
        table,
        tmp_path / "pairs",
        task="pair_classification",
        init=str(pretrained),
        data=DataConfig(str(table), str(table), text_column="0,1", label_column=2),
        classifier=sa.tasks.ClassifierConfig(combine="together"),
        optimization=OptimizationConfig(learning_rate=1e-9, weight_decay=0.0, epochs=1),
    )
    run(config)
    mine, theirs = load(tmp_path / "pairs"), load(pretrained)
    scorers = [one.encoder.contextualizer.inside.state_dict() for one in (mine, theirs)]  # type: ignore[union-attr, operator]
    assert all(torch.allclose(value, scorers[1][name], atol=1e-6) for name, value in scorers[0].items())
    tables = [one.encoder.embedder.weight for one in (mine, theirs)]  # type: ignore[union-attr]
    places = [one.vocabulary["cat"] for one in (mine, theirs)]
    assert places[0] != places[1]
    assert torch.allclose(tables[0][places[0]], tables[1][places[1]], atol=1e-6)  # type: ignore[index]
    assert mine.vocabulary["zebra"] > 1
    assert theirs.vocabulary["zebra"] == 1


def test_what_does_not_fit_is_refused(pretrained: Path) -> None:
    with pytest.raises(ConfigError, match="task 'attachment' expects an encoder with latent trees, got one with Indep"):
        model_of("simple")
    with pytest.raises(ConfigError, match=r"expected an encoder that attends to heads, .* got one with 0 such"):
        build("structured", vocab_size=7, attention="none").latent_trees(sa.collate([Sentence([])], VOCABULARY))
    with pytest.raises(MissingStructure, match="task 'attachment' needs dependency of every sentence"):
        model_of().loss([Example((Sentence(["a"]),))])
    with pytest.raises(ValueError, match="example 0 has no tree to compare with"):
        model_of().evaluate([Example((sentence("a", [0]),))])

    def fresh(encoder: str, **options: object) -> None:
        start_from(attachment_model(encoder, TASK, vocabulary=VOCABULARY, options=options), pretrained)

    with pytest.raises(ConfigError, match=r"has a parameter 'contextualizer\.\w+\.?[\w.]*', which this encoder lacks"):
        fresh("structured", dim=16)
    with pytest.raises(ConfigError, match=r"of shape .*; are the options and the vectors the same"):
        fresh("decomposable", dim=16, hidden=9)
