"""Relations as targets over subwords: counts from the specification, every subword rule against loops over subwords."""

import itertools

import pytest
import torch

import structattn as sa
from backbones import minilm_tokenizer
from structattn.backbones import HydraConfig, relation_targets
from structattn.data import collate_subwords, parse_relation, word_relation
from structattn.errors import ConfigError, MissingStructure

HEADS = [2, 6, 5, 5, 2, 0, 8, 6]
LABELS = ["nummod", "nsubj", "case", "det", "nmod:at", "root", "nmod:poss", "obj"]
WORDS = ["Two", "hippopotami", "at", "a", "ballgame", "wash", "their", "ankylosauri"]
TREE = sa.DependencyTree(HEADS, LABELS)
SENTENCE = sa.Sentence(WORDS, dependency=TREE)


def matrix(name: str, heads=HEADS, labels=None) -> torch.Tensor:
    sentence = sa.Sentence(["w"] * len(heads), dependency=sa.DependencyTree(heads, labels))
    return word_relation(name, sa.collate([sentence], sa.Vocabulary([])))[0]


def subwords_of(*texts, **options):
    return collate_subwords(texts, minilm_tokenizer(), **options)


def targets(subwords, **options):
    return relation_targets(subwords, HydraConfig(num_heads=1, **options))


def test_counts_and_identities():
    """``arc`` has 2 (n - 1) ones, ``head`` and ``child`` n - 1, ``ancestor`` n + sum of depths (0 at the root)."""
    n = len(HEADS)
    arc, head, child, ancestor = (matrix(name) for name in ("arc", "head", "child", "ancestor"))
    assert (arc.sum(), head.sum(), child.sum()) == (2 * (n - 1), n - 1, n - 1)
    assert ancestor.sum() == n + sum(depth - 1 for depth in TREE.depths())
    assert torch.equal(arc, arc.T)
    assert torch.equal(arc, head + child)
    assert torch.equal(head, child.T)
    assert not arc.diagonal().any()
    assert head[0, 1] == 1  # the head of "Two" is the second word
    assert torch.equal(matrix("arc+self"), arc + torch.eye(n))
    assert torch.equal(matrix("dependency_distance"), -torch.tensor(TREE.distances()).float())


def test_span_is_ancestor_for_projective_trees_and_more_otherwise():
    assert torch.equal(matrix("span"), matrix("ancestor"))
    crossing = [3, 4, 0, 3, 1]  # 1 <- 3 and 5 <- 1 cross 2 <- 4
    span, ancestor = matrix("span", crossing), matrix("ancestor", crossing)
    assert not sa.DependencyTree(crossing).is_projective
    assert (span >= ancestor).all()
    assert span.sum() > ancestor.sum()
    for row, column in itertools.product(range(5), repeat=2):
        start, end = sa.DependencyTree(crossing).subtree_spans()[column]
        assert span[row, column] == (start <= row < end)


def test_labels_choose_arcs_with_or_without_their_subtype():
    found = matrix("head:nsubj,nmod", labels=LABELS).nonzero().tolist()
    assert found == [[1, 5], [4, 1], [6, 7]]
    assert matrix("arc:nmod:at", labels=LABELS).nonzero().tolist() == [[1, 4], [4, 1]]
    assert not matrix("head:vocative", labels=LABELS).any()


def test_several_roots_are_no_arcs():
    assert matrix("arc", [0, 1, 0]).nonzero().tolist() == [[0, 1], [1, 0]]
    assert not matrix("arc", [0]).any()


def test_whatever_a_sentence_carries_is_a_relation():
    coreference = [[0, 2], [2, 0]]
    batch = sa.collate([sa.Sentence(["she", "her"], relations={"coref": coreference})], sa.Vocabulary([]))
    assert word_relation("matrix:coref", batch)[0].tolist() == coreference
    with pytest.raises(MissingStructure, match="relation 'matrix:srl' needs relation 'srl'"):
        word_relation("matrix:srl", batch)
    with pytest.raises(MissingStructure, match="relation 'arc' needs dependency"):
        word_relation("arc", batch)


@pytest.mark.parametrize("subword", ["all", "first", "sgnet"])
@pytest.mark.parametrize("relation", ["arc", "head", "ancestor", "span", "arc+self"])
def test_subwords_have_the_relations_of_their_words(subword, relation):
    subwords = subwords_of(SENTENCE, sa.Sentence(["hush"], dependency=sa.DependencyTree([0])))
    found = targets(subwords, relation=relation, subword=subword).relation[0, 0]
    words = matrix(relation)
    owner = [int(w) if there else None for w, there in zip(subwords.words[0], subwords.is_word[0], strict=True)]
    assert max(owner.count(word) for word in range(len(WORDS))) >= 3
    first = [word is not None and word not in owner[:place] for place, word in enumerate(owner)]
    for a, b in itertools.product(range(len(owner)), repeat=2):
        i, j = owner[a], owner[b]
        if i is None or j is None:
            expected = 0.0
        elif subword == "sgnet":
            # Every subword is a query, first subwords are keys; a later subword is a key for itself only.
            expected = words[i, j].item() if first[b] else float(a == b)
        elif subword == "first":
            expected = words[i, j].item() if first[a] and first[b] else 0.0
        else:
            expected = words[i, j].item() if i != j or a == b else 0.0
        assert found[a, b] == expected, (a, b)


def test_subword_mean_supervises_words():
    subwords = subwords_of(SENTENCE)
    found = targets(subwords, subword="mean")
    assert found.over_words
    assert torch.equal(found.relation[0, 0], matrix("arc"))
    assert found.mask.tolist() == [[True] * len(WORDS)]


def test_special_tokens_count_or_do_not():
    subwords = subwords_of(SENTENCE, SENTENCE)
    assert torch.equal(targets(subwords).mask, subwords.mask)
    assert torch.equal(targets(subwords, special="ignore").mask, subwords.is_word)


def test_the_root_can_be_related_to_cls():
    subwords = subwords_of(SENTENCE)
    wash = subwords.words[0].tolist().index(5)
    plain = targets(subwords).relation[0, 0]
    extra = targets(subwords, root_to_cls=True).relation[0, 0] - plain
    assert sorted(extra.nonzero().tolist()) == [[0, wash], [wash, 0]]
    head = targets(subwords, root_to_cls=True, relation="head").relation - targets(subwords, relation="head").relation
    assert head[0, 0].nonzero().tolist() == [[wash, 0]]


def test_the_arc_of_a_root_to_cls_has_the_label_root():
    subwords = subwords_of(SENTENCE)
    wash = subwords.words[0].tolist().index(5)
    for relation in ("head:obj", "child:nsubj,obj", "arc:nmod:poss"):
        found = targets(subwords, root_to_cls=True, relation=relation).relation
        assert torch.equal(found, targets(subwords, relation=relation).relation)
    places = {"head:root": [[wash, 0]], "child:obj,root": [[0, wash]], "arc:root+self": [[0, wash], [wash, 0]]}
    for relation, expected in places.items():
        extra = targets(subwords, root_to_cls=True, relation=relation).relation
        extra = extra - targets(subwords, relation=relation).relation
        assert extra[0, 0].nonzero().tolist() == expected


def test_pairs_are_not_related_to_each_other():
    subwords = subwords_of((SENTENCE, SENTENCE))
    found = targets(subwords).relation[0, 0]
    second = subwords.segments[0] == 1
    assert not found[second][:, ~second].any()
    assert not found[~second][:, second].any()
    alone = targets(subwords_of(SENTENCE)).relation[0, 0]
    assert found.sum() == 2 * alone.sum()


def test_scale_and_heads():
    subwords = subwords_of(SENTENCE)
    config = HydraConfig(num_heads=3, relation=("head", "child", "head"), target_scale=4.0)
    found = relation_targets(subwords, config).relation
    assert config.assignment == (0, 1, 0)
    assert found.shape[1] == 2
    assert torch.equal(found[0, 0], 4 * targets(subwords, relation="head").relation[0, 0])


def test_a_word_without_subwords_is_contracted_and_cut_words_are_dropped():
    # "gonna" is one subword of the tokenizer and two words of the treebank: the subword goes to the first.
    words = ["I", "gon", "na", "wash"]
    tree = sa.DependencyTree([2, 0, 4, 2])
    sentence = sa.Sentence(words, dependency=tree, metadata={"text": "I gonna wash"})
    subwords = subwords_of(sentence)
    assert subwords.has_subwords.tolist() == [[True, True, False, True]]
    through = sa.Sentence(words, dependency=sa.DependencyTree([2, 3, 0, 3]), metadata={"text": "I gonna wash"})
    found = targets(subwords_of(through)).relation[0, 0]
    place = {word: index for index, word in enumerate(subwords.words[0].tolist()) if subwords.is_word[0, index]}
    # The root "na" is gone: "gon" and "wash" become roots, so only I <- gon is left.
    assert sorted(found.nonzero().tolist()) == sorted([[place[0], place[1]], [place[1], place[0]]])
    cut = targets(subwords_of(SENTENCE, max_length=4, truncation=True)).relation[0, 0]
    assert sorted(cut.nonzero().tolist()) == [[1, 2], [2, 1]]


def test_bad_names():
    for name in ("sibling", "arc:", "arc+", "ancestor:nsubj", "matrix", "head+other"):
        with pytest.raises(ConfigError, match="relation"):
            parse_relation(name)
    with pytest.raises(ConfigError, match="one for each of 3 heads, got 2"):
        HydraConfig(num_heads=3, relation=("arc", "head"))
    with pytest.raises(ConfigError, match="negative targets"):
        HydraConfig(relation="dependency_distance", objective="bce")
    with pytest.raises(ConfigError, match="no rule for it with subword='mean'"):
        HydraConfig(subword="mean", root_to_cls=True)
    with pytest.raises(ConfigError, match="unknown option 'colour' of HYDRA; known: num_heads"):
        HydraConfig.from_dict({"colour": 1})
    for options in ({"num_heads": 0}, {"dropout": 1.0}, {"target_scale": 0.0}, {"subword": "last"}):
        with pytest.raises(ConfigError):
            HydraConfig(**options)
