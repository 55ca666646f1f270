"""One run from its configuration to its result, in a folder of its own."""

import contextlib
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import torch

from structattn.syntax.folders import described_by, read_json, remove, write_json
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
    """One run from its configuration to ``result.json``, or the result of one that was finished before.

    The folder is locked, checked and described; what the work comes to is written, with the card of the best model, and
    only then is the state of the unfinished run removed. The caller's random state is put back. Of a run that fails, or
    is interrupted, before its first evaluation nothing is left, and a run that it was to replace is there again; an
    interrupt after that has a note that says how to resume it.

    Args:
        config: a dataclass with ``hardware`` and ``report_to``; all of it but ``out`` decides the run.
        place: the path of the run folder, which the first process decides.
        work: trains in the folder with an ``accelerate.Accelerator`` and returns the content of ``result.json``.
        read: what that content means.
        name: the command that makes such a run, for the model card.
        files: what the run reads, whose checksums are kept.
        resume: continue the interrupted run in the folder.
        overwrite: replace the run in the folder.

    Returns:
        What ``read`` makes of ``result.json``.

    Raises:
        ParseError: if the result of a finished run is damaged.
        ConfigError: if the folder is in use, holds a run and neither ``resume`` nor ``overwrite`` is given, or a run
            with another configuration or on files of other content; if there is no such device.
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
        with described_by(folder.result, "a result"):
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
