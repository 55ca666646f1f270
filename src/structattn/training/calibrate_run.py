"""Calibrating the best model of a run on data that it was not trained on."""

import dataclasses
import fnmatch
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from structattn.data import Example
from structattn.data.model_card import CARD, add_section, write_card
from structattn.data.model_config import MODEL, find_whole_model
from structattn.errors import ConfigError
from structattn.files.json_yaml import read_json, write_json
from structattn.files.markdown import escape_markdown, format_table
from structattn.files.text import checksum
from structattn.options.checking import check_labels
from structattn.options.hardware import Hardware
from structattn.tasks import TaskModel
from structattn.tasks.calibration import Calibration, Reliability, fit_temperature, measure_reliability, temper
from structattn.training.examples import Data, name_source, read_labelled
from structattn.training.models import load_task_model
from structattn.training.run_config import DataConfig, load_config
from structattn.training.run_data import inherit_data_config, read_run_examples
from structattn.training.run_folder import RunFolder

LOGGER = logging.getLogger("structattn.training")
_FOLDS = 5


@dataclass(frozen=True)
class Calibrated:
    """The result of ``calibrate``.

    Attributes:
        calibration: what the model keeps from now on.
        examples: how many examples the temperature was fitted on.
        measured_on: what the figures are of: a test file, or each fifth of the data by the temperature of the others.
        before: the reliability without the temperature.
        after: the reliability with it.
        coverage: the share of the examples that are answered, by the thresholds and ``abstain``.
        accuracy: the share of these that are answered correctly.
    """

    calibration: Calibration
    examples: int
    measured_on: str
    before: Reliability
    after: Reliability
    coverage: float
    accuracy: float

    def table(self) -> list[list[str]]:
        """The figures as rows of cells, the header first."""
        names = ("expected_calibration_error", "brier", "negative_log_likelihood")
        temperatures = (1.0, self.calibration.temperature)
        figures = [
            [f"{temperature:.3g}", *(f"{getattr(reliability, name):.4f}" for name in names)]
            for temperature, reliability in zip(temperatures, (self.before, self.after), strict=True)
        ]
        return [["temperature", *(name.replace("_", " ") for name in names)], *figures]


def calibrate(
    run: str | os.PathLike[str],
    data: Data | None = None,
    *,
    test: Data | None = None,
    thresholds: Mapping[str, float] | None = None,
    abstain: float = 0.0,
    format: str | None = None,
    parses: str | None = None,
    hardware: Hardware | None = None,
    trust_code: bool = False,
) -> Calibrated:
    """Fit a temperature for the best model of a run, which ``predict``, ``serve`` and ``export`` apply from now on.

    Args:
        run: a run folder, or the folder of a saved model.
        data: labelled data that the model was not trained on; the run's own development data if ``None``.
        test: other data to measure on; without them each fifth of ``data`` is measured by the temperature of the rest.
        thresholds: see ``Calibration``.
        abstain: see ``Calibration``.
        format: the format of both files; recognised if ``None``.
        parses: a CoNLL-U file with trees for sentences that have none.
        hardware: device and precision of the model; the CPU if ``None``.
        trust_code: whether an encoder that the folder names as ``module:function`` may be imported and run.

    Raises:
        ConfigError: for a model that does not answer with classes, for the training data of the run, for data with
            fewer than two classes that the model knows, and for thresholds that are no probabilities.

    Example:
        >>> import tempfile
        >>> from structattn.training import train
        >>> rows = [("so fine", "good"), ("so dull", "bad")] * 8
        >>> options = {"options": {"dim": 8}, "optimization": {"epochs": 20}}
        >>> run = train(rows, rows, encoder="emb_s2t", out=tempfile.mkdtemp(), **options).folder
        >>> result = calibrate(run, rows, abstain=0.5)
        >>> result.coverage, result.after.negative_log_likelihood <= result.before.negative_log_likelihood
        (1.0, True)
    """
    folder = find_whole_model(run)
    _refuse_training_data(run, data)
    hardware = hardware or Hardware("cpu")
    model, precision = hardware.move(load_task_model(run, trust_code=trust_code)), hardware.autocast
    if model.calibration is None:
        raise ConfigError(f"calibrate: expected a model that answers with classes, got task {model.task.name!r}")
    plain = Calibration(separate=model.calibration.separate)
    calibration = dataclasses.replace(plain, thresholds=dict(thresholds or {}), abstain=abstain)
    check_labels("threshold", calibration.thresholds, model.labels)
    model.calibration, decisions = plain, len(model.labels) if plain.separate else 1

    def answer(source: Data | None) -> tuple[np.ndarray, np.ndarray]:
        if source is None:
            return _answer(model, read_run_examples(run, "dev", task=model.task)[0], "the run's dev data", precision)
        settings: DataConfig = inherit_data_config(run, source, format=format, parses=parses)
        return _answer(model, read_labelled(model.task, source, settings), name_source(source), precision)

    probabilities, gold = answer(data)
    calibration = dataclasses.replace(calibration, temperature=fit_temperature(probabilities, gold))
    example = np.arange(len(gold)) // decisions
    fitted_on = int(example[-1]) + 1
    if test is None:
        measured_on, fold = "fifths of the data, each by the temperature of the others", example % _FOLDS
        tempered = np.empty_like(probabilities)
        for each in np.unique(fold):
            held_out = fold == each
            temperature = fit_temperature(probabilities[~held_out], gold[~held_out])
            tempered[held_out] = temper(probabilities[held_out], temperature)
    else:
        measured_on, (probabilities, gold) = name_source(test), answer(test)
        tempered = temper(probabilities, calibration.temperature)
    answers, abstained = calibration.decide(tempered, model.labels)
    answered = ~np.array(abstained)
    right = (np.array(answers) == gold)[answered]
    result = Calibrated(
        calibration,
        fitted_on,
        measured_on,
        measure_reliability(probabilities, gold),
        measure_reliability(tempered, gold),
        float(answered.mean()),
        float(right.mean()) if len(right) else 0.0,
    )
    config = read_json(folder / MODEL.config)
    write_json(folder / MODEL.config, {**config, "calibration": dataclasses.asdict(calibration)})
    if not (folder / CARD).is_file():  # which a run writes when it ends
        write_card(folder)
    header, *rows = result.table()
    add_section(folder, "Calibration", f"{format_table(header, rows)}\n\nMeasured on {escape_markdown(measured_on)}.")
    return result


def _answer(
    model: TaskModel, examples: Sequence[Example], name: str, precision: Callable[[], AbstractContextManager[Any]]
) -> tuple[np.ndarray, np.ndarray]:
    """The decisions on the examples whose labels the model knows, see ``Calibration.list_decisions``."""
    assert model.calibration is not None
    classes = [set(model.task.classes_in(example.label)) for example in examples]
    answerable = [each for each, labels in zip(examples, classes, strict=True) if labels <= set(model.labels)]
    if len(answerable) < len(examples):
        number = f"{len(examples) - len(answerable):,} of {len(examples):,}"
        LOGGER.warning("%s: %s examples have labels that the model lacks; they are left out", name, number)
    answers = {str(example.label) for example in answerable}
    if len(answers) < 2:
        listed = ", ".join(map(repr, answers)) or "none"
        raise ConfigError(f"{name}: expected examples of at least two classes of the model, got {listed}")
    with precision():
        predictions = model.predict(answerable)
    probabilities = np.array([list(prediction.probabilities.values()) for prediction in predictions])
    gold = [[label in model.task.classes_in(example.label) for label in model.labels] for example in answerable]
    return model.calibration.list_decisions(probabilities, np.array(gold))


def _refuse_training_data(run: str | os.PathLike[str], data: Data | None) -> None:
    """Refuse the file that the run was trained on, wherever it is now; its held-out part is ``None``."""
    file = RunFolder(run).environment
    if not isinstance(data, str | os.PathLike) or not Path(data).is_file() or not file.is_file():
        return
    config = load_config(RunFolder(run).config).data
    train = Path(config.train or "")
    digests = read_json(file).get("sha256", {}).items()
    recorded = {digest for name, digest in digests if Path(name) == train or _matches(Path(name).parts, train.parts)}
    if checksum(data) in recorded:
        hint = "give other data" if config.dev else "give other data, or none for the part that the run held out"
        raise ConfigError(f"calibrate: {data} is a training file of {run}, on which every model is too sure; {hint}")


def _matches(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Whether ``glob`` finds the file of these parts by a pattern, which it may no longer find where it was."""
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return any(_matches(parts[start:], pattern[1:]) for start in range(len(parts) + 1))
    return bool(parts) and fnmatch.fnmatchcase(parts[0], pattern[0]) and _matches(parts[1:], pattern[1:])
