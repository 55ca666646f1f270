"""Parsing of many files: one Parquet file of trees for each file of texts, written completely or not at all.

The metadata of a finished shard record what it was made from. There is no separate list of progress that could
disagree: after any interruption, a shard is missing exactly if it has no file.
"""

import collections
import dataclasses
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from structattn.data.example import Example
from structattn.data.readers import read_examples
from structattn.data.treebank.example_rows import Row
from structattn.data.treebank.parquet import open_parquet, write_parquet
from structattn.errors import ConfigError, ParseError, StructAttnError
from structattn.files.item_faults import collecting_faults, raising_faults
from structattn.files.replacing import replace_text
from structattn.files.text import open_bytes, parse_json
from structattn.files.urls import is_remote, remote_files
from structattn.parsing.parse_texts import parse_each
from structattn.parsing.parsers import Parser
from structattn.parsing.text_files import TABLES, read_texts, resolve_format
from structattn.syntax import Sentence

_KEY = "structattn_parse"
_MOST_FAULTS = 100
_EXAMPLES_LOST = (*TABLES, "conllu", "text", "words")


@dataclasses.dataclass(frozen=True)
class ParseSettings:
    """The settings that determine the trees of a shard, apart from its texts."""

    parser: str
    #: The parser's own name and version, as in the metadata of every sentence.
    version: str
    #: Format of the texts; recognised from each file's name if ``None``.
    format: str | None = None
    columns: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    whole: bool = False
    #: Number of texts parsed at a time; rounding depends on it.
    batch_size: int = 2048
    #: Whether one text that cannot be read or parsed ends its shard.
    strict: bool = dataclasses.field(default=False, compare=False)


@dataclasses.dataclass(frozen=True)
class ShardRecord:
    """The record of a finished shard, kept in its metadata: where it comes from, and its size."""

    source: str
    source_sha256: str
    settings: ParseSettings
    sentences: int
    words: int
    #: Checksum of all rows in order, which does not depend on the bytes of the file.
    rows_sha256: str
    #: How many texts are left out, as they could not be read or parsed, and what is wrong with the first of them.
    refused: int = 0
    faults: Sequence[str] = ()

    def to_json(self) -> str:
        """As JSON text."""
        return json.dumps(dataclasses.asdict(self), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> "ShardRecord":
        """The inverse of ``to_json``; a ``ValueError`` for any other text."""
        try:
            values = parse_json(text)
            return cls(**{**values, "settings": ParseSettings(**values["settings"])})
        except (TypeError, KeyError) as error:
            raise ValueError(f"expected the record of a shard, got {error}") from None


def parse_shard(source: str, target: str, parser: Parser, settings: ParseSettings) -> ShardRecord:
    """Parse a file of any format of ``structattn parse`` into a Parquet treebank, written completely or not at all."""
    checksum = compute_sha256(source)
    digest, count = hashlib.sha256(), collections.Counter[str]()

    def note(row: Row) -> None:
        values = {**row, "text_hash": row["text_hash"].hex()}
        digest.update(json.dumps(values, ensure_ascii=False).encode() + b"\n")
        count.update(sentences=1, words=len(row["starts"]))

    with raising_faults() if settings.strict else collecting_faults() as faults:

        def about() -> dict[str, str]:
            if compute_sha256(source) != checksum:
                raise ParseError("expected a file that does not change while it is read", file=source)
            if faults and not count["sentences"]:
                raise faults[0]
            values: dict[str, Any] = {"sentences": count["sentences"], "words": count["words"]}
            named = [str(fault if getattr(fault, "file", None) else f"{source}: {fault}") for fault in faults or ()]
            values |= {"refused": len(named), "faults": named[:_MOST_FAULTS]}
            record = ShardRecord(source, checksum, settings, **values, rows_sha256=digest.hexdigest())
            return {_KEY: record.to_json()}

        write_parquet(target, _parse_examples(source, parser, settings), note=note, about=about)
    return read_record(target)


def read_record(path: str) -> ShardRecord:
    """Read the record of a finished shard."""
    with open_parquet(path, ()) as file:
        metadata = file.metadata.metadata or {}
    try:
        return ShardRecord.from_json(metadata.get(_KEY.encode(), b"null"))
    except ValueError:
        raise ParseError("expected a shard that structattn parse wrote", file=path) from None


def name_targets(sources: Sequence[str], folder: str) -> dict[str, str]:
    """The file of trees in a folder for each file of texts, such as ``trees/a.parquet`` for ``texts/a.txt.gz``."""
    targets: dict[str, str] = {}
    sources_by_name: dict[str, str] = {}
    for source in sources:
        name = PurePath(source.removesuffix(".gz")).stem
        if name in sources_by_name:
            raise ConfigError(f"expected files of different names, got {sources_by_name[name]} and {source}")
        sources_by_name[name] = source
        targets[source] = f"{folder.rstrip('/')}/{name}.parquet"
    return targets


def find_missing_shards(
    targets: Mapping[str, str], settings: ParseSettings
) -> tuple[dict[str, str], list[ShardRecord]]:
    """The shards that are missing, and the records of those that are finished, which must have the same settings."""
    missing, done = {}, []
    for source, target in targets.items():
        if not _exists(target):
            missing[source] = target
            continue
        record = read_record(target)
        if record.settings != settings:
            old, new = dataclasses.asdict(record.settings), dataclasses.asdict(settings)
            names = [field.name for field in dataclasses.fields(settings) if field.compare]
            changed = [f"{name} {old[name]!r}, now {new[name]!r}" for name in names if old[name] != new[name]]
            raise ConfigError(f"{target} was parsed with other settings: {'; '.join(changed)}; choose another folder")
        if record.source_sha256 != compute_sha256(source):
            raise ConfigError(
                f"{target} was parsed from {record.source}, and {source} is different: remove one of them"
            )
        if settings.strict and record.refused:
            raise StructAttnError(f"{target} was parsed without {record.refused} of its texts: {record.faults[0]}")
        done.append(record)
    return missing, done


def compute_sha256(path: str) -> str:
    """The checksum of a file's bytes, decompressed if it is gzipped."""
    digest = hashlib.sha256()
    with open_bytes(path) as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def write_manifest(folder: str, targets: Mapping[str, str], records: Sequence[ShardRecord]) -> None:
    """``manifest.jsonl``: one line for each finished shard, by name, with its counts and checksums."""
    with replace_text(f"{folder.rstrip('/')}/manifest.jsonl") as stream:
        for record in sorted(records, key=lambda record: targets[record.source]):
            values = {"file": PurePath(targets[record.source]).name, **dataclasses.asdict(record)}
            stream.write(json.dumps(values, ensure_ascii=False) + "\n")


def _exists(path: str) -> bool:
    if not is_remote(path):
        return os.path.exists(path)
    with remote_files(path) as (files, name):
        return bool(files.exists(name))


def _parse_examples(source: str, parser: Parser, settings: ParseSettings) -> Iterator[Example]:
    """The examples of a file with trees; in formats without examples, each sentence becomes one."""
    format = resolve_format(source, settings.format, settings.columns)
    options: dict[str, Any] = {"batch_size": settings.batch_size, "whole": settings.whole, "progress": False}
    if format in _EXAMPLES_LOST:
        for _, sentences in parse_each(read_texts(source, format, settings.columns), parser, **options):
            for sentence in sentences:
                yield Example(sentence, sentence.metadata.get("label"), id=sentence.metadata.get("sent_id", ""))
        return
    waiting: collections.deque[tuple[Example, Sentence]] = collections.deque()

    def parts() -> Iterator[Sentence]:
        for example in read_examples(source, format):
            waiting.extend((example, sentence) for sentence in example.sentences)
            yield from example.sentences

    parsed: list[tuple[Example, Sentence]] = []
    for text, (sentence,) in parse_each(parts(), parser, **options):
        while waiting[0][1] is not text:  # which was refused
            waiting.popleft()
        example, _ = waiting.popleft()
        parsed = [*(pair for pair in parsed if pair[0] is example), (example, sentence)]
        if len(parsed) == len(example.sentences):
            yield dataclasses.replace(example, sentences=tuple(part for _, part in parsed))
