"""Parses for sentences that come without them, looked up by their exact sequence of words.

Most data sets have no trees; the output of a parser (``structattn parse``) is then a second file beside them.
"""

import dataclasses
import logging
import os
from collections.abc import Iterable, Iterator

from structattn.data.example import Example
from structattn.errors import ParseError
from structattn.syntax import Sentence, read_conllu

LOGGER = logging.getLogger("structattn.data")


class ParseLookup:
    """Gives each sentence without a dependency tree the tree of a known sentence with the same words.

    Args:
        sentences: the known sentences, with dependency trees; of several with the same words the first is used.
        file: where they come from, for errors.

    Raises:
        ParseError: if one of them has no tree.

    Example:
        >>> from structattn.syntax import DependencyTree
        >>> known = ParseLookup([Sentence(["kids", "wash"], dependency=DependencyTree([2, 0]))])
        >>> example = known(Example((Sentence(["kids", "wash"]), Sentence(["hush"])), "x"))
        >>> [sentence.dependency and sentence.dependency.heads for sentence in example.sentences], known.missing
        ([(2, 0), None], 1)
    """

    def __init__(self, sentences: Iterable[Sentence], *, file: str | os.PathLike[str] | None = None) -> None:
        self.missing = 0
        self._known: dict[tuple[str, ...], Sentence] = {}
        for number, sentence in enumerate(sentences, start=1):
            if sentence.dependency is None and len(sentence):
                raise ParseError(f"expected heads of every word, sentence {number} has none", file=file)
            self._known.setdefault(sentence.words, sentence)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> "ParseLookup":
        """Read a CoNLL-U file.

        Raises:
            ParseError: as ``read_conllu``, or if a sentence has no tree.
        """
        return cls(read_conllu(path), file=path)

    def __call__(self, example: Example) -> Example:
        """The example with trees; ``missing`` counts the sentences for which there is none."""
        return dataclasses.replace(example, sentences=tuple(self._with_tree(one) for one in example.sentences))

    def _with_tree(self, sentence: Sentence) -> Sentence:
        if sentence.dependency is not None or not len(sentence):
            return sentence
        found = self._known.get(sentence.words)
        if found is None:
            self.missing += 1
            return sentence
        return dataclasses.replace(sentence, tags=sentence.tags or found.tags, dependency=found.dependency)


def with_parses(examples: Iterable[Example], path: str | os.PathLike[str] | None) -> Iterator[Example]:
    """The examples, with the trees of a CoNLL-U file if one is given.

    Raises:
        ParseError: as ``ParseLookup``.
    """
    if path is None:
        yield from examples
    else:
        known = ParseLookup.from_file(path)
        try:
            yield from map(known, examples)
        finally:
            if known.missing:
                LOGGER.warning("%s has no tree for %d sentences", os.fspath(path), known.missing)
