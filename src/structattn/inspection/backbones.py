"""Attention maps of models on a backbone, over subwords rather than words; a pair is one text."""

from collections.abc import Mapping, Sequence
from typing import Any

from jaxtyping import Bool, Float
from torch import Tensor

from structattn.backbones import BackboneEmbedding, InjectedModel, PretrainedBackbone
from structattn.backbones.eager import computing_weights
from structattn.backbones.sgnet import InjectedReader
from structattn.data import SentenceBatch, SubwordBatch
from structattn.inspection.attention_map import AttentionMap
from structattn.inspection.recording import recording
from structattn.layers.modes import evaluating
from structattn.syntax import Sentence

Weights = Float[Tensor, "batch head subword subword"]
_Texts = Sequence[Sentence | tuple[Sentence, ...]]


def injected_maps(
    model: InjectedModel, texts: SentenceBatch | Sequence[Sentence | tuple[Sentence, ...]]
) -> list[AttentionMap]:
    """The weights of every layer with priors, text by text; rows and columns are subwords.

    ``sdpa`` computes no weights, so the model runs ``eager`` for this call and logs the change.

    Args:
        model: made by ``structattn.backbones.inject`` with a tokenizer.
        texts: sentences, or pairs that are read as one text.

    Raises:
        ConfigError: if the model has no tokenizer.
        MissingStructure: if a prior wants a tree that a sentence lacks.
    """
    subwords = model.tokenize(texts)
    read = texts.sentences if isinstance(texts, SentenceBatch) else texts
    return _injected_maps(model, subwords, model.tokenizer, read, range(len(subwords)))


def text_maps(
    embedder: BackboneEmbedding, texts: Sequence[tuple[Sentence, ...]], places: Sequence[int]
) -> list[AttentionMap]:
    """Attention of an encoder whose sentence vector is one of a backbone's states; rows and columns are subwords.

    The maps are those of the layer on the backbone, if there is one; of the layers with priors, if they are in the
    backbone's own heads; and otherwise of the last layer of the backbone, which then runs ``eager`` for this call and
    logs the change.

    Args:
        embedder: reads the texts.
        texts: one sentence each, or pairs that are read as one text.
        places: the index of each text.
    """
    backbone = embedder.backbone
    subwords = backbone.tokenize(texts, truncation=True)
    if isinstance(embedder.reader, InjectedReader):
        return _injected_maps(embedder.reader.injected[0], subwords, backbone.tokenizer, texts, places)
    if embedder.reader is None:
        found = {"backbone, last layer": last_weights(backbone, subwords)}
        return _maps(subwords, found, backbone.tokenizer, texts, places)
    with recording(embedder) as records:
        embedder.reader(backbone, subwords)
    allowed = records[0].allowed
    found = {record.name: record.weights for record in records}
    return _maps(subwords, found, backbone.tokenizer, texts, places, allowed=allowed)


def last_weights(backbone: PretrainedBackbone, subwords: SubwordBatch) -> Weights:
    """The attention weights of a backbone's last layer; ``sdpa`` has none, so it runs ``eager`` and logs the change."""
    with computing_weights(backbone.model), evaluating(backbone.model):
        weights: Tensor = backbone.model(**backbone.inputs(subwords), output_attentions=True).attentions[-1]
    return weights


def _injected_maps(
    model: InjectedModel, subwords: SubwordBatch, tokenizer: Any, texts: _Texts, places: Sequence[int]
) -> list[AttentionMap]:
    weights, allowed = model.subword_weights(subwords), model.attention_bias(subwords).allowed
    return _maps(subwords, weights, tokenizer, texts, places, priors=model.prior.names, allowed=allowed)


def _maps(
    subwords: SubwordBatch,
    weights: Mapping[str, Weights],
    tokenizer: Any,
    texts: _Texts,
    places: Sequence[int],
    *,
    priors: Sequence[str] = ("head",),
    allowed: Bool[Tensor, "batch #head subword subword"] | None = None,
) -> list[AttentionMap]:
    maps = []
    rows = zip(subwords.ids.cpu(), subwords.mask.cpu(), texts, places, strict=True)
    for row, (ids, mask, text, place) in enumerate(rows):
        sentence, *others = (text,) if isinstance(text, Sentence) else text
        names = tuple(tokenizer.convert_ids_to_tokens(ids[mask].tolist()))
        numbers, is_word = (part[row].cpu()[mask].tolist() for part in (subwords.words, subwords.is_word))
        words = tuple(number if real else None for number, real in zip(numbers, is_word, strict=True))
        for path, values in weights.items():
            heads = values[row].float().cpu()[:, mask][:, :, mask]
            shown = priors if len(priors) == len(heads) else list(priors) * len(heads)
            head_names = tuple(
                f"{name.replace('/', ' · ')} {head + 1}" for head, name in enumerate(shown[: len(heads)])
            )
            keys = None if allowed is None else allowed.expand(-1, len(heads), -1, -1)[row].cpu()[:, mask][:, :, mask]
            maps.append(
                AttentionMap(
                    path,
                    names,
                    names,
                    heads,
                    "attention",
                    head_names,
                    layer="subwords",
                    allowed=keys,
                    words=words,
                    sentence=None if others else sentence,
                    index=place,
                )
            )
    return maps
