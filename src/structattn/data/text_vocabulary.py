"""Texts as sequences of tokens that a decoder generates: words, characters, or subwords learnt from the data.

Splitting is lossless up to spacing, so that a text can be decoded from its ids.

Reference: Sennrich, Haddow and Birch (2016), Neural machine translation of rare words with subword units, section 3.2.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, Protocol, runtime_checkable

from structattn.data.vocabulary import UNKNOWN_ID, Vocabulary, sort_by_frequency
from structattn.errors import ConfigError, MissingExtra, require
from structattn.files.text import parse_json
from structattn.syntax.constituency_tree import ConstituencyTree
from structattn.syntax.dependency_tree import DependencyTree
from structattn.syntax.sentence import Sentence

TokenUnit = Literal["words", "characters", "subwords"]
BEGIN_ID, END_ID = 2, 3
_MARKS = ("<s>", "</s>")
_SPACE = "▁"
TARGET_FILE, TOKENIZER_FILE = "target.json", "tokenizer.json"


@runtime_checkable
class Splitter(Protocol):
    """Splits a text into tokens and joins tokens into a text."""

    kind: TokenUnit

    def split(self, text: str) -> list[str]:
        """The tokens of a text."""
        ...

    def join(self, tokens: Sequence[str]) -> str:
        """The text that the tokens spell."""
        ...


class WordSplitter:
    """Words separated by spaces."""

    kind: TokenUnit = "words"

    def split(self, text: str) -> list[str]:
        """The words."""
        return text.split()

    def join(self, tokens: Sequence[str]) -> str:
        """The words joined by spaces."""
        return " ".join(tokens)


class CharacterSplitter:
    """Single characters; a space is a token of its own, ``▁``."""

    kind: TokenUnit = "characters"

    def split(self, text: str) -> list[str]:
        """The characters."""
        return list(" ".join(text.split()).replace(" ", _SPACE))

    def join(self, tokens: Sequence[str]) -> str:
        """The text that the characters spell."""
        return "".join(tokens).replace(_SPACE, " ").strip()


class SubwordSplitter:
    """Byte-pair encoding (Sennrich et al. 2016, section 3.2); the first token of a word starts with ``▁``.

    ``tokenizer`` is one of the library ``tokenizers`` as JSON text, as ``train`` makes it.
    """

    kind: TokenUnit = "subwords"

    def __init__(self, tokenizer: str) -> None:
        self.tokenizer = tokenizer
        try:
            self._model = require("tokenizers", "train").Tokenizer.from_str(tokenizer)
        except MissingExtra:
            raise
        except Exception as error:  # the package raises nothing narrower
            raise ValueError(f"expected a tokenizer, but it cannot be read: {error}") from None

    @classmethod
    def train(cls, texts: Iterable[str], size: int) -> "SubwordSplitter":
        """Learn at most ``size`` tokens from texts, single characters included."""
        tokenizers = require("tokenizers", "train")
        tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>"))
        tokenizer.normalizer = tokenizers.normalizers.NFC()
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace(replacement=_SPACE, prepend_scheme="always")
        trainer = tokenizers.trainers.BpeTrainer(vocab_size=size, special_tokens=["<unk>"], show_progress=False)
        tokenizer.train_from_iterator((" ".join(text.split()) for text in texts), trainer)
        return cls(tokenizer.to_str())

    def split(self, text: str) -> list[str]:
        """The subwords."""
        tokens: list[str] = self._model.encode(" ".join(text.split())).tokens
        return tokens

    def join(self, tokens: Sequence[str]) -> str:
        """The text that the subwords spell."""
        return "".join(tokens).replace(_SPACE, " ").strip()


class TextVocabulary:
    """Token ids of texts: 0 padding, 1 unknown, 2 begin, 3 end, then the tokens by frequency."""

    def __init__(self, splitter: Splitter, tokens: Iterable[str]) -> None:
        self.splitter = splitter
        self.vocabulary = Vocabulary([*_MARKS, *tokens], lowercase=False)

    @classmethod
    def from_texts(
        cls, texts: Iterable[str], kind: TokenUnit = "words", *, size: int = 8000, min_count: int = 1
    ) -> "TextVocabulary":
        """Learn at most ``size`` subwords from texts, or all words or characters that occur ``min_count`` times."""
        corpus = list(texts)
        if kind == "subwords":
            splitter: Splitter = SubwordSplitter.train(corpus, size)
            return cls(splitter, _frequent_tokens(splitter, corpus, 1))
        if kind not in ("words", "characters"):
            raise ConfigError(f"unknown token unit {kind!r}; expected words, characters or subwords")
        splitter = WordSplitter() if kind == "words" else CharacterSplitter()
        return cls(splitter, _frequent_tokens(splitter, corpus, min_count))

    def __len__(self) -> int:
        return len(self.vocabulary)

    def encode(self, text: str) -> list[int]:
        """The ids of a text's tokens, without begin and end; a token that is spelled like one of these is unknown."""
        ids = self.vocabulary.encode(self.splitter.split(text))
        return [UNKNOWN_ID if number in (BEGIN_ID, END_ID) else number for number in ids]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids up to the first end; padding and begin are left out."""
        tokens = []
        for number in ids:
            if number == END_ID:
                break
            if number not in (0, BEGIN_ID):
                tokens.append(self.vocabulary.words[number])
        return self.splitter.join(tokens)

    def files(self) -> dict[str, str]:
        """The text files that ``from_files`` reads, by name; for subwords also the JSON of their tokenizer."""
        content = {"kind": self.splitter.kind, "tokens": self.vocabulary.words[4:]}
        files = {TARGET_FILE: json.dumps(content, ensure_ascii=False)}
        if isinstance(self.splitter, SubwordSplitter):
            files[TOKENIZER_FILE] = self.splitter.tokenizer
        return files

    @classmethod
    def from_files(cls, read: Callable[[str], str]) -> "TextVocabulary":
        """Rebuild the vocabulary; ``read`` maps the name of a file to the text that ``files`` returned for it."""
        try:
            content = parse_json(read(TARGET_FILE))
            kind, tokens = content["kind"], list(map(str, content["tokens"]))
            splitters: Mapping[str, Callable[[], Splitter]] = {
                "words": WordSplitter,
                "characters": CharacterSplitter,
                "subwords": lambda: SubwordSplitter(read(TOKENIZER_FILE)),
            }
            return cls(splitters[kind](), tokens)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"expected the tokens of a trained model ({type(error).__name__}: {error})") from None


def retokenize(sentence: Sentence, splitter: Splitter) -> Sentence:
    """The sentence over the splitter's tokens instead of words, with its trees projected onto them.

    A word of several tokens is a phrase labelled with its tag; its first token heads the others in a dependency tree.
    """
    if splitter.kind == "words":
        return sentence
    parts = [splitter.split(word) or ["<unk>"] for word in sentence.words]
    starts = [0]
    for part in parts:
        starts.append(starts[-1] + len(part))
    words = [token for part in parts for token in part]
    heads = constituency = None
    if sentence.dependency is not None:
        dependency = sentence.dependency
        names = dependency.labels or ("dep",) * len(dependency.heads)
        numbers, labels = [], []
        for word, part in enumerate(parts):
            head = dependency.heads[word]
            numbers += [0 if head == 0 else starts[head - 1] + 1, *[starts[word] + 1] * (len(part) - 1)]
            labels += [names[word], *["subword"] * (len(part) - 1)]
        heads = DependencyTree(numbers, labels if dependency.labels is not None else None)
    if sentence.constituency is not None:
        tree = sentence.constituency
        spans = [(label, starts[start], starts[end]) for label, start, end in tree.spans]
        tags = sentence.tags or tree.tags
        spans += [
            (tree.tags[word] or tags[word] or "WORD", starts[word], starts[word + 1])
            for word, part in enumerate(parts)
            if len(part) > 1
        ]
        # Parents before children: by start, the longer first; of equal spans the phrase is above the word.
        spans.sort(key=lambda span: (span[1], -span[2]))
        token_tags = [tag for tag, part in zip(tree.tags, parts, strict=True) for _ in part]
        constituency = ConstituencyTree(words, spans, tags=token_tags)
    return Sentence(words, None, heads, constituency, metadata=sentence.metadata)


def _frequent_tokens(splitter: Splitter, texts: Sequence[str], min_count: int) -> list[str]:
    counts = Counter(token for text in texts for token in splitter.split(text))
    # Names of special ids are not tokens: neither the tokenizer's unknown token, nor words of a text that are spelled
    # like one.
    for name in ("<unk>", *_MARKS):
        del counts[name]
    return [token for token in sort_by_frequency(counts) if counts[token] >= min_count]
