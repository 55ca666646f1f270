"""DiSAN and its baselines: parameter counts of the paper, and the golden tests of its specification."""

import pytest
import torch
from torch import Tensor, nn

import structattn as sa
from structattn.encoders import BiLSTM, build
from structattn.errors import ConfigError, MissingStructure
from structattn.layers import AdditivePooling, DirectionalSelfAttention, FusionGate, Source2Token, Token2Token
from structattn.priors import Forward, PerHead, Prior, Relation, WordDistance

WORDS = ["families", "have", "some", "dogs", "in", "front", "of", "a", "carousel"]
VOCABULARY = sa.Vocabulary(sorted(set(WORDS)))


def linear(inputs: int, outputs: int) -> int:
    return inputs * outputs + outputs


def size(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def sentence_batch(*lengths: int) -> sa.SentenceBatch:
    return sa.collate([sa.Sentence(WORDS[:length]) for length in lengths], VOCABULARY)


def randomised(module: nn.Module) -> nn.Module:
    """Biases that are zero at the start would hide mistakes."""
    torch.manual_seed(1)
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.5)
    return module


def block(mask: str = "forward", dim: int = 5, hidden: int = 4) -> DirectionalSelfAttention:
    built = randomised(DirectionalSelfAttention(dim, hidden, mask))
    assert isinstance(built, DirectionalSelfAttention)
    return built


# Parameter counts (golden test 11) -----------------------------------------------------------------------------------

NLI_WIDE, NLI_NARROW = linear(2400, 300) + linear(300, 3), linear(1200, 300) + linear(300, 3)


@pytest.mark.parametrize(
    ("name", "options", "classifier", "total"),
    [
        ("emb_additive", {}, NLI_NARROW, 451_803),
        ("emb_s2t", {}, NLI_NARROW, 541_803),
        ("mh_s2t", {}, NLI_WIDE, 1_982_403),
        ("bilstm_s2t", {}, NLI_WIDE, 2_884_803),
        ("disan", {"ref_biases": True}, NLI_WIDE, 2_345_403),
        ("disan_nodir", {"ref_biases": True}, NLI_WIDE, 2_345_403),
        ("disan", {}, NLI_WIDE, 2_344_203),
    ],
)
def test_parameter_counts_of_the_papers_table(name: str, options: dict[str, bool], classifier: int, total: int) -> None:
    encoder = build(name, vocab_size=7, **options)
    assert NLI_WIDE == 721_203
    assert size(encoder) - size(encoder.embedder) + classifier == total


def test_parameter_counts_of_the_parts() -> None:
    assert size(DirectionalSelfAttention(300, 300, "forward", True)) == 451_500
    assert size(DirectionalSelfAttention(300, 300, "forward")) == 450_900
    assert size(Token2Token(300)) == 2 * 300**2 + 300
    assert size(Source2Token(600)) == 721_200
    assert size(AdditivePooling(300)) == linear(300, 300) + 300
    assert size(BiLSTM(300, 300)) == 2 * (4 * 300 * 600 + 1200)
    # DiSAN on SST-5 in the authors' code: a classifier without its last bias.
    disan = build("disan", vocab_size=7, ref_biases=True)
    assert size(disan) - size(disan.embedder) + linear(600, 300) + 5 * 300 == 1_806_000


def test_word_vectors_of_another_width_enter_the_blocks_directly() -> None:
    disan = build("disan", vocab_size=7, dim=6, embedder={"dim": 4})
    assert disan.embedder.weight.shape == (7, 4)
    assert size(disan.embedder) == 7 * 4
    assert disan.contextualizer.blocks[0].enter.in_features == 4


# The block -----------------------------------------------------------------------------------------------------------


def literal_block(module: DirectionalSelfAttention, states: Tensor, allowed: Tensor) -> Tensor:
    """One sentence, written from the equations, word by word."""
    inner, gate = module.attention, module.gate
    entered = nn.functional.elu(states @ module.enter.weight.T + module.enter.bias)
    rows = []
    for i, query in enumerate(entered):
        keys = [j for j in range(len(entered)) if allowed[i, j]]
        attended = torch.zeros_like(query)
        if keys:
            scores = torch.stack(
                [
                    5
                    * torch.tanh(
                        (inner.from_query.weight @ query + inner.from_key.weight @ entered[j] + inner.bias) / 5
                    )
                    for j in keys
                ]
            )
            attended = (scores.softmax(0) * entered[keys]).sum(0)
        fusion = torch.sigmoid(gate.from_input.weight @ query + gate.from_update.weight @ attended + gate.bias)
        rows.append(fusion * query + (1 - fusion) * attended)
    return torch.stack(rows)


@pytest.mark.parametrize("mask", ["forward", "backward", "diagonal"])
def test_block_equals_the_equations_word_by_word(mask: str) -> None:
    module = block(mask).double()
    batch = sentence_batch(5, 3, 1)
    states = torch.randn(3, 5, 5, dtype=torch.float64)
    output, weights = module(states, batch, need_weights=True)
    position = torch.arange(5)
    allowed = {
        "forward": position < position[:, None],
        "backward": position > position[:, None],
        "diagonal": position != position[:, None],
    }[mask]
    for row, length in enumerate((5, 3, 1)):
        expected = literal_block(module, states[row, :length], allowed[:length, :length])
        torch.testing.assert_close(output[row, :length], expected)
        assert not output[row, length:].any()
        real = allowed[:length, :length].any(-1).double()
        torch.testing.assert_close(weights[row, 0].sum(-1)[:length], real)
        assert not weights[row, 0, :, length:].any()


def test_directions_do_not_see_what_they_must_not() -> None:
    """Golden test 2: bit-identical."""
    states = torch.randn(1, 6, 5)
    changed = states.clone()
    changed[0, 3] += 1.0
    forward, backward = block("forward"), block("backward")
    mask = torch.ones(1, 6, dtype=torch.bool)
    assert torch.equal(forward(states, mask)[0][:, :3], forward(changed, mask)[0][:, :3])
    assert not torch.equal(forward(states, mask)[0][:, 4], forward(changed, mask)[0][:, 4])
    assert torch.equal(backward(states, mask)[0][:, 4:], backward(changed, mask)[0][:, 4:])
    assert not torch.equal(backward(states, mask)[0][:, 2], backward(changed, mask)[0][:, 2])


def test_backward_is_the_mirror_of_forward() -> None:
    """Golden test 3."""
    states = torch.randn(2, 6, 5)
    mirrored = block("forward")(states.flip(1))[0].flip(1)
    torch.testing.assert_close(block("backward")(states)[0], mirrored)


def test_order_matters_to_directions_only() -> None:
    """Golden test 4."""
    states, order = torch.randn(1, 6, 5), torch.randperm(6)
    diagonal, forward = block("diagonal"), block("forward")
    torch.testing.assert_close(diagonal(states[:, order])[0], diagonal(states)[0][:, order])
    assert not torch.allclose(forward(states[:, order])[0], forward(states)[0][:, order])
    shuffled = sa.collate([sa.Sentence([WORDS[index] for index in torch.randperm(9).tolist()])], VOCABULARY)
    for name, invariant in (("disan_nodir", True), ("emb_s2t", True), ("emb_additive", True), ("disan", False)):
        encoder = build(name, vocab_size=len(VOCABULARY), dim=8, dropout=0.0)
        same = torch.allclose(encoder(sentence_batch(9)).vector, encoder(shuffled).vector, atol=1e-6)
        assert same == invariant, name


@pytest.mark.parametrize("mask", ["forward", "backward", "diagonal"])
@pytest.mark.parametrize("garbage", [1e4, float("inf"), float("nan")])
def test_padding_may_be_garbage(mask: str, garbage: float) -> None:
    """Golden test 5."""
    module = block(mask)
    states = torch.randn(1, 4, 5)
    padded = torch.cat([states, torch.full((1, 3, 5), garbage)], dim=1)
    real = torch.arange(7)[None] < 4
    output, _ = module(padded, real)
    torch.testing.assert_close(output[:, :4], module(states)[0], atol=1e-6, rtol=0)
    assert not output[:, 4:].any()


def test_limits_of_the_gate() -> None:
    """Golden test 6."""
    states = torch.randn(1, 4, 5)
    module = block("forward")
    entered = module.activation(module.enter(states))
    attended, _ = module.attention(entered)
    for bias, expected in ((1e3, entered), (-1e3, attended)):
        nn.init.constant_(module.gate.bias, bias)
        torch.testing.assert_close(module(states)[0], expected)
    assert not module(states)[0][:, 0].any()


def test_without_matrices_attention_is_a_running_mean() -> None:
    """Golden test 7."""
    attention, pooler = Token2Token(3, "forward"), Source2Token(3)
    for parameter in (attention.from_query.weight, attention.from_key.weight, *pooler.parameters()):
        nn.init.zeros_(parameter)
    states = torch.randn(1, 5, 3)
    output, _ = attention(states)
    means = states.cumsum(1) / torch.arange(1, 6)[:, None]
    torch.testing.assert_close(output[:, 1:], means[:, :-1])
    real = torch.arange(5)[None] < 4
    torch.testing.assert_close(pooler(states, real)[0], states[:, :4].mean(1))


def test_one_word_and_no_word() -> None:
    """Golden test 10."""
    module, pooler = block("forward", dim=4), Source2Token(4)
    states = torch.randn(2, 1, 4)
    batch = sentence_batch(1, 0)
    output, weights = module(states, batch, need_weights=True)
    entered = module.activation(module.enter(states[:1]))
    gate = torch.sigmoid(module.gate.from_input(entered) + module.gate.bias)
    torch.testing.assert_close(output[:1], gate * entered)
    assert not output[1].any()
    assert not weights.any()
    vector, _ = pooler(output, batch.mask)
    torch.testing.assert_close(vector, output[:, 0])


@pytest.mark.parametrize("pooler", [Source2Token(3), AdditivePooling(3)])
def test_poolers_average_raw_states_and_their_weights_sum_to_one(pooler: nn.Module) -> None:
    states, real = torch.randn(2, 4, 3), torch.tensor([[True] * 4, [True, True, False, False]])
    vector, weights = pooler(states, real, need_weights=True)
    assert weights.shape == (2, 4, 3)
    torch.testing.assert_close(weights.sum(1), torch.ones(2, 3))
    torch.testing.assert_close(vector, (weights * states).sum(1))
    assert not weights[1, 2:].any()
    states[1, 2:] = float("inf")
    torch.testing.assert_close(pooler(states, real)[0], vector)


def test_additive_pooling_by_hand() -> None:
    pooler = AdditivePooling(1)
    for parameter, value in zip(pooler.parameters(), (1.0, 0.0, 1.0), strict=True):
        nn.init.constant_(parameter, value)
    states = torch.tensor([[[0.0], [2.0]]])
    share = torch.tensor(2.0).exp() / (1 + torch.tensor(2.0).exp())
    torch.testing.assert_close(pooler(states)[0], 2 * share.view(1, 1))


def test_dropout_leaves_values_alone() -> None:
    """Golden test 15: in training the weights change, but what is averaged does not."""
    attention = Token2Token(4, "diagonal", dropout=0.5).train()
    constant = torch.ones(1, 6, 4)
    torch.testing.assert_close(attention(constant)[0], constant)
    pooler = Source2Token(4, dropout=0.5).train()
    torch.testing.assert_close(pooler(constant)[0], constant[:, 0])
    states = torch.randn(1, 6, 4)
    assert not torch.equal(attention(states)[0], attention(states)[0])
    attention.eval()
    assert torch.equal(attention(states)[0], attention(states)[0])


def test_initial_weights_are_glorot_and_biases_zero() -> None:
    module = DirectionalSelfAttention(200, 300, "forward", ref_biases=True)
    for name, parameter in module.named_parameters():
        if parameter.dim() == 1:
            assert not parameter.any(), name
        else:
            bound = (6 / sum(parameter.shape)) ** 0.5
            assert 0.99 * bound < parameter.abs().max() <= bound, name


# Masks and errors ----------------------------------------------------------------------------------------------------


def test_a_prior_may_be_the_mask() -> None:
    links = [[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 0.0, 0.0]]
    batch = sa.collate([sa.Sentence(WORDS[:3], relations={"link": links}), sa.Sentence([])], VOCABULARY)
    attention = Token2Token(4, Relation("link", as_mask=True))
    _, weights = attention(torch.randn(2, 3, 4), batch, need_weights=True)
    assert ((weights[0, 0] > 0) == (torch.tensor(links) > 0)).all()
    states = torch.randn(1, 3, 4)
    inclusive, _ = Token2Token(4, Forward())(states, need_weights=False)
    assert torch.allclose(inclusive[:, 0], states[:, 0]), "the first word sees itself alone"


def test_a_prior_that_needs_more_than_a_mask_says_so() -> None:
    with pytest.raises(MissingStructure, match=r"Relation.*link"):
        Token2Token(4, Relation("link", as_mask=True))(torch.zeros(1, 2, 4), torch.ones(1, 2, dtype=torch.bool))


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        ("foward", "a mask among forward, backward, diagonal or a prior, got 'foward'"),
        (PerHead([Forward(), Forward()]), "has one head, but its prior is made for 2 heads"),
        (Relation("link"), r"expects a mask, got Relation\('link', as_mask=False\); write as_mask=True"),
    ],
)
def test_masks_that_do_not_fit_are_refused(mask: str | Prior, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        block(mask)


def test_a_prior_that_forbids_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="expects a prior that forbids something, got 'word', which has a bias only"):
        Token2Token(4, WordDistance())(torch.zeros(1, 2, 4))


def test_states_and_batch_must_agree() -> None:
    with pytest.raises(ValueError, match="1 sentences with 3 words, but the batch has 2 with 4"):
        Token2Token(4)(torch.zeros(1, 3, 4), sentence_batch(4, 2))


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("disan", {"activation": "gelu"}, "activation expects one of elu, relu; got 'gelu'"),
        ("disan", {"scale": 0}, "encoder 'disan': Token2Token expects a positive, finite scale, got 0"),
        ("mh_s2t", {"dim": 10, "num_heads": 3}, "got dim=10 for 3 heads"),
        ("bilstm", {"pooler": "last"}, "one of max, mean; got 'last'"),
        ("bilstm", {"num_layers": 0}, "at least 1, got 0"),
    ],
)
def test_options_that_make_no_sense_are_refused(name: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build(name, vocab_size=5, **options)


def test_weights_may_be_seen_without_holding_every_pair_and_feature() -> None:
    """What ``inspection`` relies on: the axes are declared, weights come on request only."""
    axes = {type(module): module.weights_axes for module in block().modules() if hasattr(module, "weights_axes")}
    assert axes == {Token2Token: "head query key", FusionGate: "query feature"}
    assert Source2Token.weights_axes == AdditivePooling.weights_axes == "key feature"
    assert block()(torch.zeros(1, 2, 5))[1] is None


# BiLSTM --------------------------------------------------------------------------------------------------------------


def literal_lstm(lstm: nn.LSTM, states: Tensor, suffix: str) -> Tensor:
    """One direction over one sentence, from the equations; the last column of W is the bias."""
    matrix, recurrent = getattr(lstm, f"weight_ih_l0{suffix}"), getattr(lstm, f"weight_hh_l0{suffix}")
    state = memory = torch.zeros(lstm.hidden_size, dtype=states.dtype)
    found = []
    for word in states:
        gates = matrix[:, :-1] @ word + matrix[:, -1] + recurrent @ state
        enter, forget, update, leave = gates.chunk(4)
        memory = forget.sigmoid() * memory + enter.sigmoid() * update.tanh()
        state = leave.sigmoid() * memory.tanh()
        found.append(state)
    return torch.stack(found)


def test_bilstm_equals_the_equations() -> None:
    module = BiLSTM(3, 4).double()
    batch = sentence_batch(5, 2)
    states = torch.randn(2, 5, 3, dtype=torch.float64)
    output = module(states, batch).states
    for row, length in enumerate((5, 2)):
        words = states[row, :length]
        forward = literal_lstm(module.layers[0], words, "")
        backward = literal_lstm(module.layers[0], words.flip(0), "_reverse").flip(0)
        torch.testing.assert_close(output[row, :length], torch.cat([forward, backward], dim=-1))


def test_bilstm_starts_by_remembering() -> None:
    bias = BiLSTM(3, 4).layers[0].weight_ih_l0[:, -1].detach()
    torch.testing.assert_close(bias, torch.tensor([0.0, 1.0, 0.0, 0.0]).repeat_interleave(4))


@pytest.mark.parametrize("pooler", ["max", "mean"])
def test_bilstm_pools_real_words_only(pooler: str) -> None:
    encoder = build("bilstm", vocab_size=len(VOCABULARY), dim=4, num_layers=2, pooler=pooler, dropout=0.0)
    encoding = encoder(sentence_batch(6, 2))
    real = encoding.states[1, :2]
    torch.testing.assert_close(encoding.vector[1], real.amax(0) if pooler == "max" else real.mean(0))
