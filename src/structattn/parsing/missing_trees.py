"""Trees for sentences without any, added by a parser when they are needed."""

import dataclasses
import logging
import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from structattn.errors import ConfigError
from structattn.files.item_faults import raising_faults
from structattn.syntax import Sentence

if TYPE_CHECKING:
    from structattn.data import Example
    from structattn.parsing.parsers import Parser

LOGGER = logging.getLogger("structattn.parsing")
_MANY = 1000
STRUCTURES = ("dependency", "constituency")
"""The kinds of trees that can be added."""


class MissingTrees:
    """Adds a parser's trees to sentences that have none, and phrases from them; trees and tags that are there stay.

    Loaded at the first such sentence, on the CPU: the same trees wherever the model runs. ``cache`` keeps parses."""

    def __init__(
        self,
        name: str,
        *,
        version: str | None = None,
        cache: str | os.PathLike[str] | None = None,
        trusted: bool = True,
        structures: Collection[str] = ("dependency",),
    ) -> None:
        self.name = name
        self.structures = tuple(structure for structure in STRUCTURES if structure in structures)
        self.cache = cache
        self.count = 0
        self._expected = version
        self._trusted = trusted
        self._parser: Parser | None = None

    @property
    def parser(self) -> "Parser":
        """The parser; a ``ConfigError`` if it is unknown or not trusted, ``MissingExtra`` if it is not installed."""
        if self._parser is None:
            from structattn.parsing.parsers import load_parser

            if not self._trusted:
                raise ConfigError(
                    f"the model's trees were found by {self.name!r}, a parser from another package, which is not "
                    f"started just because the model's folder names it; name it yourself: --parser {self.name}, or "
                    f"structattn.load(folder, parser={self.name!r})"
                )
            self._parser = load_parser(self.name)
            version = self._parser.version
            if self._expected not in (None, version):
                LOGGER.warning(
                    "this model's training data was parsed by %s %s; here it is %s, which may give different trees",
                    self.name,
                    self._expected,
                    version,
                )
        return self._parser

    @property
    def record(self) -> dict[str, str]:
        """Name, version and kinds of trees; the version of a ``structattn`` parser ends in a checksum of its files."""
        version = self._expected or self.parser.version
        return {"name": self.name, "version": version, "structures": " ".join(self.structures)}

    @property
    def summary(self) -> str:
        """How many sentences had no tree, which parser found one for them, and where the parses are kept."""
        cached = "not kept" if self.cache is None else f"kept in {self.cache}"
        name = f"{self.parser.name} {self.parser.version}"
        sentences = "sentence" if self.count == 1 else "sentences"
        return f"trees: {self.count:,} {sentences} had none; found by {name}, {cached}"

    def log(self, logger: logging.Logger, option: str) -> None:
        """Log the summary, if there were trees to add, with the option that names another parser."""
        if self.count:
            logger.info("%s (%s names another, or none)", self.summary, option)

    def keep(self) -> None:
        """Keep parses in the user's cache folder from now on, so that the same sentences are not parsed again."""
        self.cache = locate_cache()

    def __call__(self, examples: Sequence["Example"]) -> list["Example"]:
        """The examples with trees; a damaged cache is a ``ParseError``, other errors are those of ``parser``."""
        bare = [sentence for example in examples for sentence in example.sentences if self._lacking(sentence)]
        if not bare:
            return list(examples)
        from structattn.parsing.parse_texts import add_phrases, parse_each

        self.count += len(bare)
        unparsed = [Sentence(sentence.words) for sentence in bare if sentence.dependency is None]
        # A bar for a few sentences would be gone before it is seen.
        progress = None if len(unparsed) >= _MANY else False
        with raising_faults():
            pairs = parse_each(unparsed, self.parser, self.cache, progress=progress) if unparsed else ()
            parses = iter([parsed for _, (parsed,) in pairs])

        def with_trees(sentence: Sentence) -> Sentence:
            lacking = self._lacking(sentence)
            if lacking and sentence.dependency is None:
                parsed = next(parses)
                sentence = dataclasses.replace(
                    sentence, tags=sentence.tags or parsed.tags, dependency=parsed.dependency
                )
            return add_phrases(sentence) if "constituency" in lacking else sentence

        return [
            dataclasses.replace(example, sentences=tuple(map(with_trees, example.sentences))) for example in examples
        ]

    def _lacking(self, sentence: Sentence) -> frozenset[str]:
        return find_missing_structures(sentence) & set(self.structures)


def find_missing_structures(sentence: Sentence) -> frozenset[str]:
    """The kinds of trees that a sentence with words does not have; none for one without words."""
    return frozenset(structure for structure in STRUCTURES if len(sentence) and getattr(sentence, structure) is None)


def locate_cache() -> Path | None:
    """The file that keeps the parses of training data: ``structattn/parses.sqlite`` in the user's cache folder.

    That folder is ``$XDG_CACHE_HOME``, or ``~/.cache``. ``None`` if it is not writable; parses are then not kept.
    """
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "structattn"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return folder / "parses.sqlite" if os.access(folder, os.W_OK) else None
