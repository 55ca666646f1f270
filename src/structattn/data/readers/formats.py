"""The table of data formats: a name, a reader, and options checked against the reader's signature."""

import dataclasses
import functools
import glob
import inspect
import io
import itertools
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from structattn.data.example import Example
from structattn.data.readers.fields import Column, is_treebank_row
from structattn.errors import ConfigError, ParseError, shown, source_name
from structattn.files.item_faults import count_faults, read_rest
from structattn.files.text import MAX_WORDS, FileStart, Source, is_pipe, parse_json, read_lines, read_start
from structattn.files.urls import is_remote, remote_files
from structattn.tables import Table

Phrases = Literal["none", "all", "unique", "weighted"]
Reader = Callable[..., Iterator[Example]]

#: From the name of a data format to its reader: ``path``, and any options of ``read_examples`` by keyword.
FORMATS: Table[Reader] = Table(
    "formats",
    "data format",
    {
        "sst": "structattn.data.readers.treebanks:read_sst",
        "labelled": "structattn.data.readers.plain_text:read_labelled",
        "text": "structattn.data.readers.plain_text:read_text",
        "csv": "structattn.data.readers.delimited_tables:read_csv",
        "tsv": "structattn.data.readers.delimited_tables:read_tsv",
        "json": "structattn.data.readers.json_records:read_json",
        "snli": "structattn.data.readers.treebanks:read_snli",
        "sick": "structattn.data.readers.delimited_tables:read_sick",
        "conllu": "structattn.data.readers.treebanks:read_treebank",
        "columns": "structattn.data.readers.plain_text:read_columns",
        "documents": "structattn.data.readers.treebanks:read_documents",
        "brackets": "structattn.data.readers.treebanks:read_bracketed",
        "agreement": "structattn.data.readers.agreement:read_agreement",
        "parallel": "structattn.data.readers.parallel:read_parallel",
        "parquet": "structattn.data.treebank.parquet:read_parquet",
        "rows": "structattn.data.treebank.example_rows:read_rows",
    },
    hint=", or module:function for a reader of your own",
    accepts=callable,
    expected="a function",
)


def recognised_by(test: Callable[[str, str], bool]) -> Callable[[Reader], Reader]:
    """Mark a reader with a test that recognises its files.

    Args:
        test: ``(name of the file, first line that is not blank) -> whether it is in this format``; it comes before the
            tests of structattn's own formats.

    Returns:
        A decorator that returns the reader itself.

    Example:
        >>> import structattn as sa
        >>> @recognised_by(lambda name, line: name.endswith(".questions"))
        ... def read_questions(path):
        ...     yield sa.Example([sa.Sentence(["why", "?"])], "reason")
        >>> FORMATS.add("questions", read_questions)
    """

    def mark(reader: Reader) -> Reader:
        reader.recognises = test  # type: ignore[attr-defined]
        return reader

    return mark


def read_examples(
    path: Source,
    format: str | None = None,
    *,
    phrases: Phrases = "none",
    target: str | None = None,
    tokenised: bool | None = None,
    text_column: Column | Sequence[Column] | None = None,
    label_column: Column | Sequence[Column] | None = None,
    id_column: Column | None = None,
) -> Iterator[Example]:
    r"""Stream the examples of data files, gzip or plain, or Parquet as ``structattn convert`` writes it.

    Args:
        path: a file, a pattern of files such as ``"shards/*.parquet"``, or an open stream such as ``sys.stdin``;
            ``s3://``, ``hf://`` and the like are read through fsspec. With several files, each id starts with the name
            of its file.
        format: one of ``FORMATS``; recognised from the name and the first line if ``None``. A stream has no name and is
            read once, so its format must be given.
        phrases: for ``sst``: ``"none"`` gives whole sentences, ``"all"`` every phrase and word with its own label,
            ``"unique"`` the same without repeats of the same words and label, ``"weighted"`` these with neutral phrases
            at a quarter of the weight.
        target: for ``sick``: ``"relatedness"`` or ``"entailment"``; otherwise ``"class"``, ``"score"`` or ``"labels"``
            (several), how labels are read, or ``"none"`` to ignore them, so that they may be missing or unreadable.
        tokenised: for plain text: ``True`` if words are separated by spaces, ``False`` if the text has yet to be split
            into words. ``None`` depends on the format: ``labelled`` is tokenised, the others are not.
        text_column: for tables and JSON: the column (or key) of texts, two of them for pairs; a name in the header, or
            a number from 0 in a file without one. Needed only if the name is not one of the usual ones. For
            ``columns``: the column of words, the first if ``None``.
        label_column: the column of labels; for ``columns`` that of tags, the last if ``None``. Several columns have 0
            or 1 for the label of that name.
        id_column: the column of ids.

    Yields:
        One example after the other. Blank lines are skipped, except for ``text``, where each is a text without words.

    Raises:
        ConfigError: for an unknown format, or an option that the format does not have; the message lists the known
            ones.
        ParseError: with file and line: for a missing file, one without examples, or a malformed line.

    Example:
        >>> import io, pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "reviews.txt"
        >>> _ = path.write_text("1 a fine film\n0 not so fine\n")
        >>> [(example.sentences[0].words, example.label) for example in read_examples(path)]
        [(('a', 'fine', 'film'), '1'), (('not', 'so', 'fine'), '0')]
        >>> [example.label for example in read_examples(io.StringIO("dull,no\n"), "csv", text_column=0, label_column=1)]
        ['no']
    """
    options: dict[str, Any] = {"target": target, "tokenised": tokenised}
    options |= {"phrases": None if phrases == "none" else phrases}
    options |= {"text_column": text_column, "label_column": label_column, "id_column": id_column}
    requested = {key: value for key, value in options.items() if value is not None}
    files = match_files(path)
    if len(files) == 1:
        return _read(files[0], format, requested)
    return (
        dataclasses.replace(example, id=f"{os.path.basename(file)}/{example.id}", file=os.fspath(file))
        for file in files
        for example in read_rest(functools.partial(_read, file, format, requested))
    )


def match_files(path: Source) -> list[Any]:
    """The files that match a pattern such as ``"shards/*.tsv"``, sorted by name; anything else is returned as it is."""
    if not isinstance(path, str | os.PathLike) or not glob.has_magic(os.fspath(path)) or os.path.exists(path):
        return [path]
    if is_remote(path):
        with remote_files(path) as (files, name):
            matches = sorted(map(files.unstrip_protocol, files.glob(name)))
    else:
        matches = sorted(glob.glob(os.fspath(path), recursive=True))
    if not matches:
        raise ParseError("expected a file that matches this pattern, got none", file=path)
    return matches


def split_paths(path: str | os.PathLike[str]) -> list[Path]:
    """The files that a path names: two separated by a comma, or one."""
    if os.path.exists(path):  # also of a name that is too long for any file
        return [Path(path)]
    parts = os.fspath(path).split(",")
    if len(parts) > 2 or not all(parts):
        raise ParseError("expected one file, or two separated by a comma", file=path)
    return [Path(part) for part in parts]


def list_files(path: str | os.PathLike[str]) -> list[str]:
    """Every file that a path names: one, two separated by a comma, or those that match a pattern."""
    return [os.fspath(file) for part in split_paths(path) for file in match_files(part)]


def _read(path: Source, format: str | None, options: Mapping[str, Any]) -> Iterator[Example]:
    name = recognise_format(path) if format is None else format
    reader = find_reader(name)
    offered = inspect.signature(read_examples).parameters
    accepted = [option for option in list(inspect.signature(reader).parameters)[1:] if option in offered]
    for key in options:
        if key not in accepted:
            raise ConfigError(f"data format {name!r} has no option {key!r}; known: {', '.join(accepted) or 'none'}")
    return _require_examples(reader(path, **options), name, path)


def check_format(name: str | None) -> None:
    """Refuse an unknown format; ``None`` is recognised from the file."""
    if name is not None and ":" in name:
        find_reader(name)
    elif name is not None:
        FORMATS.check(name)


def find_reader(format: str) -> Reader:
    """The reader of a data format: a row of ``FORMATS``, or ``module:function``."""
    return FORMATS.find(format)


def recognise_format(path: Source, start: FileStart | None = None) -> str:
    """The name of the format of a file, from its name and its first line, which is read unless ``start`` is given.

    A stream or a pipe is refused.
    """
    if not isinstance(path, str | os.PathLike) and not hasattr(path, "read"):
        raise TypeError(f"expected the path of a file, or a stream, got {type(path).__name__}")
    if not isinstance(path, str | os.PathLike) or is_pipe(path):
        raise ConfigError(f"expected the format of {source_name(path)}, got none; known: {', '.join(FORMATS)}")
    start = read_start(path) if start is None else start
    if start.is_parquet:
        return "parquet"
    # Imported here, as whoever names the format needs only its own reader.
    from structattn.data.readers.agreement import find_pair
    from structattn.data.readers.delimited_tables import is_table_header

    name, line = Path(path).name.removesuffix(".gz"), start.line
    if line is None:
        raise ParseError("expected at least one example, got an empty file", file=path)
    for format in FORMATS.added():
        recognises = getattr(FORMATS[format], "recognises", None)
        if recognises is not None and recognises(name, line):
            return format
    if name.endswith(".csv") or is_table_header(line):
        return "csv"
    if (
        name.endswith((".conllu", ".conllup", ".conll"))
        or line.startswith("# ")
        or re.match(r"1(-\d+)?\t([^\t]*\t){8}", line)
    ):
        return "documents" if _has_documents(path) else "conllu"
    if find_pair(path) is not None:
        return "agreement"
    if name.endswith((".json", ".jsonl")) and not line.startswith("{"):
        return "json"  # whose reader says what is wrong with the line
    if line.lstrip().startswith("("):
        return "sst" if re.match(r"\s*\([0-4]\s", line) else "brackets"
    if line.startswith("{"):
        keys = _parse_keys(line)
        return "snli" if "sentence1_parse" in keys else "rows" if is_treebank_row(keys) else "json"
    if re.match(r"\s*\[\s*(\{|$)", line):
        return "json"
    if "\t" in line:
        return "sick" if line.startswith("pair_ID\tsentence_A") else "tsv"
    if name.endswith(".tsv"):
        return "tsv"
    if " " in line:
        return "labelled"
    raise ParseError(
        f"expected a line of one of the formats {', '.join(FORMATS)}, got {shown(line, width=40)}; name the format",
        file=path,
    )


def _has_documents(path: Source) -> bool:
    """Whether the first sentence of a treebank begins a document and gives its label."""
    lines = (line for _, line in itertools.islice(read_lines(path, escape=True), MAX_WORDS))
    comments = itertools.takewhile(lambda line: line.startswith("#"), lines)
    keys = {comment[1:].partition("=")[0].strip() for comment in comments}
    return "label" in keys and not keys.isdisjoint(("newdoc", "newdoc id"))


def _parse_keys(line: str) -> set[str]:
    try:
        return set(parse_json(line))
    except (ValueError, TypeError):
        return set()


def describe_columns(path: str, format: str, columns: Mapping[str, Any], start: FileStart | None = None) -> str:
    """Which columns of a table or of JSON were found by their usual names; nothing where all are given.

    A table is not read again if ``start`` is given.
    """
    from structattn.data.readers.delimited_tables import read_table
    from structattn.data.readers.fields import Columns
    from structattn.data.readers.json_records import read_json_records

    readers: Mapping[str, Callable[[Source, Columns], Iterator[Any]]] = {"json": read_json_records}
    read = {**dict.fromkeys(("csv", "tsv"), read_table), **readers}.get(format)
    if read is None or is_pipe(path):
        return ""
    requested = Columns.from_options(**columns)
    source: Source = match_files(path)[0]
    if start is not None and read is read_table:
        source = io.StringIO("\n".join(start.lines))
    first = next(read(source, requested), None)
    return "" if first is None else first.columns.describe(requested)


def _require_examples(examples: Iterator[Example], name: str, path: Source) -> Iterator[Example]:
    empty, before = True, count_faults()
    for example in examples:
        empty = False
        yield example
    if empty and count_faults() == before:
        raise ParseError(f"expected at least one example in format {name!r}, got none", file=path)
