"""``structattn export``: a trained run as one program that runs without this package."""

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

from structattn.cli.command_inputs import check_inputs, refuse_without, resolve_source
from structattn.data.model_config import find_whole_model
from structattn.data.readers.formats import list_files
from structattn.errors import ConfigError
from structattn.files.text import check_apart
from structattn.options.hardware import Hardware
from structattn.training.prediction_inputs import read_inputs
from structattn.training.run_data import inherit_data_config
from structattn.training.run_folder import RunFolder


def command(
    run: str,
    out: str,
    *,
    data: str | None = None,
    format: str | None = None,
    parses: str | None = None,
    check: bool = False,
    hardware: Hardware,
    trust_code: bool = False,
) -> Iterator[str]:
    """Write a trained classifier as one program that needs only torch, or onnxruntime, to run.

    Args:
        run: a run folder, or the folder of a saved model.
        out: the file of the program: ONNX if its name ends in .onnx, otherwise for torch.export, such as model.pt2.
        data: a file with a few examples as the model reads them; generated ones by default.
        format: its data format; recognised from the file by default.
        parses: a CoNLL-U file with trees for the sentences that have none.
        check: read the program back and compare its predictions with the run's.
        hardware: where the program is to run, and the precision.
        trust_code: import and run an encoder module:function that the run folder names.
    """
    if data is None:
        refuse_without("--data FILE", format=format, parses=parses)
    check_inputs(run, data, format=format, parses=parses, trust_code=trust_code)
    path = Path(os.path.realpath(out))
    if path.is_relative_to(os.path.realpath(find_whole_model(run))):
        raise ConfigError(f"OUT: expected a file outside of the model's own folder, got {out}")
    if path.is_dir():
        raise ConfigError(f"OUT: expected a file, such as model.pt2, got the folder {out}")
    check_apart(RunFolder(run).config, *list_files(data or "-"), parses, out)
    from structattn.tasks.torch_export import export_program
    from structattn.training.models import load_task_model

    model = hardware.move(load_task_model(run, trust_code=trust_code))
    examples = None
    if data is not None:
        settings = inherit_data_config(run, data, labelled=False, format=format, parses=parses)
        examples = list(itertools.islice(read_inputs(model, resolve_source(data), settings)[1], 64))
    with hardware.autocast():
        difference = export_program(model, out, examples=examples, check=check)
    yield out if difference is None else f"{out}: predictions differ from the run's by at most {difference:.1e}"
