"""Linear chains whose unaries and transitions stand in two arrays: nothing is packed, and no graph unpacks gradients.

Separate from ``kernels.chain``, whose operators take all scores of a sentence in one row: that is what graphs,
transforms and plain torch see. Packing costs more than a short sentence, and as much memory again where every position
has a matrix of its own. What is asked here is answered by the compiled kernel alone, or by None.

Reference: as in ``kernels.chain``.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional as F

from structattn.kernels import chain, native
from structattn.kernels.eager import call_compiled, forward_mode_error, is_eager, is_recorded, like


class _States(Function):
    """State marginals from two arrays of scores to their two gradients, without a graph that packs and unpacks them."""

    @staticmethod
    def forward(ctx: Any, unary: Tensor, transition: Tensor, lengths: Tensor, compiled: Callable[..., bool]) -> Tensor:
        ctx.save_for_backward(unary, transition, lengths)
        return _run_states(unary, transition, lengths, compiled)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        unary, transition, lengths = ctx.saved_tensors
        compiled = native.function("chain_separate_hvp", unary, pointers=6, numbers=4)
        if compiled is None or torch.is_grad_enabled():
            # To be differentiated again: the same with the operator, as a function of what both arrays hold.
            each = _of_each_sentence(transition, unary)
            scores = chain.packed(unary, each)
            vector = F.pad(grad.flatten(1), (0, scores.shape[1] - grad[0].numel()))
            to_unary, to_each = chain.unpacked(
                chain.OPERATORS.hvp(scores, lengths, vector, chain.sizes_of(unary, each)), unary, each
            )
            return to_unary, _gathered(to_each, transition), None, None
        to_unary, room = like(unary), _room(transition, unary) if ctx.needs_input_grad[1] else None
        call_compiled(compiled, unary, lengths, transition, grad, to_unary, room, sizes=_sizes(unary, transition))
        return to_unary, None if room is None else _gathered(room, transition), None, None

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        raise forward_mode_error()


class _LogPartition(Function):
    """The log-partition from two arrays of scores to their two gradients, without packing either."""

    @staticmethod
    def forward(ctx: Any, unary: Tensor, transition: Tensor, lengths: Tensor, compiled: Callable[..., bool]) -> Tensor:
        log_partition = unary.new_empty(len(unary))
        ctx.parts = _run_parts(ctx.needs_input_grad, unary, transition, lengths, compiled, log_partition)
        ctx.save_for_backward(unary, transition, lengths)
        ctx.compiled = compiled
        return log_partition

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        unary, transition, lengths = ctx.saved_tensors
        if torch.is_grad_enabled():
            each = _of_each_sentence(transition, unary)
            parts = chain.OPERATORS.parts(chain.packed(unary, each), lengths, chain.sizes_of(unary, each))
            to_unary, to_each = chain.unpacked(parts * grad.unsqueeze(-1), unary, each)
            return to_unary, _gathered(to_each, transition), None, None
        # The marginals become the gradient where they are, which saves a second array as large as the scores; should
        # the graph be kept and asked again, they are computed again.
        found = ctx.parts or _run_parts(ctx.needs_input_grad, unary, transition, lengths, ctx.compiled, None)
        ctx.parts = None
        states, matrices = found
        states *= grad.view(-1, 1, 1)
        if matrices is None:
            return states, None, None, None
        if transition.dim() == 2:
            return states, (grad @ matrices.flatten(1)).view(transition.shape), None, None
        matrices *= grad.view(-1, 1, 1, 1)
        return states, matrices, None, None

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        raise forward_mode_error()


def _run_states(unary: Tensor, transition: Tensor, lengths: Tensor, compiled: Callable[..., bool]) -> Tensor:
    states = like(unary)
    sizes = _sizes(unary, transition)
    call_compiled(compiled, unary, lengths, transition, None, states, None, sizes=sizes)
    return states


def _run_parts(
    needed: Sequence[bool],
    unary: Tensor,
    transition: Tensor,
    lengths: Tensor,
    compiled: Callable[..., bool],
    log_partition: Tensor | None,
) -> tuple[Tensor, Tensor | None]:
    states, each = like(unary), _room(transition, unary) if needed[1] else None
    sizes = _sizes(unary, transition)
    call_compiled(compiled, unary, lengths, transition, log_partition, states, each, sizes=sizes)
    return states, each


def _separate(name: str, unary: Tensor, transition: Tensor, *, pointers: int) -> Callable[..., bool] | None:
    """A kernel that reads both arrays as they are; None where only the operators can answer."""
    if unary.dtype != transition.dtype or not (is_eager(unary) and is_eager(transition)):
        return None
    return native.function(name, unary, pointers=pointers, numbers=4)


def state_marginals(
    unary: Float[Tensor, "batch word state"],
    transition: Float[Tensor, "*_ state state"],
    lengths: Int[Tensor, " batch"],
) -> Float[Tensor, "batch word state"] | None:
    """State marginals alone, which is all that attention wants; None where only the operators can give them.

    Args:
        unary: as for `marginals`.
        transition: as for `marginals` with one matrix per position, or one matrix ``[from, to]`` for all sentences.
        lengths: as for `marginals`.

    Example:
        >>> scores = torch.zeros(1, 3, 2), torch.zeros(2, 2)
        >>> with native.plain_torch():
        ...     state_marginals(*scores, torch.tensor([3])) is None
        True
    """
    compiled = _separate("chain_separate", unary, transition, pointers=6)
    if compiled is None:
        return None
    run: Callable[..., Tensor] = _States.apply if is_recorded(unary, transition) else _run_states
    states: Tensor = run(unary, transition, lengths, compiled)
    return states


def log_partition(
    unary: Float[Tensor, "batch word state"],
    transition: Float[Tensor, "*_ state state"],
    lengths: Int[Tensor, " batch"],
) -> Float[Tensor, " batch"] | None:
    """The log-partition alone, which is all that training wants; None where only the operators can give it.

    Args:
        unary: as for `state_marginals`.
        transition: as for `state_marginals`.
        lengths: as for `marginals`.

    Example:
        >>> scores = torch.zeros(1, 3, 2), torch.zeros(2, 2)
        >>> with native.plain_torch():
        ...     log_partition(*scores, torch.tensor([3])) is None
        True
    """
    compiled = _separate("chain_separate", unary, transition, pointers=6)
    if compiled is None:
        return None
    if is_recorded(unary, transition):
        recorded: Tensor = _LogPartition.apply(unary, transition, lengths, compiled)
        return recorded
    found = unary.new_empty(len(unary))
    sizes = _sizes(unary, transition)
    call_compiled(compiled, unary, lengths, transition, found, None, None, sizes=sizes)
    return found


def argmax(
    unary: Float[Tensor, "batch word state"],
    transition: Float[Tensor, "*_ state state"],
    lengths: Int[Tensor, " batch"],
) -> Float[Tensor, "batch word state"] | None:
    """States of a best sequence, all zero if nothing is allowed; None where no compiled kernel can run.

    Args:
        unary: as for `state_marginals`.
        transition: as for `state_marginals`.
        lengths: as for `marginals`.

    Example:
        >>> scores = torch.zeros(1, 3, 2), torch.zeros(2, 2)
        >>> with native.plain_torch():
        ...     argmax(*scores, torch.tensor([3])) is None
        True
    """
    compiled = _separate("chain_separate_argmax", unary, transition, pointers=4)
    if compiled is None:
        return None
    found = like(unary)
    call_compiled(compiled, unary, lengths, transition, found, sizes=_sizes(unary, transition))
    return found


def _sizes(unary: Tensor, transition: Tensor) -> list[int]:
    return [unary.shape[1], unary.shape[2], 2 if transition.dim() == 2 else 0]


def _room(transition: Tensor, unary: Tensor) -> Tensor:
    """For parts of the transitions of each sentence."""
    return unary.new_empty(len(unary), *transition.shape[-3 if transition.dim() > 2 else -2 :])


def _of_each_sentence(transition: Tensor, unary: Tensor) -> Tensor:
    return transition.expand(len(unary), *transition.shape) if transition.dim() == 2 else transition


def _gathered(to_each: Tensor, transition: Tensor) -> Tensor:
    """The gradient of the transitions as they were given, from that of each sentence."""
    return to_each.sum(0) if transition.dim() == 2 else to_each
