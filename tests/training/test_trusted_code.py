"""Code that a folder names is not imported, let alone called, unless the caller says so."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

import small_models
import structattn as sa
from backbones import save_tiny
from structattn.backbones import HydraConfig, HydraModelForSequenceClassification, add_heads, load_backbone
from structattn.backbones.backbone_files import read_backbone_config
from structattn.data import Vocabulary
from structattn.encoders.encoder_table import BUILDERS
from structattn.errors import ConfigError, StructAttnError
from structattn.parsing import TreeParser, build_parser
from structattn.parsing.tree_parser import read_parser
from structattn.syntax import DependencyTree, Sentence
from structattn.tasks import SENTIMENT, Task
from structattn.training import DataConfig, OptimizationConfig, RunConfig, load_config, resume, run
from structattn.training.hugging_face import StructAttnConfig, StructAttnForSequenceClassification
from structattn.training.preparation import start_from

Call = Callable[..., tuple[int, str, str]]
# A module that leaves a file when it is imported, and whose function and class leave one when they are called.
PAYLOAD = """
import pathlib
from structattn.encoders import transformer
HERE = pathlib.Path(__file__).parent
(HERE / "IMPORTED").touch()

def small(vocab_size, *, dim: int = 8):
    (HERE / "CALLED").touch()
    return transformer(vocab_size, dim=dim, num_heads=2)

class Anything(dict):
    def __init__(self, *args, **options):
        (HERE / "CALLED").touch()
"""
NAME = "payload:small"
REFUSED = r"its encoder '.*' is code that would be imported and run.*trust_code=True \(--trust-code"
VOCABULARY = Vocabulary(["good", "bad"])


def tiny_backbone(folder: Path) -> Path:
    save_tiny(folder)
    return folder


@pytest.fixture
def payload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the module is; it can be imported."""
    folder = tmp_path / "modules"
    folder.mkdir()
    (folder / "payload.py").write_text(PAYLOAD, encoding="utf-8")
    monkeypatch.syspath_prepend(folder)
    yield folder
    sys.modules.pop("payload", None)


def ran(payload: Path) -> bool:
    return (payload / "IMPORTED").exists() or (payload / "CALLED").exists() or "payload" in sys.modules


def edited(file: Path, **values: Any) -> None:
    content = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps({**content, **values}), encoding="utf-8")


def sentence_model(folder: Path) -> None:
    small_models.sentence_model(
        "transformer", SENTIMENT, vocabulary=VOCABULARY, options={"dim": 8, "num_heads": 2}
    ).save_pretrained(folder)


def tree_model(folder: Path) -> None:
    task = Task("trees", answer="tree")
    small_models.attachment_model("structured", task, vocabulary=VOCABULARY, options={"dim": 4}).save_pretrained(folder)


@pytest.mark.parametrize("save", [sentence_model, tree_model])
@pytest.mark.parametrize("name", [NAME, "os:_exit", "unittest:main", "payload:", ":x", "a:b:c"])
def test_a_model_folder_names_no_code(save: Callable[[Path], None], name: str, tmp_path: Path, payload: Path) -> None:
    folder = tmp_path / "model"
    save(folder)
    edited(folder / "config.json", encoder=name)
    with pytest.raises(ConfigError, match=f"config.json: {REFUSED}"):
        sa.load(folder)
    assert not ran(payload)


def test_trusted_code_runs(tmp_path: Path, payload: Path) -> None:
    folder = tmp_path / "model"
    torch.manual_seed(0)
    model = small_models.sentence_model(NAME, SENTIMENT, vocabulary=VOCABULARY)
    model.save_pretrained(folder)
    expected = model.eval().predict(["good"])[0].probabilities
    for trust_code in (True, NAME):
        assert sa.load(folder, trust_code=trust_code).predict(["good"])[0].probabilities == expected
    with pytest.raises(ConfigError, match=REFUSED):
        sa.load(folder, trust_code="payload:another")


@pytest.mark.parametrize("encoder", [3, None, ["payload:small"], {"payload:small": 1}])
def test_what_is_no_name_is_refused(encoder: object, tmp_path: Path, payload: Path) -> None:
    sentence_model(tmp_path / "model")
    edited(tmp_path / "model/config.json", encoder=encoder)
    with pytest.raises(ConfigError, match=r"config\.json: expected the name of an encoder, got"):
        sa.load(tmp_path / "model", trust_code=True)
    assert not ran(payload)


# The same folder behind the interface of transformers


def test_transformers_trusts_a_folder_only_when_asked(tmp_path: Path, payload: Path) -> None:
    from transformers import AutoConfig, AutoModelForSequenceClassification

    folder = tmp_path / "model"
    sentence_model(folder)
    edited(folder / "config.json", encoder=NAME, _was_read=False, trust_code=True, options={})
    ways: list[Callable[..., Any]] = [
        lambda **trust: AutoModelForSequenceClassification.from_pretrained(folder, **trust),
        lambda **trust: StructAttnForSequenceClassification.from_pretrained(folder, **trust),
        lambda **trust: StructAttnForSequenceClassification.from_pretrained(
            folder, config=StructAttnConfig.from_json_file(folder / "config.json"), **trust
        ),
    ]
    configs = [
        AutoConfig.from_pretrained(folder),
        StructAttnConfig.from_pretrained(folder),
        StructAttnConfig.from_json_file(folder / "config.json"),
        StructAttnConfig.from_dict(json.loads((folder / "config.json").read_text())),
    ]
    for way in ways:
        for trust in ({}, {"trust_remote_code": False}):
            with pytest.raises(ConfigError, match=REFUSED):
                way(**trust)
    for config in configs:
        with pytest.raises(ConfigError, match=REFUSED):
            AutoModelForSequenceClassification.from_config(config)
        with pytest.raises(ConfigError, match=REFUSED):
            StructAttnForSequenceClassification(config)
        config.save_pretrained(tmp_path / "config")
        assert '_was_read": true' not in (tmp_path / "config/config.json").read_text()
    assert not ran(payload)
    sentence_model(folder)
    edited(folder / "config.json", encoder=NAME, options={})
    for way in ways[:2]:
        for trust in ({"trust_remote_code": True}, {"trust_code": True}):
            assert way(**trust).predict(["good"])
    assert AutoModelForSequenceClassification.from_config(configs[0], trust_code=True).config.encoder == NAME
    assert ran(payload)


def test_a_configuration_of_the_callers_own_is_the_callers_word(payload: Path) -> None:
    model = StructAttnForSequenceClassification(StructAttnConfig(NAME, vocab_size=5))
    assert model(input_ids=torch.tensor([[2, 3]])).logits.shape == (1, 2)


# Runs


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "train.tsv"
    path.write_text("".join(f"{'good' if k % 2 else 'bad'} film {k}\t{k % 2}\n" for k in range(20)), encoding="utf-8")
    return path


def configured(corpus: Path, **values: Any) -> RunConfig:
    data = DataConfig(str(corpus), text_column=0, label_column=1, holdout=0.3)
    return RunConfig(
        "classification", values.pop("encoder", NAME), data, optimization=OptimizationConfig(epochs=1), **values
    )


def test_a_run_folder_names_no_code(call: Call, corpus: Path, tmp_path: Path, payload: Path) -> None:
    out = tmp_path / "run"
    run(configured(corpus, out=str(out)))
    for name in ("IMPORTED", "CALLED"):
        (payload / name).unlink()
    del sys.modules["payload"]
    with pytest.raises(ConfigError, match=f"config.yaml: {REFUSED}"):
        resume(out)
    with pytest.raises(ConfigError, match=REFUSED):
        sa.load(out)
    commands = [
        ("eval", out, "--data", corpus),
        ("predict", out, "--data", corpus),
        ("plot", out, "--text", "good film"),
        ("phrases", out, "--data", corpus),
        ("hydra", "eval", corpus.with_name("x.conllu"), "--run", out),
    ]
    corpus.with_name("x.conllu").write_text("1\ta\ta\tX\t_\t_\t0\troot\t_\t_\n\n", encoding="utf-8")
    for words in commands:
        code, _, message = call(*words)
        assert (code, "--trust-code" in message) == (2, True), message
    assert not ran(payload)
    for option in ("--trust-code", "--trust_code"):
        assert call("plot", out, "--text", "good film", option)[0] == 0
    assert resume(out, trust_code=True).folder == out


def test_the_folder_to_start_from_names_no_code(corpus: Path, tmp_path: Path, payload: Path) -> None:
    sentence_model(tmp_path / "model")
    edited(tmp_path / "model/config.json", encoder=NAME)
    config = configured(corpus, encoder="transformer", options={"dim": 8, "num_heads": 2}, init=str(tmp_path / "model"))
    for name, place in (("once", {}), ("folds", {"folds": 2})):
        with pytest.raises(ConfigError, match=REFUSED):
            run(RunConfig(**{**vars(config), "out": str(tmp_path / name), **place}))
    with pytest.raises(ConfigError, match=REFUSED):
        start_from(small_models.sentence_model("transformer", SENTIMENT, vocabulary=VOCABULARY), tmp_path / "model")
    assert not ran(payload)


def test_the_best_model_of_a_run_to_resume_names_no_other_code(
    corpus: Path, tmp_path: Path, payload: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    test = DataConfig(str(corpus), test=str(corpus), text_column=0, label_column=1, holdout=0.3)
    config = RunConfig("classification", "transformer", test, {"dim": 8, "num_heads": 2}, out=str(out))
    room = sys.modules["structattn.training.run"]
    original = room.load

    def planted(folder: Path, **trust: Any) -> Any:
        edited(folder / "config.json", encoder=NAME)
        return original(folder, **trust)

    monkeypatch.setattr(room, "load", planted)
    with pytest.raises(ConfigError, match=REFUSED):
        run(RunConfig(**{**vars(config), "optimization": OptimizationConfig(epochs=1)}))
    assert not ran(payload)


CLASS = {"class_path": "payload.Anything", "init_args": {}}


@pytest.mark.parametrize(
    "values",
    [
        {"options": {"dim": [CLASS]}},
        {"options": {"dim": [[CLASS]]}},
        {"options": {"dim": [[[CLASS]]]}},
        {"options": {"a": {"b": {"c": CLASS}}}},
        {"data": CLASS},
        {"data": {"columns": {"first": CLASS}}},
        {"data": "other.yaml"},
        {"optimization": CLASS},
        {"seed": CLASS},
        {"class_path": "payload.Anything"},
    ],
)
def test_a_configuration_is_refused_without_importing_the_class_it_names(
    values: dict[str, Any], tmp_path: Path, payload: Path
) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump({"task": "trec", "encoder": "disan", **values}), encoding="utf-8")
    with pytest.raises(ConfigError, match=str(path)):
        load_config(path)
    assert not ran(payload)


# Words that need no file, and the sections of the configuration.
COMMANDS = {
    "train": ("--task trec --encoder disan", ("data", "classifier", "decoder", "optimization")),
    "sweep": ("space.yaml --task trec --encoder disan", ("data",)),
    "parser train": ("x --dev x --out x", ("optimization",)),
    "hydra pretrain": ("x --backbone x --out x", ("heads", "optimization")),
}
# A text of YAML, or a file of it, that stands for ten million values.
BOMB = "[&a0 [1], " + ", ".join(f"&a{k} [" + ", ".join(10 * [f"*a{k - 1}"]) + "]" for k in range(1, 8)) + "]"


@pytest.mark.parametrize("name", COMMANDS)
def test_a_file_of_a_command_is_refused_without_importing_or_opening_what_it_names(
    name: str, call: Call, tmp_path: Path, payload: Path
) -> None:
    usual, sections = COMMANDS[name]
    path, other = tmp_path / "config.yaml", tmp_path / "other.yaml"
    other.write_text(BOMB, encoding="utf-8")
    contents: list[dict[str, Any]] = [{"config": str(other)}, {"seed": BOMB}]
    for section in sections:
        contents += [{section: CLASS}, {section: "payload.Anything"}, {section: str(other)}]
        contents.append({f"{section}.class_path": "payload.Anything"})
    for content in contents:
        path.write_text(yaml.safe_dump(content), encoding="utf-8")
        code, _, message = call(*name.split(), *usual.split(), "--config", path)
        assert (code, f"error: {path}: " in message) == (2, True), message
    for content in (CLASS, {"class_path": "payload.Anything"}):
        path.write_text(yaml.safe_dump(content), encoding="utf-8")
        for section in sections:
            code, _, message = call(*name.split(), *usual.split(), f"--{section}={path}")
            assert (code, f"error: {path}: unknown option --{section}.class_path" in message) == (2, True), message
    assert call(*name.split(), *usual.split(), f"--{sections[0]}", other)[0] == 2
    assert not ran(payload)


@pytest.mark.parametrize("text", [BOMB, "[" * 20_000, "- " * 20_000])
@pytest.mark.parametrize("place", ["seed", "options", "data"])
def test_a_text_does_not_unfold(text: str, place: str, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    inner: dict[str, Any] = {"options": {"a": [text]}, "data": {"text_column": text}}
    path.write_text(yaml.safe_dump({"task": "a", "encoder": "b", place: inner.get(place, text)}), encoding="utf-8")
    with pytest.raises(ConfigError, match=rf"config.yaml: {place}.*: expected a plain value, got a text that is YAML"):
        load_config(path)


@pytest.mark.parametrize("text", ["*.txt", "{a,b}/*.txt", "[*]", "a&b/*", "- a", "a: b", "[x"])
def test_texts_with_signs_of_yaml_stay_texts(text: str, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump({"task": "a", "encoder": "b", "data": {"train": text}}), encoding="utf-8")
    assert load_config(path).data.train == text


@pytest.mark.parametrize(
    "options",
    [
        CLASS,
        {"dim": CLASS},
        {"a": {"b": {"class_path": "payload.Anything"}}},
        {"dim": "payload.Anything"},
        {"class_path": "payload.Anything"},
    ],
)
def test_what_looks_like_a_class_is_a_plain_value(options: dict[str, Any], tmp_path: Path, payload: Path) -> None:
    path = tmp_path / "config.yaml"
    for values in ({"options": options}, {"decoder": {"options": options}}):
        path.write_text(yaml.safe_dump({"task": "trec", "encoder": "disan", **values}), encoding="utf-8")
        config = load_config(path)
        assert (config.options if "options" in values else config.decoder.options) == options
    assert not ran(payload)


def test_yaml_makes_nothing_but_plain_values(tmp_path: Path, payload: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("task: !!python/object/apply:payload.Anything []\nencoder: disan\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="expected YAML"):
        load_config(path)
    assert not ran(payload)


# Backbones: what transformers would run of a folder if it were asked to

REMOTE = {
    "AutoConfig": "payload.Anything",
    "AutoModel": "payload.Anything",
    "AutoModelForQuestionAnswering": "payload.Anything",
    "AutoTokenizer": ["payload.Anything", "payload.Anything"],
}
POISONS: dict[str, tuple[str, dict[str, Any]]] = {
    "model of its own": ("config.json", {"model_type": "payload", "auto_map": REMOTE}),
    "configuration of its own": ("config.json", {"model_type": "payload", "auto_map": {"AutoConfig": "payload.A"}}),
    "attention from elsewhere": ("config.json", {"attn_implementation": "somebody/payload"}),
    "attention by its inner name": ("config.json", {"_attn_implementation": "somebody/payload"}),
    "experts from elsewhere": ("config.json", {"experts_implementation": "somebody/payload"}),
}


def poisoned(backbone: Path, payload: Path, poison: str) -> None:
    file, values = POISONS[poison]
    edited(backbone / file, **values)
    (backbone / "payload.py").write_text((payload / "payload.py").read_text(), encoding="utf-8")


@pytest.mark.parametrize("poison", POISONS)
def test_a_backbone_brings_no_code(poison: str, tmp_path: Path, payload: Path) -> None:
    backbone = tiny_backbone(tmp_path / "backbone")
    poisoned(backbone, payload, poison)
    for reader in ("AutoModel", "AutoModelForQuestionAnswering"):
        with pytest.raises(StructAttnError, match="backbone"):
            load_backbone(backbone, reader=reader)
    assert not ran(payload)
    assert not (backbone / "IMPORTED").exists()


def test_known_models_are_read_without_the_code_beside_them(tmp_path: Path, payload: Path) -> None:
    backbone = tiny_backbone(tmp_path / "backbone")
    edited(backbone / "config.json", auto_map=REMOTE)
    edited(backbone / "tokenizer_config.json", auto_map={"AutoTokenizer": REMOTE["AutoTokenizer"]})
    (backbone / "payload.py").write_text(PAYLOAD, encoding="utf-8")
    model, tokenizer = load_backbone(backbone)
    assert type(model).__module__.startswith("transformers.")
    assert type(tokenizer).__module__.startswith("transformers.")
    assert read_backbone_config(backbone).hidden_size
    assert not ran(payload)
    assert not (backbone / "IMPORTED").exists()


@pytest.mark.parametrize("poison", POISONS)
def test_skeletons_within_folders_of_ours_bring_no_code(poison: str, tmp_path: Path, payload: Path) -> None:
    backbone = str(tiny_backbone(tmp_path / "source"))
    kids = Sentence(["kids", "wash"], ["NOUN", "VERB"], DependencyTree([2, 0], ["nsubj", "root"]))
    small_models.sentence_model(
        "backbone", SENTIMENT, vocabulary=VOCABULARY, embedder={"folder": backbone}
    ).save_pretrained(tmp_path / "model")
    build_parser([kids], backbone=backbone).save_pretrained(tmp_path / "parser")
    task = HydraModelForSequenceClassification(add_heads(load_backbone(backbone)[0], HydraConfig(num_heads=2)), 2)
    task.save_pretrained(tmp_path / "task")
    ways: dict[str, Callable[[Path], Any]] = {
        "model": sa.load,
        "parser": read_parser,
        "task": HydraModelForSequenceClassification.from_pretrained,
    }
    for name, read in ways.items():
        poisoned(tmp_path / name / "backbone", payload, poison)
        with pytest.raises(StructAttnError, match="backbone"):
            read(tmp_path / name)
    assert not ran(payload)


def test_tables_of_parsers_know_their_kinds_only(tmp_path: Path, payload: Path) -> None:
    kids = Sentence(["kids", "wash"], ["NOUN", "VERB"], DependencyTree([2, 0], ["nsubj", "root"]))
    build_parser([kids]).save_pretrained(tmp_path / "parser")
    for encoder in (NAME, "disan", {"kind": NAME, "options": {}}):
        edited(tmp_path / "parser/config.json", encoder=encoder)
        with pytest.raises(ConfigError, match=r"config\.json: "):
            TreeParser.from_folder(tmp_path / "parser")
    assert not ran(payload)


def test_no_name_of_ours_looks_like_code() -> None:
    assert not [name for name in BUILDERS if ":" in name]
