"""Sequence models for ``checkpoint.py`` and ``preparation.py``: made from data, built from a ``config.json``, written.

Besides its weights a sequence model has two vocabularies, a tokenizer, a decoder and a search.
"""

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from structattn.data import Example, PhraseTrees, Vocabulary
from structattn.data.text_vocabulary import (
    CharacterSplitter,
    Splitter,
    SubwordSplitter,
    TextVocabulary,
    TokenUnit,
    WordSplitter,
    retokenize,
)
from structattn.encoders.build import build
from structattn.syntax.errors import ConfigError
from structattn.tasks import Search, SequenceModel, Task, TextProcessor, build_decoder
from structattn.training.config_parts import DecoderConfig

VOCABULARY, SOURCE_TOKENIZER = "vocabulary.json", "source_tokenizer.json"
# What a config.json of a sequence model has, apart from what every model has.
KEYS = ("encoder", "encoder_options", "vocab_size", "task", "decoder")
# What it may lack, if it is older.
LATER_KEYS = ("trees",)


def learn_texts(
    examples: Sequence[Example],
    config: DecoderConfig,
    *,
    trees: PhraseTrees | None = None,
    min_count: int = 1,
    lowercase: bool = True,
    frozen_words: Sequence[str] = (),
) -> TextProcessor:
    """Vocabularies, and subwords where they are asked for, from training examples.

    Args:
        examples: sentences with their texts.
        config: the token units of both sides, and the vocabulary size.
        trees: the phrase trees that sources get; their own if ``None``.
        min_count: rarer words and characters are unknown, on both sides.
        lowercase: whether the words of the source are lower-cased; texts and subwords never are.
        frozen_words: further words of the source, with untrained vectors.

    Raises:
        ConfigError: if an example has no text.
        MissingStructure: if a source lacks the tree that its phrases are made from.
    """
    chosen = PhraseTrees() if trees is None else trees
    texts = []
    for index, example in enumerate(examples):
        if not isinstance(example.label, str):
            raise ConfigError(f"training example {example.id or index} has no text to learn")
        texts.append(example.label)
    sources = [" ".join(example.sentences[0].words) for example in examples]
    both = config.source == config.target == "subwords"
    target = TextVocabulary.from_texts(
        [*texts, *sources] if both else texts, config.target, size=config.vocab_size, min_count=min_count
    )
    splitter = target.splitter if both else _source_splitter(config.source, sources, config.vocab_size)
    sentences = [retokenize(chosen(example.sentences[0]), splitter) for example in examples]
    source = Vocabulary.from_examples(
        sentences,
        min_count if config.source != "subwords" else 1,
        lowercase=lowercase and config.source != "subwords",
        frozen_words=frozen_words,
    )
    if both:
        # The same ids on both sides, so that a model may share its tables.
        source = Vocabulary(target.vocabulary.words[2:], labels=source.labels, lowercase=False)
    return TextProcessor(source, target, splitter)


def new_sequence_model(
    encoder: str,
    options: Mapping[str, Any],
    task: Task,
    *,
    texts: TextProcessor,
    decoder: DecoderConfig,
    trees: PhraseTrees | None = None,
) -> tuple[SequenceModel, dict[str, Any]]:
    """A fresh model, and what its ``config.json`` says.

    Raises:
        ConfigError: for an unknown encoder, decoder or option.
    """
    frozen = {"num_frozen": texts.source.num_frozen} if texts.source.num_frozen else {}
    config = {
        "encoder": encoder,
        "encoder_options": {**options, **frozen},
        "vocab_size": len(texts.source),
        "task": task.to_dict(),
        "decoder": {
            "name": decoder.name,
            "options": dict(decoder.options),
            "source": decoder.source,
            "label_smoothing": decoder.label_smoothing,
            "beam": decoder.beam,
            "length_penalty": decoder.length_penalty,
            "max_length_ratio": decoder.max_length_ratio,
        },
        "trees": dataclasses.asdict(PhraseTrees() if trees is None else trees),
    }
    return _model(config, texts), config


def build_sequence_model(config: Mapping[str, Any], read: Callable[[str], str]) -> SequenceModel:
    """The model that a ``config.json`` describes, with fresh parameters.

    Args:
        config: what ``new_sequence_model`` gave.
        read: from the name of a file of ``sequence_files`` to its text.

    Raises:
        ConfigError: for an unknown encoder, decoder or option.
        KeyError: if something is missing.
        ValueError: if a text is not what ``sequence_files`` gave.
    """
    target = TextVocabulary.from_files(read)
    kind: TokenUnit = config["decoder"]["source"]
    if kind != "subwords":
        splitter: Splitter = WordSplitter() if kind == "words" else CharacterSplitter()
    elif target.splitter.kind == "subwords":
        splitter = target.splitter
    else:
        splitter = SubwordSplitter(read(SOURCE_TOKENIZER))
    return _model(config, TextProcessor(Vocabulary.from_json(read(VOCABULARY)), target, splitter))


def sequence_files(model: SequenceModel) -> dict[str, str]:
    """The text files beside the weights, by name."""
    source, target, splitter = model.texts
    files = {VOCABULARY: source.to_json(), **target.files()}
    if isinstance(splitter, SubwordSplitter) and splitter is not target.splitter:
        # Read and written again, so that nothing but JSON can be in a model folder.
        files[SOURCE_TOKENIZER] = json.dumps(json.loads(splitter.tokenizer), ensure_ascii=False)
    return files


def _model(config: Mapping[str, Any], texts: TextProcessor) -> SequenceModel:
    chosen = config["decoder"]
    encoder = build(config["encoder"], vocab_size=config["vocab_size"], **config["encoder_options"])
    decoder = build_decoder(chosen["name"], encoder, len(texts.target), **chosen["options"])
    return SequenceModel(
        encoder,
        decoder,
        Task.from_dict(config["task"]),
        texts=texts,
        trees=PhraseTrees(**config.get("trees", {})),
        label_smoothing=chosen["label_smoothing"],
        search=Search(chosen["beam"], chosen["length_penalty"], chosen["max_length_ratio"]),
    )


def _source_splitter(kind: TokenUnit, sources: Sequence[str], size: int) -> Splitter:
    if kind == "subwords":
        return SubwordSplitter.train(sources, size)
    return WordSplitter() if kind == "words" else CharacterSplitter()
