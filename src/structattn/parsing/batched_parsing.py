"""Parsing in batches: sentences of similar length together, and sentences too long to be parsed at once."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from structattn.syntax import DependencyTree, Sentence
from structattn.syntax.conllu import conllu_rows

# The maximum size of a batch, padding included, in words and in pairs of words.
_WORDS, _PAIRS = 2500, 400_000
# The overhead of a batch, in rows: longer sentences start a new batch where padding would cost more.
_BATCH = 8
# The binary digits that ``round_down`` keeps of the size of a batch; the sentences left over join longer ones.
_DIGITS = 3
_CONTINUED = "parataxis"


def count_words(sentences: Sequence[Sentence]) -> list[int]:
    """Number of words of each sentence."""
    return [len(sentence) for sentence in sentences]


def parse_in_batches(
    parse: Callable[[Sequence[Sentence]], list[Sentence]],
    sentences: Sequence[Sentence],
    *,
    max_length: int,
    measure: Callable[[Sequence[Sentence]], Sequence[int]] = count_words,
) -> list[Sentence]:
    """Parse sentences in batches of similar size, as ``measure`` gives it; longer ones in stretches of ``max_length``.

    The roots of the later stretches are attached to the root of the first as ``parataxis``.
    """
    stretches = [
        (number, stretch) for number, sentence in enumerate(sentences) for stretch in _stretches(sentence, max_length)
    ]
    sizes = measure([stretch for _, stretch in stretches])
    order = sorted(range(len(stretches)), key=sizes.__getitem__)
    parsed: dict[int, Sentence] = {}
    for batch in _split_lengths([sizes[index] for index in order]):
        indices = [order[position] for position in batch]
        parsed.update(zip(indices, parse([stretches[index][1] for index in indices]), strict=True))
    parts: list[list[Sentence]] = [[] for _ in sentences]
    for index, (number, _) in enumerate(stretches):
        parts[number].append(parsed[index])
    return [_attach(sentence, trees) for sentence, trees in zip(sentences, parts, strict=True)]


def concatenate(sentences: Sequence[Sentence], *, metadata: Mapping[str, str] | None = None) -> Sentence:
    """One sentence of the words and trees of several, with all their roots; without words for none."""
    words: list[str] = []
    tags: list[str] = []
    heads: list[int] = []
    labels: list[str] = []
    rows: list[tuple[str, ...]] = []
    has_rows = any(sentence.rows for sentence in sentences)
    for sentence in sentences:
        tree = sentence.dependency
        if tree is None:
            raise ValueError(f"expected a dependency tree, {' '.join(sentence.words[:5])!r} has none")
        heads += [head + len(words) if head else 0 for head in tree.heads]
        labels += tree.labels or ["_"] * len(tree)
        tags += sentence.tags or ["_"] * len(tree)
        # The ids of rows count from the start of the whole.
        for number, *columns in conllu_rows(sentence) if has_rows else ():
            rows.append(("-".join(str(int(part) + len(words)) for part in number.split("-")), *columns))
        words += sentence.words
    has_tags = any(sentence.tags is not None for sentence in sentences) or not sentences
    return Sentence(words, tags if has_tags else None, DependencyTree(heads, labels), metadata=metadata, rows=rows)


def _stretches(sentence: Sentence, max_length: int) -> list[Sentence]:
    if len(sentence) <= max_length:
        return [sentence]
    return [Sentence(sentence.words[start : start + max_length]) for start in range(0, len(sentence), max_length)]


def _split_lengths(lengths: Sequence[int]) -> Iterator[range]:
    """Ranges over ascending lengths, each as large as the limits and the cost of padding allow."""
    # Imports torch, which command-line errors should not wait for.
    from structattn.functional.products import round_down

    start = 0
    while start < len(lengths):
        end = start + 1
        while end < len(lengths) and _has_room(end - start, lengths[end - 1], lengths[end]):
            end += 1
        end = start + round_down(end - start, _DIGITS)
        yield range(start, end)
        start = end


def _has_room(rows: int, longest: int, following: int) -> bool:
    fits = (rows + 1) * following <= _WORDS and (rows + 1) * following**2 <= _PAIRS
    return fits and (following - longest) * rows <= longest * _BATCH


def _attach(sentence: Sentence, parts: Sequence[Sentence]) -> Sentence:
    if len(parts) == 1:
        return parts[0]
    whole = concatenate(parts)
    tree = whole.dependency
    if tree is None or tree.labels is None:
        raise ValueError("expected trees of the stretches of a sentence, there are none")
    first, *later = tree.roots
    heads, labels = list(tree.heads), list(tree.labels)
    for root in later:
        heads[root], labels[root] = first + 1, _CONTINUED
    return Sentence(sentence.words, whole.tags, DependencyTree(heads, labels), metadata=sentence.metadata)
