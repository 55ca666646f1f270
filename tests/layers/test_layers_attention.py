"""Multi-head attention under priors, relative positions, gates, poolers, embeddings: loops written from the papers."""

import copy
import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn.attention.flex_attention import flex_attention

import structattn as sa
from structattn.layers import (
    AttentivePooling,
    Concat,
    FeedForward,
    FusionGate,
    MaxPooling,
    MeanPooling,
    MultiHeadAttention,
    ProjectedFusionGate,
    ShawPosition,
    WordEmbedding,
    XLPosition,
)
from structattn.layers.positions import (
    RelativePosition,
    SinusoidalPositions,
    offsets_to_pairs,
    pairs_to_offsets,
    sinusoids,
)
from structattn.priors import (
    AttentionBias,
    Backward,
    DependencyDistance,
    Forward,
    LearnableAlpha,
    NotSelf,
    PerHead,
    Prior,
    WordDistance,
)

VOCABULARY = sa.Vocabulary(["a", "b", "c", "d", "e"])
SENTENCES = [
    sa.Sentence(["a", "b", "c", "d", "e"], dependency=sa.DependencyTree([2, 0, 2, 5, 3])),
    sa.Sentence(["b", "a"], dependency=sa.DependencyTree([2, 0])),
    sa.Sentence(["e"], dependency=sa.DependencyTree([0])),
    sa.Sentence([]),
]
BATCH = sa.collate(SENTENCES, VOCABULARY)
DIM, HEADS = 8, 2
STATES = torch.randn(4, 5, DIM, generator=torch.Generator().manual_seed(0)) * BATCH.mask.unsqueeze(-1)

PRIORS: dict[str, Prior | None] = {
    "plain": None,
    "forward": Forward(),
    "strictly backward": Backward(include_self=False),
    "not self": NotSelf(),
    "ms_san": PerHead([Forward() + 0.7 * WordDistance(), Backward() + 0.3 * DependencyDistance()]),
    "learnt": LearnableAlpha(HEADS) * WordDistance(),
}
POSITIONS = {"none": None, "shaw": ShawPosition(DIM // HEADS, clip=2), "xl": XLPosition(HEADS, DIM // HEADS)}


def attention_of(prior: str, position: str = "none", *, bias: bool = False, dropout: float = 0.0) -> MultiHeadAttention:
    torch.manual_seed(1)
    part = copy.deepcopy(POSITIONS[position])
    attention = MultiHeadAttention(DIM, HEADS, copy.deepcopy(PRIORS[prior]), position=part, bias=bias, dropout=dropout)
    for parameter in attention.parameters():
        nn.init.normal_(parameter, std=0.5)
    return attention


def by_hand(attention: MultiHeadAttention, states: Tensor, batch: sa.SentenceBatch) -> tuple[Tensor, Tensor]:
    """Every number by its own formula: one sentence, head, query and key at a time."""
    num, length, _ = states.shape
    width = attention.head_dim
    queries, keys, values = (states @ block.mT for block in attention.project.weight.chunk(3))
    prior = AttentionBias() if attention.prior is None else attention.prior(batch)
    allowed = prior.allowed
    weights = torch.zeros(num, HEADS, length, length)
    output = torch.zeros(num, length, HEADS * width)
    for b in range(num):
        for h in range(HEADS):
            part = slice(h * width, (h + 1) * width)
            q, k, v = queries[b, :, part], keys[b, :, part], values[b, :, part]
            for i in range(int(batch.lengths[b])):
                powers = torch.zeros(length)
                for j in range(int(batch.lengths[b])):
                    if allowed is not None and not allowed.expand(num, HEADS, length, length)[b, h, i, j]:
                        continue
                    score = pair_score(attention.position, q[i], k[j], i=i, j=j, h=h) / math.sqrt(width)
                    if prior.bias is not None:
                        score = score + prior.bias.expand(num, HEADS, length, length)[b, h, i, j]
                    powers[j] = score.exp()
                if powers.any():
                    weights[b, h, i] = powers / powers.sum()
                for j in range(length):
                    value = v[j]
                    if isinstance(attention.position, ShawPosition):
                        value = value + attention.position.value_table[max(-2, min(2, j - i)) + 2]
                    output[b, i, part] += weights[b, h, i, j] * value
    return output @ attention.output.weight.mT, weights


def pair_score(position: RelativePosition | None, q: Tensor, k: Tensor, *, i: int, j: int, h: int) -> Tensor:
    if isinstance(position, ShawPosition):
        return q @ (k + position.key_table[max(-2, min(2, j - i)) + 2])
    if isinstance(position, XLPosition):
        sinusoid = torch.tensor(
            [
                (math.sin if feature % 2 == 0 else math.cos)((i - j) / 10000 ** (feature // 2 * 2 / DIM))
                for feature in range(DIM)
            ]
        )
        r = (position.project.weight @ sinusoid)[h * 4 : (h + 1) * 4]
        u, v = position.content_bias[h], position.position_bias[h]
        return q @ k + q @ r + u @ k + v @ r
    return q @ k


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("prior", PRIORS)
def test_agrees_with_a_loop_from_the_paper(prior: str, position: str) -> None:
    attention = attention_of(prior, position)
    with torch.no_grad():
        output, weights = attention(STATES, BATCH, need_weights=True)
        expected_output, expected_weights = by_hand(attention, STATES, BATCH)
    torch.testing.assert_close(weights, expected_weights, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(output, expected_output, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("prior", PRIORS)
def test_asking_for_weights_changes_neither_output_nor_gradient(prior: str, position: str, bias: bool) -> None:
    attention = attention_of(prior, position, bias=bias)
    for dtype, tolerance in ((torch.float32, 1e-6), (torch.float64, 1e-12)):
        outputs, gradients = [], []
        for need_weights in (False, True):
            states = STATES.clone().to(dtype).requires_grad_()
            output, weights = attention.to(dtype)(states, BATCH, need_weights=need_weights)
            assert (weights is not None) == need_weights
            output.square().sum().backward()
            outputs.append(output)
            gradients.append(states.grad)
        torch.testing.assert_close(outputs[0], outputs[1], atol=tolerance, rtol=tolerance)
        torch.testing.assert_close(gradients[0], gradients[1], atol=100 * tolerance, rtol=100 * tolerance)


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("prior", PRIORS)
def test_a_query_that_sees_nothing_is_zero_with_zero_gradient(prior: str, position: str, need_weights: bool) -> None:
    attention = attention_of(prior, position)
    states = STATES.clone().requires_grad_()
    output, weights = attention(states, BATCH, need_weights=need_weights)
    allowed = attention.prior(BATCH).allowed if attention.prior is not None else None
    sees = BATCH.mask[:, None, :, None] & BATCH.mask[:, None, None, :]
    blind = ~(sees if allowed is None else sees & allowed).any(-1)
    all_blind = blind.expand(4, HEADS, 5).all(1)
    assert all_blind.any()
    assert not output[all_blind].any()
    if weights is not None:
        assert not weights[blind.expand(4, HEADS, 5)].any()
        seeing = ~blind.expand(4, HEADS, 5)
        torch.testing.assert_close(weights.sum(-1)[seeing], torch.ones(int(seeing.sum())))
    output[all_blind].sum().backward()
    assert states.grad is not None
    assert not states.grad.any()
    for parameter in attention.parameters():
        assert parameter.grad is None or not parameter.grad.any()


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("prior", PRIORS)
def test_padding_and_its_contents_change_nothing(prior: str, position: str) -> None:
    attention = attention_of(prior, position, bias=True)
    output, _ = attention(STATES, BATCH)
    garbage, _ = attention(torch.where(BATCH.mask.unsqueeze(-1), STATES, torch.tensor(1e4)), BATCH)
    torch.testing.assert_close(output, garbage, atol=1e-6, rtol=1e-6)
    alone, _ = attention(STATES[1:2, :2], sa.collate(SENTENCES[1:2], VOCABULARY))
    torch.testing.assert_close(output[1:2, :2], alone, atol=1e-6, rtol=1e-5)
    assert not output[~BATCH.mask].any()


@pytest.mark.parametrize("position", POSITIONS)
def test_gradients_reach_every_parameter(position: str) -> None:
    attention = attention_of("learnt", position, bias=True)
    output, _ = attention(STATES, BATCH)
    (output * torch.randn(output.shape, generator=torch.Generator().manual_seed(2))).sum().backward()
    for name, parameter in attention.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.any(), name


def test_two_words_by_hand() -> None:
    """One head of width one, all maps the identity: weights are ``softmax(x_i x_j - |i - j|)``."""
    attention = MultiHeadAttention(1, 1, WordDistance())
    for parameter in attention.parameters():
        nn.init.ones_(parameter)
    output, weights = attention(
        torch.tensor([[[1.0], [2.0]]]), sa.collate([sa.Sentence(["a", "b"])], VOCABULARY), need_weights=True
    )
    # Scores: row 0 is (1, 2 - 1), row 1 is (2 - 1, 4).
    second = math.exp(4) / (math.exp(1) + math.exp(4))
    torch.testing.assert_close(weights, torch.tensor([[[[0.5, 0.5], [1 - second, second]]]]))
    torch.testing.assert_close(output, torch.tensor([[[1.5], [1 + second]]]))


def test_dropout_acts_in_training_only_and_not_on_reported_weights() -> None:
    attention = attention_of("ms_san", dropout=0.5)
    torch.manual_seed(0)
    dropped, weights = attention(STATES, BATCH, need_weights=True)
    real = BATCH.mask[:, None].expand(4, HEADS, 5)
    torch.testing.assert_close(weights.sum(-1)[real], torch.ones(int(real.sum())))
    plain, _ = attention.eval()(STATES, BATCH)
    assert not torch.allclose(dropped, plain)
    torch.testing.assert_close(plain, attention_of("ms_san")(STATES, BATCH)[0])


def test_zero_tables_are_no_relative_positions() -> None:
    plain = attention_of("ms_san")
    for position in ("shaw", "xl"):
        attention = attention_of("ms_san", position)
        attention.load_state_dict(plain.state_dict(), strict=False)
        zeroed = (
            (attention.position.key_table, attention.position.value_table)
            if position == "shaw"
            else (attention.position.project.weight, attention.position.content_bias)
        )
        for parameter in zeroed:
            nn.init.zeros_(parameter)
        torch.testing.assert_close(attention(STATES, BATCH)[0], plain(STATES, BATCH)[0], atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("length", [1, 2, 3, 7])
def test_shift_and_back(length: int) -> None:
    table = torch.arange(3.0 * length * (2 * length - 1)).view(3, length, -1)
    pairs = offsets_to_pairs(table)
    for i in range(length):
        for j in range(length):
            assert (pairs[:, i, j] == table[:, i, length - 1 + j - i]).all()
    back = pairs_to_offsets(pairs)
    assert (offsets_to_pairs(back) == pairs).all()
    assert back.sum() == pairs.sum(), "zero where no key has the offset"


def test_no_pairwise_tensor_per_feature_is_made() -> None:
    """At n = 64 an (n, n, head_dim) tensor would have 131,072 numbers a head; saved tensors stay below that."""
    length, sizes = 64, []
    batch = sa.collate([sa.Sentence(["a"] * length)], VOCABULARY)
    for position in (ShawPosition(32), XLPosition(1, 32)):
        attention = MultiHeadAttention(32, 1, position=position)
        with torch.autograd.graph.saved_tensors_hooks(lambda saved: sizes.append(saved.numel()) or saved, lambda x: x):
            attention(torch.randn(1, length, 32), batch)
    assert max(sizes) <= length * 2 * length


@pytest.mark.integration  # torch compiles it
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@torch.no_grad()  # on the CPU it has no backward
def test_flex_attention_agrees(device: str) -> None:
    alpha, batch = 0.7, sa.collate(SENTENCES[:1], VOCABULARY).to(device)
    prior = PerHead([Forward() + alpha * WordDistance(), Backward() + alpha * DependencyDistance()])
    attention = MultiHeadAttention(64, 2, prior).to(device)
    states = torch.randn(1, 5, 64, device=device)
    queries, keys, values = attention.project(states).view(1, 5, 3, 2, 32).permute(2, 0, 3, 1, 4)
    distance = batch.dependency.distances()[0]

    def modify(score: Tensor, b: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        near = torch.where(head == 0, (query - key).abs(), distance[query, key])
        allowed = torch.where(head == 0, key <= query, key >= query)
        return torch.where(allowed, score - alpha * near, float("-inf"))

    heads = flex_attention(queries, keys, values, score_mod=modify)
    expected = attention.output(heads.transpose(1, 2).flatten(2))
    torch.testing.assert_close(attention(states, batch)[0], expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_other_precisions(dtype: torch.dtype) -> None:
    attention = attention_of("ms_san")
    single, _ = attention(STATES, BATCH)
    other, _ = copy.deepcopy(attention).to(dtype)(STATES.to(dtype), BATCH)
    assert other.dtype == dtype
    tolerance = 1e-6 if dtype == torch.float64 else 0.1
    torch.testing.assert_close(other.to(single.dtype), single, atol=tolerance, rtol=tolerance)


def test_head_names() -> None:
    assert attention_of("plain").head_names == ("none", "none")
    assert attention_of("forward").head_names == ("forward", "forward")
    assert attention_of("ms_san").head_names == ("forward + 0.7 word", "backward + 0.3 dependency")


def test_other_widths_and_outputs() -> None:
    attention = MultiHeadAttention(6, 4, head_dim=5, output=nn.Identity())
    assert attention(torch.ones(4, 5, 6), BATCH)[0].shape == (4, 5, 20)
    assert sum(parameter.numel() for parameter in attention.parameters()) == 3 * 6 * 20
    assert sum(parameter.numel() for parameter in MultiHeadAttention(300, 6).parameters()) == 4 * 300**2


class Nodes(Prior):
    """Speaks of more nodes than there are words."""

    name = "nodes"

    def forward(self, batch: sa.SentenceBatch) -> AttentionBias:
        return AttentionBias(torch.ones(1, 1, 9, 9, dtype=torch.bool))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: MultiHeadAttention(50, 6), "got 50 and 6"),
        (lambda: MultiHeadAttention(6, 2, PerHead([Forward()] * 3)), r"has 2 heads, but its prior is made for 3"),
        (lambda: ShawPosition(4, clip=-1), "got -1"),
        (lambda: MultiHeadAttention(8, 2)(torch.ones(4, 4, 8), BATCH), "4 sentences with 4 words, .* has 4 with 5"),
        (lambda: MultiHeadAttention(8, 2, Nodes())(torch.ones(4, 5, 8), BATCH), r"5 states .* \(nodes\) is for 9"),
        (lambda: Concat([]), "at least one pooler"),
        (lambda: WordEmbedding(3, 4, num_frozen=2), "vocab_size=3 and num_frozen=2"),
        (lambda: WordEmbedding(3, 4).load_vectors(torch.zeros(4, 4)), "3 words by 4, got 4 by 4"),
    ],
)
def test_errors(build, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=message):
        build()


def test_sinusoids() -> None:
    table = sinusoids(torch.arange(-3, 4), 5, dtype=torch.float32)
    assert table.shape == (7, 5)
    for row, position in enumerate(range(-3, 4)):
        for feature in range(5):
            angle = position / 10000 ** (feature // 2 * 2 / 5)
            expected = math.sin(angle) if feature % 2 == 0 else math.cos(angle)
            assert abs(float(table[row, feature]) - expected) < 1e-6
    states = torch.ones(2, 3, 5)
    torch.testing.assert_close(SinusoidalPositions()(states), states + table[3:6])
    found = SinusoidalPositions()(torch.zeros(1, 600, 8, dtype=torch.bfloat16))
    wide = SinusoidalPositions()(torch.zeros(1, 600, 8))
    assert (found.float() - wide).abs().max() < 0.01  # bfloat16 has no 257


@pytest.mark.parametrize("gate", [FusionGate(DIM), FusionGate(DIM, ref_biases=True), ProjectedFusionGate(DIM)])
def test_an_extreme_gate_keeps_one_side(gate: FusionGate | ProjectedFusionGate) -> None:
    gate = copy.deepcopy(gate)
    given, update = torch.randn(2, 4, 5, DIM, generator=torch.Generator().manual_seed(3))
    inner = gate.gate if isinstance(gate, ProjectedFusionGate) else gate
    sides = (given, update)
    if isinstance(gate, ProjectedFusionGate):
        sides = (gate.project_input(given), gate.project_update(update))
    for extreme, expected in ((50.0, sides[0]), (-50.0, sides[1])):
        nn.init.constant_(inner.bias, extreme)
        output, weights = gate(given, update, need_weights=True)
        torch.testing.assert_close(output, expected, atol=1e-6, rtol=1e-6)
        torch.testing.assert_close(weights, torch.full_like(weights, float(extreme > 0)))
        assert gate(given, update)[1] is None


def test_gate_formula() -> None:
    gate = FusionGate(3, ref_biases=True)
    for parameter in gate.parameters():
        nn.init.normal_(parameter)
    given, update = torch.randn(2, 1, 2, 3)
    scores = given @ gate.from_input.weight.mT + gate.from_input.bias
    scores = scores + update @ gate.from_update.weight.mT + gate.from_update.bias + gate.bias
    share = 1 / (1 + (-scores).exp())
    torch.testing.assert_close(gate(given, update)[0], share * given + (1 - share) * update)


@pytest.mark.parametrize("gate", [FusionGate(DIM), ProjectedFusionGate(DIM)])
def test_gate_in_mixed_precision(gate: nn.Module) -> None:
    given, update = torch.randn(2, 4, 5, DIM, generator=torch.Generator().manual_seed(3))
    with torch.autocast("cpu", torch.bfloat16):
        for types in ((given, update), (given.bfloat16(), update), (given, update.bfloat16())):
            torch.testing.assert_close(gate(*types)[0].float(), gate(given, update)[0].float(), atol=0.05, rtol=0.05)


def test_gate_sizes() -> None:
    sizes = [
        sum(parameter.numel() for parameter in gate.parameters())
        for gate in (FusionGate(300), FusionGate(300, ref_biases=True), ProjectedFusionGate(300))
    ]
    assert sizes == [2 * 300**2 + 300, 2 * 300**2 + 900, 360_300]


POOLERS = {"attentive": AttentivePooling(DIM), "max": MaxPooling(), "mean": MeanPooling()}
POOLERS["concat"] = Concat([POOLERS["attentive"], POOLERS["max"]])


@pytest.mark.parametrize("pooler", POOLERS.values(), ids=POOLERS)
def test_a_vector_is_the_weighted_sum_of_the_states(pooler: nn.Module) -> None:
    vector, weights = pooler(STATES, BATCH.mask, need_weights=True)
    copies = weights.shape[2] // DIM
    torch.testing.assert_close(vector, (weights * STATES.repeat(1, 1, copies)).sum(1))
    real = BATCH.lengths > 0
    torch.testing.assert_close(weights.sum(1)[real], torch.ones(int(real.sum()), weights.shape[2]))
    assert not weights[~BATCH.mask].any()
    assert not vector[~real].any(), "no words, no vector"
    torch.testing.assert_close(pooler(STATES, BATCH.mask)[0], vector)
    assert pooler(STATES, BATCH.mask)[1] is None


@pytest.mark.parametrize("pooler", POOLERS.values(), ids=POOLERS)
def test_poolers_ignore_padding_and_order(pooler: nn.Module) -> None:
    vector, _ = pooler(STATES, BATCH.mask)
    filled = torch.where(BATCH.mask.unsqueeze(-1), STATES, torch.tensor(1e30))
    torch.testing.assert_close(pooler(filled, BATCH.mask)[0], vector)
    torch.testing.assert_close(pooler(STATES.flip(1), BATCH.mask.flip(1))[0], vector)
    one = pooler(STATES[2:3, :1], BATCH.mask[2:3, :1])[0]
    torch.testing.assert_close(one, STATES[2:3, 0].repeat(1, one.shape[1] // DIM))


def test_attentive_pooling_without_scores_is_the_mean() -> None:
    pooling = AttentivePooling(DIM)
    for parameter in pooling.parameters():
        nn.init.zeros_(parameter)
    torch.testing.assert_close(pooling(STATES, BATCH.mask), MeanPooling()(STATES, BATCH.mask))
    random = AttentivePooling(DIM)(STATES, BATCH.mask)[0]
    assert (MaxPooling()(STATES, BATCH.mask)[0] >= random - 1e-6).all()


def test_feed_forward() -> None:
    layer = FeedForward(2, 3)
    states = torch.randn(4, 2)
    hidden = (states @ layer.inner.weight.mT + layer.inner.bias).clamp(min=0)
    torch.testing.assert_close(layer(states), hidden @ layer.outer.weight.mT + layer.outer.bias)


def test_embedding_rows() -> None:
    """Ids: 0 padding, 1 unknown, 2 and 3 trained, 4 frozen."""
    vectors = torch.arange(1.0, 11.0).view(5, 2)
    embedding = WordEmbedding(5, 2, num_frozen=1)
    embedding.load_vectors(vectors)
    vocabulary = sa.Vocabulary(["a", "b", "c"])
    batch = sa.collate([sa.Sentence(["b", "zebra", "c"]), sa.Sentence(["a"])], vocabulary)
    states = embedding(batch)
    zero = torch.zeros(2)
    torch.testing.assert_close(states[0], torch.stack((vectors[3], zero, vectors[4])))
    torch.testing.assert_close(states[1], torch.stack((vectors[2], zero, zero)))
    states.sum().backward()
    assert embedding.weight.grad is not None
    assert embedding.weight.grad.any(1).tolist() == [False, False, True, True]
    assert sum(parameter.numel() for parameter in embedding.parameters()) == 8
    assert "frozen" in embedding.state_dict()
