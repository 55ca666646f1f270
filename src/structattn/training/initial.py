"""An encoder that starts from a trained one: all its parameters by name, and word vectors by spelling.

Separate from ``checkpoint.py``, which reads whole models: here only the encoder is taken over, by a model of another
task with a vocabulary of its own.

Reference: Kim et al. (2017), Structured attention networks, section 4.4 (a parsing network trained on heads first).
"""

import logging
import os

import torch
from jaxtyping import Int64
from torch import Tensor

from structattn.data.vocabulary import UNKNOWN_ID
from structattn.layers import WordEmbedding
from structattn.syntax.errors import ConfigError
from structattn.training.checkpoint import load
from structattn.training.trained_model import TrainedModel

LOGGER = logging.getLogger("structattn.training")
_TABLES = ("embedder.weight", "embedder.frozen")


def start_from(model: TrainedModel, folder: str | os.PathLike[str]) -> None:
    """Give the encoder of a model the parameters of a saved model's encoder, whatever task that one was trained for.

    Words that both vocabularies know get their vectors from there; the others keep theirs.

    Args:
        model: a fresh model.
        folder: the folder of a model or of a run.

    Raises:
        ConfigError: if the saved encoder has a parameter that this one lacks or has in another shape.
        ParseError: as ``load``.
    """
    name, source = os.fspath(folder), load(folder)
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
    if theirs is not None and mine is not None:
        ids = torch.tensor(source.vocabulary.encode(model.vocabulary.words[UNKNOWN_ID + 1 :]), dtype=torch.long)
        shared = _take_vectors(mine, theirs, ids)
    LOGGER.info("%d parameters and the vectors of %d words from %s", len(parameters), shared, name)


def _words(model: TrainedModel) -> WordEmbedding | None:
    embedder = getattr(model.encoder, "embedder", None)
    return embedder if isinstance(embedder, WordEmbedding) else None


def _take_vectors(mine: WordEmbedding, theirs: WordEmbedding, ids: Int64[Tensor, " word"]) -> int:
    """Copy the vectors of the words that the other table has, by their ids there; how many these are."""
    into, source = (torch.cat([one.weight.detach(), one.frozen]) for one in (mine, theirs))
    if into.shape[1] != source.shape[1]:
        raise ConfigError(f"init: expected word vectors of {into.shape[1]} numbers, got {source.shape[1]}")
    known = ids > UNKNOWN_ID
    into[UNKNOWN_ID + 1 :][known] = source[ids[known]]
    mine.load_vectors(into)
    return int(known.sum())
