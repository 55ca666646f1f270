"""Verdicts on published rows, and the page that lists them."""

import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from repository import ROOT
from structattn.errors import ConfigError
from structattn.files.json_yaml import read_yaml
from structattn.tasks import metric
from structattn.training.significance import Answers, bootstrap_pooled
from structattn_papers.reproduction import Evidence, Recorded, Row, all_rows, generated_pages
from structattn_papers.reproduction.claims import judge
from structattn_papers.reproduction.differences import can_be_resampled, difference
from structattn_papers.reproduction.golden import golden_output
from structattn_papers.reproduction.intervals import interval, seed_difference
from structattn_papers.reproduction.published import reproduction_page, verdict
from structattn_papers.reproduction.records import Record, append_record, bits, packed

OPTIONS = {"task": "trec", "encoder": "emb_s2t", "data.train": "{data}/train.txt"}
NAMES = ("low", "high", "one", "none")
DEFAULTS = {"metric": "accuracy", "scale": 100, "digits": 1}
# 400 examples, answered by two runs each: 50 and 60 per cent.
RIGHT = {"low": [index % 2 == 0 for index in range(400)], "high": [index % 10 < 6 for index in range(400)]}
ERROR = {"metric": "mean_squared_error", "scale": 1, "lowest": True}
# How far the predicted numbers are from the true ones.
NOISE = {"low": 1.0, "high": 0.4}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tmp_path = tmp_path_factory.mktemp("recorded")
    folder = tmp_path / "papers" / "mine"
    folder.mkdir(parents=True)
    rows = {
        name: {"command": "train", "options": {**OPTIONS, "optimization.epochs": 1 + number}}
        for number, name in enumerate(NAMES)
    }
    (folder / "rows.yaml").write_text(yaml.safe_dump(rows, sort_keys=False), encoding="utf-8")
    known = all_rows(tmp_path / "papers")
    for name, right in RIGHT.items():
        row = known[f"mine/{name}"]
        for seed in (1, 2):
            metrics = {"accuracy": sum(right) / 400, "mean_squared_error": 1.0 + seed / 10, "loss": 1.0}
            record = Record(seed, "train", row.digest, "0", {}, "dev", metrics, 1.0, "cpu", golden_output(row), 400)
            append_record(row, Record(**{**vars(record), "order": "ab", "right": bits(right)}))
    row = known["mine/one"]
    append_record(row, Record(1, "train", row.digest, "0", {}, "dev", {"bleu": 24.0}, 1.0, "cpu", golden_output(row)))
    return tmp_path / "papers"


@pytest.fixture
def papers(recorded: Path, tmp_path: Path) -> Path:
    return shutil.copytree(recorded, tmp_path / "papers")


@pytest.mark.parametrize(
    ("entry", "name"),
    [
        # 50.0 with an interval from 45.1 to 54.9: never above a published value by its width alone.
        ({"ours": "mine/low", "published": 47.9}, "reproduced"),
        ({"ours": "mine/low", "published": 48.2}, "inconclusive"),
        ({"ours": "mine/low", "published": 54.0}, "inconclusive"),
        ({"ours": "mine/low", "published": 55.8}, "inconclusive"),
        ({"ours": "mine/low", "published": 56.0}, "lower"),
        ({"ours": "mine/low", "published": "56.0 / 2.0"}, "lower"),
        ({"ours": "mine/low", "published": 47.9, "recalled": True}, "as recalled"),
        ({"ours": "mine/low", "published": 56.0, "recalled": True}, "lower"),
        ({"ours": "mine/low", "published": 47.9, "other": "other data"}, "not comparable"),
        ({"ours": "mine/low", "other": "other data"}, "measured"),
        # The loss is 1.15 in a run of 1.1 and one of 1.2, with an interval from .51 to 1.79.
        ({"ours": "mine/low", "published": 1.8, **ERROR}, "reproduced"),
        ({"ours": "mine/low", "published": 1.0, **ERROR}, "inconclusive"),
        ({"ours": "mine/low", "published": 0.4, **ERROR}, "lower"),
        ({"ours": "mine/one", "published": 20.0, "metric": "bleu", "scale": 1}, "inconclusive"),
        # The mean of two rows for each seed is 55.0 for both.
        ({"ours": ["mine/low", "mine/high"], "published": 55.9}, "reproduced"),
        ({"ours": ["mine/low", "mine/high"], "published": 56.1}, "lower"),
        ({"ours": ["mine/low", "mine/none"], "published": 56.1}, "not run yet"),
        ({"ours": "mine/none", "published": 1.0}, "not run yet"),
        ({"ours": "mine/one", "published": 1.0}, "not run yet"),
        ({"ours": "mine/low"}, "measured"),
        ({"needs": "BERT", "published": 1.0}, "cannot be run here"),
        ({"quoted": True, "published": 1.0}, "quoted"),
        ({"drawn": "figures.md"}, "drawn"),
    ],
    ids=str,
)
def test_verdicts(papers: Path, entry: dict[str, Any], name: str) -> None:
    assert verdict({**DEFAULTS, **entry}, Evidence(papers), "here").name == name


@pytest.mark.parametrize(
    ("entry", "note"),
    [
        # 1.96 sqrt(.25 / 400) = 4.9 points, however many seeds; 55.5 to 44.5 has to become 45 to 54.5 or 44 to 55.
        ({"ours": "mine/low", "published": 54.0}, "more seeds do not settle it: 400 examples are too few"),
        # Seeds .1 / sqrt 2 apart: t .0707 / sqrt k <= 1.15 - 1.01, which k = 4 is the first to reach: .1125; 3: .1756.
        ({"ours": "mine/low", "published": 1.0, **ERROR}, "4 seeds would settle it"),
        (
            {"ours": "mine/one", "published": 20.0, "metric": "bleu", "scale": 1},
            "a single run: its deviation is not known",
        ),
    ],
)
def test_what_would_settle_it_by_hand(papers: Path, entry: dict[str, Any], note: str) -> None:
    assert verdict({**DEFAULTS, **entry}, Evidence(papers), "here").note == note


def test_intervals_by_hand(papers: Path) -> None:
    found = Evidence(papers).of("mine/low", "here")
    assert found is not None
    # 1.96 sqrt(.25 / 400) = .049, the seeds being equal.
    assert interval(found, "accuracy", 100) == pytest.approx((45.1, 54.9))
    # 12.706 times .1 / sqrt 2 / sqrt 2.
    assert interval(found, "mean_squared_error", 1) == pytest.approx((1.15 - 0.6353, 1.15 + 0.6353))
    one = Evidence(papers).of("mine/one", "here")
    assert one is not None
    assert interval(one, "bleu", 1) is None


def test_an_accuracy_ends_at_nothing_and_at_all(tmp_path: Path) -> None:
    """Nineteen of twenty: .95 ± 1.96 sqrt(.95 * .05 / 20) = .95 ± .0955; and one of twenty."""
    row = Row(tmp_path / "mine", "a", "train", options=OPTIONS)
    for share, ends in ((0.95, (0.8545, 1.0)), (0.05, (0.0, 0.1455))):
        for name in ("accuracy", "exact_match"):
            record = Record(1, "", row.digest, "0", {}, "dev", {name: share}, 1.0, "cpu", examples=20)
            assert interval(Recorded(row, (record,), is_older=False), name, 1) == pytest.approx(ends, abs=1e-4)


def test_a_table_shows_the_differences_from_a_column(papers: Path) -> None:
    (papers.parent / "docs").mkdir()
    page = papers.parent / "docs" / "page.md"
    page.write_text("<!-- table: one -->\n<!-- end -->\n", encoding="utf-8")
    table = {
        "page": "docs/page.md",
        "header": ["data"],
        "columns": {"`low`": "low", "`high`": "high", "`none`": "none"},
        "against": "low",
        "rows": [{"text": ["TREC"], "records": "mine/{column}", "metric": "accuracy"}],
    }
    (papers / "tables.yaml").write_text(yaml.safe_dump({"one": table}, sort_keys=False), encoding="utf-8")
    *_, head, _, line, _, _ = generated_pages(papers)[page].splitlines()
    assert head.startswith("Differences from *`low`* with 95 % intervals")
    # Fifty against sixty per cent of 400, of which 120 are right in both: 10 and about 1.96 times sqrt(.5 - .01) / 20.
    found = re.fullmatch(r"- TREC: \*\*`high` \+10\.0 \((\d\.\d) to (\d+\.\d)\)\*\*", line)
    assert found is not None, line
    assert (float(found[1]), float(found[2])) == pytest.approx((10 - 6.9, 10 + 6.9), abs=0.8)


def test_a_table_pools_the_differences_of_its_rows(papers: Path) -> None:
    (papers.parent / "docs").mkdir()
    page = papers.parent / "docs" / "page.md"
    page.write_text("<!-- table: one -->\n<!-- end -->\n", encoding="utf-8")
    row = {"records": "mine/{column}", "metric": "accuracy"}
    table = {
        "page": "docs/page.md",
        "header": ["data"],
        "columns": {"low": "low", "high": "high"},
        "against": "low",
        "pooled": True,
        "rows": [{"text": ["TREC"], **row}, {"text": ["CR"], **row}],
    }
    (papers / "tables.yaml").write_text(yaml.safe_dump({"one": table}, sort_keys=False), encoding="utf-8")
    *_, line, _, _ = generated_pages(papers)[page].splitlines()
    # Of two data sets with 6.9 on either side, the mean has 6.9 / sqrt(2) = 4.9.
    found = re.search(r": \*\*high \+10\.0 \((\d\.\d) to (\d+\.\d)\)\*\*, p < 0\.001, 2 data sets$", line)
    assert found is not None, line
    assert (float(found[1]), float(found[2])) == pytest.approx((10 - 4.9, 10 + 4.9), abs=0.6)
    table["pooled"] = False
    (papers / "tables.yaml").write_text(yaml.safe_dump({"one": table}, sort_keys=False), encoding="utf-8")
    assert "mean over" not in generated_pages(papers)[page]


def test_correlations_are_resampled_where_records_keep_the_numbers(papers: Path) -> None:
    """By the definition: examples are drawn, seeds of either row are drawn, and the correlation is taken again."""
    rows, random = all_rows(papers), np.random.default_rng(0)
    gold = random.normal(size=100)
    given = {name: [gold + noise * random.normal(size=100) for _ in range(2)] for name, noise in NOISE.items()}
    found = {name: numeric(rows[f"mine/{name}"], gold, given[name]) for name in given}
    result = difference(found["high"], found["low"], "pearson")
    assert result is not None
    drawn = []
    for _ in range(2_000):
        examples = random.integers(100, size=100)
        high, low = (
            np.mean(
                [np.corrcoef(gold[examples], given[name][seed][examples])[0, 1] for seed in random.integers(2, size=2)]
            )
            for name in ("high", "low")
        )
        drawn.append(high - low)
    exact = np.mean([np.corrcoef(gold, one)[0, 1] for one in given["high"]]) - np.mean(
        [np.corrcoef(gold, one)[0, 1] for one in given["low"]]
    )
    assert result.difference == pytest.approx(exact, abs=1e-9)
    assert (result.low, result.high) == pytest.approx(np.quantile(drawn, [0.025, 0.975]), abs=0.02)
    assert difference(found["high"], found["low"]) is None
    unknown = Recorded(rows["mine/low"], (Record(1, "", "", "", {}, "dev", {}, 1.0, "cpu"),), is_older=False)
    assert difference(found["high"], unknown, "pearson") is None
    assert not can_be_resampled([found["high"], unknown], "pearson")
    assert can_be_resampled([found["high"], None], "spearman")


@pytest.mark.parametrize(
    ("claim", "word", "difference"),
    [
        # 60 and 50 per cent of the same 400 examples, of which 120 are right in both: 10.0 and 6.9 to either side.
        ({"ours": "mine/high", "over": "mine/low"}, "holds", "+10.0"),
        ({"ours": "mine/low", "over": "mine/high"}, "reversed", "-10.0"),
        ({"ours": "mine/low", "over": "mine/low"}, "does not hold", "+0.0"),
        ({"ours": "mine/high", "over": "mine/low", "lowest": True}, "reversed", "+10.0"),
        ({"ours": ["mine/high", "mine/low"], "over": ["mine/low", "mine/high"]}, "does not hold", "+0.0"),
        # Without an answer to each example: over seeds, 1.1 and 1.2 in both.
        ({"ours": "mine/high", "over": "mine/low", "metric": "mean_squared_error"}, "does not hold", "+0.0"),
        ({"ours": "mine/high", "over": "mine/none"}, "not measured", "–"),
        ({"ours": "mine/one", "over": "mine/one", "metric": "bleu"}, "not measured", "–"),
        ({"needs": "other data"}, "not measured", "–"),
    ],
    ids=str,
)
def test_claims(papers: Path, claim: dict[str, Any], word: str, difference: str) -> None:
    result = judge({**DEFAULTS, **claim}, Evidence(papers), "here")
    assert (result.word, result.difference) == (word, difference)


@pytest.mark.parametrize(
    "claim", [{}, {"ours": "mine/low"}, {"ours": ["mine/low", "mine/high"], "over": "mine/low"}], ids=str
)
def test_a_claim_names_both_sides_or_what_it_needs(papers: Path, claim: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="here: expected ours and over, as many rows each, or needs"):
        judge({**DEFAULTS, **claim}, Evidence(papers), "here")


@pytest.mark.parametrize("name", ["bleu", "span_f1", "tag_accuracy"])
def test_kept_counts_give_the_interval_of_the_texts_themselves(papers: Path, name: str) -> None:
    if name == "bleu":
        pytest.importorskip("sacrebleu")
    generator = np.random.default_rng(3)

    def texts() -> np.ndarray:
        return np.array([" ".join(generator.choice(["B-NP", "I-NP", "O"], 6)) for _ in range(40)])

    gold, rows = texts(), all_rows(papers)
    given = {system: [texts() for _ in range(2)] for system in ("low", "high")}
    count = metric(name).function.counts
    found = {}
    for system, answers in given.items():
        kept = [{name: packed(count(gold, one))} for one in answers]
        records = [
            Record(0, "", "", "", {}, "dev", {}, 1.0, "cpu", examples=40, order="ab", counts=one) for one in kept
        ]
        found[system] = Recorded(rows[f"mine/{system}"], tuple(records), is_older=False)
    result = difference(found["high"], found["low"], name)
    whole = Answers(metric(name), gold, first=given["low"], second=given["high"])
    assert result == bootstrap_pooled([whole], samples=2_000)


def numeric(row: Row, gold: np.ndarray, seeds: list[np.ndarray]) -> Recorded:
    record = Record(0, "", "", "", {}, "dev", {}, 1.0, "cpu", examples=100, order="ab", gold=gold.tolist())
    records = [replace(record, seed=seed, predicted=one.tolist()) for seed, one in enumerate(seeds)]
    return Recorded(row, tuple(records), is_older=False)


def test_the_page_counts_and_marks(papers: Path) -> None:
    rows = [
        {"row": "A", "published": 47.9, "ours": "mine/low"},
        {
            "row": "B",
            "published": 70.0,
            "ours": "mine/high",
            "recalled": True,
            "tried": "one width",
            "differs": "smaller",
        },
        {"row": "C", "published": 71.0, "quoted": True},
        {"row": "D", "drawn": "figures.md"},
    ]
    table = {"title": "Table 1", "measured": "test", "differs": "fewer data", "missing": "a column", "rows": rows}
    other = {"ours": "mine/high", "metric": "mean_squared_error", "scale": 1, "published": 2.0}
    tables = [table, {"title": "Table 2", "other": "other data", "rows": [{"row": "E", **other}]}]
    claims = [
        {"claim": "high above low", "published": "70 and 60", "ours": "mine/high", "over": "mine/low"},
        {"claim": "low above high", "control": True, "ours": "mine/low", "over": "mine/high"},
    ]
    file = papers / "mine" / "published.yaml"
    file.write_text(
        yaml.safe_dump({"paper": "Mine", "claims": claims, "tables": tables}, sort_keys=False), encoding="utf-8"
    )
    page = reproduction_page(papers)
    lines = page.splitlines()
    assert "Published on test. Here: fewer data. B: smaller." in lines
    assert "| A | 47.9 | 50.0 ± 0.0 (2) | 45.1 to 54.9 | `mine/low` | reproduced |" in lines
    assert "| B | *70.0, recalled* | 60.0 ± 0.0 (2) | 55.2 to 64.8 | `mine/high` | lower: tried one width |" in lines
    assert "Quoted by the paper: C 71.0." in lines
    assert "- D: [page](figures.md)" in lines
    assert "Not listed: a column." in lines
    assert "Not comparable: other data." in lines
    assert "| E | 2.0 | 1.1 ± 0.1 (2) | 0.5 to 1.8 | `mine/high` | not comparable |" in lines
    assert page.index("| high above low | 70 and 60 | +10.0 |") < page.index("## Verdicts on rows")
    assert any(line.startswith("| control: low above high | – | -10.0 |") for line in lines)
    assert {"| holds | 1 | 0 |", "| reversed | 0 | 1 |", "| does not hold | 0 | 0 |"} <= set(lines)
    counts = {line.split(" | ")[0][2:]: line.split(" | ")[1] for line in lines if line.count(" | ") == 2}
    names = ("reproduced", "lower", "not comparable", "quoted", "drawn", "measured")
    assert [counts[name] for name in names] == ["1", "1", "1", "1", "1", "0"]
    assert "| all | 5 | |" in lines


def test_every_claim_and_every_record_of_this_repository_is_shown_once() -> None:
    """One record stands for one row: the page of the repository is refused otherwise, and says so."""
    page = (ROOT / "docs" / "evidence" / "reproduction.md").read_text(encoding="utf-8")
    files = [read_yaml(file, max_values=20_000) for file in sorted((ROOT / "papers").glob("*/published.yaml"))]
    rows = sum(len(table["rows"]) for values in files for table in values["tables"])
    assert f"| all | {rows} | |" in page
    tally = [
        list(map(int, line))
        for line in re.findall(r"^\| (?:holds|does not hold|reversed|not measured) \| (\d+) \| (\d+) \|$", page, re.M)
    ]
    claims = [claim for values in files for claim in values["claims"]]
    controls = sum(bool(claim.get("control")) for claim in claims)
    assert [sum(column) for column in zip(*tally, strict=True)] == [len(claims) - controls, controls]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"row": "A", "published": 1.0}, "expected ours, needs, quoted or drawn: no row without a verdict"),
        ({"row": "A", "our": "mine/low"}, "unknown key 'our' (did you mean 'ours'?)"),
        ({"row": "A", "ours": "mine/lo"}, "there is no row 'mine/lo' (did you mean 'mine/low'?)"),
        (
            {"row": "A", "ours": "mine/low", "metric": "loss", "published": 1.0},
            "no margin is stated for 'loss'; known: accu",
        ),
    ],
)
def test_faults_in_a_list_of_published_rows(papers: Path, row: dict[str, Any], message: str) -> None:
    values = {"paper": "Mine", "tables": [{"title": "Table 1", "rows": [row]}]}
    (papers / "mine" / "published.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        reproduction_page(papers)
    assert message in str(caught.value)
    assert "Table 1: A" in str(caught.value)


def test_a_record_stands_for_one_row(papers: Path) -> None:
    rows = [{"row": "A", "ours": "mine/low"}, {"row": "B", "ours": "mine/low"}]
    values = {"paper": "Mine", "tables": [{"title": "Table 1", "rows": rows}]}
    (papers / "mine" / "published.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")
    with pytest.raises(
        ConfigError, match=r"Table 1: B: 'mine/low' is shown already in .*: one record stands for one row"
    ):
        reproduction_page(papers)


def test_every_paper_lists_its_rows_and_names_rows_that_exist() -> None:
    files = sorted((ROOT / "papers").glob("*/published.yaml"))
    assert {file.parent.name for file in files} == {
        "disan",
        "hydra",
        "ms-san",
        "structured-attention",
        "tree-transformer",
    }
    known = all_rows(ROOT / "papers")
    for file in files:
        values = read_yaml(file, max_values=20_000)
        entries = [*values["claims"], *(row for table in values["tables"] for row in table["rows"])]
        named = [entry.get(key) or [] for entry in entries for key in ("ours", "over")]
        assert {name for names in named for name in ([names] if isinstance(names, str) else names)} <= set(known), file


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        # Variances of the means 1 and 4, so 25 / 17 degrees of freedom, rounded down.
        ([1.0, 3.0], [4.0, 8.0], (4, 4 - 12.706 * 5**0.5, 4 + 12.706 * 5**0.5)),
        # Equal ones of three seeds: four degrees of freedom.
        ([1.0, 2.0, 3.0], [0.0, 1.0, 2.0], (-1, -1 - 2.776 * (2 / 3) ** 0.5, -1 + 2.776 * (2 / 3) ** 0.5)),
        ([1.0, 1.0], [2.0, 2.0], (1, 1, 1)),
        ([1.0], [2.0, 3.0], None),
    ],
)
def test_differences_over_seeds_are_welchs(
    first: list[float], second: list[float], expected: tuple[float, ...] | None
) -> None:
    found = seed_difference(first, second)
    assert (found is None) == (expected is None)
    assert found is None or found == pytest.approx(expected)
