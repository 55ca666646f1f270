"""Everything, one part after the other, on one and on two threads, and a record of what each part printed.

Structures and readers run in the environment of the peers if there is one (``make peers``), the rest in this one. All
parts together take about a quarter of an hour on two quiet cores; what was left out for that is said above the tables.
``make tables`` shows the records on docs/evidence/speed.md and docs/evidence/rates.md. Readers, parsers and the server
are left out if no treebanks or no run is given.

    python -m benchmarks [--parts structures token2token] [--threads 1 2] [--results benchmarks/results]
        [--treebanks en_ewt-ud-dev.conllu.gz en_gum-ud-dev.conllu.gz] [--run demo/runs/transformer]
"""

import argparse
import importlib.util
import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from benchmarks import records
from benchmarks.records import Record
from structattn_papers.reproduction.records import code_version, processor


@dataclass(frozen=True)
class Part:
    """A program of this folder with options.

    Attributes:
        title: what it measures.
        options: of every run.
        later: further ones of every run but the first; ``None`` where one number of threads is enough.
        program: its name, where that is not the part's.
        reads: which of the files it reads, of ``Part.inputs``.
        needs: a package that it is left out without.
    """

    title: str
    options: Sequence[str] = ()
    later: Sequence[str] | None = None
    program: str | None = None
    reads: str | None = None
    needs: str | None = None

    def lacks(self, options: argparse.Namespace) -> str | None:
        """What it would need to run here."""
        if self.reads is not None and not self.inputs(options):
            return f"--{'run' if self.reads == 'run' else 'treebanks'}"
        return self.needs if self.needs is not None and importlib.util.find_spec(self.needs) is None else None

    def inputs(self, options: argparse.Namespace) -> list[str]:
        """The files that it is measured on."""
        treebanks = list(options.treebanks)
        files = {"treebank": treebanks[:1], "treebanks": treebanks, "run": [options.run] if options.run else []}
        return files[self.reads] if self.reads is not None else []


PARTS: dict[str, Part] = {
    "token2token": Part("DiSAN's token2token attention", ["--repeats", "2"], later=["--no-memory"]),
    "additive_scores": Part("Additive scores of pairs"),
    "hierarchical_accumulation": Part(
        "Hierarchical accumulation", ["--repeats", "2"], later=["--leaves", "30", "60", "120"]
    ),
    "long_segments": Part("Long segmentations", ["--repeats", "2"]),
    "collate": Part("Sentences to batches"),
    "readers": Part("Treebanks from disk", ["--sentences", "12544"], reads="treebank"),
    "parsers": Part("Parsers", ["--turns", "7"], reads="treebanks"),
    "parsers-bf16": Part(
        "Parsers in bfloat16",
        ["--turns", "7", "--mixed_precision", "bf16"],
        program="parsers",
        reads="treebanks",
    ),
    "raw_text": Part("Parsers on raw text", reads="treebanks"),
    "training_step": Part("A training step of the encoders"),
    "text_memory": Part("Memory of long texts", ["--pictures", "docs/evidence/figures"]),
    "ms_san_sep": Part("MS-SAN and separate directions"),
    "structured_step": Part("A training step with structured attention"),
    "large_scores": Part("The guard for large scores"),
    "translate": Part("Translations by search", needs="transformers"),
    "serve": Part("Requests to a server", ["--requests", "480"], reads="run"),
    "explorer": Part("Edits in the explorer", ["--edits", "15"], needs="playwright"),
}
STRUCTURES = Part("Structured distributions")
PEERS = ("structures", "readers", "long_segments")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=records.RESULTS, help="the folder of records")
    parser.add_argument("--parts", nargs="+", choices=["structures", *PARTS], default=["structures", *PARTS])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--treebanks", nargs="*", default=[], help="that parsers read, and readers the first of them")
    parser.add_argument("--run", help="that is served")
    parser.add_argument("--peers", default=_peers(), metavar="PYTHON", help="the Python that structures run with")
    options = parser.parse_args()
    start = time.perf_counter()
    for name in options.parts:
        if name == "structures":
            print(f"\n## {STRUCTURES.title}\n", flush=True)
            _run(name, STRUCTURES, options.threads, options)
            continue
        part = PARTS[name]
        if lacking := part.lacks(options):
            print(f"\n{name}: left out, as it needs {lacking}")
            continue
        for threads in options.threads if part.later is not None else options.threads[:1]:
            print(f"\n## {part.title}, {threads} {'thread' if threads == 1 else 'threads'}\n", flush=True)
            _run(name, part, [threads], options)
    print(f"\n{time.perf_counter() - start:.0f} seconds in all.")


def _run(name: str, part: Part, threads: list[int], options: argparse.Namespace) -> None:
    """Run a part, pass on what it prints, and save it; exit if it fails."""
    inputs = part.inputs(options)
    later = part.later or () if threads != options.threads[:1] else ()
    arguments = ["--threads", *map(str, threads), *part.options, *later]
    program = ["-m", f"benchmarks.{part.program or name}"]
    command = [options.peers if name in PEERS else sys.executable, *program, *inputs, *arguments]
    # Without passive waiting two threads can stall each other for seconds on a machine that does something else.
    environment = os.environ | {"OMP_NUM_THREADS": str(max(threads)), "OMP_WAIT_POLICY": "passive"}
    start, processor_start, output = time.perf_counter(), _processor_time(), []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            output.append(line.rstrip())
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with code {process.returncode}")
    seconds = round(time.perf_counter() - start, 1)
    print(f"\n({seconds:.0f} seconds, {_processor_time() - processor_start:.0f} of processor time)", flush=True)
    shown = " ".join(["python", *program, *(Path(file).name for file in inputs), *arguments])
    machine = f"{processor()}, torch {version('torch')}"
    record = Record(shown, tuple(threads), code_version(), machine, seconds, tuple(output))
    records.save(name, record, options.results)


def _processor_time() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _peers() -> str:
    python = Path(".venv-peers/bin/python")
    return str(python) if python.exists() else sys.executable


if __name__ == "__main__":
    main()
