"""``LanguageModel``: a causal language model, trained to predict the words of sentences, and measured by surprisal.

The words of an example are its answer.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from jaxtyping import Float
from torch import Tensor

from structattn.data import Example, PhraseTrees
from structattn.encoders.build import find_embedder
from structattn.encoders.encoder_table import LANGUAGE_MODELS
from structattn.layers.evaluation_mode import evaluating
from structattn.syntax import Sentence
from structattn.tasks.answering import Evaluation, Item, Prediction, answer_by_length, measure_texts, num_words
from structattn.tasks.task import Task
from structattn.tasks.task_batch import naming_examples
from structattn.tasks.task_model import ModelConfig, TaskModel

# Options that say what a new model is made of; a saved one has it in its folder.
_ORIGIN = ("config", "tokenizer", "num_subwords")


class LanguageModel(TaskModel):
    r"""``p(w) = prod_t p(w_t | w_{<t})``, trained with the mean surprisal of all tokens, also of the end of each text.

    What else it learns, such as heads that attend as priors prefer, is up to the language model. Its answer to an
    example is the surprisal of each word in bits, without that of the end.

    Args:
        encoder: the language model, as a row of ``LANGUAGE_MODELS`` builds it.
        task: the task.
        trees: the phrase trees that it learns from.
        made_of: name and options of the language model, from which it is built when it is loaded.

    Example:
        >>> from structattn.tasks import ModelConfig, get_task
        >>> new = {"config": {"model_type": "gpt2", "n_layer": 1, "n_embd": 8, "n_head": 2}}
        >>> task = get_task("language_model")
        >>> data = list(task.prepare([Example("two kids wash"), Example("kids bark")]))
        >>> model = LanguageModel.from_examples(task, ModelConfig("causal", new), data)
        >>> len(model.predict(["Two kids bark"])[0].text.split()), model.evaluate(data).metrics["word_perplexity"] > 1
        (3, True)
    """

    kind: ClassVar[str] = "language_model"
    uses_pooling: ClassVar[bool] = False
    vocabulary = None

    def __init__(
        self, encoder: Any, task: Task, *, trees: PhraseTrees | None = None, made_of: Mapping[str, Any]
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.task = task
        self.trees = PhraseTrees() if trees is None else trees
        self.made_of = made_of

    @classmethod
    def from_examples(
        cls, task: Task, config: ModelConfig, examples: Sequence[Example], *, sentences: Sequence[Example] | None = None
    ) -> "LanguageModel":
        """As ``TaskModel.from_examples``; the tokens of a new model are words or subwords of the training examples."""
        whole = examples if sentences is None else sentences
        options = LANGUAGE_MODELS.check_options(config.encoder, config.options)
        encoder = LANGUAGE_MODELS.find(config.encoder)(
            [example.sentences[0] for example in whole],
            config.vocabulary_of(whole),
            config.embedder.get("folder", ""),
            **options,
        )
        kept = {name: value for name, value in config.options.items() if name not in _ORIGIN}
        return cls(encoder, task, trees=config.trees, made_of={"encoder": config.encoder, "options": kept})

    @classmethod
    def from_config(cls, config: Mapping[str, Any], folder: Path) -> "LanguageModel":
        """The model that ``config`` describes, with fresh parameters."""
        embedder = find_embedder(config["embedder"], folder)
        made_of = ModelConfig(config["encoder"], config["options"], embedder, trees=PhraseTrees(**config["trees"]))
        return cls.from_examples(Task.from_dict(config["task"]), made_of, [])

    @property
    def config(self) -> dict[str, Any]:
        """Plain values that describe everything but the tokens and the parameters."""
        return {**self.made_of, "task": self.task.to_dict(), "trees": dataclasses.asdict(self.trees)}

    def write_files(self, folder: Path) -> dict[str, Any]:
        """Write the configuration and the tokenizer of the language model; return the configuration."""
        return {**self.config, "embedder": self.encoder.write_files(folder)}

    def forward(self, batch: Any) -> tuple[Float[Tensor, "batch token"], Float[Tensor, ""]]:
        """The surprisal of each token in nats, 0 at padding, and what else is minimised."""
        scores: tuple[Tensor, Tensor] = self.encoder(batch)
        return scores

    def loss_of(self, scores: tuple[Float[Tensor, "batch token"], Float[Tensor, ""]], batch: Any) -> Float[Tensor, ""]:
        """The weighted mean surprisal of the tokens, and what else is minimised."""
        surprisals, objectives = scores
        weight = batch.weight[:, None] * batch.subwords.mask[:, 1:]
        total = weight.sum()
        loss: Tensor = (surprisals * weight).sum() / total.where(total > 0, 1.0) + objectives
        return loss

    def collate(self, examples: Sequence[Item]) -> Any:
        """Examples as tensors, see ``TaskModel.collate``.

        Raises:
            MissingStructure: if a sentence lacks a tree that the model learns from.
        """
        items = self.to_examples(examples)
        if not items:
            raise ValueError("a batch needs at least one example, got none")
        with naming_examples([item.describe() for item in items]):
            sentences = [self.prepare_sentence(item.sentences[0]) for item in items]
            return self.encoder.collate(sentences, [item.weight for item in items])

    def predict(self, examples: Sequence[Item], *, batch_size: int = 64) -> list[Prediction]:
        """The surprisal of each word in bits, separated by spaces, as a text; see ``TaskModel.predict``."""
        items = self.to_examples(examples, batch_size=batch_size)
        with evaluating(self):
            return answer_by_length(items, self._answers, size_of=num_words, batch_size=batch_size, device=self.device)

    def measure(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> Evaluation:
        """The task's metrics for given predictions, see ``TaskModel.measure``."""
        return measure_texts(self.task, list(self.task.prepare(examples)), predictions)

    def prepare_sentence(self, sentence: Sentence) -> Sentence:
        """A sentence with the phrase trees that are learnt from."""
        return self.trees(sentence)

    def _answers(self, examples: list[Example]) -> list[Prediction]:
        with naming_examples([example.describe() for example in examples]):
            scores = list(self.encoder.surprisals([example.sentences[0] for example in examples]))
        return [
            Prediction(
                example.id,
                None,
                None,
                {},
                text=" ".join(f"{bits:.6f}" for bits in words.bits),
                log_probability=-math.log(2) * words.total,
            )
            for example, words in zip(examples, scores, strict=True)
        ]
