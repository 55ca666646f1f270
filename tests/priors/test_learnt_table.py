"""Learnt tables: the printed cells of T5 and of tree paths, distances as special cases, gradients, and bad input."""

import pytest
import torch

import structattn as sa
from structattn.encoders import heads_prior
from structattn.errors import ConfigError, MissingStructure
from structattn.priors import (
    ConstituencyDistance,
    DependencyDistance,
    Forward,
    LearntTable,
    PerHead,
    Prior,
    WordDistance,
)

BRACKETS = ("(S (S (NP the dog) (PP near trees)) barks)", "(S hush !)")
SENTENCES = [
    sa.Sentence(tree.words, dependency=sa.DependencyTree(heads), constituency=tree)
    for tree, heads in zip(map(sa.ConstituencyTree.from_brackets, BRACKETS), ([2, 5, 2, 3, 0], [0, 0]), strict=True)
]
BARE = sa.Sentence(["no", "tree", "here"])


def collate(*sentences: sa.Sentence) -> sa.SentenceBatch:
    return sa.collate(sentences, sa.Vocabulary([]))


BATCH = collate(*SENTENCES)


def filled(table: LearntTable, values: torch.Tensor) -> LearntTable:
    with torch.no_grad():
        table.table.copy_(values)
    return table


def paths(clip: int) -> torch.Tensor:
    """Minus the steps up and down of every cell."""
    steps = torch.arange(clip + 1.0)
    return -(steps[:, None] + steps).flatten()


@pytest.mark.parametrize("clip", [9, 2])
@pytest.mark.parametrize(
    ("of", "values", "distance"),
    [
        ("word", lambda clip: -torch.arange(-clip, clip + 1.0).abs(), WordDistance()),
        ("dependency", lambda clip: -torch.arange(clip + 1.0), DependencyDistance()),
        ("constituency", lambda clip: -torch.arange(clip + 1.0), ConstituencyDistance()),
    ],
)
def test_minus_the_distance_is_a_distance(of, values, distance, clip) -> None:  # type: ignore[no-untyped-def]
    table = filled(LearntTable(2, of, clip), values(clip))
    expected = distance(BATCH).bias.clamp(min=-clip).expand(-1, 2, -1, -1)
    torch.testing.assert_close(table(BATCH).bias, expected, rtol=0, atol=0)


def test_minus_the_steps_of_a_path_are_the_distance() -> None:
    table = filled(LearntTable(1, "path", 9), paths(9))
    torch.testing.assert_close(table(BATCH).bias, DependencyDistance()(BATCH).bias, rtol=0, atol=0)


def test_cells_of_paths() -> None:
    """Heads 2 0 2 3: steps up by hand; those down are their transpose. Two roots are one step below what they share."""
    up = torch.tensor([[0, 1, 1, 1], [0, 0, 0, 0], [1, 1, 0, 0], [2, 2, 1, 0]])
    batch = collate(sa.Sentence(list("abcd"), dependency=sa.DependencyTree([2, 0, 2, 3])), SENTENCES[1])
    table = filled(LearntTable(1, "path", 3), torch.arange(16.0))
    cells = table(batch).bias[:, 0]
    assert cells[0].tolist() == (4 * up + up.mT).tolist()
    assert cells[1, :2, :2].tolist() == [[0, 5], [5, 0]]
    assert torch.equal(batch.dependency.climbs()[0], up)


def test_buckets_of_t5() -> None:
    """As T5 computes them, with 32 buckets up to a distance of 128: key after query from 16 on."""
    size = 200
    table = filled(LearntTable(1, clip=128, buckets=32), torch.arange(32.0))
    row = table(collate(sa.Sentence(["a"] * size))).bias[0, 0, 0]
    starts = [d for d in range(1, size) if row[d] != row[d - 1]]
    assert starts == [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91]
    assert row[[1, 7, 8, 199]].tolist() == [17, 23, 24, 31]
    column = table(collate(sa.Sentence(["a"] * size))).bias[0, 0, :, 0]
    assert torch.equal(column[1:], row[1:] - 16), "the same of keys before the query, without 16"


@pytest.mark.parametrize("of", ["dependency", "constituency", "path"])
def test_padding_teaches_nothing(of) -> None:  # type: ignore[no-untyped-def]
    """The gradient counts the pairs of words in each cell: five and two words are at distance 0 of themselves."""
    table = LearntTable(2, of)
    table(BATCH).bias.sum().backward()
    assert table.table.grad[:, 0].tolist() == [7, 7]
    assert table.table.grad.sum() == 2 * (25 + 4)


@pytest.mark.parametrize("of", ["dependency", "constituency", "path"])
def test_missing_trees(of) -> None:  # type: ignore[no-untyped-def]
    mixed = collate(SENTENCES[0], BARE)
    with pytest.raises(MissingStructure, match=r"LearntTable needs .* sentence 1 \('no tree here'\)"):
        LearntTable(1, of)(mixed)
    values = paths(4) if of == "path" else -torch.arange(5.0)
    values[0] = 3.0
    without = filled(LearntTable(1, of, 4, missing="none"), values)(mixed).bias
    assert not without[1].any()
    as_chain = filled(LearntTable(1, of, 4, missing="word"), values)(mixed).bias
    torch.testing.assert_close(as_chain[0], without[0])
    assert as_chain[1, 0, :3, :3].tolist() == [[3, -1, -2], [-1, 3, -1], [-2, -1, 3]]
    bare = filled(LearntTable(1, of, 4, missing="word"), values)(collate(BARE)).bias
    torch.testing.assert_close(bare[0], as_chain[1, :, :3, :3])


def test_a_missing_tree_is_a_chain() -> None:
    table = filled(LearntTable(1, "path", 4, missing="word"), torch.arange(25.0))
    chain = sa.Sentence(BARE.words, dependency=sa.DependencyTree([0, 1, 2]))
    torch.testing.assert_close(table(collate(BARE)).bias, table(collate(chain)).bias)


def test_per_head_gives_each_head_its_row() -> None:
    word, tree = (filled(LearntTable(3, of, 4), torch.randn(3, size)) for of, size in (("word", 9), ("dependency", 5)))
    prior = PerHead([Forward() + word, 2 * tree, word + tree])
    assert len(prior.bases) == 3, "each is evaluated once"
    bias = prior(BATCH).bias
    rows = [word(BATCH).bias[:, 0], 2 * tree(BATCH).bias[:, 1], word(BATCH).bias[:, 2] + tree(BATCH).bias[:, 2]]
    torch.testing.assert_close(bias, torch.stack([row.expand(2, -1, -1) for row in rows], 1))
    bias.sum().backward()
    assert not word.table.grad[1].any(), "a head that does not use the table teaches it nothing"
    assert not tree.table.grad[0].any()


def test_names_of_heads() -> None:
    heads = ["forward/table", "dependency_table", "table", "constituency_table", "path_table", "word"]
    prior = heads_prior(heads, alpha=1.0, missing_trees="word")
    assert prior.head_names == tuple(heads)
    tables = [base for base in prior.bases if base.num_heads]
    assert sorted(repr(table) for table in tables) == [
        f"LearntTable(6, {of!r}, clip=16, missing='word')" for of in ("constituency", "dependency", "path", "word")
    ]
    with pytest.raises(ConfigError, match=r"a preference of .*dependency_table.*got 'table/word'"):
        heads_prior(["table/word"])


@pytest.mark.parametrize(("of", "scope"), [("word", "positions"), ("dependency", "text"), ("path", "text")])
def test_scope(of, scope) -> None:  # type: ignore[no-untyped-def]
    table: Prior = LearntTable(2, of)
    assert (table.scope, PerHead([table, None]).scope) == (scope, scope)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: LearntTable(0), "at least 1 head and a clip of at least 0, got 0 and 16"),
        (lambda: LearntTable(2, clip=-1), "at least 1 head and a clip of at least 0, got 2 and -1"),
        (lambda: LearntTable(2, "path", 8, buckets=8), "buckets of word offsets.* got 8 of 'path' with a clip of 8"),
        (lambda: LearntTable(2, buckets=6), "a multiple of 4 whose quarter is below clip, got 6 of 'word'"),
        (lambda: LearntTable(2, clip=8, buckets=32), "quarter is below clip, got 32 of 'word' with a clip of 8"),
        (lambda: PerHead([LearntTable(3), None]), "PerHead has 2 heads, but prior 0 is made for 3"),
        (
            lambda: sa.layers.MultiHeadAttention(6, 2, LearntTable(3)),
            "has 2 heads, but its prior is made for 3",
        ),
        (
            lambda: LearntTable(2, clip=4).load_state_dict(LearntTable(2, clip=8).state_dict()),
            r"LearntTable\(2, 'word', clip=4, .*2 rows and 9 cells, got one of 2 and 17, as with clip=8",
        ),
        (
            lambda: LearntTable(2, "path", clip=1).load_state_dict(LearntTable(2, "path", clip=2).state_dict()),
            "2 rows and 4 cells, got one of 2 and 9, as with clip=2",
        ),
        (
            lambda: LearntTable(2, clip=32, buckets=8).load_state_dict(LearntTable(2).state_dict()),
            r"buckets=8, .*2 rows and 8 cells, got one of 2 and 33$",
        ),
    ],
)
def test_errors(build, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=message):
        build()
