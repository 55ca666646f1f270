"""Megabytes that a computation adds to the peak of a process, each measured in a fresh one.

A measurement is a fork of a process that has loaded the libraries and not yet used them. It may neither take more than
`LIMIT` megabytes, so that the machine does not swap, nor more than `SECONDS` of processor time; what does, or would if
memory grew no faster than the number of scores, is not tried on larger inputs. Modes: ``marg`` and ``attn``, see
``contest.py``. Prints one JSON object for each row, size and mode.

    python -m benchmarks.structures.memory --rows B C --words 50 100 --names structattn SuPar
"""

import argparse
import json
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from typing import Any

from benchmarks.memory import limit_growth, peak
from benchmarks.structures import peers
from benchmarks.structures.contest import Row

LIMIT, SECONDS = 4000, 30
MODES = ("marg", "attn")
STATES = 10
# SynJax compiles for minutes; it is measured when asked for.
NAMES = ("structattn", "structattn, edges", "torch-struct", "SuPar")


def weigh(rows: Sequence[str], words: Sequence[int], names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Weights of all contenders: ``row``, ``size``, ``mode`` and ``weights``, one by one as they come."""
    command = [sys.executable, "-m", "benchmarks.structures.memory", "--rows", *rows]
    command += ["--words", *map(str, words), "--names", *names]
    # Batches with a thread each would add their stacks and buffers.
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        yield from map(json.loads, process.stdout or ())
    if process.returncode:
        raise SystemExit(f"measuring memory ended with code {process.returncode}")


def added(row: Row, size: tuple[int, ...], name: str, mode: str) -> float | str:
    """Megabytes that one call adds in a process of its own, or which limit it broke."""
    context = multiprocessing.get_context("fork")
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=_measure, args=(sending, row, size, name, mode))
    process.start()
    sending.close()
    try:
        answer: float | str = receiving.recv()
        return answer
    except EOFError:
        process.join()
        if process.exitcode == 1:  # its own message stands above this one
            raise RuntimeError(f"{name}, row {row.letter}, {size}, {mode}: no measurement") from None
        if process.exitcode == -signal.SIGXCPU:
            return f"over {SECONDS} s"
        return f"over {LIMIT}"  # some libraries abort when they get no memory
    finally:
        process.kill()
        process.join()


def _measure(sending: Connection, row: Row, size: tuple[int, ...], name: str, mode: str) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 5))
    contender = row.build(row.batch, size, name)
    if contender.prepare(mode) is None:
        row.build(row.batch, tuple(2 for _ in size), name).calls[mode]()  # whatever is loaded at first use
    limit_growth(LIMIT)
    start = peak(reset=True)
    try:
        contender.calls[mode]()
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "allocat" not in str(error):
            raise
        sending.send(f"over {LIMIT}")
    else:
        sending.send(peak() - start)


def main() -> None:
    """Print what each contender adds."""
    from benchmarks.structures.rows import ROWS

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", choices=list(ROWS), default=list(ROWS))
    parser.add_argument("--words", nargs="+", type=int, default=[50, 100, 200, 400])
    parser.add_argument("--names", nargs="+", default=list(NAMES))
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of the peers, about the torch they were written for
    present = [name for name in options.names if name.startswith("structattn") or peers.missing(name) is None]
    for row in (ROWS[letter] for letter in options.rows):
        too_much: dict[str, str] = {}
        weighed: dict[tuple[str, str], tuple[int, float]] = {}
        for words in options.words:
            size = (words, STATES)[: len(row.axes)]
            for mode in MODES:
                weights: dict[str, float | str] = {}
                for name in (name for name in present if name in row.names):
                    fewer_words, megabytes = weighed.get((name, mode), (words, 0.0))
                    if megabytes * (words / fewer_words) ** row.growth > LIMIT:
                        too_much.setdefault(name, f"over {LIMIT}")
                    weight = too_much.get(name) or added(row, size, name, mode)
                    if isinstance(weight, str):
                        too_much[name] = weight
                    else:
                        weighed[name, mode] = words, weight
                    weights[name] = weight
                print(json.dumps({"row": row.letter, "size": size, "mode": mode, "weights": weights}), flush=True)


if __name__ == "__main__":
    main()
