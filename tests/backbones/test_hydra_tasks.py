"""HYDRA under the last layer of a task: losses by hand, folders, checkpoints of a trainer."""

import json

import pytest
import torch
import torch.nn.functional as F

from backbones import opened, tiny
from structattn.backbones import (
    HydraConfig,
    HydraModelForQuestionAnswering,
    HydraModelForSequenceClassification,
    HydraModelForTokenClassification,
    add_heads,
)
from structattn.data.tensors import save_tensors
from structattn.errors import ConfigError, ParseError

IDS = torch.tensor([[101, 2048, 4268, 9378, 102], [101, 4268, 102, 0, 0]])
MASK = (IDS != 0).long()


def hydra():
    torch.manual_seed(0)
    return opened(add_heads(tiny("bert"), HydraConfig(num_heads=4, gate_init=0.5)))


def test_labels_and_scores():
    model = HydraModelForSequenceClassification(hydra(), 3).eval()
    found = model(IDS, MASK, labels=torch.tensor([2, 0]))
    states = model.hydra(IDS, MASK).last_hidden_state
    torch.testing.assert_close(found.logits, model.classifier(states[:, 0]))
    torch.testing.assert_close(found.loss, F.cross_entropy(found.logits, torch.tensor([2, 0])))
    score = HydraModelForSequenceClassification(hydra(), 1).eval()
    found = score(IDS, MASK, labels=torch.tensor([2.5, 0.0]))
    torch.testing.assert_close(found.loss, (found.logits[:, 0] - torch.tensor([2.5, 0.0])).square().mean())
    with pytest.raises(ConfigError, match="num_labels: expected at least 1, got 0"):
        HydraModelForSequenceClassification(hydra(), 0)


def test_scores_may_stand_in_a_column():
    model = HydraModelForSequenceClassification(hydra(), 1).eval()
    labels = torch.tensor([2.5, 0.0])
    flat, column = (model(IDS, MASK, labels=given).loss for given in (labels, labels[:, None]))
    assert torch.equal(flat, column)
    for wrong in (torch.ones(2, 2), torch.ones(3), torch.ones(())):
        with pytest.raises(ValueError, match=r"labels: expected one score for each of 2 texts, got shape \("):
            model(IDS, MASK, labels=wrong)
    classes = HydraModelForSequenceClassification(hydra(), 3).eval()
    flat, column = (classes(IDS, MASK, labels=torch.tensor(given)).loss for given in ([2, 0], [[2], [0]]))
    assert torch.equal(flat, column)
    shares = classes(IDS, MASK, labels=F.one_hot(torch.tensor([2, 0]), 3).float()).loss
    torch.testing.assert_close(shares, flat)


def test_labels_of_tokens():
    model = HydraModelForTokenClassification(hydra(), 4).eval()
    labels = torch.tensor([[-100, 1, 2, 3, -100], [-100, 0, -100, -100, -100]])
    found = model(IDS, MASK, labels=labels)
    counted = labels != -100
    torch.testing.assert_close(found.loss, F.cross_entropy(found.logits[counted], labels[counted]))
    assert model(IDS, MASK, labels=torch.full_like(labels, -100)).loss == 0


def test_ends_of_answers_are_never_padding():
    model = HydraModelForQuestionAnswering(hydra()).eval()
    found = model(IDS, MASK, start_positions=torch.tensor([1, 0]), end_positions=torch.tensor([2, 0]))
    assert found.start_logits.argmax(-1)[1] < 3
    assert found.end_logits.softmax(-1)[1, 3:].sum() == 0
    expected = F.cross_entropy(found.start_logits, torch.tensor([1, 0]))
    expected = (expected + F.cross_entropy(found.end_logits, torch.tensor([2, 0]))) / 2
    torch.testing.assert_close(found.loss, expected)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (HydraModelForSequenceClassification, (2,)),
        (HydraModelForTokenClassification, (5,)),
        (HydraModelForQuestionAnswering, ()),
    ],
)
def test_save_and_load(kind, options, tmp_path):
    model = kind(hydra(), *options).eval()
    with torch.no_grad():
        model.hydra.base.embeddings.word_embeddings.weight.add_(0.1)
    model.save_pretrained(tmp_path / "model")
    again, before = (found(IDS, MASK) for found in (kind.from_pretrained(tmp_path / "model"), model))
    for one, other in zip(again.to_tuple(), before.to_tuple(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)
    other = next(k for k in (HydraModelForSequenceClassification, HydraModelForTokenClassification) if k is not kind)
    with pytest.raises(ConfigError, match=f"expected a model of kind {other.kind}, got '{kind.kind}'"):
        other.from_pretrained(tmp_path / "model")


@pytest.mark.parametrize("kind", [HydraModelForSequenceClassification, HydraModelForTokenClassification])
def test_dropout_is_remembered(kind, tmp_path):
    kind(hydra(), 2, dropout=0.5).save_pretrained(tmp_path / "model")
    assert kind.from_pretrained(tmp_path / "model").dropout.p == 0.5
    file = tmp_path / "model" / "config.json"
    config = json.loads(file.read_text(encoding="utf-8"))
    del config["dropout"]
    file.write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(ParseError, match=r"config\.json: expected the key 'dropout', it is missing"):
        kind.from_pretrained(tmp_path / "model")


@pytest.mark.parametrize("options", [{"num_heads": 4}, {"num_heads": 2, "layer_style": "transformer"}])
def test_a_checkpoint_of_a_trainer_is_a_model(options, tmp_path):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    model = HydraModelForSequenceClassification(opened(add_heads(tiny("bert"), HydraConfig(**options))), 3)
    rows = [{"input_ids": ids, "attention_mask": mask, "labels": 1} for ids, mask in zip(IDS, MASK, strict=True)]
    arguments = transformers.TrainingArguments(
        tmp_path, max_steps=2, save_steps=1, report_to=[], disable_tqdm=True, use_cpu=True
    )
    transformers.Trainer(model, arguments, train_dataset=rows).train()
    again = HydraModelForSequenceClassification.from_pretrained(tmp_path / "checkpoint-2")
    assert not again.training
    assert torch.equal(again(IDS, MASK).logits, model.eval()(IDS, MASK).logits)
    before = HydraModelForSequenceClassification.from_pretrained(tmp_path / "checkpoint-1")
    assert not torch.equal(before(IDS, MASK).logits, again(IDS, MASK).logits)
    transformers.Trainer(model, arguments, train_dataset=rows).train(tmp_path / "checkpoint-1")
    torch.testing.assert_close(model.eval()(IDS, MASK).logits, again(IDS, MASK).logits)
    with pytest.raises(
        ConfigError, match=r"checkpoint-2/model\.safetensors: expected a model of kind hydra_token_class"
    ):
        HydraModelForTokenClassification.from_pretrained(tmp_path / "checkpoint-2")


def test_parameters_alone_that_do_not_describe_themselves(tmp_path):
    file = tmp_path / "model.safetensors"
    save_tensors({"classifier.weight": torch.zeros(2)}, file)
    message = r"model\.safetensors: expected a model of structattn, with a tensor 'description'"
    with pytest.raises(ParseError, match=message):
        HydraModelForSequenceClassification.from_pretrained(tmp_path)
    for content in (b"[1]", b"{", b'{"kind": 1}', b"\xff"):
        save_tensors({"description": torch.tensor(list(content), dtype=torch.uint8)}, file)
        with pytest.raises(ParseError, match="expected a description of the model in tensor 'description'"):
            HydraModelForSequenceClassification.from_pretrained(tmp_path)
    with pytest.raises(ParseError, match=r"config\.json"):
        HydraModelForSequenceClassification.from_pretrained(tmp_path / "nowhere")
