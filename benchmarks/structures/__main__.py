"""Milliseconds and megabytes of the structured distributions, next to other libraries, in one run.

Rows: A linear chains, B projective trees, C all dependency trees, D phrase trees, E labelled segmentations. Modes:
train, marg, attn, argmax, topk, sample, entropy, kl; see ``contest.py``. Every row runs in a process of its own for
each number of threads, held to as many cores; inside, the libraries take turns. Peers that are not installed are named
with the way to install them (``make peers``). Memory is that of marg and attn on one thread; see ``memory.py``.

    python -m benchmarks.structures --rows B --sizes 40 80 --modes attn --threads 1 2 --json results.json
"""

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from typing import Any

import torch

from benchmarks.structures import memory, peers, table
from benchmarks.structures.contest import MODES, Contender, Pace, Result, compete
from benchmarks.structures.rows import ROWS
from structattn_papers.reproduction.records import processor

PEERS = ("torch-struct", "SuPar", "pytorch-crf", "SynJax")
COLUMNS = ("structattn", "structattn, edges", *PEERS)
# Compiles for about as long as all else takes; with more threads it competes when it is named.
ON_ONE_THREAD = "SynJax"
# Segmentations of fifty words take torch-struct minutes.
WEIGHED = ("A", "B", "C", "D")


def main() -> None:
    """Time, then measure memory, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="*", choices=list(ROWS), default=list(ROWS), help="which families")
    parser.add_argument(
        "--sizes", nargs="+", metavar="WORDS[,STATES]", help="only these sizes; all of a row if not given"
    )
    parser.add_argument("--modes", nargs="+", choices=MODES, default=list(MODES))
    parser.add_argument("--names", nargs="+", choices=COLUMNS, help="who competes; all if not given")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repeats", type=int, default=30, help="turns of each contender at most")
    parser.add_argument("--seconds", type=float, default=0.12, help="time for the turns of each contender in a cell")
    parser.add_argument(
        "--limit", type=float, default=1.0, help="a call that takes longer is not tried at larger sizes"
    )
    parser.add_argument("--memory", nargs="*", choices=list(ROWS), default=list(WEIGHED), help="families to weigh")
    parser.add_argument("--words", nargs="+", type=int, default=[50, 100, 200, 400], help="sizes to weigh them at")
    parser.add_argument("--json", metavar="FILE", help="all numbers, for machines")
    parser.add_argument("--in-this-process", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.in_this_process:
        return _compete_here(options)

    start = time.perf_counter()
    left_out = ON_ONE_THREAD if options.names is None and max(options.threads) > 1 else None
    options.names = list(COLUMNS) if options.names is None else options.names
    print(f"{processor()}; torch {torch.__version__}. Medians of at most {options.repeats} turns, milliseconds.")
    for reason in filter(None, map(peers.missing, [name for name in PEERS if name in options.names])):
        print(reason)
    if left_out:
        print(f"{left_out}, which compiles for long, on one thread only.")
    for letter in options.rows:
        row = ROWS[letter]
        print(f"{letter}: {row.title}, batch of {row.batch}, by {', '.join(row.axes)}.")
        for name, size in row.left_out:
            print(f"   Without {name} from {', '.join(map(str, size))} on, which takes seconds.")
    if options.rows:
        print("\n" + table.header(options.names), flush=True)
    results: list[dict[str, Any]] = []
    for threads in options.threads:
        for letter in options.rows:
            names = [name for name in options.names if threads == 1 or name != left_out]
            results += _compete_elsewhere(letter, threads, names, options)
    weights = _weigh(options)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"results": results, "memory": weights}, file, indent=1)
    print(f"\n{time.perf_counter() - start:.0f} seconds", flush=True)
    return None


def _compete_elsewhere(
    letter: str, threads: int, names: Sequence[str], options: argparse.Namespace
) -> list[dict[str, Any]]:
    """One row in a fresh process with its own threads; its lines are printed as they come."""
    command = [sys.executable, "-m", "benchmarks.structures", "--in-this-process", "--rows", letter]
    command += ["--threads", str(threads), "--modes", *options.modes, "--names", *names]
    command += ["--repeats", str(options.repeats), "--seconds", str(options.seconds), "--limit", str(options.limit)]
    command += ["--sizes", *options.sizes] if options.sizes else []
    # Without passive waiting two threads can stall each other for seconds on a machine that does something else.
    environment = os.environ | {"OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "passive"}
    results = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        for line in process.stdout or ():
            cell = [Result(**{**values, "size": tuple(values["size"])}) for values in json.loads(line)]
            print(table.line(cell, options.names), flush=True)
            results += [asdict(result) for result in cell]
    if process.returncode:
        raise SystemExit(f"row {letter} with {threads} threads ended with code {process.returncode}")
    return results


def _compete_here(options: argparse.Namespace) -> None:
    warnings.simplefilter("ignore")  # of the peers, about the torch they were written for
    (threads,) = options.threads
    cores = _hold_to(threads)
    torch.set_num_threads(threads)
    (row,) = (ROWS[letter] for letter in options.rows)
    pace = Pace(options.repeats, options.seconds, options.limit)
    pace.too_slow += [(name, mode, size) for name, size in row.left_out for mode in MODES]
    present = [name for name in _present(row.names) if name in options.names]
    for size in sorted(row.sizes + row.uneven, key=lambda size: size[::-1]):
        if options.sizes and ",".join(map(str, size)) not in options.sizes:
            continue
        names = [name for name in present if size not in row.uneven or name != ON_ONE_THREAD]
        contenders = [row.build(row.batch, size, name) for name in names]
        pairs = [(contender, mode) for contender in contenders for mode in options.modes if mode in contender.calls]
        _prepare([pair for pair in pairs if not pace.gave_up(pair[0].name, pair[1], size)], cores)
        for mode in options.modes:
            print(
                json.dumps([asdict(result) for result in compete(row.letter, contenders, size, mode, pace)]), flush=True
            )


def _hold_to(threads: int) -> set[int]:
    """Pin this process to this many cores, where the system can, and return all that it may use."""
    if not hasattr(os, "sched_setaffinity"):
        return set()
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(cores)[:threads])
    return cores


def _prepare(pairs: Sequence[tuple[Contender, str]], cores: set[int]) -> None:
    """Compile on all cores what is then run on a few."""
    widen = partial(os.sched_setaffinity, 0, cores) if cores else None
    with ThreadPoolExecutor(max(len(cores), 1), initializer=widen) as pool:
        for _ in pool.map(lambda pair: pair[0].prepare(pair[1]), pairs):
            pass


def _weigh(options: argparse.Namespace) -> list[dict[str, Any]]:
    if not options.memory:
        return []
    names = [name for name in memory.NAMES if name in options.names and name in _present(memory.NAMES)]
    print(f"\nMegabytes added to the peak, one thread; over {memory.LIMIT} MB or {memory.SECONDS} s it is stopped.\n")
    print(table.memory_header(names), flush=True)
    weights = []
    for row in memory.weigh(options.memory, options.words, names):
        print(table.memory_line(row, names), flush=True)
        weights.append(row)
    return weights


def _present(names: tuple[str, ...]) -> list[str]:
    return [name for name in names if name.startswith("structattn") or peers.missing(name) is None]


if __name__ == "__main__":
    main()
