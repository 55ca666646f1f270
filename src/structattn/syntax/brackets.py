"""Files of trees in Penn-style brackets, including the labelled trees of SST."""

import os
from collections.abc import Iterable, Iterator

from structattn.files.text import Source, read_lines, replace_text
from structattn.syntax.bracket_text import parse_trees
from structattn.syntax.constituency import ConstituencyTree


def read_brackets(path: Source) -> Iterator[ConstituencyTree]:
    """Stream the trees of a file of brackets, gzip or plain.

    Traces and function tags are kept; ``without_empty_leaves`` and ``without_function_tags`` remove them.

    Args:
        path: the file, or a stream.

    Yields:
        One tree after the other.

    Raises:
        ParseError: with the file and the line, if a bracket is missing or too many, a phrase has no words, or a word is
            outside every bracket.

    Example:
        >>> import tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "trees.txt"
        >>> _ = path.write_text("(S (UH oh))\\n( (NP (DT the)\\n (NN cat)))\\n")
        >>> [tree.words for tree in read_brackets(path)]
        [('oh',), ('the', 'cat')]
    """
    for words, tags, spans in parse_trees(read_lines(path), file=path):
        yield ConstituencyTree(words, spans, tags=tags)


def write_brackets(path: str | os.PathLike[str], trees: Iterable[ConstituencyTree]) -> None:
    """Write trees to a file, one per line; the file appears whole or not at all.

    Args:
        path: the file; compressed when the name ends in ``.gz``.
        trees: the trees.

    Raises:
        ValueError: if a word, tag or label cannot be written in brackets.
    """
    with replace_text(path) as stream:
        for tree in trees:
            stream.write(tree.to_brackets() + "\n")
