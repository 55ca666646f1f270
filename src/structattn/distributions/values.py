"""Structures given by the user, as parts or as heads, tags and spans; and why a value is not a structure."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.distributions import constraints

from structattn.distributions.checks import checked_broadcast

if TYPE_CHECKING:
    from structattn.distributions.distribution import StructuredDistribution

# How many items a message names.
_SHOWN = 10


class Structures(constraints.Constraint):
    """The constraint that 0/1 parts are one structure of a distribution, for the lengths of its sentences.

    Args:
        distribution: the distribution of these structures.

    Example:
        >>> from structattn.distributions import DependencyCRF
        >>> trees = DependencyCRF(torch.zeros(2, 3))
        >>> cycle, tree = torch.tensor([[[0.0, 0, 1], [0, 1, 0]], [[1, 0, 0], [0, 1, 0]]])
        >>> trees.support.check(cycle).item(), trees.support.check(tree).item()
        (False, True)
    """

    is_discrete = True

    def __init__(self, distribution: "StructuredDistribution") -> None:
        super().__init__()
        self._distribution = distribution
        self.event_dim = len(distribution.event_shape)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._distribution!r})"

    def check(self, value: Tensor) -> Bool[Tensor, "*shape"]:
        """Which items are a structure: exactly one structure uses no other parts, and it uses all of these.

        Raises:
            ValueError: if the shape is not that of parts.
        """
        distribution = self._distribution
        event, lengths = distribution.event_shape, lengths_of_parts(self._distribution, value, what="support.check")
        shape = lengths.shape
        parts = value.detach().double().expand(*shape, *event).reshape(shape.numel(), *event)
        used = torch.zeros_like(parts).masked_fill(parts == 0, -torch.inf)
        log_count, marginals = distribution._marginals_of_parts(used, lengths.reshape(shape.numel()))
        # Counts are integers, and so are the marginals if there is one structure, so rounding cannot mislead.
        alike = parts == marginals.round()
        return ((log_count.abs() < 0.5) & alike.flatten(1).all(-1)).view(shape)


def parts_of(distribution: "StructuredDistribution", value: Any) -> Tensor:
    """Parts ``(*sample, *batch, *event)`` in float64, given parts or a structure in integers.

    Args:
        distribution: the distribution of these structures.
        value: the value given.

    Raises:
        ValueError: if it fits neither parts nor structures, or both, or does not fit the batch.

    Example:
        >>> from structattn.distributions import DependencyCRF
        >>> parts_of(DependencyCRF(torch.zeros(2, 3)), torch.tensor([0, 1])).tolist()
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    """
    if not isinstance(value, Tensor):
        raise ValueError(
            f"log_prob of type {type(value).__name__}: expected a tensor of parts or {distribution.structures}"
        )
    event, shape = tuple(distribution.event_shape), tuple(value.shape)
    if value.is_floating_point() or value.is_complex() or value.dtype == torch.bool:
        alternative = f", or integers for {distribution.structures}"
        lengths_of_parts(distribution, value, what="log_prob", alternative=alternative)
        return value.double()
    are_parts = shape[max(len(shape) - len(event), 0) :] == event
    is_structure = distribution._is_structure_shape(shape)
    if are_parts and is_structure:
        raise ValueError(
            f"log_prob: integers of shape {shape} may be parts {event} or {distribution.structures}: "
            "expected parts as floating-point numbers, or from_structure(value)"
        )
    if is_structure:
        return distribution.from_structure(value).double()
    if are_parts:
        lengths_of_parts(distribution, value, what="log_prob")
        return value.double()
    raise ValueError(
        f"log_prob: integers of shape {shape}: expected {distribution.structures}, or parts with {event} at the end"
    )


def refuse_other_structures(distribution: "StructuredDistribution", parts: Tensor) -> None:
    """Refuse parts that are not a structure, and say which ones, and why the first of them is not.

    Args:
        distribution: the distribution of these structures.
        parts: ``(*sample, *batch, *event)``.

    Raises:
        ValueError: if some item is not a structure.

    Example:
        >>> from structattn.distributions import DependencyCRF
        >>> refuse_other_structures(DependencyCRF(torch.zeros(2, 3)), torch.eye(3)[:2])
    """
    right = distribution.support.check(parts)
    if right.all():
        return
    places = [tuple(place) for place in (~right).nonzero().tolist()]
    place = places[0]
    one = parts.detach().expand(*right.shape, *distribution.event_shape)[place]
    length = int(distribution.lengths.expand(right.shape)[place])
    why = (
        distribution._why_none(one.cpu(), length) if ((one == 0) | (one == 1)).all() else "its parts are not all 0 or 1"
    )
    names = [str(one[0] if len(one) == 1 else one) for one in places]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    listed = f" (items {', '.join(names[:_SHOWN])}{more})" if len(names) > 1 else ""
    item = f"item {names[0]}, of {length} words" if place else f"with {length} words"
    raise ValueError(
        f"log_prob: {len(places)} of {right.numel()} items are not a structure of {type(distribution).__name__} "
        f"for their lengths{listed}; expected the 0/1 parts of one structure each; {item}: {why}"
    )


def aligned_lengths(
    distribution: "StructuredDistribution", shape: torch.Size, *, what: str
) -> tuple[torch.Size, Int[Tensor, "*shape"]]:
    """The shape of structures without their event axes, broadcast against the batch, and the lengths in that shape.

    Args:
        distribution: the distribution of these structures.
        shape: of the structures without their event axes.
        what: name of the value, for the message.

    Raises:
        ValueError: if the two do not fit together.

    Example:
        >>> from structattn.distributions import DependencyCRF
        >>> aligned_lengths(DependencyCRF(torch.zeros(2, 3, 4)), torch.Size([5, 1]), what="heads")[0]
        torch.Size([5, 2])
    """
    batch = distribution.batch_shape
    if shape == batch:
        return shape, distribution.lengths
    full = checked_broadcast(
        shape, batch, lambda: f"{what} with leading axes {tuple(shape)} do not fit the batch shape {tuple(batch)}"
    )
    return full, distribution.lengths.expand(full)


def lengths_of_parts(
    distribution: "StructuredDistribution", parts: object, *, what: str, alternative: str = ""
) -> Int[Tensor, "*shape"]:
    """The lengths in the shape of parts without their event axes, broadcast against the batch.

    Args:
        distribution: the distribution of these parts.
        parts: the value given.
        what: the method that was called, for the message.
        alternative: what else is accepted, for the message.

    Raises:
        ValueError: if these are not parts, or do not fit the batch.

    Example:
        >>> from structattn.distributions import DependencyCRF
        >>> lengths_of_parts(DependencyCRF(torch.zeros(2, 3, 4), [3, 1]), torch.zeros(5, 1, 3, 4), what="check").shape
        torch.Size([5, 2])
    """
    event = tuple(distribution.event_shape)
    if not isinstance(parts, Tensor):
        raise ValueError(f"{what} of type {type(parts).__name__}: expected a tensor of parts {event}{alternative}")
    shape = tuple(parts.shape)
    if parts.is_complex():
        raise ValueError(f"{what}: parts of type {parts.dtype}: expected real numbers{alternative}")
    if shape[max(len(shape) - len(event), 0) :] != event:
        raise ValueError(f"{what}: parts of shape {shape}: expected {event} at the end{alternative}")
    return aligned_lengths(distribution, parts.shape[: len(shape) - len(event)], what=f"{what}: parts")[1]


def integers(structure: object, expected: str, fits: Callable[[tuple[int, ...]], bool]) -> Int[Tensor, "..."]:
    """A structure as a tensor of integers.

    Args:
        structure: the value given.
        expected: its form, for the message.
        fits: whether a shape is right.

    Raises:
        ValueError: if it is not a tensor of integers, or has the wrong shape.

    Example:
        >>> integers(torch.tensor([2, 0]), "heads (..., 2)", lambda shape: shape[-1] == 2).tolist()
        [2, 0]
    """
    if not isinstance(structure, Tensor):
        raise ValueError(f"from_structure of type {type(structure).__name__}: expected a tensor of {expected}")
    if structure.is_floating_point() or structure.is_complex() or structure.dtype == torch.bool:
        raise ValueError(f"from_structure of type {structure.dtype}: expected integers for {expected}")
    if not fits(tuple(structure.shape)):
        raise ValueError(f"from_structure of shape {tuple(structure.shape)}: expected {expected}")
    return structure.long()


def is_missing(parts: Tensor, part_axes: int, lengths: Int[Tensor, "*shape"]) -> Bool[Tensor, "*shape 1"]:
    """Where a sentence of at least one word has no parts at all.

    Args:
        parts: ``(*shape, *part)``.
        part_axes: number of axes of the parts.
        lengths: number of words of each sentence.

    Example:
        >>> is_missing(torch.zeros(2, 3, 4), 2, torch.tensor([3, 0])).tolist()
        [[True], [False]]
    """
    return ((parts == 0).flatten(-part_axes).all(-1) & (lengths > 0)).unsqueeze(-1)


def refuse_first(wrong: Bool[Tensor, "*shape"], why: Callable[..., str]) -> None:
    """Refuse a structure if something is wrong anywhere.

    Args:
        wrong: where it is.
        why: what is wrong, given the first such place.

    Raises:
        ValueError: if anything is.

    Example:
        >>> refuse_first(torch.tensor([False]), lambda place: "never")
    """
    if not wrong.any():
        return
    place = tuple(wrong.nonzero()[0].tolist())
    item = place[:-1]
    where = f"item {item[0] if len(item) == 1 else item}: " if item else ""
    raise ValueError(f"from_structure: {where}{why(*place)}")
