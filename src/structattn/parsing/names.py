"""Parsers by their names on the command line, and the names of the parsers that are part of this package."""

import functools
from collections.abc import Callable, Mapping
from pathlib import Path

from structattn.data.model_config import model_folder, read_model_config
from structattn.errors import ConfigError
from structattn.files.text import check_readable
from structattn.options.hardware import Hardware
from structattn.parsing.files import TreebankParser, treebank_of_brackets
from structattn.parsing.parser import Parser
from structattn.parsing.spacy import SpacyParser
from structattn.parsing.stanza import StanzaParser

PACKAGED: Mapping[str, Path] = {"en": Path(__file__).parent / "english" / "model"}
DEFAULT_PARSER = "en"
_OURS = "structattn"
KINDS: Mapping[str, tuple[str, Callable[[str], Parser]]] = {
    "spacy": ("spacy:MODEL", SpacyParser.from_model),
    "stanza": ("stanza:LANGUAGE", StanzaParser.from_language),
}
_FILES: Mapping[str, Callable[[str], Parser]] = {
    ".conllu": TreebankParser.from_file,
    ".mrg": treebank_of_brackets,
    ".brackets": treebank_of_brackets,
}


def is_ours(name: str) -> bool:
    """Whether a parser is part of this package, or a folder or file of data that it reads: no third-party code is run.

    Example:
        >>> is_ours("en"), is_ours("structattn:runs/ewt"), is_ours("gold.conllu"), is_ours("spacy:en_core_web_sm")
        (True, True, True, False)
    """
    return name.partition(":")[0] not in KINDS


def check_parser(name: str, hardware: Hardware | None = None) -> None:
    """Check a parser's name, and the file or folder that it names, before any slow import.

    Args:
        name: as for `parser_of`.
        hardware: likewise.

    Raises:
        ConfigError: for an unknown name, a folder without a model that this version can read, or hardware for a parser
            with settings of its own.
        ParseError: for a missing or unreadable file.

    Example:
        >>> check_parser("malt:swedish")
        Traceback (most recent call last):
        ...
        structattn.errors.ConfigError: unknown parser 'malt:swedish'; known: en, spacy:MODEL, stanza:LANGUAGE,
        structattn:FOLDER, FILE.conllu, FILE.mrg, FILE.brackets
    """
    kind, _, model = name.partition(":")
    if name in PACKAGED:
        return
    if kind == _OURS and model:
        read_model_config(model_folder(model))
        return
    if not (kind in KINDS and model) and _suffix(name) not in _FILES:
        kinds = [shown for shown, _ in KINDS.values()]
        known = [*PACKAGED, *kinds, f"{_OURS}:FOLDER", *(f"FILE{ending}" for ending in _FILES)]
        raise ConfigError(f"unknown parser {name!r}; known: {', '.join(known)}")
    if kind not in KINDS:
        check_readable(name)
    if hardware is not None and (hardware.device == "cuda" or hardware.mixed_precision != "no"):
        raise ConfigError(f"device, mixed_precision: expected en or structattn:FOLDER with these options, got {name!r}")


def parser_of(name: str, hardware: Hardware | None = None) -> Parser:
    """The parser that a name stands for.

    Args:
        name: ``en``, the English parser of this package; ``spacy:MODEL``, ``stanza:LANGUAGE``, ``structattn:FOLDER``;
            or a file of trees: ``FILE.conllu``, or Penn brackets as ``FILE.mrg`` or ``FILE.brackets`` (each may end in
            ``.gz``).
        hardware: where ``en`` or ``structattn:FOLDER`` runs, and the precision; the CPU if ``None``. The others have
            settings of their own.

    Raises:
        ConfigError: for any other name; the message lists the known kinds. For a GPU or mixed precision with a parser
            that has settings of its own.
        ParseError: for a file that cannot be read.
        MissingExtra: if the parser's package is not installed.

    Example:
        >>> parser_of("en").name
        'en'
    """
    check_parser(name, hardware)
    kind, _, model = name.partition(":")
    if name in PACKAGED:
        return _packaged(name, hardware)
    if kind == _OURS:
        from structattn.parsing.tree_parser import TreeParser

        return TreeParser.from_folder(model, hardware)
    return KINDS[kind][1](model) if kind in KINDS else _FILES[_suffix(name)](name)


def _suffix(name: str) -> str:
    return Path(name.removesuffix(".gz")).suffix


@functools.lru_cache(maxsize=2)
def _packaged(name: str, hardware: Hardware | None) -> Parser:
    """A parser of this package; loaded once, as texts are often parsed one by one."""
    from structattn.parsing.tree_parser import TreeParser

    return TreeParser.from_folder(PACKAGED[name], hardware, name=name)
