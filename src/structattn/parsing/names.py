"""From a name on the command line to a parser."""

from collections.abc import Callable, Mapping
from pathlib import Path

from structattn.parsing.files import TreebankParser, treebank_of_brackets
from structattn.parsing.parser import Parser, TreeParser
from structattn.parsing.spacy import SpacyParser
from structattn.parsing.stanza import StanzaParser
from structattn.syntax.errors import ConfigError

KINDS: Mapping[str, tuple[str, Callable[[str], Parser]]] = {
    "spacy": ("spacy:MODEL", SpacyParser.from_model),
    "stanza": ("stanza:LANGUAGE", StanzaParser.from_language),
    "structattn": ("structattn:FOLDER", TreeParser.from_folder),
}
_FILES: Mapping[str, Callable[[str], Parser]] = {
    ".conllu": TreebankParser.from_file,
    ".mrg": treebank_of_brackets,
    ".brackets": treebank_of_brackets,
}


def parser_of(name: str) -> Parser:
    """The parser that a name stands for.

    Args:
        name: ``spacy:MODEL``, ``stanza:LANGUAGE``, ``structattn:FOLDER``, or a file of trees: ``FILE.conllu``, or Penn
            brackets as ``FILE.mrg`` or ``FILE.brackets`` (each may end in ``.gz``).

    Raises:
        ConfigError: for any other name; the message lists the known kinds.
        MissingExtra: if the parser's package is not installed.

    Example:
        >>> parser_of("malt:swedish")
        Traceback (most recent call last):
        ...
        structattn.syntax.errors.ConfigError: unknown parser 'malt:swedish'; known: spacy:MODEL, stanza:LANGUAGE,
        structattn:FOLDER, FILE.conllu, FILE.mrg, FILE.brackets
    """
    kind, _, model = name.partition(":")
    if kind in KINDS and model:
        return KINDS[kind][1](model)
    suffix = Path(name.removesuffix(".gz")).suffix
    if suffix in _FILES:
        return _FILES[suffix](name)
    known = [shown for shown, _ in KINDS.values()] + [f"FILE{ending}" for ending in _FILES]
    raise ConfigError(f"unknown parser {name!r}; known: {', '.join(known)}")
