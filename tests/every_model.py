"""Small models with a batch for each: every encoder in the table, every decoder, latent trees that are given."""

import itertools
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch

import structattn as sa
from backbones import save_tiny, tiny
from structattn.backbones import HydraConfig, add_heads
from structattn.data.generated import agreement_treebank
from structattn.data.text_vocabulary import TextVocabulary
from structattn.encoders import build
from structattn.encoders.encoder_table import BUILDERS, needs_backbone
from structattn.tasks import (
    AttachmentModel,
    ClassifierConfig,
    SentenceModel,
    SequenceModel,
    TaggingModel,
    Task,
    TaskModel,
    TextProcessor,
    build_decoder,
    get_task,
)
from structattn.tasks.lstm_decoder import ATTENTIONS

SENTENCES = [example.sentences[0] for example in itertools.islice(agreement_treebank(seed=1), 6)]
VOCABULARY = sa.Vocabulary.from_examples([sa.Example((one,)) for one in SENTENCES])


def write_backbones(folder: Path) -> Path:
    """The folder, with what models on a backbone read."""
    save_tiny(folder / "backbone")
    add_heads(tiny("bert"), HydraConfig(num_heads=4)).save_pretrained(folder / "adapter")
    return folder


def encoder_of(name: str, folder: Path) -> sa.encoders.SentenceEncoder:
    """An encoder of the table, on the small backbone where it needs one."""
    if not needs_backbone(name):
        return build(name, vocab_size=len(VOCABULARY), dim=24)
    known = {"hydra": {"adapter": str(folder / "adapter")}, "injected": {"heads": ["forward/dependency", "none"]}}
    return build(name, embedder={"folder": str(folder / "backbone")}, **known.get(name, {}))


def classifier(name: str, folder: Path) -> tuple[TaskModel, Any]:
    """Single sentences, or pairs where the encoder reads these."""
    combine = "together" if name == "decomposable" else "single"
    task = Task("t", arity=2 if combine == "together" else 1, combine=combine, labels=("no", "yes"))
    model = SentenceModel(encoder_of(name, folder), task, vocabulary=VOCABULARY)
    pairs = zip(SENTENCES, SENTENCES[::-1], itertools.cycle(["yes", "no"]), strict=False)
    return model, model.collate([sa.Example((one, other)[: task.arity], label=label) for one, other, label in pairs])


def translator(encoder: str, decoder: str, folder: Path, **options: Any) -> tuple[TaskModel, Any]:
    """From a sentence to its words in the opposite order."""
    examples = [sa.Example((one,), " ".join(one.words[::-1])) for one in SENTENCES]
    texts = TextProcessor(VOCABULARY, TextVocabulary.from_texts([str(one.label) for one in examples]))
    reader = encoder_of(encoder, folder)
    writer = build_decoder(decoder, reader, len(texts.target), **options)
    model = SequenceModel(reader, writer, get_task("translation"), texts=texts, label_smoothing=0.1)
    return model, model.collate(examples)


def attachment(attention: str, embedder: str, folder: Path) -> tuple[TaskModel, Any]:
    """Latent trees that are given, above vectors of words or the states of the small backbone."""
    options: dict[str, Any] = {"vocab_size": len(VOCABULARY)}
    if embedder == "backbone":
        options = {"embedder": {"name": "backbone", "folder": str(folder / "backbone")}}
    encoder = build("structured", attention=attention, dim=24, **options)
    model = AttachmentModel(encoder, get_task("attachment"), vocabulary=VOCABULARY)
    return model, model.collate([sa.Example((one,)) for one in SENTENCES])


def tagger(tags: str, encoder: str, folder: Path) -> tuple[TaskModel, Any]:
    """Spans of two words each, alone or as a chain."""
    examples = [sa.Example((one,), " ".join((["B-a", "I-a"] * len(one))[: len(one)])) for one in SENTENCES]
    config = ClassifierConfig(tags=tags)  # type: ignore[arg-type]
    labels = ["B-a", "I-a", "O"]
    reader = encoder_of(encoder, folder)
    model = TaggingModel(reader, get_task("span_tagging"), labels, vocabulary=VOCABULARY, classifier=config)
    return model, model.collate(examples)


MODELS: Mapping[str, Callable[[Path], tuple[TaskModel, Any]]] = {
    **{name: partial(classifier, name) for name in BUILDERS},
    **{
        f"lstm decoder, {attention}": partial(translator, "lstm", "lstm", attention=attention)
        for attention in ATTENTIONS
    },
    **{
        f"transformer decoder, {encoder}": partial(translator, encoder, "transformer")
        for encoder in ("transformer", "tree_transformer", "backbone")
    },
    **{f"tags, {tags}": partial(tagger, tags, "transformer") for tags in ("chain", "independent")},
    **{f"tags, {encoder}": partial(tagger, "chain", encoder) for encoder in filter(needs_backbone, BUILDERS)},
    **{f"attachment, {kind}": partial(attachment, kind, "words") for kind in ("projective", "nonprojective")},
    "attachment, backbone": partial(attachment, "projective", "backbone"),
}


def model_of(name: str, folder: Path) -> tuple[TaskModel, Any]:
    """A fresh model, the same at every call, and a batch for it."""
    torch.manual_seed(0)
    return MODELS[name](folder)
