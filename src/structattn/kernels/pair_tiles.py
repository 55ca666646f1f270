"""Blocks of word pairs, for attention that must process all pairs without storing them all at once.

This module knows nothing about scores, only which pairs are allowed and how much may be stored at a time.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

# Numbers per tile. Four megabytes in single precision: small enough to stay in a processor's cache between the
# operations on it, large enough to hide the cost of starting them on all its cores.
_TILE = 2**20


class Tile(NamedTuple):
    """A block of pairs that is computed at once; within it, keys come before queries.

    Example:
        >>> tile = Tile(slice(0, 1), slice(1, 3), slice(0, 1), torch.zeros(1, 1, 2, 1), (1, 1, 2, 4))
        >>> tile.view(torch.zeros(100)).shape
        torch.Size([1, 1, 2, 4])
    """

    sentences: slice
    queries: slice
    keys: slice
    penalty: Tensor  # (sentence, key, query, 1): zero where allowed, minus infinity elsewhere
    shape: tuple[int, int, int, int]

    def view(self, memory: Tensor) -> Tensor:
        """The start of a buffer, in the shape of this tile."""
        return memory[: math.prod(self.shape)].view(self.shape)


def tiles(queries: Tensor, keys: Tensor, allowed: Tensor) -> Iterator[Tile]:
    """Cover all allowed pairs; queries at the edge of a tile that no sentence allows are left out of it.

    For a directional mask this halves the work, and padded keys cost nothing, whatever the mask means.

    Args:
        queries: shape ``(batch, query, feature)``; only its shape, dtype and device matter.
        keys: shape ``(batch, key, feature)``; only its shape matters.
        allowed: shape ``(batch or 1, query, key)``.

    Example:
        >>> strictly_forward = torch.ones(1, 1000, 1000, dtype=torch.bool).tril(-1)
        >>> covered = tiles(torch.zeros(1, 1000, 1024), torch.zeros(1, 1000, 1024), strictly_forward)
        >>> [(tile.keys, tile.queries) for tile in covered][500]
        (slice(500, 501, None), slice(501, 1000, None))
    """
    num_sentences, num_queries, num_features = queries.shape
    num_keys = keys.shape[1]
    if not (num_sentences and num_queries and num_keys and num_features):
        return
    first, last = _reach(allowed)
    sentences_at_once, keys_at_once = _tile_steps(queries, keys)
    # The penalties of several tiles are created together, but of so few that they stay small compared to the tiles.
    keys_per_penalty = keys_at_once * max(1, num_features // keys_at_once)
    zero = queries.new_zeros(())
    for sentence in range(0, num_sentences, sentences_at_once):
        sentences = slice(sentence, min(sentence + sentences_at_once, num_sentences))
        allowed_here = allowed if len(allowed) == 1 else allowed[sentences]
        for start in range(0, num_keys, keys_per_penalty):
            pairs = allowed_here[:, :, start : start + keys_per_penalty].transpose(1, 2)
            penalties = torch.where(pairs, zero, -torch.inf).unsqueeze(-1)
            for key in range(start, min(start + keys_per_penalty, num_keys), keys_at_once):
                stop = min(key + keys_at_once, num_keys)
                top, bottom = min(first[key:stop]), max(last[key:stop])
                if top >= bottom:
                    continue
                yield Tile(
                    sentences,
                    slice(top, bottom),
                    slice(key, stop),
                    penalties[:, key - start : stop - start, top:bottom],
                    (sentences.stop - sentences.start, stop - key, bottom - top, num_features),
                )


def _reach(allowed: Tensor) -> tuple[list[int], list[int]]:
    """For each key, the first query that may attend to it, and one past the last; ``(n, 0)`` if there is none.

    On an accelerator, where reading the mask would have to wait, all queries.
    """
    if not allowed.is_cpu:
        num_queries, num_keys = allowed.shape[1:]
        return [0] * num_keys, [num_queries] * num_keys
    reached = allowed.any(0)
    position = torch.arange(len(reached), device=allowed.device).unsqueeze(-1)
    first = torch.where(reached, position, len(reached)).amin(0)
    last = torch.where(reached, position + 1, 0).amax(0)
    first_list, last_list = torch.stack((first, last)).tolist()
    return first_list, last_list


def _tile_steps(queries: Tensor, keys: Tensor) -> tuple[int, int]:
    """How many sentences and how many keys a tile takes at once: all queries of one key and sentence at least."""
    num_sentences, num_queries, num_features = queries.shape
    fit = max(1, _TILE // max(1, num_queries * num_features))
    sentences_at_once = max(1, min(num_sentences, fit))
    return sentences_at_once, max(1, min(keys.shape[1], fit // sentences_at_once))


def tile_size(queries: Tensor, keys: Tensor) -> int:
    """How many numbers the largest tile has."""
    return math.prod(_tile_steps(queries, keys)) * queries.shape[1] * queries.shape[2]
