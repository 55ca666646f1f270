"""Several sentences as one: documents, and the texts that a backbone reads."""

import itertools
from collections.abc import Sequence

from structattn.syntax.constituency_tree import ConstituencyTree, Span
from structattn.syntax.dependency_tree import DependencyTree
from structattn.syntax.sentence import Sentence


def join_sentences(sentences: Sequence[Sentence]) -> Sentence:
    """A document as one sentence: words in a row, trees side by side, matrices along the diagonal.

    The document has a structure, or tags, if every sentence with words has them; sentences without words do not count.
    If only some trees have labels, the labels of the rest are empty. The metadata are those of the first sentence.

    Args:
        sentences: at least one.

    Returns:
        The document; a single sentence stays as it is.

    Raises:
        ValueError: for no sentences.

    Example:
        >>> first = Sentence(["a"], dependency=DependencyTree([0]), relations={"coref": [[1]]})
        >>> second = Sentence(["b", "c"], dependency=DependencyTree([2, 0]), relations={"coref": [[1, 2], [2, 1]]})
        >>> document = join_sentences([first, second])
        >>> document.dependency.heads, document.relations["coref"]
        ((0, 3, 0), ((1, 0, 0), (0, 1, 2), (0, 2, 1)))
    """
    if not sentences:
        raise ValueError("join_sentences expects at least one sentence, got none")
    if len(sentences) == 1:
        return sentences[0]
    words = [word for sentence in sentences for word in sentence.words]
    starts = itertools.accumulate(map(len, sentences), initial=0)
    real = [(sentence, start) for sentence, start in zip(sentences, starts, strict=False) if len(sentence)]
    tags = [tag for sentence, _ in real for tag in sentence.tags or ()]
    names = set.intersection(*(set(sentence.relations) for sentence, _ in real)) if real else set()
    return Sentence(
        words,
        tags if len(tags) == len(words) else None,
        _dependency(real),
        _constituency(words, real),
        relations={name: _matrix(name, len(words), real) for name in sorted(names)},
        metadata=sentences[0].metadata,
    )


def _dependency(real: Sequence[tuple[Sentence, int]]) -> DependencyTree | None:
    trees = [(sentence.dependency, start) for sentence, start in real if sentence.dependency is not None]
    if len(trees) < len(real):
        return None
    heads = [head and head + start for tree, start in trees for head in tree.heads]
    if all(tree.labels is None for tree, _ in trees):
        return DependencyTree(heads)
    return DependencyTree(heads, [label for tree, _ in trees for label in tree.labels or ("",) * len(tree)])


def _constituency(words: Sequence[str], real: Sequence[tuple[Sentence, int]]) -> ConstituencyTree | None:
    trees = [(sentence.constituency, start) for sentence, start in real if sentence.constituency is not None]
    if len(trees) < len(real):
        return None
    spans: list[Span] = [
        (label, start + first, start + last) for tree, start in trees for label, first, last in tree.spans
    ]
    return ConstituencyTree(words, spans, tags=[tag for tree, _ in trees for tag in tree.tags])


def _matrix(name: str, size: int, real: Sequence[tuple[Sentence, int]]) -> list[list[float | int]]:
    matrix: list[list[float | int]] = [[0] * size for _ in range(size)]
    for sentence, start in real:
        for row, values in enumerate(sentence.relations[name]):
            matrix[start + row][start : start + len(values)] = values
    return matrix
