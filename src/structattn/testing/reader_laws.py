"""Laws that every reader of a data format obeys."""

import contextlib
import gzip
import inspect
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from structattn.data import Example
from structattn.errors import ParseError, StructAttnError
from structattn.testing.sample_sentences import run_laws

Reader = Callable[..., Iterator[Example]]


def check_reader(reader: Reader, text: str, examples: Sequence[Example]) -> None:
    r"""Check a reader against all ``READER_LAWS``.

    Args:
        reader: ``path -> examples``.
        text: the content of a small file in its format.
        examples: what it is to read from it.

    Raises:
        AssertionError: for the first law that it breaks, by name.

    Example:
        >>> from structattn.data.readers.formats import find_reader
        >>> from structattn.syntax import Sentence
        >>> fine, dull = Example((Sentence(["so", "fine"]),), "1"), Example((Sentence(["so", "dull"]),), "0")
        >>> check_reader(find_reader("labelled"), "1 so fine\n0 so dull\n", [fine, dull])
    """
    run_laws(READER_LAWS, reader, text=text, examples=examples)


def reads_what_is_there(reader: Reader, text: str, examples: Sequence[Example]) -> None:
    """The words and labels of the examples, in the order of the file."""
    with _file(text) as path:
        _assert_read(list(reader(path)), examples)


def reads_compressed_files(reader: Reader, text: str, examples: Sequence[Example]) -> None:
    """The same from a gzipped file."""
    with _file(text, ending=".gz") as path:
        _assert_read(list(reader(path)), examples)


def reads_other_line_ends(reader: Reader, text: str, examples: Sequence[Example]) -> None:
    """The same with a byte order mark and Windows' line ends, and without an end of the last line."""
    for variant in ("\ufeff" + text.replace("\n", "\r\n"), text.rstrip("\n")):
        with _file(variant) as path:
            _assert_read(list(reader(path)), examples)


def streams(reader: Reader, text: str, examples: Sequence[Example]) -> None:
    """Examples come one by one: the reader is a generator."""
    with _file(text) as path:
        result = reader(path)
        assert inspect.isgenerator(result) or isinstance(result, Iterator), "the reader returns a list, not an iterator"
        next(iter(result))


def names_what_is_wrong(reader: Reader, text: str, examples: Sequence[Example]) -> None:
    """Damaged files are read, or refused by the library's own errors, which name the file; nothing else is raised."""
    lines = text.split("\n")
    damaged = [
        *(text[:end] for end in range(1, len(text), max(1, len(text) // 20))),
        *("\n".join([*lines[:row], "\x00garbage\t\t\t", *lines[row:]]) for row in range(min(3, len(lines)))),
        text.replace(" ", "\t"),
        text.replace("\t", " "),
        "\n" * 5,
    ]
    for variant in damaged:
        with _file(variant) as path:
            try:
                list(reader(path))
            except ParseError as error:
                if error.file is None:
                    raise AssertionError(f"an error does not name the file: {error}") from error
            except StructAttnError:
                pass
            except Exception as error:
                raise AssertionError(f"{type(error).__name__} for {variant[:60]!r}: {error}") from error


def says_that_a_file_is_missing(reader: Reader, text: str, examples: Sequence[Example]) -> None:
    """A missing file is an error that names it."""
    path = Path(tempfile.gettempdir()) / "structattn-no-such-file"
    try:
        list(reader(path))
    except (StructAttnError, OSError) as error:
        if path.name not in str(error):
            raise AssertionError(f"the error does not name the file: {error}") from error
    else:
        raise AssertionError("a missing file is read as if it were empty")


#: From the name of each law to the function that checks it: ``law(reader, text, examples)``.
READER_LAWS: Mapping[str, Callable[..., None]] = {
    law.__name__: law
    for law in (
        reads_what_is_there,
        reads_compressed_files,
        reads_other_line_ends,
        streams,
        names_what_is_wrong,
        says_that_a_file_is_missing,
    )
}


@contextlib.contextmanager
def _file(text: str, ending: str = "") -> Iterator[Path]:
    """A temporary file with some text."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"data.txt{ending}"
        content = text.encode()
        path.write_bytes(gzip.compress(content) if ending == ".gz" else content)
        yield path


def _assert_read(result: Sequence[Example], examples: Sequence[Example]) -> None:
    assert len(result) == len(examples), f"expected {len(examples)} examples, got {len(result)}"
    for index, (example, expected) in enumerate(zip(result, examples, strict=True)):
        words, expected_words = ([list(sentence.words) for sentence in item.sentences] for item in (example, expected))
        assert words == expected_words, f"example {index}: expected the words {expected_words}, got {words}"
        assert example.label == expected.label, f"example {index}: expected {expected.label!r}, got {example.label!r}"
