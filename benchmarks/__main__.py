"""Everything, one part after the other, on one and on two threads, and a record of what each part printed.

Structures and readers run in the environment of the peers if there is one (``make peers``), the rest in this one. All
parts together take about a quarter of an hour on two quiet cores; what was left out for that is said above the tables.
``make tables`` shows the records on docs/speed.md.

    python -m benchmarks [--parts structures token2token] [--threads 1 2] [--results benchmarks/results]
"""

import argparse
import os
import resource
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

from benchmarks import records
from benchmarks.records import Record
from structattn.reproduction.records import code_version, processor

# Part: what it is, its options, and those of every run but the first; None where one number of threads is enough.
PARTS: dict[str, tuple[str, list[str], list[str] | None]] = {
    "token2token": ("DiSAN's token2token attention", ["--repeats", "2"], ["--no-memory"]),
    "additive_scores": ("Additive scores of pairs", [], None),
    "hierarchical_accumulation": ("Hierarchical accumulation", ["--repeats", "2"], ["--leaves", "30", "60", "120"]),
    "collate": ("Sentences to batches", [], None),
    "readers": ("Treebanks from disk", [], None),
    "parsers": ("Parsers on the prose of the pages", [], None),
    "training_step": ("A training step of the encoders", [], None),
    "text_memory": ("Memory of long texts", ["--pictures", "docs/figures"], None),
    "ms_san_sep": ("MS-SAN and separate directions", [], None),
    "structured_step": ("A training step with structured attention", [], None),
}
STRUCTURES = "Structured distributions"
PEERS = ("structures", "readers")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=records.RESULTS, help="the folder of records")
    parser.add_argument("--parts", nargs="+", choices=["structures", *PARTS], default=["structures", *PARTS])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--peers", default=_peers(), metavar="PYTHON", help="the Python that structures run with")
    options = parser.parse_args()
    start = time.perf_counter()
    for part in options.parts:
        if part == "structures":
            print(f"\n## {STRUCTURES}\n", flush=True)
            _run(part, ["--threads", *map(str, options.threads)], options.threads, options)
            continue
        title, given, later = PARTS[part]
        for threads in options.threads if later is not None else options.threads[:1]:
            print(f"\n## {title}, {threads} {'thread' if threads == 1 else 'threads'}\n", flush=True)
            more = later or [] if threads != options.threads[0] else []
            _run(part, ["--threads", str(threads), *given, *more], [threads], options)
    print(f"\n{time.perf_counter() - start:.0f} seconds in all.")


def _run(part: str, given: list[str], threads: list[int], options: argparse.Namespace) -> None:
    """Run a part, pass on what it prints, and keep it.

    Raises:
        SystemExit: if the part fails.
    """
    command = [options.peers if part in PEERS else sys.executable, "-m", f"benchmarks.{part}", *given]
    # Without passive waiting two threads can stall each other for seconds on a machine that does something else.
    environment = os.environ | {"OMP_NUM_THREADS": str(max(threads)), "OMP_WAIT_POLICY": "passive"}
    start, before, output = time.perf_counter(), _processor_time(), []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            output.append(line.rstrip())
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with code {process.returncode}")
    seconds = round(time.perf_counter() - start, 1)
    print(f"\n({seconds:.0f} seconds, {_processor_time() - before:.0f} of processor time)", flush=True)
    shown = " ".join(["python", *command[1:]])
    machine = f"{processor()}, torch {version('torch')}"
    record = Record(shown, tuple(threads), code_version(), machine, seconds, tuple(output))
    records.save(part, record, options.results)


def _processor_time() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _peers() -> str:
    found = Path(".venv-peers/bin/python")
    return str(found) if found.exists() else sys.executable


if __name__ == "__main__":
    main()
