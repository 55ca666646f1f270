"""Formats that come with trees: SST, SNLI with its own parses, CoNLL-U by sentences or documents, Penn brackets."""

import bisect
import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, get_args

from structattn.data.example import Example
from structattn.data.joining import join_sentences
from structattn.data.readers.fields import TARGETS, Location, check_target, parse_label
from structattn.data.readers.formats import Phrases
from structattn.data.readers.json_records import read_json_objects
from structattn.data.span_tags import tag_spans
from structattn.errors import ConfigError, MissingStructure, ParseError, shown
from structattn.files.item_faults import answer_each
from structattn.files.text import MAX_LINE, MAX_PHRASE_WORDS, MAX_WORDS, Source, check_lines, read_lines
from structattn.syntax.brackets import TreeLines, read_trees
from structattn.syntax.conllu import Block, read_blocks
from structattn.syntax.constituency_tree import ConstituencyTree
from structattn.syntax.dependency_tree import DependencyTree
from structattn.syntax.sentence import Sentence

_SST_LABELS = frozenset("01234")
_NEUTRAL, _LIGHT = "2", 0.25
_SNLI_KEYS = ("gold_label", "sentence1_parse", "sentence2_parse")
# Metadata of a sentence, rather than of its document.
_OF_A_SENTENCE = ("sent_id", "text")
_PHRASE_HEADS = frozenset(("NOUN", "PROPN", "PRON"))
_PHRASE_RELATIONS = frozenset(("det", "amod", "nummod", "compound", "flat", "nmod:poss", "nmod:desc"))


def read_sst(path: Source, *, phrases: Phrases = "none") -> Iterator[Example]:
    """Stanford Sentiment Treebank (Socher et al. 2013): a tree per line, labels from 0 to 4 on all phrases and words.

    With ``phrases="weighted"`` a neutral phrase has a quarter of the weight of other examples, as in DiSAN's code.
    """
    if phrases not in get_args(Phrases):
        raise ConfigError(f"unknown value {phrases!r} for phrases; known: {', '.join(get_args(Phrases))}")
    seen: set[tuple[tuple[str, ...], str]] = set()

    def make_examples(item: tuple[int, tuple[int, str]]) -> list[Example]:
        count, (number, line) = item
        check_lines(path, item[1])
        tree = _parse_tree(line, Location(path, number))
        subtrees = tree.labelled_subtrees()
        labels = {*tree.tags, *(label for label, _, _ in tree.spans)}
        if not subtrees or subtrees[0][2] - subtrees[0][1] != len(tree.words) or not labels <= _SST_LABELS:
            wrong = sorted(shown(label) for label in itertools.islice(labels - _SST_LABELS, 5))
            raise ParseError(
                f"expected a label from 0 to 4 on every phrase and word, got {', '.join(wrong) or 'no root'}",
                file=path,
                line=number,
            )
        if phrases == "none":
            return [_make_sst_example(tree, subtrees[0][0], str(count), number)]
        if sum(end - start for _, start, end in subtrees) > MAX_PHRASE_WORDS:
            message = f"expected phrases of at most {MAX_PHRASE_WORDS:,} words together"
            raise ParseError(message, file=path, line=number)
        examples = []
        for index, (label, start, end) in enumerate(subtrees):
            key = (tree.words[start:end], label)
            if phrases != "all":
                if key in seen:
                    continue
                seen.add(key)
            weight = _LIGHT if phrases == "weighted" and index > 0 and label == _NEUTRAL else 1.0
            name = f"{count}/{index}" if index else str(count)
            examples.append(_make_sst_example(_cut_phrase(tree, start, end), label, name, number, weight=weight))
        return examples

    filled = (row for row in read_lines(path, escape=True) if row[1].strip())
    return itertools.chain.from_iterable(answer_each(make_examples, enumerate(filled)))


def read_snli(path: Source) -> Iterator[Example]:
    """SNLI (Bowman et al. 2015) as published: JSON lines with Penn parses of both sentences.

    Pairs without a majority label (``-``) are dropped; dependency trees are derived from the parses by head rules.
    """

    def make_examples(item: tuple[Location, dict[str, Any], int]) -> list[Example]:
        location, record, _ = item
        if not all(isinstance(record.get(key), str) for key in _SNLI_KEYS):
            keys = ", ".join(record)[:80]
            raise location.error(f"expected a JSON object with text under {', '.join(_SNLI_KEYS)}, got {keys}")
        if record["gold_label"] == "-":
            return []
        sentences = []
        for key in _SNLI_KEYS[1:]:
            tree = _parse_tree(record[key], location)
            sentences.append(_make_penn_sentence(tree, dependency=tree.to_dependency()))
        label = parse_label(record["gold_label"], location, target="class")
        return [Example(sentences, label, id=str(record.get("pairID", "")), line=location.example_line)]

    return itertools.chain.from_iterable(answer_each(make_examples, read_json_objects(path)))


def read_treebank(path: Source, *, target: str = "class") -> Iterator[Example]:
    """CoNLL-U sentences; the label is the comment ``# label = ...``, the id ``# sent_id = ...``.

    The targets ``heads``, ``tags`` and ``noun_phrases`` have an answer for each word instead, separated by spaces.
    """
    check_target(target, (*TARGETS, *_OF_WORDS))

    def make_example(item: tuple[int, Block]) -> Example:
        count, block = item
        sentence = block.parse()
        name = sentence.metadata.get("sent_id", str(count))
        if target in _OF_WORDS:
            answers = _OF_WORDS[target](sentence)
            return Example((sentence,), None if answers is None else " ".join(answers), id=name)
        return Example((sentence,), _read_label(sentence.metadata, f"sentence {name}", path, target), id=name)

    return answer_each(make_example, enumerate(read_blocks(path)))


def _read_label(metadata: Mapping[str, str], name: str, path: Source, target: str) -> str | float | None:
    text = metadata.get("label")
    try:
        return None if text is None else parse_label(text, Location(path, 0), target=target)
    except ParseError as error:
        raise ParseError(f"{name}: {error.message}", file=path) from None


def _list_heads(sentence: Sentence) -> list[str] | None:
    return None if sentence.dependency is None else list(map(str, sentence.dependency.heads))


def _tag_noun_phrases(sentence: Sentence) -> list[str] | None:
    try:
        return tag_spans(find_noun_phrases(sentence), len(sentence))
    except MissingStructure:
        return None


_OF_WORDS: Mapping[str, Callable[[Sentence], Sequence[str] | None]] = {
    "heads": _list_heads,
    "tags": lambda sentence: sentence.tags,
    "noun_phrases": _tag_noun_phrases,
}
"""The targets with an answer for each word."""


def find_noun_phrases(sentence: Sentence) -> list[tuple[int, int, str]]:
    """Start, end and universal tag of the head of each noun phrase of a UD tree that contains no other one.

    The span of a NOUN, PROPN or PRON grows while the next word is a det, amod, nummod, compound, ... of a word in it.
    """
    tree, tags = sentence.dependency, sentence.tags
    if tree is None or tags is None or tree.labels is None:
        raise MissingStructure(
            f"noun phrases need tags and a dependency tree with relations; {sentence.text[:60]!r} lacks them"
        )
    joins = [label in _PHRASE_RELATIONS or label.startswith("compound") for label in tree.labels]
    phrases: list[tuple[int, int, str]] = []
    for head, tag in enumerate(tags):
        if tag not in _PHRASE_HEADS:
            continue
        start, end = head, head + 1
        while start > 0 and joins[start - 1] and start <= tree.heads[start - 1] - 1 < end:
            start -= 1
        while end < len(tags) and joins[end] and start <= tree.heads[end] - 1 < end:
            end += 1
        phrases.append((start, end, tag))
    inside = {p for p in phrases for q in phrases if p[:2] != q[:2] and q[0] <= p[0] and p[1] <= q[1]}
    return [phrase for phrase in phrases if phrase not in inside]


def read_bracketed(path: Source) -> Iterator[Example]:
    """Penn-style brackets, without labels: traces, function tags and indices are removed."""
    return answer_each(lambda item: Example((make_bracketed(item[1]),), id=str(item[0])), enumerate(read_trees(path)))


def make_bracketed(item: TreeLines) -> Sentence:
    """The sentence of a tree in a file of brackets, without traces, function tags and indices."""
    return _make_penn_sentence(item.parse().without_empty_leaves().without_function_tags())


def _parse_tree(text: str, location: Location) -> ConstituencyTree:
    try:
        return ConstituencyTree.from_brackets(text)
    except ParseError as error:
        raise location.error(error.message) from None


def _make_penn_sentence(tree: ConstituencyTree, dependency: DependencyTree | None = None) -> Sentence:
    tags = [tag for tag in tree.tags if tag is not None]
    complete = tags if len(tags) == len(tree.words) else None
    return Sentence(tree.words, complete, dependency, tree)


def _make_sst_example(tree: ConstituencyTree, label: str, name: str, line: int, *, weight: float = 1.0) -> Example:
    return Example((Sentence(tree.words, constituency=tree),), label, id=name, weight=weight, line=line)


def _cut_phrase(tree: ConstituencyTree, start: int, end: int) -> ConstituencyTree:
    """The tree over the words ``start`` to ``end``, which must be one of its phrases or words."""
    if (start, end) == (0, len(tree.words)):
        return tree
    # Spans are sorted by their first word, the longer first, so those of a phrase follow each other.
    first = bisect.bisect_left(tree.spans, (start, -end), key=lambda span: (span[1], -span[2]))
    last = bisect.bisect_left(tree.spans, end, lo=first, key=lambda span: span[1])
    spans = [(label, left - start, right - start) for label, left, right in tree.spans[first:last]]
    return ConstituencyTree(tree.words[start:end], spans, tags=tree.tags[start:end])


def read_documents(path: Source, *, target: str = "class") -> Iterator[Example]:
    """CoNLL-U in which each ``# newdoc`` starts an example, as ``structattn parse`` writes it.

    The label is the first sentence's ``# label = ...``; ``PhraseTrees`` puts a root over the trees side by side.
    """
    check_target(target)

    def make_example(item: tuple[int, list[Block]]) -> Example:
        count, blocks = item
        size = sum(max(1, len(block.lines) - len(block.comments)) for block in blocks)
        if size > MAX_WORDS or sum(len(line) for block in blocks for _, line in block.lines) > MAX_LINE:
            limits = f"{MAX_WORDS:,} words and {MAX_LINE:,} characters"
            raise ParseError(f"expected documents of at most {limits}, document {count + 1} has more", file=path)
        sentences = [block.parse() for block in blocks]
        metadata = {key: value for key, value in sentences[0].metadata.items() if key not in _OF_A_SENTENCE}
        name = metadata.get("newdoc id") or str(count)
        label = _read_label(metadata, f"document {name}", path, target)
        document = dataclasses.replace(join_sentences(sentences), metadata=metadata)
        return Example((document,), label, id=name)

    return answer_each(make_example, enumerate(_group_documents(path)))


def _group_documents(path: Source) -> Iterator[list[Block]]:
    for number, blocks in itertools.groupby(_number_documents(path), key=lambda pair: pair[0]):
        if number == 0:
            raise ParseError("expected a comment '# newdoc' at the first sentence, got none", file=path)
        document = []
        words = characters = 0
        for _, block in blocks:
            document.append(block)
            words += max(1, len(block.lines) - len(block.comments))
            characters += sum(len(line) for _, line in block.lines)
            if words > MAX_WORDS or characters > MAX_LINE or block.fault is not None:
                break  # the rest is passed over
        yield document


def _number_documents(path: Source) -> Iterator[tuple[int, Block]]:
    """Each sentence with the number of its document, counted from 1."""
    number = 0
    for block in read_blocks(path):
        is_first = not {"newdoc", "newdoc id"}.isdisjoint(block.metadata)
        number += is_first or (block.fault is not None and not number)
        yield number, block
