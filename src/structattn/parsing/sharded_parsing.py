"""Parse many files into a folder, in processes on this machine or on a cluster by Ray Data.

Each shard goes to one worker with its own parser, so the number of workers changes the time and nothing else. Any
interruption can be resumed.
"""

import contextlib
import logging
import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from structattn.errors import ConfigError, StructAttnError, require
from structattn.files.progress import open_progress
from structattn.files.replacing import claim_folder
from structattn.files.text import check_readable
from structattn.files.urls import is_remote
from structattn.options.checking import check_choice
from structattn.options.hardware import Hardware
from structattn.parsing.parsers import DEFAULT_PARSER, check_parser, load_parser
from structattn.parsing.processes import open_pool
from structattn.parsing.shards import (
    ParseSettings,
    ShardRecord,
    find_missing_shards,
    name_targets,
    parse_shard,
    read_record,
    write_manifest,
)

Result = tuple[str, str | None]
"""A file of texts, and its error message, or ``None`` if its shard is finished."""

_ATTEMPTS = 3
_SECONDS = 3  # each for connecting and for the answer: with a command's start, under ten in all on a busy machine
# How a connection of HTTP/2, which gRPC uses, begins, and the type of the first frame that a server sends.
_HELLO, _SETTINGS = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]), b"\x04"
_RAY_PORTS = {"ray": 10001, "": 6379}

LOGGER = logging.getLogger("structattn.parsing")


def parse_shards(
    sources: Sequence[str],
    folder: str,
    parser: str = DEFAULT_PARSER,
    *,
    format: str | None = None,
    columns: Mapping[str, Any] | None = None,
    whole: bool = False,
    batch_size: int = 2048,
    strict: bool = False,
    engine: str = "local",
    num_workers: int = 1,
    address: str | None = None,
    hardware: Hardware | None = None,
) -> Iterator[ShardRecord]:
    """Parse files into a folder: a Parquet treebank for each, and ``manifest.jsonl`` with counts and checksums.

    The options are those of ``structattn parse``. The records of shards from earlier calls come first.
    """
    check_choice(engine, ENGINES, "--engine")
    options: dict[str, Any] = {"num_workers": num_workers}
    if num_workers < 1:
        raise ConfigError(f"--num_workers: expected at least 1, got {num_workers}")
    if engine == "ray":
        require("ray", "scale")
        options["address"] = check_address(address)
    elif address is not None:
        raise ConfigError("--address: expected with --engine ray")
    require("pyarrow", "scale")
    check_parser(parser, hardware)
    for source in sources:
        check_readable(source)
    targets = name_targets(sources, folder)
    # A remote folder cannot be locked.
    with contextlib.nullcontext() if is_remote(folder) else claim_folder(Path(folder)):
        if not is_remote(folder):
            for leftover in Path(folder).glob(".*.tmp"):
                leftover.unlink()
        loaded = load_parser(parser, hardware)
        version = f"{loaded.name} {loaded.version}"
        settings = ParseSettings(parser, version, format, dict(columns or {}), whole, batch_size, strict)
        missing, done = find_missing_shards(targets, settings)
        yield from done
        if not missing:
            return
        errors = []
        try:
            results = ENGINES[engine](missing, settings, hardware, **options)
            with contextlib.closing(open_progress(len(missing), unit="shard", logger=LOGGER)) as progress:
                for source, error in results:
                    progress.update()
                    if error is not None:
                        errors.append(error)
                        continue
                    done.append(read_record(targets[source]))
                    yield done[-1]
        finally:
            write_manifest(folder, targets, done)
        if errors:
            raise StructAttnError(f"{len(errors)} of {len(targets)} shards failed, the first: {errors[0]}")


class ShardParser:
    """A worker, which loads its parser once and parses one shard after the other."""

    def __init__(self, settings: ParseSettings, hardware: Hardware | None) -> None:
        self.settings = settings
        self.parser = load_parser(settings.parser, hardware)

    def parse(self, source: str, target: str) -> Result:
        """Parse one file; an error is returned, so that the other files are still parsed."""
        try:
            parse_shard(source, target, self.parser, self.settings)
        except StructAttnError as error:
            return source, str(error)
        except OSError as error:
            return source, f"{error.filename or target}: {(error.strerror or str(error)).lower()}"
        return source, None

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Map a batch of Ray Data, with columns of sources and targets, to columns of sources and errors."""
        pairs = zip(batch["source"], batch["target"], strict=True)
        results = [self.parse(str(source), str(target)) for source, target in pairs]
        return {"source": [source for source, _ in results], "error": [error or "" for _, error in results]}


def parse_locally(
    targets: Mapping[str, str], settings: ParseSettings, hardware: Hardware | None, *, num_workers: int
) -> Iterator[Result]:
    """Parse shards in processes on this machine; a single worker is this process itself.

    Shards whose worker was killed are started again, a few times.
    """
    if num_workers == 1:
        worker = ShardParser(settings, hardware)
        yield from (worker.parse(source, target) for source, target in targets.items())
        return
    left = dict(targets)
    failures = 0
    while left:
        count = len(left)
        try:
            for source, error in _parse_in_pool(left, settings, hardware, min(num_workers, len(left))):
                del left[source]
                yield source, error
        except BrokenProcessPool:
            failures = 0 if len(left) < count else failures + 1
            if failures == _ATTEMPTS:
                reason = "a parsing process was killed again and again (out of memory?)"
                left_over = f"{len(left)} shards are left; repeat the command to continue"
                raise StructAttnError(f"{reason}; {left_over}") from None


# The worker of this process, created once.
_worker: list[ShardParser] = []


def _parse_in_pool(
    targets: Mapping[str, str], settings: ParseSettings, hardware: Hardware | None, num_workers: int
) -> Iterator[Result]:
    with open_pool(num_workers, _start, settings, hardware) as pool:
        for future in as_completed([pool.submit(_work, source, target) for source, target in targets.items()]):
            yield future.result()


def _start(settings: ParseSettings, hardware: Hardware | None) -> None:
    _worker.append(ShardParser(settings, hardware))


def _work(source: str, target: str) -> Result:
    return _worker[0].parse(source, target)


def parse_by_ray(
    targets: Mapping[str, str],
    settings: ParseSettings,
    hardware: Hardware | None,
    *,
    num_workers: int,
    address: str | None = None,
) -> Iterator[Result]:
    """Parse shards by Ray Data, with an actor for each worker; Ray starts the shards of a lost actor again.

    Without an address, Ray runs on this machine; otherwise all machines of the cluster must see the files.
    """
    ray, data = require("ray", "scale"), require("ray.data", "scale")
    cores = {"num_cpus": num_workers, "include_dashboard": False} if address is None else {}
    # Ray's progress bars and plans are silenced; errors come back as results.
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    for name in ("ray", "ray.data"):
        logging.getLogger(name).setLevel(logging.ERROR)
    try:
        ray.init(address or "local", logging_level="error", log_to_driver=False, **cores)
    except (ConnectionError, ValueError) as error:
        raise ConfigError(f"--address: {address}: {str(error).splitlines()[0]}") from None

    try:
        data.DataContext.get_current().enable_progress_bars = False
        on_gpu = hardware is not None and hardware.device == "cuda"
        items = [{"source": source, "target": target} for source, target in targets.items()]
        results = data.from_items(items, override_num_blocks=len(items)).map_batches(
            ShardParser,
            fn_constructor_args=(settings, hardware),
            batch_size=1,
            compute=data.ActorPoolStrategy(size=min(num_workers, len(items))),
            num_cpus=0 if on_gpu else 1,
            num_gpus=1 if on_gpu else 0,
        )
        for row in results.iter_rows():
            yield str(row["source"]), str(row["error"]) or None
    finally:
        ray.shutdown()


def check_address(address: str | None) -> str | None:
    """Check that a Ray cluster answers at an address, and return the address, or the one found for ``auto``."""
    if address == "auto":
        address = _find_cluster()
    if address is None or address == "local":
        return address
    try:
        parts = urlsplit(address if "://" in address else f"//{address}")
        port = parts.port or _RAY_PORTS[parts.scheme]
        host = parts.hostname if parts.scheme in _RAY_PORTS else None
    except (ValueError, KeyError):
        host, port = None, 0
    if host is None:
        raise ConfigError(f"--address: expected auto, HOST:PORT or ray://HOST:PORT, got {address!r}")
    # Ray would try for minutes, also at the port of its own dashboard, which does not speak gRPC.
    try:
        with socket.create_connection((host, port), timeout=_SECONDS) as connection:
            connection.sendall(_HELLO)
            is_grpc = connection.recv(4)[3:] == _SETTINGS
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"--address: nothing answers at {address} ({reason})") from None
    if not is_grpc:
        raise ConfigError(f"--address: the server at {address} is not a Ray cluster")
    return address


def _find_cluster() -> str:
    """The address that ``ray.init("auto")`` would connect to; no public function of Ray tells it before connecting."""
    try:
        services = require("ray._private.services", "scale")
        return str(services.canonicalize_bootstrap_address_or_die("auto"))
    except ConnectionError:
        raise ConfigError(
            "--address: auto finds no Ray cluster on this machine, and RAY_ADDRESS names none; "
            "start one with ray start --head, or give its address"
        ) from None


ENGINES: Mapping[str, Callable[..., Iterator[Result]]] = {"local": parse_locally, "ray": parse_by_ray}
