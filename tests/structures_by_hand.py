"""Every structure of the families of `structattn.distributions`, written down, and the table of the families."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch
from torch import Tensor

from structattn.distributions import (
    AlignmentCRF,
    ConstituencyCRF,
    DependencyCRF,
    Labelled,
    LinearChainCRF,
    NonProjectiveDependencyCRF,
    SemiMarkovCRF,
    StructuredDistribution,
    WarpingCRF,
)
from structattn.testing import Family

STATES = 3
LABELS = 2
MAX_WIDTH = 3
KEYS = 4
#: Families in which no parts at all are a structure, which is always allowed.
MAY_BE_EMPTY = ("alignment", "alignment of four keys")
#: Families whose structures are rows of pairs, padded with -1, as (0, 0) is a pair.
PAIRS = (*MAY_BE_EMPTY, "warping")


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


def all_alignments(queries: int, keys: int) -> Iterator[list[tuple[int, int]]]:
    """As many queries as keys, each in their order."""
    for count in range(min(queries, keys) + 1):
        for some_queries in itertools.combinations(range(queries), count):
            for some_keys in itertools.combinations(range(keys), count):
                yield list(zip(some_queries, some_keys, strict=True))


def all_warpings(queries: int, keys: int) -> Iterator[list[tuple[int, int]]]:
    """Paths to the last cell, by their last step."""
    if queries <= 1 and keys <= 1:
        if queries == keys:
            yield [(0, 0)] * queries
        return
    for query, key in ((1, 0), (0, 1), (1, 1)):
        if query < queries and key < keys:
            for path in all_warpings(queries - query, keys - key):
                yield [*path, (queries - 1, keys - 1)]


def delannoy(n: int, m: int) -> int:
    """The number of paths by steps to the right, down, and both."""
    return sum(binomial(n, k) * binomial(m, k) * 2**k for k in range(min(n, m) + 1))


def as_many_keys(kind: type) -> Callable[..., StructuredDistribution]:
    """The constructor of a family of pairs in which each item has as many keys as queries."""
    return lambda scores, lengths=None, **options: kind(scores, lengths, lengths, **options)


def one_hot_rows(shape: tuple[int, ...], structures: list[list[tuple[int, ...]]]) -> Tensor:
    """How often structures that are lists of indices use each part."""
    used = torch.zeros(len(structures), *shape, dtype=torch.float64)
    for row, indices in zip(used, structures, strict=True):
        for index in indices:
            row[index] += 1
    return used


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


def _transitions(structures: list[list[tuple[int, int, int]]]) -> Tensor:
    return one_hot_rows((LABELS, LABELS), [[(a[2], b[2]) for a, b in itertools.pairwise(each)] for each in structures])


def _joined_parts(length: int, n: int) -> list[Tensor]:
    structures = list(all_segmentations(length))
    segments = [[(start, end - start - 1, label) for start, end, label in each] for each in structures]
    return [one_hot_rows((n, MAX_WIDTH, LABELS), segments), _transitions(structures)]


def _summed_parts(length: int, n: int) -> list[Tensor]:
    structures = list(all_segmentations(length))
    words = [
        [(i, int(i > start), label) for start, end, label in each for i in range(start, end)] for each in structures
    ]
    widths = [[(end - start - 1, label) for start, end, label in each] for each in structures]
    return [one_hot_rows((n, 2, LABELS), words), _transitions(structures), one_hot_rows((MAX_WIDTH, LABELS), widths)]


def _summed(
    scores: Tensor, transition: Tensor, duration: Tensor, lengths: Tensor | None = None, **options: bool | None
) -> SemiMarkovCRF:
    return SemiMarkovCRF(scores, lengths, transition=transition, duration=duration, **options)


def _joined(scores: Tensor, transition: Tensor, lengths: Tensor | None = None, **options: bool | None) -> SemiMarkovCRF:
    return SemiMarkovCRF(scores, lengths, transition=transition, **options)


def _tree_parts(length: int, n: int, **options: bool) -> list[Tensor]:
    structures = [list(enumerate(heads)) for heads in all_heads(length, **options)]
    return [one_hot_rows((n, n + 1), structures)]


def _phrase_parts(length: int, n: int) -> list[Tensor]:
    return [one_hot_rows((n + 1, n + 1), list(all_binary_trees(0, length)))]


def _dependency(name: str, kind: type, *, projective: bool, single_root: bool, count: Callable[[int], int]) -> Family:
    return Family(
        name,
        lambda n: [(n, n + 1)],
        partial(kind, single_root=single_root),
        lambda length, n: _tree_parts(length, n, projective=projective, single_root=single_root),
        count,
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


def _with_labels(parts: Tensor) -> Tensor:
    """Structures, ``(structure, *shape)``, with every assignment of labels to their parts."""
    labelled = []
    for structure in parts:
        used = structure.nonzero()
        for labels in itertools.product(range(LABELS), repeat=len(used)):
            row = torch.zeros(*structure.shape, LABELS, dtype=torch.float64)
            for index, label in zip(used.tolist(), labels, strict=True):
                row[(*index, label)] = 1
            labelled.append(row)
    return torch.stack(labelled)


def _labelled(family: Family, kind: str, count: Callable[[int], int]) -> Family:
    """Structures of a family that has one array of scores, with labels; ``count`` is the number of parts of one."""

    def build(scores: Tensor, lengths: Tensor | None = None, **options: bool | None) -> Labelled:
        return Labelled(family.build, scores, lengths, **options)

    number = family.count
    assert number is not None
    return Family(
        f"{family.name}, with labels",
        lambda n: [(*family.shapes(n)[0], LABELS)],
        build,
        lambda length, n: [_with_labels(family.list_parts(length, n)[0])],
        lambda n: number(n) * LABELS ** count(n),
        {"family": kind, **family.options},
    )


def _labelled_chain(unary: Tensor, transition: Tensor, lengths: Tensor | None = None, **options: bool) -> Labelled:
    return Labelled(LinearChainCRF, unary, lengths, transition=transition, **options)


def _labelled_chain_parts(length: int, n: int) -> list[Tensor]:
    states, edges = _chain_parts(length, n, shared=True)
    return [_with_labels(states), edges.repeat_interleave(LABELS**length, 0)]


def _labelled_segments(scores: Tensor, transition: Tensor, lengths: Tensor | None = None, **options: bool) -> Labelled:
    return Labelled(SemiMarkovCRF, scores, lengths, transition=transition, **options)


def _labelled_segment_parts(length: int, n: int) -> list[Tensor]:
    segments, transitions = _joined_parts(length, n)
    repeats = LABELS ** segments.flatten(1).sum(1).long()
    return [_with_labels(segments), transitions.repeat_interleave(repeats, 0)]


def _labelled_segment_count(n: int) -> int:
    counts = [1]
    for end in range(1, n + 1):
        counts.append(LABELS * LABELS * sum(counts[max(end - MAX_WIDTH, 0) : end]))
    return counts[n]


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
        LinearChainCRF,
        lambda length, n: _chain_parts(length, n, shared=True),
        lambda n: STATES**n,
        # A transition matrix that all positions share is shared by all sentences, too.
        shared=(1,),
    ),
    Family(
        "chain with a matrix for each position",
        lambda n: _chain(n, shared=False),
        LinearChainCRF,
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
    Family(
        "segments and transitions",
        lambda n: [(n, MAX_WIDTH, LABELS), (LABELS, LABELS)],
        _joined,
        _joined_parts,
        _segment_count,
        shared=(1,),
    ),
    Family(
        "segments as sums",
        lambda n: [(n, 2, LABELS), (LABELS, LABELS), (MAX_WIDTH, LABELS)],
        _summed,
        _summed_parts,
        _segment_count,
        shared=(1, 2),
    ),
    _dependency(
        "projective",
        DependencyCRF,
        projective=True,
        single_root=False,
        count=lambda n: binomial(3 * n, n) // (2 * n + 1),
    ),
    _dependency(
        "projective, single root",
        DependencyCRF,
        projective=True,
        single_root=True,
        count=lambda n: binomial(3 * n - 2, n - 1) // n,
    ),
    _dependency(
        "spanning",
        NonProjectiveDependencyCRF,
        projective=False,
        single_root=False,
        count=lambda n: (n + 1) ** (n - 1),
    ),
    _dependency(
        "spanning, single root",
        NonProjectiveDependencyCRF,
        projective=False,
        single_root=True,
        count=lambda n: n ** (n - 1),
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
        partial(ShortArcs, max_distance=1),
        _short_arc_parts,
        # Words fall into stretches, of each of which any word is attached to the root and the others are determined.
        lambda n: _fibonacci(2 * n),
        {"max_distance": 1, "single_root": False},
    ),
    Family(
        "alignment",
        lambda n: [(n, n)],
        as_many_keys(AlignmentCRF),
        lambda length, n: [one_hot_rows((n, n), list(all_alignments(length, length)))],
        lambda n: binomial(2 * n, n),
    ),
    Family(
        "alignment of four keys",
        lambda n: [(n, KEYS)],
        AlignmentCRF,
        lambda length, n: [one_hot_rows((n, KEYS), list(all_alignments(length, KEYS)))],
        lambda n: binomial(n + KEYS, KEYS),
    ),
    Family(
        "warping",
        lambda n: [(n, n)],
        as_many_keys(WarpingCRF),
        lambda length, n: [one_hot_rows((n, n), list(all_warpings(length, length)))],
        lambda n: delannoy(n - 1, n - 1),
    ),
]
_BY_NAME = {family.name: family for family in FAMILIES}
#: Families with labels on their parts, whose structures are pairs of tensors.
LABELLED = [
    _labelled(_BY_NAME["projective, single root"], "DependencyCRF", lambda n: n),
    _labelled(_BY_NAME["spanning"], "NonProjectiveDependencyCRF", lambda n: n),
    _labelled(_BY_NAME["phrases"], "ConstituencyCRF", lambda n: 2 * n - 1),
    Family(
        "chain, with labels",
        lambda n: [(n, STATES, LABELS), (STATES, STATES)],
        _labelled_chain,
        _labelled_chain_parts,
        lambda n: (STATES * LABELS) ** n,
        {"family": "LinearChainCRF"},
        shared=(1,),
    ),
    Family(
        "segments and transitions, with labels",
        lambda n: [(n, MAX_WIDTH, LABELS, LABELS), (LABELS, LABELS)],
        _labelled_segments,
        _labelled_segment_parts,
        _labelled_segment_count,
        {"family": "SemiMarkovCRF"},
        shared=(1,),
    ),
]
