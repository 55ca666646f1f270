"""Structure-guided attention: attention that knows word order, distance, syntax trees and latent structure.

Public classes, functions and subpackages are imported on first use, so that ``import structattn`` and
``structattn --help`` work without importing torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_NAMES = {
    "Sentence": "syntax",
    "DependencyTree": "syntax",
    "ConstituencyTree": "syntax",
    "read_conllu": "syntax",
    "write_conllu": "syntax",
    "read_brackets": "syntax",
    "Example": "data",
    "Vocabulary": "data",
    "SentenceBatch": "data",
    "TreeBatch": "data",
    "collate": "data",
    "read_examples": "data",
    "build": "encoders",
    "load": "training",
    "train": "training",
    "evaluate": "training",
    "predict": "training",
    "compare": "training",
    "parse": "parsing",
    "explore": "explorer",
}
_SUBPACKAGES = (
    "backbones",
    "data",
    "distributions",
    "encoders",
    "errors",
    "explorer",
    "functional",
    "inspection",
    "layers",
    "parsing",
    "pictures",
    "priors",
    "reproduction",
    "serving",
    "syntax",
    "tasks",
    "training",
)

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
    "functional",
    "inspection",
    "layers",
    "load",
    "parse",
    "parsing",
    "pictures",
    "predict",
    "priors",
    "read_brackets",
    "read_conllu",
    "read_examples",
    "reproduction",
    "serving",
    "syntax",
    "tasks",
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
        functional,
        inspection,
        layers,
        parsing,
        pictures,
        priors,
        reproduction,
        serving,
        syntax,
        tasks,
        training,
    )
    from structattn.data import Example, SentenceBatch, TreeBatch, Vocabulary, collate, read_examples
    from structattn.encoders.build import build
    from structattn.explorer import explore
    from structattn.parsing import parse
    from structattn.syntax import ConstituencyTree, DependencyTree, Sentence, read_brackets, read_conllu, write_conllu
    from structattn.training import evaluate, load, predict, train
    from structattn.training.compare import compare


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        value = getattr(importlib.import_module(f"structattn.{_NAMES[name]}"), name)
    elif name in _SUBPACKAGES:
        value = importlib.import_module(f"structattn.{name}")
    else:
        raise AttributeError(f"module 'structattn' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
