"""Plain lines: ``label text``, texts without labels, and words in columns with their tags."""

import itertools
import re
from collections.abc import Iterator

from structattn.data.example import Example
from structattn.data.readers.fields import Place, check_target, label_of, sentence_of
from structattn.errors import ConfigError, shown
from structattn.files.text import MAX_WORDS, Source, read_lines
from structattn.syntax import Sentence


def read_labelled(path: Source, *, target: str = "class", tokenised: bool = True) -> Iterator[Example]:
    """Lines ``label text``, separated by a space or a tab; the text may be empty (a sentence without words).

    Raises:
        ParseError: for a line without a space or tab, or a label that does not fit ``target``.
    """
    check_target(target)
    count = 0
    for number, line in read_lines(path):
        if not line.strip():
            continue
        place = Place(path, number)
        label, *text = re.split(r"[ \t]", line, maxsplit=1)
        if not (label and text):
            raise place.error(f"expected 'label text', got {shown(line, width=40)}")
        sentence = sentence_of(text[0], tokenised=tokenised)
        yield Example((sentence,), label_of(label, place, target=target), id=str(count), line=number)
        count += 1


def read_text(path: Source, *, tokenised: bool = False) -> Iterator[Example]:
    """One text per line, or two separated by a tab, without labels; an empty line is a text without words.

    Raises:
        ParseError: for a line of more than two texts.
    """
    for number, line in read_lines(path):
        texts = line.split("\t")
        if len(texts) > 2:
            raise Place(path, number).error(f"expected one sentence, or two separated by a tab, got {len(texts)}")
        yield Example([sentence_of(text, tokenised=tokenised) for text in texts], id=str(number - 1), line=number)


_DOCUMENT = "-DOCSTART-"


def read_columns(
    path: Source, *, text_column: int | str | None = None, label_column: int | str | None = None
) -> Iterator[Example]:
    r"""One word and its tag per line, a blank line after each sentence, as in CoNLL-2000, CoNLL-2003 and OntoNotes.

    Columns are separated by tabs if the file's first line has one, and otherwise by spaces. The label is the tags,
    separated by spaces. Lines of ``-DOCSTART-`` between documents are skipped.

    Args:
        path: the file.
        text_column: the column of words, counted from 0; the first if ``None``.
        label_column: the column of tags; the last if ``None``.

    Raises:
        ConfigError: for a column that is not a number of at least 0.
        ParseError: with file and line: for a line without these columns, an empty word, a tag with a space in it, or a
            file without blank lines.

    Example:
        >>> import io
        >>> text = io.StringIO("the DET B-NP\ndog NOUN I-NP\nbarks VERB O\n\nhush VERB O\n")
        >>> [(example.sentences[0].words, example.label) for example in read_columns(text)]
        [(('the', 'dog', 'barks'), 'B-NP I-NP O'), (('hush',), 'O')]
    """
    word_at, tag_at = _number(text_column, "text_column", 0), _number(label_column, "label_column", -1)
    wanted = max(word_at, tag_at, 1) + 1
    tabs: bool | None = None
    for count, block in enumerate(_blocks(path)):
        words, tags = [], []
        for number, line in block:
            tabs = "\t" in line if tabs is None else tabs
            fields = line.split("\t") if tabs else line.split()
            if len(fields) < wanted:
                message = f"expected at least {wanted} columns, word and tag among them, got {shown(line)}"
                raise Place(path, number).error(message)
            word, tag = fields[word_at].strip(), fields[tag_at].strip()
            if not word or not tag or len(tag.split()) > 1:
                raise Place(path, number).error(f"expected a word and a tag without spaces, got {shown(line)}")
            words.append(word)
            tags.append(tag)
        yield Example((Sentence(words),), " ".join(tags), id=str(count), line=block[0][0])


def _blocks(path: Source) -> Iterator[list[tuple[int, str]]]:
    """The lines of each sentence, with their numbers."""
    lines = (row for row in read_lines(path) if not row[1].startswith(_DOCUMENT))
    for is_blank, group in itertools.groupby(lines, key=lambda row: not row[1].strip()):
        if is_blank:
            continue
        block = list(itertools.islice(group, MAX_WORDS + 1))
        if len(block) > MAX_WORDS:
            message = f"expected a blank line after each sentence, got none in {MAX_WORDS:,} lines"
            raise Place(path, block[-1][0]).error(message)
        yield block


def _number(column: int | str | None, name: str, usual: int) -> int:
    if column is None:
        return usual
    if not str(column).isdecimal():
        raise ConfigError(f"{name}: columns of words and tags are numbers from 0, got {shown(column)}")
    return int(column)
