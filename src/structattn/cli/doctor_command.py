"""``structattn doctor``: the state of this installation, and how to install missing extras."""

import importlib.metadata
import json as jsonlib
import os
import platform
import re
import sys
from collections.abc import Iterator

from structattn import __version__

_MARKER = re.compile(
    r"^([\w.-]+).*;\s*(?:sys_platform\s*==\s*['\"](\w+)['\"]\s*and\s*)?extra\s*==\s*['\"]([\w-]+)['\"]"
)


def command(*, json: bool = False) -> Iterator[str]:
    """Show versions, devices, extras and kernels of this installation.

    Args:
        json: print one JSON object instead of lines.
    """
    facts = {**_versions(), **_devices(), "kernels": _kernels(), "gpu_kernels": _gpu_kernels()}
    extras = {extra: _missing(packages) for extra, packages in _extras().items()}
    if json:
        yield jsonlib.dumps({**facts, "extras": {extra: not missing for extra, missing in extras.items()}})
        return
    rows = [(name.replace("_", " "), str(value)) for name, value in facts.items()]
    rows += [(f"extra {extra}", _verdict(extra, missing)) for extra, missing in extras.items()]
    if not extras:
        rows.append(("extras", "unknown, as structattn itself is not installed: pip install structattn"))
    width = max(len(name) for name, _ in rows)
    yield from (f"{name:<{width}}  {value}" for name, value in rows)


def _verdict(extra: str, missing: list[str]) -> str:
    return f"missing {', '.join(missing)}: pip install 'structattn[{extra}]'" if missing else "installed"


def _versions() -> dict[str, str]:
    packages = {name: importlib.metadata.version(name) for name in ("torch", "numpy", "jsonargparse")}
    system = {"python": platform.python_version(), "platform": platform.platform(terse=True), "structattn": __version__}
    return system | packages


def _devices() -> dict[str, object]:
    import torch

    accelerators = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        accelerators.append("mps")
    return {"cores": os.cpu_count(), "threads": torch.get_num_threads(), "devices": ", ".join(["cpu", *accelerators])}


def _kernels() -> str:
    from structattn.kernels import native

    return native.status().reason


def _gpu_kernels() -> str:
    """The status of the GPU kernels, once each has been tried on a sentence of two words."""
    import torch

    from structattn.distributions import (
        ConstituencyCRF,
        DependencyCRF,
        LinearChainCRF,
        NonProjectiveDependencyCRF,
        SemiMarkovCRF,
    )
    from structattn.functional import token2token
    from structattn.kernels import gpu

    device = gpu.device()
    if device is not None:
        scores = torch.zeros(2, 1, 1, 1, 1, device=device, requires_grad=True)
        for structures in (
            DependencyCRF(scores.view(2, 1).expand(2, 3)),
            NonProjectiveDependencyCRF(scores.view(2, 1).expand(2, 3)),
            ConstituencyCRF(scores.view(2)[0].expand(3, 3)),
            LinearChainCRF(scores.view(2, 1), scores.view(2)[0].view(1, 1)),
            SemiMarkovCRF(scores.view(2, 1, 1, 1)),
        ):
            structures.marginals().sum().backward()
            structures.argmax()
            structures.sample(1)
        words, allowed = scores.view(1, 2, 1), torch.ones(1, 1, 1, dtype=torch.bool, device=device)
        token2token(words, words, scores.view(2)[0].view(1), words, allowed.expand(1, 2, 2)).sum().backward()
    return gpu.status()


def _extras() -> dict[str, list[str]]:
    """Each extra of this package and the distributions it brings, from its metadata; none if it is not installed."""
    extras: dict[str, list[str]] = {}
    try:
        requirements = importlib.metadata.requires("structattn") or []
    except importlib.metadata.PackageNotFoundError:
        return {}
    for requirement in requirements:
        match = _MARKER.match(requirement)
        if match and match[1] != "structattn" and match[2] in (None, sys.platform):
            extras.setdefault(match[3], []).append(match[1])
    return extras


def _missing(packages: list[str]) -> list[str]:
    installed = {re.sub(r"[-_.]+", "-", d.metadata["Name"]).lower() for d in importlib.metadata.distributions()}
    return [package for package in packages if re.sub(r"[-_.]+", "-", package).lower() not in installed]
