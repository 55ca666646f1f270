"""One look at a model: answer and maps of the same pass, what it reads, and what edits of trees do to its answer."""

import dataclasses
import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from backbones import save_tiny, tiny
from small_models import attachment_model, sentence_model
from structattn.backbones import HydraConfig, add_heads
from structattn.data import RELATIONS, Example, SentenceBatch, Vocabulary
from structattn.data.text_vocabulary import CharacterSplitter, TextVocabulary
from structattn.encoders import build
from structattn.encoders.encoder_table import BUILDERS, needs_backbone
from structattn.errors import ConfigError, MissingStructure
from structattn.inspection import arc_influence, attention_maps, flipping_edits, look, structures_read
from structattn.inspection.single_edits import count_edits, single_edits
from structattn.syntax import ConstituencyTree, DependencyTree, Sentence
from structattn.tasks import SENTIMENT, Prediction, SequenceModel, Task, TaskModel, TextProcessor, get_task
from structattn.tasks.decoding import build_decoder

DOG = Sentence(
    ["a", "dog", "barks", "loudly"],
    dependency=DependencyTree([2, 3, 0, 3], ["det", "nsubj", "root", "advmod"]),
    constituency=ConstituencyTree.from_brackets("(S (NP (DT a) (NN dog)) (VP (VBZ barks) (RB loudly)))"),
)
KIDS = Sentence(
    ["two", "kids", "wash"],
    dependency=DependencyTree([2, 3, 0], ["nummod", "nsubj", "root"]),
    constituency=ConstituencyTree.from_brackets("(S (NP (CD two) (NNS kids)) (VBP wash))"),
)
VOCABULARY = Vocabulary(sorted({*DOG.words, *KIDS.words}))
PAIR = Task("pair", arity=2, combine="product_absolute", labels=("no", "yes"))
SCORE = get_task("sick")
TOGETHER = Task("together", arity=2, combine="together", labels=("no", "yes"))

READ = {
    "disan": "order",
    "disan_nodir": "",
    "emb_additive": "",
    "emb_s2t": "",
    "mh_s2t": "order",
    "bilstm_s2t": "order",
    "bilstm": "order",
    "ms_san": "order dependency",
    "ms_san_sep": "order dependency",
    "relative_shaw": "order",
    "relative_xl": "order",
    "transformer": "order",
    "child_attention": "order constituency",
    "tree_lstm": "order constituency",
    "dependency_tree_lstm": "dependency",
    "tree_transformer": "order constituency",
    "length_matched_transformer": "order constituency",
    "lstm": "order",
    "structured": "order",
    "backbone": "order",
    "hydra": "order",
    "injected": "order dependency",
    "sgnet": "order dependency",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("looked_at")
    save_tiny(found / "backbone")
    add_heads(tiny("bert"), HydraConfig(num_heads=4)).save_pretrained(found / "adapter")
    return found


def model_of(name: str, folder: Path, task: Task = SENTIMENT) -> TaskModel:
    """A model by the name of its encoder; ``ms_san on a backbone`` reads the words' states in a backbone."""
    of_backbone: dict[str, dict[str, Any]] = {
        "hydra": {"adapter": str(folder / "adapter")},
        "injected": {"heads": ["forward/dependency"]},
    }
    name, on_backbone, _ = name.partition(" on a backbone")
    options = of_backbone.get(name, {}) if needs_backbone(name) else {"dim": 24}
    embedder = {"name": "backbone", "folder": str(folder / "backbone")} if on_backbone or needs_backbone(name) else {}
    torch.manual_seed(0)
    return sentence_model(name, task, vocabulary=VOCABULARY, options=options, embedder=embedder)


def translator() -> TaskModel:
    source, target = Vocabulary(sorted(set("".join(DOG.words)))), TextVocabulary.from_texts(["ein Hund"])
    encoder = build("tree_transformer", vocab_size=len(source), dim=8, num_heads=2, num_layers=1)
    decoder = build_decoder("tree_transformer", encoder, len(target), num_heads=2)
    return SequenceModel(
        encoder, decoder, get_task("translation"), texts=TextProcessor(source, target, CharacterSplitter())
    )


def assert_same_answer(first: Prediction, second: Prediction) -> None:
    # With weights, attention is computed step by step rather than by one fused kernel.
    assert (first.label, first.text) == (second.label, second.text)
    assert first.score == pytest.approx(second.score, abs=1e-6)
    assert first.log_probability == pytest.approx(second.log_probability, abs=1e-5)
    assert first.probabilities == pytest.approx(second.probabilities, abs=1e-6)


def assert_same_maps(first: Any, second: Any) -> None:
    assert [(one.name, one.rows, one.columns, one.index) for one in first] == [
        (one.name, one.rows, one.columns, one.index) for one in second
    ]
    for one, other in zip(first, second, strict=True):
        torch.testing.assert_close(one.weights, other.weights)
        assert (one.allowed is None) == (other.allowed is None)
        assert one.allowed is None or torch.equal(one.allowed, other.allowed)


def test_the_table_has_every_encoder() -> None:
    assert set(READ) | {"decomposable"} == set(BUILDERS)  # decomposable reads pairs only, see below


@pytest.mark.parametrize("name", [*READ, "ms_san on a backbone"])
def test_a_look_is_the_prediction_and_the_maps(name: str, folder: Path) -> None:
    model = model_of(name, folder)
    calls: list[int] = []
    hook = model.encoder.register_forward_hook(lambda *call: calls.append(1))
    found = look(model, DOG)
    hook.remove()
    assert calls == [1]
    assert_same_answer(found.answer, model.predict([DOG])[0])
    assert_same_maps(found.maps, attention_maps(model, DOG))
    assert not any(one._forward_hooks for part, one in model.named_modules() if "backbone" not in part)


@pytest.mark.parametrize("task", [PAIR, SCORE])
@pytest.mark.parametrize("name", ["ms_san", "disan", "tree_lstm", "structured", "hydra", "ms_san on a backbone"])
def test_both_sentences_of_a_pair_are_seen(name: str, task: Task, folder: Path) -> None:
    model = model_of(name, folder, task)
    found = look(model, (DOG, KIDS))
    assert_same_answer(found.answer, model.predict([(DOG, KIDS)])[0])
    assert_same_maps(found.maps, attention_maps(model, (DOG, KIDS)))
    assert {one.index for one in found.maps} == {0, 1}


@pytest.mark.parametrize("inside", ["hard", "projective", "none"])
def test_sentences_that_are_read_together_by_words(inside: str) -> None:
    options = {"dim": 6, "inside": inside}
    model = sentence_model("decomposable", TOGETHER, vocabulary=VOCABULARY, options=options)
    found = look(model, (DOG, KIDS))
    assert_same_answer(found.answer, model.predict([(DOG, KIDS)])[0])
    assert_same_maps(sorted(found.maps, key=lambda one: one.index), attention_maps(model, [(DOG, KIDS)]))
    *of_words, pooled = found.maps
    assert [(one.rows, one.index) for one in of_words] == [
        (one.words, number) for number, one in enumerate((DOG, KIDS)) if inside != "none"
    ]
    assert (pooled.kind, pooled.columns) == ("pooling", (*DOG.words, *KIDS.words))
    assert structures_read(model) == (("dependency",) if inside == "hard" else ("order",) if inside != "none" else ())
    assert [one is None for one in found.latent] == [inside != "projective"] * 2


@pytest.mark.parametrize("attention", ["simple", "projective", "nonprojective", "none", "constituency"])
def test_latent_trees_are_seen_with_their_root(attention: str) -> None:
    options = {"dim": 6, "attention": attention}
    model = sentence_model("structured", SENTIMENT, vocabulary=VOCABULARY, options=options)
    (latent,) = look(model, DOG).latent
    assert (latent is None) == (attention in ("none", "constituency"))
    if latent is not None:
        torch.testing.assert_close(latent.probabilities.sum(-1), torch.ones(4))
        assert latent.probabilities.shape == (4, 5)
        assert attention == "simple" or len(DependencyTree(latent.heads)) == 4


def test_the_latent_tree_of_an_attachment_model_is_its_answer() -> None:
    model = attachment_model("structured", get_task("attachment"), vocabulary=VOCABULARY, options={"dim": 6})
    found = look(model, DOG)
    (latent,) = found.latent
    assert latent is not None
    assert " ".join(map(str, latent.heads)) == found.answer.text
    assert structures_read(model) == ("order",)


def test_a_model_that_writes_is_seen_while_it_reads() -> None:
    model = translator()
    found = look(model, DOG)
    assert_same_answer(found.answer, model.predict([DOG])[0])
    assert_same_maps(found.maps, attention_maps(model, DOG))
    assert structures_read(model) == ("order", "constituency")
    for ask in (arc_influence, flipping_edits):
        with pytest.raises(ConfigError, match="expected a model that predicts labels or scores, got SequenceModel"):
            ask(model, DOG)


def test_what_cannot_be_looked_at_is_refused() -> None:
    model = sentence_model("ms_san", SENTIMENT, vocabulary=VOCABULARY, options={"dim": 12})
    with pytest.raises(MissingStructure, match="parse the sentence"):
        look(model, "a dog")
    with pytest.raises(ValueError, match=r"takes 1 sentence\(s\), example 0 has 2"):
        look(model, (DOG, KIDS))
    with pytest.raises(
        MissingStructure, match=r"edits of a dependency tree need one .* sentence 0 \('a dog'\) has none"
    ):
        flipping_edits(sentence_model("emb_s2t", SENTIMENT, vocabulary=VOCABULARY, options={"dim": 6}), "a dog")


@pytest.mark.parametrize("name", READ)
def test_what_an_encoder_reads(name: str, folder: Path) -> None:
    assert structures_read(model_of(name, folder)) == tuple(READ[name].split())


LABELLED = [f"{name}:{label}" for name, kind in RELATIONS.items() if kind.takes_labels for label in ("obl", "x:y")]


@pytest.mark.parametrize("relation", [*RELATIONS, *LABELLED])
def test_every_relation_is_found(relation: str) -> None:
    kind = RELATIONS[relation.partition(":")[0]]
    options = {"dim": 4, "heads": [f"none/{relation}" if kind.is_distance else f"{relation}/none"]}
    vocabulary = Vocabulary(VOCABULARY.words, labels=["x:y"])
    model = sentence_model("ms_san", SENTIMENT, vocabulary=vocabulary, options=options)
    for max_length in (SENTIMENT.max_length, 5):
        model.task = dataclasses.replace(SENTIMENT, max_length=max_length)
        expected = set() if kind.structure is None else {kind.structure}
        assert set(structures_read(model)) - {"order"} == expected


def test_a_model_that_needs_a_relation_is_refused() -> None:
    class Related(nn.Module):
        output_dim = 4

        def forward(self, batch: SentenceBatch) -> Tensor:
            return batch.require("coref", wanted_by="Related").sum(-1, keepdim=True).expand(-1, -1, 4)

    model = sentence_model("emb_s2t", SENTIMENT, vocabulary=VOCABULARY, options={"dim": 4})
    model.encoder.embedder = Related()
    with pytest.raises(ConfigError, match=r"of trees or of words only, got one that needs more: Related needs"):
        structures_read(model)


def neighbours(tree: DependencyTree) -> set[tuple[int, int, tuple[int, ...]]]:
    """Every tree with the same roots and one other head, and every tree with one other root and the same arcs."""
    found = set()
    for word, head in itertools.product(range(len(tree)), range(1, len(tree) + 1)):
        heads = tuple(head if other == word else old for other, old in enumerate(tree.heads))
        try:
            moved = DependencyTree(heads)
        except ValueError:
            continue
        if moved != DependencyTree(tree.heads) and moved.roots == tree.roots:
            found.add((word, head, heads))
    return found | {(word, 0, tree.rerooted(word).heads) for word in range(len(tree)) if tree.heads[word]}


@pytest.mark.parametrize("heads", [[0], [2, 0], [2, 3, 0, 3], [0, 1, 2, 3, 4], [3, 3, 0, 3, 3], [0, 1, 0, 3]])
def test_single_edits_are_all_of_them_and_each_once(heads: list[int]) -> None:
    edits = [(word, head, tree.heads) for word, head, tree in single_edits(DependencyTree(heads))]
    assert len(set(edits)) == len(edits)
    assert set(edits) == neighbours(DependencyTree(heads))


CASES = [
    ("dependency_tree_lstm", SENTIMENT, (DOG,)),
    ("ms_san", SENTIMENT, (DOG,)),
    ("dependency_tree_lstm", PAIR, (DOG, KIDS)),
    ("dependency_tree_lstm", SCORE, (KIDS, DOG)),
    ("emb_s2t", SENTIMENT, (KIDS,)),
]


def model_for_edits(name: str, task: Task) -> TaskModel:
    torch.manual_seed(3)
    model = sentence_model(name, task, vocabulary=VOCABULARY, options={"dim": 12})
    if task.score_range is None:  # so that the answers are near the boundary, and edits flip them
        sentences = (DOG, KIDS) if task.arity == 2 else (DOG,)
        assert DOG.dependency is not None
        edits = [edited(sentences, 0, heads) for _, _, heads in sorted(neighbours(DOG.dependency))]
        with torch.no_grad():
            model.classifier.second.bias -= model(model.collate(edits)).mean(0)
    return model


def edited(sentences: tuple[Sentence, ...], number: int, heads: tuple[int, ...]) -> Example:
    new = Sentence(
        sentences[number].words, dependency=DependencyTree(heads), constituency=sentences[number].constituency
    )
    return Example([new if place == number else old for place, old in enumerate(sentences)])


@pytest.mark.parametrize(("name", "task", "sentences"), CASES)
def test_influence_of_arcs_is_that_of_one_lifted_arc_after_the_other(
    name: str, task: Task, sentences: tuple[Sentence, ...]
) -> None:
    model = model_for_edits(name, task)
    (answer,) = model.predict([Example(sentences)])
    found = arc_influence(model, Example(sentences), batch_size=3)
    assert [one.sentence for one in found] == list(sentences)
    for number, one in enumerate(found):
        heads = sentences[number].dependency.heads  # type: ignore[union-attr]
        for word, (head, change) in enumerate(zip(heads, one.changes, strict=True)):
            assert (change is None) == (head == 0)
            if change is not None:
                lifted = (*heads[:word], heads[head - 1], *heads[word + 1 :])
                (other,) = model.predict([edited(sentences, number, lifted)])
                if answer.label is None:
                    assert change == pytest.approx(answer.answer - other.answer, abs=1e-6)
                else:
                    difference = answer.probabilities[answer.label] - other.probabilities[answer.label]
                    assert change == pytest.approx(difference, abs=1e-6)
                assert (change == 0) == (name == "emb_s2t")


@pytest.mark.parametrize(("name", "task", "sentences"), CASES)
def test_flipping_edits_are_those_of_one_edit_after_the_other(
    name: str, task: Task, sentences: tuple[Sentence, ...]
) -> None:
    model = model_for_edits(name, task)
    (answer,) = model.predict([Example(sentences)])
    found = flipping_edits(model, Example(sentences), batch_size=5)
    expected = {}
    for number, sentence in enumerate(sentences):
        assert sentence.dependency is not None
        for word, head, heads in neighbours(sentence.dependency):
            (other,) = model.predict([edited(sentences, number, heads)])
            if answer.label is None or other.label != answer.label:
                expected[number, word, head, heads] = other
    assert {(edit.sentence, edit.word, edit.head, edit.tree.heads) for edit in found} == set(expected)
    assert (name == "dependency_tree_lstm") <= bool(found)
    for edit in found:
        one = expected[edit.sentence, edit.word, edit.head, edit.tree.heads]
        assert edit.prediction.label == one.label
        assert edit.prediction.answer == pytest.approx(one.answer, abs=1e-6) or one.label is not None
        assert edit.prediction.probabilities == pytest.approx(one.probabilities, abs=1e-6)
    values = [
        abs(edit.prediction.answer - answer.answer)
        if answer.label is None
        else edit.prediction.probabilities[edit.prediction.label]
        for edit in found
    ]
    assert values == sorted(values, reverse=True)


@pytest.mark.parametrize("task", [SENTIMENT, get_task("sick")])
def test_edits_that_are_tried_part_by_part_are_all_edits(task: Task) -> None:
    model = model_for_edits("dependency_tree_lstm", task)
    item = Example((DOG,) * task.arity)
    count = count_edits(item)
    assert count == task.arity * len(list(single_edits(DOG.dependency)))  # type: ignore[arg-type]
    parts = [range(1), range(1, 1), range(1, count // 2), range(count // 2, count)]
    found = [edit for part in parts for edit in flipping_edits(model, item, part=part)]
    whole = flipping_edits(model, item)
    assert len(found) == len(whole) > 0
    # Equal sentences, so equal edits of them: each is found as often.
    trees = [[(edit.sentence, edit.tree.heads) for edit in edits] for edits in (found, whole)]
    assert sorted(trees[0]) == sorted(trees[1])
    with pytest.raises(IndexError):
        flipping_edits(model, item, part=range(count, count + 1))
