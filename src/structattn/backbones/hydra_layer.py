"""The layer that HYDRA puts on top of a backbone: attention by the relation heads' scores, joined with the states.

HYDRA (arXiv 2109.05349): ``A^h = softmax_j(M^h)``, ``C = Concat_h(A^h V^h)``, ``H_{l+1} = layer(C, X)``. The paper
calls the last a transformer layer; ``LayerStyle`` names four readings of it.
"""

from pathlib import Path
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from structattn.backbones import RelationHeads
from structattn.backbones.hydra_config import HydraConfig
from structattn.backbones.relation_heads import INITIAL_DEVIATION, attention_of
from structattn.data.model_config import ADAPTER, header
from structattn.files.json_yaml import write_json

KIND, PEFT_TYPE = "hydra", "HYDRA"


class HydraLayer(nn.Module):
    """Attention by relation heads, and a style in which its output joins the states.

    Args:
        dim: width of the states.
        config: heads and style.

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

    def __init__(self, dim: int, config: HydraConfig) -> None:
        super().__init__()
        self.config = config
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
        """Attend and join; the weights are those before dropout, or ``None`` unless ``need_weights``."""
        scores = self.heads.scores(states)
        weights = attention_of(scores, mask)
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
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / ADAPTER.config, {**header(KIND), **self.describe()})

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


class FeedForwardBlock(nn.Module):
    """The second half of a post-norm transformer layer: ``LayerNorm(x + W2 gelu(W1 x))``, as in BERT.

    Args:
        dim: width of the states.
        hidden: width of the hidden layer.

    Example:
        >>> sum(parameter.numel() for parameter in FeedForwardBlock(768, 3072).parameters())
        4723968
    """

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
