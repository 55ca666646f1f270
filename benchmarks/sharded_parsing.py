"""Many sentences parsed in shards by several workers, killed twice and resumed, and the memory of it all over time.

The texts of treebanks and of SNLI, with their corpus as label, are repeated under new ids until there are enough. When
a third of the shards is finished a worker gets SIGKILL, at two thirds the command itself, which is then given again.
The checksums of all rows must be those of a run that nobody disturbs, here of its first shards. What is finished stays
in the folder, so that the benchmark itself can be interrupted, too.

    python -m benchmarks.sharded_parsing en_ewt-ud-train.conllu.gz en_gum-ud-dev.conllu.gz snli_1.0_train.jsonl.gz \\
        --out runs/million [--sentences 1000000] [--mixed_precision bf16] \\
        [--picture docs/evidence/figures/parsing-memory.svg]

Memory is what the processes hold together: what they share counts once (proportional set size).
"""

import argparse
import gzip
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

import structattn as sa
from benchmarks.markdown import header, line
from structattn.files.json_yaml import read_json_lines
from structattn.pictures import Series, line_chart, save

WORKER, COMMAND = "a worker", "the command"
SECONDS = 2.0  # between two looks at the memory
POINTS = 40  # of a line of the picture: the most within as many equal times


def read_texts(path: Path) -> list[str]:
    """The different texts of a treebank, or of SNLI's pairs, in their order."""
    if ".conllu" in path.name:
        return list(dict.fromkeys(sentence.text for sentence in sa.read_conllu(path) if len(sentence)))
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        pairs = [json.loads(row) for row in stream]
    return list(dict.fromkeys(pair[name] for pair in pairs for name in ("sentence1", "sentence2")))


def write_texts(sources: Sequence[Path], folder: Path, number: int, shards: int) -> None:
    """Shards of JSON lines with ids, texts, and as label the corpus of each."""
    texts = [(path.name.split(".")[0], text) for path in sources for text in read_texts(path)]
    print(f"{len(texts):,} different texts", flush=True)
    rows = enumerate(itertools.cycle(texts))
    temporary = folder.with_name(f"{folder.name}.tmp")
    temporary.mkdir(parents=True, exist_ok=True)
    for shard in range(shards):
        with (temporary / f"{shard:04d}.jsonl").open("w", encoding="utf-8") as stream:
            size = (shard + 1) * number // shards - shard * number // shards
            for index, (corpus, text) in itertools.islice(rows, size):
                row = {"id": f"s{index}", "label": corpus, "text": text}
                stream.write(json.dumps(row, ensure_ascii=False) + "\n")
    temporary.rename(folder)


def measure_memory(process: psutil.Process) -> float:
    """MB of a process and of those that it started."""
    total = 0
    for member in [process, *process.children(recursive=True)]:
        try:
            total += member.memory_full_info().pss
        except psutil.Error:  # it has just ended
            continue
    return total / 1e6


class Watch:
    """Runs of a command that writes shards into the folder ``out``, and a log of them in JSON lines."""

    def __init__(self, command: Sequence[str], out: Path, log: Path) -> None:
        self.command = command
        self.out = out
        self.log = log

    def run(self, kills: list[tuple[int, str]]) -> int:
        """The code of one run, whose victims are killed when so many shards are finished, and taken off the list."""
        process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL)
        parent = psutil.Process(process.pid)
        while process.poll() is None:
            finished = len(list(self.out.glob("*.parquet")))
            self._note(finished=finished, megabytes=round(measure_memory(parent), 1))
            if kills and finished >= kills[0][0] and (pid := _pid(parent, kills[0][1])):
                os.kill(pid, signal.SIGKILL)
                self._note(killed=kills.pop(0)[1], finished=finished)
            time.sleep(SECONDS)
        return process.returncode

    def _note(self, **values: Any) -> None:
        with self.log.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps({"time": round(time.time(), 1), **values}) + "\n")


def _pid(process: psutil.Process, victim: str) -> int | None:
    """The victim: the command, or its busiest worker, if it has one."""
    if victim == COMMAND:
        return process.pid
    workers = process.children()
    return max(workers, key=lambda worker: worker.cpu_times().user).pid if workers else None


def checksums(folder: Path) -> dict[str, str]:
    return {row["file"]: row["rows_sha256"] for row in read_json_lines(folder / "manifest.jsonl")}


def picture(log: Path, file: Path) -> None:
    """The memory over time, one line from each kill to the next."""
    rows = list(read_json_lines(log))
    begin = rows[0]["time"]
    parts: list[list[tuple[float, float]]] = [[]]
    names = []
    for row in rows:
        if "killed" in row:
            names.append(f"until {row['killed']} was killed")
            parts.append([])
        else:
            parts[-1].append(((row["time"] - begin) / 60, row["megabytes"]))
    lines = []
    for name, part in zip([*names, "until the end"], parts, strict=True):
        size = -(-len(part) // POINTS)
        peaks = [max(part[start : start + size], key=lambda point: point[1]) for start in range(0, len(part), size)]
        lines.append(Series(name, [x for x, _ in peaks], [y for _, y in peaks]))
    title = "Memory of structattn parse and its workers"
    save(file, line_chart(lines, title=title, x_label="minutes", y_label="MB", from_zero=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="+", type=Path, help="CoNLL-U, or SNLI as JSON lines in gzip")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sentences", type=int, default=1_000_000)
    parser.add_argument("--shards", type=int, default=100)
    parser.add_argument("--undisturbed", type=int, help="shards of the run that nobody disturbs; by default all")
    parser.add_argument("--num_workers", type=int, default=2)
    parser.add_argument("--mixed_precision", default="no")
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    texts, log = options.out / "texts", options.out / "memory.jsonl"
    if not texts.exists():
        write_texts(options.sources, texts, options.sentences, options.shards)
    arguments = ["--num_workers", str(options.num_workers), "--mixed_precision", options.mixed_precision]

    def command(folder: Path, out: Path) -> list[str]:
        return [sys.executable, "-m", "structattn", "parse", f"{folder}/*.jsonl", "--out", str(out), *arguments]

    kills = [(options.shards // 3, WORKER), (2 * options.shards // 3, COMMAND)]
    trees = Watch(command(texts, options.out / "trees"), options.out / "trees", log)
    while (code := trees.run(kills)) == -signal.SIGKILL:
        print("killed; the same command again", flush=True)
    if code:
        raise SystemExit(f"{' '.join(trees.command)} ended with code {code}")

    part = options.out / "part"
    part.mkdir(exist_ok=True)
    for file in sorted(texts.iterdir())[: options.undisturbed]:
        if not (part / file.name).exists():
            os.link(file, part / file.name)
    subprocess.run(command(part, options.out / "undisturbed"), check=True, stdout=subprocess.DEVNULL)

    disturbed, expected = checksums(options.out / "trees"), checksums(options.out / "undisturbed")
    same = sum(disturbed[name] == expected[name] for name in expected)
    rows = list(read_json_lines(options.out / "trees" / "manifest.jsonl"))
    most = max(row["megabytes"] for row in read_json_lines(log) if "megabytes" in row)
    counts = [sum(row[name] for row in rows) for name in ("sentences", "words")]
    print(header(["sentences", "words", "shards", "the same as undisturbed", "MB at most"]))
    cells = [*(f"{count:,}" for count in counts), len(rows), f"{same} of {len(expected)}", f"{most:,.0f}"]
    print(line(cells))
    if options.picture is not None:
        picture(log, options.picture)


if __name__ == "__main__":
    main()
