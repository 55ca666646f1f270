"""``structattn demo``: training, comparison and pictures on a generated treebank."""

import dataclasses
import json as jsonlib
from collections.abc import Iterator

from structattn.cli.lines import table
from structattn.demo import TESTED_ON, check_demonstration, demonstrate


def command(*, out: str = "demo", seed: int = 1, minutes: float = 2.0, json: bool = False) -> Iterator[str]:
    """Train a plain and two structured encoders on a generated treebank, compare them, draw their attention.

    Args:
        out: the folder for data, runs and index.html.
        seed: random seed of the sentences and of training.
        minutes: approximate running time on two cores, in minutes.
        json: print one JSON object.
    """
    check_demonstration(out, minutes=minutes)
    from structattn.functional.torch_state import one_thread

    with one_thread():
        found = demonstrate(out, seed=seed, minutes=minutes)
    if json:
        yield jsonlib.dumps(dataclasses.asdict(found), default=str)
        return
    rows = [[trial.encoder, *(f"{x:.1%}" for x in trial.accuracies), f"{trial.seconds:.0f}"] for trial in found.trials]
    yield from table(["accuracy with attractors:", *map(str, TESTED_ON), "seconds"], rows)
    yield f"the page: {found.page}"
