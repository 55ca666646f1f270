"""Row A: linear chains. torch-struct and SynJax score edges, a larger input; SuPar and pytorch-crf share a matrix.

Ours is timed with both inputs: ``structattn`` shares one matrix of transitions, ``structattn, edges`` has one for each
position.
"""

import torch
from torch import Tensor
from torch.distributions import kl_divergence

from benchmarks.structures import peers
from benchmarks.structures.contest import COUNT, Contender, Row, jax_contender, torch_contender
from structattn.distributions import LinearChainCRF


def build(batch: int, size: tuple[int, ...], name: str) -> Contender:
    """A contender on random scores ``(batch, n, states)`` and transitions ``(states, states)``."""
    n, states = size
    generator = torch.Generator().manual_seed(n + states)
    unary, weight = (torch.randn(batch, n, states, generator=generator) for _ in range(2))
    transition = torch.randn(states, states, generator=generator)
    if name.startswith("structattn"):
        shared = name == "structattn"
        edges = transition if shared else transition.expand(batch, n - 1, states, states).contiguous()
        return torch_contender(
            name,
            [unary, edges],
            weight,
            log_partition=lambda u, t: LinearChainCRF(u, t).log_partition(),
            marginals=lambda u, t: LinearChainCRF(u, t).marginals(),
            argmax=lambda u, t: LinearChainCRF(u, t).argmax(),
            topk=lambda u, t: LinearChainCRF(u, t).topk(COUNT),
            sample=lambda u, t: LinearChainCRF(u, t).sample(),
            entropy=lambda u, t: LinearChainCRF(u, t).entropy(),
            kl=lambda u, t, second: kl_divergence(LinearChainCRF(u, t), LinearChainCRF(second, t)),
            best=lambda parts: parts.argmax(-1),
        )
    peer = peers.load(name)
    if name == "SuPar":  # one more state at the end: before the first and after the last word
        return torch_contender(
            name,
            [unary, torch.nn.functional.pad(transition, (0, 1, 0, 1))],
            weight,
            log_partition=lambda u, t: peer.LinearChainCRF(u, t).log_partition,
            marginals=lambda u, t: peer.LinearChainCRF(u, t).marginals,
            argmax=lambda u, t: peer.LinearChainCRF(u, t).argmax,
            topk=lambda u, t: peer.LinearChainCRF(u, t).topk(COUNT),
            sample=lambda u, t: peer.LinearChainCRF(u, t).sample(),
            entropy=lambda u, t: peer.LinearChainCRF(u, t).entropy,
            kl=lambda u, t, second: peer.LinearChainCRF(u, t).kl(peer.LinearChainCRF(second, t)),
            each_best=lambda tags: tags.unbind(-1),
        )
    if name == "pytorch-crf":  # the likelihood of given tags; no marginals
        model = peer.CRF(states, batch_first=True)
        for parameter in model.parameters():
            torch.nn.init.zeros_(parameter)
        decoder = peer.CRF(states, batch_first=True)
        decoder.load_state_dict(model.state_dict() | {"transitions": transition})
        zeros = torch.zeros(batch, n, dtype=torch.long)

        def normalizer(u: Tensor, t: Tensor) -> Tensor:
            likelihood: Tensor = torch.func.functional_call(
                model, {"transitions": t}, (u, zeros), {"reduction": "none"}
            )
            return u[..., 0].sum(-1) + (n - 1) * t[0, 0] - likelihood

        return torch_contender(
            name,
            [unary, transition],
            weight,
            log_partition=normalizer,
            marginals=None,
            argmax=lambda u, _: decoder.decode(u),
            best=torch.tensor,
        )
    if name == "torch-struct":  # [edge, state after, state before]
        lengths = torch.full((batch,), n)
        second = _edges(weight, transition).mT.contiguous()
        return torch_contender(
            name,
            [_edges(unary, transition).mT.contiguous()],
            _edges(weight, torch.zeros_like(transition)).mT.contiguous(),
            log_partition=lambda s: peer.LinearChainCRF(s, lengths).partition,
            marginals=lambda s: peer.LinearChainCRF(s, lengths).marginals,
            argmax=lambda s: peer.LinearChainCRF(s, lengths).argmax,
            topk=lambda s: peer.LinearChainCRF(s, lengths).topk(COUNT),
            sample=lambda s: peer.LinearChainCRF(s, lengths).sample((1,))[0],
            entropy=lambda s: peer.LinearChainCRF(s, lengths).entropy,
            kl=lambda s, _: peer.LinearChainCRF(s, lengths).kl(peer.LinearChainCRF(second, lengths)),
            parts=lambda parts: _words(parts.mT),
            best=lambda parts: _words(parts.mT).argmax(-1),
        )
    return jax_contender(  # [word, state before, state]; before the first word only state 0
        name,
        torch.cat([_only_from_first(unary), _edges(unary, transition, first=False)], 1),
        torch.cat([_only_from_first(weight), _edges(weight, torch.zeros_like(transition), first=False)], 1),
        distribution=lambda s: peer.LinearChainCRF(s),
        parts=lambda parts: parts.sum(-2),
        best=lambda parts: parts.sum(-2).argmax(-1),
    )


def _edges(unary: Tensor, transition: Tensor, *, first: bool = True) -> Tensor:
    """Scores of edges: the transition, the state it leads to and, on the first edge, the state it comes from."""
    edges = transition + unary[:, 1:, None, :]
    if first:
        edges[:, 0] += unary[:, 0, :, None]
    return edges


def _only_from_first(unary: Tensor) -> Tensor:
    return torch.nn.functional.pad(unary[:, :1, None, :], (0, 0, 0, unary.shape[-1] - 1))


def _words(edges: Tensor) -> Tensor:
    return torch.cat([edges[:, :1].sum(-1), edges.sum(-2)], 1)


ROW = Row(
    letter="A",
    title="linear chains",
    axes=("words", "states"),
    sizes=((20, 2), (20, 10), (20, 50), (50, 2), (50, 10), (50, 50), (200, 2), (200, 10), (200, 50)),
    batch=32,
    build=build,
    names=("structattn", "structattn, edges", "torch-struct", "SuPar", "pytorch-crf", "SynJax"),
    growth=1,
    uneven=((23, 10), (40, 10), (37, 10)),
    left_out=(("torch-struct", (20, 50)),),  # cubic in the states: one to ten seconds a call
)
