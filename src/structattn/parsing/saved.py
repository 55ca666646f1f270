"""A trained parser as a folder: ``config.json``, ``model.safetensors``, its vocabulary or its backbone's tokenizer."""

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import structattn
from structattn.data import Vocabulary
from structattn.data.tensors import build_and_load, save_tensors
from structattn.layers import PretrainedBackbone
from structattn.parsing.biaffine import BiaffineScorer
from structattn.parsing.subwords import SubwordEncoder
from structattn.parsing.treecrf import Encoder, TreeCRF
from structattn.parsing.words import WordEncoder, character_vocabulary
from structattn.syntax import Sentence
from structattn.syntax.errors import ConfigError, shown
from structattn.syntax.folders import check_counts, described_by, read_json, replaced_folder, write_json

CONFIG, WEIGHTS = "config.json", "model.safetensors"
MODEL_TYPE = "structattn-parser"
# Incremented when an older folder can no longer be read as it is.
FORMAT_VERSION = 1


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
        backbone: the folder of a pretrained backbone; words and characters alone without one.
        encoder: options of ``WordEncoder``, or with a backbone of ``SubwordEncoder``.
        scorer: options of ``BiaffineScorer``.
        parser: options of ``TreeCRF``: ``trees`` and ``loss``.
        min_count: rarer words are known by their characters only.

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


def save_parser(parser: TreeCRF, folder: str | os.PathLike[str]) -> None:
    """Write a parser folder atomically."""
    encoder = parser.encoder
    config = {
        "model_type": MODEL_TYPE,
        "structattn_version": structattn.__version__,
        "format_version": FORMAT_VERSION,
        "encoder": {"kind": encoder.kind, "options": dict(encoder.options)},
        "scorer": dict(parser.scorer.options),
        "parser": {
            "labels": list(parser.label_names),
            "tags": list(parser.tag_names),
            "trees": parser.trees,
            "loss": parser.loss_over,
        },
    }
    with replaced_folder(Path(folder)) as temporary:
        write_json(temporary / CONFIG, config)
        encoder.save(temporary)
        save_tensors(parser.state_dict(), temporary / WEIGHTS)


def load_parser(folder: str | os.PathLike[str]) -> TreeCRF:
    """Read a parser folder, or the best parser of a run folder. The parser is in evaluation mode, on the CPU.

    Raises:
        ParseError: if a file is missing or damaged; the message names it.
        ConfigError: if the folder holds another kind of model, or was written by a newer version.
    """
    path = parser_folder(folder)
    config = read_json(path / CONFIG)
    if config.get("model_type") != MODEL_TYPE:
        raise ConfigError(f"{path / CONFIG}: expected a model of type {MODEL_TYPE!r}, got {config.get('model_type')!r}")
    version = config.get("format_version")
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise ConfigError(
            f"{path / CONFIG}: has format version {version}, this structattn {structattn.__version__} reads up to "
            f"{FORMAT_VERSION}; it was written by structattn {config.get('structattn_version')}"
        )
    check_counts(config, path / CONFIG)
    with described_by(path / CONFIG, "a parser"):
        given = config["encoder"]
        if given["kind"] not in _ENCODERS:
            raise ConfigError(f"unknown encoder {shown(given['kind'])}; known: {', '.join(_ENCODERS)}")

        def build() -> TreeCRF:
            return _parser(_ENCODERS[given["kind"]](path, given["options"]), config["scorer"], config["parser"])

        return build_and_load(build, path / WEIGHTS).eval()


def parser_folder(folder: str | os.PathLike[str]) -> Path:
    """The folder itself, or its ``best`` if it is a run folder."""
    path = Path(folder)
    return path / "best" if not (path / CONFIG).is_file() and (path / "best" / CONFIG).is_file() else path


def fingerprint(folder: str | os.PathLike[str]) -> str:
    """A version that changes with the parser: the first 16 digits of the SHA-256 of its files."""
    digest = hashlib.sha256()
    for file in sorted(parser_folder(folder).rglob("*")):
        if file.is_file():
            digest.update(file.name.encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:16]


def _parser(encoder: Encoder, scorer: Mapping[str, Any], parser: Mapping[str, Any]) -> TreeCRF:
    sizes = {"num_labels": len(parser["labels"]), "num_tags": len(parser["tags"])}
    return TreeCRF(encoder, BiaffineScorer(encoder.output_dim, **sizes, **scorer), **parser)


_ENCODERS: Mapping[str, Callable[[Path, Mapping[str, Any]], Encoder]] = {
    WordEncoder.kind: WordEncoder.load,
    SubwordEncoder.kind: SubwordEncoder.load,
}
