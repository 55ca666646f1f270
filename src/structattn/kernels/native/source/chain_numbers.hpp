// Arithmetic of the smoothing of a chain: probabilities as shares of numbers with or without exponents.
#pragma once

#include "numbers.hpp"

namespace structattn {

STRUCTATTN_INLINE Lanes size_of(const Plain& number) { return number.value; }
STRUCTATTN_INLINE Lanes size_of(const Dual& number) { return number.value; }
template <class Base>
STRUCTATTN_INLINE Lanes size_of(const Extended<Base>& number) { return number.base.value; }

STRUCTATTN_INLINE Extended<Plain> extended(const Plain& number) { return Extended<Plain>{number, all(0.0)}.settle(); }
STRUCTATTN_INLINE Extended<Plain> extended(const Extended<Plain>& number) { return number; }

// Probabilities need no exponent, whatever the numbers are of which they are shares.
template <class Num>
struct Share {
  using Of = Num;
};
template <class Base>
struct Share<Extended<Base>> {
  using Of = Base;
};
template <class Num>
STRUCTATTN_INLINE Num probability_of(const Num& number) { return number; }
template <class Base>
STRUCTATTN_INLINE Base probability_of(const Extended<Base>& number) {
  return scaled(number.base, power_of_two(number.exponent));
}
STRUCTATTN_INLINE Lanes result_of(const Plain& number) { return number.value; }
STRUCTATTN_INLINE Lanes result_of(const Dual& number) { return number.slope; }

// Weights of transitions are plain where only the states have a direction.
STRUCTATTN_INLINE void accumulate(Dual& sum, const Dual& a, const Plain& b) {
  sum.value += a.value * b.value;
  sum.slope += a.slope * b.value;
}
template <class Num>
STRUCTATTN_INLINE void accumulate(Num& sum, const Num& a, const Num& b) { sum.accumulate(a, b); }

// A number of a state times the weight of a transition.
template <class Num>
STRUCTATTN_INLINE Num times(const Num& number, const Num& weight) { return number * weight; }
STRUCTATTN_INLINE Dual times(const Dual& number, const Plain& weight) { return scaled(number, weight.value); }

// The probability of a state over the sum of the ways into it. An exponent stands beside the quotient as it was found on
// the way forward, so that terms are compared with their sum as they were there, however coarse large exponents are.
template <class Num>
STRUCTATTN_INLINE Num quotient(const Num& marginal, const Num& ratio) { return marginal * ratio.reciprocal(); }
template <class Base>
STRUCTATTN_INLINE Extended<Base> quotient(const Base& marginal, const Extended<Base>& ratio) {
  return {marginal * ratio.base.reciprocal(), ratio.exponent};
}

// The probability of a transition.
template <class Num>
STRUCTATTN_INLINE Num between(const Num& before, const Num& weight, const Num& after) { return before * after * weight; }
STRUCTATTN_INLINE Dual between(const Dual& before, const Plain& weight, const Dual& after) {
  return scaled(before * after, weight.value);
}
template <class Base>
STRUCTATTN_INLINE Base between(const Extended<Base>& before, const Extended<Base>& weight, const Extended<Base>& after) {
  const Lanes share = before.exponent + weight.exponent - after.exponent;
  return scaled(before.base * weight.base * after.base, power_of_two(share < 0.0 ? share : all(0.0)));
}

// The k-th number of each of four rows.
template <class T>
STRUCTATTN_INLINE Lanes across(const T* const* rows, int64_t k) {
  return Lanes{double(rows[0][k]), double(rows[1][k]), double(rows[2][k]), double(rows[3][k])};
}

// out[j] = sum over k of x[k] M[k * step + j * stride], for four j at once.
template <class Num, class Weight>
STRUCTATTN_INLINE void product(const Num* x, const Weight* M, int64_t step, int64_t stride, int64_t size, Num* out) {
  int64_t j = 0;
  for (; j + 4 <= size; j += 4) {
    Num first = Num::zero(), second = Num::zero(), third = Num::zero(), fourth = Num::zero();
    const Weight* from = M + j * stride;
    for (int64_t k = 0; k < size; ++k, from += step) {
      accumulate(first, x[k], from[0]);
      accumulate(second, x[k], from[stride]);
      accumulate(third, x[k], from[2 * stride]);
      accumulate(fourth, x[k], from[3 * stride]);
    }
    out[j] = first.settle(), out[j + 1] = second.settle(), out[j + 2] = third.settle(), out[j + 3] = fourth.settle();
  }
  for (; j < size; ++j) {
    Num sum = Num::zero();
    for (int64_t k = 0; k < size; ++k) accumulate(sum, x[k], M[k * step + j * stride]);
    out[j] = sum.settle();
  }
}

}  // namespace structattn
