"""``structattn.testing``: our own parts obey the laws, and every law finds a part that breaks it."""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import structattn as sa
from structattn.data.readers.formats import find_reader
from structattn.distributions import StructuredDistribution, score_arrays
from structattn.encoders import SentenceEncoder
from structattn.encoders.sentence_encoder import NoContext
from structattn.errors import ParseError
from structattn.layers import MeanPooling, WordEmbedding
from structattn.priors import AttentionBias, Prior
from structattn.testing import (
    DISTRIBUTION_LAWS,
    ENCODER_LAWS,
    PRIOR_LAWS,
    READER_LAWS,
    Family,
    check_distribution,
    check_encoder,
    check_prior,
    check_reader,
    distribution_laws,
)
from structures_by_hand import FAMILIES, ShortArcs


def test_our_own_parts_obey_the_laws() -> None:
    check_prior(sa.priors.PerHead([sa.priors.Backward(), None, sa.priors.ConstituencyDistance()]))
    check_encoder(lambda size: sa.encoders.build("ms_san", vocab_size=size, dim=12, dropout=0.0))
    check_distribution(SHORT)


class Own(Prior):
    """A prior that does what it is told."""

    name = "own"

    def __init__(self, value: Callable[[sa.SentenceBatch], AttentionBias]) -> None:
        super().__init__()
        self.value = value

    def forward(self, batch: sa.SentenceBatch) -> AttentionBias:
        return self.value(batch)


def square(batch: sa.SentenceBatch, fill: float = 0.0) -> Tensor:
    return torch.full((len(batch), 1, batch.mask.shape[1], batch.mask.shape[1]), fill)


BROKEN_PRIORS: dict[str, Callable[[sa.SentenceBatch], AttentionBias]] = {
    "has_shape_and_type": lambda batch: AttentionBias(None, square(batch, -torch.inf)),
    "ignores_padding": lambda batch: AttentionBias(None, square(batch, float(batch.mask.shape[1]))),
    "is_the_same_in_any_order": lambda batch: AttentionBias(None, torch.arange(len(batch)).view(-1, 1, 1, 1) * 1.0),
    "leaves_no_nan": lambda batch: AttentionBias(None, torch.where(square(batch) == 0, torch.nan, 0.0)),
}


@pytest.mark.parametrize("law", BROKEN_PRIORS)
def test_a_broken_prior_is_found_out(law: str) -> None:
    prior = Own(BROKEN_PRIORS[law])
    with pytest.raises(AssertionError):
        PRIOR_LAWS[law](prior)
    with pytest.raises(AssertionError, match=f"^({'|'.join(PRIOR_LAWS)}): "):
        check_prior(prior)


class Unscalable(Own):
    """A prior whose sum is no sum."""

    def __add__(self, other: Prior) -> Prior:
        return Own(lambda batch: AttentionBias(None, square(batch, 7.0)))


class Counting(Own):
    """A prior with another value at every call."""

    calls = 0

    def forward(self, batch: sa.SentenceBatch) -> AttentionBias:
        Counting.calls += 1
        return AttentionBias(None, square(batch, float(Counting.calls)))


def test_broken_algebra_and_copies_are_found_out() -> None:
    with pytest.raises(AssertionError, match=r"a \+ b and b \+ a"):
        PRIOR_LAWS["adds_and_scales"](Unscalable(lambda batch: AttentionBias(None, square(batch))))
    with pytest.raises(AssertionError, match="a prior and its copy"):
        PRIOR_LAWS["is_equal_where_its_key_is"](Counting(lambda batch: AttentionBias(None, square(batch))))


class Context(nn.Module):
    """A contextualizer that does one thing wrong."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault = fault
        self.layer = nn.Linear(4, 4)
        self.unused = nn.Linear(4, 4) if fault == "learns_with_every_parameter" else None

    def forward(self, states: Tensor, batch: sa.SentenceBatch) -> sa.encoders.Encoding:
        states = self.layer(states)
        match self.fault:
            case "ignores_padding":
                states = states + batch.mask.shape[1]
            case "is_the_same_in_any_order":
                states = states + torch.arange(len(states))[:, None, None]
            case "follows_its_type":
                states = states.float()
            case "reads_short_and_empty_sentences":
                states = states / (batch.lengths - 1)[:, None, None]
        return NoContext()(states, batch)


def broken(fault: str) -> Callable[[int], SentenceEncoder]:
    def build(size: int) -> SentenceEncoder:
        if fault == "is_decided_by_its_seed":
            torch.seed()
        width = 5 if fault == "has_its_width" else 4
        return SentenceEncoder(WordEmbedding(size, 4), Context(fault), pooler=MeanPooling(), output_dim=width)

    return build


@pytest.mark.parametrize("law", ENCODER_LAWS)
def test_a_broken_encoder_is_found_out(law: str) -> None:
    check_encoder(broken("nothing"))
    with pytest.raises(AssertionError):
        ENCODER_LAWS[law](broken(law))
    with pytest.raises(AssertionError, match=f"^({'|'.join(ENCODER_LAWS)}): "):
        check_encoder(broken(law))


class Broken(ShortArcs):
    """A distribution that does one thing wrong."""

    fault = ""

    def has(self, fault: str) -> bool:
        return self.fault == fault

    def log_partition(self) -> Tensor:
        value = super().log_partition()
        return value + self.scores.nan_to_num(0).sum((-1, -2)) if self.has("ignores_padding") else value

    def marginals(self) -> Tensor:
        value = super().marginals()
        return value.detach() if self.has("has_exact_derivatives") else value

    def topk(self, k: int) -> Tensor:
        parts = super().topk(k)
        return parts[:1].expand_as(parts) if self.has("has_different_best_structures") else parts

    def cross_entropy(self, q: StructuredDistribution) -> Tensor:
        return super().cross_entropy(self if self.has("has_exact_divergences") else q)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return self if self.has("has_any_batch_axes") else super().expand(batch_shape)

    def to_structure(self, parts: Tensor) -> Tensor:
        heads = super().to_structure(parts)
        return heads.clamp(max=1) if self.has("translates_structures_and_parts") else heads

    def sample(self, sample_shape: Any = (), generator: Any = None) -> Tensor:
        samples = super().sample(sample_shape, generator)
        return samples[:1].expand_as(samples) if self.has("samples_with_its_probabilities") else samples

    def entropy(self) -> Tensor:
        return super().entropy() * (0.5 if self.has("has_as_many_structures_as_it_says") else 1.0)

    def __repr__(self) -> str:
        hidden = ", max_distance: 1" if self.has("shows_and_compares_its_options") else "nothing"
        return super().__repr__().replace(hidden, "")


class Wide(ShortArcs):
    """A distribution whose gradient of the log-partition is not that of its marginals, but of twice the scores."""

    def log_partition(self) -> Tensor:
        value = super().log_partition()
        return 2 * value - value.detach()


(SHORT,) = (family for family in FAMILIES if family.name == "projective, short arcs")


def family_with(fault: str) -> Family:
    kind = Wide if fault == "has_marginals_that_are_the_gradient" else type(fault, (Broken,), {"fault": fault})
    return dataclasses.replace(SHORT, build=functools.partial(kind, max_distance=1))


@pytest.mark.parametrize("law", [*DISTRIBUTION_LAWS])
def test_a_broken_distribution_is_found_out(law: str) -> None:
    if law == "agrees_with_the_list_of_all_structures":
        family = dataclasses.replace(SHORT, list_parts=lambda length, n: [SHORT.list_parts(length, n)[0][:3]])
    else:
        DISTRIBUTION_LAWS[law](family_with("nothing"))
        family = family_with(law)
    with pytest.raises(AssertionError):
        DISTRIBUTION_LAWS[law](family)
    with pytest.raises(AssertionError, match=f"^({'|'.join(DISTRIBUTION_LAWS)}): "):
        check_distribution(family)


def test_an_option_that_is_not_compared_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(score_arrays, "are_equal", lambda first, second: True)
    with pytest.raises(AssertionError, match="different values of max_distance are compared"):
        DISTRIBUTION_LAWS["shows_and_compares_its_options"](SHORT)


def test_a_count_that_takes_too_long_fails_with_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distribution_laws, "COUNT_SECONDS", -1.0)
    with pytest.raises(
        AssertionError, match=r"count\(1\) of the family 'projective, short arcs' took .*: expected a closed"
    ):
        DISTRIBUTION_LAWS["has_as_many_structures_as_it_says"](SHORT)
    DISTRIBUTION_LAWS["has_as_many_structures_as_it_says"](dataclasses.replace(SHORT, count=None))


def test_parts_that_do_not_fit_the_scores_are_refused() -> None:
    family = dataclasses.replace(SHORT, list_parts=lambda length, n: [torch.zeros(1, n, n).double()])
    message = r"list_parts\(2, 3\) of .* shapes \[\(1, 3, 3\)\]: expected .* each shape of \[\(3, 4\)\]"
    with pytest.raises(ValueError, match=message):
        family.enumerate(family.random_scores(3), 2, 3)


FINE, DULL = (sa.Example((sa.Sentence(["so", word]),), label) for word, label in (("fine", "1"), ("dull", "0")))
TEXT = "1 so fine\n0 so dull\n"


def test_a_reader_of_the_table() -> None:
    check_reader(find_reader("labelled"), TEXT, [FINE, DULL])


def naive(path: Path) -> Iterator[sa.Example]:
    """A reader as one writes it on the first evening."""
    with open(path, encoding="utf-8", newline="\n") as lines:
        for line in lines:
            label, *words = line.removesuffix("\n").split(" ")
            if label not in "01":
                raise ParseError(f"expected 0 or 1, got {label!r}")
            yield sa.Example((sa.Sentence(words),), label)


def test_a_naive_reader_is_found_out() -> None:
    found = []
    for name, law in READER_LAWS.items():
        try:
            law(naive, TEXT, [FINE, DULL])
        except (AssertionError, UnicodeDecodeError, ParseError):
            found.append(name)
    assert found == ["reads_compressed_files", "reads_other_line_ends", "names_what_is_wrong"]
    with pytest.raises(AssertionError, match=r"^reads_compressed_files: UnicodeDecodeError: "):
        check_reader(naive, TEXT, [FINE, DULL])
    with pytest.raises(AssertionError, match="the reader returns a list"):
        READER_LAWS["streams"](lambda path: list(naive(path)), TEXT, [FINE, DULL])
    with pytest.raises(AssertionError, match="expected '0', got '1'"):
        READER_LAWS["reads_what_is_there"](naive, TEXT.replace("0", "1"), [FINE, DULL])
    with pytest.raises(AssertionError, match="a missing file is read"):
        READER_LAWS["says_that_a_file_is_missing"](lambda path: iter(()), "", [])
