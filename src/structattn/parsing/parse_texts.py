"""Parsing many texts: in batches, in several processes, through a cache, with a progress bar."""

import collections
import contextlib
import dataclasses
import itertools
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set, Sized
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, overload

from structattn.errors import ConfigError, ParseError, StructAttnError, shown
from structattn.files.item_faults import refuse_item
from structattn.files.progress import Bar, Progress, open_progress
from structattn.options.hardware import Hardware
from structattn.parsing.batched_parsing import concatenate
from structattn.parsing.parse_cache import ParseCache, make_key
from structattn.parsing.parsers import DEFAULT_PARSER, Document, Parser, Text, resolve_parser
from structattn.parsing.processes import open_pool
from structattn.syntax import ConstituencyTree, Sentence

LOGGER = logging.getLogger("structattn.parsing")
_Content = str | tuple[str, ...]
_Parses = list[Sentence] | StructAttnError
_Begin = Callable[[Sequence[_Content]], Callable[[], list[_Parses]]]
# The column of enhanced dependencies in CoNLL-U.
_DEPS = 8


@overload
def parse(
    texts: Iterator[Text],
    parser: Any = ...,
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
    texts: str | Sentence | Document | Sequence[Text],
    parser: Any = ...,
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
    texts: str | Sentence | Document | Iterable[Text],
    parser: Any = DEFAULT_PARSER,
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
        texts: a raw text, a document or a sentence; or any number of these, or of lists of words.
        parser: ``en``, the English parser of this package; ``spacy:MODEL``, ``stanza:LANGUAGE``, ``structattn:FOLDER``,
            a file of trees; a parser, or a loaded pipeline of spaCy.
        cache: a file that keeps parses by text, parser and version, created if missing. Texts in it are not parsed
            again, so an interrupted run resumes where it stopped.
        num_workers: number of processes. The result does not depend on it. Processes are spawned, so a script that
            asks for several must guard its main part by ``if __name__ == "__main__":``.
        batch_size: how many texts are parsed, and then kept in the cache, at a time.
        whole: make one sentence of each raw text, with a root for each sentence in it.
        constituency: add the phrases that follow from the dependencies, see ``ConstituencyTree.from_dependency``.
        progress: show a bar on stderr; by default on terminals only, and elsewhere a line in the log every ten seconds.
        total: number of texts, to estimate the time left; needed only if they come from an iterator.
        hardware: where ``en`` or ``structattn:FOLDER`` runs, and the precision, such as
            ``structattn.options.hardware.Hardware("cuda", "bf16")``; the CPU if ``None``.

    Returns:
        The sentences in the order of the texts: a list, or an iterator if ``texts`` is one.

    Raises:
        ConfigError: for an unknown kind of parser; the message lists the known ones. If there is no such device, or
            the parser does not run on it. For ``num_workers`` or ``batch_size`` below 1.
        MissingExtra: if the parser's package is not installed.
        ParseError: if the cache or the parser's files cannot be read.
        StructAttnError: if a process is killed; with a cache, the same call resumes.
        TypeError: for a table, a mapping, a set, or anything else that is no list of texts.

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
    parsed = parse_each(
        _list_texts(texts),
        parser,
        cache,
        num_workers=num_workers,
        batch_size=batch_size,
        whole=whole,
        progress=progress,
        total=total,
        hardware=hardware,
    )
    sentences = (add_phrases(sentence) if constituency else sentence for _, text in parsed for sentence in text)
    return sentences if isinstance(texts, Iterator) else list(sentences)


def _list_texts(texts: Any) -> Iterable[Text]:
    """One text as a list; what would be read in no order, or by the names of its columns, is refused."""
    if isinstance(texts, str | Sentence | Document):
        return [texts]
    if hasattr(texts, "columns") or not isinstance(texts, Iterable) or isinstance(texts, Mapping | Set | bytes):
        raise TypeError(
            f"expected a text, or a list of texts, got {type(texts).__name__}; of a table parse the column of texts: "
            "parse(list(table['text']))"
        )
    return texts


def parse_each(
    texts: Iterable[Text | ParseError],
    parser: Any = DEFAULT_PARSER,
    cache: str | os.PathLike[str] | None = None,
    *,
    num_workers: int = 1,
    batch_size: int = 2048,
    whole: bool = False,
    progress: bool | None = None,
    total: int | None = None,
    hardware: Hardware | None = None,
) -> Iterator[tuple[Text, list[Sentence]]]:
    """Stream each text with its sentences; arguments and errors are those of ``parse``.

    An error in place of a text, which could not be read, is refused.
    """
    if num_workers < 1 or batch_size < 1:
        raise ConfigError(f"expected at least one worker and one text per batch, got {num_workers} and {batch_size}")
    loaded = resolve_parser(parser, hardware)
    shared = parser if isinstance(parser, str) else loaded  # a name is shorter than what it stands for
    origin = (loaded.name, loaded.version)
    if total is None and isinstance(texts, Sized):
        total = len(texts)
    with contextlib.ExitStack() as stack:
        store = None if cache is None else stack.enter_context(ParseCache(Path(cache)))
        begin = stack.enter_context(_open_workers(shared, loaded, num_workers, hardware=hardware))
        bars: list[Progress] = []
        if progress is not False:
            bars.append(Bar(total, unit="text") if progress else open_progress(total, unit="text", logger=LOGGER))
            stack.callback(bars[0].close)
        iterator = iter(texts)
        chunks = iter(lambda: list(itertools.islice(iterator, batch_size)), [])
        batches = (_Batch(chunk, origin, store=store, begin=begin) for chunk in chunks)
        # Enough work for every process, and no more in memory.
        under_way = _start_ahead(batches, 1 if num_workers == 1 else 2 * num_workers)
        pairs = (pair for batch in under_way for pair in batch.finish())
        for number, (text, sentences) in enumerate(pairs, start=1):
            if isinstance(text, ParseError):
                refuse_item(text)
            elif isinstance(sentences, StructAttnError):
                refuse_item(_name_text(sentences, number))
            else:
                yield text, _complete(text, sentences, number, whole=whole, origin=" ".join(origin))
            for bar in bars:
                bar.update()


def add_phrases(sentence: Sentence) -> Sentence:
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
        self, texts: Sequence[Text | ParseError], origin: tuple[str, str], *, store: ParseCache | None, begin: _Begin
    ) -> None:
        self.texts = texts
        self.store = store
        contents = [_content(text) for text in texts]
        self.keys = [make_key(origin, content) for content in contents]
        by_key = dict(zip(self.keys, contents, strict=True))
        self.cached = {} if store is None else store.get(list(by_key))
        self.missing = [key for key in by_key if key not in self.cached]
        self.result = begin([by_key[key] for key in self.missing])

    def finish(self) -> Iterator[tuple[Text | ParseError, _Parses]]:
        """Each text with its sentences, once they are parsed and stored."""
        try:
            new = dict(zip(self.missing, self.result(), strict=True))
        except BrokenProcessPool:
            raise StructAttnError("a parsing process was killed (out of memory?); finished batches are kept") from None
        if self.store is not None and new:
            self.store.put({key: parses for key, parses in new.items() if not isinstance(parses, StructAttnError)})
        parses = {**self.cached, **new}
        return zip(self.texts, [parses[key] for key in self.keys], strict=True)


def _content(text: Text | ParseError) -> _Content:
    if isinstance(text, ParseError):
        return ""
    if isinstance(text, str | Document):
        return text if isinstance(text, str) else text.text
    if not isinstance(text, Sequence | Sentence):
        raise TypeError(f"expected a text, a list of words or a sentence, got {type(text).__name__} {shown(text)}")
    return text.words if isinstance(text, Sentence) else Sentence(text).words


def _complete(text: Text, sentences: Sequence[Sentence], number: int, *, whole: bool, origin: str) -> list[Sentence]:
    """The sentences of one text with their ids, which the cache does not keep as they depend on the text's position."""
    if isinstance(text, Sentence):
        (parsed,) = sentences
        sentence = Sentence(
            parsed.words,
            parsed.tags,
            parsed.dependency,
            parsed.constituency or text.constituency,
            text.relations,
            metadata={**text.metadata, "parser": origin},
            rows=_plain_rows(text),
            comments=text.comments,
        )
        return [sentence]
    name, metadata = (text.name, text.metadata) if isinstance(text, Document) else (str(number), {})
    content = _content(text)
    if isinstance(content, str) and whole:
        sentences = [concatenate(sentences, metadata={"text": " ".join(content.split())})]
    is_split = isinstance(content, str) and not whole
    if not sentences and isinstance(text, Document):
        # An example of a data set: without a sentence its label would be lost.
        sentences = [concatenate((), metadata={"text": ""})]
    if is_split and isinstance(text, Document):
        metadata = {"newdoc id": name, **metadata}
    # A document's metadata belongs to its first sentence.
    return [
        dataclasses.replace(
            sentence,
            metadata={
                **(metadata if index == 1 else {}),
                "sent_id": f"{name}-{index}" if is_split else name,
                **sentence.metadata,
                "parser": origin,
            },
        )
        for index, sentence in enumerate(sentences, start=1)
    ]


def _name_text(error: StructAttnError, number: int) -> StructAttnError:
    """The error about a text, of the same kind, with its number."""
    kind = next((kind for kind in (ParseError, ConfigError) if isinstance(error, kind)), StructAttnError)
    return kind(f"text {number:,}: {error}")


def _plain_rows(sentence: Sentence) -> list[tuple[str, ...]]:
    """The other columns of a sentence from a treebank, without enhanced dependencies and their empty nodes."""
    return [(*row[:_DEPS], "_", *row[_DEPS + 1 :]) for row in sentence.rows if "." not in row[0]]


def _start_ahead(batches: Iterator[_Batch], size: int) -> Iterator[_Batch]:
    """The same batches, with the next ones started ahead."""
    begun: collections.deque[_Batch] = collections.deque()
    for batch in batches:
        begun.append(batch)
        if len(begun) >= size:
            yield begun.popleft()
    yield from begun


@contextlib.contextmanager
def _open_workers(
    parser: str | Parser, loaded: Parser, num_workers: int, *, hardware: Hardware | None
) -> Iterator[_Begin]:
    """A function that starts parsing and returns a function that waits for the result."""
    if num_workers == 1:
        yield lambda contents: lambda: _parse_contents(loaded, contents)
        return
    with open_pool(num_workers, _start, parser, hardware) as pool:
        yield lambda contents: pool.submit(_work, contents).result


def _parse_contents(parser: Parser, contents: Sequence[_Content]) -> list[_Parses]:
    """The sentences of texts; an error in place of those of one that cannot be parsed, which halving finds."""
    try:
        return [*_parse_all(parser, contents)]
    except StructAttnError as error:
        if len(contents) == 1:
            return [error]
    half = len(contents) // 2
    return _parse_contents(parser, contents[:half]) + _parse_contents(parser, contents[half:])


def _parse_all(parser: Parser, contents: Sequence[_Content]) -> list[list[Sentence]]:
    texts = [content for content in contents if isinstance(content, str)]
    words = [content for content in contents if not isinstance(content, str)]
    of_texts = iter(parser.parse_texts(texts) if texts else [])
    of_words = iter(parser.parse_words(words) if words else [])
    return [next(of_texts) if isinstance(content, str) else [next(of_words)] for content in contents]


# The parser of a worker process, loaded once.
_parser: list[Parser] = []


def _start(parser: str | Parser, hardware: Hardware | None) -> None:
    _parser.append(resolve_parser(parser, hardware))


def _work(contents: Sequence[_Content]) -> list[_Parses]:
    return _parse_contents(_parser[0], contents)
