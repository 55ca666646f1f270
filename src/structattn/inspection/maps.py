"""Attention maps of a model, sentence by sentence."""

import itertools
from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from structattn.backbones import BackboneEmbedding, InjectedModel
from structattn.data import SentenceBatch, Vocabulary
from structattn.encoders.sentence_encoder import SentenceEncoder
from structattn.inspection.attention_map import AttentionMap
from structattn.inspection.backbones import injected_maps, text_maps
from structattn.inspection.items import batches_of, first_of, reads_together, texts_of, with_found_trees
from structattn.inspection.latent import latent_maps
from structattn.inspection.names import phrase_names
from structattn.inspection.recording import Pass, Record, recording
from structattn.tasks import AttachmentModel, TaggingModel, TaskBatch
from structattn.tasks.items import Item


def attention_maps(
    model: nn.Module,
    sentences: SentenceBatch | TaskBatch | Item | Sequence[Item],
    *,
    vocabulary: Vocabulary | None = None,
) -> list[AttentionMap]:
    """The attention maps of every attention-like module of a model, sentence by sentence.

    The model runs once in evaluation mode and without gradients. Afterwards all hooks are removed, and every module is
    back in its previous mode.

    Args:
        model: an encoder, a ``SentenceModel``, a loaded model, or any module that takes a ``SentenceBatch``. Maps of
            models whose sentence vector is one of a backbone's states are over subwords, see ``text_maps``, and so are
            those of a model whose heads were injected with priors, see ``injected_maps``. Maps of a model of latent
            trees show these trees, see ``latent_maps``.
        sentences: a batch; or examples, sentences, texts and pairs of these, if the model has a vocabulary.
        vocabulary: for models that have none.

    Returns:
        For each sentence one map per module, in the order in which the modules ran. The sentences of a pair follow
        each other; a pair that is read as one text has its maps at its first sentence.

    Raises:
        ConfigError: if there are sentences but no vocabulary.
        MissingStructure: if a prior wants a structure that a sentence lacks.
        TypeError: if an item is none of the above.

    Example:
        >>> import structattn as sa
        >>> vocabulary = sa.Vocabulary(["a", "barks", "dog"])
        >>> encoder = sa.encoders.build("transformer", vocab_size=len(vocabulary), dim=8, num_heads=2)
        >>> first, *_ = attention_maps(encoder, "a dog barks", vocabulary=vocabulary)
        >>> first.rows, first.weights.shape, first.kind
        (('a', 'dog', 'barks'), torch.Size([2, 3, 3]), 'attention')
    """
    sentences = with_found_trees(model, sentences)
    if isinstance(model, InjectedModel):
        return injected_maps(model, texts_of(sentences))
    reader = first_of(model, BackboneEmbedding)
    if reader is not None and reader.nodes == "text":
        texts = (
            texts_of(sentences) if reads_together(model) else [(one,) for text in texts_of(sentences) for one in text]
        )
        starts = [0, *itertools.accumulate(map(len, texts))]
        return text_maps(reader, texts, starts[: len(texts)]) if texts else []
    maps: list[AttentionMap] = []
    batches = batches_of(model, sentences, vocabulary)
    attachment = first_of(model, AttachmentModel)
    if attachment is not None:
        return [found for (batch,), places in batches for found in latent_maps(attachment, batch, places)]
    encoder = first_of(model, SentenceEncoder) or model
    for sides, places in batches:
        sides = tuple(side.to(_device(model)) for side in sides)
        with recording(model) as records:
            encoder(*sides)
        maps += maps_of_pass(Pass(sides, records), places, model)
    return sorted(maps, key=lambda found: found.index)


def maps_of_pass(one: Pass, places: Sequence[int], model: nn.Module) -> list[AttentionMap]:
    """The maps of one pass of an encoder, text by text; those of a tagger leave out pooling, which it does not use.

    If two sentences are read together, the first call of a module is about the first sentence, and later calls are
    about the second.

    Args:
        one: the pass.
        places: the index of each text's first sentence.
        model: the model that the encoder belongs to.
    """
    # A tagger answers from the states of words.
    records = [record for record in one.records if record.kind != "pooling" or not isinstance(model, TaggingModel)]
    maps = []
    for row, place in enumerate(places):
        calls: Counter[nn.Module] = Counter()
        for record in records:
            calls[record.module] += 1
            number = min(calls[record.module], len(one.batches)) - 1
            maps.append(_map_of(record, one.batches, number, row=row, place=place, call=calls[record.module]))
    return maps


def _map_of(
    record: Record, batches: Sequence[SentenceBatch], number: int, *, row: int, place: int, call: int
) -> AttentionMap:
    weights, features, allowed, batch = record.weights[row], None, None, batches[number]
    if record.kind == "attention":
        (rows, kept_rows), (columns, kept_columns) = (_axis(batches, number, row, size) for size in weights.shape[1:])
        weights = weights[:, kept_rows][:, :, kept_columns]
        if record.allowed is not None:
            allowed = record.allowed[row][:, kept_rows][:, :, kept_columns]
    else:
        words, kept = _axis(batches, number, row, weights.shape[0])
        features = weights[kept]
        # A sentence without words has no mean over its features, but it has no entries either.
        means = features.mean(-1) if features.shape[1] else features.new_zeros(len(features))
        pooling = record.kind == "pooling"
        rows, columns = (("sentence",), words) if pooling else (words, ("gate",))
        weights = means[None, None, :] if pooling else means[None, :, None]
    return AttentionMap(
        record.name if call == 1 else f"{record.name}#{call}",
        rows,
        columns,
        weights,
        record.kind,
        _head_names(record.module, len(weights)),
        layer=type(record.module).__name__,
        features=features,
        allowed=allowed,
        sentence=batch.sentences[row] if row < len(batch.sentences) else None,
        index=place + number,
    )


def _head_names(module: nn.Module, num_heads: int) -> tuple[str, ...]:
    names = list(getattr(module, "head_names", ()))
    if len(names) != num_heads:
        names = [f"head {head + 1}" for head in range(num_heads)] if num_heads > 1 else [type(module).__name__]
    elif num_heads > 1 and len(set(names)) == 1:
        # Heads with the same prior are distinguished by their number.
        names = [f"head {head + 1}" if name == "none" else f"{name} {head + 1}" for head, name in enumerate(names)]
    return tuple(str(name).replace("/", " · ") for name in names)


def _axis(batches: Sequence[SentenceBatch], number: int, row: int, size: int) -> tuple[tuple[str, ...], Tensor]:
    """The names along an axis of weights and the real positions: words, then phrases, or the words of all batches."""
    if len(batches) > 1 and size == sum(batch.mask.shape[1] for batch in batches):
        sides = [_axis(batches, side, row, batch.mask.shape[1])[0] for side, batch in enumerate(batches)]
        return tuple(itertools.chain(*sides)), torch.cat([batch.mask[row] for batch in batches]).cpu().nonzero()[:, 0]
    batch = batches[number]
    mask = batch.mask[row].cpu()
    sentence = batch.sentences[row] if row < len(batch.sentences) else None
    words = [str(token) for token in batch.tokens[row, mask].tolist()] if sentence is None else list(sentence.words)
    if size == len(mask):
        return tuple(words), mask.nonzero().flatten()
    if batch.constituency is not None and size == batch.constituency.mask.shape[1]:
        spans = sentence.constituency.spans if sentence is not None and sentence.constituency is not None else ()
        kept = batch.constituency.mask[row].cpu().nonzero().flatten()
        return (*words, *phrase_names(words, spans)), kept
    return tuple(str(position) for position in range(size)), torch.arange(size)


def _device(model: nn.Module) -> torch.device:
    return next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
