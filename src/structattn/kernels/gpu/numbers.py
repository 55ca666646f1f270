"""Numbers of the Triton kernels: doubles, optionally with a directional derivative and a separate exponent.

A number is a tuple ``(value, slope, exponent)`` of float64 tiles; slope and exponent are None if absent, so one kernel
serves as four: log-partition and marginals, Hessian-vector products, and both at any spread of the scores. If the value
is None, there is only an exponent, a sum is its largest term, and the kernel finds best scores (the max-plus semiring).
The arithmetic is that of ``native/source/numbers.hpp``, including the *outsides*: the factor by which a value is
multiplied to give its probability; with exponents, the probability divided by the fraction of the value, under the
exponent of the value.

Reference: Li and Eisner (2009), First- and second-order expectation semirings.
"""

import triton
import triton.language as tl

# Exponent of zero: below every other exponent, and the sum of three is still finite.
NOTHING = tl.constexpr(-1e305)
# A scaled sum above this proves that no double that matters has underflowed: see docs/algorithms.md.
TRUSTED = tl.constexpr(2.0**-721)
LOG_OF_TWO = tl.constexpr(0.6931471805599453)


@triton.jit
def barrier():
    """Makes what the threads of a program wrote visible to all of them: Triton itself does not order accesses."""
    tl.debug_barrier()


@triton.jit
def power_of_two(exponent):
    """``2^d`` for whole ``d`` up to 1023; zero below ``2^-1022``."""
    clamped = tl.minimum(tl.maximum(exponent, -1023.0), 1023.0)
    return ((clamped + 1023.0).to(tl.int64) << 52).to(tl.float64, bitcast=True)


@triton.jit
def nothing(VALUES: tl.constexpr):
    """Exponent of zero: without values, of an impossible best score."""
    return NOTHING if VALUES else -float("inf")


@triton.jit
def zero(ROWS: tl.constexpr, COLUMNS: tl.constexpr, VALUES: tl.constexpr, DUAL: tl.constexpr, EXPONENTS: tl.constexpr):
    """A tile of zeros."""
    value = tl.full([ROWS, COLUMNS], 0.0, tl.float64)
    exponent = tl.full([ROWS, COLUMNS], nothing(VALUES), tl.float64)
    return (value if VALUES else None, value if DUAL else None, exponent if EXPONENTS else None)


@triton.jit
def one(ROWS: tl.constexpr, COLUMNS: tl.constexpr, VALUES: tl.constexpr, DUAL: tl.constexpr, EXPONENTS: tl.constexpr):
    """A tile of ones."""
    zeros = tl.full([ROWS, COLUMNS], 0.0, tl.float64)
    return (zeros + 1.0 if VALUES else None, zeros if DUAL else None, zeros if EXPONENTS else None)


@triton.jit
def weight(score, direction, VALUES: tl.constexpr, EXPONENTS: tl.constexpr):
    """``exp(score)``; without exponents, scores must not exceed zero."""
    if not VALUES:
        return (None, None, score)
    elif EXPONENTS:
        # Beyond 2^49 a double cannot tell neighbouring exponents apart: the score is all exponent.
        real = score > -float("inf")
        huge = real & (tl.abs(score) > 562949953421312.0)
        small = tl.where(real & (huge == 0), score, 0.0)
        whole = tl.floor(small * 1.4426950408889634 + 0.5)
        fraction = (small - whole * 0.6931471803691238) - whole * 1.9082149292705877e-10
        value = tl.where(real, tl.exp(fraction), 0.0)
        exponent = tl.where(huge, score * 1.4426950408889634, whole)
        return settle((value, _slope(value, direction), tl.where(real, exponent, NOTHING)))
    else:
        value = tl.where(score > -700.0, tl.exp(tl.maximum(score, -700.0)), 0.0)
        return (value, _slope(value, direction), None)


@triton.jit
def _slope(value, direction):
    """A forbidden part has no derivative, whatever the direction is there."""
    return None if direction is None else tl.where(value > 0.0, value * direction, 0.0)


@triton.jit
def scale(number, factor):
    """Value and slope times a plain factor; the exponent stays."""
    return (number[0] * factor, None if number[1] is None else number[1] * factor, number[2])


@triton.jit
def where(mask, number):
    """The number, or zero."""
    return (
        None if number[0] is None else tl.where(mask, number[0], 0.0),
        None if number[1] is None else tl.where(mask, number[1], 0.0),
        None if number[2] is None else tl.where(mask, number[2], nothing(number[0] is not None)),
    )


@triton.jit
def is_possible(number):
    """Where a number is not zero."""
    return number[2] > -float("inf") if number[0] is None else number[0] > 0.0


@triton.jit
def settle(number):
    """The number with its value in ``[1, 2)``, unless its exponent is too large to absorb the change."""
    if number[0] is None or number[2] is None:
        return number
    else:
        bits = number[0].to(tl.int64, bitcast=True)
        power = (((bits >> 52) & 0x7FF) - 1023).to(tl.float64)
        changed = number[2] + power
        shift = tl.where(changed - number[2] == power, power, 0.0)
        settled = scale(number, power_of_two(-shift))
        return where(number[0] > 0.0, (settled[0], settled[1], number[2] + shift))


@triton.jit
def either(mask, a, b):
    """One number where a mask is true, another elsewhere."""
    return (
        None if a[0] is None else tl.where(mask, a[0], b[0]),
        None if a[1] is None else tl.where(mask, a[1], b[1]),
        None if a[2] is None else tl.where(mask, a[2], b[2]),
    )


@triton.jit
def multiply_fractions(a, b, exponent):
    """Product of values and slopes, by the Leibniz rule, under a given exponent."""
    return (None if a[0] is None else a[0] * b[0], None if a[1] is None else a[0] * b[1] + a[1] * b[0], exponent)


@triton.jit
def multiply(a, b):
    """Product; the value may leave ``[1, 2)``, see `settle`."""
    return multiply_fractions(a, b, None if a[2] is None else a[2] + b[2])


@triton.jit
def add_fractions(a, b):
    """Sum of two numbers under one exponent: outsides of one cell, from different parents."""
    return (a[0] + b[0], None if a[1] is None else a[1] + b[1], a[2])


@triton.jit
def add(a, b):
    """Sum; the value may leave ``[1, 2)``, see `settle`."""
    if a[2] is None:
        return add_fractions(a, b)
    elif a[0] is None:
        return (None, None, tl.maximum(a[2], b[2]))
    else:
        top = tl.maximum(a[2], b[2])
        total = add_fractions(scale(a, power_of_two(a[2] - top)), scale(b, power_of_two(b[2] - top)))
        return (total[0], total[1], top)


@triton.jit
def fold(number):
    """The sum over the first axis, which stays with size one."""
    if number[2] is None:
        return fold_fractions(number, None)
    elif number[0] is None:
        return (None, None, tl.max(number[2], 0, keep_dims=True))
    else:
        top = tl.max(number[2], 0, keep_dims=True)
        return fold_fractions(scale(number, power_of_two(number[2] - top)), top)


@triton.jit
def fold_fractions(number, exponent):
    """The sum over the first axis of values and slopes under one exponent."""
    value = tl.sum(number[0], 0, keep_dims=True)
    return (value, None if number[1] is None else tl.sum(number[1], 0, keep_dims=True), exponent)


@triton.jit
def fold_lanes(number):
    """The sum over the second axis of values and slopes under one exponent; the axis stays with size one."""
    value = tl.sum(number[0], 1, keep_dims=True)
    return (value, None if number[1] is None else tl.sum(number[1], 1, keep_dims=True), number[2])


@triton.jit
def _add_pairs(value, exponent, further_value, further_exponent):
    top = tl.maximum(exponent, further_exponent)
    return value * power_of_two(exponent - top) + further_value * power_of_two(further_exponent - top), top


@triton.jit
def running_sums(number):
    """The running sums over the rows of values, and their exponents."""
    if number[2] is None:
        return (tl.cumsum(number[0], 0), None, None)
    else:
        value, exponent = tl.associative_scan((number[0], number[2]), 0, _add_pairs)
        return (value, None, exponent)


@triton.jit
def ratio(part, whole):
    """A part of a sum divided by the sum, as a plain number; zero where the sum is zero."""
    share = part[0] * reciprocal(whole)[0]
    return share if part[2] is None else share * power_of_two(part[2] - whole[2])


@triton.jit
def reciprocal(number):
    """One over the value, zero for zero; the exponent stays, as in the outside of the goal and where it cancels."""
    positive = number[0] > 0.0
    inverse = tl.where(positive, 1.0 / tl.where(positive, number[0], 1.0), 0.0)
    return (inverse, None if number[1] is None else -(number[1] * inverse) * inverse, number[2])


@triton.jit
def inverse(number):
    """One over a number, zero for zero."""
    fractions = reciprocal(number)
    return where(number[0] > 0.0, (fractions[0], fractions[1], None if number[2] is None else -number[2]))


@triton.jit
def pull(outside, factor, child):
    """The outside of a child, from a parent that is a sum of products ``factor * child``."""
    if outside[2] is None:
        return multiply(outside, factor)
    else:
        # The sum of exponents is rounded as it was on the way up; an impossible term has a share of zero.
        share = tl.minimum(child[2] + factor[2] - outside[2], 0.0)
        return multiply_fractions(scale(outside, power_of_two(share)), factor, child[2])


@triton.jit
def pull_only(outside, parent, factor, child):
    """The outside of the only child of ``parent = factor * child``."""
    if outside[2] is None:
        return multiply(outside, factor)
    else:
        return multiply_fractions(multiply_fractions(outside, parent, None), reciprocal(child), child[2])


@triton.jit
def probability(outside, number):
    """The probability of a cell, or its derivative where numbers have one."""
    fractions = multiply_fractions(outside, number, None)
    return tl.minimum(fractions[0], 1.0) if fractions[1] is None else fractions[1]


@triton.jit
def suffice(total, flag):
    """Whether numbers are good enough for a sum over all structures; recorded for those without exponents.

    Those with exponents always are; they run where the flag is zero.
    """
    if total[2] is None:
        enough = tl.sum(tl.sum(total[0], 1), 0) > TRUSTED
        tl.store(flag, enough.to(tl.int32))
        return enough
    else:
        return tl.load(flag) == 0


@triton.jit
def are_used(flag, EXTENDED: tl.constexpr):
    """Whether the results of a sentence come from these numbers, as `suffice` has recorded."""
    return tl.load(flag) == (0 if EXTENDED else 1)


@triton.jit
def log(number):
    """Logarithm of the value; ``-inf`` for zero."""
    if number[2] is None:
        return tl.log(number[0])
    else:
        positive = number[0] > 0.0
        logarithm = tl.log(tl.where(positive, number[0], 1.0)) + number[2] * LOG_OF_TWO
        return tl.where(positive, logarithm, -float("inf"))


@triton.jit
def finite_size(vector):
    """Absolute values of plain numbers; infinities and nan count as zero."""
    size = tl.abs(vector)
    return tl.where(size < float("inf"), size, 0.0)


@triton.jit
def power_near(size):
    """The largest power of two up to a size, one for zero; dividing by it leaves gradients in the range of doubles."""
    exponent = (size.to(tl.int64, bitcast=True) >> 52) & 0x7FF
    exponent = tl.minimum(tl.maximum(exponent, 2), 2045)
    return tl.where(size > 0.0, (exponent << 52).to(tl.float64, bitcast=True), 1.0)


@triton.jit
def round_for(pointer, value):
    """A float64 value in the type that a pointer points at."""
    if pointer.dtype.element_ty.primitive_bitwidth < 32:
        return value.to(tl.float32).to(pointer.dtype.element_ty)
    else:
        return value.to(pointer.dtype.element_ty)
