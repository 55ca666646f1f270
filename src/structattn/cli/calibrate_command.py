"""``structattn calibrate``: probabilities of a trained run that agree with how often it is right."""

import dataclasses
import json as jsonlib
from collections.abc import Iterator
from typing import Any

from structattn.cli.command_inputs import check_inputs
from structattn.errors import ConfigError
from structattn.files.markdown import align_columns
from structattn.files.replacing import replace_text
from structattn.options.hardware import Hardware
from structattn.training.run_folder import RunFolder


def command(
    run: str,
    *,
    data: str | None = None,
    test: str | None = None,
    threshold: str | None = None,
    abstain: float = 0.0,
    format: str | None = None,
    parses: str | None = None,
    hardware: Hardware,
    trust_code: bool = False,
    json: bool = False,
) -> Iterator[str]:
    """Fit the temperature of a trained classifier, which predict, serve and export apply from then on.

    Args:
        run: a run folder, or the folder of a saved model.
        data: a file with labels that the run was not trained on; the run's own dev data by default.
        test: another file with labels, to measure on; by default each fifth of the data is measured by the temperature
            of the others.
        threshold: probabilities from which on labels are answered, such as urgent=.8 or urgent=.8,spam=.95; below it
            the next most probable label is.
        abstain: mark answers of a lower probability as abstained.
        format: the data format of both files; recognised by default.
        parses: a CoNLL-U file with trees for the sentences that have none.
        hardware: where the model runs, and the precision.
        trust_code: import and run an encoder module:function that the run folder names.
        json: print one JSON object.
    """
    thresholds = _read_thresholds(threshold)
    check_inputs(run, data, format=format, parses=parses, trust_code=trust_code)
    check_inputs(data=test)
    from structattn.inspection.report_page import calibration_page
    from structattn.training.calibrate_run import calibrate

    options: dict[str, Any] = {"format": format, "parses": parses, "hardware": hardware, "trust_code": trust_code}
    result = calibrate(run, data, test=test, thresholds=thresholds, abstain=abstain, **options)
    folder = RunFolder(run)
    if folder.plots.is_dir():
        with replace_text(folder.plots / "calibration.html") as stream:
            stream.write(calibration_page(result, folder.path.name))
    if json:
        yield jsonlib.dumps(dataclasses.asdict(result))
        return
    header, *rows = result.table()
    yield f"fitted on {result.examples:,} examples; measured on {result.measured_on}"
    yield from align_columns(header, rows)
    if thresholds or abstain:
        answered = "" if result.calibration.separate else f"answers {result.coverage:.1%} of the examples, "
        of = "decisions on labels are right" if result.calibration.separate else "these correctly"
        yield f"{answered}{result.accuracy:.1%} of {of}"


def _read_thresholds(text: str | None) -> dict[str, float]:
    thresholds = {}
    for part in text.split(",") if text else []:
        label, _, value = part.rpartition("=")
        try:
            thresholds[label.strip()] = float(value)
        except ValueError:
            label = ""
        if not label:
            raise ConfigError(f"--threshold: expected a label and a probability, such as urgent=.8, got {part!r}")
    return thresholds
