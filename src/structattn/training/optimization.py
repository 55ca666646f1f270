"""The optimizer and the learning rate schedule."""

import math
from typing import Any

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

from structattn.training.optimization_config import OptimizationConfig


def build_optimizer(model: nn.Module, config: OptimizationConfig) -> torch.optim.Optimizer:
    """An optimizer with weight decay on matrices only, and separate learning rates for word vectors and a backbone.

    Word vectors and parameters of one axis do not decay. With learning rate 0, word vectors get no gradients.
    """
    kinds: dict[tuple[str, bool], list[nn.Parameter]] = {}
    backbones = {
        id(parameter)
        for backbone in model.modules()
        if getattr(backbone, "is_pretrained", False)
        for parameter in backbone.parameters()
    }
    seen: set[int] = set()
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            if id(parameter) in seen:
                continue
            seen.add(id(parameter))
            is_vectors = hasattr(module, "load_vectors") and name == "weight"
            if is_vectors:
                parameter.requires_grad_(parameter.requires_grad and config.embedding_lr_scale > 0)
            if parameter.requires_grad:
                part = "vectors" if is_vectors else "backbone" if id(parameter) in backbones else "rest"
                decays = not (is_vectors or parameter.ndim < 2 or "bias" in name)
                kinds.setdefault((part, decays), []).append(parameter)
    rate, factors = (
        config.learning_rate,
        {"rest": 1.0, "backbone": config.backbone_lr_scale, "vectors": config.embedding_lr_scale},
    )
    groups: list[dict[str, Any]] = [
        {"params": kinds[part, decays], "weight_decay": config.weight_decay * decays, "lr": rate * factor}
        for part, factor in factors.items()
        for decays in (True, False)
        if (part, decays) in kinds
    ]
    parameters = [parameter for group in groups for parameter in group["params"]]
    # One kernel over all parameters instead of several per parameter: most of a small model's step is overhead.
    if config.optimizer == "adam":
        return torch.optim.Adam(groups, lr=rate, fused=True)
    if config.optimizer == "adamw":
        return torch.optim.AdamW(groups, lr=rate, fused=True)
    if config.optimizer == "adagrad":
        # The sum starts at 0.1, as in the code of Kim et al. (2017); from zero, the first steps have the rate's length.
        fused = parameters[0].device.type == "cpu" or None
        return torch.optim.Adagrad(groups, lr=rate, initial_accumulator_value=0.1, fused=fused)
    if config.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=rate, momentum=config.momentum, fused=True)
    # TensorFlow's values, which DiSAN used; torch's defaults are .9 and 1e-6.
    return torch.optim.Adadelta(groups, lr=rate, rho=0.95, eps=1e-8)


def build_schedule(optimizer: torch.optim.Optimizer, config: OptimizationConfig, *, num_steps: int) -> LambdaLR:
    """The learning rate as a function of the step: warm-up, then constant or falling."""
    warmup = round(config.warmup * num_steps) if config.warmup < 1 else int(config.warmup)

    def factor(step: int) -> float:
        if config.schedule == "triangular":
            return min((step + 1) / max(1, warmup), 1 - (step + 1) / (num_steps + 1))
        if step < warmup:
            return (step + 1) / warmup
        if config.schedule == "linear":
            return (num_steps - step) / max(1, num_steps - warmup)
        if config.schedule == "inverse_sqrt":
            return math.sqrt(max(1, warmup) / (step + 1))
        if config.schedule == "halving":
            epoch = 1 + step * config.epochs // max(1, num_steps)
            return 0.5 ** max(0, (epoch - config.halve_from) // config.halve_every + 1)
        return 1.0

    return LambdaLR(optimizer, factor)
