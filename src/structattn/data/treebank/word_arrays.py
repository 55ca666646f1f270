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
    """A string for each word, as an index into a list of the different strings.

    Attributes:
        codes: index into ``names``; -1 where there is none.
        names: the different strings.
    """

    codes: np.ndarray
    names: list[str]

    def counts(self, counted: np.ndarray | None = None) -> Counter[str]:
        """How often each string occurs.

        Args:
            counted: which words are counted; all if ``None``.

        Example:
            >>> Names(np.array([0, 1, 0, -1]), ["a", "b"]).counts()
            Counter({'a': 2, 'b': 1})
        """
        codes = self.codes if counted is None else self.codes[counted]
        found = np.bincount(codes[codes >= 0], minlength=len(self.names))
        return Counter({name: count for name, count in zip(self.names, found.tolist(), strict=True) if count})


@dataclass(frozen=True, eq=False)
class SentenceArrays:
    """Words and dependency trees of many sentences.

    Attributes:
        offsets: where the words of each sentence begin, and at the end the number of all words.
        words: the words.
        heads: CoNLL ids of the heads, 0 for the root; -1 where the sentence has no tree.
        labels: relations to the heads.
        tags: parts of speech.

    Example:
        >>> import pathlib, tempfile
        >>> from structattn.data import Example
        >>> from structattn.data.treebank.parquet import write_parquet
        >>> from structattn.syntax import DependencyTree, Sentence
        >>> kids = Sentence(["kids", "wash"], dependency=DependencyTree([2, 0]))
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "a.parquet"
        >>> _ = write_parquet(path, [Example(kids), Example(Sentence(["kids"]))])
        >>> (arrays,) = read_arrays(path)
        >>> arrays.offsets.tolist(), arrays.heads.tolist(), arrays.words.counts()
        ([0, 2, 3], [2, 0, -1], Counter({'kids': 2, 'wash': 1}))
        >>> arrays.word_ids(Vocabulary(["wash", "kids"])).tolist()
        [3, 2, 3]
    """

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
        ids: np.ndarray = np.asarray(vocabulary.encode(self.words.names), dtype=np.int64)
        found: np.ndarray = ids[self.words.codes]
        return found


def read_arrays(path: Source, *, batch_size: int = BATCH) -> Iterator[SentenceArrays]:
    """Stream words and dependency trees of a Parquet treebank, a row for each sentence of an example.

    Args:
        path: as for ``read_parquet``.
        batch_size: maximum number of sentences of a batch.

    Raises:
        ParseError: as for ``read_parquet``.
    """
    for batch in read_batches(path, _COLUMNS, batch_size=batch_size):
        yield arrays_of(batch, path)


def arrays_of(batch: Any, file: object = None) -> SentenceArrays:
    """The arrays of a ``pyarrow.RecordBatch`` with the columns of words and trees.

    Args:
        batch: the batch.
        file: for errors.

    Raises:
        ParseError: if a word is not in its text, or the columns differ in length.
    """
    columns = {name: batch.column(name) for name in _COLUMNS}
    offsets, starts = _numbers(columns["starts"])
    _, ends = _numbers(columns["ends"])
    if len(starts) != len(ends):
        raise ParseError(f"expected as many ends of words as starts, got {len(ends)} and {len(starts)}", file=file)
    heads = np.full(len(starts), -1, dtype=np.int32)
    there, values = _present(columns["heads"], offsets, file)
    heads[there] = values.to_numpy()
    return SentenceArrays(
        offsets,
        _words(columns["text"], offsets, starts, ends, file),
        heads,
        _names(columns["labels"], offsets, file),
        _names(columns["tags"], offsets, file),
    )


def _numbers(column: Any) -> tuple[np.ndarray, np.ndarray]:
    """The offsets of a column of lists, from 0, and their elements."""
    offsets = column.offsets.to_numpy()
    return (offsets - offsets[0]).astype(np.int64), column.values.to_numpy()[offsets[0] : offsets[-1]]


def _present(column: Any, offsets: np.ndarray, file: object) -> tuple[np.ndarray, Any]:
    """Which words have an element in a column of lists, and the elements."""
    own = column.offsets.to_numpy()
    has = column.is_valid().to_numpy(zero_copy_only=False)
    sizes = np.where(has, np.diff(offsets), 0)
    if not np.array_equal(sizes, np.diff(own)):
        row = int(np.flatnonzero(sizes != np.diff(own))[0])
        came = f"{np.diff(own)[row]} of {np.diff(offsets)[row]} words"
        raise ParseError(f"expected heads, labels and tags of every word, got {came} in row {row + 1}", file=file)
    return np.repeat(has, np.diff(offsets)), column.values.slice(own[0], own[-1] - own[0])


def _names(column: Any, offsets: np.ndarray, file: object) -> Names:
    there, values = _present(column, offsets, file)
    codes = np.full(len(there), -1, dtype=np.int32)
    coded = values.dictionary_encode()
    codes[there] = coded.indices.fill_null(-1).to_numpy()
    return Names(codes, coded.dictionary.to_pylist())


def _words(text: Any, offsets: np.ndarray, starts: np.ndarray, ends: np.ndarray, file: object) -> Names:
    """The words, extracted from all texts at once.

    Words in order do not overlap: without the characters between them, the bytes of a text are those of its words.
    """
    arrow = require("pyarrow", "scale")
    text_offsets, content = _bytes_of(text)
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


def _bytes_of(text: Any) -> tuple[np.ndarray, np.ndarray]:
    """Where each text begins, and the bytes of all of them."""
    _, bounds, content = text.buffers()
    offsets = np.frombuffer(bounds, dtype=np.int32)[text.offset : text.offset + len(text) + 1]
    whole = np.frombuffer(content, dtype=np.uint8) if content is not None else np.zeros(0, dtype=np.uint8)
    return (offsets - offsets[0]).astype(np.int64), whole[offsets[0] : offsets[-1]]
