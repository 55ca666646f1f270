"""Standard streams that are closed, redirected or terminals; lines that only look blank; relatives of CoNLL-U."""

import io
import json
import logging
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

import structattn as sa
from structattn.cli import main
from structattn.errors import ParseError
from structattn.files import progress
from structattn.files.progress import Bar, LogHandler
from structattn.files.replacing import replace_text
from structattn.files.text import escape_controls, is_blank

pytestmark = pytest.mark.integration

UNSEEN = ["\u200b", "\u00a0", "\u3000", "\ufeff", "\u2028", "\x85", "\x1f", "\u00ad", "\u2060", " \t", ""]


def shell(line: str, folder: Path) -> tuple[int, str, str]:
    command = line.replace("structattn", f"{sys.executable} -m structattn")
    done = subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("line", "code", "out", "err"),
    [
        ("structattn list tasks >&-", 0, "", "stdout is closed, so results are lost"),
        ("structattn parse a.txt >&-", 0, "", "stdout is closed, so results are lost"),
        ("structattn parse a.txt --out b.conllu >&- 2>&- <&- && wc -l < b.conllu", 0, "7", ""),
        ("structattn parse - <&-", 2, "", "stdin: expected text, got a closed stream"),
        ("structattn list tasks --nonsense 2>&-", 2, "", ""),
        ("structattn list tasks --nonsense 2>/dev/full", 2, "", ""),
        ("structattn nonsense 2</dev/null", 2, "", ""),
        ("cat a.txt | structattn parse /dev/stdin", 0, "wash", ""),
        ("structattn parse /dev/stdin < a.txt", 0, "wash", ""),
        ("structattn parse <(cat a.txt)", 0, "wash", ""),
        ("structattn parse a.txt > /dev/full", 2, "", "no space left on device"),
    ],
)
def test_every_way_a_shell_has(line: str, code: int, out: str, err: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Kids wash.\n", encoding="utf-8")
    returned, stdout, stderr = shell(line, tmp_path)
    assert returned == code, stderr
    assert out in stdout
    assert err in stderr
    assert "bug in structattn" not in stderr


@pytest.mark.parametrize("line", UNSEEN)
def test_a_line_that_shows_nothing_is_blank(line: str, tmp_path: Path) -> None:
    assert is_blank(line)
    files = {
        "a.txt": ("good a film\n{}\nbad b\n", "labelled"),
        "b.txt": ("EU X\n{}\nUN Y\n", "columns"),
        "c.csv": ("text,label\nEU,good\n{}\nUN,bad\n", None),
        "d.tsv": ("text\tlabel\nEU\tgood\n{}\nUN\tbad\n", None),
        "e.jsonl": ('{{"text": "EU", "label": "a"}}\n{}\n{{"text": "UN", "label": "b"}}\n', None),
    }
    for name, (content, format) in files.items():
        (tmp_path / name).write_text(content.format(line), encoding="utf-8")
        assert len(list(sa.read_examples(tmp_path / name, format))) == 2, name
    assert not is_blank("\u200bword")
    assert not is_blank("\u0301")  # a combining mark shows


def test_a_treebank_says_that_a_line_only_looks_empty(tmp_path: Path) -> None:
    (tmp_path / "a.conllu").write_text("1\ta\t_\t_\t_\t_\t0\t_\t_\t_\n\u200b\n", encoding="utf-8")
    with pytest.raises(ParseError, match=r"a.conllu:2: expected 10 .* in a line that only looks empty, '\\u200b'"):
        list(sa.read_conllu(tmp_path / "a.conllu"))


def test_the_columns_of_conllu_plus(tmp_path: Path) -> None:
    plus, plain = tmp_path / "a.conllup", tmp_path / "a.conllu"
    plus.write_text(
        "# global.columns = ID FORM UPOS HEAD DEPREL BIO\n# sent_id = 7\n"
        "1\tKids\tNOUN\t2\tnsubj\tB-X\n2\twash\tVERB\t0\troot\t_\n\n1\tHush\tVERB\t0\troot\t*\n",
        encoding="utf-8",
    )
    first, second = sa.read_conllu(plus)
    assert (first.words, first.tags, first.metadata) == (("Kids", "wash"), ("NOUN", "VERB"), {"sent_id": "7"})
    assert first.dependency == sa.DependencyTree([2, 0], ["nsubj", "root"])
    sa.write_conllu(plain, [first, second])
    rows = [line.split("\t") for line in plain.read_text().splitlines() if "\t" in line]
    assert [row[9] for row in rows] == ["BIO=B-X", "_", "_"]
    assert list(sa.read_conllu(plain)) == [first, second]
    assert [example.sentences[0].words for example in sa.read_examples(plus)] == [("Kids", "wash"), ("Hush",)]
    plus.write_text("# global.columns = ID UPOS\n1\tX\n", encoding="utf-8")
    with pytest.raises(ParseError, match=r"a\.conllup:1: expected different columns, ID and FORM among them"):
        list(sa.read_conllu(plus))
    plus.write_text("# global.columns = ID FORM\n1\tX\tY\n", encoding="utf-8")
    with pytest.raises(ParseError, match=r"a\.conllup:2: expected 2 tab-separated columns, got 3"):
        list(sa.read_conllu(plus))


def test_json_lists_of_tags_may_be_numbers(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text(json.dumps({"tokens": ["EU", "rejects"], "ner_tags": [3, 0]}) + "\n", encoding="utf-8")
    (example,) = sa.read_examples(file)
    assert example.label == "3 0"


CONTROLS = "\x1b[31mred\x9b1m\x07\x00\u202e"


def test_controls_become_escapes() -> None:
    assert escape_controls(CONTROLS) == r"\x1b[31mred\x9b1m\x07\x00\u202e"
    assert escape_controls("naïve\tfilm 🎬\n") == "naïve\tfilm 🎬\n"


def test_errors_and_logs_never_control_a_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, content in (
        (f"a{CONTROLS[:4]}.csv", "a,b\n"),
        ("b.conllu", f"1\t{CONTROLS}\n"),
        ("c.txt", f"({CONTROLS}"),
    ):
        file = tmp_path / name.replace("\x00", "")
        file.write_text(content, encoding="utf-8")
        assert main(["convert", str(file), str(tmp_path / "out.conllu")]) == 2
        assert main([CONTROLS, "x"]) == 2
        assert "\x1b" not in capsys.readouterr().err
    stream = io.StringIO()
    handler = LogHandler(stream)
    handler.emit(logging.LogRecord("x", logging.INFO, "", 0, "label %s", (CONTROLS,), None))
    assert stream.getvalue() == r"label \x1b[31mred\x9b1m\x07\x00\u202e" + "\n"


def test_results_are_escaped_on_terminals_only(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Kids \x1b[31m wash\n", encoding="utf-8")
    command = [sys.executable, "-m", "structattn", "parse", "a.txt", "--format", "words"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "\x1b[31m" in done.stdout
    reader, writer = pty.openpty()
    with subprocess.Popen(command, cwd=tmp_path, stdout=writer, stderr=subprocess.DEVNULL) as process:
        os.close(writer)
        shown = b""
        while True:
            try:
                part = os.read(reader, 4096)
            except OSError:  # the terminal is closed
                break
            if not part:
                break
            shown += part
        assert process.wait() == 0
    os.close(reader)
    assert b"\x1b" not in shown
    assert rb"\x1b[31m" in shown


def test_a_log_that_nobody_reads_any_more_ends_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    stream = os.fdopen(writer, "w", encoding="utf-8")
    record = logging.LogRecord("x", logging.INFO, "", 0, "epoch 1", (), None)
    LogHandler(stream).emit(record)
    assert "BrokenPipeError" in capsys.readouterr().err
    with pytest.raises(BrokenPipeError):  # what is left in its buffer
        stream.close()


def test_a_line_of_the_log_does_not_run_into_a_bar(capsys: pytest.CaptureFixture[str]) -> None:
    handler = LogHandler(sys.stderr)
    bar = Bar(10, unit="step")
    bar.update()
    handler.emit(logging.LogRecord("x", logging.INFO, "", 0, "epoch 1", (), None))
    bar.close()
    lines = capsys.readouterr().err.replace("\r", "\n").split("\n")
    assert "epoch 1" in lines


def test_parsing_shows_progress_where_there_is_no_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_SECONDS", 0.0)
    file = tmp_path / "a.txt"
    file.write_text("Kids wash.\n" * 2, encoding="utf-8")
    assert main(["parse", str(file), "--out", str(tmp_path / "b.conllu")]) == 0
    assert "text 1 of 2 (50 %), 0:00:0" in capsys.readouterr().err
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(file.read_bytes())))
    assert main(["parse", "-", "--out", str(tmp_path / "b.conllu")]) == 0
    assert "text 2, 0:00:0" in capsys.readouterr().err  # nobody knows how many will come


def test_what_a_killed_parse_left_goes_when_it_completes(tmp_path: Path) -> None:
    out, text = tmp_path / "b.conllu", tmp_path / "a.txt"
    text.write_text("Kids wash.\n", encoding="utf-8")
    others = [tmp_path / name for name in (".b.conllu.mine.tmp", ".ab.conllu.0123abcd.tmp", ".b.conllu.0123abcd.bak")]
    for path in (tmp_path / ".b.conllu.0123abcd.tmp", *others):
        path.write_text("half", encoding="utf-8")
    with replace_text(out) as stream:  # another process that writes the same file
        stream.write("still being written")
        assert main(["parse", str(text), "--out", str(out)]) == 0
        left = {path for path in tmp_path.iterdir() if path.name.startswith(".")}
        assert {*others} < left
        assert len(left) == len(others) + 1
