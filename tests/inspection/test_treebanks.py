"""Statistics of treebanks, and two parsers on one, against counts by hand and by brute force."""

import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

import structattn as sa
from structattn.cli import main
from structattn.data.model_card import CARD, Trained, write_card
from structattn.inspection.parser_comparison import compare_parsers, comparison_page
from structattn.inspection.treebank_statistics import count_crossing, count_treebank, describe_treebanks
from structattn.parsing import build_parser, score_attachment
from structattn.syntax import DependencyTree, Sentence

WASH = DependencyTree([2, 0, 2], ["nsubj", "root", "obj"])
KIDS = Sentence(["kids", "wash", "hands"], ["NOUN", "VERB", "NOUN"], WASH)
# The arcs 3-1 and 4-2 cross.
CROSSED = Sentence(["a", "b", "a", "c"], ["X"] * 4, DependencyTree([3, 4, 0, 3], ["dep", "dep", "root", "dep"]))


def test_counts_by_hand() -> None:
    measures = count_treebank([KIDS, Sentence([]), CROSSED, Sentence(["no", "tree"])]).measures()
    assert measures["sentences"] == 3
    assert (measures["words"], measures["different words"], measures["words that occur once"]) == (9, 8, 7)
    assert (measures["words in a sentence, mean"], measures["words in a sentence, median"]) == (3.0, 3)
    assert measures["sentences without a dependency tree"] == 1
    assert measures["depth of the tree, at most"] == max(*KIDS.dependency.depths(), *CROSSED.dependency.depths())
    # Distances 1, 1 and 2, 2, 1; the heads of "hands" and "c" are to the left.
    assert measures["distance to the head, mean"] == pytest.approx(7 / 5)
    assert measures["heads to the left"] == pytest.approx(2 / 5)
    assert (measures["non-projective sentences"], measures["arcs that cross another"]) == (1 / 2, 2 / 7)
    with pytest.raises(ValueError, match="at least one sentence with words"):
        count_treebank([Sentence([])])


@pytest.mark.parametrize("seed", range(5))
def test_crossing_arcs_by_brute_force(seed: int) -> None:
    rng = np.random.default_rng(seed)
    order = rng.permutation(8) + 1
    heads = [0] * 8
    for place, word in enumerate(order[1:].tolist(), start=1):
        heads[word - 1] = int(rng.choice(order[:place]))
    tree = DependencyTree(heads)
    arcs = [(min(head, word), max(head, word)) for word, head in enumerate(heads, start=1) if head]
    # Sorted by their left ends, the second of two crossing arcs begins within the first and ends beyond it.
    pairs = [(p, q) for p, q in combinations(sorted(arcs), 2) if p[0] < q[0] < p[1] < q[1]]
    assert count_crossing(tree) == len({arc for pair in pairs for arc in pair})
    if tree.is_projective:
        assert not pairs


def test_treebanks_side_by_side_share_rows() -> None:
    report = describe_treebanks({"one": count_treebank([KIDS]), "two": count_treebank([CROSSED])})
    relations = {row["relation"]: row for row in report.tables["by relation"]}
    assert (relations["dep"]["one: share"], relations["dep"]["two: share"]) == (0.0, 3 / 4)
    assert relations["root"]["count"] == 2
    assert relations["root"]["distance"] is None
    assert [row["tag"] for row in report.tables["by tag"]] == ["X", "NOUN", "VERB"]


def test_scores_of_two_parsers_are_those_of_each() -> None:
    wrong = Sentence(KIDS.words, KIDS.tags, DependencyTree([3, 3, 0], ["nsubj", "dep", "root"]))
    gold, first = [KIDS, CROSSED] * 3, [KIDS, CROSSED] * 3
    second = [wrong, CROSSED] * 3
    report = compare_parsers(gold, {"a": first, "b": second}, samples=200)
    uas, las = report.tables["scores"]
    for name, parsed in (("a", first), ("b", second)):
        scores = score_attachment(gold, parsed)
        assert (uas[name], las[name]) == pytest.approx((scores.uas, scores.las))
    assert las["difference"] == pytest.approx(-3 / 7)
    assert las["from"] <= las["difference"] <= las["to"]
    by_relation = {row["relation"]: row for row in report.tables["by relation"]}
    assert (by_relation["obj"]["LAS a"], by_relation["obj"]["LAS b"]) == (1.0, 0.0)
    assert (by_relation["dep"]["support"], by_relation["dep"]["LAS b"]) == (9, 1.0)
    assert [row["sentence"] for row in report.tables["sentences that differ most"]] == [1, 3, 5]
    page = comparison_page(gold, {"a": first, "b": second}, report, shown=2)
    assert page.count("<h2") == 2 + 2
    assert page.count("<svg") == 4
    with pytest.raises(ValueError, match="has none"):
        compare_parsers([KIDS], {"a": [Sentence(KIDS.words)], "b": [KIDS]})


@pytest.fixture
def treebank(tmp_path: Path) -> Path:
    path = tmp_path / "en_tiny-ud-dev.conllu"
    sa.syntax.write_conllu(path, [KIDS, KIDS])
    return path


@pytest.mark.integration
def test_commands_on_treebanks(treebank: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture, page = tmp_path / "drawn.svg", tmp_path / "page.html"
    assert main(["describe", str(treebank), "--picture", str(picture), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tables"]["treebank"][0] == {"": "sentences", "en_tiny-ud-dev": 2}
    assert "distance to the head" in picture.read_text(encoding="utf-8")
    assert main(["parser", "compare", "en", str(treebank), str(treebank), "--page", str(page), "--samples", "50"]) == 0
    assert "by relation" in capsys.readouterr().out
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert main(["parser", "compare", "en", "en", str(treebank)]) == 2
    assert "expected two different parsers, got en twice" in capsys.readouterr().err
    assert main(["describe", str(tmp_path / "missing.conllu")]) == 2
    assert "missing.conllu: cannot read this file" in capsys.readouterr().err


@pytest.mark.parametrize(("about", "licence"), [(None, "unknown"), ("License: CC BY-SA 4.0\n", "cc-by-sa-4.0")])
def test_card_of_a_parser_names_language_treebank_and_licence(treebank: Path, about: str | None, licence: str) -> None:
    if about is not None:
        treebank.with_name("README.md").write_text(f"# Tiny\n\n{about}", encoding="utf-8")
    folder = treebank.with_name("parser")
    build_parser([KIDS]).save_pretrained(folder)
    write_card(folder, Trained(None, {"treebank": str(treebank)}, {"dev": {"las": 0.5}}))
    card = (folder / CARD).read_text(encoding="utf-8")
    assert "language: en\n" in card
    assert f"license: {licence}\n" in card
    assert "# parser of en\\_tiny\n" in card
