"""Our parser as a folder: ``config.json``, ``words.json``, ``characters.json``, ``model.safetensors``; never a pickle.

Separate from the parser because building one from options is the business of training and loading alike.
"""

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import structattn
from structattn.data import Vocabulary
from structattn.data.tensors import load_tensors, save_tensors
from structattn.parsing.biaffine import BiaffineScorer
from structattn.parsing.treecrf import TreeCRF
from structattn.parsing.words import WordEncoder, character_vocabulary
from structattn.syntax import Sentence
from structattn.syntax.errors import ConfigError, ParseError
from structattn.syntax.folders import read_json, replaced_folder, write_json

CONFIG, WORDS, CHARACTERS, WEIGHTS = "config.json", "words.json", "characters.json", "model.safetensors"
MODEL_TYPE = "structattn-parser"
# Raised when an older folder can no longer be read as it is.
FORMAT_VERSION = 1


def build_parser(
    treebank: Sequence[Sentence],
    *,
    encoder: Mapping[str, Any] | None = None,
    scorer: Mapping[str, Any] | None = None,
    parser: Mapping[str, Any] | None = None,
    min_count: int = 2,
) -> TreeCRF:
    """A fresh parser for the words, labels and tags of a treebank.

    Args:
        treebank: sentences with trees, labels and tags.
        encoder: options of ``WordEncoder``.
        scorer: options of ``BiaffineScorer``.
        parser: options of ``TreeCRF``: ``trees`` and ``loss``.
        min_count: rarer words are known by their characters only.

    Raises:
        ConfigError: if no sentence has labels and tags.
    """
    vocabulary = Vocabulary.from_examples(treebank, min_count=min_count)
    tags = sorted({tag for sentence in treebank for tag in sentence.tags or ()})
    if not vocabulary.labels or not tags:
        raise ConfigError("a parser learns from a treebank with labels and tags; this one has none")
    config = {
        "encoder": dict(encoder or {}),
        "scorer": dict(scorer or {}),
        "parser": {"labels": list(vocabulary.labels), "tags": tags, **(parser or {})},
    }
    return _build(config, Vocabulary(vocabulary.words[2:]), character_vocabulary(treebank))


def save_parser(parser: TreeCRF, folder: str | os.PathLike[str]) -> None:
    """Write a parser folder; whoever reads it sees the old one or the whole new one."""
    encoder: WordEncoder = parser.encoder
    config = {
        "model_type": MODEL_TYPE,
        "structattn_version": structattn.__version__,
        "format_version": FORMAT_VERSION,
        "encoder": dict(encoder.options),
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
        (temporary / WORDS).write_text(encoder.vocabulary.to_json() + "\n", encoding="utf-8")
        (temporary / CHARACTERS).write_text(encoder.characters.to_json() + "\n", encoding="utf-8")
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
    try:
        parser = _build(config, _vocabulary(path / WORDS), _vocabulary(path / CHARACTERS))
    except KeyError as error:
        raise ParseError(f"expected the key {error}, it is missing", file=path / CONFIG) from None
    except (TypeError, AttributeError) as error:
        raise ParseError(f"expected a parser that can be built: {error}", file=path / CONFIG) from error
    load_tensors(parser, path / WEIGHTS)
    return parser.eval()


def parser_folder(folder: str | os.PathLike[str]) -> Path:
    """The folder itself, or its ``best`` if it is a run folder."""
    path = Path(folder)
    return path / "best" if not (path / CONFIG).is_file() and (path / "best" / CONFIG).is_file() else path


def fingerprint(folder: str | os.PathLike[str]) -> str:
    """What changes whenever a parser may answer differently: the first 16 digits of the SHA-256 of its files."""
    digest = hashlib.sha256()
    for file in sorted(parser_folder(folder).rglob("*")):
        if file.is_file():
            digest.update(file.name.encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:16]


def _build(config: Mapping[str, Any], words: Vocabulary, characters: Vocabulary) -> TreeCRF:
    encoder = WordEncoder(words, characters, **config["encoder"])
    given = config["parser"]
    sizes = {"num_labels": len(given["labels"]), "num_tags": len(given["tags"])}
    scorer = BiaffineScorer(encoder.output_dim, **sizes, **config["scorer"])
    return TreeCRF(encoder, scorer, **given)


def _vocabulary(file: Path) -> Vocabulary:
    try:
        return Vocabulary.from_json(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ParseError(f"cannot read this file: {error.strerror}", file=file) from None
    except ValueError as error:
        raise ParseError(str(error), file=file) from None
