"""Classes that the library has never seen: it asks objects what they can do, not what they are."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

import structattn as sa
from structattn.data import SentenceBatch
from structattn.encoders import Encoding, SentenceEncoder
from structattn.inspection import AttentionMap, attention_maps, look
from structattn.layers import MeanPooling, WordEmbedding, independent_heads
from structattn.tasks import SENTIMENT, SentenceModel
from structattn.training.batches import BatchMaker
from structattn.training.run import tree_entropy

WORDS = ("a", "dull", "film")
VOCABULARY = sa.Vocabulary(["a", "dull", "film"])
SENTENCE = sa.Sentence(WORDS)


class Uniform(nn.Module):
    """Attention to every word alike, and to heads of a tree of which nothing is known."""

    weights_axes = "head query key"

    def forward(self, states: Tensor, mask: Tensor, *, need_weights: bool = False) -> tuple[Tensor, Tensor | None]:
        weights = (mask / mask.sum(1, keepdim=True))[:, None, None].expand(-1, 1, mask.shape[1], -1)
        return (weights[:, 0] @ states).masked_fill(~mask.unsqueeze(-1), 0.0), weights if need_weights else None


class Context(nn.Module):
    """A contextualizer of one's own, which writes down the batches that it was asked to prepare."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = Uniform()

    def prepare_batch(self, side: SentenceBatch, device: torch.device) -> None:
        side.dependency.remember("prepared", lambda: device.type)

    def forward(self, states: Tensor, batch: SentenceBatch) -> Encoding:
        return Encoding(self.attention(states, batch.mask)[0], batch.mask)


class Reader(nn.Module):
    """A module that reads batches of sentences and is no encoder of ours."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = Uniform()

    def forward(self, batch: SentenceBatch) -> Tensor:
        return self.attention(batch.tokens.unsqueeze(-1).float(), batch.mask)[0]


class Drawer(Reader):
    """The same, with maps of its own."""

    def attention_maps(self, texts: Sequence[tuple[sa.Sentence, ...]]) -> list[AttentionMap]:
        return [
            AttentionMap("mine", sentence.words, ("all",), torch.ones(1, len(sentence), 1), "attention", ("h",))
            for (sentence,) in texts
        ]


class Grower(SentenceModel):
    """A model whose encoder attends with trees that only the model knows of."""

    has_latent_trees = True

    def latent_trees(self, batch: Any) -> list[Any]:
        return [
            independent_heads(torch.zeros(len(side), side.mask.shape[1], side.mask.shape[1] + 1), side.lengths)
            for side in batch.sides
        ]


def model_of(kind: type[SentenceModel] = SentenceModel) -> SentenceModel:
    torch.manual_seed(0)
    encoder = SentenceEncoder(WordEmbedding(len(VOCABULARY), 4), Context(), pooler=MeanPooling(), output_dim=4)
    return kind(encoder, SENTIMENT, vocabulary=VOCABULARY).eval()


def test_attention_maps_of_modules_of_ones_own() -> None:
    for model in (model_of(), model_of().encoder, Reader()):
        attention = attention_maps(model, SENTENCE, vocabulary=VOCABULARY)[0]
        assert (attention.rows, attention.columns, attention.layer) == (WORDS, WORDS, "Uniform")
        torch.testing.assert_close(attention.weights, torch.full((1, 3, 3), 1 / 3))
    (drawn,) = attention_maps(Drawer(), SENTENCE, vocabulary=VOCABULARY)
    assert (drawn.name, drawn.columns) == ("mine", ("all",))


def test_a_look_at_an_encoder_of_ones_own() -> None:
    model = model_of()
    seen = look(model, SENTENCE)
    assert [attention.layer for attention in seen.maps] == ["Uniform", "MeanPooling"]
    assert seen.answer == model.predict([SENTENCE])[0]


def test_entropy_of_trees_of_ones_own() -> None:
    assert tree_entropy(model_of(), [sa.Example((SENTENCE,))]) is None
    # Each of three words chooses among the three and the root.
    assert math.isclose(tree_entropy(model_of(Grower), [sa.Example((SENTENCE,))]), math.log(4), rel_tol=1e-6)


def test_batches_are_prepared_for_a_module_of_ones_own() -> None:
    tree = sa.DependencyTree([2, 3, 0])
    examples = [sa.Example((sa.Sentence(WORDS, dependency=tree),), "negative")]
    maker = BatchMaker.__new__(BatchMaker)
    maker.examples, maker.model, maker.device = _InMemory(examples), model_of(), torch.device("cpu")
    (side,) = maker([0]).sides
    assert side.dependency.remember("prepared", lambda: None) == "cpu"


class _InMemory:
    def __init__(self, examples: list[sa.Example]) -> None:
        self.examples = examples

    def read(self, rows: list[int]) -> list[sa.Example]:
        return [self.examples[row] for row in rows]
