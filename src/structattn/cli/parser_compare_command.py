"""``structattn parser compare``: two parsers on one treebank, with significance, by relation, and their trees."""

import json as jsonlib
from collections.abc import Iterator

from structattn.cli.command_inputs import check_at_least, check_ending
from structattn.errors import ConfigError
from structattn.files.replacing import replace_text
from structattn.options.hardware import Hardware
from structattn.parsing import load_parser, parse
from structattn.parsing.gold_trees import read_gold
from structattn.parsing.parsers import check_parser


def command(
    first: str,
    second: str,
    treebank: str,
    *,
    page: str | None = None,
    trees: int = 30,
    samples: int = 10_000,
    seed: int = 0,
    batch_size: int = 2048,
    hardware: Hardware,
    json: bool = False,
) -> Iterator[str]:
    """Compare two parsers on the words of a treebank: UAS and LAS with paired bootstrap, and each relation.

    Args:
        first: a parser: en, spacy:MODEL, stanza:LANGUAGE, structattn:FOLDER, or a file of trees.
        second: the parser to compare it with.
        treebank: a CoNLL-U file with gold trees.
        page: an .html file for the tables, and the trees that differ most beside each other.
        trees: how many of these trees the page has.
        samples: number of resamples of the sentences.
        seed: random seed of the resampling.
        batch_size: sentences per batch.
        hardware: where structattn:FOLDER runs, and the precision.
        json: print one JSON object.
    """
    if first == second:
        raise ConfigError(f"parser compare: expected two different parsers, got {first} twice")
    check_ending(".html", page=page)
    check_at_least(1, samples=samples)
    check_at_least(0, trees=trees)
    for name in (first, second):
        check_parser(name, hardware)
    from structattn.inspection.parser_comparison import compare_parsers, comparison_page

    gold = read_gold(treebank)
    words = [sentence.words for sentence in gold]
    parsed = {
        name: parse(words, load_parser(name, hardware), batch_size=batch_size, hardware=hardware)
        for name in (first, second)
    }
    report = compare_parsers(gold, parsed, samples=samples, seed=seed)
    if page is not None:
        with replace_text(page) as stream:
            stream.write(comparison_page(gold, parsed, report, shown=trees))
    yield from [jsonlib.dumps(report.to_dict())] if json else str(report).split("\n")
