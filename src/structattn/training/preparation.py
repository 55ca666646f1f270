"""A fresh model for a run: the trees that its data lack, word vectors, and first parameters. Nothing is written here.

Reference: Kim et al. (2017), Structured attention networks, sections 4.1 and 4.2 (uniform values), 4.4 (a parsing
network trained on heads first).
"""

import dataclasses
import itertools
import logging
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Int64
from torch import Tensor, nn

from structattn.data import Example, PhraseTrees, Vocabulary, load_vectors
from structattn.data.vocabulary import UNKNOWN_ID
from structattn.data.word_vectors import find_covered_words, read_dim
from structattn.errors import ConfigError, MissingStructure, ParseError
from structattn.files.progress import without_warnings
from structattn.files.text import parse_json, read_lines, read_text
from structattn.layers.evaluation_mode import evaluating
from structattn.parsing.missing_trees import STRUCTURES, MissingTrees, find_missing_structures
from structattn.parsing.parsers import DEFAULT_PARSER
from structattn.syntax import ConstituencyTree, DependencyTree, Sentence
from structattn.tasks import ModelConfig, TaskModel, model_class
from structattn.tasks.answering import num_words
from structattn.training import distributed
from structattn.training.examples import Split
from structattn.training.models import load
from structattn.training.plan import RunPlan
from structattn.training.run_config import DataConfig, RunConfig

if TYPE_CHECKING:
    from structattn.layers import WordEmbedding

LOGGER = logging.getLogger("structattn.training")
_TABLES = ("embedder.weight", "embedder.frozen")
_NORMALISATIONS = (nn.LayerNorm, nn.RMSNorm)
# Examples with different labels that a model is tried on to find the trees it needs.
_TRIED = 64


@torch.no_grad()
def draw_uniform(module: nn.Module, bound: float) -> None:
    """Draw every weight and bias uniformly from ``[-bound, bound]``; normalisations keep their scale.

    The vectors of padding and unknown words stay zero. A pretrained backbone is an error, as this would overwrite it.
    """
    for part in module.modules():
        if getattr(part, "is_pretrained", False):
            raise ConfigError("optimization.initial_range would overwrite the pretrained backbone of this encoder")
        if isinstance(part, _NORMALISATIONS):
            continue
        for parameter in part.parameters(recurse=False):
            is_table = isinstance(part, nn.Embedding) or has_word_vectors(part)
            empty = (parameter == 0).all(-1) if is_table else None
            parameter.uniform_(-bound, bound)
            if empty is not None:
                parameter[empty] = 0.0


def start_from(model: TaskModel, folder: str | os.PathLike[str], *, trust_code: bool = False) -> None:
    """Initialise a model's encoder from that of a saved model of any task.

    Words in both vocabularies get their vectors from the saved model; the others keep their own.
    """
    name, source = os.fspath(folder), load(folder, trust_code=trust_code)
    if not hasattr(source, "task"):
        raise ConfigError(f"init: expected the model of a task, {name} contains a {type(source).__name__}")
    saved, fresh = source.encoder.state_dict(), model.encoder.state_dict()
    theirs, mine = _find_table(source), _find_table(model)
    by_spelling = () if theirs is None or mine is None else _TABLES
    parameters = {key: value for key, value in saved.items() if key not in by_spelling}
    for key, value in parameters.items():
        if key not in fresh:
            raise ConfigError(f"init: the encoder of {name} has a parameter {key!r}, which this encoder lacks")
        if value.shape != fresh[key].shape:
            raise ConfigError(
                f"init: expected {key!r} of shape {tuple(fresh[key].shape)}, that of {name} has {tuple(value.shape)}; "
                "are the options and the vectors the same?"
            )
    model.encoder.load_state_dict(parameters, strict=False)
    shared = 0
    if theirs is not None and mine is not None and source.vocabulary and model.vocabulary:
        ids = torch.tensor(source.vocabulary.encode(model.vocabulary.words[UNKNOWN_ID + 1 :]), dtype=torch.long)
        shared = _take_vectors(mine, theirs, ids)
    LOGGER.info(
        "%d parameters and the vectors of %d words from %s; its classifier, its labels and its other words stay behind "
        "(--continue keeps them)",
        *(len(parameters), shared, name),
    )


def has_word_vectors(module: object) -> bool:
    """Whether a module is a table of word vectors: it has a method ``load_vectors``, ``weight`` and ``frozen``."""
    return hasattr(module, "load_vectors")


def _find_table(model: TaskModel) -> "WordEmbedding | None":
    embedder = getattr(model.encoder, "embedder", None)
    return embedder if has_word_vectors(embedder) else None


def _take_vectors(mine: "WordEmbedding", theirs: "WordEmbedding", ids: Int64[Tensor, " word"]) -> int:
    """Copy the vectors of the words that both tables have, and return their number."""
    into, source = (torch.cat([table.weight.detach(), table.frozen]) for table in (mine, theirs))
    if into.shape[1] != source.shape[1]:
        raise ConfigError(f"init: expected word vectors of {into.shape[1]} numbers, got {source.shape[1]}")
    is_shared = ids > UNKNOWN_ID
    into[UNKNOWN_ID + 1 :][is_shared] = source[ids[is_shared]]
    mine.load_vectors(into)
    return int(is_shared.sum())


def prepare_model(plan: RunPlan, split: Split, base: Vocabulary | None = None) -> TaskModel:
    """A fresh model for the training data, whose words follow those of ``base``; draws from torch's generator."""
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
        frozen_words=_list_frozen_words(data, split),
        base=base,
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
    """The number of trained parameters apart from word vectors, as papers count them."""
    tables = {
        id(module.weight)
        for module in model.modules()
        if isinstance(module, torch.nn.Embedding) or has_word_vectors(module)
    }
    return sum(item.numel() for item in model.parameters() if item.requires_grad and id(item) not in tables)


def _list_frozen_words(data: DataConfig, split: Split) -> list[str]:
    if data.vectors is None or data.frozen == "none":
        return []
    if data.frozen == "all":
        candidates: Iterable[str] = _list_words(Path(data.vectors))
    else:
        examples = itertools.chain(split.dev, split.test)
        candidates = (word for example in examples for sentence in example.sentences for word in sentence.words)
    words = list(dict.fromkeys(word.lower() if data.lowercase else word for word in candidates))
    covered = find_covered_words(data.vectors, words)
    return [word for word in words if word in covered]


def _list_words(source: Path) -> list[str]:
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


def find_missing_trees(plan: RunPlan, split: Split) -> tuple[Split, MissingTrees | None]:
    """The data of a run with the trees that its encoder needs, and their finder, ``None`` if no tree was missing.

    What it needs is found by running it on sentences without trees; phrase trees are derived from dependency trees.
    """
    parser = plan.config.data.parser or DEFAULT_PARSER
    # A tree that is the answer of a task must not be found beforehand, and streamed data have been parsed.
    if parser == "none" or plan.task.answer == "tree" or plan.config.data.streaming:
        return split, None
    needed = _find_needed_trees(plan, split)
    if not needed:
        return split, None
    find_trees = MissingTrees(parser, structures=needed)
    find_trees.keep()
    parsed: dict[int, Example] = {}

    def completed(examples: Sequence[Example]) -> list[Example]:
        new = [example for example in examples if id(example) not in parsed]
        parsed.update(zip(map(id, new), find_trees(new), strict=True))
        return [parsed[id(example)] for example in examples]

    whole = Split(*(completed(getattr(split, item.name)) for item in dataclasses.fields(Split)))
    if distributed.is_first_process():
        find_trees.log(LOGGER, "--data.parser")
    return whole, find_trees


def _find_needed_trees(plan: RunPlan, split: Split) -> frozenset[str]:
    """The trees that the model asks for when sentences lack them; stand-ins replace those that can be parsed."""
    # The shortest of each kind comes last, so it is the one that is kept and encoded.
    longest_first = sorted((*split.train, *split.dev, *split.test), key=num_words, reverse=True)
    by_missing = {_list_missing(example): example for example in longest_first}
    bare = [example for missing, example in by_missing.items() if missing]
    if not bare:
        return frozenset()
    # The labels of phrases that a model is trained on are answers too.
    findable = {"dependency"} if (plan.config.data.phrases or plan.task.phrases) != "none" else set(STRUCTURES)
    # Vectors and most of the examples make no difference here, and take time to read.
    wordless = dataclasses.replace(plan.config.data, vectors=None, vectors_size=None, frozen=DataConfig.frozen)
    without_vectors = plan.with_config(data=wordless)
    of_each_label = list({str(example.label): example for example in split.train}.values())[:_TRIED]
    needed: frozenset[str] = frozenset()
    while True:
        few = [_add_stand_ins(example, needed) for example in of_each_label]
        tried = [_add_stand_ins(example, needed) for example in bare]
        both = [*few, *tried]
        try:
            with without_warnings():
                _try(tried, without_vectors, Split(both, both, both), split)
        except MissingStructure as error:
            if error.structure in findable - needed:
                needed |= {error.structure}
                continue
        return needed


def _try(examples: Sequence[Example], plan: RunPlan, few: Split, whole: Split) -> None:
    try:
        model = prepare_model(plan, few)
    except ConfigError:
        model = prepare_model(plan, whole)
    with evaluating(model), torch.no_grad():
        model(model.collate(examples))


def _list_missing(example: Example) -> frozenset[str]:
    return frozenset[str]().union(*map(find_missing_structures, example.sentences))


def _add_stand_ins(example: Example, structures: frozenset[str]) -> Example:
    def completed(sentence: Sentence) -> Sentence:
        chain = DependencyTree(range(len(sentence)), ["dep"] * len(sentence))
        stand_ins: dict[str, Any] = {
            "dependency": chain,
            "constituency": ConstituencyTree.from_dependency(sentence.words, chain),
        }
        return dataclasses.replace(
            sentence, **{name: stand_ins[name] for name in find_missing_structures(sentence) & structures}
        )

    return dataclasses.replace(example, sentences=tuple(map(completed, example.sentences)))
