"""Files of trees as parsers: existing trees, looked up by sentence."""

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from structattn.errors import ParseError
from structattn.parsing.sentence_splitting import split_sentences
from structattn.syntax import ConstituencyTree, DependencyTree, Sentence, read_brackets, read_conllu, split_words


class TreebankParser:
    """Looks sentences up among existing trees, by their text or their words.

    A raw text is found if a sentence has it as ``# text``, if its words joined by spaces are the text, or if every
    sentence that ``split_sentences`` finds in it is in the file. Of equal sentences, the first counts.

    Args:
        sentences: sentences with dependency trees.
        name: name of the parser.
        version: distinguishes it from other files of this name.
        file: the file that error messages name.

    Raises:
        ParseError: if a sentence has no dependency tree.

    Example:
        >>> import structattn as sa
        >>> kids = sa.Sentence(["Kids", "wash", "."], dependency=sa.DependencyTree([2, 0, 2]))
        >>> parser = TreebankParser([kids], name="conllu", version="1", file="kids.conllu")
        >>> parser.parse_texts(["Kids wash."])[0][0].dependency.heads
        (2, 0, 2)
    """

    def __init__(self, sentences: Iterable[Sentence], *, name: str, version: str, file: str) -> None:
        self.name = name
        self.version = version
        self.file = file
        self._by_words: dict[tuple[str, ...], Sentence] = {}
        self._by_text: dict[str, Sentence] = {}
        for sentence in sentences:
            if sentence.dependency is None:
                raise ParseError(f"expected heads of every word, {_shown(sentence.words)} has none", file=file)
            self._by_words.setdefault(sentence.words, _with_metadata(sentence, {}))
            for text in (_on_one_line(sentence.text), " ".join(sentence.words)):
                self._by_text.setdefault(text, _with_metadata(sentence, {"text": text}))

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> "TreebankParser":
        """Read a file: Penn brackets if its name ends in ``.mrg`` or ``.brackets``, otherwise CoNLL-U.

        Traces and function tags of brackets are taken out, and dependencies come from the phrases through head rules,
        without labels; see ``ConstituencyTree.to_dependency``.

        Args:
            path: the file, which may end in ``.gz``.

        Raises:
            ParseError: for a malformed file, or if a sentence of a CoNLL-U file has no tree.
        """
        is_brackets = os.fspath(path).removesuffix(".gz").endswith((".mrg", ".brackets"))
        sentences = _read_phrases(path) if is_brackets else read_conllu(path)
        name = "brackets" if is_brackets else "conllu"
        return cls(sentences, name=name, version=_version(path), file=os.fspath(path))

    def parse_words(self, sentences: Sequence[Sequence[str]]) -> list[Sentence]:
        """The sentences with these words.

        Args:
            sentences: lists of words; an empty one gives an empty tree.

        Raises:
            ParseError: if one is not in the file.
        """
        return [self._look_up(words) for words in sentences]

    def parse_texts(self, texts: Sequence[str]) -> list[list[Sentence]]:
        """The sentences of these texts.

        Args:
            texts: raw texts.

        Raises:
            ParseError: if a sentence is not in the file.
        """
        return [self._look_up_text(text) for text in texts]

    def _look_up_text(self, text: str) -> list[Sentence]:
        whole = self._by_text.get(_on_one_line(text))
        if whole is not None:
            return [whole]
        sentences = []
        for part in split_sentences(text):
            sentence = self._by_text.get(part) or self._look_up(split_words(part))
            sentences.append(_with_metadata(sentence, {"text": part}))
        return sentences

    def _look_up(self, words: Sequence[str]) -> Sentence:
        if not words:
            return Sentence((), (), DependencyTree((), ()))
        if tuple(words) not in self._by_words:
            raise ParseError(f"expected a tree for every sentence, {_shown(words)} has none", file=self.file)
        return self._by_words[tuple(words)]


def _read_phrases(path: str | os.PathLike[str]) -> Iterator[Sentence]:
    for tree in read_brackets(path):
        plain = tree.without_empty_leaves().without_function_tags()
        yield Sentence(plain.words, _tags(plain), plain.to_dependency(), plain)


def _with_metadata(sentence: Sentence, metadata: Mapping[str, str]) -> Sentence:
    return Sentence(sentence.words, sentence.tags, sentence.dependency, sentence.constituency, metadata=metadata)


def _tags(tree: ConstituencyTree) -> list[str] | None:
    tags = [tag for tag in tree.tags if tag is not None]
    return tags if len(tags) == len(tree.words) else None


def _version(path: str | os.PathLike[str]) -> str:
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()[:16]
    except OSError as error:
        raise ParseError(f"cannot read this file: {error.strerror}", file=path) from None


def _on_one_line(text: str) -> str:
    return " ".join(text.split())


def _shown(words: Sequence[str]) -> str:
    return repr(" ".join(words[:8])) + ("..." if len(words) > 8 else "")
