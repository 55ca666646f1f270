"""The figures of the MS-SAN and DiSAN papers, from runs of your own.

    python -m structattn_papers.figures.attention_figures --ms-san RUN --disan RUN --out figures
    python -m structattn_papers.figures.attention_figures --data sst/dev.txt.gz \\
        --by-length disan=RUN,RUN bilstm=RUN,RUN --out figures

The first needs a model for MS-SAN's figure 4 (and its priors for figures 2 and 3) and one for DiSAN's figures 6 to 8;
the second draws DiSAN's figure 5 from the predictions of the runs on their development data.
"""

import argparse
import math
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch

import structattn as sa
from structattn.inspection import (
    AttentionMap,
    attention_figure,
    attention_maps,
    binned_accuracy,
    features_figure,
)
from structattn.pictures import Limits, Names, Panel, dependency_tree, heatmap_grid
from structattn.priors import Backward, DependencyDistance, Forward, Prior, WordDistance
from structattn_papers.figures.feature_scatter import feature_scatter
from structattn_papers.figures.figure_parts import named, write

BALLGAME_TREE = sa.DependencyTree([2, 6, 5, 5, 2, 0, 8, 6])
BALLGAME = sa.Sentence(["Two", "kids", "at", "a", "ballgame", "wash", "their", "hands"], dependency=BALLGAME_TREE)
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


def paper_priors() -> dict[str, Prior]:
    """The priors of MS-SAN's figure 2: directions, distances, and the combinations that its six heads use."""
    forward, backward, word, dependency = Forward(), Backward(), WordDistance(), DependencyDistance()
    return {
        "forward": forward,
        "forward · word": forward + word,
        "forward · dependency": forward + dependency,
        "word": word,
        "backward": backward,
        "backward · word": backward + word,
        "backward · dependency": backward + dependency,
        "dependency": dependency,
    }


@torch.no_grad()
def prior_figure(sentence: sa.Sentence, priors: Mapping[str, Prior]) -> str:
    """MS-SAN, figure 2: priors as matrices. Hatched cells are forbidden, darker ones are preferred."""
    batch = sa.collate([sentence], sa.Vocabulary([]))
    size = len(sentence)
    panels = []
    for name, prior in priors.items():
        value = prior(batch)
        bias = torch.zeros(1, 1, size, size) if value.bias is None else value.bias
        if value.allowed is not None:
            bias = bias.masked_fill(~value.allowed, -math.inf)
        panels.append(Panel(sentence.words, sentence.words, bias.expand(1, 1, size, size)[0, 0], title=name))
    lowest = min(value for panel in panels for row in panel.matrix() for value in row if value is not None)
    return heatmap_grid(
        panels, columns=4, limits=Limits(minimum=min(lowest, -1.0)), names=Names(values="bias"), show_values=True
    )


def distance_figure(sentence: sa.Sentence, tree: sa.DependencyTree, word: int) -> str:
    """MS-SAN, figure 3: a parse with the distance of every word from one of them, in words and in the tree."""
    chosen = sentence.words[word]
    notes = {
        f"words from {chosen}": [abs(position - word) for position in range(len(sentence))],
        f"edges from {chosen}": tree.distances()[word],
    }
    return dependency_tree(sentence.words, tree, tags=sentence.tags, notes=notes, emphasis=[word])


def word_vector_figure(first: AttentionMap, second: AttentionMap, word: str) -> str:
    """DiSAN, figure 8: the pooling weights of one word in two sentences against each other, feature by feature."""
    across, up = (feature_weights(pooling, word) for pooling in (first, second))
    names = (" ".join(first.columns), " ".join(second.columns))
    return feature_scatter(across, up, names, title=f"Pooling weights of “{word}” in two sentences")


def feature_weights(pooling: AttentionMap, word: str) -> list[float]:
    if pooling.features is None:
        raise SystemExit(f"{pooling.name}: expected a pooler that weights features")
    weights: list[float] = pooling.features[pooling.columns.index(word)].tolist()
    return weights


def ms_san_figures(run: str) -> Iterator[tuple[str, str]]:
    yield "ms-san-2-priors", prior_figure(BALLGAME, paper_priors())
    yield "ms-san-3-distances", distance_figure(BALLGAME, BALLGAME_TREE, BALLGAME.words.index("wash"))
    yield "ms-san-4-heads", attention_figure(of_kind(look(run, BALLGAME), "attention"))


def disan_figures(run: str) -> Iterator[tuple[str, str]]:
    for number, text in enumerate(CAROUSEL, start=1):
        maps = look(run, sa.Sentence.from_text(text))
        yield f"disan-6-attention-{number}", attention_figure(of_kind(maps, "attention"))
        for gate, direction in zip(of_kind(maps, "gate"), ("forward", "backward"), strict=False):
            yield f"disan-7-gate-{direction}-{number}", features_figure(gate, title=f"fusion gate, {direction}")
    for word, texts in IN_TWO_CONTEXTS.items():
        first, second = (of_kind(look(run, sa.Sentence.from_text(text)), "pooling")[0] for text in texts)
        yield f"disan-8-{word}", word_vector_figure(first, second, word)


def figure_by_length(systems: list[str], data: str) -> Iterator[tuple[str, str]]:
    runs = named(systems)
    predictions = {name: [Path(run, "predictions", "dev.jsonl") for run in folders] for name, folders in runs.items()}
    parts = binned_accuracy(predictions, list(sa.data.read_examples(data)))
    yield "disan-5-length", parts.figure()


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
    figures = [
        *(ms_san_figures(options.ms_san) if options.ms_san else ()),
        *(disan_figures(options.disan) if options.disan else ()),
        *(figure_by_length(options.by_length, options.data) if options.by_length else ()),
    ]
    write(figures, options.out)


if __name__ == "__main__":
    main()
