"""The parser protocol, for anything that turns words or raw text into sentences with trees.

A parser needs only these two methods, a name and a version.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from structattn.syntax import Sentence


@runtime_checkable
class Parser(Protocol):
    """Turns texts into sentences with dependency trees and tags, deterministically.

    Attributes:
        name: the kind of parser and its model, such as ``spacy:en_core_web_sm``.
        version: changes whenever the parser's output may change; cached parses are then no longer used.
    """

    name: str
    version: str

    def parse_words(self, sentences: Sequence[Sequence[str]]) -> list[Sentence]:
        """One sentence for every list of words, with these words. A list without words gives an empty tree."""
        ...

    def parse_texts(self, texts: Sequence[str]) -> list[list[Sentence]]:
        """The sentences of every raw text, each with its own text under ``metadata["text"]``."""
        ...
