"""The type of every number that a picture takes: integer or float.

Run-time type checkers take ``float`` literally, and pictures are often given counts.
"""

from typing import TypeAlias

Number: TypeAlias = int | float


def tick(value: Number) -> str:
    """A number for an axis or a colour bar, with a real minus sign.

    Example:
        >>> tick(0.25), tick(-3.0), tick(0.123456)
        ('0.25', '−3', '0.12')
    """
    # Adding zero turns -0.0 into 0.0.
    shown = f"{value + 0.0:.2g}" if abs(value) < 100 else f"{value:.0f}"
    return shown.replace("-", "−")
