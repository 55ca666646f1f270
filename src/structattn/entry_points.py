"""What installed packages add to structattn, read from their metadata without importing anything.

``importlib.metadata`` takes as long to import as all the rest of ``structattn --help``.
"""

import os
import re
import sys
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

_ENTRY = re.compile(r"^(?P<name>[^#;\[=\s][^=]*?)\s*=\s*(?P<address>[\w.]+:[\w.]+)\s*$", re.MULTILINE)
_GROUP = re.compile(r"^\[structattn\.(?P<table>\w+)\]\s*$(?P<entries>(?:\n(?!\[).*)*)", re.MULTILINE)


class Entry(NamedTuple):
    """An entry point of an installed package: its ``module:name``, and the package's name."""

    address: str
    package: str


def entry_points(table: str) -> Mapping[str, Entry]:
    """The entry points of installed packages in the group ``structattn.TABLE``, by name.

    If several packages declare one name, the first on ``sys.path`` has it.
    """
    return _installed(tuple(sys.path)).get(table, {})


@cache
def _installed(path: tuple[str, ...]) -> dict[str, dict[str, Entry]]:
    """The entry points of all tables."""
    tables: dict[str, dict[str, Entry]] = {}
    for folder in path:
        try:
            names = sorted(name for name in os.listdir(folder or ".") if name.endswith((".dist-info", ".egg-info")))
        except OSError:
            continue
        for name in names:
            try:
                with open(os.path.join(folder, name, "entry_points.txt"), encoding="utf-8") as file:
                    text = file.read()
            except OSError:
                continue
            for group in _GROUP.finditer(text):
                rows = tables.setdefault(group["table"], {})
                for entry in _ENTRY.finditer(group["entries"]):
                    package = name.rpartition(".")[0].partition("-")[0].replace("_", "-")
                    rows.setdefault(entry["name"], Entry(entry["address"], package))
    return tables
