"""Feature-wise attention between words as torch operators: compiled, or streamed tile by tile in plain torch.

Shen et al. 2018 (DiSAN), equation 10 in the form used inside a DiSA block. Neither path ever stores a number for every
pair of words and every feature: scores are computed, used and discarded, then recomputed in the backward pass.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd import Function
from torch.nn import Parameter

from structattn.kernels.pair_tiles import (
    LARGE_SCALE,
    bend,
    exponentiate,
    find_highest,
    invert_,
    iterate_tiles,
    select_curve,
    tile_size,
)
from structattn.kernels.programs import empty_like, find_compiled, find_on_device
from structattn.kernels.tracing import is_mapped


def attend(
    queries: Float[Tensor, "batch query feature"],
    keys: Float[Tensor, "batch key feature"],
    values: Float[Tensor, "batch key feature"],
    allowed: Bool[Tensor, "#batch query key"],
    scale: float,
) -> Float[Tensor, "batch query feature"]:
    """``s_i = sum_j softmax_j(c tanh((q_i + k_j) / c)) * v_j`` over allowed keys; differentiable once."""
    attended: Tensor = _ATTEND(queries, keys, values, allowed, scale)[0]
    return attended


def _attend(queries: Tensor, keys: Tensor, values: Tensor, allowed: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """The attention output of every query, and the inverse of its sum of exponentials."""
    allowed = _for_each_sentence(allowed, len(queries))
    attended, inverse = empty_like(queries), empty_like(queries)
    if _run_on_device("token2token_attend", (queries, keys, values), (allowed,), (attended, inverse), scale):
        return attended, inverse
    compiled = _find_compiled("token2token", queries, scale, pointers=7)
    if compiled is None:
        return _stream(queries, keys, values, allowed, scale)
    queries, keys, values = (tensor.contiguous() for tensor in (queries, keys, values))
    _call(compiled, queries, keys, values, allowed, scale, attended, inverse)
    return attended, inverse


def _gradients(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    allowed: Tensor,
    attended: Tensor,
    inverse: Tensor,
    gradient: Tensor,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    allowed = _for_each_sentence(allowed, len(queries))
    gradients = empty_like(queries), empty_like(keys), empty_like(values)
    inputs = (allowed, attended, inverse, gradient)
    if _run_on_device("token2token_gradients", (queries, keys, values), inputs, gradients, scale):
        return gradients
    compiled = _find_compiled("token2token_backward", queries, scale, pointers=11)
    if compiled is None:
        return _stream_gradients(queries, keys, values, allowed, scale, attended, inverse, gradient)
    queries, keys, values, gradient = (tensor.contiguous() for tensor in (queries, keys, values, gradient))
    _call(compiled, queries, keys, values, allowed, scale, attended, inverse, gradient, *gradients)
    return gradients


def _for_each_sentence(allowed: Tensor, batch: int) -> Tensor:
    """One mask for the batch, or one for each sentence; ``torch.vmap`` leaves one for each mapped batch."""
    return allowed if len(allowed) in (1, batch) else allowed.repeat_interleave(batch // len(allowed), 0)


def _run_on_device(
    name: str, parts: Sequence[Tensor], inputs: Sequence[Tensor], results: Sequence[Tensor], scale: float
) -> bool:
    """Whether a kernel for this device has written the results."""
    program = find_on_device(name, parts[0]) if scale <= LARGE_SCALE else None
    if program is None:
        return False
    return program(parts, None, [_single_mask(inputs[0]), *inputs[1:]], results, [scale])


def _single_mask(allowed: Tensor) -> Tensor:
    """A single mask if all sentences share one in memory."""
    return allowed[:1] if allowed.stride(0) == 0 else allowed


def _find_compiled(name: str, queries: Tensor, scale: float, *, pointers: int) -> Any:
    if scale > LARGE_SCALE:
        return None  # There the score is inaccurate in the form that the compiled kernel uses.
    return find_compiled(name, queries, pointers=pointers, numbers=5)


def _call(
    compiled: Any, queries: Tensor, keys: Tensor, values: Tensor, allowed: Tensor, scale: float, *further: Tensor
) -> None:
    allowed = _single_mask(allowed).contiguous()
    bound = torch.tensor(scale, dtype=torch.float64, device="cpu")  # whatever the default device is
    pointers = [tensor.data_ptr() for tensor in (queries, keys, values, allowed, bound, *further)]
    pairs = allowed.shape[1] * allowed.shape[2]
    compiled(*pointers, *queries.shape[:2], keys.shape[1], queries.shape[2], pairs if len(allowed) > 1 else 0)


def _stream(queries: Tensor, keys: Tensor, values: Tensor, allowed: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    curve = select_curve(scale)
    highest = find_highest(queries, keys, allowed, curve=curve)
    total, attended = torch.zeros_like(queries), torch.zeros_like(queries)
    memory = queries.new_empty(tile_size(queries, keys))
    for tile in iterate_tiles(queries, keys, allowed):
        weights = bend(tile, queries, keys, curve=curve, memory=memory)
        weights = exponentiate(weights, tile, curve, highest=highest, out=weights)
        total_view, attended_view = total[tile.sentences, tile.queries], attended[tile.sentences, tile.queries]
        if weights.shape[1] == 1:  # Nothing to sum, so no intermediate result to write.
            total_view += weights[:, 0]
            attended_view.addcmul_(weights[:, 0], values[tile.sentences, tile.keys])
        else:
            total_view += weights.sum(1)
            attended_view += weights.mul_(values[tile.sentences, tile.keys, None]).sum(1)
    inverse = invert_(total)
    attended *= inverse
    return attended, inverse


def _stream_gradients(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    allowed: Tensor,
    scale: float,
    attended: Tensor,
    inverse: Tensor,
    gradient: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    # With g the gradient of s: dv_j = sum_i P_ij g_i, and with eta_ij = P_ij g_i (v_j - s_i) (1 - tanh^2),
    # dq_i = sum_j eta_ij and dk_j = sum_i eta_ij.
    incoming, curve = gradient * inverse, select_curve(scale)
    highest = find_highest(queries, keys, allowed, curve=curve)
    of_queries, of_keys, of_values = torch.zeros_like(queries), torch.zeros_like(keys), torch.zeros_like(values)
    memory = queries.new_empty(2, tile_size(queries, keys))
    for tile in iterate_tiles(queries, keys, allowed):
        bent = bend(tile, queries, keys, curve=curve, memory=memory[0])
        terms = exponentiate(bent, tile, curve, highest=highest, out=tile.view(memory[1]))
        terms *= incoming[tile.sentences, None, tile.queries]
        torch.sum(terms, 2, out=of_values[tile.sentences, tile.keys])
        curve.times_derivative_(terms, bent)
        differences = bent  # Its memory; the curve itself is no longer needed.
        torch.sub(
            values[tile.sentences, tile.keys, None], attended[tile.sentences, None, tile.queries], out=differences
        )
        terms *= differences
        of_queries[tile.sentences, tile.queries] += terms[:, 0] if terms.shape[1] == 1 else terms.sum(1)
        torch.sum(terms, 2, out=of_keys[tile.sentences, tile.keys])
    of_queries *= curve.derivative_factor
    of_keys *= curve.derivative_factor
    return of_queries, of_keys, of_values


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    *tensors, ctx.scale = inputs
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*tensors, *output)


def _backward(ctx: Any, gradient: Tensor | None, _: Tensor | None) -> tuple[Tensor | None, ...]:
    if gradient is None:
        return None, None, None, None, None
    return *_GRADIENTS(*ctx.saved_tensors, gradient, ctx.scale), None, None


def _save_nothing(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    """Save nothing, because there is no backward pass."""


def _refuse(ctx: Any, *gradients: Tensor) -> None:
    raise RuntimeError("token2token can be differentiated once; the gradient of its gradient was requested")


def _refuse_forward_mode(ctx: Any, *tangents: Any) -> None:
    raise NotImplementedError(
        "forward-mode differentiation of token2token was requested; expected reverse mode (backward, "
        "torch.autograd.grad)"
    )


def _register(
    name: str,
    implementation: Callable[..., Any],
    *,
    fake: Callable[..., Any],
    backward: Callable[..., Any],
    save: Callable[..., None],
) -> Callable[..., Any]:
    """A torch operator, for graphs, and an ``autograd.Function``, for eager calls and function transforms."""
    operator = torch.library.custom_op(f"structattn::{name}", implementation, mutates_args=())
    operator.register_fake(fake)
    operator.register_autograd(backward, setup_context=save)

    def batched(info: Any, in_dims: tuple[Any, ...], *inputs: Any) -> tuple[Any, Any]:
        """Merge the mapped axis into the batch axis."""
        *tensors, scale = inputs
        mapped = [
            tensor.movedim(axis, 0) if axis is not None else tensor.expand(info.batch_size, *tensor.shape)
            for tensor, axis in zip(tensors, in_dims, strict=False)
        ]
        outputs = call(*(tensor.flatten(0, 1) for tensor in mapped), scale)
        return tuple(output.unflatten(0, (info.batch_size, -1)) for output in outputs), (0,) * len(outputs)

    operator.register_vmap(batched)
    methods = {"forward": implementation, "setup_context": save, "backward": backward, "vmap": batched}
    methods["jvp"] = _refuse_forward_mode
    function: Any = type(name, (Function,), {key: staticmethod(method) for key, method in methods.items()})

    def call(*inputs: Any) -> Any:
        tensors = inputs[:-1]
        eager = type(tensors[0]) in (Tensor, Parameter) and not torch.compiler.is_compiling() and not tensors[0].is_meta
        return function.apply(*inputs) if eager and not any(map(is_mapped, tensors)) else operator(*inputs)

    return call


_GRADIENTS = _register(
    "token2token_gradients",
    _gradients,
    fake=lambda queries, keys, values, *_: (empty_like(queries), empty_like(keys), empty_like(values)),
    backward=_refuse,
    save=_save_nothing,
)
_ATTEND = _register(
    "token2token",
    _attend,
    fake=lambda queries, *_: (empty_like(queries), empty_like(queries)),
    backward=_backward,
    save=_save,
)
