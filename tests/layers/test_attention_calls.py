"""One way to call attention: states alone, with a mask, with a batch; and as a function of queries, keys and values."""

import math

import pytest
import torch
from torch import Tensor, nn

import structattn as sa
from attention_layers import DIM, LAYERS, LONG, MIDDLE, ON_TREES, SHORT, VOCABULARY
from structattn.errors import MissingStructure
from structattn.functional import attention
from structattn.layers import CrossAttention, MultiHeadAttention, TreeCrossAttention, WindowAttention

BATCH = sa.collate([LONG, SHORT], VOCABULARY)
STATES = torch.randn(2, 4, DIM, generator=torch.Generator().manual_seed(0))


def layer_of(name: str) -> nn.Module:
    torch.manual_seed(3)
    return LAYERS[name]()


@pytest.mark.parametrize("biased", [False, True])
def test_without_a_mask_every_key_is_allowed(biased: bool) -> None:
    generator = torch.Generator().manual_seed(1)
    queries, keys, values = (torch.randn(2, size, 6, generator=generator) for size in (3, 5, 5))
    bias = torch.randn(2, 3, 5, generator=generator) if biased else None
    by_hand = ((queries @ keys.mT) / math.sqrt(6) + (bias if biased else 0.0)).exp()
    by_hand /= by_hand.sum(-1, keepdim=True)
    for allowed in (None, torch.ones(2, 3, 5, dtype=torch.bool)):
        attended, weights = attention(queries, keys, values, allowed, bias, need_weights=True)
        torch.testing.assert_close(weights, by_hand)
        torch.testing.assert_close(attended, by_hand @ values)
        torch.testing.assert_close(attention(queries, keys, values, allowed, bias)[0], attended)


@pytest.mark.parametrize("name", LAYERS)
def test_a_mask_says_as_much_as_a_batch(name: str) -> None:
    layer = layer_of(name)
    by_batch, by_mask = (layer(STATES, given, need_weights=True) for given in (BATCH, BATCH.mask))
    for own, other in zip(by_mask, by_batch, strict=True):
        assert torch.equal(own, other)
    assert layer(STATES, BATCH)[1] is None


@pytest.mark.parametrize("name", LAYERS)
def test_states_alone_are_all_words(name: str) -> None:
    layer, full = layer_of(name), sa.collate([LONG, LONG], VOCABULARY)
    alone = layer(STATES, need_weights=True)
    for given in (full, full.mask):
        for own, other in zip(alone, layer(STATES, given, need_weights=True), strict=True):
            torch.testing.assert_close(own, other)


@pytest.mark.parametrize("name", LAYERS)
def test_another_number_of_words_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="states of 2 sentences with 4 words, but the batch has 2 with 3"):
        layer_of(name)(STATES, sa.collate([MIDDLE, SHORT], VOCABULARY))


@pytest.mark.parametrize("name", ON_TREES)
def test_what_reads_trees_names_itself_where_there_are_none(name: str) -> None:
    asker, build = ON_TREES[name]
    for given in ((), (BATCH.mask,)):
        with pytest.raises(MissingStructure, match=f"{asker} needs .* is a mask or bare tensors; pass a batch"):
            build()(STATES, *given)


def test_the_first_call_of_a_newcomer() -> None:
    output, weights = MultiHeadAttention(8, 2)(torch.randn(3, 5, 8), torch.ones(3, 5, dtype=torch.bool))
    assert output.shape == (3, 5, 8)
    assert weights is None


def arguments() -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    queries, keys = (torch.randn(2, 3, number, 4, generator=generator, dtype=torch.float64) for number in (5, 6))
    return queries, keys, torch.randn(2, 3, 6, 7, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("has_mask", [False, True])
def test_the_function_is_the_equation(has_mask: bool, has_bias: bool, need_weights: bool) -> None:
    queries, keys, values = arguments()
    allowed = torch.arange(6) % 3 != 1 if has_mask else None
    allowed = None if allowed is None else (allowed & (torch.arange(5) != 2)[:, None])
    bias = torch.linspace(-1, 1, 6, dtype=torch.float64).expand(5, 6) if has_bias else None
    found, weights = attention(queries, keys, values, allowed, bias, need_weights=need_weights)
    scores = torch.einsum("bhqc,bhkc->bhqk", queries, keys) / math.sqrt(4)
    exponentials = (scores if bias is None else scores + bias).exp()
    exponentials = exponentials if allowed is None else exponentials * allowed
    expected = exponentials / exponentials.sum(-1, keepdim=True).clamp(min=1e-300)
    torch.testing.assert_close(found, expected @ values)
    if has_mask:
        assert not found[:, :, 2].any(), "a query without any key"
    if need_weights:
        torch.testing.assert_close(weights, expected)
    else:
        assert weights is None


@pytest.mark.parametrize("has_bias", [False, True])
def test_no_row_that_reaches_a_fused_kernel_is_closed(has_bias: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels disagree about such rows, and the gradients of cuDNN's are NaN."""
    given: list[Tensor] = []

    def fused(queries: Tensor, keys: Tensor, values: Tensor, *, attn_mask: Tensor, dropout_p: float) -> Tensor:
        given.append(attn_mask)
        return torch.ones(2, 3, 5, 7, dtype=torch.float64)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", fused)
    allowed = (torch.arange(6) % 3 != 1) & (torch.arange(5) != 2)[:, None]
    attended, _ = attention(*arguments(), allowed, torch.ones(5, 6, dtype=torch.float64) if has_bias else None)
    (mask,) = given
    assert torch.equal(mask.amax(-1), torch.full((5,), float(has_bias), dtype=torch.float64))
    assert torch.equal(attended[0, 0, :, 0], (torch.arange(5) != 2).double()), "what it answers there is not used"


def test_dropout_leaves_the_weights_that_are_returned() -> None:
    queries, keys, values = arguments()
    torch.manual_seed(0)
    dropped, weights = attention(queries, keys, values, dropout=0.5, need_weights=True)
    whole, same = attention(queries, keys, values, need_weights=True)
    assert torch.equal(weights, same)
    assert not torch.allclose(dropped, whole)


@pytest.mark.parametrize("undefined", [math.nan, math.inf])
@pytest.mark.parametrize("name", [*LAYERS, *ON_TREES])
def test_undefined_padding_changes_neither_results_nor_gradients(name: str, undefined: float) -> None:
    torch.manual_seed(3)
    layer = LAYERS[name]() if name in LAYERS else ON_TREES[name][1]()
    number = BATCH.require("constituency", wanted_by="the test").mask if name == "tree attention" else BATCH.mask
    states = torch.randn(*number.shape, DIM, generator=torch.Generator().manual_seed(1))
    answers = []
    for padding in (0.5, undefined):
        given = torch.where(number.unsqueeze(-1), states, padding).requires_grad_()
        layer.zero_grad()
        output, weights = layer(given, BATCH, need_weights=True)
        output.square().sum().backward()
        answers.append([output, weights, given.grad, *(parameter.grad for parameter in layer.parameters())])
    for clean, other in zip(*answers, strict=True):
        assert (clean is None and other is None) or torch.equal(clean, other)


def test_undefined_padding_of_a_source_changes_nothing() -> None:
    mask, targets = torch.tensor([[True, True, False]]), torch.randn(1, 2, 4)
    trees = sa.TreeBatch(torch.tensor([[1, 1, 2]]), mask, None, num_leaves=1)
    cross, of_trees, window = CrossAttention(4, 2), TreeCrossAttention(4, 2), WindowAttention(4)
    attends = (
        lambda source: cross(targets, cross.source(source, mask))[0],
        lambda source: of_trees(targets, of_trees.source(source, trees))[0],
        lambda source: window(source, mask, queries=targets)[0],
    )
    source = torch.randn(1, 3, 4)
    undefined = torch.where(mask.unsqueeze(-1), source, math.nan)
    for attend in attends:
        assert torch.equal(attend(undefined), attend(source))
