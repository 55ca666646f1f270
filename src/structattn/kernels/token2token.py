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

from structattn.kernels import gpu, native
from structattn.kernels.autograd import is_mapped
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
        allowed: where a query may attend to a key.
        scale: the bound ``c``.

    Example:
        >>> everything = torch.ones(1, 1, 2, dtype=torch.bool)
        >>> attend(torch.zeros(1, 1, 1), torch.zeros(1, 2, 1), torch.tensor([[[1.0], [2.0]]]), everything, 5.0)
        tensor([[[1.5000]]])
    """
    attended: Tensor = _ATTEND(queries, keys, values, allowed, scale)[0]
    return attended


def _attend(queries: Tensor, keys: Tensor, values: Tensor, allowed: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """The attention output of every query, and the inverse of its sum of exponentials."""
    allowed = _for_each_sentence(allowed, len(queries))
    attended, inverse = _like(queries, queries)
    if _on_device("token2token_attend", (queries, keys, values), (allowed,), (attended, inverse), scale):
        return attended, inverse
    compiled = _compiled("token2token", queries, scale, pointers=7)
    if compiled is None:
        return _streamed(queries, keys, values, allowed, scale)
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
    of_queries, of_keys, of_values = found = _like(queries, keys, values)
    given = (allowed, attended, inverse, gradient)
    if _on_device("token2token_gradients", (queries, keys, values), given, found, scale):
        return of_queries, of_keys, of_values
    compiled = _compiled("token2token_backward", queries, scale, pointers=11)
    if compiled is None:
        return _streamed_gradients(queries, keys, values, allowed, scale, attended, inverse, gradient)
    queries, keys, values, gradient = (tensor.contiguous() for tensor in (queries, keys, values, gradient))
    _call(compiled, queries, keys, values, allowed, scale, attended, inverse, gradient, *found)
    return of_queries, of_keys, of_values


def _for_each_sentence(allowed: Tensor, batch: int) -> Tensor:
    """One mask for the batch, or one for each sentence; ``torch.vmap`` leaves one for each mapped batch."""
    return allowed if len(allowed) in (1, batch) else allowed.repeat_interleave(batch // len(allowed), 0)


def _on_device(
    name: str, parts: Sequence[Tensor], given: Sequence[Tensor], found: Sequence[Tensor], scale: float
) -> bool:
    """Whether a kernel for this device has written the results."""
    function = gpu.function(name, parts[0]) if scale <= LARGE_SCALE else None
    if function is None:
        return False
    given = [_one_for_all(given[0]), *given[1:]]
    return function(parts, None, given, found, [scale])


def _one_for_all(allowed: Tensor) -> Tensor:
    """A single mask if all sentences share one in memory."""
    return allowed[:1] if allowed.stride(0) == 0 else allowed


def _compiled(name: str, queries: Tensor, scale: float, *, pointers: int) -> Any:
    if scale > LARGE_SCALE:
        return None  # There the score is inaccurate in the form that the compiled kernel uses.
    return native.function(name, queries, pointers=pointers, numbers=5)


def _call(
    compiled: Any, queries: Tensor, keys: Tensor, values: Tensor, allowed: Tensor, scale: float, *others: Tensor
) -> None:
    allowed = _one_for_all(allowed).contiguous()
    bound = torch.tensor(scale, dtype=torch.float64, device="cpu")  # whatever the default device is
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
        if weights.shape[1] == 1:  # Nothing to sum, so no intermediate result to write.
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


def _like(*tensors: Tensor) -> tuple[Tensor, ...]:
    return tuple(torch.empty_like(tensor, memory_format=torch.contiguous_format) for tensor in tensors)


def _registered(
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


_GRADIENTS = _registered(
    "token2token_gradients",
    _gradients,
    fake=lambda queries, keys, values, *_: _like(queries, keys, values),
    backward=_refuse,
    save=_save_nothing,
)
_ATTEND = _registered(
    "token2token", _attend, fake=lambda queries, *_: _like(queries, queries), backward=_backward, save=_save
)
