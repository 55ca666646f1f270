"""Positions that count: hand-made depths of brackets, and scores that depend on differences alone."""

import itertools

import pytest
import torch
from torch import nn

import structattn as sa
from structattn.errors import ConfigError
from structattn.layers import CountedPositions, DependencyScorer
from structattn.layers.additive_scores import AdditiveScores

DIM, AXES = 4, 2
GENERATOR = torch.Generator().manual_seed(0)
STATES = torch.randn(3, 6, DIM, generator=GENERATOR, dtype=torch.float64)
MASK = torch.arange(5) < torch.tensor([[5], [3], [1]])


def randomised(layer: nn.Module) -> nn.Module:
    torch.manual_seed(1)
    for parameter in layer.double().parameters():
        nn.init.normal_(parameter)
    return layer


@pytest.mark.parametrize("depth", range(2, 9))
def test_brackets_can_be_counted(depth: int) -> None:
    words = ["("] * depth + ["1", ")", "(", "2", ")", "3"] + [")"] * (depth - 1)
    kinds = torch.tensor([[(word == "(") - (word == ")") for word in words]], dtype=torch.float32)
    positions = CountedPositions(1, 1)
    nn.init.constant_(positions.steps.weight, 20.0)
    nn.init.zeros_(positions.steps.bias)
    found = positions(kinds.unsqueeze(-1), torch.ones(1, len(words), dtype=torch.bool)).flatten()
    expected = list(itertools.accumulate(int(kind) for kind in kinds[0]))
    assert found.tolist() == expected
    assert max(expected) == depth


def test_padding_takes_no_step() -> None:
    positions = randomised(CountedPositions(DIM, AXES))
    found = positions(STATES[:, 1:], MASK)
    for row, length in enumerate(MASK.sum(-1).tolist()):
        alone = positions(STATES[row : row + 1, 1 : length + 1], MASK[row : row + 1, :length])
        torch.testing.assert_close(found[row : row + 1, :length], alone)
        torch.testing.assert_close(found[row, length:], found[row, length - 1].expand(5 - length, AXES))


def test_scores_depend_on_differences_of_positions() -> None:
    scores = randomised(AdditiveScores(DIM, 3, bound=nn.Identity(), axes=AXES))
    first, second = torch.randn(2, 3, 6, AXES, generator=GENERATOR, dtype=torch.float64)
    found = scores(STATES, STATES, positions=(first, second))
    torch.testing.assert_close(scores(STATES, STATES, positions=(first + 7.0, second + 7.0)), found)
    assert not torch.allclose(scores(STATES, STATES, positions=(first + 7.0, second)), found)


def test_heads_are_scored_as_in_a_loop() -> None:
    positions = CountedPositions(DIM, AXES)
    scorer = randomised(DependencyScorer(DIM, 3, bound=nn.Identity(), positions=positions))
    assert isinstance(scorer, DependencyScorer)
    trees = scorer(STATES, MASK)
    layer, words = scorer.scores, STATES[:, 1:]
    assert layer.difference is not None
    for row, length in enumerate(MASK.sum(-1).tolist()):
        steps = torch.tanh(words[row] @ positions.steps.weight.T + positions.steps.bias)
        place = [torch.zeros(AXES, dtype=torch.float64), *(steps[: word + 1].sum(0) for word in range(length))]
        for word, head in itertools.product(range(1, length + 1), range(length + 1)):
            states = layer.first(STATES[row, head]) + layer.second(STATES[row, word])
            inner = torch.tanh(states + layer.difference.weight @ (place[word] - place[head]))
            torch.testing.assert_close(trees.scores[row, word - 1, head], layer.score.weight[0] @ inner)


@pytest.mark.parametrize("attention", ["simple", "projective", "nonprojective"])
def test_every_parameter_of_an_encoder_that_counts_learns(attention: str) -> None:
    vocabulary = sa.Vocabulary(list("abcde"))
    batch = sa.collate([sa.Sentence(list("abcde")), sa.Sentence(list("ab"))], vocabulary)
    encoder = sa.encoders.build("structured", vocab_size=len(vocabulary), dim=8, attention=attention, counts=3)
    encoder(batch).states.square().sum().backward()
    still = [name for name, one in encoder.named_parameters() if one.grad is None or not one.grad.any()]
    assert not still


def test_mistakes() -> None:
    with pytest.raises(ValueError, match="CountedPositions expects at least one sum, got 0"):
        CountedPositions(4, 0)
    for axes, positions in ((0, (STATES, STATES)), (1, None)):
        with pytest.raises(ValueError, match="AdditiveScores expects positions where it has axes; it has"):
            AdditiveScores(DIM, axes=axes)(STATES.float(), STATES.float(), positions=positions)
    for attention in ("none", "constituency"):
        with pytest.raises(ConfigError, match=f"counts concerns heads; attention is '{attention}'"):
            sa.encoders.build("structured", vocab_size=4, attention=attention, counts=2)
