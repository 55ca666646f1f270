"""The figures of the papers, drawn from attention maps, priors and sentences.

Qi et al. 2020 (MS-SAN, arXiv 2012.14642), figures 2 to 4; Shen et al. 2018 (DiSAN), figures 6 to 8.
"""

import math
from collections.abc import Mapping, Sequence

import torch

from structattn.data import Vocabulary, collate
from structattn.inspection.attention_map import AttentionMap
from structattn.inspection.names import titles_of
from structattn.inspection.summary import tree_of
from structattn.pictures import (
    Arc,
    Panel,
    Series,
    arc_diagram,
    bar_chart,
    dependency_tree,
    gate_image,
    heatmap_grid,
    vector_comparison,
)
from structattn.priors import Backward, DependencyDistance, Forward, Prior, WordDistance
from structattn.syntax import Sentence


def attention_panels(maps: Sequence[AttentionMap]) -> list[Panel]:
    """One panel per head, titled by module and head where there are several; syntactic heads are marked.

    Only maps of kind ``"attention"`` are taken.

    Example:
        >>> weights = torch.tensor([[[1.0, 0.0], [0.5, 0.5]]])
        >>> found = AttentionMap("forward", ("a", "b"), ("a", "b"), weights, "attention", ("forward",))
        >>> [panel.title for panel in attention_panels([found])]
        ['forward']
    """
    chosen = [found for found in maps if found.kind == "attention"]
    titles = titles_of(chosen)
    panels = []
    for found, names in zip(chosen, titles, strict=True):
        tree = tree_of(found)
        marks = [] if tree is None else [(word, head - 1) for word, head in enumerate(tree.heads) if head]
        for name, weights in zip(names, found.weights, strict=True):
            panels.append(Panel(found.rows, found.columns, weights, title=name, marks=marks))
    return panels


def attention_figure(
    maps: Sequence[AttentionMap],
    *,
    columns: int | None = None,
    title: str | None = None,
    maximum: int | float | None = None,
) -> str:
    """The heads of one or more modules side by side: MS-SAN's figure 4, DiSAN's figure 6.

    Args:
        maps: maps of one sentence, or of several.
        columns: how many heads stand side by side; three or four by default.
        title: a heading.
        maximum: value of the highest colour.

    Raises:
        ValueError: if none of the maps is of kind ``"attention"``.
    """
    panels = attention_panels(maps)
    if not panels:
        raise ValueError(f"expected at least one map of kind 'attention'; got {[found.kind for found in maps]}")
    wide = columns if columns is not None else (3 if len(panels) in (1, 2, 3, 5, 6, 9) else 4)
    return heatmap_grid(panels, columns=wide, title=title, maximum=maximum, marks_label="syntactic head")


def prior_figure(
    sentence: Sentence, priors: Mapping[str, Prior] | None = None, *, title: str | None = None, columns: int = 4
) -> str:
    """Priors as matrices: MS-SAN's figure 2. Hatched cells are forbidden, darker ones are preferred.

    Args:
        sentence: with the structures that the priors want.
        priors: a title for each; by default the two directions, the two distances, and their combinations.
        title: a heading.
        columns: how many matrices stand side by side.

    Raises:
        MissingStructure: if a prior wants a structure that the sentence lacks.

    Example:
        >>> svg = prior_figure(Sentence(["a", "dog"]), {"forward": Forward(), "word": WordDistance()})
        >>> svg.count("<title>")
        8
    """
    chosen = paper_priors() if priors is None else priors
    batch = collate([sentence], Vocabulary([]))
    size = len(sentence)
    panels = []
    for name, prior in chosen.items():
        with torch.no_grad():
            value = prior(batch)
        bias = torch.zeros(1, 1, size, size) if value.bias is None else value.bias.detach()
        allowed = torch.ones(1, 1, 1, 1, dtype=torch.bool) if value.allowed is None else value.allowed
        matrices = bias.masked_fill(~allowed, -math.inf).expand(1, -1, size, size)[0]
        for head, matrix in enumerate(matrices):
            shown = f"{name} {head + 1}" if len(matrices) > 1 else name
            panels.append(Panel(sentence.words, sentence.words, matrix, title=shown))
    lowest = min((value for panel in panels for row in panel.matrix() for value in row if value is not None), default=0)
    return heatmap_grid(
        panels, columns=columns, title=title, minimum=min(lowest, -1.0), show_values=True, value_label="bias"
    )


def paper_priors() -> dict[str, Prior]:
    """The priors of MS-SAN's figure 2: directions, distances, and the combinations its six heads use.

    Example:
        >>> len(paper_priors())
        8
    """
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


def distance_figure(sentence: Sentence, word: int, *, title: str | None = None) -> str:
    """A parse with the distances of every word from one of them, in words and in the tree: MS-SAN's figure 3.

    Args:
        sentence: with a dependency tree.
        word: position of the chosen word.
        title: a heading.

    Raises:
        ValueError: if the sentence has no dependency tree, or no word at that position.

    Example:
        >>> from structattn.syntax import DependencyTree
        >>> sentence = Sentence(["kids", "wash", "hands"], dependency=DependencyTree([2, 0, 2]))
        >>> "edges from wash" in distance_figure(sentence, 1)
        True
    """
    tree = sentence.dependency
    if tree is None or not 0 <= word < len(sentence):
        what = "no dependency tree" if tree is None else f"{len(sentence)} words"
        raise ValueError(f"expected a parsed sentence and the position of a word; got position {word} and {what}")
    chosen = sentence.words[word]
    notes = {
        f"words from {chosen}": [abs(position - word) for position in range(len(sentence))],
        f"edges from {chosen}": tree.distances()[word],
    }
    return dependency_tree(sentence.words, tree, tags=sentence.tags, notes=notes, emphasis=[word], title=title)


def tree_figure(
    attention_map: AttentionMap, head: int, *, threshold: int | float = 0.1, title: str | None = None
) -> str:
    """One attention head under the dependency tree: arcs of syntax above the words, arcs of attention below.

    Args:
        attention_map: weights between words; if its sentence has no tree, only attention is drawn.
        head: which attention head.
        threshold: weights up to this value are left out.
        title: a heading.

    Example:
        >>> weights = torch.tensor([[[0.0, 1.0], [0.5, 0.5]]])
        >>> found = AttentionMap("forward", ("a", "b"), ("a", "b"), weights, "attention", ("forward",))
        >>> tree_figure(found, 0).count('class="sa-arc"')
        3
    """
    tree = tree_of(attention_map)
    above: list[Arc] = []
    if tree is not None:
        labels = tree.labels if tree.labels is not None else [""] * len(tree)
        above = [
            Arc(parent - 1 if parent else None, word, label=labels[word] if parent else "root")
            for word, parent in enumerate(tree.heads)
        ]
    below = [
        Arc(query, key, weight=weight, role="series0")
        for query, row in enumerate(attention_map.weights[head].tolist())
        for key, weight in enumerate(row)
        if weight > threshold
    ]
    said = f"attention of {attention_map.head_names[head]}: query → key, weights above {threshold:g}"
    names = ("syntax" if above else "", said)
    return arc_diagram(attention_map.rows, above, below=below, names=names, title=title)


def gate_figure(attention_map: AttentionMap, *, title: str | None = None) -> str:
    """A gate feature by feature with the mean of each word: DiSAN's figure 7. Near 1 keeps the word itself.

    Raises:
        ValueError: if the map is not of kind ``"gate"``.
    """
    if attention_map.kind != "gate" or attention_map.features is None:
        raise ValueError(f"{attention_map.name}: expected a map of kind 'gate', got {attention_map.kind!r}")
    return gate_image(attention_map.rows, attention_map.features, title=title)


def pooling_figure(maps: Sequence[AttentionMap], *, title: str | None = None) -> str:
    """The weight of each word in the sentence vector, averaged over features, for one or more poolers.

    Raises:
        ValueError: if there is no map of kind ``"pooling"``, or the maps are about different words.
    """
    chosen = [found for found in maps if found.kind == "pooling"]
    if not chosen or any(found.columns != chosen[0].columns for found in chosen):
        kinds = [(found.kind, len(found.columns)) for found in maps]
        raise ValueError(f"expected maps of kind 'pooling' over the same words; got (kind, words) {kinds}")
    series = [Series(found.layer or found.name, [], found.weights[0, 0].tolist()) for found in chosen]
    return bar_chart(chosen[0].columns, series, title=title, value_label="mean weight over the features")


def pooling_features_figure(attention_map: AttentionMap, *, title: str | None = None) -> str:
    """The weight of each word in every feature of the sentence vector, and on average.

    Raises:
        ValueError: if the map is not of kind ``"pooling"``.
    """
    if attention_map.kind != "pooling" or attention_map.features is None:
        raise ValueError(f"{attention_map.name}: expected a map of kind 'pooling', got {attention_map.kind!r}")
    return gate_image(attention_map.columns, attention_map.features, title=title, maximum=None, value_label="weight")


def word_vector_figure(
    first: AttentionMap,
    second: AttentionMap,
    word: str,
    *,
    shape: tuple[int, int] | None = None,
    title: str | None = None,
) -> str:
    """The pooling weights of one word in two sentences, and their difference: DiSAN's figure 8.

    Args:
        first: a map of kind ``"pooling"`` for a sentence with the word.
        second: one for another sentence with the word.
        word: the word; its first occurrence counts.
        shape: rows and columns of the images; by default about two to three, ``(20, 30)`` for 600 features.
        title: a heading.

    Raises:
        ValueError: if a map is not of kind ``"pooling"`` or its sentence does not contain the word.
    """
    rows = []
    for found in (first, second):
        if found.kind != "pooling" or found.features is None:
            raise ValueError(f"{found.name}: expected a map of kind 'pooling', got {found.kind!r}")
        if word not in found.columns:
            raise ValueError(f"{word!r} does not occur in the sentence {' '.join(found.columns)!r}")
        rows.append(found.features[found.columns.index(word)])
    names = (" ".join(first.columns), " ".join(second.columns))
    folded = shape if shape is not None else fold(len(rows[0]))
    return vector_comparison(rows[0], rows[1], names, shape=folded, title=title or f"pooling weights of “{word}”")


def fold(size: int) -> tuple[int, int]:
    """An image shape of about two to three for a vector.

    Example:
        >>> fold(600), fold(7)
        ((20, 30), (2, 4))
    """
    num_columns = max(1, math.ceil(math.sqrt(size * 1.5)))
    return max(1, math.ceil(size / num_columns)), num_columns
