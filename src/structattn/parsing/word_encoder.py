"""The parser's word representations: a vector for frequent words, or hashed ones, and a character convolution for all.

Characters are encoded once for every distinct spelling of a batch, not once for every word.

Reference: Kim (2014), Convolutional neural networks for sentence classification (convolution and maximum over time);
Dozat and Manning (2017), section 4.2 (a rare word has no vector of its own, and words are dropped in training);
Weinberger et al. (2009), Feature hashing for large scale multitask learning (words share a fixed number of vectors);
Bloom (1970), Space/time trade-offs in hash coding with allowable errors (which words have one).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from numpy.typing import NDArray
from torch import Tensor, nn

from structattn.data import SentenceBatch, Vocabulary, collate
from structattn.data.model_folder import write_vocabulary
from structattn.data.vocabulary import PADDING_ID, UNKNOWN_ID
from structattn.encoders.bilstm import BiLSTM
from structattn.files.text import is_unicode
from structattn.functional.products import round_up, take_rows
from structattn.layers import WordEmbedding
from structattn.options.checking import check
from structattn.parsing.batched_parsing import count_words
from structattn.syntax import Sentence

_START, _END = "\x02", "\x03"
# Only the first and last characters of a longer spelling (a URL, a line of dashes) are read.
_FRONT, _BACK = 24, 8
# Lower ids are those of padding and of unknown words.
_FIRST = 2
_MARKS = 16
# The binary digits that ``round_up`` keeps of the numbers of sentences and words read without gradients.
_DIGITS = 5
_WORDS, _CHARACTERS = "words.json", "characters.json"


@dataclass(frozen=True, eq=False)
class WordBatch:
    """Sentences with the spellings of their words."""

    words: SentenceBatch
    #: Character ids of every distinct word, one word after the other, each followed by a 0.
    characters: Int64[Tensor, " character"]
    #: Where in ``characters`` each distinct word starts.
    starts: Int64[Tensor, " spelling"]
    #: Which of the distinct words each word is; 0 at padding.
    spelling_ids: Int64[Tensor, "batch word"]

    @property
    def mask(self) -> Bool[Tensor, "batch word"]:
        """``True`` at words."""
        return self.words.mask

    @property
    def lengths(self) -> Int64[Tensor, " batch"]:
        """Number of words of each sentence."""
        return self.words.lengths

    def to(self, device: torch.device | str) -> "WordBatch":
        """The same batch on another device."""
        moved = (tensor.to(device) for tensor in (self.characters, self.starts, self.spelling_ids))
        return WordBatch(self.words.to(device), *moved)


class CharacterConvolution(nn.Module):
    r"""A vector for every spelling: ``max over t of relu(W [x_{t-1}; x_t; x_{t+1}] + b)``, per filter.

    The spellings are concatenated, so that a long one does not add padding to the others.
    """

    def __init__(self, num_characters: int, dim: int, *, filters: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(num_characters, dim, padding_idx=0)
        self.convolution = nn.Conv1d(dim, filters, kernel_size=3, padding=1)

    def forward(
        self, characters: Int64[Tensor, " character"], starts: Int64[Tensor, " spelling"]
    ) -> Float[Tensor, "spelling filter"]:
        """Encode the spellings, each followed by a 0."""
        # All sizes follow from shapes, so that no value is read from the device.
        sizes = (self.embedding.num_embeddings, len(characters) - len(starts), len(starts), 3)
        ids, character, number, offset = (torch.arange(size, device=characters.device) for size in sizes)
        # Each term of the convolution depends on one character, so there are few distinct ones to look up and add.
        weight, bias = self.convolution.parameters()
        terms = torch.einsum("fdk,cd->kcf", weight, self.embedding(ids)).flatten(0, 1)
        spelling = torch.searchsorted(starts - number, character, right=True) - 1
        neighbours = nn.functional.pad(characters, (1, 1)).unfold(0, 3, 1) + len(ids) * offset
        states = nn.functional.embedding_bag(neighbours[character + spelling], terms, mode="sum") + bias
        spelling = spelling.unsqueeze(1).expand_as(states)
        # Taking the maximum with zeros applies the relu.
        return states.new_zeros(len(starts), states.shape[1]).scatter_reduce(0, spelling, states, "amax")


class WordEncoder(nn.Module):
    """Words and characters to states: word and character vectors concatenated, read by a bidirectional LSTM.

    Args:
        vocabulary: the words with a vector of their own.
        characters: the characters, including the marks ``\\x02`` and ``\\x03`` for the start and the end of a word.
        word_dim: width of the word vectors.
        character_dim: width of a character.
        filters: width of the vector that encodes a word's characters.
        hidden: width of each direction of the LSTM.
        num_layers: number of layers of the LSTM.
        dropout: on the input of each layer.
        word_dropout: share of words whose own vector is dropped in training, so that the character vectors are used.
        buckets: number of vectors that the words of the vocabulary share; the index of a word's vector is the CRC-32 of
            its lower-cased UTF-8 modulo ``buckets``. In place of a list of words, the encoder then keeps a table of the
            CRCs that occur modulo ``16 * buckets``, which identifies most other words as unknown, and its size does not
            depend on the number of words.

    Raises:
        ConfigError: if ``buckets`` is below 1.

    Example:
        >>> import structattn as sa
        >>> sentences = [sa.Sentence(["kids", "wash"]), sa.Sentence(["hush"])]
        >>> characters = sa.Vocabulary(["\\x02", "\\x03", *"adhikusw"], lowercase=False)
        >>> encoder = WordEncoder(sa.Vocabulary(["kids"]), characters, hidden=5)
        >>> encoder(encoder.collate(sentences)).shape, encoder.output_dim
        (torch.Size([2, 2, 10]), 10)
    """

    kind = "words"
    max_length = 300
    known: Tensor | None  # the name in saved parsers

    def __init__(
        self,
        vocabulary: Vocabulary,
        characters: Vocabulary,
        *,
        word_dim: int = 100,
        character_dim: int = 32,
        filters: int = 128,
        hidden: int = 200,
        num_layers: int = 2,
        dropout: float = 0.33,
        word_dropout: float = 0.2,
        buckets: int | None = None,
    ) -> None:
        super().__init__()
        check(buckets is None or buckets >= 1, "buckets", "at least 1", buckets)
        self.vocabulary = vocabulary if buckets is None else Vocabulary(())
        self.register_buffer("known", None if buckets is None else _marks(vocabulary, buckets))
        self.characters = characters
        self.options: Mapping[str, Any] = {
            "word_dim": word_dim,
            "character_dim": character_dim,
            "filters": filters,
            "hidden": hidden,
            "num_layers": num_layers,
            "dropout": dropout,
            "word_dropout": word_dropout,
            "buckets": buckets,
        }
        self.buckets = buckets
        self.word_dropout = word_dropout
        self.embedding = WordEmbedding(len(self.vocabulary) + (buckets or 0), word_dim)
        self.spelling = CharacterConvolution(len(characters), character_dim, filters=filters)
        self.contextualizer = BiLSTM(word_dim + filters, hidden, num_layers=num_layers, dropout=dropout)
        self.dropout = nn.Dropout(dropout)
        self.output_dim = 2 * hidden

    def sizes(self, sentences: Sequence[Sentence]) -> list[int]:
        """Number of words of each sentence.

        Args:
            sentences: any number of sentences.
        """
        return count_words(sentences)

    def collate(self, sentences: Sequence[Sentence]) -> WordBatch:
        """Sentences as tensors; each must have at least one word.

        Args:
            sentences: the sentences, whose trees are not read.
        """
        words = collate(sentences, self.vocabulary)
        spellings = [word for sentence in sentences for word in sentence.words]
        rows = {word: row for row, word in enumerate(dict.fromkeys(spellings))}
        spelling_ids = np.zeros(words.tokens.shape, dtype=np.int64)
        spelling_ids[words.mask.numpy()] = [*map(rows.__getitem__, spellings)]
        if self.buckets is not None:
            ids = self._hash(list(rows), self.buckets)
            words = replace(words, tokens=torch.from_numpy(ids[spelling_ids]).masked_fill(~words.mask, PADDING_ID))
        marked = [_mark_ends(word) for word in rows]
        characters = np.array(self.characters.encode([*"".join(marked)]))
        ends = np.cumsum([len(spelling) for spelling in marked])
        characters[ends - 1] = PADDING_ID
        starts = np.append(0, ends[:-1])
        return WordBatch(words, *map(torch.from_numpy, (characters, starts, spelling_ids)))

    def count_unknown(self, words: Sequence[str]) -> int:
        """How many words have no vector of their own: most of those in another language."""
        ids = self.vocabulary.encode(words) if self.buckets is None else self._hash(words, self.buckets)
        return int((np.asarray(ids) == UNKNOWN_ID).sum())

    def _hash(self, words: Sequence[str], buckets: int) -> NDArray[np.int64]:
        """The index of each word's vector among those that words share."""
        assert self.known is not None
        hashed = np.array([_crc(word) for word in words], dtype=np.int64)
        is_known = self.known.numpy(force=True)[hashed % len(self.known)]
        return np.where(is_known, _FIRST + hashed % buckets, UNKNOWN_ID)

    def forward(self, batch: WordBatch) -> Float[Tensor, "batch word dim"]:
        """States of the words; zero at padding.

        Args:
            batch: the output of ``collate``.
        """
        words = batch.words
        if self.training and self.word_dropout:
            hidden = torch.rand(words.tokens.shape, device=words.device) < self.word_dropout
            words = replace(words, tokens=words.tokens.masked_fill(hidden & words.mask, UNKNOWN_ID))
        spellings = take_rows(self.spelling(batch.characters, batch.starts), batch.spelling_ids)
        states = torch.cat([self.embedding(words), spellings], dim=-1)
        dropped: Tensor = self.dropout(self._contextual(states, words.mask))
        return dropped

    def _contextual(self, states: Tensor, mask: Tensor) -> Tensor:
        rows, columns = mask.shape
        if not torch.is_grad_enabled():
            below, beside = (round_up(size, _DIGITS) - size for size in mask.shape)
            states = nn.functional.pad(states, (0, 0, 0, beside, 0, below))
            mask = nn.functional.pad(mask, (0, beside, 0, below))
        read: Tensor = self.contextualizer.read(states, mask)
        return read[:rows, :columns]

    def save(self, folder: Path) -> None:
        """Write everything needed to rebuild the encoder except its parameters.

        Args:
            folder: an existing folder.
        """
        if self.buckets is None:
            write_vocabulary(self.vocabulary, folder / _WORDS)
        write_vocabulary(self.characters, folder / _CHARACTERS)

    @classmethod
    def load(cls, folder: Path, options: Mapping[str, Any]) -> "WordEncoder":
        """Build the encoder that ``save`` wrote, with fresh parameters.

        Args:
            folder: where it was written.
            options: the options that it was built with.

        Raises:
            ParseError: if a file is missing or damaged; the message names it.
        """
        words = Vocabulary(()) if options.get("buckets") else Vocabulary.from_file(folder / _WORDS)
        return cls(words, Vocabulary.from_file(folder / _CHARACTERS), **options)


def character_vocabulary(sentences: Iterable[Sentence], *, min_count: int = 2) -> Vocabulary:
    """The characters that occur often enough, after the two marks for the start and the end of a word.

    Half of a surrogate pair, which no file can contain, is unknown.
    """
    counts = Counter(character for sentence in sentences for word in sentence.words for character in word)
    frequent = [
        character
        for character, count in counts.items()
        if count >= min_count and is_unicode(character) and character not in (_START, _END)
    ]
    frequent.sort(key=lambda character: (-counts[character], character))
    return Vocabulary([_START, _END, *frequent], lowercase=False)


def _marks(vocabulary: Vocabulary, buckets: int) -> Bool[Tensor, " mark"]:
    marks = torch.zeros(_MARKS * buckets, dtype=torch.bool)
    for word in vocabulary.words[_FIRST:]:
        marks[_crc(word) % len(marks)] = True
    return marks


def _crc(word: str) -> int:
    return crc32(word.lower().encode("utf-8", "surrogatepass"))


def _mark_ends(word: str) -> str:
    """The characters of a word that are read, and one more in the place of the padding after it."""
    characters = word if len(word) <= _FRONT + _BACK else word[:_FRONT] + word[-_BACK:]
    return f"{_START}{characters}{_END}{_END}"
