"""Saved models of every kind, read from their folders."""

import functools
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

from structattn.data.model_config import MODEL, find_model_folder
from structattn.data.model_folder import read_model
from structattn.data.saved_model import TREE_PARSER
from structattn.errors import ConfigError
from structattn.files.json_yaml import naming_description, read_json
from structattn.tables import Trust

if TYPE_CHECKING:
    from structattn.parsing.missing_trees import MissingTrees
    from structattn.tasks import TaskModel
    from structattn.training.run_config import DataConfig


Model = TypeVar("Model")


@overload
def load(
    folder: str | os.PathLike[str], *, parser: str | None = None, trust_code: Trust = False, kind: None = None
) -> "TaskModel": ...
@overload
def load(
    folder: str | os.PathLike[str], *, parser: str | None = None, trust_code: Trust = False, kind: type[Model]
) -> Model: ...
def load(
    folder: str | os.PathLike[str],
    *,
    parser: str | None = None,
    trust_code: Trust = False,
    kind: type[Any] | None = None,
) -> Any:
    """Read a model of any kind from its folder, or the best model of a run folder.

    A model of a task that was trained on trees from a parser uses the same parser for sentences without trees.

    Args:
        folder: of the model or of the run.
        parser: another parser for sentences without trees, as ``structattn.parse`` takes it; ``none`` for no parser.
        trust_code: whether code that the folder names as ``module:name``, such as an encoder or a prior, may be
            imported and run; one such name or several allow these only.
        kind: the class that the model must have, such as ``SentenceEncoder`` or ``SentenceModel``; any if ``None``.
            Type checkers and editors then know the model as one of that class, and without it as a `TaskModel`.

    Returns:
        The saved model: a model of a task, an encoder, a parser, or a backbone with HYDRA heads under a task's last
        layer. It is in evaluation mode, on the CPU.

    Raises:
        ParseError: if a file is missing, truncated or damaged; the message names it.
        ConfigError: if the folder was written by another version, contains another kind of model or several runs, or
            names code that is not trusted; for an unknown parser; if the model is not of the class ``kind``.

    Example:
        >>> import tempfile, structattn as sa
        >>> from structattn.data import Vocabulary
        >>> vocabulary = Vocabulary(["dull", "fine"])
        >>> encoder = sa.encoders.build("emb_s2t", vocab_size=len(vocabulary), dim=4)
        >>> model = sa.tasks.SentenceModel(encoder, sa.tasks.SENTIMENT, vocabulary=vocabulary)
        >>> folder = tempfile.mkdtemp() + "/model"
        >>> model.save_pretrained(folder)
        >>> load(folder).predict(["fine"]) == model.eval().predict(["fine"])
        True
    """
    model = read_model(folder, trust_code=trust_code)
    if hasattr(model, "find_trees"):
        model.find_trees = _tree_finder(find_model_folder(folder) / MODEL.config, parser, trust_code is True)
        model.reading = functools.partial(_read_data_config, os.path.abspath(folder))
    if kind is not None and not isinstance(model, kind):
        raise ConfigError(
            f"{os.fspath(folder)}: expected a model of the class {kind.__name__}, it contains a {type(model).__name__}"
        )
    return model


def load_task_model(
    folder: str | os.PathLike[str], *, parser: str | None = None, trust_code: Trust = False
) -> "TaskModel":
    """A model of a task, as ``load`` reads it; a model of another kind, such as an encoder or a parser, is an error."""
    model = load(folder, parser=parser, trust_code=trust_code)
    if not hasattr(model, "task"):
        raise ConfigError(f"{os.fspath(folder)}: expected the model of a task, it contains a {type(model).__name__}")
    return model


def _read_data_config(run: str) -> "DataConfig":
    from structattn.training.run_data import read_data_config  # which only rows and files need

    return read_data_config(run)


def _tree_finder(file: Path, parser: str | None, trusted: bool) -> "MissingTrees | None":
    """The finder of trees for the model of a configuration, with the given parser or the one that it remembers."""
    remembered = read_json(file).get(TREE_PARSER)
    if parser == "none" or (parser is None and remembered is None):
        return None
    from structattn.parsing.missing_trees import STRUCTURES, MissingTrees
    from structattn.parsing.parsers import is_ours

    if remembered is None:
        return MissingTrees(str(parser), structures=STRUCTURES)
    with naming_description(file):
        name, version = str(remembered["name"]), str(remembered["version"])
        structures = str(remembered.get("structures", "dependency")).split()
    if parser is not None:
        return MissingTrees(parser, structures=structures)
    trusted = trusted or is_ours(name)
    return MissingTrees(name, version=version, trusted=trusted, structures=structures)
