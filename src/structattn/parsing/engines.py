"""Where shards are parsed: in processes on this machine, or on a cluster by Ray Data.

Both give each shard to one worker with its own parser, so the number of workers changes the time and nothing else.
"""

import logging
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import Any
from urllib.parse import urlsplit

from structattn.errors import ConfigError, StructAttnError, require
from structattn.options.hardware import Hardware
from structattn.parsing.parsers import load_parser
from structattn.parsing.processes import open_pool
from structattn.parsing.shards import ParseSettings, parse_shard

Result = tuple[str, str | None]
"""A file of texts, and its error message, or ``None`` if its shard is finished."""

_ATTEMPTS = 3
_SECONDS = 3  # each for connecting and for the answer: with a command's start, under ten in all on a busy machine
# How a connection of HTTP/2, which gRPC uses, begins, and the type of the first frame that a server sends.
_HELLO, _SETTINGS = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]), b"\x04"
_RAY_PORTS = {"ray": 10001, "": 6379}


class ShardParser:
    """A worker, which loads its parser once and parses one shard after the other.

    Args:
        settings: how to parse.
        hardware: where the parser runs.
    """

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


def local_engine(
    targets: Mapping[str, str], settings: ParseSettings, hardware: Hardware | None, *, num_workers: int
) -> Iterator[Result]:
    """Parse shards in processes on this machine; a single worker is this process itself.

    Shards whose worker was killed are started again.

    Raises:
        StructAttnError: if workers are killed again and again.
    """
    if num_workers == 1:
        worker = ShardParser(settings, hardware)
        yield from (worker.parse(source, target) for source, target in targets.items())
        return
    left = dict(targets)
    failures = 0
    while left:
        before = len(left)
        try:
            for source, error in _in_pool(left, settings, hardware, min(num_workers, len(left))):
                del left[source]
                yield source, error
        except BrokenProcessPool:
            failures = 0 if len(left) < before else failures + 1
            if failures == _ATTEMPTS:
                reason = "a parsing process was killed again and again (out of memory?)"
                left_over = f"{len(left)} shards are left; repeat the command to continue"
                raise StructAttnError(f"{reason}; {left_over}") from None


def ray_engine(
    targets: Mapping[str, str],
    settings: ParseSettings,
    hardware: Hardware | None,
    *,
    num_workers: int,
    address: str | None = None,
) -> Iterator[Result]:
    """Parse shards by Ray Data, with an actor for each worker; Ray starts the shards of a lost actor again.

    Args:
        targets: maps each file of texts to the file of its trees; all machines of the cluster must see them.
        settings: how to parse.
        hardware: where the parser runs.
        num_workers: number of actors, each with a core, or with a GPU where the parser runs on one.
        address: address of a cluster, as ``cluster_address`` returns it; a cluster of this machine alone if ``None``.

    Raises:
        MissingExtra: if Ray is not installed.
        ConfigError: if nothing answers at the address.
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
        found = data.from_items(items, override_num_blocks=len(items)).map_batches(
            ShardParser,
            fn_constructor_args=(settings, hardware),
            batch_size=1,
            compute=data.ActorPoolStrategy(size=min(num_workers, len(items))),
            num_cpus=0 if on_gpu else 1,
            num_gpus=1 if on_gpu else 0,
        )
        for row in found.iter_rows():
            yield str(row["source"]), str(row["error"]) or None
    finally:
        ray.shutdown()


def cluster_address(address: str | None) -> str | None:
    """Check that a Ray cluster answers at an address, and return the address; Ray itself would wait for minutes.

    Args:
        address: ``HOST:PORT``, ``ray://HOST:PORT``, or ``auto`` for the one that Ray finds: that of ``RAY_ADDRESS``, or
            of a cluster that was started on this machine; ``None`` for no cluster.

    Raises:
        MissingExtra: for ``auto`` if Ray is not installed.
        ConfigError: with the address, if nothing answers there, or none is found.

    Example:
        >>> cluster_address("localhost:1")
        Traceback (most recent call last):
        ...
        structattn.errors.ConfigError: --address: nothing answers at localhost:1 (Connection refused)
    """
    if address == "auto":
        address = _found_by_ray()
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


def _found_by_ray() -> str:
    """The address that ``ray.init("auto")`` would connect to, found without initialising Ray."""
    try:
        found = require("ray._private.services", "scale").canonicalize_bootstrap_address_or_die("auto")
    except ConnectionError:
        raise ConfigError(
            "--address: auto finds no Ray cluster on this machine, and RAY_ADDRESS names none; "
            "start one with ray start --head, or give its address"
        ) from None
    return str(found)


# The worker of this process, created once.
_worker: list[ShardParser] = []


def _in_pool(
    targets: Mapping[str, str], settings: ParseSettings, hardware: Hardware | None, num_workers: int
) -> Iterator[Result]:
    with open_pool(num_workers, _start, settings, hardware) as pool:
        for future in as_completed([pool.submit(_work, source, target) for source, target in targets.items()]):
            yield future.result()


def _start(settings: ParseSettings, hardware: Hardware | None) -> None:
    _worker.append(ShardParser(settings, hardware))


def _work(source: str, target: str) -> Result:
    return _worker[0].parse(source, target)


ENGINES: Mapping[str, Callable[..., Iterator[Result]]] = {"local": local_engine, "ray": ray_engine}
