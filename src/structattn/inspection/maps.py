"""Attention maps of a model, sentence by sentence."""

import itertools
from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from structattn.data import SentenceBatch, Vocabulary
from structattn.inspection.items import Batch, batches_of, first_with, reads_together, texts_of, with_found_trees
from structattn.inspection.names import phrase_names
from structattn.layers.attention_map import AttentionMap
from structattn.layers.recording import AttentionRecord, EncoderPass, recording
from structattn.tasks.items import Item


def attention_maps(
    model: nn.Module,
    sentences: Batch | Item | Sequence[Item],
    *,
    vocabulary: Vocabulary | None = None,
) -> list[AttentionMap]:
    """The attention maps of every attention-like module of a model, sentence by sentence.

    The model runs once in evaluation mode and without gradients. Afterwards all hooks are removed, and every module is
    back in its previous mode.

    Args:
        model: an encoder, a ``SentenceModel``, a loaded model, or any module that takes a ``SentenceBatch``. A model or
            a part of one, may have maps of its own, by a method ``attention_maps``: those of backbones are over
            subwords, those of a model of the task ``attachment`` show its latent trees.
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
    if (maps := own_maps(model, sentences)) is not None:
        return maps
    maps = []
    encoder = encoder_in(model)
    batches = batches_of(model, sentences, vocabulary)
    for sides, places in batches:
        sides = tuple(side.to(_device(model)) for side in sides)
        with recording(model) as records:
            encoder(*sides)
        maps += maps_of_pass(EncoderPass(sides, records), places, model)
    return sorted(maps, key=lambda found: found.index)


def own_maps(model: nn.Module, sentences: Batch | Item | Sequence[Item]) -> list[AttentionMap] | None:
    """The maps of a model that has its own, by a method ``attention_maps`` of the model or of a part of it.

    The method takes texts, one or more sentences that are read in one pass; it returns ``None`` to decline.
    """
    parts = [module for module in model.modules() if hasattr(module, "attention_maps")]
    if not parts:
        return None
    texts = texts_of(sentences)
    if not reads_together(model):
        texts = [(sentence,) for text in texts for sentence in text]
    for part in parts:
        maps: list[AttentionMap] | None = part.attention_maps(texts)  # type: ignore[operator]  # torch: a module
        if maps is not None:
            return maps
    return None


def encoder_in(model: nn.Module) -> nn.Module:
    """The module that reads batches of sentences: the encoder of a model of a task, or the model itself."""
    task_model = first_with(model, "find_trees")
    return first_with(model, "contextualizer") or model if task_model is None else task_model.encoder


def maps_of_pass(one: EncoderPass, places: Sequence[int], model: nn.Module) -> list[AttentionMap]:
    """The maps of one pass of an encoder, text by text; those of a tagger leave out pooling, which it does not use.

    If two sentences are read together, the first call of a module is about the first sentence, and later calls are
    about the second.

    Args:
        one: the pass.
        places: the index of each text's first sentence.
        model: the model that the encoder belongs to.
    """
    uses_pooling = getattr(model, "uses_pooling", True)
    records = [record for record in one.records if record.kind != "pooling" or uses_pooling]
    maps = []
    for row, place in enumerate(places):
        calls: Counter[nn.Module] = Counter()
        for record in records:
            calls[record.module] += 1
            number = min(calls[record.module], len(one.batches)) - 1
            maps.append(_map_of(record, one.batches, number, row=row, place=place, call=calls[record.module]))
    return maps


def _map_of(
    record: AttentionRecord, batches: Sequence[SentenceBatch], number: int, *, row: int, place: int, call: int
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
