"""Plain lines: ``label text``, texts without labels, and words in columns with their tags."""

import itertools
import re
from collections.abc import Iterator
from functools import partial

from structattn.data.example import Example
from structattn.data.readers.fields import Location, check_target, make_sentence, parse_label, parse_labels
from structattn.errors import ConfigError, shown
from structattn.files.item_faults import answer_each
from structattn.files.text import MAX_WORDS, Source, check_lines, is_blank, read_lines
from structattn.syntax.sentence import Sentence

_DOCUMENT = "-DOCSTART-"  # lines between documents, which are skipped
_FASTTEXT = "__label__"
_PREFIXED = re.compile(rf"\s*((?:{_FASTTEXT}\S+(?:\s+|$))*)")  # several labels of fastText
_METADATA = re.compile(r"#\s*(\w+\s*=|(id|sent_id|text|newdoc|newpar)\b)")


def read_labelled(path: Source, *, target: str = "class", tokenised: bool = True) -> Iterator[Example]:
    """Lines ``label text``, separated by a space or a tab; the text may be empty (a sentence without words).

    The labels of fastText are read without their prefix; with the target ``labels`` a line has any number of them.
    """
    check_target(target)

    def make_example(item: tuple[int, tuple[int, str]]) -> Example:
        count, (number, line) = item
        check_lines(path, item[1])
        location = Location(path, number)
        prefixed = _PREFIXED.match(line)
        if target == "labels" and prefixed is not None:
            names = [name.removeprefix(_FASTTEXT) for name in prefixed[1].split()]
            sentence = make_sentence(line[prefixed.end() :], tokenised=tokenised)
            return Example((sentence,), parse_labels(names, location), id=str(count), line=number)
        label, *text = re.split(r"[ \t]", line, maxsplit=1)
        if not (label and text):
            raise location.error(f"expected 'label text', got {shown(line, width=40)}")
        label = label.removeprefix(_FASTTEXT)
        if text[0].startswith(_FASTTEXT):
            second = text[0].split()[0].removeprefix(_FASTTEXT)
            raise location.error(
                f"expected one label, got {shown(label)} and {shown(second)}; --task multilabel reads several"
            )
        sentence = make_sentence(text[0], tokenised=tokenised)
        return Example((sentence,), parse_label(label, location, target=target), id=str(count), line=number)

    filled = (row for row in read_lines(path, escape=True) if not is_blank(row[1]))
    return answer_each(make_example, enumerate(filled))


def read_text(path: Source, *, tokenised: bool = False) -> Iterator[Example]:
    """One text per line, or two separated by a tab, without labels; an empty line is a text without words."""

    def make_example(row: tuple[int, str]) -> Example:
        number, line = row
        check_lines(path, row)
        texts = line.split("\t")
        if len(texts) > 2:
            fault = f"expected one sentence, or two separated by a tab, got {len(texts)}"
            raise Location(path, number).error(fault)
        return Example([make_sentence(text, tokenised=tokenised) for text in texts], id=str(number - 1), line=number)

    return answer_each(make_example, read_lines(path, escape=True))


def read_columns(
    path: Source, *, text_column: int | str | None = None, label_column: int | str | None = None
) -> Iterator[Example]:
    """One word and its tag per line, a blank line after each sentence, as in CoNLL-2000, CoNLL-2003 and OntoNotes.

    Columns are separated by tabs if the first line has one, and else by spaces; the label is the tags. Lines of
    metadata before a sentence, as in MultiCoNER, are skipped.
    """
    word_at, tag_at = _parse_column(text_column, "text_column", 0), _parse_column(label_column, "label_column", -1)
    width = max(word_at, tag_at, 1) + 1
    tabs: bool | None = None

    def make_example(item: tuple[int, list[tuple[int, str]]]) -> Example:
        nonlocal tabs
        count, block = item
        if len(block) > MAX_WORDS:
            message = f"expected a blank line after each sentence, got none in {MAX_WORDS:,} lines"
            raise Location(path, block[-1][0]).error(message)
        check_lines(path, *block)
        words: list[str] = []
        tags: list[str] = []
        columns: int | None = None
        for number, line in block:
            tabs = "\t" in line if tabs is None else tabs
            fields = line.split("\t") if tabs else line.split()
            if len(fields) < width:
                message = f"expected at least {width} columns, word and tag among them, got {shown(line)}"
                raise Location(path, number).error(message)
            columns = len(fields) if columns is None else columns
            if len(fields) != columns:
                message = f"expected {columns} columns as in the line before, got {len(fields)} in {shown(line)}"
                raise Location(path, number).error(message)
            word, tag = fields[word_at].strip(), fields[tag_at].strip()
            if not word or not tag or len(tag.split()) > 1:
                raise Location(path, number).error(f"expected a word and a tag without spaces, got {shown(line)}")
            words.append(word)
            tags.append(tag)
        return Example((Sentence(words),), " ".join(tags), id=str(count), line=block[0][0])

    return answer_each(make_example, enumerate(_read_blocks(path)))


def _read_blocks(path: Source) -> Iterator[list[tuple[int, str]]]:
    """The lines of each sentence, with their numbers."""
    lines = (row for row in read_lines(path, escape=True) if not row[1].startswith(_DOCUMENT))
    for is_between, group in itertools.groupby(lines, key=lambda row: is_blank(row[1])):
        if is_between:
            continue
        block = list(itertools.islice(group, MAX_WORDS + 1))
        rows = list(itertools.dropwhile(partial(_is_metadata, last=block[-1][1]), block))
        if rows:
            yield rows


def _is_metadata(row: tuple[int, str], last: str) -> bool:
    """Whether a line that begins with # is no word: it has a key, or not the columns of its sentence's last line."""
    line = row[1]
    if not line.startswith("#"):
        return False
    columns = (len(each.split("\t" if "\t" in last else None)) for each in (line, last))
    return _METADATA.match(line) is not None or len(set(columns)) > 1


def _parse_column(column: int | str | None, name: str, usual: int) -> int:
    if column is None:
        return usual
    if not str(column).isdecimal():
        raise ConfigError(f"{name}: columns of words and tags are numbers from 0, got {shown(column)}")
    return int(column)
