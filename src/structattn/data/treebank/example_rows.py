"""From examples to rows of the treebank's columns, as plain values, and from rows back to the same examples.

Parquet and JSON lines contain the same rows.
"""

import hashlib
import itertools
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from structattn.data.example import Example
from structattn.data.readers.json_records import read_json_objects
from structattn.errors import ParseError
from structattn.files.item_faults import answer_each
from structattn.files.replacing import replace_text
from structattn.files.text import Source
from structattn.syntax.conllu import conllu_rows
from structattn.syntax.constituency_tree import ConstituencyTree
from structattn.syntax.dependency_tree import DependencyTree
from structattn.syntax.sentence import Sentence

Row = dict[str, Any]
_Numbered = tuple[int, Mapping[str, Any]]

FAULT = "fault"
"""The key of what is wrong with a row that cannot be read."""

_COLUMNS = {"lemmas": 2, "xpos": 4, "features": 5, "enhanced": 8, "misc": 9}
_NUM_COLUMNS = 10


def make_rows(example: Example) -> list[Row]:
    """One row for each sentence of an example; unknown values are ``None``."""
    label = example.label
    shared = {
        "id": example.id,
        "answer": label if isinstance(label, str) else None,
        "score": label if isinstance(label, float) else None,
        "weight": example.weight,
    }
    return [{**_make_row(sentence, shared), **shared, "part": part} for part, sentence in enumerate(example.sentences)]


def make_examples(rows: Iterable[Mapping[str, Any]], file: object) -> Iterator[Example]:
    """The examples of rows, in which missing values count as ``None``; two rows are a pair if the second says so.

    Where the reader of a row found a fault in it, that is its value under ``FAULT``.
    """
    return answer_each(lambda group: _make_example(group, file), _group_rows(enumerate(rows, start=1)))


def _group_rows(rows: Iterable[_Numbered]) -> Iterator[list[_Numbered]]:
    """The rows of each example, up to one more than it can have."""
    group: list[_Numbered] = []
    for number, row in rows:
        if group and (not row.get("part") or len(group) > 2):
            yield group
            group = []
        group.append((number, row))
    if group:
        yield group


def hash_text(text: str) -> bytes:
    """The first 16 bytes of the SHA-256 of a text."""
    return hashlib.sha256(text.encode()).digest()[:16]


def _make_row(sentence: Sentence, shared: Mapping[str, Any]) -> Row:
    text, starts, ends = _place_words(sentence)
    tree = sentence.dependency
    parser, _, version = sentence.metadata.get("parser", "").rpartition(" ")
    row = {
        "text": text,
        "text_hash": hash_text(text),
        "starts": starts,
        "ends": ends,
        "heads": None if tree is None else list(tree.heads),
        "labels": None if tree is None or tree.labels is None else list(tree.labels),
        "tags": None if sentence.tags is None else list(sentence.tags),
        "parser": parser or None,
        "parser_version": version if parser else None,
        "comments": list(sentence.comments) or None,
        "relations": [
            {"name": name, "values": [float(value) for line in matrix for value in line]}
            for name, matrix in sentence.relations.items()
        ]
        or None,
        **_make_columns(sentence),
        **_make_phrases(sentence),
    }
    repeated = _find_repeated({**shared, **row})
    row["metadata"] = [
        {"key": key, "value": None if repeated.get(key) == value else value} for key, value in sentence.metadata.items()
    ]
    return row


def _find_repeated(row: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata that columns already contain."""
    parser = None if row.get("parser") is None else f"{row['parser']} {row['parser_version']}"
    return {"text": row["text"], "sent_id": row.get("id"), "label": row.get("answer"), "parser": parser}


def _place_words(sentence: Sentence) -> tuple[str, list[int], list[int]]:
    """A text, and where its words begin and end in it."""
    text = sentence.metadata.get("text", "")
    starts, ends = [], []
    end = 0
    for word in sentence.words:
        start = end
        while start < len(text) and text[start].isspace() and not text.startswith(word, start):
            start += 1
        if not text.startswith(word, start):
            break
        end = start + len(word)
        starts.append(start)
        ends.append(end)
    else:
        if "text" in sentence.metadata:
            return text, starts, ends
    ends = [end + index for index, end in enumerate(itertools.accumulate(map(len, sentence.words)))]
    starts = [end - len(word) for word, end in zip(sentence.words, ends, strict=True)]
    return " ".join(sentence.words), starts, ends


def _make_columns(sentence: Sentence) -> Row:
    """The columns of CoNLL-U other than words, tags, heads and labels."""
    rows = sentence.rows
    words = [row for row in rows if row[0].isdecimal()]
    columns: Row = {}
    for name, index in _COLUMNS.items():
        values = [row[index] for row in words]
        columns[name] = values if any(value != "_" for value in values) else None
    lines = [{"row": index, "line": "\t".join(row)} for index, row in enumerate(rows) if not row[0].isdecimal()]
    return {**columns, "lines": lines or None}


def _make_phrases(sentence: Sentence) -> Row:
    tree = sentence.constituency
    if tree is None:
        return {"spans": None, "phrase_tags": None, "phrase_words": None}
    usual = sentence.tags or (None,) * len(tree)
    return {
        "spans": [{"label": label, "start": start, "end": end} for label, start, end in tree.spans],
        "phrase_tags": None if tree.tags == usual else list(tree.tags),
        "phrase_words": None if tree.words == sentence.words else list(tree.words),
    }


def _make_example(rows: Sequence[_Numbered], file: object) -> Example:
    sentences = []
    for index, (number, row) in enumerate(rows):
        if isinstance(row.get(FAULT), ParseError):
            raise row[FAULT]
        if bool(row.get("part")) != bool(index) or index > 1:
            raise ParseError(f"row {number}: expected the second sentence of a pair after its first one", file=file)
        try:
            sentences.append(_make_sentence(row))
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError) as error:
            reason = f"it has no {error}" if isinstance(error, KeyError) else error
            raise ParseError(f"row {number}: expected a sentence, but {reason}", file=file) from None
    number, row = rows[0]
    answer, score = row.get("answer"), row.get("score")
    weight = row.get("weight")
    label = score if answer is None else answer
    try:
        return Example(tuple(sentences), label, id=row.get("id") or "", weight=1.0 if weight is None else weight)
    except ValueError as error:  # such as a weight below 0
        raise ParseError(f"row {number}: {error}", file=file) from None


def _make_sentence(row: Mapping[str, Any]) -> Sentence:
    text = row["text"]
    places = list(zip(row["starts"], row["ends"], strict=True))
    bounds = [0, *itertools.chain.from_iterable(places), len(text)]
    if bounds != sorted(bounds):
        raise ValueError("its words are not in their order within the text")
    words = [text[start:end] for start, end in places]
    heads, tags, spans = row.get("heads"), row.get("tags"), row.get("spans")
    phrases = None
    if spans is not None:
        phrase_tags = row.get("phrase_tags")
        phrase_words = words if row.get("phrase_words") is None else row["phrase_words"]
        triples = [(span["label"], span["start"], span["end"]) for span in spans]
        phrases = ConstituencyTree(phrase_words, triples, tags=tags if phrase_tags is None else phrase_tags)
    repeated = _find_repeated(row)
    pairs = [(entry["key"], entry["value"]) for entry in row.get("metadata") or ()]
    metadata = {key: repeated[key] if value is None else value for key, value in pairs}
    size = len(words)
    relations = {
        entry["name"]: [entry["values"][size * index : size * (index + 1)] for index in range(size)]
        for entry in row.get("relations") or ()
    }
    plain = Sentence(
        words,
        tags,
        None if heads is None else DependencyTree(heads, row.get("labels")),
        phrases,
        relations,
        metadata=metadata,
        comments=row.get("comments") or (),
    )
    rows = _restore_rows(plain, row)
    if not rows:
        return plain
    values = (plain.words, plain.tags, plain.dependency, plain.constituency, plain.relations)
    return Sentence(*values, metadata=plain.metadata, comments=plain.comments, rows=rows)


def _restore_rows(sentence: Sentence, row: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """The lines of CoNLL-U, if they contain more than the fields of a sentence."""
    columns_read = {index: row[name] for name, index in _COLUMNS.items() if row.get(name) is not None}
    lines = row.get("lines") or ()
    if not columns_read and not lines:
        return []
    columns = list(zip(*conllu_rows(sentence), strict=True)) or [()] * _NUM_COLUMNS
    rows = list(zip(*(columns_read.get(index, column) for index, column in enumerate(columns)), strict=True))
    for line in lines:
        rows.insert(line["row"], tuple(line["line"].split("\t")))
    return rows


def write_rows(path: str | os.PathLike[str], examples: Iterable[Example]) -> int:
    """Write examples as JSON lines, one per sentence; returns the number of sentences."""
    count = 0
    with replace_text(path) as stream:
        for row in (row for example in examples for row in make_rows(example)):
            present = {name: value for name, value in row.items() if value is not None}
            stream.write(json.dumps({**present, "text_hash": row["text_hash"].hex()}, ensure_ascii=False) + "\n")
            count += 1
    return count


def read_rows(path: Source) -> Iterator[Example]:
    """Stream the examples that ``structattn convert`` wrote as JSON lines."""
    return make_examples((row for _, row, _ in read_json_objects(path)), path)
