"""What the attention of each layer adds to its scores: the model's own mask, and the bias of the priors."""

import inspect
from collections.abc import Hashable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from structattn.functional.masked_attention import additive_mask
from structattn.priors import AttentionBias


class LayerMasks:
    """The masks of a pass whose heads have a bias, each built once for all layers that read the same keys."""

    def __init__(self, value: AttentionBias) -> None:
        self.value = value
        self._masks: dict[Hashable, tuple[Tensor | None, Tensor | None]] = {}

    def mask(self, module: nn.Module, inputs: Mapping[str, Any]) -> Tensor | None:
        """What a module with these inputs adds to its scores: its own mask and the bias."""
        mask, states = inputs.get("attention_mask"), inputs["hidden_states"]
        key = id(mask), states.shape, states.dtype, states.device, self.find_window(module, inputs)
        if torch.compiler.is_compiling():
            return self.build(mask, states, key[-1])
        if key not in self._masks:
            # With the module's mask, whose place in memory no other may take.
            self._masks[key] = mask, self.build(mask, states, key[-1])
        return self._masks[key][1]

    def find_window(self, module: nn.Module, inputs: Mapping[str, Any]) -> tuple[int, int] | None:
        """The keys that a call reads, if they are not those of its states."""
        return None

    def build(self, mask: Tensor | None, states: Tensor, window: tuple[int, int] | None) -> Tensor | None:
        """The mask of a module and the bias in one."""
        return _join(mask, self.value, states.dtype)


def _join(mask: Tensor | None, value: AttentionBias, dtype: torch.dtype) -> Tensor | None:
    """A module's own mask, of truth values or added to scores, and a bias."""
    allowed = value.allowed
    if mask is not None and mask.dtype == torch.bool:
        allowed = mask if allowed is None else allowed & mask
        mask = None
    added = additive_mask(allowed, value.bias, dtype)
    if added is None or mask is None:
        return mask if added is None else added
    # Each may be half the lowest number, and the model's own even the lowest: the sum must stay finite.
    return (added + mask).clamp(min=torch.finfo(dtype).min)


class CausalMasks(LayerMasks):
    """The masks of a decoder: a query sees its own key and those before it, of a cache if there is one."""

    def find_window(self, module: nn.Module, inputs: Mapping[str, Any]) -> tuple[int, int] | None:
        """The first key that a call sees and the end of its keys, perhaps beyond the text; ``None`` without a bias."""
        count = self._count_keys()
        if count is None:
            return None
        cache, num_queries = inputs.get("past_key_values"), inputs["hidden_states"].shape[1]
        if cache is None:
            return 0, count
        # Older versions of transformers ask for the positions of the queries rather than for their number.
        takes_positions = "cache_position" in inspect.signature(cache.get_mask_sizes).parameters
        queries = torch.arange(count - num_queries, count) if takes_positions else num_queries
        length, first = cache.get_mask_sizes(queries, module.layer_idx)
        return int(first), int(first + length)

    def build(self, mask: Tensor | None, states: Tensor, window: tuple[int, int] | None) -> Tensor | None:
        """The columns of the bias that a call sees, and its mask: causal where transformers gives none."""
        count = self._count_keys()
        if count is None or window is None:
            return mask
        first, end = window
        allowed = None if self.value.allowed is None else _crop(self.value.allowed, first, end, True)
        bias = None if self.value.bias is None else _crop(self.value.bias, first, end, 0.0)
        if mask is None:
            position = torch.arange(count - states.shape[1], count, device=states.device)
            mask = torch.arange(first, end, device=states.device) <= position[:, None]
        return _join(mask, AttentionBias(allowed, bias), states.dtype)

    def _count_keys(self) -> int | None:
        return next((part.shape[-1] for part in (self.value.allowed, self.value.bias) if part is not None), None)


def _crop(matrix: Tensor, first: int, end: int, beyond: bool | float) -> Tensor:
    """The columns from ``first`` to ``end``, some of which may be ``beyond`` the matrix."""
    columns = matrix[..., first:end]
    missing = end - first - columns.shape[-1]
    return columns if missing <= 0 else nn.functional.pad(columns, (0, missing), value=beyond)
