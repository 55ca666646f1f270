"""The pictures of the explorer on the pages: as large as they should be, moving, and no older than the explorer."""

import importlib.util
import struct
import zlib
from pathlib import Path
from types import ModuleType

import pytest

from repository import ROOT


def load_pictures() -> ModuleType:
    spec = importlib.util.spec_from_file_location("pictures", ROOT / "docs/site/pictures.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PICTURES = load_pictures()


@pytest.mark.parametrize("file", [PICTURES.STILL, PICTURES.MOVING], ids=lambda file: file.stem)
def test_pictures_are_no_older_than_what_draws_the_page(file: object) -> None:
    assert PICTURES.find_checksum(file.read_bytes()) == PICTURES.checksum(), "run make pictures"  # type: ignore[attr-defined]
    assert PICTURES.checksum() in PICTURES.EMBEDDED.read_text(encoding="utf-8")


def test_the_still_is_sharp_and_the_other_moves_in_a_megabyte_and_a_half() -> None:
    width, _ = struct.unpack(">II", dict(PICTURES.read_chunks(PICTURES.STILL.read_bytes()))[b"IHDR"][:8])
    assert width > 2000
    moving = PICTURES.MOVING.read_bytes()
    frames, _ = struct.unpack(">II", dict(PICTURES.read_chunks(moving))[b"acTL"])
    assert frames >= 10
    assert len(moving) <= 1_500_000


def png(colour: int) -> bytes:
    header = struct.pack(">IIBBBBB", 2, 1, 8, 0, 0, 0, 0)
    pixels = zlib.compress(bytes([0, colour, colour]))
    return bytes(PICTURES.write_chunks([(b"IHDR", header), (b"IDAT", pixels), (b"IEND", b"")]))


def test_equal_neighbours_are_one_frame_and_every_frame_is_there() -> None:
    moving = PICTURES.stamp(PICTURES.animate([(png(0), 100), (png(0), 50), (png(255), 70), (png(0), 30)]))
    chunks = list(PICTURES.read_chunks(moving))
    assert [name for name, _ in chunks] == [
        *(b"IHDR", b"tEXt", b"acTL", b"fcTL", b"IDAT"),
        *(b"fcTL", b"fdAT", b"fcTL", b"fdAT", b"IEND"),
    ]
    controls = [struct.unpack(">IIIIIHHBB", content) for name, content in chunks if name == b"fcTL"]
    assert [(control[0], control[5]) for control in controls] == [(0, 150), (1, 70), (3, 30)]
    assert [content[:4] for name, content in chunks if name == b"fdAT"] == [b"\0\0\0\2", b"\0\0\0\4"]
    assert zlib.decompress(chunks[6][1][4:]) == bytes([0, 255, 255])
    assert PICTURES.find_checksum(moving) == PICTURES.checksum()
    assert PICTURES.find_checksum(png(0)) is None


def test_every_module_that_a_picture_shows_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for path in PICTURES.PAGE.glob("*.js"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    before = PICTURES.checksum()
    monkeypatch.setattr(PICTURES, "PAGE", tmp_path)
    assert PICTURES.checksum() == before
    unseen = set()
    for path in sorted(tmp_path.iterdir()):
        kept = path.read_bytes()
        path.write_bytes(kept + b"\n")
        unseen |= {path.name} if PICTURES.checksum() == before else set()
        path.write_bytes(kept)
    assert unseen == {"export.js", "hosts.js", "latent.js", "number_table.js", "share.js"}
