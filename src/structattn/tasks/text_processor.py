"""The tokens of both sides of a sequence model: from texts to ids, and to the files of a model folder."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from structattn.data import Example, Vocabulary
from structattn.data.model_folder import VOCABULARY, read_vocabulary, write_vocabulary
from structattn.data.text_vocabulary import (
    CharacterSplitter,
    Splitter,
    SubwordSplitter,
    TextVocabulary,
    TokenUnit,
    WordSplitter,
    retokenize,
)
from structattn.errors import ConfigError
from structattn.files.text import read_text
from structattn.tasks.task_model import ModelConfig

_SOURCE_TOKENIZER = "source_tokenizer.json"
_SPLITTERS: Mapping[TokenUnit, Splitter] = {"words": WordSplitter(), "characters": CharacterSplitter()}


class TextProcessor(NamedTuple):
    """From texts to ids: the vocabulary and splitter of the source side, and the vocabulary of the target side."""

    source: Vocabulary
    target: TextVocabulary
    splitter: Splitter = WordSplitter()

    @classmethod
    def from_examples(cls, examples: Sequence[Example], config: ModelConfig) -> "TextProcessor":
        """Vocabularies, and subwords where they are asked for, from training examples.

        Words and characters rarer than ``config.min_count`` are unknown on both sides. Only words of the source are
        lower-cased, never texts and subwords.

        Raises:
            ConfigError: if an example has no text.
            MissingStructure: if a source lacks the tree that its phrases are made from.
        """
        texts = []
        for index, example in enumerate(examples):
            if not isinstance(example.label, str):
                raise ConfigError(f"training {example.describe(index)} has no text to learn")
            texts.append(example.label)
        sources = [" ".join(example.sentences[0].words) for example in examples]
        decoder, size = config.decoder, config.decoder.vocab_size
        both = decoder.source == decoder.target == "subwords"
        target = TextVocabulary.from_texts(
            [*texts, *sources] if both else texts, decoder.target, size=size, min_count=config.min_count
        )
        if both:
            splitter = target.splitter
        else:
            splitter = (
                SubwordSplitter.train(sources, size) if decoder.source == "subwords" else _SPLITTERS[decoder.source]
            )
        has_words = decoder.source != "subwords"
        source = Vocabulary.from_examples(
            [retokenize(config.trees(example.sentences[0]), splitter) for example in examples],
            config.min_count if has_words else 1,
            lowercase=config.lowercase and has_words,
            frozen_words=config.frozen_words,
        )
        if both:
            # The same ids on both sides, so that a model may share its tables.
            source = Vocabulary(target.vocabulary.words[2:], labels=source.labels, lowercase=False)
        return cls(source, target, splitter)

    def write_files(self, folder: Path) -> None:
        """Write the files that ``from_files`` reads into an existing folder; JSON only."""
        write_vocabulary(self.source, folder / VOCABULARY)
        files = self.target.files()
        if isinstance(self.splitter, SubwordSplitter) and self.splitter is not self.target.splitter:
            # Parsed and written again, so that a model folder contains nothing but JSON.
            files[_SOURCE_TOKENIZER] = json.dumps(json.loads(self.splitter.tokenizer), ensure_ascii=False)
        for name, text in files.items():
            (folder / name).write_text(text + "\n", encoding="utf-8")

    @classmethod
    def from_files(cls, folder: Path, unit: TokenUnit, *, size: int) -> "TextProcessor":
        """Read what ``write_files`` wrote.

        Args:
            folder: the folder.
            unit: token unit of the source.
            size: number of ids of the source.

        Raises:
            ParseError: if a file is missing or damaged; the message names it.
        """
        target = TextVocabulary.from_files(lambda name: read_text(folder / name))
        if unit != "subwords":
            splitter = _SPLITTERS[unit]
        elif target.splitter.kind == "subwords":
            splitter = target.splitter
        else:
            splitter = SubwordSplitter(read_text(folder / _SOURCE_TOKENIZER))
        return cls(read_vocabulary(folder / VOCABULARY, size=size), target, splitter)
