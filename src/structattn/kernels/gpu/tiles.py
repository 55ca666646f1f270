"""Charts of long sentences in tiles, so that several programs work on one sentence.

A tile has the spans that start in one block of positions and end in another. It needs the tiles between these two
blocks, which lie on diagonals closer to the main one. A launch therefore fills one diagonal, with a program for each
tile; the next launch waits for it. Within a tile there is a barrier for each width, as in the chart of a short
sentence, which is one tile. A cell is the same sum in the same order either way, so that the results do not depend on
the tiles, bit for bit.
"""

from collections.abc import Iterator
from typing import Any

import triton
import triton.language as tl
from torch import Tensor

from structattn.kernels.gpu import numbers
from structattn.kernels.gpu.launch import Call, Fill
from structattn.kernels.gpu.vectors import rounded

# What a program does, as a sum of: preparation for the chart, a tile upwards, the sum over all structures, and a tile
# downwards.
PREPARE = tl.constexpr(1)
UP = tl.constexpr(2)
SUM = tl.constexpr(4)
DOWN = tl.constexpr(8)
ALL = PREPARE.value | UP.value | SUM.value | DOWN.value
# Positions in a block, and up to how many words a sentence is one tile.
EXTENT = 32
LONGEST_ALONE = 128


def in_tiles(kernel: Any) -> Fill:
    """A chart kernel that also takes a diagonal of tiles, last, and the constants ``STEPS`` and ``EXTENT``."""

    def fill(call: Call, trusted: Tensor, memory: Tensor, words: int, plane: int, **constants: Any) -> None:
        for grid, diagonal, step in _launches(len(call.scores), words, down=call.parts is not None):
            kernel[grid](*call, trusted, memory, words, plane, diagonal, **step, **constants)

    return fill


def _launches(batch: int, words: int, *, down: bool) -> Iterator[tuple[tuple[int, ...], int, dict[str, int]]]:
    """The grid, the diagonal, and the constants of each launch."""
    if words <= LONGEST_ALONE:
        yield (batch,), 0, {"STEPS": ALL, "EXTENT": 0}
        return
    blocks = triton.cdiv(words + 1, EXTENT)
    yield (batch,), 0, {"STEPS": PREPARE.value, "EXTENT": 0}
    for diagonal in range(blocks):
        yield (batch, blocks - diagonal), diagonal, {"STEPS": UP.value, "EXTENT": EXTENT}
    yield (batch,), 0, {"STEPS": SUM.value, "EXTENT": 0}
    for diagonal in reversed(range(blocks if down else 0)):
        yield (batch, blocks - diagonal), diagonal, {"STEPS": DOWN.value, "EXTENT": EXTENT}


@triton.jit
def tile_of(diagonal, size, EXTENT: tl.constexpr):
    """Where the two blocks of this program's tile begin, and how many positions they have.

    Args:
        diagonal: of tiles.
        size: how many positions there are.
        EXTENT: of a block, or 0 for one tile of all spans.
    """
    if EXTENT == 0:
        return (0, 0, size)
    else:
        row = tl.program_id(1)
        return (row * EXTENT, (row + diagonal) * EXTENT, EXTENT)


@triton.jit
def widths(tile, widest):
    """The narrowest and the widest span of a tile, at least 1 and at most ``widest`` wide."""
    first_start, first_end, extent = tile
    between = first_end - first_start
    return tl.maximum(between - extent + 1, 1), tl.minimum(between + extent - 1, widest)


@triton.jit
def starts(tile, width, lowest, length):
    """The first start of a span of a width in a tile, and one past the last.

    Args:
        tile: from `tile_of`.
        width: of the spans.
        lowest: the first position at which a span may start.
        length: of the sentence.
    """
    first_start, first_end, extent = tile
    first = tl.maximum(tl.maximum(first_start, first_end - width), lowest)
    return first, tl.minimum(tl.minimum(first_start + extent, first_end + extent - width), length + 1 - width)


@triton.jit
def report_sum(total, taken_out, log_partition, trusted, sentence, BEST: tl.constexpr):
    """Writes the log-partition of a sentence and, unless only the best structure is wanted, whether numbers sufficed.

    Args:
        total: the sum over all structures, after subtracting ``taken_out`` from the score of each.
        taken_out: the amount subtracted.
        log_partition: where it goes, or None.
        trusted: as in `launch.launch_twice`.
        sentence: its index.
        BEST: whether numbers are those of the best structure.
    """
    if log_partition is not None:
        place = log_partition + sentence + tl.full([1, 1], 0, tl.int32)
        tl.store(place, rounded(numbers.log(total) + taken_out, log_partition))
    if not BEST:
        numbers.sufficed(total, trusted + sentence)
        numbers.barrier()
