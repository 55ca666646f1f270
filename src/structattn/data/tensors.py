"""Tensors on disk: safetensors, never a pickle, with errors that name the file and the tensor.

Models, adapters, parsers and unfinished runs are all saved this way.
"""

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from structattn.data.model_config import Storage
from structattn.errors import ParseError

_Module = TypeVar("_Module", bound=nn.Module)


def save_tensors(tensors: Mapping[str, Tensor], file: Path, storage: Storage = "float32") -> None:
    """Write tensors as safetensors, with a checksum; tensors that share memory are each written in full.

    Args:
        tensors: by name.
        file: where to write.
        storage: number format, see ``storage.packed``.
    """
    seen: set[int] = set()
    written = {}
    for name, tensor in packed(tensors, storage).items():
        shared = tensor.numel() > 0 and tensor.untyped_storage().data_ptr() in seen
        written[name] = tensor.detach().clone() if shared else tensor.detach().contiguous()
        seen.add(tensor.untyped_storage().data_ptr())
    file.write_bytes(_serialised(written))


def read_tensors(file: Path) -> dict[str, Tensor]:
    """Read safetensors and verify the checksum if there is one; 8-bit numbers become 32-bit ones.

    Raises:
        ParseError: if the file is missing, truncated or damaged; the message names it.
    """
    # safetensors 0.4 makes its tensors on the default device, whatever that is.
    with _opened(file) as opened, torch.device("cpu"):
        found: dict[str, Tensor] = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 - no dictionary
        expected = (opened.metadata() or {}).get("sha256")
    if expected not in (None, checksum(found)):
        raise ParseError("is damaged: its tensors are not those that were written", file=file)
    return unpacked(found, file)


def load_tensors(model: nn.Module, file: Path, *, prefix: str = "") -> None:
    """Fill a model's parameters and buffers from a file.

    Raises:
        ParseError: if the file is damaged, its tensors are not the model's, or one is of another kind or not finite;
            the message names file and tensor.
    """
    found = {name.removeprefix(prefix): tensor for name, tensor in read_tensors(file).items()}
    _compare(model.state_dict(), found, file, prefix)
    for name, tensor in found.items():
        check_finite(prefix + name, tensor, file)
    with torch.no_grad():
        model.load_state_dict(found)


def build_and_load(build: Callable[[], _Module], file: Path, *, prefix: str = "") -> _Module:
    """Build a model on the CPU and fill it from a file.

    No memory is allocated for a model that the file does not fit. The caller's random state stays as it was.

    Args:
        build: returns the model, the same at every call; it is called on the device ``meta`` first.
        file: the file of the tensors.
        prefix: the prefix of their names.

    Raises:
        ParseError: as ``load_tensors``.
    """
    with torch.device("meta"), _WithoutNormal():
        planned = build().state_dict()
    _compare(planned, {name.removeprefix(prefix): tensor for name, tensor in _read_shapes(file).items()}, file, prefix)
    with torch.random.fork_rng(devices=[]):  # the file replaces whatever is drawn here
        model = build()
    load_tensors(model, file, prefix=prefix)
    return model


class _WithoutNormal(TorchFunctionMode):
    """Draws no normal numbers: on ``meta`` there are none, and torch would import its compiler to draw them there."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if function is nn.init.normal_:
            return kwargs["tensor"]
        return args[0] if function is Tensor.normal_ else function(*args, **kwargs)


def check_like(name: str, found: Tensor, expected: Tensor, file: Path) -> None:
    """Refuse a tensor of another shape, or of another kind of numbers; floating point of any precision is one kind.

    Raises:
        ParseError: naming file and tensor.
    """
    if found.shape != expected.shape:
        shapes = f"{tuple(expected.shape)}, got {tuple(found.shape)}"
        raise ParseError(f"expected tensor {name!r} of shape {shapes}", file=file)
    if found.dtype != expected.dtype and not (found.is_floating_point() and expected.is_floating_point()):
        raise ParseError(f"expected tensor {name!r} of type {expected.dtype}, got {found.dtype}", file=file)


def check_finite(name: str, tensor: Tensor, file: Path) -> None:
    """Refuse a tensor with NaN or infinite numbers, such as interrupted or diverged training leaves behind.

    Raises:
        ParseError: naming file and tensor.
    """
    if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
        raise ParseError(f"expected finite numbers in tensor {name!r}, got NaN or infinity", file=file)


def _compare(expected: Mapping[str, Tensor], found: Mapping[str, Tensor], file: Path, prefix: str) -> None:
    for name in sorted(expected.keys() | found.keys()):
        if name not in found:
            raise ParseError(f"expected a tensor {prefix + name!r}, it is missing", file=file)
        if name not in expected:
            raise ParseError(f"has a tensor {prefix + name!r} that the model lacks", file=file)
        check_like(prefix + name, found[name], expected[name], file)


def _read_shapes(file: Path) -> dict[str, Tensor]:
    """The tensors of a file on the device ``meta``: shapes and types, no values."""
    with _opened(file) as opened:
        shapes = {name: _without_values(opened.get_slice(name)) for name in opened.keys()}  # noqa: SIM118 - no dictionary
    return unpacked(shapes, file)


def _without_values(piece: Any) -> Tensor:
    # safetensors has its own names for the types of slices; an empty piece of a slice has torch's type.
    shape = piece.get_shape()
    dtype = piece[:0].dtype if shape else piece[...].dtype
    return torch.empty(shape, dtype=dtype, device="meta")


@contextlib.contextmanager
def _opened(file: Path) -> Iterator[Any]:
    try:
        with safetensors.safe_open(file, framework="pt") as opened:
            yield opened
    except FileNotFoundError:
        raise ParseError("cannot read this file: No such file or directory", file=file) from None
    except ParseError:
        raise
    except (SafetensorError, OSError, ValueError) as error:
        raise ParseError(f"expected a whole safetensors file, but it is damaged: {error}", file=file) from None


def _serialised(tensors: Mapping[str, Tensor]) -> bytes:
    """The bytes of a safetensors file, with a deterministic header, which safetensors' own is not."""
    content: bytes = safetensors.torch.save(dict(tensors), metadata={"format": "pt", "sha256": checksum(tensors)})
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:start])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # what follows is aligned
    return len(text).to_bytes(8, "little") + text + content[start:]


def checksum(tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 over all tensors; a flipped bit among a million weights changes no shape, and only this detects it."""
    total = hashlib.sha256()
    for name in sorted(tensors):
        total.update(name.encode())
        total.update(tensors[name].cpu().reshape(-1).view(torch.uint8).numpy().tobytes())
    return total.hexdigest()


_SCALE = ":scale"
_LARGEST = 127


def packed(tensors: Mapping[str, Tensor], storage: Storage) -> dict[str, Tensor]:
    r"""Tensors in the form in which they are stored.

    With ``int8`` a row :math:`x` of a matrix (a slice along the last dimension) becomes :math:`\mathrm{round}(x / s)`
    with :math:`s = \max_i |x_i| / 127`, so that no number changes by more than :math:`s / 2`; :math:`s` is stored
    beside it. Vectors, and with ``float16`` everything, are stored in 16 bits, unless a number is too large for them.
    Integers stay as they are, and so do tensors with numbers that are not finite, which readers refuse.

    Args:
        tensors: parameters and buffers by name.
        storage: ``float32`` changes nothing.

    Example:
        >>> stored = packed({"w": torch.tensor([[127.0, -64.0], [0.0, 0.0]]), "b": torch.zeros(2)}, "int8")
        >>> stored["w"].tolist(), stored["w:scale"].tolist(), stored["b"].dtype
        ([[127, -64], [0, 0]], [1.0, 1.0], torch.float16)
    """
    if storage == "float32":
        return dict(tensors)
    found: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if not tensor.is_floating_point() or not bool(tensor.isfinite().all()):
            found[name] = tensor
        elif storage == "float16" or tensor.dim() < 2:
            half = tensor.half()
            found[name] = half if bool(half.isfinite().all()) else tensor
        else:
            largest = tensor.float().abs().amax(-1)
            scale = torch.where(largest > 0, largest / _LARGEST, torch.ones_like(largest))
            found[name] = (tensor.float() / scale.unsqueeze(-1)).round().to(torch.int8)
            found[name + _SCALE] = scale
    return found


def unpacked(tensors: Mapping[str, Tensor], file: Path) -> dict[str, Tensor]:
    """The numbers of stored tensors: rows of 8 bits are multiplied by their scales, other tensors stay as they are.

    Args:
        tensors: as they were read; on the device ``meta`` only shapes and types matter.
        file: where they come from, for errors.

    Raises:
        ParseError: if scales do not match the rows of a matrix; the message names file and tensor.

    Example:
        >>> unpacked(packed({"w": torch.tensor([[127.0, -64.0]])}, "int8"), Path("w"))["w"].tolist()
        [[127.0, -64.0]]
    """
    found = {}
    for name, tensor in tensors.items():
        scale = tensors.get(name + _SCALE)
        if name.endswith(_SCALE) and name.removesuffix(_SCALE) in tensors:
            continue
        if scale is None:
            found[name] = tensor
            continue
        if tensor.dtype != torch.int8 or scale.shape != tensor.shape[:-1] or not scale.is_floating_point():
            raise ParseError(f"expected a scale for every row of 8-bit numbers in tensor {name!r}", file=file)
        found[name] = tensor.float() * scale.float().unsqueeze(-1)
    return found
