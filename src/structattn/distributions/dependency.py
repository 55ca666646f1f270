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


class _HeadDistribution(StructuredDistribution):
    """What the two families share: an arc score for every word and head, whole trees as heads, one root or several."""

    def __init__(
        self,
        scores: Float[Tensor, "*batch word head_id"],
        lengths: Tensor | None = None,
        *,
        single_root: bool = False,
        validate_args: bool | None = True,
    ) -> None:
        self.single_root = single_root
        real, lengths = _real_arcs(type(self).__name__, scores, lengths)
        event_shape = scores.shape[-2:]
        super().__init__(
            scores.flatten(-2), real, lengths=lengths, event_shape=event_shape, validate_args=validate_args
        )

    def to_structure(self, parts: Float[Tensor, "*shape word head_id"]) -> Int[Tensor, "*shape word"]:
        """Heads as CoNLL ids; 0 beyond the end of a sentence."""
        return parts.argmax(-1)

    def from_structure(self, structure: Int[Tensor, "*shape word"]) -> Float[Tensor, "*shape word head_id"]:
        """Parts of heads given as CoNLL ids; heads beyond the end are ignored."""
        return _arcs_of_heads(structure, self.lengths).to(self._scores.dtype)


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

    def _infer(self, scores: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        arcs = scores.unflatten(-1, tuple(self.event_shape))
        log_partition, parts = kernels.dependency.marginals(arcs, lengths, single_root=self.single_root)
        return log_partition, parts.flatten(1)

    def _entropy(self, scores: Tensor, lengths: Tensor) -> Tensor:
        arcs = scores.unflatten(-1, tuple(self.event_shape))
        return kernels.dependency.entropy(arcs, lengths, single_root=self.single_root)

    def _selector(self) -> Selector:
        return ChartSelector(kernels.dependency.chart(self.event_shape[0], self.single_root))

    def _shift(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        return _best_heads(scores.unflatten(-1, tuple(self.event_shape)), single_root=self.single_root)


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

    def _infer(self, scores: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        arcs = scores.unflatten(-1, tuple(self.event_shape))
        log_partition, parts = kernels.spanning_tree.marginals(arcs, lengths, single_root=self.single_root)
        return log_partition, parts.flatten(1)

    def _entropy(self, scores: Tensor, lengths: Tensor) -> Tensor:
        """``A - <mu, scores>``: trees with crossing arcs have no chart that adds up surprisals."""
        log_partition, parts = self._infer(scores, lengths)
        expected = (parts * scores.masked_fill(scores == -torch.inf, 0)).sum(-1)
        return (log_partition - expected).masked_fill(log_partition == -torch.inf, 0)

    def _selector(self) -> Selector:
        return SpanningTreeSelector(self.event_shape[0], self.single_root)

    def _shift(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        return _best_heads(scores.unflatten(-1, tuple(self.event_shape)), single_root=self.single_root)


def _real_arcs(family: str, scores: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
    """Which arcs are neither padding nor from a word to itself, flat; lengths for every item."""
    if scores.dim() < 2 or scores.shape[-1] != scores.shape[-2] + 1:
        raise ValueError(f"{family}: scores of shape {tuple(scores.shape)}: expected (..., n, n + 1)")
    words, heads = scores.shape[-2:]
    lengths = checked_lengths(lengths, scores.shape[:-2], num_words=words, like=scores)
    itself = torch.arange(heads, device=scores.device) == torch.arange(1, heads, device=scores.device)[:, None]
    arcs = within(lengths, words)[..., None] & within(lengths + 1, heads)[..., None, :] & ~itself
    return arcs.flatten(-2), lengths


def _arcs_of_heads(heads: Tensor, lengths: Tensor) -> Tensor:
    words = heads.shape[-1]
    real = within(lengths, words)
    return torch.nn.functional.one_hot(heads.where(real, 0), words + 1) * real[..., None]


def _best_heads(arcs: Tensor, *, single_root: bool) -> tuple[Tensor, Tensor]:
    """Every tree has one head for each word, and a single root has one word: their best scores may be taken out."""
    best = arcs.amax(-1, keepdim=True)
    best = best.masked_fill(best == -torch.inf, 0)
    shift, total = best.expand_as(arcs), best.sum((-1, -2))
    if single_root and arcs.shape[-2]:
        root = (arcs - best)[..., 0].amax(-1, keepdim=True)
        root = root.masked_fill(root == -torch.inf, 0)
        shift = torch.cat([shift[..., :1] + root.unsqueeze(-1), shift[..., 1:]], -1)
        total = total + root.squeeze(-1)
    return shift.flatten(1), total
