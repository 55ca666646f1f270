"""``structattn explore``: a local page to edit the trees of a sentence and watch trained models."""

import itertools
import logging
import os
import sys
import tempfile
import webbrowser
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from structattn.cli.chosen_example import check_chosen, find_example, type_example
from structattn.cli.command_inputs import InputColumns, check_inputs, check_port, refuse_without
from structattn.data import Example
from structattn.errors import ConfigError, StructAttnError
from structattn.explorer.protocol import MOST_WORDS, read_state
from structattn.files.json_yaml import read_json_lines
from structattn.http.token_server import read_token
from structattn.options.hardware import Hardware
from structattn.parsing.parsers import check_parser
from structattn.training.run_folder import RunFolder

if TYPE_CHECKING:
    from structattn.tasks import TaskModel

LOGGER = logging.getLogger("structattn.cli")
_MOST_EXAMPLES = 50
_SEARCHED = 500


def command(
    runs: list[str],
    *,
    example: str | None = None,
    text: str | None = None,
    second: str | None = None,
    state: str | None = None,
    split: Literal["train", "dev", "test"] | None = None,
    parser: str | None = None,
    data: str | None = None,
    data_format: str | None = None,
    columns: InputColumns,
    label_column: int | str | None = None,
    port: int = 0,
    no_browser: bool = False,
    token_file: str | None = None,
    hardware: Hardware,
    trust_code: bool = False,
) -> Iterator[str]:
    """Open a page in the browser: type a sentence, edit its tree, watch the heads and predictions of trained models.

    The page opens on this machine only, and only by its address, which contains a secret token. Ctrl-C ends the server.

    Args:
        runs: run folders, or folders of saved models, for tasks with the same number of sentences; two are shown side
            by side.
        example: id of the example to open with, or else its number in the data, counted from 0.
        text: a sentence of your own to open with.
        second: the second sentence, for tasks on pairs.
        state: a file that the page saved, to go on with.
        split: the examples of the first run to choose from: train, dev or test; by default test, or else dev.
        parser: the parser for typed sentences, as for structattn parse; by default the one saved with a run, if a
            parser found the trees of its training data, or else en where a model needs a tree.
        data: a file of examples to choose from, instead of the run's own. The worst errors of the first model come
            first.
        data_format: the data format of that file; recognised from the file by default.
        columns: the columns of texts and ids.
        label_column: the column of labels; by default that of the run's training data, or one of the usual names.
        port: the port of the page; a free one by default.
        no_browser: print the address only.
        token_file: a file with the token, of at least 16 characters, which is then not printed; a random one by
            default, or STRUCTATTN_TOKEN.
        hardware: where the models run, and the precision.
        trust_code: import and run an encoder module:function that a folder names.
    """
    check_chosen("explore", example=example, text=text, second=second, state=state, least=0)
    reading = {**vars(columns), "label_column": label_column}
    if data is None:
        refuse_without("--data FILE", data_format=data_format, **reading)
    elif split is not None:
        raise ConfigError(f"--split: expected none with --data, got {split}")
    shared = None if state is None else read_state(state)
    for run in runs:
        check_inputs(run, data, format=data_format, trust_code=trust_code)
    if parser is not None:
        check_parser(parser)
    check_port(port)
    token = read_token(token_file)
    names = _name_runs(runs)

    from structattn.explorer import Answers
    from structattn.explorer.explorer_server import ExplorerServer
    from structattn.parsing.missing_trees import MissingTrees
    from structattn.training.models import load_task_model

    models = {
        name: hardware.move(load_task_model(run, trust_code=trust_code)) for name, run in zip(names, runs, strict=True)
    }
    finder = None if parser is None else MissingTrees(parser)
    answers = Answers(models, finder)

    def ask(request: Any) -> Mapping[str, Any]:
        with hardware.autocast():
            return answers.ask(request)

    with hardware.autocast():
        model = next(iter(models.values()))
        reading |= {"format": data_format}
        examples = _choose_examples(runs[0], model, data, reading, split=split, example=example)
        if text is not None:
            examples.insert(0, type_example(model.task, text, second))
        if shared is not None:
            examples.insert(0, Example(shared.originals))
        opened = 0 if example or text or state else None
        boot = answers.boot(examples, host="server", title=f"structattn explore: {', '.join(names)}", opened=opened)
        if state is not None:
            boot["state"] = Path(state).read_text(encoding="utf-8")
    with ExplorerServer(ask, boot, port=port, token=token) as server, tempfile.TemporaryDirectory() as folder:
        yield server.url if token is None else server.url.partition("#")[0]
        if not no_browser and _has_screen():
            webbrowser.open(_write_door(Path(folder), server.url))
        LOGGER.info("%d examples to choose from; Ctrl-C ends the server", len(examples))
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            LOGGER.info("the server has ended")


def _choose_examples(
    run: str,
    model: "TaskModel",
    data: str | None,
    reading: Mapping[str, Any],
    *,
    split: Literal["train", "dev", "test"] | None = None,
    example: str | None = None,
) -> list[Example]:
    """Examples to choose from: the one that was asked for, then the worst errors of the model.

    ``reading`` is how a file is read.
    """
    from structattn.training.run_data import inherit_data_config, read_to_show

    if data is not None:
        settings = inherit_data_config(run, data, **reading)
        examples = read_to_show(model.task, data, settings, limit=_SEARCHED if example is None else None)
        answers: list[Any] = [prediction.answer for prediction in model.predict(examples)]
    else:
        examples, answers = _read_run(run, model, split)
    mistakes = [_rate_mistake(example.label, answer) for example, answer in zip(examples, answers, strict=True)]
    worst_first = [examples[index] for index in sorted(range(len(examples)), key=lambda index: -mistakes[index])]
    short = (example for example in worst_first if all(1 <= len(part) <= MOST_WORDS for part in example.sentences))
    asked = None if example is None else find_example(examples, example, data or f"the data of {run}")
    others = itertools.islice((other for other in short if other is not asked), _MOST_EXAMPLES)
    return [*([] if asked is None else [asked]), *others]


def _read_run(
    run: str, model: "TaskModel", split: Literal["train", "dev", "test"] | None
) -> tuple[list[Example], list[Any]]:
    """Examples of a run, by default of its test data or else its development data, and the predictions that it kept."""
    from structattn.training.run_data import read_run_examples

    folder = RunFolder(run)
    if not folder.config.is_file():
        return [], []
    try:
        examples, name = read_run_examples(run, split, task=model.task)
        if name == "train":
            return examples, [None] * len(examples)
        rows = {row["id"]: row["predicted"] for row in read_json_lines(folder.predictions(name))}
    except StructAttnError as error:
        LOGGER.warning("no examples to choose from: %s; give --data FILE", error)
        return [], []
    return examples, [rows.get(example.id) for example in examples]


def _rate_mistake(gold: str | float | None, predicted: str | float | None) -> float:
    """How wrong a prediction is: the difference of scores, 1 for a wrong label, 0 if one of the two is unknown."""
    if gold is None or predicted is None:
        return 0.0
    if isinstance(gold, str) or isinstance(predicted, str):
        return float(gold != predicted)
    return abs(gold - predicted)


def _name_runs(runs: Sequence[str]) -> list[str]:
    """The shortest ends of the folders' paths that tell them apart."""
    parts = [Path(run).resolve().parts for run in runs]
    if len(set(parts)) < len(parts):
        raise ConfigError(f"expected different runs, got {' '.join(runs)}")
    length = 1
    while len({path[-length:] for path in parts}) < len(parts):
        length += 1
    return ["/".join(path[-length:]) for path in parts]


def _write_door(folder: Path, url: str) -> str:
    """The address of a page that only this user can read and that leads to ``url``.

    A list of processes shows what a browser is told to open, and with ``url`` it would show the token.
    """
    door = folder / "open.html"
    door.write_text(f'<!doctype html><meta http-equiv="refresh" content="0;url={url}">\n', encoding="utf-8")
    return door.as_uri()


def _has_screen() -> bool:
    """Whether a browser would open in a window; without a display, one may open in the terminal."""
    return sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
