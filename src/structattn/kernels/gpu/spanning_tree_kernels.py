"""All dependency trees, by the matrix-tree theorem without subtractions: nodes are eliminated one by one, and restored.

With ``A[m,h]`` the weight of head ``h`` for word ``m``, eliminating ``k`` takes the factor ``d = sum_h A[k,h]`` out of
the sum over all trees and leaves the weights ``A[m,h] + s[h] A[m,k]``, where ``s[h] = A[k,h] / d`` is the share of the
detours through ``k`` that start at ``h``. With a single root, its row ``r`` is separate: ``d`` sums over words, the
factor is ``f = r[k] + d``, and the row becomes ``(d r[m] + r[k] A[m,k]) / f``. There is one program instance for each
sentence, and one barrier for each node, two on the way back. Without exponents, the weights of a word sum to one.

Nodes are restored with the *outsides* of `kernels.gpu.numbers`; ``oA`` are those of ``A``. The quantity subtracted on
the way is an expected number of arcs: the probability of ``A[k,h]`` is ``e[h] + s[h] (1 - sum_j e[j])``, with ``e[h]``
the expected number of detours through ``k`` from ``h``; with a single root, the 1 is the probability of ``d`` in ``f``.

Tables have a row for each word and a column for each head. There is no word 0, so its row is free: in ``A`` it contains
the sum over all trees and ``d``, and in ``oA``, alternating with the column of the root, the outsides of the row of a
single root. ``R`` has, with a single root, a row for each node: the weights of the root's arcs when it is eliminated.

A random tree undoes the eliminations, as in `kernels.matrix_tree`. The weight of an arc from ``h`` to ``m`` without
``k`` is ``A[m,h] + sum_{j >= k} s_j[h] A[m,j]``, a sum of positive terms that are all still in memory. For a new arc,
all of them are computed at once, and with them the first node through which it takes a detour. The state of a word is
its head and the node of its next detour.

Reference: Koo et al. (2007), Structured prediction models via the matrix-tree theorem; Grassmann, Taksar and Heyman
(1985), Regenerative analysis and steady state distributions for Markov chains; Zmigrod et al. (2021), Efficient
sampling of dependency structures.
"""

from typing import Any

import torch
import triton
import triton.language as tl

from structattn.kernels.gpu import numbers
from structattn.kernels.gpu.arcs import arc_tile, arc_weights, subtract_best
from structattn.kernels.gpu.chart_tables import cell_form, ones, read, read_length, select_sentence, write, zeros
from structattn.kernels.gpu.edmonds_kernels import launch_best
from structattn.kernels.gpu.launch import (
    Call,
    Selection,
    Sizes,
    in_one,
    launch_twice,
    make_selections,
    make_sums,
    select,
)
from structattn.kernels.gpu.numbers import round_for
from structattn.kernels.gpu.selection import (
    LARGE,
    any_of,
    begin_choice,
    chooses,
    clear,
    consider,
    decide,
    locate_structure,
    mark,
    uniform,
)

# The random choices of a tree, as in `kernels.matrix_tree`.
_DETOUR, _HEAD = tl.constexpr(0), tl.constexpr(1)


@triton.jit
def _shares(A, inner, k, head, real, SINGLE: tl.constexpr):
    """The shares of the detours through ``k`` from some heads, settled: no detour exceeds the exponent of its arc."""
    share = numbers.settle(numbers.multiply(read(A, k, head, real), numbers.inverse(inner)))
    if SINGLE:
        # A node that no word can head is attached to the root; then its in-weights may go to zero together.
        equal = numbers.settle(numbers.scale(ones(A, 1, 1), 1.0 / tl.maximum(k - 1, 1).to(tl.float64)))
        share = numbers.either(inner[0] > 0.0, share, numbers.where(real, equal))
    return share


@triton.jit
def _root_shares(R, inner, k):
    """With a single root: its arc to ``k``, the factor taken out of the sum, and the shares of words and arc in it."""
    node = tl.full([1, 1], 0, tl.int32) + k
    from_root = read(R, node, node, node > 0)
    factor = numbers.settle(numbers.add(from_root, inner))
    inverse = numbers.inverse(factor)
    stay, go = numbers.multiply(inner, inverse), numbers.multiply(from_root, inverse)
    return from_root, factor, numbers.settle(stay), numbers.settle(go)


@triton.jit
def _eliminate(A, R, length, SINGLE: tl.constexpr, SPLITS: tl.constexpr, LANES: tl.constexpr):
    """Eliminates one node after the other, the last one first, and returns the sum over all trees.

    Each arc is left with its weight in the graph in which one of its ends is the last node.
    """
    lowest: tl.constexpr = 1 if SINGLE else 0
    origin = tl.full([1, 1], 0, tl.int32)
    total = ones(A, 1, 1)
    for step in range(length):
        k = length - step
        inner = zeros(A, 4 * LANES, 1)
        for first in range(lowest, k, 4 * LANES):
            head = first + tl.arange(0, 4 * LANES)[:, None]
            inner = numbers.add(inner, read(A, k, head, head < k))
        inner = numbers.settle(numbers.fold(inner))
        write(A, 0, origin + k, inner, origin == 0)
        for first in range(1, k, SPLITS):
            word = first + tl.arange(0, SPLITS)[:, None]
            onward = read(A, word, k, word < k)
            for begin in range(lowest, k, LANES):
                head = begin + tl.arange(0, LANES)[None, :]
                real = (word < k) & (head < k) & (word != head)
                detour = numbers.multiply(_shares(A, inner, k, head, head < k, SINGLE), onward)
                write(A, word, head, numbers.settle(numbers.add(read(A, word, head, real), detour)), real)
        if SINGLE:
            _, factor, stay, go = _root_shares(R, inner, k)
            for begin in range(1, k, LANES):
                word = begin + tl.arange(0, LANES)[None, :]
                stayed = numbers.multiply(read(R, k, word, word < k), stay)
                moved = numbers.multiply(read(A, word, k, word < k), go)
                write(R, k - 1, word, numbers.settle(numbers.add(stayed, moved)), word < k)
            total = numbers.settle(numbers.multiply(total, factor))
        else:
            total = numbers.settle(numbers.multiply(total, inner))
        numbers.barrier()
    write(A, 0, origin, total, origin == 0)
    return total


@triton.jit
def _root_cell(k, word):
    """Row and column of the outside of an arc from a single root once ``k`` is restored."""
    # They alternate with ``k``, because values that are still read and summed must not be overwritten.
    odd = k % 2
    return word * odd, word * (1 - odd)


@triton.jit
def _read_root_row(oA, k, word, mask):
    """Outsides of the arcs from a single root once ``k`` is restored."""
    row, column = _root_cell(k, word)
    return read(oA, row, column, mask)


@triton.jit
def _write_root_row(oA, k, word, number, mask):
    row, column = _root_cell(k, word)
    write(oA, row, column, number, mask)


@triton.jit
def _restore_starts(A, oA, inner, k, SINGLE: tl.constexpr, SPLITS: tl.constexpr, LANES: tl.constexpr):
    """Writes the outsides of the shares of detours through ``k`` where those of its arcs will be; sums the detours."""
    lowest: tl.constexpr = 1 if SINGLE else 0
    detours = numbers.zero(1, LANES, True, oA[3] is not None, False)
    for begin in range(lowest, k, LANES):
        head = begin + tl.arange(0, LANES)[None, :]
        share = _shares(A, inner, k, head, head < k, SINGLE)
        pulled = numbers.zero(SPLITS, LANES, True, oA[3] is not None, False)
        for first in range(1, k, SPLITS):
            word = first + tl.arange(0, SPLITS)[:, None]
            real = (word < k) & (head < k) & (word != head)
            onward = read(A, word, k, word < k)
            pulled = numbers.add_fractions(pulled, numbers.pull(read(oA, word, head, real), onward, share))
        outside = numbers.fold_fractions(pulled, share[2])
        write(oA, k, head, outside, head < k)
        detours = numbers.add_fractions(detours, numbers.multiply(outside, share))
    return numbers.fold_lanes(detours)


@triton.jit
def _restore_ends(A, R, oA, inner, k, SINGLE: tl.constexpr, SPLITS: tl.constexpr, LANES: tl.constexpr):
    """Writes the outsides of the arcs with head ``k``, and of the row of a single root.

    Returns, with a single root, the probability that its arc stays, and the outside of the share of the one through k.
    """
    lowest: tl.constexpr = 1 if SINGLE else 0
    stayed = numbers.zero(1, LANES, True, oA[3] is not None, False)
    moved = numbers.zero(1, LANES, True, oA[3] is not None, False)
    for begin in range(1, k, LANES):
        word = begin + tl.arange(0, LANES)[None, :]
        onward = read(A, word, k, word < k)
        pulled = numbers.zero(SPLITS, LANES, True, oA[3] is not None, False)
        for first in range(lowest, k, SPLITS):
            head = first + tl.arange(0, SPLITS)[:, None]
            real = (word < k) & (head < k) & (word != head)
            share = _shares(A, inner, k, head, head < k, SINGLE)
            pulled = numbers.add_fractions(pulled, numbers.pull(read(oA, word, head, real), share, onward))
        outside = numbers.fold_fractions(pulled, onward[2])
        if SINGLE:
            _, _, stay, go = _root_shares(R, inner, k)
            arc, later = read(R, k, word, word < k), _read_root_row(oA, k - 1, word, word < k)
            earlier = numbers.pull(later, stay, arc)
            _write_root_row(oA, k, word, earlier, word < k)
            stayed = numbers.add_fractions(stayed, numbers.multiply(earlier, arc))
            moved = numbers.add_fractions(moved, numbers.pull(later, onward, go))
            outside = numbers.add_fractions(outside, numbers.pull(later, go, onward))
        write(oA, word, k, outside, word < k)
    return numbers.fold_lanes(stayed), numbers.fold_lanes(moved)


@triton.jit
def _restore(A, R, oA, length, SINGLE: tl.constexpr, SPLITS: tl.constexpr, LANES: tl.constexpr):
    """Restores one node after the other, the first one first, and writes the outside of each arc."""
    lowest: tl.constexpr = 1 if SINGLE else 0
    origin = tl.full([1, 1], 0, tl.int32)
    certain = numbers.one(1, 1, True, oA[3] is not None, False)
    for k in range(1, length + 1):
        inner = read(A, 0, origin + k, origin == 0)
        detours = _restore_starts(A, oA, inner, k, SINGLE, SPLITS, LANES)
        stayed, moved = _restore_ends(A, R, oA, inner, k, SINGLE, SPLITS, LANES)
        if SINGLE:
            from_root, factor, _, go = _root_shares(R, inner, k)
            of_share = (moved[0], moved[1], go[2])
            outside = numbers.pull_only(of_share, go, numbers.inverse(factor), from_root)
            last = numbers.multiply_fractions(certain, numbers.reciprocal(from_root), from_root[2])
            _write_root_row(oA, k, origin + k, numbers.either(origin + k == 1, last, outside), origin == 0)
            alone = numbers.add_fractions(stayed, numbers.scale(detours, -1.0))
        else:
            alone = numbers.add_fractions(certain, numbers.scale(detours, -1.0))
        of_inner = numbers.multiply_fractions(alone, numbers.reciprocal(inner), inner[2])
        numbers.barrier()
        for begin in range(lowest, k, LANES):
            head = begin + tl.arange(0, LANES)[None, :]
            arc = read(A, k, head, head < k)
            share = _shares(A, inner, k, head, head < k, SINGLE)
            detour = numbers.pull_only(read(oA, k, head, head < k), share, numbers.inverse(inner), arc)
            whole = numbers.add_fractions(detour, numbers.pull(of_inner, ones(A, 1, LANES), arc))
            write(oA, k, head, whole, head < k)
        numbers.barrier()


@triton.jit
def _tables(memory, size, form, SINGLE: tl.constexpr):
    """Weights of arcs, their outsides, and with a single root its row at the elimination of each node."""
    square = size * size
    return (
        (memory, size, form[0], form[1], form[2]),
        (memory + square, size, form[0], form[1], form[2]),
        (memory + 2 * square, size, form[0], form[1], form[2]) if SINGLE else None,
    )


@triton.jit
def _weights(table, source, tile, length, words):
    """Weights of a tile of arcs, divided by the sum of those of their word unless they have exponents."""
    weight = arc_weights(table, source, 0.0, tile, length, words)
    if table[4] is None:
        _, _, constants, _, _ = source
        inverse = tl.load(constants + 2 * (words + 1) + tile[0], mask=tile[0] <= length, other=0.0)
        weight = numbers.scale(weight, inverse)
    return weight


@triton.jit
def _divide_by_sums(table, source, length, words, WORDS: tl.constexpr, HEADS: tl.constexpr):
    """Writes one over the sum of the weights of each word, and returns the logarithm of the product of these sums."""
    _, _, constants, _, _ = source
    total = tl.full([1, 1], 0.0, tl.float64)
    for first in range(0, length, WORDS):
        sums = tl.full([WORDS, 1], 0.0, tl.float64)
        for start in range(0, length + 1, HEADS):
            tile = arc_tile(first, start, length, words, WORDS, HEADS)
            sums += tl.sum(arc_weights(table, source, 0.0, tile, length, words)[0], 1, keep_dims=True)
        word = first + tl.arange(0, WORDS)[:, None] + 1
        sums = tl.where(sums > 0.0, sums, 1.0)
        tl.store(constants + 2 * (words + 1) + word, 1.0 / sums, mask=word <= length)
        total += tl.sum(tl.where(word <= length, tl.log(sums), 0.0), 0, keep_dims=True)
    return total


@triton.jit
def _load(
    tables, source, length, words, COPY: tl.constexpr, SINGLE: tl.constexpr, WORDS: tl.constexpr, HEADS: tl.constexpr
):
    """Writes the weights of all arcs; those of a single root in the row of the last node, the first to go."""
    A, oA, R = tables
    for first in range(0, length, WORDS):
        for start in range(0, length + 1, HEADS):
            tile = arc_tile(first, start, length, words, WORDS, HEADS)
            word, head, real = tile[0], tile[1], tile[3]
            weight = _weights(A, source, tile, length, words)
            if SINGLE:
                write(R, length, word + head * 0, weight, real & (head == 0))
                real = real & (head > 0)
            write(A, word, head, weight, real)
            if COPY:  # also in place of the outsides, where they are still available after the elimination
                write(oA, word, head, weight, real)


@triton.jit
def _write_parts(
    parts,
    blank,
    tables,
    source,
    possible,
    length,
    words,
    SINGLE: tl.constexpr,
    WORDS: tl.constexpr,
    HEADS: tl.constexpr,
):
    """The probability of each arc, or its derivative; zero where there is no arc, and all zeros without a tree."""
    A, oA, _ = tables
    _, vector, _, _, unit = source
    for first in range(0, words, WORDS):
        for start in range(0, words + 1, HEADS):
            tile = arc_tile(first, start, length, words, WORDS, HEADS)
            word, head, offset, real = tile
            weight = _weights(A, source, tile, length, words)
            outside = read(oA, word, head, real & (head > 0) if SINGLE else real)
            if SINGLE:
                outside = numbers.either(head == 0, _read_root_row(oA, length, word, word <= length), outside)
            probability = numbers.probability(numbers.pull(outside, ones(A, WORDS, HEADS), weight), weight)
            # Probabilities were subtracted: rounding may leave -1e-17.
            probability = tl.maximum(probability, 0.0) if vector is None else probability * unit
            probability = tl.where(real & possible, probability, blank)
            tl.store(parts + offset, round_for(parts, probability), mask=(word <= words) & (head <= words))


@triton.jit(do_not_specialize=["words", "plane"])
def spanning_tree_kernel(
    scores,  # (batch, word, head); for the other arguments see `launch.Call` and `launch.launch_twice`
    lengths,
    vector,
    log_partition,
    parts,
    trusted,
    memory,
    words,
    plane,
    SINGLE: tl.constexpr,  # whether exactly one word has the root as its head
    EXTENDED: tl.constexpr,
    SPLITS: tl.constexpr,
    LANES: tl.constexpr,
):
    """Log-partition and marginals of the arcs of one sentence, or the Hessian times a vector."""
    DUAL: tl.constexpr = vector is not None
    sentence = tl.program_id(0).to(tl.int64)
    size = words + 1
    scores, vector, parts = select_sentence(scores, vector, parts, sentence, words * size)
    needed = tl.load(trusted + sentence) == 0 if EXTENDED else sentence >= 0
    if needed:
        length, blank = read_length(lengths, sentence, words)
        memory += sentence * ((1 + DUAL + EXTENDED) * plane + 3 * size)
        tables = _tables(memory, size, cell_form(plane, DUAL, EXTENDED, False), SINGLE)
        A, oA, R = tables
        constants = memory + (1 + DUAL + EXTENDED) * plane

        total, root, unit = subtract_best(scores, vector, constants, length, words, SINGLE, SPLITS, LANES)
        source = (scores, vector, constants, root, unit)
        numbers.barrier()
        if not EXTENDED:
            total += _divide_by_sums(A, (scores, None, constants, root, unit), length, words, SPLITS, LANES)
            numbers.barrier()
        # If nothing else is requested, trees will be chosen.
        COPY: tl.constexpr = (log_partition is None) & (parts is None)
        _load(tables, source, length, words, COPY, SINGLE, SPLITS, LANES)
        numbers.barrier()
        sum_of_trees = _eliminate(A, R, length, SINGLE, SPLITS, LANES)
        if log_partition is not None:
            target = log_partition + sentence + tl.full([1, 1], 0, tl.int32)
            tl.store(target, round_for(log_partition, numbers.log(sum_of_trees) + total + blank))
        enough = numbers.suffice(sum_of_trees, trusted + sentence)
        if parts is not None:
            if enough:
                _restore(A, R, oA, length, SINGLE, SPLITS, LANES)
                possible = numbers.is_possible(sum_of_trees)
                _write_parts(parts, blank, tables, source, possible, length, words, SINGLE, SPLITS, LANES)


@triton.jit
def _next_detour(tables, key, word, head, first, length, mask, SINGLE: tl.constexpr, SPLITS: tl.constexpr):
    """The first node, from ``first`` on, through which arcs to a word take a detour, or one past the last."""
    A, W, R = tables  # the output of `_eliminate`, the weights before it, and those of a single root
    detour_node = word * 0 + length + 1
    later = read(W, word, head, mask & (head > 0) if SINGLE else mask)
    # ``SPLITS`` nodes are considered at a time, the last ones first.
    for step in range(0, length + 1 - first, SPLITS):
        node = length - step - tl.arange(0, SPLITS)[:, None]
        real = mask & (node >= first)
        inner = read(A, node * 0, node, node >= first)
        onward = read(A, word, node, real)
        detour = numbers.multiply(_shares(A, inner, node, head, real, SINGLE), onward)
        whole = numbers.add(later, numbers.running_sums(detour))
        later = numbers.settle(numbers.add(later, numbers.fold(detour)))
        if SINGLE:
            _, _, stay, go = _root_shares(R, inner, node)
            moved = numbers.multiply(onward, go)
            stayed = numbers.multiply(read(R, node, word, real), stay)
            whole = numbers.either(head == 0, numbers.add(stayed, moved), whole)
            detour = numbers.either(head == 0, moved, detour)
        taken = real & (uniform(key, _DETOUR, word, node) < numbers.ratio(detour, whole))
        nearest = tl.min(tl.where(taken, node, LARGE), 0, keep_dims=True)
        detour_node = tl.where(nearest < LARGE, nearest, detour_node)
    return detour_node


@triton.jit
def _top_start(heads, detours, k, LANES: tl.constexpr):
    """The head of the first word with a detour through ``k`` that is below no other; -1 if there is none."""
    top = tl.full([1, 1], LARGE, tl.int32)
    for begin in range(1, k, LANES):
        word = begin + tl.arange(0, LANES)[None, :]
        over = (tl.load(detours + word, mask=word < k, other=0) == k) & (word < k)
        above = tl.where(over, tl.load(heads + word, mask=over, other=0), 0)
        while any_of(above > 0):
            below = tl.load(detours + above, mask=above > 0, other=0) == k
            over = over & (below == 0)
            above = tl.where(over, tl.load(heads + above, mask=above > 0, other=0), 0)
        top = tl.minimum(top, tl.min(tl.where(over, word, LARGE), 1, keep_dims=True))
    return tl.load(heads + top, mask=top < LARGE, other=-1)


@triton.jit
def _head_alone(A, key, k, SINGLE: tl.constexpr, SPLITS: tl.constexpr):
    """The head of a node through which no arc takes a detour; with a single root, another word if there is one."""
    origin = tl.full([1, 1], 0, tl.int32)
    inner = read(A, 0, origin + k, origin == 0)
    number = uniform(key, _HEAD, origin, origin + k)
    state = begin_choice(1)
    for first in range(1 if SINGLE else 0, k, SPLITS):
        head = first + tl.arange(0, SPLITS)[:, None]
        share = _shares(A, inner, k, head, head < k, SINGLE)
        state = consider(state, share, ones(A, 1, 1), number, head)
    return tl.maximum(decide(state), 0)


@triton.jit
def _locate_state(word_states, k, size):
    """Where heads and nodes of next detours are read when ``k`` is restored: not where they are written to."""
    heads = word_states + (k % 2) * 2 * size
    return heads, heads + size


@triton.jit(do_not_specialize=["batch", "words", "plane"])
def spanning_tree_descent_kernel(
    lengths,  # for the arguments see `launch.select`
    streams,
    parts,
    trusted,
    memory,
    word_states,  # two copies of the states of the words, int32
    batch,
    words,
    plane,
    SINGLE: tl.constexpr,
    EXTENDED: tl.constexpr,
    SPLITS: tl.constexpr,
    LANES: tl.constexpr,
):
    """A random tree of one sentence; zeros if no tree is possible."""
    size = words + 1
    sentence, parts, key = locate_structure(streams, parts, batch, words * size)
    if chooses(streams, trusted + sentence, EXTENDED):
        length, blank = read_length(lengths, sentence, words)
        memory += sentence * ((1 + EXTENDED) * plane + 3 * size)
        word_states += tl.program_id(0).to(tl.int64) * 4 * size
        tables = _tables(memory, size, cell_form(plane, False, EXTENDED, False), SINGLE)
        A = tables[0]
        origin = tl.full([1, 1], 0, tl.int32)
        clear(parts, words * size, SPLITS * LANES, blank)
        possible = numbers.is_possible(read(A, 0, origin, origin == 0))
        length = tl.where(any_of(possible), length, 0)
        for k in range(1, length + 1):
            heads, detours = _locate_state(word_states, k, size)
            new_heads, new_detours = _locate_state(word_states, k + 1, size)
            start = _top_start(heads, detours, k, LANES)
            head_of_k = tl.where(start < 0, _head_alone(A, key, k, SINGLE, SPLITS), start)
            for begin in range(1, k + 1, LANES):
                word = begin + tl.arange(0, LANES)[None, :]
                detour = tl.load(detours + word, mask=word < k, other=k)
                moved = (word <= k) & (detour == k)
                head = tl.load(heads + word, mask=word < k, other=0)
                head = tl.where(word == k, head_of_k, tl.where(moved, k, head))
                if any_of(moved):
                    later = _next_detour(tables, key, word, head, k + 1, length, moved, SINGLE, SPLITS)
                    detour = tl.where(moved, later, detour)
                tl.store(new_heads + word, head, mask=word <= k)
                tl.store(new_detours + word, detour, mask=word <= k)
            numbers.barrier()
        heads, _ = _locate_state(word_states, length + 1, size)
        for begin in range(1, length + 1, LANES):
            word = begin + tl.arange(0, LANES)[None, :]
            head = tl.load(heads + word, mask=word <= length, other=0)
            mark(parts, (word - 1) * size + head, word <= length)


def _launch(call: Call, sizes: Sizes) -> None:
    launch_twice(in_one(spanning_tree_kernel), call, sizes[0], **_room(sizes))


def _select(selection: Selection, sizes: Sizes) -> None:
    if selection.streams is None:
        launch_best(selection, sizes)
        return
    marks = 4 * (sizes[0] + 1)
    kernels = (in_one(spanning_tree_kernel), spanning_tree_descent_kernel)
    select(*kernels, selection, sizes[0], **_room(sizes), marks=marks, mark_type=torch.int32, chart={})


def _room(sizes: Sizes) -> dict[str, Any]:
    words, single_root = sizes
    size, tables = words + 1, 3 if single_root else 2
    return {"plane": tables * size * size, "further": 3 * size, "SINGLE": bool(single_root)}


marginals, hvp = make_sums(_launch)
argmax, sample = make_selections(_select)
