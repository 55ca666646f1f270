"""Strings to ids and back: words, and the labels of tree nodes. Saved with every model, so it is plain JSON."""

import json
import operator
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from pathlib import Path
from typing import SupportsIndex

from structattn.data.example import Example, list_sentences
from structattn.errors import ParseError, shown
from structattn.files.text import is_unicode, parse_json, read_text
from structattn.syntax.sentence import Sentence

PADDING_ID = 0
UNKNOWN_ID = 1
_SPECIAL = ("<pad>", "<unk>")


@dataclass(frozen=True)
class Counts:
    """How often each word and each label of a tree occurs in some data."""

    words: Counter[str] = field(default_factory=Counter)
    labels: Counter[str] = field(default_factory=Counter)


class Vocabulary:
    """Ids of words: 0 is padding, 1 is unknown, then the trainable words by frequency, then the frozen words.

    Frozen words are words the training data lacks but for which a pretrained vector is known: their vectors are used
    and never trained (Shen et al., DiSAN, experimental set-up).

    Args:
        words: the trainable words, in the order of their ids (from 2 on).
        frozen_words: words whose vectors are not trained; they get the last ids.
        labels: labels of tree nodes (phrases, tags, arcs); label id 0 means no or an unknown label.
        lowercase: whether words are lower-cased before they are looked up.

    Raises:
        ValueError: if a word or label occurs twice or cannot be encoded (it contains half of a surrogate pair), or if a
            word is not lower-cased although ``lowercase`` is set.

    Example:
        >>> vocabulary = Vocabulary(["the", "dog"], ["cat"])
        >>> vocabulary.encode(["The", "cat", "sleeps"]), vocabulary["dog"], len(vocabulary)
        ([2, 4, 1], 3, 5)
        >>> Vocabulary.from_json(vocabulary.to_json()) == vocabulary
        True
    """

    def __init__(
        self,
        words: Iterable[str],
        frozen_words: Iterable[str] = (),
        *,
        labels: Iterable[str] = (),
        lowercase: bool = True,
    ) -> None:
        trainable, frozen = tuple(words), tuple(frozen_words)
        self.words: tuple[str, ...] = (*_SPECIAL, *trainable, *frozen)
        self.num_frozen = len(frozen)
        self.labels: tuple[str, ...] = tuple(labels)
        self.lowercase = lowercase
        # The names of the two special ids are not words: a text may well contain "<unk>".
        self._ids = _number((*trainable, *frozen), "word", start=len(_SPECIAL))
        self._label_ids = _number(self.labels, "label", start=1)
        if lowercase:
            for word in self._ids:
                if word != word.lower():
                    raise ValueError(f"Vocabulary with lowercase=True expects lower-cased words, got {word!r}")

    @classmethod
    def from_examples(
        cls,
        examples: Iterable[Example | Sentence | str],
        min_count: int = 1,
        *,
        lowercase: bool = True,
        frozen_words: Iterable[str] = (),
    ) -> "Vocabulary":
        """Count the words (and tree labels) of examples, sentences or texts; the options are those of ``from_counts``.

        Raises:
            ValueError: if ``min_count`` is below 1.
        """
        counts = Counts()
        for item in examples:
            for sentence in list_sentences(item):
                counts.words.update(sentence.words)
                counts.labels.update(_list_labels(sentence))
        return cls.from_counts(counts, min_count, lowercase=lowercase, frozen_words=frozen_words)

    @classmethod
    def from_counts(
        cls, counts: Counts, min_count: int = 1, *, lowercase: bool = True, frozen_words: Iterable[str] = ()
    ) -> "Vocabulary":
        """The vocabulary of data whose words and tree labels have been counted.

        Args:
            counts: how often they occur.
            min_count: words that occur less often are left out, and so become unknown.
            lowercase: whether ``The`` and ``the`` are one word.
            frozen_words: further words, for example those of the development data that have a pretrained vector;
                words that are trainable already are skipped.

        Raises:
            ValueError: if ``min_count`` is below 1.
        """
        if min_count < 1:
            raise ValueError(f"Vocabulary expects min_count of at least 1, got {min_count}")
        words: Counter[str] = Counter()
        for word, count in counts.words.items():
            words[word.lower() if lowercase else word] += count
        frequent = [word for word in sort_by_frequency(words) if words[word] >= min_count]
        trainable = set(frequent)
        frozen = dict.fromkeys(word.lower() if lowercase else word for word in frozen_words)
        return cls(
            frequent,
            [word for word in frozen if word not in trainable],
            labels=sort_by_frequency(counts.labels),
            lowercase=lowercase,
        )

    def extended(self, vocabulary: "Vocabulary") -> "Vocabulary":
        """This vocabulary with the words and labels of another one, which come after its own of each kind.

        Args:
            vocabulary: with the same ``lowercase``.

        Example:
            >>> Vocabulary(["dog"], ["cat"]).extended(Vocabulary(["the", "dog", "cat"])).words
            ('<pad>', '<unk>', 'dog', 'the', 'cat')
        """
        old, new = (
            (words[len(_SPECIAL) : len(words) - count], words[len(words) - count :])
            for words, count in ((each.words, each.num_frozen) for each in (self, vocabulary))
        )
        present = set(self._ids)
        trained = [word for word in new[0] if word not in present]
        frozen = [word for word in new[1] if word not in present]
        labels = dict.fromkeys((*self.labels, *vocabulary.labels))
        return Vocabulary((*old[0], *trained), (*old[1], *frozen), labels=labels, lowercase=self.lowercase)

    def encode(self, words: Sequence[str]) -> list[int]:
        """The ids of words, as they are spelled in a text; unknown words get id 1.

        Raises:
            TypeError: for one string instead of a list of words.
        """
        if isinstance(words, str):
            raise TypeError(f"Vocabulary.encode expects a list of words, got one string {shown(words)}")
        spelled = map(str.lower, words) if self.lowercase else words
        return [*map(self._ids.get, spelled, repeat(UNKNOWN_ID))]

    def decode(self, ids: Iterable[SupportsIndex]) -> list[str]:
        """The words of ids; padding is left out, and unknown words are ``<unk>``.

        Args:
            ids: whole numbers, or a tensor of them.

        Raises:
            ValueError: for a number that is not an id.

        Example:
            >>> vocabulary = Vocabulary(["the", "dog"])
            >>> vocabulary.decode(vocabulary.encode(["The", "dog", "sleeps"]) + [0])
            ['the', 'dog', '<unk>']
        """
        numbers = [operator.index(number) for number in ids]
        for number in numbers:
            if not 0 <= number < len(self.words):
                raise ValueError(f"Vocabulary expects ids from 0 to {len(self.words) - 1}, got {number}")
        return [self.words[number] for number in numbers if number != PADDING_ID]

    def encode_labels(self, labels: Iterable[str | None]) -> list[int]:
        """The ids of tree labels, of phrases, words or arcs; ``None`` and unknown labels get id 0."""
        return [0 if label is None else self._label_ids.get(label, 0) for label in labels]

    def to_json(self) -> str:
        """Everything needed to rebuild the vocabulary, as JSON text."""
        boundary = len(self.words) - self.num_frozen
        content = {
            "words": self.words[len(_SPECIAL) : boundary],
            "frozen_words": self.words[boundary:],
            "labels": self.labels,
            "lowercase": self.lowercase,
        }
        return json.dumps(content, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> "Vocabulary":
        """Rebuild what ``to_json`` wrote.

        Raises:
            ValueError: if the text is not such JSON.
        """
        try:
            content = parse_json(text)
            words, frozen, labels = (list(map(str, content[key])) for key in ("words", "frozen_words", "labels"))
            lowercase = bool(content["lowercase"])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"Vocabulary expects the JSON that to_json wrote, got {shown(text, width=40)} "
                f"({type(error).__name__}: {error})"
            ) from None
        return cls(words, frozen, labels=labels, lowercase=lowercase)

    @classmethod
    def from_file(cls, file: Path) -> "Vocabulary":
        """Read a file that contains the JSON of ``to_json``.

        Raises:
            ParseError: if it is missing or damaged.
        """
        text = read_text(file)
        try:
            return cls.from_json(text)
        except ValueError as error:
            raise ParseError(str(error), file=file) from None

    def __getitem__(self, word: str) -> int:
        return self._ids.get(word.lower() if self.lowercase else word, UNKNOWN_ID)

    def __contains__(self, word: object) -> bool:
        return isinstance(word, str) and self[word] != UNKNOWN_ID

    def __len__(self) -> int:
        return len(self.words)

    def __eq__(self, vocabulary: object) -> bool:
        return isinstance(vocabulary, Vocabulary) and self._key() == vocabulary._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} ids, {self.num_frozen} of them frozen, {len(self.labels)} labels)"

    def _key(self) -> tuple[object, ...]:
        return (self.words, self.num_frozen, self.labels, self.lowercase)


def _number(names: Sequence[str], kind: str, *, start: int) -> dict[str, int]:
    ids: dict[str, int] = {}
    for name in names:
        if name in ids:
            raise ValueError(f"Vocabulary expects every {kind} once, got {name!r} twice")
        ids[name] = start + len(ids)
    if not is_unicode("\n".join(ids)):
        wrong = next(name for name in ids if not is_unicode(name))
        raise ValueError(f"Vocabulary expects every {kind} to be text, got half of a surrogate pair in {shown(wrong)}")
    return ids


def sort_by_frequency(counts: Counter[str]) -> list[str]:
    """Most frequent first, equally frequent ones alphabetically: the order of the data does not matter."""
    return sorted(counts, key=lambda name: (-counts[name], name))


def _list_labels(sentence: Sentence) -> Iterable[str]:
    if sentence.constituency is not None:
        yield from (label for label, _, _ in sentence.constituency.spans)
        yield from (tag for tag in sentence.constituency.tags if tag is not None)
    if sentence.dependency is not None and sentence.dependency.labels is not None:
        yield from sentence.dependency.labels
