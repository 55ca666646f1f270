"""The Transformer that writes, with and without a tree to look at: both of its faces, padding, and a whole run."""

from pathlib import Path
from typing import Any

import pytest
import torch

import structattn as sa
from structattn.errors import ConfigError
from structattn.layers import CausalAttention, CrossAttention
from structattn.tasks import DecoderConfig, build_decoder
from structattn.tasks.decoding import beam_search
from structattn.training import DataConfig, OptimizationConfig, RunConfig, run

BRACKETS = ("(S (NP (D a) (N dog)) (VP (V barks)))", "(S (N dogs) (VP (V bark) (R loud) (R now)))", "(S (V hush))")
SENTENCES = [sa.Sentence(tree.words, constituency=tree) for tree in map(sa.ConstituencyTree.from_brackets, BRACKETS)]
VOCABULARY = sa.Vocabulary.from_examples(SENTENCES)
TOKENS = torch.tensor([[2, 4, 5, 6], [2, 6, 0, 0], [2, 5, 5, 0]])
PAIRS = [("transformer", "transformer"), ("tree_transformer", "tree_transformer"), ("tree_lstm", "tree_transformer")]


def models(encoder: str, decoder: str, **options: Any) -> tuple[Any, Any]:
    torch.manual_seed(0)
    sizes = {} if encoder == "tree_lstm" else {"num_heads": 2}
    reader = sa.encoders.build(encoder, vocab_size=len(VOCABULARY), dim=12, dropout=0.0, **sizes).double()
    writer = build_decoder(decoder, reader, 7, **{"num_heads": 2, "dropout": 0.0, **options})
    torch.nn.init.normal_(writer.bias)
    return reader, writer.double()


def test_size_is_that_of_a_transformer_and_of_the_accumulation() -> None:
    encoder = sa.encoders.build("tree_transformer", vocab_size=4, dim=512, num_layers=1)
    decoder: Any = build_decoder("tree_transformer", encoder, 7, num_layers=1, hidden=1024)
    # Two attentions, a feed-forward network, three norms.
    layer = 2 * 4 * (512 * 512 + 512) + (2 * 512 * 1024 + 512 + 1024) + 3 * 2 * 512
    size = sum(parameter.numel() for parameter in decoder.layers.parameters())
    assert size == layer + 152 * 64 + (512 * 4 + 4), "a table of positions, and the weight of a leaf for each head"


@pytest.mark.parametrize("norm", ["first", "last"])
@pytest.mark.parametrize(("encoder", "decoder"), PAIRS)
def test_step_by_step_is_all_at_once(encoder: str, decoder: str, norm: str) -> None:
    reader, writer = models(encoder, decoder, norm=norm)
    batch = sa.collate(SENTENCES, VOCABULARY)
    whole = writer(reader(batch), batch, TOKENS)
    state = writer.start(reader(batch), batch)
    for number in range(TOKENS.shape[1]):
        scores, state = writer.step(TOKENS[:, number], state)
        torch.testing.assert_close(scores, whole[:, number], atol=1e-12, rtol=0)
        # A search may keep any rows, in any order, as often as it likes.
        assert all(len(tensor) == len(TOKENS) for tensor in state.values())


@pytest.mark.parametrize(("encoder", "decoder"), PAIRS)
def test_batches_and_padding_change_nothing(encoder: str, decoder: str) -> None:
    reader, writer = models(encoder, decoder)
    batch = sa.collate(SENTENCES, VOCABULARY)
    together = writer(reader(batch), batch, TOKENS)
    for row, sentence in enumerate(SENTENCES):
        alone = sa.collate([sentence], VOCABULARY)
        length = int((TOKENS[row] > 0).sum())
        scores = writer(reader(alone), alone, TOKENS[row : row + 1, :length])
        torch.testing.assert_close(together[row, :length], scores[0], atol=1e-12, rtol=0)


@pytest.mark.parametrize(("encoder", "decoder"), PAIRS)
def test_a_token_depends_on_the_tokens_before_it_and_on_the_source(encoder: str, decoder: str) -> None:
    reader, writer = models(encoder, decoder)
    batch = sa.collate(SENTENCES, VOCABULARY)
    before = writer(reader(batch), batch, TOKENS)
    changed = TOKENS.clone()
    changed[:, 2] = 3
    after = writer(reader(batch), batch, changed)
    assert torch.equal(after[:, :2], before[:, :2])
    assert not torch.allclose(after[:, 2], before[:, 2])
    other = sa.collate(SENTENCES[::-1], VOCABULARY)
    assert not torch.allclose(writer(reader(other), other, TOKENS)[0], before[0])


def test_gradients_reach_every_parameter() -> None:
    reader, writer = models("tree_transformer", "tree_transformer")
    batch = sa.collate(SENTENCES, VOCABULARY)
    torch.nn.functional.cross_entropy(
        writer(reader(batch), batch, TOKENS[:, :-1]).flatten(0, 1), TOKENS[:, 1:].flatten(), ignore_index=0
    ).backward()
    for name, parameter in [*reader.named_parameters(), *writer.named_parameters()]:
        assert parameter.grad is not None, name
        assert parameter.grad.any(), name


@pytest.mark.parametrize(("encoder", "decoder"), PAIRS)
def test_a_search_keeps_the_source_of_each_sentence(encoder: str, decoder: str) -> None:
    reader, writer = models(encoder, decoder)

    def write(sentences: list[sa.Sentence]) -> list[list[int]]:
        batch = sa.collate(sentences, VOCABULARY)
        limits = torch.full((len(sentences),), 5)

        def step(last: torch.Tensor, state: Any) -> tuple[torch.Tensor, Any]:
            scores, after = writer.step(last, state)
            return scores.log_softmax(-1), after

        with torch.no_grad():
            state = writer.start(reader(batch), batch)
            found = beam_search(step, state, limits=limits, begin=2, end=3, beam=3).tokens
        return [[token for token in row if token] for row in found.tolist()]

    assert write(SENTENCES) == [write([sentence])[0] for sentence in SENTENCES]


def test_what_does_not_fit_is_refused() -> None:
    reader, _ = models("transformer", "transformer")
    with pytest.raises(ConfigError, match=r"heads that divide the 12 features .* got 2 layers and 5 heads"):
        build_decoder("transformer", reader, 7, num_heads=5)
    with pytest.raises(
        ConfigError, match="option 'num_layers' of decoder 'tree_transformer': expected at least 1, got 0"
    ):
        build_decoder("tree_transformer", reader, 7, num_layers=0, num_heads=2)
    writer = build_decoder("tree_transformer", reader, 7, num_heads=2)
    batch = sa.collate(SENTENCES, VOCABULARY)
    with pytest.raises(ConfigError, match=r"a state for every word and phrase, .* of \(3, 7\) nodes, got \(3, 4\)"):
        writer.start(reader(batch), batch)
    for layer in (CrossAttention, CausalAttention):
        with pytest.raises(ValueError, match="dim to be a multiple of num_heads, got 8 and 3"):
            layer(8, 3)


def test_a_run_translates_from_trees(tmp_path: Path) -> None:
    files = {}
    for name, times in (("train", 24), ("dev", 1)):
        source, target = tmp_path / f"{name}.mrg", tmp_path / f"{name}.txt"
        source.write_text("\n".join(BRACKETS * times) + "\n", encoding="utf-8")
        target.write_text("ein Hund bellt\nHunde bellen nun laut\nstill\n" * times, encoding="utf-8")
        files[name] = f"{source},{target}"
    result = run(
        RunConfig(
            "translation",
            "tree_transformer",
            DataConfig(files["train"], dev=files["dev"]),
            options={"dim": 32, "num_layers": 1, "dropout": 0.0},
            decoder=DecoderConfig(
                "tree_transformer",
                options={"num_layers": 1, "dropout": 0.0},
                source="subwords",
                target="subwords",
                vocab_size=60,
                beam=2,
            ),
            optimization=OptimizationConfig(epochs=6, batch_size=9, learning_rate=0.01, patience=None),
            out=str(tmp_path / "run"),
        )
    )
    assert result.metrics["bleu"] > 90
    assert sa.load(tmp_path / "run").predict([SENTENCES[2]])[0].text == "still"
