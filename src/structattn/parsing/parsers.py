"""Parsers: the protocol, the texts that they parse, and their names on the command line."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from structattn.errors import ConfigError, shown
from structattn.options.hardware import Hardware
from structattn.syntax import Sentence

DEFAULT_PARSER = "en"
_RULES = f"{DEFAULT_PARSER}:rules"
PACKAGED: Mapping[str, Path] = dict.fromkeys((DEFAULT_PARSER, _RULES), Path(__file__).parent / "english" / "model")
_OURS = "structattn"
# Libraries whose parsers can be named, and what follows the colon.
_LIBRARIES = {"spacy": "MODEL", "stanza": "LANGUAGE"}
_TREE_FILES = (".conllu", ".mrg", ".brackets")


@dataclass(frozen=True)
class Document:
    """A raw text of any number of sentences, with a name and metadata.

    As in CoNLL-U, its first sentence carries ``newdoc id`` and the metadata; ``sent_id`` is ``<name>-<sentence>``.

    Attributes:
        text: the raw text.
        name: its id.
        metadata: further values, such as ``label``.

    Example:
        >>> Document("Fine. Really fine.", "7", {"label": "1"}).name
        '7'
    """

    text: str
    name: str
    metadata: Mapping[str, str] = field(default_factory=dict, hash=False)


Text = str | Sequence[str] | Sentence | Document
"""A raw text, with or without a name, the words of one sentence, or a sentence whose words are parsed again."""


@runtime_checkable
class Parser(Protocol):
    """Turns texts into sentences with dependency trees and tags, deterministically.

    A parser of your own needs only these two methods, a name and a version; ``structattn.parse`` then adds the cache,
    the processes and the bar.

    Attributes:
        name: the kind of parser and its model, such as ``spacy:en_core_web_sm``.
        version: changes whenever the parser's output may change; cached parses are then no longer used.

    Example:
        >>> import structattn as sa
        >>> class Chain:
        ...     name, version = "chain", "1"
        ...     def parse_words(self, sentences):
        ...         return [sa.Sentence(words, dependency=sa.DependencyTree(range(len(words)))) for words in sentences]
        ...     def parse_texts(self, texts):
        ...         return [self.parse_words([text.split()]) for text in texts]
        >>> sa.parse("Kids wash their hands", Chain())[0].dependency.heads
        (0, 1, 2, 3)
    """

    name: str
    version: str

    def parse_words(self, sentences: Sequence[Sequence[str]]) -> list[Sentence]:
        """One sentence for every list of words, with these words.

        Args:
            sentences: lists of words; one without words gives an empty tree.
        """
        ...

    def parse_texts(self, texts: Sequence[str]) -> list[list[Sentence]]:
        """The sentences of every raw text, each with its own text under ``metadata["text"]``.

        Args:
            texts: raw texts, each with any number of sentences.
        """
        ...


def is_ours(name: str) -> bool:
    """Whether a parser runs no third-party code: it is in this package, or a folder or file of data that it reads."""
    return name.partition(":")[0] not in _LIBRARIES


def check_parser(name: str, hardware: Hardware | None = None) -> None:
    """Check a parser's name, the file or folder that it names, and its hardware, before any slow import.

    Errors are those of ``load_parser``.
    """
    kind, _, model = name.partition(":")
    if name in PACKAGED:
        return
    if kind == _OURS and model:
        from structattn.data.model_config import find_model_folder, read_model_config

        read_model_config(find_model_folder(model))
        return
    if not (kind in _LIBRARIES and model) and _suffix(name) not in _TREE_FILES:
        libraries = [f"{library}:{argument}" for library, argument in _LIBRARIES.items()]
        kinds = [*PACKAGED, *libraries, f"{_OURS}:FOLDER", *(f"FILE{ending}" for ending in _TREE_FILES)]
        raise ConfigError(f"unknown parser {name!r}; known: {', '.join(kinds)}")
    if kind not in _LIBRARIES:
        from structattn.files.text import check_readable

        check_readable(name)
    if hardware is not None and (hardware.device == "cuda" or hardware.mixed_precision != "no"):
        raise ConfigError(f"device, mixed_precision: expected en or structattn:FOLDER with these options, got {name!r}")


def resolve_parser(parser: Any, hardware: Hardware | None = None) -> Parser:
    """The parser that a name stands for, or one that is loaded already, perhaps by spaCy; ``None`` is ``en``."""
    if parser is None or isinstance(parser, str):
        return load_parser(DEFAULT_PARSER if parser is None else parser, hardware)
    if isinstance(parser, Parser):
        return parser
    if hasattr(parser, "pipe_names") and hasattr(parser, "meta"):
        from structattn.parsing.bridges import SpacyParser

        return SpacyParser(parser)
    got = f"{type(parser).__name__} {shown(parser)}"
    raise ConfigError(f"parser: expected a name such as 'en', a parser, or a pipeline of spaCy, got {got}")


def load_parser(name: str, hardware: Hardware | None = None) -> Parser:
    """Load the parser that a name stands for.

    Args:
        name: ``en``, the English parser of this package, or ``en:rules``, which splits texts by rules;
            ``spacy:MODEL``, ``stanza:LANGUAGE``, ``structattn:FOLDER``; or a file of trees: ``FILE.conllu``, or Penn
            brackets as ``FILE.mrg`` or ``FILE.brackets`` (each may end in ``.gz``).
        hardware: where ``en`` or ``structattn:FOLDER`` runs, and the precision; the CPU if ``None``. The others have
            settings of their own.

    Returns:
        The parser; ``en`` is loaded once.

    Raises:
        ConfigError: for any other name; the message lists the known kinds. For a folder without a model that this
            version can read. For a GPU or mixed precision with a parser that has settings of its own.
        ParseError: for a file that cannot be read.
        MissingExtra: if the parser's package is not installed.

    Example:
        >>> load_parser("en").name
        'en'
    """
    check_parser(name, hardware)
    kind, _, model = name.partition(":")
    if name in PACKAGED:
        return _load_packaged(name, hardware)
    if kind == _OURS:
        from structattn.parsing.tree_parser import TreeParser

        return TreeParser.from_folder(model, hardware)
    if kind == "spacy":
        from structattn.parsing.bridges import SpacyParser

        return SpacyParser.from_model(model)
    if kind == "stanza":
        from structattn.parsing.bridges import StanzaParser

        return StanzaParser.from_language(model)
    from structattn.parsing.treebank_parser import TreebankParser

    return TreebankParser.from_file(name)


def _suffix(name: str) -> str:
    return Path(name.removesuffix(".gz")).suffix


# Texts are often parsed one by one.
@functools.lru_cache(maxsize=2)
def _load_packaged(name: str, hardware: Hardware | None) -> Parser:
    from structattn.parsing.sentence_splitting import split_by_rules
    from structattn.parsing.tree_parser import TreeParser

    split = split_by_rules if name == _RULES else None
    return TreeParser.when_needed(PACKAGED[name], hardware, name=name, split=split)
