"""Attention maps of stock models whose heads are told about structure: piece by piece, not word by word.

Separate from ``maps.py`` because these models read pieces and have none of our attention modules.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from structattn.data import SentenceBatch
from structattn.pretrained import InjectedModel
from structattn.syntax import Sentence

if TYPE_CHECKING:
    from structattn.inspection.maps import AttentionMap


def injected_maps(
    model: InjectedModel, texts: SentenceBatch | Sequence[Sentence | tuple[Sentence, ...]]
) -> "list[AttentionMap]":
    """The weights of every layer that is told something, text by text; rows and columns are pieces.

    ``sdpa`` computes no weights, so the model runs ``eager`` meanwhile and logs that it does.

    Args:
        model: made by ``structattn.pretrained.inject`` with a tokenizer.
        texts: sentences, or pairs that are read as one text.

    Raises:
        ConfigError: if the model has no tokenizer.
        MissingStructure: if a prior wants a tree that a sentence lacks.
    """
    from structattn.inspection.maps import AttentionMap

    pieces = model.tokenize(texts)
    weights = model.piece_weights(pieces)
    told = model.prior.names
    maps = []
    for row, (ids, mask) in enumerate(zip(pieces.ids.cpu(), pieces.mask.cpu(), strict=True)):
        names = tuple(model.tokenizer.convert_ids_to_tokens(ids[mask].tolist()))
        for path, values in weights.items():
            heads = values[row].float().cpu()[:, mask][:, :, mask]
            shown = told if len(told) == len(heads) else told * len(heads)
            heads_told = tuple(f"{name.replace('/', ' · ')} {head + 1}" for head, name in enumerate(shown))
            maps.append(AttentionMap(path, names, names, heads, "attention", heads_told, layer="injected", index=row))
    return maps
