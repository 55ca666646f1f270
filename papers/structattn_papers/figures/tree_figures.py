"""The figures of attention over trees.

    python -m structattn_papers.figures.tree_figures --out figures OPTION...

    [--tree "(S (NP (D the) (N dog)) (V barks))"] [--model RUN]
    --attractors tree=RUN,RUN transformer=RUN,RUN [--part test]
    --curve tree=RUN,RUN,RUN transformer=RUN,RUN,RUN
    --times

The first draws one small tree: what is accumulated, indices, mask, and what the root sees. The second tells how right
runs on agreement are for each number of attractors, on their development or test data; the third their main metric
against how many examples each was trained on, runs of one size being seeds, and the difference of two systems; the
fourth how long encoders take for sentences of some lengths. All but the first print their figures too.
"""

import argparse
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import torch

import structattn as sa
from structattn.data import PhraseTrees, SentenceBatch
from structattn.functional import TreeOperator
from structattn.inspection import AttentionMap, attention_maps, binned_accuracy, num_attractors
from structattn.inspection.attention_maps import name_phrases
from structattn.layers.tree_attention import tree_operator
from structattn.pictures import Limits, Names, Panel, Series, constituency_tree, heatmap, heatmap_grid, line_chart
from structattn.priors import Subtree
from structattn.training import RunFolder, load, load_config
from structattn.training.examples import read_split
from structattn.training.plan import plan_run
from structattn.training.run_folder import read_result
from structattn_papers.figures.figure_parts import named, times_chart, times_series, write


def operator_of(tree: sa.ConstituencyTree) -> TreeOperator:
    batch = sa.collate([sa.Sentence(tree.words, constituency=tree)], sa.Vocabulary([]))
    return tree_operator(batch.require("constituency", wanted_by="the figure"))


def accumulation_figure(
    tree: sa.ConstituencyTree, leaves: Sequence[float], phrases: Sequence[float], weights: Sequence[float]
) -> str:
    """Nguyen et al. (2020), figure 1, with one channel: ``S``, ``S-hat`` and ``N-bar``, without embeddings.

    Leaves, then phrases (parents first), have a value each; the last argument is the weight of each leaf.
    """
    trees = operator_of(tree)
    cover, values = trees.cover[0], torch.tensor(phrases, dtype=torch.float32)[:, None]
    at_leaf, weight = (torch.tensor(given, dtype=torch.float32) for given in (leaves, weights))
    averaged = (at_leaf + trees.below[0] @ (values * cover)) / (trees.counts[0] + 1)
    result = (averaged * cover * weight).sum(1, keepdim=True) / cover.sum(1, keepdim=True).clamp(min=1)
    nothing, names = cover == 0, name_phrases(tree.words, tree.spans)
    stacked = torch.cat([at_leaf[None], (values * cover).masked_fill(nothing, -torch.inf)])
    panels = [
        Panel(["leaves", *names], tree.words, stacked, "S: interpolated"),
        Panel(names, tree.words, averaged.masked_fill(nothing, -torch.inf), "Ŝ: upward average"),
        Panel(names, ["N̄"], result, "N̄: weighted mean"),
    ]
    return heatmap_grid(panels, show_values=True, names=Names(rows="phrase", columns="word", values="value"))


def embedding_index_figure(tree: sa.ConstituencyTree) -> str:
    """Nguyen et al. (2020), figure 2: the row of the embedding tables that each phrase meets at each word.

    Vertically, how many phrases lie on the way down; horizontally, the place in the phrase.
    """
    trees = operator_of(tree)
    cover = trees.cover[0]
    panels = [
        Panel(name_phrases(tree.words, tree.spans), tree.words, index.masked_fill(cover == 0, -torch.inf), name)
        for name, index in (("vertical index", trees.counts[0]), ("horizontal index", cover.cumsum(1)))
    ]
    names = Names(rows="phrase", columns="word", values="index")
    return heatmap_grid(panels, columns=2, show_values=True, names=names)


def subtree_mask_figure(tree: sa.ConstituencyTree) -> str:
    """The mask of attention over trees: a word sees the words, a phrase what is below it; the rest is hatched."""
    allowed = Subtree()(sa.collate([sa.Sentence(tree.words, constituency=tree)], sa.Vocabulary([]))).allowed[0, 0]
    nodes = [*tree.words, *name_phrases(tree.words, tree.spans)]
    mask = allowed.float().masked_fill(~allowed, -torch.inf)
    return heatmap(nodes, nodes, mask, limits=Limits(minimum=0), names=Names(values="allowed"))


def phrase_query_figure(attention_map: AttentionMap, head: int, phrase: int = 0, *, title: str | None = None) -> str:
    """Attention of one phrase (0 is the root) on its tree: phrases are shaded by it, words have theirs in per cent."""
    sentence, tree = attention_map.sentence, None
    if sentence is not None and attention_map.rows[: len(sentence)] == sentence.words:
        tree = sentence.constituency
    if tree is None or len(attention_map.rows) != len(tree) + len(tree.spans):
        raise ValueError(
            f"{attention_map.name}: expected a map over words and phrases, got {len(attention_map.rows)} rows"
        )
    if not 0 <= phrase < len(tree.spans):
        raise ValueError(f"expected the number of one of {len(tree.spans)} phrases, got {phrase}")
    weights = attention_map.weights[head, len(tree) + phrase].tolist()
    label, start, end = tree.spans[phrase]
    summary = f"{attention_map.head_names[head]}: {label} ({' '.join(tree.words[start:end])}) attends to its subtree"
    return constituency_tree(
        tree.words,
        tree,
        tags=[f"{100 * weight:.0f}%" if weight else "" for weight in weights[: len(tree)]],
        values=weights[len(tree) :],
        value_label="weight",
        limits=Limits(0, max(weights)),
        title=summary if title is None else title,
    )


def figures_of_a_tree(brackets: str, model: str | None) -> Iterator[tuple[str, str]]:
    tree = sa.ConstituencyTree.from_brackets(brackets)
    sentence = sa.Sentence(tree.words, constituency=tree)
    if model is None:
        torch.manual_seed(0)
        vocabulary = sa.Vocabulary.from_examples([sentence])
        encoder = sa.encoders.build("tree_transformer", vocab_size=len(vocabulary), num_layers=1, num_heads=2)
        maps = attention_maps(encoder, sentence, vocabulary=vocabulary)
    else:
        maps = attention_maps(load(model), sentence)
    found = [each for each in maps if each.kind == "attention"][-1]
    leaves = [float(place + 1) for place in range(len(tree))]
    values = [10.0 * (1 + number) for number in range(len(tree.spans))]
    yield "tree-accumulation", accumulation_figure(tree, leaves, values, [1.0] * len(tree))
    yield "tree-indices", embedding_index_figure(tree)
    yield "tree-mask", subtree_mask_figure(tree)
    for head in range(len(found.weights)):
        yield f"tree-root-{head + 1}", phrase_query_figure(found, head)


def figure_by_attractors(runs: dict[str, list[str]], part: Literal["dev", "test"]) -> Iterator[tuple[str, str]]:
    config = load_config(RunFolder(next(iter(runs.values()))[0]).config)
    examples = getattr(read_split(plan_run(config)), part)
    files = {name: [RunFolder(run).predictions(part) for run in folders] for name, folders in runs.items()}
    parts = binned_accuracy(files, examples, value=num_attractors, edges=range(5))
    print("attractors\t" + "\t".join(parts.names))
    print("examples\t" + "\t".join(map(str, parts.counts)))
    for series in parts.series:
        print(f"{series.name}\t" + "\t".join(f"{value:.4f}" for value in series.y))
    yield "tree-attractors", parts.figure("attractors")


def learning_curve(runs: dict[str, list[str]]) -> Iterator[tuple[str, str]]:
    found: dict[str, dict[int, list[float]]] = {}
    metric = ""
    for name, folders in runs.items():
        for folder in map(RunFolder, folders):
            plan = plan_run(load_config(folder.config))
            metric = plan.task.main_metric.name
            value = read_result(folder).metrics[metric]
            found.setdefault(name, {}).setdefault(len(read_split(plan).train), []).append(value)
    sizes = sorted({size for values in found.values() for size in values})
    series = []
    for name, values in found.items():
        own = sorted(values)
        means = [statistics.fmean(values[size]) for size in own]
        errors = [statistics.stdev(values[size]) if len(values[size]) > 1 else 0.0 for size in own]
        series.append(Series(name, [sizes.index(size) for size in own], means, errors=errors))
        print(name, *(f"{size}: {mean:.2f}" for size, mean in zip(own, means, strict=True)), sep="\t")
    names = [f"{size:,}" for size in sizes]
    yield "tree-curve", line_chart(series, x_label="training examples", y_label=metric, x_names=names)
    if len(found) == 2:
        (first, ours), (second, theirs) = found.items()
        shared = [size for size in sizes if size in ours and size in theirs]
        gains = [statistics.fmean(ours[size]) - statistics.fmean(theirs[size]) for size in shared]
        print("difference", *(f"{size}: {gain:+.2f}" for size, gain in zip(shared, gains, strict=True)), sep="\t")
        line = Series(f"{first} − {second}", [sizes.index(size) for size in shared], gains)
        label = f"difference in {metric}"
        yield "tree-curve-difference", line_chart([line], x_label="training examples", y_label=label, x_names=names)


def times_figure(lengths: Sequence[int] = (10, 20, 40, 80, 160), *, batch: int = 16, repeats: int = 3) -> str:
    """Milliseconds forward and back of some encoders over balanced trees; the matrices are built each time."""
    sizes: dict[str, Any] = {"num_heads": 4, "num_layers": 2, "hidden": 128}
    encoders = {
        name: sa.encoders.build(name, vocab_size=30, dim=64, **({} if name == "tree_lstm" else sizes))
        for name in ("transformer", "length_matched_transformer", "tree_transformer", "tree_lstm")
    }

    def balanced(length: int) -> SentenceBatch:
        words = [f"w{place % 20}" for place in range(length)]
        sentence = PhraseTrees("balanced")(sa.Sentence(words))
        return sa.collate([sentence] * batch, sa.Vocabulary(dict.fromkeys(words)))

    series = times_series(encoders, balanced, lengths, repeats=repeats)
    for one in series:
        print(one.name, *(f"{length}: {value:.1f}" for length, value in zip(lengths, one.y, strict=True)), sep="\t")
    return times_chart(series, batch=batch)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("figures"))
    parser.add_argument("--tree", default="(S (NP (D the) (N dog)) (VP (V sees) (NP (D a) (A big) (N cat))))")
    parser.add_argument("--model", metavar="RUN", help="the run whose attention is drawn; a fresh encoder by default")
    parser.add_argument("--attractors", nargs="+", default=[], metavar="NAME=RUN,RUN")
    parser.add_argument("--part", choices=("dev", "test"), default="dev", help="of --attractors")
    parser.add_argument("--curve", nargs="+", default=[], metavar="NAME=RUN,RUN")
    parser.add_argument("--times", action="store_true")
    options = parser.parse_args()
    figures = [
        *(figure_by_attractors(named(options.attractors), options.part) if options.attractors else ()),
        *(learning_curve(named(options.curve)) if options.curve else ()),
        *([("tree-times", times_figure())] if options.times else ()),
    ]
    write(figures or figures_of_a_tree(options.tree, options.model), options.out)


if __name__ == "__main__":
    main()
