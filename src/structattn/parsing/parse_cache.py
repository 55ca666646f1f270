"""Parses on disk, so that no text is parsed twice and an interrupted run resumes where it stopped.

One SQLite file: batches are added atomically, and several processes may use it at once.
"""

import contextlib
import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from structattn.errors import ParseError
from structattn.syntax import ConstituencyTree, DependencyTree, Sentence

_QUERY = 500


class ParseCache:
    """Parses by key; use it in a ``with`` block, or close it. The file is created if missing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._named():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._base = sqlite3.connect(path, timeout=60)
        try:
            with self._named(), self._base:
                self._base.execute("CREATE TABLE IF NOT EXISTS parses (key TEXT PRIMARY KEY, sentences TEXT NOT NULL)")
        except ParseError:
            self.close()
            raise

    def __enter__(self) -> "ParseCache":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._base.close()

    def get(self, keys: Sequence[str]) -> dict[str, list[Sentence]]:
        """The cached parses of these keys."""
        parses: dict[str, list[Sentence]] = {}
        with self._named():
            for start in range(0, len(keys), _QUERY):
                part = keys[start : start + _QUERY]
                query = f"SELECT key, sentences FROM parses WHERE key IN ({','.join('?' * len(part))})"
                for key, text in self._base.execute(query, part):
                    parses[key] = _from_json(text)
        return parses

    def put(self, parses: Mapping[str, Iterable[Sentence]]) -> None:
        """Add parses, all of them or none."""
        rows = [(key, _to_json(sentences)) for key, sentences in parses.items()]
        with self._named(), self._base:
            self._base.executemany("INSERT OR REPLACE INTO parses VALUES (?, ?)", rows)

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError, ValueError, KeyError, TypeError) as error:
            raise ParseError(f"expected a cache of parses: {error}", file=self.path) from error


def make_key(parser: tuple[str, str], text: str | Sequence[str]) -> str:
    """SHA-256 of a parser's name and version and of a text or a list of words; a text and a list never share a key."""
    content = text if isinstance(text, str) else list(text)
    return hashlib.sha256(
        json.dumps([*parser, content], ensure_ascii=False).encode("utf-8", "surrogatepass")
    ).hexdigest()


def _to_json(sentences: Iterable[Sentence]) -> str:
    rows = []
    for sentence in sentences:
        tree, phrases = sentence.dependency, sentence.constituency
        heads = None if tree is None else [tree.heads, tree.labels]
        spans = None if phrases is None else [phrases.spans, phrases.tags]
        rows.append([sentence.words, sentence.tags, heads, spans, dict(sentence.metadata), sentence.rows])
    return json.dumps(rows, ensure_ascii=False)


def _from_json(text: str) -> list[Sentence]:
    return [
        Sentence(
            words,
            tags,
            None if heads is None else DependencyTree(*heads),
            None if spans is None else ConstituencyTree(words, [tuple(span) for span in spans[0]], tags=spans[1]),
            metadata=metadata,
            rows=rows[0] if rows else (),
        )
        for words, tags, heads, spans, metadata, *rows in json.loads(text)
    ]
