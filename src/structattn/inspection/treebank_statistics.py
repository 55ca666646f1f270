"""Statistics of treebanks: sizes, lengths, depth, projectivity, relations, tags and phrases; tables and a picture."""

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from structattn.pictures import Series, line_chart
from structattn.pictures.svg import stack
from structattn.syntax import DependencyTree, Sentence
from structattn.tasks.reports import Report

_MOST = 60  # lengths and distances beyond share a place in pictures


@dataclass
class TreebankCounts:
    """Counts over the sentences of a treebank; distances of arcs are between a word and its head, without roots."""

    sentences: int = 0
    bare: int = 0
    nonprojective: int = 0
    crossing: int = 0
    words: Counter[str] = field(default_factory=Counter)
    tags: Counter[str] = field(default_factory=Counter)
    phrases: Counter[str] = field(default_factory=Counter)
    lengths: list[int] = field(default_factory=list)
    depths: list[int] = field(default_factory=list)
    roots: list[int] = field(default_factory=list)
    arcs: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))

    def add(self, sentence: Sentence) -> None:
        """Count one more sentence; those without words count for nothing."""
        if not len(sentence):
            return
        self.sentences += 1
        self.lengths.append(len(sentence))
        self.words.update(sentence.words)
        self.tags.update(sentence.tags or ())
        if sentence.constituency is not None:
            self.phrases.update(str(label) for label, _, _ in sentence.constituency.spans)
        tree = sentence.dependency
        if tree is None:
            self.bare += 1
            return
        self.roots.append(len(tree.roots))
        self.depths.append(max(tree.depths()))
        labels = tree.labels or [""] * len(tree)
        for position, (head, label) in enumerate(zip(tree.heads, labels, strict=True), start=1):
            self.arcs[label or "(no relation)"].append(position - head if head else 0)
        if not tree.is_projective:
            self.nonprojective += 1
            self.crossing += count_crossing(tree)

    @property
    def distances(self) -> list[int]:
        """The signed distances of all arcs from their heads: positive for a head to the left."""
        return [distance for arcs in self.arcs.values() for distance in arcs if distance]

    def measures(self) -> dict[str, Any]:
        """The figures of the first table."""
        distances, arcs = self.distances, sum(map(len, self.arcs.values()))
        values: dict[str, Any] = {
            "sentences": self.sentences,
            "words": self.words.total(),
            "different words": len(self.words),
            "words that occur once": sum(count == 1 for count in self.words.values()),
            "words in a sentence, mean": statistics.fmean(self.lengths),
            "words in a sentence, median": int(statistics.median(self.lengths)),
            "words in a sentence, at most": max(self.lengths),
            "sentences without a dependency tree": self.bare,
        }
        if self.depths:
            values |= {
                "depth of the tree, mean": statistics.fmean(self.depths),
                "depth of the tree, at most": max(self.depths),
                "distance to the head, mean": statistics.fmean(map(abs, distances)) if distances else 0.0,
                "heads to the left": sum(distance > 0 for distance in distances) / max(1, len(distances)),
                "non-projective sentences": self.nonprojective / len(self.depths),
                "arcs that cross another": self.crossing / arcs,
                "sentences with several roots": sum(roots > 1 for roots in self.roots),
            }
        return values


def count_crossing(tree: DependencyTree) -> int:
    """How many arcs cross another one; those of roots, which have no head among the words, cross none.

    Example:
        >>> count_crossing(DependencyTree([3, 4, 0, 3]))
        2
    """
    arcs = [(min(head, word), max(head, word)) for word, head in enumerate(tree.heads, start=1) if head]
    return sum(any(a < c < b < d or c < a < d < b for c, d in arcs) for a, b in arcs)


def count_treebank(sentences: Iterable[Sentence]) -> TreebankCounts:
    """The counts of a treebank.

    Raises:
        ValueError: if no sentence has words.
    """
    counts = TreebankCounts()
    for sentence in sentences:
        counts.add(sentence)
    if not counts.sentences:
        raise ValueError("expected at least one sentence with words, got none")
    return counts


def describe_treebanks(treebanks: Mapping[str, TreebankCounts]) -> Report:
    """Tables of one or several treebanks, side by side: figures, then relations, tags and phrases with their shares.

    Example:
        >>> import structattn as sa
        >>> tree = sa.DependencyTree([2, 0, 2], ["nsubj", "root", "obj"])
        >>> counts = count_treebank([sa.Sentence(["kids", "wash", "hands"], dependency=tree)])
        >>> report = describe_treebanks({"tiny": counts})
        >>> report.tables["by relation"][0]
        {'relation': 'nsubj', 'tiny: share': 0.3333333333333333, 'distance': 1.0, 'head left': 0.0, 'count': 1}
    """
    measures = {name: counts.measures() for name, counts in treebanks.items()}
    rows = dict.fromkeys(key for values in measures.values() for key in values)
    tables: dict[str, Any] = {
        "treebank": [{"": key, **{name: values.get(key) for name, values in measures.items()}} for key in rows],
        "by relation": _relations(treebanks),
    }
    for title, column in (("by tag", "tags"), ("by phrase", "phrases")):
        tables[title] = _shares(title.split()[1], {name: getattr(each, column) for name, each in treebanks.items()})
    return Report({title: table for title, table in tables.items() if table})


def _relations(treebanks: Mapping[str, TreebankCounts]) -> list[dict[str, Any]]:
    counters = {
        name: Counter({label: len(arcs) for label, arcs in each.arcs.items()}) for name, each in treebanks.items()
    }
    table = _shares("relation", counters)
    for row in table:
        count = row.pop("count")
        distances = [d for each in treebanks.values() for d in each.arcs.get(str(row["relation"]), ()) if d]
        row["distance"] = statistics.fmean(map(abs, distances)) if distances else None
        row["head left"] = sum(distance > 0 for distance in distances) / len(distances) if distances else None
        row["count"] = count
    return table


def _shares(name: str, counters: Mapping[str, Counter[str]]) -> list[dict[str, Any]]:
    """For each label its share of every treebank, and its number in all; the most frequent first."""
    total: Counter[str] = sum(counters.values(), Counter())
    return [
        {
            name: label,
            **{f"{source}: share": counter[label] / max(1, counter.total()) for source, counter in counters.items()},
            "count": count,
        }
        for label, count in total.most_common()
    ]


def draw_treebanks(treebanks: Mapping[str, TreebankCounts]) -> str:
    """How long sentences are, how deep trees, and how far words from their heads: one SVG, a line for each treebank."""
    kinds = {
        "words in a sentence": lambda counts: counts.lengths,
        "depth of the tree": lambda counts: counts.depths,
        "distance to the head": lambda counts: list(map(abs, counts.distances)),
    }
    charts = []
    for title, values in kinds.items():
        series = [_distribution(name, values(counts)) for name, counts in treebanks.items() if values(counts)]
        if series:
            label = f"{title}; all above {_MOST - 1} together"
            charts.append(line_chart(series, title=title, x_label=label, y_label="share", percent=True, from_zero=True))
    return stack(charts)


def _distribution(name: str, values: Sequence[int]) -> Series:
    counts = Counter(min(value, _MOST) for value in values)
    places = list(range(min(counts), max(counts) + 1))
    return Series(name, places, [counts[place] / len(values) for place in places])
