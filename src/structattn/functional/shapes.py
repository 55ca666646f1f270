"""Numbers with few binary digits, so that kernels see few shapes.

oneDNN compiles its kernels for every new shape and keeps about a thousand of them, half a megabyte each: over many
batches, this is more memory than a model takes.
"""


def round_up(size: int, digits: int) -> int:
    """Round up to this many significant binary digits, which adds a fraction of at most ``2 ** (1 - digits)``.

    Args:
        size: not negative.
        digits: at least 1.

    Example:
        >>> [round_up(size, 3) for size in (7, 8, 9, 11, 1000)]
        [7, 8, 10, 12, 1024]
    """
    return size + -size % _step(size, digits)


def round_down(size: int, digits: int) -> int:
    """Round down to this many significant binary digits.

    Args:
        size: not negative.
        digits: at least 1.

    Example:
        >>> [round_down(size, 3) for size in (7, 8, 9, 11, 1000)]
        [7, 8, 8, 10, 896]
    """
    return size - size % _step(size, digits)


def _step(size: int, digits: int) -> int:
    return 1 << max(0, size.bit_length() - digits)
