"""Pictures of the latent trees that a model has induced: the best tree, arcs by probability, beside the gold one."""

import torch

from structattn.encoders.latent_tree import LatentTree
from structattn.layers.attention_map import AttentionMap
from structattn.pictures import dependency_tree
from structattn.syntax import Sentence


def induced_tree_figure(found: AttentionMap, sentence: Sentence) -> str:
    """The best tree, arcs drawn by probability; the gold tree below, if there is one.

    Example:
        >>> from structattn.inspection import AttentionMap
        >>> from structattn.syntax import DependencyTree
        >>> weights, words = torch.tensor([[[0.0, 0.7], [0.2, 0.0]], [[0.0, 1.0], [0.0, 0.0]]]), ("dogs", "bark")
        >>> kids = Sentence(words, dependency=DependencyTree([2, 0]))
        >>> found = AttentionMap("trees", words, words, weights, "attention", ("marginals", "best"))
        >>> induced_tree_figure(found, kids).count('class="sa-arc"')
        4
    """
    marginals, best = found.weights
    root = (1 - marginals.sum(-1, keepdim=True)).clamp(0, 1)
    heads = torch.where(best.sum(-1) > 0, best.argmax(-1) + 1, 0).tolist() if len(best) else []
    return latent_tree_figure(LatentTree(torch.cat([root, marginals], -1), tuple(heads)), sentence)


def latent_tree_figure(tree: LatentTree, sentence: Sentence, *, title: str | None = None) -> str:
    """The best tree, arcs drawn by probability; the gold tree below, if there is one.

    Args:
        tree: the latent tree of the model.
        sentence: the words, and the gold tree.
        title: a heading.

    Example:
        >>> tree = LatentTree(torch.tensor([[0.3, 0.0, 0.7], [0.8, 0.2, 0.0]]), (2, 0))
        >>> latent_tree_figure(tree, Sentence(["dogs", "bark"])).count('class="sa-arc"')
        2
    """
    return dependency_tree(
        sentence.words,
        tree.heads,
        weights=[tree.probabilities[word, head].item() for word, head in enumerate(tree.heads)],
        other=sentence.dependency,
        names=("induced", "given"),
        tags=sentence.tags,
        title="Best tree under the model" if title is None else title,
    )
