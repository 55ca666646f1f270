"""JSON lines with the columns of the treebank, as ``structattn convert`` writes them."""

from collections.abc import Collection, Iterator

from structattn.data.example import Example
from structattn.data.readers.fields import json_objects
from structattn.data.treebank.rows import examples_of_rows
from structattn.files.text import Source

# Keys that every row has, and no other JSON of texts.
_MARKS = ("text", "starts", "ends")


def is_row(keys: Collection[str]) -> bool:
    """Whether a JSON object with these keys is a row of the treebank.

    Example:
        >>> is_row(["id", "text"]), is_row(["text", "starts", "ends", "heads"])
        (False, True)
    """
    return all(key in keys for key in _MARKS)


def read_rows(path: Source) -> Iterator[Example]:
    """Stream the examples that ``structattn convert`` wrote as JSON lines.

    Raises:
        ParseError: for anything but a JSON object, or a row that contradicts itself; the message gives its number.
    """
    return examples_of_rows((row for _, row in json_objects(path)), path)
