"""A fresh model for a configuration and its training data. Nothing is written here."""

import itertools
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from structattn.data import PhraseTrees, load_vectors
from structattn.data.word_vectors import find_covered_words, read_dim
from structattn.errors import ConfigError, ParseError
from structattn.files.text import parse_json, read_lines, read_text
from structattn.tasks import ModelConfig, TaskModel, model_class
from structattn.training import distributed
from structattn.training.config import DataConfig, RunConfig
from structattn.training.examples import Split
from structattn.training.initial import draw_uniform, has_word_vectors
from structattn.training.plan import RunPlan

LOGGER = logging.getLogger("structattn.training")


def prepare_model(plan: RunPlan, split: Split) -> TaskModel:
    """A fresh model for the training data; draws its parameters from torch's generator.

    Raises:
        ConfigError: for an unknown encoder or option, training data with fewer than two labels, vectors for none of
            their words, or uniform initialisation of a pretrained backbone.
        ParseError: for malformed vectors.
    """
    config, task, data = plan.config, plan.task, plan.config.data
    made_of = ModelConfig(
        config.encoder,
        config.options,
        _with_dim_of_vectors(config),
        config.classifier,
        config.decoder,
        PhraseTrees(data.trees, data.unary, data.tree_seed),
        nodes=(data.phrases or task.phrases) == "nodes",
        min_count=data.min_count,
        lowercase=data.lowercase,
        frozen_words=_frozen_words(data, split),
    )
    one_of_each = getattr(split.train, "one_of_each", None)
    train = split.train if one_of_each is None else one_of_each()
    model = model_class(task).from_examples(task, made_of, train, sentences=split.sentences)
    if config.optimization.initial_range is not None:
        draw_uniform(model, config.optimization.initial_range)
    if data.vectors is not None:
        _load_vectors(model, config, data.vectors)
    return model


def _with_dim_of_vectors(config: RunConfig) -> dict[str, Any]:
    """The embedder's configuration, with the width of the pretrained vectors."""
    source = config.data.vectors
    if source is None:
        return config.embedder
    if config.embedder.get("name", "words") != "words":
        raise ConfigError(f"data.vectors: embedder {config.embedder['name']!r} has no table of word vectors")
    dim = read_dim(source)
    if config.embedder.get("dim", dim) != dim:
        raise ConfigError(f"embedder.dim: the vectors of {source} have {dim} numbers, got {config.embedder['dim']}")
    return {**config.embedder, "dim": dim}


def _load_vectors(model: TaskModel, config: RunConfig, source: str) -> None:
    embedder, vocabulary, data = model.encoder.embedder, model.vocabulary, config.data
    if not has_word_vectors(embedder) or vocabulary is None:
        raise ConfigError(f"data.vectors: encoder {config.encoder!r} has no table of word vectors")
    generator = torch.Generator().manual_seed(config.seed)
    pretrained = load_vectors(source, vocabulary, generator=generator)
    if vocabulary.words and not pretrained.known.any():
        raise ConfigError(
            f"data.vectors: none of the {len(vocabulary.words)} words of the training data has a vector in {source}; "
            f"are these the right vectors, and is data.lowercase {data.lowercase} right for them?"
        )
    have, words = int(pretrained.known.sum()), len(vocabulary.words)
    if distributed.is_first_process():
        LOGGER.info(
            "vectors: %s of %s words (%.1f %%) have one in %s",
            f"{have:,}",
            f"{words:,}",
            100 * have / max(1, words),
            source,
        )
    if data.vectors_size is not None:
        pretrained = pretrained.scaled(data.vectors_size)
    embedder.load_vectors(pretrained.matrix)


def count_parameters(model: torch.nn.Module) -> int:
    """The number of trained parameters apart from word vectors, as papers count them.

    Example:
        >>> from structattn.layers import FeedForward, WordEmbedding
        >>> count_parameters(torch.nn.ModuleDict({"embedder": WordEmbedding(9, 4), "layer": FeedForward(4, 4)}))
        40
    """
    tables = {
        id(module.weight)
        for module in model.modules()
        if isinstance(module, torch.nn.Embedding) or has_word_vectors(module)
    }
    return sum(item.numel() for item in model.parameters() if item.requires_grad and id(item) not in tables)


def _frozen_words(data: DataConfig, split: Split) -> list[str]:
    if data.vectors is None or data.frozen == "none":
        return []
    if data.frozen == "all":
        found: Iterable[str] = _words_of(Path(data.vectors))
    else:
        examples = itertools.chain(split.dev, split.test)
        found = (word for example in examples for sentence in example.sentences for word in sentence.words)
    words = list(dict.fromkeys(word.lower() if data.lowercase else word for word in found))
    known = find_covered_words(data.vectors, words)
    return [word for word in words if word in known]


def _words_of(source: Path) -> list[str]:
    """Every word of a vectors file, or every whole word of a tokenizer."""
    if not source.is_dir():
        return [line.partition(" ")[0] for _, line in read_lines(source)]
    file = source / "tokenizer.json"
    try:
        vocabulary = parse_json(read_text(file))["model"]["vocab"]
        tokens = [token if isinstance(token, str) else str(token[0]) for token in vocabulary]
    except ParseError:
        raise
    except (ValueError, LookupError, TypeError) as error:
        raise ParseError(f"expected a tokenizer with a vocabulary, but it cannot be read: {error}", file=file) from None
    # WordPiece marks tokens that continue a word with ##; the other tokenizers mark tokens that start a word.
    marks = tuple(mark for mark in ("Ġ", "▁") if any(token.startswith(mark) for token in tokens))
    whole = [token[1:] for token in tokens if token.startswith(marks)] if marks else tokens
    return [word for word in whole if word and not word.startswith("##") and not word.startswith("[")]
