"""Entropy of latent trees, logged while a model trains: how uncertain the encoder is about them.

Reference: Kim et al. (2017), Structured attention networks, section 3.2 (the distribution over trees).
"""

from collections.abc import Sequence

from structattn.data import Example, SentenceBatch
from structattn.encoders import latent_trees
from structattn.layers import HeadReader
from structattn.layers.modes import evaluating
from structattn.tasks import SequenceBatch, TaskBatch, TaskModel


def tree_entropy(model: TaskModel, examples: Sequence[Example], *, batch_size: int = 64) -> float | None:
    """Mean entropy per word, in nats, of the encoder's latent heads; ``None`` if it has none.

    Args:
        model: any model.
        examples: its examples; without a tree constraint heads are independent, and their entropies add up.
        batch_size: examples per batch.

    Example:
        >>> import structattn as sa
        >>> from structattn.tasks import SENTIMENT
        >>> encoder = sa.encoders.build("structured", vocab_size=3, dim=4)
        >>> model = sa.tasks.SentenceModel(encoder, SENTIMENT, vocabulary=sa.Vocabulary(["dull"]))
        >>> tree_entropy(model, [Example([sa.Sentence(["dull"])])])
        0.0
    """
    if not any(isinstance(module, HeadReader) for module in model.encoder.modules()):
        return None
    device = next(model.parameters()).device
    entropy, words = 0.0, 0
    with evaluating(model):
        for start in range(0, len(examples), batch_size):
            for batch in _sentences(model.collate(examples[start : start + batch_size])):
                trees = latent_trees(model.encoder, batch.to(device))  # type: ignore[arg-type]  # found above
                entropy += float(trees.entropy().sum())
                words += int(batch.lengths.sum())
    return entropy / max(words, 1)


def _sentences(batch: object) -> tuple[SentenceBatch, ...]:
    if isinstance(batch, TaskBatch):
        return batch.sentences
    if isinstance(batch, SequenceBatch):
        return (batch.source,)
    return (batch,) if isinstance(batch, SentenceBatch) else ()
