"""Task models on decoders, in half precision, and on backbones that return tuples."""

import torch
from test_backbone_architectures import DECODERS, ENCODERS, TREES, model_of, tokenizer

import structattn as sa
from structattn.backbones import (
    BackboneEmbedding,
    HydraConfig,
    HydraModelForSequenceClassification,
    HydraModelForTokenClassification,
    PretrainedBackbone,
    add_heads,
)
from structattn.encoders import build


def test_the_text_of_a_decoder_is_its_last_real_token():
    hydra = add_heads(model_of(DECODERS["gpt2"]()), HydraConfig(num_heads=4))
    model = HydraModelForSequenceClassification(hydra, 3).eval()
    ids, mask = torch.tensor([[2, 3, 4], [5, 6, 0]]), torch.tensor([[1, 1, 1], [1, 1, 0]])
    states = hydra(ids, mask).last_hidden_state
    torch.testing.assert_close(model(ids, mask).logits, model.classifier(torch.stack([states[0, 2], states[1, 1]])))
    torch.testing.assert_close(model(ids[:1]).logits, model.classifier(states[:1, 2]))


def test_a_classifier_is_of_the_type_of_the_backbone_and_reads_names():
    base = model_of(ENCODERS["bert"]()).to(torch.bfloat16)
    base.config.return_dict = False
    for kind in (HydraModelForSequenceClassification, HydraModelForTokenClassification):
        assert kind(add_heads(base, HydraConfig(num_heads=4)), 3)(torch.tensor([[2, 3]])).logits.dtype == torch.bfloat16


def test_injected_reads_names():
    base = model_of(ENCODERS["bert"]())
    base.config.return_dict = False
    enc = build("injected", embedder=BackboneEmbedding(PretrainedBackbone(base, tokenizer())), heads=["word"])
    assert enc(sa.collate(TREES, sa.Vocabulary([]))).vector.shape == (3, 16)
