"""Subwords of unusual texts and tokenizers: words that begin with white space, tokenizers that cut at the beginning."""

import copy

import pytest
import torch

import structattn as sa
from backbones import minilm_tokenizer
from structattn.data import collate_subwords


@pytest.mark.parametrize("space", ["\xa0", "\u3000", "\u2028"])
def test_words_of_white_space_have_no_subwords_and_others_keep_theirs(space):
    subwords = collate_subwords([sa.Sentence([space + "Who", "came", space, "?"])], minilm_tokenizer())
    plain = collate_subwords([sa.Sentence(["Who", "came", "?"])], minilm_tokenizer())
    assert torch.equal(subwords.ids, plain.ids)
    assert subwords.words[subwords.is_word].tolist() == [0, 1, 3]
    assert subwords.coverage == 3 / 4


@pytest.mark.parametrize("texts", [["one"], ["one", "two"]])
def test_texts_are_cut_at_their_end_whichever_side_the_tokenizer_cuts(texts):
    pair = tuple(sa.Sentence([f"{text}{number}" for number in range(20)]) for text in texts)
    tokenizer = copy.copy(minilm_tokenizer())
    tokenizer.truncation_side = "left"
    found, right = (
        collate_subwords([pair], one, max_length=20, truncation=True) for one in (tokenizer, minilm_tokenizer())
    )
    assert found.is_cut.tolist() == [True]
    assert torch.equal(found.ids, right.ids)
    assert torch.equal(found.words, right.words)
    assert tokenizer.truncation_side == "left"
