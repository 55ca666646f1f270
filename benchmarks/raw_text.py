"""Parsers on raw text: F1 of sentences, tokens, words and arcs, as the CoNLL 2018 shared task defines them.

A unit is right if the other side has one over the same characters of the text, white space left out; an arc is right if
both of its words are, and counts for LAS if its relation is right without its subtype. The words of a contraction have
no characters of their own: within its characters they are aligned by their forms. F1 is the harmonic mean of the right
share of the parser's units and of the treebank's. Reference: Zeman et al. (2018), CoNLL 2018 Shared Task: Multilingual
Parsing from Raw Text to Universal Dependencies, section 5.

Each paragraph of the treebank is one text, so the parser has to find its sentences and its words.

    python -m benchmarks.raw_text en_ewt-ud-dev.conllu.gz en_gum-ud-dev.conllu.gz [--parsers en en:rules]
"""

import argparse
import bisect
import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from benchmarks.markdown import header, line
from structattn.parsing import load_parser, parse
from structattn.syntax import Sentence, read_conllu

COLUMNS = ("treebank", "parser", "sentences", "tokens", "words", "UAS", "LAS")


@dataclass(frozen=True)
class Word:
    """A word: the characters that it, or the contraction that it is of, has; its form; its head, -1 for the root."""

    start: int
    end: int
    form: str
    head: int
    relation: str
    is_shared: bool


@dataclass
class Units:
    """The characters of a text, and what is over them."""

    characters: str
    sentences: list[tuple[int, int]]
    tokens: list[tuple[int, int]]
    words: list[Word]


def list_units(sentences: Sequence[Sentence]) -> Units:
    """The units of sentences in a row."""
    units = Units("", [], [], [])
    for sentence in sentences:
        begin, first = len(units.characters), len(units.words)
        tree = sentence.dependency
        assert tree is not None
        ranges = {row[0].partition("-")[0]: row for row in sentence.rows if "-" in row[0]}
        number = 0
        while number < len(sentence):
            row = ranges.get(str(number + 1))
            last = number + 1 if row is None else int(row[0].partition("-")[2])
            start = len(units.characters)
            units.characters += "".join((sentence.words[number] if row is None else row[1]).split())
            span = (start, len(units.characters))
            units.tokens.append(span)
            for word in range(number, last):
                head = tree.heads[word] - 1
                relation = (tree.labels or ("dep",) * len(tree))[word].partition(":")[0]
                form = sentence.words[word].lower()
                units.words.append(Word(*span, form, head if head < 0 else head + first, relation, row is not None))
            number = last
        units.sentences.append((begin, len(units.characters)))
    return units


def align(gold: Sequence[Word], parsed: Sequence[Word]) -> dict[int, int]:
    """From each word of the parser that has a counterpart to that of the treebank."""
    pairs: dict[int, int] = {}
    for of_gold, of_parsed in _list_regions(gold, parsed):
        if any(gold[index].is_shared for index in of_gold) or any(parsed[index].is_shared for index in of_parsed):
            forms = [gold[index].form for index in of_gold], [parsed[index].form for index in of_parsed]
            for block in difflib.SequenceMatcher(None, *forms, autojunk=False).get_matching_blocks():
                pairs |= {of_parsed[block.b + step]: of_gold[block.a + step] for step in range(block.size)}
        else:
            spans = {(gold[index].start, gold[index].end): index for index in of_gold}
            for index in of_parsed:
                if (span := (parsed[index].start, parsed[index].end)) in spans:
                    pairs[index] = spans[span]
    return pairs


def _list_regions(gold: Sequence[Word], parsed: Sequence[Word]) -> Iterator[tuple[list[int], list[int]]]:
    """The words of both sides between two places where words of both sides end."""
    ends = sorted({word.end for word in gold} & {word.end for word in parsed})
    sides: tuple[list[list[int]], list[list[int]]] = [[] for _ in ends], [[] for _ in ends]
    for words, regions in zip((gold, parsed), sides, strict=True):
        for index, word in enumerate(words):
            regions[bisect.bisect_left(ends, word.end)].append(index)
    return zip(*sides, strict=True)


def measure(gold: Units, parsed: Units) -> dict[str, float]:
    """F1 in percent of sentences, tokens, words, UAS and LAS.

    Raises:
        ValueError: if the two are not over the same characters.
    """
    if gold.characters != parsed.characters:
        raise ValueError(f"expected the same characters, got {gold.characters[:40]!r} and {parsed.characters[:40]!r}")
    pairs = align(gold.words, parsed.words)
    heads = {-1: -1, **pairs}  # the root is the root
    arcs = [pair for pair in pairs.items() if heads.get(parsed.words[pair[0]].head) == gold.words[pair[1]].head]
    labelled = sum(parsed.words[index].relation == gold.words[other].relation for index, other in arcs)
    counts = {
        "sentences": (len({*gold.sentences} & {*parsed.sentences}), len(gold.sentences), len(parsed.sentences)),
        "tokens": (len({*gold.tokens} & {*parsed.tokens}), len(gold.tokens), len(parsed.tokens)),
        **{
            name: (right, len(gold.words), len(parsed.words))
            for name, right in (("words", len(pairs)), ("UAS", len(arcs)), ("LAS", labelled))
        },
    }
    return {name: 200 * right / (of_gold + of_parsed) for name, (right, of_gold, of_parsed) in counts.items()}


def list_paragraphs(sentences: Sequence[Sentence]) -> list[str]:
    """The texts of the paragraphs, or of the documents where no paragraph is marked."""
    texts: list[list[str]] = []
    for sentence in sentences:
        if not texts or any(key.startswith(("newpar", "newdoc")) for key in sentence.metadata):
            texts.append([])
        texts[-1].append(" ".join(sentence.text.split()))
    return [" ".join(text) for text in texts]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("treebanks", nargs="+", type=Path)
    options.add_argument("--parsers", nargs="+", default=["en", "en:rules"])
    options.add_argument("--threads", type=int, default=1)
    selected = options.parse_args()
    torch.set_num_threads(selected.threads)
    print(header(COLUMNS), flush=True)
    for path in selected.treebanks:
        gold = list(filter(len, read_conllu(path)))
        for name in selected.parsers:
            parsed = parse(list_paragraphs(gold), load_parser(name), progress=False)
            scores = measure(list_units(gold), list_units(parsed))
            print(line([path.name, name, *(f"{scores[column]:.2f}" for column in COLUMNS[2:])]), flush=True)


if __name__ == "__main__":
    main()
