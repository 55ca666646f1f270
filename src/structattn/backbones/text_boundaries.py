"""Texts between a beginning and an end, as a language model reads them, and the trees of these."""

from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Int64
from torch import Tensor

from structattn.data import SubwordBatch
from structattn.errors import ConfigError
from structattn.syntax import ConstituencyTree, DependencyTree, Sentence

BEGINNING, END = "<s>", "</s>"


def boundary_tokens(tokenizer: Any, *, with_end: bool) -> tuple[int, int | None]:
    """The tokens for the beginning and the end of a text; a ``ConfigError`` for a tokenizer without them."""
    first = tokenizer.bos_token_id if tokenizer.bos_token_id is not None else tokenizer.cls_token_id
    last = tokenizer.eos_token_id if tokenizer.eos_token_id is not None else tokenizer.sep_token_id
    for name, token in (("beginning", first), ("end", last if with_end else 0)):
        if token is None:
            raise ConfigError(
                f"{type(tokenizer).__name__} has no token for the {name} of a text, which is scored with it"
            )
    return first, last if with_end else None


def add_boundaries(
    subwords: SubwordBatch, tokenizer: Any, *, with_end: bool, max_length: int | None = None
) -> tuple[SubwordBatch, Int64[Tensor, "batch subword"]]:
    """Texts between tokens for the beginning and perhaps the end, and the word each token counts for.

    The beginning is word 0, the end the last one, padding -1. A token of no word counts for the word after it.
    """
    first, last = boundary_tokens(tokenizer, with_end=with_end)
    is_special = torch.isin(subwords.ids, torch.tensor(tokenizer.all_special_ids))
    is_kept = subwords.mask & (subwords.is_word | ~is_special)
    rows, width = len(subwords), int(is_kept.sum(1).max()) + 1 + with_end
    ids, words, owners = (torch.full((rows, width), start) for start in (0, 0, -1))
    mask, is_word = (torch.zeros(rows, width, dtype=torch.bool) for _ in range(2))
    for row, kept in enumerate(is_kept):
        count, num_words = int(kept.sum()), int(subwords.num_words[row])
        inner = slice(1, count + 1)
        ids[row, 0], ids[row, inner] = first, subwords.ids[row, kept]
        words[row, inner], is_word[row, inner] = subwords.words[row, kept], subwords.is_word[row, kept]
        following = torch.where(is_word[row, inner], words[row, inner], num_words).flip(0).cummin(0).values.flip(0)
        owners[row, 0], owners[row, inner] = 0, following.clamp(max=num_words - 1) + 1
        mask[row, : count + 1 + with_end] = True
        if last is not None:
            ids[row, count + 1], owners[row, count + 1] = last, num_words + 1
    lengths = mask.sum(1)
    if max_length is not None and int(lengths.max()) > max_length:
        row = int((lengths > max_length).nonzero()[0])
        words_of_text = " ".join(subwords.sentences[row][0].words[:6])
        raise ConfigError(
            f"the text {words_of_text!r} ... has {int(lengths[row])} subwords with its beginning and end, expected at "
            f"most {max_length}, which is what the model reads",
            index=row,
        )
    segments = torch.zeros_like(ids)
    return replace(subwords, ids=ids, mask=mask, words=words, is_word=is_word, segments=segments), owners


def with_boundaries(sentence: Sentence) -> Sentence:
    """A sentence with a beginning and an end as words, which hang on the root of its dependency tree.

    In a phrase tree they stand beside the whole sentence under a new root.
    """
    count = len(sentence)
    words = [BEGINNING, *sentence.words, END]
    dependency, constituency = sentence.dependency, sentence.constituency
    if dependency is not None:
        heads = dependency.heads
        root = heads.index(0) + 2 if 0 in heads else 0
        labels = None if dependency.labels is None else ["", *dependency.labels, ""]
        # An empty sentence has two roots.
        dependency = DependencyTree([root, *(head and head + 1 for head in heads), root], labels)
    if constituency is not None:
        spans = [("", 0, count + 2), *((label, start + 1, end + 1) for label, start, end in constituency.spans)]
        constituency = ConstituencyTree(words, spans, tags=[None, *constituency.tags, None])
    tags = None if sentence.tags is None else ["", *sentence.tags, ""]
    relations = {
        name: [[0.0] * (count + 2), *([0.0, *row, 0.0] for row in matrix), [0.0] * (count + 2)]
        for name, matrix in sentence.relations.items()
    }
    return Sentence(words, tags, dependency, constituency, relations=relations, metadata={})
