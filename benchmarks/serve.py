"""Requests a second of `structattn serve`, and how long they take, for some clients at a time, batches on and off.

The server is a process of its own. Each client is a thread that asks one text after the other over one connection, so
as many requests are under way as there are clients; the texts are words by chance. Requests that are refused with 503
are counted, and not asked again.

    python -m benchmarks.serve RUN [--clients 1 8 32] [--requests 500] [--threads 1] [--path /predict]
"""

import argparse
import http.client
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks import markdown
from benchmarks.sentences import WORDS

COLUMNS = ("batches", "clients", "requests a second", "p50, ms", "p99, ms", "refused")


@contextmanager
def served(run: str, options: list[str], *, threads: int) -> Iterator[tuple[str, str]]:
    """The address and the token of a server of this run, whose model has so many threads."""
    command = [sys.executable, "-m", "structattn", "serve", run, "--device", "cpu", *options]
    environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        printed = json.loads(process.stdout.readline())
        try:
            yield printed["url"].removeprefix("http://"), printed["token"]
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()


def load(address: str, token: str, *, path: str, clients: int, requests: int) -> tuple[float, list[float], int]:
    """Seconds in all, milliseconds of each answered request, and how many were refused."""
    taken: list[float] = []
    refused: list[int] = []
    wrong: list[str] = []
    start = threading.Barrier(clients + 1)
    headers = {"X-Token": token, "Content-Type": "application/json"}

    def client(seed: int) -> None:
        draw = random.Random(seed)
        connection = http.client.HTTPConnection(address, timeout=60)
        start.wait()
        for _ in range(requests // clients):
            text = " ".join(draw.choices(WORDS, k=draw.randint(5, 30)))
            since = time.perf_counter()
            connection.request("POST", path, json.dumps({"texts": [text]}), headers)
            answer = connection.getresponse()
            content = answer.read().decode()
            if answer.status == 200:
                taken.append(1000 * (time.perf_counter() - since))
            elif answer.status == 503:
                refused.append(answer.status)
            else:
                wrong.append(f"{answer.status}: {content}")
                break
        connection.close()

    threads = [threading.Thread(target=client, args=(seed,)) for seed in range(clients)]
    for thread in threads:
        thread.start()
    start.wait()
    since = time.perf_counter()
    for thread in threads:
        thread.join()
    if wrong:
        raise SystemExit(f"expected answers, got {wrong[0]}")
    return time.perf_counter() - since, taken, len(refused)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--threads", type=int, default=1, help="of the model")
    parser.add_argument("--path", default="/predict", choices=["/predict", "/parse", "/attention"])
    options = parser.parse_args()
    print(markdown.header(COLUMNS), flush=True)
    for name, arguments in (("on", []), ("off", ["--max_batch", "1"])):
        with served(options.run, arguments, threads=options.threads) as (address, token):
            load(address, token, path=options.path, clients=4, requests=40)
            for clients in options.clients:
                sizes = {"clients": clients, "requests": options.requests}
                seconds, taken, refused = load(address, token, path=options.path, **sizes)
                cuts = statistics.quantiles(taken, n=100)
                row = [name, clients, f"{len(taken) / seconds:.0f}", f"{cuts[49]:.1f}", f"{cuts[98]:.1f}", refused]
                print(markdown.line(row), flush=True)


if __name__ == "__main__":
    main()
