"""From a configuration to examples, vocabulary and a fresh model. Nothing is written here."""

import itertools
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from structattn.data import Example, PhraseTrees, load_vectors, vector_words, vectors_dim
from structattn.data.formulas import GENERATORS
from structattn.data.parses import with_parses
from structattn.data.readers import matching_files
from structattn.data.readers.parallel import files_of
from structattn.layers import WordEmbedding
from structattn.syntax import read_lines
from structattn.syntax.errors import ConfigError, ParseError
from structattn.syntax.files import parse_json, read_text
from structattn.tasks import ModelConfig, Task, TaskModel, get_task, model_class
from structattn.training.config import DataConfig, RunConfig
from structattn.training.initial import draw_uniform

# Splits are the same for every seed of a run, so that runs can be compared.
_SPLIT_SEED = 0


@dataclass(frozen=True)
class Split:
    """The examples of a run.

    Attributes:
        train: the training examples, phrases included.
        sentences: their whole sentences, whose words make the vocabulary.
        dev: the examples that select the best model.
        test: the examples the best model is evaluated on once; may be empty.
    """

    train: Sequence[Example]
    sentences: Sequence[Example]
    dev: Sequence[Example]
    test: Sequence[Example] = ()


def task_of(config: RunConfig) -> Task:
    """The task of a run.

    Raises:
        ConfigError: for an unknown task, or a part of the configuration that does not concern it.
    """
    task = get_task(config.task)
    sections = model_class(task).sections
    if config.data.phrases is not None and "phrases" not in sections:
        raise ConfigError(f"data.phrases: task {task.name!r} is answered with {task.answer}, so phrases have no labels")
    if config.data.vectors is not None and "vectors" not in sections:
        raise ConfigError(f"data.vectors: task {task.name!r} learns its own vectors")
    if config.embedder and "vectors" not in sections:
        raise ConfigError(f"embedder: task {task.name!r} learns its own vectors")
    for name, given in (("classifier", config.classifier), ("decoder", config.decoder)):
        if name not in sections and given != type(given)():
            raise ConfigError(f"{name}: task {task.name!r} has none, as it is answered with {task.answer}")
    return task


def read_split(config: RunConfig, task: Task) -> Split:
    """Read the files and split the examples.

    Raises:
        ParseError: with file and line, for a missing, empty or malformed file.
        ConfigError: if the data do not fit the task, or there are too few to hold some out.
    """
    data = config.data
    if data.train is None:
        return _generated(config, task)
    whole = list(itertools.islice(_read(task, data.train, data), data.limit))
    if config.folds is not None:
        rest, test = _fold(whole, config.folds, config.fold or 1)
    else:
        rest, test = whole, [] if data.test is None else list(_read(task, data.test, data))
    if data.dev is not None:
        train, dev = rest, list(_read(task, data.dev, data))
    else:
        train, dev = _held_out(rest, data.holdout)
    for name, part in (("dev", dev), ("test", test)):
        for example in part:
            if example.label is None:
                raise ConfigError(f"example {example.id!r} of the {name} data has no label to compare with")
    return Split(_with_phrases(task, data, train), train, dev, test)


def read_labelled(task: Task, path: str, *, format: str | None = None, parses: str | None = None) -> list[Example]:
    """The examples of a file, to measure a model by.

    Args:
        task: their task.
        path: the file.
        format: its data format; recognised from the file if ``None``.
        parses: a CoNLL-U file with the trees of sentences that come without.

    Raises:
        ParseError: with file and line, for a missing, empty or malformed file.
        ConfigError: if the examples do not fit the task, or one has no label.
    """
    examples = list(with_parses(task.read(path, format=format), parses))
    unlabelled = [example.id for example in examples if example.label is None]
    if unlabelled:
        raise ConfigError(f"{path}: example {unlabelled[0]!r} has no label to compare with; predict needs none")
    return examples


def prepare_model(config: RunConfig, task: Task, split: Split) -> TaskModel:
    """A fresh model for the training data; draws its parameters from torch's generator.

    Raises:
        ConfigError: for an unknown encoder or option, training data without two labels, vectors for none of their
            words, or uniform values for a pretrained backbone.
        ParseError: for malformed vectors.
    """
    data = config.data
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
    model = model_class(task).from_examples(task, made_of, split.train, sentences=split.sentences)
    if config.optimization.initial_range is not None:
        draw_uniform(model, config.optimization.initial_range)
    if data.vectors is not None:
        _load_vectors(model, config, data.vectors)
    return model


def _with_dim_of_vectors(config: RunConfig) -> dict[str, Any]:
    """The embedder's configuration; its width follows from pretrained vectors."""
    source = config.data.vectors
    if source is None:
        return config.embedder
    if config.embedder.get("name", "words") != "words":
        raise ConfigError(f"data.vectors: embedder {config.embedder['name']!r} has no table of word vectors")
    dim = vectors_dim(source)
    if config.embedder.get("dim", dim) != dim:
        raise ConfigError(f"embedder.dim: the vectors of {source} have {dim} numbers, got {config.embedder['dim']}")
    return {**config.embedder, "dim": dim}


def _load_vectors(model: TaskModel, config: RunConfig, source: str) -> None:
    embedder, vocabulary, data = model.encoder.embedder, model.vocabulary, config.data
    if not isinstance(embedder, WordEmbedding) or vocabulary is None:
        raise ConfigError(f"data.vectors: encoder {config.encoder!r} has no table of word vectors")
    generator = torch.Generator().manual_seed(config.seed)
    pretrained = load_vectors(source, vocabulary, generator=generator)
    if vocabulary.words and not pretrained.known.any():
        raise ConfigError(
            f"data.vectors: none of the {len(vocabulary.words)} words of the training data has a vector in {source}; "
            f"are these the right vectors, and is data.lowercase {data.lowercase} right for them?"
        )
    if data.vectors_size is not None:
        pretrained = pretrained.scaled(data.vectors_size)
    embedder.load_vectors(pretrained.matrix)


def count_parameters(model: torch.nn.Module) -> int:
    """Trained parameters apart from the word vectors, as papers count them.

    Example:
        >>> from structattn.layers import FeedForward
        >>> count_parameters(torch.nn.ModuleDict({"embedder": WordEmbedding(9, 4), "layer": FeedForward(4, 4)}))
        40
    """
    tables = {id(module.weight) for module in model.modules() if isinstance(module, WordEmbedding | torch.nn.Embedding)}
    return sum(item.numel() for item in model.parameters() if item.requires_grad and id(item) not in tables)


def files_of_run(data: DataConfig) -> list[str]:
    """Every file that a run reads its data from, those that match a pattern included."""
    paths = (data.train, data.dev, data.test, data.parses, data.vectors)
    return [
        os.fspath(one) for path in paths if path is not None for file in files_of(path) for one in matching_files(file)
    ]


def _read(task: Task, path: str, data: DataConfig) -> Iterable[Example]:
    return with_parses(task.read(path, format=data.format, columns=data.columns), data.parses)


def _generated(config: RunConfig, task: Task) -> Split:
    """Generated data; the same for every seed of a run, so that runs can be compared."""
    data = config.data
    if task.generated is None:
        raise ConfigError(f"data.train: task {task.name!r} needs a training file; see --data.train")
    if data.dev is not None or data.test is not None or config.folds is not None:
        raise ConfigError("data.train: expected a training file, as there is a dev or test file or cross-validation")
    train, dev, test = (list(task.prepare(part)) for part in GENERATORS[task.generated](data.generated))
    return Split(train, train, dev, test)


def _shuffled(number: int) -> list[int]:
    order: list[int] = np.random.default_rng(_SPLIT_SEED).permutation(number).tolist()
    return order


def _held_out(examples: Sequence[Example], share: float) -> tuple[list[Example], list[Example]]:
    number = max(1, round(len(examples) * share))
    if number >= len(examples):
        raise ConfigError(f"data.holdout: cannot hold out {number} of {len(examples)} examples; give data.dev")
    chosen = set(_shuffled(len(examples))[:number])
    return (
        [example for index, example in enumerate(examples) if index not in chosen],
        [example for index, example in enumerate(examples) if index in chosen],
    )


def _fold(examples: Sequence[Example], folds: int, fold: int) -> tuple[list[Example], list[Example]]:
    if len(examples) < folds:
        raise ConfigError(f"folds: cannot make {folds} folds of {len(examples)} examples")
    chosen = set(_shuffled(len(examples))[fold - 1 :: folds])
    return (
        [example for index, example in enumerate(examples) if index not in chosen],
        [example for index, example in enumerate(examples) if index in chosen],
    )


def _with_phrases(task: Task, data: DataConfig, sentences: Sequence[Example]) -> Sequence[Example]:
    """The phrases of the training sentences; those of sentences that were held out stay away."""
    phrases = data.phrases or task.phrases
    if phrases == "none" or phrases == "nodes" or data.train is None:
        return sentences
    trees = {example.id for example in sentences}
    every = task.read(data.train, format=data.format, phrases=phrases, columns=data.columns)
    return [example for example in every if example.id.split("/")[0] in trees]


def _frozen_words(data: DataConfig, split: Split) -> list[str]:
    if data.vectors is None or data.frozen == "none":
        return []
    if data.frozen == "all":
        found: Iterable[str] = _words_of(Path(data.vectors))
    else:
        examples = itertools.chain(split.dev, split.test)
        found = (word for example in examples for sentence in example.sentences for word in sentence.words)
    words = list(dict.fromkeys(word.lower() if data.lowercase else word for word in found))
    known = vector_words(data.vectors, words)
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
    # In WordPiece a token that continues a word starts with ##; in the others one that starts a word has a mark.
    marks = tuple(mark for mark in ("Ġ", "▁") if any(token.startswith(mark) for token in tokens))
    whole = [token[1:] for token in tokens if token.startswith(marks)] if marks else tokens
    return [word for word in whole if word and not word.startswith("##") and not word.startswith("[")]
