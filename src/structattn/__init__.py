"""Structure-guided attention: attention that knows word order, distance, syntax trees and latent structure.

Public classes, functions and subpackages are imported on first use, so that ``import structattn`` and
``structattn --help`` work without importing torch.
"""

import sys
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

__all__ = [
    "ConstituencyTree",
    "DependencyTree",
    "Example",
    "Sentence",
    "SentenceBatch",
    "TreeBatch",
    "Vocabulary",
    "__version__",
    "backbones",
    "build",
    "collate",
    "compare",
    "data",
    "distributions",
    "encoders",
    "errors",
    "evaluate",
    "explore",
    "explorer",
    "files",
    "functional",
    "inspection",
    "layers",
    "load",
    "options",
    "parse",
    "parsing",
    "pictures",
    "predict",
    "priors",
    "read_brackets",
    "read_conllu",
    "read_examples",
    "serving",
    "syntax",
    "tasks",
    "testing",
    "train",
    "training",
    "write_conllu",
]

if TYPE_CHECKING:
    from structattn import (
        backbones,
        data,
        distributions,
        encoders,
        errors,
        explorer,
        files,
        functional,
        inspection,
        layers,
        options,
        parsing,
        pictures,
        priors,
        serving,
        syntax,
        tasks,
        testing,
        training,
    )
    from structattn.data import Example, SentenceBatch, TreeBatch, Vocabulary, collate, read_examples
    from structattn.encoders.build import build
    from structattn.explorer import explore
    from structattn.parsing import parse
    from structattn.syntax import ConstituencyTree, DependencyTree, Sentence, read_brackets, read_conllu, write_conllu
    from structattn.training import evaluate, load, predict, train
    from structattn.training.comparison import compare


if not TYPE_CHECKING:  # a checker reads the names above, so that a misspelt one is an error

    def __getattr__(name: str) -> Any:
        """Load lazily from the first use on: not even this package's own files are imported before."""
        from structattn.lazy import load_lazily

        del globals()["__getattr__"]
        load_lazily(__name__)
        return getattr(sys.modules[__name__], name)


def __dir__() -> list[str]:
    return sorted(__all__)
