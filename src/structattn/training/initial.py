"""Initialisation other than a module's own: uniform values for all parameters, or the encoder of a trained model.

A model of another task, with another vocabulary, can take over an encoder: parameters by name, and word vectors by
spelling.

Reference: Kim et al. (2017), Structured attention networks, sections 4.1 and 4.2 (uniform values), 4.4 (a parsing
network trained on heads first).
"""

import logging
import os
from typing import TYPE_CHECKING

import torch
from jaxtyping import Int64
from torch import Tensor, nn

from structattn.data.vocabulary import UNKNOWN_ID
from structattn.errors import ConfigError
from structattn.training.models import load

if TYPE_CHECKING:
    from structattn.layers import WordEmbedding
    from structattn.tasks import TaskModel

LOGGER = logging.getLogger("structattn.training")
_TABLES = ("embedder.weight", "embedder.frozen")
_NORMALISATIONS = (nn.LayerNorm, nn.RMSNorm)


@torch.no_grad()
def draw_uniform(module: nn.Module, bound: float) -> None:
    """Draw every weight and bias uniformly from ``[-bound, bound]``, with torch's generator.

    The usual initialisation of recurrent networks trained by plain SGD (Sutskever et al. 2014, section 3.4; Kim et
    al. 2017). Normalisations keep their scale, and the vectors of padding and of unknown words stay zero.

    Args:
        module: fresh parameters, changed in place.
        bound: the largest absolute value.

    Raises:
        ConfigError: if there is a pretrained backbone, which this would overwrite.

    Example:
        >>> layer = nn.Linear(50, 20)
        >>> draw_uniform(layer, 0.01)
        >>> bool(layer.weight.abs().max() <= 0.01), bool(layer.bias.abs().max() > 0.005)
        (True, True)
    """
    for part in module.modules():
        if getattr(part, "is_pretrained", False):
            raise ConfigError("optimization.initial_range would overwrite the pretrained backbone of this encoder")
        if isinstance(part, _NORMALISATIONS):
            continue
        for parameter in part.parameters(recurse=False):
            is_table = isinstance(part, nn.Embedding) or has_word_vectors(part)
            empty = (parameter == 0).all(-1) if is_table else None
            parameter.uniform_(-bound, bound)
            if empty is not None:
                parameter[empty] = 0.0


def start_from(model: "TaskModel", folder: str | os.PathLike[str], *, trust_code: bool = False) -> None:
    """Initialise a model's encoder from that of a saved model of any task.

    Words in both vocabularies get their vectors from the saved model; the others keep their own.

    Args:
        model: a fresh model.
        folder: the folder of a model or of a run.
        trust_code: as in ``load``.

    Raises:
        ConfigError: if the folder contains no model of a task, or its encoder has a parameter that this one lacks or
            has in another shape.
        ParseError: as ``load``.
    """
    name, source = os.fspath(folder), load(folder, trust_code=trust_code)
    if not hasattr(source, "task"):
        raise ConfigError(f"init: expected the model of a task, {name} contains a {type(source).__name__}")
    given, own = source.encoder.state_dict(), model.encoder.state_dict()
    theirs, mine = _words(source), _words(model)
    by_spelling = () if theirs is None or mine is None else _TABLES
    parameters = {key: value for key, value in given.items() if key not in by_spelling}
    for key, value in parameters.items():
        if key not in own:
            raise ConfigError(f"init: the encoder of {name} has a parameter {key!r}, which this encoder lacks")
        if value.shape != own[key].shape:
            raise ConfigError(
                f"init: expected {key!r} of shape {tuple(own[key].shape)}, that of {name} has {tuple(value.shape)}; "
                "are the options and the vectors the same?"
            )
    model.encoder.load_state_dict(parameters, strict=False)
    shared = 0
    if theirs is not None and mine is not None and source.vocabulary and model.vocabulary:
        ids = torch.tensor(source.vocabulary.encode(model.vocabulary.words[UNKNOWN_ID + 1 :]), dtype=torch.long)
        shared = _take_vectors(mine, theirs, ids)
    LOGGER.info("%d parameters and the vectors of %d words from %s", len(parameters), shared, name)


def has_word_vectors(module: object) -> bool:
    """Whether a module is a table of word vectors: it has a method ``load_vectors``, ``weight`` and ``frozen``."""
    return hasattr(module, "load_vectors")


def _words(model: "TaskModel") -> "WordEmbedding | None":
    embedder = getattr(model.encoder, "embedder", None)
    return embedder if has_word_vectors(embedder) else None


def _take_vectors(mine: "WordEmbedding", theirs: "WordEmbedding", ids: Int64[Tensor, " word"]) -> int:
    """Copy the vectors of the words that both tables have, and return their number."""
    into, source = (torch.cat([one.weight.detach(), one.frozen]) for one in (mine, theirs))
    if into.shape[1] != source.shape[1]:
        raise ConfigError(f"init: expected word vectors of {into.shape[1]} numbers, got {source.shape[1]}")
    known = ids > UNKNOWN_ID
    into[UNKNOWN_ID + 1 :][known] = source[ids[known]]
    mine.load_vectors(into)
    return int(known.sum())
