"""How a kernel is started."""

from collections.abc import Callable, Sequence

from torch import Tensor

Scores = Sequence[Tensor]
Tensors = Sequence[Tensor | None]
Sizes = Sequence[int]
Launch = Callable[[Tensor, Tensor, Tensor | None, Tensor | None, Tensor | None, Sizes], None]
Function = Callable[[Scores, Tensor, Tensors, Tensors, Sizes], None]
# Multiply-adds are fused, as in the compiled kernels; said here because the default of Triton is about to change.
OPTIONS = {"num_warps": 8, "enable_fp_fusion": True}


def functions_of(launch: Launch) -> tuple[Function, Function]:
    """Marginals, and Hessian-vector products, of a family that has one array of scores.

    Args:
        launch: given scores, lengths, a vector or None, where log-partition and parts go or None, and sizes, writes
            the log-partition and the marginals, or with a vector the Hessian of the log-partition times it.
    """

    def marginals(scores: Scores, lengths: Tensor, given: Tensors, results: Tensors, sizes: Sizes) -> None:
        log_partition, parts = results
        launch(scores[0], lengths, None, log_partition, parts, sizes)

    def hvp(scores: Scores, lengths: Tensor, given: Tensors, results: Tensors, sizes: Sizes) -> None:
        vector = given[0]
        assert vector is not None  # that of the first array always is given
        launch(scores[0], lengths, vector.contiguous(), None, results[0], sizes)

    return marginals, hvp
