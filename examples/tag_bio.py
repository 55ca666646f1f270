"""Noun phrases by a linear-chain CRF over BIO tags, against the same scorer with an independent softmax for each word.

    python examples/tag_bio.py en_ewt-ud-train.conllu en_ewt-ud-dev.conllu

What may follow what is a matrix of ``-inf``: I-NOUN only after B-NOUN or I-NOUN. The independent tagger is the same
chain without transitions; its broken sequences are read as they stand, an I- without its B- begins a phrase.
"""

from collections.abc import Sequence

import torch
from noun_phrases import LABELS, Phrase, compare
from torch import Tensor, nn

import structattn as sa
from structattn.distributions import LinearChainCRF

# O, then B and I of each label.
TAGS = 1 + 2 * len(LABELS)
BEGINS, INSIDE = list(range(1, TAGS, 2)), list(range(2, TAGS, 2))


class Tagger(nn.Module):
    """Word vectors, a BiLSTM, a linear map to tags, and the chain."""

    def __init__(self, vocabulary: sa.Vocabulary, structured: bool) -> None:
        super().__init__()
        self.vocabulary, self.structured = vocabulary, structured
        self.encoder = sa.encoders.build("bilstm", vocab_size=len(vocabulary), dim=100, dropout=0.3)
        self.score = nn.Linear(self.encoder.output_dim, TAGS)
        self.transition = nn.Parameter(torch.zeros(TAGS, TAGS), requires_grad=structured)
        forbidden = torch.zeros(1 + TAGS, TAGS, dtype=torch.bool)  # the first row: at the start
        forbidden[:, INSIDE] = True
        for begin, inside in zip(BEGINS, INSIDE, strict=True):
            forbidden[[1 + begin, 1 + inside], inside] = False
        self.register_buffer("forbidden", forbidden & structured)

    def chain(self, batch: sa.SentenceBatch) -> LinearChainCRF:
        """The distribution over tag sequences."""
        unary = self.score(self.encoder(batch).states)
        first = unary[:, :1].masked_fill(self.forbidden[0], -torch.inf)
        transition = self.transition.masked_fill(self.forbidden[1:], -torch.inf)
        return LinearChainCRF(torch.cat([first, unary[:, 1:]], 1), transition, batch.lengths, validate_args=False)

    def loss(self, sentences: Sequence[sa.Sentence], gold: Sequence[Sequence[Phrase]]) -> Tensor:
        """Negative log-likelihood for each word."""
        batch = sa.collate(sentences, self.vocabulary)
        tags = torch.zeros_like(batch.tokens)
        for row, found in zip(tags, gold, strict=True):
            for start, end, label in found:
                row[start:end] = 2 * label
                row[start] = 2 * label - 1
        chain = self.chain(batch)
        return -chain.log_prob(chain.from_structure(tags)).sum() / batch.lengths.sum()

    def predict(self, sentences: Sequence[sa.Sentence]) -> list[list[Phrase]]:
        """The phrases of the best tag sequences."""
        chain = self.chain(sa.collate(sentences, self.vocabulary))
        best = chain.to_structure(chain.argmax()).tolist()
        return [spans(tags[: len(sentence.words)]) for tags, sentence in zip(best, sentences, strict=True)]


def spans(tags: Sequence[int]) -> list[Phrase]:
    """Phrases of BIO tags; a tag that may not follow the one before it begins a phrase."""
    found: list[Phrase] = []
    for place, tag in enumerate(tags):
        label = (tag + 1) // 2
        if tag in INSIDE and found and found[-1][1:] == (place, label):
            found[-1] = (found[-1][0], place + 1, label)
        elif tag:
            found.append((place, place + 1, label))
    return found


def main(arguments: Sequence[str] | None = None) -> dict[str, float]:
    """Train both, print F1."""
    return compare(__doc__, Tagger, arguments)


if __name__ == "__main__":
    main()
