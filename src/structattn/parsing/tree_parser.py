"""This library's parser: built from a treebank and options, read from its folder, and as a parser of raw texts."""

import dataclasses
import functools
import hashlib
import logging
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import structattn
from structattn.backbones import PretrainedBackbone
from structattn.data import Vocabulary
from structattn.data.model_card import CARD
from structattn.data.model_config import find_model_folder
from structattn.data.model_folder import read_model
from structattn.errors import ConfigError
from structattn.functional.torch_state import one_thread
from structattn.options.checking import check_choice
from structattn.options.hardware import Hardware
from structattn.parsing.biaffine import BiaffineScorer
from structattn.parsing.sentence_splitting import split_by_rules
from structattn.parsing.subword_encoder import SubwordEncoder
from structattn.parsing.text_splitter import TextSplitter
from structattn.parsing.treecrf import Encoder, TreeCRF
from structattn.parsing.word_encoder import WordEncoder, character_vocabulary
from structattn.syntax import Sentence

LOGGER = logging.getLogger("structattn.parsing")
SPLITTER = "splitter"
"""The folder of a splitter, within that of its parser."""

Split = Callable[[Sequence[str]], list[list[Sentence]]]
"""From raw texts to the sentences of each."""

# Of English newswire, reviews and fiction, 6 % of the words are unknown to the parser of the package; of Dutch, 64 %.
_MOST_UNKNOWN, _FEWEST_WORDS = 0.4, 8


class TreeParser:
    """This library's parser, from a folder.

    Args:
        model: the parser, or a function that builds it when there is something to parse.
        version: distinguishes it from other parsers.
        hardware: where it runs, and the precision; the CPU if ``None``.
        name: name of the parser.
        split: splits raw texts; by default the rules of ``split_sentences`` and ``split_words``.

    Raises:
        ConfigError: if there is no such device.

    Example:
        >>> import structattn as sa
        >>> gold = sa.Sentence(["kids", "wash"], ["NOUN", "VERB"], sa.DependencyTree([2, 0], ["nsubj", "root"]))
        >>> parser = TreeParser(build_parser([gold]), version="untrained")
        >>> [[sentence.words for sentence in text] for text in parser.parse_texts(["Kids wash. They don't."])]
        [[('Kids', 'wash', '.'), ('They', 'do', "n't", '.')]]
    """

    def __init__(
        self,
        model: TreeCRF | Callable[[], TreeCRF],
        *,
        version: str,
        hardware: Hardware | None = None,
        name: str = "structattn",
        split: Split = split_by_rules,
    ) -> None:
        self.hardware = Hardware("cpu") if hardware is None else hardware
        self._build = (lambda: model) if isinstance(model, TreeCRF) else model
        self.name = name
        self.split = split
        self._is_warned = False
        # Different rounding may give different trees, which a cache must not mix.
        numerics = (self.hardware.torch_device().type, self.hardware.mixed_precision)
        self.version = "+".join([version, *(value for value in numerics if value not in ("cpu", "no"))])

    @classmethod
    def from_folder(
        cls,
        folder: str | os.PathLike[str],
        hardware: Hardware | None = None,
        *,
        name: str = "structattn",
        split: Split | None = None,
    ) -> "TreeParser":
        """Load a parser that ``structattn parser train`` saved.

        Args:
            folder: folder of the run or the parser.
            hardware: where it runs, and the precision; the CPU if ``None``.
            name: name of the parser.
            split: splits raw texts; by default the splitter in the folder, or rules if there is none.

        Raises:
            ParseError: if a file is missing or damaged; the message names it.
            ConfigError: if the folder contains another kind of model, or was written by another version; if there is no
                such device.
        """
        parser = cls.when_needed(folder, hardware, name=name, split=split or _read_split(folder))
        _ = parser.model
        return parser

    @classmethod
    def when_needed(
        cls,
        folder: str | os.PathLike[str],
        hardware: Hardware | None = None,
        *,
        name: str = "structattn",
        split: Split | None = None,
    ) -> "TreeParser":
        """Load a parser, as ``from_folder``, but read its model when there is something to parse, its name at once.

        Args:
            folder: folder of the run or the parser.
            hardware: where it runs, and the precision; the CPU if ``None``.
            name: name of the parser.
            split: splits raw texts; by default the parser's own splitter, if it has one.

        Returns:
            The parser.

        Raises:
            ConfigError: if there is no such device. What is wrong with the folder is raised by the first parse.

        Example:
            >>> from structattn.parsing.parsers import PACKAGED
            >>> TreeParser.when_needed(PACKAGED["en"], name="en").name
            'en'
        """
        version = f"{structattn.__version__}+{fingerprint(folder)}"
        read_split = functools.cache(lambda: _read_split(folder))
        split = split or (lambda texts: read_split()(texts))
        return cls(lambda: read_parser(folder), version=version, hardware=hardware, name=name, split=split)

    @functools.cached_property
    def model(self) -> TreeCRF:
        """The model, in evaluation mode, where it runs."""
        return self.hardware.move(self._build().eval())

    def parse_words(self, sentences: Sequence[Sequence[str]]) -> list[Sentence]:
        """Trees and tags for lists of words; see ``TreeCRF.parse`` for very long ones.

        Args:
            sentences: any number of lists of words.
        """
        return self._parse([Sentence(words) for words in sentences])

    def parse_texts(self, texts: Sequence[str]) -> list[list[Sentence]]:
        """Split raw texts into sentences and words, and parse them.

        Args:
            texts: any number of raw texts, each with any number of sentences.
        """
        with one_thread():
            split = self.split(texts)
        parsed = iter(self._parse([sentence for sentences in split for sentence in sentences]))
        return [[dataclasses.replace(next(parsed), rows=sentence.rows) for sentence in text] for text in split]

    def _parse(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        # Rounding depends on the number of threads. With one thread, several processes give the same results as one.
        with one_thread(), self.hardware.autocast():
            parsed = self.model.parse(sentences)
        self._warn_of_unknown([word for sentence in sentences for word in sentence.words])
        return parsed

    def _warn_of_unknown(self, words: Sequence[str]) -> None:
        """Say once that most words are unknown, as in another language than that of the treebank."""
        if self._is_warned or len(words) < _FEWEST_WORDS:
            return
        share = self.model.encoder.count_unknown(words) / len(words)
        if share > _MOST_UNKNOWN:
            self._is_warned = True
            LOGGER.warning(
                "%.0f %% of %s words are unknown to the parser %r: in another language than its treebank's, "
                "trees say nothing; use --parser stanza:LANGUAGE, such as stanza:de, or spacy:MODEL, or train one on a "
                "treebank of Universal Dependencies: structattn parser train",
                100 * share,
                f"{len(words):,}",
                self.name,
            )


def build_parser(
    treebank: Sequence[Sentence],
    *,
    backbone: str | os.PathLike[str] | None = None,
    encoder: Mapping[str, Any] | None = None,
    scorer: Mapping[str, Any] | None = None,
    parser: Mapping[str, Any] | None = None,
    min_count: int = 2,
) -> TreeCRF:
    """A fresh parser for the words, labels and tags of a treebank.

    Args:
        treebank: sentences with trees, labels and tags.
        backbone: the folder of a pretrained backbone; without one, the parser reads words and characters alone.
        encoder: options of the encoder of words and characters: ``word_dim``, ``character_dim``, ``filters``,
            ``hidden``, ``num_layers``, ``dropout``, ``word_dropout`` and ``buckets``; with a backbone, ``pooling``
            (``first`` or ``mean``) and ``dropout``.
        scorer: options of ``BiaffineScorer``: ``arc_dim``, ``label_dim`` and ``dropout``.
        parser: options of ``TreeCRF``: ``trees`` and ``loss``.
        min_count: rarer words are represented by their characters only.

    Returns:
        The parser, with random parameters.

    Raises:
        ConfigError: if no sentence has labels and tags, for an unknown option, or a backbone that cannot be read.

    Example:
        >>> import structattn as sa
        >>> gold = sa.Sentence(["kids", "wash"], ["NOUN", "VERB"], sa.DependencyTree([2, 0], ["nsubj", "root"]))
        >>> build_parser([gold], encoder={"hidden": 8}, parser={"loss": "words"}).label_names
        ('nsubj', 'root')
    """
    vocabulary = Vocabulary.from_examples(treebank, min_count=min_count)
    labels = Counter(
        label for sentence in treebank if sentence.dependency for label in sentence.dependency.labels or ()
    )
    tags = Counter(tag for sentence in treebank for tag in sentence.tags or ())
    if not labels or not tags:
        raise ConfigError("a parser learns from a treebank with labels and tags; this one has none")
    built: Encoder
    try:
        if backbone is None:
            words = Vocabulary(vocabulary.words[2:])
            built = WordEncoder(words, character_vocabulary(treebank), **(encoder or {}))
        else:
            built = SubwordEncoder(PretrainedBackbone.from_folder(backbone), **(encoder or {}))
        return _assemble(built, scorer or {}, {"labels": sorted(labels), "tags": sorted(tags), **(parser or {})})
    except TypeError as error:
        raise ConfigError(f"unknown option of a parser's encoder or scorer: {error}") from error


def read_parser(folder: str | os.PathLike[str]) -> TreeCRF:
    """Read a parser folder, or the best parser of a run folder. The parser is in evaluation mode, on the CPU."""
    parser: TreeCRF = read_model(folder, [TreeCRF.kind])
    return parser


def _read_split(folder: str | os.PathLike[str]) -> "Split":
    splitter = find_model_folder(folder) / SPLITTER
    return read_splitter(splitter).split if splitter.is_dir() else split_by_rules


def read_splitter(folder: str | os.PathLike[str]) -> TextSplitter:
    """Read the folder of a splitter."""
    splitter: TextSplitter = read_model(folder, [TextSplitter.kind])
    return splitter


def parser_from_config(config: Mapping[str, Any], folder: Path) -> TreeCRF:
    """The parser that ``TreeCRF.config`` describes, with fresh parameters."""
    check_choice(config["encoder"], _ENCODERS, "encoder")
    return _assemble(_ENCODERS[config["encoder"]](folder, config["options"]), config["scorer"], config["parser"])


def fingerprint(folder: str | os.PathLike[str]) -> str:
    """A version that changes with the parser: the first 16 digits of the SHA-256 of its files, except its card."""
    digest = hashlib.sha256()
    for file in sorted(find_model_folder(folder).rglob("*")):
        if file.is_file() and file.name != CARD:
            digest.update(file.name.encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:16]


def _assemble(encoder: Encoder, scorer: Mapping[str, Any], parser: Mapping[str, Any]) -> TreeCRF:
    sizes = {"num_labels": len(parser["labels"]), "num_tags": len(parser["tags"])}
    return TreeCRF(encoder, BiaffineScorer(encoder.output_dim, **sizes, **scorer), **parser)


_ENCODERS: Mapping[str, Callable[[Path, Mapping[str, Any]], Encoder]] = {
    WordEncoder.kind: WordEncoder.load,
    SubwordEncoder.kind: SubwordEncoder.load,
}
