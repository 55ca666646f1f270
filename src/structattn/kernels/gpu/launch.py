"""Launching kernels: for a sentence at a time or for tiles of its chart, without and with exponents."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor

from structattn.kernels.gpu.chart_tables import DOWN, PREPARE, SUM, UP
from structattn.kernels.programs import Scores, Tensors

Sizes = Sequence[int]
Function = Callable[[Scores, Tensor, Tensors, Tensors, Sizes], None]
# Multiply-adds are fused, as in the compiled kernels; set explicitly because Triton's default is about to change.
OPTIONS = {"num_warps": 8, "enable_fp_fusion": True}
# For walks along a sequence, in which each step does little work.
ONE_WARP = OPTIONS | {"num_warps": 1}
# In charts: how many splits are added at a time, and how many spans of a width there are in a tile.
CHART_TILE = {"SPLITS": 16, "LANES": 32}
# In sequences: how many states, or pairs of a width and a label, are added at a time.
SEQUENCE_TILE = {"ROWS": 16}
# Positions in a block of a chart in tiles, and up to how many words a sentence is one tile.
EXTENT = 32
LONGEST_ALONE = 128


class Call(NamedTuple):
    """What a kernel of one array of scores reads and writes: its first arguments, in this order."""

    scores: Tensor  # (batch, *part), in any floating type
    lengths: Tensor  # (batch,), int64
    vector: Tensor | None = None  # shaped like the scores, for the Hessian-vector product; None for marginals
    log_partition: Tensor | None = None  # (batch,), written
    parts: Tensor | None = None  # shaped like the scores, written with the marginals or the product


# (call, trusted, memory, words, plane, constants): launches the kernel that fills the charts of a call, see
# `launch_twice`.
Fill = Callable[..., None]


def in_one(kernel: Any) -> Fill:
    """A chart kernel in which one program instance computes a whole sentence."""

    def fill(call: Call, *further: object, **constants: Any) -> None:
        kernel[(len(call.scores),)](*call, *further, **constants)

    return fill


def in_tiles(kernel: Any) -> Fill:
    """A chart kernel that also takes a diagonal of tiles, last, and the constants ``STEPS`` and ``EXTENT``."""

    def fill(call: Call, trusted: Tensor, memory: Tensor, words: int, plane: int, **constants: Any) -> None:
        for grid, diagonal, step in _plan_launches(len(call.scores), words, down=call.parts is not None):
            kernel[grid](*call, trusted, memory, words, plane, diagonal, **step, **constants)

    return fill


def _plan_launches(batch: int, words: int, *, down: bool) -> Iterator[tuple[tuple[int, ...], int, dict[str, int]]]:
    """The grid, the diagonal, and the constants of each launch."""
    if words <= LONGEST_ALONE:
        steps = PREPARE.value | UP.value | SUM.value | DOWN.value
        yield (batch,), 0, {"STEPS": steps, "EXTENT": 0}
        return
    blocks = triton.cdiv(words + 1, EXTENT)
    yield (batch,), 0, {"STEPS": PREPARE.value, "EXTENT": 0}
    for diagonal in range(blocks):
        yield (batch, blocks - diagonal), diagonal, {"STEPS": UP.value, "EXTENT": EXTENT}
    yield (batch,), 0, {"STEPS": SUM.value, "EXTENT": 0}
    for diagonal in reversed(range(blocks if down else 0)):
        yield (batch, blocks - diagonal), diagonal, {"STEPS": DOWN.value, "EXTENT": EXTENT}


def make_sums(launch: Callable[[Call, Sizes], object]) -> tuple[Function, Function]:
    """The functions for marginals and Hessian-vector products of a family that has one array of scores."""

    def marginals(scores: Scores, lengths: Tensor, inputs: Tensors, results: Tensors, sizes: Sizes) -> None:
        launch(Call(scores[0], lengths, None, *results), sizes)

    def hvp(scores: Scores, lengths: Tensor, inputs: Tensors, results: Tensors, sizes: Sizes) -> None:
        vector = inputs[0]
        assert vector is not None  # that of the first array is always there
        launch(Call(scores[0], lengths, vector.contiguous(), None, results[0]), sizes)

    return marginals, hvp


def launch_twice(fill: Fill, call: Call, words: int, *, plane: int, further: int = 0, **constants: Any) -> None:
    """Launches a chart program without exponents, then with exponents (``EXTENDED``) for the sentences that need them.

    A sentence has ``plane`` cells in all tables, and ``further`` other numbers.
    """
    # The kernel takes a call; ``trusted``, int32, where it records for each sentence whether doubles sufficed (the
    # second launch then returns at once); ``memory`` for tables and other numbers, float64; ``words`` of the longest
    # sentence and ``plane``; and constants.
    batch = len(call.scores)
    # Values, slopes if there is a vector, and exponents: the second launch needs the most memory.
    cells = plane * (2 + (call.vector is not None)) + further
    memory = call.scores.new_empty(batch * cells, dtype=torch.float64)
    trusted = call.lengths.new_empty(batch, dtype=torch.int32)
    for extended in (False, True):
        constants["EXTENDED"] = extended
        fill(call, trusted, memory, words, plane, **constants, **CHART_TILE, **OPTIONS)


class Selection(NamedTuple):
    """The inputs for choosing structures, and where the structures are written."""

    scores: Scores  # arrays (batch, *part), in any floating type
    lengths: Tensor  # (batch,), int64
    streams: Tensor | None  # (batch,), int64, of the random numbers; None for a best structure
    parts: Tensor  # (count, batch, *part)


def make_selections(choose: Callable[[Selection, Sizes], object]) -> tuple[Function, Function]:
    """The functions for a best structure, and for random ones, of a family, from one that writes the structures."""

    def argmax(scores: Scores, lengths: Tensor, inputs: Tensors, results: Tensors, sizes: Sizes) -> None:
        parts = results[0]
        assert parts is not None  # it was requested
        choose(Selection(scores, lengths, None, parts.unsqueeze(0)), sizes)

    def sample(scores: Scores, lengths: Tensor, inputs: Tensors, results: Tensors, sizes: Sizes) -> None:
        (streams,), (parts,) = inputs, results
        assert streams is not None  # without them nothing is random
        assert parts is not None  # it was requested
        choose(Selection(scores, lengths, streams.contiguous(), parts), sizes[:-1])

    return argmax, sample


def select(
    fill: Fill,
    descent: Any,
    selection: Selection,
    words: int,
    *,
    plane: int,
    further: int = 0,
    marks: int = 0,
    mark_type: torch.dtype = torch.int8,
    chart: dict[str, Any],
    **constants: Any,
) -> None:
    """Fills charts and chooses structures from them: the best, or random ones without and then with exponents.

    ``chart`` has constants of the kernel that fills, see `launch_twice`.
    """
    # The descent chooses one structure. It takes lengths, streams, parts, ``trusted`` and ``memory`` as ``fill`` has
    # written them, room for the marks of a structure if there are any, the number of sentences, words and plane, and
    # constants.
    (scores,), lengths, streams, parts = selection
    batch, count = len(scores), len(parts)
    best = streams is None
    memory = scores.new_empty(batch * (plane * (2 - best) + further), dtype=torch.float64)
    trusted = lengths.new_empty(batch, dtype=torch.int32)
    room = [lengths.new_empty(count * batch * marks, dtype=mark_type)] if marks else []
    for extended in (False,) if best else (False, True):
        constants |= {"EXTENDED": extended, **CHART_TILE, **OPTIONS}
        fill(Call(scores, lengths), trusted, memory, words, plane, **chart, **constants)
        descent[(batch * count,)](lengths, streams, parts, trusted, memory, *room, batch, words, plane, **constants)
