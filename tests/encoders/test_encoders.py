"""Laws that every sentence encoder inherits; a new encoder joins through the table of builders."""

import itertools
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import safetensors.torch
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import structattn as sa
from structattn.data.generated import agreement_treebank
from structattn.encoders.build import build
from structattn.encoders.encoder_table import BUILDERS, encoder_options, needs_backbone
from structattn.errors import ConfigError
from structattn.testing import ENCODER_LAWS

SENTENCES = [example.sentences[0] for example in itertools.islice(agreement_treebank(seed=3), 7)]
VOCABULARY = sa.Vocabulary.from_examples([sa.Example((sentence,)) for sentence in SENTENCES])
# Those on a pretrained backbone and those that read pairs have tests of their own.
NAMES = sorted(name for name in BUILDERS if not needs_backbone(name) and name != "decomposable")


def tiny(name: str, size: int = len(VOCABULARY)) -> sa.encoders.SentenceEncoder:
    """A small encoder without dropout; every builder has ``dim`` and ``dropout``."""
    torch.manual_seed(0)
    known = encoder_options(name)
    options = {"dim": 12, "dropout": 0.0}
    if "num_heads" in known:
        options["num_heads"] = 2
    return build(name, vocab_size=size, **options)


def encode(encoder: sa.encoders.SentenceEncoder, sentences: list[sa.Sentence]) -> sa.encoders.Encoding:
    return encoder(sa.collate(sentences, VOCABULARY))


@pytest.mark.parametrize("law", ENCODER_LAWS.values(), ids=ENCODER_LAWS)
@pytest.mark.parametrize("name", NAMES)
def test_laws(name: str, law: Callable[..., None]) -> None:
    law(lambda size: tiny(name, size), SENTENCES)


@pytest.mark.parametrize("name", NAMES)
def test_save_and_load(name: str, tmp_path: Path) -> None:
    encoder = tiny(name)
    safetensors.torch.save_model(encoder, str(tmp_path / "encoder.safetensors"))
    torch.manual_seed(1)
    other = build(
        name,
        vocab_size=len(VOCABULARY),
        dim=12,
        dropout=0.0,
        **({"num_heads": 2} if "num_heads" in encoder_options(name) else {}),
    )
    safetensors.torch.load_model(other, str(tmp_path / "encoder.safetensors"))
    torch.testing.assert_close(encode(encoder, SENTENCES).vector, encode(other, SENTENCES).vector, atol=0, rtol=0)


class WithoutDevice(TorchFunctionMode):
    """Tensors that are made, where nobody says on which device: on the CPU, wherever the model is."""

    makes = (torch.arange, torch.empty, torch.eye, torch.full, torch.linspace, torch.ones, torch.tensor, torch.zeros)

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_function__(self, function, types, arguments=(), options=None):  # type: ignore[no-untyped-def]
        options = options or {}
        if function in self.makes and options.get("device") is None and "out" not in options:
            self.found.append(function.__name__)
        return function(*arguments, **options)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_made_on_another_device_than_the_batch(name: str, training: bool) -> None:
    encoder, batch = tiny(name).train(training), sa.collate(SENTENCES, VOCABULARY)
    with WithoutDevice() as made:
        vector = encoder(batch).vector
        assert vector is not None
        vector.sum().backward()
    assert not made.found


def test_a_tensor_without_a_device_is_noticed() -> None:
    with WithoutDevice() as made:
        torch.arange(3, device="cpu")
        torch.zeros(2)
    assert made.found == ["zeros"]


class MostAdded(TorchDispatchMode):
    """The largest number of numbers that ``index_put`` adds to one place: threads add these in any order."""

    most = 0

    def __torch_dispatch__(self, operator, types, arguments=(), options=None):  # type: ignore[no-untyped-def]
        if operator.overloadpacket == torch.ops.aten.index_put and arguments[3:] == (True,):
            index = torch.stack(torch.broadcast_tensors(*(part for part in arguments[1] if part is not None)))
            if index.numel():
                self.most = max(self.most, int(index.flatten(1).unique(dim=1, return_counts=True)[1].max()))
        return operator(*arguments, **(options or {}))


@pytest.mark.parametrize("name", NAMES)
def test_sums_have_a_fixed_order(name: str) -> None:
    encoder = tiny(name)
    with MostAdded() as added:
        vector = encode(encoder, SENTENCES).vector
        assert vector is not None
        vector.sum().backward()
    # Two numbers have the same sum in any order.
    assert added.most <= 2


def test_plain_indexing_has_none() -> None:
    table = torch.ones(2, 3, requires_grad=True)
    with MostAdded() as added:
        table[torch.tensor([0, 1, 1, 1])].sum().backward()
    assert added.most == 3


@pytest.mark.parametrize("name", NAMES)
def test_dropout_acts_in_training_only(name: str) -> None:
    encoder = build(
        name,
        vocab_size=len(VOCABULARY),
        dim=12,
        dropout=0.5,
        **({"num_heads": 2} if "num_heads" in encoder_options(name) else {}),
    )
    assert not torch.equal(encode(encoder, SENTENCES).vector, encode(encoder, SENTENCES).vector)
    encoder.eval()
    torch.testing.assert_close(encode(encoder, SENTENCES).vector, encode(encoder, SENTENCES).vector, atol=0, rtol=0)


@pytest.mark.parametrize("name", NAMES)
def test_options_are_a_configuration(name: str) -> None:
    assert json.loads(json.dumps(encoder_options(name))) is not None
    encoder = tiny(name)
    vector = encode(encoder, SENTENCES).vector
    assert vector is not None
    assert vector.shape == (len(SENTENCES), encoder.output_dim)


@pytest.mark.parametrize("name", NAMES)
def test_the_state_of_the_random_generator_decides_the_weights(name: str) -> None:
    first, second = tiny(name), tiny(name)
    for left, right in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(left, right)


@pytest.mark.parametrize("name", NAMES)
def test_an_embedder_of_another_width_is_read(name: str) -> None:
    """A linear map without bias, or the encoder's own layers, take the embedder's states to the width of the encoder's;
    nothing else depends on them."""
    torch.manual_seed(0)
    known = encoder_options(name)
    options = {"dim": 12, "dropout": 0.0, **({"num_heads": 2} if "num_heads" in known else {})}
    encoder = build(name, embedder={"dim": 8}, vocab_size=len(VOCABULARY), **options)
    usual = build(name, vocab_size=len(VOCABULARY), **options)
    assert encoder.embedder.output_dim == 8
    assert (encoder.output_dim, encoder.state_dim) == (usual.output_dim, usual.state_dim)
    encoding = encode(encoder, SENTENCES)
    assert encoding.vector is not None
    assert encoding.vector.shape == (len(SENTENCES), usual.output_dim)
    if isinstance(encoder.project, torch.nn.Linear):
        assert encoder.project.bias is None
        assert encoder.project.weight.shape == (12, 8)
        states = encoder.embed(sa.collate(SENTENCES, VOCABULARY))
        expected = encoder.embedder(sa.collate(SENTENCES, VOCABULARY)) @ encoder.project.weight.T
        torch.testing.assert_close(states, expected)


@pytest.mark.parametrize("name", NAMES)
def test_an_encoder_is_saved_with_its_options_and_its_embedder(name: str, tmp_path: Path) -> None:
    options = {"dim": 12, **({"num_heads": 2} if "num_heads" in encoder_options(name) else {})}
    if name == "tree_transformer":
        options["accumulation"] = {"max_vertical": 0, "mode": "ref"}
    embedder = {"dim": 8, "num_frozen": 2, "dropout": 0.1}
    encoder = build(name, embedder=embedder, vocab_size=len(VOCABULARY), **options).eval()
    encoder.embedder.load_vectors(torch.randn(len(VOCABULARY), 8))
    encoder.save_pretrained(tmp_path / "encoder")
    again = sa.load(tmp_path / "encoder")
    assert again.config == encoder.config
    assert again.config["embedder"] == {"name": "words", **embedder}
    assert again.config["options"] == options
    assert torch.equal(encode(again, SENTENCES).vector, encode(encoder, SENTENCES).vector)
    assert torch.equal(again.embedder.frozen, encoder.embedder.frozen)


def test_an_encoder_over_a_module_of_ones_own_cannot_be_saved(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"cannot be saved: expected one .* over word vectors or a pretrained backbone"
    ):
        build("disan", embedder=Letters()).save_pretrained(tmp_path / "encoder")


class Letters(torch.nn.Module):
    """An embedder of one's own: how often each of five letters is in a word."""

    output_dim = 5

    def forward(self, batch: sa.SentenceBatch) -> torch.Tensor:
        states = torch.zeros(*batch.mask.shape, 5)
        for row, sentence in enumerate(batch.sentences):
            for place, word in enumerate(sentence.words):
                states[row, place] = torch.tensor([float(word.count(letter)) for letter in "aeiou"])
        return states


@pytest.mark.parametrize("name", NAMES)
def test_a_module_of_ones_own_serves_as_embedder(name: str) -> None:
    options = {"dim": 12, **({"num_heads": 2} if "num_heads" in encoder_options(name) else {})}
    encoder = build(name, embedder=Letters(), **options)
    assert encode(encoder, SENTENCES).vector.shape == (len(SENTENCES), encoder.output_dim)  # type: ignore[union-attr]
    direct = BUILDERS.find(name)(Letters(), **options)
    assert [one.shape for one in direct.parameters()] == [one.shape for one in encoder.parameters()]


class Filled(torch.nn.Module):
    """An embedder of one's own, with the same number everywhere in padding."""

    output_dim = 8

    def __init__(self, padding: float) -> None:
        super().__init__()
        self.vectors = torch.nn.Parameter(torch.randn(len(VOCABULARY), 8, generator=torch.Generator().manual_seed(1)))
        self.padding = padding

    def forward(self, *batches: sa.SentenceBatch) -> torch.Tensor:
        found = (torch.where(one.mask.unsqueeze(-1), self.vectors[one.tokens], self.padding) for one in batches)
        return torch.cat([*found], 1)


@pytest.mark.parametrize("name", [*NAMES, "decomposable"])
def test_padding_of_ones_own_embedder_may_hold_anything(name: str) -> None:
    texts = (SENTENCES[:3], SENTENCES[4:7])[: 2 if name == "decomposable" else 1]
    options = {"dim": 12, "dropout": 0.0, **({"num_heads": 2} if "num_heads" in encoder_options(name) else {})}
    found = []
    for padding in (0.0, torch.nan, torch.inf):
        torch.manual_seed(0)
        encoder = build(name, embedder=Filled(padding), **options)
        vector = encoder(*(sa.collate(text, VOCABULARY) for text in texts)).vector
        assert vector is not None
        found.append([vector, *torch.autograd.grad(vector.square().sum(), [*encoder.parameters()])])
    for other in found[1:]:
        torch.testing.assert_close(other, found[0], atol=0.0, rtol=0.0)


def test_the_room_has_every_builder_by_its_name() -> None:
    for name in BUILDERS:
        assert name in sa.encoders.__all__
        assert getattr(sa.encoders, name) is BUILDERS.find(name)
    with pytest.raises(AttributeError, match=r"module 'structattn.encoders' has no attribute 'lstms'"):
        sa.encoders.lstms  # noqa: B018


def test_embedders_are_refused_with_the_known_ones() -> None:
    for embedder, message in (
        ({"name": "word"}, r"unknown embedder 'word' \(did you mean 'words'\?\); known: backbone, words"),
        ({"name": ["words"]}, r"unknown embedder \['words'\]; known: backbone, words"),
        ({"dims": 3}, r"unknown option 'dims' for embedder 'words' \(did you mean 'dim'\?\); known: dim, dropout, num"),
        ({"dim": "wide"}, "option 'dim' of embedder 'words': expected int, got 'wide'"),
        ({"num_frozen": 9}, "embedder 'words': .* got vocab_size=5 and num_frozen=9"),
        ({"dropout": 2.0}, "embedder 'words': dropout probability has to be between 0 and 1"),
        ({"name": "backbone"}, "needs the folder of a Hugging Face encoder"),
        (torch.nn.Linear(2, 3), "expected an embedder with the width of its states as output_dim, got Linear without"),
    ):
        with pytest.raises(ConfigError, match=message):
            build("disan", embedder=embedder, vocab_size=5)
    with pytest.raises(ConfigError, match="word vectors need the number of words: pass vocab_size="):
        build("disan")
    with pytest.raises(
        ConfigError, match="encoder 'hydra': expected the embedder BackboneEmbedding, got WordEmbedding"
    ):
        build("hydra", embedder={"name": "words"}, vocab_size=5)
    with pytest.raises(
        ConfigError, match="pooler expects att_max, or att_cls over a pretrained backbone; got 'att_cls'"
    ):
        build("ms_san", vocab_size=5, pooler="att_cls")


def test_groups_of_options_are_mappings() -> None:
    assert encoder_options("tree_transformer")["accumulation"] == {
        "max_vertical": 50,
        "max_horizontal": 100,
        "mode": "paper",
    }
    for options, message in (
        ({"accumulation": {"mod": "ref"}}, r"unknown option 'accumulation.mod' .* mean 'accumulation.mode'\?\)"),
        ({"accumulation": {"max_vertical": "a"}}, "option 'accumulation.max_vertical' .* expected int, got 'a'"),
        ({"accumulation": 3}, "option 'accumulation' .* expected a mapping, got 3"),
        (
            {"accumulation": {"mode": "other"}},
            "option 'accumulation.mode' .* expected one of 'paper', 'ref', got 'other'",
        ),
    ):
        with pytest.raises(ConfigError, match=message):
            build("tree_transformer", vocab_size=5, **options)


def test_unknown_names_are_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"unknown encoder 'disann' \(did you mean 'disan'\?\); known: .*ms_san"):
        build("disann", vocab_size=5)
    with pytest.raises(ConfigError, match=r"unknown option 'dims' .*did you mean 'dim'\?\); known: .*dropout"):
        build("disan", vocab_size=5, dims=3)


OWN = """
import structattn as sa

WIDTH = 4

def words(embedder, *, dim=WIDTH, scale: float = 1.0):
    alone = sa.encoders.NoContext()
    return sa.encoders.SentenceEncoder(embedder, alone, pooler=sa.layers.MeanPooling(), output_dim=dim, input_dim=dim)
"""


def test_encoders_of_ones_own_are_named_by_their_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_encoders.py").write_text(OWN, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    name = "own_encoders:words"
    assert encoder_options(name) == {"dim": 4, "scale": 1.0}
    encoder = build(name, vocab_size=len(VOCABULARY), dim=6)
    assert encode(encoder, SENTENCES).states.shape[-1] == encoder.output_dim == 6
    with pytest.raises(ConfigError, match="unknown option 'width' for encoder 'own_encoders:words'; known: dim, scale"):
        build(name, vocab_size=5, width=3)
    with pytest.raises(ConfigError, match="option 'scale' of encoder 'own_encoders:words': expected float, got 'big'"):
        build(name, vocab_size=5, scale="big")
    for wrong, message in (
        ("own_encoders:phrases", "module 'own_encoders' has no attribute 'phrases'"),
        ("own_encoders:", "a function, got module"),
        ("nowhere_to_be_found:words", "No module named 'nowhere_to_be_found'"),
        (":words", "Empty module name"),
        (".encoders:words", "relative import"),
        ("own_encoders:WIDTH", "a function, got int"),
    ):
        with pytest.raises(ConfigError, match=f"encoder '{wrong}': expected .*{message}"):
            build(wrong, vocab_size=5)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("transformer", {"dim": "wide"}, r"option 'dim' of encoder 'transformer': expected int \| None, got 'wide'"),
        ("transformer", {"dim": 12.0}, r"expected int \| None, got 12.0"),
        ("transformer", {"hidden": [3]}, r"option 'hidden' .* expected int \| None, got \[3\]"),
        ("transformer", {"dim": 0}, "option 'dim' .* expected at least 1, got 0"),
        ("transformer", {"num_layers": -1}, "option 'num_layers' .* expected at least 1, got -1"),
        ("transformer", {"norm": 1}, "option 'norm' .* got 1"),
        ("disan", {"ref_biases": 1}, "option 'ref_biases' .* expected bool, got 1"),
        ("disan", {"scale": True}, "option 'scale' .* got True"),
        ("ms_san", {"heads": 6}, "option 'heads' .* got 6"),
        ("bilstm", {"dropout": 1.5}, "encoder 'bilstm': dropout probability has to be between 0 and 1, but got 1.5"),
    ],
)
def test_values_that_do_not_fit_are_refused(name: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build(name, vocab_size=5, **options)
