"""How far fine-tuning has moved the scores of HYDRA heads from the pretrained ones.

HYDRA (arXiv 2109.05349) fine-tunes the heads with the task and does not analyse them again; whether the relation
survives decides what a gain may be attributed to.
"""

from collections.abc import Iterable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

# Sizes differ from batch to batch, so the axes have no names: (batch, head, subword, subword) and (batch, subword).
Scores = Float[Tensor, "_ _ _ _"]
Mask = Bool[Tensor, "_ _"]


def head_drift(pairs: Iterable[tuple[Scores, Scores, Mask]]) -> tuple[float, ...]:
    """For each head ``||M_after - M_before|| / ||M_before||`` (Frobenius), the mean over sentences.

    Args:
        pairs: for each batch, the scores before, the scores after, and the mask of real subwords.

    Returns:
        One number per head: 0 if the scores did not change, about 1.4 if the scores after are as large as those
        before and independent of them. A sentence whose scores before are all 0 is left out; a head without any
        other sentence gets 0.

    Raises:
        ValueError: if there are no sentences.

    Example:
        >>> before, after = torch.ones(1, 2, 3, 3), torch.ones(1, 2, 3, 3)
        >>> after[:, 1] = -1
        >>> head_drift([(before, after, torch.tensor([[True, True, False]]))])
        (0.0, 2.0)
    """
    shares, counts = [], []
    for before, after, mask in pairs:
        real = (mask[:, None, :, None] & mask[:, None, None, :]).to(before.dtype)
        moved, size = ((scores * real).square().sum((2, 3)).sqrt() for scores in (after - before, before))
        known = size > 0
        shares.append(torch.where(known, moved / size.where(known, 1.0), 0.0).double().sum(0).cpu())
        counts.append(known.sum(0).cpu())
    if not shares:
        raise ValueError("head_drift expects at least one sentence, got none")
    return tuple((torch.stack(shares).sum(0) / torch.stack(counts).sum(0).clamp(min=1)).tolist())
