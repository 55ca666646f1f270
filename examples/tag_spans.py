"""Noun phrases by a semi-Markov CRF over spans, against the same scorer with an independent softmax for each span.

    python examples/tag_spans.py en_ewt-ud-train.conllu en_ewt-ud-dev.conllu

Every span of up to six words gets a score for each label from the states at its two ends. The semi-Markov CRF chooses
spans that follow each other without gap or overlap, with single words as what lies outside; the independent tagger asks
each span alone whether it is a phrase, and its phrases may overlap.
"""

from collections.abc import Sequence

import torch
from noun_phrases import LABELS, Phrase, compare
from torch import Tensor, nn

import structattn as sa
from structattn.distributions import SemiMarkovCRF

WIDTHS, STATES = 6, 1 + len(LABELS)  # label 0 is outside


class Tagger(nn.Module):
    """Word vectors, a BiLSTM, a small network over the two ends of a span, and the segmentation."""

    def __init__(self, vocabulary: sa.Vocabulary, structured: bool) -> None:
        super().__init__()
        self.vocabulary, self.structured = vocabulary, structured
        self.encoder = sa.encoders.build("bilstm", vocab_size=len(vocabulary), dim=100, dropout=0.3)
        self.first, self.last = (nn.Linear(self.encoder.output_dim, 100) for _ in range(2))
        self.width = nn.Parameter(torch.zeros(WIDTHS, 100))
        self.score = nn.Linear(100, STATES)
        self.transition = nn.Parameter(torch.zeros(STATES, STATES), requires_grad=structured)

    def spans(self, batch: sa.SentenceBatch) -> Tensor:
        """Scores ``(batch, start, width - 1, label)``; spans that end beyond the sentence read padding."""
        states = self.encoder(batch).states
        ends = nn.functional.pad(self.last(states), (0, 0, 0, WIDTHS - 1)).unfold(1, WIDTHS, 1).mT
        return self.score(torch.tanh(self.first(states).unsqueeze(2) + ends + self.width))

    def segments(self, batch: sa.SentenceBatch) -> SemiMarkovCRF:
        """The distribution over segmentations; what lies outside is one word wide."""
        scores = self.spans(batch).unsqueeze(-2) + self.transition
        wide = torch.arange(WIDTHS).view(-1, 1, 1) > 0
        outside = torch.arange(STATES) == 0
        return SemiMarkovCRF(scores.masked_fill(wide & outside, -torch.inf), batch.lengths, validate_args=False)

    def loss(self, sentences: Sequence[sa.Sentence], gold: Sequence[Sequence[Phrase]]) -> Tensor:
        """Negative log-likelihood for each word."""
        batch = sa.collate(sentences, self.vocabulary)
        short = [[phrase for phrase in sentence if phrase[1] - phrase[0] <= WIDTHS] for sentence in gold]
        if not self.structured:
            target = torch.zeros(*batch.tokens.shape, WIDTHS, dtype=torch.long)
            for row, phrases in enumerate(short):
                for start, end, label in phrases:
                    target[row, start, end - start - 1] = label
            scores = self.spans(batch)[inside(batch.lengths, target.shape[1])]
            labels = target[inside(batch.lengths, target.shape[1])]
            return nn.functional.cross_entropy(scores, labels, reduction="sum") / batch.lengths.sum()
        segments = self.segments(batch)
        structure = torch.zeros(*batch.tokens.shape, 3, dtype=torch.long)
        rows = [with_outside(part, len(s.words)) for part, s in zip(short, sentences, strict=True)]
        for row, segmentation in zip(structure, rows, strict=True):
            row[: len(segmentation)] = torch.tensor(segmentation)
        return -segments.log_prob(segments.from_structure(structure)).sum() / batch.lengths.sum()

    def predict(self, sentences: Sequence[sa.Sentence]) -> list[list[Phrase]]:
        """The phrases of the best segmentations, or every span that is rather a phrase than none."""
        batch = sa.collate(sentences, self.vocabulary)
        if self.structured:
            segments = self.segments(batch)
            best = segments.to_structure(segments.argmax()).tolist()
            return [[(start, end, label) for start, end, label in sentence if label] for sentence in best]
        labels = self.spans(batch).argmax(-1).masked_fill(~inside(batch.lengths, batch.tokens.shape[1]), 0)
        predicted: list[list[Phrase]] = [[] for _ in sentences]
        for row, start, width in labels.nonzero().tolist():
            predicted[row].append((start, start + width + 1, int(labels[row, start, width])))
        return predicted


def inside(lengths: Tensor, words: int) -> Tensor:
    """Which spans ``(batch, start, width - 1)`` lie within their sentence."""
    end = torch.arange(words)[:, None] + torch.arange(1, WIDTHS + 1)
    return end <= lengths[:, None, None]


def with_outside(phrases: Sequence[Phrase], length: int) -> list[Phrase]:
    """Phrases from left to right with a segment of label 0 for each word between them."""
    covered = {word for start, end, _ in phrases for word in range(start, end)}
    return sorted([*phrases, *((word, word + 1, 0) for word in range(length) if word not in covered)])


def main(arguments: Sequence[str] | None = None) -> dict[str, float]:
    """Train both, print F1."""
    return compare(__doc__, Tagger, arguments)


if __name__ == "__main__":
    main()
