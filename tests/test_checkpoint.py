"""A trained model on disk: it comes back the same, through our door and that of transformers; damage is named."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import safetensors.torch
import torch

import structattn as sa
import structattn.training.hugging_face  # registers with the Auto classes of transformers
from structattn.data import Vocabulary
from structattn.data.tensors import load_tensors, read_tensors, save_tensors
from structattn.syntax import ConfigError, DependencyTree, ParseError, Sentence
from structattn.tasks import SENTIMENT, Prediction, SentenceModel, get_task
from structattn.training import TrainedModel, build_model, load, save

WORDS = ["a", "bad", "dog", "film", "fine", "good"]
SENTENCES = [
    Sentence(words, dependency=DependencyTree(list(range(len(words)))))
    for words in (["a", "good", "film"], ["bad"], [], ["a", "zebra", "runs"], ["a"] * 30)
]
ENCODERS = {
    "ms_san": {"dim": 12},
    "disan": {"dim": 6},
    # Buffers that are computed, not saved.
    "transformer": {"dim": 8, "num_heads": 2},
    "relative_xl": {"dim": 12},
    "bilstm": {"dim": 6},
}


def make(encoder: str = "ms_san", num_frozen: int = 0) -> TrainedModel:
    torch.manual_seed(0)
    vocabulary = Vocabulary(WORDS, [f"frozen{index}" for index in range(num_frozen)])
    model = build_model(encoder, SENTIMENT, vocabulary=vocabulary, options=ENCODERS[encoder])
    return model.eval()


def same(first: list[Prediction], second: list[Prediction]) -> bool:
    """Equal up to the order of sums, which may follow where in memory the weights lie."""
    pairs = zip(first, second, strict=True)
    return all(one.probabilities == pytest.approx(dict(other.probabilities), abs=1e-6) for one, other in pairs)


@pytest.mark.parametrize("encoder", sorted(ENCODERS))
def test_a_model_comes_back_the_same(encoder: str, tmp_path: Path) -> None:
    model = make(encoder, num_frozen=2)
    model.save_pretrained(tmp_path / "model")
    loaded = sa.load(tmp_path / "model")
    assert not loaded.training
    assert same(loaded.predict(SENTENCES), model.predict(SENTENCES))
    assert (loaded.task, loaded.labels, loaded.vocabulary) == (model.task, model.labels, model.vocabulary)
    loaded.save_pretrained(tmp_path / "again")
    for name in ("config.json", "vocabulary.json", "model.safetensors"):
        assert (tmp_path / "model" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


@pytest.mark.parametrize("encoder", sorted(ENCODERS))
def test_transformers_reads_and_writes_the_same_folder(encoder: str, tmp_path: Path) -> None:
    from transformers import AutoConfig, AutoModelForSequenceClassification

    model = make(encoder)
    model.save_pretrained(tmp_path / "model")
    assert AutoConfig.from_pretrained(tmp_path / "model").id2label == {0: "negative", 1: "positive"}
    loaded = AutoModelForSequenceClassification.from_pretrained(tmp_path / "model")
    assert type(loaded).__name__ == "StructAttnForSequenceClassification"
    assert same(loaded.predict(SENTENCES), model.predict(SENTENCES))
    loaded.save_pretrained(tmp_path / "again")
    assert same(sa.load(tmp_path / "again").predict(SENTENCES), model.predict(SENTENCES))

    batch = loaded.collate([sa.Example((sentence,), "positive") for sentence in SENTENCES])
    output = loaded(batch=batch)
    torch.testing.assert_close(output.loss, model.loss(batch))
    torch.testing.assert_close(output.logits, model(batch))


def test_transformers_forward_from_ids(tmp_path: Path) -> None:
    model = make("transformer")
    model.save_pretrained(tmp_path / "model")
    from transformers import AutoModelForSequenceClassification

    loaded = AutoModelForSequenceClassification.from_pretrained(tmp_path / "model")
    batch = loaded.collate([sa.Example((sentence,), "positive") for sentence in SENTENCES])
    (sentences,) = batch.sentences
    output = loaded(sentences.tokens, sentences.mask.long(), labels=torch.ones(len(SENTENCES), dtype=torch.long))
    torch.testing.assert_close(output.logits, model(batch))
    torch.testing.assert_close(output.loss, model.loss(batch))
    assert loaded(sentences.tokens, sentences.mask).loss is None
    with pytest.raises(ConfigError, match="either batch= or input_ids="):
        loaded()
    with pytest.raises(ConfigError, match="unknown argument 'token_type_ids'"):
        loaded(sentences.tokens, token_type_ids=sentences.tokens)


@pytest.mark.parametrize("order", ["structattn first", "transformers first"])
def test_auto_classes_know_the_model_whoever_comes_first(order: str, tmp_path: Path) -> None:
    make("disan").save_pretrained(tmp_path / "model")
    imports = {
        "structattn first": [
            "import structattn.training.hugging_face",
            "from transformers import AutoModelForSequenceClassification as Auto",
        ],
        "transformers first": [
            "from transformers import AutoModelForSequenceClassification as Auto",
            "import structattn.training.hugging_face",
        ],
    }
    code = "; ".join([*imports[order], "import sys; print(type(Auto.from_pretrained(sys.argv[1])).__name__)"])
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "model")], capture_output=True, text=True, check=False
    )
    assert done.stdout == "StructAttnForSequenceClassification\n", done.stderr


def test_loading_needs_no_transformers(tmp_path: Path) -> None:
    make("disan").save_pretrained(tmp_path / "model")
    code = (
        "import sys, structattn as sa; sa.load(sys.argv[1]).predict(['good']); assert 'transformers' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "model")], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()


def test_keys_and_config_are_those_of_a_hugging_face_folder(tmp_path: Path) -> None:
    save(make(), tmp_path / "model")
    assert {path.name for path in (tmp_path / "model").iterdir()} == {
        "config.json",
        "vocabulary.json",
        "model.safetensors",
    }
    assert all(name.startswith("model.") for name in read_tensors(tmp_path / "model" / "model.safetensors"))
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    assert config["model_type"] == "structattn"
    assert config["encoder"] == "ms_san"
    assert config["format_version"] == 1
    assert config["id2label"] == {"0": "negative", "1": "positive"}


def test_regression_and_pair_models_come_back(tmp_path: Path) -> None:
    vocabulary = Vocabulary(WORDS)
    model = build_model("disan", get_task("sick"), vocabulary=vocabulary, options={"dim": 6}).eval()
    model.save_pretrained(tmp_path / "model")
    pairs = [("a good film", "a fine film"), ("bad", "")]
    assert same(sa.load(tmp_path / "model").predict(pairs), model.predict(pairs))
    assert all(1 <= (answer.score or 0) <= 5 for answer in model.predict(pairs))


def test_saving_replaces_the_whole_folder(tmp_path: Path) -> None:
    make("disan").save_pretrained(tmp_path / "model")
    (tmp_path / "model" / "stale.bin").touch()
    make("ms_san").save_pretrained(tmp_path / "model")
    assert not (tmp_path / "model" / "stale.bin").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert load(tmp_path / "model").config["encoder"] == "ms_san"


def test_a_failed_save_leaves_the_old_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = make("disan")
    model.save_pretrained(tmp_path / "model")

    def fail(*args: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("structattn.training.checkpoint.save_tensors", fail)
    with pytest.raises(OSError, match="disk full"):
        make("ms_san").save_pretrained(tmp_path / "model")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert same(load(tmp_path / "model").predict(["good"]), model.predict(["good"]))


# Damage.


@pytest.mark.parametrize("name", ["config.json", "vocabulary.json", "model.safetensors"])
@pytest.mark.parametrize("damage", ["missing", "empty", "half", "noise"])
def test_damaged_files_are_named(name: str, damage: str, tmp_path: Path) -> None:
    make().save_pretrained(tmp_path / "model")
    file = tmp_path / "model" / name
    content = file.read_bytes()
    if damage == "missing":
        file.unlink()
    else:
        file.write_bytes({"empty": b"", "half": content[: len(content) // 2], "noise": b"\x00noise" * 20}[damage])
    with pytest.raises(ParseError) as caught:
        sa.load(tmp_path / "model")
    assert caught.value.file == str(file)
    assert str(file) in str(caught.value)


def test_one_flipped_bit_among_the_weights_is_noticed(tmp_path: Path) -> None:
    make().save_pretrained(tmp_path / "model")
    file = tmp_path / "model" / "model.safetensors"
    content = bytearray(file.read_bytes())
    content[-5] ^= 1
    file.write_bytes(content)
    with pytest.raises(ParseError, match="its tensors are not those that were written") as caught:
        sa.load(tmp_path / "model")
    assert caught.value.file == str(file)


def test_tensors_that_do_not_fit_are_named(tmp_path: Path) -> None:
    model = make().model
    tensors = {f"model.{name}": value for name, value in model.state_dict().items()}
    first, *_, last = sorted(tensors)
    file = tmp_path / "model.safetensors"
    for changed, message in (
        (
            {name: value for name, value in tensors.items() if name != first},
            f"expected a tensor '{first}', it is missing",
        ),
        ({**tensors, "model.more": torch.zeros(1)}, "has a tensor 'model.more' that the model lacks"),
        ({**tensors, last: torch.zeros(1, 2, 3)}, rf"expected tensor '{last}' of shape .*, got \(1, 2, 3\)"),
    ):
        save_tensors(changed, file)
        with pytest.raises(ParseError, match=message):
            load_tensors(model, file, prefix="model.")


def test_shared_tensors_are_written_out(tmp_path: Path) -> None:
    shared = torch.arange(6.0)
    save_tensors({"a": shared, "b": shared, "c": shared[2:]}, tmp_path / "t.safetensors")
    found = safetensors.torch.load_file(tmp_path / "t.safetensors")
    assert found["b"].tolist() == shared.tolist()
    assert found["c"].tolist() == [2.0, 3.0, 4.0, 5.0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "bert"}, "expected a model of type 'structattn', got 'bert'"),
        ({"format_version": 99}, "has format version 99, this structattn .* reads up to 1"),
        ({"encoder": "gpt"}, "config.json: unknown encoder 'gpt'"),
        ({"encoder_options": {"width": 3}}, "unknown option 'width'"),
    ],
)
def test_other_models_are_refused(changes: dict[str, object], message: str, tmp_path: Path) -> None:
    make().save_pretrained(tmp_path / "model")
    file = tmp_path / "model" / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))
    with pytest.raises(ConfigError, match=message):
        sa.load(tmp_path / "model")


def test_a_missing_key_of_the_config_is_named(tmp_path: Path) -> None:
    make().save_pretrained(tmp_path / "model")
    file = tmp_path / "model" / "config.json"
    config = json.loads(file.read_text())
    del config["labels"]
    file.write_text(json.dumps(config))
    with pytest.raises(ParseError, match=r"config.json: expected the key 'labels', it is missing"):
        sa.load(tmp_path / "model")


@pytest.mark.parametrize("changes", [{"encoder_options": None}, {"classifier": {"width": 3}}, {"task": {"size": 3}}])
def test_a_config_that_makes_no_sense_is_named(changes: dict[str, object], tmp_path: Path) -> None:
    make().save_pretrained(tmp_path / "model")
    file = tmp_path / "model" / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))
    with pytest.raises((ParseError, ConfigError), match=r"config\.json: "):
        sa.load(tmp_path / "model")


def test_the_vocabulary_of_another_model_is_refused(tmp_path: Path) -> None:
    from transformers import AutoModelForSequenceClassification

    make().save_pretrained(tmp_path / "model")
    file = tmp_path / "model" / "vocabulary.json"
    words = json.loads(file.read_text())
    size = len(words["words"]) + 2
    file.write_text(json.dumps({**words, "words": words["words"][:-1]}))
    with pytest.raises(ParseError, match=f"vocabulary.json: expected the {size} ids .* got {size - 1}"):
        sa.load(tmp_path / "model")
    with pytest.raises(ParseError, match=r"vocabulary\.json: expected"):
        AutoModelForSequenceClassification.from_pretrained(tmp_path / "model")


def test_a_model_without_vocabulary_cannot_be_saved(tmp_path: Path) -> None:
    encoder = sa.encoders.build("disan", vocab_size=5, dim=4)
    with pytest.raises(ConfigError, match="cannot be saved: pass vocabulary="):
        save(TrainedModel(SentenceModel(encoder, SENTIMENT), {}), tmp_path / "model")
    assert not (tmp_path / "model").exists()
