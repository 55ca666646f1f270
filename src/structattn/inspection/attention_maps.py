"""Attention maps of a model, sentence by sentence."""

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol, cast

import torch
from torch import Tensor, nn

from structattn.data import Example, PhraseTrees, SentenceBatch, Vocabulary, collate
from structattn.errors import ConfigError
from structattn.layers.attention_map import AttentionMap
from structattn.layers.recording import AttentionRecord, EncoderPass, recording
from structattn.syntax import Sentence
from structattn.syntax.constituency_tree import Span
from structattn.tasks.answering import Item, to_sentences


class Batch(Protocol):
    """A batch of sentences or of a task: anything with ``sides``, the batches that an encoder reads."""

    @property
    def sides(self) -> tuple[SentenceBatch, ...]:
        """One batch for each sentence of an example."""


def attention_maps(
    model: nn.Module,
    sentences: Batch | Item | Sequence[Item],
    *,
    vocabulary: Vocabulary | None = None,
) -> list[AttentionMap]:
    """The attention maps of every attention-like module of a model, sentence by sentence.

    The model runs once in evaluation mode and without gradients. Afterwards all hooks are removed, and every module is
    back in its previous mode. Which modules are attention-like, ``recording`` says.

    Args:
        model: an encoder, a ``SentenceModel``, a loaded model, or any module that takes a ``SentenceBatch``. A model or
            a part of one may have maps of its own, by a method ``attention_maps``: those of backbones are over
            subwords, those of a model of the task ``attachment`` show its latent trees.
        sentences: a batch; or examples, sentences, texts and pairs of these, if the model has a vocabulary.
        vocabulary: for models that have none.

    Returns:
        For each sentence one map per module, in the order in which the modules ran. The sentences of a pair follow
        each other; a pair that is read as one text has its maps at its first sentence.

    Raises:
        ConfigError: if there are sentences but no vocabulary.
        MissingStructure: if a prior needs a structure that a sentence lacks.
        TypeError: if an item is none of the above.

    Example:
        >>> import structattn as sa
        >>> vocabulary = sa.Vocabulary(["a", "barks", "dog"])
        >>> encoder = sa.encoders.build("transformer", vocab_size=len(vocabulary), dim=8, num_heads=2)
        >>> first, *_ = attention_maps(encoder, "a dog barks", vocabulary=vocabulary)
        >>> first.rows, first.weights.shape, first.kind
        (('a', 'dog', 'barks'), torch.Size([2, 3, 3]), 'attention')
    """
    sentences = add_trees(model, sentences)
    if (maps := find_custom_maps(model, sentences)) is not None:
        return maps
    maps = []
    encoder = find_encoder(model)
    for sides, first_indices in _collate_passes(model, sentences, vocabulary):
        sides = tuple(side.to(_device(model)) for side in sides)
        with recording(model) as records:
            encoder(*sides)
        maps += make_maps(EncoderPass(sides, records), first_indices, model)
    return sorted(maps, key=lambda attention_map: attention_map.index)


def find_custom_maps(model: nn.Module, sentences: Batch | Item | Sequence[Item]) -> list[AttentionMap] | None:
    """The maps that a model, or a part of it, makes itself by a method ``attention_maps``; ``None`` if none does.

    The method takes texts, one or more sentences that are read in one pass; it returns ``None`` to decline.
    """
    parts = [module for module in model.modules() if hasattr(module, "attention_maps")]
    if not parts:
        return None
    texts = _list_texts(sentences)
    if not reads_together(model):
        texts = [(sentence,) for text in texts for sentence in text]
    for part in parts:
        maps: list[AttentionMap] | None = part.attention_maps(texts)  # type: ignore[operator]  # torch: a module
        if maps is not None:
            return maps
    return None


def find_encoder(model: nn.Module) -> nn.Module:
    """The module that reads batches of sentences: the encoder of a model of a task, or the model itself."""
    task_model = find_module_with("find_trees", model)
    return find_module_with("contextualizer", model) or model if task_model is None else task_model.encoder


def find_module_with(attribute: str, model: nn.Module) -> Any:
    """The first module that has an attribute, however deep inside the model; ``None`` if there is none."""
    return next((module for module in model.modules() if hasattr(module, attribute)), None)


def find_vocabulary(model: nn.Module) -> Vocabulary | None:
    """The vocabulary of a model, however deep inside it."""
    vocabularies = (getattr(module, "vocabulary", None) for module in model.modules())
    return next((vocabulary for vocabulary in vocabularies if hasattr(vocabulary, "words")), None)


def reads_together(model: nn.Module) -> bool:
    """Whether the model reads the sentences of a pair in one pass."""
    task_model = find_module_with("reads_together", model)
    return task_model is not None and bool(task_model.reads_together)


def list_items(sentences: Item | Sequence[Item]) -> list[Item]:
    """The items as a list; a single item becomes a list of one."""
    return [sentences] if isinstance(sentences, Example | Sentence | str | tuple) else list(sentences)


def add_trees(model: nn.Module, sentences: Batch | Item | Sequence[Item]) -> Batch | Sequence[Item]:
    """Items with the trees of the model's own parser, if it names one; batches are returned as they are."""
    if hasattr(sentences, "sides"):
        return sentences
    items = list_items(sentences)
    task_model = find_module_with("find_trees", model)
    if task_model is None or task_model.find_trees is None:
        return items
    examples: list[Item] = task_model.with_trees(
        [
            item if isinstance(item, Example) else Example(to_sentences(item, index), id=str(index))
            for index, item in enumerate(items)
        ]
    )
    return examples


def _list_texts(sentences: Batch | Item | Sequence[Item]) -> list[tuple[Sentence, ...]]:
    """One or two sentences for each text."""
    if (sides := getattr(sentences, "sides", None)) is not None:
        return list(zip(*(side.sentences for side in sides), strict=True))
    items = list_items(cast(Item | Sequence[Item], sentences))
    return [to_sentences(item, index) for index, item in enumerate(items)]


def _collate_passes(
    model: nn.Module, sentences: Batch | Item | Sequence[Item], vocabulary: Vocabulary | None
) -> list[tuple[tuple[SentenceBatch, ...], list[int]]]:
    """The input of each pass of an encoder, and for each row the index of its first sentence among all.

    A pass reads one batch, or one for each sentence of a pair if the model reads them together.
    """
    together = reads_together(model)
    sides: Sequence[SentenceBatch] | None = getattr(sentences, "sides", None)
    if sides is None:
        vocabulary = find_vocabulary(model) if vocabulary is None else vocabulary
        if vocabulary is None:
            raise ConfigError(
                f"{type(model).__name__} has no vocabulary: pass vocabulary=, or a batch made by structattn.collate"
            )
        task_model = find_module_with("prepare_sentence", model)
        prepare = PhraseTrees() if task_model is None else task_model.prepare_sentence
        texts = _list_texts(sentences)
        # Sentences that are read one by one are one batch, whichever text they belong to.
        rows = texts if together else [(sentence,) for text in texts for sentence in text]
        sides = [collate([prepare(sentence) for sentence in side], vocabulary) for side in zip(*rows, strict=True)]
        if not sides:
            return []
    first_indices = [row * len(sides) for row in range(len(sides[0]))]
    if together:
        return [(tuple(sides), first_indices)]
    return [((side,), [index + number for index in first_indices]) for number, side in enumerate(sides)]


def make_maps(encoder_pass: EncoderPass, first_indices: Sequence[int], model: nn.Module) -> list[AttentionMap]:
    """The maps of one pass of a model's encoder, text by text; each text begins at one of the indices."""
    # Those of a tagger leave out pooling, which it does not use.
    uses_pooling = getattr(model, "uses_pooling", True)
    records = [record for record in encoder_pass.records if record.kind != "pooling" or uses_pooling]
    maps = []
    for row, first_index in enumerate(first_indices):
        calls: Counter[nn.Module] = Counter()
        for record in records:
            calls[record.module] += 1
            call = calls[record.module]
            # Of two sentences that are read together, the first call of a module is about the first, later ones not.
            number = min(call, len(encoder_pass.batches)) - 1
            maps.append(_make_map(record, encoder_pass.batches, number, row=row, index=first_index + number, call=call))
    return maps


def _make_map(
    record: AttentionRecord, batches: Sequence[SentenceBatch], number: int, *, row: int, index: int, call: int
) -> AttentionMap:
    weights, features, allowed, batch = record.weights[row], None, None, batches[number]
    if record.kind == "attention":
        (rows, queries), (columns, keys) = (_name_axis(batches, number, row, size) for size in weights.shape[1:])
        weights = weights[:, queries][:, :, keys]
        if record.allowed is not None:
            allowed = record.allowed[row][:, queries][:, :, keys]
    else:
        words, positions = _name_axis(batches, number, row, weights.shape[0])
        features = weights[positions]
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
        _name_heads(record.module, len(weights)),
        layer=type(record.module).__name__,
        features=features,
        allowed=allowed,
        sentence=batch.sentences[row] if row < len(batch.sentences) else None,
        index=index,
    )


def _name_heads(module: nn.Module, num_heads: int) -> tuple[str, ...]:
    names = list(getattr(module, "head_names", ()))
    if len(names) != num_heads:
        names = [f"head {head + 1}" for head in range(num_heads)] if num_heads > 1 else [type(module).__name__]
    elif num_heads > 1 and len(set(names)) == 1:
        # Heads with the same prior are distinguished by their number.
        names = [f"head {head + 1}" if name == "none" else f"{name} {head + 1}" for head, name in enumerate(names)]
    return tuple(str(name).replace("/", " · ") for name in names)


def _name_axis(batches: Sequence[SentenceBatch], number: int, row: int, size: int) -> tuple[tuple[str, ...], Tensor]:
    """The names along an axis of weights and the real positions: words, then phrases, or the words of all batches."""
    if len(batches) > 1 and size == sum(batch.mask.shape[1] for batch in batches):
        sides = [_name_axis(batches, side, row, batch.mask.shape[1])[0] for side, batch in enumerate(batches)]
        return tuple(itertools.chain(*sides)), torch.cat([batch.mask[row] for batch in batches]).cpu().nonzero()[:, 0]
    batch = batches[number]
    mask = batch.mask[row].cpu()
    sentence = batch.sentences[row] if row < len(batch.sentences) else None
    words = [str(token) for token in batch.tokens[row, mask].tolist()] if sentence is None else list(sentence.words)
    if size == len(mask):
        return tuple(words), mask.nonzero().flatten()
    if batch.constituency is not None and size == batch.constituency.mask.shape[1]:
        spans = sentence.constituency.spans if sentence is not None and sentence.constituency is not None else ()
        positions = batch.constituency.mask[row].cpu().nonzero().flatten()
        return (*words, *name_phrases(words, spans)), positions
    return tuple(str(position) for position in range(size)), torch.arange(size)


def name_phrases(words: Sequence[str], spans: Sequence[Span]) -> list[str]:
    """A name for each phrase: its label, its first and its last word, ``NP (a … dog)``."""
    return [f"{label} ({' … '.join(words[i] for i in sorted({start, end - 1}))})" for label, start, end in spans]


def _device(model: nn.Module) -> torch.device:
    return next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
