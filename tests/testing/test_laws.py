"""``structattn.testing``: our own parts obey the laws, and every law finds a part that breaks it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import structattn as sa
from structattn.data.readers.formats import find_reader
from structattn.encoders import SentenceEncoder
from structattn.encoders.sentence_encoder import NoContext
from structattn.errors import ParseError
from structattn.layers import MeanPooling, WordEmbedding
from structattn.priors import AttentionBias, Prior
from structattn.testing import ENCODER_LAWS, PRIOR_LAWS, READER_LAWS, check_encoder, check_prior, check_reader

PRIORS = {
    "sum": sa.priors.Forward() + 0.5 * sa.priors.DependencyDistance(),
    "per head": sa.priors.PerHead([sa.priors.Backward(), None, sa.priors.ConstituencyDistance()]),
    "relation": sa.priors.Relation("same", as_mask=True),
    "learnt": sa.priors.LearnableAlpha(2) * sa.priors.WordDistance(),
}


@pytest.mark.parametrize("law", PRIOR_LAWS.values(), ids=PRIOR_LAWS)
@pytest.mark.parametrize("name", PRIORS)
def test_priors(name: str, law: Callable[..., None]) -> None:
    law(PRIORS[name])


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


def test_an_encoder_of_the_table() -> None:
    check_encoder(lambda size: sa.encoders.build("ms_san", vocab_size=size, dim=12, dropout=0.0))


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


FINE, DULL = (sa.Example((sa.Sentence(["so", word]),), label) for word, label in (("fine", "1"), ("dull", "0")))
TEXTS = {"labelled": "1 so fine\n0 so dull\n", "tsv": "text\tlabel\nso fine\t1\nso dull\t0\n"}


@pytest.mark.parametrize("format", TEXTS)
def test_readers(format: str) -> None:
    check_reader(find_reader(format), TEXTS[format], [FINE, DULL])


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
            law(naive, TEXTS["labelled"], [FINE, DULL])
        except (AssertionError, UnicodeDecodeError, ParseError):
            found.append(name)
    assert found == ["reads_compressed_files", "reads_other_line_ends", "names_what_is_wrong"]
    with pytest.raises(AssertionError, match=r"^reads_compressed_files: UnicodeDecodeError: "):
        check_reader(naive, TEXTS["labelled"], [FINE, DULL])
    with pytest.raises(AssertionError, match="the reader returns a list"):
        READER_LAWS["streams"](lambda path: list(naive(path)), TEXTS["labelled"], [FINE, DULL])
    with pytest.raises(AssertionError, match="expected '0', got '1'"):
        READER_LAWS["reads_what_is_there"](naive, TEXTS["labelled"].replace("0", "1"), [FINE, DULL])
    with pytest.raises(AssertionError, match="a missing file is read"):
        READER_LAWS["says_that_a_file_is_missing"](lambda path: iter(()), "", [])
