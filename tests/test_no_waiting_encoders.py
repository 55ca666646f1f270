"""On an accelerator no encoder waits for the device or makes a tensor elsewhere, in training or evaluation."""

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_leaves

import structattn as sa
from backbones import minilm_tokenizer, tiny
from structattn.data.generated import agreement_treebank
from structattn.encoders import build
from structattn.encoders.table import BUILDERS, needs_backbone
from structattn.pretrained import HydraConfig, add_heads
from structattn.tasks import SentenceModel, Task
from triton_launches import WAITING, Called

SENTENCES = [example.sentences[0] for example in itertools.islice(agreement_treebank(seed=1), 6)]
VOCABULARY = sa.Vocabulary.from_examples([sa.Example((one,)) for one in SENTENCES])


class Made(Called):
    """The operators of torch that are called, and the devices of what they give."""

    def __init__(self) -> None:
        super().__init__()
        self.devices: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = super().__torch_dispatch__(func, types, args, kwargs)
        self.devices |= {one.device.type for one in tree_leaves(found) if isinstance(one, torch.Tensor)}
        return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("backbones")
    tiny("bert").save_pretrained(found / "backbone")
    minilm_tokenizer().save_pretrained(found / "backbone")
    add_heads(tiny("bert"), HydraConfig(num_heads=4)).save_pretrained(found / "adapter")
    return found


@pytest.mark.parametrize("training", [False, True], ids=["evaluation", "training"])
@pytest.mark.parametrize("name", BUILDERS)
def test_no_encoder_waits_for_the_device(name: str, training: bool, folder: Path) -> None:
    combine = "together" if name == "decomposable" else "product_absolute"
    task = Task("t", arity=2, combine=combine, labels=("no", "yes"))
    known = {"hydra": {"adapter": str(folder / "adapter")}, "injected": {"heads": ["forward/dependency", "none"]}}
    options: dict[str, Any] = dict(known.get(name, {}))
    if needs_backbone(name):
        options["embedder"] = {"folder": str(folder / "backbone")}
    else:
        options |= {"vocab_size": len(VOCABULARY), "dim": 24}
    torch.manual_seed(0)
    model = SentenceModel(build(name, **options), task, vocabulary=VOCABULARY).train(training)
    batch = model.collate([sa.Example(pair, label="yes") for pair in zip(SENTENCES, SENTENCES[::-1], strict=True)])
    batch = batch.to("meta")
    model.to("meta")
    with Made() as made, torch.set_grad_enabled(training):
        loss = model.loss(batch)
        if training:
            loss.backward()
    assert not WAITING & set(made.names)
    assert made.devices == {"meta"}
