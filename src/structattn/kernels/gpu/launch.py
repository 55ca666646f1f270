"""How a kernel is started."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

Scores = Sequence[Tensor]
Tensors = Sequence[Tensor | None]
Sizes = Sequence[int]
Function = Callable[[Scores, Tensor, Tensors, Tensors, Sizes], None]
# Multiply-adds are fused, as in the compiled kernels; said here because the default of Triton is about to change.
OPTIONS = {"num_warps": 8, "enable_fp_fusion": True}
# For walks along a sequence, in which there is little to do at a time.
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
        log_partition: ``(batch,)``, where it goes, or None.
        parts: shaped like the scores, where marginals or the product go, or None.
    """

    scores: Tensor
    lengths: Tensor
    vector: Tensor | None = None
    log_partition: Tensor | None = None
    parts: Tensor | None = None


# (call, trusted, memory, words, plane, constants): launches what fills the charts of a call, see `launch_twice`.
Fill = Callable[..., None]


def in_one(kernel: Any) -> Fill:
    """A kernel of charts of which one program does all there is to do for a sentence."""

    def fill(call: Call, *further: object, **constants: Any) -> None:
        kernel[(len(call.scores),)](*call, *further, **constants)

    return fill


def functions_of(launch: Callable[[Call, Sizes], object]) -> tuple[Function, Function]:
    """Marginals, and Hessian-vector products, of a family that has one array of scores.

    Args:
        launch: given a call and sizes, writes the log-partition and the marginals, or with a vector the Hessian of the
            log-partition times it.
    """

    def marginals(scores: Scores, lengths: Tensor, given: Tensors, results: Tensors, sizes: Sizes) -> None:
        launch(Call(scores[0], lengths, None, *results), sizes)

    def hvp(scores: Scores, lengths: Tensor, given: Tensors, results: Tensors, sizes: Sizes) -> None:
        vector = given[0]
        assert vector is not None  # that of the first array always is given
        launch(Call(scores[0], lengths, vector.contiguous(), None, results[0]), sizes)

    return marginals, hvp


def launch_twice(fill: Fill, call: Call, words: int, *, plane: int, further: int = 0, **constants: Any) -> None:
    """Launches a chart program without exponents, and with them for the sentences for which these were needed.

    Args:
        fill: launches a kernel, which takes a call; ``trusted``, where it notes for each sentence whether doubles have
            sufficed, int32, and returns at once if they have; ``memory`` for tables and what else it keeps, float64;
            ``words``, ``plane``, and of constants ``EXTENDED``, whether numbers have exponents, ``SPLITS``, ``LANES``
            and those of the family.
        call: what it reads and writes.
        words: of the longest sentence.
        plane: cells in all tables of a sentence.
        further: what else it keeps of a sentence.
        constants: of the family.
    """
    batch = len(call.scores)
    # With slopes, with exponents: the second launch needs most.
    cells = plane * (2 + (call.vector is not None)) + further
    memory = call.scores.new_empty(batch * cells, dtype=torch.float64)
    trusted = call.lengths.new_empty(batch, dtype=torch.int32)
    for extended in (False, True):
        constants["EXTENDED"] = extended
        fill(call, trusted, memory, words, plane, **constants, **CHART_TILE, **OPTIONS)


class Selection(NamedTuple):
    """What structures are chosen by, and where they go.

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
    """A best structure, and random ones, of a family.

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
    """Fills charts and chooses from them: by best scores, or at random without exponents and with them.

    Args:
        fill: as of `launch_twice`.
        descent: a kernel that takes lengths, streams, parts, what ``fill`` has written to ``trusted`` and ``memory``,
            room for marks if it has any, the number of sentences, words and plane, and constants. It works on one
            structure.
        selection: what structures are chosen by, and where they go.
        words: of the longest sentence.
        plane: as of `launch_twice`.
        further: as of `launch_twice`.
        marks: how many there are in a structure.
        mark_type: their type.
        chart: constants of the kernel that is launched by ``fill``.
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
