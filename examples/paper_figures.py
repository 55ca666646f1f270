"""The figures of the MS-SAN and DiSAN papers, from runs of your own.

    python examples/paper_figures.py --ms-san RUN --disan RUN --out figures
    python examples/paper_figures.py --data sst/dev.txt.gz --by-length disan=RUN,RUN bilstm=RUN,RUN --out figures

The first needs a model for MS-SAN's figure 4 (and its priors for figures 2 and 3) and one for DiSAN's figures 6 to 8;
the second draws DiSAN's figure 5 from the predictions of the runs on their development data.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import structattn as sa
from structattn.inspection import (
    AttentionMap,
    accuracy_figure,
    attention_figure,
    attention_maps,
    distance_figure,
    gate_figure,
    parted_accuracy,
    prior_figure,
    word_vector_figure,
)

BALLGAME = sa.Sentence(
    ["Two", "kids", "at", "a", "ballgame", "wash", "their", "hands"],
    dependency=sa.DependencyTree([2, 6, 5, 5, 2, 0, 8, 6]),
)
CAROUSEL = ["Families have some dogs in front of a carousel", "volleyball match is in progress between ladies"]
IN_TWO_CONTEXTS = {
    "glass": ("The glass bottle is big", "A man is pouring a glass of tea"),
    "close": ("The restaurant is about to close", "A biker is close to the fountain"),
}


def look(run: str, sentence: sa.Sentence) -> list[AttentionMap]:
    model = sa.load(run)
    return attention_maps(model.encoder, sentence, vocabulary=model.vocabulary)


def of_kind(maps: list[AttentionMap], kind: str) -> list[AttentionMap]:
    return [found for found in maps if found.kind == kind]


def ms_san_figures(run: str) -> Iterator[tuple[str, str]]:
    yield "ms-san-2-priors", prior_figure(BALLGAME)
    yield "ms-san-3-distances", distance_figure(BALLGAME, BALLGAME.words.index("wash"))
    yield "ms-san-4-heads", attention_figure(of_kind(look(run, BALLGAME), "attention"))


def disan_figures(run: str) -> Iterator[tuple[str, str]]:
    for number, text in enumerate(CAROUSEL, start=1):
        maps = look(run, sa.Sentence.from_text(text))
        yield f"disan-6-attention-{number}", attention_figure(of_kind(maps, "attention"))
        for gate, direction in zip(of_kind(maps, "gate"), ("forward", "backward"), strict=False):
            yield f"disan-7-gate-{direction}-{number}", gate_figure(gate, title=f"fusion gate, {direction}")
    for word, texts in IN_TWO_CONTEXTS.items():
        first, second = (of_kind(look(run, sa.Sentence.from_text(text)), "pooling")[0] for text in texts)
        yield f"disan-8-{word}", word_vector_figure(first, second, word)


def figure_by_length(systems: list[str], data: str) -> Iterator[tuple[str, str]]:
    runs = {name: folders.split(",") for name, _, folders in (system.partition("=") for system in systems)}
    predictions = {name: [Path(run, "predictions", "dev.jsonl") for run in folders] for name, folders in runs.items()}
    parts = parted_accuracy(predictions, list(sa.data.read_examples(data)))
    yield "disan-5-length", accuracy_figure(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ms-san", help="a run, or the folder of a model")
    parser.add_argument("--disan", help="a run, or the folder of a model")
    parser.add_argument("--by-length", nargs="+", default=[], metavar="NAME=RUN,RUN")
    parser.add_argument("--data", help="the development data of those runs")
    parser.add_argument("--out", type=Path, default=Path("figures"))
    options = parser.parse_args()
    if options.by_length and not options.data:
        parser.error("--by-length needs --data")
    options.out.mkdir(parents=True, exist_ok=True)
    figures = [
        *(ms_san_figures(options.ms_san) if options.ms_san else ()),
        *(disan_figures(options.disan) if options.disan else ()),
        *(figure_by_length(options.by_length, options.data) if options.by_length else ()),
    ]
    for name, drawing in figures:
        (options.out / f"{name}.svg").write_text(drawing, encoding="utf-8")
        print(options.out / f"{name}.svg")


if __name__ == "__main__":
    main()
