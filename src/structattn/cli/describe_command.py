"""``structattn describe``: sizes, lengths, depth, projectivity and labels of treebanks."""

import json as jsonlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from structattn.data import read_examples
from structattn.data.readers.formats import recognise_format
from structattn.errors import naming
from structattn.files.text import check_readable
from structattn.pictures import save
from structattn.pictures.picture_files import choose_format
from structattn.syntax import Sentence, read_conllu


def command(
    treebanks: list[str], *, format: str | None = None, picture: str | None = None, json: bool = False
) -> Iterator[str]:
    """Describe treebanks, side by side: sizes, lengths, depth, projectivity, relations, tags and phrases.

    Args:
        treebanks: files with trees: CoNLL-U, brackets, SST, Parquet.
        format: the data format of all; recognised from each file by default.
        picture: a file for lines of lengths, depths and distances, .svg, .png or .pdf.
        json: print one JSON object.
    """
    if picture is not None:
        choose_format(picture)
    for file in treebanks:
        check_readable(file)
    from structattn.inspection.treebank_statistics import count_treebank, describe_treebanks, draw_treebanks

    names = [Path(file.removesuffix(".gz")).stem for file in treebanks]
    counts = {}
    for name, file in zip(names if len(set(names)) == len(names) else treebanks, treebanks, strict=True):
        with naming(file):
            counts[name] = count_treebank(_read(file, format))
    report = describe_treebanks(counts)
    if picture is not None:
        save(picture, draw_treebanks(counts))
    yield from [jsonlib.dumps(report.to_dict())] if json else str(report).split("\n")


def _read(file: str, format: str | None) -> Iterable[Sentence]:
    """The sentences of a treebank, one by one also where a file groups them into documents."""
    name = format or recognise_format(file)
    if name in ("conllu", "documents"):
        return read_conllu(file)
    return (sentence for example in read_examples(file, name) for sentence in example.sentences)
