"""What rows B and C share: scores of arcs, and how each library wants them and returns its trees."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.distributions import kl_divergence

from benchmarks.structures import peers
from benchmarks.structures.contest import COUNT, Contender, jax_contender, torch_contender


@dataclass(frozen=True)
class Family:
    """Dependency trees with a single root in each library.

    Attributes:
        ours: from scores to a distribution.
        supar: from SuPar's module and scores to a distribution.
        torch_struct: from torch-struct's module and scores to a distribution.
        selects: whether torch-struct has best trees and an entropy, and whether it and SuPar have k best and random
            trees.
        projective: for SynJax.
    """

    ours: Callable[[Tensor], Any]
    supar: Callable[[Any, Tensor], Any]
    torch_struct: Callable[[Any, Tensor], Any]
    selects: bool
    projective: bool

    def build(self, batch: int, size: tuple[int, ...], name: str) -> Contender:
        """A contender on random scores ``(batch, n, n + 1)``, row = word, column = its head."""
        (n,) = size
        generator = torch.Generator().manual_seed(n)
        scores, weight = (torch.randn(batch, n, n + 1, generator=generator) for _ in range(2))
        if name == "structattn":
            return torch_contender(
                name,
                [scores],
                weight,
                log_partition=lambda s: self.ours(s).log_partition(),
                marginals=lambda s: self.ours(s).marginals(),
                argmax=lambda s: self.ours(s).argmax(),
                topk=lambda s: self.ours(s).topk(COUNT),
                sample=lambda s: self.ours(s).sample(),
                entropy=lambda s: self.ours(s).entropy(),
                kl=lambda s, second: kl_divergence(self.ours(s), self.ours(second)),
                best=lambda parts: parts.argmax(-1),
            )
        peer = peers.load(name)
        if name == "SuPar":  # [dependent, head], the root in front
            return torch_contender(
                name,
                [_with_root(scores)],
                _with_root(weight),
                log_partition=lambda s: self.supar(peer, s).log_partition,
                marginals=lambda s: self.supar(peer, s).marginals,
                argmax=lambda s: self.supar(peer, s).argmax,
                topk=(lambda s: self.supar(peer, s).topk(COUNT)) if self.selects else None,
                sample=(lambda s: self.supar(peer, s).sample()) if self.selects else None,
                entropy=lambda s: self.supar(peer, s).entropy,
                kl=lambda s, second: self.supar(peer, s).kl(self.supar(peer, second)),
                each_best=lambda heads: heads.unbind(-1),
                parts=lambda parts: parts[:, 1:],
                best=lambda heads: heads[:, 1:],
            )
        if name == "torch-struct":  # [head, dependent], scores of the root on the diagonal
            return torch_contender(
                name,
                [_root_on_diagonal(scores)],
                _root_on_diagonal(weight),
                log_partition=lambda s: self.torch_struct(peer, s).partition,
                marginals=lambda s: self.torch_struct(peer, s).marginals,
                argmax=(lambda s: self.torch_struct(peer, s).argmax) if self.selects else None,
                topk=(lambda s: self.torch_struct(peer, s).topk(COUNT)) if self.selects else None,
                sample=(lambda s: self.torch_struct(peer, s).sample((1,))[0]) if self.selects else None,
                entropy=(lambda s: self.torch_struct(peer, s).entropy) if self.selects else None,
                parts=_root_in_front,
                best=lambda parts: _root_in_front(parts).argmax(-1),
            )
        return jax_contender(
            name,
            _with_root(scores).mT,
            _with_root(weight).mT,
            distribution=lambda s: peer.SpanningTreeCRF(
                s, directed=True, projective=self.projective, single_root_edge=True
            ),
            parts=lambda parts: parts.mT[:, 1:],
            best=lambda parts: parts.mT[:, 1:].argmax(-1),
        )


def _with_root(scores: Tensor) -> Tensor:
    """A row for the root in front, which is not read."""
    return torch.cat([torch.zeros_like(scores[:, :1]), scores], 1)


def _root_on_diagonal(scores: Tensor) -> Tensor:
    """Heads in rows, the root's scores where a word would head itself."""
    itself = torch.eye(scores.shape[1], dtype=torch.bool)
    return torch.where(itself, scores[..., :1], scores[..., 1:]).mT.contiguous()


def _root_in_front(parts: Tensor) -> Tensor:
    """Back to rows of words, and a column for the root."""
    arcs = parts.mT
    root = arcs.diagonal(dim1=-2, dim2=-1).unsqueeze(-1)
    return torch.cat([root, arcs - torch.diag_embed(root.squeeze(-1))], -1)
