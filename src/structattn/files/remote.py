"""Files on other file systems, such as ``s3://`` and ``hf://``, through fsspec."""

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from structattn.errors import ParseError, StructAttnError, require


def is_remote(path: object) -> bool:
    """Whether a path is one of fsspec's, such as ``s3://bucket/a.conllu`` or ``hf://datasets/...``.

    Example:
        >>> is_remote("s3://bucket/a.conllu"), is_remote("a.conllu")
        (True, False)
    """
    return isinstance(path, str) and "://" in path


@contextlib.contextmanager
def remote_files(path: str | os.PathLike[str], purpose: str = "read") -> Iterator[tuple[Any, str]]:
    """The file system of an fsspec path, and the path within it.

    Args:
        path: such as ``s3://bucket/a.conllu``.
        purpose: what is done with the file, for errors.

    Raises:
        MissingExtra: if fsspec is not installed.
        ParseError: if the file system is unknown or its own package is missing, or the block fails there.
    """
    fsspec = require("fsspec", "scale")
    try:
        yield fsspec.core.url_to_fs(os.fspath(path))
    except (ImportError, OSError, ValueError) as error:
        if isinstance(error, StructAttnError):
            raise
        reason = "there is no such file" if isinstance(error, FileNotFoundError) else " ".join(str(error).split())
        raise ParseError(f"cannot {purpose} this file: {reason or type(error).__name__}", file=path) from None
