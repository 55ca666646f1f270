"""Row C: all dependency trees with a single root (the matrix-tree theorem); the best one is a spanning tree.

torch-struct inverts in float32 and adds 1e-5, SynJax inverts in float32 and raises small scores: only SuPar is exact.
"""

from functools import partial

from benchmarks.structures.contest import Row
from benchmarks.structures.dependency import Family
from structattn.distributions import NonProjectiveDependencyCRF

FAMILY = Family(
    ours=partial(NonProjectiveDependencyCRF, single_root=True),
    supar=lambda peer, scores: peer.MatrixTree(scores),
    torch_struct=lambda peer, scores: peer.NonProjectiveDependencyCRF(scores),
    selects=False,
    projective=False,
)
ROW = Row(
    letter="C",
    title="all dependency trees, single root",
    axes=("words",),
    sizes=((10,), (20,), (40,), (80,)),
    uneven=((23,), (37,)),
    batch=32,
    build=FAMILY.build,
    names=("structattn", "torch-struct", "SuPar", "SynJax"),
)
