"""The built-in tasks: the data sets of the papers, and generic ones for your own files; and their models."""

from collections.abc import Mapping

from structattn.data.formulas import TESTED_ON
from structattn.syntax.errors import ConfigError
from structattn.syntax.options import nearest
from structattn.tasks.attachment import AttachmentModel
from structattn.tasks.fact_selection import FactModel
from structattn.tasks.model import TaskModel
from structattn.tasks.sentence_model import SentenceModel
from structattn.tasks.sequence_model import SequenceModel
from structattn.tasks.task import Task

_NLI = ("entailment", "neutral", "contradiction")
_SIMILARITY = ("pearson", "spearman", "mean_squared_error")

CLASSIFICATION = Task("classification")
SENTIMENT = Task("sentiment", labels=("negative", "positive"), relabel={"0": "negative", "1": "positive"})
PAIR_CLASSIFICATION = Task("pair_classification", arity=2, combine="product_absolute")

TASKS: Mapping[str, Task] = {
    task.name: task
    for task in (
        CLASSIFICATION,
        SENTIMENT,
        PAIR_CLASSIFICATION,
        Task("sst5", format="sst", labels=("0", "1", "2", "3", "4")),
        Task(
            "sst2",
            format="sst",
            labels=("negative", "positive"),
            relabel={"0": "negative", "1": "negative", "2": None, "3": "positive", "4": "positive"},
        ),
        Task("trec", format="labelled"),
        Task("cr", format="labelled"),
        Task("mpqa", format="labelled"),
        Task("subj", format="labelled"),
        Task(
            "sick",
            format="sick",
            arity=2,
            combine="tai",
            score_range=(1.0, 5.0),
            metrics=_SIMILARITY,
            target="relatedness",
        ),
        Task(
            "sick_entailment",
            format="sick",
            arity=2,
            combine="product_absolute",
            labels=("ENTAILMENT", "NEUTRAL", "CONTRADICTION"),
            target="entailment",
        ),
        Task("snli", format="snli", arity=2, combine="product_absolute", labels=_NLI),
        Task("cad_nli", format="tsv", arity=2, combine="product_absolute", labels=_NLI),
        Task("rte", format="tsv", arity=2, combine="product_absolute", labels=("entailment", "not_entailment")),
        Task("mrpc", format="tsv", arity=2, combine="product_absolute", labels=("0", "1")),
        Task("qnli", format="tsv", arity=2, combine="product_absolute", labels=("entailment", "not_entailment")),
        Task("stsb", format="tsv", arity=2, combine="tai", score_range=(0.0, 5.0), metrics=_SIMILARITY),
        Task("cola", format="tsv", labels=("0", "1"), metrics=("matthews", "accuracy")),
        Task("agreement", format="agreement", labels=("singular", "plural")),
        Task("fact_selection", format="babi", arity=2, answer="facts", metrics=("accuracy",)),
        Task("attachment", format="conllu", metrics=("attachment",), target="heads", answer="tree"),
        Task("translation", format="parallel", metrics=("bleu",), answer="text"),
        Task(
            "transduction",
            format="parallel",
            metrics=("correct_prefix", "accuracy", *(f"correct_prefix_depth{depth}" for depth in TESTED_ON)),
            answer="text",
            generated="formulas",
        ),
    )
}


MODELS: Mapping[str, type[TaskModel]] = {
    "label": SentenceModel,
    "text": SequenceModel,
    "facts": FactModel,
    "tree": AttachmentModel,
}


def model_class(task: Task) -> type[TaskModel]:
    """The kind of model that learns a task.

    Raises:
        ConfigError: if there is none; the message lists the known answers.

    Example:
        >>> model_class(get_task("translation")).kind
        'sequence'
    """
    if task.answer not in MODELS:
        known = ", ".join(MODELS)
        raise ConfigError(f"task {task.name!r}: unknown answer {task.answer!r}; known: {known}")
    return MODELS[task.answer]


def get_task(name: str) -> Task:
    """The built-in task of that name.

    Raises:
        ConfigError: if there is none; the message lists the known names.
    """
    if name not in TASKS:
        raise ConfigError(f"unknown task {name!r}{nearest(name, TASKS)}; known: {', '.join(sorted(TASKS))}")
    return TASKS[name]
