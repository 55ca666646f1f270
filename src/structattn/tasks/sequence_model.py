"""``SequenceModel``: an encoder and a decoder from a sentence to a text, such as its translation.

The text of an example is its label.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor

from structattn.data import Example, PhraseTrees, SentenceBatch, Vocabulary, collate
from structattn.data.text_vocabulary import (
    BEGIN_ID,
    END_ID,
    retokenize,
)
from structattn.encoders import SentenceEncoder
from structattn.encoders.build import build_from_config
from structattn.encoders.text_node import with_word_states
from structattn.errors import ConfigError
from structattn.layers.evaluation_mode import evaluating
from structattn.syntax import Sentence
from structattn.tasks.answer_config import DecoderConfig, Search
from structattn.tasks.answering import Evaluation, Item, Prediction, answer_by_length, measure_texts, text_predictions
from structattn.tasks.decoding import Decoder, State, beam_search, build_decoder, greedy_search
from structattn.tasks.task import Task
from structattn.tasks.task_batch import check_batch
from structattn.tasks.task_model import ModelConfig, TaskModel
from structattn.tasks.text_processor import TextProcessor


@dataclass(frozen=True, eq=False)
class SequenceBatch:
    """Source sentences and target texts as tensors."""

    source: SentenceBatch
    inputs: Int64[Tensor, "batch step"]  # what the decoder reads: begin, and the text
    outputs: Int64[Tensor, "batch step"]  # what it predicts: the text, and end; 0 at padding
    weight: Float[Tensor, " batch"]  # factor of each example's loss, zero where there is no text
    ids: tuple[str, ...] = ()
    num_labelled: int = 0  # how many examples have a text

    def __len__(self) -> int:
        return len(self.source)

    @property
    def sides(self) -> tuple[SentenceBatch, ...]:
        """The batches that the encoder reads."""
        return (self.source,)

    def to(self, device: torch.device | str) -> "SequenceBatch":
        """The same batch on another device."""
        if self.inputs.device == torch.device(device):
            return self
        inputs, outputs, weight = (part.to(device) for part in (self.inputs, self.outputs, self.weight))
        return SequenceBatch(self.source.to(device), inputs, outputs, weight, self.ids, self.num_labelled)


class SequenceModel(TaskModel):
    r"""``p(y | x) = prod_t softmax(decoder(encoder(x), y_{<t}))``, trained with cross-entropy over all tokens.

    With label smoothing ``epsilon`` the target of a token is ``1 - epsilon`` at the right token and ``epsilon / C`` at
    each of the ``C`` tokens (Szegedy et al. 2016, section 7).

    Args:
        encoder: reads the source.
        decoder: generates the text.
        task: the task.
        texts: from texts to ids.
        trees: the phrase trees of source sentences.
        label_smoothing: ``epsilon``.
        search: options of the search.

    Raises:
        ConfigError: for a label smoothing that is not a share below 1.

    Example:
        >>> from structattn.data.text_vocabulary import TextVocabulary
        >>> from structattn.encoders import build
        >>> from structattn.tasks import get_task
        >>> from structattn.tasks.decoding import build_decoder
        >>> source, target = Vocabulary(["ein", "hund"]), TextVocabulary.from_texts(["a dog"])
        >>> encoder = build("lstm", vocab_size=len(source), dim=4)
        >>> decoder = build_decoder("lstm", encoder, len(target))
        >>> model = SequenceModel(encoder, decoder, get_task("translation"), texts=TextProcessor(source, target))
        >>> [prediction.text is not None for prediction in model.predict(["ein Hund"])]
        [True]
    """

    kind: ClassVar[str] = "sequence"
    vocabulary: Vocabulary

    def __init__(
        self,
        encoder: SentenceEncoder,
        decoder: Decoder,
        task: Task,
        *,
        texts: TextProcessor,
        trees: PhraseTrees | None = None,
        label_smoothing: float = 0.0,
        search: Search | None = None,
    ) -> None:
        super().__init__()
        if not 0 <= label_smoothing < 1:
            raise ConfigError(f"label_smoothing: expected a share below 1, got {label_smoothing!r}")
        self.encoder = with_word_states(encoder)
        self.decoder = decoder
        self.task = task
        self.texts = texts
        self.vocabulary = texts.source
        self.trees = PhraseTrees() if trees is None else trees
        self.label_smoothing = label_smoothing
        self.search = Search() if search is None else search

    @classmethod
    def from_examples(
        cls, task: Task, config: ModelConfig, examples: Sequence[Example], *, sentences: Sequence[Example] | None = None
    ) -> "SequenceModel":
        """As ``TaskModel.from_examples``; subwords are learnt where they are asked for.

        Raises:
            ConfigError: also if an example has no text.
            MissingStructure: if a source lacks the tree that its phrases are made from.
        """
        texts = TextProcessor.from_examples(examples if sentences is None else sentences, config)
        encoder = config.build_encoder(texts.source)
        return cls._with_decoder(encoder, task, config.decoder, texts=texts, trees=config.trees)

    @classmethod
    def from_config(cls, config: Mapping[str, Any], folder: Path) -> "SequenceModel":
        """The model that ``config`` describes, with fresh parameters."""
        decoder = DecoderConfig(**config["decoder"])
        texts = TextProcessor.from_files(folder, decoder.source, size=config["vocab_size"])
        encoder, task = build_from_config(config, folder), Task.from_dict(config["task"])
        return cls._with_decoder(encoder, task, decoder, texts=texts, trees=PhraseTrees(**config["trees"]))

    @classmethod
    def _with_decoder(
        cls, encoder: SentenceEncoder, task: Task, config: DecoderConfig, *, texts: "TextProcessor", trees: PhraseTrees
    ) -> "SequenceModel":
        decoder = build_decoder(config.name, encoder, len(texts.target), **config.options)
        smoothing = config.label_smoothing
        return cls(encoder, decoder, task, texts=texts, trees=trees, label_smoothing=smoothing, search=config.search)

    @property
    def config(self) -> dict[str, Any]:
        """Plain values that describe everything but the words and the parameters.

        Raises:
            ConfigError: if encoder or decoder were not made by name.
        """
        description: Mapping[str, Any] | None = getattr(self.decoder, "description", None)
        if description is None:
            raise ConfigError("this decoder cannot be saved: expected one that build_decoder made by name")
        units = {"source": self.texts.splitter.kind, "target": self.texts.target.splitter.kind}
        decoder = {**description, **units, "label_smoothing": self.label_smoothing, **dataclasses.asdict(self.search)}
        trees = dataclasses.asdict(self.trees)
        return {**self.encoder.config, "task": self.task.to_dict(), "decoder": decoder, "trees": trees}

    def write_files(self, folder: Path) -> dict[str, Any]:
        """Write vocabularies and subwords of both sides, and the files of the encoder; return the configuration."""
        self.texts.write_files(folder)
        return {**self.config, **self.encoder.write_files(folder)}

    def forward(self, batch: SequenceBatch) -> Float[Tensor, "batch step vocabulary"]:
        """Logits of every next token of the texts."""
        check_batch(batch, SequenceBatch)
        scores: Tensor = self.decoder(self.encoder(batch.source), batch.source, batch.inputs)
        return scores

    def loss_of(self, scores: Float[Tensor, "batch step vocabulary"], batch: SequenceBatch) -> Float[Tensor, ""]:
        """Weighted mean over tokens of the smoothed cross-entropy.

        Raises:
            ValueError: if no example of the batch has a text.
        """
        if batch.num_labelled == 0:
            raise ValueError(f"no example of this batch of {len(batch)} has a text to learn")
        # Flattened to one row per token: cross-entropy over an inner axis costs three times as much.
        each = F.cross_entropy(
            scores.flatten(0, 1),
            batch.outputs.flatten(),
            ignore_index=0,
            reduction="none",
            label_smoothing=self.label_smoothing,
        ).view_as(batch.outputs)
        weight = batch.weight.to(scores.dtype)[:, None] * (batch.outputs != 0)
        return (each * weight).sum() / weight.sum()

    def collate(self, examples: Sequence[Item]) -> SequenceBatch:
        """Examples as tensors, see ``TaskModel.collate``."""
        return self._batch(self.to_examples(examples))

    def predict(self, examples: Sequence[Item] | SequenceBatch, *, batch_size: int = 64) -> list[Prediction]:
        """Texts, see ``TaskModel.predict``; the text of a sentence without words is empty."""
        with evaluating(self):
            if isinstance(examples, SequenceBatch):
                return self._answers(examples)
            sources = self.to_examples(examples, batch_size=batch_size)
            answers = answer_by_length(
                self.with_trees([example for example in sources if len(example.sentences[0])]),
                lambda batch: self._answers(self._batch(batch)),
                size_of=lambda example: len(example.sentences[0]),
                batch_size=batch_size,
                device=self.device,
            )
        remaining = iter(answers)
        empty = Prediction("", None, None, {}, text="", log_probability=0.0)
        return [
            next(remaining) if len(example.sentences[0]) else dataclasses.replace(empty, id=example.id)
            for example in sources
        ]

    def measure(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> Evaluation:
        """The task's metrics for given predictions; those that concern none of the examples are left out."""
        return measure_texts(self.task, examples, predictions)

    def prepare_sentence(self, sentence: Sentence) -> Sentence:
        """A source sentence as it is encoded: retokenized, with its phrase trees.

        Raises:
            MissingStructure: if it lacks the tree that phrases are made from.
        """
        return retokenize(self.trees(sentence), self.texts.splitter)

    def unknown_words(self, sentence: Sentence) -> list[int]:
        """None: words outside the vocabulary are spelt in its units."""
        return []

    def size_of(self, example: Example) -> int:
        """The length of an example in tokens: that of its source or its text, whichever is longer."""
        text = example.label if isinstance(example.label, str) else ""
        source = len(retokenize(example.sentences[0], self.texts.splitter))
        return max(source, len(self.texts.target.splitter.split(text)) + 1)

    def _batch(self, examples: Sequence[Example]) -> SequenceBatch:
        if not examples:
            raise ValueError("a batch needs at least one example, got none")
        sentences = [self.prepare_sentence(example.sentences[0]) for example in examples]
        labelled = [isinstance(example.label, str) for example in examples]
        tokens = [
            [BEGIN_ID, *self.texts.target.encode(example.label), END_ID] if isinstance(example.label, str) else []
            for example in examples
        ]
        width = max(2, *(len(row) for row in tokens))
        padded = torch.tensor([row + [0] * (width - len(row)) for row in tokens])
        # No end token in the inputs: in a text shorter than the longest, the decoder would otherwise read it.
        inputs = padded[:, :-1].masked_fill(padded[:, :-1] == END_ID, 0)
        weight = torch.tensor([example.weight for example in examples]) * torch.tensor(labelled)
        (source,) = self.encoder.prepare(collate(sentences, self.texts.source))
        return SequenceBatch(
            source,
            inputs,
            padded[:, 1:].contiguous(),
            weight,
            tuple(example.id for example in examples),
            int((weight > 0).sum()),
        )

    def _answers(self, batch: SequenceBatch) -> list[Prediction]:
        source = batch.source.to(self.device)
        state = self.decoder.start(self.encoder(source), source)
        limits = (source.lengths * self.search.max_length_ratio).long() + 10
        search = greedy_search
        if self.search.beam > 1:
            search = partial(beam_search, beam=self.search.beam, length_penalty=self.search.length_penalty)
        result = search(self._step, state, limits=limits, begin=BEGIN_ID, end=END_ID)
        texts = [self.texts.target.decode(row) for row in result.tokens.tolist()]
        return text_predictions(batch.ids, texts, result.scores.double())

    def _step(self, last: Tensor, state: State) -> tuple[Tensor, State]:
        scores, state = self.decoder.step(last, state)
        # Padding, the unknown token and a second begin are never generated.
        scores = scores.index_fill(-1, torch.tensor([0, 1, BEGIN_ID], device=scores.device), -torch.inf)
        # In half precision a sum over the tokens of a text would lose most of the difference between hypotheses.
        return scores.log_softmax(-1, dtype=torch.promote_types(scores.dtype, torch.float32)), state
