"""How a kernel is started."""

from collections.abc import Sequence

from torch import Tensor

Scores = Sequence[Tensor]
Tensors = Sequence[Tensor | None]
Sizes = Sequence[int]
# Multiply-adds are fused, as in the compiled kernels; said here because the default of Triton is about to change.
OPTIONS = {"num_warps": 8, "enable_fp_fusion": True}
