"""One look at a model: its prediction for one item, and its attention."""

from dataclasses import dataclass

from structattn.data import Example, collate
from structattn.encoders import SentenceEncoder
from structattn.encoders.latent_tree import LatentTree, read_latent_trees
from structattn.errors import ConfigError
from structattn.inspection.attention_maps import find_custom_maps, make_maps, reads_together
from structattn.layers.attention_map import AttentionMap
from structattn.layers.recording import recording_passes
from structattn.tasks import Prediction, TaskModel
from structattn.tasks.answering import Item, to_example


@dataclass(frozen=True, eq=False)
class Look:
    """A model's prediction for one item, and its attention.

    Attributes:
        example: the item as the model read it, with the trees that its parser found.
        answer: the prediction.
        maps: the attention maps, sentence by sentence; ``AttentionMap.index`` is the index of the sentence.
        latent: for each sentence, the latent tree that the model attends with, if there is one.
    """

    example: Example
    answer: Prediction
    maps: tuple[AttentionMap, ...]
    latent: tuple[LatentTree | None, ...]


def look(model: TaskModel, item: Item) -> Look:
    """The answer of a model to one item, and the attention maps of the same forward pass.

    Maps over subwords, and latent trees of the task ``attachment``, need a separate pass: a backbone computes its
    answers by a faster path, which keeps no weights.

    Args:
        model: a model of a task, as ``structattn.load`` returns it.
        item: an example, a sentence, a text, or a pair of these.

    Returns:
        The prediction, the maps and the latent trees, with the example as the model read it.

    Raises:
        ConfigError: if the model has no sentence encoder.
        MissingStructure: if a sentence lacks a tree that the model needs, and the model has no parser.
        ValueError: for the wrong number of sentences.
        TypeError: if the item is none of the above.

    Example:
        >>> import structattn as sa
        >>> vocabulary = sa.Vocabulary(["dull", "fine"])
        >>> encoder = sa.encoders.build("emb_s2t", vocab_size=len(vocabulary), dim=4)
        >>> result = look(sa.tasks.SentenceModel(encoder, sa.tasks.SENTIMENT, vocabulary=vocabulary), "fine film")
        >>> [(attention.kind, attention.columns) for attention in result.maps], sorted(result.answer.probabilities)
        ([('pooling', ('fine', 'film'))], ['negative', 'positive'])
    """
    encoder = require_encoder(model)
    (example,) = model.with_trees([to_example(item, 0, model.task)])
    maps = find_custom_maps(model, example)
    if maps is not None:
        (answer,) = model.predict([example])
    else:
        with recording_passes(model, encoder) as passes:
            (answer,) = model.predict([example])
        # Where a long example's memory was estimated first, the answer's passes are the last ones.
        answering = passes[-1:] if reads_together(model) else passes[-len(example.sentences) :]
        maps = [part for number, one_pass in enumerate(answering) for part in make_maps(one_pass, [number], model)]
    return Look(example, answer, tuple(maps), _latent_trees(model, encoder, example))


def require_encoder(model: TaskModel) -> SentenceEncoder:
    """The sentence encoder of a model; an error if it has none."""
    encoder: SentenceEncoder = model.encoder
    if not hasattr(encoder, "pooler"):
        raise ConfigError(f"expected a model with a sentence encoder, got one of task {model.task.name!r} without")
    return encoder


def _latent_trees(model: TaskModel, encoder: SentenceEncoder, example: Example) -> tuple[LatentTree | None, ...]:
    if not encoder.has_latent_trees or model.vocabulary is None:
        return (None,) * len(example.sentences)
    batch = collate(example.sentences, model.vocabulary).to(model.device)
    return tuple(read_latent_trees(encoder, batch))
