"""Laws that every structured distribution obeys, against the list of all its structures."""

import copy
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck
from torch.distributions import kl_divergence

from structattn.distributions import StructuredDistribution
from structattn.testing.sample_sentences import assert_close, run_laws

#: Seconds of processor time for one call of `Family.count`, which a closed form or a recursion takes no notice of.
COUNT_SECONDS = 1.0


@dataclass(frozen=True)
class Family:
    """A family of distributions as its laws see it: how to build one, and the list of all its structures.

    A potential is an array of scores, shaped like the parts that it scores. The first one is shaped like the parts of a
    structure, as `StructuredDistribution.marginals` returns them.

    Args:
        name: a name for messages and tests.
        shapes: from a number of words ``n`` to the shape of each potential of one sentence, without batch axes.
        build: ``build(*potentials, lengths=None, *, validate_args=None)``, a distribution. Options that it needs are
            set here: ``functools.partial(MyDistribution, max_distance=2)``.
        list_parts: every structure by brute force. ``list_parts(length, n)`` has, for each potential of ``n`` words, a
            tensor of 0 and 1 in double precision, ``(structure, *shape)``: which parts each structure of the first
            ``length <= n`` words has. No words have one structure, without parts. The laws call it for ``n <= 5``.
        count: the number of structures of ``n >= 1`` words, by a closed form or a recursion: the laws call it for up to
            50 words, of which no enumeration comes to an end. They skip it if it is ``None``, and fail with a message
            if it takes longer than a second.
        options: the options of the distribution, by attribute, as its ``repr`` is to show them after scores and
            lengths.
        shared: the indices of the potentials that all sentences of a batch share, such as a matrix of transitions.

    Example:
        >>> from structattn.distributions import LinearChainCRF
        >>> def list_parts(length, n):
        ...     tags = torch.cartesian_prod(*[torch.arange(2)] * length).view(-1, length) if length else [[]]
        ...     states, edges = torch.zeros(len(tags), n, 2).double(), torch.zeros(len(tags), 2, 2).double()
        ...     for row, sequence in enumerate(tags):
        ...         for position, tag in enumerate(sequence):
        ...             states[row, position, tag] = 1
        ...             if position:
        ...                 edges[row, sequence[position - 1], tag] += 1
        ...     return [states, edges]
        >>> chain = Family("chain", lambda n: [(n, 2), (2, 2)], LinearChainCRF, list_parts, lambda n: 2**n, shared=(1,))
        >>> round(chain.enumerate(chain.random_scores(3), 3, 3).log_count().exp().item())
        8
    """

    name: str
    shapes: Callable[[int], list[tuple[int, ...]]]
    build: Callable[..., StructuredDistribution]
    list_parts: Callable[[int, int], list[Tensor]]
    count: Callable[[int], int] | None = None
    options: Mapping[str, object] = field(default_factory=dict)
    shared: Sequence[int] = ()

    def random_scores(
        self, n: int, *batch: int, seed: int = 0, spread: float = 2.0, forbidden: float = 0.0
    ) -> list[Tensor]:
        """Normally distributed potentials of ``n`` words, in double precision.

        Args:
            n: number of words.
            *batch: batch axes, in front of each potential that is not shared.
            seed: the same seed gives the same numbers.
            spread: their standard deviation.
            forbidden: the share of scores that are ``-inf``.
        """
        generator = torch.Generator().manual_seed(seed)
        potentials = []
        for index, shape in enumerate(self.shapes(n)):
            axes = () if index in self.shared else batch
            scores = spread * torch.randn(*axes, *shape, generator=generator, dtype=torch.float64)
            mask = torch.rand(scores.shape, generator=generator) < forbidden
            potentials.append(scores.masked_fill(mask, -torch.inf))
        return potentials

    def select(self, potentials: Sequence[Tensor], index: Any) -> list[Tensor]:
        """The potentials of the sentences that an index selects; those that are shared stay as they are.

        Args:
            potentials: potentials with batch axes.
            index: as for a tensor.
        """
        return [scores if number in self.shared else scores[index] for number, scores in enumerate(potentials)]

    def enumerate(self, potentials: Sequence[Tensor], length: int, n: int) -> "Enumerated":
        """The same distribution as a list of structures.

        Args:
            potentials: potentials of ``n`` words, with any batch axes.
            length: the number of words of each sentence.
            n: the number of words with padding.

        Raises:
            ValueError: if ``list_parts`` does not fit the shapes of the potentials.
        """
        parts, shapes = self.list_parts(length, n), self.shapes(n)
        if [tuple(used.shape[1:]) for used in parts] != [tuple(shape) for shape in shapes]:
            raise ValueError(
                f"list_parts({length}, {n}) of {self.name!r} returns tensors of shapes "
                f"{[tuple(used.shape) for used in parts]}: expected (structures, *shape) for each shape of {shapes}"
            )
        scores = [array.flatten(array.dim() - len(shape)) for array, shape in zip(potentials, shapes, strict=True)]
        batch = torch.broadcast_shapes(*(array.shape[:-1] for array in scores))
        scores = [array.expand(*batch, array.shape[-1]) for array in scores]
        return Enumerated(torch.cat([used.flatten(1) for used in parts], 1), torch.cat(scores, -1))


class Enumerated:
    """A distribution over a list of structures: ``used (structure, part)``, ``scores (..., part)``."""

    def __init__(self, used: Tensor, scores: Tensor) -> None:
        forbidden = (scores == -torch.inf).double() @ used.T
        self.used = used
        self.values = (scores.masked_fill(scores == -torch.inf, 0) @ used.T).masked_fill(forbidden > 0, -torch.inf)

    def log_partition(self) -> Tensor:
        """Logarithm of the sum of the exponentials of all scores."""
        return self.values.logsumexp(-1)

    def probabilities(self) -> Tensor:
        """The probability of each structure; zero if nothing is allowed."""
        return self.values.softmax(-1).nan_to_num(0)

    def marginals(self) -> Tensor:
        """The sum of the probabilities of the structures with each part."""
        return self.probabilities() @ self.used

    def entropy(self) -> Tensor:
        """The sum of ``-p log p`` over the list."""
        return self.cross_entropy(self)

    def cross_entropy(self, q: "Enumerated") -> Tensor:
        """The sum of ``-p log q`` over the list."""
        log_q = (q.values - q.log_partition().unsqueeze(-1)).nan_to_num(nan=-torch.inf, neginf=-torch.inf)
        p = self.probabilities()
        return (-p * log_q).masked_fill(p == 0, 0).sum(-1)

    def log_count(self) -> Tensor:
        """Logarithm of the number of structures that are allowed."""
        return (self.values > -torch.inf).double().sum(-1).log()

    def topk_scores(self, count: int) -> Tensor:
        """The best scores, in front; ``-inf`` where there are fewer structures."""
        best = self.values.sort(-1, descending=True).values[..., :count]
        missing = best.new_full((*best.shape[:-1], count - best.shape[-1]), -torch.inf)
        return torch.cat([best, missing], -1).movedim(-1, 0)


def check_distribution(family: Family) -> None:
    """Check a family of distributions against all ``DISTRIBUTION_LAWS``.

    Sentences have up to five words, where all structures can be listed; counts of up to 50 words are compared with
    ``family.count``. It takes a second or two.

    Args:
        family: how to build its distributions, and the list of all structures.

    Raises:
        AssertionError: for the first law that it breaks, by name.

    Example:
        >>> from functools import partial
        >>> from structattn.distributions import NonProjectiveDependencyCRF
        >>> def list_parts(length, n):  # the trees of the base, without those that the option forbids
        ...     trees = NonProjectiveDependencyCRF(torch.zeros(n, n + 1, dtype=torch.float64), length)
        ...     parts = trees.topk(round(trees.log_count().exp().item()))
        ...     return [parts[parts[:, :, 0].sum(-1) <= 1]]
        >>> one_root = partial(NonProjectiveDependencyCRF, single_root=True)
        >>> check_distribution(
        ...     Family(
        ...         "trees with one root",
        ...         shapes=lambda n: [(n, n + 1)],
        ...         build=one_root,
        ...         list_parts=list_parts,
        ...         count=lambda n: n ** (n - 1),
        ...         options={"single_root": True},
        ...     )
        ... )
    """
    run_laws(DISTRIBUTION_LAWS, family)


def agrees_with_the_list_of_all_structures(family: Family) -> None:
    """Log-partition, marginals, entropy, counts and best scores of 0 to 5 words are those of the list."""
    for n in range(6):
        for forbidden in (0.0, 0.15, 0.5):
            potentials = family.random_scores(n, 50 if n < 5 else 8, seed=n, forbidden=forbidden)
            ours, twin = family.build(*potentials), family.enumerate(potentials, n, n)
            marginals = twin.marginals()[:, : ours.event_shape.numel()]
            expected = {
                "log_partition": twin.log_partition(),
                "marginals": marginals.reshape(ours.batch_shape + ours.event_shape),
                "entropy": twin.entropy(),
                "log_count": twin.log_count(),
            }
            for name, value in expected.items():
                _assert_close(getattr(ours, name)(), value, f"{name} and the list of all structures of {n} words")
            _assert_close(ours.topk_scores(5), twin.topk_scores(5), f"the best scores of {n} words and of the list")
            feasible = twin.log_partition() > -torch.inf
            best = ours[feasible].log_prob(ours[feasible].argmax())
            _assert_close(
                best, (twin.topk_scores(1)[0] - twin.log_partition())[feasible], "log_prob of argmax and of the best"
            )
            assert not bool(ours.argmax()[~feasible].any()), "argmax has parts where nothing is allowed"
            assert not bool(ours.sample((2,))[:, ~feasible].any()), "samples have parts where nothing is allowed"


def has_different_best_structures(family: Family) -> None:
    """The k best are different structures, with the scores that `topk_scores` says; the first one is the mode."""
    ours = family.build(*family.random_scores(4, 10, seed=3))
    parts, scores = ours.topk(6), ours.topk_scores(6)
    real = scores > -torch.inf
    for rank in range(6):
        if real[rank].all():
            _assert_close(
                ours.log_prob(parts[rank]) + ours.log_partition(), scores[rank], f"the score of best structure {rank}"
            )
    flat = parts.flatten(2)
    equal = (flat[:, None] == flat[None]).all(-1) & real[:, None] & real[None]
    assert torch.equal(equal.sum((0, 1)), real.sum(0)), "two of the best structures are the same"
    _assert_close(parts[0], ours.argmax(), "topk and argmax")
    _assert_close(parts[0], ours.mode, "topk and mode")


def has_exact_divergences(family: Family) -> None:
    """Cross-entropy and divergence are those of the list of all structures."""
    first, second = (family.random_scores(4, 20, seed=seed, forbidden=0.1) for seed in (1, 2))
    p, q = family.build(*first), family.build(*second)
    twin_p, twin_q = family.enumerate(first, 4, 4), family.enumerate(second, 4, 4)
    _assert_close(p.cross_entropy(q), twin_p.cross_entropy(twin_q), "cross-entropies")
    _assert_close(kl_divergence(p, q), twin_p.cross_entropy(twin_q) - twin_p.entropy(), "divergences")
    _assert_close(kl_divergence(p, p), torch.zeros(20, dtype=torch.float64), "the divergence from itself and zero")


def has_exact_derivatives(family: Family) -> None:
    """First and second derivatives of every value agree with finite differences."""
    lengths = torch.tensor([3, 2])
    potentials = family.random_scores(3, 2, seed=5, spread=1.0, forbidden=0.1)
    for name in ("log_partition", "marginals", "entropy"):

        def value(*scores: Tensor, name: str = name) -> Tensor:
            result: Tensor = getattr(family.build(*scores, lengths), name)()
            return result

        _check_derivatives(value, potentials, name)
    potentials = family.random_scores(3, 2, seed=6, spread=1.0)
    reference = family.build(*family.random_scores(3, 2, seed=7, spread=1.0))
    parts = reference.argmax()

    _check_derivatives(lambda *scores: family.build(*scores).log_prob(parts), potentials, "log_prob")
    _check_derivatives(lambda *scores: kl_divergence(family.build(*scores), reference), potentials, "kl_divergence")


def has_marginals_that_are_the_gradient(family: Family) -> None:
    """Marginals are the gradient of the log-partition."""
    potentials = [scores.requires_grad_() for scores in family.random_scores(4, 3, seed=8)]
    ours = family.build(*potentials)
    (gradient,) = torch.autograd.grad(ours.log_partition().sum(), potentials[:1])
    _assert_close(gradient, ours.marginals(), "the gradient of the log-partition and the marginals")


def ignores_padding(family: Family) -> None:
    """Scores beyond the end of a sentence, or of no part, are not read, and a batch is its sentences."""
    n, lengths = 5, torch.tensor([5, 0, 3, 1, 4, 2])
    potentials = family.random_scores(n, len(lengths), seed=9)
    whole = family.build(*potentials, lengths)
    # What the distribution gives no probability is padding, or no part at all: nothing in it may matter.
    garbage = [potentials[0].masked_fill(whole.marginals() == 0, torch.nan), *potentials[1:]]
    spoilt = family.build(*garbage, lengths)
    for name in ("log_partition", "marginals", "entropy", "argmax", "log_count"):
        _assert_close(getattr(spoilt, name)(), getattr(whole, name)(), f"{name} with garbage as padding")
    for item, length in enumerate(lengths.tolist()):
        single = family.select(potentials, item)
        alone = family.build(*single, torch.tensor(length))
        both = f"of sentence {item} alone and in a batch"
        _assert_close(alone.log_partition(), whole.log_partition()[item], f"log_partition {both}")
        _assert_close(alone.marginals(), whole.marginals()[item], f"marginals {both}")
        _assert_close(alone.topk(2), whole.topk(2)[:, item], f"topk {both}")
        twin = family.enumerate(single, length, n)
        _assert_close(twin.log_partition(), whole.log_partition()[item], f"log_partition of {length} of {n} words")


def has_any_batch_axes(family: Family) -> None:
    """Two batch axes are one, flattened; `expand` repeats sentences; samples and structures have axes in front."""
    potentials = family.random_scores(3, 6, seed=10)
    flat = family.build(*potentials)
    nested = family.build(*family.select(potentials, torch.arange(6).view(2, 3)), torch.full((2, 3), 3))
    assert nested.batch_shape == (2, 3), f"expected the batch shape (2, 3), got {tuple(nested.batch_shape)}"
    _assert_close(nested.marginals().flatten(0, 1), flat.marginals(), "marginals with one and two batch axes")
    _assert_close(nested.topk_scores(2).flatten(1), flat.topk_scores(2), "topk_scores with one and two batch axes")
    shape, expected = nested.sample((4, 5)).shape, (4, 5, 2, 3, *nested.event_shape)
    assert shape == expected, f"expected samples of shape {expected}, got {tuple(shape)}"
    samples = nested.sample((4,))
    values, flat_values = nested.log_prob(samples), flat.log_prob(samples.flatten(1, 2))
    _assert_close(values.flatten(1), flat_values, "log_prob with one and two batch axes")
    wide = flat.expand((4, 6))
    assert wide.batch_shape == wide.lengths.shape == (4, 6), "expand does not give the batch shape it is asked for"
    assert flat.batch_shape == (6,), "expand changes the distribution itself"
    _assert_close(wide.entropy()[2], flat.entropy(), "the entropy of a distribution and expanded")


def translates_structures_and_parts(family: Family) -> None:
    """Samples are 0/1 parts of possible structures, which become structures and parts again."""
    ours = family.build(*family.random_scores(5, 4, seed=11), torch.tensor([5, 3, 1, 0]))
    parts = ours.sample((7,), generator=torch.Generator().manual_seed(0))
    assert bool(((parts == 0) | (parts == 1)).all()), "samples have parts that are not 0 or 1"
    _assert_close(ours.from_structure(ours.to_structure(parts)), parts, "parts, and parts of their structures")
    assert bool(torch.isfinite(ours.log_prob(parts)).all()), "samples have a log_prob that is not finite"


def samples_with_its_probabilities(family: Family) -> None:
    """The frequencies of 20,000 samples fit the probabilities; the same generator gives the same samples."""
    n, draws = 3, 20_000
    for forbidden in (0.0, 0.3):
        potentials = family.random_scores(n, 1, seed=37, spread=1.0, forbidden=forbidden)
        ours, twin = family.build(*potentials), family.enumerate(potentials, n, n)
        samples, again = (
            ours.sample((draws,), generator=torch.Generator().manual_seed(1)).flatten(2)[:, 0] for _ in range(2)
        )
        assert torch.equal(samples, again), "two generators of one seed give different samples"
        listed = twin.used[:, : samples.shape[-1]]
        # One structure may be part of another.
        sizes = listed.sum(-1)
        counts = ((samples @ listed.T == sizes) & (samples.sum(-1, keepdim=True) == sizes)).sum(0).double()
        assert counts.sum() == draws, "samples are not structures of the list"
        expected = twin.probabilities()[0] * draws
        assert not bool(counts[expected == 0].any()), "impossible structures are drawn"
        common = expected > 5
        chi_square = float(((counts - expected).square() / expected)[common].sum())
        degrees = int(common.sum()) - 1
        limit = degrees + 4 * math.sqrt(2 * degrees) + 4
        assert chi_square < limit, f"the frequencies of samples have a chi square of {chi_square:.1f}, over {limit:.1f}"
        mean, marginals = samples.mean(0), ours.marginals().flatten()
        deviation = (marginals * (1 - marginals) / draws).sqrt()
        assert bool(((mean - marginals).abs() <= 4.5 * deviation + 1e-12).all()), "samples do not have the marginals"


def has_as_many_structures_as_it_says(family: Family) -> None:
    """With equal scores, count and entropy of 1 to 50 words are those of ``family.count``."""
    if family.count is None:
        return
    for n in range(1, 51):
        # A slow count is noticed where it is a second, not where it would be a century.
        start = time.thread_time()
        expected = torch.tensor(math.log(family.count(n)), dtype=torch.float64)
        seconds = time.thread_time() - start
        assert seconds <= COUNT_SECONDS, (
            f"count({n}) of the family {family.name!r} took {seconds:.1f} seconds, and is needed for 50 words: "
            "expected a closed form or a recursion, not an enumeration; or None"
        )
        if n in (1, 2, 7, 20, 50):
            ours = family.build(*(torch.zeros(shape, dtype=torch.float64) for shape in family.shapes(n)))
            scale = max(1.0, expected.item())
            _assert_close(ours.log_count(), expected, f"log_count and count({n})", 1e-10 * scale)
            _assert_close(ours.entropy(), expected, f"the entropy of equal scores and count({n})", 1e-9 * scale)


def shows_and_compares_its_options(family: Family) -> None:
    """Options are attributes that ``repr`` shows; what differs in one is not compared; a copy is the same."""
    ours = family.build(*family.random_scores(3, 2, seed=1))
    shown = "".join(f", {name}: {value}" for name, value in family.options.items())
    ending = f", lengths: {ours.lengths.shape}{shown})"
    assert repr(ours).endswith(ending), f"expected {ending!r} at the end of {ours!r}"
    twin = copy.deepcopy(ours)
    assert repr(twin) == repr(ours), f"a copy of {ours!r} shows {twin!r}"
    _assert_close(twin.marginals(), ours.marginals(), "the marginals of a distribution and its copy")
    for name in family.options:
        different = copy.copy(ours)
        setattr(different, name, object())
        is_refused = False
        try:
            kl_divergence(ours, different)
        except Exception as error:  # any other error: the value was used
            is_refused = isinstance(error, ValueError)
        assert is_refused, f"distributions with different values of {name} are compared"


#: From the name of each law to the function that checks it: ``law(family)``.
DISTRIBUTION_LAWS: Mapping[str, Callable[[Family], None]] = {
    law.__name__: law
    for law in (
        agrees_with_the_list_of_all_structures,
        has_different_best_structures,
        has_exact_divergences,
        has_exact_derivatives,
        has_marginals_that_are_the_gradient,
        ignores_padding,
        has_any_batch_axes,
        translates_structures_and_parts,
        samples_with_its_probabilities,
        has_as_many_structures_as_it_says,
        shows_and_compares_its_options,
    )
}


def _check_derivatives(function: Callable[..., Tensor], potentials: Sequence[Tensor], values: str) -> None:
    leaves = tuple(scores.requires_grad_() for scores in potentials)
    for order, check in (("first", gradcheck), ("second", gradgradcheck)):
        try:
            check(function, leaves, fast_mode=True)
        except RuntimeError as error:  # what torch raises where derivatives disagree
            raise AssertionError(f"{order} derivatives of {values}: {error}") from error


def _assert_close(first: Tensor, second: Tensor, values: str, tolerance: float = 1e-9) -> None:
    assert_close(first, second, values, atol=tolerance, rtol=0.0)
