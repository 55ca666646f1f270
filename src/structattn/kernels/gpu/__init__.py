"""Kernels for NVIDIA GPUs, in Triton: which kernels exist, on which tensors they run, and why not on others.

Triton is imported when a kernel is first requested for a tensor on a GPU. ``STRUCTATTN_TRITON=0`` in the environment,
or a `kernels.plain_torch` context, selects plain torch; ``STRUCTATTN_TRITON=interpret`` runs the kernels in Triton's
interpreter on the CPU, which is orders of magnitude slower than anything else but allows testing them without a GPU.
"""

import functools
import importlib
import logging
import os
import re
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor

from structattn.kernels import programs
from structattn.kernels.programs import Program, Scores, Tensors

_LOGGER = logging.getLogger("structattn")
_CHOICE = os.environ.get("STRUCTATTN_TRITON", "")
_TYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
# Doubles are added fast enough from Turing on; compilers no longer support older devices.
_CAPABILITY = (7, 5)
_SUMS = ("marginals", "hvp")
_CHOICES = ("argmax", "sample")
# The kernels that exist, in a module for each family and for each other operator.
KERNELS = {
    "dependency": _SUMS + _CHOICES,
    "spanning_tree": _SUMS + _CHOICES,
    "constituency": _SUMS + _CHOICES,
    "chain": _SUMS + _CHOICES,
    "segments": _SUMS + _CHOICES,
    "token2token": ("attend", "gradients"),
}


class _UnusableError(Exception):
    """Why there are no kernels."""


def find(name: str, first: Tensor) -> Program | None:
    """The kernel of a quantity, such as ``"dependency_marginals"``, for tensors like ``first``; None if there is none.

    It takes the arguments of the compiled functions, as tensors, and never waits for the device.
    """
    # A kernel that cannot be compiled returns no answer for any sentence, logs one warning, and is not tried again.
    if first.dtype not in _TYPES or not programs.are_allowed():
        return None
    return _usable(name, first.device)


def status(device: torch.device | None = None) -> str:
    """One line that says which kernels run on a device, by default the current one, or why none do."""
    try:
        triton = _triton(_current() if device is None else device)
    except _UnusableError as reason:
        return f"plain torch: {reason}"
    names = [f"{family}_{quantity}" for family, quantities in KERNELS.items() for quantity in quantities]
    working = ", ".join(name for name in names if name not in _FAILED) or "no kernel"
    failed = ", ".join(f"{name} ({reason})" for name, reason in _FAILED.items())
    return f"Triton {triton.__version__}: {working}" + (f"; in plain torch: {failed}" if failed else "")


def device() -> torch.device | None:
    """Where kernels run, if anywhere: the current GPU, or the CPU in the interpreter."""
    try:
        _triton(_current())
    except _UnusableError:
        return None
    return _current()


_FAILED: dict[str, str] = {}


def _current() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


@functools.lru_cache(maxsize=256)
def _usable(name: str, device: torch.device) -> Program | None:
    try:
        _triton(device)
    except _UnusableError as reason:
        if _CHOICE != "0":
            _log_once(f"structured distributions on {device.type} run in plain torch, exact but slower: {reason}")
        return None
    family, _, quantity = name.rpartition("_")
    if quantity not in KERNELS.get(family, ()):
        return None
    return _guard(name, getattr(importlib.import_module(f"structattn.kernels.gpu.{family}_kernels"), quantity))


def _guard(name: str, launch: Callable[..., None]) -> Program:
    def call(
        scores: Scores, lengths: Tensor | None, inputs: Tensors, results: Tensors, numbers: Sequence[int | float]
    ) -> bool:
        if name not in _FAILED and len(scores[0]):
            try:
                # Triton launches on the current device.
                with torch.cuda.device(scores[0].device) if scores[0].is_cuda else nullcontext():
                    lengths = None if lengths is None else lengths.long().contiguous()
                    launch([array.contiguous() for array in scores], lengths, inputs, results, numbers)
            except torch.OutOfMemoryError:
                raise
            except Exception as error:  # from the compiler, ptxas or the driver, of many types
                _FAILED[name] = _reason(error)
                _LOGGER.warning("%s runs in plain torch, exact but slower: %s", name, _FAILED[name])
        if name in _FAILED:
            for result in results:
                if result is not None:
                    result.fill_(torch.nan)
        return name not in _FAILED

    return call


def _reason(error: BaseException) -> str:
    """The root cause in one line: messages of Triton's compiler begin with the place and end with what is wrong."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = str(error).strip().split("\n")
    return lines[-1] if re.fullmatch(r"at \d+:\d+:", lines[0]) else lines[0]


@functools.lru_cache(maxsize=16)
def _log_once(line: str) -> None:
    _LOGGER.warning("%s", line)


@functools.lru_cache(maxsize=16)
def _triton(device: torch.device) -> Any:
    if _CHOICE == "0":
        raise _UnusableError("asked for by STRUCTATTN_TRITON=0")
    if not programs.IS_INTERPRETED and device.type != "cuda":
        raise _UnusableError("no NVIDIA GPU")
    if device.type == "cuda" and torch.version.hip is not None:
        raise _UnusableError("the kernels are for NVIDIA GPUs")
    if device.type == "cuda" and torch.cuda.get_device_capability(device) < _CAPABILITY:
        raise _UnusableError(f"{torch.cuda.get_device_name(device)} is older than the kernels support")
    try:
        triton = importlib.import_module("triton")
    except ImportError:
        raise _UnusableError("Triton is not installed: pip install 'structattn[gpu]'") from None
    if triton.__version__.startswith("3.6."):
        generator = importlib.import_module("triton.compiler.code_generator").CodeGenerator
        _let_functions_return_none(generator, triton.language.constexpr)
    return triton


@functools.cache  # once per process, however many devices it has
def _let_functions_return_none(generator: Any, constant: type) -> None:
    """Let functions of kernels return None for absent values, as Triton 3.7 does.

    Triton 3.6, the version of PyTorch 2.11, converts every constant that a function returns to a tensor, and fails.
    """
    compiled = generator.visit_Return

    @functools.wraps(compiled)
    def visit_return(self: Any, node: Any) -> Any:
        to_tensor = self.semantic.to_tensor

        def unless_none(value: Any, *options: Any, **named: Any) -> Any:
            is_none = isinstance(value, constant) and value.value is None  # type: ignore[attr-defined]  # of constexpr
            return value if is_none else to_tensor(value, *options, **named)

        self.semantic.to_tensor = unless_none
        try:
            return compiled(self, node)
        finally:
            self.semantic.to_tensor = to_tensor

    generator.visit_Return = visit_return
