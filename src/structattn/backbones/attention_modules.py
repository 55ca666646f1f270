"""The self-attention modules of the models of transformers that can have priors in their heads."""

from typing import Any

from torch import nn

from structattn.errors import ConfigError

# The class of a model type's self-attention: its output is (states, weights) and it takes ``attention_mask``.
ATTENTION_CLASSES = {
    "bert": "BertSelfAttention",
    "roberta": "RobertaSelfAttention",
    "xlm-roberta": "XLMRobertaSelfAttention",
    "camembert": "CamembertSelfAttention",
    "electra": "ElectraSelfAttention",
    "distilbert": "DistilBertSelfAttention",
    "modernbert": "ModernBertAttention",
    "gpt2": "GPT2Attention",
    "llama": "LlamaAttention",
    "qwen2": "Qwen2Attention",
    "qwen3": "Qwen3Attention",
    "mistral": "MistralAttention",
    "gemma3_text": "Gemma3Attention",
}


def attention_modules(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """The self-attention modules of a model and their paths, from the first layer to the last."""
    config: Any = model.config
    name = ATTENTION_CLASSES[config.model_type]
    modules = [
        (path, module)
        for path, module in model.named_modules()
        if type(module).__name__ == name and not getattr(module, "is_cross_attention", False)
    ]
    if not modules:
        raise ConfigError(f"{type(model).__name__} has no {name}; this version of transformers is not supported")
    return modules
