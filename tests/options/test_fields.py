"""Every field of every configuration refuses what is not of its type: null, NaN, text for a number."""

import math
from collections.abc import Iterator
from typing import Any, get_args, get_type_hints

import pytest

from structattn.errors import ConfigError
from structattn.options.checking import fits
from structattn.options.hardware import Hardware
from structattn.tasks import ClassifierConfig
from structattn.tasks.answer_config import DecoderConfig
from structattn.training import DataConfig, OptimizationConfig

CONFIGS = {
    "data": DataConfig,
    "optimization": OptimizationConfig,
    "classifier": ClassifierConfig,
    "decoder": DecoderConfig,
    "": Hardware,
}
PLAIN = (bool, int, float, str, type(None))
VALUES = (None, math.nan, "x", [], {}, 0.5, True)


def list_wrong_values() -> Iterator[tuple[str, str, Any]]:
    """Each field whose type is plain, with each value that is not of it."""
    for section, kind in CONFIGS.items():
        for name, hint in get_type_hints(kind).items():
            if all(part in PLAIN for part in get_args(hint) or (hint,)):
                yield from ((section, name, value) for value in VALUES if value != value or not fits(value, hint))


@pytest.mark.parametrize(("section", "name", "value"), list(list_wrong_values()))
def test_a_value_of_another_type_is_refused_by_name(section: str, name: str, value: Any) -> None:
    option = f"{section}.{name}" if section else name
    with pytest.raises(ConfigError, match=f"^{option}: expected .*, got "):
        CONFIGS[section](**{name: value})
