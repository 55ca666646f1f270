"""Paths of other file systems, such as ``s3://bucket/a.conllu``, through fsspec."""

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from structattn.errors import ConfigError, ParseError, StructAttnError, require

_URL = re.compile(r"(?:[\w+.-]+::)*[A-Za-z][\w+.-]+:/")
_CREDENTIALS = re.compile(r"://[^/@]*@")


def is_remote(path: object) -> bool:
    """Whether a path is one of fsspec's, such as ``s3://bucket/a.conllu`` or ``hf://datasets/...``; also a ``Path``."""
    return isinstance(path, str | os.PathLike) and _URL.match(os.fspath(path)) is not None


def spell_url(path: str | os.PathLike[str]) -> str:
    """An fsspec path with both of its slashes, one of which ``Path`` drops."""
    text = os.fspath(path)
    scheme, _, rest = text.partition(":/")
    return text if rest.startswith("/") else f"{scheme}://{'/' if scheme in ('file', 'local') else ''}{rest}"


def check_local(path: str | os.PathLike[str]) -> Path:
    """The path of a folder that is written on this machine; a ``ConfigError`` for a URL."""
    if is_remote(path):
        hint = "copy it from there, or to there afterwards"
        raise ConfigError(f"{spell_url(path)}: expected a folder on this machine, got a URL; {hint}")
    return Path(path)


@contextlib.contextmanager
def remote_files(path: str | os.PathLike[str], purpose: str = "read") -> Iterator[tuple[Any, str]]:
    """The file system of an fsspec path such as ``s3://bucket/a.conllu``, and the path within it.

    Errors of the file system, also those in the block, become a ``ParseError`` that says what the file is for.
    """
    if _CREDENTIALS.search(spell_url(path)):
        redacted = _CREDENTIALS.sub("://...@", spell_url(path))
        raise ConfigError(
            f"{redacted}: expected a URL without a password, which would be recorded; set it as its file system says"
        )
    fsspec = require("fsspec", "scale")
    try:
        yield fsspec.core.url_to_fs(spell_url(path))
    except (ImportError, OSError, ValueError) as error:
        if isinstance(error, StructAttnError):
            raise
        reason = "there is no such file" if isinstance(error, FileNotFoundError) else " ".join(str(error).split())
        raise ParseError(f"cannot {purpose} this file: {reason or type(error).__name__}", file=path) from None
