"""Where the trees of a sentence come from: a parser with its version, the data, or nowhere, as chains of words do."""

import dataclasses
from collections.abc import Collection

from structattn.data import Example
from structattn.explorer.protocol import source_key
from structattn.parsing.missing_trees import STRUCTURES
from structattn.syntax import ConstituencyTree, DependencyTree, Sentence
from structattn.tasks.task_model import TreeFinder

CHAIN = "chain"
"""The source of trees that no parser has found: the words in a row, one under the other."""
DATA = "data"
"""The source of phrases that were made from the dependency tree that came with the sentence."""


def parse_example(finder: TreeFinder, example: Example) -> Example:
    """The example with the trees that a parser finds, which carry its name and version."""
    (parsed,) = finder([example])
    source = _describe_parser(finder)
    pairs = zip(example.sentences, parsed.sentences, strict=True)
    return dataclasses.replace(parsed, sentences=tuple(_name_sources(*pair, source) for pair in pairs))


def add_needed_trees(sentence: Sentence, needed: Collection[str]) -> Sentence:
    """Add the needed trees that are missing: a chain as dependency tree, the phrases of the dependencies or of a chain.

    The sentence says that they are made up. What is not needed stays unknown, so that nobody takes it for a parse.
    """
    tree = DependencyTree(range(len(sentence))) if sentence.dependency is None else sentence.dependency
    source = CHAIN if sentence.dependency is None else sentence.metadata.get(source_key("dependency"), DATA)
    if sentence.constituency is None and "constituency" in needed:
        phrases = ConstituencyTree.from_dependency(sentence.words, tree)
        sentence = _name_source(dataclasses.replace(sentence, constituency=phrases), "constituency", source)
    if sentence.dependency is None and "dependency" in needed:
        return _name_source(dataclasses.replace(sentence, dependency=tree), "dependency", CHAIN)
    return sentence


def _name_source(sentence: Sentence, tree: str, source: str) -> Sentence:
    """The sentence, which says that its dependency or constituency tree was found by this parser."""
    return dataclasses.replace(sentence, metadata={**sentence.metadata, source_key(tree): source})


def _describe_parser(finder: TreeFinder) -> str:
    """Name and version of a parser, without the checksum of its files."""
    parser = getattr(finder, "parser", finder)
    name = getattr(parser, "name", type(parser).__name__)
    return f"{name} {getattr(parser, 'version', '')}".partition("+")[0].strip()


def _name_sources(before: Sentence, after: Sentence, source: str) -> Sentence:
    for tree in STRUCTURES:
        if getattr(before, tree) is None and getattr(after, tree) is not None:
            after = _name_source(after, tree, source)
    return after
