"""Attention through latent structures: numbers made by hand, loops over all structures, laws over a table of layers."""

import copy
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pytest
import torch
from torch import Tensor, nn

import structattn as sa
from structattn.distributions import (
    ConstituencyCRF,
    DependencyCRF,
    IndependentChoice,
    IndependentSelection,
    LinearChainCRF,
    NonProjectiveDependencyCRF,
)
from structattn.distributions.linear_chain_crf import Segmentation
from structattn.inspection import attention_maps
from structattn.layers import (
    ChainScorer,
    DependencyScorer,
    HeadReader,
    SegmentationScorer,
    SigmoidSelection,
    SoftmaxSelection,
    SpanScorer,
    StructuredAttention,
    TwoStateChain,
    binary_potentials,
    independent_heads,
    marginals,
    unary_potentials,
)
from structattn.layers.additive_scores import AdditiveScores
from structattn.layers.segmentation import SelectionReader
from structattn.layers.span_scorer import PhraseReader, word_weights
from structattn.layers.structured_attention import (
    GumbelNoise,
    PartDistribution,
    StraightThroughSample,
    straight_through_argmax,
)
from structures_by_hand import all_binary_trees, all_heads

DIM, QUERY_DIM, STEPS = 4, 3, 3
LENGTHS = [4, 2, 0, 3]
MASK = torch.arange(4) < torch.tensor(LENGTHS)[:, None]
GENERATOR = torch.Generator().manual_seed(0)
STATES = torch.randn(4, 4, DIM, generator=GENERATOR, dtype=torch.float64) * MASK.unsqueeze(-1)
QUERIES = torch.randn(4, 2, QUERY_DIM, generator=GENERATOR, dtype=torch.float64)
FAMILIES = {
    "projective": (DependencyCRF, {"projective": True, "single_root": False}),
    "projective, single root": (partial(DependencyCRF, single_root=True), {"projective": True, "single_root": True}),
    "all trees": (NonProjectiveDependencyCRF, {"projective": False, "single_root": False}),
    "all trees, single root": (
        partial(NonProjectiveDependencyCRF, single_root=True),
        {"projective": False, "single_root": True},
    ),
}
EXPECTATIONS = {
    "soft": marginals,
    "hard": straight_through_argmax,
    "sampled": StraightThroughSample(torch.Generator().manual_seed(0)),
}


@dataclass(frozen=True)
class Layer:
    """A layer as the laws see it."""

    build: Callable[..., nn.Module]
    inputs: tuple[tuple[str, Tensor], ...] = ()  # what forward wants besides states and mask


def segmentation(selection: Callable[[], nn.Module], **options: object) -> nn.Module:
    scorer = SegmentationScorer(DIM, QUERY_DIM, selection=selection())
    return StructuredAttention(scorer, reader=SelectionReader(2.0), **options)


def chain(steps: int, potentials: Callable[..., tuple[Tensor, Tensor]], **options: object) -> nn.Module:
    scorer = ChainScorer(DIM, steps, query_dim=QUERY_DIM, potentials=potentials)
    return StructuredAttention(scorer, **options)


def syntactic(family: Callable[..., PartDistribution], **options: object) -> nn.Module:
    scorer = DependencyScorer(DIM, 5, family=family)
    return StructuredAttention(scorer, reader=HeadReader(DIM, with_children=True), **options)


def plain(scorer: type[nn.Module], **options: object) -> nn.Module:
    return StructuredAttention(scorer(DIM), **options)


def phrases(total: float, **options: object) -> nn.Module:
    return StructuredAttention(SpanScorer(DIM), reader=PhraseReader(total), **options)


ASKED, QUESTION = (("queries", QUERIES),), (("queries", QUERIES[:, 0]),)
LAYERS = {
    "segments": Layer(partial(segmentation, TwoStateChain), ASKED),
    "sigmoid": Layer(partial(segmentation, SigmoidSelection), ASKED),
    "softmax": Layer(partial(segmentation, SoftmaxSelection), ASKED),
    "segments, asked by words": Layer(partial(plain, SegmentationScorer)),
    "simple heads": Layer(partial(syntactic, independent_heads)),
    **{name: Layer(partial(syntactic, family)) for name, (family, _) in FAMILIES.items()},
    "binary chain": Layer(partial(chain, STEPS, binary_potentials), QUESTION),
    "unary chain": Layer(partial(chain, STEPS, unary_potentials), QUESTION),
    "one step": Layer(partial(chain, 1, binary_potentials), QUESTION),
    "phrases": Layer(partial(plain, SpanScorer)),
    "phrases, normalised": Layer(partial(phrases, 1.0)),
}
over_layers = pytest.mark.parametrize("name", LAYERS)


def layer_of(name: str, **options: object) -> nn.Module:
    torch.manual_seed(3)
    layer = LAYERS[name].build(**options).double()
    for parameter in layer.parameters():
        nn.init.normal_(parameter)
    return layer


def run(
    layer: nn.Module, name: str, rows: slice = slice(None), words: int = 4, states: Tensor = STATES
) -> tuple[Tensor, Tensor]:
    inputs = {key: value[rows] for key, value in LAYERS[name].inputs}
    return layer(states[rows, :words], MASK[rows, :words], **inputs, need_weights=True)


# Laws


@over_layers
@pytest.mark.parametrize("expectation", EXPECTATIONS)
def test_gradients_reach_every_parameter_and_the_states_and_are_finite(name: str, expectation: str) -> None:
    layer = layer_of(name, expectation=EXPECTATIONS[expectation])
    states = STATES.clone().requires_grad_()
    output, weights = run(layer, name, states=states)
    (output.square().sum() + (output * torch.randn_like(output)).sum()).backward()
    for path, parameter in layer.named_parameters():
        assert parameter.grad is not None, path
        assert parameter.grad.isfinite().all(), path
        assert parameter.grad.abs().sum() > 0, path
    assert states.grad is not None
    assert states.grad.isfinite().all()
    assert not states.grad[~MASK].any()
    assert output.isfinite().all()
    assert weights.isfinite().all()


@over_layers
@pytest.mark.parametrize("expectation", ["soft", "hard"])
def test_padding_changes_nothing(name: str, expectation: str) -> None:
    layer = layer_of(name, expectation=EXPECTATIONS[expectation])
    output, weights = run(layer, name, states=STATES.masked_fill(~MASK.unsqueeze(-1), 7.0))
    for row, length in enumerate(LENGTHS):
        if length:
            alone, own_weights = run(layer, name, slice(row, row + 1), length)
            size = alone.shape[1] if alone.dim() == 3 else None
            torch.testing.assert_close(output[row : row + 1, :size], alone)
            asked = own_weights.shape[-2]
            torch.testing.assert_close(weights[row : row + 1, :, :asked, :length], own_weights)
        assert not weights[row, ..., length:].any()


@over_layers
def test_a_sentence_without_words_gives_zeros(name: str) -> None:
    output, weights = run(layer_of(name), name)
    assert not output[2].any()
    assert not weights[2].any()


@over_layers
def test_weights_come_only_on_request_and_are_those_that_were_used(name: str) -> None:
    layer = layer_of(name)
    inputs = dict(LAYERS[name].inputs)
    output, weights = layer(STATES, MASK, **inputs)
    assert weights is None
    torch.testing.assert_close(output, run(layer, name)[0])
    assert layer.weights_axes == "head query key"
    assert run(layer, name)[1].dim() == 4


@over_layers
def test_a_saved_layer_is_the_same_in_float32(name: str) -> None:
    layer, other = layer_of(name).float(), LAYERS[name].build()
    other.load_state_dict(layer.state_dict())
    inputs = {key: value.float() for key, value in LAYERS[name].inputs}
    output, _ = layer(STATES.float(), MASK, **inputs)
    assert output.dtype == torch.float32
    torch.testing.assert_close(other(STATES.float(), MASK, **inputs)[0], output)
    torch.testing.assert_close(output.double(), run(layer_of(name), name)[0], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", ["segments", "projective", "all trees", "binary chain", "phrases, normalised"])
def test_the_gradient_of_soft_attention_is_that_of_differences(name: str) -> None:
    layer = layer_of(name)
    states = STATES[3:, :3].clone().requires_grad_()
    inputs = {key: value[3:] for key, value in LAYERS[name].inputs}
    assert torch.autograd.gradcheck(lambda s: layer(s, MASK[3:, :3], **inputs)[0], [states])


# Masks


HOLES = torch.tensor([[True, False, True, True], [False, True, False, False], [False] * 4, [False, False, True, True]])


@over_layers
def test_words_that_a_mask_leaves_out_might_as_well_be_absent(name: str) -> None:
    layer = layer_of(name)
    states = torch.randn(4, 4, DIM, generator=torch.Generator().manual_seed(1), dtype=torch.float64).requires_grad_()
    inputs = dict(LAYERS[name].inputs)
    output, weights = layer(states, HOLES, **inputs, need_weights=True)
    for row, left in enumerate(HOLES):
        if not left.any():
            assert not output[row].any()
            assert not weights[row].any()
            continue
        own = {key: value[row : row + 1] for key, value in inputs.items()}
        alone, own_weights = layer(states[row : row + 1, left], **own, need_weights=True)
        asks = torch.ones(own_weights.shape[2], dtype=torch.bool) if inputs else left
        expected = torch.zeros_like(weights[row])
        expected[:, asks.unsqueeze(-1) & left] = own_weights[0].flatten(1)
        torch.testing.assert_close(weights[row], expected)
        torch.testing.assert_close(output[row] if inputs else output[row, left], alone[0])
        assert inputs or not output[row, ~left].any()
    (gradient,) = torch.autograd.grad((output * torch.randn_like(output)).sum(), states)
    assert gradient[HOLES].any()
    assert not gradient[~HOLES].any()


@pytest.mark.parametrize("name", ["simple heads", *FAMILIES, "segments, asked by words", "phrases"])
def test_the_distribution_is_over_the_words_that_are_left(name: str) -> None:
    layer, mask = layer_of(name), torch.tensor([[True, False, True, True]])
    there = layer.distribution(STATES[:1], mask)
    alone = layer.distribution(STATES[:1, mask[0]])
    if name in FAMILIES:
        torch.testing.assert_close(there.log_partition(), alone.log_partition())
    left = alone.marginals()
    torch.testing.assert_close(there.marginals()[..., : left.shape[-2], : left.shape[-1]], left)


@over_layers
def test_states_alone_with_a_mask_and_with_a_batch(name: str) -> None:
    layer, inputs = layer_of(name), dict(LAYERS[name].inputs)
    mask = torch.ones(4, 4, dtype=torch.bool)
    batch = sa.SentenceBatch(mask.long(), mask, mask.sum(1))
    alone = layer(STATES, **inputs)[0]
    assert torch.equal(layer(STATES, mask, **inputs)[0], alone)
    assert torch.equal(layer(STATES, batch, **inputs)[0], alone)


def test_a_scorer_without_a_reader_of_its_own() -> None:
    with pytest.raises(TypeError, match="expects a reader for the parts of GivenScores, got none"):
        StructuredAttention(GivenScores(DependencyCRF(torch.zeros(1, 2, 3))))


# Numbers made by hand


def test_two_words_two_coins_and_a_link_by_hand() -> None:
    attention = StructuredAttention(SegmentationScorer(1))
    with torch.no_grad():
        attention.scorer.bilinear.weight.fill_(1.0)
        attention.scorer.selection.transition[1, 1] = math.log(3)
    states = torch.tensor([[[math.log(2)], [0.0]]])
    output, weights = attention(states, torch.tensor([[True, True]]), queries=torch.ones(1, 1, 1), need_weights=True)
    # Selections 00, 01, 10, 11 have weights 1, 1, 2, 2 * 3: word 0 is in 8 of 10, word 1 in 7 of 10.
    torch.testing.assert_close(weights, torch.tensor([[[[0.8, 0.7]]]]))
    torch.testing.assert_close(output, torch.tensor([[[0.8 * math.log(2)]]]))


def test_without_transitions_segments_are_sigmoid_attention() -> None:
    chain, coins = layer_of("segments"), layer_of("sigmoid")
    nn.init.zeros_(chain.scorer.selection.transition)
    coins.scorer.bilinear.load_state_dict(chain.scorer.bilinear.state_dict())
    torch.testing.assert_close(run(chain, "segments"), run(coins, "sigmoid"))


@pytest.mark.parametrize("name", ["segments", "sigmoid", "softmax"])
def test_normalised_weights_sum_to_lambda(name: str) -> None:
    weights = run(layer_of(name), name)[1]
    torch.testing.assert_close(weights[[0, 1, 3]].sum(-1), torch.full((3, 1, 2), 2.0, dtype=torch.float64))


class GivenScores(nn.Module):
    """A scorer whose scores do not depend on the states."""

    def __init__(self, distribution: PartDistribution) -> None:
        super().__init__()
        self.distribution = distribution

    def forward(self, *states: Tensor) -> PartDistribution:
        return self.distribution


def test_the_three_words_of_the_golden_numbers() -> None:
    scores = torch.tensor([[[1, 0, 0.5, -1.5], [0, 1.5, 0, 1], [-1, 0.5, -1.5, 0]]])
    scorer = GivenScores(DependencyCRF(scores, torch.tensor([3])))
    attention = StructuredAttention(scorer, reader=HeadReader(3, with_children=True))
    nn.init.zeros_(attention.reader.root)
    states, mask = torch.eye(3).unsqueeze(0), torch.ones(1, 3, dtype=torch.bool)
    output, weights = attention(states, mask, need_weights=True)
    expected = torch.tensor([[0, 0.055803, 0.012573], [0.588283, 0, 0.356812], [0.686452, 0.078556, 0]])
    torch.testing.assert_close(weights[0, 0], expected, atol=1e-6, rtol=0)
    torch.testing.assert_close(output[0], torch.cat([expected, expected.T], -1), atol=1e-6, rtol=0)
    assert attention.reader.output_dim == output.shape[-1]
    torch.testing.assert_close(1 - weights.sum(-1)[0, 0], torch.tensor([0.931624, 0.054906, 0.234991]))


def test_two_words_under_a_root_by_hand() -> None:
    # Trees 0 0, 0 1 and 2 0 with weights 1, 2 and 1.
    scores = torch.tensor([[[0.0, 9.0, 0.0], [0.0, math.log(2), 9.0]]])
    attention = StructuredAttention(GivenScores(DependencyCRF(scores, torch.tensor([2]))), reader=HeadReader(1))
    nn.init.constant_(attention.reader.root, 100.0)
    output, weights = attention(torch.tensor([[[1.0], [2.0]]]), torch.tensor([[True, True]]), need_weights=True)
    torch.testing.assert_close(weights[0, 0], torch.tensor([[0.0, 0.25], [0.5, 0.0]]))
    torch.testing.assert_close(output, torch.tensor([[[75.5], [50.5]]]))


def test_two_and_three_words_under_phrases_by_hand() -> None:
    mask, states = torch.ones(1, 3, dtype=torch.bool), torch.tensor([[[0.0], [6.0], [12.0]]])
    scores = torch.zeros(1, 4, 4)
    scores[0, 0, 2] = math.log(3)
    given = GivenScores(ConstituencyCRF(scores, torch.tensor([3])))
    output, _ = StructuredAttention(given, reader=PhraseReader())(states, mask)
    # The phrase (0, 2) with mean 3 has probability 3/4, (1, 3) with mean 9 has 1/4, the sentence with mean 6 has 1.
    torch.testing.assert_close(output, torch.tensor([[[0 + 2.25 + 6], [6 + 2.25 + 2.25 + 6], [12 + 2.25 + 6]]]))
    given = GivenScores(ConstituencyCRF(scores[:, :3, :3], torch.tensor([2])))
    two = StructuredAttention(given, reader=PhraseReader())
    torch.testing.assert_close(two(states[:, :2], mask[:, :2])[0], torch.tensor([[[3.0], [9.0]]]))


# Loops over all structures


@torch.no_grad()
def test_segmentation_is_a_sum_over_all_selections() -> None:
    layer = layer_of("segments")
    layer.reader.total = None
    scores = layer.scorer.bilinear(QUERIES) @ STATES.mT
    transition = layer.scorer.selection.transition
    expected = torch.zeros(4, 2, DIM, dtype=torch.float64)
    for row, query in itertools.product(range(4), range(2)):
        selections = list(itertools.product(range(2), repeat=LENGTHS[row]))
        values = [
            sum(z * scores[row, query, i] for i, z in enumerate(zs))
            + sum(transition[a, b] for a, b in itertools.pairwise(zs))
            for zs in selections
        ]
        for probability, zs in zip(torch.tensor(values, dtype=torch.float64).softmax(0), selections, strict=True):
            for i, z in enumerate(zs):
                expected[row, query] += probability * z * STATES[row, i]
    torch.testing.assert_close(run(layer, "segments")[0], expected)


@pytest.mark.parametrize("name", FAMILIES)
@torch.no_grad()
def test_syntactic_attention_is_a_sum_over_all_trees(name: str) -> None:
    layer = layer_of(name)
    scorer = layer.scorer.scores
    expected = torch.zeros(4, 4, 2 * DIM, dtype=torch.float64)
    for row, length in enumerate(LENGTHS):
        nodes = torch.cat([layer.reader.root[None], STATES[row, :length]])
        hidden = torch.tanh(scorer.first(nodes)[:, None] + scorer.second(nodes)[None])
        theta = torch.tanh(hidden @ scorer.score.weight[0])  # [head, word], as in the paper
        trees = all_heads(length, **FAMILIES[name][1])
        values = [sum(theta[h, m] for m, h in enumerate(heads, 1)) for heads in trees]
        for probability, heads in zip(torch.tensor(values, dtype=torch.float64).softmax(0), trees, strict=True):
            for m, h in enumerate(heads, 1):
                expected[row, m - 1, :DIM] += probability * nodes[h]
                if h:
                    expected[row, h - 1, DIM:] += probability * nodes[m]
    torch.testing.assert_close(run(layer, name)[0], expected)


@pytest.mark.parametrize("name", ["unary chain", "binary chain"])
@torch.no_grad()
def test_chain_attention_is_a_sum_over_all_sequences_of_facts(name: str) -> None:
    layer = layer_of(name)
    keys = torch.einsum("bnd,kqd->bknq", STATES, layer.scorer.keys.linear.weight.view(STEPS, QUERY_DIM, DIM))
    values = torch.einsum("bnd,ked->bkne", STATES, layer.reader.values.linear.weight.view(STEPS, DIM, DIM))
    expected = torch.zeros(4, DIM, dtype=torch.float64)
    for row, length in enumerate(LENGTHS):
        u = [QUERIES[row, 0]]
        for _ in range(STEPS - 1):
            u.append(layer.scorer.next_query.weight @ u[-1])
        m = keys[row]
        sequences, scores = [], []
        for z in itertools.product(range(length), repeat=STEPS):
            if name == "unary chain":
                scores.append(sum(m[k, z[k]] @ u[k] for k in range(STEPS)))
            elif all(a != b for a, b in itertools.pairwise(z)):
                edges = [(k, z[k], z[k + 1]) for k in range(STEPS - 1)]
                scores.append(sum(m[k, i] @ u[k] + m[k, i] @ m[k + 1, j] + m[k + 1, j] @ u[k + 1] for k, i, j in edges))
            else:
                continue
            sequences.append(z)
        for probability, z in zip(torch.tensor(scores, dtype=torch.float64).softmax(0), sequences, strict=True):
            expected[row] += probability * sum(values[row, k, i] for k, i in enumerate(z))
    torch.testing.assert_close(run(layer, name)[0], expected)


@torch.no_grad()
def test_constituency_attention_is_a_sum_over_all_phrase_trees() -> None:
    layer = layer_of("phrases")
    scores = layer.scorer.scores(STATES, STATES)
    expected = torch.zeros(4, 4, DIM, dtype=torch.float64)
    for row, length in enumerate(LENGTHS):
        trees = list(all_binary_trees(0, length))
        values = [sum(scores[row, i, k - 1] for i, k in tree) for tree in trees]
        for probability, tree in zip(torch.tensor(values, dtype=torch.float64).softmax(0), trees, strict=True):
            for i, k in tree:
                expected[row, i:k] += probability * STATES[row, i:k].mean(0)
    torch.testing.assert_close(run(layer, "phrases")[0], expected)


# Parts: temperature, noise, hard attention


SCORERS: dict[str, tuple[Callable[..., nn.Module], tuple[Tensor, ...]]] = {
    "segments": (partial(SegmentationScorer, DIM, QUERY_DIM), (STATES, MASK, QUERIES)),
    "sigmoid": (partial(SegmentationScorer, DIM, QUERY_DIM, selection=SigmoidSelection()), (STATES, MASK, QUERIES)),
    "softmax": (partial(SegmentationScorer, DIM, QUERY_DIM, selection=SoftmaxSelection()), (STATES, MASK, QUERIES)),
    "trees": (partial(DependencyScorer, DIM), (torch.cat([-STATES[:, :1], STATES], 1), MASK)),
    "facts": (partial(ChainScorer, DIM, STEPS, query_dim=QUERY_DIM), (STATES, MASK, QUERIES[:, 0])),
    "phrases": (partial(SpanScorer, DIM), (STATES, MASK)),
}


@pytest.mark.parametrize("name", SCORERS)
def test_temperature_sharpens_and_noise_perturbs(name: str) -> None:
    build, inputs = SCORERS[name]
    torch.manual_seed(3)
    generator = torch.Generator().manual_seed(0)
    scorer = build(noise=GumbelNoise(generator=generator)).double()
    for parameter in scorer.parameters():
        nn.init.normal_(parameter, std=2.0)
    assert not torch.equal(scorer(*inputs).marginals(), scorer(*inputs).marginals())
    scorer.eval()
    torch.testing.assert_close(scorer(*inputs).marginals(), scorer(*inputs).marginals())
    best = scorer(*inputs).argmax()
    scorer.temperature = 1e-5
    torch.testing.assert_close(scorer(*inputs).marginals(), best)
    torch.testing.assert_close(scorer(*inputs).argmax(), best)
    with pytest.raises(ValueError, match="temperature above 0, got 0"):
        build(temperature=0.0)


@over_layers
def test_hard_attention_has_the_values_of_a_structure_and_the_gradient_of_the_marginals(name: str) -> None:
    hard, soft = layer_of(name, expectation=straight_through_argmax), layer_of(name)
    for layer in (hard, soft):
        if getattr(layer.reader, "total", None) is not None:
            layer.reader.total = None
    assert hard.expectation is straight_through_argmax
    (hard_weights, soft_weights) = (run(layer, name)[1] for layer in (hard, soft))
    if "phrases" not in name:
        assert set(hard_weights.unique().tolist()) <= {0.0, 1.0}
    seed = torch.randn(hard_weights.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    grads = [
        torch.autograd.grad((weights * seed).sum(), list(layer.scorer.parameters()))
        for layer, weights in ((hard, hard_weights), (soft, soft_weights))
    ]
    torch.testing.assert_close(grads[0], grads[1])


@pytest.mark.parametrize("expectation", ["perturb and MAP", "sampled"])
def test_random_heads_of_one_word_are_as_frequent_as_they_are_probable(expectation: str) -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.tensor([0.0, 1.0, -1.0, 0.5]).expand(4000, 4)
    if expectation == "sampled":
        drawn = StraightThroughSample(generator)(IndependentChoice(scores, torch.ones_like(scores).bool()))
    else:
        noisy = GumbelNoise(generator=generator)(scores)
        drawn = straight_through_argmax(IndependentChoice(noisy, torch.ones_like(scores).bool()))
    p = scores[0].softmax(0)
    assert ((drawn.mean(0) - p).abs() < 4 * (p * (1 - p) / 4000).sqrt()).all()


def test_random_selections_are_as_frequent_as_they_are_probable() -> None:
    scores, allowed = torch.tensor([0.0, 2.0, -1.0, 5.0]), torch.tensor([True, True, True, False])
    coins = IndependentSelection(scores, allowed)
    drawn = coins.sample((4000,), torch.Generator().manual_seed(0))
    p = coins.marginals()
    assert ((drawn.mean(0) - p).abs() <= 4 * (p * (1 - p) / 4000).sqrt()).all()
    chain = Segmentation(LinearChainCRF(torch.stack([torch.zeros(4), scores], -1), torch.zeros(2, 2)))
    assert chain.sample((5,), torch.Generator().manual_seed(0)).shape == (5, 4)
    assert isinstance(coins, PartDistribution)
    assert isinstance(chain, PartDistribution)


def test_a_generator_makes_sampled_attention_repeatable() -> None:
    layers = [layer_of("all trees", expectation=StraightThroughSample(torch.Generator().manual_seed(7))) for _ in "ab"]
    first, second = (run(layer, "all trees")[0] for layer in layers)
    torch.testing.assert_close(first, second)


def test_variants_share_a_scorer() -> None:
    scores = AdditiveScores(DIM)
    soft = StructuredAttention(DependencyScorer(DIM))
    simple = StructuredAttention(DependencyScorer(DIM, family=independent_heads))
    soft.scorer.scores = simple.scorer.scores = scores
    hard = StructuredAttention(soft.scorer, straight_through_argmax)
    assert {id(p) for p in scores.parameters()} <= {id(p) for layer in (soft, simple, hard) for p in layer.parameters()}
    assert soft.distribution(STATES.float(), MASK).entropy().shape == (4,)
    assert copy.deepcopy(hard).expectation is straight_through_argmax


def test_chains_over_too_few_facts_give_zeros() -> None:
    layer = chain(2, binary_potentials)
    output, weights = layer(torch.ones(1, 1, DIM), torch.tensor([[True]]), queries=torch.ones(1, 3), need_weights=True)
    assert not output.any()
    assert not weights.any()
    with pytest.raises(ValueError, match="at least 1 step, got 0"):
        ChainScorer(DIM, 0)
    with pytest.raises(ValueError, match="scale of at least 0"):
        GumbelNoise(-1.0)


def test_spans_are_shared_out_as_in_a_loop() -> None:
    spans = torch.randn(2, 5, 5, generator=torch.Generator().manual_seed(0)).triu(1)
    expected = torch.zeros(2, 4, 4)
    for i, k in itertools.combinations(range(5), 2):
        expected[:, i:k, i:k] += spans[:, i, k, None, None] / (k - i)
    torch.testing.assert_close(word_weights(spans), expected)


class Model(nn.Module):
    """What inspection wants: a module that takes a batch."""

    def __init__(self, attention: nn.Module) -> None:
        super().__init__()
        self.embedding = nn.Embedding(8, DIM)
        self.attention = attention

    def forward(self, batch: sa.SentenceBatch) -> Tensor:
        return self.attention(self.embedding(batch.tokens), batch)[0]


@pytest.mark.parametrize("name", ["segments, asked by words", *FAMILIES, "simple heads", "phrases"])
def test_inspection_draws_them(name: str) -> None:
    vocabulary = sa.Vocabulary(["a", "barks", "dog"])
    (found,) = attention_maps(Model(LAYERS[name].build()), sa.Sentence(["a", "dog", "barks"]), vocabulary=vocabulary)
    assert found.rows == found.columns == ("a", "dog", "barks")
    assert found.weights.shape == (1, 3, 3)
