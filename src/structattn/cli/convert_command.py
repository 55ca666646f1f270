"""``structattn convert``: examples and treebanks between Parquet, JSON lines, CoNLL-U and brackets."""

import glob
import itertools
from collections.abc import Iterable, Iterator
from pathlib import PurePath

from structattn.cli.command_inputs import check_at_least
from structattn.data import Example, read_examples
from structattn.data.readers.formats import check_format, match_files, recognise_format
from structattn.data.treebank.writing import check_ending, write_examples
from structattn.errors import ConfigError, ParseError, require
from structattn.files.text import check_apart, check_readable


def command(
    source: str,
    target: str,
    *,
    format: str | None = None,
    shard_size: int | None = None,
) -> Iterator[str]:
    """Convert a file, or several, to the format that the target's name ends in.

    Parquet (.parquet) and JSON lines (.jsonl) keep everything; CoNLL-U converted to them and back has the same bytes.
    CoNLL-U (.conllu) keeps sentences, dependency trees and labels, brackets (.mrg, .brackets) phrase trees.

    Args:
        source: a file, or a pattern of files in quotes, such as "shards/*.parquet"; s3:// and hf:// need the extra
            scale and their own packages.
        target: the file to write.
        format: the data format of the source; recognised from it by default.
        shard_size: write several files TARGET-00000, TARGET-00001, ... with at most this many examples each; none of
            them may exist yet.
    """
    check_at_least(1, shard_size=shard_size)
    check_format(format)
    if check_ending(target) == ".parquet":
        require("pyarrow", "scale")
    files = match_files(source)
    for file in files:
        check_readable(file)
        check_apart(file, target)
    # A treebank is converted sentence by sentence, even if training would read its documents.
    source_format = format or recognise_format(files[0])
    source_format = "conllu" if format is None and source_format == "documents" else source_format
    # These formats contain the ids; in others an id is a line number, and needs the name of its file.
    sources = files if source_format in ("conllu", "parquet") else [source]
    examples = (example for path in sources for example in read_examples(path, source_format))
    if shard_size is None:
        yield f"{target}  {write_examples(target, examples):,} sentences"
        return
    if old := _find_shards(target):
        names = old[0] if len(old) == 1 else f"{old[0]} to {old[-1]}"
        raise ConfigError(f"{target}: expected no parts of an earlier conversion, got {names}; remove them first")
    for number, part in enumerate(_split(examples, shard_size)):
        name = _number(target, number)
        yield f"{name}  {write_examples(name, part):,} sentences"


def _split(examples: Iterator[Example], size: int) -> Iterator[Iterable[Example]]:
    """Consecutive parts of the examples, each of which must be read before the next one is requested."""
    for first in examples:
        yield itertools.chain([first], itertools.islice(examples, size - 1))


def _number(target: str, number: int) -> str:
    ending = _ending(target)
    return f"{target.removesuffix(ending)}-{number:05d}{ending}"


def _find_shards(target: str) -> list[str]:
    """The existing parts of the target: any that are not overwritten would later be read with the new ones."""
    ending = _ending(target)
    try:
        return match_files(f"{glob.escape(target.removesuffix(ending))}-{5 * '[0-9]'}{glob.escape(ending)}")
    except ParseError:  # there is none
        return []


def _ending(target: str) -> str:
    return "".join(PurePath(target).suffixes[-2:] if target.endswith(".gz") else PurePath(target).suffixes[-1:])
