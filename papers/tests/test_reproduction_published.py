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
            metrics = {"accuracy": sum(right) / 400, "loss": 1.0 + seed / 10}
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
        ({"ours": "mine/low", "published": 54.0}, "reproduced"),
        ({"ours": "mine/low", "published": 40.0}, "reproduced"),
        ({"ours": "mine/low", "published": 56.0}, "not reproduced"),
        ({"ours": "mine/low", "published": "56.0 / 2.0"}, "not reproduced"),
        ({"ours": "mine/high", "published": 70.0, "above": "mine/low"}, "ordering reproduced"),
        ({"ours": "mine/low", "published": 70.0, "above": "mine/high"}, "not reproduced"),
        ({"ours": "mine/low", "published": 70.0, "above": "mine/low"}, "not reproduced"),
        ({"ours": "mine/high", "published": 70.0, "above": "mine/none"}, "not reproduced"),
        ({"ours": "mine/low", "published": 1.5, "metric": "loss", "scale": 1, "lowest": True}, "reproduced"),
        ({"ours": "mine/low", "published": 0.4, "metric": "loss", "scale": 1, "lowest": True}, "not reproduced"),
        ({"ours": "mine/one", "published": 24.1, "metric": "bleu", "scale": 1}, "not reproduced"),
        ({"ours": "mine/one", "published": 24.0, "metric": "bleu", "scale": 1}, "reproduced"),
        ({"ours": "mine/none", "published": 1.0}, "not run yet"),
        ({"ours": "mine/one", "published": 1.0}, "not run yet"),
        ({"ours": "mine/low"}, "measured"),
        ({"ours": "mine/high", "above": "mine/low"}, "measured"),
        ({"needs": "BERT", "published": 1.0}, "cannot be run here"),
        ({"quoted": True, "published": 1.0}, "quoted"),
        ({"drawn": "figures.md"}, "drawn"),
    ],
    ids=str,
)
def test_verdicts(papers: Path, entry: dict[str, Any], name: str) -> None:
    assert verdict({**DEFAULTS, **entry}, Evidence(papers), "here").name == name


def test_intervals_by_hand(papers: Path) -> None:
    found = Evidence(papers).of("mine/low", "here")
    assert found is not None
    # 1.96 sqrt(.25 / 400) = .049, the seeds being equal.
    assert interval(found, "accuracy", 100) == pytest.approx((45.1, 54.9))
    # 12.706 times .1 / sqrt 2 / sqrt 2.
    assert interval(found, "loss", 1) == pytest.approx((1.15 - 0.6353, 1.15 + 0.6353))
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
    ("better", "entry", "name"),
    [
        ("high", {"metric": "pearson"}, "ordering reproduced"),
        ("low", {"metric": "pearson"}, "not reproduced"),
        ("high", {"metric": "accuracy"}, "not reproduced"),
        ("low", {"metric": "accuracy"}, "ordering reproduced"),
    ],
)
def test_an_ordering_is_that_of_the_metric_of_the_row(
    papers: Path, monkeypatch: pytest.MonkeyPatch, better: str, entry: dict[str, Any], name: str
) -> None:
    """Of two rows the one with the better correlation has the fewer right answers."""
    rows, random = all_rows(papers), np.random.default_rng(0)
    gold = random.normal(size=400)
    found = {}
    for row, noise in NOISE.items():
        one = numeric(rows[f"mine/{row}"], gold, [gold + noise * random.normal(size=400)] * 2)
        right = bits(RIGHT["low" if row == "high" else "high"])
        records = [replace(record, examples=400, right=right, metrics={entry["metric"]: 0.5}) for record in one.records]
        found[f"mine/{row}"] = replace(one, records=tuple(records))
    evidence = Evidence(papers)
    monkeypatch.setattr(evidence, "of", lambda row, place: found[row])
    other = "low" if better == "high" else "high"
    row = {"ours": f"mine/{better}", "above": f"mine/{other}", "published": 90.0}
    assert verdict({**DEFAULTS, **row, **entry}, evidence, "here").name == name


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
        {"row": "A", "published": 54.0, "ours": "mine/low"},
        {
            "row": "B",
            "published": 70.0,
            "ours": "mine/high",
            "recalled": True,
            "tried": "one width",
            "differs": "smaller",
        },
    ]
    table = {"title": "Table 1", "measured": "test", "differs": "fewer data", "above": "mine/low", "rows": rows}
    file = papers / "mine" / "published.yaml"
    file.write_text(yaml.safe_dump({"paper": "Mine", "tables": [table]}, sort_keys=False), encoding="utf-8")
    lines = reproduction_page(papers).splitlines()
    assert "Published on test. Here: fewer data. B: smaller." in lines
    assert "| A | 54.0 | 50.0 ± 0.0 (2) | 45.1 to 54.9 | `mine/low` | reproduced |" in lines
    ordered = (
        "| B | *70.0, recalled* | 60.0 ± 0.0 (2) | 55.2 to 64.8 | `mine/high` | ordering reproduced: tried one width |"
    )
    assert ordered in lines
    assert any(
        line.startswith("| ordering reproduced | 1 |") and "1 of them against a recalled" in line for line in lines
    )
    assert "| all | 2 | |" in lines


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"row": "A", "published": 1.0}, "expected ours, needs, quoted or drawn: no row without a verdict"),
        ({"row": "A", "our": "mine/low"}, "unknown key 'our' (did you mean 'ours'?)"),
        ({"row": "A", "ours": "mine/lo"}, "there is no row 'mine/lo' (did you mean 'mine/low'?)"),
    ],
)
def test_faults_in_a_list_of_published_rows(papers: Path, row: dict[str, Any], message: str) -> None:
    values = {"paper": "Mine", "tables": [{"title": "Table 1", "rows": [row]}]}
    (papers / "mine" / "published.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        reproduction_page(papers)
    assert message in str(caught.value)
    assert "Table 1: A" in str(caught.value)


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
        for table in read_yaml(file, max_values=20_000)["tables"]:
            names = [one.get(key) for one in (table, *table["rows"]) for key in ("ours", "above")]
            assert {name for name in names if name} <= set(known), f"{file}: {table['title']}"


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
