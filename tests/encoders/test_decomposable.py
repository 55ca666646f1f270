"""Decomposable attention: by hand with loops, independent of padding and company, and learning what entails what."""

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor

import structattn as sa
from structattn.data import Example, SentenceBatch, Vocabulary
from structattn.encoders import SentenceEncoder, build
from structattn.errors import ConfigError, MissingStructure
from structattn.syntax import DependencyTree, Sentence
from structattn.tasks import ClassifierConfig, SentenceModel, get_task

WORDS = ["a", "dog", "barks", "cat", "sleeps", "no"]
VOCABULARY = Vocabulary(WORDS)


def sentence(text: str, heads: list[int] | None = None) -> Sentence:
    words = text.split()
    chain = [0, *range(1, len(words))]
    return Sentence(words, dependency=DependencyTree(chain if heads is None else heads))


FIRST = [sentence("a dog barks"), sentence("a cat"), sentence("no dog sleeps a lot")]
SECOND = [sentence("dog"), sentence("no cat sleeps"), sentence("a dog")]


def batches(chosen: list[int] | None = None) -> tuple[SentenceBatch, SentenceBatch]:
    rows = range(3) if chosen is None else chosen
    return tuple(sa.collate([side[row] for row in rows], VOCABULARY) for side in (FIRST, SECOND))  # type: ignore[return-value]


def encoder_of(inside: str, **options: Any) -> SentenceEncoder:
    torch.manual_seed(3)
    return build("decomposable", vocab_size=len(VOCABULARY), inside=inside, dim=5, hidden=4, **options).eval()


def align(scores: Tensor, alignment: str, cost: Tensor) -> tuple[Tensor, Tensor]:
    """The weights of both directions; matches that do not cross are listed, each set with its probability."""
    if alignment == "soft":
        return scores.softmax(1), scores.softmax(0)
    rows, columns = map(range, scores.shape)
    total, weights = torch.zeros(()), torch.zeros(scores.shape)
    for size in range(min(scores.shape) + 1):
        for queries, keys in itertools.product(
            itertools.combinations(rows, size), itertools.combinations(columns, size)
        ):
            matched = scores[queries, keys] - cost if size else torch.zeros(0)
            likelihood = matched.sum().exp()
            total = total + likelihood
            weights[queries, keys] += likelihood.detach()
    return weights / total, weights / total


@pytest.mark.parametrize("alignment", ["soft", "monotone"])
@pytest.mark.parametrize("inside", ["none", "hard"])
def test_by_hand(inside: str, alignment: str) -> None:
    encoder = encoder_of(inside, alignment=alignment, embedder={"dim": 7})
    cost = encoder.contextualizer.alignment.cost if alignment == "monotone" else torch.zeros(())
    torch.nn.init.constant_(cost, 0.3)
    core = encoder.contextualizer
    vectors = encoder(*batches()).vector

    def read(words: Sentence) -> list[Tensor]:
        batch = sa.collate([words], VOCABULARY)
        projected = [core.project(state) for state in encoder.embedder(batch)[0]]
        if inside == "none":
            return projected
        assert words.dependency is not None
        above = [core.inside.root if head == 0 else projected[head - 1] for head in words.dependency.heads]
        return [torch.cat(pair) for pair in zip(projected, above, strict=True)]

    for row in range(3):
        x, y = read(FIRST[row]), read(SECOND[row])
        scores = torch.stack([torch.stack([core.attend(one) @ core.attend(other) for other in y]) for one in x])
        left, right = torch.zeros(5), torch.zeros(5)
        to_second, to_first = align(scores, alignment, cost)
        for index, one in enumerate(x):
            aligned = sum(weight * other for weight, other in zip(to_second[index], y, strict=True))
            left = left + core.compare(torch.cat([one, aligned]))
        for index, other in enumerate(y):
            aligned = sum(weight * one for weight, one in zip(to_first[:, index], x, strict=True))
            right = right + core.compare(torch.cat([other, aligned]))
        assert torch.allclose(vectors[row], torch.cat([left, right]), atol=1e-5)


@pytest.mark.parametrize("alignment", ["soft", "monotone"])
@pytest.mark.parametrize("inside", ["none", "simple", "hard", "projective", "nonprojective"])
def test_company_and_padding_change_nothing(inside: str, alignment: str) -> None:
    encoder = encoder_of(inside, alignment=alignment)
    together = encoder(*batches())
    for row in range(3):
        alone = encoder(*batches([row]))
        assert torch.allclose(alone.vector[0], together.vector[row], atol=1e-5)
    assert not together.states[~together.mask].any()
    encoder.train()
    encoder(*batches()).vector.sum().backward()
    for name, parameter in encoder.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name


def test_words_score_and_projected_words_are_looked_at() -> None:
    encoder = encoder_of("projective", embedder={"dim": 7})
    core, batch = encoder.contextualizer, batches()[0]
    states = encoder.embedder(batch)
    trees = encoder.latent_trees(batch)
    values = core.project(states)
    root = core.inside.reader.root_value.expand(len(states), 1, -1)
    expected = trees.marginals() @ torch.cat([root, values], 1)
    assert torch.allclose(core.inside(states, batch, values=values)[0], expected, atol=1e-6)
    # What is looked at does not say where to look.
    torch.nn.init.zeros_(core.project.weight)
    assert torch.equal(encoder.latent_trees(batch).marginals(), trees.marginals())


@pytest.mark.parametrize("alignment", ["soft", "monotone"])
@pytest.mark.parametrize("inside", ["none", "projective"])
def test_a_sentence_without_words_gives_no_nan(inside: str, alignment: str) -> None:
    encoder = encoder_of(inside, alignment=alignment)
    vector = encoder(sa.collate([Sentence([])], VOCABULARY), sa.collate([Sentence(["dog"])], VOCABULARY)).vector
    assert vector.isfinite().all()
    assert not vector[0, :5].any()


def test_number_of_parameters_of_the_paper() -> None:
    """812,703 and 401,200 by the sizes of the paper."""
    encoder = build("decomposable", vocab_size=3, inside="none", dim=300)
    own = sum(parameter.numel() for parameter in encoder.contextualizer.parameters())
    classifier = 600 * 300 + 300 + 300 * 300 + 300 + 300 * 3 + 3
    assert own + classifier == 812_703
    parser = build("decomposable", vocab_size=3, inside="projective", dim=300).contextualizer.inside.scorer
    assert sum(parameter.numel() for parameter in parser.parameters()) == 401_200


def test_it_learns_with_the_classifier_of_pairs() -> None:
    from dataclasses import replace

    torch.manual_seed(0)
    task = replace(get_task("pair_classification"), combine="together", metrics=("accuracy",))
    rows = [
        Example((one, other), "in" if set(other.words) <= set(one.words) else "out", id=f"{i}{j}")
        for i, one in enumerate(FIRST)
        for j, other in enumerate(SECOND)
    ]
    encoder = build("decomposable", vocab_size=len(VOCABULARY), inside="projective", dim=16, hidden=6, dropout=0.0)
    model = SentenceModel(encoder, task, ["in", "out"], vocabulary=VOCABULARY, classifier=ClassifierConfig(hidden=16))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(40):
        optimizer.zero_grad()
        model.loss(rows).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    assert model.evaluate(rows).metrics["accuracy"] == 1.0


def test_what_does_not_fit_is_refused() -> None:
    encoder = encoder_of("none")
    with pytest.raises(ConfigError, match="reads the two sentences of a pair together, got 1: use a task on pairs"):
        encoder(batches()[0])
    with pytest.raises(ConfigError, match="inside expects one of none, simple, hard, projective, nonprojective"):
        encoder_of("soft")
    with pytest.raises(ConfigError, match="alignment expects one of soft, monotone; got 'hard'"):
        encoder_of("none", alignment="hard")
    plain = sa.collate([Sentence(["dog"])], VOCABULARY)
    with pytest.raises(MissingStructure, match="GivenHead needs dependency of every sentence"):
        encoder_of("hard")(plain, plain)
