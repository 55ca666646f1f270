"""Folders of backbones: no tokenizer, damaged files and files of another model are refused by name."""

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import transformers as hf
from test_backbone_architectures import DECODERS, ENCODERS, model_of, tokenizer

import structattn as sa
from backbones import minilm_tokenizer, tiny
from structattn.backbones import PretrainedBackbone, load_backbone
from structattn.errors import ConfigError, StructAttnError

SENTENCES = [sa.Sentence(["kids", "wash"]), sa.Sentence(["hush"])]
_SIZE = {"vocab_size": 120, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
#: What transformers makes up without files: only [UNK], nothing at all, marks of blanks, a failure.
CONFIGS: Mapping[str, Callable[[], Any]] = {
    **ENCODERS,
    **DECODERS,
    "deberta": lambda: hf.DebertaConfig(**_SIZE),
    "xlm-roberta": lambda: hf.XLMRobertaConfig(**_SIZE),
    "camembert": lambda: hf.CamembertConfig(**_SIZE),
    "bigbird": lambda: hf.BigBirdConfig(**_SIZE),
    "xlnet": lambda: hf.XLNetConfig(vocab_size=120, d_model=16, n_layer=1, n_head=2, d_inner=8),
    "t5": lambda: hf.T5Config(vocab_size=120, d_model=16, d_kv=4, num_layers=1, num_heads=4, d_ff=16),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_a_folder_without_a_tokenizer_is_refused(name, tmp_path):
    """Transformers makes up a tokenizer for which every word is unknown."""
    CONFIGS[name]().save_pretrained(tmp_path)
    with pytest.raises(ConfigError, match=r"has no tokenizer, so every word .*AutoTokenizer\.from_pretrained\(MODEL\)"):
        load_backbone(tmp_path)


def test_a_tokenizer_without_words_is_refused(tmp_path):
    tiny("bert").save_pretrained(tmp_path)
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"has a tokenizer \(vocab\.txt\) without a single word"):
        load_backbone(tmp_path)
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nkids\nwash\n", encoding="utf-8")
    assert PretrainedBackbone.from_folder(tmp_path).tokenize(SENTENCES[:1]).ids.tolist() == [[2, 5, 6, 3]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("backbone")
    model_of(ENCODERS["bert"]()).save_pretrained(path)
    tokenizer().save_pretrained(path)
    return path


def _edit(file: Path, *keys: str, value: Any) -> None:
    content = part = json.loads(file.read_text(encoding="utf-8"))
    for key in keys[:-1]:
        part = part[key]
    part[keys[-1]] = value
    file.write_text(json.dumps(content), encoding="utf-8")


FILES = ["config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"]
BYTES: Mapping[str, Callable[[bytes], bytes]] = {
    "nothing": lambda content: b"",
    "half": lambda content: content[: len(content) // 2],
    "no start": lambda content: content[7:],
    "noise": lambda content: bytes(range(250, 256)) * 20,
    "another byte": lambda content: content[:40] + b"\xff" + content[41:],
    "an array": lambda content: b"[1, 2]",
    "nested": lambda content: b'{"a":' + b"[" * 100_000,
}
VALUES = [
    ("config.json", ("hidden_size",), "wide"),
    ("config.json", ("hidden_size",), 15),
    ("config.json", ("hidden_act",), "unheard"),
    ("config.json", ("model_type",), "sundial-clock"),
    ("config.json", ("hidden_dropout_prob",), 1e308),
    ("config.json", ("num_hidden_layers",), 3),
    ("config.json", ("vocab_size",), 11),
    ("tokenizer_config.json", ("tokenizer_class",), 1.5),
    ("tokenizer_config.json", ("unk_token",), []),
    ("tokenizer_config.json", ("model_max_length",), {}),
    ("tokenizer_config.json", ("model_max_length",), -1),
    ("tokenizer.json", ("model", "vocab"), {}),
    ("tokenizer.json", ("model", "vocab"), 7),
    ("tokenizer.json", ("model", "type"), "Oracle"),
    ("tokenizer.json", ("pre_tokenizer", "type"), None),
    ("tokenizer.json", ("added_tokens",), 3),
]


def _read(folder: Path) -> Any:
    return PretrainedBackbone.from_folder(folder).tokenize(SENTENCES)


def _refused(folder: Path, file: str) -> None:
    with pytest.raises(StructAttnError) as caught:
        _read(folder)
    message = str(caught.value)
    assert file in message
    assert "\n" not in message


@pytest.mark.parametrize("damage", BYTES)
@pytest.mark.parametrize("file", FILES)
def test_a_damaged_file_is_named(file, damage, folder, tmp_path):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    (tmp_path / file).write_bytes(BYTES[damage]((folder / file).read_bytes()))
    _refused(tmp_path, file)


@pytest.mark.parametrize(("file", "keys", "value"), VALUES)
def test_a_file_with_a_value_that_is_none_is_named(file, keys, value, folder, tmp_path):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    _edit(tmp_path / file, *keys, value=value)
    _refused(tmp_path, file)


def test_a_limit_that_says_no_limit_is_read(folder, tmp_path):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    _edit(tmp_path / "tokenizer_config.json", "model_max_length", value=10**30)
    assert PretrainedBackbone.from_folder(tmp_path).max_length == 34


def test_parameters_of_another_model_are_refused(folder, tmp_path):
    """Transformers would draw the missing ones at random and log it."""
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    shutil.copy(folder / "model.safetensors", tmp_path / "kept")
    model_of(DECODERS["gpt2"]()).save_pretrained(tmp_path / "gpt2")
    shutil.copy(tmp_path / "gpt2" / "model.safetensors", tmp_path)
    with pytest.raises(ConfigError, match=r"model\.safetensors: lacks \d+ parameters of the BertModel that config"):
        load_backbone(tmp_path)
    hf.BertForMaskedLM(ENCODERS["bert"]()).save_pretrained(tmp_path)  # which has no pooler
    assert load_backbone(tmp_path)[0].config.hidden_size == 16


def test_tokens_without_an_embedding_are_refused(folder):
    model, _ = load_backbone(folder)
    backbone = PretrainedBackbone(model, minilm_tokenizer())
    with pytest.raises(
        ConfigError, match=r"the tokenizer has '\w+' as number [\d,]+, but BertModel has embeddings of 10"
    ):
        backbone.tokenize([sa.Sentence(["kids"])])


@pytest.mark.parametrize(("words", "share"), [(["Hände", "waschen"], "100.0"), (["kids", "waschen"], "50.0")])
def test_many_unknown_words_are_said_once_with_their_share(words, share, folder, caplog):
    backbone = PretrainedBackbone.from_folder(folder)
    for _ in range(2):
        backbone.tokenize([sa.Sentence(words)])
    (message,) = [record.getMessage() for record in caplog.records if "unknown" in record.getMessage()]
    assert f"{share}% of the 2 words" in message
    assert "'waschen'" in message


def test_few_unknown_words_are_not_worth_a_word(folder, caplog):
    PretrainedBackbone.from_folder(folder).tokenize([sa.Sentence(["kids"] * 19 + ["waschen"])])
    assert "unknown" not in caplog.text


def test_texts_that_are_truncated_are_counted_once(folder, caplog):
    backbone = PretrainedBackbone.from_folder(folder)
    for _ in range(2):
        backbone.tokenize([sa.Sentence(["kids"] * 35), *SENTENCES], truncation=True)
    (message,) = [record.getMessage() for record in caplog.records if "truncated" in record.getMessage()]
    assert "1 of 3 texts in a batch have more than the 34 subwords" in message
