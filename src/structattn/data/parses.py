"""Parses for sentences that come without them, looked up by their exact sequence of words.

Most data sets have no trees; the output of a parser (``structattn parse``) is then a second file beside them.
"""

import dataclasses
import logging
import os
from collections.abc import Iterable, Iterator

from structattn.data.example import Example
from structattn.errors import ParseError
from structattn.syntax.conllu import read_conllu
from structattn.syntax.sentence import Sentence

LOGGER = logging.getLogger("structattn.data")


class ParseLookup:
    """Gives each sentence without a dependency tree that of the first parsed sentence with the same words."""

    def __init__(self, sentences: Iterable[Sentence], *, file: str | os.PathLike[str] | None = None) -> None:
        self.missing = 0
        self._parses: dict[tuple[str, ...], Sentence] = {}
        for number, sentence in enumerate(sentences, start=1):
            if sentence.dependency is None and len(sentence):
                raise ParseError(f"expected heads of every word, sentence {number} has none", file=file)
            self._parses.setdefault(sentence.words, sentence)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> "ParseLookup":
        """Read a CoNLL-U file, in which every sentence has a tree."""
        return cls(read_conllu(path), file=path)

    def __call__(self, example: Example) -> Example:
        """The example with trees; ``missing`` counts the sentences for which there is none."""
        return dataclasses.replace(example, sentences=tuple(map(self._add_tree, example.sentences)))

    def _add_tree(self, sentence: Sentence) -> Sentence:
        if sentence.dependency is not None or not len(sentence):
            return sentence
        parse = self._parses.get(sentence.words)
        if parse is None:
            self.missing += 1
            return sentence
        return dataclasses.replace(sentence, tags=sentence.tags or parse.tags, dependency=parse.dependency)


def add_parses(examples: Iterable[Example], path: str | os.PathLike[str] | None) -> Iterator[Example]:
    """The examples, with the trees of a CoNLL-U file if there is one."""
    if path is None:
        yield from examples
    else:
        lookup = ParseLookup.from_file(path)
        try:
            yield from map(lookup, examples)
        finally:
            if lookup.missing:
                LOGGER.warning("%s has no tree for %d sentences", os.fspath(path), lookup.missing)
