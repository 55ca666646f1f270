"""Our model among the ``Auto`` classes of transformers, without making anybody wait for transformers.

If transformers is loaded already, we register at once; otherwise as soon as its ``Auto`` classes are. So
``AutoModelForSequenceClassification.from_pretrained(folder)`` works whichever of the two was imported first.
"""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from types import ModuleType

_AUTO = "transformers.models.auto.modeling_auto"
_OURS = "structattn.training.hugging_face"


def register_with_transformers() -> None:
    """Register now, or when transformers is imported; again is fine.

    Example:
        >>> register_with_transformers()
        >>> from transformers import AutoConfig
        >>> AutoConfig.for_model("structattn").model_type
        'structattn'
    """
    if _AUTO in sys.modules:
        importlib.import_module(_OURS)
    elif not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder(importlib.abc.MetaPathFinder):
    """Waits for one module, lets the others find it, and registers when it has run."""

    def find_spec(
        self, fullname: str, path: object, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != _AUTO:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(importlib.abc.Loader):
    def __init__(self, inner: importlib.abc.Loader) -> None:
        self.inner = inner

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self.inner.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self.inner.exec_module(module)
        importlib.import_module(_OURS)
