"""Spans as segments of a semi-Markov CRF: learnt scores of their widths and of the labels that follow each other.

A span of ``X`` is a segment whose first word has the tag ``B-X`` and whose further words have ``I-X``; a word outside
of all spans is a segment of its own. A chain of tags has no scores of widths.

Reference: Sarawagi and Cohen (2004), Semi-Markov conditional random fields for information extraction.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from structattn.data.span_tags import OUTSIDE, TagScheme
from structattn.distributions import SemiMarkovCRF, StructuredDistribution
from structattn.errors import ConfigError
from structattn.tasks.classifier import find_classes, find_constraint


class TagSegments(nn.Module):
    """``p(segments)`` proportional to ``exp(sum of s[i, tag of word i] + A[label, next label] + D[width, label])``.

    ``longest`` is the number of words of the longest span; a ``ConfigError`` for tags of another scheme than IOB2.
    """

    first: Int[Tensor, " label"]
    further: Int[Tensor, " label"]
    part_of_tag: Int[Tensor, " tag"]

    def __init__(self, labels: Sequence[str], *, scheme: TagScheme | None, longest: int) -> None:
        super().__init__()
        scheme = find_constraint(labels, scheme)
        if scheme is None or scheme.name != "IOB2":
            raise ConfigError(
                f"classifier.tags segments: expected tags of spans in IOB2, such as B-X, I-X and {OUTSIDE}, got "
                f"{scheme or 'other tags'}: {', '.join(labels[:6])}; for these use classifier.tags chain"
            )
        self.labels, self.scheme, self.longest = tuple(labels), scheme, longest
        parsed = [scheme.parse(tag) for tag in self.labels]
        kinds = sorted({(part == OUTSIDE, label) for part, label in parsed})
        indices: dict[tuple[bool, str, bool], int] = {
            (part == OUTSIDE, label, part == "I"): index for index, (part, label) in enumerate(parsed)
        }
        first, further = ([indices.get((*kind, is_further), -1) for kind in kinds] for is_further in (False, True))
        places = {(*kind, False): row for row, kind in enumerate(kinds)}
        places |= {(*kind, True): len(kinds) + row for row, kind in enumerate(kinds)}
        part_of_tag = [places[part == OUTSIDE, label, part == "I"] for part, label in parsed]
        for name, numbers in (("first", first), ("further", further), ("part_of_tag", part_of_tag)):
            self.register_buffer(name, torch.tensor(numbers), persistent=False)
        self.transition = nn.Parameter(torch.zeros(len(kinds), len(kinds)))
        self.duration = nn.Parameter(torch.zeros(longest, len(kinds)))
        # The tag of words without one: a segment of one word is possible everywhere.
        self.nothing = next(index for index in reversed(first) if index >= 0)

    def forward(self, scores: Float[Tensor, "batch word tag"], lengths: Int[Tensor, " batch"]) -> SemiMarkovCRF:
        """The distribution over the segments of each sentence."""
        words = torch.stack([self._of_labels(scores, tags) for tags in (self.first, self.further)], -2)
        arrays = {name: getattr(self, name).to(scores.dtype) for name in ("transition", "duration")}
        return SemiMarkovCRF(words, lengths, **arrays, validate_args=False)

    def log_prob(self, segments: StructuredDistribution, tags: Int[Tensor, "batch word"]) -> Float[Tensor, " batch"]:
        """The log-probability of the spans of tags in a possible order."""
        parts = segments.scores.new_zeros(*tags.shape, 2 * len(self.first))
        parts = parts.scatter(-1, self.part_of_tag[tags].unsqueeze(-1), 1.0)
        real = torch.arange(tags.shape[1], device=tags.device) < segments.lengths.unsqueeze(-1)
        return segments.log_prob((parts * real.unsqueeze(-1)).view(segments.scores.shape))

    def classes(self, tags: Sequence[str]) -> list[int] | None:
        """The index of each tag, ``None`` if one is unknown or a span too long; errors as for a chain."""
        classes = find_classes(self.labels, self.scheme, tags)
        longest = max((end - start for start, end, _ in self.scheme.find_spans(tags)), default=0)
        return classes if longest <= self.longest else None

    def texts(self, parts: Float[Tensor, "batch word 2 label"], lengths: Int[Tensor, " batch"]) -> list[str]:
        """Segments as tags, separated by spaces."""
        tags = torch.cat([self.first, self.further])[parts.flatten(-2).argmax(-1)]
        rows = zip(tags.tolist(), lengths.tolist(), strict=True)
        return [" ".join(self.labels[tag] for tag in row[:length]) for row, length in rows]

    @property
    def config(self) -> dict[str, int]:
        """What a model folder keeps of it."""
        return {"longest_span": self.longest}

    @staticmethod
    def _of_labels(scores: Tensor, tags: Tensor) -> Tensor:
        return scores[..., tags.clamp(min=0)].masked_fill(tags < 0, -torch.inf)
