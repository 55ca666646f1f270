"""Trees for sentences without any, added by a parser when they are needed."""

import dataclasses
import logging
import os
from collections.abc import Collection, Sequence
from pathlib import Path

from structattn.data import Example
from structattn.errors import ConfigError
from structattn.parsing.names import parser_of
from structattn.parsing.parser import Parser
from structattn.parsing.run import parse_each, with_phrases
from structattn.syntax import Sentence

LOGGER = logging.getLogger("structattn.parsing")
_MANY = 1000
STRUCTURES = ("dependency", "constituency")
"""The kinds of trees that can be added."""


class MissingTrees:
    """Adds a parser's trees to the sentences of examples that have none.

    Phrase trees follow from the dependencies, see ``ConstituencyTree.from_dependency``. Sentences keep the trees and
    the tags that they have. The parser is loaded for the first sentence without a dependency tree; it runs on the CPU,
    so that it finds the same trees wherever the model runs.

    Args:
        name: the parser, as ``parser_of`` takes it.
        version: the expected version; a different one is used with a warning.
        cache: a file that keeps parses, as for ``parse``.
        trusted: whether the parser may be loaded. Third-party code may not if only a model folder names it.
        structures: the kinds of trees that sentences need, of ``STRUCTURES``.

    Attributes:
        found: how many sentences were given trees.

    Example:
        >>> from structattn.syntax import DependencyTree
        >>> own = Sentence(["hush"], dependency=DependencyTree([0]))
        >>> find_trees = MissingTrees("en")
        >>> (example,) = find_trees([Example((Sentence(["Kids", "wash", "their", "hands"]), own), "0")])
        >>> [sentence.dependency.heads for sentence in example.sentences], find_trees.found
        ([(2, 0, 4, 2), (0,)], 1)
        >>> (phrases,) = MissingTrees("en", structures=["constituency"])([example])
        >>> phrases.sentences[0].constituency.to_brackets()
        '(root Kids wash (obj their hands))'
    """

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
        self.structures = tuple(one for one in STRUCTURES if one in structures)
        self.cache = cache
        self.found = 0
        self._expected = version
        self._trusted = trusted
        self._parser: Parser | None = None

    @property
    def parser(self) -> Parser:
        """The parser.

        Raises:
            ConfigError: as ``parser_of``; if the parser is not trusted.
            MissingExtra: likewise.
        """
        if self._parser is None:
            if not self._trusted:
                raise ConfigError(
                    f"the model's trees were found by {self.name!r}, a parser from another package, which is not "
                    f"started just because the model's folder names it; name it yourself: --parser {self.name}, or "
                    f"structattn.load(folder, parser={self.name!r})"
                )
            self._parser = parser_of(self.name)
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
        kept = "not kept" if self.cache is None else f"kept in {self.cache}"
        name = f"{self.parser.name} {self.parser.version}"
        return (
            f"trees: {self.found:,} {'sentence' if self.found == 1 else 'sentences'} had none; found by {name}, {kept}"
        )

    def log(self, logger: logging.Logger, option: str) -> None:
        """Log the summary, if there were trees to add, and the option that names another parser."""
        if self.found:
            logger.info("%s (%s names another, or none)", self.summary, option)

    def keep(self) -> None:
        """Keep parses in ``parse_cache()`` from now on, so that the same sentences are not parsed again."""
        self.cache = parse_cache()

    def __call__(self, examples: Sequence[Example]) -> list[Example]:
        """The examples with trees.

        Raises:
            ConfigError: as ``parser_of``.
            MissingExtra: likewise.
            ParseError: if the cache is damaged.
        """
        bare = [one for example in examples for one in example.sentences if self._lacking(one)]
        if not bare:
            return list(examples)
        self.found += len(bare)
        unparsed = [Sentence(one.words) for one in bare if one.dependency is None]
        # A bar for a few sentences would be gone before it is seen.
        progress = None if len(unparsed) >= _MANY else False
        found = iter(parse_each(unparsed, self.parser, self.cache, progress=progress) if unparsed else ())

        def with_trees(sentence: Sentence) -> Sentence:
            lacking = self._lacking(sentence)
            if lacking and sentence.dependency is None:
                (one,) = next(found)
                sentence = dataclasses.replace(sentence, tags=sentence.tags or one.tags, dependency=one.dependency)
            return with_phrases(sentence) if "constituency" in lacking else sentence

        return [
            dataclasses.replace(example, sentences=tuple(map(with_trees, example.sentences))) for example in examples
        ]

    def _lacking(self, sentence: Sentence) -> frozenset[str]:
        return missing_trees(sentence) & set(self.structures)


def missing_trees(sentence: Sentence) -> frozenset[str]:
    """The trees that a sentence with words does not have.

    Example:
        >>> sorted(missing_trees(Sentence(["hush"]))), sorted(missing_trees(Sentence([])))
        (['constituency', 'dependency'], [])
    """
    return frozenset(one for one in STRUCTURES if len(sentence) and getattr(sentence, one) is None)


def parse_cache() -> Path | None:
    """The file that keeps the parses of training data: ``structattn/parses.sqlite`` in the user's cache folder.

    That folder is ``$XDG_CACHE_HOME``, or ``~/.cache``. ``None`` if it is not writable; parses are then not kept.
    """
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "structattn"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return folder / "parses.sqlite" if os.access(folder, os.W_OK) else None
