"""Distributions over dependency trees: projective ones (Eisner's program) and all of them (the matrix-tree theorem).

Separate because both share their parts: row = word, column = CoNLL id of its head, 0 for the root.

Reference: Eisner (2000), Bilexical grammars; Koo et al. (2007), Structured prediction models via the matrix-tree
theorem; Kim et al. (2017), section 3.2. The papers index scores ``[head, modifier]``; here rows look and columns are
looked at.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from structattn import kernels
from structattn.distributions.distribution import Selector, StructuredDistribution
from structattn.distributions.lengths import checked_lengths, within
from structattn.distributions.semirings import ChartSelector
from structattn.distributions.spanning_tree import SpanningTreeSelector
from structattn.kernels import heads
from structattn.kernels.operators import Operators


class _HeadDistribution(StructuredDistribution):
    """What the two families share: an arc score for every word and head, whole trees as heads, one root or several."""

    def __init__(
        self,
        scores: Float[Tensor, "*batch word head_id"],
        lengths: Tensor | None = None,
        single_root: bool = False,
        *,
        validate_args: bool | None = True,
    ) -> None:
        self.single_root = single_root
        if scores.dim() < 2 or scores.shape[-1] != scores.shape[-2] + 1:
            raise ValueError(f"{type(self).__name__}: scores of shape {tuple(scores.shape)}: expected (..., n, n + 1)")
        lengths = checked_lengths(lengths, scores.shape[:-2], num_words=scores.shape[-2], like=scores)
        super().__init__(scores, lengths=lengths, event_shape=scores.shape[-2:], validate_args=validate_args)

    def to_structure(self, parts: Float[Tensor, "*shape word head_id"]) -> Int[Tensor, "*shape word"]:
        """Heads as CoNLL ids; 0 beyond the end of a sentence."""
        return parts.argmax(-1)

    def from_structure(self, structure: Int[Tensor, "*shape word"]) -> Float[Tensor, "*shape word head_id"]:
        """Parts of heads given as CoNLL ids; heads beyond the end are ignored."""
        words = structure.shape[-1]
        real = within(self.lengths, words)
        arcs = torch.nn.functional.one_hot(structure.where(real, 0), words + 1) * real[..., None]
        return arcs.to(self._given[0].dtype)

    def _real_parts(self) -> Tensor:
        return heads.real_arcs(self.lengths, self.event_shape[0]).flatten(-2)

    def _sizes(self) -> list[int]:
        return [self.event_shape[0], int(self.single_root)]

    def _shift(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        arcs = scores.unflatten(-1, tuple(self.event_shape))
        shift, total = heads.best_heads(arcs, single_root=self.single_root)
        return shift.flatten(1), total


class DependencyCRF(_HeadDistribution):
    r"""Projective dependency trees: Eisner (2000); Kim et al. (2017), section 3.2.

    ``p(z) = exp( sum over arcs of scores[m, h] - A )``. Row ``m`` is a word, column ``h`` the CoNLL id of its head: 0
    is the root, ``k`` is word ``k - 1``. Column ``m + 1`` of row ``m``, a word under itself, is ignored. Each row of
    the marginals sums to one, so ``marginals @ states`` (root state in front) is a soft head.

    Args:
        scores: score of each head of each word.
        lengths: number of words of each sentence; all ``n`` if not given.
        single_root: whether exactly one word hangs from the root; otherwise any number may.
        validate_args: check the scores and the arguments of `log_prob`; False saves time, and ``torch.vmap`` needs it.

    Raises:
        ValueError: if shapes or lengths do not fit together, or a score is nan or ``+inf``.

    Example:
        >>> from structattn.distributions import DependencyCRF
        >>> scores = torch.zeros(3, 4)
        >>> scores[1, 1], scores[2, 1] = 1.0, 2.0
        >>> trees = DependencyCRF(scores, single_root=True)
        >>> round(trees.log_count().exp().item()), trees.to_structure(trees.topk(2)).tolist()
        (7, [[0, 1, 1], [0, 3, 1]])
    """

    @property
    def _operators(self) -> Operators:
        return kernels.dependency.OPERATORS

    def _entropy(self, scores: Tensor, lengths: Tensor) -> Tensor:
        return kernels.dependency.ENTROPY(scores, lengths, self._sizes())[0]

    def _selector(self) -> Selector:
        return ChartSelector(kernels.dependency.chart(self.event_shape[0], self.single_root))


class NonProjectiveDependencyCRF(_HeadDistribution):
    r"""All dependency trees, crossing arcs included: Koo et al. (2007), section 3; Tutte's matrix-tree theorem.

    ``p(z) = exp( sum over arcs of scores[m, h] - A )``, where ``A`` is the log-determinant of the Laplacian of
    ``exp(scores)``, found by an elimination that never subtracts. Rows and columns as in `DependencyCRF`.

    Args:
        scores: score of each head of each word.
        lengths: number of words of each sentence; all ``n`` if not given.
        single_root: whether exactly one word hangs from the root; otherwise any number may.
        validate_args: check the scores and the arguments of `log_prob`; False saves time, and ``torch.vmap`` needs it.

    Raises:
        ValueError: if shapes or lengths do not fit together, or a score is nan or ``+inf``.

    Example:
        >>> from structattn.distributions import NonProjectiveDependencyCRF
        >>> trees = NonProjectiveDependencyCRF(torch.zeros(3, 4), single_root=True)
        >>> round(trees.log_count().exp().item()), trees.marginals()[:, 0].sum().item()
        (9, 1.0)
    """

    @property
    def _operators(self) -> Operators:
        return kernels.spanning_tree.OPERATORS

    def _entropy(self, scores: Tensor, lengths: Tensor) -> Tensor:
        """``A - <mu, scores>``: trees with crossing arcs have no chart that adds up surprisals."""
        log_partition, parts = self._operators.marginals(scores, lengths, self._sizes())
        expected = (parts * scores.masked_fill(scores == -torch.inf, 0)).sum(-1)
        return (log_partition - expected).masked_fill(log_partition == -torch.inf, 0)

    def _selector(self) -> Selector:
        return SpanningTreeSelector(self.event_shape[0], self.single_root)
