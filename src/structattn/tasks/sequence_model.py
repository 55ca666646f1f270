"""``SequenceModel``: an encoder and a decoder from a sentence to a text, such as its translation.

It has the interface of ``SentenceModel`` (``collate``, ``loss_of``, ``predict``, ``measure``), so that training,
evaluation and the command line treat both alike. The text of an example is its label.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from structattn.data import Example, PhraseTrees, SentenceBatch, Vocabulary, collate
from structattn.data.text_vocabulary import BEGIN_ID, END_ID, Splitter, TextVocabulary, WordSplitter, retokenize
from structattn.encoders import SentenceEncoder
from structattn.layers.modes import evaluating
from structattn.syntax import Sentence
from structattn.syntax.errors import ConfigError
from structattn.tasks.decoder import Decoder
from structattn.tasks.model import Item, answers_by_length, example_of, examples_of, measured_texts
from structattn.tasks.prediction import Evaluation, Prediction
from structattn.tasks.search import beam_search, greedy_search
from structattn.tasks.task import Task


@dataclass(frozen=True)
class Search:
    """Options of the search for a text.

    Attributes:
        beam: number of unfinished hypotheses; 1 is greedy.
        length_penalty: a text of ``n`` tokens scores ``log p / n ** length_penalty``.
        max_length_ratio: a text has at most ``max_length_ratio * n + 10`` tokens for ``n`` tokens of the source.
    """

    beam: int = 5
    length_penalty: float = 0.0
    max_length_ratio: float = 2.0

    def __post_init__(self) -> None:
        for name, value, least in (
            ("beam", self.beam, 1),
            ("length_penalty", self.length_penalty, 0),
            ("max_length_ratio", self.max_length_ratio, 0),
        ):
            if value < least:
                raise ConfigError(f"search.{name}: expected at least {least}, got {value!r}")


@dataclass(frozen=True, eq=False)
class SequenceBatch:
    """Source sentences and target texts as tensors.

    Attributes:
        source: the sentences, tokenized.
        inputs: the tokens that the decoder reads: begin, and the text.
        outputs: the tokens to predict: the text, and end; 0 at padding.
        weight: factor of each example's loss, zero where there is no text.
        ids: the examples' ids.
        num_labelled: how many examples have a text.
    """

    source: SentenceBatch
    inputs: Int64[Tensor, "batch step"]
    outputs: Int64[Tensor, "batch step"]
    weight: Float[Tensor, " batch"]
    ids: tuple[str, ...] = ()
    num_labelled: int = 0

    def __len__(self) -> int:
        return len(self.source)

    def to(self, device: torch.device | str) -> "SequenceBatch":
        """The same batch on another device."""
        if self.inputs.device == torch.device(device):
            return self
        inputs, outputs, weight = (part.to(device) for part in (self.inputs, self.outputs, self.weight))
        return SequenceBatch(self.source.to(device), inputs, outputs, weight, self.ids, self.num_labelled)


class TextProcessor(NamedTuple):
    """From texts to ids: the vocabulary and splitter of the source side, and the vocabulary of the target side."""

    source: Vocabulary
    target: TextVocabulary
    splitter: Splitter = WordSplitter()


class SequenceModel(nn.Module):
    r"""``p(y | x) = prod_t softmax(decoder(encoder(x), y_1 .. y_{t-1}))``, trained with cross-entropy over all tokens.

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
        ConfigError: for a label smoothing that is no share below 1.

    Example:
        >>> from structattn.encoders import build
        >>> from structattn.tasks import get_task
        >>> from structattn.tasks.decoder import build_decoder
        >>> source, target = Vocabulary(["ein", "hund"]), TextVocabulary.from_texts(["a dog"])
        >>> encoder = build("lstm", vocab_size=len(source), dim=4)
        >>> decoder = build_decoder("lstm", encoder, len(target))
        >>> model = SequenceModel(encoder, decoder, get_task("translation"), texts=TextProcessor(source, target))
        >>> [prediction.text is not None for prediction in model.predict(["ein Hund"])]
        [True]
    """

    # A text is none of a few classes.
    labels: tuple[str, ...] = ()

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
        self.encoder = encoder
        self.decoder = decoder
        self.task = task
        self.texts = texts
        self.trees = PhraseTrees() if trees is None else trees
        self.label_smoothing = label_smoothing
        self.search = Search() if search is None else search

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary of the source side."""
        return self.texts.source

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        return next(self.parameters()).device

    def forward(self, batch: SequenceBatch) -> Float[Tensor, "batch step vocabulary"]:
        """Logits of every next token of the texts."""
        scores: Tensor = self.decoder(self.encoder(batch.source), batch.source, batch.inputs)
        return scores

    def loss(self, batch: SequenceBatch | Sequence[Example]) -> Float[Tensor, ""]:
        """Weighted mean over tokens of the smoothed cross-entropy.

        Raises:
            ValueError: if no example of the batch has a text.
        """
        if not isinstance(batch, SequenceBatch):
            batch = self.collate(batch)
        return self.loss_of(self(batch), batch)

    def loss_of(self, scores: Float[Tensor, "batch step vocabulary"], batch: SequenceBatch) -> Float[Tensor, ""]:
        """The loss, given the result of ``forward``.

        Raises:
            ValueError: if no example of the batch has a text.
        """
        if batch.num_labelled == 0:
            raise ValueError(f"no example of this batch of {len(batch)} has a text to learn")
        # Tokens last and in one row each: over an inner axis the same costs three times as much.
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
        """Examples as tensors; works for sentences without a text too.

        Raises:
            ValueError: for no examples, or an example of two sentences.
            TypeError: if an item is none of example, sentence, text or tuple of these.
        """
        found = [example_of(item, index, self.task) for index, item in enumerate(examples)]
        return self._batch(found)

    def predict(self, examples: Sequence[Item] | SequenceBatch, *, batch_size: int = 64) -> list[Prediction]:
        """Texts, in the order of the examples. They do not depend on which examples share a batch.

        Args:
            examples: examples, sentences or texts; or a batch.
            batch_size: examples per batch.

        Raises:
            ConfigError: if the batch size is below 1.
            ValueError: if an example has two sentences.
            TypeError: if an item is none of example, sentence, text or tuple of these.
        """
        with evaluating(self):
            if isinstance(examples, SequenceBatch):
                return self._answers(examples)
            found = examples_of(examples, self.task, batch_size=batch_size)
            return answers_by_length(
                found,
                lambda batch: self._answers(self._batch(batch)),
                size_of=lambda example: len(example.sentences[0]),
                batch_size=batch_size,
            )

    def evaluate(self, examples: Sequence[Example], *, batch_size: int = 64) -> Evaluation:
        """Predict, and measure against the texts.

        Raises:
            ValueError: if an example has no text, or there are no examples.
        """
        return self.measure(examples, self.predict(examples, batch_size=batch_size))

    def measure(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> Evaluation:
        """The task's metrics for given predictions; those that concern none of the examples are left out.

        Raises:
            ValueError: if an example has no text, or there are no examples.
        """
        return measured_texts(self.task, examples, predictions)

    def source_of(self, sentence: Sentence) -> Sentence:
        """A source sentence as it is encoded: retokenized, with its phrase trees.

        Raises:
            MissingStructure: if it lacks the tree that phrases are made from.
        """
        return retokenize(self.trees(sentence), self.texts.splitter)

    def size_of(self, example: Example) -> int:
        """The length of an example: that of its source or its text, the longer one, in tokens."""
        text = example.label if isinstance(example.label, str) else ""
        source = len(retokenize(example.sentences[0], self.texts.splitter))
        return max(source, len(self.texts.target.splitter.split(text)) + 1)

    def _batch(self, examples: Sequence[Example]) -> SequenceBatch:
        if not examples:
            raise ValueError("a batch needs at least one example, got none")
        sentences = [self.source_of(example.sentences[0]) for example in examples]
        labelled = [isinstance(example.label, str) for example in examples]
        tokens = [
            [BEGIN_ID, *self.texts.target.encode(example.label), END_ID] if isinstance(example.label, str) else []
            for example in examples
        ]
        width = max(2, *(len(one) for one in tokens))
        padded = torch.tensor([one + [0] * (width - len(one)) for one in tokens])
        # What is read ends before the end: at the last step of a shorter text the end would be read as a token.
        inputs = padded[:, :-1].masked_fill(padded[:, :-1] == END_ID, 0)
        weight = torch.tensor([example.weight for example in examples]) * torch.tensor(labelled)
        return SequenceBatch(
            collate(sentences, self.texts.source),
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
        given = {"limits": limits, "begin": BEGIN_ID, "end": END_ID}
        if self.search.beam == 1:
            found = greedy_search(self._step, state, **given)  # type: ignore[arg-type]  # one dictionary for both
        else:
            penalty = self.search.length_penalty
            found = beam_search(self._step, state, beam=self.search.beam, length_penalty=penalty, **given)  # type: ignore[arg-type]
        texts = [self.texts.target.decode(row) for row in found.tokens.tolist()]
        return [
            Prediction(name, None, None, {}, text=text, log_probability=score)
            for name, text, score in zip(batch.ids, texts, found.scores.double().tolist(), strict=True)
        ]

    def _step(self, last: Tensor, state: object) -> tuple[Tensor, object]:
        scores, after = self.decoder.step(last, state)  # type: ignore[arg-type]  # the state is the decoder's own
        # Padding, the unknown token and a second begin are never generated.
        scores = scores.index_fill(-1, torch.tensor([0, 1, BEGIN_ID], device=scores.device), -torch.inf)
        return scores.log_softmax(-1), after
