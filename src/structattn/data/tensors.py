"""Tensors on disk: safetensors, never a pickle, with errors that name the file and the tensor.

Models, adapters, parsers and unfinished runs are all saved this way, in 32 or 16 bits, or in 8 bits with a scale for
every row of a matrix (Jacob et al. 2018, Quantization and training of neural networks for efficient
integer-arithmetic-only inference, section 2.1, here symmetric). A loaded model computes in 32 bits.
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
_SCALE = ":scale"  # ends the name of the scales of a tensor of 8 bits
_LARGEST = 127


def save_tensors(tensors: Mapping[str, Tensor], file: Path, storage: Storage = "float32") -> None:
    """Write tensors as safetensors, with a checksum; see ``pack`` and ``serialise``."""
    content = serialise(pack(tensors, storage))  # before the file is opened, which these tensors may be read from
    with open(file, "wb") as stream:
        stream.writelines(content)


def serialise(tensors: Mapping[str, Tensor], **metadata: str) -> tuple[bytes, memoryview]:
    """The header and the rest of a safetensors file; the header, with texts, is deterministic, unlike safetensors' own.

    Tensors that share memory are each written in full.
    """
    seen: set[int] = set()
    written = {}
    for name, tensor in tensors.items():
        shared = tensor.numel() > 0 and tensor.untyped_storage().data_ptr() in seen
        written[name] = tensor.detach().clone() if shared else tensor.detach().contiguous()
        seen.add(tensor.untyped_storage().data_ptr())
    metadata = {"format": "pt", "sha256": checksum(written), **metadata}
    content: bytes = safetensors.torch.save(written, metadata=metadata)
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:start])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # what follows is aligned
    return len(text).to_bytes(8, "little") + text, memoryview(content)[start:]


def read_tensors(file: Path) -> dict[str, Tensor]:
    """Read safetensors and verify the checksum if there is one; 8-bit numbers become 32-bit ones."""
    return read_with_metadata(file)[0]


def read_with_metadata(file: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read safetensors, as ``read_tensors``, and the texts in its header."""
    # safetensors 0.4 makes its tensors on the default device, whatever that is.
    with _open(file) as stream, torch.device("cpu"):
        tensors: dict[str, Tensor] = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118 - no dictionary
        metadata: dict[str, str] = stream.metadata() or {}
    if metadata.get("sha256") not in (None, checksum(tensors)):
        raise ParseError("is damaged: its tensors are not those that were written", file=file)
    return unpack(tensors, file), metadata


def load_tensors(model: nn.Module, file: Path, *, prefix: str = "") -> None:
    """Fill a model's parameters and buffers from a file, see ``fill_model``."""
    fill_model(model, read_tensors(file), file, prefix=prefix)


def fill_model(model: nn.Module, stored: Mapping[str, Tensor], file: Path, *, prefix: str = "") -> None:
    """Fill a model's parameters and buffers with tensors of a file.

    A tensor that is missing, of another shape or kind, or not finite is a ``ParseError`` that names it.
    """
    tensors = {name.removeprefix(prefix): tensor for name, tensor in stored.items()}
    _compare(model.state_dict(), tensors, file, prefix)
    for name, tensor in tensors.items():
        check_finite(prefix + name, tensor, file)
    with torch.no_grad():
        model.load_state_dict(tensors)


def build_and_load(build: Callable[[], _Module], file: Path, *, prefix: str = "") -> _Module:
    """Build a model and fill it from a file, on the CPU; the caller's random state stays as it was.

    It is built on the device ``meta`` first, so that no memory is allocated for a model that the file does not fit.
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


def check_like(name: str, tensor: Tensor, expected: Tensor, file: Path) -> None:
    """Refuse a tensor of another shape, or of another kind of numbers; floating point of any precision is one kind."""
    if tensor.shape != expected.shape:
        shapes = f"{tuple(expected.shape)}, got {tuple(tensor.shape)}"
        raise ParseError(f"expected tensor {name!r} of shape {shapes}", file=file)
    if tensor.dtype != expected.dtype and not (tensor.is_floating_point() and expected.is_floating_point()):
        raise ParseError(f"expected tensor {name!r} of type {expected.dtype}, got {tensor.dtype}", file=file)


def check_finite(name: str, tensor: Tensor, file: Path) -> None:
    """Refuse a tensor with NaN or infinite numbers, such as interrupted or diverged training leaves behind."""
    if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
        raise ParseError(f"expected finite numbers in tensor {name!r}, got NaN or infinity", file=file)


def _compare(expected: Mapping[str, Tensor], actual: Mapping[str, Tensor], file: Path, prefix: str) -> None:
    for name in sorted(expected.keys() | actual.keys()):
        if name not in actual:
            raise ParseError(f"expected a tensor {prefix + name!r}, it is missing", file=file)
        if name not in expected:
            raise ParseError(f"has a tensor {prefix + name!r} that the model lacks", file=file)
        check_like(prefix + name, actual[name], expected[name], file)


def _read_shapes(file: Path) -> dict[str, Tensor]:
    """The tensors of a file on the device ``meta``: shapes and types, no values."""
    with _open(file) as stream:
        shapes = {name: _read_shape(stream.get_slice(name)) for name in stream.keys()}  # noqa: SIM118 - no dictionary
    return unpack(shapes, file)


def _read_shape(piece: Any) -> Tensor:
    # safetensors has its own names for the types of slices; an empty piece of a slice has torch's type.
    shape = piece.get_shape()
    dtype = piece[:0].dtype if shape else piece[...].dtype
    return torch.empty(shape, dtype=dtype, device="meta")


@contextlib.contextmanager
def _open(file: Path) -> Iterator[Any]:
    try:
        with safetensors.safe_open(file, framework="pt") as stream:
            yield stream
    except FileNotFoundError:
        raise ParseError("cannot read this file: No such file or directory", file=file) from None
    except ParseError:
        raise
    except (SafetensorError, OSError, ValueError) as error:
        raise ParseError(f"expected a whole safetensors file, but it is damaged: {error}", file=file) from None


def checksum(tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 over all tensors; a flipped bit among a million weights changes no shape, and only this detects it."""
    total = hashlib.sha256()
    for name in sorted(tensors):
        total.update(name.encode())
        total.update(tensors[name].cpu().reshape(-1).view(torch.uint8).numpy().tobytes())
    return total.hexdigest()


def pack(tensors: Mapping[str, Tensor], storage: Storage) -> dict[str, Tensor]:
    """Tensors as they are stored. In ``int8`` a row of a matrix is ``round(x / s)`` beside its ``s = max |x| / 127``.

    Vectors, and in ``float16`` everything, have 16 bits, but for numbers too large; integers and tensors with NaN stay.
    """
    if storage == "float32":
        return dict(tensors)
    stored: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if not tensor.is_floating_point() or not bool(tensor.isfinite().all()):
            stored[name] = tensor
        elif storage == "float16" or tensor.dim() < 2:
            half = tensor.half()
            stored[name] = half if bool(half.isfinite().all()) else tensor
        else:
            largest = tensor.float().abs().amax(-1)
            scale = torch.where(largest > 0, largest / _LARGEST, torch.ones_like(largest))
            stored[name] = (tensor.float() / scale.unsqueeze(-1)).round().to(torch.int8)
            stored[name + _SCALE] = scale
    return stored


def unpack(tensors: Mapping[str, Tensor], file: Path) -> dict[str, Tensor]:
    """The numbers of stored tensors: rows of 8 bits are multiplied by their scales, other tensors stay as they are."""
    numbers = {}
    for name, tensor in tensors.items():
        scale = tensors.get(name + _SCALE)
        if name.endswith(_SCALE) and name.removesuffix(_SCALE) in tensors:
            continue
        if scale is None:
            numbers[name] = tensor
            continue
        if tensor.dtype != torch.int8 or scale.shape != tensor.shape[:-1] or not scale.is_floating_point():
            raise ParseError(f"expected a scale for every row of 8-bit numbers in tensor {name!r}", file=file)
        # On `meta` there is nothing to multiply, and torch would import its compiler to do so.
        numbers[name] = tensor.float() if tensor.is_meta else tensor.float() * scale.float().unsqueeze(-1)
    return numbers
