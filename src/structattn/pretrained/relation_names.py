"""Names of word-by-word relations and their meaning: ``arc``, ``head:nsubj,obj``, ``ancestor``, ``matrix:coref+self``.

A configuration can be checked without a sentence at hand.
"""

from dataclasses import dataclass

from structattn.syntax.errors import ConfigError

KINDS = ("arc", "head", "child", "ancestor", "span", "distance", "matrix")


@dataclass(frozen=True)
class RelationName:
    """A parsed relation name.

    Attributes:
        kind: one of ``KINDS``.
        labels: for ``arc``, ``head`` and ``child``, the labels of the arcs that count; all if empty.
        matrix: for ``matrix``, the name under which the sentences carry it.
        with_self: whether every word is related to itself too.
    """

    kind: str
    labels: tuple[str, ...] = ()
    matrix: str = ""
    with_self: bool = False


def parse_relation(name: str) -> RelationName:
    """Parse the name of a relation. Row = word ``i``, column = word ``j``; HYDRA leaves open which relation is meant.

    ===================  ==============================================================================
    ``arc``              one is the head of the other (the paper's text, read literally)
    ``head``             ``j`` is the head of ``i``
    ``child``            ``i`` is the head of ``j``
    ``ancestor``         ``j`` lies above ``i`` or is ``i``
    ``span``             ``i`` lies in the span of ``j`` and all words below it (SG-Net)
    ``distance``         minus the number of arcs between them
    ``matrix:NAME``      whatever ``Sentence.relations[NAME]`` says: coreference, semantic roles, alignments
    ===================  ==============================================================================

    ``:LABEL,LABEL`` after the first three keeps the arcs with these labels, whatever follows a label's own colon;
    ``+self`` at the end relates every word to itself as well.

    Raises:
        ConfigError: for anything else; the message lists the known kinds.

    Example:
        >>> parse_relation("head:nsubj,obj+self")
        RelationName(kind='head', labels=('nsubj', 'obj'), matrix='', with_self=True)
    """
    rest, plus, suffix = name.partition("+")
    kind, colon, detail = rest.partition(":")
    if kind not in KINDS or (plus and suffix != "self") or (colon and not detail):
        raise ConfigError(
            f"unknown relation {name!r}; known: {', '.join(KINDS[:-1])}, matrix:NAME; the first three may name labels "
            "(head:nsubj,obj), and each may end in +self"
        )
    if kind == "matrix":
        if not detail:
            raise ConfigError("relation 'matrix' needs a name, as in matrix:coref")
        return RelationName(kind, matrix=detail, with_self=bool(plus))
    labels = tuple(detail.split(",")) if detail else ()
    if labels and kind not in ("arc", "head", "child"):
        raise ConfigError(f"relation {name!r}: only arc, head and child take labels")
    return RelationName(kind, labels, with_self=bool(plus))
