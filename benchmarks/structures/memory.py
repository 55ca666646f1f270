"""Megabytes that a computation adds to the peak of a process, each measured in a fresh one.

python -m benchmarks.structures.memory B 100 structattn attn
"""

import os
import re
import resource
import subprocess
import sys
from pathlib import Path

from benchmarks.structures.contest import Contender, Row

STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


# Megabytes that a call may take: what needs more is stopped, so that the machine does not swap.
LIMIT = 4000


def added(row: Row, size: tuple[int, ...], name: str, mode: str) -> float | None:
    """Megabytes that one call adds, or None if they are more than `LIMIT`."""
    command = [sys.executable, "-m", "benchmarks.structures.memory", row.letter, *map(str, size), name, mode]
    # Batches with a thread each would add their stacks and buffers.
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise RuntimeError(f"{name}, row {row.letter}, {size}, {mode}: {done.stderr.strip().splitlines()[-1]}")
    return None if done.stdout.strip() == "over" else float(done.stdout)


def measured(row: Row, size: tuple[int, ...], name: str, mode: str) -> float | None:
    """Megabytes, in this process: call it in a fresh one; None if they are more than `LIMIT`."""
    _contender(row, tuple(2 for _ in size), name).calls[mode]()  # whatever is loaded at first use
    call = _contender(row, size, name).calls[mode]
    _limit_growth()
    before = peak(reset=True)
    try:
        call()
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "allocate memory" not in str(error):
            raise
        return None
    return peak() - before


def _limit_growth() -> None:
    if STATUS.exists():
        now = int(re.findall(r"VmSize:\s*(\d+)", STATUS.read_text())[0]) * 1024
        resource.setrlimit(resource.RLIMIT_AS, (now + LIMIT * 1024**2, resource.RLIM_INFINITY))


def peak(*, reset: bool = False) -> float:
    """The largest resident size of this process so far, in megabytes.

    Args:
        reset: start again from the present size, where the system can.
    """
    if not STATUS.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024**2 if sys.platform == "darwin" else 1024)
    if reset:
        RESET.write_text("5")
    return int(re.findall(r"VmHWM:\s*(\d+)", STATUS.read_text())[0]) / 1024


def _contender(row: Row, size: tuple[int, ...], name: str) -> Contender:
    return row.build(row.batch, size, name)


def main() -> None:
    """Print the megabytes of one call."""
    from benchmarks.structures.rows import ROWS

    letter, *size, name, mode = sys.argv[1:]
    megabytes = measured(ROWS[letter], tuple(map(int, size)), name, mode)
    print("over" if megabytes is None else megabytes)


if __name__ == "__main__":
    main()
