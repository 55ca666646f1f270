"""Attention maps of backbones, over subwords rather than words; a pair is one text."""

from collections.abc import Mapping, Sequence
from typing import Any

from jaxtyping import Bool, Float
from torch import Tensor

from structattn.data.subword_batch import SubwordBatch
from structattn.layers.attention_map import SUBWORDS, AttentionMap
from structattn.syntax import Sentence

Weights = Float[Tensor, "batch head subword subword"]


def subword_maps(
    subwords: SubwordBatch,
    weights: Mapping[str, Weights],
    tokenizer: Any,
    texts: Sequence[tuple[Sentence, ...]],
    *,
    priors: Sequence[str] = ("head",),
    allowed: Bool[Tensor, "batch #head subword subword"] | None = None,
) -> list[AttentionMap]:
    """Weights of the modules of a backbone as maps, text by text.

    Args:
        subwords: the texts as the backbone read them.
        weights: from the name of a module to its weights.
        tokenizer: names the subwords.
        texts: one sentence each, or pairs that were read as one text.
        priors: the names of the heads' priors; one name is that of all heads.
        allowed: which keys a query may attend to.
    """
    maps = []
    first = 0
    for row, (ids, mask, text) in enumerate(zip(subwords.ids.cpu(), subwords.mask.cpu(), texts, strict=True)):
        pieces = tuple(tokenizer.convert_ids_to_tokens(ids[mask].tolist()))
        numbers, is_word = (part[row].cpu()[mask].tolist() for part in (subwords.words, subwords.is_word))
        words = tuple(number if real else None for number, real in zip(numbers, is_word, strict=True))
        for path, values in weights.items():
            heads = values[row].float().cpu()[:, mask][:, :, mask]
            names = priors if len(priors) == len(heads) else list(priors) * len(heads)
            head_names = tuple(
                f"{name.replace('/', ' · ')} {head + 1}" for head, name in enumerate(names[: len(heads)])
            )
            keys = None if allowed is None else allowed.expand(-1, len(heads), -1, -1)[row].cpu()[:, mask][:, :, mask]
            maps.append(
                AttentionMap(
                    path,
                    pieces,
                    pieces,
                    heads,
                    "attention",
                    head_names,
                    layer=SUBWORDS,
                    allowed=keys,
                    words=words,
                    sentence=text[0] if len(text) == 1 else None,
                    index=first,
                )
            )
        first += len(text)
    return maps
