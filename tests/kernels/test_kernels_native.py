"""Compiled kernels against their plain-torch twins: the same numbers, at any spread, on any number of threads."""

import logging
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

from structattn.distributions import ConstituencyCRF, DependencyCRF, SemiMarkovCRF, StructuredDistribution
from structattn.kernels import native, plain_torch, programs
from structattn.kernels.native import compile_library
from structattn.testing import DISTRIBUTION_LAWS, Family
from structures_by_hand import FAMILIES as EVERY_FAMILY

compiled = pytest.mark.skipif(not native.status().active, reason="nothing is compiled here")


def projective(scores: Tensor, lengths: Tensor | None = None) -> StructuredDistribution:
    return DependencyCRF(scores, lengths)


def projective_single_root(scores: Tensor, lengths: Tensor | None = None) -> StructuredDistribution:
    return DependencyCRF(scores, lengths, single_root=True)


# Distribution, and shape of the scores of n words.
FAMILIES: dict[str, tuple[Callable[..., StructuredDistribution], Callable[[int], tuple[int, ...]]]] = {
    "projective": (projective, lambda n: (n, n + 1)),
    "projective, single root": (projective_single_root, lambda n: (n, n + 1)),
    "phrases": (ConstituencyCRF, lambda n: (n + 1, n + 1)),
    "segments": (SemiMarkovCRF, lambda n: (n, 4, 3, 3)),
}
every_family = pytest.mark.parametrize("name", FAMILIES)


def random_scores(name: str, n: int, *batch: int, seed: int = 0, spread: float = 1.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return spread * torch.randn(*batch, *FAMILIES[name][1](n), generator=generator, dtype=torch.float64)


def first_words(name: str, scores: Tensor, n: int) -> Tensor:
    return scores[(slice(None), *map(slice, FAMILIES[name][1](n)))]


def evaluated(name: str, scores: Tensor, lengths: Tensor | None = None) -> dict[str, Tensor]:
    """Everything that a kernel computes: values, both gradients, and the score of a best structure."""
    scores = scores.clone().requires_grad_()
    ours = FAMILIES[name][0](scores, lengths)
    log_partition, marginals = ours.log_partition(), ours.marginals()
    weights = torch.linspace(-1, 1, marginals.numel()).sin().to(marginals.dtype).view_as(marginals)
    found = {"log_partition": log_partition, "marginals": marginals}
    signs = torch.linspace(-1, 1, len(scores)).to(scores.dtype)
    (found["gradient"],) = torch.autograd.grad((log_partition * signs).sum(), scores)
    (found["product"],) = torch.autograd.grad((marginals * weights).sum(), scores)
    best = ours.argmax()
    assert ((best == 0) | (best == 1)).all()
    found["argmax"] = (best * scores.masked_fill(scores == -torch.inf, -1e9)).flatten(1).nansum(-1)
    found["argmax"] = found["argmax"].masked_fill(best.flatten(1).sum(-1) == 0, -torch.inf)
    return {key: value.detach() for key, value in found.items()}


def compare(name: str, scores: Tensor, lengths: Tensor | None = None, *, tolerance: float = 1e-10) -> dict[str, Tensor]:
    ours = evaluated(name, scores, lengths)
    with plain_torch():
        twin = evaluated(name, scores, lengths)
    for key, value in ours.items():
        assert not torch.isnan(value).any(), key
        scale = 1 + twin[key].nan_to_num(neginf=0).abs().max().item() if twin[key].numel() else 1
        torch.testing.assert_close(
            value, twin[key], atol=tolerance * scale, rtol=0, msg=lambda text, key=key: key + text
        )
    return ours


@compiled
@every_family
@pytest.mark.parametrize("forbidden", [0.0, 0.3, 0.8])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_programs_agree_for_all_lengths_and_forbidden_parts(name: str, forbidden: float, dtype: torch.dtype) -> None:
    n, batch = 7, 22
    scores = random_scores(name, n, batch, seed=1, spread=3.0)
    scores[torch.rand(scores.shape, generator=torch.Generator().manual_seed(2)) < forbidden] = -torch.inf
    ours = compare(
        name, scores.to(dtype), torch.arange(batch) % (n + 1), tolerance=1e-10 if dtype.itemsize == 8 else 1e-5
    )
    assert (ours["product"][scores == -torch.inf] == 0).all()
    assert (ours["marginals"][scores == -torch.inf] == 0).all()
    impossible = ours["log_partition"] == -torch.inf
    # So many segments lead to a word that some of them are left.
    assert impossible.any() == (forbidden > (0.3 if name == "segments" else 0))
    assert (ours["marginals"][impossible] == 0).all()


@compiled
@every_family
@pytest.mark.parametrize("spread", [1e-3, 5.0, 20.0, 300.0, 1e6])
def test_programs_agree_at_any_spread(name: str, spread: float) -> None:
    # Doubles are proved to be enough for some of these sentences only; the others get exponents of their own.
    scores = random_scores(name, 24, 3, seed=3, spread=spread)
    scores[2] = scores[2].sign() * spread
    compare(name, scores, torch.tensor([24, 17, 24]), tolerance=1e-9)


@compiled
@every_family
@pytest.mark.parametrize(
    ("n", "spread"),
    [
        (13, 30.0),
        (27, 30.0),
        (33, 10.0),
        (64, 10.0),
        (64, 30.0),
        (100, 3.0),
        (140, 1.0),
        pytest.param(210, 1.0, marks=pytest.mark.slow),
    ],
)
def test_programs_agree_where_weights_are_multiplied(name: str, n: int, spread: float) -> None:
    # Sums of doubles would leave their range here, if weights were only divided by what a best structure has.
    scores = random_scores(name, n, 5, seed=8, spread=spread)
    scores[3] /= spread
    scores[4, 2] = -torch.inf  # of such sentences some go on to exponents
    compare(name, scores, torch.tensor([n, n - 1, n // 2, n, n]), tolerance=1e-12)


@compiled
@every_family
def test_a_tree_with_a_wide_margin_keeps_its_small_probabilities(name: str) -> None:
    scores = random_scores(name, 12, 2, seed=4)
    best = FAMILIES[name][0](scores).argmax()
    compare(name, scores + 40 * best, tolerance=1e-13)


@compiled
@every_family
def test_neither_underflow_nor_overflow_in_long_sentences(name: str) -> None:
    for n, spread in ((80, 20.0), (150, 0.0), (150, 50.0)):
        scores = random_scores(name, n, 1, seed=5, spread=spread).float().requires_grad_()
        ours = FAMILIES[name][0](scores)
        log_partition, marginals = ours.log_partition(), ours.marginals()
        assert log_partition.detach() >= (ours.argmax() * scores.detach()).sum() - 1e-2
        # Words that the parts count for: every tree has 2 n - 1 phrases, or one arc for each word.
        words = torch.arange(1, 5).view(-1, 1, 1) if name == "segments" else 1
        total = 2 * n - 1 if name == "phrases" else n
        torch.testing.assert_close((marginals.detach() * words).sum(), torch.tensor(float(total)), atol=1e-3, rtol=0)
        if name.startswith("projective"):
            torch.testing.assert_close(marginals.detach().sum(-1), torch.ones(1, n), atol=1e-5, rtol=0)
        marginals.square().sum().backward()
        assert scores.grad is not None
        assert torch.isfinite(scores.grad).all()


@compiled
@every_family
@pytest.mark.parametrize("size", [1e-300, 1e-30, 1e30, 1e290])
def test_gradients_of_any_size(name: str, size: float) -> None:
    scores = random_scores(name, 5, 2, seed=6).requires_grad_()
    weights = random_scores(name, 5, 2, seed=7)
    marginals = FAMILIES[name][0](scores).marginals()
    (usual,) = torch.autograd.grad(marginals, scores, weights, retain_graph=True)
    (scaled,) = torch.autograd.grad(marginals, scores, weights * size)
    torch.testing.assert_close(scaled / size, usual, atol=1e-14, rtol=1e-9)


@compiled
@every_family
def test_huge_scores_on_every_part(name: str) -> None:
    scores = 1e30 * random_scores(name, 6, 4, seed=8).sign()
    ours = evaluated(name, scores)
    assert all(torch.isfinite(value).all() for value in ours.values())
    assert ((ours["marginals"] >= 0) & (ours["marginals"] <= 1)).all()
    assert (ours["log_partition"] > -torch.inf).all()


@compiled
@every_family
def test_threads_change_nothing_and_the_scores_are_left_alone(name: str) -> None:
    # Long enough to wake a second thread.
    n = 30
    scores = random_scores(name, n, 13, seed=9, spread=6.0)
    lengths = torch.tensor([30, 1, 0, 7, 30, 29, 12, 3, 3, 18, 2, 30, 5])
    before, threads = scores.clone(), torch.get_num_threads()
    results = []
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            results.append(evaluated(name, scores, lengths))
    finally:
        torch.set_num_threads(threads)
    for key, value in results[0].items():
        assert torch.equal(value, results[1][key]), key
    assert torch.equal(scores, before)
    alone = evaluated(name, first_words(name, scores[3:4], 7))
    inner = first_words(name, results[0]["marginals"][3:4], 7)
    torch.testing.assert_close(alone["marginals"], inner, atol=1e-14, rtol=0)


@compiled
def test_a_best_tree_among_many_equal_ones() -> None:
    for name in FAMILIES:
        ours = FAMILIES[name][0](torch.zeros(1, *FAMILIES[name][1](6)))
        assert math.isfinite(ours.log_prob(ours.argmax()))


def test_plain_torch_can_be_requested() -> None:
    with plain_torch():
        assert not native.status().active
        assert programs.find_compiled("dependency_marginals", torch.zeros(1), pointers=4, numbers=3) is None
        assert round(DependencyCRF(torch.zeros(3, 4)).log_partition().exp().item()) == 12
    assert (
        programs.find_compiled("dependency_marginals", torch.zeros(1, dtype=torch.int64), pointers=4, numbers=3) is None
    )
    assert programs.find_compiled("no_such_kernel", torch.zeros(1), pointers=4, numbers=3) is None


@pytest.fixture
def fresh_loader() -> Iterator[None]:
    caches = (programs._bind, native._usable_library, native._library)
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()


@pytest.mark.usefixtures("fresh_loader")
def test_without_a_library_one_line_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(native, "HERE", tmp_path)
    with caplog.at_level(logging.WARNING, logger="structattn"):
        for _ in range(2):
            trees = DependencyCRF(torch.zeros(3, 4))
            assert round(trees.log_partition().exp().item()) == 12
            assert trees.argmax().sum() == 3
    assert len(caplog.records) == 1
    assert "plain torch" in caplog.text
    assert "python -m structattn.kernels.native" in native.status().reason


@pytest.mark.usefixtures("fresh_loader")
def test_a_damaged_library_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / f"libstructattn{compile_library.SUFFIX}").write_bytes(b"no library")
    monkeypatch.setattr(native, "HERE", tmp_path)
    status = native.status()
    assert not status.active
    assert "cannot be loaded" in status.reason


@pytest.mark.integration
@pytest.mark.parametrize("command", ["false", "no-such-compiler", ""])
def test_without_a_compiler_there_is_no_library_and_no_trace(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", command)
    if not command:
        monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(compile_library.BuildError, match=r"ended with status 1|cannot be run|no C\+\+ compiler"):
        compile_library.build(tmp_path / "built")
    assert not list(tmp_path.rglob("*libstructattn*"))


@pytest.mark.integration
def test_libraries_newer_than_the_sources_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "false")
    libraries = [tmp_path / (name + compile_library.SUFFIX) for name in compile_library.variants()]
    for path in libraries:
        path.touch()
    assert compile_library.build(tmp_path) == libraries
    os.utime(libraries[0], (0, 0))
    with pytest.raises(compile_library.BuildError):
        compile_library.build(tmp_path)


@compiled
@every_family
def test_a_retained_graph_gives_the_same_gradients_again(name: str) -> None:
    """The gradient of a log-partition takes the memory of the marginals; the second time there are none."""
    scores = random_scores(name, 5, 4).requires_grad_()
    log_partition = FAMILIES[name][0](scores).log_partition()
    once = torch.autograd.grad(log_partition.sum(), scores, retain_graph=True)[0]
    kept = once.clone()
    twice = torch.autograd.grad(log_partition.sum(), scores, retain_graph=True)[0]
    with_graph = torch.autograd.grad(log_partition.sum(), scores, create_graph=True)[0]
    for found in (once, twice, with_graph):
        torch.testing.assert_close(found, kept, atol=1e-12, rtol=0)
    with torch.no_grad():
        torch.testing.assert_close(FAMILIES[name][0](scores).marginals(), kept, atol=1e-12, rtol=0)


@compiled
@pytest.mark.parametrize("law", DISTRIBUTION_LAWS.values(), ids=DISTRIBUTION_LAWS)
@pytest.mark.parametrize("family", [f for f in EVERY_FAMILY if f.name in FAMILIES], ids=lambda family: family.name)
def test_the_laws_hold_in_plain_torch_too(family: Family, law: Callable[[Family], None]) -> None:
    with plain_torch():
        law(family)


def test_the_command_says_by_its_exit_code_whether_there_is_a_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_library, "build", lambda: [compile_library.HERE / "made"])
    assert compile_library.main() == 0

    def fail() -> None:
        raise compile_library.BuildError("no C++ compiler")

    monkeypatch.setattr(compile_library, "build", fail)
    assert compile_library.main() == 1


@compiled
def test_the_command_that_compiles_warns_of_nothing() -> None:
    libraries = [str(compile_library.HERE / (name + compile_library.SUFFIX)) for name in compile_library.variants()]
    words = [sys.executable, "-W", "error::RuntimeWarning", "-m", "structattn.kernels.native"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr, done.stdout.splitlines()) == (0, "", libraries)
