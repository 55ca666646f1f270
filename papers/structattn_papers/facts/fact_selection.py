"""Answering a question about a story by selecting some of its facts: memory networks and chains of facts.

The story and the question are the two sentences of an example.

Reference: Sukhbaatar et al. (2015), End-to-end memory networks; Kim et al. (2017), section 4.3.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from structattn.data import Example, Vocabulary
from structattn.data.model_folder import VOCABULARY, read_vocabulary, write_vocabulary
from structattn.errors import ConfigError
from structattn.layers.evaluation_mode import evaluating
from structattn.layers.linear import glorot_linear
from structattn.tasks.answering import Evaluation, Item, Prediction
from structattn.tasks.metrics import metric
from structattn.tasks.task import Task
from structattn.tasks.task_batch import check_batch
from structattn.tasks.task_model import ModelConfig, TaskModel
from structattn_papers.facts.babi import facts_of, support_of
from structattn_papers.facts.fact_memory import FactChain, MemoryHops
from structattn_papers.facts.fact_models import build_fact_parts
from structattn_papers.facts.fact_reader import FactBatch, FactReader


class FactModel(TaskModel):
    """``softmax(W selection(facts, question))``, trained with cross-entropy over the answers of the training data.

    Args:
        encoder: a `FactReader`.
        selection: a `MemoryHops` or a `FactChain`.
        task: the task.
        labels: the answers.
        vocabulary: the words.
        dim: width of the selected facts, from which the answers are scored.
        num_facts: maximum number of facts; of longer stories the last ones are read.
        linear_start: number of epochs without softmax over the facts.

    Raises:
        ConfigError: for fewer than two answers, or a negative linear start.

    Example:
        >>> from structattn.tasks import get_task
        >>> vocabulary = Vocabulary(["mary", "john", "left", "who"])
        >>> model = FactModel.build("binary", get_task("fact_selection"), ["john", "mary"], vocabulary=vocabulary)
        >>> model.predict([("Mary left", "who left")])[0].label in ("john", "mary")
        True
    """

    kind: ClassVar[str] = "facts"
    vocabulary: Vocabulary

    def __init__(
        self,
        encoder: FactReader,
        selection: MemoryHops | FactChain,
        task: Task,
        labels: Sequence[str],
        *,
        vocabulary: Vocabulary,
        dim: int,
        num_facts: int = 25,
        linear_start: int = 0,
    ) -> None:
        super().__init__()
        if len(set(labels)) < 2:
            raise ConfigError(f"task {task.name!r} needs at least two answers, got {list(labels)}")
        if linear_start < 0:
            raise ConfigError(f"linear_start expects at least 0, got {linear_start}")
        self.encoder = encoder
        self.selection = selection
        self.task = task
        self.labels = tuple(labels)
        self.vocabulary = vocabulary
        self.num_facts = num_facts
        self.linear_start = linear_start
        self.answer = glorot_linear(dim, len(self.labels), bias=False)
        self.description: Mapping[str, Any] | None = None
        self._indices = {label: index for index, label in enumerate(self.labels)}

    @classmethod
    def build(
        cls, name: str, task: Task, labels: Sequence[str], *, vocabulary: Vocabulary, **options: Any
    ) -> "FactModel":
        """A fresh model by name.

        Args:
            name: ``memn2n``, ``unary`` or ``binary``.
            task: the task.
            labels: the answers.
            vocabulary: the words.
            **options: ``dim``, ``num_steps``, ``num_facts``, ``linear_start``.

        Raises:
            ConfigError: for an unknown name or option (the message lists the known ones), or a value that does not fit.
        """
        reader, selection, every = build_fact_parts(name, len(vocabulary), options)
        sizes = {key: every[key] for key in ("dim", "num_facts", "linear_start")}
        model = cls(reader, selection, task, labels, vocabulary=vocabulary, **sizes)
        model.description = {"encoder": name, "options": options}
        return model

    @classmethod
    def from_examples(
        cls, task: Task, config: ModelConfig, examples: Sequence[Example], *, sentences: Sequence[Example] | None = None
    ) -> "FactModel":
        """As ``TaskModel.from_examples``."""
        vocabulary = config.vocabulary_of(examples if sentences is None else sentences)
        return cls.build(config.encoder, task, task.labels_of(examples), vocabulary=vocabulary, **config.options)

    @classmethod
    def from_config(cls, config: Mapping[str, Any], folder: Path) -> "FactModel":
        """The model that ``config`` describes, with fresh parameters."""
        vocabulary = read_vocabulary(folder / VOCABULARY, size=config["vocab_size"])
        task = Task.from_dict(config["task"])
        return cls.build(config["encoder"], task, config["labels"], vocabulary=vocabulary, **config["options"])

    @property
    def config(self) -> dict[str, Any]:
        """Plain values that describe everything but the words and the parameters.

        Raises:
            ConfigError: if the model was not made by name.
        """
        if self.description is None:
            raise ConfigError("this model cannot be saved: expected one that FactModel.build made by name")
        sizes = {"vocab_size": len(self.vocabulary), "task": self.task.to_dict(), "labels": list(self.labels)}
        return {**self.description, **sizes}

    def write_files(self, folder: Path) -> dict[str, Any]:
        """Write the vocabulary; return the configuration."""
        write_vocabulary(self.vocabulary, folder / VOCABULARY)
        return self.config

    def set_epoch(self, epoch: int) -> None:
        """Called before each training epoch, counted from 0: ends the linear start."""
        self.selection.is_linear = epoch < self.linear_start

    def forward(self, batch: FactBatch) -> Float[Tensor, "batch label"]:
        """Scores of the answers before softmax."""
        check_batch(batch, FactBatch)
        keys, values, question = self.encoder(batch)
        found, _ = self.selection(keys, values, batch.mask, question)
        scores: Tensor = self.answer(found)
        return scores

    def loss_of(self, scores: Float[Tensor, "batch label"], batch: FactBatch) -> Float[Tensor, ""]:
        """Weighted mean of the cross-entropy.

        Raises:
            ValueError: if no example of the batch has an answer that the model knows.
        """
        if batch.num_labelled == 0:
            raise ValueError(f"no example of this batch of {len(batch)} has an answer that the model knows")
        each = F.cross_entropy(scores, batch.target, reduction="none")
        return (each * batch.weight).sum() / batch.weight.sum()

    def collate(self, examples: Sequence[Item]) -> FactBatch:
        """Examples as tensors, see ``TaskModel.collate``; an example is a story and a question."""
        return self._batch(self.to_examples(examples))

    def predict(self, examples: Sequence[Item] | FactBatch, *, batch_size: int = 64) -> list[Prediction]:
        """Answers and the facts selected for them, see ``TaskModel.predict``."""
        with evaluating(self):
            if isinstance(examples, FactBatch):
                return self._answers(examples)
            found = self.with_trees(self.to_examples(examples, batch_size=batch_size))
            answers: list[Prediction] = []
            for start in range(0, len(found), batch_size):
                answers += self._answers(self._batch(found[start : start + batch_size]))
            return answers

    def measure(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> Evaluation:
        """The task's metrics, and the accuracy of the selected facts.

        Over the examples with as many supporting facts as there are steps, ``fact_accuracy`` is the share whose
        selected facts are the supporting ones in the order of the file, and ``fact_set_accuracy`` in any order.

        Raises:
            ValueError: if an example has no answer, or there are no examples.
        """
        gold: list[str] = []
        for index, example in enumerate(examples):
            if example.label is None:
                raise ValueError(f"{example.describe(index)} has no label to compare with")
            gold.append(str(example.label))
        answers = [str(prediction.answer) for prediction in predictions]
        metrics = {name: metric(name).value(gold, answers) for name in self.task.metrics}
        pairs = [
            (support_of(example), prediction.details["facts"])
            for example, prediction in zip(examples, predictions, strict=True)
            if len(support_of(example)) == len(prediction.details["facts"])
        ]
        if pairs:
            metrics["fact_accuracy"] = sum(right == tuple(facts) for right, facts in pairs) / len(pairs)
            metrics["fact_set_accuracy"] = sum(set(right) == set(facts) for right, facts in pairs) / len(pairs)
        unseen = sum(label not in self._indices for label in gold)
        if unseen:
            metrics["unseen_labels"] = unseen
        return Evaluation(metrics, tuple(predictions), tuple(gold), tuple(examples), self.task)

    def _batch(self, examples: Sequence[Example]) -> FactBatch:
        if not examples:
            raise ValueError("a batch needs at least one example, got none")
        stories = [facts_of(example) for example in examples]
        kept = [story[-self.num_facts :] for story in stories]
        most = max(1, *(len(story) for story in kept))
        width = max([1, *(len(fact) for story in kept for fact in story)])
        # The stories of a batch repeat the same few facts.
        encode = cache(lambda fact: _padded(self.vocabulary.encode(fact), width))
        words = [[encode(fact) for fact in story] for story in kept]
        questions = [self.vocabulary.encode(example.sentences[1].words) for example in examples]
        known = torch.tensor([example.label in self._indices for example in examples])
        weight = torch.tensor([example.weight for example in examples]) * known
        return FactBatch(
            torch.tensor([story + [[0] * width] * (most - len(story)) for story in words]),
            torch.arange(most) < torch.tensor([len(story) for story in kept])[:, None],
            torch.tensor([_padded(question, max(1, *map(len, questions))) for question in questions]),
            torch.tensor([self._indices.get(str(example.label), 0) for example in examples]),
            weight,
            torch.tensor([len(story) - len(rest) for story, rest in zip(stories, kept, strict=True)]),
            tuple(example.id for example in examples),
            int((weight > 0).sum()),
        )

    def _answers(self, batch: FactBatch) -> list[Prediction]:
        there = batch.to(self.device)
        keys, values, question = self.encoder(there)
        found, _ = self.selection(keys, values, there.mask, question)
        probabilities = self.answer(found).double().softmax(-1)
        facts = self.selection.best(keys, values, there.mask, question) + there.dropped[:, None]
        rows = [dict(zip(self.labels, row, strict=True)) for row in probabilities.tolist()]
        best = [self.labels[index] for index in probabilities.argmax(-1).tolist()]
        return [
            Prediction(name, label, None, row, details={"facts": chosen})
            for name, label, row, chosen in zip(batch.ids, best, rows, facts.tolist(), strict=True)
        ]


def _padded(ids: list[int], width: int) -> list[int]:
    return ids + [0] * (width - len(ids))
