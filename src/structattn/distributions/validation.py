"""Checks of scores, lengths, counts, shapes, parts and structures, with one clear error for what does not fit.

Values are checked only where they exist and nothing has to wait for them: not within ``torch.compile``,
``torch.export`` and the transforms of ``torch.func``, and on an accelerator only on request.
"""

import operator
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Generator, Tensor
from torch.distributions import constraints

from structattn.kernels.tracing import is_eager

# How many items a message names.
_NUM_NAMED = 10


def should_check_values(validate_args: bool | None, tensor: Tensor) -> bool:
    """Whether to check the values of a tensor; None checks where nothing has to wait for them."""
    if validate_args is None:
        return tensor.is_cpu and is_eager(tensor)
    return validate_args and is_eager(tensor)


def check_scores(family: str, **arrays: Any) -> list[Tensor]:
    """Floating-point arrays of one type on one device."""
    for name, array in arrays.items():
        if not isinstance(array, Tensor):
            raise ValueError(f"{family}: {name} of type {type(array).__name__}: expected a floating-point tensor")
        if not array.is_floating_point():
            raise ValueError(
                f"{family}: {name} of type {array.dtype}: expected floating-point scores, as in {name}.float()"
            )
    first, *further = arrays.values()
    dtype = first.dtype
    for name, array in list(arrays.items())[1:]:
        if array.device != first.device:
            raise ValueError(f"{family}: {name} on {array.device}: expected {first.device}, where the other scores are")
        dtype = torch.promote_types(dtype, array.dtype)
    return [array if array.dtype == dtype else array.to(dtype) for array in (first, *further)]


def find_limits(scores: Tensor) -> tuple[float, float]:
    """The lowest and the highest score, wherever they stand; nan if any score is."""
    if not scores.numel():
        return 0.0, 0.0
    low, high = torch.aminmax(scores.detach())
    return low.item(), high.item()


def refuse_undefined_scores(family: str, scores: Tensor, readable: Bool[Tensor, "*shape"]) -> None:
    """Refuse nan and ``+inf`` where scores are read."""
    undefined = (torch.isnan(scores) | (scores == torch.inf)) & readable
    if undefined.any():
        raise ValueError(
            f"{family}: {int(undefined.sum())} of {undefined.numel()} scores are nan or +inf; "
            "expected finite scores, or -inf to forbid a part"
        )


def check_mask(family: str, mask: Any, scores: Tensor) -> Bool[Tensor, "..."] | None:
    """The parts that are allowed, in the shape of the scores; None allows all."""
    if mask is None:
        return None
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        kind = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
        raise ValueError(f"{family}: mask of type {kind}: expected a bool tensor, True where a part is allowed")
    try:
        return mask.to(scores.device).expand(scores.shape)
    except RuntimeError:
        raise ValueError(
            f"{family}: mask of shape {tuple(mask.shape)} does not fit scores of shape {tuple(scores.shape)}"
        ) from None


def check_lengths(
    lengths: Any,
    batch_shape: torch.Size,
    *,
    num_words: int,
    like: Tensor,
    validate_args: bool | None,
) -> Int[Tensor, "*batch"]:
    """Lengths of a batch on the device of its scores, from a tensor, lists, one number for all, or None (all words)."""
    if lengths is None:
        return torch.full(batch_shape, num_words, dtype=torch.int64, device=like.device)
    if not isinstance(lengths, Tensor):
        try:
            lengths = torch.as_tensor(lengths)
        except (TypeError, ValueError, RuntimeError):
            raise ValueError(f"lengths of type {type(lengths).__name__}: expected whole numbers") from None
    if lengths.is_floating_point() or lengths.is_complex() or lengths.dtype == torch.bool:
        if lengths.numel():
            raise ValueError(f"lengths have type {lengths.dtype}: expected integers")
        lengths = lengths.long()
    if should_check_values(validate_args, lengths) and lengths.numel():
        shortest, longest = int(lengths.min()), int(lengths.max())
        if shortest < 0 or longest > num_words:
            raise ValueError(f"lengths lie between {shortest} and {longest}: expected 0 to {num_words}")
    try:
        checked: Tensor = lengths.to(like.device, torch.int64).expand(batch_shape)
    except RuntimeError:
        raise ValueError(
            f"lengths of shape {tuple(lengths.shape)} do not fit scores with batch shape {tuple(batch_shape)}"
        ) from None
    return checked


def check_broadcast(a: torch.Size, b: torch.Size, explain: Callable[[], str]) -> torch.Size:
    """The shape that two shapes broadcast to; the message is made only on error, as in a graph it would fix sizes."""
    try:
        shape: torch.Size = torch.broadcast_shapes(a, b)
    except RuntimeError:
        raise ValueError(explain()) from None
    return shape


def align_lengths(
    lengths: Int[Tensor, "*batch"], shape: torch.Size, *, name: str
) -> tuple[torch.Size, Int[Tensor, "*shape"]]:
    """The shape of structures without their event axes, broadcast against the batch, and the lengths in that shape."""
    batch = lengths.shape
    if shape == batch:
        return shape, lengths
    full = check_broadcast(
        shape, batch, lambda: f"{name} with leading axes {tuple(shape)} do not fit the batch shape {tuple(batch)}"
    )
    return full, lengths.expand(full)


def check_parts(
    parts: object, event_shape: torch.Size, lengths: Int[Tensor, "*batch"], *, caller: str, alternative: str = ""
) -> Int[Tensor, "*shape"]:
    """The lengths in the shape of parts without their event axes; messages name an alternative that is accepted."""
    event = tuple(event_shape)
    if not isinstance(parts, Tensor):
        raise ValueError(f"{caller} of type {type(parts).__name__}: expected a tensor of parts {event}{alternative}")
    shape = tuple(parts.shape)
    if parts.is_complex():
        raise ValueError(f"{caller}: parts of type {parts.dtype}: expected real numbers{alternative}")
    if shape[max(len(shape) - len(event), 0) :] != event:
        raise ValueError(f"{caller}: parts of shape {shape}: expected {event} at the end{alternative}")
    return align_lengths(lengths, parts.shape[: len(shape) - len(event)], name=f"{caller}: parts")[1]


def convert_to_parts(
    value: Any,
    event_shape: torch.Size,
    lengths: Int[Tensor, "*batch"],
    *,
    structures: str,
    is_structure_shape: Callable[[tuple[int, ...]], bool],
    from_structure: Callable[[Tensor], Tensor],
) -> Tensor:
    """Parts ``(*sample, *batch, *event)`` in float64, from parts or a structure in integers, which messages name."""
    if not isinstance(value, Tensor):
        raise ValueError(f"log_prob of type {type(value).__name__}: expected a tensor of parts or {structures}")
    event, shape = tuple(event_shape), tuple(value.shape)
    if value.is_floating_point() or value.is_complex() or value.dtype == torch.bool:
        check_parts(value, event_shape, lengths, caller="log_prob", alternative=f", or integers for {structures}")
        return value.double()
    are_parts = shape[max(len(shape) - len(event), 0) :] == event
    is_structure = is_structure_shape(shape)
    if are_parts and is_structure:
        raise ValueError(
            f"log_prob: integers of shape {shape} may be parts {event} or {structures}: "
            "expected parts as floating-point numbers, or from_structure(value)"
        )
    if is_structure:
        return from_structure(value).double()
    if are_parts:
        check_parts(value, event_shape, lengths, caller="log_prob")
        return value.double()
    raise ValueError(f"log_prob: integers of shape {shape}: expected {structures}, or parts with {event} at the end")


def are_equal(a: dict[str, Any], b: dict[str, Any]) -> bool:
    """Whether options are the same; values of tensors are not read where that would have to wait for them."""
    if a.keys() != b.keys():
        return False
    for name, value in a.items():
        if not isinstance(value, Tensor):
            if value != b[name]:
                return False
        elif value.shape != b[name].shape or (should_check_values(None, value) and not torch.equal(value, b[name])):
            return False
    return True


def is_missing(parts: Tensor, part_axes: int, lengths: Int[Tensor, "*shape"]) -> Bool[Tensor, "*shape 1"]:
    """Where a sentence of at least one word has no parts at all."""
    return ((parts == 0).flatten(-part_axes).all(-1) & (lengths > 0)).unsqueeze(-1)


def check_integers(structure: object, expected: str, fits: Callable[[tuple[int, ...]], bool]) -> Int[Tensor, "..."]:
    """A structure as a tensor of integers whose shape fits."""
    if not isinstance(structure, Tensor):
        raise ValueError(f"from_structure of type {type(structure).__name__}: expected a tensor of {expected}")
    if structure.is_floating_point() or structure.is_complex() or structure.dtype == torch.bool:
        raise ValueError(f"from_structure of type {structure.dtype}: expected integers for {expected}")
    if not fits(tuple(structure.shape)):
        raise ValueError(f"from_structure of shape {tuple(structure.shape)}: expected {expected}")
    return structure.long()


def refuse_first(wrong: Bool[Tensor, "*shape"], explain: Callable[..., str]) -> None:
    """Refuse a structure if something is wrong anywhere; ``explain`` gets the first index at which it is."""
    if not wrong.any():
        return
    index = tuple(wrong.nonzero()[0].tolist())
    item = index[:-1]
    prefix = f"item {item[0] if len(item) == 1 else item}: " if item else ""
    raise ValueError(f"from_structure: {prefix}{explain(*index)}")


def check_count(k: Any) -> int:
    """A whole number of structures, at least one."""
    number = _index(k)
    if number is None:
        raise ValueError(f"topk of {k!r}: expected a whole number")
    if number < 1:
        raise ValueError(f"topk of {k!r}: expected at least 1")
    return number


def check_sample_shape(shape: Any) -> torch.Size:
    """The shape of samples; a number is a shape of one axis."""
    number = _index(shape)
    sizes = [number] if number is not None else [_index(size) for size in _listed(shape)]
    if None in sizes or any(size < 0 for size in sizes if size is not None):
        raise ValueError(f"sample_shape of {shape!r}: expected whole numbers from 0 on, such as (2, 3) or 5")
    return torch.Size(size for size in sizes if size is not None)


def check_generator(generator: Any) -> Generator | None:
    """The source of randomness; None is torch's default generator."""
    if generator is None or isinstance(generator, Generator):
        return generator
    raise ValueError(
        f"generator of type {type(generator).__name__}: expected a torch.Generator, "
        "as in torch.Generator().manual_seed(0)"
    )


def _listed(shape: Any) -> list[Any]:
    try:
        return list(shape)
    except TypeError:
        return [None]


def _index(number: Any) -> int | None:
    """A Python integer, or the symbol that stands for one in a graph; None if it is something else."""
    if isinstance(number, torch.SymInt):
        return number  # type: ignore[return-value]  # stands for one
    if isinstance(number, bool) or (isinstance(number, Tensor) and (number.dim() or number.dtype == torch.bool)):
        return None
    try:
        return operator.index(number)
    except TypeError:
        return None


class Structures(constraints.Constraint):
    """The constraint that 0/1 parts are one structure of a distribution, for the lengths of its sentences.

    ``evaluate(scores, lengths)`` returns the log-partition and the marginals for one batch axis; ``describe(length)``
    says for messages what a sentence of that length has.
    """

    is_discrete = True

    def __init__(
        self,
        distribution: object,
        event_shape: torch.Size,
        lengths: Int[Tensor, "*batch"],
        evaluate: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]],
        describe: Callable[[int], str],
    ) -> None:
        super().__init__()
        self.event_dim = len(event_shape)
        self._distribution, self._event_shape, self._lengths = distribution, event_shape, lengths
        self._evaluate, self._describe = evaluate, describe

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._distribution!r})"

    def check(self, value: Tensor) -> Bool[Tensor, "*shape"]:
        """Which items are a structure: exactly one structure uses no other parts, and it uses all of these."""
        event, lengths = self._event_shape, check_parts(value, self._event_shape, self._lengths, caller="support.check")
        shape = lengths.shape
        parts = value.detach().double().expand(*shape, *event).reshape(shape.numel(), *event)
        used = torch.zeros_like(parts).masked_fill(parts == 0, -torch.inf)
        log_count, marginals = self._evaluate(used, lengths.reshape(shape.numel()))
        # Counts are integers, and so are the marginals if there is one structure, so rounding cannot mislead.
        alike = parts == marginals.round()
        return ((log_count.abs() < 0.5) & alike.flatten(1).all(-1)).view(shape)

    def refuse_invalid(self, parts: Tensor, explain: Callable[[Tensor, int], str]) -> None:
        """Refuse parts that are not a structure, and say which ones; ``explain(parts, length)`` says why the first."""
        valid = self.check(parts)
        if valid.all():
            return
        indices = [tuple(index) for index in (~valid).nonzero().tolist()]
        first = indices[0]
        item_parts = parts.detach().expand(*valid.shape, *self._event_shape)[first]
        length = int(self._lengths.expand(valid.shape)[first])
        is_binary = ((item_parts == 0) | (item_parts == 1)).all()
        reason = explain(item_parts.cpu(), length) if is_binary else "its parts are not all 0 or 1"
        names = [str(index[0] if len(index) == 1 else index) for index in indices]
        more = f" and {len(names) - _NUM_NAMED} more" if len(names) > _NUM_NAMED else ""
        listed = f" (items {', '.join(names[:_NUM_NAMED])}{more})" if len(names) > 1 else ""
        item = f"item {names[0]}, of {self._describe(length)}" if first else f"with {self._describe(length)}"
        raise ValueError(
            f"log_prob: {len(indices)} of {valid.numel()} items are not a structure of "
            f"{type(self._distribution).__name__} for their lengths{listed}; expected the 0/1 parts of one structure "
            f"each; {item}: {reason}"
        )
