"""Training, evaluating and predicting in Python: on files, data frames, data sets and lists of texts."""

import dataclasses
import glob
import hashlib
import os
from collections.abc import Mapping, Sequence
from typing import Any

from structattn.data import Example
from structattn.errors import ConfigError, shown
from structattn.files.urls import is_remote
from structattn.options.checking import suggest
from structattn.tasks import Evaluation, Prediction, Task, TaskModel, get_task
from structattn.training.examples import Data, read_labelled, stream_examples
from structattn.training.kept_predictions import check_split, keep_predictions, warn_if_unfinished
from structattn.training.models import load_task_model
from structattn.training.prediction_inputs import read_inputs
from structattn.training.run import run
from structattn.training.run_config import FROM_PYTHON, DataConfig, RunConfig
from structattn.training.run_data import inherit_config, inherit_data_config
from structattn.training.run_folder import RunResult

_PARTS = ("train", "dev", "test")


def train(
    data: Data,
    dev: Data | None = None,
    *,
    encoder: str | None = None,
    task: str | Task | None = None,
    test: Data | None = None,
    resume: bool = False,
    overwrite: bool = False,
    **options: Any,
) -> RunResult:
    """Train an encoder on a task and write a run folder, as ``structattn train`` does.

    Args:
        data: the training data: a file in any data format; or a pandas ``DataFrame``, a ``datasets.Dataset``, a list of
            mappings such as ``{"text": ..., "label": ...}``, of tuples ``(text, label)`` (for tasks on pairs ``(text,
            text, label)``), or of ``Example``.
        dev: data to choose the best model by, in the same forms; if ``None``, a part of ``data`` is held out.
        encoder: name of an encoder, or ``module:function``; not needed with ``continued``, the folder of a run whose
            configuration, model, classes and words this one takes over.
        task: name of a task, ``module:NAME``, or a task; classification if ``None``.
        test: data to evaluate the best model on once, in the same forms.
        resume: continue the interrupted run in ``out``.
        overwrite: replace the run in ``out``.
        **options: any field of ``RunConfig`` (``out``, ``seed``, ``options`` of the encoder, ``optimization``, ...;
            mappings for those that have fields of their own) or of ``DataConfig`` (``text_column``, ``label_column``,
            ``vectors``, ``parses``, ...).

    Returns:
        The result; ``structattn.load(result.folder)`` is the model.

    Raises:
        ConfigError: as ``run``; for an unknown option, with a suggestion.
        ParseError: for malformed data, with file and line, or the number of the row.

    Example:
        >>> import tempfile
        >>> rows = [("so fine", "good"), ("so dull", "bad")] * 8
        >>> out = tempfile.mkdtemp()
        >>> result = train(rows, rows, encoder="emb_s2t", options={"dim": 8}, optimization={"epochs": 20}, out=out)
        >>> [prediction.label for prediction in predict(result.folder, ["fine", "dull"])]
        ['good', 'bad']
    """
    sources = dict(zip(_PARTS, (data, dev, test), strict=True))
    values = _sort_options(options, sources)
    if "continued" in values:
        inherited = inherit_config(values["continued"], data)
        sections = {name: {**inherited[name], **value} for name, value in values.items() if isinstance(value, dict)}
        values = {**inherited, **values, **sections}
    task = task or values.pop("task", "classification")
    resolved = get_task(task) if isinstance(task, str) else task
    encoder = encoder or values.pop("encoder", None)
    if encoder is None:
        raise ConfigError("train: expected encoder=, the name of one")
    names = {"task": resolved.name if not isinstance(task, str) else task, "encoder": encoder}
    values = {name: value for name, value in values.items() if name not in names}
    present = {name: source for name, source in sources.items() if source is not None}
    files = {name: os.fspath(source) for name, source in present.items() if isinstance(source, str | os.PathLike)}
    parts: dict[str, list[Example]] | None = None
    if len(files) < len(present):
        settings = RunConfig.from_dict({**names, **values}).data
        if settings.streaming:
            raise ConfigError(
                "data.streaming: expected Parquet files (structattn convert makes them), got a collection in memory"
            )
        parts = {name: list(stream_examples(resolved, source, settings)) for name, source in present.items()}
        if absent := [name for name, part in parts.items() if not part]:
            raise ConfigError(f"data.{absent[0]}: expected at least one example, got none")
        files = {name: f"{FROM_PYTHON}{checksum(part)}" for name, part in parts.items()}
    config = RunConfig.from_dict({**names, **values, "data": {**values["data"], **files}})
    return run(config, task=resolved, examples=parts, resume=resume, overwrite=overwrite)


def evaluate(
    model: TaskModel | str | os.PathLike[str], data: Data, *, split: str | None = None, **columns: Any
) -> Evaluation:
    """The predictions of a trained model on labelled data, and its metrics.

    Args:
        model: a model of a task, or the folder of a run or model.
        data: a file, or examples in a form that `train` takes.
        split: keep the predictions in the run folder under this name, ``"test"`` or any other, for ``compare``; the
            metrics on ``"test"`` become the test figures of the run.
        **columns: ``text_column``, ``label_column`` and ``id_column`` if their names are neither those of the run's
            training data nor the usual ones; ``parses``, ``format``.

    Raises:
        ConfigError: if the data do not fit the task, or an example has no label; if there is a split but no finished
            run to keep it, or the run has predictions of that name on other examples.
        ParseError: for malformed data, with file and line, or the number of the row.
    """
    if split is not None:
        if not isinstance(model, str | os.PathLike):
            raise ConfigError("evaluate keeps predictions in a run folder: expected its path, got a model")
        check_split(model, split)
    ready = _resolve_model(model)
    examples = read_labelled(ready.task, data, _read_as(model, data, columns))
    evaluation = ready.evaluate(examples)
    if split is not None and isinstance(model, str | os.PathLike):
        keep_predictions(model, split, evaluation)
    return evaluation


def predict(model: TaskModel | str | os.PathLike[str], data: Data, **columns: Any) -> list[Prediction]:
    """The predictions of a trained model.

    Args:
        model: a model of a task, or the folder of a run or model.
        data: texts, or anything that `train` takes; labels are not needed. For tasks on pairs, a tuple of two texts is
            a pair. Lines of a file are texts if fewer than nine in ten begin with a label of the model. Labels are not
            read.
        **columns: ``text_column`` and ``id_column`` if their names are neither those of the run's training data nor the
            usual ones; ``parses``, ``format``.

    Raises:
        ConfigError: if the data do not fit the task.
        ParseError: for malformed data, with file and line, or the number of the row.
    """
    if isinstance(data, str) and " " in data and not (os.path.exists(data) or glob.has_magic(data) or is_remote(data)):
        raise ConfigError(
            f"expected a file or a list of texts, got {shown(data, width=40)}; write predict(model, [text])"
        )
    ready = _resolve_model(model)
    return ready.predict(list(read_inputs(ready, data, _read_as(model, data, columns, labelled=False))[1]))


def checksum(examples: Sequence[Example]) -> str:
    """A hash of examples, which changes with their words, tags, trees, relations, labels, ids and weights."""
    digest = hashlib.sha256()
    for example in examples:
        digest.update(repr((example.label, example.id, example.weight)).encode())
        for sentence in example.sentences:
            digest.update(repr((sentence.words, sentence.tags, sentence.dependency, sentence.constituency)).encode())
            for name, matrix in sorted(sentence.relations.items()):
                digest.update(repr((name, matrix)).encode())
    return digest.hexdigest()


def _resolve_model(model: TaskModel | str | os.PathLike[str]) -> TaskModel:
    if not isinstance(model, str | os.PathLike):
        return model
    warn_if_unfinished(model)
    return load_task_model(model)


def _read_as(
    model: TaskModel | str | os.PathLike[str], data: Data, columns: Mapping[str, Any], *, labelled: bool = True
) -> DataConfig:
    """How to read data for a model; one of a run knows how the training data were read."""
    if not isinstance(model, str | os.PathLike):
        trained = DataConfig() if model.reading is None else model.reading()
        return inherit_data_config(trained, data, labelled=labelled, **columns)
    return inherit_data_config(model, data, labelled=labelled, **columns)


def _sort_options(options: Mapping[str, Any], sources: Mapping[str, object]) -> dict[str, Any]:
    """Options by section, as ``RunConfig.from_dict`` takes them."""
    top = {item.name for item in dataclasses.fields(RunConfig)} - {"task", "encoder", "data"}
    below = {item.name for item in dataclasses.fields(DataConfig)} - set(sources)
    values: dict[str, Any] = {"data": {}}
    for name, value in options.items():
        if name in top:
            values[name] = os.fspath(value) if isinstance(value, os.PathLike) else value
        elif name in below:
            values["data"][name] = os.fspath(value) if isinstance(value, os.PathLike) else value
        else:
            names = sorted(top | below)
            raise ConfigError(f"train has no option {name!r}{suggest(name, names)}; known: {', '.join(names)}")
    return values
