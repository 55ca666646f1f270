"""Row C: all dependency trees with a single root (the matrix-tree theorem); the best one is a spanning tree.

torch-struct inverts in float32 and adds 1e-5, SynJax inverts in float32 and raises small scores: only SuPar is exact.
"""

import torch
from benchmarks.structures import peers
from benchmarks.structures.contest import Contender, Row, jax_contender, torch_contender
from benchmarks.structures.projective import root_in_front, root_on_diagonal, with_root

from structattn.distributions import NonProjectiveDependencyCRF


def build(batch: int, size: tuple[int, ...], name: str) -> Contender:
    """A contender on random scores ``(batch, n, n + 1)``, row = word, column = its head."""
    (n,) = size
    generator = torch.Generator().manual_seed(n)
    scores, weight = (torch.randn(batch, n, n + 1, generator=generator) for _ in range(2))
    if name == "structattn":
        return torch_contender(
            name,
            [scores],
            weight,
            log_partition=lambda s: NonProjectiveDependencyCRF(s, single_root=True).log_partition(),
            marginals=lambda s: NonProjectiveDependencyCRF(s, single_root=True).marginals(),
            argmax=lambda s: NonProjectiveDependencyCRF(s, single_root=True).argmax(),
            best=lambda parts: parts.argmax(-1),
        )
    peer = peers.load(name)
    if name == "SuPar":
        return torch_contender(
            name,
            [with_root(scores)],
            with_root(weight),
            log_partition=lambda s: peer.MatrixTree(s).log_partition,
            marginals=lambda s: peer.MatrixTree(s).marginals,
            argmax=lambda s: peer.MatrixTree(s).argmax,
            parts=lambda parts: parts[:, 1:],
            best=lambda heads: heads[:, 1:],
        )
    if name == "torch-struct":
        return torch_contender(
            name,
            [root_on_diagonal(scores)],
            root_on_diagonal(weight),
            log_partition=lambda s: peer.NonProjectiveDependencyCRF(s).partition,
            marginals=lambda s: peer.NonProjectiveDependencyCRF(s).marginals,
            argmax=None,
            parts=root_in_front,
        )
    return jax_contender(
        name,
        with_root(scores).mT,
        with_root(weight).mT,
        distribution=lambda s: peer.SpanningTreeCRF(s, directed=True, projective=False, single_root_edge=True),
        parts=lambda parts: parts.mT[:, 1:],
        best=lambda parts: parts.mT[:, 1:].argmax(-1),
    )


ROW = Row(
    letter="C",
    title="all dependency trees, single root",
    axes=("words",),
    sizes=((10,), (20,), (40,), (80,)),
    batch=32,
    build=build,
    names=("structattn", "torch-struct", "SuPar", "SynJax"),
)
