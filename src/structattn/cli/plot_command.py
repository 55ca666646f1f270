"""``structattn plot``: the attention of a trained model on one example or sentence."""

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from structattn import explorer
from structattn.cli.chosen_example import check_chosen, find_example, type_example
from structattn.cli.command_inputs import InputColumns, check_inputs, refuse_without
from structattn.data import Example
from structattn.errors import ConfigError
from structattn.explorer.protocol import read_state
from structattn.options.hardware import Hardware
from structattn.pictures.figure_style import FigureStyle, read_length
from structattn.pictures.picture_files import FORMATS
from structattn.training.run_folder import RunFolder

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
    input_columns: InputColumns,
    parser: str | None = None,
    format: str | None = None,
    influence: bool = False,
    by_row: bool = False,
    width: str | None = None,
    font: str | None = None,
    heads: str | None = None,
    columns: int | None = None,
    no_title: bool = False,
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
        input_columns: the columns of texts and ids.
        parser: the parser for sentences without trees, as for structattn parse; by default the one saved with the run,
            if a parser found the trees of its training data; none for no parser.
        format: html, svg, png or pdf, or several separated by commas; by default that of --out, or html. With pdf,tex
            also LaTeX that shows each picture with a caption.
        influence: also show the leave-one-out attribution of the prediction to each word.
        by_row: in pictures, scale the colours of each row to its largest weight.
        width: the width of pictures in print, such as 3.3in, 84mm or 240pt; letters have at least 7 points in it, and
            what cannot be read is left out.
        font: the font of pictures, such as "Times New Roman"; that of the system by default.
        heads: only these attention heads, separated by commas, by the names that pictures and the explorer show.
        columns: how many heads are side by side, at most.
        no_title: draw no headings, as captions say the same.
        out: the folder for the pictures; plots/ in the run folder by default. A name that ends in .html, .svg, .png or
            .pdf is that of a file, for the page or for a single picture.
        hardware: where the model runs, and the precision.
        trust_code: import and run an encoder module:function that the run folder names.
    """
    check_chosen("plot", example=example, text=text, second=second, state=state, least=1)
    if example is None:
        refuse_without("--example ID", data=data)
    if data is None:
        refuse_without("--data FILE", data_format=data_format, **vars(input_columns))
    printing = {"width": width, "font": font, "heads": heads, "columns": columns, "no_title": no_title}
    if state is not None:
        refuse_without("--example ID or --text TEXT", influence=influence, by_row=by_row, **printing)
    names_of_heads = () if heads is None else tuple(head.strip() for head in heads.split(","))
    pixels = None if width is None else read_length(width)
    style = FigureStyle(pixels, font, names_of_heads, columns, has_titles=not no_title)
    path = Path(RunFolder(run).plots if out is None else out)
    formats = _choose_formats(format, path)
    if formats == ["html"]:
        refuse_without("--format svg, png or pdf", **printing)
    check_inputs(run, data, format=data_format, parser=parser, trust_code=trust_code)
    shared = None if state is None else read_state(state)
    from structattn.training.models import load_task_model

    model = hardware.move(load_task_model(run, parser=parser, trust_code=trust_code))
    names: dict[str, Any] = {
        "formats": formats,
        "name": RunFolder(run).path.name,
        "command": f"structattn explore {run}",
    }
    with hardware.autocast():
        if shared is not None:
            title = f"{run}: {state}"
            yield from _write(path, lambda folder: explorer.save_state(folder, model, shared, title=title, **names))
            return
        if example is None:
            drawn = type_example(model.task, text, second)
        else:
            drawn = _find_example(model, run, example, data, {**vars(input_columns), "format": data_format})
        (drawn,) = model.with_trees([drawn])
        options = {"title": f"{run}: {drawn.id}", "influence": influence, "by_row": by_row, "style": style, **names}
        yield from _write(path, lambda folder: explorer.save_plots(folder, model, [drawn], **options))


def _choose_formats(format: str | None, path: Path) -> list[str]:
    """The formats to draw in; that of a file is its ending."""
    if not _names_file(path):
        return (format or "html").split(",")
    ending = path.suffix.removeprefix(".").lower()
    if format not in (None, ending):
        raise ConfigError(f"--out: expected a folder for --format {format}, got the name of a file, {path}")
    return [ending]


def _names_file(path: Path) -> bool:
    return path.suffix.removeprefix(".").lower() in ("html", *FORMATS) and not path.is_dir()


def _write(path: Path, save: Callable[[Path], Sequence[Path]]) -> Iterator[str]:
    """Save into a folder, or to a file if there is a single picture; yield the names of the files."""
    if not _names_file(path):
        yield from map(str, save(path))
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        first, *further = save(Path(folder))
        if further:
            names = ", ".join(file.name for file in (first, *further))
            raise ConfigError(
                f"--out: expected a folder for {len(further) + 1} pictures ({names}), got the file {path}"
            )
        os.replace(first, path)
    yield str(path)


def _find_example(model: "TaskModel", run: str, example: str, data: str | None, reading: Mapping[str, Any]) -> Example:
    from structattn.training.run_data import inherit_data_config, read_run_examples, read_to_show

    if data is None:
        return find_example(read_run_examples(run, task=model.task)[0], example, "the dev data")
    return find_example(read_to_show(model.task, data, inherit_data_config(run, data, **reading)), example, data)
