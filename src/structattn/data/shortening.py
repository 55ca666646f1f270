"""Sentences cut to what a backbone can read."""

from typing import Any

import torch

from structattn.data.subword_batch import collate_subwords
from structattn.syntax.sentence import Sentence


def shorten_text(
    sentences: tuple[Sentence, ...], tokenizer: Any, *, max_length: int | None = None
) -> tuple[Sentence, ...]:
    """A sentence, or a pair that is read as one text, with the whole words whose subwords can be read.

    Args:
        sentences: one or two.
        tokenizer: as ``collate_subwords`` takes it.
        max_length: maximum number of subwords, special ones included; ``None`` for no limit.
    """
    cut = collate_subwords([sentences], tokenizer, max_length=max_length, truncation=True)
    if not cut.is_cut.any():
        return sentences
    whole = collate_subwords([sentences], tokenizer)
    counts = [batch.words[batch.is_word].bincount(minlength=int(whole.num_words)) for batch in (whole, cut)]
    kept = torch.eq(*counts).split([len(sentence) for sentence in sentences])
    return tuple(
        sentence.truncated(max(1, int(words.cumprod(0).sum()))) for sentence, words in zip(sentences, kept, strict=True)
    )
