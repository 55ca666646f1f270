"""Names of relations between words: one grammar for priors, masks and the relations that HYDRA's heads learn."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from structattn.errors import ConfigError
from structattn.tables import Table

if TYPE_CHECKING:
    from torch import Tensor

_OURS = "structattn.data.word_relations"


@dataclass(frozen=True)
class RelationKind:
    """A kind of relation between a query (row) and a key (column).

    Attributes:
        matrix: ``batch -> matrix``, shape ``(batch, word, word)``, or ``(batch, labels) -> matrix`` if it takes labels;
            or the ``module:function``, imported when it is used. Entries where a word is padding are ignored.
        structure: the tree that sentences must have, ``dependency`` or ``constituency``; ``None`` if there is none.
        is_distance: whether it gives the distance between two words, negated, rather than whether they are related.
        takes_labels: whether a name may add labels of arcs, such as ``head:nsubj,obj``.
    """

    matrix: "Callable[..., Tensor] | str"
    structure: str | None = None
    is_distance: bool = False
    takes_labels: bool = False


#: From the name of a relation to its kind; a new relation is a row here.
RELATIONS: Table[RelationKind] = Table(
    "relations",
    "relation",
    {
        "arc": RelationKind(f"{_OURS}:arcs", "dependency", takes_labels=True),
        "head": RelationKind(f"{_OURS}:heads", "dependency", takes_labels=True),
        "child": RelationKind(f"{_OURS}:children", "dependency", takes_labels=True),
        "ancestor": RelationKind(f"{_OURS}:ancestors", "dependency"),
        "span": RelationKind(f"{_OURS}:spans", "dependency"),
        "same_sentence": RelationKind(f"{_OURS}:same_sentence", "dependency"),
        "forward": RelationKind(f"{_OURS}:forward"),
        "backward": RelationKind(f"{_OURS}:backward"),
        "word_distance": RelationKind(f"{_OURS}:nearness_of_words", is_distance=True),
        "dependency_distance": RelationKind(f"{_OURS}:nearness_in_dependencies", "dependency", is_distance=True),
        "constituency_distance": RelationKind(f"{_OURS}:nearness_in_phrases", "constituency", is_distance=True),
    },
    accepts=lambda value: callable(value) or isinstance(value, RelationKind),
    expected="a function of a batch, or a RelationKind",
)


@dataclass(frozen=True)
class RelationName:
    """A parsed relation name.

    Attributes:
        kind: a row of ``RELATIONS``, ``module:function``, or ``matrix``.
        labels: for a kind that takes labels, the labels of the arcs that count; all if empty.
        matrix: for ``matrix``, its name in ``Sentence.relations``.
        with_self: whether every word is also related to itself.
    """

    kind: str
    labels: tuple[str, ...] = ()
    matrix: str = ""
    with_self: bool = False

    @property
    def structure(self) -> str | None:
        """The structure that sentences must have: ``dependency``, ``constituency``, a matrix's name, or ``None``."""
        return self.matrix if self.kind == "matrix" else relation_kind(self.kind).structure

    @property
    def is_distance(self) -> bool:
        """Whether it gives the distance between two words, rather than whether they are related."""
        return self.kind != "matrix" and relation_kind(self.kind).is_distance

    @functools.cached_property
    def function(self) -> "Callable[..., Tensor]":
        """What computes it from a batch and, if its kind takes labels, these."""
        from structattn.lazy import imported

        matrix = relation_kind(self.kind).matrix
        return imported(matrix) if isinstance(matrix, str) else matrix  # type: ignore[no-any-return]


def relation_kind(name: str) -> RelationKind:
    """The kind of relation of a name: a row of ``RELATIONS``, or ``module:function`` for one of your own."""
    kind = RELATIONS.find(name)
    return RelationKind(kind) if callable(kind) else kind


def parse_relation(name: str, *, unknown_is_matrix: bool = False) -> RelationName:
    """Parse the name of a relation between a query ``i`` (row) and a key ``j`` (column).

    =========================  =====================================================================================
    ``arc``                    one is the head of the other
    ``head``                   ``j`` is the head of ``i``
    ``child``                  ``i`` is the head of ``j``
    ``ancestor``               ``j`` lies above ``i`` in the dependency tree, or is ``i``
    ``span``                   ``i`` lies in the span of ``j`` and all words below it (SG-Net)
    ``same_sentence``          both have the same root: the same sentence of a document
    ``forward``, ``backward``  ``j`` is ``i`` or comes before it; ``j`` is ``i`` or comes after it
    ``word_distance``          minus the number of words from one to the other
    ``dependency_distance``    minus the number of arcs between them
    ``constituency_distance``  minus the number of edges between them in the phrase tree
    ``matrix:NAME``            the matrix ``Sentence.relations[NAME]``: coreference, semantic roles, alignments
    ``module:function``        what a function of your own computes from the batch, see ``RelationKind.matrix``
    =========================  =====================================================================================

    ``:LABEL,LABEL`` after ``arc``, ``head`` and ``child`` keeps only the arcs with these labels; ``nsubj`` also matches
    subtypes such as ``nsubj:pass``. ``+self`` at the end relates every word to itself as well.

    Args:
        name: the name.
        unknown_is_matrix: whether any other name without a colon is that of a matrix, as if it began with ``matrix:``.

    Raises:
        ConfigError: for anything else; the message lists the known names.

    Example:
        >>> parse_relation("head:nsubj,obj+self")
        RelationName(kind='head', labels=('nsubj', 'obj'), matrix='', with_self=True)
    """
    address, plus, suffix = name.partition("+")
    kind, colon, detail = address.partition(":")
    is_kind = kind == "matrix" or kind in RELATIONS
    if not is_kind and colon and detail:  # module:function
        relation_kind(address)
        kind, colon, detail, is_kind = address, "", "", True
    # A matrix may not have the name of a tree.
    elif unknown_is_matrix and not is_kind and kind not in ("dependency", "constituency"):
        kind, colon, detail, is_kind = "matrix", ":", address, True
    if not is_kind or (plus and suffix != "self") or (colon and not detail):
        from structattn.options.checking import suggest

        guess = "" if kind in RELATIONS else suggest(kind, RELATIONS)
        raise ConfigError(
            f"unknown relation {name!r}{guess}; known: {', '.join(RELATIONS)}, matrix:NAME, module:function; "
            f"{_labelled_kinds()} may name labels (head:nsubj,obj), and each may end in +self"
        )
    if kind == "matrix":
        if not detail:
            raise ConfigError("relation 'matrix' needs a name, as in matrix:coref")
        return RelationName(kind, matrix=detail, with_self=bool(plus))
    labels = tuple(detail.split(",")) if detail else ()
    if labels and not relation_kind(kind).takes_labels:
        raise ConfigError(f"relation {name!r}: only {_labelled_kinds()} take labels")
    return RelationName(kind, labels, with_self=bool(plus))


def _labelled_kinds() -> str:
    """The relations that take labels, for errors."""
    *first, last = (name for name in RELATIONS if RELATIONS[name].takes_labels)
    return f"{', '.join(first)} and {last}"


def parse_mask(name: str, *, unknown_is_matrix: bool = False) -> RelationName:
    """Parse the name of a relation that says which keys a query may attend to, which a distance does not."""
    parsed = parse_relation(name, unknown_is_matrix=unknown_is_matrix)
    if parsed.is_distance:
        raise ConfigError(f"relation {name!r} is a distance, which forbids nothing; expected one such as span or arc")
    return parsed
