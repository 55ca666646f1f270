"""Models of the library behind transformers: its Trainer, wrappers and Auto classes, on folders whole and damaged."""

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    AutoModel,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    Trainer,
    TrainingArguments,
    pipeline,
)

import structattn as sa
from structattn.errors import ConfigError, StructAttnError
from structattn.training.hugging_face import StructAttnConfig, StructAttnForSequenceClassification

IDS = torch.tensor([[2, 3], [4, 0]])
LABELS = torch.tensor([0, 1])


def small() -> StructAttnForSequenceClassification:
    torch.manual_seed(0)
    model = StructAttnForSequenceClassification(StructAttnConfig("emb_s2t", {"dim": 4}, vocab_size=6)).eval()
    model.model.vocabulary = sa.Vocabulary(["kids", "wash", "dogs", "bark"])
    return model


def test_a_trainer_trains_evaluates_and_predicts_by_its_standard_call(tmp_path: Path) -> None:
    rows = [
        {"input_ids": ids, "attention_mask": (ids != 0).long(), "labels": label}
        for ids, label in zip(IDS, LABELS, strict=True)
    ]
    arguments = TrainingArguments(
        tmp_path, max_steps=30, learning_rate=0.1, report_to=[], use_cpu=True, disable_tqdm=True
    )
    accuracies = []

    def compute(answers: Any) -> dict[str, float]:
        accuracies.append(float((answers.predictions.argmax(-1) == answers.label_ids).mean()))
        return {"accuracy": accuracies[-1]}

    trainer = Trainer(small(), arguments, train_dataset=rows, eval_dataset=rows, compute_metrics=compute)
    before = trainer.evaluate()["eval_loss"]
    trainer.train()
    after = trainer.evaluate()
    assert after["eval_loss"] < before
    assert after["eval_accuracy"] == accuracies[-1] == 1.0
    assert trainer.predict(rows).predictions.shape == (2, 2)


def test_arguments_of_wrappers_that_say_nothing_are_ignored_and_others_refused() -> None:
    """PEFT passes every argument of a BERT, as ``None``."""
    model = small()
    logits = model(input_ids=IDS).logits
    nothing = {"inputs_embeds": None, "token_type_ids": None, "output_attentions": False, "output_hidden_states": None}
    assert torch.equal(model(input_ids=IDS, **nothing, return_dict=True).logits, logits)
    loss, same = model(input_ids=IDS, labels=LABELS, return_dict=False)
    assert torch.equal(same, logits)
    assert loss == model(input_ids=IDS, labels=LABELS).loss
    for name, value in {"inputs_embeds": IDS, "output_attentions": True, "output_hidden_states": True}.items():
        with pytest.raises(ConfigError, match=f"unknown argument '{name}'; known: input_ids"):
            model(input_ids=IDS, **{name: value})


BYTES: Mapping[str, Callable[[bytes], bytes]] = {
    "nothing": lambda content: b"",
    "half": lambda content: content[: len(content) // 2],
    "noise": lambda content: bytes(range(250, 256)) * 20,
    "no start": lambda content: content[3:],
    "another name": lambda content: content.replace(b"bias", b"biaz", 1).replace(b"kids", b"wash"),
}
VALUES = [
    ("labels", [["a"]]),
    ("labels", "0"),
    ("options", [1]),
    ("embedder", {"name": 1}),
    ("vocab_size", None),
    ("vocab_size", 7),
    ("task", {}),
    ("trees", {"seed": [1]}),
    ("format_version", 1e308),
    ("kind", None),
    ("classifier", 3),
]


@pytest.mark.parametrize("damage", BYTES)
@pytest.mark.parametrize("file", ["model.safetensors", "vocabulary.json"])
def test_an_auto_class_names_the_damaged_file(file: str, damage: str, tmp_path: Path) -> None:
    small().save_pretrained(tmp_path)
    content = (tmp_path / file).read_bytes()
    (tmp_path / file).write_bytes(BYTES[damage](content))
    assert (tmp_path / file).read_bytes() != content
    with pytest.raises(StructAttnError, match=file):
        AutoModelForSequenceClassification.from_pretrained(tmp_path)
    (tmp_path / file).unlink()
    with pytest.raises(StructAttnError, match=file):
        AutoModelForSequenceClassification.from_pretrained(tmp_path)


@pytest.mark.parametrize(("key", "value"), VALUES)
def test_an_auto_class_names_the_configuration_that_is_none(key: str, value: object, tmp_path: Path) -> None:
    model = small()
    model.save_pretrained(tmp_path)
    again, report = AutoModelForSequenceClassification.from_pretrained(tmp_path, output_loading_info=True)
    assert torch.equal(again(input_ids=IDS).logits, model(input_ids=IDS).logits)
    assert not report["missing_keys"]
    file = tmp_path / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text(encoding="utf-8")), key: value}), encoding="utf-8")
    with pytest.raises(StructAttnError, match=r"config\.json|model\.safetensors|vocabulary\.json"):
        AutoModelForSequenceClassification.from_pretrained(tmp_path)


SETTINGS = (
    *("attn_implementation", "_attn_implementation", "experts_implementation", "transformers_weights", "dtype"),
    *("torch_dtype", "quantization_config", "num_labels", "id2label", "label2id"),
)


@pytest.mark.parametrize("key", SETTINGS)
def test_settings_of_transformers_in_a_folder_are_not_read(key: str, tmp_path: Path) -> None:
    model = small()
    model.save_pretrained(tmp_path)
    file = tmp_path / "config.json"
    content = json.loads(file.read_text(encoding="utf-8"))
    for value in (3, True, 10**12, "x", "user/kernel", [3], {"x": 1}):  # 10**12 labels would fill the memory
        file.write_text(json.dumps({**content, key: value}), encoding="utf-8")
        again = AutoModelForSequenceClassification.from_pretrained(tmp_path)
        assert torch.equal(again(input_ids=IDS).logits, model(input_ids=IDS).logits)
        assert again.config.num_labels == 2


@pytest.mark.parametrize("change", ["{", "3", "\xe9", {"model_type": 3}, {"model_type": "x"}, {"auto_map": 3}])
def test_what_transformers_refuses_first_reaches_no_code_of_ours(change: str | dict[str, Any], tmp_path: Path) -> None:
    small().save_pretrained(tmp_path)
    file = tmp_path / "config.json"
    is_text = isinstance(change, str)
    text = change if is_text else json.dumps({**json.loads(file.read_text(encoding="utf-8")), **change})
    file.write_text(text, encoding="latin-1")
    with pytest.raises((OSError, ValueError, TypeError)) as caught:
        AutoModelForSequenceClassification.from_pretrained(tmp_path)
    files = [str(frame.path) for frame in caught.traceback[1:]]
    assert not any(Path(sa.__file__).parent in Path(name).parents for name in files)
    if "auto_map" not in change:
        with pytest.raises(StructAttnError, match=r"config\.json"):
            sa.load(tmp_path)


def test_auto_classes_load_a_model_and_a_pipeline_names_the_call_that_answers_texts(tmp_path: Path) -> None:
    encoder = sa.encoders.build("emb_s2t", vocab_size=4, dim=4)
    vocabulary = sa.Vocabulary(["dull", "fine"])
    model = sa.tasks.SentenceModel(encoder, sa.tasks.SENTIMENT, vocabulary=vocabulary)
    model.save_pretrained(tmp_path / "model")
    loaded = AutoModel.from_pretrained(tmp_path / "model")
    assert loaded.predict(["fine"]) == model.predict(["fine"])
    for door in (AutoTokenizer.from_pretrained, partial(pipeline, "text-classification")):
        with pytest.raises(ConfigError, match=r"sa\.load\('.*model'\)\.predict\(\[\.\.\.\]\) answers texts"):
            door(str(tmp_path / "model"))
