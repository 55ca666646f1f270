"""Texts for the teacher of the packaged parser: paragraphs of SQuAD and premises of MultiNLI, one per line.

`make parser` runs this file. The order is that of the texts' SHA-256, so that the first few are a fair sample.
"""

import argparse
import gzip
import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path


def paragraphs(file: Path) -> Iterator[str]:
    """The contexts of SQuAD's questions."""
    for article in json.loads(_content(file))["data"]:
        yield from (paragraph["context"] for paragraph in article["paragraphs"])


def premises(file: Path) -> Iterator[str]:
    """The premises of MultiNLI, without the hypotheses, which crowd workers wrote."""
    for line in _content(file).split("\n"):
        if line.strip():
            item = json.loads(line)
            yield item["premise"] if "premise" in item else item["sentence1"]


def _content(file: Path) -> str:
    content = file.read_bytes()
    return (gzip.decompress(content) if file.suffix == ".gz" else content).decode("utf-8")


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--squad", type=Path, required=True, help="a JSON file of SQuAD, which may be gzipped")
    parser.add_argument("--mnli", type=Path, required=True, help="one of MultiNLI in JSON lines, which may be gzipped")
    files = parser.parse_args()
    texts = {" ".join(text.split()) for text in (*paragraphs(files.squad), *premises(files.mnli))}
    for text in sorted(texts, key=lambda text: hashlib.sha256(text.encode("utf-8")).digest()):
        sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    _main()
