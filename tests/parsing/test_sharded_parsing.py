"""Parsing of many files: what is written, what an interruption leaves, what is refused."""

import contextlib
import inspect
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import pytest

import structattn as sa
from forking import run_forked
from structattn.cli import main
from structattn.data.treebank.parquet import read_parquet, write_parquet
from structattn.errors import ConfigError, ParseError, StructAttnError
from structattn.files.replacing import claim_folder
from structattn.parsing import sharded_parsing
from structattn.parsing.sharded_parsing import check_address, parse_locally, parse_shards
from structattn.parsing.shards import ParseSettings, name_targets, parse_shard, read_record

pytest.importorskip("pyarrow", reason="pyarrow is not installed")

Call = Callable[..., tuple[int, str, str]]


class Chain:
    """Every word hangs from the word before it."""

    name, version = "chain", "1"

    def parse_words(self, sentences: Sequence[Sequence[str]]) -> list[sa.Sentence]:
        return [sa.Sentence(words, ["X"] * len(words), sa.DependencyTree(range(len(words)))) for words in sentences]

    def parse_texts(self, texts: Sequence[str]) -> list[list[sa.Sentence]]:
        return [self.parse_words([text.split()]) for text in texts]


class Mortal(Chain):
    """Ends its own process with signal 9 when it meets a certain text."""

    def parse_texts(self, texts: Sequence[str]) -> list[list[sa.Sentence]]:
        if any("file 2 line 300" in text for text in texts):
            os.kill(os.getpid(), signal.SIGKILL)
        return super().parse_texts(texts)


def use(parser: Chain, change: Callable[[Any, str, Any], object] = setattr) -> None:
    change(sharded_parsing, "load_parser", lambda name, hardware: parser)


@pytest.fixture
def texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Four files of 400 lines, and a parser that needs no weights."""
    use(Chain(), monkeypatch.setattr)
    folder = tmp_path / "texts"
    folder.mkdir()
    for file in range(4):
        lines = [f"This is file {file} line {line} ." for line in range(400)]
        (folder / f"{file}.txt").write_text("\n".join(lines) + "\n")
    return folder


def manifest(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "manifest.jsonl").read_text().splitlines()]


def test_a_file_of_trees_for_each_file_of_texts(call: Call, texts: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    code, printed, error = call("parse", texts / "*.txt", "--out", out)
    assert (code, len(printed.splitlines())) == (0, 4), error
    assert sorted(file.name for file in out.iterdir()) == [*(f"{k}.parquet" for k in range(4)), "manifest.jsonl"]
    for row, file in zip(manifest(out), sorted(texts.iterdir()), strict=True):
        found = list(read_parquet(out / row["file"]))
        expected = sa.parse(file.read_text().splitlines(), Chain())
        assert [example.sentences[0] for example in found] == expected
        assert (row["source"], row["sentences"], row["words"]) == (str(file), 400, sum(map(len, expected)))
        assert found[0].id == expected[0].metadata["sent_id"]
    assert len({row["rows_sha256"] for row in manifest(out)}) == 4


def test_finished_shards_are_not_parsed_again(call: Call, texts: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert call("parse", texts / "*.txt", "--out", out)[0] == 0
    before, first = manifest(out), {file.name: file.stat().st_mtime_ns for file in out.glob("*.parquet")}
    (out / "2.parquet").unlink()
    (out / ".3.parquet.99.tmp").write_bytes(b"left by a killed process")
    assert call("parse", texts / "*.txt", "--out", out)[0] == 0
    assert manifest(out) == before
    assert not list(out.glob(".*"))
    changed = {file.name for file in out.glob("*.parquet") if first[file.name] != file.stat().st_mtime_ns}
    assert changed == {"2.parquet"}


def parse_and_die(words: list[str]) -> None:
    use(Mortal())
    main(words)


def test_a_killed_run_loses_nothing(call: Call, texts: Path, tmp_path: Path) -> None:
    command = ["parse", str(texts / "*.txt"), "--out"]
    died = run_forked(parse_and_die, [*command, str(tmp_path / "killed")])
    assert died.code == -signal.SIGKILL, died.err
    assert sorted(file.name for file in (tmp_path / "killed").glob("*.parquet")) == ["0.parquet", "1.parquet"]
    for folder in ("killed", "whole"):
        assert call(*command, tmp_path / folder)[0] == 0
    assert manifest(tmp_path / "killed") == manifest(tmp_path / "whole")
    for file in (tmp_path / "whole").glob("*.parquet"):
        assert (tmp_path / "killed" / file.name).read_bytes() == file.read_bytes()


def test_one_worker_or_two_find_the_same(call: Call, texts: Path, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.undo()
    gold = tmp_path / "gold.conllu"
    lines = [line for file in sorted(texts.iterdir()) for line in file.read_text().splitlines()]
    sa.write_conllu(gold, sa.parse(lines, Chain()))
    for workers in (1, 2):
        command = ["parse", texts / "*.txt", "--parser", gold, "--num-workers", workers]
        assert call(*command, "--out", tmp_path / str(workers))[0] == 0
    assert manifest(tmp_path / "1") == manifest(tmp_path / "2")
    assert sum(row["sentences"] for row in manifest(tmp_path / "1")) == 1600


def test_shards_of_killed_workers_are_begun_again(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[list[str]] = []

    def dying(targets: Mapping[str, str], *_: object) -> Iterator[tuple[str, None]]:
        begun.append(list(targets))
        yield next(iter(targets)), None
        if len(targets) > 1:
            raise BrokenProcessPool("killed")

    monkeypatch.setattr(sharded_parsing, "_parse_in_pool", dying)
    settings = ParseSettings("en", "en 1")
    targets = {name: f"{name}.parquet" for name in "abc"}
    assert [source for source, _ in parse_locally(targets, settings, None, num_workers=2)] == ["a", "b", "c"]
    assert begun == [["a", "b", "c"], ["b", "c"], ["c"]]

    def killing(*_: object) -> Iterator[tuple[str, None]]:
        raise BrokenProcessPool("killed")

    monkeypatch.setattr(sharded_parsing, "_parse_in_pool", killing)
    with pytest.raises(StructAttnError, match=r"killed again and again .* 3 shards are left"):
        list(parse_locally(targets, settings, None, num_workers=2))


KINDS = {
    "a.jsonl": '{"id": "x", "label": "good", "text": "So fine ."}\n',
    "b.csv": "text,label\nSo fine .,good\n",
    "c.conllu": "# sent_id = s\n# label = good\n"
    "1-2\tSofine\t_\t_\t_\t_\t_\t_\t_\t_\n1\tSo\tso\tADV\tRB\t_\t2\tx\t_\t_\n"
    "2\tfine\t_\tADJ\t_\t_\t0\troot\t_\t_\n3\t.\t_\tX\t_\t_\t2\tx\t_\t_\n\n",
}


@pytest.mark.parametrize("name", KINDS)
def test_labels_and_lines_of_treebanks_are_kept(name: str, call: Call, texts: Path, tmp_path: Path) -> None:
    (texts / name).write_text(KINDS[name])
    assert call("parse", texts / f"*{name[1:]}", "--out", tmp_path / "out")[0] == 0
    (example,) = read_parquet(tmp_path / "out" / f"{name[0]}.parquet")
    (sentence,) = example.sentences
    assert (example.label, sentence.words) == ("good", ("So", "fine", "."))
    assert sentence.dependency is not None
    assert sentence.dependency.heads == (0, 1, 2)
    if name == "c.conllu":
        assert [row[:3] for row in sentence.rows[:2]] == [("1-2", "Sofine", "_"), ("1", "So", "so")]


def test_examples_of_parquet_stay_what_they_are(call: Call, texts: Path, tmp_path: Path) -> None:
    pair = sa.Example((sa.Sentence(["a", "dog"]), sa.Sentence([])), 0.5, id="p", weight=2.0)
    write_parquet(texts / "a.parquet", [pair, sa.Example(sa.Sentence(["so"]), "good", id="q")])
    assert call("parse", texts / "*.parquet", "--out", tmp_path / "out")[0] == 0
    found = list(read_parquet(tmp_path / "out" / "a.parquet"))
    assert [(one.id, one.label, one.weight, len(one.sentences)) for one in found] == [
        ("p", 0.5, 2.0, 2),
        ("q", "good", 1.0, 1),
    ]
    assert found[0].sentences[0].dependency == sa.DependencyTree([0, 1])


def test_shards_have_the_names_of_their_texts() -> None:
    targets = name_targets(["texts/a.txt.gz", "texts/b.jsonl"], "trees/")
    assert targets == {"texts/a.txt.gz": "trees/a.parquet", "texts/b.jsonl": "trees/b.parquet"}


def test_other_file_systems(call: Call, texts: Path) -> None:
    files = pytest.importorskip("fsspec", reason="fsspec is not installed").filesystem("memory")
    files.pipe_file("/texts/a.txt", b"So fine .\n")
    for _ in range(2):
        assert call("parse", "memory://texts/*.txt", "--out", "memory://trees")[0] == 0
    assert json.loads(files.cat("/trees/manifest.jsonl"))["words"] == 3
    (example,) = sa.read_examples("memory://trees/a.parquet")
    assert example.sentences[0].words == ("So", "fine", ".")


# What is refused.


def test_two_runs_into_one_folder(call: Call, texts: Path, tmp_path: Path) -> None:
    with claim_folder(tmp_path / "out"):
        code, _, error = call("parse", texts / "*.txt", "--out", tmp_path / "out")
    assert code == 2
    assert f"out is in use by process {os.getpid()}" in error


def test_shards_that_were_made_otherwise(call: Call, texts: Path, tmp_path: Path) -> None:
    command = ["parse", texts / "*.txt", "--out", tmp_path / "out"]
    assert call(*command)[0] == 0
    code, _, error = call(*command, "--batch_size", 7)
    assert code == 2
    usual = inspect.signature(parse_shards).parameters["batch_size"].default
    assert f"0.parquet was parsed with other settings: batch_size {usual}, now 7; choose another folder" in error
    with (texts / "1.txt").open("a") as stream:
        stream.write("more\n")
    code, _, error = call(*command)
    assert code == 2
    assert "1.parquet was parsed from" in error
    (tmp_path / "out" / "0.parquet").write_bytes((tmp_path / "out" / "0.parquet").read_bytes()[:-9])
    code, _, error = call(*command)
    assert code == 2
    assert "0.parquet: expected a whole Parquet file, but it is truncated or damaged" in error
    write_parquet(tmp_path / "out" / "0.parquet", [sa.Example("a")])
    assert "expected a shard that structattn parse wrote" in call(*command)[2]


def test_a_mistake_in_one_file_leaves_the_others(call: Call, texts: Path, tmp_path: Path) -> None:
    for name in "abc":
        (texts / f"{name}.conllu").write_text(
            KINDS["c.conllu"].replace("\t2\tx", "\t9\tx" if name == "b" else "\t2\tx")
        )
    (texts / "d.conllu").write_text(KINDS["c.conllu"] + (texts / "b.conllu").read_text() + KINDS["c.conllu"])
    command = ["parse", texts / "*.conllu", "--out", tmp_path / "out"]
    code, _, error = call(*command)
    assert code == 2
    assert "1 of 4 shards failed, the first: " in error
    assert "b.conllu:4: expected a head from 0 to 3, got '9'" in error
    assert [row["file"] for row in manifest(tmp_path / "out")] == ["a.parquet", "c.parquet", "d.parquet"]
    assert [row["sentences"] for row in manifest(tmp_path / "out")] == [1, 1, 2]


class Choosy(Chain):
    """Refuses every text and sentence with an x."""

    def parse_words(self, sentences: Sequence[Sequence[str]]) -> list[sa.Sentence]:
        if any("x" in words for words in sentences):
            raise ConfigError("no x")
        return super().parse_words(sentences)


@pytest.mark.parametrize("workers", [1, 2])
def test_one_bad_text_of_many_files_is_left_out_and_named(
    workers: int, call: Call, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gold = tmp_path / "gold.conllu"
    use(Choosy(), monkeypatch.setattr)
    sa.write_conllu(gold, Chain().parse_words([["a"], ["b"], ["c"]]))
    options = ["--out", tmp_path / "out"]
    if workers == 2:  # whose parsers are loaded from a file
        monkeypatch.undo()
        options += ["--parser", gold, "--num_workers", 2]
    (texts / "a.text").write_text("a\nx\nb\n")
    (texts / "b.text").write_text("c\n")
    command = ["parse", texts / "?.text", *options]
    for _ in range(2):  # a second command names them again
        code, printed, error = call(*command)
        assert code == 2
        # Two workers finish in any order.
        assert sorted(line.split("  ")[1] for line in printed.splitlines()) == [
            "1 sentences, 1 words",
            "2 sentences, 2 words",
        ]
        assert f"1 fault; the rest is parsed: {texts / 'a.text'}: text 2: " in error
    assert [(row["file"], row["refused"], len(row["faults"])) for row in manifest(tmp_path / "out")] == [
        ("a.parquet", 1, 1),
        ("b.parquet", 0, 0),
    ]
    code, _, error = call(*command, "--strict")
    assert code == 2
    assert "a.parquet was parsed without 1 of its texts: " in error
    code, _, error = call("parse", texts / "?.text", *options[2:], "--out", tmp_path / "strict", "--strict")
    assert code == 2
    assert "1 of 2 shards failed, the first: text 2: " in error
    assert [row["file"] for row in manifest(tmp_path / "strict")] == ["b.parquet"]


@pytest.mark.parametrize("bad", range(6))
def test_an_example_with_a_bad_sentence_is_left_out_whole(
    bad: int, call: Call, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(Choosy(), monkeypatch.setattr)
    words = [[f"{letter}"] if index != bad else ["x"] for index, letter in enumerate("abcdef")]
    pairs = [(sa.Sentence(words[2 * k]), sa.Sentence(words[2 * k + 1])) for k in range(3)]
    write_parquet(texts / "a.parquet", [sa.Example(pair, str(k), id=str(k)) for k, pair in enumerate(pairs)])
    assert call("parse", texts / "*.parquet", "--out", tmp_path / "out")[0] == 2
    examples = list(read_parquet(tmp_path / "out" / "a.parquet"))
    others = [k for k in range(3) if k != bad // 2]
    assert [(example.id, example.label) for example in examples] == [(str(k), str(k)) for k in others]
    assert [[part.words for part in example.sentences] for example in examples] == [
        [part.words for part in pairs[k]] for k in others
    ]


def test_a_file_that_grows_while_it_is_parsed(texts: Path, tmp_path: Path) -> None:
    class Writer(Chain):
        def parse_texts(self, given: Sequence[str]) -> list[list[sa.Sentence]]:
            with (texts / "0.txt").open("a") as stream:
                stream.write("more\n")
            return super().parse_texts(given)

    with pytest.raises(ParseError, match=r"0.txt: expected a file that does not change while it is read"):
        parse_shard(str(texts / "0.txt"), str(tmp_path / "a.parquet"), Writer(), ParseSettings("chain", "chain 1"))
    assert not list(tmp_path.glob("*a.parquet*"))


def test_a_text_of_100_000_words_among_short_ones(call: Call, texts: Path, tmp_path: Path) -> None:
    words = [f"w{place % 977}" for place in range(100_000)]
    (texts / "0.txt").write_text(f"so fine\n{' '.join(words)}\nso bad\n")
    assert call("parse", texts / "0*.txt", "--out", tmp_path / "out")[0] == 0
    first, longest, last = read_parquet(tmp_path / "out" / "0.parquet")
    assert (first.sentences[0].words, last.sentences[0].words) == (("so", "fine"), ("so", "bad"))
    assert longest.sentences[0].words == tuple(words)
    assert longest.sentences[0].dependency == sa.DependencyTree(range(100_000))


def test_a_full_disk(call: Call, texts: Path, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if (
        os.geteuid()
        or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", disk], check=False).returncode
    ):
        pytest.skip("a small file system can be mounted by root only")
    try:
        code, _, error = call("parse", texts / "*.txt", "--out", disk / "out")
        assert code == 2
        assert error.splitlines()[-1].endswith("no space left on device")
        assert not list((disk / "out").glob("*.tmp"))
        for file in (disk / "out").glob("*.parquet"):
            assert read_record(str(file)).sentences == 400
    finally:
        subprocess.run(["umount", disk], check=True)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["{}/*.txt"], "--out: expected a folder"),
        (["{}/*.txt", "--out", "{}/o", "--limit", "3"], "--limit 3 needs a single file, got the pattern "),
        (["{}/*.txt", "--out", "{}/o", "--num-workers", "0"], "--num_workers: expected at least 1, got 0"),
        (["{}/*.txt", "--out", "{}/o", "--engine", "spark"], "expected one of 'local', 'ray'"),
        (["{}/*.txt", "--out", "{}/o", "--address", "auto"], "--address: expected with --engine ray"),
        (["{}/0.txt", "--engine", "ray"], "expected a pattern of files"),
        (["{}/*.xml", "--out", "{}/o"], "expected a file that matches this pattern, got none"),
        (["{}/*.*", "--out", "{}/o"], "expected files of different names"),
    ],
)
def test_mistakes_are_one_line(words: list[str], expected: str, call: Call, texts: Path) -> None:
    (texts / "0.jsonl").write_text('{"text": "a"}\n')
    code, printed, error = call("parse", *(word.format(texts) for word in words))
    assert (code, printed) == (2, "")
    assert expected in error
    assert len(error.strip().splitlines()) == 1


def test_ray_is_an_extra(call: Call, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    code, _, error = call("parse", texts / "*.txt", "--out", tmp_path / "out", "--engine", "ray")
    assert code == 2
    assert "ray is not installed; run: pip install 'structattn[scale]'" in error


@contextlib.contextmanager
def listening(answer: bytes | None) -> Iterator[int]:
    """A port of this machine that answers each connection alike; not at all if ``None``."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        kept = []

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    kept.append(server.accept()[0])
                    if answer is not None:
                        kept[-1].sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
        for connection in kept:
            connection.close()


def test_addresses_where_no_cluster_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharded_parsing, "_SECONDS", 0.2)
    with pytest.raises(ConfigError, match=r"nothing answers at 127.0.0.1:1 \(Connection refused\)"):
        check_address("127.0.0.1:1")
    with listening(None) as port, pytest.raises(ConfigError, match=r"nothing answers at ray://.* \(timed out\)"):
        check_address(f"ray://127.0.0.1:{port}")
    with listening(b"HTTP/1.0 400 Bad Request\r\n") as port, pytest.raises(ConfigError, match="is not a Ray cluster"):
        check_address(f"127.0.0.1:{port}")
    with listening(bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])) as port:
        assert check_address(f"127.0.0.1:{port}") == f"127.0.0.1:{port}"
    assert check_address(None) is None
    for wrong in ("http://host:1", "host:port", "//"):
        with pytest.raises(ConfigError, match="expected auto, HOST:PORT or ray://HOST:PORT"):
            check_address(wrong)


def test_a_cluster_that_is_not_found_is_said_before_any_parser_is_read(
    call: Call, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = pytest.importorskip("ray._private.services", reason="ray is not installed")
    monkeypatch.setattr(services, "find_gcs_addresses", frozenset)
    monkeypatch.setattr(services, "find_bootstrap_address", lambda folder: None)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    use(None, monkeypatch.setattr)  # type: ignore[arg-type]  # what is not read cannot fail
    command = ["parse", texts / "*.txt", "--out", tmp_path / "out", "--engine", "ray", "--address", "auto"]
    code, _, error = call(*command)
    assert (code, len(error.strip().splitlines())) == (2, 1)
    assert "--address: auto finds no Ray cluster on this machine, and RAY_ADDRESS names none" in error
    # A cluster that has ended, and whose address is still written somewhere.
    monkeypatch.setattr(services, "find_bootstrap_address", lambda folder: "127.0.0.1:1")
    assert re.search(r"--address: nothing answers at \S+:1 \(Connection refused\)", call(*command)[2])
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:2")
    assert re.search(r"--address: nothing answers at \S+:2 \(Connection refused\)", call(*command)[2])
    assert not (tmp_path / "out").exists()


TWO_NODES = """
import sys
from ray.cluster_utils import Cluster
from structattn.cli import main
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
cluster.add_node(num_cpus=1)
code = main([*sys.argv[1:], "--address", cluster.address])
cluster.shutdown()
sys.exit(code)
"""


@pytest.mark.slow
def test_two_machines_of_a_ray_cluster(call: Call, texts: Path, tmp_path: Path, monkeypatch: Any) -> None:
    pytest.importorskip("ray", reason="ray is not installed")
    monkeypatch.undo()
    gold = tmp_path / "gold.conllu"
    lines = [line for file in sorted(texts.iterdir()) for line in file.read_text().splitlines()]
    sa.write_conllu(gold, sa.parse(lines, Chain()))
    command = ["parse", str(texts / "*.txt"), "--parser", str(gold), "--num-workers", "2", "--out"]
    assert call(*command, tmp_path / "local")[0] == 0
    words = [*command, str(tmp_path / "ray"), "--engine", "ray"]
    done = subprocess.run([sys.executable, "-c", TWO_NODES, *words], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert manifest(tmp_path / "ray") == manifest(tmp_path / "local")
