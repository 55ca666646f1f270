"""A learnt splitter of raw text: after each character the text goes on, or a word, a token or a sentence ends.

Convolutions over characters see what is near, convolutions over chunks, the runs of characters without spaces, what is
around. A chunk is represented by its spelling, its shape and how it starts and ends, all hashed. A token of several
words is a multiword token, as ``don't``, of ``do`` and ``n't``.

Reference: Evang et al. (2013), Elephant: Sequence labeling for word and sentence segmentation (labels of characters);
Weinberger et al. (2009), Feature hashing for large scale multitask learning.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar
from zlib import crc32

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from structattn.data.saved_model import SavedModel
from structattn.layers.evaluation_mode import evaluating
from structattn.syntax import Sentence

INSIDE, WORD, TOKEN, SENTENCE = range(4)
"""What ends after a character: nothing, a word within a token, a token, a sentence."""
# Between chunks nothing ends, within one no sentence, and after one at least a token.
_ALLOWED = ((True, False, False, False), (True, True, True, False), (False, False, True, True))
_BLANK_LINE = re.compile(r"\n\s*\n")
_WINDOW = 1 << 15  # characters whose states are in memory at a time
_LONGEST_SHAPE = 12
_RUN = re.compile(r"(.)\1{2,}")
_DIGIT = re.compile(r"\d")
# Typographic characters are read as those that the same text has in plain characters.
_PLAIN = str.maketrans("’‘´`“”«»–—…", "''''\"\"\"\"--.")


@dataclass(frozen=True, eq=False)
class SplitBatch:
    """Texts in a row, with zeros between them."""

    #: Ids of characters.
    characters: Int64[Tensor, " character"]
    #: The chunk that each character is in, or follows.
    chunks: Int64[Tensor, " character"]
    #: Where each character is: between chunks, within one, at the end of one.
    places: Int64[Tensor, " character"]
    #: Ids of the features of chunks: spelling, shape, start and end.
    features: Int64[Tensor, "chunk 4"]
    #: Where each text starts.
    starts: Sequence[int]


class _Convolutions(nn.Module):
    """Convolutions over a row, with residuals; outside of the mask, states are zero before and after each."""

    def __init__(self, input_dim: int, dim: int, *, width: int, dilations: Sequence[int]) -> None:
        super().__init__()
        dims = [input_dim, *[dim] * len(dilations)]
        self.layers = nn.ModuleList(
            nn.Conv1d(before, after, width, padding=dilation * (width // 2), dilation=dilation)
            for (before, after), dilation in zip(pairwise(dims), dilations, strict=True)
        )
        self.reach = width // 2 * sum(dilations)

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        states, mask = states.T[None] * mask, mask.to(states.dtype)
        for number, layer in enumerate(self.layers):
            new = torch.relu(layer(states)) * mask
            states = states + new if number else new
        return states[0].T


class TextSplitter(SavedModel):
    """Splits raw texts into sentences, tokens and words.

    ``characters`` have a vector of their own, others that of their class, such as capital letters."""

    kind: ClassVar[str] = "splitter"

    def __init__(
        self,
        characters: str,
        *,
        character_dim: int = 32,
        feature_dim: int = 32,
        dim: int = 64,
        buckets: int = 8192,  # vectors that the features of chunks share
        dropout: float = 0.2,  # of the input of each part; spellings are dropped at twice this rate
    ) -> None:
        super().__init__()
        self.options: Mapping[str, Any] = {
            "characters": characters,
            "character_dim": character_dim,
            "feature_dim": feature_dim,
            "dim": dim,
            "buckets": buckets,
            "dropout": dropout,
        }
        self.buckets = buckets
        self.character = nn.Embedding(1 + len(_CLASSES) + len(characters), character_dim, padding_idx=0)
        self.feature = nn.Embedding(buckets, feature_dim, padding_idx=0)
        self.near = _Convolutions(character_dim, dim, width=3, dilations=(1, 2, 4))
        self.around = _Convolutions(4 * feature_dim, dim, width=5, dilations=(1, 2, 4))
        self.hidden = nn.Linear(dim, dim)
        self.output = nn.Linear(dim, 4)
        self.dropout = nn.Dropout(dropout)
        first = 1 + len(_CLASSES)
        self._ids = {ord(character): number for number, character in enumerate(characters, start=first)}

    @property
    def config(self) -> dict[str, Any]:
        """The options."""
        return {"options": dict(self.options)}

    def collate(self, texts: Sequence[str]) -> SplitBatch:
        """Texts as tensors; they have single spaces between their chunks, and none at either end."""
        gaps = self.near.reach, self.around.reach
        plain = [text.translate(_PLAIN) for text in texts]
        size = sum(map(len, texts)) + gaps[0] * len(texts)
        codes, chunks, starts = np.zeros(size, np.int64), np.zeros(size, np.int64), list[int]()
        hashed: list[Sequence[int]] = []
        start = 0
        for text in plain:
            starts.append(start)
            part = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
            codes[start : start + len(part)] = part
            chunks[start : start + len(part)] = len(hashed) + np.cumsum(part == ord(" "))
            hashed += map(_hash_chunk, text.split(" "))
            hashed += [_NOTHING] * gaps[1]
            start += len(part) + gaps[0]
        distinct, inverse = np.unique(codes, return_inverse=True)
        ids = np.array([self._ids.get(code) or _classify(chr(code)) for code in distinct.tolist()], np.int64)
        in_chunk = codes > ord(" ")
        places = in_chunk.astype(np.int64) + (in_chunk & ~np.append(in_chunk[1:], False))
        features = np.array(hashed, np.int64).reshape(-1, len(_NOTHING))
        features = np.where(features, 1 + features % (self.buckets - 1), 0)
        characters, chunk, place, feature = map(torch.from_numpy, (ids[inverse], chunks, places, features))
        return SplitBatch(characters, chunk, place, feature, starts)

    def forward(self, batch: SplitBatch) -> Float[Tensor, "character 4"]:
        """Scores of what ends after each character; minus infinity for what cannot end there."""
        features = batch.features
        if self.training:
            is_dropped = torch.rand(len(features)) < 2 * self.dropout.p
            features = torch.cat([features[:, :1].masked_fill(is_dropped[:, None], 0), features[:, 1:]], dim=1)
        chunks = self.dropout(self.feature(features).flatten(1))
        around = self.around(chunks, features[:, 1] > 0)
        scores = []
        for start in range(0, len(batch.characters), _WINDOW):
            end, before = start + _WINDOW, max(0, start - self.near.reach)
            characters = batch.characters[before : end + self.near.reach]
            near = self.near(self.dropout(self.character(characters)), characters > 0)[start - before :][:_WINDOW]
            states = torch.relu(near + around[batch.chunks[start:end]])
            scores.append(self.output(torch.relu(self.hidden(self.dropout(states)))))
        return torch.cat(scores).masked_fill(~torch.tensor(_ALLOWED)[batch.places], -torch.inf)

    def split(self, texts: Sequence[str]) -> list[list[Sentence]]:
        """The sentences of raw texts, with text, multiword tokens, ``SpaceAfter=No``; a blank line ends a sentence."""
        parts = [[" ".join(part.split()) for part in _BLANK_LINE.split(text)] for text in texts]
        paragraphs = [part for text in parts for part in text if part]
        if not paragraphs:
            return [[] for _ in texts]
        with evaluating(self):
            batch = self.collate(paragraphs)
            labels = self(batch).argmax(-1).numpy()
        split = iter(
            list(_list_sentences(text, labels[start : start + len(text)]))
            for start, text in zip(batch.starts, paragraphs, strict=True)
        )
        return [[sentence for part in text if part for sentence in next(split)] for text in parts]


def splitter_from_config(config: Mapping[str, Any], folder: Path) -> TextSplitter:
    """The splitter that ``TextSplitter.config`` describes, with fresh parameters."""
    return TextSplitter(**config["options"])


def _list_sentences(text: str, labels: Any) -> Iterator[Sentence]:
    """The sentences of a text, from what ends after each of its characters."""
    labels[-1] = SENTENCE
    words, rows, start, first = list[str](), list[tuple[str, ...]](), 0, 0
    begin = 0
    for index in np.flatnonzero(labels).tolist():
        words.append(text[start : index + 1])
        if labels[index] != WORD:
            is_apart = text[index + 1 : index + 2] in ("", " ")
            rows += _list_rows(words[first:], first + 1, "_" if is_apart else "SpaceAfter=No")
            first = len(words)
        if labels[index] == SENTENCE:
            yield Sentence(words, metadata={"text": text[begin : index + 1]}, rows=rows)
            words, rows, first, begin = [], [], 0, index + 2
        start = index + 1 + (text[index + 1 : index + 2] == " ")


def _list_rows(words: Sequence[str], number: int, space: str) -> Iterator[tuple[str, ...]]:
    """The rows of CoNLL-U of a token."""
    if len(words) > 1:
        yield (f"{number}-{number + len(words) - 1}", "".join(words), *"_______", space)
    for step, word in enumerate(words):
        yield (str(number + step), word, *"_______", "_" if len(words) > 1 else space)


_NOTHING = (0,) * 4
# Classes of characters without a vector of their own.
_CLASSES = (str.isupper, str.islower, str.isdigit, str.isalpha, lambda _: True)


def _classify(character: str) -> int:
    return 0 if character == "\0" else 1 + next(number for number, is_in in enumerate(_CLASSES) if is_in(character))


@lru_cache(1 << 16)
def _hash_chunk(chunk: str) -> Sequence[int]:
    """Numbers of the spelling of a chunk, without case and digits, of its shape, without repetitions, start and end."""
    shape = "".join("A" if c.isupper() else "a" if c.islower() else "0" if c.isdigit() else c for c in chunk)
    spelling = _DIGIT.sub("0", chunk.lower())
    shape = _RUN.sub(r"\1\1", shape)[:_LONGEST_SHAPE]
    named = (f" {spelling} ", f"_{shape}", f" {spelling[:3]}", f"{spelling[-3:]} ")
    return [crc32(feature.encode("utf-8", "surrogatepass")) or 1 for feature in named]
