"""The three forms of the scores of segmentations: which parts a segment has, and how they are read and explained."""

from collections.abc import Sequence
from typing import Protocol

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from structattn.kernels.operators import Operators
from structattn.kernels.semi_markov import (
    JOINED_OPERATORS,
    OPERATORS,
    SUMMED_OPERATORS,
    real_joined,
    real_segments,
    real_words,
)


class Form(Protocol):
    """What the arrays of scores mean; `axes` are those of the first, of which the last `row_axes` form a row."""

    operators: Operators
    axes: int
    row_axes: int
    expected: str

    def fits(self, event: torch.Size) -> bool:
        """Whether parts have a possible shape, given the number of their axes."""
        ...

    def real(self, lengths: Tensor, sizes: Sequence[int]) -> Bool[Tensor, "..."]:
        """True for parts within the sentence; sizes are words, widths and states."""
        ...

    def read(self, parts: Tensor, lengths: Tensor) -> tuple[Bool[Tensor, "*shape word"], Tensor, Tensor]:
        """Whether a segment starts at each word, its width and its label."""
        ...

    def find(self, start: Tensor, width: Tensor, label: Tensor, real: Tensor, event: torch.Size) -> Tensor:
        """The index of each part of rows of segments; -1 for none."""
        ...

    def count(self, parts: Tensor, lengths: Tensor, max_width: int) -> list[Tensor]:
        """How often a structure uses each score of the further arrays."""
        ...

    def explain(self, parts: Tensor, length: int, max_width: int) -> str:
        """Why 0/1 parts are not a segmentation."""
        ...


class _EdgeScores:
    """A score of each segment after each label."""

    operators, axes, row_axes = OPERATORS, 4, 0
    expected = "n, max_width, states, states"

    def fits(self, event: torch.Size) -> bool:
        return event[-1] == event[-2]

    def real(self, lengths: Tensor, sizes: Sequence[int]) -> Bool[Tensor, "*batch word width state state"]:
        return real_segments(lengths, sizes)

    def read(self, parts: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return JOINED.read(parts.sum(-2), lengths)

    def find(self, start: Tensor, width: Tensor, label: Tensor, real: Tensor, event: torch.Size) -> Tensor:
        _, widths, states, _ = event
        previous = torch.cat([torch.zeros_like(label[..., :1]), label[..., :-1]], -1)
        real = real & (previous >= 0) & (previous < states)
        return (((start * widths + width - 1) * states + previous) * states + label).where(real, -1)

    def count(self, parts: Tensor, lengths: Tensor, max_width: int) -> list[Tensor]:
        return []

    def explain(self, parts: Tensor, length: int, max_width: int) -> str:
        label = 0
        for start, _, previous, following in parts.nonzero().tolist():
            if previous != label and not _explain_gap(parts[:start].sum(-2), start):
                return f"the segment from word {start + 1} follows label {previous}: expected {label}"
            label = following
        return _explain_gap(parts.sum(-2), length)


class _JoinedScores:
    """A score of each segment, beside transitions between labels."""

    operators, axes, row_axes = JOINED_OPERATORS, 3, 0
    expected = "n, max_width, states) with transition=(states, states"

    def fits(self, event: torch.Size) -> bool:
        return True

    def real(self, lengths: Tensor, sizes: Sequence[int]) -> Bool[Tensor, "*batch word width state"]:
        return real_joined(lengths, sizes)

    def read(self, parts: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        used, index = parts.flatten(-2).max(-1)
        states = parts.shape[-1]
        return used > 0, index // states + 1, index % states

    def find(self, start: Tensor, width: Tensor, label: Tensor, real: Tensor, event: torch.Size) -> Tensor:
        _, widths, states = event
        return ((start * widths + width - 1) * states + label).where(real, -1)

    def count(self, parts: Tensor, lengths: Tensor, max_width: int) -> list[Tensor]:
        words, widths, states = parts.shape[-3:]
        after = torch.arange(words, device=parts.device)[:, None] + torch.arange(1, widths + 1, device=parts.device)
        end = parts.new_zeros(*parts.shape[:-3], words + widths + 1, states)
        end = end.index_add(-2, after.flatten(), parts.flatten(-3, -2))
        return [end[..., 1:words, :].mT @ parts.sum(-2)[..., 1:, :]]

    def explain(self, parts: Tensor, length: int, max_width: int) -> str:
        return _explain_gap(parts, length)


class _SummedScores:
    """A score of each word, as the first of its segment or a further one, beside those of widths and transitions."""

    operators, axes, row_axes = SUMMED_OPERATORS, 3, 2
    expected = "n, 2, states) with transition=(states, states) and duration=(max_width, states"

    def fits(self, event: torch.Size) -> bool:
        return event[1] == 2

    def real(self, lengths: Tensor, sizes: Sequence[int]) -> Bool[Tensor, "*batch word 2 state"]:
        return real_words(lengths, sizes)

    def read(self, parts: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        used, label = parts[..., 0, :].max(-1)
        return used > 0, _next_start(used > 0, lengths) - _positions(label), label

    def find(self, start: Tensor, width: Tensor, label: Tensor, real: Tensor, event: torch.Size) -> Tensor:
        words, _, states = event
        # Rows that overlap have no parts at all, so that none of them is dropped without a word.
        overlaps = (real[..., 1:] & ((start + width)[..., :-1] > start[..., 1:])).any(-1, keepdim=True)
        number = torch.arange(1, start.shape[-1] + 1, device=start.device).expand_as(start)
        rows = number.new_zeros(*start.shape[:-1], words)
        rows = rows.scatter_reduce(-1, start.where(real, 0), number.where(real, 0), "amax") if words else rows
        row = rows.cummax(-1).values if words else rows
        of_word = [value.gather(-1, (row - 1).clamp(min=0)) for value in (start, width, label)] if words else [rows] * 3
        offset = _positions(row) - of_word[0]
        index = (2 * _positions(row) + (offset > 0)) * states + of_word[2]
        return index.where((row > 0) & (offset < of_word[1]) & ~overlaps, -1)

    def count(self, parts: Tensor, lengths: Tensor, max_width: int) -> list[Tensor]:
        first, label = parts[..., 0, :], parts.sum(-2)
        transitions = label[..., :-1, :].mT @ first[..., 1:, :]
        starts = first.any(-1)
        position = _positions(starts)
        offset = position - position.where(starts, 0).cummax(-1).values if starts.shape[-1] else position
        is_last = _next_start(starts, lengths) == position + 1
        index = offset.clamp(max=max_width - 1).unsqueeze(-1).expand_as(label)
        widths = label.new_zeros(*label.shape[:-2], max_width, label.shape[-1])
        return [transitions, widths.scatter_add(-2, index, label * is_last.unsqueeze(-1))]

    def explain(self, parts: Tensor, length: int, max_width: int) -> str:
        count = parts.sum((-2, -1))
        wrong = (count != (torch.arange(len(count)) < length)).nonzero()
        if len(wrong):
            word = int(wrong[0])
            end = "" if word < length else ", beyond the end,"
            return f"word {word + 1}{end} has {int(count[word])} parts; segments must follow each other without a gap"
        current, width = -1, 0
        for word, further, label in parts.nonzero().tolist():
            width = width + 1 if further else 1
            if further and label != current:
                follows = f"a word with label {current}" if word else "nothing"
                return f"word {word + 1} goes on with a segment of label {label} after {follows}"
            if width > max_width:
                return f"the segment of word {word + 1} has more than {max_width} words"
            current = label
        return "its segments are not a segmentation"


def _positions(like: Tensor) -> Int[Tensor, "*shape word"]:
    return torch.arange(like.shape[-1], device=like.device).expand_as(like)


def _next_start(starts: Bool[Tensor, "*shape word"], lengths: Int[Tensor, "*batch"]) -> Int[Tensor, "*shape word"]:
    """Where the next segment after each word starts, or the sentence ends."""
    end = lengths.unsqueeze(-1).expand(*starts.shape[:-1], 1)
    following = torch.cat([_positions(starts).where(starts, end)[..., 1:], end], -1)[..., : starts.shape[-1]]
    return following.flip(-1).cummin(-1).values.flip(-1) if starts.shape[-1] else following


def _explain_gap(parts: Float[Tensor, "word width state"], length: int) -> str:
    """What is wrong with the starts and ends of segments; nothing if they lead to a word."""
    end = 0
    for start, width, _ in parts.nonzero().tolist():
        if start != end:
            return f"a segment starts at word {start + 1}: expected word {end + 1}, where the one before it ends"
        end = start + width + 1
    return "" if end == length else f"the segments end after word {end}: expected {length}, the number of words"


EDGES, JOINED, SUMMED = _EdgeScores(), _JoinedScores(), _SummedScores()
#: By the names of the arrays beside the first.
FORMS: dict[tuple[str, ...], Form] = {(): EDGES, ("transition",): JOINED, ("transition", "duration"): SUMMED}
