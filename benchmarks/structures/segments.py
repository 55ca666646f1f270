"""Row E: labelled segmentations of at most four words a segment; torch-struct scores them alike."""

import torch
from torch import Tensor
from torch.distributions import kl_divergence

from benchmarks.structures import peers
from benchmarks.structures.contest import COUNT, Contender, Row, torch_contender
from structattn.distributions import SemiMarkovCRF

WIDTH = 4


def build(batch: int, size: tuple[int, ...], name: str) -> Contender:
    """A contender on random scores ``(batch, n, 4, labels, labels)``, label before and own label last."""
    n, labels = size
    generator = torch.Generator().manual_seed(n + labels)
    shape = (batch, n, WIDTH, labels, labels)
    scores, weight = (torch.randn(shape, generator=generator) for _ in range(2))
    # What torch-struct would start with instead of label 0, and ends beyond the last word, are no segments.
    words = torch.arange(n).view(-1, 1, 1, 1)
    previous_label = torch.arange(labels).view(-1, 1)
    real = ((words > 0) | (previous_label == 0)) & (words + torch.arange(1, WIDTH + 1).view(-1, 1, 1) <= n)
    weight = weight * real
    if name == "structattn":
        return torch_contender(
            name,
            [scores],
            weight,
            log_partition=lambda s: SemiMarkovCRF(s).log_partition(),
            marginals=lambda s: SemiMarkovCRF(s).marginals(),
            argmax=lambda s: SemiMarkovCRF(s).argmax(),
            topk=lambda s: SemiMarkovCRF(s).topk(COUNT),
            sample=lambda s: SemiMarkovCRF(s).sample(),
            entropy=lambda s: SemiMarkovCRF(s).entropy(),
            kl=lambda s, second: kl_divergence(SemiMarkovCRF(s), SemiMarkovCRF(second)),
            size=_words,
        )
    peer = peers.load(name)
    lengths = torch.full((batch,), n + 1)  # fenceposts

    def distribution(scores: Tensor) -> object:
        return peer.SemiMarkovCRF(scores, lengths)

    return torch_contender(
        name,
        [_fenceposts(scores.masked_fill(~real, -1e9), -1e9)],
        _fenceposts(weight, 0.0),
        log_partition=lambda s: distribution(s).partition,
        marginals=lambda s: distribution(s).marginals,
        argmax=lambda s: distribution(s).argmax,
        topk=lambda s: distribution(s).topk(COUNT),
        sample=lambda s: distribution(s).sample((1,))[0],
        entropy=lambda s: distribution(s).entropy,
        parts=_segments,
        best=_segments,
        size=_words,
    )


def _fenceposts(scores: Tensor, value: float) -> Tensor:
    """``[word, width, label, label before]``, where a width of zero is no segment."""
    return torch.nn.functional.pad(scores.mT, (0, 0, 0, 0, 1, 0), value=value).contiguous()


def _segments(parts: Tensor) -> Tensor:
    return parts[:, :, 1:].mT


def _words(parts: Tensor) -> Tensor:
    width = torch.arange(1, WIDTH + 1).view(-1, 1, 1)
    return (parts * width).flatten(1).sum(-1)


ROW = Row(
    letter="E",
    title="labelled segmentations, at most 4 words a segment",
    axes=("words", "labels"),
    sizes=((20, 3), (40, 3)),
    batch=32,
    build=build,
    names=("structattn", "torch-struct"),
    growth=1,
    uneven=((23, 3), (37, 3)),
)
