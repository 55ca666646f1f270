"""The Tree Transformer and its baselines, beyond the laws of every encoder: sizes, ablations, kinds of trees."""

import itertools
from typing import Any

import pytest
import torch

import structattn as sa
from structattn.data import PhraseTrees, join_sentences
from structattn.data.generated import agreement_treebank
from structattn.encoders import build
from structattn.errors import ConfigError

SENTENCES = [example.sentences[0] for example in itertools.islice(agreement_treebank(seed=4), 6)]
VOCABULARY = sa.Vocabulary.from_examples(SENTENCES)
# Two words of these sentences.
KNOWN = sorted({word.lower() for sentence in SENTENCES for word in sentence.words})[:2]


def encoder(**options: Any) -> sa.encoders.SentenceEncoder:
    torch.manual_seed(2)
    return build("tree_transformer", vocab_size=len(VOCABULARY), **{"dropout": 0.0, **options})


def encode(model: sa.encoders.SentenceEncoder, sentences: list[sa.Sentence]) -> sa.encoders.Encoding:
    return model(sa.collate(sentences, VOCABULARY))


def with_trees(source: str, sentences: list[sa.Sentence] = SENTENCES) -> list[sa.Sentence]:
    return [PhraseTrees(source)(sentence) for sentence in sentences]


def test_the_papers_small_model_has_its_published_size() -> None:
    model = encoder()
    layers = sum(parameter.numel() for parameter in model.contextualizer.layers.parameters())
    # 33,732 for a layer, and 152 x 8 for its embeddings.
    assert layers == 2 * (33_732 + 152 * 8)
    # One vector for phrases, and the norm of the words.
    assert sum(parameter.numel() for parameter in model.contextualizer.parameters()) == layers + 64 + 2 * 64


def test_the_translation_layer_has_its_published_size() -> None:
    model = encoder(dim=512, hidden=1024, num_layers=1)
    layers = sum(parameter.numel() for parameter in model.contextualizer.layers.parameters())
    assert layers == 2_104_836 + 152 * 64


@pytest.mark.parametrize(
    "options",
    [
        {"mask": "none"},
        {"accumulation": {"max_vertical": 0}},
        {"accumulation": {"max_horizontal": 0}},
        {"accumulation": {"max_vertical": 0, "max_horizontal": 0}, "mask": "none"},
        {"accumulation": {"mode": "ref"}},
        {"mask": "own"},
        {"norm": "first"},
        {"num_labels": 5},
    ],
)
def test_every_option_makes_another_model(options: dict[str, Any]) -> None:
    plain, changed = encode(encoder(), SENTENCES), encode(encoder(**options), SENTENCES)
    assert changed.vector.shape == plain.vector.shape
    assert not torch.allclose(changed.vector, plain.vector)


def test_words_do_not_depend_on_the_tree() -> None:
    model = encoder(num_labels=4)
    own, other = encode(model, SENTENCES), encode(model, with_trees("left"))
    for row, sentence in enumerate(SENTENCES):
        words = slice(0, len(sentence))
        torch.testing.assert_close(own.states[row, words], other.states[row, words], atol=1e-6, rtol=1e-5)
    assert not torch.allclose(own.vector, other.vector)


def test_a_phrase_knows_no_word_around_it_if_words_see_only_themselves() -> None:
    trees = [sa.ConstituencyTree.from_brackets(f"(S (NP (D the) (N dog)) (VP (V {word})))") for word in KNOWN]
    sentences = [sa.Sentence(tree.words, constituency=tree) for tree in trees]
    for mask, same in (("own", True), ("subtree", False)):
        states = encode(encoder(mask=mask), sentences).states
        # Words 0 to 2, then S, NP and VP.
        assert torch.allclose(states[0, 4], states[1, 4], atol=1e-5) == same
        assert not torch.allclose(states[0, 3], states[1, 3], atol=1e-2)


def test_labels_matter_only_where_they_have_vectors() -> None:
    tree = SENTENCES[0].constituency
    relabelled = sa.ConstituencyTree(tree.words, [("X", start, end) for _, start, end in tree.spans], tags=tree.tags)
    other = sa.Sentence(tree.words, constituency=relabelled)
    for num_labels, same in ((0, True), (len(VOCABULARY.labels), False)):
        model = encoder(num_labels=num_labels)
        first, second = encode(model, SENTENCES[:1]).vector, encode(model, [other]).vector
        assert torch.equal(first, second) == same


def test_rare_labels_share_the_vector_of_no_label() -> None:
    model = encoder(num_labels=1)
    assert encode(model, SENTENCES).vector.isfinite().all()
    assert model.contextualizer.phrases.shape == (2, 64)


@pytest.mark.parametrize("source", ["own", "rooted", "dependency", "left", "right", "balanced", "random"])
def test_all_kinds_of_trees_are_encoded(source: str) -> None:
    model = encoder()
    sentences = with_trees(source)
    together = encode(model, sentences).vector
    for row, sentence in enumerate(sentences):
        torch.testing.assert_close(together[row : row + 1], encode(model, [sentence]).vector, atol=2e-6, rtol=1e-5)


def test_a_forest_is_the_mean_of_its_roots_and_a_root_on_top_sees_all() -> None:
    model, document = encoder(), join_sentences(SENTENCES[:3])
    forest = encode(model, [document])
    assert int(forest.pool_mask.sum()) == 3
    torch.testing.assert_close(forest.vector[0], forest.states[0, forest.pool_mask[0]].mean(0))
    rooted = encode(model, [PhraseTrees("rooted")(document)])
    assert rooted.pool_mask[0].nonzero().flatten().tolist() == [len(document)]
    # The sentences' own phrases do not know of the root.
    torch.testing.assert_close(rooted.states[0, len(document) + 1 :], forest.states[0, len(document) :])


def test_deep_and_long_trees_use_the_last_row_of_a_table() -> None:
    model = encoder(accumulation={"max_vertical": 2, "max_horizontal": 3})
    vector = encode(model, with_trees("left")).vector
    # The sum of all features would not do: the last normalisation makes it a constant.
    vector[:, 0].sum().backward()
    for layer in model.contextualizer.layers:
        for table in (layer.attention.accumulation.vertical, layer.attention.accumulation.horizontal):
            assert table.grad[-1].any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dim": 12, "num_heads": 4}, "dim expects an even multiple of the number of heads, got dim=12 for 4 heads"),
        ({"mask": "all"}, "option 'mask' .* expected one of 'subtree', 'own', 'none', got 'all'"),
        ({"num_labels": -1}, "num_labels expects at least 0, got -1"),
        ({"accumulation": {"max_vertical": -1}}, "maxima of at least 0, got 16, -1 and 100"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        encoder(**options)


@pytest.mark.parametrize("mask", ["subtree", "own", "none"])
@pytest.mark.parametrize("num_labels", [0, 5])
def test_a_model_whose_phrases_are_all_alike_says_so(
    mask: str, num_labels: int, caplog: pytest.LogCaptureFixture
) -> None:
    """They start alike and attend to the same nodes: only a mask or their labels make a difference."""
    model = encoder(mask=mask, num_labels=num_labels).eval()
    warned = "all phrases of a sentence get the same state" in caplog.text
    encoding = encode(model, SENTENCES[:1])
    phrases = encoding.states[0, len(SENTENCES[0].words) :]
    are_alike = bool((phrases - phrases[:1]).abs().max() < 1e-5)
    assert are_alike == warned == (mask == "none" and num_labels == 0)
