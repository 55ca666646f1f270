"""The peak memory of a run, on the CPU or an accelerator, so that encoders can be compared in it."""

import resource
import sys

import torch


def peak_memory(device: torch.device) -> float:
    """The peak memory of this process so far, in MiB.

    On a GPU that of torch's tensors; on a CPU the resident set size, with Python, torch and the data.

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
