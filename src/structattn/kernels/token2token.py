"""Feature-wise attention between words as torch operators: compiled, or streamed tile by tile in plain torch.

Shen et al. 2018 (DiSAN), equation 10 in the form used inside a DiSA block. Neither path ever holds a number for every
pair of words and feature: scores are made, used and forgotten, and made again in the backward pass. Separate because
``functional.token2token`` knows what the words mean, and this only how it is computed.
"""

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd import forward_ad

from structattn.kernels import native
from structattn.kernels.pair_scores import LARGE_SCALE, curve_of, curved, exponentials, highest_of, inverse_
from structattn.kernels.pair_tiles import tile_size, tiles


def attend(
    queries: Float[Tensor, "batch query feature"],
    keys: Float[Tensor, "batch key feature"],
    values: Float[Tensor, "batch key feature"],
    allowed: Bool[Tensor, "#batch query key"],
    scale: float,
) -> Float[Tensor, "batch query feature"]:
    """``s_i = sum_j softmax_j(c tanh((q_i + k_j) / c)) * v_j`` over allowed keys; differentiable once.

    Args:
        queries: the queries' part of the score.
        keys: the keys' part of the score.
        values: what is averaged; float32 or float64, like the others.
        allowed: where a query may look at a key.
        scale: the bound ``c``.

    Example:
        >>> everything = torch.ones(1, 1, 2, dtype=torch.bool)
        >>> attend(torch.zeros(1, 1, 1), torch.zeros(1, 2, 1), torch.tensor([[[1.0], [2.0]]]), everything, 5.0)
        tensor([[[1.5000]]])
    """
    if not torch.compiler.is_compiling() and any(
        forward_ad.unpack_dual(tensor).tangent is not None for tensor in (queries, keys, values)
    ):
        raise NotImplementedError(
            "forward-mode differentiation of token2token was asked for; expected reverse mode (backward, "
            "torch.autograd.grad)"
        )
    attended: Tensor = _attended(queries, keys, values, allowed, scale)[0]
    return attended


@torch.library.custom_op("structattn::token2token", mutates_args=())
def _attended(queries: Tensor, keys: Tensor, values: Tensor, allowed: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """What every query attends to, and the inverse of its sum of exponentials."""
    compiled = _compiled("token2token", queries, scale, pointers=7)
    if compiled is None:
        return _streamed(queries, keys, values, allowed, scale)
    queries, keys, values = (tensor.contiguous() for tensor in (queries, keys, values))
    attended, inverse = torch.empty_like(queries), torch.empty_like(queries)
    _call(compiled, queries, keys, values, allowed, scale, attended, inverse)
    return attended, inverse


@torch.library.custom_op("structattn::token2token_backward", mutates_args=())
def _gradients(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    allowed: Tensor,
    scale: float,
    attended: Tensor,
    inverse: Tensor,
    gradient: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    compiled = _compiled("token2token_backward", queries, scale, pointers=11)
    if compiled is None:
        return _streamed_gradients(queries, keys, values, allowed, scale, attended, inverse, gradient)
    queries, keys, values, gradient = (tensor.contiguous() for tensor in (queries, keys, values, gradient))
    found = torch.empty_like(queries), torch.empty_like(keys), torch.empty_like(values)
    _call(compiled, queries, keys, values, allowed, scale, attended, inverse, gradient, *found)
    return found


def _compiled(name: str, queries: Tensor, scale: float, *, pointers: int) -> Any:
    if scale > LARGE_SCALE:
        return None  # There the score itself is inexact in the form that the compiled kernel takes.
    return native.function(name, queries, pointers=pointers, numbers=5)


def _call(
    compiled: Any, queries: Tensor, keys: Tensor, values: Tensor, allowed: Tensor, scale: float, *others: Tensor
) -> None:
    allowed = allowed[:1] if allowed.stride(0) == 0 else allowed
    allowed = allowed.contiguous()
    bound = torch.tensor(scale, dtype=torch.float64)
    pointers = [tensor.data_ptr() for tensor in (queries, keys, values, allowed, bound, *others)]
    pairs = allowed.shape[1] * allowed.shape[2]
    compiled(*pointers, *queries.shape[:2], keys.shape[1], queries.shape[2], pairs if len(allowed) > 1 else 0)


def _streamed(queries: Tensor, keys: Tensor, values: Tensor, allowed: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    curve = curve_of(scale)
    highest = highest_of(queries, keys, allowed, curve=curve)
    total, attended = torch.zeros_like(queries), torch.zeros_like(queries)
    memory = queries.new_empty(tile_size(queries, keys))
    for tile in tiles(queries, keys, allowed):
        weights = curved(tile, queries, keys, curve=curve, memory=memory)
        weights = exponentials(weights, tile, curve, highest=highest, out=weights)
        total_here, attended_here = total[tile.sentences, tile.queries], attended[tile.sentences, tile.queries]
        if weights.shape[1] == 1:  # Nothing to sum, so nothing to write down first.
            total_here += weights[:, 0]
            attended_here.addcmul_(weights[:, 0], values[tile.sentences, tile.keys])
        else:
            total_here += weights.sum(1)
            attended_here += weights.mul_(values[tile.sentences, tile.keys, None]).sum(1)
    inverse = inverse_(total)
    attended *= inverse
    return attended, inverse


def _streamed_gradients(
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
    incoming, curve = gradient * inverse, curve_of(scale)
    highest = highest_of(queries, keys, allowed, curve=curve)
    of_queries, of_keys, of_values = torch.zeros_like(queries), torch.zeros_like(keys), torch.zeros_like(values)
    memory = queries.new_empty(2, tile_size(queries, keys))
    for tile in tiles(queries, keys, allowed):
        bent = curved(tile, queries, keys, curve=curve, memory=memory[0])
        terms = exponentials(bent, tile, curve, highest=highest, out=tile.view(memory[1]))
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
    queries, keys, values, allowed, attended, inverse = ctx.saved_tensors
    of_inputs = _gradients(queries, keys, values, allowed, ctx.scale, attended, inverse, gradient)
    return *of_inputs, None, None


def _refuse(ctx: Any, *gradients: Tensor) -> None:
    raise RuntimeError("token2token can be differentiated once; the gradient of its gradient was asked for")


def _like(*tensors: Tensor) -> tuple[Tensor, ...]:
    return tuple(torch.empty_like(tensor, memory_format=torch.contiguous_format) for tensor in tensors)


def _batching_rule(operator: Any) -> Any:
    """The mapped axis becomes part of the batch axis; a mask that was shared by the batch is repeated."""

    def batched(info: Any, in_dims: tuple[Any, ...], *inputs: Any) -> tuple[Any, Any]:
        size, batch = info.batch_size, _batch_of(inputs[0], in_dims[0])

        def merged(tensor: Any, axis: int | None) -> Any:
            if not isinstance(tensor, Tensor):
                return tensor
            tensor = tensor.movedim(axis, 0) if axis is not None else tensor.expand(size, *tensor.shape)
            return tensor.expand(size, batch, *tensor.shape[2:]).flatten(0, 1)

        outputs = operator(*(merged(tensor, axis) for tensor, axis in zip(inputs, in_dims, strict=True)))
        return tuple(output.unflatten(0, (size, batch)) for output in outputs), (0,) * len(outputs)

    return batched


def _batch_of(tensor: Tensor, axis: int | None) -> int:
    return tensor.shape[0] if axis is None else tensor.movedim(axis, 0).shape[1]


_attended.register_fake(lambda queries, *_: _like(queries, queries))
_attended.register_autograd(_backward, setup_context=_save)
_attended.register_vmap(_batching_rule(_attended))
_gradients.register_fake(lambda queries, keys, values, *_: _like(queries, keys, values))
_gradients.register_autograd(_refuse)
_gradients.register_vmap(_batching_rule(_gradients))
