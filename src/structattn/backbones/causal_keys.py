"""The keys that a decoder's attention sees: those up to the query, of a cache if there is one."""

import inspect
from typing import Any

import torch
from torch import Tensor, nn

from structattn.priors import AttentionBias


def visible_keys(
    value: AttentionBias, mask: Tensor | None, module: nn.Module, inputs: dict[str, Any]
) -> tuple[AttentionBias, Tensor | None]:
    """The columns of a bias that a call of a module sees, and its mask: causal where transformers gives none."""
    count = next((part.shape[-1] for part in (value.allowed, value.bias) if part is not None), None)
    if count is None:
        return value, mask
    states = inputs["hidden_states"]
    first, end = _key_window(inputs.get("past_key_values"), module, states.shape[1], count)
    allowed = None if value.allowed is None else _crop(value.allowed, first, end, True)
    bias = None if value.bias is None else _crop(value.bias, first, end, 0.0)
    if mask is None:
        position = torch.arange(count - states.shape[1], count, device=states.device)
        mask = torch.arange(first, end, device=states.device) <= position[:, None]
    return AttentionBias(allowed, bias), mask


def _key_window(cache: Any, module: Any, num_queries: int, count: int) -> tuple[int, int]:
    """The first key that a call's attention sees, and the end of its keys, which may be beyond the text."""
    if cache is None:
        return 0, count
    # Older versions of transformers ask for the positions of the queries rather than for their number.
    takes_positions = "cache_position" in inspect.signature(cache.get_mask_sizes).parameters
    queries = torch.arange(count - num_queries, count) if takes_positions else num_queries
    length, first = cache.get_mask_sizes(queries, module.layer_idx)
    return int(first), int(first + length)


def _crop(matrix: Tensor, first: int, end: int, beyond: bool | float) -> Tensor:
    """The columns from ``first`` to ``end``, some of which may be ``beyond`` the matrix."""
    columns = matrix[..., first:end]
    missing = end - first - columns.shape[-1]
    return columns if missing <= 0 else nn.functional.pad(columns, (0, missing), value=beyond)
