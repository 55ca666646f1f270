"""``structattn plot``: the attention of a trained model on one example or sentence."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from structattn import explorer, training
from structattn.cli.inputs import check_goes_with, check_inputs, examples_of_run, text_example
from structattn.data import Example
from structattn.errors import ConfigError
from structattn.explorer.protocol import read_state
from structattn.options.hardware import Hardware
from structattn.training.folder import RunFolder

if TYPE_CHECKING:
    from structattn.tasks import TaskModel


def command(
    run: str,
    *,
    example: str | None = None,
    text: str | None = None,
    second: str | None = None,
    state: str | None = None,
    data: str | None = None,
    data_format: str | None = None,
    parser: str | None = None,
    format: str = "html",
    influence: bool = False,
    by_row: bool = False,
    out: str | None = None,
    hardware: Hardware,
    trust_code: bool = False,
) -> Iterator[str]:
    """Draw the attention of a trained model: heat maps for each head, gates, pooling weights, trees.

    Args:
        run: a run folder, or the folder of a saved model.
        example: id of an example of the data, or else its number, counted from 0.
        text: a sentence of your own, instead of an example.
        second: the second sentence, for tasks on pairs.
        state: a file saved by structattn explore, instead of an example or a text: draws its sentences and trees, in
            pictures of what was shown or as a page.
        data: the file with the example; the development data of the run by default.
        data_format: the data format of that file; recognised from the file by default.
        parser: the parser for sentences without trees, as for structattn parse; by default the one saved with the run,
            if a parser found the trees of its training data; none for no parser.
        format: html, svg, png or pdf, or several separated by commas.
        influence: also show the leave-one-out attribution of the prediction to each word.
        by_row: in pictures, scale the colours of each row to its largest weight.
        out: the folder for the pictures; plots/ in the run folder by default.
        hardware: where the model runs, and the precision.
        trust_code: import and run an encoder module:function that the run folder names.
    """
    if [example, text, state].count(None) != 2:
        raise ConfigError("plot needs either --example, --text or --state")
    for name, value in (("text", text), ("second", second)):
        if value is not None and not value.strip():
            raise ConfigError(f"--{name}: expected at least one word, got {value!r}")
    if text is None:
        check_goes_with("text", second=second)
    if example is None:
        check_goes_with("example", data=data)
    if data is None:
        check_goes_with("data", data_format=data_format)
    if state is not None:
        check_goes_with("example or --text", influence=influence, by_row=by_row)
    check_inputs(run, data, format=data_format, parser=parser, trust_code=trust_code)
    shared = None if state is None else read_state(state)
    model = hardware.move(training.load_task_model(run, parser=parser, trust_code=trust_code))
    folder, formats = RunFolder(run).plots if out is None else Path(out), format.split(",")
    name, live = RunFolder(run).path.name, f"structattn explore {run}"
    with hardware.autocast():
        if shared is not None:
            title = f"{run}: {state}"
            written = explorer.save_state(folder, model, shared, title=title, formats=formats, name=name, command=live)
        else:
            found = _chosen(model, run, example=example, texts=(text, second), data=data, data_format=data_format)
            (chosen,) = model.with_trees([found])
            written = explorer.save_plots(
                folder,
                model,
                [chosen],
                title=f"{run}: {chosen.id}",
                formats=formats,
                influence=influence,
                by_row=by_row,
                name=name,
                command=live,
            )
    yield from map(str, written)


def _chosen(
    model: "TaskModel",
    run: str,
    *,
    example: str | None,
    texts: tuple[str | None, str | None],
    data: str | None,
    data_format: str | None,
) -> Example:
    if example is None:
        return text_example(model.task, [text for text in texts if text is not None])
    examples = list(model.task.read(data, format=data_format)) if data else list(examples_of_run(run))
    found = [one for one in examples if one.id == example]
    if not found and example.isdigit():
        found = examples[int(example) :][:1]
    if not found:
        raise ConfigError(f"--example: no example {example!r} among the {len(examples)} of {data or 'the dev data'}")
    return found[0]
