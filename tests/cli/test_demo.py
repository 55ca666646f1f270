"""The demonstration in small: data, figures, page, and the command around them."""

import json
from pathlib import Path

import pytest

from structattn.cli import main
from structattn.cli.demo_command import ENCODERS, TESTED_ON, TRAINED_ON, Demonstration, demonstrate
from structattn.data import read_examples
from structattn.errors import ConfigError
from structattn.inspection import flipping_edits, num_attractors
from structattn.training import load

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Demonstration:
    return demonstrate(tmp_path_factory.mktemp("demo"), minutes=0.1, num_train=40, num_test=4)


def test_data_are_labelled_trees_that_anybody_can_train_on(found: Demonstration) -> None:
    parts = {
        name: list(read_examples(found.page.parent / "data" / f"{name}.conllu")) for name in ("train", "dev", "test")
    }
    words = [example.sentences[0].words for part in parts.values() for example in part]
    assert len(set(words)) == len(words), "a sentence stands in two parts"
    assert {num_attractors(example) for example in parts["train"]} == set(TRAINED_ON)
    assert [num_attractors(example) for example in parts["test"]] == [n for n in TESTED_ON for _ in range(4)]
    for part in parts.values():
        assert {example.label for example in part} == {"singular", "plural"}
        assert all(example.sentences[0].dependency is not None for example in part)


def test_figures_are_those_of_the_runs(found: Demonstration) -> None:
    examples = list(read_examples(found.page.parent / "data" / "test.conllu"))
    assert [trial.encoder for trial in found.trials] == list(ENCODERS)
    for trial in found.trials:
        model = load(found.page.parent / "runs" / trial.encoder)
        for attractors, accuracy in zip(TESTED_ON, trial.accuracies, strict=True):
            part = [example for example in examples if num_attractors(example) == attractors]
            assert model.evaluate(part).metrics["accuracy"] == pytest.approx(accuracy)


def test_the_page_stands_alone_and_shows_figures_and_attention(found: Demonstration) -> None:
    text = found.page.read_text(encoding="utf-8")
    assert all(encoder in text for encoder in ENCODERS)
    boot = json.loads(text.split('class="structattn-explorer">')[1].split("</script>")[0])
    names = [model["name"] for model in boot["models"]]
    assert sorted(names) == sorted(ENCODERS)
    assert boot["view"] == {"item": 0, "models": ["ms_san", "transformer"]}
    test = list(read_examples(found.page.parent / "data" / "test.conllu"))
    by_words = {example.sentences[0].words: example for example in test}
    shown = [by_words[tuple(item["sentences"][0]["words"])] for item in boot["items"]]
    model = load(found.page.parent / "runs" / "ms_san")
    flipping = [example for example in test if any(edit.head for edit in flipping_edits(model, example))]
    assert all(example in flipping for example in shown) or not flipping
    for item in boot["items"]:
        assert [look["model"] for look in item["replies"]["look"]["looks"]] == names
        assert set(item["replies"]) == {"look", "influence", "gradient", "arcs"}
    assert f"structattn explore {found.page.parent}/runs/ms_san {found.page.parent}/runs/transformer" in text
    assert text.count("<svg") == 2
    assert "src=" not in text
    assert "http" not in text.replace("http://www.w3.org/", "")


def test_the_command_prints_a_table_and_repeats_itself(
    found: Demonstration, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import structattn.cli.demo_command

    def small(out: str, *, seed: int, minutes: float) -> Demonstration:
        return demonstrate(out, seed=seed, minutes=minutes, num_train=40, num_test=4)

    monkeypatch.setattr(structattn.cli.demo_command, "demonstrate", small)
    # It replaces what the first one left.
    assert main(["demo", "--out", str(found.page.parent), "--minutes", "0.1", "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert [trial["accuracies"] for trial in again["trials"]] == [list(trial.accuracies) for trial in found.trials]
    monkeypatch.setattr(structattn.cli.demo_command, "demonstrate", lambda *_, **__: found)
    assert main(["demo"]) == 0
    header, *rows, last = capsys.readouterr().out.splitlines()
    assert header.split() == ["accuracy", "with", "attractors:", "0", "1", "2", "3", "4", "seconds"]
    assert [row.split()[0] for row in rows] == list(ENCODERS)
    assert last == f"the page: {found.page}"


@pytest.mark.parametrize("wrong", [{"minutes": 0.0}, {"num_train": 0}, {"num_test": 0}])
def test_nothing_to_do_is_refused(wrong: dict[str, float], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"minutes: expected a number above 0|at least one sentence of each kind"):
        demonstrate(tmp_path, **wrong)  # type: ignore[arg-type]
