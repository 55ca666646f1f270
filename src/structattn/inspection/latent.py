"""The latent trees that a model has induced: the probability of every head, and the best tree beside the gold one.

For models of the task ``attachment`` (Kim et al. 2017, section 4.4).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from structattn.data import SentenceBatch
from structattn.encoders import SentenceEncoder, latent_trees
from structattn.inspection.attention_map import AttentionMap
from structattn.layers import HeadReader, StructuredAttention
from structattn.layers.modes import evaluating
from structattn.pictures import dependency_tree
from structattn.syntax import Sentence
from structattn.tasks import AttachmentModel

LAYER = "latent trees"


@dataclass(frozen=True, eq=False)
class LatentTree:
    """The heads of one sentence under a model of latent trees.

    Attributes:
        probabilities: of each head of each word; the first column is the root, so columns are CoNLL ids.
        heads: the most probable tree.
    """

    probabilities: Float[Tensor, "word head"]
    heads: tuple[int, ...]


def has_latent_trees(encoder: nn.Module) -> bool:
    """Whether an encoder attends to the heads of words in one latent tree, as ``latent_trees`` expects."""
    found = [module for module in encoder.modules() if isinstance(module, StructuredAttention)]
    return sum(isinstance(module.reader, HeadReader) for module in found) == 1


def latent_trees_of(encoder: SentenceEncoder, batch: SentenceBatch) -> list[LatentTree]:
    """The latent tree of each sentence.

    Args:
        encoder: one for which ``has_latent_trees`` is true.
        batch: sentences, on the encoder's device.
    """
    with evaluating(encoder):
        trees = latent_trees(encoder, batch)
        marginals, best = trees.marginals().float().cpu(), trees.argmax().argmax(-1).cpu()
    sizes = batch.lengths.tolist()
    return [
        LatentTree(marginals[row, :size, : size + 1], tuple(best[row, :size].tolist()))
        for row, size in enumerate(sizes)
    ]


def latent_maps(model: AttachmentModel, batch: SentenceBatch, places: Sequence[int]) -> list[AttentionMap]:
    """For each sentence, the marginal probabilities of heads and, as a second matrix, the best tree.

    A row is a word, a column its head; 1 minus the sum of a row is the probability of the root. In the best tree the
    root's row is zero.

    Args:
        model: a model of latent trees.
        batch: sentences.
        places: the index of each sentence.
    """
    maps = []
    for tree, sentence, place in zip(
        latent_trees_of(model.encoder, batch.to(model.device)), batch.sentences, places, strict=True
    ):
        best = torch.zeros_like(tree.probabilities)
        best[range(len(sentence)), tree.heads] = 1.0
        weights = torch.stack([tree.probabilities, best])[..., 1:]
        names = ("probability of the head", "best tree")
        maps.append(
            AttentionMap(
                "trees",
                sentence.words,
                sentence.words,
                weights,
                "attention",
                names,
                layer=LAYER,
                sentence=sentence,
                index=place,
            )
        )
    return maps


def induced_tree_figure(found: AttentionMap, sentence: Sentence) -> str:
    """The best tree, arcs drawn by probability; the gold tree below, if there is one.

    Example:
        >>> from structattn.inspection import AttentionMap
        >>> from structattn.syntax import DependencyTree
        >>> weights, words = torch.tensor([[[0.0, 0.7], [0.2, 0.0]], [[0.0, 1.0], [0.0, 0.0]]]), ("dogs", "bark")
        >>> kids = Sentence(words, dependency=DependencyTree([2, 0]))
        >>> found = AttentionMap("trees", words, words, weights, "attention", ("marginals", "best"), layer=LAYER)
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
