"""A trained model on disk: it comes back the same, through our door and that of transformers; damage is named."""

import dataclasses
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

import structattn as sa
import structattn.training.hugging_face  # registers with the Auto classes of transformers
from backbones import tiny
from forking import run_forked
from import_orders import no_transformers, structattn_first, transformers_first
from small_models import sentence_model
from structattn.backbones import (
    HydraConfig,
    HydraModelForQuestionAnswering,
    HydraModelForSequenceClassification,
    HydraModelForTokenClassification,
    add_heads,
)
from structattn.data import Example, Vocabulary
from structattn.data.model_config import FORMAT_VERSION
from structattn.data.model_folder import MODEL_KINDS
from structattn.data.saved_model import SavedModel
from structattn.data.tensors import Storage, load_tensors, pack, read_tensors, save_tensors
from structattn.encoders import SentenceEncoder
from structattn.errors import ConfigError, ParseError
from structattn.parsing import TreeCRF, build_parser
from structattn.parsing.text_splitter import TextSplitter
from structattn.syntax import DependencyTree, Sentence
from structattn.tasks import (
    ANSWERS,
    SENTIMENT,
    TASKS,
    AttachmentModel,
    Evaluation,
    ModelConfig,
    Prediction,
    SentenceModel,
    SequenceModel,
    TaggingModel,
    Task,
    TaskModel,
    get_task,
    model_class,
)
from structattn.tasks.answering import measure_texts, num_words
from structattn.tasks.language_model import LanguageModel
from structattn.tasks.multilabel import MultilabelModel
from structattn.tasks.task_table import ModelKind
from structattn.training import DataConfig, OptimizationConfig, RunConfig, load, run

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


def make(encoder: str = "ms_san", num_frozen: int = 0) -> SentenceModel:
    torch.manual_seed(0)
    vocabulary = Vocabulary(WORDS, [f"frozen{index}" for index in range(num_frozen)])
    model = sentence_model(encoder, SENTIMENT, vocabulary=vocabulary, options=ENCODERS[encoder])
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


def test_loading_leaves_the_random_state_of_its_caller(tmp_path: Path) -> None:
    before = torch.get_rng_state()
    sa.encoders.build("emb_s2t", vocab_size=3, dim=4).save_pretrained(tmp_path / "model")
    assert not torch.equal(torch.get_rng_state(), before)  # to build one draws
    before = torch.get_rng_state()
    sa.load(tmp_path / "model")
    assert torch.equal(torch.get_rng_state(), before)


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
    (sentences,) = batch.sides
    output = loaded(sentences.tokens, sentences.mask.long(), labels=torch.ones(len(SENTENCES), dtype=torch.long))
    torch.testing.assert_close(output.logits, model(batch))
    torch.testing.assert_close(output.loss, model.loss(batch))
    assert loaded(sentences.tokens, sentences.mask).loss is None
    for labels in ([-1] * len(SENTENCES), [2] * len(SENTENCES), [0.0] * len(SENTENCES), [[1]] * len(SENTENCES), [1]):
        with pytest.raises(ConfigError, match=f"a class number from 0 to 1 for each of {len(SENTENCES)} texts, got"):
            loaded(sentences.tokens, sentences.mask, labels=torch.tensor(labels))
    with pytest.raises(ConfigError, match="either batch= or input_ids="):
        loaded()
    with pytest.raises(ConfigError, match="unknown argument 'token_type_ids'"):
        loaded(sentences.tokens, token_type_ids=sentences.tokens)


@pytest.mark.parametrize("encoder", sorted(ENCODERS.keys() - {"ms_san"}))
def test_padding_may_stand_anywhere(encoder: str, tmp_path: Path) -> None:
    from transformers import AutoModelForSequenceClassification

    make(encoder).save_pretrained(tmp_path / "model")
    loaded = AutoModelForSequenceClassification.from_pretrained(tmp_path / "model")
    expected = loaded(torch.tensor([[2, 3, 0, 0], [3, 2, 4, 2]])).logits
    for first in ([0, 0, 2, 3], [0, 2, 3, 0], [2, 0, 0, 3]):
        assert torch.equal(loaded(torch.tensor([first, [3, 2, 4, 2]])).logits, expected)
    mask = torch.tensor([[0, 0, 1, 1], [1, 1, 1, 1]])
    assert torch.equal(loaded(torch.tensor([[1, 1, 2, 3], [3, 2, 4, 2]]), mask).logits, expected)


@pytest.mark.parametrize("order", [structattn_first, transformers_first])
def test_auto_classes_know_the_model_whoever_comes_first(order: Callable[[Path], None], tmp_path: Path) -> None:
    make("disan").save_pretrained(tmp_path / "model")
    ended = run_forked(order, tmp_path / "model")
    assert ended.out == "StructAttnForSequenceClassification\n", ended.err


def test_loading_needs_no_transformers(tmp_path: Path) -> None:
    make("disan").save_pretrained(tmp_path / "model")
    ended = run_forked(no_transformers, tmp_path / "model")
    assert ended.code == 0, ended.err


def test_keys_and_config_are_those_of_a_hugging_face_folder(tmp_path: Path) -> None:
    make().save_pretrained(tmp_path / "model")
    assert {path.name for path in (tmp_path / "model").iterdir()} == {
        "README.md",
        "config.json",
        "vocabulary.json",
        "model.safetensors",
    }
    assert all(name.startswith("model.") for name in read_tensors(tmp_path / "model" / "model.safetensors"))
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    assert config["model_type"] == "structattn"
    assert config["encoder"] == "ms_san"
    assert (config["kind"], config["format_version"]) == ("sentence", 2)
    assert config["id2label"] == {"0": "negative", "1": "positive"}


def test_regression_and_pair_models_come_back(tmp_path: Path) -> None:
    vocabulary = Vocabulary(WORDS)
    model = sentence_model("disan", get_task("sick"), vocabulary=vocabulary, options={"dim": 6}).eval()
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


def test_the_working_folder_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "notes" / "inner").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "notes" / "inner")
    for folder in (".", "..", "../..", tmp_path / "notes", "/"):
        with pytest.raises(
            ConfigError, match="expected a folder that can be replaced, got one that this process works"
        ):
            make("disan").save_pretrained(folder)
    make("disan").save_pretrained("model")
    assert [str(path.relative_to(tmp_path)) for path in sorted(tmp_path.rglob("*")) if path.is_dir()] == [
        "notes", "notes/inner", "notes/inner/model"
    ]  # fmt: skip


def test_a_failed_save_leaves_the_old_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = make("disan")
    model.save_pretrained(tmp_path / "model")

    def fail(*args: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("structattn.data.model_folder.save_tensors", fail)
    with pytest.raises(OSError, match="disk full"):
        make("ms_san").save_pretrained(tmp_path / "model")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert same(load(tmp_path / "model").predict(["good"]), model.predict(["good"]))


# Every kind of model.


def small_parser() -> TreeCRF:
    gold = Sentence(["kids", "wash"], ["NOUN", "VERB"], DependencyTree([2, 0], ["nsubj", "root"]))
    return build_parser([gold], encoder={"hidden": 4}, scorer={"arc_dim": 4, "label_dim": 4}, min_count=1)


def small_sequence_model() -> SequenceModel:
    examples = [sa.Example((Sentence([f"wort{index}"]),), f"word{index}") for index in range(4)]
    return SequenceModel.from_examples(get_task("translation"), ModelConfig("lstm", {"dim": 4}), examples)


def small_hydra(kind: Any, *sizes: int) -> SavedModel:
    model: SavedModel = kind(add_heads(tiny("bert"), HydraConfig(num_heads=2)), *sizes)
    return model


SAVED: dict[str, Callable[[], SavedModel]] = {
    "encoder": lambda: sa.encoders.build("ms_san", vocab_size=5, dim=12),
    "sentence": make,
    "splitter": lambda: TextSplitter("ab", character_dim=2, feature_dim=2, dim=4, buckets=8),
    "multilabel": lambda: MultilabelModel(
        sa.encoders.build("emb_s2t", vocab_size=8, dim=4), get_task("multilabel"), "AB", vocabulary=Vocabulary(WORDS)
    ),
    "sequence": small_sequence_model,
    "attachment": lambda: AttachmentModel(
        sa.encoders.build("structured", vocab_size=8, dim=4), get_task("attachment"), vocabulary=Vocabulary(WORDS)
    ),
    "tagging": lambda: TaggingModel(
        sa.encoders.build("bilstm", vocab_size=8, dim=4), get_task("tagging"), "AB", vocabulary=Vocabulary(WORDS)
    ),
    "language_model": lambda: LanguageModel.from_examples(
        get_task("language_model"),
        ModelConfig("causal", {"config": {"model_type": "gpt2", "n_layer": 1, "n_embd": 8, "n_head": 2}}),
        [Example("two kids wash")],
    ),
    "parser": small_parser,
    "hydra_sequence_classification": lambda: small_hydra(HydraModelForSequenceClassification, 2),
    "hydra_token_classification": lambda: small_hydra(HydraModelForTokenClassification, 2),
    "hydra_question_answering": lambda: small_hydra(HydraModelForQuestionAnswering),
}


def test_every_kind_of_model_is_tried_here() -> None:
    assert set(SAVED) == set(MODEL_KINDS) - set(MODEL_KINDS.added())


@pytest.mark.parametrize("kind", SAVED)
def test_every_kind_of_model_comes_back_the_same(kind: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = SAVED[kind]()
    model.save_pretrained(tmp_path / "model")
    loaded = sa.load(tmp_path / "model")
    assert (type(loaded), loaded.kind, loaded.training) == (type(model), kind, False)
    # The attribute ``config`` of a model on a backbone is the backbone's, as transformers has it.
    description = "description" if hasattr(model, "description") else "config"
    assert getattr(loaded, description) == getattr(model, description)
    expected = model.state_dict()
    assert list(loaded.state_dict()) == list(expected)
    assert all(torch.equal(value, expected[name]) for name, value in loaded.state_dict().items())
    assert {file.suffix for file in (tmp_path / "model").rglob("*") if file.is_file()} == {
        ".json",
        ".md",
        ".safetensors",
    }
    loaded.save_pretrained(tmp_path / "again")
    for file in (tmp_path / "model").rglob("*.*"):
        assert file.read_bytes() == (tmp_path / "again" / file.relative_to(tmp_path / "model")).read_bytes(), file.name


@pytest.mark.parametrize("kind", SAVED)
def test_every_kind_of_model_checks_its_folder(kind: str, tmp_path: Path) -> None:
    SAVED[kind]().save_pretrained(tmp_path / "model")
    file = tmp_path / "model" / "config.json"
    config = json.loads(file.read_text())
    assert (config["model_type"], config["kind"], config["format_version"]) == ("structattn", kind, FORMAT_VERSION)
    for changes, message in (
        ({"format_version": 1}, "has format version 1, this structattn .* reads version 2"),
        ({"kind": "parrot"}, "expected a model of kind .*, got 'parrot'"),
        ({"encoder": "os:_exit"}, "is code that would be imported and run"),
    ):
        file.write_text(json.dumps({**config, **changes}))
        with pytest.raises(ConfigError, match=rf"config\.json: .*{message}"):
            sa.load(tmp_path / "model")
    # The first folders of HYDRA did not say their dropout, which was the default.
    optional = {"dropout", *HUB_KEYS}
    for key in set(config) - {"model_type", "kind", "format_version", "structattn_version", *optional}:
        file.write_text(json.dumps({name: value for name, value in config.items() if name != key}))
        with pytest.raises(ParseError, match=rf"config\.json: expected the key '{key}', it is missing"):
            sa.load(tmp_path / "model")
    file.write_text(json.dumps(config))
    weights = tmp_path / "model" / "model.safetensors"
    tensors = read_tensors(weights)
    name = next(name for name, tensor in sorted(tensors.items()) if tensor.is_floating_point())
    save_tensors({**tensors, name: torch.full_like(tensors[name], math.nan)}, weights)
    with pytest.raises(ParseError, match=f"model.safetensors: .*{name}.*NaN"):
        sa.load(tmp_path / "model")


HUB_KEYS = {"architectures", "id2label", "label2id", "problem_type"}


def test_an_encoder_alone_goes_into_another_model(tmp_path: Path) -> None:
    model = make("disan")
    model.encoder.save_pretrained(tmp_path / "encoder")
    encoder = sa.load(tmp_path / "encoder")
    other = SentenceModel(encoder, SENTIMENT, vocabulary=model.vocabulary).eval()
    other.classifier.load_state_dict(model.classifier.state_dict())
    assert same(other.predict(SENTENCES), model.predict(SENTENCES))


def test_an_adapter_is_no_whole_model(tmp_path: Path) -> None:
    add_heads(tiny("bert"), HydraConfig(num_heads=2)).save_pretrained(tmp_path / "run" / "best")
    for folder in (tmp_path / "run", tmp_path / "run" / "best"):
        with pytest.raises(ConfigError, match=r"got an adapter; add it to its backbone with structattn\.backbones"):
            sa.load(folder)


def test_what_was_put_together_by_hand_cannot_be_saved(tmp_path: Path) -> None:
    parts = sa.encoders.build("disan", vocab_size=8, dim=4)
    encoder = SentenceEncoder(parts.embedder, parts.contextualizer, pooler=parts.pooler, output_dim=8)
    for model in (encoder, SentenceModel(encoder, SENTIMENT, vocabulary=Vocabulary(WORDS))):
        with pytest.raises(ConfigError, match=r"expected one that structattn\.encoders\.build made by name"):
            model.save_pretrained(tmp_path / "model")
    assert not (tmp_path / "model").exists()


class CountingModel(TaskModel):
    """Answers how many words a sentence has; learns a factor."""

    kind = "counting"

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.task = task
        self.encoder = torch.nn.Identity()
        self.factor = torch.nn.Parameter(torch.zeros(()))

    @classmethod
    def from_examples(cls, task: Task, config: ModelConfig, examples: Any, *, sentences: Any = None) -> "CountingModel":
        return cls(task)

    @classmethod
    def from_config(cls, config: Any, folder: Path) -> "CountingModel":
        return cls(Task.from_dict(config["task"]))

    @property
    def config(self) -> dict[str, Any]:
        return {"task": self.task.to_dict()}

    def collate(self, examples: Any) -> torch.Tensor:
        return torch.tensor([float(num_words(one)) for one in examples])

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return self.factor * batch

    def loss_of(self, scores: torch.Tensor, batch: torch.Tensor) -> torch.Tensor:
        return (scores - batch).square().mean()

    def predict(self, examples: Any, *, batch_size: int = 64) -> list[Prediction]:
        counts = [str(round(self.factor.item() * num_words(one))) for one in examples]
        return [Prediction(one.id, count, None, {}) for one, count in zip(examples, counts, strict=True)]

    def measure(self, examples: Any, predictions: Any) -> Evaluation:
        return measure_texts(self.task, examples, predictions)


def test_a_new_kind_of_task_is_a_row_in_each_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for table, name, row in (
        (MODEL_KINDS, CountingModel.kind, CountingModel.from_config),
        (ANSWERS, "number", ModelKind(f"{__name__}:CountingModel")),
        (TASKS, "counting", Task("counting", answer="number")),
    ):
        monkeypatch.setattr(table, "_rows", {**table._rows, name: row})
    path = tmp_path / "train.tsv"
    path.write_text("".join(f"{'a ' * (1 + k % 3)}b\t{2 + k % 3}\n" for k in range(20)), encoding="utf-8")
    data = DataConfig(str(path), text_column=0, label_column=1, format="tsv", holdout=0.3, test=str(path))
    config = RunConfig("counting", "none", data, optimization=OptimizationConfig(learning_rate=0.3, epochs=9))
    result = run(dataclasses.replace(config, out=str(tmp_path / "run"), device="cpu"))
    assert result.test["accuracy"] == 1.0
    assert sa.load(tmp_path / "run").predict([sa.Example((Sentence(["a"] * 4),), id="x")])[0].label == "4"
    with pytest.raises(
        ConfigError, match=r"unknown answer 'song'; known: .*label, labels, number, tags, text, tree, words"
    ):
        model_class(Task("singing", answer="song"))


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
    model = make()
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


@pytest.mark.parametrize(("storage", "share"), [("float32", 1.0), ("float16", 0.5), ("int8", 0.25)])
def test_compact_storage_keeps_numbers_up_to_its_rounding(storage: Storage, share: float, tmp_path: Path) -> None:
    """Half of the last place: 2^-11 of a number in 16 bits (2^-25 of small ones), a 254th of a row's largest in 8."""
    torch.manual_seed(1)
    layer = torch.nn.Linear(1000, 50)
    tensors = {**layer.state_dict(), "counts": torch.arange(7)}
    save_tensors(tensors, tmp_path / "a.safetensors", storage)
    found = read_tensors(tmp_path / "a.safetensors")
    weight, bias = layer.weight.detach(), layer.bias.detach()
    last, smallest = (0.0, 0.0) if storage == "float32" else (2**-11, 2**-25)
    bound = weight.abs().amax(-1, keepdim=True) / 254 if storage == "int8" else weight.abs() * last + smallest
    assert ((found["weight"] - weight).abs() <= bound * 1.0001).all()
    assert ((found["bias"].float() - bias).abs() <= bias.abs() * last + smallest).all()
    assert (storage == "float32") == torch.equal(found["weight"], weight)
    assert torch.equal(found["counts"], tensors["counts"])
    assert (tmp_path / "a.safetensors").stat().st_size == pytest.approx(share * weight.numel() * 4, rel=0.02)


@pytest.mark.parametrize("storage", ["float16", "int8"])
def test_a_compact_model_folder_is_read_like_any_other(storage: Storage, tmp_path: Path) -> None:
    model = make()
    model.save_pretrained(tmp_path / "compact", storage=storage)
    read = sa.load(tmp_path / "compact")
    assert {parameter.dtype for parameter in read.parameters()} == {torch.float32}
    pairs = zip(read.predict(SENTENCES), model.predict(SENTENCES), strict=True)
    assert all(one.probabilities == pytest.approx(dict(other.probabilities), abs=0.02) for one, other in pairs)
    # Writing it again changes nothing more.
    read.save_pretrained(tmp_path / "again", storage=storage)
    twice = read_tensors(tmp_path / "again" / "model.safetensors")
    once = read_tensors(tmp_path / "compact" / "model.safetensors")
    assert all(torch.allclose(once[name].float(), twice[name].float(), atol=1e-6) for name in once)


@pytest.mark.parametrize("storage", ["float16", "int8"])
def test_numbers_too_large_for_16_bits_are_stored_in_32(storage: Storage, tmp_path: Path) -> None:
    tensors = {"large": torch.tensor([1e5, -3e38]), "small": torch.tensor([65504.0])}
    save_tensors(tensors, tmp_path / "a.safetensors", storage)
    found = read_tensors(tmp_path / "a.safetensors")
    assert torch.equal(found["large"], tensors["large"])
    assert found["small"].dtype == torch.float16
    model = make()
    with torch.no_grad():
        next(one for one in model.parameters() if one.dim() == 1)[0] = 1e5
        next(one for one in model.parameters() if one.dim() == 2)[0] = 1e5
    model.save_pretrained(tmp_path / "model", storage=storage)
    read = sa.load(tmp_path / "model").state_dict()
    assert all(torch.allclose(read[name], tensor, rtol=0.01, atol=0.01) for name, tensor in model.state_dict().items())


def test_compact_numbers_that_are_damaged_are_refused(tmp_path: Path) -> None:
    layer = torch.nn.Linear(3, 2)
    file = tmp_path / "a.safetensors"
    stored = pack(layer.state_dict(), "int8")
    for damaged in (
        {**stored, "weight:scale": torch.ones(3)},
        {**stored, "weight:scale": torch.ones(2, dtype=torch.int64)},
        {**stored, "weight": stored["weight"].short()},
    ):
        save_tensors(damaged, file)
        with pytest.raises(ParseError, match=r"a\.safetensors: expected a scale .* in tensor 'weight'"):
            load_tensors(layer, file)
    save_tensors({name: value for name, value in stored.items() if name != "weight:scale"}, file)
    with pytest.raises(ParseError, match=r"expected tensor 'weight' of type torch.float32, got torch.int8"):
        load_tensors(layer, file)
    # What diverged is stored as it is, and named by whoever reads it.
    save_tensors({**layer.state_dict(), "weight": torch.full((2, 3), torch.nan)}, file, "int8")
    with pytest.raises(ParseError, match="expected finite numbers in tensor 'weight'"):
        load_tensors(layer, file)


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
        ({"format_version": 99}, "has format version 99, this structattn .* reads version 2"),
        ({"encoder": "gpt"}, "config.json: unknown encoder 'gpt'"),
        ({"options": {"width": 3}}, "unknown option 'width'"),
        ({"kind": "parrot"}, "expected a model of kind encoder or sentence or .*, got 'parrot'"),
        ({"kind": ["sentence"]}, "expected a model of kind encoder or sentence or .*, got"),
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


@pytest.mark.parametrize(
    "changes", [{"options": None}, {"classifier": {"width": 3}}, {"task": {"size": 3}}, {"trees": {"seed": "x"}}]
)
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
        SentenceModel(encoder, SENTIMENT).save_pretrained(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_kind_is_checked(tmp_path: Path) -> None:
    vocabulary = sa.Vocabulary(["dogs"])
    model = sa.tasks.SentenceModel(
        sa.encoders.build("emb_s2t", vocab_size=len(vocabulary), dim=4), sa.tasks.SENTIMENT, vocabulary=vocabulary
    )
    model.save_pretrained(tmp_path / "model")
    assert isinstance(sa.load(tmp_path / "model", kind=sa.tasks.SentenceModel), sa.tasks.SentenceModel)
    with pytest.raises(ConfigError, match=r"expected a model of the class SentenceEncoder, .* a SentenceModel"):
        sa.load(tmp_path / "model", kind=sa.encoders.SentenceEncoder)
