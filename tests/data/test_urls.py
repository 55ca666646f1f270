"""Data files by URL: read by every command that names one, while folders are written on this machine or refused."""

import io
from collections.abc import Callable
from pathlib import Path

import pytest

import structattn as sa
from structattn.cli import main
from structattn.errors import ConfigError, ParseError
from structattn.explorer import save_plots

fsspec = pytest.importorskip("fsspec")

ROWS = "text,label\nso fine,pos\nso dull,neg\nquite fine,pos\nquite dull,neg\n"
SHORT = ["--encoder", "emb_s2t", "--options.dim", "4", "--optimization.epochs", "1", "--task", "classification"]


@pytest.fixture
def place(tmp_path: Path) -> Callable[[str, str, str], str]:
    """Puts a text under a name on a file system, and gives its URL."""

    def put(scheme: str, name: str, text: str) -> str:
        url = f"file://{tmp_path}/{name}" if scheme == "file" else f"memory://{tmp_path.name}/{name}"
        with fsspec.open(url, "w") as stream:
            stream.write(text)
        return url

    return put


@pytest.mark.parametrize("scheme", ["file", "memory"])
def test_every_door_reads_urls(scheme: str, place: Callable[[str, str, str], str], tmp_path: Path) -> None:
    url, vectors = place(scheme, "data.csv", ROWS), place(scheme, "words.vec", "fine 1 0 0 0\ndull 0 1 0 0\n")
    out = tmp_path / "run"
    main(["train", *SHORT, "--data.train", url, "--data.dev", url, "--data.vectors", vectors, "--out", str(out)])
    main(["eval", str(out), "--data", url])
    main(["predict", str(out), "--data", url])
    pattern = url.replace("data.csv", "da*.csv")
    for source in (url, pattern):
        assert len(list(sa.read_examples(source))) == 4
        assert sa.evaluate(out, source).metrics["accuracy"] >= 0
        assert len(sa.predict(out, source)) == 4
        sa.train(
            source,
            url,
            task="classification",
            encoder="emb_s2t",
            optimization={"epochs": 1},
            out=tmp_path / "two",
            overwrite=True,
        )


@pytest.mark.parametrize("scheme", ["file", "memory"])
def test_parsing_reads_texts_and_writes_trees_by_url(
    scheme: str, place: Callable[[str, str, str], str], tmp_path: Path
) -> None:
    url = place(scheme, "texts.txt", "Kids wash their hands.\n")
    out = url.replace("texts.txt", "trees.conllu")
    main(["parse", url, "--out", out])
    with fsspec.open(out, "r") as stream:
        (sentence, *_) = sa.read_conllu(io.StringIO(stream.read()))
    assert sentence.words[0] == "Kids"


WRITERS: dict[str, Callable[[str, Path], object]] = {
    "train": lambda url, data: main(["train", *SHORT, "--data.train", str(data), "--out", url]),
    "sa.train": lambda url, data: sa.train(data, task="classification", encoder="emb_s2t", out=url),
    "a Path": lambda url, data: sa.train(data, task="classification", encoder="emb_s2t", out=Path(url)),
    "save_pretrained": lambda url, data: sa.load(data.parent / "run").save_pretrained(url),
    "plot": lambda url, data: save_plots(url, sa.load(data.parent / "run"), "so fine"),
    "load": lambda url, data: sa.load(url),
}


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("url", ["s3://bucket/run", "memory://run", "file:///run"])
def test_no_folder_is_written_beside_its_url(
    writer: str, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data.csv"
    data.write_text(ROWS, encoding="utf-8")
    if writer in ("save_pretrained", "plot"):
        sa.train(data, task="classification", encoder="emb_s2t", optimization={"epochs": 1}, out=tmp_path / "run")
    names = set(tmp_path.rglob("*"))
    monkeypatch.chdir(tmp_path)
    if writer == "train":
        assert WRITERS[writer](url, data) == 2
        assert f"{url}: expected a folder on this machine, got a URL" in capsys.readouterr().err
    else:
        with pytest.raises(ConfigError, match=f"^{url}: expected a folder on this machine, got a URL"):
            WRITERS[writer](url, data)
    assert set(tmp_path.rglob("*")) == names


def test_a_password_in_a_url_is_neither_used_nor_shown() -> None:
    with pytest.raises((ConfigError, ParseError)) as caught:
        list(sa.read_examples("ftp://me:secret@example.org/data.csv"))
    assert "ftp://...@example.org/data.csv: expected a URL without a password" in str(caught.value)
    assert "secret" not in str(caught.value)
