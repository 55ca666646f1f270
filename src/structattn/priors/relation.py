"""Priors from named relations: arcs with their labels, ancestors, and any matrix that a sentence carries."""

from collections.abc import Hashable
from typing import Literal, cast

import torch

from structattn.data import RELATIONS, SentenceBatch, parse_relation, word_relation
from structattn.data.relation_names import parse_mask
from structattn.priors.prior import AttentionBias, Prior
from structattn.priors.sequence import Backward, Forward, WordDistance
from structattn.priors.tree import ConstituencyDistance, DependencyDistance
from structattn.tables import named


class Relation(Prior):
    """A relation between words as a bias, or as a mask: ``Relation("head:nsubj")``, ``Relation("coref")``.

    Args:
        name: a name of `structattn.data.parse_relation`, such as ``ancestor`` or ``arc:nsubj,obj+self``; any other name
            refers to a matrix ``sentence.relations[name]``: coreference, semantic roles, alignments, a parser's
            marginals. Rows are queries and columns keys.
        as_mask: if true, a query may attend to a key where the entry is not zero; otherwise the entry is the bias, and
            ``-inf``, such as the logarithm of a probability of zero, forbids the key.

    Raises:
        ConfigError: for a malformed name, or a distance as a mask.
        MissingStructure: in ``forward``, if a sentence lacks the tree or the matrix.

    Example:
        >>> import structattn as sa
        >>> same = [[1.0, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 1.0]]
        >>> tree = sa.DependencyTree([2, 0, 2], ["nsubj", "root", "obj"])
        >>> sentence = sa.Sentence(["she", "sees", "herself"], dependency=tree, relations={"same": same})
        >>> batch = sa.collate([sentence], sa.Vocabulary.from_examples([sa.Example((sentence,))]))
        >>> Relation("same")(batch).bias[0, 0, 0].tolist()
        [1.0, 0.0, 1.0]
        >>> Relation("head:nsubj+self", as_mask=True)(batch).allowed[0, 0, 0].tolist()
        [True, True, False]
    """

    def __init__(self, name: str, as_mask: bool = False) -> None:
        super().__init__()
        parse = parse_mask if as_mask else parse_relation
        self.relation = parse(name, unknown_is_matrix=True)
        if not self.relation.matrix:
            _ = self.relation.function  # imported now, not inside a compiled graph
        self._name = name
        self.as_mask = as_mask

    def extra_repr(self) -> str:
        """The options."""
        return f"{self.name!r}, as_mask={self.as_mask}"

    @property
    def name(self) -> str:
        """The relation's name."""
        return self._name

    def cache_key(self) -> Hashable:
        """The class and its options, which determine the value."""
        return type(self), self.relation, self.as_mask

    def forward(self, batch: SentenceBatch) -> AttentionBias:
        """The relation, shape ``(batch, 1, query, key)``."""
        matrix = word_relation(self.relation, batch, wanted_by=f"Relation({self.name!r})")[:, None]
        if self.as_mask:
            return AttentionBias(matrix != 0)
        if not self.relation.matrix:
            return AttentionBias(None, matrix)
        # A separate mask: in the bias, -inf would become NaN in the heads that weight it by zero.
        possible = matrix != -torch.inf
        return AttentionBias(possible, torch.where(possible, matrix, 0.0))


#: The names of learnt tables as preferences of heads, and what each is read by.
TABLES = {"table": "word", **{f"{name}_table": name for name in ("dependency", "constituency", "path")}}


def table_prior(name: str, num_heads: int, *, missing: Literal["error", "none", "word"] = "error") -> Prior:
    """The learnt table of that name, with a row for each head."""
    from structattn.priors.learnt_table import Distance, LearntTable

    return LearntTable(num_heads, cast(Distance, TABLES[name]), missing=missing)


def import_prior(name: str) -> Prior | None:
    """The prior that ``module:name`` names, instance or class; ``None`` for a relation."""
    module, colon, _ = name.partition(":")
    if not colon or "+" in name or module == "matrix" or module in RELATIONS:
        return None
    value = named(name, "prior or relation", lambda value: True, "")
    if isinstance(value, type) and issubclass(value, Prior):
        return value()
    return value if isinstance(value, Prior) else None


def mask_prior(name: str) -> Prior:
    """The prior that allows the pairs of a relation, or ``module:name`` of a prior of your own, instance or class."""
    if (prior := import_prior(name)) is not None:
        return prior
    parsed = parse_mask(name)
    directions = {"forward": Forward, "backward": Backward}
    return directions[parsed.kind]() if parsed.kind in directions else Relation(name, as_mask=True)


def preference_prior(name: str, *, missing: Literal["error", "none", "word"] = "error") -> Prior:
    """The prior that prefers the pairs of a relation, or nearby words if it is a distance; or ``module:name``.

    ``missing`` says what a tree distance does with a sentence without a tree; see `DependencyDistance`."""
    if (prior := import_prior(name)) is not None:
        return prior
    match parse_relation(name).kind:
        case "word_distance":
            return WordDistance()
        case "dependency_distance":
            return DependencyDistance(missing)
        case "constituency_distance":
            return ConstituencyDistance(missing)
    return Relation(name)
