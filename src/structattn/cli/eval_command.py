"""``structattn eval``: the metrics of a trained run on a file."""

import json as jsonlib
import logging
from collections.abc import Iterator

from structattn.cli.command_inputs import InputColumns, check_ending, check_inputs
from structattn.cli.terminal_tables import format_metrics
from structattn.files.replacing import replace_text
from structattn.options.hardware import Hardware
from structattn.training.examples import read_labelled
from structattn.training.kept_predictions import check_split, keep_predictions, warn_if_unfinished
from structattn.training.prediction_inputs import summarise_labelled
from structattn.training.run_data import inherit_data_config

LOGGER = logging.getLogger("structattn.cli")


def command(
    run: str,
    *,
    data: str,
    format: str | None = None,
    parses: str | None = None,
    parser: str | None = None,
    columns: InputColumns,
    label_column: int | str | None = None,
    split: str | None = None,
    page: str | None = None,
    hardware: Hardware,
    trust_code: bool = False,
    json: bool = False,
) -> Iterator[str]:
    """Evaluate a trained run on a file: its metrics, and a report by class, type of span, relation or score.

    Args:
        run: a run folder, or the folder of a saved model.
        data: a file with labels.
        format: its data format; recognised from the file by default.
        parses: a CoNLL-U file with trees for the sentences that have none.
        parser: the parser for sentences without trees, as for structattn parse; by default the one saved with the run,
            if a parser found the trees of its training data; none for no parser.
        columns: the columns of texts and ids.
        label_column: the column of labels; by default that of the run's training data, or one of the usual names.
        split: keep the predictions in the run folder under this name, test or any other, for compare --split; those of
            test become the test metrics of the run.
        page: an .html file for the report as a page, with pictures.
        hardware: where the model runs, and the precision.
        trust_code: import and run an encoder module:function that the run folder names.
        json: print one JSON object.
    """
    if split is not None:
        check_split(run, split)
    check_ending(".html", page=page)
    check_inputs(run, data, format=format, parses=parses, parser=parser, trust_code=trust_code)
    warn_if_unfinished(run)
    from structattn.training.models import load_task_model

    model = hardware.move(load_task_model(run, parser=parser, trust_code=trust_code))
    if model.find_trees is not None:
        model.find_trees.keep()
    columns_read = {**vars(columns), "label_column": label_column}
    settings = inherit_data_config(run, data, format=format, parses=parses, **columns_read)
    examples = read_labelled(model.task, data, settings)
    summarise_labelled(model, examples, data, format=settings.format, columns=settings.columns).log(LOGGER)
    with hardware.autocast():
        evaluation = model.evaluate(examples)
    if split is not None:
        LOGGER.info("predictions: %s", keep_predictions(run, split, evaluation))
    if model.find_trees is not None:
        model.find_trees.log(LOGGER, "--parser")
    metrics, report = dict(evaluation.metrics), evaluation.report()
    if page is not None:
        from structattn.inspection.report_page import report_page

        with replace_text(page) as stream:
            stream.write(report_page({data: report}, f"{run}: {format_metrics(metrics)}"))
    if json:
        yield jsonlib.dumps({**metrics, "examples": len(examples), "report": report.to_dict()})
    else:
        yield f"{format_metrics(metrics)}\n\n{report}".rstrip()
