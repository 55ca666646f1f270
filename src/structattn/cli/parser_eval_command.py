"""``structattn parser eval``: attachment scores and speed of a parser on a treebank."""

import dataclasses
import json as jsonlib
import time
from collections.abc import Iterator

from structattn.cli.terminal_tables import format_metrics
from structattn.options.hardware import Hardware
from structattn.parsing import load_parser, parse, score_attachment
from structattn.parsing.gold_trees import read_gold
from structattn.parsing.parsers import check_parser


def command(
    treebank: str, *, parser: str, num_workers: int = 1, batch_size: int = 2048, hardware: Hardware, json: bool = False
) -> Iterator[str]:
    """Measure attachment scores of a parser on the words of a treebank; punctuation counts.

    Args:
        treebank: a CoNLL-U file with gold trees.
        parser: en, the English parser of this package, or en:rules, which splits texts by rules; spacy:MODEL,
            stanza:LANGUAGE, structattn:FOLDER, or a file of trees: FILE.conllu, FILE.mrg.
        num_workers: number of processes.
        batch_size: sentences per batch and process.
        hardware: where structattn:FOLDER runs, and the precision.
        json: print one JSON object.
    """
    check_parser(parser, hardware)
    gold = read_gold(treebank)
    loaded = load_parser(parser, hardware) if num_workers == 1 else parser
    begun = time.perf_counter()
    words = [sentence.words for sentence in gold]
    parsed = parse(words, loaded, num_workers=num_workers, batch_size=batch_size, hardware=hardware)
    speed = {"sentences_per_second": round(len(gold) / (time.perf_counter() - begun), 1)}
    values = {**dataclasses.asdict(score_attachment(gold, parsed)), **speed}
    yield jsonlib.dumps(values) if json else format_metrics(values)
