"""Running a model once to see what it attends to.

Separate from the layers because a model needs no flag to be looked at: an attention module says by its class attribute
``weights_axes`` what its weights mean, and hooks ask it for them.
"""

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from structattn.data import Example, PhraseTrees, SentenceBatch, Vocabulary, collate
from structattn.encoders.body import FirstPieces
from structattn.encoders.sentence_encoder import SentenceEncoder
from structattn.inspection.bodies import injected_maps, text_maps
from structattn.inspection.latent import latent_maps
from structattn.layers.modes import evaluation_mode
from structattn.pretrained import InjectedModel
from structattn.syntax import Sentence
from structattn.syntax.errors import ConfigError
from structattn.tasks import COMBINATIONS, AttachmentModel, SentenceModel, SequenceModel, TaskBatch

Kind = Literal["attention", "pooling", "gate"]
Found = TypeVar("Found", bound=nn.Module)
Item = Example | Sentence | str | tuple[Sentence | str, ...]

_KINDS: dict[str, Kind] = {"head query key": "attention", "key feature": "pooling", "query feature": "gate"}


@dataclass(frozen=True, eq=False)
class AttentionMap:
    """The weights of one module for one sentence, without padding.

    Attributes:
        name: path of the module inside the model; a module that runs several times gets ``#2``, ``#3`` and so on.
        rows: the words (or nodes) that look; ``("sentence",)`` for pooling.
        columns: the words (or nodes) that are looked at; ``("gate",)`` for gates.
        weights: one matrix per head. Feature-wise weights are averaged over the features, as in DiSAN's figures.
        kind: ``"attention"``, ``"pooling"`` or ``"gate"``.
        head_names: one for each head.
        layer: class of the module.
        features: the weights of every feature, ``(word, feature)``, for poolers and gates; otherwise ``None``.
        sentence: the sentence, with its trees, if the batch has it.
        index: which sentence it is: its place in the batch, or among all sentences of all examples.

    Example:
        >>> weights = torch.tensor([[[1.0, 0.0], [0.5, 0.5]]])
        >>> AttentionMap("attention", ("a", "dog"), ("a", "dog"), weights, "attention", ("forward",)).weights[0, 1, 0]
        tensor(0.5000)
    """

    name: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    weights: Float[Tensor, "head query key"]
    kind: Kind
    head_names: tuple[str, ...]
    layer: str = ""
    features: Float[Tensor, "word feature"] | None = None
    sentence: Sentence | None = None
    index: int = 0


def attention_maps(
    model: nn.Module,
    sentences: SentenceBatch | TaskBatch | Item | Sequence[Item],
    *,
    vocabulary: Vocabulary | None = None,
) -> list[AttentionMap]:
    """What every attention-like module of a model attends to, sentence by sentence.

    The model runs once in evaluation mode and without gradients; afterwards it is as it was: no hook stays, and every
    module is in the mode it was in.

    Args:
        model: an encoder, a ``SentenceModel``, a loaded model, or any module that takes a ``SentenceBatch``. Maps of
            models whose sentence vector is a body's first piece are about pieces, see ``text_maps``, and so are those
            of a model whose heads were injected with priors, see ``injected_maps``. A model of latent trees shows
            these, see ``latent_maps``.
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
        >>> encoder = sa.encoders.build("transformer", vocabulary_size=len(vocabulary), dim=8, num_heads=2)
        >>> first, *_ = attention_maps(encoder, "a dog barks", vocabulary=vocabulary)
        >>> first.rows, first.weights.shape, first.kind
        (('a', 'dog', 'barks'), torch.Size([2, 3, 3]), 'attention')
    """
    if isinstance(model, InjectedModel):
        return injected_maps(model, _texts(sentences))
    reader = _first(model, FirstPieces)
    if reader is not None:
        asked = _first(model, SentenceModel)
        together = asked is not None and COMBINATIONS[asked.task.combine].reads_together
        texts = _texts(sentences) if together else [(one,) for text in _texts(sentences) for one in text]
        starts = [0, *itertools.accumulate(map(len, texts))]
        return text_maps(reader, texts, starts[: len(texts)]) if texts else []
    maps: list[tuple[int, int, AttentionMap]] = []
    batches = _batches(model, sentences, vocabulary)
    attachment = _first(model, AttachmentModel)
    if attachment is not None:
        return [found for batch, places in batches for found in latent_maps(attachment, batch, places)]
    encoder = _first(model, SentenceEncoder) or model
    for batch, places in batches:
        batch = batch.to(_device(model))
        with recording(model) as records, torch.no_grad():
            encoder(batch)
        for order, record in enumerate(records):
            for row, place in enumerate(places):
                maps.append((place, order, _map_of(record, batch, row, place)))
    return [found for *_, found in sorted(maps, key=lambda entry: entry[:2])]


@dataclass(frozen=True, eq=False)
class _Record:
    """One call of one module."""

    name: str
    module: nn.Module
    kind: Kind
    weights: Tensor


@contextlib.contextmanager
def recording(model: nn.Module) -> Iterator[list[_Record]]:
    """Collect the weights of every call; evaluation mode meanwhile, and everything as before afterwards."""
    records: list[_Record] = []
    with contextlib.ExitStack() as hooks:
        for path, module in model.named_modules():
            axes = getattr(module, "weights_axes", None)
            if axes is not None:
                name = path or type(module).__name__
                if axes not in _KINDS:
                    known = ", ".join(repr(known) for known in _KINDS)
                    raise ValueError(f"{name} has weights_axes {axes!r}; expected one of {known}")
                hooks.callback(module.register_forward_pre_hook(_ask_for_weights, with_kwargs=True).remove)
                hooks.callback(module.register_forward_hook(_recorder(name, _KINDS[axes], records)).remove)
        hooks.enter_context(evaluation_mode(model))
        yield records


def _ask_for_weights(module: nn.Module, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    return args, kwargs | {"need_weights": True}


def _recorder(name: str, kind: Kind, records: list[_Record]) -> Any:
    def record(module: nn.Module, args: Any, output: Any) -> None:
        weights = output[1] if isinstance(output, tuple) and len(output) > 1 else None
        if not isinstance(weights, Tensor):
            raise ValueError(f"{name} declares weights_axes but returned no weights when asked for them")
        calls = sum(known.module is module for known in records)
        shown = f"{name}#{calls + 1}" if calls else name
        records.append(_Record(shown, module, kind, weights.detach().float().cpu()))

    return record


def _map_of(record: _Record, batch: SentenceBatch, row: int, place: int) -> AttentionMap:
    weights, features = record.weights[row], None
    if record.kind == "attention":
        (rows, kept_rows), (columns, kept_columns) = (_axis(batch, row, size) for size in weights.shape[1:])
        weights = weights[:, kept_rows][:, :, kept_columns]
    else:
        words, kept = _axis(batch, row, weights.shape[0])
        features = weights[kept]
        # A sentence without words has no mean over its features, but it has no entries either.
        means = features.mean(-1) if features.shape[1] else features.new_zeros(len(features))
        pooling = record.kind == "pooling"
        rows, columns = (("sentence",), words) if pooling else (words, ("gate",))
        weights = means[None, None, :] if pooling else means[None, :, None]
    return AttentionMap(
        record.name,
        rows,
        columns,
        weights,
        record.kind,
        _head_names(record.module, len(weights)),
        layer=type(record.module).__name__,
        features=features,
        sentence=batch.sentences[row] if row < len(batch.sentences) else None,
        index=place,
    )


def _head_names(module: nn.Module, num_heads: int) -> tuple[str, ...]:
    names = list(getattr(module, "head_names", ()))
    if len(names) != num_heads:
        names = [f"head {head + 1}" for head in range(num_heads)] if num_heads > 1 else [type(module).__name__]
    elif num_heads > 1 and len(set(names)) == 1:
        # Heads that are all told the same are told apart by their number.
        names = [f"head {head + 1}" if name == "none" else f"{name} {head + 1}" for head, name in enumerate(names)]
    return tuple(str(name).replace("/", " · ") for name in names)


def _axis(batch: SentenceBatch, row: int, size: int) -> tuple[tuple[str, ...], Tensor]:
    """The names along an axis of weights and the positions that are real: words, or words and then phrases."""
    mask = batch.mask[row].cpu()
    sentence = batch.sentences[row] if row < len(batch.sentences) else None
    words = [str(token) for token in batch.tokens[row, mask].tolist()] if sentence is None else list(sentence.words)
    if size == len(mask):
        return tuple(words), mask.nonzero().flatten()
    if batch.constituency is not None and size == batch.constituency.mask.shape[1]:
        spans = sentence.constituency.spans if sentence is not None and sentence.constituency is not None else ()
        kept = batch.constituency.mask[row].cpu().nonzero().flatten()
        phrases = [f"{label} ({' … '.join(words[i] for i in sorted({start, end - 1}))})" for label, start, end in spans]
        return (*words, *phrases), kept
    return tuple(str(position) for position in range(size)), torch.arange(size)


def _batches(
    model: nn.Module, sentences: SentenceBatch | TaskBatch | Item | Sequence[Item], vocabulary: Vocabulary | None
) -> list[tuple[SentenceBatch, list[int]]]:
    """Batches, and for each of their sentences its place among all sentences."""
    if isinstance(sentences, SentenceBatch):
        return [(sentences, list(range(len(sentences))))]
    if isinstance(sentences, TaskBatch):
        arity = len(sentences.sentences)
        return [
            (side, [row * arity + number for row in range(len(side))])
            for number, side in enumerate(sentences.sentences)
        ]
    items = [sentences] if isinstance(sentences, Example | Sentence | str | tuple) else list(sentences)
    flat = [sentence for index, item in enumerate(items) for sentence in sentences_of(item, index)]
    known = vocabulary if vocabulary is not None else vocabulary_of(model)
    if known is None:
        raise ConfigError(
            f"{type(model).__name__} has no vocabulary: pass vocabulary=, or a batch made by structattn.collate"
        )
    read = _reader(model)
    return [(collate([read(sentence) for sentence in flat], known), list(range(len(flat))))] if flat else []


def _reader(model: nn.Module) -> Callable[[Sentence], Sentence]:
    """What makes of a sentence what the model encodes: it may have other trees then, and be in pieces."""
    writer = _first(model, SequenceModel)
    if writer is not None:
        return writer.source_of
    asked = _first(model, SentenceModel)
    return PhraseTrees() if asked is None else asked.trees


def sentences_of(item: object, index: int = 0) -> tuple[Sentence, ...]:
    """The sentences of an example, a sentence, a text or a pair; texts are split into words.

    Raises:
        TypeError: for anything else; the message names its place.

    Example:
        >>> [sentence.words for sentence in sentences_of(("A dog.", Sentence(["hush"])))]
        [('A', 'dog', '.'), ('hush',)]
    """
    if isinstance(item, Example):
        return item.sentences
    parts = item if isinstance(item, tuple) else (item,)
    for part in parts:
        if not isinstance(part, Sentence | str):
            kind = type(part).__name__
            raise TypeError(f"expected an Example, a Sentence, a text or a tuple of these; item {index} is {kind}")
    return tuple(Sentence.from_text(part) if isinstance(part, str) else part for part in parts)


def _texts(sentences: SentenceBatch | TaskBatch | Item | Sequence[Item]) -> list[tuple[Sentence, ...]]:
    """One or two sentences for each text that a body reads as a whole."""
    if isinstance(sentences, SentenceBatch | TaskBatch):
        sides = (sentences,) if isinstance(sentences, SentenceBatch) else sentences.sentences
        return list(zip(*(side.sentences for side in sides), strict=True))
    items = [sentences] if isinstance(sentences, Example | Sentence | str | tuple) else list(sentences)
    return [sentences_of(item, index) for index, item in enumerate(items)]


def _first(model: nn.Module, kind: type[Found]) -> Found | None:
    """The first module of a kind, wherever it is wrapped."""
    return next((module for module in model.modules() if isinstance(module, kind)), None)


def vocabulary_of(model: nn.Module) -> Vocabulary | None:
    """The vocabulary that a model carries, wherever it is wrapped."""
    for module in model.modules():
        found = getattr(module, "vocabulary", None)
        if isinstance(found, Vocabulary):
            return found
    return None


def _device(model: nn.Module) -> torch.device:
    return next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
