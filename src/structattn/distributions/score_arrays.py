"""Arrays of scores with batch axes in front: distributions for other batches, and what kernels read."""

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Self

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.distributions import Distribution

from structattn.distributions.validation import (
    are_equal,
    check_broadcast,
    check_lengths,
    check_mask,
    check_scores,
    find_limits,
    refuse_undefined_scores,
    should_check_values,
)
from structattn.kernels.family import Axes


class ScoreArrays(Distribution, ABC):
    """The arguments of a `StructuredDistribution`: scores and lengths, their axes and names, and options."""

    # Which arrays all sentences of a batch share.
    _shared: tuple[bool, ...] = (False,)

    def __init__(
        self,
        arrays: dict[str, Float[Tensor, "..."]],
        lengths: Tensor | Sequence[int] | int | None,
        *,
        axes: Axes,
        num_words: int | None,
        kernel_options: Sequence[int],
        mask: Bool[Tensor, "..."] | None,
        validate_args: bool | None,
    ) -> None:
        if validate_args is None and not Distribution._validate_args:
            validate_args = False  # Distribution.set_default_validate_args
        self._checks_values = validate_args
        self._names, scores = tuple(arrays), tuple(arrays.values())
        self._mask = check_mask(type(self).__name__, mask, scores[0])
        self._arrays = self._keep(scores)
        self._axes, self._kernel_options = tuple(axes), tuple(kernel_options)
        shape, first = scores[0].shape, len(scores[0].shape) - axes[0][0]
        num_words = shape[first] if num_words is None else num_words
        self.lengths: Int[Tensor, "*batch"] = check_lengths(
            lengths, shape[:first], num_words=num_words, like=scores[0], validate_args=validate_args
        )
        super().__init__(shape[:first], shape[first:], validate_args=False)
        self._limits = self._check_values()

    def with_scores(self, scores: Float[Tensor, "..."]) -> Self:
        """The same family, lengths, mask and options with other scores in the place of `scores`.

        What the new scores do not replace, such as the transitions of a chain, stays. Decoding for the highest expected
        number of correct parts (minimum Bayes risk) is ``d.with_scores(d.marginals()).argmax()``, and perturb-and-MAP
        is ``d.with_scores(d.scores + noise).argmax()``.

        Args:
            scores: scores of the parts of a structure, with any further batch axes in front.

        Raises:
            ValueError: if they are not floating-point numbers of that shape, or one that is read is nan or ``+inf``.

        Example:
            >>> from structattn.distributions import DependencyCRF
            >>> trees = DependencyCRF(torch.tensor([[0.0, 0.0, 1.0], [0.5, 0.0, 0.0]]), single_root=True)
            >>> [trees.to_structure(d.argmax()).tolist() for d in (trees, trees.with_scores(-trees.scores))]
            [[2, 0], [0, 1]]
        """
        name = f"{type(self).__name__}.with_scores"
        (first,) = check_scores(name, scores=scores)
        axes = len(self._event_shape)
        if first.dim() < axes or first.shape[first.dim() - axes :] != self._event_shape:
            raise ValueError(
                f"{name}: scores of shape {tuple(first.shape)}: expected "
                f"(..., {', '.join(map(str, self._event_shape))})"
            )
        batch = check_broadcast(
            first.shape[: first.dim() - axes],
            self._batch_shape,
            lambda: (
                f"{name}: scores of shape {tuple(first.shape)} do not fit the batch shape {tuple(self._batch_shape)}"
            ),
        )
        new = self if batch == self._batch_shape else self.expand(batch)
        new, first = copy.copy(new), first.expand(batch + self._event_shape)
        new._arrays = new._keep([first, *(array.to(first.dtype) for array in new._arrays[1:])])
        new._limits = new._check_values()
        return new

    def _keep(self, arrays: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """The arrays, ``-inf`` where the mask forbids a part; without their graph if gradients are off."""
        arrays = arrays if torch.is_grad_enabled() else [array.detach() for array in arrays]
        if self._mask is None:
            return tuple(arrays)
        return arrays[0].masked_fill(~self._mask, -torch.inf), *arrays[1:]

    def _check_values(self) -> list[tuple[float, float]]:
        """The lowest and the highest score of each array; nothing where values are not checked."""
        if not should_check_values(self._checks_values, self._arrays[0]):
            return []
        limits = [find_limits(array) for array in self._arrays]
        # One look at the highest score is enough: nan is neither below nor above infinity, and a maximum keeps it.
        if not all(high < math.inf for _, high in limits):
            for array, readable in zip(self._arrays, self._readable_parts(), strict=True):
                refuse_undefined_scores(type(self).__name__, array.detach(), readable)
        return limits

    @abstractmethod
    def _real_parts(self) -> list[Bool[Tensor, "..."]]:
        """For each array, False where a score is padding or belongs to no part; it is not read."""

    def _readable_parts(self) -> list[Bool[Tensor, "..."]]:
        """For each array, False where a score is padding, belongs to no part, or is forbidden."""
        real, forbidden = self._real_parts(), self.forbidden_parts()
        return real if forbidden is None else [mask & ~hidden for mask, hidden in zip(real, forbidden, strict=True)]

    def forbidden_parts(self) -> Sequence[Bool[Tensor, "..."]] | None:
        """For each array of scores, True where a part is forbidden, whatever its score; None forbids nothing.

        Override this, rather than filling scores with ``-inf``, where the options of a subclass forbid parts. Masks are
        broadcast against the scores. A forbidden part has no marginal and no gradient, its score is not read, and a
        structure that uses it has probability zero.

        Example:
            >>> from structattn.distributions import DependencyCRF
            >>> class Adjacent(DependencyCRF):
            ...     def forbidden_parts(self):
            ...         word = torch.arange(1, self.event_shape[0] + 1).unsqueeze(-1)
            ...         head = torch.arange(self.event_shape[1])
            ...         return [(head > 0) & ((word - head).abs() > 1)]
            >>> [round(kind(torch.zeros(3, 4)).log_count().exp().item()) for kind in (DependencyCRF, Adjacent)]
            [12, 8]
        """
        return None

    def expand(self, batch_shape: torch.Size | Sequence[int], _instance: Any = None) -> Self:
        """The same distribution for a larger batch, without copying the scores.

        Args:
            batch_shape: the new batch shape; the old one must broadcast to it.

        Raises:
            ValueError: if it does not.
        """
        try:
            shape = torch.Size(batch_shape)
            fits = torch.broadcast_shapes(self._batch_shape, shape) == shape
        except (RuntimeError, TypeError):
            fits = False
        if not fits:
            raise ValueError(
                f"{type(self).__name__} with batch shape {tuple(self._batch_shape)} cannot be expanded to "
                f"{batch_shape!r}: expected a shape that the batch shape broadcasts to"
            )
        return self._with(lambda tensor, axes: tensor.expand(shape + tensor.shape[tensor.dim() - axes :]))

    def __getitem__(self, index: Any) -> Self:
        """The distribution of some sentences, ``d[0]`` or ``d[1:3]``: an index as for a tensor, of batch axes only."""
        index = index if isinstance(index, tuple) else (index,)
        try:
            self.lengths[index]
        except (IndexError, TypeError) as error:
            raise IndexError(
                f"{type(self).__name__} with batch shape {tuple(self._batch_shape)}, index {index}: {error}"
            ) from None
        return self._with(lambda tensor, axes: tensor[(*index, *(slice(None) for _ in range(axes)))])

    def __repr__(self) -> str:
        arrays = zip((*self._names, "lengths"), (*self._arrays, self.lengths), strict=True)
        shown = {**dict(arrays), **self._options()}.items()
        texts = [f"{name}: {value.shape if isinstance(value, Tensor) else value}" for name, value in shown]
        return f"{type(self).__name__}({', '.join(texts)})"

    def _options(self) -> dict[str, Any]:
        """The options of the class: its attributes without an underscore."""
        return {name: value for name, value in vars(self).items() if name[0] != "_" and name != "lengths"}

    def _with(self, change: Callable[[Tensor, int], Tensor]) -> Self:
        """A copy whose scores and lengths have other batch axes: ``change(tensor, number of axes that stay)``."""
        new = copy.copy(self)
        new._arrays = tuple(
            array if shared else change(array, axes)
            for array, shared, (axes, _) in zip(self._arrays, self._shared, self._axes, strict=True)
        )
        new._mask = None if self._mask is None else change(self._mask, self._axes[0][0])
        new.lengths = change(self.lengths, 0)
        new._batch_shape = new.lengths.shape
        return new

    def _inputs(self, dtype: torch.dtype | None = None) -> tuple[list[Tensor], Tensor, tuple[int, ...]]:
        """What kernels read: arrays and lengths with one batch axis, in single or double precision; and options."""
        arrays, forbidden = self._arrays, self.forbidden_parts()
        if forbidden is not None:
            masked = zip(arrays, forbidden, strict=True)
            arrays = tuple(array.masked_fill(mask, -torch.inf) for array, mask in masked)
        inputs = []
        for array, shared in zip(arrays, self._shared, strict=True):
            array = array if shared else self._one_batch_axis(array)
            precision = dtype or (array.dtype if array.dtype in (torch.float32, torch.float64) else torch.float32)
            inputs.append(array if array.dtype == precision else array.to(precision))
        return inputs, self._one_batch_axis(self.lengths), self._kernel_options

    def _one_batch_axis(self, tensor: Tensor) -> Tensor:
        # A view costs as much as computing a short sentence, so none is made if there already is one batch axis.
        if len(self._batch_shape) == 1:
            return tensor
        # Flattened, not reshaped: in a graph the size of the batch then stays dynamic.
        return tensor.flatten(0, len(self._batch_shape) - 1) if self._batch_shape else tensor.unsqueeze(0)

    def _per_item(self, values: Tensor, *sample_shape: int) -> Tensor:
        """Values of sentences in the shape and dtype that users see."""
        if sample_shape or len(self._batch_shape) != 1:
            values = values.reshape((*sample_shape, *self._batch_shape))
        dtype = self._arrays[0].dtype
        return values if values.dtype == dtype else values.to(dtype)

    def _per_part(self, parts: Tensor, *sample_shape: int) -> Tensor:
        """Parts in the shape and dtype that users see."""
        shape, dtype = torch.Size(sample_shape) + self._batch_shape + self._event_shape, self._arrays[0].dtype
        parts = parts if parts.shape == shape else parts.reshape(shape)
        return parts if parts.dtype == dtype else parts.to(dtype)

    def _align(self, q: Distribution) -> "tuple[Self, Self]":
        """This distribution and another one over the same arrays of parts; an error if they cannot be compared."""
        if type(q) is not type(self) or q.event_shape != self.event_shape:
            parts = f" with parts {tuple(q.event_shape)}" if isinstance(q, Distribution) else ""
            raise ValueError(
                f"{type(self).__name__} with parts {tuple(self.event_shape)} cannot be compared with "
                f"{type(q).__name__}{parts}: expected the same family and shape"
            )
        if not are_equal(self._options(), q._options()):
            raise ValueError(f"{self!r} cannot be compared with {q!r}: expected the same options")
        p = self
        if p._batch_shape != q._batch_shape:
            shape = check_broadcast(
                p._batch_shape,
                q._batch_shape,
                lambda: f"{p!r} cannot be compared with {q!r}: expected batch shapes that broadcast",
            )
            p, q = p.expand(shape), q.expand(shape)
        if should_check_values(None, p.lengths) and not torch.equal(p.lengths, q.lengths):
            index = tuple((p.lengths != q.lengths).nonzero()[0].tolist())
            item = f"item {index[0] if len(index) == 1 else index}" if index else "the sentence"
            raise ValueError(
                f"{type(self).__name__}: sentences of different lengths cannot be compared: {item} has "
                f"{int(p.lengths[index])} and {int(q.lengths[index])} words"
            )
        return p, q
