"""The base class of everything that can be saved."""

import os
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from torch import nn

if TYPE_CHECKING:
    from structattn.data.model_config import Storage


TREE_PARSER = "tree_parser"
"""The key of ``config.json`` under which a model records its parser."""


class SavedModel(nn.Module, ABC):
    """A module that can be written to a model folder, where ``kind`` names it.

    ``MODEL_KINDS`` has a function for each kind that builds the model again, with fresh parameters.
    """

    kind: ClassVar[str]

    @property
    @abstractmethod
    def config(self) -> dict[str, Any]:
        """Plain values that describe everything but the parameters; a model of parts of your own may have none."""

    @property
    def origin(self) -> dict[str, Any]:
        """Further entries of ``config.json``: how the model's data were prepared, such as the parser that was used."""
        return {}

    def write_files(self, folder: Path) -> dict[str, Any]:
        """Write further files, such as a vocabulary, into a folder, and return the entries of ``config.json``.

        They are ``config``, in which folders that the model was built from are replaced by the names of their copies.
        """
        return self.config

    def save_pretrained(
        self, folder: str | os.PathLike[str], *, storage: "Storage" = "float32", card: bool = True
    ) -> None:
        """Write a model folder in place of an existing one; readers see the old one or the whole new one.

        Rows of ``int8`` have 8-bit numbers and a scale. Whatever the ``storage``, a loaded model computes in 32 bits.
        A run writes the ``card`` of its best model when it ends.
        """
        from structattn.data.model_folder import write_model

        def write_files(temporary: Path) -> dict[str, Any]:
            return {**self.write_files(temporary), **self.origin}

        write_model(folder, self.kind, write_files, self.state_dict(), storage=storage, card=card)
