"""The layer that HYDRA puts on top of a backbone: attention by the relation heads' scores, joined with the states.

HYDRA (arXiv 2109.05349): ``A^h = softmax_j(M^h)``, ``C = Concat_h(A^h V^h)``, ``H_{l+1} = layer(C, X)``. The paper
calls the last a transformer layer; ``LayerStyle`` names four readings of it. It puts the layer on top; transformers has
no place for a layer between two others, so a hook inserts it there for one call.
"""

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from structattn.backbones.hydra_config import HydraConfig
from structattn.backbones.relation_heads import INITIAL_DEVIATION, RelationHeads, relation_attention
from structattn.errors import ConfigError

KIND, PEFT_TYPE = "hydra", "HYDRA"
_WRONG_AXES = "between the layers of {} states are not (batch, subword, dim), as heads read them"


class HydraLayer(nn.Module):
    """Attention by relation heads, and a style in which its output joins the states.

    Args:
        dim: width of the states.
        config: heads and style.
        is_causal: attend to no later state, as on a decoder; the heads' scores are of all pairs nevertheless.

    Raises:
        ValueError: if ``dim`` is not a multiple of the number of heads and the configuration has no ``head_dim``, or
            if ``residual``, which adds without a map, is given heads of another total width.

    Example:
        >>> layer = HydraLayer(768, HydraConfig(layer_style="residual"))
        >>> sum(parameter.numel() for parameter in layer.parameters())
        1771776
        >>> states, mask = torch.ones(1, 3, 768), torch.tensor([[True, True, False]])
        >>> layer(states, mask)[0].shape
        torch.Size([1, 3, 768])
    """

    weights_axes: ClassVar[str] = "head query key"
    folder_option: ClassVar[str] = "adapter"

    def __init__(self, dim: int, config: HydraConfig, *, is_causal: bool = False) -> None:
        super().__init__()
        self.config = config
        self.is_causal = is_causal
        self.style = config.layer_style
        self.dropout = config.dropout
        if config.num_heads is None:
            raise ValueError("HydraLayer expects a number of heads, got None")
        self.heads = RelationHeads(dim, config.num_heads, config.head_dim)
        width = self.heads.num_heads * self.heads.head_dim
        if self.style == "residual" and width != dim:
            raise ValueError(
                f"layer_style 'residual' adds the heads' output to the states, which needs heads of width {dim} in "
                f"all; got {config.num_heads} heads of width {self.heads.head_dim}"
            )
        self.value = initialised_linear(dim, width)
        self.output = None if self.style == "residual" else initialised_linear(width, dim)
        self.gate = nn.Parameter(torch.tensor(float(config.gate_init))) if self.style == "gated" else None
        if self.output is not None and self.gate is not None and config.gate_init:
            # One of the two factors must start away from 0, or neither learns.
            nn.init.zeros_(self.output.weight)
        is_normed = self.style in ("attention", "transformer")
        self.norm = nn.LayerNorm(dim) if is_normed else None
        self.ffn = FeedForwardBlock(dim, config.feed_forward_dim or 4 * dim) if self.style == "transformer" else None

    def forward(
        self, states: Float[Tensor, "batch node dim"], mask: Bool[Tensor, "batch node"], *, need_weights: bool = False
    ) -> tuple[Float[Tensor, "batch node dim"], Float[Tensor, "batch head node node"] | None]:
        """Attend and join.

        Args:
            states: what the heads read.
            mask: which of them are real.
            need_weights: also return the weights, as they are before dropout.
        """
        scores = self.heads.scores(states)
        weights = relation_attention(scores, mask, is_causal=self.is_causal)
        values = self.value(states).unflatten(-1, (self.heads.num_heads, self.heads.head_dim)).transpose(1, 2)
        dropped = F.dropout(weights, self.dropout, self.training).to(values.dtype)
        heads = (dropped @ values).transpose(1, 2).flatten(2)
        update = F.dropout(heads if self.output is None else self.output(heads), self.dropout, self.training)
        joined = states + (update if self.gate is None else self.gate * update)
        if self.norm is not None:
            joined = self.norm(joined)
        if self.ffn is not None:
            joined = self.ffn(joined, dropout=self.dropout)
        return joined, weights if need_weights else None

    def save_skeleton(self, folder: Path) -> None:
        """Write the layer's configuration, without parameters, as in an adapter folder."""
        from structattn.data.model_config import ADAPTER, make_header
        from structattn.files.json_yaml import write_json
        from structattn.files.urls import check_local

        check_local(folder).mkdir(parents=True, exist_ok=True)
        write_json(folder / ADAPTER.config, {**make_header(KIND), **self.describe()})

    def describe(self) -> dict[str, Any]:
        """The part of an adapter's configuration that says how to build this layer."""
        return {
            "peft_type": PEFT_TYPE,
            "task_type": None,
            "inference_mode": True,
            "hidden_size": self.value.in_features,
            "head_dim": self.heads.head_dim,
            "bias": True,
            "saved_parts": [],
            "hydra": self.config.to_dict(),
        }

    @property
    def parts(self) -> dict[str, Tensor]:
        """All parameters by the names they have in an adapter file, such as ``query.weight``."""
        return {name.removeprefix("heads."): tensor for name, tensor in self.state_dict().items()}

    def fingerprints(self) -> dict[str, str]:
        """A SHA-256 of each parameter that has values, by the same names."""
        parts = {name: tensor for name, tensor in self.parts.items() if not tensor.is_meta}
        return {name: hashlib.sha256(tensor_bytes(tensor)).hexdigest() for name, tensor in parts.items()}


class FeedForwardBlock(nn.Module):
    """The second half of a post-norm transformer layer: ``LayerNorm(x + W2 gelu(W1 x))``, as in BERT."""

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.inner = initialised_linear(dim, hidden)
        self.outer = initialised_linear(hidden, dim)
        self.norm = nn.LayerNorm(dim)

    def forward(self, states: Float[Tensor, "*batch dim"], *, dropout: float = 0.0) -> Float[Tensor, "*batch dim"]:
        """Transform every state; ``dropout`` applies in training mode."""
        update = F.dropout(self.outer(F.gelu(self.inner(states))), dropout, self.training)
        transformed: Tensor = self.norm(states + update)
        return transformed


def initialised_linear(inputs: int, outputs: int) -> nn.Linear:
    """A linear map with the initialisation of BERT (Devlin et al. 2019): ``N(0, 0.02)``, biases zero."""
    linear = nn.Linear(inputs, outputs)
    nn.init.normal_(linear.weight, std=INITIAL_DEVIATION)
    nn.init.zeros_(linear.bias)
    return linear


def tensor_bytes(tensor: Tensor) -> bytes:
    """The values of a tensor, for a checksum."""
    content: bytes = tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes()
    return content


def find_layer_above(backbone: nn.Module, layer: int) -> int | None:
    """The number of the backbone's layer that reads the HYDRA layer's output; ``None`` if that is on top.

    ``layer`` is an index into the backbone's hidden states: 0 is the embeddings, -1 the last layer.
    """
    settings: Any = backbone.config
    count = int(settings.num_hidden_layers)
    if not -count - 1 <= layer <= count:
        raise ConfigError(f"layer: expected -{count + 1} to {count} for this backbone, got {layer}")
    above = layer % (count + 1)
    if above == count:
        return None
    # Shapes would not show this where a batch has as many texts as subwords.
    if settings.model_type == "xlnet":
        raise ConfigError(f"layer: {_WRONG_AXES.format('XLNet')}; use -1, the place on top")
    return above


def run_with_layer(
    backbone: nn.Module,
    layer: HydraLayer,
    inputs: Mapping[str, Any],
    mask: Bool[Tensor, "batch subword"],
    *,
    need_weights: bool = False,
) -> tuple[Any, Float[Tensor, "batch subword dim"], Float[Tensor, "batch head subword subword"] | None]:
    """Run a backbone with the layer where its configuration says; ``inputs`` are keyword arguments of the backbone.

    Returns the backbone's output, which depends on the layer, the states that the layer read, and its weights.
    """
    above = find_layer_above(backbone, layer.config.layer)
    inputs = {**inputs, "return_dict": True}
    if above is None:
        output = backbone(**inputs)
        states: Tensor = output.last_hidden_state
        output.last_hidden_state, weights = layer(states, mask, need_weights=need_weights)
        return output, states, weights
    calls: list[tuple[Tensor, Tensor | None]] = []

    def join(states: Tensor) -> Tensor:
        if states.shape[:2] != mask.shape:
            raise ConfigError(f"layer: {_WRONG_AXES.format(type(backbone).__name__)}; use -1, the place on top")
        joined: Tensor
        joined, weights = layer(states, mask, need_weights=need_weights)
        calls.append((states, weights))
        return joined

    with _inserted(backbone, above, join):
        output = backbone(**inputs)
    return output, *calls[0]


@contextlib.contextmanager
def _inserted(backbone: nn.Module, number: int, function: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Within the block, apply a function to the input of the backbone's layer of this number."""

    def replace(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if args:
            return (function(args[0]), *args[1:]), kwargs
        return args, {**kwargs, "hidden_states": function(kwargs["hidden_states"])}

    module = _find_layers(backbone)[number]
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


def _find_layers(backbone: nn.Module) -> nn.ModuleList:
    """The backbone's layers, from the first to the last."""
    settings: Any = backbone.config
    for module in backbone.modules():
        if isinstance(module, nn.ModuleList) and len(module) == settings.num_hidden_layers:
            return module
    raise ConfigError(
        f"layer: {type(backbone).__name__} has no list of {settings.num_hidden_layers} layers to put heads between; "
        "use -1, the place on top"
    )
