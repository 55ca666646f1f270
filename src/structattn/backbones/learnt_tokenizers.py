"""Tokenizers that are made from training data: of its words, or of subwords learnt from them.

They read words separated by single spaces, not the text that a sentence came from, so that a word is the same token
wherever it stands. The first token of a word is marked, as continuing a text needs it.
"""

import json
from collections.abc import Iterable
from typing import Any

from structattn.data import Vocabulary
from structattn.data.text_vocabulary import SubwordSplitter
from structattn.data.vocabulary import UNKNOWN_ID
from structattn.errors import require

_SPACE = "▁"
_NAMES = {"unk_token": "<unk>", "pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>"}


def word_tokenizer(vocabulary: Vocabulary) -> Any:
    """A tokenizer with a token for each word of a vocabulary; all other words are unknown."""
    tokens = ["<unk>", *(_SPACE + word for word in vocabulary.words[UNKNOWN_ID + 1 :])]
    model = {
        "type": "WordLevel",
        "vocab": {token: number for number, token in enumerate(tokens)},
        "unk_token": "<unk>",
    }
    return _tokenizer(model, normalizer={"type": "Lowercase"} if vocabulary.lowercase else None)


def subword_tokenizer(texts: Iterable[str], size: int) -> Any:
    """A tokenizer of at most ``size`` subwords learnt from texts by byte-pair encoding, see ``SubwordSplitter``."""
    learnt = json.loads(SubwordSplitter.train(texts, size).tokenizer)
    return _tokenizer(learnt["model"], normalizer=learnt["normalizer"])


def _tokenizer(model: dict[str, Any], *, normalizer: dict[str, Any] | None) -> Any:
    tokenizers, transformers = require("tokenizers", "train"), require("transformers", "train")
    space = {"type": "Metaspace", "replacement": _SPACE, "prepend_scheme": "always", "split": True}
    parts = {"model": model, "normalizer": normalizer, "pre_tokenizer": space, "decoder": space}
    empty: dict[str, Any] = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "post_processor": None,
    }
    inner = tokenizers.Tokenizer.from_str(json.dumps({**empty, **parts}))
    return transformers.PreTrainedTokenizerFast(tokenizer_object=inner, separates_words=True, **_NAMES)
