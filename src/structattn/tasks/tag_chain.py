"""``TagChain``: from scores of tags to the distribution over the tags of a sentence."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from structattn.data.span_tags import is_bio, may_follow
from structattn.distributions import LinearChainCRF


class TagChain(nn.Module):
    """``p(y)`` proportional to ``exp(sum_i s_{i, y_i} + sum_i A_{y_i, y_{i+1}})``, with a learnt matrix ``A``.

    If the tags mark spans (BIO), only sequences in which each ``I-X`` continues a span of ``X`` are possible.
    Independent tags have neither ``A`` nor this constraint: a softmax for each word.

    Args:
        labels: the tags.
        independent: whether tags do not depend on each other.

    Example:
        >>> chain = TagChain(["B-NP", "I-NP", "O"])
        >>> found = chain(torch.tensor([[[0.0, 9.0, 0.0], [0.0, 9.0, 0.0]]]), torch.tensor([2]))
        >>> chain.texts(found.argmax(), found.lengths), len(chain.state_dict())
        (['B-NP I-NP'], 1)
    """

    forbidden: Bool[Tensor, "before after"]

    def __init__(self, labels: Sequence[str], *, independent: bool = False) -> None:
        super().__init__()
        self.labels = tuple(labels)
        self.has_spans = not independent and is_bio(self.labels)
        self.transition = None if independent else nn.Parameter(torch.zeros(len(self.labels), len(self.labels)))
        allowed = [[self._may_follow(before, tag) for tag in self.labels] for before in (None, *self.labels)]
        self.register_buffer("forbidden", ~torch.tensor(allowed), persistent=False)
        # The tag of words without one: possible in every position, so that its score is never infinite.
        self.nothing = next(place for place, row in enumerate(zip(*allowed, strict=True)) if all(row))
        self._indices = {label: index for index, label in enumerate(self.labels)}

    def forward(self, scores: Float[Tensor, "batch word tag"], lengths: Int[Tensor, " batch"]) -> LinearChainCRF:
        """The distribution over the tags of each sentence."""
        transition = scores.new_zeros(self.forbidden[1:].shape) if self.transition is None else self.transition
        if self.has_spans:
            first = scores[:, :1].masked_fill(self.forbidden[0], -torch.inf)
            scores = torch.cat([first, scores[:, 1:]], dim=1)
            transition = transition.masked_fill(self.forbidden[1:], -torch.inf)
        return LinearChainCRF(scores, transition.to(scores.dtype), lengths, validate_args=False)

    def classes(self, tags: Sequence[str]) -> list[int] | None:
        """The index of each tag; ``None`` if one of them is unknown.

        Raises:
            ValueError: for BIO tags in an impossible order.

        Example:
            >>> TagChain(["B-NP", "I-NP", "O"]).classes(["O", "I-NP"])
            Traceback (most recent call last):
            ...
            ValueError: I-NP after O: in BIO each span begins with B- (or take --classifier.tags independent)
        """
        if not set(tags) <= set(self._indices):
            return None
        for before, tag in zip([None, *tags], tags, strict=False):
            if not self._may_follow(before, tag):
                place = f"after {before}" if before is not None else "at the start"
                hint = "in BIO each span begins with B- (or take --classifier.tags independent)"
                raise ValueError(f"{tag} {place}: {hint}")
        return [self._indices[tag] for tag in tags]

    def texts(self, parts: Float[Tensor, "batch word tag"], lengths: Int[Tensor, " batch"]) -> list[str]:
        """Sequences of tags as texts, separated by spaces."""
        rows = zip(parts.argmax(-1).tolist(), lengths.tolist(), strict=True)
        return [" ".join(self.labels[tag] for tag in tags[:length]) for tags, length in rows]

    def _may_follow(self, before: str | None, tag: str) -> bool:
        return not self.has_spans or may_follow(before, tag)
