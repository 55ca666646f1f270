"""Parsing many texts: in batches, in several processes, through a cache, with a progress bar."""

import collections
import contextlib
import dataclasses
import itertools
import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import overload

from tqdm import tqdm  # type: ignore[import-untyped]

from structattn.errors import ConfigError, StructAttnError
from structattn.options.hardware import Hardware
from structattn.parsing.batches import side_by_side
from structattn.parsing.cache import ParseCache, cache_key
from structattn.parsing.documents import Document
from structattn.parsing.names import DEFAULT_PARSER, parser_of
from structattn.parsing.parser import Parser
from structattn.parsing.processes import end_with_parent
from structattn.syntax import ConstituencyTree, Sentence

Text = str | Sequence[str] | Sentence | Document
"""A raw text, with or without a name, the words of one sentence, or a sentence whose words are parsed again."""
_Content = str | tuple[str, ...]
# The column of enhanced dependencies in CoNLL-U.
_DEPS = 8
_Begin = Callable[[Sequence[_Content]], Callable[[], list[list[Sentence]]]]


@overload
def parse(
    texts: Iterator[Text],
    parser: str | Parser = ...,
    cache: str | os.PathLike[str] | None = ...,
    *,
    num_workers: int = ...,
    batch_size: int = ...,
    whole: bool = ...,
    constituency: bool = ...,
    progress: bool | None = ...,
    total: int | None = ...,
    hardware: Hardware | None = ...,
) -> Iterator[Sentence]: ...


@overload
def parse(
    texts: str | Sequence[Text],
    parser: str | Parser = ...,
    cache: str | os.PathLike[str] | None = ...,
    *,
    num_workers: int = ...,
    batch_size: int = ...,
    whole: bool = ...,
    constituency: bool = ...,
    progress: bool | None = ...,
    total: int | None = ...,
    hardware: Hardware | None = ...,
) -> list[Sentence]: ...


def parse(
    texts: str | Iterable[Text],
    parser: str | Parser = DEFAULT_PARSER,
    cache: str | os.PathLike[str] | None = None,
    *,
    num_workers: int = 1,
    batch_size: int = 2048,
    whole: bool = False,
    constituency: bool = False,
    progress: bool | None = None,
    total: int | None = None,
    hardware: Hardware | None = None,
) -> list[Sentence] | Iterator[Sentence]:
    """Find the dependency trees and tags of texts.

    One text gives the list of its sentences, a list of texts the list of all their sentences. An iterator of texts
    gives an iterator that parses as it is consumed, ``batch_size`` texts at a time, so that memory does not grow.

    A raw text may contain several sentences or none. They are returned in order, with ``sent_id``
    ``<text>-<sentence>`` (both counted from 1) and ``text`` in their metadata. A list of words is one sentence with
    these words. A ``Sentence`` keeps its words, its metadata and, from a treebank, its lemmas, features,
    language-specific tags and multiword tokens; enhanced dependencies and their empty nodes, which belong to another
    tree, are left out. A ``Document`` is a raw text under its own name, and its first sentence carries its metadata; a
    document without text gives one sentence without words. ``parser`` in the metadata names the parser.

    Args:
        texts: a raw text; or any number of raw texts, documents, lists of words, or sentences.
        parser: ``en``, the English parser of this package; ``spacy:MODEL``, ``stanza:LANGUAGE``, ``structattn:FOLDER``,
            a file of trees, or a parser.
        cache: a file that keeps parses by text, parser and version, created if missing. Texts in it are not parsed
            again, so an interrupted run resumes where it stopped.
        num_workers: number of processes. The result does not depend on it. Processes are spawned, so a script that
            asks for several must guard its main part by ``if __name__ == "__main__":``.
        batch_size: how many texts are parsed, and then kept in the cache, at a time.
        whole: make one sentence of each raw text, with a root for each sentence in it.
        constituency: add the phrases that follow from the dependencies, see ``ConstituencyTree.from_dependency``.
        progress: show a bar on stderr; by default on terminals only.
        total: number of texts, to estimate the time left; needed only if they come from an iterator.
        hardware: where ``en`` or ``structattn:FOLDER`` runs, and the precision, such as
            ``sa.layers.Hardware("cuda", "bf16")``; the CPU if ``None``.

    Raises:
        ConfigError: for an unknown kind of parser; the message lists the known ones. If there is no such device, or
            the parser does not run on it.
        MissingExtra: if the parser's package is not installed.

    Example:
        >>> import structattn as sa
        >>> (kids,) = sa.parse("Two kids wash their hands")
        >>> kids.words, kids.dependency.heads
        (('Two', 'kids', 'wash', 'their', 'hands'), (2, 3, 0, 5, 3))
        >>> from structattn.parsing import TreeParser, build_parser
        >>> gold = sa.Sentence(["kids", "wash"], ["NOUN", "VERB"], sa.DependencyTree([2, 0], ["nsubj", "root"]))
        >>> parser = TreeParser(build_parser([gold]), version="untrained")
        >>> first, second, third = sa.parse(["Kids wash. Kids don't.", ["Kids", "wash"]], parser)
        >>> second.words, second.metadata["sent_id"], third.metadata
        (('Kids', 'do', "n't", '.'), '1-2', {'sent_id': '2', 'parser': 'structattn untrained'})
    """
    found = parse_each(
        [texts] if isinstance(texts, str) else texts,
        parser,
        cache,
        num_workers=num_workers,
        batch_size=batch_size,
        whole=whole,
        progress=progress,
        total=total,
        hardware=hardware,
    )
    sentences = (with_phrases(one) if constituency else one for text in found for one in text)
    return sentences if isinstance(texts, Iterator) else list(sentences)


def parse_each(
    texts: Iterable[Text],
    parser: str | Parser = DEFAULT_PARSER,
    cache: str | os.PathLike[str] | None = None,
    *,
    num_workers: int = 1,
    batch_size: int = 2048,
    whole: bool = False,
    progress: bool | None = None,
    total: int | None = None,
    hardware: Hardware | None = None,
) -> Iterator[list[Sentence]]:
    """Stream the sentences of each text; arguments and errors as for :func:`parse`.

    Args:
        texts: as for :func:`parse`.
        parser: likewise.
        cache: likewise.
        num_workers: likewise.
        batch_size: likewise.
        whole: likewise.
        progress: likewise.
        total: likewise.
        hardware: as for :func:`parse`.
    """
    if num_workers < 1 or batch_size < 1:
        raise ConfigError(f"expected at least one worker and one text per batch, got {num_workers} and {batch_size}")
    known = parser_of(parser, hardware) if isinstance(parser, str) else parser
    origin = (known.name, known.version)
    if total is None and isinstance(texts, Sized):
        total = len(texts)
    with contextlib.ExitStack() as stack:
        store = None if cache is None else stack.enter_context(ParseCache(Path(cache)))
        begin = stack.enter_context(_workers(parser, known, num_workers, hardware=hardware))
        disable = None if progress is None else not progress
        bar = stack.enter_context(tqdm(total=total, unit="text", disable=disable, dynamic_ncols=True))
        rest = iter(texts)
        chunks = iter(lambda: list(itertools.islice(rest, batch_size)), [])
        batches = (_Batch(some, origin, store=store, begin=begin) for some in chunks)
        # Enough work for every process, and no more in memory.
        under_way = _ahead(batches, 1 if num_workers == 1 else 2 * num_workers)
        pairs = (pair for batch in under_way for pair in batch.finish())
        for number, (text, sentences) in enumerate(pairs, start=1):
            yield _answers(text, sentences, number, whole=whole, origin=" ".join(origin))
            bar.update(1)


def with_phrases(sentence: Sentence) -> Sentence:
    """The sentence with the phrases that follow from its dependency tree, unless it already has phrases."""
    tree = sentence.dependency
    if sentence.constituency is not None:
        return sentence
    if tree is None:
        raise ValueError(f"expected a sentence with a dependency tree, got {sentence}")
    phrases = ConstituencyTree.from_dependency(sentence.words, tree)
    return dataclasses.replace(sentence, constituency=phrases)


class _Batch:
    """A batch in progress: cached parses, and those being computed."""

    def __init__(
        self, texts: Sequence[Text], origin: tuple[str, str], *, store: ParseCache | None, begin: _Begin
    ) -> None:
        self.texts = texts
        self.store = store
        contents = [_content(text) for text in texts]
        self.keys = [cache_key(origin, content) for content in contents]
        by_key = dict(zip(self.keys, contents, strict=True))
        self.known = {} if store is None else store.get(list(by_key))
        self.missing = [key for key in by_key if key not in self.known]
        self.result = begin([by_key[key] for key in self.missing])

    def finish(self) -> Iterator[tuple[Text, list[Sentence]]]:
        """Each text with its sentences, once they are parsed and kept."""
        try:
            new = dict(zip(self.missing, self.result(), strict=True))
        except BrokenProcessPool:
            raise StructAttnError("a parsing process was killed (out of memory?); finished batches are kept") from None
        if self.store is not None and new:
            self.store.put(new)
        found = {**self.known, **new}
        return zip(self.texts, [found[key] for key in self.keys], strict=True)


def _content(text: Text) -> _Content:
    if isinstance(text, str | Document):
        return text if isinstance(text, str) else text.text
    return text.words if isinstance(text, Sentence) else Sentence(text).words


def _answers(text: Text, sentences: Sequence[Sentence], number: int, *, whole: bool, origin: str) -> list[Sentence]:
    """The sentences of one text with their ids, which the cache does not keep as they depend on the text's position."""
    if isinstance(text, Sentence):
        (one,) = sentences
        found = Sentence(
            one.words,
            one.tags,
            one.dependency,
            one.constituency or text.constituency,
            text.relations,
            metadata={**text.metadata, "parser": origin},
            rows=_rows(text),
            comments=text.comments,
        )
        return [found]
    name, about = (text.name, text.metadata) if isinstance(text, Document) else (str(number), {})
    content = _content(text)
    if isinstance(content, str) and whole:
        sentences = [side_by_side(sentences, metadata={"text": " ".join(content.split())})]
    is_split = isinstance(content, str) and not whole
    if not sentences and isinstance(text, Document):
        # An example of a data set: without a sentence its label would be lost.
        sentences = [side_by_side((), metadata={"text": ""})]
    if is_split and isinstance(text, Document):
        about = {"newdoc id": name, **about}
    # A document's metadata belongs to its first sentence.
    return [
        _renamed(
            one,
            {
                **(about if place == 1 else {}),
                "sent_id": f"{name}-{place}" if is_split else name,
                **one.metadata,
                "parser": origin,
            },
        )
        for place, one in enumerate(sentences, start=1)
    ]


def _rows(sentence: Sentence) -> list[tuple[str, ...]]:
    """The other columns of a sentence from a treebank, without enhanced dependencies and their empty nodes."""
    return [(*row[:_DEPS], "_", *row[_DEPS + 1 :]) for row in sentence.rows if "." not in row[0]]


def _renamed(one: Sentence, metadata: Mapping[str, str]) -> Sentence:
    return Sentence(one.words, one.tags, one.dependency, one.constituency, metadata=metadata)


def _ahead(batches: Iterator[_Batch], size: int) -> Iterator[_Batch]:
    """The same batches, with the next ones started ahead."""
    begun: collections.deque[_Batch] = collections.deque()
    for batch in batches:
        begun.append(batch)
        if len(begun) >= size:
            yield begun.popleft()
    yield from begun


@contextlib.contextmanager
def _workers(parser: str | Parser, known: Parser, num_workers: int, *, hardware: Hardware | None) -> Iterator[_Begin]:
    """A function that starts parsing and returns a function that waits for the result."""
    if num_workers == 1:
        yield lambda contents: lambda: _parsed(known, contents)
        return
    # Not forked: a copy of a process that has started threads may hang.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(num_workers, mp_context=context, initializer=_start, initargs=(parser, hardware)) as pool:
        try:
            yield lambda contents: pool.submit(_work, contents).result
        finally:
            pool.shutdown(cancel_futures=True)


def _parsed(parser: Parser, contents: Sequence[_Content]) -> list[list[Sentence]]:
    texts = [content for content in contents if isinstance(content, str)]
    words = [content for content in contents if not isinstance(content, str)]
    of_texts = iter(parser.parse_texts(texts) if texts else [])
    of_words = iter(parser.parse_words(words) if words else [])
    return [next(of_texts) if isinstance(content, str) else [next(of_words)] for content in contents]


# The parser of a worker process, loaded once.
_own: list[Parser] = []


def _start(parser: str | Parser, hardware: Hardware | None) -> None:
    end_with_parent()
    _own.append(parser_of(parser, hardware) if isinstance(parser, str) else parser)


def _work(contents: Sequence[_Content]) -> list[list[Sentence]]:
    return _parsed(_own[0], contents)
