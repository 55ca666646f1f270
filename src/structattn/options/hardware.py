"""The device and precision of a model: one place for every command and every run."""

import logging
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from structattn.errors import ConfigError
from structattn.options.checking import check_fields

if TYPE_CHECKING:
    import torch

Device = Literal["auto", "cpu", "cuda"]
MixedPrecision = Literal["no", "bf16", "fp16"]
_Module = TypeVar("_Module", bound=Any)  # torch.nn.Module, which is not imported here
_TYPES = {"bf16": "bfloat16", "fp16": "float16"}


class OnHardware:
    """A configuration that says where a model runs: a class with fields ``device`` and ``mixed_precision``."""

    if TYPE_CHECKING:
        device: Device
        mixed_precision: MixedPrecision

    @property
    def hardware(self) -> "Hardware":
        """The device and its precision."""
        return Hardware(self.device, self.mixed_precision)


@dataclass(frozen=True)
class Hardware:
    """A device and its precision; ``--help`` prints what the fields are.

    Attributes:
        device: ``cpu`` or ``cuda``; ``auto`` uses CUDA if available.
        mixed_precision: ``bf16`` or ``fp16`` computes products in 16 bits; ``fp16`` needs a GPU.
    """

    device: Device = "auto"
    mixed_precision: MixedPrecision = "no"

    def __post_init__(self) -> None:
        check_fields(self, "")
        if self.device == "cpu" and self.mixed_precision == "fp16":
            raise ConfigError("mixed_precision: fp16 needs a GPU; on a CPU use bf16 or no")

    def torch_device(self) -> "torch.device":
        """The device, if it is available and has the precision; a warning is logged if its bfloat16 is slow."""
        import torch

        has_cuda = torch.cuda.is_available()
        if self.device == "cuda" and not has_cuda:
            raise ConfigError("device: cuda is not available on this machine; use cpu")
        device = "cuda" if has_cuda and self.device != "cpu" else "cpu"
        if device == "cpu" and self.mixed_precision == "fp16":
            raise ConfigError("mixed_precision: fp16 needs a GPU; on a CPU use bf16 or no")
        if device == "cpu" and self.mixed_precision == "bf16" and lacks_bfloat16():
            _warn_of_bfloat16()
        return torch.device(device)

    def move(self, model: _Module) -> _Module:
        """The model, moved to the device."""
        moved: _Module = model.to(self.torch_device())
        return moved

    def autocast(self) -> AbstractContextManager[object]:
        """A context in which products are computed in this precision."""
        import torch

        device = self.torch_device()
        if self.mixed_precision == "no":
            return nullcontext()
        return torch.autocast(device.type, getattr(torch, _TYPES[self.mixed_precision]))


@cache
def lacks_bfloat16() -> bool:
    """Whether oneDNN, which computes torch's products on a CPU, lacks bfloat16 for this processor."""
    import torch

    return torch.backends.mkldnn.is_available() and not torch.ops.mkldnn._is_mkldnn_bf16_supported()


@cache
def _warn_of_bfloat16() -> None:
    logging.getLogger("structattn").warning(
        "mixed_precision: this processor has no bfloat16 instructions, so bf16 is far slower than full precision ('no')"
    )
