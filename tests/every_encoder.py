"""A small model of every encoder in the table, with a batch for it."""

import itertools
from pathlib import Path
from typing import Any

import torch

import structattn as sa
from backbones import minilm_tokenizer, tiny
from structattn.data.generated import agreement_treebank
from structattn.encoders import build
from structattn.encoders.table import needs_backbone
from structattn.pretrained import HydraConfig, add_heads
from structattn.tasks import SentenceModel, Task, TaskBatch

SENTENCES = [example.sentences[0] for example in itertools.islice(agreement_treebank(seed=1), 6)]
VOCABULARY = sa.Vocabulary.from_examples([sa.Example((one,)) for one in SENTENCES])


def write_backbones(folder: Path) -> Path:
    """The folder, with what ``model_of`` reads."""
    tiny("bert").save_pretrained(folder / "backbone")
    minilm_tokenizer().save_pretrained(folder / "backbone")
    add_heads(tiny("bert"), HydraConfig(num_heads=4)).save_pretrained(folder / "adapter")
    return folder


def model_of(name: str, folder: Path) -> tuple[SentenceModel, TaskBatch]:
    """A fresh model of single sentences, or of pairs where the encoder reads these."""
    combine = "together" if name == "decomposable" else "single"
    task = Task("t", arity=2 if combine == "together" else 1, combine=combine, labels=("no", "yes"))
    known = {"hydra": {"adapter": str(folder / "adapter")}, "injected": {"heads": ["forward/dependency", "none"]}}
    options: dict[str, Any] = dict(known.get(name, {}))
    if needs_backbone(name):
        options["embedder"] = {"folder": str(folder / "backbone")}
    else:
        options |= {"vocab_size": len(VOCABULARY), "dim": 24}
    torch.manual_seed(0)
    model = SentenceModel(build(name, **options), task, vocabulary=VOCABULARY)
    pairs = zip(SENTENCES, SENTENCES[::-1], itertools.cycle(["yes", "no"]), strict=False)
    return model, model.collate([sa.Example((one, other)[: task.arity], label=label) for one, other, label in pairs])
