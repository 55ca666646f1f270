"""What structured distributions refuse: every message says what came, what was expected and what to do."""

import inspect
import re
from collections.abc import Callable
from contextlib import ExitStack
from unittest.mock import patch

import pytest
import torch
from torch import Tensor
from torch.distributions import Distribution, kl_divergence

from structattn.distributions import (
    AlignmentCRF,
    ConstituencyCRF,
    DependencyCRF,
    IndependentChoice,
    IndependentSelection,
    LinearChainCRF,
    NonProjectiveDependencyCRF,
    SemiMarkovCRF,
    StructuredDistribution,
    WarpingCRF,
)
from structattn.testing import Family
from structures_by_hand import FAMILIES, PAIRS

every_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)


def unchecked(
    kind: type[StructuredDistribution],
    *arguments: object,
    build: Callable[..., StructuredDistribution] | None = None,
    **options: object,
) -> StructuredDistribution:
    """A distribution of arguments whose types the tests' own type checker would refuse first."""
    with ExitStack() as patches:
        for parent in kind.__mro__:
            if "__init__" in vars(parent) and parent is not object:
                patches.enter_context(patch.object(parent, "__init__", inspect.unwrap(vars(parent)["__init__"])))
        return (build or kind)(*arguments, **options)


def question(name: str) -> Callable[..., object]:
    """A method that does not check the types of its arguments either."""
    return lambda ours, *arguments: inspect.unwrap(getattr(type(ours), name))(ours, *arguments)


REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: DependencyCRF(torch.zeros(2, 3, 3)), r"scores of shape \(2, 3, 3\): expected \(\.\.\., n, n \+ 1\)"),
    (lambda: DependencyCRF(torch.zeros(2, 3, 5)), r"scores of shape \(2, 3, 5\): expected \(\.\.\., n, n \+ 1\)$"),
    (lambda: ConstituencyCRF(torch.zeros(3, 4)), r"scores of shape \(3, 4\): expected \(\.\.\., n \+ 1, n \+ 1\)"),
    (lambda: SemiMarkovCRF(torch.zeros(3, 2, 2, 3)), r"scores of shape \(3, 2, 2, 3\)"),
    (lambda: LinearChainCRF(torch.zeros(4, 2), torch.zeros(3, 3)), r"transition of shape \(3, 3\): expected \(2, 2\)"),
    (lambda: LinearChainCRF(torch.zeros(4, 2), torch.zeros(2, 2, 2)), r"expected \(2, 2\) or \(3, 2, 2\)"),
    (lambda: DependencyCRF(torch.zeros(2, 3, 4), torch.tensor([3, 4])), "between 3 and 4: expected 0 to 3"),
    (lambda: DependencyCRF(torch.zeros(2, 3, 4), torch.tensor([-1, 4])), "between -1 and 4"),
    (lambda: DependencyCRF(torch.zeros(2, 3, 4), torch.tensor([1, 2, 3])), r"lengths of shape \(3,\).* shape \(2,\)"),
    (lambda: DependencyCRF(torch.zeros(2, 3, 4), torch.tensor([1.0, 2.0])), "lengths have type torch.float32"),
    (lambda: DependencyCRF(torch.full((3, 4), torch.nan)), "9 of 12 scores are nan"),
    (lambda: DependencyCRF(torch.full((3, 4), torch.inf)), r"\+inf"),
    (lambda: DependencyCRF(torch.zeros(3, 4)).topk(k=0), "topk of 0: expected at least 1"),
    (
        lambda: DependencyCRF(torch.zeros(3, 4)).log_prob(torch.zeros(4, 4)),
        r"parts of shape \(4, 4\): expected \(3, 4\)",
    ),
    (lambda: DependencyCRF(torch.zeros(3, 4)).log_prob(torch.zeros(3, 4)), "1 of 1 items are not a structure"),
    (lambda: DependencyCRF(torch.zeros(3, 4)).cross_entropy(DependencyCRF(torch.zeros(2, 3))), "cannot be compared"),
    (lambda: DependencyCRF(torch.zeros(2, 3)).cross_entropy(DependencyCRF(torch.zeros(3, 4))), "cannot be compared"),
    (lambda: DependencyCRF(torch.zeros(2, 3), -1), "lengths lie between -1 and -1: expected 0 to 2"),
    (lambda: SemiMarkovCRF(torch.zeros(3, 0, 1, 1)), r"scores of shape \(3, 0, 1, 1\): expected"),
    (lambda: LinearChainCRF(torch.zeros(3, 0), torch.zeros(0, 0)), r"unary of shape \(3, 0\): expected"),
    (
        lambda: kl_divergence(DependencyCRF(torch.zeros(2, 3)), NonProjectiveDependencyCRF(torch.zeros(2, 3))),
        "DependencyCRF with parts .* cannot be compared with NonProjectiveDependencyCRF",
    ),
    (
        lambda: SemiMarkovCRF(torch.zeros(4, 2, 1, 1)).from_structure(torch.tensor([[0, 4, 0]])),
        "a segment has 4 words: expected at most 2",
    ),
    (
        lambda: kl_divergence(DependencyCRF(torch.zeros(2, 3, 4)), DependencyCRF(torch.zeros(3, 3, 4))),
        r"\[2, 3, 4\].* cannot be compared with .*\[3, 3, 4\].*: expected batch shapes that broadcast",
    ),
    (
        lambda: DependencyCRF(torch.zeros(2, 3, 4), [3, 2]).cross_entropy(DependencyCRF(torch.zeros(2, 3, 4))),
        "lengths cannot be compared: item 1 has 2 and 3 words",
    ),
    (
        lambda: DependencyCRF(torch.zeros(3, 4), 1).cross_entropy(DependencyCRF(torch.zeros(3, 4), 3)),
        "lengths cannot be compared: the sentence has 1 and 3 words",
    ),
    (
        lambda: unchecked(AlignmentCRF, torch.zeros(3)),
        r"AlignmentCRF: scores of shape \(3,\): expected \(\.\.\., queries, keys\)",
    ),
    (lambda: WarpingCRF(torch.zeros(2, 3), 2, 4), "WarpingCRF: key_lengths lie between 4 and 4: expected 0 to 3"),
    (
        lambda: AlignmentCRF(torch.zeros(2, 3, 4), [3, 2], [4, 4, 4]),
        r"key_lengths of shape \(3,\) do not fit .* shape \(2,\)",
    ),
    (
        lambda: unchecked(AlignmentCRF, torch.zeros(2, 3).long()),
        "scores of type torch.int64: expected floating-point scores",
    ),
    (
        lambda: AlignmentCRF(torch.zeros(2, 3, 3)).cross_entropy(AlignmentCRF(torch.zeros(2, 3, 3), None, [3, 2])),
        "items with other numbers of queries or keys cannot be compared",
    ),
    (
        lambda: AlignmentCRF(torch.zeros(3, 4), 2).from_structure(torch.tensor([[0, 1], [2, 2]])),
        r"row 1 is the pair \(2, 2\) of 2 queries and 4 keys: expected numbers from 0 on; or \(-1, -1\) for no pair",
    ),
    (
        lambda: AlignmentCRF(torch.zeros(2, 3)).log_prob(torch.tensor([[0, 1], [1, 0]])),
        r"with 2 queries and 3 keys: the matches \(0, 1\) and \(1, 0\) cross",
    ),
    (
        lambda: WarpingCRF(torch.zeros(2, 3)).log_prob(torch.tensor([[0, 0], [1, 2]])),
        r"\(0, 0\) is followed by \(1, 2\), which is not the next cell",
    ),
    (
        lambda: WarpingCRF(torch.zeros(2, 3)).log_prob(torch.tensor([[-1, -1]])),
        r"expected a path from \(0, 0\) to \(1, 2\)",
    ),
]


@pytest.mark.parametrize("kind", [DependencyCRF, NonProjectiveDependencyCRF])
@pytest.mark.parametrize("library", ["torch-struct", "SuPar"])
def test_square_scores_are_refused_with_the_line_that_converts_them(
    kind: type[StructuredDistribution], library: str
) -> None:
    ours = torch.arange(24.0).reshape(2, 3, 4)
    if library == "torch-struct":  # [head, word], and [word, word] for the root
        ours = torch.where(torch.eye(3, 4, dtype=torch.bool).roll(1, -1), ours[..., :1], ours)
        scores = ours[..., 1:].mT
    else:
        scores = torch.cat([torch.full((2, 1, 4), torch.nan), ours], -2)
    with pytest.raises(ValueError, match=r"expected \(\.\.\., n, n \+ 1\), word by head") as refusal:
        kind(scores)
    (line,) = re.findall(rf"From {library} \([^)]*\): (.*?)(?:\. From|$)", str(refusal.value))
    assert torch.equal(eval(line, {"torch": torch, "scores": scores}), ours)


@every_family
@pytest.mark.parametrize("name", ["log_prob", "to_structure"])
def test_parts_are_shaped_like_the_scores(family: Family, name: str) -> None:
    """With and without checks of the values: a shape is never taken for another one."""
    for checks in (True, False):
        ours = family.build(*family.random_scores(3, 2), validate_args=checks)
        event = tuple(ours.event_shape)
        wrong: list[tuple[object, str]] = [
            (torch.zeros(2, *event[:-1], event[-1] + 1), rf"parts of shape .*: expected {re.escape(str(event))} at"),
            (torch.zeros(event[1:]), rf"parts of shape .*: expected {re.escape(str(event))} at the end"),
            (torch.zeros(()), r"parts of shape \(\): expected"),
            (torch.zeros(5, *event), r"parts with leading axes \(5,\) do not fit the batch shape \(2,\)"),
            (torch.zeros(2, *event, dtype=torch.complex64), r"parts of type torch\.complex64: expected real numbers"),
            ([0.0], "of type list: expected a tensor of parts"),
        ]
        for value, message in wrong:
            with pytest.raises(ValueError, match=f"^{name}.*{message}"):
                question(name)(ours, value)
            with pytest.raises(ValueError, match=f"^support.check.*{message}"):
                inspect.unwrap(type(ours.support).check)(ours.support, value)


@pytest.mark.parametrize("kind", [DependencyCRF, NonProjectiveDependencyCRF])
@pytest.mark.parametrize("single_root", ["no", 1, None, [True], torch.tensor(True)])
def test_single_root_is_a_bool(kind: type[StructuredDistribution], single_root: object) -> None:
    with pytest.raises(ValueError, match=rf"{kind.__name__}: single_root of .*: expected True or False"):
        unchecked(kind, torch.zeros(3, 4), single_root=single_root)


@pytest.mark.parametrize("kind", [IndependentChoice, IndependentSelection])
@pytest.mark.parametrize(
    ("allowed", "message"),
    [
        (torch.ones(3), r"allowed of type torch\.float32: expected a tensor of type torch\.bool"),
        ([True, True, True], "allowed of type list: expected"),
        (torch.ones(4, dtype=torch.bool), r"allowed of shape \(4,\) does not fit scores of shape \(2, 3\)"),
    ],
)
def test_a_mask_of_keys_is_one(kind: type, allowed: object, message: str) -> None:
    with pytest.raises(ValueError, match=rf"{kind.__name__}: {message}"):
        inspect.unwrap(kind.__init__)(kind.__new__(kind), torch.zeros(2, 3), allowed)


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_invalid_arguments_are_refused_with_a_reason(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    ("kind", "heads"),
    [
        (DependencyCRF, [2, 1, 0, 0]),  # a cycle
        (DependencyCRF, [3, 4, 0, 0]),  # crossing arcs
        (NonProjectiveDependencyCRF, [2, 3, 1, 0]),
    ],
)
def test_heads_that_are_not_a_tree_are_refused(kind: type[DependencyCRF], heads: list[int]) -> None:
    ours = kind(torch.zeros(4, 5))
    with pytest.raises(ValueError, match="not a structure"):
        ours.log_prob(ours.from_structure(torch.tensor(heads)))
    crossing = NonProjectiveDependencyCRF(torch.zeros(4, 5))
    assert torch.isfinite(crossing.log_prob(crossing.from_structure(torch.tensor([3, 4, 0, 0]))))


@every_family
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.bool, torch.complex64])
def test_scores_are_floating_point_numbers(family: Family, dtype: torch.dtype) -> None:
    potentials = [torch.zeros_like(scores, dtype=dtype) for scores in family.random_scores(3)]
    kind = type(family.build(*family.random_scores(3)))
    with pytest.raises(ValueError, match=rf"{kind.__name__}: (scores|unary) of type {dtype}: expected floating-point"):
        unchecked(kind, *potentials, build=family.build)
    with pytest.raises(ValueError, match="of type list: expected a floating-point tensor"):
        unchecked(kind, *[[[0.0]] for _ in potentials], build=family.build)


@every_family
def test_a_generator_is_one_of_torch(family: Family) -> None:
    for ours in (
        family.build(*family.random_scores(3)),
        IndependentChoice(torch.zeros(2), torch.ones(2, dtype=torch.bool)),
    ):
        with pytest.raises(ValueError, match=r"generator of type int: expected a torch\.Generator"):
            question("sample")(ours, 2, 5)


@pytest.mark.parametrize("kind", [IndependentChoice, IndependentSelection])
@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.complex64])
def test_scores_of_independent_keys_are_floating_point_numbers(kind: type, dtype: torch.dtype) -> None:
    ours = kind.__new__(kind)
    with pytest.raises(ValueError, match=rf"{kind.__name__}: scores of type {dtype}: expected floating-point scores"):
        inspect.unwrap(kind.__init__)(ours, torch.zeros(3, dtype=dtype), torch.ones(3, dtype=torch.bool))


def test_no_array_of_scores_is_cut_to_the_type_of_another() -> None:
    unary, transition = torch.zeros(3, 2), torch.tensor([[0.5, -0.7], [0.9, 0.2]])
    with pytest.raises(ValueError, match=r"transition of type torch\.int64"):
        unchecked(LinearChainCRF, unary, transition.long())
    with pytest.raises(ValueError, match="transition on meta: expected cpu"):
        LinearChainCRF(unary, transition.to("meta"))
    exact = LinearChainCRF(unary.double(), transition.double()).log_partition()
    for mixed in (LinearChainCRF(unary.half(), transition.double()), LinearChainCRF(unary.double(), transition)):
        assert mixed.log_partition().dtype == torch.float64
        torch.testing.assert_close(mixed.log_partition(), exact)


@pytest.mark.parametrize("lengths", ["two", [[1], [1, 2]], [1.5, 2.0], [True, False], 2.0, [2, None], {3: 1}])
def test_lengths_are_whole_numbers(lengths: object) -> None:
    with pytest.raises(ValueError, match="lengths"):
        unchecked(DependencyCRF, torch.zeros(2, 3, 4), lengths)


@pytest.mark.parametrize("k", [2.0, True, "3", None, [3], torch.tensor([3]), torch.tensor(2.0), -1])
def test_a_number_of_structures_is_a_whole_number(k: object) -> None:
    ours = DependencyCRF(torch.zeros(3, 4))
    for name in ("topk", "topk_scores"):
        with pytest.raises(ValueError, match=r"topk of .*: expected (a whole number|at least 1)"):
            question(name)(ours, k)
    assert question("topk")(ours, torch.tensor(2)).shape == (2, 3, 4)


@pytest.mark.parametrize("shape", [(-1,), -1, 2.0, (2.0,), True, "3", None, (2, None), {"a": 1}])
def test_a_sample_shape_is_made_of_whole_numbers(shape: object) -> None:
    with pytest.raises(ValueError, match=r"sample_shape of .*: expected whole numbers"):
        question("sample")(DependencyCRF(torch.zeros(3, 4)), shape)


# (distribution of two sentences, structure, message)
OUT_OF_RANGE: list[tuple[Callable[[], StructuredDistribution], list[object], str]] = [
    (
        lambda: DependencyCRF(torch.zeros(2, 3, 4)),
        [[0, 1, 1], [0, 4, 1]],
        "item 1: word 2 has head 4: expected 0 .* to 3",
    ),
    (lambda: DependencyCRF(torch.zeros(2, 3, 4), [3, 2]), [[0, 1, 1], [0, 3, 9]], "item 1: word 2 has head 3: .* to 2"),
    (lambda: DependencyCRF(torch.zeros(2, 3, 4)), [[0, -2, 1], [0, 1, 1]], "item 0: word 2 has head -2"),
    (lambda: NonProjectiveDependencyCRF(torch.zeros(2, 3, 4)), [[0, -1, 1], [0, 1, 1]], "item 0: word 2 has head -1"),
    (
        lambda: LinearChainCRF(torch.zeros(2, 3, 2), torch.zeros(2, 2)),
        [[0, 1, 2], [0, 0, 0]],
        "word 3 has tag 2: .* 0 to 1",
    ),
    (lambda: LinearChainCRF(torch.zeros(2, 3, 2), torch.zeros(2, 2)), [[0, -1, 1], [0, 0, 0]], "word 2 has tag -1"),
    (
        lambda: ConstituencyCRF(torch.zeros(2, 4, 4)),
        [[[0, 3]], [[0, 7]]],
        r"item 1: row 0 is the span \(0, 7\): .* <= 3",
    ),
    (lambda: ConstituencyCRF(torch.zeros(2, 4, 4), [3, 2]), [[[0, 3]], [[0, 3]]], r"item 1: row 0 .*\(0, 3\): .* <= 2"),
    (lambda: ConstituencyCRF(torch.zeros(2, 4, 4)), [[[0, 3], [2, 1]]], r"row 1 is the span \(2, 1\)"),
    (lambda: ConstituencyCRF(torch.zeros(2, 4, 4)), [[[2, 2]]], r"row 0 is the span \(2, 2\)"),
    (lambda: ConstituencyCRF(torch.zeros(2, 4, 4)), [[[-1, 2]]], r"row 0 is the span \(-1, 2\)"),
    (lambda: SemiMarkovCRF(torch.zeros(2, 3, 2, 2, 2)), [[[0, 2, 0], [2, 4, 0]]], r"the segment \(2, 4\): .* <= 3"),
    (lambda: SemiMarkovCRF(torch.zeros(2, 3, 2, 2, 2)), [[[0, 2, 0], [2, 3, 2]]], "row 1 has label 2: expected 0 to 1"),
    (lambda: SemiMarkovCRF(torch.zeros(2, 3, 2, 2, 2)), [[[0, 2, -1], [2, 3, 1]]], "row 0 has label -1"),
    (lambda: SemiMarkovCRF(torch.zeros(2, 3, 2, 2, 2)), [[[1, 1, 0]]], r"the segment \(1, 1\)"),
]


@pytest.mark.parametrize(("build", "structure", "message"), OUT_OF_RANGE)
def test_structures_out_of_range_are_refused_and_not_taken_for_others(
    build: Callable[[], StructuredDistribution], structure: list[object], message: str
) -> None:
    ours = build()
    for function in (ours.from_structure, ours.log_prob):
        with pytest.raises(ValueError, match=message):
            function(torch.tensor(structure))
    # Without checks nothing is taken for something else.
    ours._checks_values = False
    parts = ours.from_structure(torch.tensor(structure))
    assert ((parts == 0) | (parts == 1)).all()
    assert parts.flatten(1).sum(-1).min() < len(structure[0])  # type: ignore[arg-type]


def test_messages_name_the_index_of_an_invalid_structure() -> None:
    scores, crossing = torch.zeros(3, 4), torch.tensor([3, 4, 0])
    for batch, place, item in (((), (), ""), ((3,), (2,), "item 2: "), ((2, 3), (1, 0), r"item \(1, 0\): ")):
        heads = torch.tensor([0, 1, 2]).repeat(*batch, 1)
        heads[place] = crossing
        with pytest.raises(ValueError, match=f"^from_structure: {item}[^i]"):
            DependencyCRF(scores.expand(*batch, 3, 4)).from_structure(heads)


FORMS: list[tuple[StructuredDistribution, Tensor, str]] = [
    (DependencyCRF(torch.zeros(2, 3, 4)), torch.zeros(2, 3), "of type torch.float32: expected integers for heads"),
    (DependencyCRF(torch.zeros(2, 3, 4)), torch.zeros(2, 4).long(), r"of shape \(2, 4\): expected heads \(\.\.\., 3\)"),
    (
        DependencyCRF(torch.zeros(2, 3, 4)),
        torch.zeros(3, 3).long(),
        r"leading axes \(3,\) do not fit the batch shape \(2,\)",
    ),
    (
        ConstituencyCRF(torch.zeros(4, 4)),
        torch.zeros(2, 3).long(),
        r"of shape \(2, 3\): expected spans \(\.\.\., rows, 2\)",
    ),
    (SemiMarkovCRF(torch.zeros(3, 2, 1, 1)), torch.zeros(2, 2).long(), "expected segments"),
    (
        LinearChainCRF(torch.zeros(3, 2), torch.zeros(2, 2)),
        torch.zeros(2).bool(),
        "type torch.bool: expected integers for tags",
    ),
]


@pytest.mark.parametrize(("ours", "structure", "message"), FORMS)
def test_structures_of_another_form_are_refused(ours: StructuredDistribution, structure: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        question("from_structure")(ours, structure)
    with pytest.raises(ValueError, match="expected a tensor of"):
        question("from_structure")(ours, structure.tolist())
    with pytest.raises(ValueError, match="expected a tensor of"):
        question("log_prob")(ours, structure.tolist())


def arcs(*heads: int, also: tuple[int, int] | None = None) -> Tensor:
    """Parts of heads, -1 for none, and of one arc ``(row, column)`` more."""
    parts = torch.zeros(len(heads), len(heads) + 1)
    for place in [*((word, head) for word, head in enumerate(heads) if head >= 0), *([also] if also else [])]:
        parts[place] = 1
    return parts


def spans(n: int, *pairs: tuple[int, int]) -> Tensor:
    parts = torch.zeros(n + 1, n + 1)
    for pair in pairs:
        parts[pair] = 1
    return parts


def segments(*rows: tuple[int, int, int, int]) -> Tensor:
    parts = torch.zeros(3, 2, 2, 2)
    for row in rows:
        parts[row] = 1
    return parts


WORDS = [(i, i + 1) for i in range(4)]
TREES, ALL, ONE_ROOT = (
    DependencyCRF(torch.zeros(4, 5)),
    NonProjectiveDependencyCRF(torch.zeros(4, 5)),
    DependencyCRF(torch.zeros(4, 5), single_root=True),
)
SHORT = DependencyCRF(torch.zeros(4, 5), 3)
PHRASES, SEGMENTS = ConstituencyCRF(torch.zeros(5, 5)), SemiMarkovCRF(torch.zeros(3, 2, 2, 2))
CHAIN = LinearChainCRF(torch.zeros(3, 2), torch.zeros(2, 2))
NO_STRUCTURES: list[tuple[StructuredDistribution, Tensor, str]] = [
    (TREES, arcs(2, 1, 0, 0), "word 1 is below a cycle"),
    (ALL, arcs(2, 1, 0, 0), "word 1 is below a cycle"),
    (TREES, arcs(0, 2, 0, 0), "word 2 is its own head"),
    (TREES, arcs(3, 4, 0, 0), "the arcs into words 1 and 2 cross; NonProjectiveDependencyCRF allows such trees"),
    (
        TREES,
        arcs(0, 4, 1, 0),
        "it is non-projective, the arcs into words 3 and 2 cross; NonProjectiveDependencyCRF allows",
    ),
    (ONE_ROOT, arcs(3, 4, 0, 3), "it is non-projective, the arcs into words 1 and 2 cross"),
    (ONE_ROOT, arcs(0, 1, 0, 3), "words 1 and 3 are both attached to the root; single_root=False allows such trees"),
    (TREES, torch.zeros(4, 5), "word 1 has 0 heads"),
    (TREES, arcs(0, 1, 1, 1, also=(2, 4)), "word 3 has 2 heads"),
    (SHORT, arcs(0, 1, 1, 1), "word 4 lies beyond the end and has a head"),
    (SHORT, arcs(0, 1, 4, -1), "the head of word 3 is 4, beyond the end"),
    (TREES, arcs(0, 1, 1, 1) / 2, "its parts are not all 0 or 1"),
    (TREES, arcs(0, 1, 1, 1) * torch.nan, "its parts are not all 0 or 1"),
    (PHRASES, spans(4, *WORDS, (0, 4), (0, 2), (1, 3)), r"the spans \(0, 2\) and \(1, 3\) cross"),
    (PHRASES, spans(4, *WORDS[1:], (0, 4), (0, 2), (2, 4)), r"the span \(0, 1\) of word 1 is missing"),
    (PHRASES, spans(4, *WORDS, (0, 2), (2, 4)), r"the span \(0, 4\) of the whole sentence is missing"),
    (PHRASES, spans(4, *WORDS, (0, 4), (0, 2)), "it has 6 spans: expected 7, a binary tree"),
    (PHRASES, spans(4, *WORDS, (0, 4), (0, 2), (2, 4), (3, 1)), r"\(3, 1\) is not a span of the sentence"),
    (ConstituencyCRF(torch.zeros(5, 5), 3), spans(4, *WORDS), r"\(3, 4\) is not a span of the sentence"),
    (SEGMENTS, segments((0, 1, 0, 0)), "the segments end after word 2: expected 3"),
    (SEGMENTS, segments((0, 0, 0, 0), (2, 0, 0, 1)), "a segment starts at word 3: expected word 2"),
    (SEGMENTS, segments((0, 0, 0, 1), (1, 1, 0, 0)), "the segment from word 2 follows label 0: expected 1"),
    (CHAIN, torch.tensor([[1.0, 0], [1, 1], [0, 1]]), "word 2 has 2 states"),
    (CHAIN, torch.tensor([[1.0, 0], [0, 0], [0, 1]]), "word 2 has 0 states"),
    (
        LinearChainCRF(torch.zeros(3, 2), torch.zeros(2, 2), 2),
        torch.eye(2)[[0, 0, 1]],
        "word 3, beyond the end, has 1 s",
    ),
]


@pytest.mark.parametrize(("ours", "parts", "message"), NO_STRUCTURES, ids=[message for *_, message in NO_STRUCTURES])
def test_messages_explain_why_parts_are_no_structure(ours: StructuredDistribution, parts: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=f"1 of 1 items are not a structure .* words: .*{message}"):
        ours.log_prob(parts)
    good = ours.sample((2, 3))
    good[1, 2] = parts
    with pytest.raises(
        ValueError, match=rf"1 of 6 items are not a structure .* item \(1, 2\), of . words: .*{message}"
    ):
        ours.log_prob(good)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (
            [3],
            "1 of 14 items are not a structure of DependencyCRF for their lengths; .* item 3, of 4 words: it is non-",
        ),
        ([3, 7, 12], r"3 of 14 .* for their lengths \(items 3, 7, 12\); .* item 3, of 4 words: "),
        (list(range(2, 12)), r"\(items 2, 3, 4, 5, 6, 7, 8, 9, 10, 11\); "),
        (list(range(2, 14)), r"\(items 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 2 more\); "),
    ],
)
def test_messages_name_the_items_that_are_no_structure(wrong: list[int], named: str) -> None:
    heads = torch.tensor([[0, 1, 2, 3]] * 14)
    heads[wrong] = torch.tensor([3, 4, 0, 0])
    with pytest.raises(ValueError, match=named):
        DependencyCRF(torch.zeros(14, 4, 5)).log_prob(heads)
    assert torch.isfinite(NonProjectiveDependencyCRF(torch.zeros(14, 4, 5)).log_prob(heads)).all()


def test_items_of_several_samples_are_named_by_both_axes() -> None:
    heads = torch.tensor([0, 1, 2, 3]).repeat(3, 2, 1)
    heads[1, 0] = heads[2, 1] = torch.tensor([3, 4, 0, 0])
    with pytest.raises(ValueError, match=r"2 of 6 .* \(items \(1, 0\), \(2, 1\)\); .* item \(1, 0\), of 4 words"):
        DependencyCRF(torch.zeros(2, 4, 5)).log_prob(heads)


@every_family
def test_missing_structures_translate_both_ways(family: Family) -> None:
    ours = family.build(*family.random_scores(2, 2, seed=1), torch.tensor([2, 1]))
    parts, scores = ours.topk(40), ours.topk_scores(40)
    structures = ours.to_structure(parts)
    missing = scores == -torch.inf
    assert missing.any()
    assert (structures[missing] == -1).all()
    padding = -1 if family.name in PAIRS else 0
    assert (structures[~missing] >= padding).all()
    torch.testing.assert_close(ours.from_structure(structures), parts)
    impossible = [own.clone() for own in family.random_scores(2, seed=1)]
    impossible[0][:] = -torch.inf
    nothing = family.build(*impossible)
    assert (nothing.to_structure(nothing.argmax()) == -1).all()
    assert (nothing.to_structure(nothing.sample(3)) == -1).all()
    # A sentence without words has a structure, with nothing in it.
    empty = family.build(*family.random_scores(2, seed=1), 0)
    assert (empty.to_structure(empty.argmax()) == padding).all()
    parts = empty.from_structure(empty.to_structure(empty.argmax()))
    torch.testing.assert_close(empty.log_prob(parts), torch.tensor(0.0).double())


@every_family
@pytest.mark.parametrize("wrong", [torch.nan, torch.inf])
def test_without_checks_an_undefined_score_spoils_its_own_sentence_only(family: Family, wrong: float) -> None:
    potentials = family.random_scores(5, 3, seed=2)
    spoilt = [own.clone() for own in potentials]
    spoilt[0][1, 0] = wrong
    ours, clean = family.build(*spoilt, validate_args=False), family.build(*potentials)
    others = [0, 2]
    for name in ("log_partition", "marginals", "entropy", "argmax"):
        torch.testing.assert_close(getattr(ours, name)()[others], getattr(clean, name)()[others])
    for parts in (ours.sample(4), ours.topk(3)):
        assert ((parts == 0) | (parts == 1)).all()
    torch.testing.assert_close(ours.topk(2)[:, others], clean.topk(2)[:, others])
    assert ours.to_structure(ours.argmax()).shape[0] == 3


def test_checks_can_be_switched_on_and_off() -> None:
    wrong = torch.full((3, 4), torch.nan)
    before = Distribution._validate_args
    try:
        Distribution.set_default_validate_args(False)
        DependencyCRF(wrong)
        with pytest.raises(ValueError, match="nan"):
            DependencyCRF(wrong, validate_args=True)
    finally:
        Distribution.set_default_validate_args(before)
    with pytest.raises(ValueError, match="nan"):
        DependencyCRF(wrong)
    ours = DependencyCRF(torch.zeros(3, 4), validate_args=False)
    assert torch.isfinite(ours.log_prob(arcs(2, 1, 0)))
    assert torch.isfinite(ours.log_prob(torch.tensor([9, 0, 0])))
