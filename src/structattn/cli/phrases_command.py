"""``structattn phrases``: the share of a trained model's attention that goes to phrases, against uniform attention."""

import csv
import io
import itertools
from collections.abc import Iterator
from typing import Literal

from structattn import inspection
from structattn.cli.command_inputs import InputColumns, check_at_least, check_inputs, refuse_without
from structattn.files.markdown import align_columns
from structattn.options.hardware import Hardware
from structattn.pictures import save
from structattn.pictures.picture_files import choose_format

Layout = Literal["text", "markdown", "csv"]


def command(
    run: str,
    *,
    data: str | None = None,
    data_format: str | None = None,
    columns: InputColumns,
    limit: int | None = None,
    format: Layout = "text",
    picture: str | None = None,
    hardware: Hardware,
    trust_code: bool = False,
) -> Iterator[str]:
    """Measure the share of attention on phrases in each layer of a model over trees, against uniform attention.

    Args:
        run: a run folder, or the folder of a saved model.
        data: a file of examples, with texts for models that generate; the development data of the run by default.
        data_format: the data format of that file; recognised from the file by default.
        columns: the columns of texts and ids.
        limit: maximum number of examples, from the start.
        format: text, markdown, or csv with a line for each head.
        picture: a file for a bar chart of the shares, .svg, .png or .pdf.
        hardware: where the model runs, and the precision.
        trust_code: import and run an encoder module:function that the run folder names.
    """
    check_at_least(1, limit=limit)
    if data is None:
        refuse_without("--data FILE", data_format=data_format, **vars(columns))
    if picture is not None:
        choose_format(picture)  # before hours of work
    check_inputs(run, data, format=data_format, trust_code=trust_code)
    from structattn.training.models import load_task_model
    from structattn.training.run_data import inherit_data_config, read_run_examples, read_to_show

    model = hardware.move(load_task_model(run, trust_code=trust_code))
    if data is None:
        examples, _ = read_run_examples(run, task=model.task)
    else:
        settings = inherit_data_config(run, data, format=data_format, **vars(columns))
        examples = read_to_show(model.task, data, settings, limit=limit)
    with hardware.autocast():
        rows = inspection.phrase_attention(model, model.with_trees(list(itertools.islice(examples, limit))))
    if picture is not None:
        save(picture, inspection.phrase_attention_figure(rows, title="Attention on phrases"))
    header, *lines = inspection.phrase_attention_table(rows)
    if format == "csv":
        yield _csv("attention", "layer", "head", "share", "uniform", "queries")
        for row in rows:
            for head, share in enumerate(row.shares, start=1):
                yield _csv(row.kind, row.layer, head, f"{share:.6f}", f"{row.uniform:.6f}", row.queries)
    elif format == "markdown":
        yield from (f"| {' | '.join(line)} |" for line in (header, ["---"] * len(header), *lines))
    else:
        yield from align_columns(header, lines)


def _csv(*values: object) -> str:
    stream = io.StringIO()
    csv.writer(stream, lineterminator="").writerow(values)
    return stream.getvalue()
