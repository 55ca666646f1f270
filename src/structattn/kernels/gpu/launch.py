"""Launching kernels."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

Scores = Sequence[Tensor]
Tensors = Sequence[Tensor | None]
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


class Call(NamedTuple):
    """What a kernel of one array of scores reads and writes: its first arguments, in this order.

    Attributes:
        scores: ``(batch, *part)``, in any floating type.
        lengths: ``(batch,)``, int64.
        vector: shaped like the scores, for the Hessian-vector product; None for marginals.
        log_partition: ``(batch,)``, written, or None.
        parts: shaped like the scores, written with the marginals or the product, or None.
    """

    scores: Tensor
    lengths: Tensor
    vector: Tensor | None = None
    log_partition: Tensor | None = None
    parts: Tensor | None = None


# (call, trusted, memory, words, plane, constants): launches the kernel that fills the charts of a call, see
# `launch_twice`.
Fill = Callable[..., None]


def in_one(kernel: Any) -> Fill:
    """A chart kernel in which one program instance computes a whole sentence."""

    def fill(call: Call, *further: object, **constants: Any) -> None:
        kernel[(len(call.scores),)](*call, *further, **constants)

    return fill


def functions_of(launch: Callable[[Call, Sizes], object]) -> tuple[Function, Function]:
    """The functions for marginals and Hessian-vector products of a family that has one array of scores.

    Args:
        launch: given a call and sizes, writes the log-partition and the marginals, or with a vector the Hessian of the
            log-partition times it.
    """

    def marginals(scores: Scores, lengths: Tensor, given: Tensors, results: Tensors, sizes: Sizes) -> None:
        launch(Call(scores[0], lengths, None, *results), sizes)

    def hvp(scores: Scores, lengths: Tensor, given: Tensors, results: Tensors, sizes: Sizes) -> None:
        vector = given[0]
        assert vector is not None  # that of the first array is always given
        launch(Call(scores[0], lengths, vector.contiguous(), None, results[0]), sizes)

    return marginals, hvp


def launch_twice(fill: Fill, call: Call, words: int, *, plane: int, further: int = 0, **constants: Any) -> None:
    """Launches a chart program without exponents, then with exponents for the sentences that need them.

    Args:
        fill: launches a kernel that takes a call; ``trusted``, int32, where it records for each sentence whether
            doubles sufficed (the second launch then returns at once); ``memory`` for tables and other numbers that it
            keeps, float64; ``words`` and ``plane``; and the constants ``EXTENDED`` (whether numbers have exponents),
            ``SPLITS``, ``LANES`` and those of the family.
        call: what it reads and writes.
        words: of the longest sentence.
        plane: cells in all tables of a sentence.
        further: how many other numbers it keeps for a sentence.
        constants: of the family.
    """
    batch = len(call.scores)
    # Values, slopes if there is a vector, and exponents: the second launch needs the most memory.
    cells = plane * (2 + (call.vector is not None)) + further
    memory = call.scores.new_empty(batch * cells, dtype=torch.float64)
    trusted = call.lengths.new_empty(batch, dtype=torch.int32)
    for extended in (False, True):
        constants["EXTENDED"] = extended
        fill(call, trusted, memory, words, plane, **constants, **CHART_TILE, **OPTIONS)


class Selection(NamedTuple):
    """The inputs for choosing structures, and where the structures are written.

    Attributes:
        scores: arrays ``(batch, *part)``, in any floating type.
        lengths: ``(batch,)``, int64.
        streams: ``(batch,)``, int64, of the random numbers; None for a best structure.
        parts: ``(count, batch, *part)``.
    """

    scores: Scores
    lengths: Tensor
    streams: Tensor | None
    parts: Tensor


def selections_of(choose: Callable[[Selection, Sizes], object]) -> tuple[Function, Function]:
    """The functions for a best structure, and for random ones, of a family.

    Args:
        choose: given a selection and sizes, writes the structures.
    """

    def argmax(scores: Scores, lengths: Tensor, given: Tensors, results: Tensors, sizes: Sizes) -> None:
        parts = results[0]
        assert parts is not None  # it is what was asked for
        choose(Selection(scores, lengths, None, parts.unsqueeze(0)), sizes)

    def sample(scores: Scores, lengths: Tensor, given: Tensors, results: Tensors, sizes: Sizes) -> None:
        (streams,), (parts,) = given, results
        assert streams is not None  # without them nothing is random
        assert parts is not None  # it is what was asked for
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

    Args:
        fill: as in `launch_twice`.
        descent: a kernel that chooses one structure. It takes lengths, streams, parts, ``trusted`` and ``memory`` as
            written by ``fill``, room for marks if there are any, the number of sentences, words and plane, and
            constants.
        selection: the inputs, and where the structures are written.
        words: of the longest sentence.
        plane: as in `launch_twice`.
        further: as in `launch_twice`.
        marks: number of marks of a structure.
        mark_type: their dtype.
        chart: constants of the kernel that ``fill`` launches.
        constants: of the family.
    """
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
