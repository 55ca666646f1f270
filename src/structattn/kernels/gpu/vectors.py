"""Scaling the vector of a Hessian-vector product, and rounding results."""

import triton
import triton.language as tl


@triton.jit
def finite_size(vector):
    """Absolute values; infinities and nan count as zero."""
    size = tl.abs(vector)
    return tl.where(size < float("inf"), size, 0.0)


@triton.jit
def power_near(size):
    """The largest power of two up to a size, one for zero; dividing by it keeps gradients in the range of doubles."""
    exponent = (size.to(tl.int64, bitcast=True) >> 52) & 0x7FF
    exponent = tl.minimum(tl.maximum(exponent, 2), 2045)
    return tl.where(size > 0.0, (exponent << 52).to(tl.float64, bitcast=True), 1.0)


@triton.jit
def rounded(value, pointer):
    """A float64 number in the type that a pointer points at."""
    if pointer.dtype.element_ty.primitive_bitwidth < 32:
        return value.to(tl.float32).to(pointer.dtype.element_ty)
    else:
        return value.to(pointer.dtype.element_ty)
