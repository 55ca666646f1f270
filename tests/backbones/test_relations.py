"""One name of a relation is a prior, a mask, a head of MS-SAN and a target of HYDRA, from tensors alone."""

import dataclasses

import pytest
import torch
from torch import Tensor

import structattn as sa
from ballgame import HEADS, WORDS
from structattn.backbones import HydraConfig, relation_targets
from structattn.data import RELATIONS, SubwordBatch, parse_relation, word_relation
from structattn.data.relation_names import parse_mask
from structattn.encoders.head_layout import heads_prior
from structattn.errors import ConfigError
from structattn.priors import Relation

LABELS = ["nummod", "nsubj", "case", "det", "nmod:at", "root", "nmod:poss", "obj"]
LONG = sa.Sentence(
    WORDS,
    dependency=sa.DependencyTree(HEADS, LABELS),
    constituency=sa.ConstituencyTree.from_brackets("(S (A (B x x) (C x (D x x))) (V x (E x x)))"),
    relations={"same": [[float(row % 3 == column % 3) for column in range(8)] for row in range(8)]},
)
SHORT = sa.Sentence(
    ["hush", "!"],
    dependency=sa.DependencyTree([0, 1]),
    constituency=sa.ConstituencyTree.from_brackets("(S (V hush) (. !))"),
    relations={"same": [[1.0, 0.0], [0.0, 1.0]]},
)
BATCH = sa.collate([LONG, SHORT], sa.Vocabulary([]))
NAMES = [*RELATIONS, "matrix:same", "head:nsubj,obj", "child:nmod", "arc:nmod:poss", "arc+self", "matrix:same+self"]


def subwords_of_one_word_each(batch: sa.SentenceBatch) -> SubwordBatch:
    """Every word is its own subword token, so that relations of subwords are those of words."""
    numbers = torch.arange(batch.mask.shape[1]).expand(batch.mask.shape)
    return SubwordBatch(
        numbers * 0,
        batch.mask,
        numbers * batch.mask,
        batch.mask,
        numbers * 0,
        batch.mask,
        batch.mask[:, 0] & False,
        tuple((sentence,) for sentence in batch.sentences),
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_relation_is_prior_mask_and_target(name: str) -> None:
    matrix = word_relation(name, BATCH)
    assert matrix.shape == (2, 8, 8)
    assert matrix.isfinite().all()
    assert torch.equal(Relation(name)(BATCH).bias[:, 0], matrix)
    real = BATCH.mask[:, :, None] & BATCH.mask[:, None, :]
    target = relation_targets(subwords_of_one_word_each(BATCH), HydraConfig(num_heads=1, relation=name)).relation
    assert torch.equal(target[:, 0] * real, matrix)
    head = heads_prior([("none", name)], alpha=1.0)(BATCH).bias
    assert torch.equal(head[:, 0] * real, matrix)
    if parse_relation(name).is_distance:
        for refused in (lambda: Relation(name, as_mask=True), lambda: parse_mask(name)):
            with pytest.raises(ConfigError, match="a distance, which forbids nothing"):
                refused()
        return
    assert torch.equal(Relation(name, as_mask=True)(BATCH).allowed[:, 0], matrix != 0)
    allowed = heads_prior([(name, "none")], alpha=1.0)(BATCH).allowed
    assert torch.equal(allowed[:, 0] & real, matrix != 0)


@pytest.mark.parametrize("name", NAMES)
def test_a_relation_needs_no_sentences(name: str) -> None:
    bare = dataclasses.replace(BATCH, sentences=())
    assert torch.equal(word_relation(name, bare), word_relation(name, BATCH))


@pytest.mark.parametrize("name", NAMES)
def test_padding_changes_nothing(name: str) -> None:
    alone = word_relation(name, sa.collate([SHORT], sa.Vocabulary([])))
    together = word_relation(name, BATCH)[1]
    assert torch.equal(together[:2, :2], alone[0])
    assert not together[2:].any()
    assert not together[:, 2:].any()


def arcs(relation: Tensor) -> set[tuple[int, int]]:
    return {(query, key) for query, key in relation.nonzero().tolist()}


def test_labels_with_and_without_a_subtype() -> None:
    def head(labels: str) -> set[tuple[int, int]]:
        return arcs(word_relation(f"head:{labels}", BATCH)[0])

    expected = {label: (word, HEADS[word] - 1) for word, label in enumerate(LABELS)}
    assert head("nsubj") == {expected["nsubj"]}
    assert head("nsubj,obj") == {expected["nsubj"], expected["obj"]}
    assert head("nmod") == {expected["nmod:at"], expected["nmod:poss"]}
    assert head("nmod:poss") == {expected["nmod:poss"]}
    assert head("csubj") == set()


def test_a_bare_name_is_a_matrix_for_priors_only() -> None:
    assert Relation("same").relation == parse_relation("matrix:same")
    assert Relation("same+self").relation == parse_relation("matrix:same+self")
    with pytest.raises(ConfigError, match=r"unknown relation 'same'.*matrix:NAME"):
        parse_relation("same")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("haed", "unknown relation 'haed' .did you mean 'head'..; known: arc, head"),
        ("head:", "unknown relation 'head:'"),
        ("head+others", r"unknown relation 'head\+others'"),
        ("ancestor:nsubj", "only arc, head and child take labels"),
        ("matrix", "needs a name, as in matrix:coref"),
        ("dependency", "unknown relation 'dependency' .did you mean 'dependency_distance'"),
    ],
)
def test_mistakes(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_relation(name)
