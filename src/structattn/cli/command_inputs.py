"""Checks of what a command reads, before anything that takes long to import is needed, and how it is read."""

import contextlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from structattn.data.model_config import check_folders, find_whole_model, read_model_config
from structattn.data.readers.formats import check_format, list_files
from structattn.errors import ConfigError, ParseError, StructAttnError
from structattn.files.item_faults import collecting_faults
from structattn.files.text import Source, check_readable
from structattn.parsing.parsers import check_parser


@dataclass(frozen=True)
class InputColumns:
    """The columns of a table for a trained model; ``--help`` prints what the fields are.

    Attributes:
        text_column: for tables and JSON: the column of texts, two separated by a comma for pairs; by default that of
            the run's training data, or one of the usual names.
        id_column: the column of ids; by default that of the run's training data, or one of the usual names.
    """

    text_column: int | str | None = None
    id_column: int | str | None = None


def check_inputs(
    run: str | None = None,
    data: str | None = None,
    *,
    format: str | None = None,
    parses: str | None = None,
    parser: str | None = None,
    trust_code: bool = False,
) -> None:
    """Check a trained model, a file or a pattern of files (``-`` is stdin), a format, a file of trees and a parser."""
    if run is not None:
        read_model_config(find_whole_model(run), trust_code=trust_code)
    check_format(format)
    if parser is not None and parser != "none":
        check_parser(parser)
    for path in (data, parses):
        if path is not None and path != "-":
            for file in list_files(path):
                check_readable(file)


def check_sources(*files: str | None, backbone: str | None = None, adapter: str | None = None) -> None:
    """Check the files and folders that a run reads before anything that takes long to import is needed.

    Args:
        *files: treebanks and other files; ``None`` is passed over.
        backbone: folder of a Hugging Face model.
        adapter: folder of HYDRA heads, or of a run that pretrained some.

    Raises:
        ParseError: for a missing or unreadable file.
        ConfigError: for a folder without a model, or with one that this version cannot read.

    Example:
        >>> check_sources(None, "nowhere.conllu")
        Traceback (most recent call last):
        ...
        structattn.errors.ParseError: nowhere.conllu: cannot read this file: No such file or directory
    """
    for file in files:
        if file is not None:
            check_readable(file)
    check_folders(backbone=backbone, adapter=adapter)


def refuse_without(needed: str, **options: object) -> None:
    """Refuse options that change nothing without another one, which was not given."""
    for name, value in options.items():
        if value is not None and value is not False:
            typed = f"--{name}" if value is True else f"--{name} {value}"
            raise ConfigError(f"{typed} needs {needed}")


def check_at_least(least: int, **options: float | None) -> None:
    """Refuse numbers below the least that an option takes; ``None`` passes."""
    for name, value in options.items():
        if value is not None and not value >= least:
            raise ConfigError(f"--{name}: expected at least {least}, got {value}")


def check_ending(ending: str, **files: str | None) -> None:
    """Refuse the name of a file to write that does not end as it should; ``None`` passes."""
    for name, file in files.items():
        if file is not None and not file.endswith(ending):
            raise ConfigError(f"--{name}: expected a file that ends in {ending}, got {file!r}")


def check_port(port: int) -> None:
    """Refuse a number that is no port."""
    if not 0 <= port <= 65535:
        raise ConfigError(f"--port: expected a number from 0 to 65535, got {port}")


def resolve_source(file: str) -> Source:
    """The file, or stdin for ``-``."""
    if file == "-" and sys.__stdin__ is None:
        raise ParseError("expected text, got a closed stream", file="stdin")
    return sys.stdin if file == "-" else file


_MOST_FAULTS = 3


@contextlib.contextmanager
def answering_others(strict: bool, answered: str) -> Iterator[None]:
    """In the block, single items that are wrong are left out; after it, one error says how many, and what is wrong.

    Args:
        strict: whether the first of them ends the command instead.
        answered: what they are not, ``predicted`` for example.
    """
    if strict:
        yield
        return
    with collecting_faults() as faults:
        try:
            yield
        except StructAttnError as error:  # about the whole file
            if not faults:
                raise
            raise StructAttnError(f"{error}; and before, {_list_faults(len(faults), faults)}") from None
    check_all_answered(len(faults), faults, answered)


def check_all_answered(count: int, faults: Sequence[object], answered: str) -> None:
    """Raise an error about this many items, if there are any, that names the first faults."""
    if count:
        raise StructAttnError(_list_faults(count, faults, f"; the rest is {answered}"))


def _list_faults(count: int, faults: Sequence[object], consequence: str = "") -> str:
    messages = [str(fault) for fault in faults[:_MOST_FAULTS]]
    messages += [f"{count - len(messages):,} more"] * (count > len(messages))
    number = "1 fault" if count == 1 else f"{count:,} faults"
    return f"{number}{consequence}: {'; '.join(messages)}"
