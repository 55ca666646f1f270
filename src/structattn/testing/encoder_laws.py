"""Laws that every sentence encoder obeys."""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from structattn.data import Vocabulary, collate
from structattn.encoders import Encoding, SentenceEncoder
from structattn.syntax import ConstituencyTree, DependencyTree, Sentence
from structattn.testing.sample_sentences import assert_close, run_laws, sample_sentences, vocabulary_of

Build = Callable[[int], SentenceEncoder]


def check_encoder(build: Build, sentences: Sequence[Sentence] | None = None) -> None:
    """Check an encoder against all ``ENCODER_LAWS``.

    Args:
        build: from the number of word ids to a fresh encoder, without dropout.
        sentences: sentences of different lengths with what it reads; ``sample_sentences()`` if ``None``.

    Raises:
        AssertionError: for the first law that it breaks, by name.

    Example:
        >>> from structattn.encoders import build
        >>> check_encoder(lambda size: build("disan", vocab_size=size, dim=6, dropout=0.0))
    """
    run_laws(ENCODER_LAWS, build, sentences=sentences)


def ignores_padding(build: Build, sentences: Sequence[Sentence] | None = None) -> None:
    """A sentence has the same states and vector alone and beside longer ones, in both modes; padded states are zero."""
    sample = _Sample(build, sentences)
    for training in (True, False):
        sample.encoder.train(training)
        together = sample.encode(sample.sentences)
        for row, sentence in enumerate(sample.sentences):
            alone = sample.encode([sentence])
            mode = "training" if training else "evaluation"
            _assert_close(_vector(together)[row : row + 1], _vector(alone), f"the vector of sentence {row} in {mode}")
            real, expected = together.states[row][together.mask[row]], alone.states[0][alone.mask[0]]
            _assert_close(real, expected, f"the states of sentence {row} in {mode}")
            assert not bool(together.states[row][~together.mask[row]].any()), "padded states are not zero"


def is_the_same_in_any_order(build: Build, sentences: Sequence[Sentence] | None = None) -> None:
    """The order of the sentences in a batch does not matter."""
    sample = _Sample(build, sentences)
    forward, backward = sample.encode(sample.sentences), sample.encode(sample.sentences[::-1])
    _assert_close(_vector(forward), _vector(backward).flip(0), "vectors in two orders")


def has_its_width(build: Build, sentences: Sequence[Sentence] | None = None) -> None:
    """Vectors have the width ``output_dim``."""
    sample = _Sample(build, sentences)
    vector = _vector(sample.encode(sample.sentences))
    width = (len(sample.sentences), sample.encoder.output_dim)
    assert tuple(vector.shape) == width, f"expected vectors of shape {width}, got {tuple(vector.shape)}"


def follows_its_type(build: Build, sentences: Sequence[Sentence] | None = None) -> None:
    """In double precision, the result is double and agrees with single precision."""
    sample = _Sample(build, sentences)
    single = _vector(sample.encode(sample.sentences))
    sample.encoder.double()
    double = _vector(sample.encode(sample.sentences))
    assert double.dtype == torch.float64, f"a double encoder gives {double.dtype}"
    _assert_close(single.double(), double, "single and double precision", atol=1e-5, rtol=1e-4)


def learns_with_every_parameter(build: Build, sentences: Sequence[Sentence] | None = None) -> None:
    """Gradients reach every parameter and are finite."""
    sample = _Sample(build, sentences)
    vector = _vector(sample.encode(sample.sentences))
    weights = torch.randn(vector.shape, generator=torch.Generator().manual_seed(5))
    (vector * weights).sum().backward()
    for name, parameter in sample.encoder.named_parameters():
        assert parameter.grad is not None, f"{name} gets no gradient"
        assert bool(parameter.grad.isfinite().all()), f"the gradient of {name} is not finite"
        assert bool(parameter.grad.any()), f"the gradient of {name} is zero everywhere"


def reads_short_and_empty_sentences(build: Build, sentences: Sequence[Sentence] | None = None) -> None:
    """Sentences of one word, of an unknown word and of no words have finite vectors and gradients."""
    sample = _Sample(build, sentences)
    unknown = Sentence(
        ["unseen"], ["X"], DependencyTree([0], ["root"]), ConstituencyTree.from_brackets("(S (X unseen))")
    )
    alone = _vector(sample.encode([unknown]))
    for few in ([unknown], [Sentence([])], [Sentence([])] * 2, [unknown, Sentence([]), sample.sentences[0]]):
        vector = _vector(sample.encode(few))
        lengths = [len(sentence) for sentence in few]
        assert bool(vector.isfinite().all()), f"the vectors of sentences of {lengths} words are not finite"
        if few[0] is unknown:
            _assert_close(vector[:1], alone, "the vector of a word alone and beside sentences without words")
        vector.sum().backward()
        for name, parameter in sample.encoder.named_parameters():
            assert parameter.grad is None or bool(parameter.grad.isfinite().all()), (
                f"the gradient of {name} is not finite for sentences of {lengths} words"
            )


def is_decided_by_its_seed(build: Build, sentences: Sequence[Sentence] | None = None) -> None:
    """The same seed gives the same parameters."""
    first, second = _Sample(build, sentences).encoder, _Sample(build, sentences).encoder
    for (name, left), right in zip(first.named_parameters(), second.parameters(), strict=True):
        assert torch.equal(left, right), f"two encoders of one seed differ in {name}"


#: From the name of each law to the function that checks it: ``law(build, sentences=None)``.
ENCODER_LAWS: Mapping[str, Callable[..., None]] = {
    law.__name__: law
    for law in (
        ignores_padding,
        is_the_same_in_any_order,
        has_its_width,
        follows_its_type,
        learns_with_every_parameter,
        reads_short_and_empty_sentences,
        is_decided_by_its_seed,
    )
}


class _Sample:
    """A fresh encoder and sentences for it; torch's random state stays as it was."""

    def __init__(self, build: Build, sentences: Sequence[Sentence] | None) -> None:
        self.sentences = sample_sentences() if sentences is None else list(sentences)
        self.vocabulary: Vocabulary = vocabulary_of(self.sentences)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.encoder = build(len(self.vocabulary))

    def encode(self, sentences: Sequence[Sentence]) -> Encoding:
        encoding: Encoding = self.encoder(collate(sentences, self.vocabulary))
        return encoding


def _vector(encoding: Encoding) -> Tensor:
    assert encoding.vector is not None, "the encoding has no vector"
    return encoding.vector


def _assert_close(first: Tensor, second: Tensor, values: str, *, atol: float = 2e-6, rtol: float = 1e-5) -> None:
    assert_close(first, second, values, atol=atol, rtol=rtol)
