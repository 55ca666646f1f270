"""Segmentations whose scores are those of segments beside transitions, or sums: three forms of one distribution."""

import inspect
import math
from collections.abc import Callable
from contextlib import nullcontext
from unittest.mock import patch

import pytest
import torch
from torch import Tensor

from structattn.distributions import LinearChainCRF, SemiMarkovCRF
from structattn.kernels import plain_torch

# Words, widths and labels.
SIZES = [(0, 2, 2), (1, 1, 1), (3, 2, 1), (5, 3, 3), (7, 4, 5), (6, 9, 2), (40, 6, 9)]


def random(*shape: int, seed: int, spread: float = 1.0) -> Tensor:
    return spread * torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def terms(n: int, width: int, labels: int, *, batch: int = 2, spread: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
    """Scores of words, transitions and widths, some of them forbidden."""
    words = random(batch, n, 2, labels, seed=n, spread=spread)
    transition = random(labels, labels, seed=n + 1, spread=spread)
    duration = random(width, labels, seed=n + 2, spread=spread)
    if n > 2 and labels > 1:
        words[0, 1, 1, 0] = transition[0, -1] = duration[-1, 0] = -math.inf
    return words, transition, duration


def of_segments(words: Tensor, duration: Tensor) -> Tensor:
    """The scores of segments that sums of terms make, one by one."""
    batch, n, _, labels = words.shape
    scores = torch.full((batch, n, len(duration), labels), -math.inf, dtype=words.dtype)
    for start in range(n):
        for width in range(1, min(len(duration), n - start) + 1):
            further = words[:, start + 1 : start + width, 1].sum(1)
            scores[:, start, width - 1] = words[:, start, 0] + further + duration[width - 1]
    return scores


def of_edges(segments: Tensor, transition: Tensor) -> Tensor:
    scores = segments.unsqueeze(-2) + transition
    scores[:, :1, :, 0] = segments[:, :1]
    return scores


@pytest.mark.parametrize(
    "size", [(0, 2, 2), (1, 1, 1), (3, 2, 1), (5, 3, 3), (7, 4, 5), (6, 9, 2), (40, 6, 9)], ids=str
)
@pytest.mark.parametrize("path", ["compiled", "plain torch"])
def test_three_forms_are_the_same_distribution(size: tuple[int, int, int], path: str) -> None:
    words, transition, duration = terms(*size)
    segments, lengths = of_segments(words, duration), torch.tensor([size[0], max(size[0] - 1, 0)])
    with plain_torch() if path == "plain torch" else nullcontext():
        edges = SemiMarkovCRF(of_edges(segments, transition), lengths)
        joined = SemiMarkovCRF(segments, lengths, transition=transition)
        summed = SemiMarkovCRF(words, lengths, transition=transition, duration=duration)
        torch.testing.assert_close(joined.marginals(), edges.marginals().sum(-2))
        torch.testing.assert_close(summed.marginals()[:, :, 0], joined.marginals().sum(-2))
        torch.testing.assert_close(
            summed.marginals().sum((-2, -1)), (torch.arange(size[0]) < lengths[:, None]).double()
        )
        best = edges.to_structure(edges.argmax())
        drawn = summed.to_structure(summed.sample((20,), generator=torch.Generator().manual_seed(1)))
        for form in (joined, summed):
            assert torch.equal(form.to_structure(form.argmax()), best)
            for quantity in ("log_partition", "entropy", "log_count"):
                torch.testing.assert_close(getattr(form, quantity)(), getattr(edges, quantity)())
            for structure in (best, drawn):
                torch.testing.assert_close(form.log_prob(structure), edges.log_prob(structure))
                assert torch.equal(form.to_structure(form.from_structure(structure)), structure.expand_as(structure))


@pytest.mark.parametrize("spread", [1.0, 10.0, 30.0])
@pytest.mark.parametrize("form", ["joined", "summed"])
def test_compiled_sums_of_long_sentences_are_those_of_log_space(form: str, spread: float) -> None:
    words, transition, duration = terms(150, 7, 6, spread=spread)
    arrays = [words, transition, duration] if form == "summed" else [of_segments(words, duration), transition]
    arrays = [array.requires_grad_() for array in arrays]
    lengths = torch.tensor([150, 77])

    def answers() -> list[Tensor]:
        further = dict(zip(("transition", "duration"), arrays[1:], strict=False))
        ours = SemiMarkovCRF(arrays[0], lengths, **further)
        weights = torch.linspace(-1, 1, ours.scores.numel()).sin().view_as(ours.scores).to(ours.scores)
        product = torch.autograd.grad((ours.marginals() * weights).sum(), arrays)
        sample = ours.sample((2,), generator=torch.Generator().manual_seed(2))
        return [ours.log_partition(), *torch.autograd.grad(ours.log_partition().sum(), arrays), *product, sample]

    compiled = answers()
    with plain_torch():
        expected = answers()
    for ours, theirs in zip(compiled, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("width", "labels"), [(1, 1), (3, 1), (2, 3), (30, 5)])
def test_thousands_of_words_are_counted(width: int, labels: int) -> None:
    n = 4000
    counts = [1]
    for _ in range(n):
        counts.append(labels * sum(counts[-width:]))
    exact = math.log(counts[n])
    zeros = [torch.zeros(shape, dtype=torch.float64) for shape in ((n, 2, labels), (labels, labels), (width, labels))]
    ours = SemiMarkovCRF(zeros[0], transition=zeros[1], duration=zeros[2])
    assert ours.log_partition().item() == pytest.approx(exact, rel=1e-13)
    # Uniform, so the entropy is the logarithm of the number.
    assert ours.entropy().item() == pytest.approx(exact, rel=1e-11)


def test_what_doubles_cannot_hold_is_computed_in_log_space() -> None:
    """A label far below the other, which the last word needs: its sum would be flushed to zero."""
    words, _, duration = terms(6, 3, 2)
    words = words.nan_to_num(neginf=0.0)
    words[:, :5, :, 1] -= 2000.0
    words[:, 5, :, 0] = -math.inf
    duration[0] = -math.inf
    arguments = {"transition": torch.tensor([[0.0, -math.inf], [0.0, 0.0]]).double(), "duration": duration}
    ours = SemiMarkovCRF(words, **arguments)
    with plain_torch():
        expected = ours.log_partition(), ours.marginals()
    torch.testing.assert_close((ours.log_partition(), ours.marginals()), expected)
    assert (expected[0] < -4000).all()


def test_segments_of_one_word_are_a_chain() -> None:
    unary, transition = random(5, 4, seed=0), random(4, 4, seed=1)
    chain = LinearChainCRF(unary, transition)
    ours = SemiMarkovCRF(unary.unsqueeze(-2), transition=transition)
    torch.testing.assert_close(ours.marginals().squeeze(-2), chain.marginals())
    torch.testing.assert_close((ours.log_partition(), ours.entropy()), (chain.log_partition(), chain.entropy()))


def test_a_transition_for_each_sentence() -> None:
    words, _, duration = terms(5, 3, 2, batch=3)
    transition = random(3, 2, 2, seed=5).requires_grad_()
    together = SemiMarkovCRF(words, transition=transition, duration=duration)
    alone = [SemiMarkovCRF(words[i], transition=transition[i], duration=duration) for i in range(3)]
    torch.testing.assert_close(together.log_partition(), torch.stack([each.log_partition() for each in alone]))
    torch.testing.assert_close(together[1].marginals(), alone[1].marginals())
    (slope,) = torch.autograd.grad(together.entropy().sum(), transition)
    expected = torch.autograd.grad(sum(each.entropy() for each in alone), transition)[0]
    torch.testing.assert_close(slope, expected)


def joined(*shape: int) -> SemiMarkovCRF:
    return SemiMarkovCRF(torch.zeros(shape), transition=torch.zeros(shape[-1], shape[-1]))


def summed(n: int = 3, width: int = 2, labels: int = 2) -> SemiMarkovCRF:
    arrays = (torch.zeros(labels, labels), torch.zeros(width, labels))
    return SemiMarkovCRF(torch.zeros(n, 2, labels), transition=arrays[0], duration=arrays[1])


def parts(*indices: tuple[int, int, int], like: SemiMarkovCRF) -> Tensor:
    used = torch.zeros(like.event_shape)
    for index in indices:
        used[index] = 1
    return used


REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: SemiMarkovCRF(torch.zeros(3, 2, 2), duration=torch.zeros(2, 2)), "duration without transition"),
    (lambda: joined(2, 2), r"scores of shape \(2, 2\): expected \(\.\.\., n, max_width, states\) with transition="),
    (
        lambda: SemiMarkovCRF(torch.zeros(3, 2, 2, 2), transition=torch.zeros(2, 3)),
        r"transition of shape \(2, 3\): expected \(states, 2\).* the batch axes \(3,\) in front",
    ),
    (
        lambda: SemiMarkovCRF(torch.zeros(4, 3, 2, 2), transition=torch.zeros(3, 2, 2)),
        r"transition of shape \(3, 2, 2\)",
    ),
    (
        lambda: SemiMarkovCRF(torch.zeros(5, 3, 2), transition=torch.zeros(2, 2), duration=torch.zeros(4, 2)),
        r"scores of shape \(5, 3, 2\): expected \(\.\.\., n, 2, states\) with .* and duration=\(max_width, states\)",
    ),
    (
        lambda: SemiMarkovCRF(torch.zeros(5, 2, 2), transition=torch.zeros(2, 2), duration=torch.zeros(0, 2)),
        r"duration of shape \(0, 2\): expected \(max_width, 2\)",
    ),
    (
        lambda: SemiMarkovCRF(torch.zeros(5, 2, 2), transition=torch.zeros(2, 2).long()),
        "transition of type torch.int64: expected floating-point",
    ),
    (
        lambda: SemiMarkovCRF(torch.zeros(5, 2, 2), transition=torch.full((2, 2), math.nan)),
        "4 of 4 scores are nan",
    ),
    (lambda: summed().log_prob(torch.tensor([[0, 3, 0]])), "a segment has 3 words: expected at most 2"),
    (lambda: summed().log_prob(torch.tensor([[0, 2, 0], [1, 3, 0]])), "word 1 has 0 parts"),
    (lambda: summed().log_prob(torch.tensor([[0, 1, 0], [0, 1, 1], [1, 3, 0]])), "word 1 has 0 parts"),
    (lambda: summed().log_prob(torch.tensor([[0, 1, 0], [2, 3, 0]])), "word 2 has 0 parts"),
    (lambda: summed().log_prob(torch.tensor([[1, 3, 0]])), "word 1 has 0 parts"),
    (
        lambda: summed().log_prob(parts((0, 0, 0), (1, 1, 1), (2, 0, 0), like=summed())),
        "word 2 goes on with a segment of label 1 after a word with label 0",
    ),
    (
        lambda: summed().log_prob(parts((0, 1, 0), (1, 0, 1), (2, 0, 0), like=summed())),
        "word 1 goes on with a segment of label 0 after nothing",
    ),
    (
        lambda: summed().log_prob(parts((0, 0, 0), (1, 1, 0), (2, 1, 0), like=summed())),
        "the segment of word 3 has more than 2 words",
    ),
    (
        lambda: joined(3, 2, 2).log_prob(parts((0, 1, 0), like=joined(3, 2, 2))),
        "the segments end after word 2: expected 3",
    ),
    (
        lambda: joined(3, 2, 2).log_prob(parts((0, 0, 0), (2, 0, 0), like=joined(3, 2, 2))),
        "a segment starts at word 3: expected word 2",
    ),
]


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=range(len(REFUSED)))
def test_what_is_refused(call: Callable[[], object], message: str) -> None:
    # Without the tests' own checks of types, which would refuse some of them first.
    plain = inspect.unwrap(vars(SemiMarkovCRF)["__init__"])
    with patch.object(SemiMarkovCRF, "__init__", plain), pytest.raises(ValueError, match=message):
        call()
