"""Contenders take turns in one process, so that a busy machine slows all of them alike; wrong answers are not timed.

A contender is one library on one input: for each mode a call that is timed, and a way to read what it returned in our
layout. The first contender is the reference for the answers of the others.

Modes: ``train`` is the log-partition and its gradient, ``marg`` the marginals, ``attn`` the gradient of the marginals
contracted with random weights (structured attention: a second derivative), ``argmax`` the best structure, ``topk`` the
five best, ``sample`` one random structure, ``entropy`` and ``kl`` the entropy and the divergence from the distribution
with those weights as its scores.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

from benchmarks.turns import seconds

MODES = ("train", "marg", "attn", "argmax", "topk", "sample", "entropy", "kl")
# How many structures `topk` finds.
COUNT = 5
# Peers compute in float32, and torch-struct adds 1e-5 to what it inverts.
TOLERANCE = 5e-3
SMALLEST_TURN = 2e-3


@dataclass(frozen=True)
class Contender:
    """One library on one input; ``prepare`` compiles the call of a mode, where there is anything to compile."""

    name: str
    calls: dict[str, Callable[[], Any]]
    read: Callable[[str, Any], list[Tensor]]
    prepare: Callable[[str], object] = lambda mode: None


@dataclass(frozen=True)
class Row:
    """A family of structures, the inputs it is timed on, and who competes.

    Attributes:
        growth: the number of scores grows with this power of the words.
        left_out: contenders that are known to take seconds, and from which size on.
        uneven: sizes that are no round numbers, for libraries that do not compile for each.
    """

    letter: str
    title: str
    axes: tuple[str, ...]
    sizes: tuple[tuple[int, ...], ...]
    batch: int
    build: Callable[[int, tuple[int, ...], str], Contender]
    names: tuple[str, ...]
    growth: int = 2
    left_out: tuple[tuple[str, tuple[int, ...]], ...] = ()
    uneven: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class Result:
    """Milliseconds of one contender on one input, or why there are none."""

    row: str
    size: tuple[int, ...]
    mode: str
    threads: int
    name: str
    median: float | None = None
    fastest: float | None = None
    runs: int = 0
    difference: float | None = None
    note: str = ""


@dataclass
class Pace:
    """How often and how long a contender may run, and what was too slow already."""

    repeats: int
    seconds: float
    limit: float
    too_slow: list[tuple[str, str, tuple[int, ...]]] = field(default_factory=list)

    def gave_up(self, name: str, mode: str, size: tuple[int, ...]) -> bool:
        """Whether the contender took too long on an input that was no larger along any axis."""
        return any(
            (name, mode) == slow[:2] and all(a <= b for a, b in zip(slow[2], size, strict=True))
            for slow in self.too_slow
        )


def compete(row: str, contenders: Sequence[Contender], size: tuple[int, ...], mode: str, pace: Pace) -> list[Result]:
    """Check the answers of one mode, then time whoever is right."""
    threads = torch.get_num_threads()
    results: list[Result] = []
    running: list[tuple[Contender, int, list[float], float]] = []
    expected: list[Tensor] | None = None
    for contender in contenders:
        if mode not in contender.calls:
            continue
        result = Result(row, size, mode, threads, contender.name)
        if pace.gave_up(contender.name, mode, size):
            results.append(Result(**{**vars(result), "note": f"over {pace.limit:g} s"}))
            continue
        contender.prepare(mode)
        start = time.perf_counter()
        returned = contender.calls[mode]()
        first = time.perf_counter() - start
        answer = contender.read(mode, returned)
        expected = answer if expected is None else expected
        gap = max(_gap(a, b) for a, b in zip(answer, expected, strict=True))
        if gap > TOLERANCE:
            results.append(Result(**{**vars(result), "difference": gap, "note": "wrong answer"}))
            continue
        # The first call may have loaded something; where it is long that hardly matters.
        once = first if first > pace.limit else seconds(contender.calls[mode])
        if once > pace.limit:
            pace.too_slow.append((contender.name, mode, size))
        running.append((contender, max(1, int(SMALLEST_TURN / once)), [once] if once > pace.seconds else [], gap))
    start = time.perf_counter()
    for turn in range(pace.repeats):
        first_one = turn % max(len(running), 1)
        for contender, count, times, _ in running[first_one:] + running[:first_one]:
            if not times or sum(times) * count < pace.seconds:
                times.append(seconds(contender.calls[mode], count))
        if time.perf_counter() - start > pace.seconds * len(running):
            break
    for contender, _, times, gap in running:
        median, fastest = 1000 * statistics.median(times), 1000 * min(times)
        results.append(Result(row, size, mode, threads, contender.name, median, fastest, len(times), gap))
    return sorted(results, key=lambda result: [c.name for c in contenders].index(result.name))


def torch_contender(
    name: str,
    inputs: Sequence[Tensor],
    weight: Tensor,
    *,
    log_partition: Callable[..., Tensor],
    marginals: Callable[..., Tensor] | None,
    argmax: Callable[..., Any] | None,
    topk: Callable[..., Any] | None = None,
    sample: Callable[..., Tensor] | None = None,
    entropy: Callable[..., Tensor] | None = None,
    kl: Callable[..., Tensor] | None = None,
    parts: Callable[[Tensor], Tensor] = lambda parts: parts,
    best: Callable[[Any], Tensor] = lambda best: best,
    each_best: Callable[[Any], Sequence[Any]] = lambda answer: answer,
    size: Callable[[Tensor], Tensor] = lambda parts: parts.flatten(1).sum(-1),
) -> Contender:
    """A contender that is written in torch.

    Args:
        name: of the library.
        inputs: its potentials.
        weight: what the marginals are contracted with.
        log_partition: of the potentials.
        marginals: of the potentials; None if there is no such function.
        argmax: of the potentials; None if there is no such function. So are ``topk``, ``sample`` and ``entropy``.
        kl: of the potentials and the first one of the other distribution; None if there is no such function.
        parts: marginals and gradients of the first potential in our layout; random structures, too.
        best: the best structure in our layout.
        each_best: the answer of ``topk`` as best structures, one after the other.
        size: of random structures what all of them have in common, ``(batch,)``: their number of words, or of spans.
    """
    plain = [tensor.detach() for tensor in inputs]

    def leaves() -> list[Tensor]:
        return [tensor.detach().requires_grad_() for tensor in inputs]

    def train() -> tuple[Tensor, Tensor]:
        potentials = leaves()
        value = log_partition(*potentials)
        return value.detach(), torch.autograd.grad(value.sum(), potentials)[0]

    calls: dict[str, Callable[[], Any]] = {"train": train}
    if marginals is not None:

        def attend() -> Tensor:
            potentials = leaves()
            return torch.autograd.grad((marginals(*potentials) * weight).sum(), potentials)[0]

        calls |= {"marg": lambda: marginals(*plain), "attn": attend}
    for mode, function in (("argmax", argmax), ("topk", topk), ("sample", sample), ("entropy", entropy)):
        if function is not None:
            calls[mode] = partial(function, *plain)
    if kl is not None:
        calls["kl"] = partial(kl, *plain, weight)

    def read(mode: str, answer: Any) -> list[Tensor]:
        if mode == "train":
            return [answer[0], parts(answer[1])]
        if mode == "topk":
            return [torch.stack([best(structure).double() for structure in each_best(answer)])]
        if mode in ("entropy", "kl"):
            return [answer.detach()]
        if mode == "sample":
            return [size(parts(answer.detach()))]
        return [best(answer).double() if mode == "argmax" else parts(answer.detach())]

    return Contender(name, calls, read)


def jax_contender(
    name: str,
    potentials: Tensor,
    weight: Tensor,
    *,
    distribution: Callable[[Any], Any],
    parts: Callable[[Tensor], Tensor],
    best: Callable[[Tensor], Tensor],
) -> Contender:
    """A contender that is written in JAX; its functions are compiled, and compiling is not counted.

    Args:
        name: of the library.
        potentials: its potentials.
        weight: what the marginals are contracted with.
        distribution: of the potentials.
        parts: marginals and gradients in our layout.
        best: the best structure in our layout.
    """
    import jax

    scores, weights = jax.numpy.asarray(potentials.numpy()), jax.numpy.asarray(weight.numpy())
    functions = {
        "train": jax.value_and_grad(lambda s: distribution(s).log_partition().sum()),
        "marg": lambda s: distribution(s).marginals(),
        "attn": jax.grad(lambda s: (distribution(s).marginals() * weights).sum()),
        "argmax": lambda s: distribution(s).argmax(),
    }

    @cache
    def compiled(mode: str) -> Callable[[Any], Any]:
        return jax.jit(functions[mode]).lower(scores).compile()

    def call(mode: str) -> Any:
        return jax.block_until_ready(compiled(mode)(scores))

    def read(mode: str, answer: Any) -> list[Tensor]:
        if mode == "train":
            return [torch.tensor(answer[0].tolist()), parts(_tensor(answer[1]))]
        return [best(_tensor(answer)).double() if mode == "argmax" else parts(_tensor(answer))]

    return Contender(name, {mode: partial(call, mode) for mode in functions}, read, compiled)


def _tensor(array: Any) -> Tensor:
    import numpy

    return torch.from_numpy(numpy.array(array))


def _gap(answer: Tensor, expected: Tensor) -> float:
    """Largest difference, relative to numbers above one."""
    expected = expected.double().sum() if answer.dim() == 0 else expected.double()
    gap = (answer.double() - expected).abs() / expected.abs().clamp(min=1)
    return float(gap.max()) if gap.isfinite().all() else float("inf")
