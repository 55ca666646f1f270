"""``python -m benchmarks``: options of parts, records of what they printed, and the page that shows them."""

from pathlib import Path

import pytest

import structattn as sa
from repository import ROOT
from structattn.errors import ConfigError, ParseError

pytest.importorskip("structattn_papers")  # which keeps records, too

from benchmarks import pages, raw_text, records
from benchmarks.__main__ import PARTS
from benchmarks.records import Record

PRINTED = (
    "Two tables.",
    "",
    "| row | ms | to | to |",
    "|---|---|---|---|",
    "| A | 1.0 | 2.0x |  |",
    "| B | 3.0 | 0.5x | 4 |",
    "",
    "| words |",
    "|---|",
    "| 5 |",
)
PAGE = "before\n<!-- table: speed -->\n<!-- end -->\nafter\n"


def record(*output: str, threads: int = 1) -> Record:
    return Record("python -m benchmarks.part", (threads,), "0.1", "a processor", 1.5, output or PRINTED)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A record, a page, and a description of its table."""
    records.save("part", record(), tmp_path)
    (tmp_path / "page.md").write_text(PAGE, encoding="utf-8")
    return tmp_path


def shown(folder: Path, described: str) -> list[str]:
    """The lines of the table."""
    (folder / "pages.yaml").write_text(f"page.md: {{speed: {described}}}", encoding="utf-8")
    (page,) = pages.pages(folder, folder / "pages.yaml", folder).values()
    assert (page.partition("<!-- table: speed -->")[0], page.rpartition("<!-- end -->")[2]) == ("before\n", "\nafter\n")
    return [line for line in page.splitlines() if line.startswith("|")]


@pytest.mark.parametrize("part", PARTS)
def test_every_part_has_the_options_that_it_is_given(part: str) -> None:
    described = PARTS[part]
    program = ROOT / "benchmarks" / f"{described.program or part}.py"
    text = program.read_text(encoding="utf-8")
    for option in ("--threads", *described.options, *(described.later or ())):
        if option.startswith("--"):
            # `--no-memory` switches `--memory` off.
            assert f'"{option.replace("--no-", "--")}"' in text


def test_printed_tables_are_read_cell_by_cell() -> None:
    first, second = record().tables()
    assert first[1] == {"row": "B", "ms": "3.0", "to": "0.5x", "to 2": "4"}
    assert second == [{"words": "5"}]


def test_a_record_takes_the_place_of_that_of_the_same_threads(folder: Path) -> None:
    for threads in (2, 1):
        records.save("part", record("again", threads=threads), folder)
    assert [(saved.threads, saved.output) for saved in records.read("part", folder)] == [
        ((1,), ("again",)),
        ((2,), ("again",)),
    ]
    assert records.read("other", folder) == []


@pytest.mark.parametrize(
    ("described", "lines"),
    [
        ("{part: part, table: 1}", ["| words |", "|---|", "| 5 |"]),
        ("{part: part, where: {row: [B]}, columns: [row, ms]}", ["| row | ms |", "|---|---|", "| B | 3.0 |"]),
        ("{part: part, columns: [row], texts: {row: {A: a}}, names: {row: n}}", ["| n |", "|---|", "| a |", "| B |"]),
        (
            "{part: part, summary: {by: [], of: to}}",
            ["| compared | median | least | below 1x |", "|---|---|---|---|", "| 2 | 1.2x | 0.5x | 1 |"],
        ),
        (
            "{part: part, summary: {by: [row], of: to}, columns: [row, least]}",
            ["| row | least |", "|---|---|", "| A | 2.0x |", "| B | 0.5x |"],
        ),
    ],
)
def test_a_page_shows_what_is_asked_for(folder: Path, described: str, lines: list[str]) -> None:
    assert shown(folder, described) == lines


@pytest.mark.parametrize(
    ("described", "message"),
    [
        ("{part: other}", "no record; `python -m benchmarks --parts other`"),
        ("{part: part, threads: 2}", "no record"),
        ("{part: part, table: 2}", "table 2 of 2"),
        ("{part: part, columns: [speed]}", "expected columns of row, ms, to, to 2, not speed"),
        ("{part: part, where: {row: [C]}}", "no line"),
        ("{part: part, where: {speed: [C]}}", "expected columns of row, ms, to, to 2, not speed"),
    ],
)
def test_what_no_record_has_is_named(folder: Path, described: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        shown(folder, described)


def test_a_broken_record_is_named(folder: Path) -> None:
    for text, message in (('[{"command": 1}]', "expected the key 'threads'"), ("[", "expected a list of records")):
        (folder / "part.json").write_text(text, encoding="utf-8")
        with pytest.raises(ParseError, match=rf"part\.json: {message}"):
            records.read("part", folder)


def test_pages_of_speed_and_rates_are_those_of_the_records() -> None:
    for path, text in pages.pages().items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name}: run `make tables`"


def parsed(words: list[str], heads: list[int], *rows: tuple[str, str]) -> sa.Sentence:
    """A sentence whose labels are nsubj, obj:x and so on, with contractions ``(ids, form)``."""
    labels = [("root" if head == 0 else "nsubj" if head > word else "obj:x") for word, head in enumerate(heads, 1)]
    lines = [(ids, form, *"________") for ids, form in rows]
    lines += [(str(number), word, *"________") for number, word in enumerate(words, 1)] if rows else []
    return sa.Sentence(words, dependency=sa.DependencyTree(heads, labels), rows=lines)


def test_figures_from_raw_text_by_hand() -> None:
    gold = [parsed(["Kids", "do", "n't", "wash", "."], [4, 4, 4, 0, 4], ("2-3", "don't")), parsed(["Hush"], [0])]
    same = raw_text.measure(raw_text.list_units(gold), raw_text.list_units(gold))
    assert same == dict.fromkeys(("sentences", "tokens", "words", "UAS", "LAS"), 100.0)
    # One sentence instead of two, and the contraction in two tokens, of which the second hangs on the first.
    other = [parsed(["Kids", "do", "n't", "wash", ".", "Hush"], [4, 4, 2, 0, 4, 4])]
    figures = raw_text.measure(raw_text.list_units(gold), raw_text.list_units(other))
    assert figures == {
        "sentences": 0.0,
        "tokens": pytest.approx(200 * 4 / (5 + 6)),  # Kids, wash, ., Hush of 5 and of 6
        "words": 100.0,
        "UAS": pytest.approx(100 * 4 / 6),
        "LAS": pytest.approx(100 * 4 / 6),
    }
    # A word in two parts: neither they nor the arcs to and from them are right.
    other = [parsed(["Ki", "ds", "do", "n't", "wash", "."], [5, 1, 5, 5, 0, 5]), parsed(["Hush"], [0])]
    figures = raw_text.measure(raw_text.list_units(gold), raw_text.list_units(other))
    assert figures["words"] == figures["UAS"] == pytest.approx(200 * 5 / (6 + 7))
    with pytest.raises(ValueError, match="expected the same characters"):
        raw_text.measure(raw_text.list_units(gold), raw_text.list_units(gold[:1]))
