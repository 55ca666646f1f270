"""``python -m benchmarks`` passes its options on to parts that have them."""

from pathlib import Path

import pytest
from benchmarks.__main__ import PARTS


@pytest.mark.parametrize("part", PARTS)
def test_every_part_has_the_options_that_it_is_given(part: str) -> None:
    program = (Path(__file__).parent.parent / "benchmarks" / f"{part}.py").read_text(encoding="utf-8")
    for option in ("--threads", *PARTS[part][1], *(PARTS[part][2] or ())):
        if option.startswith("--"):
            # `--no-memory` switches `--memory` off.
            assert f'"{option.replace("--no-", "--")}"' in program
