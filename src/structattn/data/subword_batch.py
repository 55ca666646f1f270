"""Sentences as subword tokens, the input of a Hugging Face backbone, aligned with their words.

:class:`SubwordBatch` indexes both words and subwords; no model is needed to make one. The alignment is that of
``syntax/word_alignment.py``.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from structattn.data.sentence_batch import SentenceBatch
from structattn.data.tree_batch import assemble, register_batch, take_part
from structattn.errors import ConfigError, shown
from structattn.syntax.sentence import Sentence
from structattn.syntax.word_alignment import align_words


@dataclass(frozen=True, eq=False)
class SubwordBatch:
    """A batch of texts (one or two sentences each) as subwords; ``True`` means real.

    The words of a pair are numbered consecutively: those of the second sentence follow those of the first.

    Attributes:
        ids: subword ids of the tokenizer.
        mask: ``True`` at subwords, special ones included.
        words: index of the word that each subword belongs to; 0 if it belongs to none, see ``is_word``.
        is_word: ``True`` at subwords of a word; ``False`` at special tokens and padding.
        segments: 0 at subwords of the first sentence and 1 at those of the second, as reported by the tokenizer.
        word_mask: ``True`` at words, including those without subwords; the width is the number of words of the longest
            text (at least 1).
        is_cut: which texts were truncated to the maximum length.
        sentences: the sentences of each text.
        text: the words of each text as one sentence with its structures, for encoders that read them; see
            ``SentenceEncoder.prepare``.

    Example:
        >>> subwords = SubwordBatch(  # [CLS] kids wash ##ing [SEP]
        ...     ids=torch.tensor([[2, 5, 6, 7, 3]]),
        ...     mask=torch.ones(1, 5, dtype=torch.bool),
        ...     words=torch.tensor([[0, 0, 1, 1, 0]]),
        ...     is_word=torch.tensor([[False, True, True, True, False]]),
        ...     segments=torch.zeros(1, 5, dtype=torch.int64),
        ...     word_mask=torch.ones(1, 2, dtype=torch.bool),
        ...     is_cut=torch.tensor([False]),
        ... )
        >>> subwords.is_first[0].int().tolist(), subwords.coverage
        ([0, 1, 1, 0, 0], 1.0)
    """

    ids: Int64[Tensor, "batch subword"]
    mask: Bool[Tensor, "batch subword"]
    words: Int64[Tensor, "batch subword"]
    is_word: Bool[Tensor, "batch subword"]
    segments: Int64[Tensor, "batch subword"]
    word_mask: Bool[Tensor, "batch word"]
    is_cut: Bool[Tensor, " batch"]
    sentences: tuple[tuple[Sentence, ...], ...] = ()
    text: SentenceBatch | None = None

    @property
    def device(self) -> torch.device:
        """The device of the tensors."""
        return self.ids.device

    @property
    def is_first(self) -> Bool[Tensor, "batch subword"]:
        """``True`` at the first subword of every word."""
        latest = torch.where(self.is_word, self.words, -1).cummax(1).values
        previous = torch.nn.functional.pad(latest[:, :-1], (1, 0), value=-1)
        return self.is_word & (self.words > previous)

    @property
    def num_words(self) -> Int64[Tensor, " batch"]:
        """Number of words of each text, those without subwords included."""
        return self.word_mask.sum(1)

    @property
    def has_subwords(self) -> Bool[Tensor, "batch word"]:
        """``True`` at words with at least one subword."""
        hits = torch.zeros_like(self.word_mask, dtype=torch.int64)
        return hits.scatter_reduce(1, self.words, self.is_word.long(), "amax").bool()

    @property
    def coverage(self) -> float:
        """Share of all words that have a subword; 1.0 if there are no words."""
        total = int(self.num_words.sum())
        return int(self.has_subwords.sum()) / total if total else 1.0

    def to(self, device: torch.device | str) -> "SubwordBatch":
        """The same batch on another device."""
        moved = {name: getattr(self, name).to(device) for name in _TENSORS}
        return replace(self, **moved, text=None if self.text is None else self.text.to(device))

    def tensors(self) -> dict[str, Any]:
        """All tensors by name, such as ``ids`` or ``text.dependency.parents``."""
        text = {} if self.text is None else self.text.tensors()
        named = {name: getattr(self, name) for name in _TENSORS}
        return {**named, **{f"text.{name}": tensor for name, tensor in text.items()}}

    def facts(self) -> dict[str, Any]:
        """Everything else that a computation may depend on; the sentences themselves are left out."""
        return {} if self.text is None else {"text": self.text.facts()}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Any], facts: Mapping[str, Any]) -> "SubwordBatch":
        """The batch of these tensors, with no sentences.

        Args:
            tensors: by the names of ``tensors()``; they are not checked.
            facts: what ``facts()`` returned.
        """
        text = take_part("text.", tensors)
        named = {name: tensors[name] for name in _TENSORS}
        return assemble(
            cls, **named, sentences=(), text=SentenceBatch.from_tensors(text, facts["text"]) if text else None
        )

    def __len__(self) -> int:
        return self.ids.shape[0]


_TENSORS = ("ids", "mask", "words", "is_word", "segments", "word_mask", "is_cut")
register_batch(SubwordBatch)


def collate_subwords(
    texts: Sequence[Sentence | str | tuple[Sentence | str, ...]],
    tokenizer: Any,
    *,
    max_length: int | None = None,
    truncation: bool = False,
) -> SubwordBatch:
    """Tokenise sentences, or pairs of them, into one padded batch of subwords.

    A sentence is tokenised as the text it came from (``metadata["text"]``) if that has all its words, and otherwise as
    its words joined by single spaces. Subwords are aligned with words by character offsets, so any fast tokenizer
    works.

    Args:
        texts: at least one sentence, or tuple of one or two; all have the same number of sentences. A string is split
            into words by ``Sentence.from_text``.
        tokenizer: a fast tokenizer of transformers.
        max_length: maximum number of tokens of one text, special tokens included; ``None`` for no limit.
        truncation: truncate longer texts at their end, whatever the tokenizer's ``truncation_side`` (in a pair, the
            longer sentence first); otherwise they raise an error.

    Raises:
        ConfigError: if the tokenizer is not a fast one, or for a text that is too long; the message says which.
        ValueError: without any text, or for tuples of different sizes.
        TypeError: for one text instead of a list, or what is neither a sentence nor a text.

    Example:
        >>> from tokenizers import Tokenizer, models, pre_tokenizers
        >>> from transformers import PreTrainedTokenizerFast
        >>> inner = Tokenizer(models.WordLevel({"?": 0, "two": 1, "kids": 2}, unk_token="?"))
        >>> inner.pre_tokenizer = pre_tokenizers.Whitespace()
        >>> tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner)
        >>> subwords = collate_subwords([Sentence(["two", "new", "kids"])], tokenizer)
        >>> subwords.ids.tolist(), subwords.words.tolist()
        ([[1, 0, 2]], [[0, 1, 2]])
    """
    check_tokenizer(tokenizer)
    if isinstance(texts, str | Sentence):
        raise TypeError(f"expected a list of texts, got one: {shown(texts)}; put it into brackets, [...]")
    parts = [_list_sentences(text, index) for index, text in enumerate(texts)]
    sizes = sorted({len(part) for part in parts})
    if len(sizes) != 1 or sizes[0] not in (1, 2):
        raise ValueError(f"collate_subwords expects texts of one sentence each or of two each, got sizes {sizes}")
    # The tokenizers of ``backbones/learnt_tokenizers.py`` read words rather than the text that they came from.
    is_text = not tokenizer.init_kwargs.get("separates_words")
    columns = [
        [choose_text(sentence) if is_text else " ".join(sentence.words) for sentence in column]
        for column in zip(*parts, strict=True)
    ]
    options = {"return_offsets_mapping": True, "return_token_type_ids": True, "verbose": False}
    encoding = tokenizer(*columns, **options)
    is_cut = [max_length is not None and len(ids) > max_length for ids in encoding["input_ids"]]
    if any(is_cut):
        if not truncation:
            row = is_cut.index(True)
            start, length = " ".join(parts[row][0].words[:6]), len(encoding["input_ids"][row])
            raise ConfigError(
                f"the text {start!r} ... has {length} subwords, expected at most {max_length}, which is what the model "
                "reads: shorten it (predict --truncate, in Python model.shortened); a model trained with "
                "--data.max_length WORDS cuts texts, as do encoders that read the state of a text, such as --encoder "
                "backbone",
                index=row,
            )
        truncating = copy.copy(tokenizer)  # so that the caller's tokenizer keeps its side
        truncating.truncation_side = "right"
        encoding = truncating(*columns, **options, truncation="longest_first", max_length=max_length)
    rows = []
    for row, part in enumerate(parts):
        strings = [column[row] for column in columns]
        sequence, offsets = encoding.sequence_ids(row), encoding["offset_mapping"][row]
        rows.append(_align_subwords(part, strings, sequence=sequence, offsets=offsets))
    width = max(1, *(len(ids) for ids in encoding["input_ids"]))
    num_words = torch.tensor([sum(map(len, part)) for part in parts])
    return SubwordBatch(
        ids=_pad(encoding["input_ids"], width, tokenizer.pad_token_id or 0),
        mask=_pad([[1] * len(ids) for ids in encoding["input_ids"]], width, 0).bool(),
        words=_pad([[word or 0 for word in words] for words in rows], width, 0),
        is_word=_pad([[word is not None for word in words] for words in rows], width, 0).bool(),
        segments=_pad(encoding["token_type_ids"], width, 0),
        word_mask=torch.arange(max(1, int(num_words.max()))) < num_words[:, None],
        is_cut=torch.tensor(is_cut),
        sentences=tuple(parts),
    )


def _list_sentences(text: object, index: int) -> tuple[Sentence, ...]:
    parts = tuple(text) if isinstance(text, tuple | list) else (text,)
    for part in parts:
        if not isinstance(part, Sentence | str):
            raise TypeError(f"text {index}: expected a Sentence, a string or a pair of these, got {shown(part)}")
    return tuple(Sentence.from_text(part) if isinstance(part, str) else part for part in parts)


def check_tokenizer(tokenizer: Any) -> None:
    """Refuse a tokenizer without character offsets, which only the fast ones of transformers have."""
    if not getattr(tokenizer, "is_fast", False):
        raise ConfigError(f"expected a fast tokenizer, which has character offsets, got {type(tokenizer).__name__}")


def choose_text(sentence: Sentence) -> str:
    """The text a sentence came from if that has all its words, or its words joined by spaces, for a tokenizer.

    The words of a contraction (``zu``, ``dem`` for ``zum``) need not occur in the text they came from.
    """
    text = sentence.metadata.get("text")
    if text is not None and "".join(text.split()) == "".join(sentence.words):
        return text
    return " ".join(sentence.words)


def _align_subwords(
    part: Sequence[Sentence],
    strings: Sequence[str],
    *,
    sequence: Sequence[int | None],
    offsets: Sequence[tuple[int, int]],
) -> list[int | None]:
    """For each subword, the index of its word among the words of all sentences of a text."""
    words: list[int | None] = [None] * len(sequence)
    passed = 0
    for number, (sentence, text) in enumerate(zip(part, strings, strict=True)):
        indices = [index for index, owner in enumerate(sequence) if owner == number]
        owners = align_words(sentence.words, [offsets[index] for index in indices], text=text)
        for index, word in zip(indices, owners, strict=True):
            words[index] = None if word is None else word + passed
        passed += len(sentence)
    return words


def _pad(rows: Sequence[Sequence[int]], width: int, value: int) -> Int64[Tensor, "batch subword"]:
    filled = np.full((len(rows), width), value, dtype=np.int64)
    for index, row in enumerate(rows):
        filled[index, : len(row)] = row
    return torch.from_numpy(filled)
