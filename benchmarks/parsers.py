"""Parsers side by side: attachment from the words of treebanks, and sentences a second from their raw texts.

Every word counts, punctuation included. Raw text is split by the parser itself; the seconds include that, but not
loading the parser. Those of the processor are what other programs on the machine change least. Besides `en` the
English pipelines of spaCy take part that are installed. Without a treebank the texts are the prose of these pages,
whose trees nobody knows.

    python -m benchmarks.parsers en_ewt-ud-dev.conllu.gz en_gum-ud-dev.conllu.gz [--parsers en spacy:en_core_web_sm]
"""

import argparse
import importlib.util
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from benchmarks.markdown import header, line
from structattn.options.hardware import Hardware
from structattn.parsing import Parser, load_parser, parse, score_attachment
from structattn.syntax import read_conllu

COLUMNS = ("treebank", "parser", "UAS", "LAS", "tags", "sentences per second of the processor", "of the clock")


def spacy_pipelines() -> list[str]:
    """The English pipelines of spaCy that are installed."""
    if importlib.util.find_spec("spacy") is None:
        return []
    import spacy

    return [f"spacy:{name}" for name in spacy.util.get_installed_models() if name.startswith("en_")]


def prose() -> list[str]:
    """The lines of the pages that are prose, each about as long as a sentence."""
    pages = sorted((Path(__file__).parent.parent / "docs").glob("*.md"))
    lines = [row for page in pages for row in page.read_text(encoding="utf-8").splitlines()]
    return [row for row in lines if row[:1].isalpha() and row.count(" ") > 4]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("treebanks", nargs="*", type=Path)
    options.add_argument("--parsers", nargs="+", default=["en", *spacy_pipelines()])
    options.add_argument("--mixed_precision", choices=["no", "bf16"], default="no", help="of our own parsers")
    options.add_argument("--turns", type=int, default=3)
    options.add_argument("--threads", type=int, default=1)
    selected = options.parse_args()
    torch.set_num_threads(selected.threads)
    precision = Hardware("cpu", selected.mixed_precision)
    ours = {name for name in selected.parsers if name == "en" or name.startswith("structattn:")}
    parsers = [load_parser(name, precision if name in ours else None) for name in selected.parsers]
    print(header(COLUMNS), flush=True)
    treebanks = {path.name: list(filter(len, read_conllu(path))) for path in selected.treebanks}
    for name, gold in treebanks.items() or [("docs", [])]:
        texts = [sentence.text for sentence in gold] or prose()
        # They take turns, so that a busy machine slows all of them alike.
        seconds = [[_seconds(parser, texts) for parser in parsers] for _ in range(selected.turns)]
        for parser, taken in zip(parsers, zip(*seconds, strict=True), strict=True):
            scores = [""] * 3
            if gold:
                attachment = score_attachment(gold, parse([sentence.words for sentence in gold], parser))
                scores = [f"{100 * share:.2f}" for share in (attachment.uas, attachment.las, attachment.tags)]
            speeds = [f"{len(texts) / statistics.median(clock):.0f}" for clock in zip(*taken, strict=True)]
            print(line([name, parser.name, *scores, *speeds]), flush=True)


def _seconds(parser: Parser, texts: Sequence[str]) -> tuple[float, float]:
    processor, clock = time.process_time(), time.perf_counter()
    parse(texts, parser, progress=False)
    return time.process_time() - processor, time.perf_counter() - clock


if __name__ == "__main__":
    main()
