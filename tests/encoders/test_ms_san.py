"""MS-SAN and the plain Transformer: the paper's parameter counts, ablations as limits of each other, symmetries."""

import copy
import inspect
import json

import pytest
import torch
from torch import Tensor, nn

import structattn as sa
from structattn.encoders import ABLATIONS, PAPER_HEADS, Encoding, SentenceEncoder, heads_prior
from structattn.encoders.head_layout import parse_heads
from structattn.errors import ConfigError, MissingStructure
from structattn.tasks import SentenceModel, get_task

WORDS = ["two", "kids", "at", "a", "ballgame", "wash", "their", "hands"]
SENTENCE = sa.Sentence(WORDS, dependency=sa.DependencyTree([2, 6, 5, 5, 2, 0, 8, 6]))
SHORT = sa.Sentence(["wash", "hands"], dependency=sa.DependencyTree([0, 1]))
VOCABULARY = sa.Vocabulary(WORDS)
SIZE = len(VOCABULARY)
BATCH = sa.collate([SENTENCE, SHORT], VOCABULARY)
PAPER = {"dim": 300}


def build(name: str = "ms_san", **options: object) -> SentenceEncoder:
    torch.manual_seed(0)
    encoder = sa.encoders.build(name, vocab_size=SIZE, **{"dim": 12, "dropout": 0.0, **options})
    return encoder.eval()


def size(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def without_words(encoder: SentenceEncoder) -> int:
    return size(encoder) - size(encoder.embedder)


def pair_head(width: int) -> int:
    """The inference classifier ``[u; v; u*v; |u-v|] -> 300 -> 3``."""
    return (4 * width * 300 + 300) + (300 * 3 + 3)


def test_parameter_counts_of_the_paper() -> None:
    encoder = build(**PAPER)
    assert size(encoder.contextualizer.attention) == 360_000
    assert size(encoder.contextualizer.gate) == 360_300
    assert size(encoder.contextualizer.feed_forward) + size(encoder.contextualizer.norm) == 181_200
    assert size(encoder.contextualizer) == 901_500
    assert size(encoder.pooler) == 180_600
    assert encoder.output_dim == 600
    assert without_words(encoder) + pair_head(encoder.output_dim) == 1_803_303


@pytest.mark.parametrize("row", ABLATIONS)
def test_every_row_of_the_ablation_has_the_same_size(row: str) -> None:
    encoder = build(**PAPER, heads=row)
    assert without_words(encoder) + pair_head(encoder.output_dim) == 1_803_303
    assert len(encoder.contextualizer.attention.head_names) == 6


@pytest.mark.parametrize("direction", [False, True])
@pytest.mark.parametrize(("name", "extra"), [("relative_shaw", 3_300), ("relative_xl", 90_600)])
def test_relative_positions_cost_what_they_should(name: str, extra: int, direction: bool) -> None:
    assert without_words(build(name, **PAPER, direction=direction)) == without_words(build(**PAPER)) + extra


def test_separate_directions_cost_what_the_paper_says() -> None:
    encoder = build("ms_san_sep", **PAPER)
    assert encoder.output_dim == 1200
    assert size(encoder.contextualizer) == 1_803_000
    assert size(encoder.pooler) == 721_200
    assert without_words(encoder) + pair_head(encoder.output_dim) == 3_965_403


def test_the_default_transformer_is_as_large_as_ms_san() -> None:
    assert abs(without_words(build("transformer", **PAPER)) / without_words(build(**PAPER)) - 1) < 0.01


def test_learnt_alpha_adds_one_number_per_head() -> None:
    assert without_words(build(learnable_alpha=True)) == without_words(build()) + 6


def with_alpha(alpha: float, heads: str | tuple[str, ...] = PAPER_HEADS) -> Encoding:
    return build(heads=heads, alpha=alpha)(BATCH)


@pytest.mark.parametrize(
    ("full", "row"),
    [
        (PAPER_HEADS, "direction"),
        (ABLATIONS["word_dependency"], "san"),
        (ABLATIONS["direction_word"], "direction"),
        (ABLATIONS["dependency"], "san"),
    ],
)
def test_alpha_zero_forgets_the_distances(full: tuple[str, ...], row: str) -> None:
    torch.testing.assert_close(with_alpha(0.0, full).vector, with_alpha(1.0, row).vector, atol=1e-6, rtol=1e-6)


def test_heads_by_name_by_string_and_by_pair_are_one() -> None:
    pairs = [list(pair) for pair in parse_heads(PAPER_HEADS)]
    assert json.loads(json.dumps(pairs)) == pairs
    for heads in ("ms_san", list(PAPER_HEADS), pairs, [tuple(pair) for pair in pairs]):
        torch.testing.assert_close(build(heads=heads)(BATCH).vector, build()(BATCH).vector, atol=0, rtol=0)


def test_ablation_rows_name_what_the_paper_names() -> None:
    assert build(heads="direction_dependency").contextualizer.attention.head_names == (
        "forward",
        "forward/dependency",
        "forward",
        "backward",
        "backward/dependency",
        "backward",
    )
    assert build(heads="word").contextualizer.attention.head_names == ("word", "none", "none") * 2
    assert build(heads=["constituency", "none"]).contextualizer.attention.head_names == ("constituency", "none")


def weights_of(encoder: SentenceEncoder, batch: sa.SentenceBatch = BATCH) -> Tensor:
    weights: Tensor = encoder.contextualizer.attention(encoder.embedder(batch), batch, need_weights=True)[1]
    return weights


def test_every_real_query_has_weights_that_sum_to_one() -> None:
    weights = weights_of(build())
    torch.testing.assert_close(weights.sum(-1), BATCH.mask[:, None].expand(2, 6, 8).float())


def test_directional_heads_look_one_way() -> None:
    weights = weights_of(build())[0]
    assert not weights[:3].triu(1).any()
    assert not weights[3:].tril(-1).any()
    torch.testing.assert_close(weights[:3, 0, 0], torch.ones(3))
    torch.testing.assert_close(weights[3:, 7, 7], torch.ones(3))


def test_a_forward_head_does_not_depend_on_later_words() -> None:
    for heads, unmoved in ((["forward/word"] * 6, slice(0, 4)), (["backward/dependency"] * 6, slice(5, 8))):
        encoder = build(heads=heads)
        states = torch.randn(1, 8, 12, generator=torch.Generator().manual_seed(1))
        other = states.clone()
        other[0, 4] += 1
        batch = sa.collate([SENTENCE], VOCABULARY)
        first, second = (encoder.contextualizer(given, batch).states for given in (states, other))
        torch.testing.assert_close(first[0, unmoved], second[0, unmoved], atol=0, rtol=0)
        assert not torch.allclose(first[0, 4], second[0, 4])


def test_a_large_alpha_leaves_each_word_with_itself() -> None:
    weights = weights_of(build(alpha=1e4))
    near = [0, 1, 3, 4]
    torch.testing.assert_close(weights[0, near], torch.eye(8).expand(4, 8, 8))


def mirrored(sentence: sa.Sentence) -> sa.Sentence:
    heads = [0 if head == 0 else len(sentence) + 1 - head for head in reversed(sentence.dependency.heads)]
    return sa.Sentence(sentence.words[::-1], dependency=sa.DependencyTree(heads))


def test_mirror() -> None:
    """Reading backwards with the two groups of heads exchanged reverses the words and keeps the sentence."""
    encoder = build()
    twin = copy.deepcopy(encoder)
    attention = twin.contextualizer.attention
    with torch.no_grad():
        blocks = [block.view(2, 6, 12).flip(0).reshape(12, 12) for block in attention.project.weight.chunk(3)]
        attention.project.weight.copy_(torch.cat(blocks))
        attention.output.weight.copy_(attention.output.weight.view(12, 2, 6).flip(1).reshape(12, 12))
    first = encoder(sa.collate([SENTENCE], VOCABULARY))
    second = twin(sa.collate([mirrored(SENTENCE)], VOCABULARY))
    torch.testing.assert_close(first.states.flip(1), second.states, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(first.vector, second.vector, atol=1e-6, rtol=1e-5)
    # Without the exchange the two differ.
    assert not torch.allclose(first.vector, encoder(sa.collate([mirrored(SENTENCE)], VOCABULARY)).vector, atol=1e-4)


@pytest.mark.parametrize("row", ["san", "dependency"])
def test_without_order_a_permutation_moves_the_words_and_nothing_else(row: str) -> None:
    encoder = build(heads=row)
    order = [5, 0, 3, 7, 1, 6, 2, 4]
    place = {old + 1: new + 1 for new, old in enumerate(order)}
    heads = [place.get(SENTENCE.dependency.heads[old], 0) for old in order]
    moved = sa.Sentence([WORDS[old] for old in order], dependency=sa.DependencyTree(heads))
    first, second = (encoder(sa.collate([sentence], VOCABULARY)) for sentence in (SENTENCE, moved))
    torch.testing.assert_close(first.states[:, order], second.states, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(first.vector, second.vector, atol=1e-6, rtol=1e-5)


def test_one_word_is_pooled_twice() -> None:
    one = sa.Sentence(["hands"], dependency=sa.DependencyTree([0]))
    encoding = build()(sa.collate([one], VOCABULARY))
    torch.testing.assert_close(encoding.vector, encoding.states[:, 0].repeat(1, 2))


def test_separate_directions_are_two_encoders_over_the_same_words() -> None:
    encoder = build("ms_san_sep")
    states = encoder.embedder(BATCH)
    forward, backward = (part(states, BATCH).states for part in encoder.contextualizer.contextualizers)
    torch.testing.assert_close(encoder(BATCH).states, torch.cat((forward, backward), dim=-1))
    names = [part.attention.head_names for part in encoder.contextualizer.contextualizers]
    assert names[0] == ("forward/word", "forward/dependency", "forward") * 2
    assert names[1] == ("backward/word", "backward/dependency", "backward") * 2


@pytest.mark.parametrize("name", ["relative_shaw", "relative_xl"])
def test_relative_positions_know_word_order(name: str) -> None:
    encoder = build(name)
    reverse = sa.collate([sa.Sentence(WORDS[::-1])], VOCABULARY)
    difference = encoder(sa.collate([SENTENCE], VOCABULARY)).vector - encoder(reverse).vector
    assert difference.abs().max() > 1e-4
    assert build(name, direction=True).contextualizer.attention.head_names == ("forward",) * 3 + ("backward",) * 3


def test_before_training_no_answer_is_preferred() -> None:
    """With an initial gain of 1 the logits of two labels would be 0.6 apart, for all sentences on one side."""
    apart = []
    for seed in range(6):
        torch.manual_seed(seed)
        encoder = sa.encoders.build("ms_san", vocab_size=SIZE, dim=60)
        model = SentenceModel(encoder, get_task("classification"), ["no", "yes"], vocabulary=VOCABULARY).eval()
        first, second = model(model.collate([SENTENCE, SHORT])).unbind(1)
        apart.append((first - second).abs().mean().item())
    assert sum(apart) / len(apart) < 0.3


def test_missing_trees() -> None:
    batch = sa.collate([SENTENCE, sa.Sentence(["no", "tree"])], VOCABULARY)
    with pytest.raises(MissingStructure, match=r"DependencyDistance .* sentence 1 \('no tree'\)"):
        build()(batch)
    for missing, heads in (("none", "direction_word"), ("word", ["forward/word"] * 2 + ["forward"])):
        heads = (
            list(ABLATIONS[heads]) if isinstance(heads, str) else [*heads, "backward/word", "backward/word", "backward"]
        )
        expected = build(heads=heads)(batch).vector[1]
        torch.testing.assert_close(build(missing_trees=missing)(batch).vector[1], expected, atol=1e-6, rtol=1e-5)
    plain = sa.collate([sa.Sentence(["no", "tree"])], VOCABULARY)
    build(heads="direction_word")(plain)


def test_alpha() -> None:
    slopes = heads_prior(["word"] * 4, alpha="alibi")(BATCH).bias[0, :, 0, 1]
    torch.testing.assert_close(-slopes, torch.tensor([2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8]))
    learnt = build(learnable_alpha=True, alpha="alibi")
    torch.testing.assert_close(learnt(BATCH).vector, build(alpha="alibi")(BATCH).vector, atol=1e-6, rtol=1e-5)
    learnt(BATCH).vector.square().sum().backward()
    gradient = learnt.contextualizer.attention.prior.alphas[0].raw.grad
    assert gradient.ne(0).tolist() == [True, True, False, True, True, False], "heads without a distance learn nothing"


@pytest.mark.parametrize("name", ["ms_san", "ms_san_sep", "relative_shaw", "relative_xl", "transformer"])
def test_mixed_precision(name: str) -> None:
    encoder = build(name)
    single = encoder(BATCH).vector
    with torch.autocast("cpu", torch.bfloat16):
        mixed = encoder(BATCH).vector
    torch.testing.assert_close(mixed.float(), single, atol=0.1, rtol=0.1)
    mixed.float().square().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in encoder.parameters() if parameter.grad is not None)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("ms_san", {"heads": "everything"}, "'everything'; known: san, direction, "),
        ("ms_san", {"heads": ["sideways"]}, "forward, backward, none and .* got 'sideways'"),
        ("ms_san", {"heads": ["word/forward"]}, "got 'word/forward'"),
        ("ms_san", {"heads": []}, "at least one head"),
        ("ms_san", {"heads": ["word"] * 5}, "got dim=12 for 5 heads"),
        ("ms_san", {"alpha": -1.0}, "not negative, or 'alibi'; got -1.0"),
        ("ms_san", {"alpha": 0.0, "learnable_alpha": True}, "positive start"),
        ("ms_san_sep", {"distances": ["far"]}, "got \\('forward', 'far'\\)"),
        ("relative_shaw", {"num_heads": 5}, "got dim=12 for 5 heads"),
        ("relative_xl", {"num_heads": 3, "direction": True}, "even number of heads, got 3"),
        ("transformer", {"num_heads": 0}, "expected at least 1, got 0"),
    ],
)
def test_errors(name: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build(name, **options)


@pytest.mark.parametrize(
    ("option", "message"), [("norm", "first, last; got 'x'"), ("pooler", "mean, max, attentive; got 'x'")]
)
def test_unknown_parts_of_the_transformer(option: str, message: str) -> None:
    # Tests check types at run time, users do not: behind the check stands our own.
    with pytest.raises(ConfigError, match=message):
        inspect.unwrap(sa.encoders.transformer)(sa.layers.WordEmbedding(SIZE, 12), **{option: "x"})


@pytest.mark.parametrize("pooler", ["mean", "max", "attentive"])
@pytest.mark.parametrize("norm", ["first", "last"])
def test_transformer_against_torch(norm: str, pooler: str) -> None:
    """The layer is the one of ``torch.nn``, given the same weights."""
    encoder = build("transformer", norm=norm, pooler=pooler, hidden=20, num_heads=2, num_layers=2)
    states = torch.randn(2, 8, 12, generator=torch.Generator().manual_seed(2))
    for layer in encoder.contextualizer.layers:
        twin = nn.TransformerEncoderLayer(12, 2, 20, dropout=0.0, batch_first=True, norm_first=norm == "first")
        names = {
            "self_attn.in_proj_weight": layer.attention.project.weight,
            "self_attn.out_proj.weight": layer.attention.output.weight,
            "linear1.weight": layer.feed_forward.inner.weight,
            "linear1.bias": layer.feed_forward.inner.bias,
            "linear2.weight": layer.feed_forward.outer.weight,
            "linear2.bias": layer.feed_forward.outer.bias,
        }
        twin.load_state_dict(names, strict=False)
        expected = twin(states, src_key_padding_mask=~BATCH.mask)
        torch.testing.assert_close(layer(states, BATCH)[BATCH.mask], expected[BATCH.mask], atol=1e-5, rtol=1e-4)
    assert encoder(BATCH).vector.shape == (2, 12)
