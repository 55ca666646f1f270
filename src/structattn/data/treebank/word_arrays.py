"""Columns of the treebank as NumPy arrays over all words of a batch, without a Python object for each word.

The words of row *i* are at ``offsets[i]`` to ``offsets[i + 1]`` of every array.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from structattn.data.treebank.parquet import BATCH, read_batches
from structattn.data.vocabulary import Vocabulary
from structattn.errors import ParseError, require
from structattn.files.text import Source

_COLUMNS = ("text", "starts", "ends", "heads", "labels", "tags")
_CONTINUES = 0b1000_0000  # how the continuation bytes of UTF-8 begin


@dataclass(frozen=True, eq=False)
class Names:
    """A string for each word, as an index into a list of the different strings; -1 where there is none."""

    codes: np.ndarray
    names: list[str]

    def counts(self, counted: np.ndarray | None = None) -> Counter[str]:
        """How often each string occurs among the words that are counted, all if ``None``."""
        codes = self.codes if counted is None else self.codes[counted]
        counts = np.bincount(codes[codes >= 0], minlength=len(self.names))
        return Counter({name: count for name, count in zip(self.names, counts.tolist(), strict=True) if count})


@dataclass(frozen=True, eq=False)
class SentenceArrays:
    """Words and dependency trees of many sentences, see ``read_arrays``."""

    offsets: np.ndarray
    words: Names
    heads: np.ndarray
    labels: Names
    tags: Names

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> np.ndarray:
        """The number of words of each sentence."""
        return np.diff(self.offsets)

    def word_ids(self, vocabulary: Vocabulary) -> np.ndarray:
        """The id of each word; each different word is looked up once."""
        ids_of_names: np.ndarray = np.asarray(vocabulary.encode(self.words.names), dtype=np.int64)
        ids: np.ndarray = ids_of_names[self.words.codes]
        return ids


def read_arrays(path: Source, *, batch_size: int = BATCH) -> Iterator[SentenceArrays]:
    """Stream words and dependency trees of a Parquet treebank, a row for each sentence of an example.

    Args:
        path: the file, or an open binary stream.
        batch_size: maximum number of sentences of a batch.

    Yields:
        Arrays over all words of a batch: ``offsets`` says where the words of each sentence begin, and how many there
        are in all; ``heads`` are CoNLL ids, 0 for the root and -1 where a sentence has no tree. ``words``, ``labels``
        (relations to the heads) and ``tags`` have ``codes``, indices into their ``names`` (-1 for none), and
        ``counts()``. ``word_ids(vocabulary)`` are the ids of the words.

    Raises:
        ParseError: if the file is missing, truncated or damaged, has another version or lacks a column, or if a word
            is not in its text.
        MissingExtra: if pyarrow is not installed.

    Example:
        >>> import pathlib, tempfile
        >>> from structattn.data import Example, write_examples
        >>> from structattn.syntax import DependencyTree, Sentence
        >>> kids = Sentence(["kids", "wash"], dependency=DependencyTree([2, 0]))
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "a.parquet"
        >>> _ = write_examples(path, [Example(kids), Example(Sentence(["kids"]))])
        >>> (arrays,) = read_arrays(path)
        >>> arrays.offsets.tolist(), arrays.heads.tolist(), arrays.words.counts()
        ([0, 2, 3], [2, 0, -1], Counter({'kids': 2, 'wash': 1}))
        >>> arrays.word_ids(Vocabulary(["wash", "kids"])).tolist()
        [3, 2, 3]
    """
    for batch in read_batches(path, _COLUMNS, batch_size=batch_size):
        yield make_arrays(batch, path)


def make_arrays(batch: Any, file: object = None) -> SentenceArrays:
    """The arrays of a ``pyarrow.RecordBatch`` with the columns of words and trees; errors name the file."""
    columns = {name: batch.column(name) for name in _COLUMNS}
    offsets, starts = _flatten(columns["starts"], file)
    _, ends = _flatten(columns["ends"], file)
    if len(starts) != len(ends):
        raise ParseError(f"expected as many ends of words as starts, got {len(ends)} and {len(starts)}", file=file)
    heads = np.full(len(starts), -1, dtype=np.int32)
    has_head, values = _select_present(columns["heads"], offsets, file)
    heads[has_head] = _to_numbers(values, file)
    return SentenceArrays(
        offsets,
        _extract_words(columns["text"], offsets, starts, ends, file),
        heads,
        _encode_names(columns["labels"], offsets, file),
        _encode_names(columns["tags"], offsets, file),
    )


def _flatten(column: Any, file: object) -> tuple[np.ndarray, np.ndarray]:
    """The offsets of a column of lists, from 0, and their elements."""
    offsets = column.offsets.to_numpy()
    elements = column.values.slice(offsets[0], offsets[-1] - offsets[0])
    return (offsets - offsets[0]).astype(np.int64), _to_numbers(elements, file)


def _to_numbers(values: Any, file: object) -> np.ndarray:
    if values.null_count:
        raise ParseError("expected a number for each start, end and head of a word, got null", file=file)
    numbers: np.ndarray = values.to_numpy()
    return numbers


def _select_present(column: Any, offsets: np.ndarray, file: object) -> tuple[np.ndarray, Any]:
    """Which words have an element in a column of lists, and the elements."""
    bounds = column.offsets.to_numpy()
    has = column.is_valid().to_numpy(zero_copy_only=False)
    sizes = np.where(has, np.diff(offsets), 0)
    if not np.array_equal(sizes, np.diff(bounds)):
        row = int(np.flatnonzero(sizes != np.diff(bounds))[0])
        came = f"{np.diff(bounds)[row]} of {np.diff(offsets)[row]} words"
        raise ParseError(f"expected heads, labels and tags of every word, got {came} in row {row + 1}", file=file)
    return np.repeat(has, np.diff(offsets)), column.values.slice(bounds[0], bounds[-1] - bounds[0])


def _encode_names(column: Any, offsets: np.ndarray, file: object) -> Names:
    has_name, values = _select_present(column, offsets, file)
    codes = np.full(len(has_name), -1, dtype=np.int32)
    coded = values.dictionary_encode()
    codes[has_name] = coded.indices.fill_null(-1).to_numpy()
    return Names(codes, coded.dictionary.to_pylist())


def _extract_words(text: Any, offsets: np.ndarray, starts: np.ndarray, ends: np.ndarray, file: object) -> Names:
    """The words, extracted from all texts at once.

    Words in order do not overlap: without the characters between them, the bytes of a text are those of its words.
    """
    arrow = require("pyarrow", "scale")
    text_offsets, content = _read_bytes(text)
    counts = np.diff(offsets)
    is_ascii = not len(content) or int(content.max()) < _CONTINUES
    # Characters are counted over all texts; in ASCII they are the bytes.
    firsts = content if is_ascii else np.flatnonzero((content & 0b1100_0000) != _CONTINUES)
    begin = text_offsets if is_ascii else np.searchsorted(firsts, text_offsets)
    shift = np.repeat(begin[:-1], counts)
    low, high = starts + shift, ends + shift
    limit = np.repeat(begin[1:], counts)
    follows = np.concatenate([shift[:1], np.maximum(high[:-1], shift[1:])])
    if len(low) and not ((low >= follows) & (high >= low) & (high <= limit)).all():
        word = int(np.flatnonzero((low < follows) | (high < low) | (high > limit))[0])
        row = int(np.searchsorted(offsets, word, side="right"))
        raise ParseError(f"expected words in their order within the text of row {row}, they are not", file=file)
    if not is_ascii:
        firsts = np.append(firsts, len(content))
        low, high = firsts[low], firsts[high]
    # 1 where a word begins, -1 after its end; words without characters have neither.
    inside = np.zeros(len(content) + 1, dtype=np.int8)
    inside[low[high > low]] += 1
    inside[high[high > low]] -= 1
    np.cumsum(inside, out=inside)
    bounds = np.zeros(len(low) + 1, dtype=np.int32)
    np.cumsum(high - low, out=bounds[1:])
    buffers = [None, arrow.py_buffer(bounds), arrow.py_buffer(content[inside[:-1].view(np.bool_)])]
    encoded = arrow.Array.from_buffers(arrow.string(), len(low), buffers).dictionary_encode()
    return Names(encoded.indices.to_numpy(), encoded.dictionary.to_pylist())


def _read_bytes(text: Any) -> tuple[np.ndarray, np.ndarray]:
    """Where each text begins, and the bytes of all of them."""
    _, bounds, content = text.buffers()
    offsets = np.frombuffer(bounds, dtype=np.int32)[text.offset : text.offset + len(text) + 1]
    whole = np.frombuffer(content, dtype=np.uint8) if content is not None else np.zeros(0, dtype=np.uint8)
    return (offsets - offsets[0]).astype(np.int64), whole[offsets[0] : offsets[-1]]
