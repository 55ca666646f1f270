"""Tables of pages from records: their cells, their marks, and the pages as they stand."""

import dataclasses
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from repository import ROOT
from structattn.errors import ConfigError
from structattn_papers.reproduction import Evidence, Row, all_rows, generated_pages
from structattn_papers.reproduction.checks import append_check, check
from structattn_papers.reproduction.figures import DRIFTED, LEGENDS, OLDER
from structattn_papers.reproduction.golden import golden_output
from structattn_papers.reproduction.published import reproduction_page
from structattn_papers.reproduction.records import Record, append_record, read_records
from structattn_papers.reproduction.tables import read_tables

pytestmark = pytest.mark.integration

OPTIONS = {"task": "trec", "encoder": "emb_s2t", "data.train": "{data}/train.txt"}
ROWS = {
    "plain": {"command": "train", "options": OPTIONS},
    "tree": {"command": "train", "options": {**OPTIONS, "optimization.epochs": 2}},
    "none": {"command": "train", "options": {**OPTIONS, "optimization.epochs": 3}},
}
TABLE = {
    "page": "docs/page.md",
    "header": ["data"],
    "columns": {"plain": "plain", "tree": "tree", "none": "none"},
    "best": "row",
    "rows": [
        {"text": ["TREC"], "records": "mine/{column}", "metric": "accuracy"},
        {"text": ["loss"], "records": "mine/{column}", "metric": "loss", "scale": 1, "digits": 2, "lowest": True},
        {"text": ["empty"], "records": [None, None, "mine/none"], "metric": "accuracy"},
    ],
}


@pytest.fixture
def papers(tmp_path: Path) -> Path:
    """Two recorded rows and one without a record."""
    (tmp_path / "papers" / "mine").mkdir(parents=True)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "page.md").write_text(
        "before\n\n<!-- table: one -->\n<!-- end -->\n\nafter\n", encoding="utf-8"
    )
    describe(tmp_path / "papers", TABLE)
    (tmp_path / "papers" / "mine" / "rows.yaml").write_text(yaml.safe_dump(ROWS, sort_keys=False), encoding="utf-8")
    add(tmp_path / "papers", "plain", {1: (0.5, 1.25), 2: (0.7, 1.0)})
    add(tmp_path / "papers", "tree", {1: (0.625, 2.0)})
    return tmp_path / "papers"


def describe(papers: Path, table: object) -> None:
    (papers / "tables.yaml").write_text(yaml.safe_dump({"one": table}, sort_keys=False), encoding="utf-8")


def golden_of(row: Row, known: dict[str, list[float] | None] = {}) -> list[float] | None:  # noqa: B006
    """The golden output of a row, the same in every test."""
    if row.digest not in known:
        known[row.digest] = golden_output(row)
    return known[row.digest]


def add(papers: Path, name: str, values: dict[int, tuple[float, float]], *, spread: float | None = None) -> None:
    row = all_rows(papers)[f"mine/{name}"]
    for seed, (accuracy, loss) in values.items():
        metrics = {"accuracy": accuracy, "loss": loss, **({} if spread is None else {"accuracy_sd": spread})}
        golden = golden_of(row)
        append_record(row, Record(seed, "train", row.digest, "0", {}, "dev", metrics, 1.0, "cpu", golden))


def page(papers: Path) -> str:
    return generated_pages(papers)[papers.parent / "docs" / "page.md"]


def test_a_table_has_means_deviations_seeds_and_the_best_in_bold(papers: Path) -> None:
    assert page(papers).splitlines() == [
        "before",
        "",
        "<!-- table: one -->",
        "",
        "| data | plain | tree | none |",
        "|---|---|---|---|",
        "| TREC | 60.0 ± 14.1 (2) | **62.5** (1) | – |",
        "| loss | **1.12** ± 0.18 (2) | 2.00 (1) | – |",
        "",
        "<!-- end -->",
        "",
        "after",
    ]


def test_the_best_of_a_column_and_a_page_that_is_right_already(papers: Path) -> None:
    swapped = {"text": ["swapped"], "records": ["mine/tree", "mine/plain", None], "metric": "accuracy"}
    describe(papers, {**TABLE, "best": "column", "rows": [TABLE["rows"][0], swapped]})  # type: ignore[index]
    assert "| TREC | 60.0 ± 14.1 (2) | **62.5** (1) | – |" in page(papers)
    assert "| swapped | **62.5** (1) | 60.0 ± 14.1 (2) | – |" in page(papers)
    text = page(papers)
    (papers.parent / "docs" / "page.md").write_text(text, encoding="utf-8")
    assert page(papers) == text


def test_a_transposed_table_is_the_same_with_its_rows_as_columns(papers: Path) -> None:
    lines = [line for line in page(papers).splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    describe(papers, {**TABLE, "transposed": True})
    lines = [line for line in page(papers).splitlines() if line.startswith("| ")]
    assert [[cell.strip() for cell in line.strip("|").split("|")] for line in lines] == [
        list(column) for column in zip(*cells, strict=True)
    ]
    assert "| tree | **62.5** (1) | 2.00 (1) |" in lines


def test_folds_of_one_seed_have_a_deviation(papers: Path) -> None:
    add(papers, "none", {1: (0.8, 0.5)}, spread=0.02)
    assert "| TREC | 60.0 ± 14.1 (2) | 62.5 (1) | **80.0** ± 2.0 |" in page(papers)


def test_a_row_whose_model_has_changed_is_marked_until_it_is_run_again(papers: Path) -> None:
    rows = {**ROWS, "tree": {"command": "train", "options": {**OPTIONS, "options.dropout": 0.7}}}
    (papers / "mine" / "rows.yaml").write_text(yaml.safe_dump(rows, sort_keys=False), encoding="utf-8")
    assert "**62.5** (1) † |" in page(papers)
    assert LEGENDS[OLDER] in page(papers)
    add(papers, "tree", {1: (0.75, 2.0)})
    assert "**75.0** (1) |" in page(papers)
    assert LEGENDS[OLDER] not in page(papers)


def test_a_row_that_no_longer_gives_its_record_is_marked_until_it_is_recorded_again(papers: Path) -> None:
    tree = all_rows(papers)["mine/tree"]
    (record,) = read_records(tree)
    same = dataclasses.replace(record, version="1", seconds=9.0)
    other = dataclasses.replace(same, metrics={"accuracy": 0.5, "loss": 2.0})
    append_check(tree, check(tree, record, dataclasses.replace(other, machine="another")))
    assert LEGENDS[DRIFTED] not in page(papers), "another machine may be the reason"
    for again, is_marked in ((same, False), (other, True), (same, False), (other, True)):
        append_check(tree, check(tree, record, again))
        assert ("62.5** (1) ‡ |" in page(papers)) == (LEGENDS[DRIFTED] in page(papers)) == is_marked
    append_record(tree, other)
    assert "50.0 (1) |" in page(papers)
    assert LEGENDS[DRIFTED] not in page(papers)


def test_a_changed_golden_output_alone_is_a_changed_model(papers: Path) -> None:
    file = papers / "mine" / "results" / "plain.jsonl"
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    for line in lines:
        line["golden"][0] *= 1.01
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    assert "60.0 ± 14.1 (2) † |" in page(papers)


def test_a_table_without_records_says_so(papers: Path) -> None:
    describe(papers, {**TABLE, "columns": {"none": "none"}, "rows": TABLE["rows"][:1]})  # type: ignore[index]
    assert "No row of this table has a record yet." in page(papers)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"best": "worst"}, "best: expected one of row, column, none, got 'worst'"),
        ({"rows": 3}, "expected page, header, columns and rows"),
        ({"rows": [{"text": ["x"]}]}, "expected page, header, columns and rows"),
        ({"columns": {"plane": "plane"}}, "table one: there is no row 'mine/plane' (did you mean 'mine/plain'?)"),
    ],
)
def test_faults_in_a_description(papers: Path, change: dict[str, object], message: str) -> None:
    describe(papers, {**TABLE, **change})
    with pytest.raises(ConfigError) as caught:
        page(papers)
    assert message in str(caught.value)


def test_a_table_with_a_picture_of_its_columns_over_its_rows(papers: Path) -> None:
    curve = {"file": "docs/evidence/figures/curve.svg", "title": "TREC"}
    other = {"text": ["more"], "records": ["mine/tree", None, None], "metric": "accuracy"}
    describe(papers, {**TABLE, "rows": [TABLE["rows"][0], other], "curve": curve})  # type: ignore[index]
    pages = generated_pages(papers)
    picture = pages[papers.parent / "docs" / "evidence" / "figures" / "curve.svg"]
    assert "![TREC](evidence/figures/curve.svg)\n\n| data |" in pages[papers.parent / "docs" / "page.md"]
    # Two systems with records, the first at two places: 60 ± 14.1 and 62.5, which no second seed surrounds.
    assert [picture.count(f'class="sa-{what}"') for what in ("band", "point")] == [2, 3]
    assert "plain, 0: 60 ± 14.1" in picture
    assert "tree, 0: 62.5<" in picture
    assert ">more<" in picture
    describe(papers, {**TABLE, "rows": [TABLE["rows"][0], other], "curve": curve, "against": "tree"})  # type: ignore[index]
    panels = generated_pages(papers)[papers.parent / "docs" / "evidence" / "figures" / "curve.svg"]
    assert panels.count('class="sa-panel"') == 1
    assert "tree, in every panel" in panels
    describe(papers, {**TABLE, "columns": {"none": "none"}, "rows": TABLE["rows"][:1], "curve": curve})  # type: ignore[index]
    assert list(generated_pages(papers)) == [papers.parent / "docs" / "page.md"]


def test_a_page_without_the_marks(papers: Path) -> None:
    (papers.parent / "docs" / "page.md").write_text("nothing\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="expected the marks <!-- table: one --> and <!-- end -->"):
        page(papers)


def test_the_command_writes_and_checks(papers: Path, call: Callable[..., tuple[int, str, str]]) -> None:
    code, _, err = call("reproduce", "tables", "--papers", papers, "--check")
    assert (code, "out of date with the records" in err) == (2, True)
    assert call("reproduce", "tables", "--papers", papers)[:2] == (
        0,
        f"{papers.parent / 'docs' / 'page.md'}: written\n",
    )
    assert call("reproduce", "tables", "--papers", papers, "--check")[0] == 0


# The pages of this repository.


def trust_records() -> Callable[[Row], Sequence[float] | None]:
    """Golden outputs: of each encoder that of one row, of the other rows as the latest record has it."""
    encoders: set[tuple[str, object]] = set()

    def golden(row: Row) -> Sequence[float] | None:
        encoder = (row.command, row.config().get("encoder") if row.command == "train" else None)
        if encoder in encoders:
            return read_records(row)[-1].golden
        encoders.add(encoder)
        return golden_output(row)

    return golden


@pytest.mark.parametrize("everything", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_every_page_and_picture_is_as_its_records_say(everything: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one test, as the pages show many rows in common, whose models are built once.

    Everything is what ``structattn reproduce tables --check`` does, too, which ``.ci/run`` runs: it builds the model of
    every row and resamples the differences of every table.
    """
    if not everything:
        monkeypatch.setattr("structattn_papers.reproduction.tables.golden_output", trust_records())
        tables, evidence = read_tables(ROOT / "papers"), Evidence(ROOT / "papers")
        for table in tables:
            page = (ROOT / table.page).read_text(encoding="utf-8")
            assert replace(table, against=None).markdown(evidence) in page, f"{table.page}, {table.name}: make tables"
        resampled = next(table for table in tables if table.against is not None and table.curve is not None)
        monkeypatch.setattr("structattn_papers.reproduction.pages.read_tables", lambda papers: [resampled])
    for path, made in generated_pages(ROOT / "papers").items():
        assert made == path.read_text(encoding="utf-8"), f"{path}: make tables"


def _tables(page: str) -> list[str]:
    return re.findall(r"<!-- table: .*?<!-- end -->", page, flags=re.DOTALL)


@pytest.mark.parametrize("name", ["results.md", "when-structure-helps.md", "backbone-results.md"])
def test_sentences_say_no_figure_that_no_table_of_the_page_has(name: str) -> None:
    text = (ROOT / "docs" / "evidence" / name).read_text(encoding="utf-8")
    tables = _tables(text)
    sentences = re.sub(r"<!-- table: .*?<!-- end -->|```.*?```|`[^`]*`", "", text, flags=re.DOTALL)
    known = {figure for table in tables for figure in re.findall(r"\d[\d,]*\.\d+", table)}
    said = {figure if figure[0] != "." else f"0{figure}" for figure in re.findall(r"(?<![\w.])\d*\.\d+", sentences)}
    assert len(said) > 4
    assert not said - known


@pytest.mark.parametrize("name", ["results.md", "when-structure-helps.md", "backbone-results.md"])
def test_a_difference_with_its_interval_is_that_of_one_cell(name: str) -> None:
    """``by 9.5 (7.0 to 12.1)`` in a sentence: the three numbers stand together below a table, from either side."""
    text = (ROOT / "docs" / "evidence" / name).read_text(encoding="utf-8").replace("−", "-")
    number = r"[+-]?\d+\.\d+"
    cells = set()
    for table in _tables(text):
        for cell in re.findall(rf"({number}) \(({number}) to ({number})\)", table):
            difference, low, high = map(float, cell)
            cells |= {(difference, low, high), (-difference, -high, -low)}
    sentences = re.sub(r"<!-- table: .*?<!-- end -->|```.*?```|`[^`]*`", "", text, flags=re.DOTALL)
    sentences = " ".join(sentences.split())
    apart = rf"(?:(?!{number})[^()])*"
    said = re.findall(rf"({number}){apart}\({apart}({number}) to ({number})[,)]", sentences)
    said += re.findall(rf"({number}), ({number}) to ({number})[,)]", sentences)
    assert len(said) >= 0.9 * len(re.findall(rf"{number} to {number}", sentences)) > 1
    assert [one for one in said if tuple(map(float, one)) not in cells] == []


def test_what_is_lower_says_what_was_tried_and_what_is_inconclusive_what_would_settle_it() -> None:
    page = (ROOT / "docs" / "evidence" / "reproduction.md").read_text(encoding="utf-8")
    for verdict, notes in {"lower": r"tried ", "inconclusive": r"more |a single run|\d+ seeds would settle"}.items():
        lines = [line for line in page.splitlines() if f"| {verdict}" in line and "`" in line]
        assert lines
        assert [line for line in lines if not re.search(rf"\| {verdict}: ({notes})", line)] == []


def test_records_hold_no_path_of_a_machine() -> None:
    for file in (ROOT / "papers").glob("*/results/*.jsonl"):
        text = file.read_text(encoding="utf-8")
        assert '"/' not in text, file
        assert " /" not in text, file


def test_every_file_of_records_belongs_to_a_row() -> None:
    known = {row.records for row in all_rows(ROOT / "papers").values()}
    assert {*(ROOT / "papers").glob("*/results/*.jsonl")} <= known


def test_every_row_is_shown_in_a_table_or_read_by_another() -> None:
    rows = all_rows(ROOT / "papers")
    asked: set[str] = set()

    class Asked(Evidence):
        def of(self, name: str, asked_by: str) -> None:
            asked.add(str(self.row(name, asked_by)))

    evidence = Asked(ROOT / "papers")
    reproduction_page(ROOT / "papers", evidence)
    for table in read_tables(ROOT / "papers"):
        table.markdown(evidence)
    read = {f"{row.folder.name}/{name}" for row in rows.values() for name in row.needs}
    studies = {name for name, row in rows.items() if row.space is not None}
    assert set(rows) == asked | (read & set(rows)) | studies


@pytest.mark.parametrize("name", ["results.md", "when-structure-helps.md", "backbone-results.md"])
def test_differences_are_bold_where_zero_is_not_in_their_interval(name: str) -> None:
    tables = "".join(_tables((ROOT / "docs" / "evidence" / name).read_text(encoding="utf-8")))
    said = re.findall(r" [+-][\d.]+ \((-?\d+\.\d+) to (-?\d+\.\d+)\)(\*\*)?", tables)
    assert said
    for low, high, bold in said:
        # An end that is printed as zero may lie on either side of it.
        if 0 not in (float(low), float(high)):
            assert bool(bold) == (float(low) > 0 or float(high) < 0), (low, high)
