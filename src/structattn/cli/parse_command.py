"""``structattn parse``: raw text, documents or sentences to CoNLL-U with trees."""

import glob
import itertools
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any, Literal

from structattn.cli.command_inputs import answering_others, check_all_answered, check_at_least, resolve_source
from structattn.data.readers.formats import match_files
from structattn.data.treebank.writing import WRITERS
from structattn.errors import ConfigError, ParseError
from structattn.files.item_faults import collecting_faults
from structattn.files.replacing import remove_abandoned
from structattn.files.text import check_apart, is_pipe
from structattn.options.hardware import Hardware
from structattn.parsing.parse_texts import add_phrases, parse_each
from structattn.parsing.parsers import DEFAULT_PARSER, Text, check_parser
from structattn.parsing.sharded_parsing import parse_shards
from structattn.parsing.text_files import read_texts, resolve_format
from structattn.syntax import Sentence, format_conllu, write_brackets, write_conllu


def command(
    file: str,
    *,
    parser: str = DEFAULT_PARSER,
    out: str | None = None,
    format: str | None = None,
    text_column: int | str | None = None,
    label_column: int | str | None = None,
    id_column: int | str | None = None,
    skip: int = 0,
    limit: int | None = None,
    whole: bool = False,
    brackets: str | None = None,
    cache: str | None = None,
    engine: Literal["local", "ray"] = "local",
    num_workers: int = 1,
    address: str | None = None,
    batch_size: int = 2048,
    strict: bool = False,
    hardware: Hardware,
) -> Iterator[str]:
    """Parse texts into dependency trees and write them as CoNLL-U, or as Parquet for many files.

    The files that match a pattern are parsed into a folder: a Parquet treebank for each file, and manifest.jsonl with
    counts and checksums. Repeating the command parses only the files that are missing.

    Args:
        file: the file to parse; - reads stdin; the files of a pattern in quotes, such as "texts/*.jsonl", are parsed
            into the folder --out. s3:// and hf:// need the extra scale and their own packages.
        parser: en, the English parser of this package, or en:rules, which splits texts by rules; spacy:MODEL,
            stanza:LANGUAGE, structattn:FOLDER, or a file of trees: FILE.conllu, FILE.mrg.
        out: where to write; stdout by default. For a pattern, a folder.
        format: text is one text per line, words is one sentence per line with spaces between its words, conllu keeps
            the words and comments of a treebank; csv, tsv and json are tables of documents with their labels; any other
            is a data format of labelled sentences, such as agreement or parquet. By default, the one that the file's
            name ends in, or text.
        text_column: for tables and JSON: the column (or key) of texts; one of the usual names by default.
        label_column: for tables and JSON: the column of labels; one of the usual names by default.
        id_column: for tables and JSON: the column of ids; one of the usual names by default.
        skip: number of texts to skip, from the start.
        limit: maximum number of texts to parse, after those skipped.
        whole: treat each line of text as one sentence, with a root for each sentence in it.
        brackets: a file for the phrase trees derived from the dependencies.
        cache: a file that keeps parses; by default one beside --out, removed when --out is complete.
        engine: for a pattern: local for processes on this machine, ray for Ray Data.
        num_workers: number of processes, or of Ray actors; the result does not depend on it.
        address: address of a Ray cluster, HOST:PORT or ray://HOST:PORT, or auto to find one; by default Ray runs on
            this machine only.
        batch_size: number of texts that are parsed, and written to the cache, at a time.
        strict: stop at the first text that cannot be read or parsed; by default the others of a file are parsed, and
            the exit code is 2.
        hardware: where en or structattn:FOLDER runs, and the precision.
    """
    check_at_least(0, skip=skip)
    check_at_least(1, limit=limit, batch_size=batch_size, num_workers=num_workers)
    columns = {"text_column": text_column, "label_column": label_column, "id_column": id_column}
    settings: dict[str, Any] = {
        "num_workers": num_workers,
        "batch_size": batch_size,
        "whole": whole,
        "hardware": hardware,
    }
    if glob.has_magic(file) and not os.path.exists(file):
        single = {"skip": skip, "limit": limit, "brackets": brackets, "cache": cache}
        for name, value in single.items():
            if value:
                raise ConfigError(f"--{name} {value} needs a single file, got the pattern {file!r}")
        settings |= {"format": format, "columns": columns, "engine": engine, "address": address}
        yield from _parse_pattern(file, out, parser, strict=strict, **settings)
        return
    if engine != "local" or address is not None:
        raise ConfigError(f'--engine, --address: expected a pattern of files, such as "texts/*.jsonl", got {file!r}')
    check_apart(file, out, brackets, cache)
    _check_name("--out", out, "CoNLL-U", ".conllu")
    _check_name("--brackets", brackets, "brackets", ".mrg", ".brackets")
    check_parser(parser, hardware)

    def texts() -> Iterator[Text | ParseError]:
        return itertools.islice(_texts(file, format, columns), skip, None if limit is None else skip + limit)

    beside_out = None if out is None else Path(f"{out}.cache")
    # Reading a file takes little time beside parsing it; a pipe cannot be read twice.
    with collecting_faults():
        total = None if file == "-" or is_pipe(file) else sum(1 for _ in texts())
    parsed = parse_each(texts(), parser, cache or beside_out, total=total, **settings)
    sentences: Iterable[Sentence] = (sentence for _, text in parsed for sentence in text)
    with answering_others(strict, "parsed"):
        if brackets is not None:
            sentences = _write_brackets(brackets, sentences)
        if out is None:
            for sentence in sentences:
                yield from format_conllu(sentence).removesuffix("\n").split("\n")
            return
        count = Counter[str]()
        write_conllu(out, _count(sentences, count))
        if cache is None and beside_out is not None:
            beside_out.unlink(missing_ok=True)
        for written in (out, brackets):
            if written is not None:
                remove_abandoned(written)
        yield f"{out}  {count['sentences']} sentences, {count['words']} words"


def _check_name(option: str, path: str | None, written: str, *endings: str) -> None:
    """Refuse a name with the ending of a format that is not what is written."""
    ending = PurePath((path or "").removesuffix(".gz")).suffix
    if path is not None and ending in WRITERS and ending not in endings:
        name = f"{path.removesuffix('.gz').removesuffix(ending)}{endings[0]}"
        raise ConfigError(
            f"{option} {path}: parse writes {written} there: expected a name such as {name}; then structattn convert "
            f"{name} {path}"
        )


def _write_brackets(path: str, sentences: Iterable[Sentence]) -> list[Sentence]:
    """Write the phrase trees of sentences to a file of brackets; return the sentences with them."""
    result = [add_phrases(sentence) for sentence in sentences]
    write_brackets(path, (part.constituency for part in result if part.constituency is not None and len(part)))
    return result


def _parse_pattern(pattern: str, folder: str | None, parser: str, **settings: Any) -> Iterator[str]:
    """Parse the files of a pattern into a folder; yield a line for each."""
    if folder is None:
        raise ConfigError("--out: expected a folder for the files of a pattern")
    refused, faults = 0, list[str]()
    for shard in parse_shards(match_files(pattern), folder, parser, **settings):
        yield f"{shard.source}  {shard.sentences:,} sentences, {shard.words:,} words"
        refused += shard.refused
        faults += shard.faults
    check_all_answered(refused, faults, "parsed")


def _texts(file: str, format: str | None, columns: Mapping[str, Any]) -> Iterator[Text | ParseError]:
    source = resolve_source(file)
    yield from read_texts(source, resolve_format(source, format, columns), columns)


def _count(sentences: Iterable[Sentence], count: Counter[str]) -> Iterator[Sentence]:
    for sentence in sentences:
        count.update(sentences=1, words=len(sentence))
        yield sentence
