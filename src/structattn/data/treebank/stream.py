"""Examples of Parquet files that stay on disk: counted in one pass, and read by row groups as batches need them.

Only a few bytes for each example (its length and its row) and the columns of a few row groups are in memory.
"""

import collections
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from structattn.data.example import Example
from structattn.data.treebank.example_rows import examples_of_rows
from structattn.data.treebank.parquet import checked, described, opened, rows_of_batch
from structattn.data.treebank.word_arrays import SentenceArrays, arrays_of
from structattn.data.vocabulary import Counts
from structattn.errors import ParseError, require

# What a model may learn from; the other columns of CoNLL-U are not read.
_COLUMNS = [
    *("id", "part", "text", "starts", "ends", "heads", "labels", "tags", "spans", "phrase_tags", "phrase_words"),
    *("relations", "metadata", "answer", "score", "weight", "parser", "parser_version"),
]


@dataclass(frozen=True)
class RowGroup:
    """A row group of a file, which is read at once.

    Attributes:
        file: the file.
        number: the number of the group within it.
        first: for each example, the row of its first sentence.
        sizes: for each example, its number of sentences, which are in successive rows.
    """

    file: str
    number: int
    first: np.ndarray
    sizes: np.ndarray

    def __len__(self) -> int:
        return len(self.first)

    def table(self) -> Any:
        """The columns, as a ``pyarrow.RecordBatch``."""
        with opened(self.file, _COLUMNS) as parquet:
            return _batch(parquet, self.number, self.file)


class StreamedExamples(Sequence[Example]):
    """The examples of Parquet treebanks as a sequence that is not in memory.

    Args:
        files: the files, in the order of the examples.
        prepare: applied to examples when they are read, for example to rename labels; must keep their number.
        dropped: classes whose examples are left out.
        max_length: maximum number of words of a sentence; the rest are not counted.
        cached: row groups with this many examples in total are kept in memory; at least one group.

    Attributes:
        groups: the row groups, without those that have no examples.
        ends: for each group the number of examples up to its end.
        lengths: number of words of each example, both sentences of a pair together.
        counts: how often each word and each label of a tree occurs.
        first_of_each: for each class, and for examples without one, the number of the first example.

    Raises:
        ParseError: for a file that is damaged or not a treebank, without any example, or with a pair across two row
            groups.

    Example:
        >>> import pathlib, tempfile
        >>> from structattn.data.treebank.parquet import write_parquet
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "a.parquet"
        >>> _ = write_parquet(path, [Example("so fine", "good"), Example("dull", "bad")], group_size=1)
        >>> examples = StreamedExamples([str(path)])
        >>> len(examples), examples[1].label, examples.lengths.tolist(), examples.counts.words["fine"]
        (2, 'bad', [2, 1], 1)
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
        self.first_of_each: dict[str | None, int] = {}
        self._cached = cached
        self._size = 0
        self._tables: collections.OrderedDict[int, Any] = collections.OrderedDict()
        lengths: list[np.ndarray] = []
        for file in files:
            with opened(file, _COLUMNS) as parquet:
                for number in range(parquet.num_row_groups):
                    lengths.append(self._count(_batch(parquet, number, file), file, number, dropped))
        self.lengths = np.concatenate([np.zeros(0, dtype=np.int32), *lengths])
        self.ends = np.cumsum([0, *map(len, self.groups)])[1:]
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
        wanted = np.asarray(indices)
        places = np.unique(wanted)
        of_group = np.searchsorted(self.ends, places, side="right")
        found: dict[int, Example] = {}
        for number in np.unique(of_group).tolist():
            group, own = self.groups[number], places[of_group == number]
            inner = own - (self.ends[number] - len(group))
            rows = np.repeat(group.first[inner], group.sizes[inner])
            # The second sentence of a pair follows the first.
            rows[1:] += rows[1:] == rows[:-1]
            examples = self.prepare(examples_of_rows(rows_of_batch(self._table(number).take(rows)), group.file))
            found.update(zip(own.tolist(), examples, strict=True))
        return [found[index] for index in wanted.tolist()]

    def one_of_each(self) -> list[Example]:
        """The first example of each class, and the first one without a class if there is one."""
        return self.read(sorted(self.first_of_each.values()))

    def __getstate__(self) -> Mapping[str, Any]:
        return {**self.__dict__, "_tables": collections.OrderedDict()}

    def _table(self, number: int) -> Any:
        if number not in self._tables:
            self._tables[number] = self.groups[number].table()
            while len(self._tables) > 1 and sum(len(self.groups[one]) for one in self._tables) > self._cached:
                self._tables.popitem(last=False)
        self._tables.move_to_end(number)
        return self._tables[number]

    def _count(self, batch: Any, file: str, number: int, dropped: Collection[str]) -> np.ndarray:
        """Add a row group to the counts, and return the lengths of its examples."""
        parts = batch.column("part").to_numpy()
        first = np.flatnonzero(parts == 0)
        sizes = np.diff(np.append(first, len(parts)))
        if len(parts) and (parts[0] or sizes.max() > 2):
            raise ParseError(f"row group {number}: expected both sentences of a pair, in their order", file=file)
        answers = batch.column("answer").take(first).to_pylist()
        kept = np.array([answer not in dropped for answer in answers], dtype=bool)
        if not kept.all():
            mask = np.repeat(kept, sizes)
            own, batch = first, batch.filter(mask)
            answers = [answer for answer, keep in zip(answers, kept, strict=True) if keep]
            first, sizes = own[kept], sizes[kept]
        start = len(self)
        for place, answer in enumerate(answers):
            self.first_of_each.setdefault(answer, start + place)
        arrays = arrays_of(batch, file)
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
        spans, own = batch.column("spans"), batch.column("phrase_tags")
        compute = require("pyarrow.compute", "scale")
        usual = batch.column("tags").filter(compute.and_(spans.is_valid(), own.is_null()))
        for names in (compute.struct_field(spans.flatten(), "label"), own.flatten(), usual.flatten()):
            pairs = names.drop_null().value_counts()
            self.counts.labels.update(dict(zip(pairs.field(0).to_pylist(), pairs.field(1).to_pylist(), strict=True)))


def _batch(parquet: Any, number: int, file: str) -> Any:
    """A row group, which is small enough for one batch."""
    with described(file):
        table = parquet.read_row_group(number, columns=_COLUMNS).combine_chunks()
    first = sum(parquet.metadata.row_group(before).num_rows for before in range(number))
    batches = table.to_batches() or [require("pyarrow", "scale").RecordBatch.from_pylist([], table.schema)]
    return checked(batches[0], file, first=first)
