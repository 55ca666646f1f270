"""``AttachmentModel``: an encoder's latent trees, trained and evaluated against gold trees.

Only the head scores of the encoder are used. Its heads can thus be pretrained before the encoder learns its own task,
and the induced trees can be measured afterwards.

Reference: Kim et al. (2017), Structured attention networks, section 4.4 (the pretrained parsing network).
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from structattn.data import Example, SentenceBatch, Vocabulary, collate
from structattn.distributions import DependencyCRF, NonProjectiveDependencyCRF
from structattn.encoders import SentenceEncoder, latent_trees
from structattn.layers.modes import evaluating
from structattn.syntax import Sentence
from structattn.syntax.errors import ConfigError
from structattn.tasks.model import Item, answers_by_length, example_of, examples_of, measured_texts
from structattn.tasks.prediction import Evaluation, Prediction
from structattn.tasks.sentence_model import num_words
from structattn.tasks.task import Task


class AttachmentModel(nn.Module):
    r"""``p(tree | sentence)`` as the encoder attends with it; the loss is ``-sum log p(tree) / sum of words``.

    For an encoder of projective trees, gold trees that are not projective are projectivised first.

    Args:
        encoder: one that attends to heads, see ``latent_trees``.
        task: the task.
        vocabulary: the words.

    Raises:
        ConfigError: if the encoder has no latent trees; words that choose their heads alone, as in simple attention,
            make none.

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

    # A tree is none of a few classes.
    labels: tuple[str, ...] = ()

    def __init__(self, encoder: SentenceEncoder, task: Task, *, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.encoder = encoder
        self.task = task
        self.vocabulary = vocabulary
        if self.device.type == "meta":  # a model without values, which only tells its shapes, cannot be asked
            return
        with evaluating(self):
            found = latent_trees(encoder, collate([Sentence(["word"])], vocabulary))
        if not isinstance(found, DependencyCRF | NonProjectiveDependencyCRF):
            raise ConfigError(
                f"task {task.name!r} expects an encoder with latent trees, got one with {type(found).__name__}"
            )
        self.projective = isinstance(found, DependencyCRF)

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        return next(self.parameters()).device

    def forward(self, batch: SentenceBatch) -> Float[Tensor, " batch"]:
        """The log-likelihood of each sentence's own tree.

        Raises:
            MissingStructure: if a sentence has no dependency tree.
        """
        parents = batch.require("dependency", wanted_by=f"task {self.task.name!r}").parents
        own = torch.arange(parents.shape[1], device=parents.device)
        trees = self._trees(batch)
        return trees.log_prob(trees.from_structure((parents + 1).masked_fill(parents == own, 0)))

    def loss(self, batch: SentenceBatch | Sequence[Example]) -> Float[Tensor, ""]:
        """Minus the log-likelihood of all trees, divided by the number of words."""
        if not isinstance(batch, SentenceBatch):
            batch = self.collate(batch)
        return self.loss_of(self(batch), batch)

    def loss_of(self, log_likelihood: Float[Tensor, " batch"], batch: SentenceBatch) -> Float[Tensor, ""]:
        """The loss, given the result of ``forward``."""
        return -log_likelihood.sum() / batch.lengths.sum().clamp(min=1)

    def collate(self, examples: Sequence[Item]) -> SentenceBatch:
        """Examples as tensors; works for sentences without trees too.

        Raises:
            ValueError: for an example of two sentences.
            TypeError: if an item is none of example, sentence, text or tuple of these.
        """
        return self._batch([example_of(item, index, self.task) for index, item in enumerate(examples)])

    def predict(self, examples: Sequence[Item], *, batch_size: int = 64) -> list[Prediction]:
        """The best tree of each sentence, its heads as CoNLL ids with spaces between, in the order of the examples.

        Args:
            examples: examples, sentences or texts.
            batch_size: examples per batch.

        Raises:
            ConfigError: if the batch size is below 1.
            ValueError: for an example of two sentences.
            TypeError: if an item is none of example, sentence, text or tuple of these.
        """
        found = examples_of(examples, self.task, batch_size=batch_size)
        with evaluating(self):
            return answers_by_length(found, self._answers, size_of=num_words, batch_size=batch_size)

    def evaluate(self, examples: Sequence[Example], *, batch_size: int = 64) -> Evaluation:
        """Predict, and measure against the trees.

        Raises:
            ValueError: if an example has no tree, or there are no examples.
        """
        return self.measure(examples, self.predict(examples, batch_size=batch_size))

    def measure(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> Evaluation:
        """The task's metrics for given predictions.

        Raises:
            ValueError: if an example has no tree, or there are no examples.
        """
        return measured_texts(self.task, examples, predictions, what="tree")

    def _batch(self, examples: Sequence[Example]) -> SentenceBatch:
        sentences = [example.sentences[0] for example in examples]
        return collate([_projectivised(one) if self.projective else one for one in sentences], self.vocabulary)

    def _trees(self, batch: SentenceBatch) -> DependencyCRF | NonProjectiveDependencyCRF:
        trees: DependencyCRF | NonProjectiveDependencyCRF = latent_trees(self.encoder, batch)  # type: ignore[assignment]
        return trees

    def _answers(self, examples: list[Example]) -> list[Prediction]:
        trees = self._trees(self._batch(examples).to(self.device))
        parts = trees.argmax()
        rows = zip(examples, trees.to_structure(parts).tolist(), trees.log_prob(parts).tolist(), strict=True)
        return [
            Prediction(
                example.id,
                None,
                None,
                {},
                text=" ".join(map(str, heads[: len(example.sentences[0])])),
                log_probability=score,
            )
            for example, heads, score in rows
        ]


def _projectivised(sentence: Sentence) -> Sentence:
    tree = sentence.dependency
    if tree is None or tree.is_projective:
        return sentence
    return Sentence(sentence.words, sentence.tags, tree.projectivised())
