"""Data files as texts to parse: documents with labels, and the single sentences of every format of ``data``.

Raw texts are left for the parser to split.
"""

import dataclasses
import re
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

from structattn.data.readers import FORMATS, read_examples
from structattn.data.readers.delimited_tables import read_table
from structattn.data.readers.fields import Column, Columns, Record
from structattn.data.readers.json_records import read_json_records
from structattn.errors import ConfigError, ParseError, source_name
from structattn.files.item_faults import answer_each
from structattn.files.text import Source, check_lines, read_lines
from structattn.options.checking import suggest
from structattn.parsing.parsers import Document, Text
from structattn.syntax import Sentence
from structattn.syntax.conllu import Block, read_blocks

TABLES = ("csv", "tsv", "json")
"""The formats whose rows are documents."""
_ENDINGS = {
    ".conllu": "conllu",
    ".conllup": "conllu",
    ".jsonl": "json",
    ".json": "json",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
}
_PLAIN = ("text", "words")

# The metadata that ``parse`` itself adds to every sentence.
_TAKEN = ("sent_id", "text", "parser", "newdoc id")
_LINE_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)


def resolve_format(file: Source, format: str | None, columns: Mapping[str, Any]) -> str:
    """The format of a file of texts: ``format``, or else the one that its name ends in, or else ``text``.

    Only tables and JSON have columns.
    """
    ending = PurePath(source_name(file).removesuffix(".gz")).suffix
    resolved = format or _ENDINGS.get(ending, "text")
    formats = (*_PLAIN, *FORMATS)
    if resolved not in formats:
        raise ConfigError(f"unknown data format {resolved!r}{suggest(resolved, formats)}; known: {', '.join(formats)}")
    options = [f"--{name}" for name, column in columns.items() if column is not None]
    if options and resolved not in TABLES:
        raise ConfigError(f"{options[0]}: expected a table or JSON ({', '.join(TABLES)}), got the format {resolved}")
    return resolved


def read_texts(file: Source, format: str, columns: Mapping[str, Any]) -> Iterator[Text | ParseError]:
    """The texts of a file: documents of a table, lines of ``text``, sentences of a treebank or of examples.

    What is wrong with a line of text takes its place, as the others are named by their numbers.
    """
    if format in TABLES:
        yield from read_raw_documents(file, format, **columns)
    elif format == "conllu":
        yield from answer_each(Block.parse, read_blocks(file))
    elif format in _PLAIN:
        for pair in read_lines(file, escape=True):
            try:
                check_lines(file, pair)
                yield pair[1] if format == "text" else pair[1].split()
            except ParseError as error:
                yield error
    else:
        yield from read_sentences(file, format)


def read_raw_documents(
    path: Source,
    format: str = "json",
    *,
    text_column: Column | None = None,
    label_column: Column | None = None,
    id_column: Column | None = None,
) -> Iterator[Document | Sentence]:
    r"""The texts of a table or of JSON objects, with their labels: each row is a document.

    A list of words is one sentence. The other columns (in JSON: strings, numbers and Booleans) become metadata.
    ``<br />`` is a line break, as in IMDB's reviews, so two of them end a sentence.

    Args:
        path: a file or a stream.
        format: ``csv``, ``tsv`` or ``json``.
        text_column: name or number of the column of texts, or their key in JSON; one of the usual names if ``None``.
        label_column: the column of labels; one of the usual names if ``None``, and no labels without it.
        id_column: the column of ids; one of the usual names if ``None``, and the number of the row without it.

    Yields:
        A ``Document`` for each row, or a ``Sentence`` for a list of words.

    Raises:
        ParseError: with file and line, for a malformed row or a row with two texts.

    Example:
        >>> import io
        >>> text = '{"id": "a", "label": 1, "text": "Fine<br /><br />Really"}\n'
        >>> list(read_raw_documents(io.StringIO(text)))
        [Document(text='Fine\n\nReally', name='a', metadata={'label': '1'})]
        >>> list(read_raw_documents(io.StringIO('Review,Sentiment\n"Fine, really",pos\n'), "csv"))
        [Document(text='Fine, really', name='0', metadata={'label': 'pos'})]
    """
    columns = Columns.from_options(text_column, label_column, id_column)
    delimiter = "\t" if format == "tsv" else None
    records = read_json_records(path, columns) if format == "json" else read_table(path, columns, delimiter)
    return answer_each(_make_document, records)


def _make_document(item: Record) -> Document | Sentence:
    text, *second = item.texts
    if second:
        names = " and ".join(map(str, item.columns.text or ()))
        raise item.location.error(f"expected one text, got two in {names}: choose one as text_column")
    label = item.columns.label
    metadata = {} if label is None or item.values[label] is None else {"label": _on_one_line(item.values[label])}
    named = (*(item.columns.text or ()), label, item.columns.id)
    for column, value in item.values.items():
        name = str(column)
        is_plain = isinstance(value, str | int | float) and "=" not in name and name.strip()
        if is_plain and column not in named and name not in _TAKEN:
            metadata[name] = _on_one_line(value)
    name = _on_one_line(item.id)
    if isinstance(text, str):
        return Document(_LINE_BREAK.sub("\n", text), name, metadata)
    return Sentence(text, metadata={"sent_id": name, **metadata})


def _on_one_line(value: object) -> str:
    return " ".join(str(value).split())


def read_sentences(path: Source, format: str) -> Iterator[Sentence]:
    """The sentences of examples in any format of ``read_examples``, each with ``sent_id``, single ones with ``label``.

    The two sentences of pair ``7`` are ``7-1`` and ``7-2``.
    """
    for example in read_examples(path, format=format):
        is_single = len(example.sentences) == 1
        label = {"label": str(example.label)} if is_single and example.label is not None else {}
        for number, sentence in enumerate(example.sentences, 1):
            name = example.id if is_single else f"{example.id}-{number}"
            metadata = {key: value for key, value in sentence.metadata.items() if key not in _TAKEN}
            yield dataclasses.replace(sentence, metadata={"sent_id": name, **label, **metadata})
