"""Row D: binary phrase trees over scored spans, one label."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.distributions import kl_divergence

from benchmarks.structures import peers
from benchmarks.structures.contest import COUNT, Contender, Row, jax_contender, torch_contender
from structattn.distributions import ConstituencyCRF


def build(batch: int, size: tuple[int, ...], name: str) -> Contender:
    """A contender on random scores ``(batch, n + 1, n + 1)`` of half-open spans."""
    (n,) = size
    generator = torch.Generator().manual_seed(n)
    scores, weight = (torch.randn(batch, n + 1, n + 1, generator=generator) for _ in range(2))
    if name == "structattn":
        return torch_contender(
            name,
            [scores],
            weight,
            log_partition=lambda s: ConstituencyCRF(s).log_partition(),
            marginals=lambda s: ConstituencyCRF(s).marginals(),
            argmax=lambda s: ConstituencyCRF(s).argmax(),
            topk=lambda s: ConstituencyCRF(s).topk(COUNT),
            sample=lambda s: ConstituencyCRF(s).sample(),
            entropy=lambda s: ConstituencyCRF(s).entropy(),
            kl=lambda s, second: kl_divergence(ConstituencyCRF(s), ConstituencyCRF(second)),
        )
    peer = peers.load(name)
    if name == "SuPar":
        return torch_contender(
            name,
            [scores],
            weight,
            log_partition=lambda s: peer.ConstituencyCRF(s).log_partition,
            marginals=lambda s: peer.ConstituencyCRF(s).marginals,
            argmax=lambda s: peer.ConstituencyCRF(s).argmax,
            topk=lambda s: peer.ConstituencyCRF(s).topk(COUNT),
            sample=lambda s: peer.ConstituencyCRF(s).sample(),
            entropy=lambda s: peer.ConstituencyCRF(s).entropy,
            kl=lambda s, second: peer.ConstituencyCRF(s).kl(peer.ConstituencyCRF(second)),
            each_best=lambda trees: list(zip(*trees, strict=True)),
            best=lambda trees: _marked(trees, n),
        )
    if name == "torch-struct":  # [first word, last word, label]
        lengths = torch.full((batch,), n)
        return torch_contender(
            name,
            [_closed(scores)],
            _closed(weight),
            log_partition=lambda s: peer.TreeCRF(s, lengths).partition,
            marginals=lambda s: peer.TreeCRF(s, lengths).marginals,
            argmax=lambda s: peer.TreeCRF(s, lengths).argmax,
            topk=lambda s: peer.TreeCRF(s, lengths).topk(COUNT),
            sample=lambda s: peer.TreeCRF(s, lengths).sample((1,))[0],
            entropy=lambda s: peer.TreeCRF(s, lengths).entropy,
            kl=lambda s, second: peer.TreeCRF(s, lengths).kl(peer.TreeCRF(second, lengths)),
            parts=_half_open,
            best=_half_open,
        )
    return jax_contender(
        name,
        _closed(scores),
        _closed(weight),
        distribution=lambda s: peer.TreeCRF(s),
        parts=_half_open,
        best=_half_open,
    )


def _closed(scores: Tensor) -> Tensor:
    return scores[:, :-1, 1:, None].contiguous()


def _half_open(parts: Tensor) -> Tensor:
    return torch.nn.functional.pad(parts.squeeze(-1), (1, 0, 0, 1))


def _marked(trees: Sequence[list[list[int]]], n: int) -> Tensor:
    parts = torch.zeros(len(trees), n + 1, n + 1)
    for row, spans in zip(parts, trees, strict=True):
        for start, end in spans:
            row[start, end] = 1
    return parts


ROW = Row(
    letter="D",
    title="binary phrase trees",
    axes=("words",),
    sizes=((10,), (20,), (40,)),
    uneven=((23,), (37,)),
    batch=16,
    build=build,
    names=("structattn", "torch-struct", "SuPar", "SynJax"),
)
