"""LoRA of the package peft, where it is installed, in decoders with priors: the two do not know each other."""

from pathlib import Path

import pytest
import torch

from backbones import decoder_tokenizer, tiny_decoder
from structattn.backbones import inject, load_injection

pytestmark = pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")
peft = pytest.importorskip("peft")
TEXTS = ["the dog near trees barks", "two kids wash"]
NAMES = ["forward/word", "word", "none", "forward"]
TARGETS = {"gpt2": ["c_attn"], "llama": ["q_proj", "v_proj"], "qwen3": ["q_proj", "v_proj"]}


def read(injected):
    with torch.no_grad():
        return injected(TEXTS).logits


@pytest.mark.parametrize("kind", TARGETS)
def test_lora_and_priors_are_trained_saved_and_merged(kind, tmp_path: Path):
    injected = inject(tiny_decoder(kind), NAMES, tokenizer=decoder_tokenizer())
    before = read(injected)
    options = {"target_modules": TARGETS[kind], "fan_in_fan_out": kind == "gpt2", "task_type": "CAUSAL_LM"}
    config = peft.LoraConfig(r=4, lora_alpha=8, **options)
    adapted = peft.get_peft_model(injected.model, config)
    assert torch.equal(read(injected), before), "an adapter starts at zero"
    subwords = injected.tokenize(TEXTS)
    labels = subwords.ids.masked_fill(~subwords.mask, -100)
    trained = [parameter for parameter in adapted.parameters() if parameter.requires_grad]
    optimizer = torch.optim.Adam(trained, lr=0.01)
    for _ in range(3):
        optimizer.zero_grad()
        injected(subwords, labels=labels).loss.backward()
        optimizer.step()
    learnt = [name for name, parameter in injected.named_parameters() if parameter.grad is not None]
    assert learnt
    assert all("lora_" in name for name in learnt)
    after = read(injected)
    assert (after - before).abs().max() > 0.01
    adapted.save_pretrained(tmp_path / "lora")
    injected.save_pretrained(tmp_path / "priors")
    again = load_injection(tiny_decoder(kind), tmp_path / "priors", tokenizer=decoder_tokenizer())
    peft.PeftModel.from_pretrained(again.model, tmp_path / "lora").eval()
    assert torch.equal(read(again), after)
    adapted.merge_and_unload()
    torch.testing.assert_close(read(injected), after, atol=5e-5, rtol=0)
