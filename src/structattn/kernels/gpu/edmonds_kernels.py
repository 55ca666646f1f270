"""The best dependency tree: Edmonds' algorithm, with all cycles of a sentence contracted in each round.

Each component takes its best entering arc, whose score is then subtracted from those of all arcs that enter it, and the
components on a cycle are merged, until there is no cycle. When the rounds are undone, a component keeps its arc unless
an arc of a later round enters this very component. A component is named after its lowest node. With a single root, arcs
from it are taken only where there are no others. Of equal arcs, the one into the first word is taken, from the head
with the lowest id.

Reference: Edmonds (1967), Optimum branchings; Zmigrod, Vieira and Cotterell (2020), Please mind the root.
"""

import torch
import triton
import triton.language as tl

from structattn.kernels.gpu import numbers
from structattn.kernels.gpu.chart_tables import read_length
from structattn.kernels.gpu.launch import CHART_TILE, OPTIONS, Selection, Sizes
from structattn.kernels.gpu.selection import LARGE, any_of, clear, mark


@triton.jit
def _find_better(best, choice, score, alternative, AXIS: tl.constexpr):
    """The best score and the first alternative that has it, among those so far and further ones along an axis."""
    top = tl.max(score, AXIS, keep_dims=True)
    first = tl.min(tl.where(score == top, alternative, LARGE), AXIS, keep_dims=True)
    return tl.maximum(best, top), tl.where(top > best, first, choice)


@triton.jit
def _enter_words(
    gains, of_word, heads, component, length, size, SINGLE: tl.constexpr, WORDS: tl.constexpr, HEADS: tl.constexpr
):
    """Writes the best arc into each word from another component: its score, and its head."""
    for first in range(1, length + 1, WORDS):
        word = first + tl.arange(0, WORDS)[:, None]
        word_component = tl.load(component + word, mask=word <= length, other=0)
        best = tl.full([WORDS, 1], -float("inf"), tl.float64)
        choice = tl.full([WORDS, 1], 0, tl.int32)
        for start in range(1 if SINGLE else 0, length + 1, HEADS):
            head = start + tl.arange(0, HEADS)[None, :]
            head_component = tl.load(component + head, mask=head <= length, other=0)
            real = (word <= length) & (head <= length) & (head_component != word_component)
            gain = tl.load(gains + word * size + head, mask=real, other=-float("inf"))
            best, choice = _find_better(best, choice, gain, head, 1)
        if SINGLE:
            from_root = tl.load(gains + word * size, mask=word <= length, other=-float("inf"))
            best, choice = tl.where(best > -float("inf"), best, from_root), tl.where(best > -float("inf"), choice, 0)
        tl.store(of_word + word, best, mask=word <= length)
        tl.store(heads + word, choice, mask=word <= length)


@triton.jit
def _enter_components(
    of_word,
    heads,
    subtracted,
    component,
    entered,
    starts,
    pointers,
    length,
    size,
    SINGLE: tl.constexpr,
    WORDS: tl.constexpr,
    LANES: tl.constexpr,
):
    """Writes the best arc into each component: its score, word and head, and the component that it comes from.

    Returns whether every component has one.
    """
    complete = tl.full([1, 1], 1, tl.int32)
    for begin in range(0, length + 1, LANES):
        node = begin + tl.arange(0, LANES)[None, :]
        best = tl.full([1, LANES], -float("inf"), tl.float64)
        choice = tl.full([1, LANES], 0, tl.int32)
        root_best = tl.full([1, LANES], -float("inf"), tl.float64)
        root_choice = tl.full([1, LANES], 0, tl.int32)
        for first in range(1, length + 1, WORDS):
            word = first + tl.arange(0, WORDS)[:, None]
            real = word <= length
            inside = tl.load(component + word, mask=real, other=-1) == node
            score = tl.load(of_word + word, mask=real, other=-float("inf"))
            if SINGLE:
                from_root = tl.load(heads + word, mask=real, other=0) == 0
                root_score = tl.where(inside & from_root, score, -float("inf"))
                root_best, root_choice = _find_better(root_best, root_choice, root_score, word, 0)
                inside = inside & (from_root == 0)
            best, choice = _find_better(best, choice, tl.where(inside, score, -float("inf")), word, 0)
        if SINGLE:
            choice = tl.where(best > -float("inf"), choice, root_choice)
            best = tl.where(best > -float("inf"), best, root_best)
        reached = (best > -float("inf")) & (node > 0) & (node <= length)
        start = tl.load(heads + choice, mask=reached, other=0)
        tl.store(subtracted + node, tl.where(reached, best, 0.0), mask=node <= length)
        tl.store(entered + node, choice, mask=node <= length)
        tl.store(starts + node, start, mask=node <= length)
        tl.store(pointers + node, tl.load(component + start, mask=reached, other=0), mask=node <= length)
        tl.store(pointers + size + node, node, mask=node <= length)
        name = tl.load(component + node, mask=node <= length, other=-1)
        lacking = (name == node) & (node > 0) & (reached == 0)
        complete = tl.minimum(complete, 1 - tl.max(lacking.to(tl.int32), 1, keep_dims=True))
    return complete


@triton.jit
def _subtract(gains, subtracted, component, length, size, WORDS: tl.constexpr, HEADS: tl.constexpr):
    """Subtracts the best score of each component from those of all arcs that enter it."""
    for first in range(1, length + 1, WORDS):
        word = first + tl.arange(0, WORDS)[:, None]
        word_component = tl.load(component + word, mask=word <= length, other=0)
        best = tl.load(subtracted + word_component, mask=word <= length, other=0.0)
        for start in range(0, length + 1, HEADS):
            head = start + tl.arange(0, HEADS)[None, :]
            real = (word <= length) & (head <= length)
            gain = tl.load(gains + word * size + head, mask=real, other=0.0)
            tl.store(gains + word * size + head, gain - best, mask=real)


# Pointers lead from each component to the one that its arc comes from; followed far enough, they end on a cycle or at
# the root, and the lowest component on the way is recorded.
@triton.jit
def _contract(pointers, component, contracted, length, size, SPLITS: tl.constexpr, LANES: tl.constexpr):
    """Writes the components after merging those on a cycle, and returns whether there were any cycles."""
    reach, old, new = 1, pointers, pointers + 2 * size
    while reach <= length:
        for begin in range(0, length + 1, LANES):
            node = begin + tl.arange(0, LANES)[None, :]
            real = node <= length
            target = tl.load(old + node, mask=real, other=0)
            name = tl.load(old + size + node, mask=real, other=0)
            tl.store(new + node, tl.load(old + target, mask=real, other=0), mask=real)
            tl.store(new + size + node, tl.minimum(name, tl.load(old + size + target, mask=real, other=0)), mask=real)
        numbers.barrier()
        reach, old, new = reach * 2, new, old
    cycles = tl.full([1, LANES], 0, tl.int32)
    for begin in range(0, length + 1, LANES):
        node = begin + tl.arange(0, LANES)[None, :]
        name = tl.load(component + node, mask=node <= length, other=0)
        reached = tl.full([1, LANES], 0, tl.int32)
        for first in range(1, length + 1, SPLITS):
            source = first + tl.arange(0, SPLITS)[:, None]
            same = tl.load(old + source, mask=source <= length, other=0) == name
            reached = tl.maximum(reached, tl.max((same & (name > 0)).to(tl.int32), 0, keep_dims=True))
        lowest = tl.load(old + size + name, mask=node <= length, other=0)
        tl.store(contracted + node, tl.where(reached > 0, lowest, name), mask=node <= length)
        cycles = tl.maximum(cycles, reached)
    numbers.barrier()
    return any_of(cycles > 0)


@triton.jit
def _undo(components, entered, starts, rounds, length, size, LANES: tl.constexpr):
    """Converts the arcs that enter components to those that enter nodes, which end up in the first row."""
    for step in range(1, rounds):
        offset = (rounds - 1 - step) * size
        for begin in range(0, length + 1, LANES):
            node = begin + tl.arange(0, LANES)[None, :]
            real = node <= length
            later = offset + size + tl.load(components + offset + size + node, mask=real, other=0)
            word = tl.load(entered + later, mask=real, other=0)
            stays = tl.load(components + offset + word, mask=real, other=0) != node
            earlier_word = tl.load(entered + offset + node, mask=real, other=0)
            start = tl.load(starts + later, mask=real, other=0)
            earlier_start = tl.load(starts + offset + node, mask=real, other=0)
            tl.store(entered + offset + node, tl.where(stays, earlier_word, word), mask=real)
            tl.store(starts + offset + node, tl.where(stays, earlier_start, start), mask=real)
        numbers.barrier()


@triton.jit(do_not_specialize=["words"])
def edmonds_kernel(
    scores,  # (batch, word, head), in any floating type
    lengths,  # (batch,), int64
    parts,  # written, shaped like the scores
    gains,  # for each sentence (words + 3) * (words + 1) numbers, float64
    nodes,  # for each sentence (3 * words + 8) * (words + 1) numbers, int32
    words,  # of the longest sentence
    SINGLE: tl.constexpr,  # whether exactly one word has the root as its head
    SPLITS: tl.constexpr,  # rows of a tile
    LANES: tl.constexpr,  # columns of a tile
):
    """The best tree of one sentence; zeros if no tree is possible."""
    sentence = tl.program_id(0).to(tl.int64)
    length, blank = read_length(lengths, sentence, words)
    size = words + 1
    scores += sentence * words * size
    parts += sentence * words * size
    gains += sentence * (words + 3) * size
    of_word, subtracted = gains + size * size, gains + (size + 1) * size
    components = nodes + sentence * (3 * words + 8) * size
    entered, starts = components + size * size, components + 2 * size * size
    heads = components + 3 * size * size
    pointers = heads + size
    clear(parts, words * size, SPLITS * LANES, blank)
    for begin in range(0, length + 1, LANES):
        node = begin + tl.arange(0, LANES)[None, :]
        tl.store(components + node, node, mask=node <= length)
    for first in range(1, length + 1, SPLITS):
        word = first + tl.arange(0, SPLITS)[:, None]
        for start in range(0, length + 1, LANES):
            head = start + tl.arange(0, LANES)[None, :]
            real = (word <= length) & (head <= length) & (word != head)
            score = tl.load(scores + (word - 1) * size + head, mask=real, other=-float("inf")).to(tl.float64)
            tl.store(gains + word * size + head, score, mask=(word <= length) & (head <= length))
    numbers.barrier()
    rounds = 0
    exists = tl.full([1, 1], 1, tl.int32)
    going = length > 0
    while going:
        offset = rounds * size
        component = components + offset
        _enter_words(gains, of_word, heads, component, length, size, SINGLE, SPLITS, LANES)
        numbers.barrier()
        complete = _enter_components(
            of_word,
            heads,
            subtracted,
            component,
            entered + offset,
            starts + offset,
            pointers,
            length,
            size,
            SINGLE,
            SPLITS,
            LANES,
        )
        exists = tl.minimum(exists, complete)
        numbers.barrier()
        _subtract(gains, subtracted, component, length, size, SPLITS, LANES)
        going = _contract(pointers, component, component + size, length, size, SPLITS, LANES)
        rounds += 1
    _undo(components, entered, starts, rounds, length, size, LANES)
    roots = tl.full([1, 1], 0, tl.int32)
    for begin in range(1, length + 1, LANES):
        word = begin + tl.arange(0, LANES)[None, :]
        from_root = tl.load(starts + word, mask=word <= length, other=1) == 0
        roots += tl.sum(from_root.to(tl.int32), 1, keep_dims=True)
    possible = (exists > 0) & (roots == 1) if SINGLE else exists > 0
    for begin in range(1, length + 1, LANES):
        word = begin + tl.arange(0, LANES)[None, :]
        head = tl.load(starts + word, mask=word <= length, other=0)
        mark(parts, (word - 1) * size + head, (word <= length) & possible)


def launch_best(selection: Selection, sizes: Sizes) -> None:
    """Writes a best tree of each sentence."""
    (scores,), lengths, _, parts = selection
    words, single_root = sizes
    batch, size = len(scores), words + 1
    gains = scores.new_empty(batch * (words + 3) * size, dtype=torch.float64)
    nodes = lengths.new_empty(batch * (3 * words + 8) * size, dtype=torch.int32)
    constants = {"SINGLE": bool(single_root), **CHART_TILE, **OPTIONS}
    edmonds_kernel[(batch,)](scores, lengths, parts, gains, nodes, words, **constants)
