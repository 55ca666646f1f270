"""The brute-force twin of `structattn.distributions`: every structure written down, every sum taken over the list."""

import itertools
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor

from structattn.distributions import (
    ConstituencyCRF,
    DependencyCRF,
    LinearChainCRF,
    NonProjectiveDependencyCRF,
    SemiMarkovCRF,
    StructuredDistribution,
)

STATES = 3
LABELS = 2
MAX_WIDTH = 3


class Enumerated:
    """A distribution over a list of structures: ``used (structure, part)``, ``scores (..., part)``."""

    def __init__(self, used: Tensor, scores: Tensor) -> None:
        finite = scores.masked_fill(scores == -torch.inf, 0)
        forbidden = (scores == -torch.inf).double() @ used.T
        self.used = used
        self.values = (finite @ used.T).masked_fill(forbidden > 0, -torch.inf)

    def log_partition(self) -> Tensor:
        return self.values.logsumexp(-1)

    def probabilities(self) -> Tensor:
        return self.values.softmax(-1).nan_to_num(0)

    def marginals(self) -> Tensor:
        return self.probabilities() @ self.used

    def entropy(self) -> Tensor:
        return torch.special.entr(self.probabilities()).sum(-1)

    def cross_entropy(self, other: "Enumerated") -> Tensor:
        log_q = (other.values - other.log_partition().unsqueeze(-1)).nan_to_num(nan=-torch.inf, neginf=-torch.inf)
        p = self.probabilities()
        return -torch.where(p > 0, p * log_q, 0).sum(-1)

    def log_count(self) -> Tensor:
        return (self.values > -torch.inf).double().sum(-1).log()

    def topk_scores(self, count: int) -> Tensor:
        best = self.values.sort(-1, descending=True).values[..., :count]
        missing = best.new_full((*best.shape[:-1], count - best.shape[-1]), -torch.inf)
        return torch.cat([best, missing], -1).movedim(-1, 0)


def is_tree(heads: tuple[int, ...]) -> bool:
    for node in range(1, len(heads) + 1):
        seen = set()
        while node:
            if node in seen:
                return False
            seen.add(node)
            node = heads[node - 1]
    return True


def is_projective(heads: tuple[int, ...]) -> bool:
    arcs = [(min(h, m), max(h, m)) for m, h in enumerate(heads, 1)]
    return not any(a < c < b < d for (a, b), (c, d) in itertools.permutations(arcs, 2))


def all_heads(n: int, *, projective: bool, single_root: bool) -> list[tuple[int, ...]]:
    return [
        heads
        for heads in itertools.product(range(n + 1), repeat=n)
        if is_tree(heads) and (is_projective(heads) or not projective) and (not single_root or heads.count(0) <= 1)
    ]


def all_binary_trees(start: int, end: int) -> Iterator[list[tuple[int, int]]]:
    if end - start <= 1:
        yield [(start, end)] if end > start else []
        return
    for middle in range(start + 1, end):
        for left in all_binary_trees(start, middle):
            for right in all_binary_trees(middle, end):
                yield [(start, end), *left, *right]


def all_segmentations(n: int) -> Iterator[list[tuple[int, int, int]]]:
    """Segments ``(start, end, label)``."""
    if n == 0:
        yield []
        return
    for width in range(1, min(n, MAX_WIDTH) + 1):
        for earlier in all_segmentations(n - width):
            for label in range(LABELS):
                yield [*earlier, (n - width, n, label)]


def one_hot_rows(shape: tuple[int, ...], structures: list[list[tuple[int, ...]]]) -> Tensor:
    """Parts of structures that are lists of indices."""
    used = torch.zeros(len(structures), *shape, dtype=torch.float64)
    for row, indices in zip(used, structures, strict=True):
        for index in indices:
            row[index] = 1
    return used


@dataclass(frozen=True)
class Family:
    """A family of distributions, as the laws see it; a new one inherits all of them by an entry in `FAMILIES`."""

    #: Names the tests of the family.
    name: str
    #: For ``n`` words, the shapes of the potentials of one sentence: its arrays of scores, without batch axes.
    shapes: Callable[[int], list[tuple[int, ...]]]
    #: ``build(*potentials, lengths=None, validate_args=None)`` makes a distribution, with the options below.
    build: Callable[..., StructuredDistribution]
    #: Every structure of a sentence of ``length`` words, by brute force: for each potential of ``n >= length`` words,
    #: ``list_parts(length, n)`` has a tensor of 0 and 1, ``(structure, *shape)``. The laws call it for up to 5 words.
    list_parts: Callable[[int, int], list[Tensor]]
    #: The number of structures of ``n >= 1`` words, in closed form or by a recursion: the laws call it for 50 words, of
    #: which no enumeration comes to an end. Call `count` instead, which fails after some seconds.
    counts: Callable[[int], int]
    #: The options that ``build`` sets, as the ``repr`` of the distribution shows them, in its order.
    options: Mapping[str, object] = field(default_factory=dict)
    #: Which potentials all sentences of a batch share.
    shared: Sequence[int] = ()

    def count(self, n: int, *, seconds: float = 10.0) -> int:
        """The number of structures of ``n`` words; a failure with a message if ``counts`` takes too long."""

        def fail(*_: object) -> None:
            pytest.fail(
                f"`counts` of the family {self.name!r} took more than {seconds} seconds for {n} words: "
                "expected a closed form or a recursion, not an enumeration"
            )

        if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
            return self.counts(n)
        previous = signal.signal(signal.SIGALRM, fail)
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            return self.counts(n)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, previous)

    def random(self, n: int, *batch: int, seed: int = 0, spread: float = 2.0, forbidden: float = 0.0) -> list[Tensor]:
        generator = torch.Generator().manual_seed(seed)
        potentials = []
        for index, shape in enumerate(self.shapes(n)):
            axes = () if index in self.shared else batch
            scores = spread * torch.randn(*axes, *shape, generator=generator, dtype=torch.float64)
            mask = torch.rand(scores.shape, generator=generator) < forbidden
            potentials.append(scores.masked_fill(mask, -torch.inf))
        return potentials

    def by_hand(self, potentials: list[Tensor], length: int, n: int) -> Enumerated:
        parts = self.list_parts(length, n)
        dims = [used.dim() - 1 for used in parts]
        scores = [scores.flatten(scores.dim() - dim) for scores, dim in zip(potentials, dims, strict=True)]
        batch = torch.broadcast_shapes(*(s.shape[:-1] for s in scores))
        scores = torch.cat([s.expand(*batch, s.shape[-1]) for s in scores], -1)
        return Enumerated(torch.cat([used.flatten(1) for used in parts], 1), scores)


def _chain(n: int, *, shared: bool) -> list[tuple[int, ...]]:
    return [(n, STATES), (STATES, STATES) if shared else (max(n - 1, 0), STATES, STATES)]


def _chain_parts(length: int, n: int, *, shared: bool) -> list[Tensor]:
    tags = list(itertools.product(range(STATES), repeat=length))
    states = one_hot_rows((n, STATES), [list(enumerate(sequence)) for sequence in tags])
    edges = torch.zeros(len(tags), max(n - 1, 0), STATES, STATES, dtype=torch.float64)
    for row, sequence in zip(edges, tags, strict=True):
        for i in range(length - 1):
            row[i, sequence[i], sequence[i + 1]] = 1
    return [states, edges.sum(1) if shared else edges]


def _segment_parts(length: int, n: int) -> list[Tensor]:
    structures = []
    for segments in all_segmentations(length):
        before = 0
        indices = []
        for start, end, label in segments:
            indices.append((start, end - start - 1, before, label))
            before = label
        structures.append(indices)
    return [one_hot_rows((n, MAX_WIDTH, LABELS, LABELS), structures)]


def _tree_parts(length: int, n: int, **options: bool) -> list[Tensor]:
    structures = [list(enumerate(heads)) for heads in all_heads(length, **options)]
    return [one_hot_rows((n, n + 1), structures)]


def _phrase_parts(length: int, n: int) -> list[Tensor]:
    return [one_hot_rows((n + 1, n + 1), list(all_binary_trees(0, length)))]


def _dependency(name: str, kind: type, *, projective: bool, single_root: bool, counts: Callable[[int], int]) -> Family:
    return Family(
        name,
        lambda n: [(n, n + 1)],
        lambda scores, lengths=None, **options: kind(scores, lengths, single_root=single_root, **options),
        lambda length, n: _tree_parts(length, n, projective=projective, single_root=single_root),
        counts,
        {"single_root": single_root},
    )


class ShortArcs(DependencyCRF):
    """Projective trees whose arcs between words are short: a distribution with an option of its own."""

    def __init__(
        self,
        scores: Tensor,
        lengths: Tensor | Sequence[int] | int | None = None,
        *,
        max_distance: int,
        **options: bool,
    ) -> None:
        self.max_distance = max_distance
        super().__init__(scores, lengths, **options)

    def forbidden_parts(self) -> list[Tensor]:
        head = torch.arange(self.event_shape[-1], device=self.lengths.device)
        distance = (head - head[1:, None]).abs()
        return [(head > 0) & (distance > self.max_distance)]


def _short_arc_parts(length: int, n: int) -> list[Tensor]:
    """Heads next to their words, or the root: such trees are always projective."""
    trees = all_heads(length, projective=True, single_root=False)
    short = [heads for heads in trees if all(abs(head - word) == 1 or not head for word, head in enumerate(heads, 1))]
    return [one_hot_rows((n, n + 1), [list(enumerate(heads)) for heads in short])]


def _fibonacci(n: int) -> int:
    first, second = 0, 1
    for _ in range(n):
        first, second = second, first + second
    return first


def binomial(n: int, k: int) -> int:
    result = 1
    for i in range(k):
        result = result * (n - i) // (i + 1)
    return result


def _segment_count(n: int) -> int:
    counts = [1]
    for end in range(1, n + 1):
        counts.append(LABELS * sum(counts[max(end - MAX_WIDTH, 0) : end]))
    return counts[n]


FAMILIES = [
    Family(
        "chain",
        lambda n: _chain(n, shared=True),
        lambda *potentials, **options: LinearChainCRF(
            potentials[0], potentials[1], potentials[2] if len(potentials) > 2 else None, **options
        ),
        lambda length, n: _chain_parts(length, n, shared=True),
        lambda n: STATES**n,
        # A transition matrix that all positions share is shared by all sentences, too.
        shared=(1,),
    ),
    Family(
        "chain with a matrix for each position",
        lambda n: _chain(n, shared=False),
        lambda *potentials, **options: LinearChainCRF(
            potentials[0], potentials[1], potentials[2] if len(potentials) > 2 else None, **options
        ),
        lambda length, n: _chain_parts(length, n, shared=False),
        lambda n: STATES**n,
    ),
    Family(
        "segments",
        lambda n: [(n, MAX_WIDTH, LABELS, LABELS)],
        SemiMarkovCRF,
        _segment_parts,
        _segment_count,
    ),
    _dependency(
        "projective",
        DependencyCRF,
        projective=True,
        single_root=False,
        counts=lambda n: binomial(3 * n, n) // (2 * n + 1),
    ),
    _dependency(
        "projective, single root",
        DependencyCRF,
        projective=True,
        single_root=True,
        counts=lambda n: binomial(3 * n - 2, n - 1) // n,
    ),
    _dependency(
        "spanning",
        NonProjectiveDependencyCRF,
        projective=False,
        single_root=False,
        counts=lambda n: (n + 1) ** (n - 1),
    ),
    _dependency(
        "spanning, single root",
        NonProjectiveDependencyCRF,
        projective=False,
        single_root=True,
        counts=lambda n: n ** (n - 1),
    ),
    Family(
        "phrases",
        lambda n: [(n + 1, n + 1)],
        ConstituencyCRF,
        _phrase_parts,
        lambda n: binomial(2 * n - 2, n - 1) // n,
    ),
    Family(
        "projective, short arcs",
        lambda n: [(n, n + 1)],
        lambda scores, lengths=None, **options: ShortArcs(scores, lengths, max_distance=1, **options),
        _short_arc_parts,
        # Words fall into stretches, of each of which any word is attached to the root and the others are determined.
        lambda n: _fibonacci(2 * n),
        {"max_distance": 1, "single_root": False},
    ),
]
