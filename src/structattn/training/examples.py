"""The examples of a run: read from its files, split, and summarised in one line each."""

import dataclasses
import functools
import itertools
import math
import os
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from structattn.data import Example
from structattn.data.data_summary import DataSummary, summarise
from structattn.data.parses import add_parses
from structattn.data.readers.formats import describe_columns, list_files
from structattn.data.readers.python_objects import read_objects
from structattn.errors import ConfigError, naming, source_name
from structattn.files.text import Source
from structattn.options.checking import check_labels
from structattn.tasks import Task
from structattn.tasks.task_table import GENERATORS
from structattn.training.plan import RunPlan
from structattn.training.run_config import FROM_PYTHON, DataConfig, RunConfig

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from structattn.data.treebank.stream import StreamedExamples

Data = Source | Iterable[Any]
"""A file, an open stream, or a collection that ``read_objects`` takes."""

# Splits are the same for every seed of a run, so that runs can be compared.
_SPLIT_SEED = 0
# Figures on fewer examples of a class than this say little about it.
_FEW = 10
# As many classes has a model of scores, one for each whole number.
_MOST_SCORES = 100


@dataclass(frozen=True)
class Split:
    """The examples of a run; phrases are in ``train`` only, and the vocabulary is made from ``sentences``."""

    train: Sequence[Example]
    sentences: Sequence[Example]
    dev: Sequence[Example]
    test: Sequence[Example] = ()


def read_split(plan: RunPlan) -> Split:
    """Read the files and split the examples; an error names file and line, or says that too few can be held out."""
    config, task, data = plan.config, plan.task, plan.config.data
    if data.train is None:
        return _generate(config, task)

    def part(name: str) -> Iterable[Example]:
        """Examples truncated one by one, so that a long text is in memory whole only while it is read."""
        if name in plan.formats:
            return map(task.limited, stream_examples(task, getattr(data, name), plan.data_config(name)))
        if plan.examples is None:
            raise ConfigError("the examples of this run came from a Python program: give a file (--data)")
        return map(task.limited, plan.examples[name])

    streamed = _stream(data, task) if data.streaming else None
    count = None if data.limit is None else data.limit + (data.test_size or 0)
    whole = [] if streamed is not None else list(itertools.islice(part("train"), count))
    stratify = plan.stratify
    if config.folds is not None:
        remaining, test = _take_fold(whole, config.folds, config.fold or 1, stratify=stratify)
    else:
        remaining, test = _take_end(whole, data)
        test = test if data.test is None else list(part("test"))
    if data.dev is not None:
        train, dev = remaining, list(part("dev"))
    else:
        train, dev = _hold_out(remaining, data.holdout, stratify=stratify)
    _check_labels(data, dev, test)
    if streamed is not None:
        return Split(streamed, streamed, dev, test)
    train = _draw_sample(train, config)
    learnt = _add_phrases(plan, train)
    if task.judges_texts:
        with naming(name_source(data.train)):
            task.labels_of(learnt)
            learnt = _weigh(task, learnt, data.class_weights)
    return Split(learnt, train, dev, test)


def fit_range(plan: RunPlan, split: Split) -> RunPlan:
    """The plan with the whole numbers around the training scores as their range, for a task that has it from there."""
    task = plan.task
    if not task.fits_range:
        return plan
    scores = [float(example.label or 0.0) for example in split.train]
    low, high = math.floor(min(scores)), math.ceil(max(scores))
    if min(scores) == max(scores) or high - low > _MOST_SCORES:
        span = f"the training scores are {min(scores):g} to {max(scores):g}"
        hint = f"expected different ones that span at most {_MOST_SCORES}; rescale the column, for example to 0 to 10"
        raise ConfigError(f"{name_source(plan.config.data.train or '')}: task {task.name!r}: {span}, {hint}")
    return dataclasses.replace(plan, task=dataclasses.replace(task, score_range=(float(low), float(high))))


def summarise_split(plan: RunPlan, split: Split) -> list[DataSummary]:
    """Summaries of what was read for a run: training, development and test data."""
    data, has_classes = plan.config.data, plan.task.judges_texts
    summaries: list[DataSummary] = []
    classes = plan.task.classes
    for name, examples in (("train", split.sentences), ("dev", split.dev), ("test", split.test)):
        if not examples or hasattr(examples, "groups"):  # streamed
            continue
        source = name if getattr(data, name) is not None else "train"
        format = plan.formats.get(source, "generated" if data.train is None else "from Python")
        is_held_out = data.train is not None and source != name
        is_end = name == "test" and data.test_size is not None
        way = "from the end" if is_end else "by class" if plan.stratify else "at random"
        path = getattr(data, name) if name in plan.formats else None
        facts = [
            format,
            "" if path is None else describe_columns(path, format, data.columns, plan.starts.get(list_files(path)[0])),
            f"held out {way}" if is_held_out else "",
        ]
        summary = summarise(
            examples,
            name,
            format=", ".join(filter(None, facts)),
            known_labels=classes,
            has_classes=has_classes,
            has_spans="span_f1" in plan.task.metrics,
            has_several=plan.task.answer == "labels",
        )
        if is_held_out and not is_end and plan.config.folds is None and summaries:
            few = {label: summary.labels.get(label, 0) for label in summaries[0].labels}
            few = {label: count for label, count in few.items() if count < _FEW}
            listed = ", ".join(f"{count} of {label}" for label, count in few.items())
            hint = f"{name} has only {listed}: --folds 5 measures on all examples, in five trainings"
            summary = dataclasses.replace(summary, warnings=(*summary.warnings, *([hint] if few else [])))
        summaries.append(summary)
        classes = classes or (tuple(summaries[0].labels) if has_classes and summaries[0].labels else None)
    return summaries


def stream_examples(task: Task, source: Data, data: DataConfig, *, need_labels: bool = True) -> Iterator[Example]:
    """Stream the examples of a file or a collection, with trees from ``data.parses`` for sentences that have none.

    ``data`` gives format and columns, not the source; without ``need_labels``, labels may be empty or unreadable.
    """
    if is_file(source):
        # Lines of text have no columns; the column names of the model's training data do not apply.
        columns = {} if data.format == "text" else data.columns
        examples = task.read(source, format=data.format, columns=columns, need_labels=need_labels)
    else:
        target = task.label_target if need_labels else "none"
        objects = read_objects(source, **data.columns, target=target, num_texts=task.arity)
        examples = task.prepare(objects, is_own_format=False)
    return add_parses(examples, data.parses)


def read_labelled(task: Task, source: Data, data: DataConfig) -> list[Example]:
    """The labelled examples of a file or a collection, for evaluation; long texts are truncated as the task says."""
    examples = [task.limited(example) for example in stream_examples(task, source, data)]
    if unlabelled := _first_unlabelled(examples):
        raise ConfigError(f"{name_source(source)}: {unlabelled} has no label to compare with; predict needs none")
    return examples


def name_source(source: Data) -> str:
    """The path of a file; "the given data" for anything else, including what a run names by a checksum."""
    is_given = not is_file(source) or str(source).startswith(FROM_PYTHON)
    return "the given data" if is_given else source_name(source)


def is_file(source: Data) -> "TypeIs[Source]":
    """Whether this is a file or a stream rather than a collection."""
    return isinstance(source, str | os.PathLike) or hasattr(source, "read")


def _first_unlabelled(examples: Iterable[Example]) -> str | None:
    """The first example without a label, as errors name it; ``None`` if there is none."""
    return next((example.describe() for example in examples if example.label is None), None)


def _check_labels(data: DataConfig, dev: Sequence[Example], test: Sequence[Example]) -> None:
    """Refuse dev and test examples without a label; the error names the data that were given."""
    for name, path, measured in (("dev", data.dev, dev), ("test", data.test, test)):
        if unlabelled := _first_unlabelled(measured):
            which = f"{unlabelled} of the {'training' if path is None else name} data"
            purpose = "learn from" if path is None else "compare with"
            raise ConfigError(f"{name_source(path or data.train or '')}: {which} has no label to {purpose}")


def _generate(config: RunConfig, task: Task) -> Split:
    """Generated data; the same for every seed of a run, so that runs can be compared."""
    parts = GENERATORS.find(str(task.generated))(config.data.generated)
    train, dev, test = (list(task.prepare(part)) for part in parts)
    train = _draw_sample(train, config)
    return Split(train, train, dev, test)


def _stream(data: DataConfig, task: Task) -> "StreamedExamples":
    """The training examples, which stay on disk; they are counted in one pass."""
    from structattn.data.treebank.stream import StreamedExamples

    dropped = {label for label, renamed in task.relabel.items() if renamed is None}
    files = list_files(data.train or "")
    prepare = functools.partial(_prepare, task)
    return StreamedExamples(files, prepare, dropped=dropped, max_length=task.max_length, cached=data.window)


def _prepare(task: Task, examples: Iterable[Example]) -> Iterator[Example]:
    return map(task.limited, task.prepare(examples, is_own_format=False))


def _draw_sample(examples: list[Example], config: RunConfig) -> list[Example]:
    """The first ``data.sample`` examples of a random order, which the seed decides, in the order of the data."""
    size = config.data.sample
    if size is None:
        return examples
    if size > len(examples):
        raise ConfigError(f"data.sample: expected at most the {len(examples)} training examples, got {size}")
    order = np.random.default_rng(config.seed).permutation(len(examples))
    return [examples[index] for index in sorted(order[:size].tolist())]


def _shuffle(number: int) -> list[int]:
    order: list[int] = np.random.default_rng(_SPLIT_SEED).permutation(number).tolist()
    return order


def _order(examples: Sequence[Example], stratify: bool) -> list[int]:
    """The positions in random order; class by class to stratify."""
    order = _shuffle(len(examples))
    return sorted(order, key=lambda position: str(examples[position].label)) if stratify else order


def _take_end(examples: list[Example], data: DataConfig) -> tuple[list[Example], list[Example]]:
    """The training examples, and the ``data.test_size`` ones that follow the first ``data.limit``."""
    size = data.test_size or 0
    end = data.limit or len(examples) - size
    if size and not 0 < end <= len(examples) - size:
        which = f" after the first {data.limit}" if data.limit else ""
        raise ConfigError(f"data.test_size: cannot hold out {size} of {len(examples)} examples{which}")
    return examples[:end], examples[end:]


def _hold_out(examples: Sequence[Example], share: float, *, stratify: bool) -> tuple[list[Example], list[Example]]:
    total, number = len(examples), max(1, round(len(examples) * share))
    if number >= total:
        raise ConfigError(f"data.holdout: cannot hold out {number} of {total} examples; give data.dev")
    order = _order(examples, stratify)
    if not stratify:
        return _separate(examples, set(order[:number]))
    # At even steps, so that every class has its share up to one example.
    even = (place for place in range(total) if (place + 1) * number // total > place * number // total)
    return _separate(examples, {order[place] for place in even})


def _take_fold(
    examples: Sequence[Example], folds: int, fold: int, *, stratify: bool
) -> tuple[list[Example], list[Example]]:
    if len(examples) < folds:
        raise ConfigError(f"folds: cannot make {folds} folds of {len(examples)} examples")
    return _separate(examples, set(_order(examples, stratify)[fold - 1 :: folds]))


def _weigh(
    task: Task, examples: Sequence[Example], class_weights: Literal["balanced"] | dict[str, float] | None
) -> Sequence[Example]:
    """The examples with the weights of their classes, the largest if they have several labels."""
    if class_weights is None:
        return examples
    if isinstance(class_weights, dict):
        labels = {label for example in examples for label in task.classes_in(example.label)}
        check_labels("data.class_weights", class_weights, sorted(labels))
        classes = (task.classes_in(example.label) for example in examples)
        weights = [max((class_weights.get(label, 1.0) for label in labels), default=1.0) for labels in classes]
    else:
        weights = balance(task, examples)
    pairs = zip(examples, weights, strict=True)
    return [dataclasses.replace(example, weight=example.weight * weight) for example, weight in pairs]


def balance(task: Task, examples: Sequence[Example]) -> list[float]:
    """Weights of examples, with the mean 1, that give all classes the same total.

    With several labels, an example has the largest weight of its labels, and one without a label the least of all.
    """
    classes = [task.classes_in(example.label) for example in examples]
    counts = Counter(label for labels in classes for label in labels)
    weights = [1 / min((counts[label] for label in labels), default=max(counts.values())) for labels in classes]
    return [weight * len(weights) / sum(weights) for weight in weights]


def _separate(examples: Sequence[Example], positions: Container[int]) -> tuple[list[Example], list[Example]]:
    """The other examples, and those at the chosen positions."""
    return (
        [example for index, example in enumerate(examples) if index not in positions],
        [example for index, example in enumerate(examples) if index in positions],
    )


def _add_phrases(plan: RunPlan, sentences: Sequence[Example]) -> Sequence[Example]:
    """The phrases of the training sentences, without those of held-out sentences."""
    task, data = plan.task, plan.config.data
    phrases = data.phrases or task.phrases
    if phrases == "none" or phrases == "nodes" or data.train is None:
        return sentences
    if "train" not in plan.formats:
        raise ConfigError(f"data.phrases: {phrases!r} needs a training file; give the phrases as examples of their own")
    trees = {example.id for example in sentences}
    every = task.read(data.train, format=plan.formats["train"], phrases=phrases, columns=data.columns)
    # The id of a phrase is its tree's id, a slash and a number; the id of a tree may begin with the name of its file.
    return [task.limited(phrase) for phrase in every if not trees.isdisjoint((phrase.id, phrase.id.rpartition("/")[0]))]
