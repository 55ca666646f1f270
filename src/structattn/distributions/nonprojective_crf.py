"""Distributions over all dependency trees, crossing arcs included (the matrix-tree theorem).

Reference: Koo et al. (2007), Structured prediction models via the matrix-tree theorem.
"""

from structattn.distributions.dependency_crf import HeadDistribution
from structattn.kernels.matrix_tree import OPERATORS


class NonProjectiveDependencyCRF(HeadDistribution):
    r"""All dependency trees, crossing arcs included: Koo et al. (2007), section 3; Tutte's matrix-tree theorem.

    ``p(z) = exp( sum over arcs of scores[m, h] - A )``, where ``A`` is the log-determinant of the Laplacian of
    ``exp(scores)``, computed by an elimination that never subtracts. Rows and columns are as in `DependencyCRF`.

    All methods take time in ``n^3``, but with a single root ``topk(k)`` may take up to ``k n^4``.

    Args:
        scores: score of each head of each word.
        lengths: number of words of each sentence, as a tensor or as lists; all ``n`` if None.
        single_root: whether exactly one word has the root as its head; otherwise any number may.
        mask: True where an arc is allowed, a shape that broadcasts against the scores; None allows all.
        validate_args: whether values are checked, see `StructuredDistribution`.

    Raises:
        ValueError: if shapes, types or lengths do not fit, or a score is nan or ``+inf``.

    Example:
        >>> import torch
        >>> from structattn.distributions import NonProjectiveDependencyCRF
        >>> trees = NonProjectiveDependencyCRF(torch.zeros(3, 4), single_root=True)
        >>> round(trees.log_count().exp().item()), trees.marginals()[:, 0].sum().item()
        (9, 1.0)
    """

    _operators = OPERATORS
