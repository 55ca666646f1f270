"""Building a parser from a treebank and options, and reading a trained one from its folder."""

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from structattn.backbones import PretrainedBackbone
from structattn.data import Vocabulary
from structattn.data.model_card import CARD
from structattn.data.model_config import model_folder
from structattn.data.model_folder import read_model
from structattn.errors import ConfigError
from structattn.options.checking import check_choice
from structattn.parsing.biaffine import BiaffineScorer
from structattn.parsing.subwords import SubwordEncoder
from structattn.parsing.treecrf import Encoder, TreeCRF
from structattn.parsing.words import WordEncoder, character_vocabulary
from structattn.syntax import Sentence


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
        encoder: options of ``WordEncoder``, or, with a backbone, of ``SubwordEncoder``.
        scorer: options of ``BiaffineScorer``.
        parser: options of ``TreeCRF``: ``trees`` and ``loss``.
        min_count: rarer words are represented by their characters only.

    Raises:
        ConfigError: if no sentence has labels and tags, for an unknown option, or a backbone that cannot be read.
    """
    vocabulary = Vocabulary.from_examples(treebank, min_count=min_count)
    labels = Counter(label for one in treebank if one.dependency for label in one.dependency.labels or ())
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
        return _parser(built, scorer or {}, {"labels": sorted(labels), "tags": sorted(tags), **(parser or {})})
    except TypeError as error:
        raise ConfigError(f"unknown option of a parser's encoder or scorer: {error}") from error


def read_parser(folder: str | os.PathLike[str]) -> TreeCRF:
    """Read a parser folder, or the best parser of a run folder. The parser is in evaluation mode, on the CPU.

    Raises:
        ParseError: if a file is missing or damaged; the message names it.
        ConfigError: if the folder contains another kind of model, or was written by another version.
    """
    parser: TreeCRF = read_model(folder, [TreeCRF.kind])
    return parser


def parser_from_config(config: Mapping[str, Any], folder: Path) -> TreeCRF:
    """The parser that ``TreeCRF.config`` describes, with fresh parameters."""
    check_choice(config["encoder"], _ENCODERS, "encoder")
    return _parser(_ENCODERS[config["encoder"]](folder, config["options"]), config["scorer"], config["parser"])


def fingerprint(folder: str | os.PathLike[str]) -> str:
    """A version that changes with the parser: the first 16 digits of the SHA-256 of its files, except its card."""
    digest = hashlib.sha256()
    for file in sorted(model_folder(folder).rglob("*")):
        if file.is_file() and file.name != CARD:
            digest.update(file.name.encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:16]


def _parser(encoder: Encoder, scorer: Mapping[str, Any], parser: Mapping[str, Any]) -> TreeCRF:
    sizes = {"num_labels": len(parser["labels"]), "num_tags": len(parser["tags"])}
    return TreeCRF(encoder, BiaffineScorer(encoder.output_dim, **sizes, **scorer), **parser)


_ENCODERS: Mapping[str, Callable[[Path, Mapping[str, Any]], Encoder]] = {
    WordEncoder.kind: WordEncoder.load,
    SubwordEncoder.kind: SubwordEncoder.load,
}
