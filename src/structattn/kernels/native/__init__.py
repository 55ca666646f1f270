"""The compiled kernels: find the library, bind its functions, and say why there is none.

Threads are torch's own, so ``torch.set_num_threads`` is obeyed. ``STRUCTATTN_NATIVE=0`` in the environment, or a
`kernels.plain_torch` context, selects plain torch everywhere.
"""

import ctypes
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch

from structattn.kernels.native.compile_library import HERE, SUFFIX, variants
from structattn.kernels.programs import are_allowed

_LOGGER = logging.getLogger("structattn")
# Equal to `structattn_version` of library.cpp, so that an old library is not called through a new interface.
_VERSION = 5


@dataclass(frozen=True)
class Status:
    """Whether compiled kernels are active, and in one line which ones or why not."""

    active: bool
    reason: str


class _UnusableError(Exception):
    """Why there is no library."""


def status() -> Status:
    """Which path is active in this context; loads the library, but logs nothing."""
    if not are_allowed():
        return Status(False, "plain torch: asked for by plain_torch()")
    try:
        return Status(True, f"compiled ({_library()[1].name})")
    except _UnusableError as reason:
        return Status(False, f"plain torch: {reason}")


def bind(name: str, *, pointers: int, numbers: int) -> Callable[..., bool] | None:
    """A function of the library, ``structattn_<name>``, that takes addresses and then integers; None if there is none.

    It returns whether it has an answer for every sentence, and raises MemoryError if there is no room for its tables.
    """
    library = _usable_library()
    bound = getattr(library, f"structattn_{name}", None) if library else None
    if bound is None:
        return None
    bound.argtypes = [ctypes.c_void_p] * pointers + [ctypes.c_int64] * numbers
    bound.restype = _outcome
    program: Callable[..., bool] = bound
    return program


def _outcome(code: int) -> bool:
    """Codes of batch.hpp: done, out of memory, done except for some sentences."""
    if code == 1:
        raise MemoryError("out of memory for the charts of a structured distribution; expected a smaller batch")
    return code == 0


@lru_cache(maxsize=1)
def _usable_library() -> ctypes.CDLL | None:
    """The library; if there is none, one line in the log says so, once."""
    try:
        return _library()[0]
    except _UnusableError as reason:
        if os.environ.get("STRUCTATTN_NATIVE") != "0":
            _LOGGER.warning("structured distributions run in plain torch, exact but slower: %s", reason)
        return None


@lru_cache(maxsize=1)
def _library() -> tuple[ctypes.CDLL, Path]:
    if os.environ.get("STRUCTATTN_NATIVE") == "0":
        raise _UnusableError("asked for by STRUCTATTN_NATIVE=0")
    library, path = _load("libstructattn")
    if "libstructattn_avx2" in variants() and library.structattn_has_avx2():
        library, path = _load("libstructattn_avx2")
    threads = getattr(ctypes.CDLL(_torch_library()), "torch_parallel_for", None)
    library.structattn_use_threads.argtypes = [ctypes.c_void_p]
    library.structattn_use_threads(ctypes.cast(threads, ctypes.c_void_p) if threads else None)
    return library, path


def _load(name: str) -> tuple[ctypes.CDLL, Path]:
    path = HERE / (name + SUFFIX)
    again = "python -m structattn.kernels.native"
    if not path.exists():
        raise _UnusableError(f"not compiled; with a C++ compiler installed, run: {again}")
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise _UnusableError(f"{path.name} cannot be loaded ({error}); compile it again: {again}") from None
    version = library.structattn_version()
    if version != _VERSION:
        raise _UnusableError(f"{path.name} has version {version}, expected {_VERSION}; compile it again: {again}")
    return library, path


def _torch_library() -> str:
    """The library that torch has loaded already: opening it again only returns it."""
    folder = Path(torch.__file__).parent / "lib"
    names = ("libtorch_cpu.so", "libtorch_cpu.dylib", "torch_cpu.dll")
    return str(next((folder / name for name in names if (folder / name).exists()), folder / names[0]))
