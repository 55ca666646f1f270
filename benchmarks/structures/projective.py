"""Row B: projective dependency trees with a single root (Eisner's program)."""

import torch
from benchmarks.structures import peers
from benchmarks.structures.contest import Contender, Row, jax_contender, torch_contender
from torch import Tensor

from structattn.distributions import DependencyCRF


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
            log_partition=lambda s: DependencyCRF(s, single_root=True).log_partition(),
            marginals=lambda s: DependencyCRF(s, single_root=True).marginals(),
            argmax=lambda s: DependencyCRF(s, single_root=True).argmax(),
            best=lambda parts: parts.argmax(-1),
        )
    peer = peers.load(name)
    if name == "SuPar":  # [dependent, head], the root in front
        return torch_contender(
            name,
            [with_root(scores)],
            with_root(weight),
            log_partition=lambda s: peer.DependencyCRF(s).log_partition,
            marginals=lambda s: peer.DependencyCRF(s).marginals,
            argmax=lambda s: peer.DependencyCRF(s).argmax,
            parts=lambda parts: parts[:, 1:],
            best=lambda heads: heads[:, 1:],
        )
    if name == "torch-struct":  # [head, dependent], scores of the root on the diagonal
        return torch_contender(
            name,
            [root_on_diagonal(scores)],
            root_on_diagonal(weight),
            log_partition=lambda s: peer.DependencyCRF(s, multiroot=False).partition,
            marginals=lambda s: peer.DependencyCRF(s, multiroot=False).marginals,
            argmax=lambda s: peer.DependencyCRF(s, multiroot=False).argmax,
            parts=root_in_front,
            best=lambda parts: root_in_front(parts).argmax(-1),
        )
    return jax_contender(
        name,
        with_root(scores).mT,
        with_root(weight).mT,
        distribution=lambda s: peer.SpanningTreeCRF(s, directed=True, projective=True, single_root_edge=True),
        parts=lambda parts: parts.mT[:, 1:],
        best=lambda parts: parts.mT[:, 1:].argmax(-1),
    )


def with_root(scores: Tensor) -> Tensor:
    """A row for the root in front, which nobody reads."""
    return torch.cat([torch.zeros_like(scores[:, :1]), scores], 1)


def root_on_diagonal(scores: Tensor) -> Tensor:
    """Heads in rows, the root's scores where a word would head itself."""
    itself = torch.eye(scores.shape[1], dtype=torch.bool)
    return torch.where(itself, scores[..., :1], scores[..., 1:]).mT.contiguous()


def root_in_front(parts: Tensor) -> Tensor:
    """Back to rows of words, and a column for the root."""
    arcs = parts.mT
    root = arcs.diagonal(dim1=-2, dim2=-1).unsqueeze(-1)
    return torch.cat([root, arcs - torch.diag_embed(root.squeeze(-1))], -1)


ROW = Row(
    letter="B",
    title="projective dependency trees, single root",
    axes=("words",),
    sizes=((10,), (20,), (40,), (80,)),
    batch=32,
    build=build,
    names=("structattn", "torch-struct", "SuPar", "SynJax"),
)
