"""Inspection: maps against modules whose weights are known, nothing left behind, summaries and figures by hand."""

import itertools
import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn

from structattn import inspection
from structattn.data import Example, SentenceBatch, Vocabulary, collate
from structattn.data.text_vocabulary import CharacterSplitter, TextVocabulary
from structattn.encoders import build
from structattn.errors import ConfigError, MissingStructure
from structattn.inspection import AttentionMap, attention_maps
from structattn.inspection.sentence_figures import attention_panels, name_gates, title_heads, title_modules
from structattn.syntax import ConstituencyTree, DependencyTree, Sentence
from structattn.tasks import SentenceModel, SequenceModel, TaskBatch, TextProcessor, get_task
from structattn.tasks.answering import to_sentences
from structattn.tasks.decoding import build_decoder

WORDS = ["Two", "kids", "at", "a", "ballgame", "wash", "their", "hands"]
KIDS = Sentence(
    WORDS,
    tags=["NUM", "NOUN", "ADP", "DET", "NOUN", "VERB", "PRON", "NOUN"],
    dependency=DependencyTree([2, 6, 5, 5, 2, 0, 8, 6]),
    constituency=ConstituencyTree.from_brackets(
        "(S (NP (NP (CD Two) (NNS kids)) (PP (IN at) (NP (DT a) (NN ballgame))))"
        " (VP (VBP wash) (NP (PRP$ their) (NNS hands))))"
    ),
)
DOG = Sentence(
    ["a", "dog", "barks"],
    dependency=DependencyTree([2, 3, 0]),
    constituency=ConstituencyTree.from_brackets("(S (NP (DT a) (NN dog)) (VBZ barks))"),
)
VOCABULARY = Vocabulary(sorted({word.lower() for word in (*WORDS, *DOG.words)}))
ENCODERS = ("ms_san", "ms_san_sep", "disan", "transformer", "relative_shaw", "bilstm_s2t", "emb_s2t")


class Uniform(nn.Module):
    """Attention that follows the contract: each word attends uniformly to itself and the words before."""

    weights_axes: ClassVar[str] = "head query key"
    head_names = ("forward/word", "none")

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))
        self.seen: list[tuple[bool, bool, bool]] = []

    def forward(self, states: Tensor, batch: SentenceBatch, *, need_weights: bool = False) -> tuple[Tensor, Any]:
        self.seen.append((need_weights, self.training, torch.is_grad_enabled()))
        size = states.shape[1]
        allowed = batch.mask[:, None, :] & batch.mask[:, :, None] & torch.ones(size, size).tril().bool()
        weights = self.scale * allowed / allowed.sum(-1, keepdim=True).clamp(min=1)
        return states, torch.stack([weights, weights], dim=1) if need_weights else None


class Halves(nn.Module):
    """A gate or a pooler, by its class attribute: the weights of features are 0, 1/n, 2/n, ... for every word."""

    weights_axes = "query feature"

    def forward(self, states: Tensor, *others: Any, need_weights: bool = False) -> tuple[Tensor, Any]:
        weights = torch.arange(states.shape[-1]).expand_as(states) / states.shape[-1]
        return states, weights if need_weights else None


class Pool(Halves):
    weights_axes = "key feature"


class Backbone(nn.Module):
    """A model that runs the parts it is given, one after the other."""

    def __init__(self, parts: Sequence[nn.Module], calls: int = 1) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)
        self.dropout = nn.Dropout(0.5)
        self.calls = calls

    def forward(self, batch: SentenceBatch) -> Tensor:
        states = torch.ones(*batch.tokens.shape, 4)
        for _ in range(self.calls):
            for part in self.parts:
                states, _ = part(states, batch)
        return states


def batch_of(*sentences: Sentence) -> SentenceBatch:
    return collate(list(sentences), VOCABULARY)


def test_maps_are_trimmed_named_and_complete() -> None:
    model = Backbone([Uniform(), Halves(), Pool()])
    maps = attention_maps(model, batch_of(KIDS, DOG))
    assert [(found.index, found.name, found.kind) for found in maps] == [
        (sentence, f"parts.{part}", kind)
        for sentence in (0, 1)
        for part, kind in enumerate(("attention", "gate", "pooling"))
    ]
    attention, gate, pooling = maps[3:]
    assert attention.rows == attention.columns == ("a", "dog", "barks")
    assert attention.head_names == ("forward · word", "none")
    assert attention.layer == "Uniform"
    assert attention.sentence == DOG
    assert attention.features is None
    expected = torch.tensor([[1, 0, 0], [1 / 2, 1 / 2, 0], [1 / 3, 1 / 3, 1 / 3]])
    torch.testing.assert_close(attention.weights, expected.expand(2, 3, 3))
    assert (gate.rows, gate.columns, gate.weights.shape) == (DOG.words, ("gate",), (1, 3, 1))
    assert (pooling.rows, pooling.columns, pooling.weights.shape) == (("sentence",), DOG.words, (1, 1, 3))
    assert gate.features is not None
    assert gate.features.tolist() == [[0.0, 0.25, 0.5, 0.75]] * 3
    assert gate.weights.flatten().tolist() == [0.375] * 3


def test_the_model_is_left_as_it_was() -> None:
    attention = Uniform()
    model = Backbone([attention])
    model.train()
    attention.eval()
    maps = attention_maps(model, batch_of(DOG))
    assert attention.seen == [(True, False, False)]
    assert (model.training, model.dropout.training, attention.training) == (True, True, False)
    assert not maps[0].weights.requires_grad
    model(batch_of(DOG))
    assert attention.seen[-1] == (False, False, True)
    assert not attention._forward_hooks
    assert not attention._forward_pre_hooks


def test_hooks_and_modes_are_restored_after_an_error() -> None:
    attention = Uniform()
    model = Backbone([attention, nn.Linear(3, 3)]).train()
    with pytest.raises(TypeError):
        attention_maps(model, batch_of(DOG))
    assert model.training
    assert attention.training
    assert not attention._forward_hooks
    assert not attention._forward_pre_hooks


def test_a_module_that_runs_twice_has_two_maps() -> None:
    maps = attention_maps(Backbone([Uniform()], calls=3), batch_of(DOG))
    assert [found.name for found in maps] == ["parts.0", "parts.0#2", "parts.0#3"]


def test_a_module_without_weights_or_with_unknown_axes_is_named() -> None:
    class Silent(Uniform):
        def forward(self, states: Tensor, batch: SentenceBatch, *, need_weights: bool = False) -> tuple[Tensor, Any]:
            return states, None

    class Odd(Uniform):
        weights_axes = "key query"

    with pytest.raises(ValueError, match=r"parts\.0 declares weights_axes but returned no weights"):
        attention_maps(Backbone([Silent()]), batch_of(DOG))
    with pytest.raises(ValueError, match=r"parts\.0 has weights_axes 'key query'; expected one of 'head query key'"):
        attention_maps(Backbone([Odd()]), batch_of(DOG))
    assert attention_maps(Backbone([nn.Identity()], calls=0), batch_of(DOG)) == []


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["none", "none"], ("head 1", "head 2")),
        (["forward", "forward"], ("forward 1", "forward 2")),
        (["a/b", "none"], ("a · b", "none")),
        (["only one"], ("head 1", "head 2")),
    ],
)
def test_heads_always_have_distinct_names(names: list[str], expected: tuple[str, ...]) -> None:
    attention = Uniform()
    attention.head_names = tuple(names)  # type: ignore[assignment]
    assert attention_maps(Backbone([attention]), batch_of(DOG))[0].head_names == expected


def test_everything_that_names_sentences_is_taken() -> None:
    model = Backbone([Uniform()])
    for given, words in (
        (DOG, [DOG.words]),
        ("a dog barks", [DOG.words]),
        ([DOG, "hush"], [DOG.words, ("hush",)]),
        (("a dog", DOG), [("a", "dog"), DOG.words]),
        ([("a", "b"), "c"], [("a",), ("b",), ("c",)]),
        (Example((DOG, KIDS)), [DOG.words, KIDS.words]),
        ([Example((DOG,)), Example((KIDS,))], [DOG.words, KIDS.words]),
        ([], []),
    ):
        maps = attention_maps(model, given, vocabulary=VOCABULARY)
        assert [found.rows for found in maps] == words
        assert [found.index for found in maps] == list(range(len(words)))
    with pytest.raises(TypeError):
        attention_maps(model, [3, 3], vocabulary=VOCABULARY)  # type: ignore[list-item]
    with pytest.raises(TypeError, match="item 1 is int"):
        to_sentences(3, 1)
    with pytest.raises(ConfigError, match="Backbone has no vocabulary: pass vocabulary="):
        attention_maps(model, "a dog")


def test_sentences_of_pairs_follow_each_other() -> None:
    model = _pair_model()
    pairs = [Example((DOG, KIDS)), Example((KIDS, DOG))]
    batch = model.collate(pairs)
    assert isinstance(batch, TaskBatch)
    expected = [DOG.words, KIDS.words, KIDS.words, DOG.words]
    for given in (pairs, batch, [(DOG, KIDS), (KIDS, DOG)]):
        maps = [found for found in attention_maps(model, given) if found.kind == "attention"]
        assert [found.rows for found in maps] == expected
        assert maps[0].name == "encoder.contextualizer.attention"


@pytest.mark.parametrize("name", ENCODERS)
def test_maps_of_real_encoders_are_distributions_that_padding_does_not_change(name: str) -> None:
    encoder = build(name, vocab_size=len(VOCABULARY), dim=12)
    sentences = [KIDS, DOG, Sentence(["hush"], dependency=DependencyTree([0])), Sentence([])]
    together = attention_maps(encoder, batch_of(*sentences))
    assert together
    alone = [found for sentence in sentences for found in attention_maps(encoder, batch_of(sentence))]
    assert len(alone) == len(together)
    for one, other in zip(alone, together, strict=True):
        assert one.name == other.name
        assert one.rows == other.rows
        torch.testing.assert_close(one.weights, other.weights)
        assert (one.allowed is None) == (other.allowed is None) == (one.kind != "attention")
        assert one.allowed is None or torch.equal(one.allowed, other.allowed)
        assert one.weights.shape == (len(one.head_names), len(one.rows), len(one.columns))
        if one.kind != "gate":
            total = one.weights.sum(-1)
            assert bool((torch.isclose(total, torch.ones_like(total), atol=1e-5) | (total == 0)).all())
    assert all(found.weights.numel() == 0 for found in together if found.index == 3)


@pytest.mark.parametrize("name", ["ms_san", "disan", "disan_nodir", "transformer", "relative_shaw", "tree_transformer"])
def test_exactly_the_forbidden_keys_have_no_weight(name: str) -> None:
    encoder = build(name, vocab_size=len(VOCABULARY), dim=24)
    maps = [one for one in attention_maps(encoder, batch_of(KIDS, DOG)) if one.kind == "attention"]
    for one in maps:
        assert one.allowed is not None
        assert torch.equal(one.weights > 0, one.allowed)
    forbidden = sum(int((~one.allowed).sum()) for one in maps if one.allowed is not None)
    assert (forbidden == 0) == (name in ("transformer", "relative_shaw"))


def test_allowed_keys_by_hand() -> None:
    ones = torch.ones(3, 3, dtype=torch.bool)
    directions = {"ms_san": [ones.tril()] * 3 + [ones.triu()] * 3, "disan": [ones.tril(-1)]}
    for name, expected in directions.items():
        found = attention_maps(build(name, vocab_size=len(VOCABULARY), dim=12), batch_of(KIDS, DOG))
        first = next(one for one in found if one.index == 1)
        assert first.allowed is not None
        assert torch.equal(first.allowed, torch.stack(expected))
    # a, dog, barks, S, NP: words look at all words, a phrase at what is in it.
    found = attention_maps(build("tree_transformer", vocab_size=len(VOCABULARY), dim=16), batch_of(KIDS, DOG))
    first = next(one for one in found if one.index == 1)
    assert first.allowed is not None
    rows = ["11100", "11100", "11100", "11111", "11001"]
    assert first.allowed[0].int().tolist() == [[int(cell) for cell in row] for row in rows]


def test_the_maps_of_an_encoder_are_those_of_its_layer() -> None:
    encoder = build("ms_san", vocab_size=len(VOCABULARY), dim=12).eval()
    batch = batch_of(KIDS)
    _, weights = encoder.contextualizer.attention(encoder.embedder(batch), batch, need_weights=True)
    first = attention_maps(encoder, batch)[0]
    torch.testing.assert_close(first.weights, weights[0])
    assert first.head_names[0] == "forward · word"


def test_a_missing_tree_is_still_an_error() -> None:
    encoder = build("ms_san", vocab_size=len(VOCABULARY), dim=12)
    with pytest.raises(MissingStructure, match=r"sentence 1 .*hush"):
        attention_maps(encoder, [KIDS, "hush"], vocabulary=VOCABULARY)


def test_nodes_of_phrase_trees_are_named() -> None:
    class OverNodes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.pool = Pool()

        def forward(self, batch: SentenceBatch) -> None:
            assert batch.constituency is not None
            self.pool(torch.ones(*batch.constituency.parents.shape, 2))

    first, second = attention_maps(OverNodes(), batch_of(KIDS, DOG))
    assert first.columns[:8] == KIDS.words
    assert len(first.columns) == 8 + 7
    assert second.columns == ("a", "dog", "barks", "S (a … barks)", "NP (a … dog)")


def test_translation_is_seen_in_subwords() -> None:
    source, target = Vocabulary(list("abdgkors")), TextVocabulary.from_texts(["ein Hund"])
    encoder = build("tree_transformer", vocab_size=len(source), dim=8, num_heads=2, num_layers=1)
    decoder = build_decoder("tree_transformer", encoder, len(target), num_heads=2)
    texts = TextProcessor(source, target, CharacterSplitter())
    model = SequenceModel(encoder, decoder, get_task("translation"), texts=texts)
    (found,) = (one for one in attention_maps(model, DOG) if one.kind == "attention")
    assert found.rows[:9] == tuple("adogbarks")
    assert found.rows[9:] == ("S (a … s)", "NP (a … g)", "NN (d … g)", "VBZ (b … s)")
    assert torch.allclose(found.weights.sum(-1), torch.ones(2, 13))


def test_distance_and_entropy_by_hand() -> None:
    weights = torch.tensor([[[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.5, 0.25, 0.25]]])
    found = _map_of(weights)
    assert inspection.attention_distance(found).tolist() == pytest.approx([(1 + 1.25) / 2])
    tree = DependencyTree([2, 0, 2])
    assert inspection.attention_distance(found, tree.distances()).tolist() == pytest.approx([(1 + 1.25) / 2])
    assert inspection.attention_distance(found, [[0, 0, 0], [4, 0, 0], [2, 0, 8]]).tolist() == pytest.approx([3.5])
    assert inspection.attention_entropy(found).tolist() == pytest.approx([(0 + 1.5) / 2])
    uniform = _map_of(torch.full((1, 8, 8), 1 / 8))
    assert inspection.attention_entropy(uniform).tolist() == pytest.approx([3.0])
    nothing = _map_of(torch.zeros(1, 2, 2))
    assert math.isnan(inspection.attention_entropy(nothing)[0])
    with pytest.raises(ValueError, match=r"got \(2, 3\) for 3 queries and 3 keys"):
        inspection.attention_distance(found, [[1, 2, 3], [1, 2, 3]])


def test_a_sentence_without_words_has_no_numbers() -> None:
    empty = _map_of(torch.zeros(1, 0, 0), Sentence([], dependency=DependencyTree([])))
    assert math.isnan(inspection.attention_distance(empty, empty.sentence.dependency.distances())[0])
    assert inspection.summarise([empty])[1:] == [["module", "head 0", "", "", "", ""]]
    words = _map_of(torch.full((1, 3, 3), 1 / 3), Sentence(["a", "b", "c"], dependency=DependencyTree([2, 0, 2])))
    assert inspection.summarise([words, empty]) == inspection.summarise([words])
    with pytest.raises(ValueError, match=r"got \(0, 3\) for 3 queries and 3 keys"):
        inspection.attention_distance(words, [])
    with pytest.raises(ValueError, match=r"got \(2, 2\) for 3 queries and 3 keys"):
        inspection.attention_distance(words, [[0, 1], [1, 0]])


def test_head_recall_by_hand() -> None:
    weights = torch.tensor([[[0.1, 0.8, 0.1], [0.2, 0.2, 0.6], [0.0, 0.0, 0.0]], [[1 / 3] * 3] * 3])
    recall = inspection.head_recall(_map_of(weights), [2, 1, 0])
    assert recall.tolist() == pytest.approx([0.5, 1 / 3])
    assert math.isnan(inspection.head_recall(_map_of(weights), [0, 0, 0])[0])
    with pytest.raises(ValueError, match="2 heads for 3 queries"):
        inspection.head_recall(_map_of(weights), [2, 0])


def test_maps_over_subwords_become_maps_over_words() -> None:
    pieces = ("[CLS]", "mis", "##under", "##stand", "him", "[SEP]")
    words = (None, 0, 0, 0, 1, None)
    weights = torch.rand(2, 6, 6, generator=torch.Generator().manual_seed(0)).softmax(-1)
    allowed = torch.rand(2, 6, 6, generator=torch.Generator().manual_seed(1)) < 0.2
    tree = DependencyTree([0, 1])
    sentence = Sentence(["misunderstand", "him"], dependency=tree)
    seen = AttentionMap("x", pieces, pieces, weights, "attention", ("a", "b"), allowed=allowed, words=words)
    for given, names in ((seen, ("misunderstand", "him")), (replace(seen, sentence=sentence), tuple(sentence.words))):
        found = given.of_words()
        assert (found.rows, found.columns, found.words) == (names, names, None)
        for head, query, key in itertools.product(range(2), range(2), range(2)):
            of_query, of_key = ([place for place, word in enumerate(words) if word == one] for one in (query, key))
            twin = sum(float(weights[head, i, j]) for i in of_query for j in of_key) / len(of_query)
            assert found.weights[head, query, key].item() == pytest.approx(twin)
            assert found.allowed is not None
            possible = any(bool(allowed[head, i, j]) for i in of_query for j in of_key)
            assert bool(found.allowed[head, query, key]) == possible
        assert found.of_words() is found
    (_, *rows) = inspection.summarise([replace(seen, sentence=sentence)])
    recall = inspection.head_recall(replace(seen, sentence=sentence).of_words(), tree.heads)
    assert [row[5] for row in rows] == [f"{100 * share:.0f}%" for share in recall.tolist()]
    assert all(row[2:4] == [row[2], row[2]] for row in rows), "of two words, the distance in the tree is that in words"


def test_the_summary_has_a_row_for_each_head() -> None:
    encoder = build("ms_san", vocab_size=len(VOCABULARY), dim=12)
    rows = inspection.summarise(attention_maps(encoder, batch_of(KIDS, DOG)))
    assert len(rows) == 1 + 6
    assert [row[1] for row in rows[1:4]] == ["forward · word", "forward · dependency", "forward"]
    assert all(cell for row in rows for cell in row)
    plain = build("transformer", vocab_size=len(VOCABULARY), dim=12, num_heads=2)
    rows = inspection.summarise(attention_maps(plain, batch_of(Sentence(["a", "dog"]))))
    assert {(row[3], row[5]) for row in rows[1:]} == {("", "")}
    assert inspection.summarise([]) == rows[:1]


def test_figure_4_of_ms_san_has_six_heads() -> None:
    encoder = build("ms_san", vocab_size=len(VOCABULARY), dim=12)
    maps = attention_maps(encoder, batch_of(KIDS))
    svg = inspection.attention_figure(maps, title="MS-SAN")
    assert svg.count("<title>") == 6 * 64
    for name in ("forward · word", "backward · dependency", "syntactic head"):
        assert name in svg
    with pytest.raises(ValueError, match="of kind 'attention'; got \\['pooling'\\]"):
        inspection.attention_figure([found for found in maps if found.kind == "pooling"][:1])


def test_figures_6_and_7_of_disan() -> None:
    encoder = build("disan", vocab_size=len(VOCABULARY), dim=12)
    maps = attention_maps(encoder, batch_of(KIDS, DOG))
    svg = inspection.attention_figure(maps)
    assert svg.count("<title>") == 2 * (64 + 9)
    assert "not allowed</text>" in svg
    gates = [found for found in maps if found.kind == "gate"]
    assert len(gates) == 4
    assert "12 features" in inspection.features_figure(gates[0])
    pooling = [found for found in maps if found.kind == "pooling"]
    assert "kids: mean weight" in inspection.features_figure(pooling[0])
    with pytest.raises(ValueError, match="expected a map of a gate or a pooler, got 'attention'"):
        inspection.features_figure(maps[0])
    assert inspection.pooling_figure(pooling[:1]).count('class="sa-bar"') == 8
    with pytest.raises(ValueError, match="over the same words"):
        inspection.pooling_figure(pooling)


def test_what_may_not_be_attended_to_is_hatched_and_bears_no_mark() -> None:
    allowed = torch.tensor([[[True, False], [True, True]]])
    weights = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])
    sentence = Sentence(["dogs", "bark"], dependency=DependencyTree([2, 0]))
    for head, marks in ((allowed, []), (None, [(0, 1)])):
        found = AttentionMap(
            "a", sentence.words, sentence.words, weights, "attention", ("forward",), allowed=head, sentence=sentence
        )
        (panel,) = attention_panels([found])
        assert panel.marks == marks
        assert panel.matrix() == ([[1.0, None], [0.0, 1.0]] if head is not None else [[1.0, 0.0], [0.0, 1.0]])


def test_accuracy_is_counted_in_parts(tmp_path: Path) -> None:
    examples = [Example((Sentence(["a"] * length),), "x", id=str(length)) for length in (1, 2, 10, 11, 12, 50)]
    right = {"first": {"1", "2", "10", "50"}, "second": {"1", "10", "11"}}
    for name, ids in right.items():
        rows = [{"id": e.id, "gold": "x", "predicted": "x" if e.id in ids else "y"} for e in examples]
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    files = [tmp_path / "first", tmp_path / "second"]
    parts = inspection.binned_accuracy({"both": files, "one": files[:1]}, examples)
    assert parts.names == ("0–9", "10–19", "40+")
    assert parts.counts == (2, 3, 1)
    both, one = parts.series
    assert list(both.y) == pytest.approx([0.75, 0.5, 0.5])
    assert both.errors is not None
    assert list(both.errors) == pytest.approx([0.25 * math.sqrt(2), math.sqrt(2) / 6, math.sqrt(0.5)])
    assert list(one.y) == pytest.approx([1.0, 1 / 3, 1.0])
    assert one.errors is None
    svg = parts.figure()
    assert "n = 3" in svg
    assert "words in the sentence" in svg
    with pytest.raises(ValueError, match="first has no prediction for example 3"):
        inspection.binned_accuracy({"a": files[:1]}, [*examples, Example((Sentence(["a"]),), id="3")])
    with pytest.raises(ValueError, match=r"edges must increase; got \[3, 1\]"):
        inspection.binned_accuracy({}, examples, edges=[3, 1])
    with pytest.raises(ValueError, match="example 1 has value 1, below the first edge 2"):
        inspection.binned_accuracy({}, examples, edges=[2, 5])


def test_attractors_are_read_from_the_data() -> None:
    example = Example((Sentence(["a"], metadata={"attractors": "2"}),))
    assert inspection.num_attractors(example) == 2
    with pytest.raises(ValueError, match="has no number of attractors in its metadata"):
        inspection.num_attractors(Example((DOG,), id="7"))


def test_titles_have_only_what_tells_heads_apart() -> None:
    paths = ["layers.0.attention", "layers.1.attention", "pooler"]
    kinds: list[Any] = ["attention", "attention", "pooling"]
    maps = [
        AttentionMap(path, ("a",), ("a",), torch.ones(2, 1, 1), kind, ("x", "y"))
        for path, kind in zip(paths, kinds, strict=True)
    ]
    assert title_heads(maps[:2]) == [["layer 1 · x", "layer 1 · y"], ["layer 2 · x", "layer 2 · y"]]
    assert title_heads(maps[:1]) == [["x", "y"]]
    assert title_modules(maps) == {"layers.0.attention": "layer 1", "layers.1.attention": "layer 2", "pooler": ""}
    one = [replace(part, head_names=("x",), weights=part.weights[:1]) for part in maps[:2]]
    assert title_heads(one) == [["layer 1"], ["layer 2"]]
    feeding = [replace(one[0], name="0.attention"), replace(one[0], name="0.gate", kind="gate", columns=("gate",))]
    assert name_gates(feeding) == {"0.gate": "x"}


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["encoder.gate.gate"], [""]),
        (["encoder.forward.gate", "encoder.backward.gate"], ["forward", "backward"]),
        (["blocks.0.gate", "blocks.1.gate", "pool.gate"], ["blocks.0", "blocks.1", "pool"]),
    ],
)
def test_gates_without_a_head_of_their_own_are_named_by_what_sets_them_apart(
    paths: list[str], names: list[str]
) -> None:
    weights = torch.ones(2, 1, 1)
    gates = [AttentionMap(path, ("a",), ("gate",), weights[:1], "gate", ("FusionGate",)) for path in paths]
    attention = AttentionMap("attention", ("a",), ("a",), weights, "attention", ("forward", "backward"))
    assert name_gates([attention, *gates, *gates]) == dict(zip(paths, names, strict=True))


def _map_of(weights: Tensor, sentence: Sentence | None = None) -> AttentionMap:
    words = sentence.words if sentence is not None else tuple("abcdefgh"[: weights.shape[1]])
    heads = tuple(f"head {head}" for head in range(len(weights)))
    return AttentionMap("module", words, words, weights, "attention", heads, sentence=sentence)


def _model(name: str, task: str, **options: Any) -> SentenceModel:
    encoder = build(name, vocab_size=len(VOCABULARY), dim=12, **options)
    return SentenceModel(encoder, get_task(task), labels=("singular", "plural"), vocabulary=VOCABULARY)


def _pair_model() -> SentenceModel:
    return _model("ms_san", "pair_classification")
