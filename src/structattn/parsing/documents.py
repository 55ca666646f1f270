"""Data files as texts to parse: documents with labels, and the single sentences of every format of ``data``.

A raw text stays raw until a parser has split it.
"""

import dataclasses
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from structattn.data.readers import read_examples
from structattn.data.readers.fields import json_objects
from structattn.syntax import Sentence
from structattn.syntax.files import Source

_TEXTS = ("text", "sentence", "words")
_IDS = ("id", "pairID")
# What ``parse`` says of every sentence itself.
_TAKEN = ("sent_id", "text", "parser", "newdoc id")
_LINE_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)


@dataclass(frozen=True)
class Document:
    """A raw text of any number of sentences, its name, and what is known about it.

    Its first sentence carries ``newdoc id`` and the metadata, as CoNLL-U has it; ``sent_id`` is ``<name>-<sentence>``.

    Attributes:
        text: the raw text.
        name: its id.
        metadata: what the file said about it, such as ``label``.

    Example:
        >>> Document("Fine. Really fine.", "7", {"label": "1"}).name
        '7'
    """

    text: str
    name: str
    metadata: Mapping[str, str] = field(default_factory=dict, hash=False)


def documents_of_json(path: Source) -> Iterator[Document | Sentence]:
    r"""One JSON object a line, its text under ``text``, ``sentence`` or ``words``.

    A list of words is one sentence. What else is a string, a number or a truth value (``label``, ``rating``) becomes
    metadata. ``<br />`` is a line break, as in IMDB's reviews, so two of them end a sentence.

    Raises:
        ParseError: with file and line: for a line that is no JSON object, or has no text.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "reviews.jsonl"
        >>> _ = path.write_text('{"id": "a", "label": 1, "text": "Fine<br /><br />Really"}\n')
        >>> list(documents_of_json(path))
        [Document(text='Fine\n\nReally', name='a', metadata={'label': '1'})]
    """
    for count, (place, item) in enumerate(json_objects(path)):
        key = next((key for key in _TEXTS if key in item), None)
        if key is None:
            found = ", ".join(map(str, item)) or "none"
            raise place.error(f"expected one of the keys {', '.join(_TEXTS)} of a single text, got {found}")
        text = item[key]
        name = " ".join(str(next((item[key] for key in _IDS if key in item), count)).split())
        metadata = {
            entry: " ".join(str(value).split())
            for entry, value in item.items()
            if entry not in (key, *_IDS, *_TAKEN) and "=" not in entry and isinstance(value, str | int | float)
        }
        if isinstance(text, str):
            yield Document(_LINE_BREAK.sub("\n", text), name, metadata)
        elif isinstance(text, list) and all(isinstance(word, str) for word in text):
            yield Sentence(text, metadata={"sent_id": name, **metadata})
        else:
            raise place.error(f"expected text or a list of words under {key!r}, got {text!r:.40}")


def sentences_of_examples(path: Source, format: str) -> Iterator[Sentence]:
    r"""The sentences of a data file in any format of ``read_examples``: ``sent_id``, and ``label`` of single ones.

    The two sentences of pair ``7`` are ``7-1`` and ``7-2``.

    Args:
        path: the file.
        format: one of ``FORMATS``.

    Raises:
        ConfigError: for an unknown format.
        ParseError: as ``read_examples``.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "reviews.txt"
        >>> _ = path.write_text("1 a fine film\n")
        >>> [(one.words, one.metadata) for one in sentences_of_examples(path, "labelled")]
        [(('a', 'fine', 'film'), {'sent_id': '0', 'label': '1'})]
    """
    for example in read_examples(path, format=format):
        is_single = len(example.sentences) == 1
        label = {"label": str(example.label)} if is_single and example.label is not None else {}
        for number, sentence in enumerate(example.sentences, 1):
            name = example.id if is_single else f"{example.id}-{number}"
            known = {key: value for key, value in sentence.metadata.items() if key not in _TAKEN}
            yield dataclasses.replace(sentence, metadata={"sent_id": name, **label, **known})
