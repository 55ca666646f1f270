"""Numbers with few binary digits, so that kernels see few shapes.

The kernels of oneDNN are compiled for every new shape, and about a thousand of them are kept, of half a megabyte each:
over many batches that is more memory than a model.
"""


def round_up(size: int, digits: int) -> int:
    """The next number that has this many binary digits and zeros behind them, at most ``2 ** (1 - digits)`` larger.

    Args:
        size: not negative.
        digits: at least 1.

    Example:
        >>> [round_up(size, 3) for size in (7, 8, 9, 11, 1000)]
        [7, 8, 10, 12, 1024]
    """
    return size + -size % _step(size, digits)


def round_down(size: int, digits: int) -> int:
    """The same below.

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
