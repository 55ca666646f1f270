"""Word embeddings, with the papers' rules for unknown words."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from structattn.data import SentenceBatch


class WordEmbedding(nn.Module):
    r"""A table of word vectors: some rows are learnt, some are frozen, and two are always zero.

    Ids follow ``Vocabulary``: 0 is padding and 1 the unknown word, both zero and never trained (as in the code of
    Shen et al. 2018); then the trained words; the last ``num_frozen`` words keep the vectors they were given.

    Args:
        vocab_size: number of word ids, padding and unknown included.
        dim: width of the vectors.
        num_frozen: number of words at the end of the vocabulary whose vectors are not trained.
        dropout: applied to the vectors.

    Attributes:
        output_dim: width of the states, ``dim``.

    Raises:
        ValueError: if the vocabulary is too small for its two special words and its frozen words.

    Example:
        >>> import structattn as sa
        >>> vocabulary = sa.Vocabulary.from_examples([sa.Example((sa.Sentence(["a", "dog"]),))])
        >>> embedding = WordEmbedding(len(vocabulary), 3)
        >>> states = embedding(sa.collate([sa.Sentence(["dog", "zebra"])], vocabulary))
        >>> states.shape, bool((states[0, 1] == 0).all())
        (torch.Size([1, 2, 3]), True)
    """

    frozen: Tensor

    def __init__(self, vocab_size: int, dim: int, *, num_frozen: int = 0, dropout: float = 0.0) -> None:
        super().__init__()
        if num_frozen < 0 or vocab_size < 2 + num_frozen:
            raise ValueError(
                f"WordEmbedding: expected a vocabulary of at least 2 words (padding, unknown) and the frozen ones, "
                f"got vocab_size={vocab_size} and num_frozen={num_frozen}"
            )
        self.vocab_size = vocab_size
        self.output_dim = dim
        self.weight = nn.Parameter(torch.empty(vocab_size - num_frozen, dim))
        self.register_buffer("frozen", torch.zeros(num_frozen, dim))
        self.dropout = nn.Dropout(dropout)
        # Close to the size of common pretrained vectors, so that a model sees the same scale with and without them.
        nn.init.normal_(self.weight, std=dim**-0.5)
        nn.init.normal_(self.frozen, std=dim**-0.5)
        with torch.no_grad():
            self.weight[:2] = 0.0

    @property
    def config(self) -> dict[str, Any]:
        """The embedder's configuration for ``structattn.encoders.build``, without the number of words."""
        return {
            "name": "words",
            "dim": self.output_dim,
            "num_frozen": len(self.frozen),
            "dropout": self.dropout.p,
        }

    def forward(self, batch: SentenceBatch, *following: SentenceBatch) -> Float[Tensor, "batch word dim"]:
        """Look the words up; padding is exactly zero.

        Args:
            batch: sentences.
            following: the sentences that follow in each text; their words come after the padding of the first batch.
        """
        states = [self._look_up(sentences) for sentences in (batch, *following)]
        return torch.cat(states, 1) if following else states[0]

    def _look_up(self, batch: SentenceBatch) -> Float[Tensor, "batch word dim"]:
        first_frozen = len(self.weight)
        # Unknown words read the padding row, the one that F.embedding gives no gradient.
        trained = batch.tokens.masked_fill((batch.tokens == 1) | (batch.tokens >= first_frozen), 0)
        states = F.embedding(trained, self.weight, padding_idx=0)
        if len(self.frozen):
            frozen = F.embedding((batch.tokens - first_frozen).clamp(min=0), self.frozen)
            states = torch.where((batch.tokens >= first_frozen).unsqueeze(-1), frozen, states)
        embedded: Tensor = self.dropout(states)
        return embedded

    @torch.no_grad()
    def load_vectors(self, matrix: Float[Tensor, "vocabulary dim"]) -> None:
        """Replace the table with pretrained vectors, one row per word id; rows 0 and 1 stay zero.

        Args:
            matrix: the vectors, in the order of the vocabulary.

        Raises:
            ValueError: if the matrix does not have this table's shape.
        """
        expected = (self.vocab_size, self.weight.shape[1])
        if matrix.shape != expected:
            raise ValueError(
                f"load_vectors: expected a matrix of {expected[0]} words by {expected[1]}, "
                f"got {matrix.shape[0]} by {matrix.shape[1]}"
            )
        self.weight.copy_(matrix[: len(self.weight)])
        self.weight[:2] = 0.0
        self.frozen.copy_(matrix[len(self.weight) :])
