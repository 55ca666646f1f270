"""The command line: one small file per command, each a typed function that calls the library and yields lines.

A command of an installed package is such a function, too; ``check_sources`` and ``format_metrics`` are for these.
"""

import sys
from typing import TYPE_CHECKING, Any

from structattn.cli.program import main

if TYPE_CHECKING:
    from structattn.cli.command_inputs import check_sources
    from structattn.cli.terminal_tables import format_metrics

__all__ = ["check_sources", "format_metrics", "main"]


if not TYPE_CHECKING:  # a checker knows the names above, and no others

    def __getattr__(name: str) -> Any:
        """Load lazily from the first use on: ``structattn --help`` does without."""
        from structattn.lazy import load_lazily

        del globals()["__getattr__"]
        load_lazily(__name__)
        return getattr(sys.modules[__name__], name)


def __dir__() -> list[str]:
    return sorted(__all__)
