"""The golden output of a row: a few numbers that its model gives without data, and that change when the model does.

The encoder, the classifier and the loss of the row are built with a fixed seed for a fixed vocabulary of random
vectors, and read two fixed examples with trees. A record keeps the numbers of its time.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from structattn.data import Example
from structattn.encoders.table import needs_backbone
from structattn.reproduction.rows import Row
from structattn.syntax import ConstituencyTree, DependencyTree, Sentence
from structattn.tasks import Task, get_task
from structattn.training.config import RunConfig
from structattn.training.examples import Split

DIM = 48
"""Width of the random word vectors of rows whose own are read from a file."""

_SEED = 7
_TOLERANCE = 1e-4
_SHOWN = 6


def golden_output(row: Row) -> list[float] | None:
    """The loss of the fixed examples, the norm of its gradient, and up to six scores.

    Returns:
        ``None`` where there is no model without data: for other commands than ``train``, for models of facts, and for
        encoders that are a pretrained backbone. There the configuration alone decides whether a record is present.
    """
    if row.command != "train":
        return None
    config = row.config()
    task = get_task(config["task"])
    if task.answer == "facts" or ":" in config["encoder"] or needs_backbone(config["encoder"]):
        return None
    return _output(task, config)


def same_output(first: Sequence[float] | None, second: Sequence[float] | None) -> bool:
    """Whether two golden outputs are one, up to rounding that differs from machine to machine.

    Example:
        >>> same_output([1.0, 2.0], [1.00001, 2.0]), same_output([1.0, 2.0], [1.1, 2.0]), same_output(None, None)
        (True, False, True)
    """
    if first is None or second is None:
        return first is None and second is None
    return len(first) == len(second) and all(
        math.isclose(one, other, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)
        for one, other in zip(first, second, strict=True)
    )


def _output(task: Task, config: Mapping[str, Any]) -> list[float]:
    # What a command line says is checked before torch is imported.
    import torch

    from structattn.training.preparation import prepare_model

    run = RunConfig.from_dict(dict(config))
    if run.data.vectors is not None or run.embedder.get("name", "words") != "words":
        run = dataclasses.replace(run, embedder={"dim": DIM})
    # Every word of the two sentences counts, with its own value drawn as the vectors of a file would be.
    run = dataclasses.replace(
        run,
        data=dataclasses.replace(run.data, vectors=None, min_count=1),
        optimization=dataclasses.replace(run.optimization, initial_range=None),
    )
    examples = _examples(task, has_syntax=bool(run.options.get("num_labels")))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(_SEED)
        model = prepare_model(run, task, Split(examples, examples, examples)).eval()
        batch = model.collate(examples)
        with torch.enable_grad():
            scores = model(batch)
            loss = model.loss_of(scores, batch)
            parameters = [one for one in model.parameters() if one.requires_grad]
            gradient = torch.autograd.grad(loss, parameters, allow_unused=True)
    norm = torch.stack([one.norm() for one in gradient if one is not None]).norm()
    shown = scores.detach().flatten() if isinstance(scores, torch.Tensor) else torch.zeros(0)
    shown = shown[torch.linspace(0, len(shown) - 1, min(_SHOWN, len(shown))).long()]
    return [float(f"{value:.5g}") for value in (loss.item(), norm.item(), *shown.tolist())]


def _examples(task: Task, *, has_syntax: bool) -> list[Example]:
    """Two examples of a task, of sentences with both kinds of trees.

    The labels of phrases are those of the task, as in SST, or syntactic ones for encoders that read them.
    """
    labels = task.classes or ("a", "b")
    names = [name for name, label in task.relabel.items() if label in labels] or list(labels)
    first, last = ("NP", "S") if has_syntax else (names[0], names[-1])
    texts = (
        (f"({last} ({first} the) ({last} ({first} old) ({last} dog)))", [3, 3, 0]),
        (f"({first} ({first} ({last} cats) ({first} see)) ({last} ({last} the) ({first} dog)))", [2, 0, 4, 2]),
    )
    sentences = []
    for brackets, heads in texts:
        tree = ConstituencyTree.from_brackets(brackets)
        sentences.append(Sentence(tree.words, dependency=DependencyTree(heads), constituency=tree))
    answers: list[Any] = [labels[0], labels[-1]]
    if task.score_range is not None:
        answers = [task.score_range[0], task.score_range[1] - 0.5]
    elif task.answer == "text":
        answers = ["der alte Hund", "Katzen sehen den Hund"]
    elif task.answer == "tree":
        answers = [None, None]
    pairs = [sentences, sentences[::-1]] if task.arity == 2 else [sentences[:1], sentences[1:]]
    return [
        Example(parts[: task.arity], answer, id=str(number))
        for number, (parts, answer) in enumerate(zip(pairs, answers, strict=True))
    ]
