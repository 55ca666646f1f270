"""Where in a backbone the HYDRA layer is placed: on top of it, or between two of its layers.

HYDRA (arXiv 2109.05349) puts its layer on top. transformers has no place for such a layer, so between two layers a hook
inserts it for one call.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from structattn.backbones.hydra_layer import HydraLayer
from structattn.errors import ConfigError

_WRONG_AXES = "between the layers of {} states are not (batch, subword, dim), as heads read them"


def place_of(backbone: nn.Module, layer: int) -> int | None:
    """The number of the backbone's layer that reads the HYDRA layer's output; ``None`` if that is on top.

    Args:
        backbone: an encoder of transformers.
        layer: an index into its hidden states: 0 is the embeddings, -1 the last layer.

    Raises:
        ConfigError: if the backbone has no such states, or they are between layers of XLNet.

    Example:
        >>> from transformers import BertConfig, BertModel
        >>> backbone = BertModel(BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=3, num_attention_heads=2))
        >>> place_of(backbone, 1), place_of(backbone, -2), place_of(backbone, -1)
        (1, 2, None)
    """
    settings: Any = backbone.config
    count = int(settings.num_hidden_layers)
    if not -count - 1 <= layer <= count:
        raise ConfigError(f"layer: expected -{count + 1} to {count} for this backbone, got {layer}")
    place = layer % (count + 1)
    if place == count:
        return None
    # Shapes would not show this where a batch has as many texts as subwords.
    if settings.model_type == "xlnet":
        raise ConfigError(f"layer: {_WRONG_AXES.format('XLNet')}; use -1, the place on top")
    return place


def read_with(
    backbone: nn.Module,
    layer: HydraLayer,
    inputs: Mapping[str, Any],
    mask: Bool[Tensor, "batch subword"],
    *,
    need_weights: bool = False,
) -> tuple[Any, Float[Tensor, "batch subword dim"], Float[Tensor, "batch head subword subword"] | None]:
    """Run a backbone with the layer in its place.

    Args:
        backbone: an encoder of transformers.
        layer: reads the hidden states that its configuration names; the backbone's layers above read its output.
        inputs: keyword arguments of the backbone; ``return_dict`` is always ``True``.
        mask: which subwords are real.
        need_weights: whether the layer's attention weights are wanted.

    Returns:
        The backbone's output, whose ``last_hidden_state`` depends on the layer; the states that the layer read; its
            weights.

    Raises:
        ConfigError: if the backbone has no such layer, its layers cannot be found, or their states are not
            ``(batch, subword, dim)``.
    """
    place = place_of(backbone, layer.config.layer)
    inputs = {**inputs, "return_dict": True}
    if place is None:
        output = backbone(**inputs)
        states: Tensor = output.last_hidden_state
        output.last_hidden_state, weights = layer(states, mask, need_weights=need_weights)
        return output, states, weights
    seen: list[tuple[Tensor, Tensor | None]] = []

    def join(states: Tensor) -> Tensor:
        if states.shape[:2] != mask.shape:
            raise ConfigError(f"layer: {_WRONG_AXES.format(type(backbone).__name__)}; use -1, the place on top")
        joined: Tensor
        joined, weights = layer(states, mask, need_weights=need_weights)
        seen.append((states, weights))
        return joined

    with _inserted(backbone, place, join):
        output = backbone(**inputs)
    return output, *seen[0]


@contextlib.contextmanager
def _inserted(backbone: nn.Module, place: int, function: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Within the block, apply a function to the input of the backbone's layer number ``place``."""

    def replace(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if args:
            return (function(args[0]), *args[1:]), kwargs
        return args, {**kwargs, "hidden_states": function(kwargs["hidden_states"])}

    module = _layers_of(backbone)[place]
    if torch.compiler.is_compiling():  # torch.compile cannot trace the registration of a hook
        forward = module.forward

        def read(*args: Any, **kwargs: Any) -> Any:
            args, kwargs = replace(module, args, kwargs)
            return forward(*args, **kwargs)

        module.forward = read
        try:
            yield
        finally:
            module.__dict__.pop("forward", None)
        return
    hook = module.register_forward_pre_hook(replace, with_kwargs=True)
    try:
        yield
    finally:
        hook.remove()


def _layers_of(backbone: nn.Module) -> nn.ModuleList:
    """The backbone's layers, from the first to the last."""
    settings: Any = backbone.config
    for module in backbone.modules():
        if isinstance(module, nn.ModuleList) and len(module) == settings.num_hidden_layers:
            return module
    raise ConfigError(
        f"layer: {type(backbone).__name__} has no list of {settings.num_hidden_layers} layers to put heads between; "
        "use -1, the place on top"
    )
