"""Names of relations between words: one grammar for priors, masks and the relations that HYDRA's heads learn."""

from dataclasses import dataclass

from structattn.errors import ConfigError
from structattn.options.checking import suggest

#: The structure that a relation needs besides the words.
_STRUCTURES = {
    "arc": "dependency",
    "head": "dependency",
    "child": "dependency",
    "ancestor": "dependency",
    "span": "dependency",
    "same_sentence": "dependency",
    "forward": None,
    "backward": None,
    "word_distance": None,
    "dependency_distance": "dependency",
    "constituency_distance": "constituency",
}
#: The names of relations between words that need no argument.
RELATIONS = tuple(_STRUCTURES)
_LABELLED = ("arc", "head", "child")


@dataclass(frozen=True)
class RelationName:
    """A parsed relation name.

    Attributes:
        kind: one of ``RELATIONS``, or ``matrix``.
        labels: for ``arc``, ``head`` and ``child``, the labels of the arcs that count; all if empty.
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
        return self.matrix if self.kind == "matrix" else _STRUCTURES[self.kind]

    @property
    def is_distance(self) -> bool:
        """Whether it gives the distance between two words, rather than whether they are related."""
        return self.kind.endswith("_distance")


def parse_relation(name: str, *, bare_matrices: bool = False) -> RelationName:
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
    =========================  =====================================================================================

    ``:LABEL,LABEL`` after ``arc``, ``head`` and ``child`` keeps only the arcs with these labels; ``nsubj`` also matches
    subtypes such as ``nsubj:pass``. ``+self`` at the end relates every word to itself as well.

    Args:
        name: the name.
        bare_matrices: whether any other name is that of a matrix, as if it began with ``matrix:``.

    Raises:
        ConfigError: for anything else; the message lists the known names.

    Example:
        >>> parse_relation("head:nsubj,obj+self")
        RelationName(kind='head', labels=('nsubj', 'obj'), matrix='', with_self=True)
    """
    rest, plus, suffix = name.partition("+")
    kind, colon, detail = rest.partition(":")
    # A matrix may not have the name of a tree.
    if bare_matrices and kind not in (*RELATIONS, "matrix", "dependency", "constituency"):
        kind, colon, detail = "matrix", ":", rest
    if kind not in (*RELATIONS, "matrix") or (plus and suffix != "self") or (colon and not detail):
        guess = "" if kind in RELATIONS else suggest(kind, RELATIONS)
        raise ConfigError(
            f"unknown relation {name!r}{guess}; known: {', '.join(RELATIONS)}, matrix:NAME; the first three may name "
            "labels (head:nsubj,obj), and each may end in +self"
        )
    if kind == "matrix":
        if not detail:
            raise ConfigError("relation 'matrix' needs a name, as in matrix:coref")
        return RelationName(kind, matrix=detail, with_self=bool(plus))
    labels = tuple(detail.split(",")) if detail else ()
    if labels and kind not in _LABELLED:
        raise ConfigError(f"relation {name!r}: only arc, head and child take labels")
    return RelationName(kind, labels, with_self=bool(plus))


def parse_mask(name: str, *, bare_matrices: bool = False) -> RelationName:
    """Parse the name of a relation that says which keys a query may attend to.

    Raises:
        ConfigError: as `parse_relation`, and for a distance, which forbids nothing.

    Example:
        >>> parse_mask("ancestor").kind
        'ancestor'
    """
    parsed = parse_relation(name, bare_matrices=bare_matrices)
    if parsed.is_distance:
        raise ConfigError(f"relation {name!r} is a distance, which forbids nothing; expected one such as span or arc")
    return parsed
