"""The peak memory of a run, on the CPU or an accelerator, so that encoders can be compared in it."""

import resource
import sys

import torch


def peak_memory(device: torch.device) -> float:
    """The most memory this process has had so far, in MiB.

    On a GPU what torch has had in tensors there; on a CPU the resident memory, with Python, torch and the data in it.

    Args:
        device: where the model is.

    Example:
        >>> peak_memory(torch.device("cpu")) > 1
        True
    """
    if device.type == "cuda":
        return round(torch.cuda.max_memory_allocated(device) / 2**20, 1)
    # Linux counts in KiB, macOS in bytes.
    unit = 1 if sys.platform == "darwin" else 2**10
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20, 1)
