"""Files on disk: text, JSON and YAML, whole or not at all, and small enough to be read.

Readers of data formats and commands of your own read as the library does: gzip, byte order marks and remote files are
transparent, and what is damaged is an error with file and line.
"""

from typing import TYPE_CHECKING

from structattn.lazy import load_lazily

if TYPE_CHECKING:
    from structattn.files.json_yaml import read_json, read_json_lines, read_yaml
    from structattn.files.text import Source, read_lines, read_text

__all__ = ["Source", "read_json", "read_json_lines", "read_lines", "read_text", "read_yaml"]

load_lazily(__name__)
