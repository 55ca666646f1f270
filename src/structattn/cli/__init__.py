"""The command line: one small file per verb, each a typed function that calls the library and yields lines."""

from structattn.cli.program import main

__all__ = ["main"]
