"""The other libraries, or the reason why one of them is not here. They are compared with, never depended on.

``make peers`` installs them into an environment of their own; ``peers.txt`` has the versions. Of SuPar only the module
``supar.structs`` is loaded, without the parsers above it, which need old versions of much else. SynJax is loaded
without its run-time type checker, which fails with today's jaxtyping, and with the recomputation in loops off: that is
its faster way.
"""

import importlib
import importlib.util
import sys
import warnings
from functools import cache
from types import ModuleType
from typing import Any

INSTALL = "make peers"


@cache
def load(name: str) -> Any:
    """The module of a peer: torch-struct, SuPar, pytorch-crf or SynJax.

    Raises:
        ImportError: if it is not installed, or does not load with what is installed.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the torch they were written for
        return {"torch-struct": _torch_struct, "SuPar": _supar, "pytorch-crf": _pytorch_crf, "SynJax": _synjax}[name]()


def missing(name: str) -> str | None:
    """Why a peer cannot be compared with, or ``None`` if it can."""
    try:
        load(name)
    except ImportError as error:
        return f"{name}: not installed ({error}); {INSTALL} installs it"
    return None


def _torch_struct() -> ModuleType:
    return importlib.import_module("torch_struct")


def _pytorch_crf() -> ModuleType:
    return importlib.import_module("torchcrf")


def _supar() -> ModuleType:
    _package_without_its_own_imports("supar")
    _package_without_its_own_imports("supar.utils")
    # Named by supar.utils.fn for configurations and downloads, of which the structures know nothing.
    _placeholder("omegaconf", DictConfig=dict, OmegaConf=None)
    _placeholder("supar.utils.parallel", wait=lambda function: function)
    return importlib.import_module("supar.structs")


def _synjax() -> ModuleType:
    _installed("synjax")
    _placeholder("synjax._src.typing", Shape=tuple, Key=Any, typed=lambda function: function)
    synjax = importlib.import_module("synjax")
    synjax.set_config(checkpoint_loops=False, checkpoint_semiring_einsum=False)
    return synjax


def _package_without_its_own_imports(name: str) -> None:
    package = ModuleType(name)
    package.__path__ = list(_installed(name).submodule_search_locations or ())
    sys.modules.setdefault(name, package)


def _placeholder(name: str, **content: object) -> None:
    module = ModuleType(name)
    vars(module).update(content)
    sys.modules.setdefault(name, module)


def _installed(name: str) -> Any:
    spec = importlib.util.find_spec(name)
    if spec is None:
        raise ImportError(f"No module named {name!r}")
    return spec
