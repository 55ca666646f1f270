"""``structattn parse``: raw text, documents or sentences to CoNLL-U with trees."""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from structattn.cli.inputs import opened
from structattn.layers.devices import Hardware
from structattn.parsing import documents_of, parse_each, sentences_of_examples, with_phrases
from structattn.parsing.names import DEFAULT_PARSER, check_parser
from structattn.parsing.run import Text
from structattn.syntax import Sentence, format_conllu, read_conllu, read_lines, write_brackets, write_conllu
from structattn.syntax.errors import ConfigError
from structattn.syntax.files import Source, is_pipe

_ENDINGS = {".conllu": "conllu", ".jsonl": "json", ".json": "json", ".csv": "csv", ".tsv": "tsv"}


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
    processes: int = 1,
    batch_size: int = 256,
    hardware: Hardware,
) -> Iterator[str]:
    """Find the dependency trees of texts and write them as CoNLL-U.

    Args:
        file: what to parse; - reads stdin.
        parser: en, the English parser of this package; spacy:MODEL, stanza:LANGUAGE, structattn:FOLDER, or a file of
            trees: FILE.conllu, FILE.mrg.
        out: where to write; stdout by default.
        format: text is one text a line, words is one sentence a line with spaces between its words, conllu keeps the
            words and comments of a treebank; csv, tsv and json are tables of documents with their labels; any other is
            a data format of labelled sentences, such as agreement. By default what the file's name ends in, or text.
        text_column: for tables and JSON: the column (or key) of texts; one of the usual names by default.
        label_column: the column of labels, likewise.
        id_column: the column of ids, likewise.
        skip: number of texts to skip, from the start.
        limit: maximum number of texts to parse.
        whole: make one sentence of each line of text, with a root for each sentence in it.
        brackets: a file for the phrase trees that follow from the dependencies.
        cache: a file that keeps parses; by default one beside --out, removed when --out is complete.
        processes: number of processes; the result does not depend on it.
        batch_size: texts that are parsed, and kept in the cache, at a time.
        hardware: where en or structattn:FOLDER runs, and in which numbers.
    """
    if skip < 0 or (limit is not None and limit < 1):
        raise ConfigError(f"expected to skip at least 0 texts and to parse at least 1, got {skip} and {limit}")
    check_parser(parser, hardware)
    kept = None if out is None else Path(f"{out}.cache")
    columns = {"text_column": text_column, "label_column": label_column, "id_column": id_column}
    end = None if limit is None else skip + limit
    # Reading a file is a small part of parsing it; what comes from a pipe cannot be read twice.
    once = file == "-" or is_pipe(file)
    found = parse_each(
        itertools.islice(_texts(file, format, columns), skip, end),
        parser,
        cache or kept,
        processes=processes,
        batch_size=batch_size,
        whole=whole,
        total=None if once else sum(1 for _ in itertools.islice(_texts(file, format, columns), skip, end)),
        hardware=hardware,
    )
    sentences: Iterable[Sentence] = (sentence for text in found for sentence in text)
    if brackets is not None:
        known = [with_phrases(sentence) for sentence in sentences]
        write_brackets(brackets, (one.constituency for one in known if one.constituency is not None and len(one)))
        sentences = known
    if out is None:
        yield from (line for one in sentences for line in format_conllu(one).removesuffix("\n").split("\n"))
        return
    count = Counter[str]()
    write_conllu(out, _counted(sentences, count))
    if cache is None and kept is not None:
        kept.unlink(missing_ok=True)
    yield f"{out}  {count['sentences']} sentences, {count['words']} words"


def _texts(file: str, format: str | None, columns: Mapping[str, Any]) -> Iterator[Text]:
    ending = "" if file == "-" else Path(file.removesuffix(".gz")).suffix
    return _read(opened(file), format or _ENDINGS.get(ending, "text"), columns)


def _read(file: Source, format: str, columns: Mapping[str, Any]) -> Iterator[Text]:
    if format in ("csv", "tsv", "json"):
        yield from documents_of(file, format, **columns)
        return
    given = [f"--{name}" for name, column in columns.items() if column is not None]
    if given:
        raise ConfigError(f"{given[0]}: expected a table or JSON (csv, tsv, json), got the format {format}")
    if format == "conllu":
        yield from read_conllu(file)
    elif format in ("text", "words"):
        yield from (line if format == "text" else line.split() for _, line in read_lines(file))
    else:
        yield from sentences_of_examples(file, format)


def _counted(sentences: Iterable[Sentence], count: Counter[str]) -> Iterator[Sentence]:
    for sentence in sentences:
        count.update(sentences=1, words=len(sentence))
        yield sentence
