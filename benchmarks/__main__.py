"""Everything, one part after the other, on one and on two threads; the tables go to a Markdown file too.

Structures and readers run in the environment of the peers if there is one (``make peers``), the rest in this one. All
parts together take about a quarter of an hour on two quiet cores; what was left out for that is said above the tables.

    python -m benchmarks [--out runs/benchmarks.md] [--parts structures token2token] [--threads 1 2]
"""

import argparse
import os
import platform
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import TextIO

# Part: what it is, its options, and those of every run but the first; None where one number of threads is enough.
PARTS: dict[str, tuple[str, list[str], list[str] | None]] = {
    "token2token": ("DiSAN's token2token attention", ["--repeats", "2"], ["--no-memory"]),
    "additive_scores": ("Additive scores of pairs", [], None),
    "hierarchical_accumulation": ("Hierarchical accumulation", ["--repeats", "2"], ["--leaves", "30", "60", "120"]),
    "collate": ("Sentences to batches", [], None),
    "readers": ("Treebanks from disk", [], None),
    "parsers": ("Parsers on the prose of the pages", [], None),
    "training_step": ("A training step of the encoders", [], None),
    "text_memory": ("Memory of long texts", [], None),
    "ms_san_sep": ("MS-SAN and separate directions", [], None),
    "structured_step": ("A training step with structured attention", [], None),
}
STRUCTURES = "Structured distributions"
PEERS = ("readers",)  # beside the structures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="the tables, for a page")
    parser.add_argument("--parts", nargs="+", choices=["structures", *PARTS], default=["structures", *PARTS])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--peers", default=_peers(), metavar="PYTHON", help="the Python that structures run with")
    options = parser.parse_args()
    start = time.perf_counter()
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
    whole = Path(os.devnull) if options.out is None else options.out.with_name(options.out.name + ".part")
    with whole.open("w", encoding="utf-8") as file:
        _say(f"# Speed and memory\n\n{platform.processor() or platform.machine()}, {os.cpu_count()} cores.\n", file)
        for part in options.parts:
            if part == "structures":
                _say(f"\n## {STRUCTURES}\n", file)
                threads = [str(number) for number in options.threads]
                _run([options.peers, "-m", "benchmarks.structures", "--threads", *threads], max(options.threads), file)
                continue
            title, given, later = PARTS[part]
            for threads in options.threads if later is not None else options.threads[:1]:
                _say(f"\n## {title}, {threads} {'thread' if threads == 1 else 'threads'}\n", file)
                python = options.peers if part in PEERS else sys.executable
                command = [python, "-m", f"benchmarks.{part}", "--threads", str(threads), *given]
                _run([*command, *(later or [] if threads != options.threads[0] else [])], threads, file)
        _say(f"\n{time.perf_counter() - start:.0f} seconds in all.\n", file)
    if options.out is not None:
        whole.replace(options.out)


def _run(command: list[str], threads: int, file: TextIO) -> None:
    """Run a part and pass on what it prints.

    Raises:
        SystemExit: if the part fails.
    """
    # Without passive waiting two threads can stall each other for seconds on a machine that does something else.
    environment = os.environ | {"OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "passive"}
    start, before = time.perf_counter(), _processor()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        for line in process.stdout or ():
            _say(line, file)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with code {process.returncode}")
    _say(f"\n({time.perf_counter() - start:.0f} seconds, {_processor() - before:.0f} of processor time)\n", file)


def _processor() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _say(text: str, file: TextIO) -> None:
    print(text, end="", flush=True)
    file.write(text)
    file.flush()


def _peers() -> str:
    found = Path(".venv-peers/bin/python")
    return str(found) if found.exists() else sys.executable


if __name__ == "__main__":
    main()
