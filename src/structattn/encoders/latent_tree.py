"""The latent tree that an encoder attends with: the probability of every head, and the best tree."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from structattn.data.sentence_batch import SentenceBatch
from structattn.encoders.sentence_encoder import SentenceEncoder
from structattn.layers.evaluation_mode import evaluating


@dataclass(frozen=True, eq=False)
class LatentTree:
    """The heads of one sentence under an encoder's latent tree.

    Attributes:
        probabilities: of each head of each word; the first column is the root, so columns are CoNLL ids.
        heads: the most probable tree.
    """

    probabilities: Float[Tensor, "word head"]
    heads: tuple[int, ...]


def read_latent_trees(encoder: SentenceEncoder, batch: SentenceBatch) -> list[LatentTree]:
    """The latent tree of each sentence of a batch on the encoder's device, if ``encoder.has_latent_trees``."""
    with evaluating(encoder):
        trees = encoder.latent_trees(batch)
        marginals, best = trees.marginals().float().cpu(), trees.argmax().argmax(-1).cpu()
    return [
        LatentTree(marginals[row, :size, : size + 1], tuple(best[row, :size].tolist()))
        for row, size in enumerate(batch.lengths.tolist())
    ]
