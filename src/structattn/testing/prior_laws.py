"""Laws that every prior obeys."""

import copy
import math
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from structattn.data import collate
from structattn.functional import attention
from structattn.priors import AttentionBias, Forward, Prior, WordDistance
from structattn.syntax import Sentence
from structattn.testing.sample_sentences import batch_of, run_laws, sample_sentences, vocabulary_of


def check_prior(prior: Prior, sentences: Sequence[Sentence] | None = None) -> None:
    """Check a prior against all ``PRIOR_LAWS``.

    Args:
        prior: the prior.
        sentences: sentences of different lengths with what the prior reads; ``sample_sentences()`` if ``None``.

    Raises:
        AssertionError: for the first law that it breaks, by name.

    Example:
        >>> from structattn.priors import DependencyDistance, Forward
        >>> check_prior(Forward() + 0.5 * DependencyDistance())
    """
    run_laws(PRIOR_LAWS, prior, sentences=sentences)


def has_shape_and_type(prior: Prior, sentences: Sequence[Sentence] | None = None) -> None:
    """``allowed`` is bool and ``bias`` is floating and finite; both broadcast to ``(batch, head, query, key)``."""
    batch = batch_of(_sample(sentences))
    value = prior(batch)
    assert value.allowed is not None or value.bias is not None, "expected a mask or a bias, got neither"
    heads = prior.num_heads or 3
    full = (len(batch), heads, *batch.mask.shape[1:], batch.mask.shape[1])
    for name, part in (("allowed", value.allowed), ("bias", value.bias)):
        if part is not None:
            assert (part.dtype == torch.bool) == (name == "allowed"), f"{name} is {part.dtype}"
            assert torch.broadcast_shapes(part.shape, full) == full, f"{name} is {tuple(part.shape)}, not {full}"
            assert bool(part.isfinite().all()), f"{name} is not finite; a pair that is forbidden belongs to allowed"
    assert prior.name, "expected a name for pictures and errors, got none"


def ignores_padding(prior: Prior, sentences: Sequence[Sentence] | None = None) -> None:
    """Among the words of a sentence, the value is the same alone and beside longer sentences."""
    sentences = _sample(sentences)
    vocabulary = vocabulary_of(sentences)
    together = prior(batch_of(sentences))
    for row, sentence in enumerate(sentences):
        alone = prior(collate([sentence], vocabulary))
        size = len(sentence)
        _assert_same(_cut(together, row, size), _cut(alone, 0, size), f"sentence {row} alone and in a batch")


def is_the_same_in_any_order(prior: Prior, sentences: Sequence[Sentence] | None = None) -> None:
    """The order of the sentences in a batch does not matter."""
    sentences = _sample(sentences)
    forward, backward = prior(batch_of(sentences)), prior(batch_of(sentences[::-1]))
    for row, sentence in enumerate(sentences):
        last = len(sentences) - 1 - row
        size = len(sentence)
        _assert_same(_cut(forward, row, size), _cut(backward, last, size), f"sentence {row} in two orders")


def adds_and_scales(prior: Prior, sentences: Sequence[Sentence] | None = None) -> None:
    """Sums commute, scaling distributes, and zero times a prior still forbids what it forbids."""
    batch = batch_of(_sample(sentences))
    for term in (WordDistance(), Forward()):
        _assert_same((prior + term)(batch), (term + prior)(batch), "a + b and b + a")
        _assert_same((prior + term)(batch), prior(batch) + term(batch), "the value of a sum and the sum of values")
        scaled, terms = 1.5 * (prior + term), 1.5 * prior + 1.5 * term
        _assert_same(scaled(batch), terms(batch), "1.5 (a + b) and 1.5 a + 1.5 b")
    _assert_same((0 * prior)(batch), AttentionBias(prior(batch).allowed, None), "0 a and the mask of a")


def is_equal_where_its_key_is(prior: Prior, sentences: Sequence[Sentence] | None = None) -> None:
    """A copy has the same value; two priors with equal cache keys have equal values."""
    batch = batch_of(_sample(sentences))
    twin = copy.deepcopy(prior)
    _assert_same(twin(batch), prior(batch), "a prior and its copy")
    twin.load_state_dict(prior.state_dict())
    _assert_same(twin(batch), prior(batch), "a prior and a copy with its parameters")


def leaves_no_nan(prior: Prior, sentences: Sequence[Sentence] | None = None) -> None:
    """Attention under the prior is finite, a row without an allowed key is zero, and gradients are finite."""
    batch = batch_of(_sample(sentences))
    value = prior(batch)
    heads, size = prior.num_heads or 2, batch.mask.shape[1]
    generator = torch.Generator().manual_seed(0)
    states = torch.randn(len(batch), heads, size, 4, generator=generator, requires_grad=True)
    keys = batch.mask[:, None, None, :]
    allowed = keys if value.allowed is None else keys & value.allowed
    output, weights = attention(states, states, states, allowed, value.bias, need_weights=True)
    assert bool(output.isfinite().all()), "attention under the prior is not finite"
    assert weights is not None
    empty = ~allowed.expand(weights.shape).any(-1)
    assert not bool(weights[empty].any()), "a row without an allowed key has weights"
    (gradient,) = torch.autograd.grad(output.square().sum(), states)
    assert bool(gradient.isfinite().all()), "gradients through attention under the prior are not finite"


#: From the name of each law to the function that checks it: ``law(prior, sentences=None)``.
PRIOR_LAWS: Mapping[str, Callable[..., None]] = {
    law.__name__: law
    for law in (
        has_shape_and_type,
        ignores_padding,
        is_the_same_in_any_order,
        adds_and_scales,
        is_equal_where_its_key_is,
        leaves_no_nan,
    )
}


def _sample(sentences: Sequence[Sentence] | None) -> list[Sentence]:
    return sample_sentences() if sentences is None else list(sentences)


def _cut(value: AttentionBias, row: int, size: int) -> AttentionBias:
    """The value of one sentence, without padding."""

    def cut(part: Tensor | None) -> Tensor | None:
        if part is None:
            return None
        first = row if len(part) > 1 else 0
        part = part[first : first + 1]
        rows = slice(size) if part.shape[-2] > 1 else slice(None)
        columns = slice(size) if part.shape[-1] > 1 else slice(None)
        return part[..., rows, columns]

    return AttentionBias(cut(value.allowed), cut(value.bias))


def _assert_same(first: AttentionBias, second: AttentionBias, values: str) -> None:
    """Equal in meaning: ``None`` is all allowed, or zero. Where a key is forbidden, its bias is of no account."""
    allowed = [torch.tensor(True) if value.allowed is None else value.allowed for value in (first, second)]
    bias = [torch.tensor(0.0) if value.bias is None else value.bias for value in (first, second)]
    both, reach = torch.broadcast_tensors(*allowed), torch.broadcast_tensors(*allowed, *bias)
    assert torch.equal(*both), f"{values} allow different keys"
    left, right = (part.masked_fill(~mask, 0.0) for part, mask in zip(reach[2:], reach[:2], strict=True))
    difference = float((left - right).detach().abs().max()) if left.numel() else 0.0
    assert math.isfinite(difference), f"{values} have a bias that is not finite"
    assert torch.allclose(left, right, atol=1e-6), f"{values} have biases that differ by {difference:.3g}"
