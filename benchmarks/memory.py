"""How much memory a process has taken at most."""

import re
import resource
import sys
from pathlib import Path

STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def peak(*, reset: bool = False) -> float:
    """The largest resident size of this process so far, in megabytes; ``reset`` starts again from the present size."""
    if not STATUS.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024**2 if sys.platform == "darwin" else 1024)
    if reset:
        RESET.write_text("5")
    return status("VmHWM")


def limit_growth(megabytes: float) -> None:
    """From now on, refuse allocations beyond this much more than the present size; only where the system can."""
    if STATUS.exists():
        most = int((status("VmSize") + megabytes) * 1024**2)
        resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))


def status(name: str) -> float:
    """A size of this process as Linux has it, in megabytes."""
    return int(re.findall(rf"{name}:\s*(\d+)", STATUS.read_text())[0]) / 1024
