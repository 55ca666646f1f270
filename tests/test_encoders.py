"""Laws that every sentence encoder inherits; a new encoder joins through the table of builders."""

import itertools
import json
from pathlib import Path

import pytest
import safetensors.torch
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import structattn as sa
from structattn.data.generated import agreement_treebank
from structattn.encoders.build import BUILDERS, build, options_of
from structattn.syntax import ConfigError

SENTENCES = [example.sentences[0] for example in itertools.islice(agreement_treebank(seed=3), 7)]
VOCABULARY = sa.Vocabulary.from_examples([sa.Example((sentence,)) for sentence in SENTENCES])
# Those on a pretrained backbone read subwords and have their own tests.
# Neither those that need a backbone, nor those that read pairs.
NAMES = sorted(name for name in BUILDERS if "backbone" not in options_of(name) and name != "decomposable")


def tiny(name: str) -> sa.encoders.SentenceEncoder:
    """A small encoder without dropout; every builder has ``dim`` and ``dropout``."""
    torch.manual_seed(0)
    known = options_of(name)
    options = {"dim": 12, "dropout": 0.0}
    if "num_heads" in known:
        options["num_heads"] = 2
    return build(name, vocab_size=len(VOCABULARY), **options)


def encode(encoder: sa.encoders.SentenceEncoder, sentences: list[sa.Sentence]) -> sa.encoders.Encoding:
    return encoder(sa.collate(sentences, VOCABULARY))


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_padding_changes_nothing(name: str, training: bool) -> None:
    encoder = tiny(name).train(training)
    together = encode(encoder, SENTENCES)
    assert together.vector is not None
    for row, sentence in enumerate(SENTENCES):
        alone = encode(encoder, [sentence])
        torch.testing.assert_close(together.vector[row : row + 1], alone.vector, atol=2e-6, rtol=1e-5)
        real = together.states[row][together.mask[row]]
        torch.testing.assert_close(real, alone.states[0][alone.mask[0]], atol=2e-6, rtol=1e-5)
        assert not together.states[row][~together.mask[row]].any(), "padded states must be zero"


@pytest.mark.parametrize("name", NAMES)
def test_order_in_the_batch_changes_nothing(name: str) -> None:
    encoder = tiny(name)
    forward = encode(encoder, SENTENCES).vector
    backward = encode(encoder, SENTENCES[::-1]).vector
    assert forward is not None
    assert backward is not None
    torch.testing.assert_close(forward, backward.flip(0), atol=2e-6, rtol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_double_precision_agrees_with_single(name: str) -> None:
    encoder = tiny(name)
    single = encode(encoder, SENTENCES).vector
    double = encode(encoder.double(), SENTENCES).vector
    assert single is not None
    assert double is not None
    assert double.dtype == torch.float64
    torch.testing.assert_close(single.double(), double, atol=1e-5, rtol=1e-4)


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
        **({"num_heads": 2} if "num_heads" in options_of(name) else {}),
    )
    safetensors.torch.load_model(other, str(tmp_path / "encoder.safetensors"))
    torch.testing.assert_close(encode(encoder, SENTENCES).vector, encode(other, SENTENCES).vector, atol=0, rtol=0)


@pytest.mark.parametrize("name", NAMES)
def test_gradients_reach_every_parameter_and_are_finite(name: str) -> None:
    encoder = tiny(name)
    vector = encode(encoder, SENTENCES).vector
    assert vector is not None
    weights = torch.randn(vector.shape, generator=torch.Generator().manual_seed(5))
    (vector * weights).sum().backward()
    for parameter_name, parameter in encoder.named_parameters():
        assert parameter.grad is not None, f"{parameter_name} gets no gradient"
        assert parameter.grad.isfinite().all(), parameter_name
        assert parameter.grad.any(), f"{parameter_name} has a zero gradient"


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
def test_short_empty_and_unknown_sentences_are_finite(name: str) -> None:
    encoder = tiny(name)
    one = sa.Sentence(
        ["unseen"], dependency=sa.DependencyTree([0]), constituency=sa.ConstituencyTree.from_brackets("(S (X unseen))")
    )
    empty = sa.Sentence([])
    for sentences in ([one], [empty], [one, empty, SENTENCES[0]], [empty, empty]):
        encoding = encode(encoder, sentences)
        assert encoding.vector is not None
        assert encoding.vector.isfinite().all()
        encoding.vector.sum().backward()
        for parameter_name, parameter in encoder.named_parameters():
            assert parameter.grad is None or parameter.grad.isfinite().all(), parameter_name
    mixed = encode(encoder, [one, empty, SENTENCES[0]]).vector
    alone = encode(encoder, [one]).vector
    assert mixed is not None
    assert alone is not None
    torch.testing.assert_close(mixed[:1], alone, atol=2e-6, rtol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_dropout_acts_in_training_only(name: str) -> None:
    encoder = build(
        name,
        vocab_size=len(VOCABULARY),
        dim=12,
        dropout=0.5,
        **({"num_heads": 2} if "num_heads" in options_of(name) else {}),
    )
    assert not torch.equal(encode(encoder, SENTENCES).vector, encode(encoder, SENTENCES).vector)
    encoder.eval()
    torch.testing.assert_close(encode(encoder, SENTENCES).vector, encode(encoder, SENTENCES).vector, atol=0, rtol=0)


@pytest.mark.parametrize("name", NAMES)
def test_options_are_a_configuration(name: str) -> None:
    assert json.loads(json.dumps(options_of(name))) is not None
    encoder = tiny(name)
    vector = encode(encoder, SENTENCES).vector
    assert vector is not None
    assert vector.shape == (len(SENTENCES), encoder.output_dim)


@pytest.mark.parametrize("name", NAMES)
def test_the_state_of_the_random_generator_decides_the_weights(name: str) -> None:
    first, second = tiny(name), tiny(name)
    for left, right in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(left, right)


def test_unknown_names_are_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"unknown encoder 'disann' \(did you mean 'disan'\?\); known: .*ms_san"):
        build("disann", vocab_size=5)
    with pytest.raises(ConfigError, match=r"unknown option 'dims' .*did you mean 'dim'\?\); known: .*dropout"):
        build("disan", vocab_size=5, dims=3)


OWN = """
import structattn as sa

WIDTH = 4

def words(vocab_size, *, dim=WIDTH, scale: float = 1.0):
    alone = sa.encoders.NoContext()
    embedder = sa.layers.WordEmbedding(vocab_size, dim)
    return sa.encoders.SentenceEncoder(embedder, alone, pooler=sa.layers.MeanPooling(), output_dim=dim)
"""


def test_encoders_of_ones_own_are_named_by_their_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_encoders.py").write_text(OWN, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    name = "own_encoders:words"
    assert options_of(name) == {"dim": 4, "scale": 1.0}
    encoder = build(name, vocab_size=len(VOCABULARY), dim=6)
    assert encode(encoder, SENTENCES).states.shape[-1] == encoder.output_dim == 6
    with pytest.raises(ConfigError, match="unknown option 'width' for encoder 'own_encoders:words'; known: dim, scale"):
        build(name, vocab_size=5, width=3)
    with pytest.raises(ConfigError, match="option 'scale' of encoder 'own_encoders:words': expected float, got 'big'"):
        build(name, vocab_size=5, scale="big")
    for wrong, message in (
        ("own_encoders:phrases", "module 'own_encoders' has no attribute 'phrases'"),
        ("own_encoders:", "has no attribute ''"),
        ("nowhere_to_be_found:words", "No module named 'nowhere_to_be_found'"),
        (":words", "Empty module name"),
        (".encoders:words", "relative import"),
        ("own_encoders:WIDTH", "expected a function, got int"),
    ):
        with pytest.raises(ConfigError, match=f"encoder '{wrong}': expected .*{message}|expected a function, got int"):
            build(wrong, vocab_size=5)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("transformer", {"dim": "wide"}, "option 'dim' of encoder 'transformer': expected int, got 'wide'"),
        ("transformer", {"dim": 12.0}, "expected int, got 12.0"),
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
