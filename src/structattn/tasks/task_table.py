"""The built-in tasks: the data sets of the papers, and generic ones for your own files; and the names of their models.

The code behind these names is imported only when it is needed to build them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from structattn.encoders.encoder_table import check_encoder, check_language_model
from structattn.errors import ConfigError
from structattn.lazy import imported
from structattn.tables import Table
from structattn.tasks.task import Task

if TYPE_CHECKING:
    from structattn.data import Example
    from structattn.tasks.decoding import Decoder
    from structattn.tasks.task_model import TaskModel

_NLI = ("entailment", "neutral", "contradiction")
_SIMILARITY = ("pearson", "spearman", "mean_squared_error")

#: Sentences with labels of any kind.
CLASSIFICATION = Task("classification", stratify=True)
_TWO_CLASSES = {"0": "negative", "1": "positive"}
#: Two classes, also written 0 and 1.
SENTIMENT = Task("sentiment", labels=("negative", "positive"), relabel=_TWO_CLASSES, stratify=True)
#: Pairs of sentences with labels of any kind.
PAIR_CLASSIFICATION = Task("pair_classification", arity=2, combine="product_absolute", stratify=True)

#: Scores in a column of numbers, in the range of the training data.
REGRESSION = Task("regression", score_range=(0.0, 1.0), fits_range=True, metrics=_SIMILARITY)

#: Any number of labels for a text.
MULTILABEL = Task("multilabel", metrics=("micro_f1", "labels_macro_f1", "accuracy"), answer="labels", stratify=True)

_TASKS = (
    CLASSIFICATION,
    MULTILABEL,
    replace(MULTILABEL, name="pair_multilabel", arity=2, combine=PAIR_CLASSIFICATION.combine),
    SENTIMENT,
    PAIR_CLASSIFICATION,
    REGRESSION,
    replace(REGRESSION, name="pair_regression", arity=2, combine="tai"),
    Task("sst5", fallback_format="sst", labels=("0", "1", "2", "3", "4")),
    Task(
        "sst2",
        fallback_format="sst",
        labels=("negative", "positive"),
        relabel={"0": "negative", "1": "negative", "2": None, "3": "positive", "4": "positive"},
        # GLUE has the same sentences as a table, with 0 and 1.
        relabel_in_other_formats=_TWO_CLASSES,
    ),
    Task("trec", fallback_format="labelled"),
    Task("cr", fallback_format="labelled"),
    Task("mpqa", fallback_format="labelled"),
    Task("subj", fallback_format="labelled"),
    Task(
        "sick",
        fallback_format="sick",
        arity=2,
        combine="tai",
        score_range=(1.0, 5.0),
        metrics=_SIMILARITY,
        target="relatedness",
    ),
    Task(
        "sick_entailment",
        fallback_format="sick",
        arity=2,
        combine="product_absolute",
        labels=("ENTAILMENT", "NEUTRAL", "CONTRADICTION"),
        target="entailment",
    ),
    Task("snli", fallback_format="snli", arity=2, combine="product_absolute", labels=_NLI),
    Task("cad_nli", fallback_format="tsv", arity=2, combine="product_absolute", labels=_NLI),
    Task("rte", fallback_format="tsv", arity=2, combine="product_absolute", labels=("entailment", "not_entailment")),
    Task("mrpc", fallback_format="tsv", arity=2, combine="product_absolute", labels=("0", "1")),
    Task("qnli", fallback_format="tsv", arity=2, combine="product_absolute", labels=("entailment", "not_entailment")),
    Task("stsb", fallback_format="tsv", arity=2, combine="tai", score_range=(0.0, 5.0), metrics=_SIMILARITY),
    Task("cola", fallback_format="tsv", labels=("0", "1"), metrics=("matthews", "accuracy")),
    Task("agreement", fallback_format="agreement", labels=("singular", "plural")),
    Task("attachment", fallback_format="conllu", metrics=("attachment",), target="heads", answer="tree"),
    Task("tagging", fallback_format="columns", metrics=("tag_accuracy",), answer="tags"),
    Task("span_tagging", fallback_format="columns", metrics=("span_f1", "tag_accuracy"), answer="tags"),
    Task("pos_tagging", fallback_format="conllu", metrics=("tag_accuracy",), target="tags", answer="tags"),
    Task(
        "noun_phrases",
        fallback_format="conllu",
        metrics=("span_f1", "tag_accuracy"),
        target="noun_phrases",
        answer="tags",
    ),
    Task("translation", fallback_format="parallel", metrics=("bleu",), answer="text"),
    Task("language_model", fallback_format="text", metrics=("word_perplexity",), answer="words"),
)

#: Every task by name.
TASKS: Table[Task] = Table(
    "tasks",
    "task",
    {task.name: task for task in _TASKS},
    hint=", or module:NAME for your own",
    accepts=lambda value: isinstance(value, Task),
    expected="a Task",
)


@dataclass(frozen=True)
class ModelKind:
    """A kind of model that learns a task.

    Attributes:
        model: the ``module:class`` of the ``TaskModel``.
        sections: the parts of a run's configuration that concern it: the ``classifier``, the ``decoder``, labels of
            ``phrases``, pretrained word ``vectors`` (and an embedder), an ``embedder`` alone.
        check_encoder: refuses an unknown encoder or embedder, or options that they do not have:
            ``(encoder, options, embedder)``. Nothing is refused if ``None``.
    """

    model: str
    sections: frozenset[str] = frozenset()
    check_encoder: Callable[[str, Mapping[str, Any], Mapping[str, Any]], object] | None = None


#: From the name of a decoder to its builder.
DECODERS: Table[Callable[..., "Decoder"]] = Table(
    "decoders",
    "decoder",
    {
        "lstm": "structattn.tasks.lstm_decoder:lstm_decoder",
        "transformer": "structattn.tasks.transformer_decoder:transformer_decoder",
        "tree_transformer": "structattn.tasks.transformer_decoder:tree_transformer_decoder",
    },
)

#: From the name of a generator to the generator: from a number of training examples to training, dev and test data.
GENERATORS: Table[Callable[[int], tuple[list["Example"], list["Example"], list["Example"]]]] = Table(
    "generators", "generator", {}
)


#: From each kind of answer to the model that gives it.
ANSWERS: Table[ModelKind] = Table(
    "answers",
    "answer",
    {
        "label": ModelKind(
            "structattn.tasks.sentence_model:SentenceModel",
            frozenset({"classifier", "phrases", "vectors"}),
            check_encoder,
        ),
        "labels": ModelKind(
            "structattn.tasks.multilabel:MultilabelModel", frozenset({"classifier", "vectors"}), check_encoder
        ),
        "text": ModelKind(
            "structattn.tasks.sequence_model:SequenceModel", frozenset({"decoder", "vectors"}), check_encoder
        ),
        "tags": ModelKind("structattn.tasks.tagging:TaggingModel", frozenset({"classifier", "vectors"}), check_encoder),
        "tree": ModelKind("structattn.tasks.attachment:AttachmentModel", frozenset({"vectors"}), check_encoder),
        "words": ModelKind(
            "structattn.tasks.language_model:LanguageModel", frozenset({"embedder"}), check_language_model
        ),
    },
)


def find_model_kind(task: Task) -> ModelKind:
    """The kind of model that learns a task, which is not imported; a ``ConfigError`` lists the known answers."""
    try:
        return ANSWERS.find(task.answer)
    except ConfigError as error:
        raise ConfigError(f"task {task.name!r}: {error}") from None


def model_class(task: Task) -> "type[TaskModel]":
    """The class of the models that learn a task.

    Raises:
        ConfigError: if no kind of model gives its answer; the message lists the known answers.

    Example:
        >>> model_class(get_task("translation")).kind
        'sequence'
    """
    model: type[TaskModel] = imported(find_model_kind(task).model)
    return model


def get_task(name: str) -> Task:
    """The task of that name, or ``module:NAME`` for one of your own.

    Raises:
        ConfigError: if there is none; the message lists the known names.
    """
    return TASKS.find(name)
