"""The figures of structured attention, from runs of your own; every option draws what it names.

    python -m structattn_papers.figures.structured_figures OPTION...

    --heads simple=RUN structured=RUN --formula "( * ( + 15 7 ) 1 8 )"
    --depth none=RUN,RUN simple=RUN,RUN structured=RUN,RUN
    --entropy simple=RUN structured=RUN
    --trees "pairs alone=RUN" "UD EWT=RUN" --data trees.conllu
    --translations simple=RUN sigmoid=RUN segmentation=RUN --data train.ja,train.en --pair "SOURCE" "TARGET"
    --bleu simple=RUN sigmoid=RUN segmentation=RUN
    --times

What runs: tree transduction for the first three, any encoder with latent trees for the fourth, translation for the
next two. Figures are written to --out.
"""

import argparse
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import torch
from torch import Tensor

import structattn as sa
from structattn.data import Example, SentenceBatch
from structattn.data.text_vocabulary import retokenize
from structattn.files.json_yaml import read_json, read_json_lines
from structattn.pictures import Limits, Names, Panel, Series, bar_chart, dependency_tree, heatmap_grid, line_chart
from structattn.tasks import SequenceModel
from structattn_papers.figures.figure_parts import Runs, named, times_chart, times_series, write
from structattn_papers.formulas import TESTED_ON

FORMULA = "( * ( + ( + 15 7 ) 1 8 ) ( + 19 0 11 ) )"


def brackets(words: Sequence[str]) -> list[tuple[int, int]]:
    """The places of every opening bracket and the one that closes it."""
    pairs, open_ones = [], []
    for place, word in enumerate(words):
        if word == "(":
            open_ones.append(place)
        elif word == ")" and open_ones:
            pairs.append((open_ones.pop(), place))
    return pairs


@torch.no_grad()
def heads_of(run: str, sentences: Sequence[sa.Sentence]) -> list[Tensor]:
    """For each sentence the marginals of heads, a row for each word; column 0 is the root."""
    model: Any = sa.load(run)
    batch = sa.collate(sentences, model.vocabulary)
    marginals = model.encoder.latent_trees(batch).marginals()
    return [rows[: len(one), : len(one) + 1] for rows, one in zip(marginals, sentences, strict=True)]


def heads_figure(runs: Runs, formula: str) -> str:
    """Kim et al. (2017), figure of section 4.1: a column is a word, and says where its head is."""
    words = formula.split()
    marks = [(1 + start, end) for start, end in brackets(words)]
    panels = [
        Panel(["root", *words], words, heads_of(folders[0], [sa.Sentence(words)])[0].T, name, marks)
        for name, folders in runs.items()
    ]
    return heatmap_grid(
        panels,
        columns=2,
        title="where each word has its head",
        limits=Limits(minimum=0),
        names=Names(rows="head", columns="child", values="p(head)", marks="the bracket that a closing one closes"),
    )


def depth_figure(runs: Runs) -> str:
    """Correct prefix against depth on the test formulas, mean and deviation over seeds."""
    series = []
    for name, folders in runs.items():
        results = [read_json(Path(folder, "result.json")) for folder in folders]
        rows = [[result["test"][f"correct_prefix_depth{depth}"] for result in results] for depth in TESTED_ON]
        errors = [stdev(row) for row in rows] if len(folders) > 1 else None
        series.append(Series(name, list(range(len(rows))), [fmean(row) for row in rows], errors))
    return line_chart(
        series,
        title="tree transduction",
        x_label="depth of the formula",
        y_label="correct prefix",
        x_names=[str(depth) for depth in TESTED_ON],
        percent=True,
        from_zero=True,
    )


def curve_figure(runs: Runs, value: str, *, title: str, y_label: str) -> str:
    """What a logged value does while a run trains."""
    series = []
    for name, folders in runs.items():
        rows = list(read_json_lines(Path(folders[0], "metrics.jsonl")))
        series.append(
            Series(name, [row["epoch"] for row in rows], [{**row["metrics"], **row["values"]}[value] for row in rows])
        )
    return line_chart(series, title=title, x_label="epoch", y_label=y_label, from_zero=True)


def tree_figures(runs: Runs, data: str) -> Iterator[tuple[str, str]]:
    """The best latent tree above a sentence and its parse below; and how often heads agree, by part of speech.

    What a run is called says what its scorer has learnt from. Trees without any learning stand beside them.
    """
    parsed = [
        (sentence, sentence.dependency.heads)
        for sentence in islice(sa.read_conllu(data), 1000)
        if sentence.dependency is not None and len(sentence)
    ]
    sentences = [sentence for sentence, _ in parsed]
    shown = next((number for number, sentence in enumerate(sentences) if 8 <= len(sentence) <= 14), 0)
    tags = [tag for sentence in sentences for tag in sentence.tags or ["?"] * len(sentence)]
    common = [tag for tag, _ in Counter(tags).most_common(12)]
    agreement: dict[str, list[float]] = {}
    for name, folders in runs.items():
        best = list(best_heads(folders[0], sentences))
        sentence, heads = parsed[shown]
        yield (
            f"structured-tree-{name.replace(' ', '-').lower()}",
            dependency_tree(sentence.words, best[shown], other=heads, names=(name, "parse"), tags=sentence.tags),
        )
        agreement[f"trained on {name}"] = [
            float(head == true)
            for predicted, (_, heads) in zip(best, parsed, strict=True)
            for head, true in zip(predicted, heads, strict=True)
        ]
    # The last word would have no next one: it is the root.
    following = [[*range(2, len(heads) + 1), 0] for _, heads in parsed]
    agreement["next word"] = [
        float(head == true)
        for guess, (_, heads) in zip(following, parsed, strict=True)
        for head, true in zip(guess, heads, strict=True)
    ]
    agreement["random projective tree"] = [chance for _, heads in parsed for chance in chances(heads)]
    series = []
    for name, right in agreement.items():
        by_tag = {tag: [hit for hit, its in zip(right, tags, strict=True) if its == tag] for tag in common}
        series.append(Series(name, [], [fmean(right), *(fmean(by_tag[tag]) for tag in common)]))
    title = f"Heads that agree with the parse: {len(tags):,} words, one seed each"
    chart = bar_chart(["all words", *common], series, title=title, value_label="share of words", percent=True)
    yield "structured-attachment", chart


def chances(heads: Sequence[int]) -> list[float]:
    """For each word how probable its head is in a projective tree with one root that is drawn uniformly."""
    trees = sa.distributions.DependencyCRF(torch.zeros(len(heads), len(heads) + 1), single_root=True)
    shares: list[float] = trees.marginals()[range(len(heads)), list(heads)].tolist()
    return shares


@torch.no_grad()
def best_heads(run: str, sentences: Sequence[sa.Sentence]) -> Iterator[list[int]]:
    """The heads of each sentence's best tree, as CoNLL ids."""
    model: Any = sa.load(run)
    for start in range(0, len(sentences), 64):
        part = sentences[start : start + 64]
        best = model.encoder.latent_trees(sa.collate(part, model.vocabulary)).argmax().argmax(-1).tolist()
        yield from (heads[: len(one)] for heads, one in zip(best, part, strict=True))


@torch.no_grad()
def alignment(model: SequenceModel, example: Example) -> Tensor:
    """What the decoder attends to as it is made to write the text; a row for each of its tokens."""
    decoder: Any = model.decoder
    attention, seen = decoder.attention, list[Any]()
    asks = attention.register_forward_pre_hook(
        lambda _, given, named: (given, named | {"need_weights": True}), with_kwargs=True
    )
    keeps = attention.register_forward_hook(lambda _, given, output: seen.append(output[1]))
    try:
        model.eval()(model.collate([example]))
    finally:
        asks.remove()
        keeps.remove()
    weights: Tensor = seen[0][0, 0]
    return weights


def word_translations(pairs: Sequence[tuple[list[str], list[str]]], *, rounds: int = 6) -> dict[str, dict[str, float]]:
    """``t(target | source)`` of IBM Model 1 by expectation maximisation (Brown et al. 1993, section 4.1)."""
    table: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(lambda: 1.0))
    for _ in range(rounds):
        counts: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        for source, target in pairs:
            for word in target:
                total = sum(table[one][word] for one in source)
                for one in source:
                    counts[one][word] += table[one][word] / total
        table = defaultdict(lambda: defaultdict(float))
        for one, row in counts.items():
            total = sum(row.values())
            table[one] = defaultdict(float, {word: count / total for word, count in row.items()})
    return table


def translation_figure(runs: Runs, data: str, pair: tuple[str, str], *, num_pairs: int) -> str:
    """Kim et al. (2017), figure of section 4.2; with alignments by IBM Model 1 where there is no manual one."""
    models: dict[str, Any] = {name: sa.load(folders[0]) for name, folders in runs.items()}
    texts = next(iter(models.values())).texts
    example = Example((sa.Sentence.from_text(pair[0]),), pair[1])
    source = list(retokenize(example.sentences[0], texts.splitter).words)
    target = texts.target.splitter.split(pair[1])
    known = [
        (list(retokenize(one.sentences[0], texts.splitter).words), texts.target.splitter.split(str(one.label)))
        for one in islice(sa.data.read_examples(data, format="parallel"), num_pairs)
    ]
    table = word_translations([*known, (source, target)])
    guess = torch.tensor([[table[one][word] for one in source] for word in target])
    panels = [Panel(target, source, alignment(model, example)[: len(target)], name) for name, model in models.items()]
    panels.append(Panel(target, source, guess / guess.sum(1, keepdim=True), "IBM Model 1"))
    return heatmap_grid(panels, columns=2, names=Names(rows="written", columns="read"))


def times_figure(lengths: Sequence[int] = (5, 10, 20, 40, 80), *, batch: int = 16, repeats: int = 3) -> str:
    """Milliseconds forward and back of a transduction encoder, by what its words attend to."""
    kinds = ("none", "simple", "projective", "nonprojective", "constituency")
    encoders = {kind: sa.encoders.build("structured", vocab_size=30, attention=kind, dim=50) for kind in kinds}

    def flat(length: int) -> SentenceBatch:
        words = [f"w{place % 20}" for place in range(length)]
        return sa.collate([sa.Sentence(words)] * batch, sa.Vocabulary(dict.fromkeys(words)))

    return times_chart(times_series(encoders, flat, lengths, repeats=repeats), batch=batch)


def figures(options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    if options.heads:
        yield "structured-heads", heads_figure(named(options.heads), options.formula)
    if options.depth:
        yield "structured-depth", depth_figure(named(options.depth))
    if options.entropy:
        # How unsure the heads are; words that choose alone could reach log(n + 1).
        label = "nats for each word (dev)"
        runs = named(options.entropy)
        yield "structured-entropy", curve_figure(runs, "tree_entropy", title="entropy of heads", y_label=label)
    if options.bleu:
        runs = named(options.bleu)
        yield "structured-bleu", curve_figure(runs, "bleu", title="Japanese to English", y_label="BLEU (dev)")
    if options.trees:
        yield from tree_figures(named(options.trees), options.data)
    if options.translations:
        runs = named(options.translations)
        yield "structured-translation", translation_figure(runs, options.data, options.pair, num_pairs=options.pairs)
    if options.times:
        yield "structured-times", times_figure()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for option in ("heads", "depth", "entropy", "trees", "translations", "bleu"):
        parser.add_argument(f"--{option}", nargs="+", default=[], metavar="NAME=RUN")
    parser.add_argument("--formula", default=FORMULA)
    parser.add_argument("--data", help="trees (CoNLL-U) for --trees, parallel text for --translations")
    parser.add_argument("--pair", nargs=2, metavar=("SOURCE", "TARGET"))
    parser.add_argument("--pairs", type=int, default=5000, help="number of pairs of --data that train IBM Model 1")
    parser.add_argument("--times", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("figures"))
    options = parser.parse_args()
    if (options.trees or options.translations) and not options.data:
        parser.error("--trees and --translations need --data")
    if options.translations and not options.pair:
        parser.error("--translations needs --pair")
    write(figures(options), options.out)


if __name__ == "__main__":
    main()
