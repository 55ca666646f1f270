"""The command line: one small file per command, each a typed function that calls the library and yields lines."""

from structattn.cli.program import main

__all__ = ["main"]
