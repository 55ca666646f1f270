"""Laws that every prior inherits, the algebra, and the matrices printed in the papers."""

import copy
import inspect
from collections.abc import Callable

import pytest
import torch
from torch import nn

import structattn as sa
from ballgame import DISTANCES, HEADS, WORDS
from structattn.errors import MissingStructure
from structattn.priors import (
    AttentionBias,
    Backward,
    ConstituencyDistance,
    DependencyDistance,
    Forward,
    LearnableAlpha,
    LearntTable,
    NotSelf,
    PerHead,
    Prior,
    Relation,
    Subtree,
    WordDistance,
)
from structattn.priors.sequence import alibi_slopes
from structattn.testing import PRIOR_LAWS

BRACKETS = """
(S (NP (NP (CD Two) (NNS kids)) (PP (IN at) (NP (DT a) (NN ballgame))))
   (VP (VBP wash) (NP (PRP their) (NNS hands))))
"""
SHORT = sa.Sentence(
    ["hush", "!"],
    dependency=sa.DependencyTree([0, 1]),
    constituency=sa.ConstituencyTree.from_brackets("(S (V hush) (. !))"),
    relations={"same": [[1.0, 0.0], [0.0, 1.0]], "logarithm": [[0.0, -2.0], [-torch.inf, -1.0]]},
)
LONG = sa.Sentence(
    WORDS,
    dependency=sa.DependencyTree(HEADS),
    constituency=sa.ConstituencyTree.from_brackets(BRACKETS),
    relations={
        "same": [[float(row % 3 == column % 3) for column in range(8)] for row in range(8)],
        "logarithm": [[-torch.inf if row < column else -float(row) for column in range(8)] for row in range(8)],
    },
)
BARE = sa.Sentence(["no", "tree", "here"])
VOCABULARY = sa.Vocabulary(["hush", *(word.lower() for word in WORDS)])
PRIORS = {
    "forward": Forward(),
    "strictly forward": Forward(include_self=False),
    "backward": Backward(),
    "strictly backward": Backward(include_self=False),
    "not self": NotSelf(),
    "word": WordDistance(),
    "dependency": DependencyDistance(),
    "constituency": ConstituencyDistance(),
    "relation": Relation("same"),
    "relation mask": Relation("same", as_mask=True),
    "relation that forbids": Relation("logarithm"),
    "sum": Forward() + WordDistance(),
    "scaled": 0.5 * DependencyDistance(),
    "learnt": LearnableAlpha(3) * (WordDistance() + Backward()),
    "per head": PerHead([Forward() + 2 * WordDistance(), None, DependencyDistance()]),
    "per head that forbids": PerHead([0.5 * Relation("logarithm"), None, Backward() + WordDistance()]),
    "table": LearntTable(3),
    "table of buckets": LearntTable(3, clip=128, buckets=32),
    "dependency table": LearntTable(3, "dependency", clip=2),
    "constituency table": LearntTable(3, "constituency", missing="none"),
    "path table": LearntTable(3, "path", clip=3, missing="word"),
    "per head, a row each": PerHead([LearntTable(3, "path")] * 2 + [DependencyDistance()]),
}


def collate(*sentences: sa.Sentence) -> sa.SentenceBatch:
    return sa.collate(sentences, VOCABULARY)


BATCH = collate(LONG, SHORT)


def assert_equal(first: AttentionBias, second: AttentionBias) -> None:
    """Equal in meaning: ``None`` is all allowed, or zero."""
    shape = (2, 3, 8, 8)
    for kind, neutral in (("allowed", torch.tensor(True)), ("bias", torch.tensor(0.0))):
        values = [getattr(value, kind) for value in (first, second)]
        one, other = ((neutral if value is None else value).expand(shape) for value in values)
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("law", PRIOR_LAWS.values(), ids=PRIOR_LAWS)
@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS)
def test_laws(prior: Prior, law: Callable[..., None]) -> None:
    law(prior, [LONG, SHORT])
    assert len(prior.head_names) in (1, 3)


@pytest.mark.parametrize("prior", [*PRIORS.values(), Subtree(), Subtree("own")], ids=[*PRIORS, "subtree", "own"])
def test_survives_copying_and_saving(prior: Prior) -> None:
    def assert_same(twin: Prior) -> None:
        for kind in ("allowed", "bias"):
            torch.testing.assert_close(getattr(twin(BATCH), kind), getattr(prior(BATCH), kind))

    twin = copy.deepcopy(prior)
    assert_same(twin)
    for number, parameter in enumerate(twin.parameters(), 1):
        torch.nn.init.constant_(parameter, number / 8)
    if prior.state_dict():
        assert not torch.equal(twin(BATCH).bias, prior(BATCH).bias), "what was learnt makes a difference"
    twin.load_state_dict(prior.state_dict())
    assert_same(twin)


@pytest.mark.parametrize(
    ("prior", "allows"),
    [
        (Forward(), lambda query, key: key <= query),
        (Forward(include_self=False), lambda query, key: key < query),
        (Backward(), lambda query, key: key >= query),
        (Backward(include_self=False), lambda query, key: key > query),
        (NotSelf(), lambda query, key: key != query),
    ],
    ids=lambda part: getattr(part, "name", ""),
)
def test_directions(prior: Prior, allows) -> None:  # type: ignore[no-untyped-def]
    value = prior(BATCH)
    assert value.allowed.shape == (1, 1, 8, 8), "depends on positions only"
    assert value.bias is None
    assert value.allowed[0, 0].tolist() == [[allows(query, key) for key in range(8)] for query in range(8)]


def test_word_distance_is_toeplitz_and_free_of_the_batch() -> None:
    bias = WordDistance()(BATCH).bias
    assert bias.shape == (1, 1, 8, 8)
    for query in range(8):
        for key in range(8):
            assert bias[0, 0, query, key] == -abs(query - key)


def test_dependency_distance_of_the_paper() -> None:
    bias = DependencyDistance()(BATCH).bias
    assert bias.shape == (2, 1, 8, 8)
    assert (-bias[0, 0]).int().tolist() == DISTANCES
    # From "wash": "kids" is 4 words away but one arc.
    assert (-WordDistance()(BATCH).bias[0, 0, 5, 1], -bias[0, 0, 5, 1]) == (4, 1)


def test_several_roots_hang_below_a_virtual_one() -> None:
    roots = sa.Sentence(["a", "b", "c"], dependency=sa.DependencyTree([0, 0, 2]))
    assert (-DependencyDistance()(collate(roots)).bias[0, 0]).tolist() == [[0, 2, 3], [2, 0, 1], [3, 1, 0]]


def test_constituency_distance_counts_edges() -> None:
    bias = -ConstituencyDistance()(BATCH).bias[0, 0]
    assert bias[0, 1] == 2, "sisters"
    assert bias[6, 7] == 2
    assert bias[5, 6] == 3
    assert bias[0, 5] == 5, "two up from 'Two' to NP, one to S, two down to 'wash'"
    torch.testing.assert_close(bias, bias.mT)


def test_subtree_mask_of_the_paper() -> None:
    """Leaves 0, 1, 2, then phrase g over all of them and h over the last two (Nguyen et al. 2020)."""
    tree = sa.ConstituencyTree.from_brackets("(g (a x) (h (b y) (c z)))")
    batch = collate(sa.Sentence(tree.words, constituency=tree), SHORT)
    for prior, words in ((Subtree(), ["11100"] * 3), (Subtree("own"), ["10000", "01000", "00100"])):
        allowed = prior(batch).allowed
        assert allowed[0, 0].int().tolist() == [[int(cell) for cell in row] for row in [*words, "11111", "01101"]]
        assert not allowed[1, 0, 2].any(), "padding sees nothing"
        assert not allowed[1, 0, :, 2].any(), "no query attends to padding"
    with pytest.raises(ValueError, match="words_see to be one of all, own; got 'none'"):
        inspect.unwrap(Subtree.__init__)(Subtree.__new__(Subtree), "none")


def test_relation_as_preference_and_as_mask() -> None:
    matrix = BATCH.relations["same"]
    torch.testing.assert_close(Relation(name="same")(BATCH).bias[:, 0], matrix)
    assert (Relation("same", as_mask=True)(BATCH).allowed[:, 0] == (matrix == 1)).all()
    signed = sa.Sentence(["hush", "!"], relations={"signed": [[0.0, -2.0], [0.5, 0.0]]})
    assert Relation("signed", as_mask=True)(collate(signed)).allowed.tolist() == [[[[False, True], [True, False]]]]
    forbids = Relation("logarithm")(BATCH)
    assert torch.equal(torch.where(forbids.allowed, forbids.bias, -torch.inf)[:, 0], BATCH.relations["logarithm"])


@pytest.mark.parametrize("kind", [DependencyDistance, ConstituencyDistance])
def test_missing_trees(kind) -> None:  # type: ignore[no-untyped-def]
    mixed, bare = collate(LONG, BARE), collate(BARE)
    with pytest.raises(MissingStructure, match=rf"{kind.__name__} .* sentence 1 \('no tree here'\)"):
        kind()(mixed)
    with pytest.raises(MissingStructure, match="sentence 0"):
        kind()(bare)
    for batch, row in ((mixed, 1), (bare, 0)):
        assert not kind(missing="none")(batch).bias[row].any()
        torch.testing.assert_close(kind(missing="word")(batch).bias[row], WordDistance()(batch).bias[0])
    torch.testing.assert_close(kind(missing="word")(mixed).bias[0], kind()(collate(LONG)).bias[0])
    with pytest.raises(ValueError, match="one of error, none, word, got 'zero'"):
        # Tests check types at run time, users do not: behind the check stands our own.
        inspect.unwrap(kind.__init__)(kind.__new__(kind), "zero")


@pytest.mark.parametrize("prior", [DependencyDistance(), ConstituencyDistance(), Subtree(), Relation("same")])
def test_sentences_without_words_need_no_structure(prior: Prior) -> None:
    empty = sa.Sentence([])
    for batch in (collate(empty), collate(empty, SHORT)):
        value = prior(batch)
        assert all(part is None or part.isfinite().all() for part in (value.allowed, value.bias))


def test_missing_relation_names_it() -> None:
    with pytest.raises(MissingStructure, match=r"Relation\('coreference'\)"):
        Relation("coreference")(BATCH)
    with pytest.raises(ValueError, match="'dependency'"):
        Relation("dependency")


SIX = [
    Forward() + 1.5 * WordDistance(),
    Forward() + 0.5 * DependencyDistance(),
    None,
    WordDistance() + 2 * (WordDistance() + DependencyDistance()),
    Backward() + NotSelf(),
    LearnableAlpha(6, initial=[1, 2, 3, 4, 5, 6]) * WordDistance(),
]


def test_per_head_equals_its_heads_one_by_one() -> None:
    value = PerHead(SIX)(BATCH)
    assert value.allowed is not None
    assert value.bias is not None
    for head, prior in enumerate(SIX):
        alone = AttentionBias() if prior is None else prior(BATCH)
        allowed = torch.ones(1, 1, 8, 8, dtype=torch.bool) if alone.allowed is None else alone.allowed
        bias = torch.zeros(1, 1, 8, 8) if alone.bias is None else alone.bias
        row = head if bias.shape[1] == 6 else 0
        assert (value.allowed[:, head] == allowed[:, 0]).all()
        torch.testing.assert_close(value.bias[:, head], bias[:, row].expand(2, 8, 8))


def test_per_head_evaluates_each_base_once() -> None:
    prior = PerHead(SIX[:5] * 3)
    assert sorted(base.name for base in prior.bases) == ["backward", "dependency", "forward", "not self", "word"]
    calls: list[str] = []
    for base in prior.bases:
        base.register_forward_hook(lambda module, *_: calls.append(module.name))
    prior(BATCH)
    assert sorted(calls) == ["backward", "dependency", "forward", "not self", "word"]


def test_one_learnt_weight_serves_all_heads_that_use_it() -> None:
    alpha = LearnableAlpha(1, initial=0.5)
    prior = PerHead([alpha * WordDistance(), None, alpha * DependencyDistance()])
    assert (prior.num_heads, (alpha * WordDistance()).num_heads) == (3, None)
    fixed = PerHead([0.5 * WordDistance(), None, 0.5 * DependencyDistance()])
    found, expected = prior(BATCH).bias, fixed(BATCH).bias
    assert found is not None
    assert expected is not None
    torch.testing.assert_close(found, expected)
    found.sum().backward()
    assert alpha.raw.grad is not None
    assert alpha.raw.grad.shape == (1,)
    assert alpha.raw.grad.abs().sum() > 0


def test_per_head_stays_free_of_the_batch_if_it_can() -> None:
    value = PerHead([Forward() + WordDistance(), Backward()])(BATCH)
    assert value.allowed.shape == value.bias.shape == (1, 2, 8, 8)


def test_one_learnt_alpha_stays_one_parameter_and_learns() -> None:
    alpha = nn.Parameter(torch.tensor(2.0))
    prior = PerHead([Forward() + alpha * WordDistance(), alpha * DependencyDistance(), None])
    assert [parameter is alpha for parameter in prior.parameters()] == [True]
    bias = prior(BATCH).bias
    upstream = torch.rand(bias.shape, generator=torch.Generator().manual_seed(1))
    (bias * upstream).sum().backward()
    expected = (WordDistance()(BATCH).bias[:, 0] * upstream[:, 0]).sum()
    expected = expected + (DependencyDistance()(BATCH).bias[:, 0] * upstream[:, 1]).sum()
    torch.testing.assert_close(alpha.grad, expected)


def test_learnt_alpha_per_head() -> None:
    alpha = LearnableAlpha(2, initial=[0.25, 3.0])
    prior = PerHead([alpha * WordDistance(), alpha * WordDistance()])
    distance = WordDistance()(BATCH).bias[0, 0]
    torch.testing.assert_close(prior(BATCH).bias[0], torch.stack((0.25 * distance, 3.0 * distance)))
    torch.testing.assert_close((alpha * WordDistance())(BATCH).bias, prior(BATCH).bias)
    prior(BATCH).bias.sum().backward()
    assert alpha.raw.grad is not None
    assert alpha.raw.grad.all()


def test_learnt_alphas_start_at_one_unless_given_by_name() -> None:
    torch.testing.assert_close(LearnableAlpha(3)(), torch.ones(3))
    with pytest.raises(TypeError):
        LearnableAlpha(3, 2.0)  # type: ignore[misc]


def test_a_scaled_prior_has_as_many_heads_as_its_weights_or_its_prior() -> None:
    assert (LearnableAlpha(2) * WordDistance()).num_heads == 2
    assert (2 * PerHead([Forward(), None])).num_heads == 2
    assert (2 * WordDistance()).num_heads is None
    assert (LearnableAlpha(1) * WordDistance()).num_heads is None


def test_tensor_alpha_travels_with_the_prior() -> None:
    prior = torch.tensor(alibi_slopes(2)) * WordDistance()
    assert list(prior.state_dict()) == ["alpha.alpha"]
    torch.testing.assert_close(prior(BATCH).bias[0, :, 0, 4], -4 * torch.tensor(alibi_slopes(2)))


def test_alibi_slopes_are_those_of_press_et_al() -> None:
    assert alibi_slopes(8) == tuple(2.0**-number for number in range(1, 9))
    assert alibi_slopes(3) == pytest.approx((2 ** (-8 / 3), 2 ** (-16 / 3), 2**-8))


def test_double_precision_keeps_a_fixed_alpha_double() -> None:
    assert PerHead([0.1 * WordDistance()]).double()(BATCH).bias.dtype == torch.float64


def test_names() -> None:
    assert PerHead(SIX).head_names[:3] == ("forward + 1.5 word", "forward + 0.5 dependency", "none")
    assert (PerHead([Forward(), None]) + WordDistance()).head_names == ("forward + word", "none + word")
    assert (2 * PerHead([WordDistance(), None], head_names=["near", "plain"])).head_names == ("2 near", "2 plain")
    assert PerHead([Forward(), Forward()]).name == "forward"
    assert [prior.name for prior in (DependencyDistance(), ConstituencyDistance(), Subtree(), Relation("same"))] == [
        "dependency", "constituency", "subtree", "same",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: PerHead([]), "at least one head"),
        (lambda: PerHead([None, None], head_names=["one"]), "1 names for 2 heads"),
        (lambda: PerHead([PerHead([Forward(), None])]), "PerHead has 1 heads, but prior 0 is made for 2"),
        (lambda: PerHead([LearnableAlpha(3) * WordDistance()]), "PerHead has 1 heads, but an alpha of prior 0 has 3"),
        (lambda: PerHead([None] * 2) + PerHead([None] * 3), "equal numbers of heads, got 2 and 3"),
        (lambda: LearnableAlpha(3) * PerHead([None, None]), "3 weights for a prior with 2 heads"),
        (lambda: float("nan") * WordDistance(), "finite alpha, got nan"),
        (lambda: torch.zeros(2, 2) * WordDistance(), r"shape \(2, 2\)"),
        (lambda: LearnableAlpha(2, initial=[1.0]), "2 initial weights, one per head, got 1"),
        (lambda: LearnableAlpha(2, initial=[1.0] * 3), "2 initial weights, one per head, got 3"),
        (lambda: LearnableAlpha(2, initial=0.0), r"positive finite initial weights, got \[0.0, 0.0\]"),
    ],
)
def test_errors(build, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=message):
        build()


def test_only_priors_add_and_only_numbers_scale() -> None:
    for build in (
        lambda: Forward() + 1,
        lambda: 1 + Forward(),
        lambda: -1 + Forward(),
        lambda: sum([Forward()], start=1),
    ):
        with pytest.raises(TypeError):
            build()
    for build in (lambda: "2" * Forward(), lambda: Forward() * "2", lambda: Forward() * Forward()):
        with pytest.raises(TypeError):
            build()


@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS)
def test_alpha_stands_on_either_side(prior: Prior) -> None:
    assert_equal((prior * 1.5)(BATCH), (1.5 * prior)(BATCH))
    heads = torch.tensor([0.5, 1.0, 2.0])
    assert_equal((prior * heads)(BATCH), (heads * prior)(BATCH))


@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS)
def test_the_sum_of_a_list_of_priors(prior: Prior) -> None:
    assert sum([prior]) is prior
    assert_equal(sum([prior, WordDistance(), Forward()])(BATCH), (prior + WordDistance() + Forward())(BATCH))


@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS)
def test_a_prior_has_no_opposite_but_its_preference_has(prior: Prior) -> None:
    for build in (lambda: -prior, lambda: prior - WordDistance(), lambda: WordDistance() - prior):
        with pytest.raises(TypeError, match="a mask has no opposite"):
            build()
    value, turned = prior(BATCH), (-1 * prior)(BATCH)
    assert_equal(turned, AttentionBias(value.allowed, None if value.bias is None else -value.bias))


def test_repr_is_how_it_is_written() -> None:
    assert repr(Forward() + 1.5 * WordDistance()) == "Forward(include_self=True) + 1.5 * WordDistance()"
    assert repr(2 * (NotSelf() + Relation("same"))) == "2 * (NotSelf() + Relation('same', as_mask=False))"
    assert repr(PerHead([LearnableAlpha(2) * Subtree("own"), None])) == (
        "PerHead([LearnableAlpha(2) * Subtree(words_see='own'), None])"
    )
    assert repr(torch.tensor([1.0, 2.0]) * DependencyDistance("word")) == (
        "tensor of 2 * DependencyDistance(missing='word')"
    )
    assert repr(torch.tensor(1.5) * WordDistance()) == "1.5 * WordDistance()"
