"""Many sentences through a parser: batches of like length, and sentences too long for one piece.

Separate from the parser, which sees one batch at a time.
"""

from collections.abc import Callable, Iterator, Sequence

from structattn.syntax import DependencyTree, Sentence

# A batch has at most so many words, padding included, and so many pairs of words.
_WORDS, _PAIRS = 2500, 400_000
LONGEST = 300
_CONTINUED = "parataxis"


def parse_in_batches(
    parse: Callable[[Sequence[Sentence]], list[Sentence]], sentences: Sequence[Sentence]
) -> list[Sentence]:
    """Parse sentences in batches of like length; the answers are in the order of the questions.

    A sentence of more than ``LONGEST`` words is parsed in stretches of that many. The roots of the later stretches then
    hang from the root of the first, as ``parataxis``, so that it is one tree over all words.

    Args:
        parse: parses one batch.
        sentences: any number of sentences, of any length.

    Example:
        >>> def flat(batch):
        ...     return [Sentence(one.words, None, DependencyTree([0] + [1] * (len(one) - 1))) for one in batch]
        >>> parse_in_batches(flat, [Sentence(["a"] * 302), Sentence(["b"])])[0].dependency.heads[298:]
        (1, 1, 1, 301)
    """
    stretches = [(number, stretch) for number, sentence in enumerate(sentences) for stretch in _stretches(sentence)]
    order = sorted(range(len(stretches)), key=lambda index: len(stretches[index][1]))
    parsed: dict[int, Sentence] = {}
    for batch in _batches([len(stretches[index][1]) for index in order]):
        indices = [order[position] for position in batch]
        found = parse([stretches[index][1] for index in indices])
        parsed.update(zip(indices, found, strict=True))
    parts: list[list[Sentence]] = [[] for _ in sentences]
    for index, (number, _) in enumerate(stretches):
        parts[number].append(parsed[index])
    return [_joined(sentence, own) for sentence, own in zip(sentences, parts, strict=True)]


def _stretches(sentence: Sentence) -> list[Sentence]:
    if len(sentence) <= LONGEST:
        return [sentence]
    starts = range(0, len(sentence), LONGEST)
    return [Sentence(sentence.words[start : start + LONGEST]) for start in starts]


def _batches(lengths: Sequence[int]) -> Iterator[range]:
    """Ranges over ascending lengths, each as large as the limits allow."""
    start = 0
    for end in range(1, len(lengths) + 1):
        longest = lengths[end] if end < len(lengths) else 0
        size = end - start + 1
        if end == len(lengths) or size * longest > _WORDS or size * longest**2 > _PAIRS:
            yield range(start, end)
            start = end


def _joined(sentence: Sentence, parts: Sequence[Sentence]) -> Sentence:
    if len(parts) == 1:
        return parts[0]
    heads: list[int] = []
    labels: list[str] = []
    tags: list[str] = []
    first_root = 0
    for part in parts:
        tree = part.dependency
        if tree is None:
            raise ValueError(f"expected a tree for each of {len(parts)} stretches of a sentence, one has none")
        moved = [head + len(heads) if head else first_root for head in tree.heads]
        own = list(tree.labels or ["_"] * len(tree))
        if first_root:
            own = [label if head else _CONTINUED for label, head in zip(own, tree.heads, strict=True)]
        else:
            first_root = tree.roots[0] + 1
        heads += moved
        labels += own
        tags += part.tags or ["_"] * len(part)
    return Sentence(sentence.words, tags, DependencyTree(heads, labels), metadata=sentence.metadata)
