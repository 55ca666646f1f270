"""Facts about a Hugging Face model that its configuration does not state.

Where architectures differ, the facts are read from the model's own embedding tables and attention modules, so that a
new architecture needs no entry in a list.
"""

import inspect
from typing import Any

from torch import nn

from structattn.errors import require

_TABLES_OF_TYPES = ("token_type", "seg_embed")


def takes_token_types(model: nn.Module) -> bool:
    """Whether a model has an embedding table of its own for ``token_type_ids``.

    GPT-2 and its relatives take them as well, but add the word embeddings of tokens 0 and 1.

    Example:
        >>> from transformers import BertConfig, BertModel, GPT2Config, GPT2Model
        >>> size = {"vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
        >>> takes_token_types(BertModel(BertConfig(**size))), takes_token_types(GPT2Model(GPT2Config(**size)))
        (True, False)
    """
    if "token_type_ids" not in inspect.signature(model.forward).parameters:
        return False
    return any(table in name for name, _ in model.named_parameters() for table in _TABLES_OF_TYPES)


def has_text_at_end(model: nn.Module) -> bool:
    """Whether the last token's state represents the text, rather than the first token's.

    This holds for decoders, where a token attends only to those before it, and for XLNet, which has its ``[CLS]`` at
    the end. The attention modules say whether they are causal; where they do not, the model's type decides: a decoder
    is registered as a causal language model and not as a masked one.

    Example:
        >>> from transformers import BertConfig, BertModel, GPT2Config, GPT2Model
        >>> size = {"vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
        >>> has_text_at_end(BertModel(BertConfig(**size))), has_text_at_end(GPT2Model(GPT2Config(**size)))
        (False, True)
    """
    said = [bool(module.is_causal) for module in model.modules() if hasattr(module, "is_causal")]
    if said:
        return any(said)
    transformers, kind = require("transformers", "train"), type(model.config)
    return kind in transformers.MODEL_FOR_CAUSAL_LM_MAPPING and kind not in transformers.MODEL_FOR_MASKED_LM_MAPPING


def max_input_length(model: nn.Module, tokenizer: Any) -> int | None:
    """The maximum number of subwords that a backbone reads; ``None`` if neither configuration nor tokenizer gives one.

    RoBERTa's positions start after its padding id, so two fewer fit than its configuration says. The padding id is that
    of the position table, which covers RoBERTa's relatives as well.

    Example:
        >>> from types import SimpleNamespace as Named
        >>> from transformers import RobertaConfig, RobertaModel
        >>> size = {"vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
        >>> max_input_length(RobertaModel(RobertaConfig(**size, max_position_embeddings=514)), Named())
        512
    """
    limits = []
    config: Any = model.config
    positions = getattr(config, "max_position_embeddings", None)
    if positions is not None and positions > 0:
        limits.append(int(positions) - _first_position(model))
    known = getattr(tokenizer, "model_max_length", None)
    if known is not None and known < 10**9:  # transformers writes "no limit" as a very large number
        limits.append(int(known))
    return min(limits, default=None)


def _first_position(model: nn.Module) -> int:
    tables = (module for name, module in model.named_modules() if name.endswith("position_embeddings"))
    padding = (getattr(table, "padding_idx", None) for table in tables)
    return max((index + 1 for index in padding if index is not None), default=0)
