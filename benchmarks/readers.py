"""Sentences a second of the processor that the readers of treebanks give, and bytes a word on disk and in memory.

    python -m benchmarks.readers [en_ewt-ud-train.conllu.gz] [--sentences 4096] [--threads 1]

Without a file the sentences are random ones of 20 words. Objects are counted by `tracemalloc`; arrays and columns know
their bytes. `pyarrow` reads the same columns as the arrays and makes nothing of them. conllu, pyconll and datasets read
the same files where they are installed; `make peers` brings the first two.
"""

import argparse
import importlib
import importlib.util
import itertools
import random
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet

import structattn as sa
from benchmarks import markdown, turns
from benchmarks.sentences import random_sentence
from structattn.data.treebank.word_arrays import SentenceArrays, read_arrays
from structattn.data.treebank.writing import write_examples

COLUMNS = ["text", "starts", "ends", "heads", "labels", "tags"]


def examples(file: str | None, number: int) -> list[sa.Example]:
    if file is not None:
        return list(itertools.islice(sa.read_examples(file, "conllu"), number))
    generator = random.Random(0)
    return [sa.Example(random_sentence(generator, 20), id=str(index)) for index in range(number)]


def columns(path: Path) -> Iterator[Any]:
    return iter([pyarrow.parquet.read_table(path, columns=COLUMNS, use_threads=False)])


def by_conllu(path: Path) -> Iterator[Any]:
    with path.open(encoding="utf-8") as stream:
        yield from importlib.import_module("conllu").parse_incr(stream)


def by_pyconll(path: Path) -> Iterator[Any]:
    return iter(importlib.import_module("pyconll").iter_from_file(str(path)))


def by_datasets(path: Path) -> Iterator[Any]:
    load = importlib.import_module("datasets").load_dataset
    return iter(load("parquet", data_files=str(path), split="train", streaming=True))


PEERS: dict[str, tuple[str, Callable[[Path], Iterator[Any]]]] = {
    "conllu": ("a.conllu", by_conllu),
    "pyconll": ("a.conllu", by_pyconll),
    "datasets": ("a.parquet", by_datasets),
}
READERS: dict[str, tuple[str, Callable[[Path], Iterator[Any]]]] = {
    "CoNLL-U to sentences": ("a.conllu", sa.read_conllu),
    "JSON lines to examples": ("a.jsonl", lambda path: sa.read_examples(path, "rows")),
    "Parquet to examples": ("a.parquet", lambda path: sa.read_examples(path, "parquet")),
    "Parquet to arrays": ("a.parquet", read_arrays),
    "Parquet to columns (pyarrow)": ("a.parquet", columns),
    **{
        f"{'CoNLL-U' if file == 'a.conllu' else 'Parquet'} ({peer})": (file, read)
        for peer, (file, read) in PEERS.items()
        if importlib.util.find_spec(peer)
    },
}


def bytes_in_memory(read: Callable[[Path], Iterator[Any]], path: Path) -> int:
    tracemalloc.start()
    items = list(read(path))
    traced, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    if isinstance(items[0], SentenceArrays | pyarrow.Table):
        return sum(map(_bytes, items))
    return traced


def _bytes(batch: Any) -> int:
    if isinstance(batch, pyarrow.Table):
        return int(batch.nbytes)
    columns = (batch.words, batch.labels, batch.tags)
    strings = sum(len(name) + 50 for column in columns for name in column.names)
    return int(batch.offsets.nbytes + batch.heads.nbytes + sum(column.codes.nbytes for column in columns) + strings)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", help="CoNLL-U, gzip or plain")
    parser.add_argument("--sentences", type=int, default=4096)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    pyarrow.set_cpu_count(options.threads)
    treebank = examples(options.file, options.sentences)
    words = sum(len(sentence) for example in treebank for sentence in example.sentences)
    with tempfile.TemporaryDirectory() as folder:
        for name in {name for name, _ in READERS.values()}:
            write_examples(Path(folder) / name, treebank)

        def work(kind: str, turn: int) -> float:
            name, read = READERS[kind]
            start = time.process_time()
            for _ in read(Path(folder) / name):
                pass
            return time.process_time() - start

        taken = turns.medians(list(READERS), work, turns=options.turns)
        print(f"{len(treebank):,} sentences, {words:,} words.\n")
        print(markdown.header(["reader", "sentences/s", "bytes a word on disk", "bytes a word in memory"]))
        for kind, (name, read) in READERS.items():
            path = Path(folder) / name
            sizes = (path.stat().st_size / words, bytes_in_memory(read, path) / words)
            print(markdown.line([kind, f"{len(treebank) / taken[kind]:,.0f}", *(f"{size:,.1f}" for size in sizes)]))


if __name__ == "__main__":
    main()
