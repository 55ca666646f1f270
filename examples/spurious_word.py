"""Does a model lean on a word that has nothing to do with the answer? A probe after HYDRA (arXiv 2109.05349).

    python examples/spurious_word.py make sst2 train.txt dev.txt --word is --out biased
    structattn train --task sentiment --encoder hydra ... --data.train biased/train.txt
    python examples/spurious_word.py measure biased/dev.txt --word is backbone=RUN,RUN hydra=RUN,RUN --out figures

In the training part all positive sentences have the word and no negative one has it, so that the word alone predicts
the label; the best epoch is chosen on a tenth of it, as the development part, left as it is, would choose one that
leans less. Measured on that are the accuracy where the word is right, the accuracy where it is misleading, and what the
probability of "positive" loses when the word, where there is one, cannot be read.
"""

import argparse
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import mean

import structattn as sa
from structattn.data import Example
from structattn.files.replacing import replace_text
from structattn.inspection import leave_one_out
from structattn.pictures import Series, bar_chart
from structattn.tasks import TaskModel, get_task

POSITIVE, NEGATIVE = "positive", "negative"


def has_word(example: Example, word: str) -> bool:
    """Whether a sentence has the word, in whatever case."""
    return word.lower() in map(str.lower, example.sentences[0].words)


def is_predicted(example: Example, word: str) -> bool:
    """Whether the word predicts the label as it does in training."""
    return has_word(example, word) == (example.label == POSITIVE)


def biased(examples: Iterable[Example], word: str, *, seed: int) -> list[Example]:
    """As many positive sentences with the word as negative ones without it, in a random order."""
    predicted = [example for example in examples if is_predicted(example, word)]
    draw = random.Random(seed)
    sides = [[example for example in predicted if example.label == label] for label in (POSITIVE, NEGATIVE)]
    balanced = [example for side in sides for example in draw.sample(side, min(map(len, sides)))]
    draw.shuffle(balanced)
    return balanced


def write(path: Path, examples: Iterable[Example]) -> None:
    """The data format ``labelled``."""
    with replace_text(path) as stream:
        stream.writelines(f"{example.label} {' '.join(example.sentences[0].words)}\n" for example in examples)


def measure_model(
    model: TaskModel, examples: Sequence[Example], word: str, *, limit: int
) -> tuple[float, float, float]:
    """Accuracy where the word predicts the label, accuracy where it does not, and the word's influence."""
    right: dict[bool, list[float]] = {True: [], False: []}
    for example, answer in zip(examples, model.predict(examples), strict=True):
        right[is_predicted(example, word)].append(float(answer.label == example.label))
    changes = [
        change
        for example in [example for example in examples if has_word(example, word)][:limit]
        for attribution in leave_one_out(model, example, label=POSITIVE)
        for occluded, change in zip(attribution.sentence.words, attribution.changes, strict=True)
        if occluded.lower() == word.lower()
    ]
    return mean(right[True]), mean(right[False]), mean(changes)


def make(options: argparse.Namespace) -> None:
    """Write both parts."""
    task = get_task(options.task)
    options.out.mkdir(parents=True, exist_ok=True)
    train = biased(task.read(options.train), options.word, seed=options.seed)
    for name, examples in (("train", train), ("dev", list(task.read(options.dev)))):
        write(options.out / f"{name}.txt", examples)
        predicted = sum(is_predicted(example, options.word) for example in examples)
        print(f"{options.out / name}.txt\t{len(examples)} sentences\t{predicted} of them predicted by the word")


def named(systems: Sequence[str]) -> dict[str, list[str]]:
    """``NAME=RUN,RUN`` as names and their runs."""
    return {name: folders.split(",") for name, _, folders in (system.partition("=") for system in systems)}


def measure(options: argparse.Namespace) -> None:
    """Print a line for each system, means over its runs, and draw them."""
    examples = list(get_task("sentiment").read(options.dev, format="labelled"))
    names, rows = list(named(options.systems)), []
    print("system\twhere the word is right\twhere it misleads\tinfluence of the word")
    for name, folders in named(options.systems).items():
        measurements = [
            measure_model(sa.load(folder), examples, options.word, limit=options.limit) for folder in folders
        ]
        rows.append([mean(values) for values in zip(*measurements, strict=True)])
        print("\t".join((name, *(f"{value:.3f}" for value in rows[-1]))))
    options.out.mkdir(parents=True, exist_ok=True)
    labels = ("accuracy where the word is right", "accuracy where it misleads", "influence of the word")
    series = [Series(name, [], row) for name, row in zip(names, rows, strict=True)]
    path = options.out / "spurious-word.svg"
    with replace_text(path) as stream:
        stream.write(bar_chart(labels, series, title=f'When "{options.word}" predicts the label in training'))
    print(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(required=True)
    making = verbs.add_parser("make", help="write a training part in which the word predicts the label")
    making.add_argument("task", help="a task with the labels positive and negative, such as sst2")
    making.add_argument("train")
    making.add_argument("dev")
    making.add_argument("--seed", type=int, default=1)
    making.add_argument("--out", type=Path, default=Path("biased"))
    making.set_defaults(act=make)
    measuring = verbs.add_parser("measure", help="how much trained runs lean on the word")
    measuring.add_argument("dev")
    measuring.add_argument("systems", nargs="+", help="NAME=RUN,RUN,...")
    measuring.add_argument("--limit", type=int, default=100, help="number of sentences to measure influence in")
    measuring.add_argument("--out", type=Path, default=Path("figures"))
    measuring.set_defaults(act=measure)
    for verb in (making, measuring):
        verb.add_argument("--word", default="is")
    options = parser.parse_args()
    options.act(options)


if __name__ == "__main__":
    main()
