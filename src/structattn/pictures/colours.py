"""Colour as data: two perceptually even colour maps, each for light and for dark paper, and a few inks.

The maps were sampled at equal steps of CIELAB distance along smooth curves in OKLCH, with monotone lightness, so equal
differences of a value look equally large and survive greyscale printing; the diverging map runs from blue to orange,
which colour-blind readers tell apart. Orange is what raises or supports, blue what lowers or opposes, everywhere.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from structattn.pictures.drawn_numbers import Number

LEVELS = 64
# Above this luminance dark letters have more contrast than white ones.
_TURN = 0.205

_SEQUENTIAL_LIGHT = (
    "f6fbfd dcf2f7 c1e9ef a5e0e7 8ad0de 71c1d7 5ab2d0 48a4ca 3e96c4 "
    "3788bd 347bb7 326db0 3260a7 305098 2d4088 2a3078 262067"
)
_SEQUENTIAL_DARK = (
    "1b1e24 20293b 273253 2f3b6a 344d84 32649d 2a79b1 218bba 1c9cc1 "
    "21adc6 31bfca 4ccbc6 6cd6bf 8de0ba aee9b7 d0f1b8 f1fac0"
)
_DIVERGING_LIGHT = (
    "1e3f7f 2c599a 3b75b6 4f90cf 6ea8db 8fc1e9 b2d9f5 d4e7f6 f6f6f6 "
    "f5e1d0 f3ceac ecb689 e49c68 dd824a ca6632 a84822 852a12"
)
_DIVERGING_DARK = (
    "97ddf9 72c0e9 54a5db 3b8ccd 3973ad 395d87 344863 2c3442 232323 "
    "45312a 663e2e 864a31 a75631 c56533 d7884d e7aa6d f7cc91"
)


@dataclass(frozen=True)
class ColourMap:
    """``LEVELS + 1`` colours from the lowest to the highest value, on light and dark paper; and a letter for them."""

    key: str
    light: tuple[str, ...]
    dark: tuple[str, ...]


def _spread(stops: str) -> tuple[str, ...]:
    points = [tuple(int(stop[i : i + 2], 16) for i in (0, 2, 4)) for stop in stops.split()]
    per_step = LEVELS // (len(points) - 1)
    colours = []
    for level in range(LEVELS + 1):
        step, offset = divmod(level, per_step)
        start, end = points[step], points[min(step + 1, len(points) - 1)]
        mixed = (round(a + (b - a) * offset / per_step) for a, b in zip(start, end, strict=True))
        colours.append("#" + "".join(f"{channel:02x}" for channel in mixed))
    return tuple(colours)


SEQUENTIAL = ColourMap("q", _spread(_SEQUENTIAL_LIGHT), _spread(_SEQUENTIAL_DARK))
DIVERGING = ColourMap("d", _spread(_DIVERGING_LIGHT), _spread(_DIVERGING_DARK))

# Ink by role: (on light paper, on dark paper). Text inks reach a contrast of 4.5 on their paper.
INKS: dict[str, tuple[str, str]] = {
    "paper": ("#ffffff", "#14171c"),
    "ink": ("#1b1f24", "#e8eaed"),
    "soft": ("#5b6470", "#a3abb6"),
    "rule": ("#d5dae0", "#39404a"),
    "hatch": ("#b4bbc4", "#4a525d"),
    "chip": ("#f1f4f7", "#21262d"),
    "inverse": ("#ffffff", "#14171c"),
    "letter": ("#14171c", "#ffffff"),
    "black": ("#14171c", "#14171c"),
    "white": ("#ffffff", "#ffffff"),
    # Of signed numbers, as at the ends of the diverging map; no other meaning has these hues.
    "raises": ("#b8520f", "#f0a15c"),
    "lowers": ("#2b5fa8", "#6fb1f0"),
    "edit": ("#8a3a8f", "#d79be0"),
    "accent": ("#12766a", "#4cc9b0"),
    "error": ("#a1283f", "#f08a9b"),
    # The series of charts and the two sides of a comparison: told apart by lightness as well as by hue.
    "series0": ("#2b5fa8", "#6fb1f0"),
    "series1": ("#b8520f", "#f0a15c"),
    "series2": ("#12766a", "#4cc9b0"),
    "series3": ("#8a3a8f", "#d79be0"),
    "series4": ("#6b6f1e", "#cdcf6b"),
    "series5": ("#a1283f", "#f08a9b"),
}
NUM_SERIES = 6


@dataclass(frozen=True)
class Scale:
    """How a number becomes a colour: ``level = round(LEVELS * (value - minimum) / (maximum - minimum))``."""

    minimum: Number
    maximum: Number
    colours: ColourMap

    def __post_init__(self) -> None:
        if not self.minimum <= self.maximum:
            raise ValueError(f"a colour scale runs upward; got minimum {self.minimum} and maximum {self.maximum}")

    def level(self, value: Number) -> int:
        """The colour level of a value, clipped to the ends of the scale."""
        if self.maximum == self.minimum:
            return 0
        share = (value - self.minimum) / (self.maximum - self.minimum)
        return round(LEVELS * min(1.0, max(0.0, share)))

    def text_role(self, value: Number) -> str:
        """The ink that can be read on the colour of a value, in both themes."""
        level = self.level(value)
        on_light_paper = luminance(self.colours.light[level]) > _TURN
        on_dark_paper = luminance(self.colours.dark[level]) > _TURN
        return {
            (True, True): "black",
            (True, False): "letter",
            (False, True): "inverse",
            (False, False): "white",
        }[on_light_paper, on_dark_paper]


@dataclass(frozen=True)
class Limits:
    """The ends of a colour scale; an open end comes from the values that are drawn.

    If no value is negative, the scale starts at zero, so that "nothing" always looks like nothing.

    Attributes:
        minimum: the value of the lowest colour.
        maximum: the value of the highest colour.
        diverging: use the blue-orange map, symmetric around 0 unless both ends are given; for differences.

    Example:
        >>> Limits().scale([0.2, 0.4]).minimum, Limits(diverging=True).scale([-0.1, 0.4]).minimum
        (0.0, -0.4)
    """

    minimum: Number | None = None
    maximum: Number | None = None
    diverging: bool = False

    def scale(self, values: Iterable[Number | None]) -> Scale:
        """The scale for some values.

        Args:
            values: the values that are drawn; ``None`` is ignored.

        Raises:
            ValueError: if the maximum is below the minimum.
        """
        finite = [value for value in values if value is not None]
        low, high = min(finite, default=0.0), max(finite, default=0.0)
        minimum, maximum = self.minimum, self.maximum
        if self.diverging:
            reach = max(abs(low), abs(high)) or 1.0
            high = maximum if maximum is not None else (-minimum if minimum is not None else reach)
            return Scale(minimum if minimum is not None else -high, high, DIVERGING)
        low = minimum if minimum is not None else min(low, 0.0)
        high = maximum if maximum is not None else max(high, low, 0.0)
        return Scale(low, high if high > low or maximum is not None else low + 1.0, SEQUENTIAL)


def luminance(colour: str) -> Number:
    """Relative luminance of an sRGB colour, from 0 (black) to 1 (white), as WCAG 2 defines it."""
    channels = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
