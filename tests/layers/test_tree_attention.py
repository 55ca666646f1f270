"""Attention over trees: against a loop written from the paper, what a phrase may depend on, padding, cached sources."""

import math

import pytest
import torch
from torch import Tensor

import structattn as sa
from structattn.layers import HierarchicalAccumulation, TreeAttention, TreeCrossAttention
from structattn.layers.tree_attention import tree_operator
from structattn.priors import Forward
from trees_by_hand import literal_accumulation

BRACKETS = (
    "(S (NP (D the) (N dog)) (VP (V sees) (NP (D a) (NP (A big) (N cat)))))",
    "(S (NP (N dogs)) (VP (V bark)))",
    "(X (X hush))",
    "(N quiet)",
)
TREES = [sa.ConstituencyTree.from_brackets(text) for text in BRACKETS]
SENTENCES = [sa.Sentence(tree.words, constituency=tree) for tree in TREES]
VOCABULARY = sa.Vocabulary.from_examples(SENTENCES)
DIM, HEADS = 8, 2


def states_of(batch: sa.SentenceBatch, seed: int = 0) -> Tensor:
    assert batch.constituency is not None
    mask = batch.constituency.mask
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*mask.shape, DIM, generator=generator, dtype=torch.float64) * mask.unsqueeze(-1)


def attention(seed: int = 1, **options: object) -> TreeAttention:
    torch.manual_seed(seed)
    layer = TreeAttention(DIM, HEADS, **options).double()  # type: ignore[arg-type]
    torch.nn.init.normal_(layer.accumulation.leaf_weights.bias)
    return layer


@pytest.mark.parametrize("mode", ["paper", "ref"])
def test_it_is_what_the_paper_says(mode: str) -> None:
    """One sentence, entry by entry: accumulated values, the subtree mask, a softmax for each row."""
    accumulation = HierarchicalAccumulation(DIM // HEADS, HEADS, 2, 3, mode=mode)
    layer = attention(accumulation=accumulation)
    batch = sa.collate(SENTENCES[:1], VOCABULARY)
    states = states_of(batch)
    output, weights = layer(states, batch, need_weights=True)
    tree, leaves = TREES[0], len(TREES[0])
    queries, keys, values = layer.project(states[0]).view(-1, 3, HEADS, DIM // HEADS).permute(1, 2, 0, 3)
    leaf_weights = accumulation.leaf_weights(states[0, :leaves])
    heads = []
    for head in range(HEADS):
        *_, nodes = literal_accumulation(
            values[head, :leaves],
            values[head, leaves:],
            leaf_weights[:, head],
            [(start, end) for _, start, end in tree.spans],
            tree.parents,
            vertical=accumulation.vertical,
            horizontal=accumulation.horizontal,
            mode=mode,
        )
        taken = torch.cat([values[head, :leaves], nodes])
        rows = []
        for query in range(leaves + len(tree.spans)):
            seen = visible(tree, query)
            scores = torch.stack([queries[head, query] @ keys[head, key] / math.sqrt(DIM // HEADS) for key in seen])
            rows.append(scores.softmax(0) @ taken[seen])
            assert weights[0, head, query].nonzero().flatten().tolist() == seen
        heads.append(torch.stack(rows))
    torch.testing.assert_close(output[0], layer.output(torch.cat(heads, dim=-1)), atol=1e-12, rtol=0)


def visible(tree: sa.ConstituencyTree, query: int) -> list[int]:
    """A word sees all words; a phrase the words and phrases below it, and itself."""
    if query < len(tree):
        return list(range(len(tree)))
    phrase = query - len(tree)
    _, start, end = tree.spans[phrase]
    found = list(range(start, end))
    for lower in range(len(tree.spans)):
        above = lower
        while above not in (-1, phrase):
            above = tree.parents[above]
        if above == phrase:
            found.append(len(tree) + lower)
    return found


def test_the_mask_made_by_hand() -> None:
    tree = sa.ConstituencyTree.from_brackets("(G a (H b c))")
    batch = sa.collate([sa.Sentence(tree.words, constituency=tree)], VOCABULARY)
    _, weights = attention()(states_of(batch), batch, need_weights=True)
    rows = ["".join(str(int(weight > 0)) for weight in row) for row in weights[0, 0]]
    assert rows == ["11100", "11100", "11100", "11111", "01101"]


def test_a_query_depends_on_what_it_may_see_and_on_nothing_else() -> None:
    layer, batch = attention(), sa.collate(SENTENCES[:1], VOCABULARY)
    states = states_of(batch)
    before, _ = layer(states, batch)
    for query in range(states.shape[1]):
        changed = states + 1.0
        changed[:, visible(TREES[0], query)] = states[:, visible(TREES[0], query)]
        after, _ = layer(changed, batch)
        # A phrase's value is a difference of sums from the root: what is above it cancels, up to rounding.
        torch.testing.assert_close(after[0, query], before[0, query], atol=1e-12, rtol=0)


def test_without_a_prior_everything_is_seen() -> None:
    batch = sa.collate(SENTENCES[:2], VOCABULARY)
    _, weights = attention(prior=None)(states_of(batch), batch, need_weights=True)
    real = batch.constituency.mask
    assert torch.equal(weights[:, 0] > 0, real[:, :, None] & real[:, None, :])


def test_asking_for_weights_changes_nothing() -> None:
    layer, batch = attention(), sa.collate(SENTENCES, VOCABULARY)
    states = states_of(batch)
    torch.testing.assert_close(layer(states, batch)[0], layer(states, batch, need_weights=True)[0])


def test_padding_changes_nothing_and_gets_no_gradient() -> None:
    layer, together = attention(), sa.collate([*SENTENCES, sa.Sentence([])], VOCABULARY)
    states = states_of(together).requires_grad_()
    output, _ = layer(states, together)
    for row, sentence in enumerate(SENTENCES):
        alone = sa.collate([sentence], VOCABULARY)
        real = together.constituency.mask[row]
        expected, _ = layer(states[row][real][None], alone)
        torch.testing.assert_close(output[row][real], expected[0], atol=1e-12, rtol=0)
    assert not output[~together.constituency.mask].any()
    output.sum().backward()
    assert states.grad.isfinite().all()
    assert not states.grad[~together.constituency.mask].any()


def test_layers_and_heads_share_one_operator() -> None:
    batch = sa.collate(SENTENCES, VOCABULARY)
    trees = batch.constituency
    states = states_of(batch)
    for seed in (1, 2):
        attention(seed)(states, batch)
    operators = [name for name in trees._cache if name.startswith("operator")]
    assert operators == ["operator paper torch.float64"]
    assert tree_operator(trees, dtype=torch.float64) is tree_operator(trees, dtype=torch.float64)
    assert tree_operator(trees, mode="ref") is not tree_operator(trees)


def test_no_embeddings_no_tables() -> None:
    accumulation = HierarchicalAccumulation(4, 2, max_vertical=0, max_horizontal=0)
    assert [name for name, _ in accumulation.named_parameters()] == ["leaf_weights.weight", "leaf_weights.bias"]
    batch = sa.collate(SENTENCES, VOCABULARY)
    output, _ = attention(accumulation=accumulation)(states_of(batch), batch)
    assert output.isfinite().all()


def test_the_row_for_no_index_is_zero_and_stays_zero() -> None:
    layer, batch = attention(), sa.collate(SENTENCES, VOCABULARY)
    layer(states_of(batch), batch)[0].sum().backward()
    for table in (layer.accumulation.vertical, layer.accumulation.horizontal):
        assert not table[0].any()
        assert not table.grad[0].any()
        assert table.grad[1].any()


def test_the_source_is_computed_once_and_only_padding_is_masked() -> None:
    torch.manual_seed(3)
    layer = TreeCrossAttention(DIM, HEADS).double()
    batch = sa.collate(SENTENCES, VOCABULARY)
    states, trees = states_of(batch), batch.constituency
    targets = torch.randn(4, 5, DIM, dtype=torch.float64)
    source = layer.source(states, trees)
    output, weights = layer(targets, source, need_weights=True)
    assert torch.equal(weights[:, 0, 0] > 0, trees.mask)
    # Word by word it is the same as all at once.
    steps = torch.cat([layer(targets[:, step : step + 1], source)[0] for step in range(5)], dim=1)
    torch.testing.assert_close(steps, output)
    alone = sa.collate(SENTENCES[1:2], VOCABULARY)
    single = layer.source(states[1][trees.mask[1]][None], alone.constituency)
    torch.testing.assert_close(layer(targets[1:2], single)[0], output[1:2])


def test_what_does_not_fit_is_refused() -> None:
    batch = sa.collate(SENTENCES, VOCABULARY)
    states = states_of(batch).float()
    with pytest.raises(ValueError, match="multiple of num_heads, got 8 and 3"):
        TreeAttention(8, 3)
    with pytest.raises(ValueError, match="multiple of num_heads, got 9 and 2"):
        TreeCrossAttention(9, 2)
    with pytest.raises(ValueError, match="even head_dim and maxima of at least 0, got 3, 50 and 100"):
        HierarchicalAccumulation(3, 2, 50, 100)
    with pytest.raises(ValueError, match="mode to be paper or ref, got 'code'"):
        HierarchicalAccumulation(4, 2, mode="code")
    with pytest.raises(ValueError, match="got states of 4 trees with 6 nodes, but the batch has 4 with 11"):
        TreeAttention(8, 2)(states[:, :6], batch)
    with pytest.raises(ValueError, match="got states of 4 trees with 6 nodes, but the trees are 4 with 11"):
        TreeCrossAttention(8, 2).source(states[:, :6], batch.constituency)
    with pytest.raises(ValueError, match=r"has 11 words and phrases, but its prior \(forward\) is for 6"):
        TreeAttention(8, 2, prior=Forward())(states, batch)
    plain = sa.collate([sa.Sentence(["a"])], VOCABULARY)
    with pytest.raises(sa.errors.MissingStructure, match="TreeAttention needs constituency of every sentence"):
        TreeAttention(8, 2)(torch.zeros(1, 1, 8), plain)


@pytest.mark.parametrize("mode", ["paper", "ref"])
def test_mixed_precision_is_close_to_single(mode: str) -> None:
    torch.manual_seed(1)
    layer = TreeAttention(DIM, HEADS, accumulation=HierarchicalAccumulation(DIM // HEADS, HEADS, mode=mode))
    batch = sa.collate(SENTENCES, VOCABULARY)
    states = states_of(batch).float().requires_grad_()
    expected, _ = layer(states, batch)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found, _ = layer(states, batch)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.float(), expected, atol=0.1, rtol=0.1)
    found.float().sum().backward()
    assert states.grad.isfinite().all()
