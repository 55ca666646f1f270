"""Tensors on disk: safetensors, never a pickle, with errors that name the file and the tensor.

Models, adapters, parsers and unfinished runs are all saved this way.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from structattn.syntax.errors import ParseError


def save_tensors(tensors: Mapping[str, Tensor], file: Path) -> None:
    """Write tensors as safetensors, with a checksum; tensors that share memory are written out each."""
    seen: set[int] = set()
    written = {}
    for name, tensor in tensors.items():
        shared = tensor.numel() > 0 and tensor.untyped_storage().data_ptr() in seen
        written[name] = tensor.detach().clone() if shared else tensor.detach().contiguous()
        seen.add(tensor.untyped_storage().data_ptr())
    file.write_bytes(_serialised(written))


def read_tensors(file: Path) -> dict[str, Tensor]:
    """Read safetensors; where there is a checksum, it must be right.

    Raises:
        ParseError: if the file is missing, truncated or damaged; the message names it.
    """
    try:
        with safetensors.safe_open(file, framework="pt") as opened:
            found: dict[str, Tensor] = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 - it is no dictionary
            expected = (opened.metadata() or {}).get("sha256")
    except FileNotFoundError:
        raise ParseError("cannot read this file: No such file or directory", file=file) from None
    except (SafetensorError, OSError, ValueError) as error:
        raise ParseError(f"expected a whole safetensors file, it is damaged: {error}", file=file) from None
    if expected not in (None, _checksum(found)):
        raise ParseError("is damaged: its tensors are not those that were written", file=file)
    return found


def load_tensors(model: nn.Module, file: Path, *, prefix: str = "") -> None:
    """Fill a model's parameters and buffers from a file.

    Raises:
        ParseError: if the file is damaged, or its tensors are not the model's; the message names file and tensor.
    """
    found = {name.removeprefix(prefix): tensor for name, tensor in read_tensors(file).items()}
    expected = model.state_dict()
    for name in sorted(expected.keys() | found.keys()):
        if name not in found:
            raise ParseError(f"expected a tensor {prefix + name!r}, it is missing", file=file)
        if name not in expected:
            raise ParseError(f"has a tensor {prefix + name!r} that the model lacks", file=file)
        if found[name].shape != expected[name].shape:
            shapes = f"{tuple(expected[name].shape)}, got {tuple(found[name].shape)}"
            raise ParseError(f"expected tensor {prefix + name!r} of shape {shapes}", file=file)
    with torch.no_grad():
        model.load_state_dict(found)


def _serialised(tensors: Mapping[str, Tensor]) -> bytes:
    """The bytes of a safetensors file, deterministic, which safetensors' own header is not."""
    content: bytes = safetensors.torch.save(dict(tensors), metadata={"format": "pt", "sha256": _checksum(tensors)})
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:start])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # what follows is aligned
    return len(text).to_bytes(8, "little") + text + content[start:]


def _checksum(tensors: Mapping[str, Tensor]) -> str:
    """One flipped bit among a million weights changes no shape; only a checksum over all of them detects it."""
    total = hashlib.sha256()
    for name in sorted(tensors):
        total.update(name.encode())
        total.update(tensors[name].cpu().reshape(-1).view(torch.uint8).numpy().tobytes())
    return total.hexdigest()
