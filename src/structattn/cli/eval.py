"""``structattn eval``: the metrics of a trained run on a file."""

import json as jsonlib
from collections.abc import Iterator

from structattn.cli.lines import figures
from structattn.layers.devices import Hardware
from structattn.training import load
from structattn.training.preparation import read_labelled


def command(
    run: str,
    *,
    data: str,
    format: str | None = None,
    parses: str | None = None,
    hardware: Hardware,
    trust_code: bool = False,
    json: bool = False,
) -> Iterator[str]:
    """Metrics of a trained run on a file.

    Args:
        run: a run folder, or the folder of a saved model.
        data: a file with labels.
        format: its data format; recognised from the file by default.
        parses: a CoNLL-U file with the trees of sentences that come without.
        hardware: where the model runs, and in which numbers.
        trust_code: import and run an encoder module:function that the run folder names.
        json: print one JSON object.
    """
    model = hardware.place(load(run, trust_code=trust_code))
    examples = read_labelled(model.task, data, format=format, parses=parses)
    with hardware.autocast():
        metrics = dict(model.evaluate(examples).metrics)
    yield jsonlib.dumps({**metrics, "examples": len(examples)}) if json else figures(metrics)
