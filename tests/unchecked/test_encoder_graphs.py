"""Every encoder in a graph: compiled, exported, on the meta device, and without a look at any number."""

import itertools
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._dynamo.testing
import transformers
from torch import Tensor

import structattn as sa
from backbones import MINILM
from refusing import refuse_numbers
from structattn.backbones import HydraConfig, add_heads
from structattn.data import SentenceBatch
from structattn.data.generated import agreement_treebank
from structattn.encoders import SentenceEncoder
from structattn.encoders.build import build
from structattn.encoders.encoder_table import BUILDERS, encoder_options, needs_backbone

SENTENCES = [example.sentences[0] for example in itertools.islice(agreement_treebank(seed=3), 12)]
VOCABULARY = sa.Vocabulary.from_examples([sa.Example((sentence,)) for sentence in SENTENCES])
BATCHES = [SENTENCES[:4], SENTENCES[3:6], SENTENCES[5:11], SENTENCES[7:12]]
OWN = sorted(name for name in BUILDERS if not needs_backbone(name))
ON_A_BACKBONE = ["ms_san over a backbone", *sorted(set(BUILDERS) - set(OWN))]
NAMES = [*OWN, *ON_A_BACKBONE]
every_encoder = pytest.mark.parametrize("name", NAMES)
# One of each kind, beside the layers that test_attention_graphs traces; the others take up to ten seconds.
COMPILED_SOON = {"lstm", "ms_san"}
BROKEN_SOON = {"disan"}
EXPORTED_SOON = {"lstm"}


def unless_slow(soon: set[str]) -> pytest.MarkDecorator:
    """Every encoder; the others than these only with ``--slow``."""
    return pytest.mark.parametrize(
        "name", [name if name in soon else pytest.param(name, marks=pytest.mark.slow) for name in NAMES]
    )


@pytest.fixture(scope="module")
def backbone() -> Any:
    """A folder with a small backbone, and below it an adapter with heads."""
    with tempfile.TemporaryDirectory() as folder:
        transformers.AutoTokenizer.from_pretrained(MINILM).save_pretrained(folder)
        config = transformers.BertConfig(
            vocab_size=30522,
            hidden_size=24,
            num_hidden_layers=2,
            num_attention_heads=6,
            intermediate_size=32,
            max_position_embeddings=64,
        )
        torch.manual_seed(0)
        transformers.BertModel(config).save_pretrained(folder)
        model = transformers.AutoModel.from_pretrained(folder)
        add_heads(model, HydraConfig(num_heads=2)).save_pretrained(Path(folder) / "adapter")
        yield Path(folder)


def tiny(name: str, backbone: Path) -> SentenceEncoder:
    """A small encoder without dropout."""
    builder = name.partition(" over ")[0]
    known = encoder_options(builder)
    options: dict[str, Any] = {"dropout": 0.0}
    if name in ON_A_BACKBONE:
        options["embedder"] = {"name": "backbone", "folder": str(backbone)}
    else:
        options["dim"] = 12
    if "num_heads" in known and "dim" in options:
        options["num_heads"] = 2
    if "adapter" in known:
        options["adapter"] = str(backbone / "adapter")
    torch.manual_seed(0)
    encoder = build(builder, vocab_size=len(VOCABULARY), **options)
    for module in encoder.modules():
        for share in ("p", "dropout", "attention_dropout", "dropout_prob"):
            if isinstance(getattr(module, share, None), float):
                setattr(module, share, 0.0)
    return encoder


def inputs(name: str, sentences: Sequence[sa.Sentence], encoder: SentenceEncoder) -> tuple[SentenceBatch, ...]:
    """What the encoder reads: one batch, or for an encoder of pairs two."""
    texts = (sentences, sentences[::-1]) if name == "decomposable" else (sentences,)
    return encoder.prepare(*(sa.collate(list(text), VOCABULARY) for text in texts))


def answer_and_gradients(function: Callable[..., Any], encoder: SentenceEncoder, batch: Any) -> list[Tensor]:
    encoder.zero_grad()
    vector = function(*batch).vector
    (vector * torch.linspace(-1, 1, vector.shape[-1])).sum().backward()
    found = [parameter.grad for parameter in encoder.parameters() if parameter.grad is not None]
    return [vector.detach(), *(gradient.clone() for gradient in found)]


@unless_slow(COMPILED_SOON)
def test_one_graph_has_the_same_answers_and_gradients_at_every_length(name: str, backbone: Path) -> None:
    encoder = tiny(name, backbone)
    counter = torch._dynamo.testing.CompileCounterWithBackend("eager")
    torch._dynamo.reset()
    compiled = torch.compile(encoder, fullgraph=True, dynamic=True, backend=counter)
    for sentences in BATCHES:
        batch = inputs(name, sentences, encoder)
        expected = answer_and_gradients(encoder, encoder, batch)
        torch.testing.assert_close(answer_and_gradients(compiled, encoder, batch), expected, atol=2e-6, rtol=1e-4)
    assert counter.frame_count == 1


@pytest.mark.filterwarnings("ignore")  # of where a graph broke off
@unless_slow(BROKEN_SOON)
def test_graphs_that_break_off_have_the_same_answers_and_gradients(name: str, backbone: Path) -> None:
    """A plain ``torch.compile``, which goes on without a graph where it cannot make one."""
    encoder = tiny(name, backbone)
    torch._dynamo.reset()
    batch = inputs(name, BATCHES[0], encoder)
    expected = answer_and_gradients(encoder, encoder, batch)
    compiled = torch.compile(encoder, backend="aot_eager")
    torch.testing.assert_close(answer_and_gradients(compiled, encoder, batch), expected, atol=2e-6, rtol=1e-4)


@unless_slow(EXPORTED_SOON)
def test_a_program_that_is_exported_gives_the_same_answers(name: str, backbone: Path, tmp_path: Path) -> None:
    encoder = tiny(name, backbone).eval()
    first, *others = (inputs(name, sentences, encoder) for sentences in BATCHES)
    shapes = [[dict.fromkeys(range(own.dim()), torch.export.Dim.AUTO) for own in leaves(part)] for part in first]
    with torch.no_grad():
        program = torch.export.export(encoder, first, dynamic_shapes=_as_arguments(shapes))
        program.example_inputs = None  # a program is saved with what it was made from, which only pickle could write
        torch.export.save(program, tmp_path / "encoder.pt2")
        loaded = torch.export.load(tmp_path / "encoder.pt2").module()
        for batch in (first, *others):
            torch.testing.assert_close(loaded(*batch).vector, encoder(*batch).vector, atol=2e-6, rtol=1e-4)


def leaves(batch: SentenceBatch) -> list[Tensor]:
    return torch.utils._pytree.tree_leaves(batch)


def _as_arguments(shapes: list[Any]) -> tuple[Any, ...]:
    return (shapes[0], tuple(shapes[1:])) if len(shapes) > 1 else (shapes[0],)


@every_encoder
def test_on_the_meta_device_there_are_shapes_and_gradients(name: str, backbone: Path) -> None:
    encoder = tiny(name, backbone)
    batch = inputs(name, BATCHES[0], encoder)
    expected = encoder(*batch)
    encoder.to("meta")
    found = encoder(*(part.to("meta") for part in batch))
    for own, other in ((found.vector, expected.vector), (found.states, expected.states)):
        assert own.is_meta
        assert (own.shape, own.dtype) == (other.shape, other.dtype)
    found.vector.sum().backward()


@every_encoder
def test_nothing_waits_for_an_accelerator(name: str, backbone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = tiny(name, backbone).eval()
    batch = inputs(name, BATCHES[0], encoder)
    expected = encoder(*batch).vector

    fresh = inputs(name, BATCHES[0], encoder)
    refuse_numbers(monkeypatch)
    found = encoder(*fresh).vector
    monkeypatch.undo()
    torch.testing.assert_close(found, expected)
