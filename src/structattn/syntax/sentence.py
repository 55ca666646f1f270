"""The sentence: words and their structures, as one frozen value."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from structattn.syntax.tokenisation import split_words

if TYPE_CHECKING:
    from structattn.syntax.constituency_tree import ConstituencyTree
    from structattn.syntax.dependency_tree import DependencyTree

TRUNCATED = "truncated_from"
"""The field of ``metadata`` with the number of words before truncation."""

_ALL_STRINGS = frozenset({str})


@dataclass(frozen=True)
class Sentence:
    """Words and their structures.

    Args:
        words: the words; none at all is allowed.
        tags: one part-of-speech tag per word.
        dependency: dependency tree over the words.
        constituency: phrase tree over the words.
        relations: named word-by-word matrices, rows are queries and columns are keys.
        metadata: fields of the file, such as ``sent_id`` or ``label``.
        rows: the lines of a CoNLL-U sentence, split into ten columns; kept by ``read_conllu`` when the fields above
            cannot restore them (lemmas, features, ``1-2`` ranges, ``7.1`` empty nodes).
        comments: the comment lines of a CoNLL-U sentence, kept when ``metadata`` cannot restore them.

    Raises:
        ValueError: if a structure has another number of words; the message gives both numbers.
        TypeError: if ``words`` is one string.

    Example:
        >>> from structattn.syntax import DependencyTree
        >>> sentence = Sentence(["kids", "wash"], dependency=DependencyTree([2, 0]))
        >>> len(sentence), sentence.words, sentence.dependency.heads
        (2, ('kids', 'wash'), (2, 0))
    """

    words: tuple[str, ...]
    tags: tuple[str, ...] | None = None
    dependency: "DependencyTree | None" = None
    constituency: "ConstituencyTree | None" = None
    relations: Mapping[str, Sequence[Sequence[float | int]]] = field(default_factory=dict, hash=False)
    metadata: Mapping[str, str] = field(default_factory=dict, hash=False)
    rows: tuple[tuple[str, ...], ...] = field(default=(), repr=False)
    comments: tuple[str, ...] = field(default=(), repr=False)

    def __init__(
        self,
        words: Sequence[str],
        tags: Sequence[str] | None = None,
        dependency: "DependencyTree | None" = None,
        constituency: "ConstituencyTree | None" = None,
        relations: Mapping[str, Sequence[Sequence[float | int]]] | None = None,
        *,
        metadata: Mapping[str, str] | None = None,
        rows: Sequence[Sequence[str]] = (),
        comments: Sequence[str] = (),
    ) -> None:
        if isinstance(words, str):
            raise TypeError(f"words must be a sequence of words, got one string {words!r}; use Sentence.from_text")
        words = tuple(words)
        if not _ALL_STRINGS.issuperset(map(type, words)):
            for word in words:
                if not isinstance(word, str):
                    raise TypeError(f"words must be strings, got {word!r}")
        # A hand-written __init__ lets callers pass any sequence while the fields stay tuples for the type checker.
        values = {
            "words": words,
            "tags": None if tags is None else tuple(tags),
            "dependency": dependency,
            "constituency": constituency,
            "relations": {name: tuple(map(tuple, matrix)) for name, matrix in (relations or {}).items()},
            "metadata": dict(metadata or {}),
            "rows": tuple(map(tuple, rows)),
            "comments": tuple(comments),
        }
        self.__dict__.update(values)
        self._check()

    def __len__(self) -> int:
        return len(self.words)

    @classmethod
    def from_text(cls, text: str) -> "Sentence":
        """Make a sentence from raw text, split by ``split_words``; the text itself stays in the metadata.

        Args:
            text: raw text of one sentence.

        Example:
            >>> Sentence.from_text("It isn't.").words
            ('It', 'is', "n't", '.')
        """
        return cls(split_words(text), metadata={"text": text})

    def truncated(self, num_words: int) -> "Sentence":
        """The first words, with their structures; the sentence itself if it has no more.

        Structures stay valid, see ``DependencyTree.truncated`` and ``ConstituencyTree.truncated``. The text is that of
        the words that are left; the metadata say how many there were.

        Args:
            num_words: how many words stay at most.

        Raises:
            ValueError: for less than one word.

        Example:
            >>> from structattn.syntax import DependencyTree
            >>> Sentence(["kids", "wash", "hands"], dependency=DependencyTree([2, 0, 2])).truncated(2).dependency.heads
            (2, 0)
        """
        if num_words < 1:
            raise ValueError(f"expected to keep at least one word, got {num_words}")
        if len(self) <= num_words:
            return self
        return Sentence(
            self.words[:num_words],
            None if self.tags is None else self.tags[:num_words],
            None if self.dependency is None else self.dependency.truncated(num_words),
            None if self.constituency is None else self.constituency.truncated(num_words),
            {name: [row[:num_words] for row in matrix[:num_words]] for name, matrix in self.relations.items()},
            metadata={
                **{name: value for name, value in self.metadata.items() if name != "text"},
                TRUNCATED: str(len(self)),
            },
        )

    @property
    def text(self) -> str:
        """The text it was made from, if that is known; otherwise its words joined by spaces.

        Example:
            >>> Sentence.from_text("It isn't.").text, Sentence(["It", "is", "n't", "."]).text
            ("It isn't.", "It is n't .")
        """
        return self.metadata.get("text", " ".join(self.words))

    def _check(self) -> None:
        num_words = len(self.words)
        for name in ("tags", "dependency", "constituency"):
            value = getattr(self, name)
            if value is not None and len(value) != num_words:
                raise ValueError(f"the sentence has {num_words} words but its {name} has {len(value)} entries")
        if self.rows:
            self._check_rows()
        for name, matrix in self.relations.items():
            shape = [len(row) for row in matrix]
            if shape != [num_words] * num_words:
                raise ValueError(
                    f"relation {name!r} must be {num_words} x {num_words} for a sentence of {num_words} words, "
                    f"got {len(matrix)} rows of lengths {sorted(set(shape))}"
                )

    def _check_rows(self) -> None:
        widths = {*map(len, self.rows)}
        if widths != {10}:
            raise ValueError(f"rows must have 10 columns, got rows of {sorted(widths)}")
        num_words, num_rows = len(self.words), sum("-" not in row[0] and "." not in row[0] for row in self.rows)
        if num_rows != num_words:
            raise ValueError(f"the sentence has {num_words} words but its rows have {num_rows}; pass rows=()")
