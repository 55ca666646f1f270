"""HYDRA as an encoder among the others, so that ``structattn train`` fine-tunes it on any task.

HYDRA (arXiv 2109.05349), fine-tuning: the sentence vector is the ``[CLS]`` row of the layer's output. Its controls are
options here: fresh heads, frozen heads, a frozen backbone.
"""

from typing import Literal

from jaxtyping import Float
from torch import Tensor, nn

from structattn.data import SubwordBatch
from structattn.encoders.backbone import ClsState, cls_encoder, read_backbone
from structattn.encoders.sentence_encoder import SentenceEncoder
from structattn.layers import PretrainedBackbone
from structattn.pretrained.adapter import config_of, read_config, weights_file
from structattn.pretrained.hydra import add_heads
from structattn.pretrained.layer import HydraLayer
from structattn.pretrained.placement import place_of, read_with
from structattn.syntax.errors import ConfigError


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
    vocab_size: int,
    *,
    backbone: str = "",
    adapter: str = "",
    heads: Literal["trained", "random"] = "trained",
    frozen: Literal["nothing", "backbone", "heads"] = "nothing",
    keep_states: bool = False,
    dropout: float = 0.1,
) -> SentenceEncoder:
    """A pretrained backbone with HYDRA heads on top; needs no parser.

    Args:
        vocab_size: unused; the backbone has its own subwords.
        backbone: folder of a Hugging Face encoder with a fast tokenizer.
        adapter: folder that ``structattn hydra pretrain`` wrote.
        heads: ``random`` takes the adapter's layer with fresh heads, the control for their pretraining.
        frozen: which parameters are frozen: ``nothing``, the ``backbone``, or the ``heads`` (queries and keys).
        keep_states: as in ``backbone``, for heads on top of a frozen backbone.
        dropout: on the sentence vector.

    Raises:
        ConfigError: without one of the folders, or if the heads do not fit the backbone.

    Example:
        >>> hydra(2, backbone="somewhere")
        Traceback (most recent call last):
        ...
        structattn.syntax.errors.ConfigError: option 'adapter': expected a folder that structattn hydra pretrain wrote,
        got none
    """
    if heads not in ("trained", "random") or frozen not in ("nothing", "backbone", "heads"):
        raise ConfigError(
            f"expected heads to be 'trained' or 'random' and frozen 'nothing', 'backbone' or 'heads', "
            f"got {heads!r} and {frozen!r}"
        )
    if not adapter:
        raise ConfigError("option 'adapter': expected a folder that structattn hydra pretrain wrote, got none")
    content = read_config(adapter)
    source = read_backbone(backbone, is_frozen=frozen == "backbone", keep_states=keep_states)
    config = config_of(content, source.model, adapter)
    # A saved model holds the layer's parameters itself, and only the description of its adapter.
    is_fresh = heads == "random" or not weights_file(adapter).is_file()
    if place_of(source.model, config.layer) is not None and keep_states:
        raise ConfigError("keep_states: heads between two layers change the backbone's states; leave it out")
    layer = HydraLayer(source.dim, config) if is_fresh else add_heads(source.model, adapter).hydra
    if frozen == "heads":
        layer.heads.requires_grad_(False)
    return cls_encoder(source, HydraReader(layer), dropout=dropout)


def heads_of(encoder: nn.Module) -> tuple[PretrainedBackbone, HydraLayer]:
    """The backbone and the HYDRA layer of an encoder that ``hydra`` made.

    Raises:
        ConfigError: for another encoder.

    Example:
        >>> heads_of(nn.Identity())
        Traceback (most recent call last):
        ...
        structattn.syntax.errors.ConfigError: expected a model with HYDRA heads, got one with the encoder Identity
    """
    embedder = getattr(encoder, "embedder", None)
    if not isinstance(embedder, ClsState) or not isinstance(embedder.reader, HydraReader):
        what = type(encoder if embedder is None else embedder).__name__
        raise ConfigError(f"expected a model with HYDRA heads, got one with the encoder {what}")
    return embedder.backbone, embedder.reader.layer
