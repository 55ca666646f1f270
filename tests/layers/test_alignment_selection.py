"""Cross-attention through an alignment: against all alignments, and without regard to padding on either side."""

import pytest
import torch

from structattn.layers import (
    AlignmentSelection,
    SegmentationScorer,
    StraightThroughSample,
    StructuredAttention,
    straight_through_argmax,
)
from structures_by_hand import all_alignments, one_hot_rows

KEYS, QUERIES = (
    torch.randn(2, size, width, generator=torch.Generator().manual_seed(width), dtype=torch.float64)
    for size, width in ((4, 3), (3, 5))
)
MASK = torch.tensor([[True, True, True, True], [True, True, False, False]])
QUERY_MASK = torch.tensor([[True, True, True], [True, True, False]])


def attention(*expectation: object) -> StructuredAttention:
    torch.manual_seed(0)
    selection = AlignmentSelection()
    torch.nn.init.constant_(selection.cost, 0.3)
    return StructuredAttention(SegmentationScorer(3, 5, selection=selection), *expectation).double()


def test_weights_are_those_of_all_alignments() -> None:
    ours = attention()
    output, weights = ours(KEYS, MASK, queries=QUERIES, query_mask=QUERY_MASK, need_weights=True)
    for item in range(2):
        queries, keys = QUERIES[item, QUERY_MASK[item]], KEYS[item, MASK[item]]
        parts = one_hot_rows((len(queries), len(keys)), list(all_alignments(len(queries), len(keys))))
        scores = ours.scorer.bilinear(queries) @ keys.T - 0.3
        expected = ((parts * scores).sum((1, 2)).softmax(0)[:, None, None] * parts).sum(0)
        torch.testing.assert_close(weights[item, 0, : len(queries), : len(keys)], expected)
        torch.testing.assert_close(output[item, : len(queries)], expected @ keys)
        assert not output[item, len(queries) :].any()
        assert not weights[item, 0, len(queries) :].any()
    assert (weights.sum(-1) <= 1).all()
    assert (weights.sum(-2) <= 1).all()


def test_padding_and_holes_are_not_read() -> None:
    ours = attention()
    holes = torch.tensor([[True, False, True, True], [False, True, True, False]])
    garbage = [
        states.masked_fill(~mask.unsqueeze(-1), torch.nan) for states, mask in ((KEYS, holes), (QUERIES, QUERY_MASK))
    ]
    output, weights = ours(garbage[0], holes, queries=garbage[1], query_mask=QUERY_MASK.int(), need_weights=True)
    output.square().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in ours.parameters())
    assert ours.scorer.selection.cost.grad != 0
    for item in range(2):
        keys = KEYS[item, holes[item]]
        alone, alone_weights = ours(keys[None], queries=QUERIES[item, QUERY_MASK[item]][None], need_weights=True)
        torch.testing.assert_close(output[item, QUERY_MASK[item]], alone[0])
        torch.testing.assert_close(weights[item, 0][QUERY_MASK[item]][:, holes[item]], alone_weights[0, 0])


@pytest.mark.parametrize("expectation", [straight_through_argmax, StraightThroughSample(torch.Generator())])
def test_hard_weights_are_an_alignment(expectation) -> None:  # type: ignore[no-untyped-def]
    ours = attention(expectation)
    _, weights = ours(KEYS, MASK, queries=QUERIES, query_mask=QUERY_MASK, need_weights=True)
    assert ours.distribution(KEYS, MASK, queries=QUERIES, query_mask=QUERY_MASK).support.check(weights[:, 0]).all()


def test_temperature_and_entropy() -> None:
    ours = attention()
    entropies = []
    for ours.scorer.temperature in (0.05, 1.0, 50.0):
        entropies.append(ours.distribution(KEYS, MASK, queries=QUERIES, query_mask=QUERY_MASK).entropy())
    assert (entropies[0] < entropies[1]).all()
    assert (entropies[1] < entropies[2]).all()


def test_a_mask_of_queries_needs_queries() -> None:
    with pytest.raises(ValueError, match="query_mask: expected queries with it; words have their own mask"):
        attention()(KEYS, MASK, query_mask=QUERY_MASK)
