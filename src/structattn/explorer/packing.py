"""Matrices in few bytes: two for a number, one for eight flags; compressed and encoded as text."""

import base64
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

_LEVELS = 65535


def pack(weights: Any) -> dict[str, Any]:
    r"""Non-negative numbers in two bytes each: :math:`\mathrm{round}(65535\,w / s)` with the largest as *s*.

    All high bytes go before all low bytes, row by row; then zlib and base64. The error is at most ``scale / 131070``.

    Args:
        weights: an array, a tensor on the CPU or nested lists.

    Raises:
        ValueError: for a negative number, or one that is not finite.

    Example:
        >>> packed = pack([[0.0, 0.5], [0.25, 0.25]])
        >>> packed["shape"], packed["scale"], unpack(packed)[0].round(4).tolist()
        ([2, 2], 0.5, [0.0, 0.5])
    """
    values = np.asarray(weights, dtype=np.float64)
    if not np.isfinite(values).all():
        raise ValueError("expected finite weights, got some that are not")
    if values.size and values.min() < 0:
        raise ValueError(f"expected weights of at least 0, got {values.min():g}")
    scale = float(values.max(initial=0.0)) or 1.0
    levels = np.rint(values.ravel() / scale * _LEVELS).astype(">u2")
    return {"shape": list(values.shape), "scale": scale, "data": _zipped(levels.view(np.uint8).reshape(-1, 2).T)}


def unpack(packed: Mapping[str, Any]) -> np.ndarray:
    """The numbers that ``pack`` packed, up to rounding."""
    high, low = np.frombuffer(zlib.decompress(base64.b64decode(packed["data"])), np.uint8).reshape(2, -1).astype(int)
    values: np.ndarray = ((256 * high + low) * (packed["scale"] / _LEVELS)).reshape(packed["shape"])
    return values


def pack_bits(flags: Any) -> str | None:
    """Flags, eight in a byte with the first in the highest bit; ``None`` if all are true.

    Example:
        >>> pack_bits([True, True]), len(pack_bits([True, False]))
        (None, 12)
    """
    bits = np.asarray(flags, dtype=bool)
    return None if bits.all() else _zipped(np.packbits(bits.ravel()))


def _zipped(content: np.ndarray) -> str:
    return base64.b64encode(zlib.compress(np.ascontiguousarray(content).tobytes(), 6)).decode("ascii")
