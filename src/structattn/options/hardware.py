"""The device and precision of a model: one place for every command and every run."""

import logging
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from structattn.errors import ConfigError
from structattn.options.checking import check_choices

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
    """A device and its precision.

    Attributes:
        device: ``cpu`` or ``cuda``; ``auto`` is CUDA where it is available.
        mixed_precision: ``bf16`` and ``fp16`` compute products in 16 bits; ``fp16`` needs a GPU.

    Raises:
        ConfigError: for an unknown value, or ``fp16`` on a CPU.

    Example:
        >>> import torch
        >>> cpu = Hardware("cpu", "bf16")
        >>> cpu.torch_device()
        device(type='cpu')
        >>> with cpu.autocast():
        ...     (torch.ones(2, 2) @ torch.ones(2, 2)).dtype
        torch.bfloat16
    """

    device: Device = "auto"
    mixed_precision: MixedPrecision = "no"

    def __post_init__(self) -> None:
        check_choices(self, "")
        if self.device == "cpu" and self.mixed_precision == "fp16":
            raise ConfigError("mixed_precision: fp16 needs a GPU; on a CPU use bf16 or no")

    def torch_device(self) -> "torch.device":
        """The device.

        Products in bfloat16 are slow on a processor without instructions for it; a warning is logged once.

        Raises:
            ConfigError: if it is not available, or if ``fp16`` is requested without a GPU.
        """
        import torch

        there = torch.cuda.is_available()
        if self.device == "cuda" and not there:
            raise ConfigError("device: cuda is not available on this machine; use cpu")
        chosen = "cuda" if there and self.device != "cpu" else "cpu"
        if chosen == "cpu" and self.mixed_precision == "fp16":
            raise ConfigError("mixed_precision: fp16 needs a GPU; on a CPU use bf16 or no")
        if chosen == "cpu" and self.mixed_precision == "bf16" and lacks_bfloat16():
            _warn_of_bfloat16()
        return torch.device(chosen)

    def place(self, model: _Module) -> _Module:
        """Move a model to the device.

        Raises:
            ConfigError: as ``torch_device``.
        """
        placed: _Module = model.to(self.torch_device())
        return placed

    def autocast(self) -> AbstractContextManager[object]:
        """A context in which products are computed in the chosen precision.

        Raises:
            ConfigError: as ``torch_device``.
        """
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
