"""A prior from any matrix that a sentence carries: coreference, semantic roles, alignments, a parser's marginals."""

from collections.abc import Hashable

import torch

from structattn.data import SentenceBatch
from structattn.priors.bias import AttentionBias
from structattn.priors.prior import Prior


class Relation(Prior):
    """The matrix ``sentence.relations[name]``, rows are queries and columns keys, as a bias or as a mask.

    Args:
        name: name of the matrix.
        as_mask: if true, a query may attend to a key where the entry is not zero; otherwise the entry is the bias.

    Raises:
        ValueError: for the name of a tree; trees have priors of their own.
        MissingStructure: in ``forward``, if a sentence does not carry the matrix.

    Example:
        >>> import structattn as sa
        >>> same = [[1.0, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 1.0]]
        >>> sentence = sa.Sentence(["she", "sees", "herself"], relations={"same": same})
        >>> batch = sa.collate([sentence], sa.Vocabulary.from_examples([sa.Example((sentence,))]))
        >>> Relation("same")(batch).bias[0, 0, 0].tolist()
        [1.0, 0.0, 1.0]
        >>> Relation("same", as_mask=True)(batch).allowed[0, 0, 0].tolist()
        [True, False, True]
    """

    def __init__(self, name: str, as_mask: bool = False) -> None:
        super().__init__()
        if name in ("dependency", "constituency"):
            raise ValueError(f"Relation expects the name of a matrix, got {name!r}; use DependencyDistance or alike")
        self.relation = name
        self.as_mask = as_mask

    @property
    def name(self) -> str:
        """The relation's name."""
        return self.relation

    def identity(self) -> Hashable:
        """The class and its options: two of a kind are one."""
        return type(self), self.relation, self.as_mask

    def forward(self, batch: SentenceBatch) -> AttentionBias:
        """The matrices, shape ``(batch, 1, query, key)``."""
        if self.relation in batch.relations or bool(batch.mask.any()):
            matrix = batch.require(self.relation, wanted_by=f"Relation({self.relation!r})")
        else:  # a batch without any word carries no matrices, and needs none
            matrix = torch.zeros(*batch.mask.shape, batch.mask.shape[1], device=batch.device)
        return AttentionBias(matrix[:, None] != 0) if self.as_mask else AttentionBias(None, matrix[:, None])
