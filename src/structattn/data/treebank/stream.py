"""Examples of Parquet files that stay on disk: counted in one pass, and read by row groups as batches need them.

Only a few bytes for each example (its length and its row) and the columns of a few row groups are in memory.
"""

import collections
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from structattn.data.example import Example
from structattn.data.treebank.example_rows import make_examples
from structattn.data.treebank.parquet import batch_to_rows, check_batch, naming_damage, open_parquet
from structattn.data.treebank.word_arrays import SentenceArrays, make_arrays
from structattn.data.vocabulary import Counts
from structattn.errors import ParseError, require

# What a model may learn from; the other columns of CoNLL-U are not read.
_COLUMNS = [
    *("id", "part", "text", "starts", "ends", "heads", "labels", "tags", "spans", "phrase_tags", "phrase_words"),
    *("relations", "metadata", "answer", "score", "weight", "parser", "parser_version"),
]


@dataclass(frozen=True)
class RowGroup:
    """A row group of a file, which is read at once: of each example the first row, and the number of sentences."""

    file: str
    number: int
    first: np.ndarray
    sizes: np.ndarray

    def __len__(self) -> int:
        return len(self.first)

    def table(self) -> Any:
        """The columns, as a ``pyarrow.RecordBatch``."""
        with open_parquet(self.file, _COLUMNS) as parquet:
            return _read_group(parquet, self.number, self.file)


class StreamedExamples(Sequence[Example]):
    """The examples of Parquet treebanks as a sequence that is not in memory, without those of ``dropped`` classes.

    ``prepare`` is applied to examples when they are read; row groups of ``cached`` examples in total stay in memory.
    """

    def __init__(
        self,
        files: Sequence[str],
        prepare: Callable[[Iterable[Example]], Iterable[Example]] = iter,
        *,
        dropped: Collection[str] = (),
        max_length: int | None = None,
        cached: int = 65_536,
    ) -> None:
        self.prepare = prepare
        self.max_length = max_length
        self.groups: list[RowGroup] = []
        self.counts = Counts()
        self.first_of_each: dict[str | None, int] = {}  # for each class, and for none, its first example
        self._cached = cached
        self._size = 0
        self._tables: collections.OrderedDict[int, Any] = collections.OrderedDict()
        lengths: list[np.ndarray] = []
        for file in files:
            with open_parquet(file, _COLUMNS) as parquet:
                for number in range(parquet.num_row_groups):
                    lengths.append(self._count(_read_group(parquet, number, file), file, number, dropped))
        self.lengths = np.concatenate([np.zeros(0, dtype=np.int32), *lengths])  # words of each example
        self.ends = np.cumsum([0, *map(len, self.groups)])[1:]  # examples up to the end of each group
        if not len(self.lengths):
            raise ParseError("expected at least one example, got none", file=files[0])

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, index: int) -> Example: ...

    @overload
    def __getitem__(self, index: slice) -> list[Example]: ...

    def __getitem__(self, index: int | slice) -> Example | list[Example]:
        if isinstance(index, slice):
            return self.read(range(len(self))[index])
        return self.read([range(len(self))[index]])[0]

    def __iter__(self) -> Iterator[Example]:
        for start in range(0, len(self), 256):
            yield from self.read(range(start, min(start + 256, len(self))))

    def read(self, indices: Sequence[int]) -> list[Example]:
        """The examples with these numbers; the columns of their row groups stay in memory for the next ones."""
        requested = np.asarray(indices)
        numbers = np.unique(requested)
        of_group = np.searchsorted(self.ends, numbers, side="right")
        collected: dict[int, Example] = {}
        for number in np.unique(of_group).tolist():
            group, members = self.groups[number], numbers[of_group == number]
            inner = members - (self.ends[number] - len(group))
            rows = np.repeat(group.first[inner], group.sizes[inner])
            # The second sentence of a pair follows the first.
            rows[1:] += rows[1:] == rows[:-1]
            examples = self.prepare(make_examples(batch_to_rows(self._table(number).take(rows)), group.file))
            collected.update(zip(members.tolist(), examples, strict=True))
        return [collected[index] for index in requested.tolist()]

    def one_of_each(self) -> list[Example]:
        """The first example of each class, and the first one without a class if there is one."""
        return self.read(sorted(self.first_of_each.values()))

    def __getstate__(self) -> Mapping[str, Any]:
        return {**self.__dict__, "_tables": collections.OrderedDict()}

    def _table(self, number: int) -> Any:
        if number not in self._tables:
            self._tables[number] = self.groups[number].table()
            while len(self._tables) > 1 and sum(len(self.groups[cached]) for cached in self._tables) > self._cached:
                self._tables.popitem(last=False)
        self._tables.move_to_end(number)
        return self._tables[number]

    def _count(self, batch: Any, file: str, number: int, dropped: Collection[str]) -> np.ndarray:
        """Add a row group to the counts, and return the lengths of its examples."""
        parts = batch.column("part").fill_null(0).to_numpy()
        first = np.flatnonzero(parts == 0)
        sizes = np.diff(np.append(first, len(parts)))
        if len(parts) and (parts[0] or sizes.max() > 2):
            raise ParseError(f"row group {number}: expected both sentences of a pair, in their order", file=file)
        answers = batch.column("answer").take(first).to_pylist()
        is_kept = np.array([answer not in dropped for answer in answers], dtype=bool)
        if not is_kept.all():
            mask = np.repeat(is_kept, sizes)
            all_first, batch = first, batch.filter(mask)
            answers = [answer for answer, keep in zip(answers, is_kept, strict=True) if keep]
            first, sizes = all_first[is_kept], sizes[is_kept]
        start = len(self)
        for index, answer in enumerate(answers):
            self.first_of_each.setdefault(answer, start + index)
        arrays = make_arrays(batch, file)
        lengths = arrays.lengths if self.max_length is None else np.minimum(arrays.lengths, self.max_length)
        self._count_names(batch, arrays, lengths)
        if len(first):
            self.groups.append(RowGroup(file, number, first.astype(np.int32), sizes.astype(np.uint8)))
            self._size += len(first)
        of_example = np.cumsum(sizes) - sizes
        return np.add.reduceat(lengths, of_example).astype(np.int32) if len(first) else np.zeros(0, dtype=np.int32)

    def _count_names(self, batch: Any, arrays: SentenceArrays, lengths: np.ndarray) -> None:
        within = np.arange(len(arrays.heads)) - np.repeat(arrays.offsets[:-1], arrays.lengths)
        counted = within < np.repeat(lengths, arrays.lengths)
        self.counts.words.update(arrays.words.counts(counted))
        self.counts.labels.update(arrays.labels.counts(counted))
        spans, phrase_tags = batch.column("spans"), batch.column("phrase_tags")
        compute = require("pyarrow.compute", "scale")
        usual = batch.column("tags").filter(compute.and_(spans.is_valid(), phrase_tags.is_null()))
        for names in (compute.struct_field(spans.flatten(), "label"), phrase_tags.flatten(), usual.flatten()):
            pairs = names.drop_null().value_counts()
            self.counts.labels.update(dict(zip(pairs.field(0).to_pylist(), pairs.field(1).to_pylist(), strict=True)))


def _read_group(parquet: Any, number: int, file: str) -> Any:
    """A row group, which is small enough for one batch."""
    with naming_damage(file):
        table = parquet.read_row_group(number, columns=_COLUMNS).combine_chunks()
    first = sum(parquet.metadata.row_group(earlier).num_rows for earlier in range(number))
    batches = table.to_batches() or [require("pyarrow", "scale").RecordBatch.from_pylist([], table.schema)]
    return check_batch(batches[0], file, first=first)
