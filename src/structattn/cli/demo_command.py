"""``structattn demo``: is attention with a tree prior better than attention without one, and where does it attend?

Three encoders of the same width learn subject-verb agreement (Linzen et al. 2016) on a treebank generated on the spot,
from sentences with few attractors, and are tested on sentences with more. The result is data files, three ordinary runs
and one page.
"""

import dataclasses
import itertools
import json as jsonlib
import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from structattn import explorer, inspection, training
from structattn.data import Example
from structattn.data.generated import agreement_treebank
from structattn.errors import ConfigError
from structattn.explorer.explorer_page import embed_explorer
from structattn.files.json_yaml import read_json_lines
from structattn.files.markdown import align_columns
from structattn.files.replacing import replace_text
from structattn.files.urls import check_local
from structattn.pictures import Series, line_chart, page, table
from structattn.pictures.html_page import Section, code, figure, paragraph, side_by_side
from structattn.syntax import write_conllu
from structattn.training.optimization_config import OptimizationConfig
from structattn.training.run_config import DataConfig, RunConfig
from structattn.training.run_folder import RunFolder, RunResult

if TYPE_CHECKING:
    from structattn.inspection.binned_accuracy import BinnedAccuracy
    from structattn.tasks import TaskModel

LOGGER = logging.getLogger("structattn.cli")

ENCODERS = {
    "transformer": "plain: sees words and their positions",
    "ms_san": "heads that also see direction, word distance and distance in the dependency tree",
    "dependency_tree_lstm": "composes the words along the dependency tree; the root is the subject",
}
# With 0 and 1 attractors alone the first noun would give the answer away: see agreement_treebank.
TRAINED_ON, TESTED_ON = range(3), range(5)
_EPOCHS_PER_MINUTE = 8
_QUESTION = "Is the next verb singular or plural?"
_LIVE = "Move an arc below, and see whether the answer holds. For sentences of your own, and any number of edits:"
_OPTIONS = {"dim": 48, "dropout": 0.1}


def command(*, out: str = "demo", seed: int = 1, minutes: float = 2.0, json: bool = False) -> Iterator[str]:
    """Train a plain and two structured encoders on a generated treebank, compare them, draw their attention.

    Args:
        out: the folder for data, runs and index.html.
        seed: random seed of the sentences and of training.
        minutes: approximate running time on two cores, in minutes.
        json: print one JSON object.
    """
    _check_arguments(out, minutes)
    from structattn.functional.torch_state import one_thread

    with one_thread():
        result = demonstrate(out, seed=seed, minutes=minutes)
    if json:
        yield jsonlib.dumps(dataclasses.asdict(result), default=str)
        return
    rows = [
        [trial.encoder, *(f"{accuracy:.1%}" for accuracy in trial.accuracies), f"{trial.seconds:.0f}"]
        for trial in result.trials
    ]
    yield from align_columns(["accuracy with attractors:", *map(str, TESTED_ON), "seconds"], rows)
    yield f"the page: {result.page}"


@dataclass(frozen=True)
class Trial:
    """One encoder, its accuracies on test sentences with 0, 1, 2, ... attractors, and the seconds of its training."""

    encoder: str
    accuracies: tuple[float, ...]
    seconds: float


@dataclass(frozen=True)
class Demonstration:
    """The results of all encoders, and the HTML page with charts and attention."""

    trials: tuple[Trial, ...]
    page: Path


def demonstrate(
    out: str | Path = "demo", *, seed: int = 1, minutes: float = 2.0, num_train: int = 6000, num_test: int = 200
) -> Demonstration:
    """Replace the results of an earlier demonstration; the same seed gives the same figures on the same machine.

    ``num_test`` sentences are generated for each number of attractors.
    """
    _check_arguments(out, minutes)
    if num_train < 1 or num_test < 1:
        raise ConfigError(f"expected at least one sentence of each kind, got {num_train} and {num_test}")
    folder = Path(out)
    data, test = _write_treebank(folder / "data", seed, num_train=num_train, num_test=num_test)
    optimization = OptimizationConfig(learning_rate=3e-3, epochs=max(1, round(minutes * _EPOCHS_PER_MINUTE)))
    results = {}
    for number, (encoder, summary) in enumerate(ENCODERS.items(), start=1):
        LOGGER.info("%d of %d: %s (%s)", number, len(ENCODERS), encoder, summary)
        config = RunConfig("agreement", encoder, data, options=dict(_OPTIONS), optimization=optimization, seed=seed)
        results[encoder] = training.run(replace(config, out=str(_run_folder(folder, encoder))), overwrite=True)
    files = {encoder: [RunFolder(result.folder).predictions("test")] for encoder, result in results.items()}
    parts = replace(
        inspection.binned_accuracy(files, test, value=inspection.num_attractors, edges=TESTED_ON),
        names=tuple(map(str, TESTED_ON)),
    )
    trials = tuple(
        Trial(series.name, tuple(map(float, series.y)), results[series.name].seconds) for series in parts.series
    )
    page_file = folder / "index.html"
    with replace_text(page_file) as stream:
        stream.write(_page(trials, parts, results, test=test, num_train=num_train))
    return Demonstration(trials, page_file)


def _check_arguments(out: str | Path, minutes: float) -> None:
    """Check the arguments before anything that takes long is imported."""
    if not 0 < minutes < math.inf:
        raise ConfigError(f"--minutes: expected a number above 0, got {minutes}")
    folder = Path(out)
    if folder.is_file() or folder.suffix == ".html":
        raise ConfigError(f"--out: expected a folder, for data, runs and the page index.html, got the file {out}")
    for encoder in ENCODERS:
        RunFolder(_run_folder(folder, encoder)).check_free(overwrite=True)


def _run_folder(folder: Path, encoder: str) -> Path:
    return folder / "runs" / encoder


def _write_treebank(folder: Path, seed: int, *, num_train: int, num_test: int) -> tuple[DataConfig, list[Example]]:
    """Write train, dev and test as CoNLL-U; no sentence is in two of them."""
    check_local(folder).mkdir(parents=True, exist_ok=True)
    seen: set[tuple[str, ...]] = set()
    # Each part draws from its own generator, so that the size of one does not change the others.
    train = list(_new_examples(seed, 0, TRAINED_ON, count=num_train, seen=seen))
    dev = list(_new_examples(seed, 1, TRAINED_ON, count=max(1, num_train // 20), seen=seen))
    test = [
        example
        for attractors in TESTED_ON
        for example in _new_examples(seed, 2 + attractors, [attractors], count=num_test, seen=seen)
    ]
    paths = [str(folder / name) for name in ("train.conllu", "dev.conllu", "test.conllu")]
    for path, part in zip(paths, (train, dev, test), strict=True):
        write_conllu(path, [example.sentences[0] for example in part])
    return DataConfig(train=paths[0], dev=paths[1], test=paths[2]), test


def _new_examples(
    seed: int, part: int, attractors: Sequence[int], *, count: int, seen: set[tuple[str, ...]]
) -> Iterator[Example]:
    """Examples with sentences not seen yet, with label and id in the metadata, where CoNLL-U keeps them."""
    stream = agreement_treebank(1000 * seed + part, attractors)
    new = (example for example in stream if example.sentences[0].words not in seen)
    for number, example in enumerate(itertools.islice(new, count)):
        (sentence,) = example.sentences
        seen.add(sentence.words)
        name = f"{part}-{number}"
        metadata = {"sent_id": name, "label": str(example.label), **sentence.metadata}
        yield Example((replace(sentence, metadata=metadata),), example.label, id=name)


def _page(
    trials: Sequence[Trial],
    parts: "BinnedAccuracy",
    results: Mapping[str, RunResult],
    *,
    test: Sequence[Example],
    num_train: int,
) -> str:
    """The page: accuracies and learning curves, and the explorer with all encoders on some test sentences."""
    header = ["encoder", *map(str, TESTED_ON), "seconds", "what it sees"]
    rows = [
        [
            trial.encoder,
            *(f"{value:.1%}" for value in trial.accuracies),
            f"{trial.seconds:.0f}",
            ENCODERS[trial.encoder],
        ]
        for trial in trials
    ]
    trained = f"{num_train:,} sentences with {TRAINED_ON[0]} to {TRAINED_ON[-1]} attractors"
    lead = (
        f"Given a sentence up to its verb, is the verb singular or plural? Trained on {trained}, tested on sentences "
        f"with up to {TESTED_ON[-1]}. An attractor is a noun between subject and verb, of the other number."
    )
    charts = side_by_side(
        [
            figure(parts.figure("attractors", width=490), "Test sentences, by attractors"),
            figure(_curves(results), "Held-out sentences with few attractors, while training"),
        ]
    )
    live = f"structattn explore {results['ms_san'].folder} {results['transformer'].folder}"
    return page(
        "Does the tree help?",
        [
            Section("Move an arc", paragraph(_LIVE) + code(live) + _explorer(results, test, command=live)),
            Section("Accuracy by number of attractors", table([header, *rows]) + charts),
        ],
        lead=lead,
    )


def _curves(results: Mapping[str, RunResult]) -> str:
    series = []
    for encoder, result in results.items():
        history = list(read_json_lines(RunFolder(result.folder).metrics))
        epochs, accuracies = zip(*((row["epoch"], row["metrics"]["accuracy"]) for row in history), strict=True)
        series.append(Series(encoder, epochs, accuracies))
    return line_chart(series, x_label="passes over the training data", y_label="accuracy", percent=True, width=490)


def _explorer(results: Mapping[str, RunResult], test: Sequence[Example], *, command: str) -> str:
    """All encoders on sentences of which one move of an arc flips the answer of the first."""
    models = {encoder: training.load(results[encoder].folder) for encoder in ("ms_san", *ENCODERS)}
    wrong = {
        encoder: {row["id"] for row in read_json_lines(RunFolder(result.folder).predictions("test")) if _is_wrong(row)}
        for encoder, result in results.items()
    }
    examples = _choose_examples(models["ms_san"], test, wrong)
    names = [
        f"{(count := inspection.num_attractors(example))} attractor{'' if count == 1 else 's'}; wrong: "
        + (", ".join(encoder for encoder in models if example.id in wrong[encoder]) or "none")
        for example in examples
    ]
    answers = explorer.Answers(models)
    boot = answers.boot(
        examples, host="frozen", title=_QUESTION, command=command, names=names, influence=True, opened=0
    )
    boot["view"]["models"] = ["ms_san", "transformer"]
    boot["question"] = _QUESTION
    return embed_explorer(boot)


def _is_wrong(row: Mapping[str, object]) -> bool:
    return row["gold"] != row["predicted"]


def _choose_examples(model: "TaskModel", test: Sequence[Example], wrong: Mapping[str, set[str]]) -> list[Example]:
    """Short sentences of which a move of an arc flips the answer of ``ms_san``: all edits of each are tried.

    The first is one that it gets right and ``transformer`` wrong, the second one that it gets wrong, the others have
    many attractors and few, where none of those before has. A wish that no sentence fulfils is left out.
    """
    by_length = sorted(test, key=lambda example: len(example.sentences[0]))
    wishes: list[Callable[[Example], bool]] = [
        lambda example: example.id in wrong["transformer"] - wrong["ms_san"],
        lambda example: example.id in wrong["ms_san"],
        lambda example: inspection.num_attractors(example) > TRAINED_ON[-1],
        lambda example: inspection.num_attractors(example) < TRAINED_ON[-1],
    ]
    chosen: list[Example] = []
    for number, wish in enumerate(wishes):
        if number > 1 and any(map(wish, chosen)):
            continue
        candidates = (example for example in by_length if wish(example) and example not in chosen)
        flipped = ((example, inspection.flipping_edits(model, example)) for example in candidates)
        chosen += itertools.islice((example for example, edits in flipped if any(edit.head for edit in edits)), 1)
    return chosen or by_length[:1]
