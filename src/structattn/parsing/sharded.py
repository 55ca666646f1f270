"""Parse many files into a folder, by local or cluster workers; any interruption can be resumed."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm  # type: ignore[import-untyped]

from structattn.errors import ConfigError, StructAttnError, require
from structattn.files.replacing import claim_folder
from structattn.files.text import check_readable, is_remote
from structattn.options.checking import check_choice
from structattn.options.hardware import Hardware
from structattn.parsing.engines import ENGINES, cluster_address
from structattn.parsing.parsers import DEFAULT_PARSER, check_parser, load_parser
from structattn.parsing.shards import (
    ParseSettings,
    ShardRecord,
    missing_shards,
    read_record,
    targets_of,
    write_manifest,
)


def parse_shards(
    sources: Sequence[str],
    folder: str,
    parser: str = DEFAULT_PARSER,
    *,
    format: str | None = None,
    columns: Mapping[str, Any] | None = None,
    whole: bool = False,
    batch_size: int = 2048,
    engine: str = "local",
    num_workers: int = 1,
    address: str | None = None,
    hardware: Hardware | None = None,
) -> Iterator[ShardRecord]:
    """Parse files into a folder: a Parquet treebank for each, and ``manifest.jsonl`` with counts and checksums.

    Each file is written completely or not at all, so after any interruption the same call parses what is missing.

    Args:
        sources: files in any format of ``structattn parse``; ``s3://``, ``hf://`` and the like go through fsspec.
        folder: where to write; locked while this runs, unless it is remote.
        parser: as for :func:`parse`.
        format: format of the files; recognised from their names if ``None``.
        columns: ``text_column``, ``label_column`` and ``id_column`` of tables.
        whole: one sentence for each text.
        batch_size: number of texts parsed at a time.
        engine: ``local`` for processes on this machine, or ``ray`` for Ray Data.
        num_workers: number of workers, each with its own parser; the trees do not depend on it.
        address: address of a Ray cluster, or ``auto`` to find one; a cluster of this machine alone if ``None``.
        hardware: where the parser runs, and the precision.

    Yields:
        The records of finished shards, those of earlier calls first.

    Raises:
        ConfigError: if the folder is in use, or contains shards that were made with other settings; if nothing answers
            at the address.
        StructAttnError: if shards failed, once all others are done; the message names the first.
        MissingExtra: if pyarrow is not installed, or, for ``ray``, Ray.
    """
    check_choice(engine, ENGINES, "--engine")
    options: dict[str, Any] = {"num_workers": num_workers}
    if num_workers < 1:
        raise ConfigError(f"--num_workers: expected at least 1, got {num_workers}")
    if engine == "ray":
        require("ray", "scale")
        options["address"] = cluster_address(address)
    elif address is not None:
        raise ConfigError("--address: expected with --engine ray")
    require("pyarrow", "scale")
    check_parser(parser, hardware)
    for source in sources:
        check_readable(source)
    targets = targets_of(sources, folder)
    with contextlib.nullcontext() if is_remote(folder) else claim_folder(Path(folder)):
        if not is_remote(folder):
            for leftover in Path(folder).glob(".*.tmp"):
                leftover.unlink()
        known = load_parser(parser, hardware)
        version = f"{known.name} {known.version}"
        settings = ParseSettings(parser, version, format, dict(columns or {}), whole, batch_size)
        missing, done = missing_shards(targets, settings)
        yield from done
        if not missing:
            return
        failed = []
        try:
            results = ENGINES[engine](missing, settings, hardware, **options)
            for source, error in tqdm(results, total=len(missing), unit="shard", disable=None, dynamic_ncols=True):
                if error is not None:
                    failed.append(error)
                    continue
                done.append(read_record(targets[source]))
                yield done[-1]
        finally:
            write_manifest(folder, targets, done)
        if failed:
            raise StructAttnError(f"{len(failed)} of {len(targets)} shards failed, the first: {failed[0]}")
