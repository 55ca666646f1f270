"""``structattn predict``: the predictions of a trained model, one JSON line for each example."""

import itertools
import json as jsonlib
import logging
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from structattn.cli.command_inputs import InputColumns, answering_others, check_at_least, check_inputs, resolve_source
from structattn.data import Example
from structattn.data.data_summary import ExampleCounts
from structattn.errors import ConfigError, ParseError, StructAttnError
from structattn.files.item_faults import answer_each, refuse_item
from structattn.options.hardware import Hardware
from structattn.training.prediction_inputs import read_inputs
from structattn.training.run_data import inherit_data_config

if TYPE_CHECKING:
    from structattn.tasks import Prediction, TaskModel

LOGGER = logging.getLogger("structattn.cli")


def command(
    run: str,
    *,
    data: str,
    format: str | None = None,
    parses: str | None = None,
    parser: str | None = None,
    columns: InputColumns,
    texts: bool = False,
    batch_size: int = 64,
    truncate: bool = False,
    strict: bool = False,
    hardware: Hardware,
    trust_code: bool = False,
) -> Iterator[str]:
    """Predict each example of a file, as one JSON line: id, and label (or score) with probabilities, or text.

    Args:
        run: a run folder, or the folder of a saved model.
        data: a file in any data format, with or without labels; - reads stdin.
        format: its data format; "text", the default for stdin, is one sentence per line, or two separated by a tab for
            pairs; blank lines count too, so that predictions and lines are aligned.
        parses: a CoNLL-U file with trees for the sentences that have none.
        parser: the parser for sentences without trees, as for structattn parse; by default the one saved with the run,
            if a parser found the trees of its training data; none for no parser.
        columns: the columns of texts and ids.
        texts: repeat the texts of each example, under the key "texts".
        batch_size: examples per batch.
        truncate: cut texts to what the model can read, as far as its backbone has positions for their subwords.
        strict: stop at the first example that cannot be read or predicted; by default the others are predicted, and
            the exit code is 2.
        hardware: where the model runs, and the precision.
        trust_code: import and run an encoder module:function that the run folder names.
    """
    check_at_least(1, batch_size=batch_size)
    check_inputs(run, data, format=format, parses=parses, parser=parser, trust_code=trust_code)
    from structattn.training.models import load_task_model

    model = hardware.move(load_task_model(run, parser=parser, trust_code=trust_code))
    settings = inherit_data_config(run, data, labelled=False, format=format, parses=parses, **vars(columns))
    data_format, read = read_inputs(model, resolve_source(data), settings)
    counts = ExampleCounts(data, format=data_format, has_classes=False)
    shorten = model.shortened if truncate else model.task.limited

    def cut(example: Example) -> Example:
        try:
            return shorten(example)
        except ConfigError as error:
            raise _naming(error, example, data) from None

    with answering_others(strict, "predicted"):
        for examples in _split(counts.over(answer_each(cut, read)), size=32 * batch_size):
            with hardware.autocast():
                predictions = _predict_others(model, examples, source=data, batch_size=batch_size)
            for prediction, example in zip(predictions, examples, strict=True):
                if prediction is not None:
                    shown = {"texts": [sentence.text for sentence in example.sentences]} if texts else {}
                    yield jsonlib.dumps({**_values(prediction), **shown}, ensure_ascii=False)
        summary = counts.summary()
        if summary.examples:
            summary.log(LOGGER)
        if model.find_trees is not None:
            model.find_trees.log(LOGGER, "--parser")


def _predict_others(
    model: "TaskModel", examples: list[Example], *, source: str, batch_size: int
) -> "list[Prediction | None]":
    """The predictions of examples; ``None`` for those that cannot be predicted, which are found by halving."""
    try:
        return [*model.predict(examples, batch_size=batch_size)]
    except StructAttnError as error:
        if len(examples) == 1:
            refuse_item(_naming(error, examples[0], source))
            return [None]
    half = len(examples) // 2
    parts = (examples[:half], examples[half:])
    return [each for part in parts for each in _predict_others(model, part, source=source, batch_size=batch_size)]


def _naming(error: StructAttnError, example: Example, source: str) -> StructAttnError:
    """The error with the file and the line of its example."""
    return error if example.line is None else ParseError(str(error), file=example.file or source, line=example.line)


def _split(examples: Iterable[Example], *, size: int) -> Iterator[list[Example]]:
    """The examples in lists of at most ``size``."""
    iterator = iter(examples)
    while part := list(itertools.islice(iterator, size)):
        yield part


def _values(prediction: "Prediction") -> dict[str, object]:
    if prediction.text is not None:
        return {"id": prediction.id, "text": prediction.text, "log_probability": prediction.log_probability}
    key = "score" if prediction.label is None else "label"
    return {
        "id": prediction.id,
        key: prediction.answer,
        **prediction.details,
        "probabilities": dict(prediction.probabilities),
    }
