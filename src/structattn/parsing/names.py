"""From a name on the command line to a parser; the names of the parsers that are part of this package."""

import functools
from collections.abc import Callable, Mapping
from pathlib import Path

from structattn.layers.devices import Hardware
from structattn.parsing.files import TreebankParser, treebank_of_brackets
from structattn.parsing.parser import Parser, TreeParser
from structattn.parsing.spacy import SpacyParser
from structattn.parsing.stanza import StanzaParser
from structattn.syntax.errors import ConfigError

PACKAGED: Mapping[str, Path] = {"en": Path(__file__).parent / "english" / "model"}
DEFAULT_PARSER = "en"
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
    """Whether a parser is part of this package, or a folder or file of data that it reads: no code of others is run.

    Example:
        >>> is_ours("en"), is_ours("structattn:runs/ewt"), is_ours("gold.conllu"), is_ours("spacy:en_core_web_sm")
        (True, True, True, False)
    """
    return name.partition(":")[0] not in KINDS


def parser_of(name: str, hardware: Hardware | None = None) -> Parser:
    """The parser that a name stands for.

    Args:
        name: ``en``, the English parser of this package; ``spacy:MODEL``, ``stanza:LANGUAGE``, ``structattn:FOLDER``;
            or a file of trees: ``FILE.conllu``, or Penn brackets as ``FILE.mrg`` or ``FILE.brackets`` (each may end in
            ``.gz``).
        hardware: where ``en`` or ``structattn:FOLDER`` runs, and in which numbers; the CPU if ``None``. The others have
            settings of their own.

    Raises:
        ConfigError: for any other name; the message lists the known kinds. For a GPU or mixed precision where it is
            not ours to choose.
        MissingExtra: if the parser's package is not installed.

    Example:
        >>> parser_of("malt:swedish")
        Traceback (most recent call last):
        ...
        structattn.syntax.errors.ConfigError: unknown parser 'malt:swedish'; known: en, spacy:MODEL, stanza:LANGUAGE,
        structattn:FOLDER, FILE.conllu, FILE.mrg, FILE.brackets
    """
    if name in PACKAGED:
        return _packaged(name, hardware)
    kind, _, model = name.partition(":")
    if kind == "structattn" and model:
        return TreeParser.from_folder(model, hardware)
    suffix = Path(name.removesuffix(".gz")).suffix
    if kind in KINDS and model:
        read, source = KINDS[kind][1], model
    elif suffix in _FILES:
        read, source = _FILES[suffix], name
    else:
        kinds = [shown for shown, _ in KINDS.values()]
        known = [*PACKAGED, *kinds, "structattn:FOLDER", *(f"FILE{ending}" for ending in _FILES)]
        raise ConfigError(f"unknown parser {name!r}; known: {', '.join(known)}")
    if hardware is not None and (hardware.device == "cuda" or hardware.mixed_precision != "no"):
        raise ConfigError(f"device, mixed_precision: expected en or structattn:FOLDER with these options, got {name!r}")
    return read(source)


@functools.lru_cache(maxsize=2)
def _packaged(name: str, hardware: Hardware | None) -> TreeParser:
    """A parser of this package; read once, as texts are often parsed one by one."""
    return TreeParser.from_folder(PACKAGED[name], hardware, name=name)
