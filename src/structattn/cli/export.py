"""``structattn export``: a trained run as one program that runs without this package."""

import itertools
from collections.abc import Iterator

from structattn import training
from structattn.cli.inputs import check_inputs, data_config, opened
from structattn.layers.devices import Hardware
from structattn.training.inputs import inputs_of


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
    """Write a trained classifier as one torch.export program, which needs only torch to run.

    Args:
        run: a run folder, or the folder of a saved model.
        out: the file of the program, such as model.pt2.
        data: a file with a few examples as the model reads them; generated ones by default.
        format: its data format; recognised from the file by default.
        parses: a CoNLL-U file with the trees of sentences that come without.
        check: read the program again and compare its answers with the run's.
        hardware: where the program is to run, and the precision.
        trust_code: import and run an encoder module:function that the run folder names.
    """
    check_inputs(run, data, format=format, parses=parses, trust_code=trust_code)
    from structattn.tasks.export import export_program

    model = hardware.place(training.load(run, trust_code=trust_code))
    examples = None
    if data is not None:
        settings = data_config(run, format=format, parses=parses)
        examples = list(itertools.islice(inputs_of(model, opened(data), settings)[1], 64))
    with hardware.autocast():
        difference = export_program(model, out, examples=examples, check=check)
    yield out if difference is None else f"{out}: answers differ from the run's by at most {difference:.1e}"
