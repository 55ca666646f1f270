"""The base class of everything that can be saved, and the table of what restores each kind."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from torch import nn

from structattn.tables import Table

if TYPE_CHECKING:
    from structattn.data.model_config import Storage


TREE_PARSER = "tree_parser"
"""The key of ``config.json`` under which a model records its parser."""


class SavedModel(nn.Module, ABC):
    """A module that can be written to a model folder.

    A subclass has a ``kind``, for which ``MODEL_KINDS`` has a function ``from_config(config, folder)`` that builds the
    model again with fresh parameters.

    Attributes:
        kind: the name of this kind of model in ``config.json``.
    """

    kind: ClassVar[str]

    @property
    @abstractmethod
    def config(self) -> dict[str, Any]:
        """Plain values that describe everything but the parameters.

        Raises:
            ConfigError: if the model was assembled from parts that do not record how they were built.
        """

    @property
    def origin(self) -> dict[str, Any]:
        """Further entries of ``config.json``: how the model's data were prepared, such as the parser that was used."""
        return {}

    def write_files(self, folder: Path) -> dict[str, Any]:
        """Write further files, such as a vocabulary, into an existing folder.

        Returns:
            The entries of ``config.json``: ``config``, in which folders that the model was built from are replaced by
            the names of their copies.
        """
        return self.config

    def save_pretrained(self, folder: str | os.PathLike[str], *, storage: "Storage" = "float32") -> None:
        """Write a model folder; readers see the old one or the whole new one.

        Args:
            folder: where to write; an existing folder is replaced as a whole.
            storage: number format: ``float32``, ``float16``, or ``int8``, where every row of a matrix has 8-bit numbers
                and a scale. Whatever the format, a loaded model computes in 32 bits.

        Raises:
            ConfigError: if the model does not know how it was built.
        """
        from structattn.data.model_folder import write_model

        def write_files(temporary: Path) -> dict[str, Any]:
            return {**self.write_files(temporary), **self.origin}

        write_model(folder, self.kind, write_files, self.state_dict(), storage=storage)


FromConfig = Callable[[Mapping[str, Any], Path], SavedModel]
"""From a configuration, and the folder that ``SavedModel.write_files`` wrote to, to a model with fresh parameters."""


_HYDRA = "structattn.backbones.task_models:HydraModelFor"
#: From each kind of model, as named in its folder, to the function that restores it.
MODEL_KINDS: Table[FromConfig] = Table(
    "kinds",
    "kind of model",
    {
        "encoder": "structattn.encoders.build:encoder_from_config",
        "sentence": "structattn.tasks.sentence_model:SentenceModel.from_config",
        "sequence": "structattn.tasks.sequence_model:SequenceModel.from_config",
        "tagging": "structattn.tasks.tagging:TaggingModel.from_config",
        "attachment": "structattn.tasks.attachment:AttachmentModel.from_config",
        "facts": "structattn.tasks.fact_selection:FactModel.from_config",
        "parser": "structattn.parsing.tree_parser:parser_from_config",
        "hydra_sequence_classification": f"{_HYDRA}SequenceClassification.from_config",
        "hydra_token_classification": f"{_HYDRA}TokenClassification.from_config",
        "hydra_question_answering": f"{_HYDRA}QuestionAnswering.from_config",
    },
)
