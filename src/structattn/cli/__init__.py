"""The command line: one small file per command, each a typed function that calls the library and yields lines."""

from typing import TYPE_CHECKING

from structattn.cli.program import main
from structattn.lazy import load_lazily

if TYPE_CHECKING:
    from structattn.cli.inputs import check_sources

__all__ = ["check_sources", "main"]

load_lazily(__name__)
