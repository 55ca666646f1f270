"""``AttachmentModel``: an encoder's latent trees, trained and evaluated against gold trees.

Only the head scores of the encoder are used. Its heads can thus be pretrained before the encoder learns its own task,
and the induced trees can be measured afterwards.

Reference: Kim et al. (2017), Structured attention networks, section 4.4 (the pretrained parsing network).
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from structattn.data import Example, SentenceBatch, Vocabulary, collate
from structattn.data.model_folder import VOCABULARY, read_vocabulary, write_vocabulary
from structattn.distributions import DependencyCRF, NonProjectiveDependencyCRF
from structattn.encoders import SentenceEncoder
from structattn.encoders.build import build_from_config
from structattn.encoders.latent_tree import LatentTree, read_latent_trees
from structattn.errors import ConfigError
from structattn.layers.attention_map import LATENT_TREES, AttentionMap
from structattn.layers.evaluation_mode import evaluating
from structattn.syntax import Sentence
from structattn.tasks.answering import (
    Evaluation,
    Item,
    Prediction,
    answer_by_length,
    measure_texts,
    num_words,
    text_predictions,
)
from structattn.tasks.task import Task
from structattn.tasks.task_batch import check_batch
from structattn.tasks.task_model import ModelConfig, TaskModel


class AttachmentModel(TaskModel):
    r"""``p(tree | sentence)`` as the encoder attends with it; the loss is ``-sum log p(tree) / sum of words``.

    For an encoder of projective trees, gold trees that are not projective are projectivised first.

    Args:
        encoder: an encoder that attends to heads, see ``SentenceEncoder.latent_trees``.
        task: the task.
        vocabulary: the words.

    Raises:
        ConfigError: if the encoder has no latent trees; words that choose their heads independently, as in simple
            attention, form none.

    Example:
        >>> from structattn.encoders import build
        >>> from structattn.syntax import DependencyTree
        >>> from structattn.tasks import get_task
        >>> vocabulary = Vocabulary(["bark", "dogs"])
        >>> encoder = build("structured", vocab_size=len(vocabulary), dim=4)
        >>> model = AttachmentModel(encoder, get_task("attachment"), vocabulary=vocabulary)
        >>> gold = Example((Sentence(["dogs", "bark"], dependency=DependencyTree([2, 0])),), "2 0")
        >>> bool(model.loss([gold]) > 0), len(model.predict(["Dogs bark"])[0].text.split())
        (True, 2)
    """

    kind: ClassVar[str] = "attachment"
    vocabulary: Vocabulary

    def __init__(self, encoder: SentenceEncoder, task: Task, *, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.encoder = encoder
        self.task = task
        self.vocabulary = vocabulary
        if self.device.type != "meta":  # where nothing can be computed
            _ = self.projective

    @cached_property
    def projective(self) -> bool:
        """Whether the encoder's trees are projective.

        Raises:
            ConfigError: if the encoder has no latent trees.
        """
        with evaluating(self):
            trees = self.encoder.latent_trees(collate([Sentence(["word"])], self.vocabulary).to(self.device))
        if not isinstance(trees, DependencyCRF | NonProjectiveDependencyCRF):
            raise ConfigError(
                f"task {self.task.name!r} expects an encoder with latent trees, got one with {type(trees).__name__}"
            )
        return isinstance(trees, DependencyCRF)

    @classmethod
    def from_examples(
        cls, task: Task, config: ModelConfig, examples: Sequence[Example], *, sentences: Sequence[Example] | None = None
    ) -> "AttachmentModel":
        """As ``TaskModel.from_examples``."""
        vocabulary = config.vocabulary_of(examples if sentences is None else sentences)
        return cls(config.build_encoder(vocabulary), task, vocabulary=vocabulary)

    @classmethod
    def from_config(cls, config: Mapping[str, Any], folder: Path) -> "AttachmentModel":
        """The model that ``config`` describes, with fresh parameters."""
        vocabulary = read_vocabulary(folder / VOCABULARY, size=config["vocab_size"])
        return cls(build_from_config(config, folder), Task.from_dict(config["task"]), vocabulary=vocabulary)

    @property
    def config(self) -> dict[str, Any]:
        """Plain values that describe everything but the words and the parameters."""
        return {**self.encoder.config, "task": self.task.to_dict()}

    def write_files(self, folder: Path) -> dict[str, Any]:
        """Write the vocabulary and the files of the encoder; return the configuration."""
        write_vocabulary(self.vocabulary, folder / VOCABULARY)
        return {**self.config, **self.encoder.write_files(folder)}

    def forward(self, batch: SentenceBatch) -> Float[Tensor, " batch"]:
        """The log-likelihood of each sentence's own tree.

        Raises:
            MissingStructure: if a sentence has no dependency tree.
        """
        check_batch(batch, SentenceBatch)
        parents = batch.require("dependency", wanted_by=f"task {self.task.name!r}").parents
        positions = torch.arange(parents.shape[1], device=parents.device)
        trees = self._trees(batch)
        return trees.log_prob(trees.from_structure((parents + 1).masked_fill(parents == positions, 0)))

    def loss_of(self, scores: Float[Tensor, " batch"], batch: SentenceBatch) -> Float[Tensor, ""]:
        """Minus the log-likelihood of all trees, divided by the number of words."""
        return -scores.sum() / batch.lengths.sum().clamp(min=1)

    def collate(self, examples: Sequence[Item]) -> SentenceBatch:
        """Examples as tensors, see ``TaskModel.collate``."""
        return self._batch(self.to_examples(examples))

    def predict(self, examples: Sequence[Item], *, batch_size: int = 64) -> list[Prediction]:
        """The best tree of each sentence, its heads as CoNLL ids separated by spaces; see ``TaskModel.predict``."""
        task_examples = self.to_examples(examples, batch_size=batch_size)
        with evaluating(self):
            return answer_by_length(
                task_examples, self._answers, size_of=num_words, batch_size=batch_size, device=self.device
            )

    def measure(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> Evaluation:
        """The task's metrics for given predictions, see ``TaskModel.measure``."""
        return measure_texts(self.task, examples, predictions, noun="tree")

    def attention_maps(self, texts: Sequence[tuple[Sentence, ...]]) -> list[AttentionMap]:
        """For each sentence, the marginal probabilities of heads and, as a second matrix, the best tree.

        A row is a word, a column its head; 1 minus the sum of a row is the probability of the root. In the best tree
        the root's row is zero.

        Args:
            texts: one sentence each.
        """
        sentences = [sentence for (sentence,) in texts]
        batch = self._batch([Example((sentence,)) for sentence in sentences]).to(self.device)
        trees = enumerate(zip(read_latent_trees(self.encoder, batch), sentences, strict=True))
        return [_map_trees(tree, sentence, index) for index, (tree, sentence) in trees]

    def _batch(self, examples: Sequence[Example]) -> SentenceBatch:
        sentences = [example.sentences[0] for example in examples]
        batch = collate(
            [_projectivised(sentence) if self.projective else sentence for sentence in sentences], self.vocabulary
        )
        prepared: SentenceBatch = self.encoder.prepare(batch)[0]
        return prepared

    def _trees(self, batch: SentenceBatch) -> DependencyCRF | NonProjectiveDependencyCRF:
        trees: DependencyCRF | NonProjectiveDependencyCRF = self.encoder.latent_trees(batch)  # type: ignore[assignment]
        return trees

    def _answers(self, examples: list[Example]) -> list[Prediction]:
        trees = self._trees(self._batch(examples).to(self.device))
        parts = trees.argmax()
        rows = zip(examples, trees.to_structure(parts).tolist(), strict=True)
        texts = [" ".join(map(str, heads[: len(example.sentences[0])])) for example, heads in rows]
        return text_predictions([example.id for example in examples], texts, trees.log_prob(parts))


def _map_trees(tree: LatentTree, sentence: Sentence, index: int) -> AttentionMap:
    best = torch.zeros_like(tree.probabilities)
    best[range(len(sentence)), tree.heads] = 1.0
    weights = torch.stack([tree.probabilities, best])[..., 1:]
    names, words = ("probability of the head", "best tree"), sentence.words
    return AttentionMap(
        "trees", words, words, weights, "attention", names, layer=LATENT_TREES, sentence=sentence, index=index
    )


def _projectivised(sentence: Sentence) -> Sentence:
    tree = sentence.dependency
    if tree is None or tree.is_projective:
        return sentence
    return Sentence(sentence.words, sentence.tags, tree.projectivised())
