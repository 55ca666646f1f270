"""One look at a model: its prediction for one item, and its attention."""

from dataclasses import dataclass

from structattn.data import Example, collate
from structattn.encoders import SentenceEncoder
from structattn.encoders.latent_tree import LatentTree, read_latent_trees
from structattn.errors import ConfigError
from structattn.inspection.items import reads_together
from structattn.inspection.maps import maps_of_pass, own_maps
from structattn.layers.attention_map import AttentionMap
from structattn.layers.recording import recording_passes
from structattn.tasks import Prediction, TaskModel
from structattn.tasks.items import Item, example_of


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

    Raises:
        ConfigError: if the model has no sentence encoder.
        MissingStructure: if a sentence lacks a tree that the model needs, and the model has no parser.
        ValueError: for the wrong number of sentences.
        TypeError: if the item is none of the above.

    Example:
        >>> import structattn as sa
        >>> vocabulary = sa.Vocabulary(["dull", "fine"])
        >>> encoder = sa.encoders.build("emb_s2t", vocab_size=len(vocabulary), dim=4)
        >>> found = look(sa.tasks.SentenceModel(encoder, sa.tasks.SENTIMENT, vocabulary=vocabulary), "fine film")
        >>> [(one.kind, one.columns) for one in found.maps], sorted(found.answer.probabilities)
        ([('pooling', ('fine', 'film'))], ['negative', 'positive'])
    """
    encoder = encoder_of(model)
    (example,) = model.with_trees([example_of(item, 0, model.task)])
    maps = own_maps(model, example)
    if maps is not None:
        (answer,) = model.predict([example])
    else:
        with recording_passes(model, encoder) as passes:
            (answer,) = model.predict([example])
        # Where a long example's memory was estimated first, the answer's passes are the last ones.
        answering = passes[-1:] if reads_together(model) else passes[-len(example.sentences) :]
        maps = [found for place, one in enumerate(answering) for found in maps_of_pass(one, [place], model)]
    return Look(example, answer, tuple(maps), _latent(model, encoder, example))


def encoder_of(model: TaskModel) -> SentenceEncoder:
    """The sentence encoder of a model.

    Raises:
        ConfigError: if it has no sentence encoder.
    """
    encoder: SentenceEncoder = model.encoder
    if not hasattr(encoder, "pooler"):
        raise ConfigError(f"expected a model with a sentence encoder, got one of task {model.task.name!r} without")
    return encoder


def reads_subwords(model: TaskModel) -> bool:
    """Whether the sentence vector is one state of a backbone, so that there are subwords and no words.

    This is the state of the first token, or of a decoder's last token.
    """
    return getattr(encoder_of(model).embedder, "nodes", "words") == "text"


def _latent(model: TaskModel, encoder: SentenceEncoder, example: Example) -> tuple[LatentTree | None, ...]:
    if not encoder.has_latent_trees or model.vocabulary is None:
        return (None,) * len(example.sentences)
    batch = collate(example.sentences, model.vocabulary).to(model.device)
    return tuple(read_latent_trees(encoder, batch))
