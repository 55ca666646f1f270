"""The script that draws structured attention works on any models, and says what it needs."""

import json
import re
import sys
from pathlib import Path

import pytest
import torch

import structattn as sa
from small_models import sentence_model
from structattn.data.text_vocabulary import TextVocabulary
from structattn.tasks import SENTIMENT, SequenceModel, TextProcessor, build_decoder, get_task
from structattn_papers.figures import structured_figures

FORMULA = "( + 1 ( * 2 3 ) )"


def draw(monkeypatch: pytest.MonkeyPatch, out: Path, *arguments: str) -> dict[str, str]:
    monkeypatch.setattr(sys, "argv", ["structured_figures", *arguments, "--out", str(out)])
    structured_figures.main()
    return {path.stem: path.read_text(encoding="utf-8") for path in out.glob("*.svg")}


def saved(folder: Path, attention: str) -> str:
    vocabulary = sa.Vocabulary([*dict.fromkeys(FORMULA.split()), "a", "dog", "barks"])
    options = {"attention": attention, "dim": 6}
    sentence_model("structured", SENTIMENT, vocabulary=vocabulary, options=options).save_pretrained(folder)
    return str(folder)


def test_heads_of_a_formula(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [f"{kind}={saved(tmp_path / kind, kind)}" for kind in ("simple", "projective")]
    svg = draw(monkeypatch, tmp_path, "--heads", *runs, "--formula", FORMULA)["structured-heads"]
    assert svg.count("the bracket that a closing one closes") == 1
    # Each column of either panel is a distribution over the nine words and the root.
    rounded = [float(value) for value in re.findall(r": (\d\.\d+)<", svg)]
    assert sum(rounded) == pytest.approx(2 * 9, abs=0.2)


def bars(chart: str, name: str) -> list[float]:
    """The per cents of a series."""
    return [float(value) for value in re.findall(rf"<title>[^<]*, {name}: ([\d.]+)%</title>", chart)]


def test_trees_beside_parses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gold = sa.Sentence(["a", "dog", "barks"], ["DET", "NOUN", "VERB"], sa.DependencyTree([2, 3, 0]))
    sa.write_conllu(tmp_path / "gold.conllu", [gold])
    run = f"ours={saved(tmp_path / 'run', 'projective')}"
    drawn = draw(monkeypatch, tmp_path, "--trees", run, "--data", str(tmp_path / "gold.conllu"))
    agree = re.search(r">(\d) of 3 agree<", drawn["structured-tree-ours"])
    assert agree is not None
    chart = drawn["structured-attachment"]
    assert bars(chart, "trained on ours")[0] == pytest.approx(100 * int(agree[1]) / 3, abs=0.06)
    # "a" and "dog" have the next word as head here, and the last word is the root.
    assert bars(chart, "next word") == [100.0] * 4
    # Seven projective trees of three words have one root: "barks" in three, "dog" under it in three, "a" under "dog" in
    # two.
    assert bars(chart, "random projective tree") == pytest.approx(
        [100 * 8 / 21, 100 * 2 / 7, 100 * 3 / 7, 100 * 3 / 7], abs=0.06
    )


def test_curves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in (1, 2):
        run = tmp_path / f"seed{seed}"
        run.mkdir()
        test = {f"correct_prefix_depth{depth}": 1 / depth + seed / 100 for depth in range(2, 9)}
        (run / "result.json").write_text(json.dumps({"test": test}), encoding="utf-8")
        rows = [{"epoch": epoch, "metrics": {}, "values": {"tree_entropy": 2.0 / epoch}} for epoch in (1, 2, 3)]
        (run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    both = f"ours={tmp_path / 'seed1'},{tmp_path / 'seed2'}"
    drawn = draw(monkeypatch, tmp_path, "--depth", both, "--entropy", both)
    assert "51.5%" in drawn["structured-depth"]
    assert drawn["structured-entropy"].count('class="sa-point"') == 3


def test_times_of_every_structure() -> None:
    svg = structured_figures.times_figure((2, 4), batch=2, repeats=1)
    assert all(f">{kind}<" in svg for kind in ("none", "simple", "projective", "nonprojective", "constituency"))
    assert svg.count('class="sa-point"') == 10


def test_alignments_and_what_a_model_of_words_guesses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [("ein hund", "a dog"), ("ein haus", "a house"), ("hund", "dog")]
    data = tmp_path / "pairs.tsv"
    data.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    texts = TextProcessor(
        sa.Vocabulary(["ein", "haus", "hund"]), TextVocabulary.from_texts([target for _, target in pairs])
    )
    runs = []
    for kind in ("simple", "sigmoid", "segmentation"):
        torch.manual_seed(0)
        encoder = sa.encoders.build("lstm", vocab_size=len(texts.source), dim=4)
        decoder = build_decoder("lstm", encoder, len(texts.target), attention=kind)
        SequenceModel(encoder, decoder, get_task("translation"), texts=texts).save_pretrained(tmp_path / kind)
        runs.append(f"{kind}={tmp_path / kind}")
    arguments = ["--translations", *runs, "--data", str(data), "--pair", "ein haus", "a house"]
    svg = draw(monkeypatch, tmp_path, *arguments)["structured-translation"]
    for title in ("simple", "sigmoid", "segmentation", "IBM Model 1"):
        assert f">{title}<" in svg
    learn = structured_figures.word_translations
    known = [(source.split(), target.split()) for source, target in pairs]
    # After one round: half a count for each word of the first pair, a whole one in the last.
    assert learn(known, rounds=1)["hund"]["dog"] == pytest.approx(1.5 / 2)
    assert max(learn(known)["haus"].items(), key=lambda entry: entry[1])[0] == "house"


def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, message in (
        (["--trees", "a=b"], "need --data"),
        (["--translations", "a=b", "--data", "c"], "--pair"),
    ):
        with pytest.raises(SystemExit):
            draw(monkeypatch, Path("figures"), *arguments)
        assert message in capsys.readouterr().err
