"""Files of trees as parsers: existing trees, looked up by sentence."""

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from structattn.errors import ParseError
from structattn.parsing.splitting import split_sentences
from structattn.syntax import ConstituencyTree, DependencyTree, Sentence, read_brackets, read_conllu, split_words


class TreebankParser:
    """Looks sentences up in a CoNLL-U file, by their text or their words.

    A raw text is found if a sentence has it as ``# text``, if its words joined by spaces are the text, or if every
    sentence that ``split_sentences`` finds in it is in the file.

    Args:
        sentences: sentences with dependency trees.
        name: name of the parser.
        version: distinguishes it from other files of this name.
        file: the file that error messages name.

    Example:
        >>> kids = Sentence(["Kids", "wash", "."], dependency=DependencyTree([2, 0, 2]))
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
            text = _normal(sentence.text)
            self._by_words.setdefault(sentence.words, _with(sentence, {}))
            for key in (text, " ".join(sentence.words)):
                self._by_text.setdefault(key, _with(sentence, {"text": key}))

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

        Raises:
            ParseError: if one is not in the file.
        """
        return [self._found(self._by_words, tuple(words), words) for words in sentences]

    def parse_texts(self, texts: Sequence[str]) -> list[list[Sentence]]:
        """The sentences of these texts.

        Raises:
            ParseError: if one is not in the file.
        """
        return [self._text(text) for text in texts]

    def _text(self, text: str) -> list[Sentence]:
        if _normal(text) in self._by_text:
            return [self._by_text[_normal(text)]]
        sentences = []
        for part in split_sentences(text):
            words = split_words(part)
            one = self._by_text.get(part) or self._found(self._by_words, tuple(words), words)
            sentences.append(_with(one, {"text": part}))
        return sentences

    def _found(self, known: Mapping[tuple[str, ...], Sentence], key: tuple[str, ...], words: Sequence[str]) -> Sentence:
        if not key:
            return Sentence((), (), DependencyTree((), ()))
        if key not in known:
            raise ParseError(f"expected a tree for every sentence, {_shown(words)} has none", file=self.file)
        return known[key]


def _read_phrases(path: str | os.PathLike[str]) -> Iterator[Sentence]:
    for tree in read_brackets(path):
        plain = tree.without_empty_leaves().without_function_tags()
        yield Sentence(plain.words, _tags(plain), plain.to_dependency(), plain)


def read_gold(path: str) -> list[Sentence]:
    """The sentences of a treebank that a parser can learn from; those without words are left out.

    Raises:
        ParseError: as ``read_conllu``, or if a sentence has no labelled tree, no tags, or not exactly one root; the
            message names the sentence.
    """
    sentences = []
    for number, sentence in enumerate(read_conllu(path), start=1):
        if not len(sentence):
            continue
        tree = sentence.dependency
        name = f"sentence {number} ({sentence.metadata.get('sent_id', ' '.join(sentence.words[:5]))})"
        if tree is None or tree.labels is None or sentence.tags is None:
            raise ParseError(f"{name}: expected heads, labels and tags to learn from, they are missing", file=path)
        if len(tree.roots) != 1:
            raise ParseError(f"{name}: expected a tree with one root, got {len(tree.roots)} roots", file=path)
        # The other columns, which nothing here reads, would take most of the memory.
        sentences.append(Sentence(sentence.words, sentence.tags, tree))
    if not sentences:
        raise ParseError("expected at least one sentence with words", file=path)
    return sentences


def _with(sentence: Sentence, metadata: Mapping[str, str]) -> Sentence:
    return Sentence(sentence.words, sentence.tags, sentence.dependency, sentence.constituency, metadata=metadata)


def _tags(tree: ConstituencyTree) -> list[str] | None:
    tags = [tag for tag in tree.tags if tag is not None]
    return tags if len(tags) == len(tree.words) else None


def _version(path: str | os.PathLike[str]) -> str:
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()[:16]
    except OSError as error:
        raise ParseError(f"cannot read this file: {error.strerror}", file=path) from None


def _normal(text: str) -> str:
    return " ".join(text.split())


def _shown(words: Sequence[str]) -> str:
    return repr(" ".join(words[:8])) + ("..." if len(words) > 8 else "")
