"""A task as a value: labels or scores, one sentence or two, how they combine, the metrics.

A task is independent of models; ``SentenceModel`` combines it with an encoder. New tasks are made with
``dataclasses.replace`` or by calling ``Task``; ``structattn.tasks.task_table`` contains those of the papers.
"""

import dataclasses
import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from structattn.data import Example
from structattn.data.example import split_labels
from structattn.data.readers.formats import Phrases, find_reader, match_files, read_examples, recognise_format
from structattn.errors import ConfigError, ParseError, naming
from structattn.files.item_faults import refuse_item
from structattn.files.text import FileStart, Source
from structattn.tasks.answer_config import COMBINATIONS
from structattn.tasks.metrics import Metric, metric

if TYPE_CHECKING:
    from structattn.tasks.reports import Report

MAX_LENGTH = 5000
"""Default maximum number of words of a sentence."""


@dataclass(frozen=True)
class Task:
    """A declarative task.

    Attributes:
        name: its key in the table of tasks.
        fallback_format: the format the data set is published in, which a file has if its name and first line do not
            identify another; always, if the answer is not a label.
        arity: 1 for single sentences, 2 for pairs.
        combine: how the sentence vectors become one: ``single``; for pairs ``product_absolute`` (``u``, ``v``,
            ``u * v``, ``|u - v|``), ``product_signed``, ``tai`` (the last two), or ``together``, read as one text.
        labels: the classes; ``None`` takes them from the training data.
        score_range: for regression, the lowest and highest score; the model predicts a distribution over the whole
            numbers between them (Tai et al. 2015, section 4.2).
        fits_range: whether ``score_range`` stands for that of the training scores, beyond which a model cannot answer.
        relabel: new names for the labels of the file; ``None`` drops the example. Labels not named are kept.
        relabel_in_other_formats: the same for sentences without a phrase tree in formats other than
            ``fallback_format``, where labels may mean something else. As ``relabel`` if ``None``.
        metrics: names of the metrics; the first decides which model is best.
        phrases: for labelled trees, whether to train on none, all, unique or weighted phrases too (see
            ``read_examples``).
        classifier_hidden: width of the classifier's hidden layer.
        target: which of several answers in a file of ``fallback_format`` to predict: the ``target`` of its reader, see
            ``read_examples``; a class or a score if ``None``.
        answer: what the model predicts for an example, which decides the kind of model, see ``ANSWERS``: a ``label``
            (or score); any number of ``labels``, which are the label with bars between them; a ``text``, which is the
            label of the example; ``tags``, one for each word, which are the label, separated by spaces; a dependency
            ``tree``, whose heads are the label; or the ``words`` themselves, each from those before it.
        generated: name of a generator in ``GENERATORS`` that makes the data if no file is given.
        max_length: maximum number of words of a sentence; memory grows with its square in most encoders.
        stratify: whether development data and folds are made class by class, if the configuration does not say.
        truncation: whether a longer sentence is truncated, rather than refused. Only tasks whose answer is a label
            truncate: a text, tags and a tree concern every word.

    Raises:
        ConfigError: if the fields contradict each other.

    Example:
        >>> stars = Task("stars", score_range=(1.0, 5.0), metrics=("pearson", "mean_squared_error"))
        >>> stars.classes, stars.main_metric.name
        (('1', '2', '3', '4', '5'), 'pearson')
    """

    name: str
    fallback_format: str | None = None
    arity: int = 1
    combine: str = "single"
    labels: tuple[str, ...] | None = None
    score_range: tuple[float, float] | None = None
    fits_range: bool = False
    relabel: Mapping[str, str | None] = field(default_factory=dict)
    relabel_in_other_formats: Mapping[str, str | None] | None = None
    metrics: tuple[str, ...] = ("accuracy", "macro_f1")
    phrases: Phrases = "none"
    classifier_hidden: int = 300
    target: str | None = None
    answer: str = "label"
    generated: str | None = None
    max_length: int = MAX_LENGTH
    truncation: bool = True
    stratify: bool = False

    def __post_init__(self) -> None:
        if self.arity not in (1, 2):
            raise ConfigError(f"task {self.name!r}: expected an arity of 1 or 2, got {self.arity}")
        if self.max_length < 1:
            raise ConfigError(f"task {self.name!r}: expected a max_length of at least 1, got {self.max_length}")
        if self.combine not in COMBINATIONS:
            raise ConfigError(f"task {self.name!r}: unknown combine {self.combine!r}; known: {', '.join(COMBINATIONS)}")
        if self.judges_texts and COMBINATIONS[self.combine].arity != self.arity:
            fitting = ", ".join(name for name, each in COMBINATIONS.items() if each.arity == self.arity)
            raise ConfigError(
                f"task {self.name!r}: combine: expected {fitting} for an arity of {self.arity}, got {self.combine!r}"
            )
        if not self.metrics:
            raise ConfigError(f"task {self.name!r}: expected at least one metric")
        for name in self.metrics:
            if metric(name).is_numeric != self.is_regression:
                kind = "scores" if self.is_regression else "labels"
                raise ConfigError(f"task {self.name!r}: metric {name!r} does not compare {kind}")
            if metric(name).of_one_class and self.answer == "labels":
                hint = "micro_f1 and labels_macro_f1 compare several labels"
                raise ConfigError(f"task {self.name!r}: metric {name!r} compares one label with one; {hint}")
        if self.is_regression:
            low, high = self.score_range or (0.0, 0.0)
            if low >= high or low != int(low) or high != int(high):
                raise ConfigError(f"task {self.name!r}: expected whole scores, the first lower, got {self.score_range}")

    @property
    def is_regression(self) -> bool:
        """Whether the answer is a score rather than a label."""
        return self.score_range is not None

    @property
    def judges_texts(self) -> bool:
        """Whether the answer is about an example as a whole: a label, labels or a score."""
        return self.answer in ("label", "labels")

    @property
    def label_target(self) -> str:
        """How labels are read: the ``target`` of readers; ``none`` where the words are the answer."""
        if self.answer == "words":
            return "none"
        return "score" if self.is_regression else "labels" if self.answer == "labels" else "class"

    def classes_in(self, label: str | float | None) -> list[str]:
        """The classes in the label of an example: several labels, the tags of words, or the one label itself."""
        text = str(label)
        return split_labels(text) if self.answer == "labels" else text.split() if self.answer == "tags" else [text]

    @property
    def main_metric(self) -> Metric:
        """The metric that decides which model is best."""
        return metric(self.metrics[0])

    @property
    def classes(self) -> tuple[str, ...] | None:
        """The classes of the model: labels, or the whole numbers of the score range; ``None`` if unknown so far."""
        if self.score_range is None:
            return self.labels
        low, high = self.score_range
        return tuple(str(score) for score in range(int(low), int(high) + 1))

    def read(
        self,
        path: Source,
        *,
        format: str | None = None,
        phrases: Phrases = "none",
        columns: Mapping[str, Any] | None = None,
        need_labels: bool = True,
    ) -> Iterator[Example]:
        """Stream the examples of a file, with this task's labels.

        Args:
            path: as in ``read_examples``.
            format: a data format; recognised from the file if ``None``.
            phrases: as in ``read_examples``; only for labelled trees.
            columns: ``text_column``, ``label_column`` and ``id_column`` as in ``read_examples``; for tables and JSON.
            need_labels: whether a label that is missing or unreadable is an error.

        Raises:
            ParseError: with file and line, for a missing, empty or malformed file.
            ConfigError: if the data do not fit the task.
        """
        format = self.recognise_format(path) if format is None else format
        target = None
        if "target" in inspect.signature(find_reader(format)).parameters:
            # A line of label and text is recognised by its label.
            default = self.label_target if need_labels or format == "labelled" else "none"
            target = self.target if format == self.fallback_format and self.target is not None else default
        options: dict[str, Any] = {"phrases": phrases, "target": target, **(columns or {})}
        with naming(path):
            yield from self.prepare(
                read_examples(path, format, **options), is_own_format=format == self.fallback_format
            )

    def recognise_format(self, path: Source, starts: Mapping[str, FileStart] | None = None) -> str:
        """The data format of a file, or of the first file of a pattern; the task's own if no other is recognised.

        Args:
            path: the file, or a pattern of files.
            starts: how files begin that have been opened before, by their names.

        Raises:
            ParseError: for a missing, empty or unrecognisable file.
        """
        try:
            file = match_files(path)[0]
            format = recognise_format(file, None if starts is None else starts.get(file))
            # A table of sentences and texts looks like one of sentences and labels, and columns like labelled lines.
            is_own = not self.judges_texts and format != "json"
            if self.answer == "words":  # any format has words, and a line of text looks like a labelled one
                is_own = format in ("labelled", "tsv")
            return format if self.fallback_format is None or not is_own else self.fallback_format
        except ParseError:
            if self.fallback_format is None:
                raise
            return self.fallback_format

    def prepare(self, examples: Iterable[Example], *, is_own_format: bool = True) -> Iterator[Example]:
        """Rename and drop labels as the task says, and check that every example fits.

        Args:
            examples: single sentences or pairs.
            is_own_format: whether their labels are those of ``fallback_format``, see ``relabel_in_other_formats``.

        Raises:
            ConfigError: if an example has the wrong number of sentences, a label of the wrong kind, or a score out of
                range.

        Example:
            >>> from structattn.syntax import Sentence
            >>> task = Task("polarity", labels=("bad", "good"), relabel={"0": "bad", "1": None, "2": "good"})
            >>> rows = [Example((Sentence(["fine"]),), label) for label in ("1", "2")]
            >>> [example.label for example in task.prepare(rows)]
            ['good']
        """
        for index, example in enumerate(examples):
            description = example.describe(index)
            if len(example.sentences) != self.arity:
                takes = f"task {self.name!r} takes {_sentences(self.arity)}"
                refuse_item(ConfigError(f"{takes}, {description} has {len(example.sentences)}"))
                continue
            if self.answer == "words":
                yield dataclasses.replace(example, label=" ".join(example.sentences[0].words))
                continue
            label = example.label
            names = self.relabel
            if not is_own_format and example.sentences[0].constituency is None:
                names = self.relabel if self.relabel_in_other_formats is None else self.relabel_in_other_formats
            if isinstance(label, str) and label in names:
                renamed = names[label]
                if renamed is None:
                    continue
                example = dataclasses.replace(example, label=renamed)
            elif label is not None and isinstance(label, str) == self.is_regression:
                kind = "a score" if self.is_regression else "a label"
                raise ConfigError(f"task {self.name!r} expects {kind}, {description} has {label!r}")
            if self.score_range is not None and isinstance(label, float) and not self.fits_range:
                low, high = self.score_range
                if not low <= label <= high:
                    raise ConfigError(
                        f"task {self.name!r} expects a score in [{low}, {high}], {description} has {label}"
                    )
            yield example

    def limited(self, example: Example) -> Example:
        """The example with its sentences truncated to ``max_length`` words.

        Raises:
            ConfigError: for a longer one that may not be truncated.

        Example:
            >>> Task("short", max_length=2).limited(Example("a very long film")).sentences[0].words
            ('a', 'very')
        """
        longest = max(map(len, example.sentences))
        if longest <= self.max_length:
            return example
        if not self.truncation or not self.judges_texts:
            fault = f"{example.describe()} has a sentence of {longest:,} words, more than max_length"
            hint = "truncate it, or use" if self.judges_texts else "use"
            raise ConfigError(f"{fault} {self.max_length:,}: {hint} a greater max_length")
        return dataclasses.replace(
            example, sentences=tuple(sentence.truncated(self.max_length) for sentence in example.sentences)
        )

    def report(self, rows: Sequence[Mapping[str, Any]]) -> "Report":
        """What lies behind the metrics of predictions, as tables: by class, type of span, relation or score.

        ``rows`` have ``id``, ``gold``, ``predicted``, ``scores`` and ``texts``, as ``predictions/dev.jsonl`` of a run.
        """
        from structattn.tasks.reports import make_report

        return make_report(self, rows)

    def labels_of(self, examples: Iterable[Example]) -> tuple[str, ...]:
        """The classes that a model of this task needs to learn from these training examples.

        Raises:
            ConfigError: if an example has no label, or one outside the task's own, or if all examples have the same
                label or labels (there would be nothing to learn).
        """
        labels: set[str] = set()
        answers: set[str] = set()
        count = 0
        for count, example in enumerate(examples, start=1):
            description = f"training {example.describe(count - 1)}"
            if example.label is None:
                raise ConfigError(f"task {self.name!r}: {description} has no label")
            classes = self.classes_in(example.label)
            if self.labels is not None and (unknown := [label for label in classes if label not in self.labels]):
                names = ", ".join(self.labels)
                raise ConfigError(f"task {self.name!r}: {description} has unknown label {unknown[0]!r}; known: {names}")
            labels.update(classes)
            answers.add(str(example.label))
        if count == 0:
            raise ConfigError(f"task {self.name!r}: there are no training examples")
        if len(answers) == 1 and not self.is_regression:
            (answer,) = answers
            came = f"the label {answer!r}" if answer else "no label"
            hint = "nothing to learn" if self.answer == "labels" else "classification needs at least two labels"
            raise ConfigError(f"task {self.name!r}: all {count} training examples have {came}; {hint}")
        return self.classes or tuple(sorted(labels))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON and YAML."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Task":
        """The inverse of ``to_dict``, also after a round trip through JSON, which has no tuples.

        Raises:
            ConfigError: for an unknown or missing field.

        Example:
            >>> task = Task("polarity", labels=("bad", "good"))
            >>> Task.from_dict(task.to_dict()) == task
            True
        """
        names = [item.name for item in dataclasses.fields(cls)]
        for key in values:
            if key not in names:
                raise ConfigError(f"unknown field {key!r} of a task; known: {', '.join(names)}")
        if "name" not in values:
            raise ConfigError("a task needs a name")
        tuples = {
            key: tuple(values[key]) for key in ("labels", "score_range", "metrics") if values.get(key) is not None
        }
        return cls(**{**values, **tuples})


def _sentences(arity: int) -> str:
    return "one sentence" if arity == 1 else "two sentences"
