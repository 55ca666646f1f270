"""The demonstration: is attention with a tree prior better than attention without one, and where does it attend?

Three encoders of the same width learn subject-verb agreement (Linzen et al. 2016) on a treebank generated on the spot,
from sentences with few attractors, and are tested on sentences with more. The result is data files, three ordinary runs
and one page.
"""

import itertools
import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from structattn import explorer, inspection, training
from structattn.data import Example
from structattn.data.generated import agreement_treebank
from structattn.errors import ConfigError
from structattn.explorer.explorer_page import embed_explorer
from structattn.files.json_yaml import read_json_lines
from structattn.files.replacing import replace_text
from structattn.pictures import Series, line_chart, page, table
from structattn.pictures.html_page import Section, code, figure, paragraph, side_by_side
from structattn.syntax import write_conllu
from structattn.training.config import DataConfig, RunConfig
from structattn.training.folder import RunFolder
from structattn.training.optimization_config import OptimizationConfig
from structattn.training.result import RunResult

if TYPE_CHECKING:
    from structattn.inspection import BinnedAccuracy

LOGGER = logging.getLogger("structattn.demo")

ENCODERS = {
    "transformer": "plain: sees words and their positions",
    "ms_san": "heads that also see direction, word distance and distance in the dependency tree",
    "dependency_tree_lstm": "composes the words along the dependency tree; the root is the subject",
}
# With 0 and 1 attractors alone the first noun would give the answer away: see agreement_treebank.
TRAINED_ON, TESTED_ON = range(3), range(5)
_EPOCHS_PER_MINUTE = 8
_LIVE = "To move arcs, type sentences of your own and see the predictions change:"
_OPTIONS = {"dim": 48, "dropout": 0.1}


@dataclass(frozen=True)
class Trial:
    """The results of one encoder.

    Attributes:
        encoder: its name.
        accuracies: on the test sentences with 0, 1, 2, ... attractors.
        seconds: spent in training.
    """

    encoder: str
    accuracies: tuple[float, ...]
    seconds: float


@dataclass(frozen=True)
class Demonstration:
    """The results of the demonstration.

    Attributes:
        trials: one for each encoder.
        page: the HTML page with charts and attention.
    """

    trials: tuple[Trial, ...]
    page: Path


def demonstrate(
    out: str | Path = "demo", *, seed: int = 1, minutes: float = 2.0, num_train: int = 6000, num_test: int = 200
) -> Demonstration:
    """Generate a treebank, train a plain and two structured encoders on it, compare them and draw their attention.

    Args:
        out: the folder for data, runs and the page; the results of an earlier demonstration there are replaced.
        seed: of the sentences and of the training. The same seed gives the same figures on the same machine.
        minutes: about how long two cores may take; determines the number of passes over the training data.
        num_train: number of training sentences.
        num_test: number of test sentences for each number of attractors.

    Raises:
        ConfigError: as in `check_demonstration`; if a number of sentences is not positive, or a run folder is in use.
        MissingExtra: if the extra ``train`` is not installed.
    """
    check_demonstration(out, minutes=minutes)
    if num_train < 1 or num_test < 1:
        raise ConfigError(f"expected at least one sentence of each kind, got {num_train} and {num_test}")
    folder = Path(out)
    data, test = _write_treebank(folder / "data", seed, num_train=num_train, num_test=num_test)
    optimization = OptimizationConfig(learning_rate=3e-3, epochs=max(1, round(minutes * _EPOCHS_PER_MINUTE)))
    results = {}
    for number, (encoder, what) in enumerate(ENCODERS.items(), start=1):
        LOGGER.info("%d of %d: %s (%s)", number, len(ENCODERS), encoder, what)
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
    place = folder / "index.html"
    with replace_text(place) as stream:
        stream.write(_page(trials, parts, results, test=test, num_train=num_train))
    return Demonstration(trials, place)


def check_demonstration(out: str | Path, *, minutes: float) -> None:
    """Check the arguments of `demonstrate` before anything that takes long is imported.

    Raises:
        ConfigError: if ``minutes`` is not positive, ``out`` names a file, or a run folder in it has something else.
    """
    if not 0 < minutes < math.inf:
        raise ConfigError(f"minutes: expected a number above 0, got {minutes}")
    folder = Path(out)
    if folder.is_file() or folder.suffix == ".html":
        raise ConfigError(f"{out}: expected a folder, for data, runs and the page index.html, got the name of a file")
    for encoder in ENCODERS:
        RunFolder(_run_folder(folder, encoder)).check_free(overwrite=True)


def _run_folder(folder: Path, encoder: str) -> Path:
    return folder / "runs" / encoder


def _write_treebank(folder: Path, seed: int, *, num_train: int, num_test: int) -> tuple[DataConfig, list[Example]]:
    """Write train, dev and test as CoNLL-U; no sentence is in two of them."""
    folder.mkdir(parents=True, exist_ok=True)
    seen: set[tuple[str, ...]] = set()
    # Each part draws from its own generator, so that the size of one does not change the others.
    train = list(_fresh(seed, 0, TRAINED_ON, count=num_train, seen=seen))
    dev = list(_fresh(seed, 1, TRAINED_ON, count=max(1, num_train // 20), seen=seen))
    test = [
        example
        for attractors in TESTED_ON
        for example in _fresh(seed, 2 + attractors, [attractors], count=num_test, seen=seen)
    ]
    paths = [str(folder / name) for name in ("train.conllu", "dev.conllu", "test.conllu")]
    for path, part in zip(paths, (train, dev, test), strict=True):
        write_conllu(path, [example.sentences[0] for example in part])
    return DataConfig(train=paths[0], dev=paths[1], test=paths[2]), test


def _fresh(
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
            figure(inspection.accuracy_figure(parts, x_label="attractors", width=490), "Test sentences, by attractors"),
            figure(_curves(results), "Held-out sentences with few attractors, while training"),
        ]
    )
    command = f"structattn explore {results['ms_san'].folder} {results['transformer'].folder}"
    return page(
        "Does the tree help?",
        [
            Section("Accuracy by number of attractors", table([header, *rows]) + charts),
            Section("Where they attend", paragraph(_LIVE) + code(command) + _explorer(results, test, command=command)),
        ],
        lead=lead,
    )


def _curves(results: Mapping[str, RunResult]) -> str:
    series = []
    for encoder, result in results.items():
        history = list(read_json_lines(RunFolder(result.folder).metrics))
        series.append(Series(encoder, [row["epoch"] for row in history], [row["accuracy"] for row in history]))
    return line_chart(series, x_label="passes over the training data", y_label="accuracy", percent=True, width=490)


def _explorer(results: Mapping[str, RunResult], test: Sequence[Example], *, command: str) -> str:
    """All encoders on one sentence for each number of attractors, first one that the plain encoder gets wrong."""
    answers = explorer.Answers({encoder: training.load(result.folder) for encoder, result in results.items()})
    wrong = {
        encoder: {row["id"] for row in read_json_lines(RunFolder(result.folder).predictions("test")) if _is_wrong(row)}
        for encoder, result in results.items()
    }
    chosen = [_telling(test, attractors, wrong) for attractors in (2, 3, 4, 1, 0)]
    names = [
        f"{inspection.num_attractors(one)} attractors, expected {one.label}; wrong: "
        + (", ".join(encoder for encoder in ENCODERS if one.id in wrong[encoder]) or "none")
        for one in chosen
    ]
    boot = answers.boot(
        chosen,
        host="frozen",
        title="Does the tree help?",
        command=command,
        names=names,
        frozen=True,
        influence=True,
        flips=True,
    )
    boot["view"] = {"item": 0, "models": ["ms_san", "transformer"]}
    return embed_explorer(boot)


def _is_wrong(row: Mapping[str, object]) -> bool:
    return row["gold"] != row["predicted"]


def _telling(test: Sequence[Example], attractors: int, wrong: Mapping[str, set[str]]) -> Example:
    """A short sentence that the plain encoder gets wrong and most others get right, if there is one."""

    def rank(example: Example) -> tuple[bool, int, int]:
        others = sum(example.id in ids for encoder, ids in wrong.items() if encoder != "transformer")
        return example.id not in wrong["transformer"], others, len(example.sentences[0])

    return min((one for one in test if inspection.num_attractors(one) == attractors), key=rank)
