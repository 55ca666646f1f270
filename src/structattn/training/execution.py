"""One run from its configuration to its result, in a folder of its own."""

import contextlib
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import torch

from structattn.files.json_yaml import naming_description, read_json, write_json
from structattn.files.replacing import remove
from structattn.training import machine
from structattn.training.card import write_run_card
from structattn.training.folder import RunFolder, plain
from structattn.training.state import preserved_randomness

_Result = TypeVar("_Result")


def carry_out(
    config: Any,
    place: Callable[[], str | os.PathLike[str]],
    work: Callable[[RunFolder, Any], Mapping[str, Any]],
    read: Callable[[RunFolder, Mapping[str, Any]], _Result],
    *,
    name: str,
    files: Iterable[str | os.PathLike[str] | None] = (),
    resume: bool = False,
    overwrite: bool = False,
) -> _Result:
    """Carry out one run from its configuration to ``result.json``, or read the result if it is finished.

    The folder is locked, checked and described. The result is written, with the card of the best model, before the
    state of the unfinished run is removed. The caller's random state is restored. A run that fails or is interrupted
    before its first evaluation leaves nothing behind, and a run that it was to replace is put back; a later interrupt
    carries a note that says how to resume the run.

    Args:
        config: a dataclass with ``hardware`` and ``report_to``; all of it but ``out`` determines the run.
        place: returns the path of the run folder; called in the first process.
        work: trains in the folder with an ``accelerate.Accelerator`` and returns the content of ``result.json``.
        read: makes the result from that content.
        name: the command that makes such a run, for the model card.
        files: the files that the run reads; their checksums are kept.
        resume: continue the interrupted run in the folder.
        overwrite: replace the run in the folder.

    Returns:
        The result that ``read`` makes from ``result.json``.

    Raises:
        ParseError: if the result of a finished run is damaged.
        ConfigError: if the folder is in use, contains a run and neither ``resume`` nor ``overwrite`` is given, or
            contains a run with another configuration or on files with other content; if the device is not available.
        MissingExtra: if the extra ``train``, or that of the tracker, is not installed.
    """
    values = plain(config)
    with contextlib.ExitStack() as stack:
        accelerator = stack.enter_context(machine.accelerator_of(config.hardware, report_to=config.report_to))
        folder = RunFolder(machine.from_first(place))
        machine.from_first(lambda: stack.enter_context(folder.claimed()))
        stack.enter_context(preserved_randomness())
        machine.from_first(lambda: folder.open_for_run(values, resume=resume, overwrite=overwrite))
        if not machine.from_first(lambda: folder.is_finished):
            try:
                machine.from_first(lambda: _describe(folder, values, accelerator.device, files, resume=resume))
                result = work(folder, accelerator)
                machine.from_first(lambda: write_run_card(folder, name, values, result))
                machine.from_first(lambda: write_json(folder.result, result))
            except BaseException as error:
                if machine.is_first():
                    is_kept = folder.is_trained
                    folder.end()
                    if isinstance(error, KeyboardInterrupt) and is_kept:
                        error.add_note(
                            f"{folder.path} keeps the run so far; "
                            f"resume it with --seed {config.seed} --out {folder.path} --resume"
                        )
                raise
            machine.from_first(folder.end)
        machine.from_first(lambda: remove(folder.checkpoints))
        values = machine.from_first(lambda: read_json(folder.result))
        with naming_description(folder.result, "a result"):
            return read(folder, values)


def _describe(
    folder: RunFolder,
    values: Mapping[str, Any],
    device: torch.device,
    files: Iterable[str | os.PathLike[str] | None],
    *,
    resume: bool,
) -> None:
    environment = machine.environment(device, files)
    if resume and folder.is_trained:
        folder.check_data(environment["sha256"])
    folder.describe(values, environment)
