"""Row B: projective dependency trees with a single root (Eisner's program)."""

from functools import partial

from benchmarks.structures.contest import Row
from benchmarks.structures.dependency import Family
from structattn.distributions import DependencyCRF

FAMILY = Family(
    ours=partial(DependencyCRF, single_root=True),
    supar=lambda peer, scores: peer.DependencyCRF(scores),
    torch_struct=lambda peer, scores: peer.DependencyCRF(scores, multiroot=False),
    selects=True,
    projective=True,
)
ROW = Row(
    letter="B",
    title="projective dependency trees, single root",
    axes=("words",),
    sizes=((10,), (20,), (40,), (80,)),
    uneven=((23,), (37,)),
    batch=32,
    build=FAMILY.build,
    names=("structattn", "torch-struct", "SuPar", "SynJax"),
)
