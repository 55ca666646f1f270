// Numbers of four sentences at once: one program over them gives sums, derivatives, best structures, at any spread.
//
// Every cell of a chart holds one number for each of four sentences, so a sum over splits needs no horizontal addition,
// no remainder and no transposed copy. `Plain` is a double. `Dual` carries a directional derivative, which makes
// marginals a Hessian-vector product (Li and Eisner 2009). `Extended` adds an exponent of its own, so that nothing
// underflows. `Best` is the max-plus semiring.
//
// Going up, a program uses `+`, `*`, `dot`, and `settle` before it stores a cell. Going down it uses the *outside* of a
// cell, what its value has to be multiplied by to give its probability:
//   outside_of_all(total)               of the goal;
//   pull(outside, other, count, child)  of a child, from parents that are sums of products `other * child`;
//   pass(outside, parent, factor, child)  of the only child of `parent = factor * child`;
//   probability(outside, value).
// An outside of `Extended` is the probability over the fraction of the value, with the exponent of the value: only
// probabilities are multiplied, and they sum to one however coarse the exponents have become.
#pragma once

#include <cmath>
#include <cstdint>

#define STRUCTATTN_INLINE inline __attribute__((always_inline))

namespace structattn {

constexpr int kLanes = 4;
// 256 bits suit AVX2; elsewhere the compiler makes two 128-bit halves.
typedef double Lanes __attribute__((vector_size(32)));
typedef int64_t Bits __attribute__((vector_size(32)));

STRUCTATTN_INLINE Lanes all(double value) { return Lanes{value, value, value, value}; }
STRUCTATTN_INLINE Lanes maximum(Lanes a, Lanes b) { return a > b ? a : b; }
STRUCTATTN_INLINE Lanes minimum(Lanes a, Lanes b) { return a < b ? a : b; }

constexpr double kInfinity = __builtin_inf();

// 2^d for whole d <= 1023; zero below 2^-1022. Adding 2^52 leaves the whole number in the low bits.
STRUCTATTN_INLINE Lanes power_of_two(Lanes d) {
  const Lanes kept = maximum(d, all(-1023.0));
  return (Lanes)((Bits)(kept + (0x1p52 + 1023.0)) << 52);
}

// exp(x) = fraction * 2^exponent for |x| < 2^49, fraction near [0.7, 1.42]; Taylor to degree 13, error below 1e-17.
STRUCTATTN_INLINE void split_exp(Lanes x, Lanes* fraction, Lanes* exponent) {
  const Lanes k = (x * 0x1.71547652b82fep0 + 0x1.8p52) - 0x1.8p52;
  const Lanes r = (x - k * 0x1.62e42feep-1) - k * 0x1.a39ef35793c76p-33;
  Lanes sum = r * (1.0 / 6227020800.0) + 1.0 / 479001600.0;
  sum = sum * r + 1.0 / 39916800.0;
  sum = sum * r + 1.0 / 3628800.0;
  sum = sum * r + 1.0 / 362880.0;
  sum = sum * r + 1.0 / 40320.0;
  sum = sum * r + 1.0 / 5040.0;
  sum = sum * r + 1.0 / 720.0;
  sum = sum * r + 1.0 / 120.0;
  sum = sum * r + 1.0 / 24.0;
  sum = sum * r + 1.0 / 6.0;
  sum = sum * r + 0.5;
  sum = sum * r + 1.0;
  *fraction = sum * r + 1.0;
  *exponent = k;
}

// exp(x) for x <= 0; zero below e^-700.
STRUCTATTN_INLINE Lanes exp_flushed(Lanes x) {
  Lanes fraction, exponent;
  const Lanes low = all(-700.0);
  split_exp(maximum(x, low), &fraction, &exponent);
  return x > low ? fraction * power_of_two(exponent) : all(0.0);
}

// Scaled sums above e^-500 prove that no double of any importance has underflowed: see `docs/algorithms.md`.
constexpr double kTrusted = 0x1p-721;

struct Plain {
  static constexpr double counts = 1.0;  // structures are counted: the number of them is scaled away
  static constexpr bool guarded = true;  // needs the certificate kTrusted
  static constexpr bool differentiates = false;
  Lanes value;

  static STRUCTATTN_INLINE Plain zero() { return {all(0.0)}; }
  static STRUCTATTN_INLINE Plain one() { return {all(1.0)}; }
  static STRUCTATTN_INLINE Plain weight(Lanes score, Lanes) { return {exp_flushed(score)}; }
  STRUCTATTN_INLINE void accumulate(const Plain& a, const Plain& b) { value += a.value * b.value; }
  STRUCTATTN_INLINE Plain operator+(const Plain& b) const { return {value + b.value}; }
  STRUCTATTN_INLINE Plain operator*(const Plain& b) const { return {value * b.value}; }
  STRUCTATTN_INLINE Plain where(Bits mask) const { return {mask ? value : all(0.0)}; }
  STRUCTATTN_INLINE Plain settle() const { return *this; }
  STRUCTATTN_INLINE Plain reciprocal() const { return {value > 0.0 ? 1.0 / value : all(0.0)}; }
  STRUCTATTN_INLINE Bits trusted() const { return value > kTrusted; }
  STRUCTATTN_INLINE Lanes result() const { return value; }
  STRUCTATTN_INLINE double log(int lane) const { return std::log(value[lane]); }
};

struct Dual {
  static constexpr double counts = 1.0;
  static constexpr bool guarded = true;
  static constexpr bool differentiates = true;
  Lanes value, slope;

  static STRUCTATTN_INLINE Dual zero() { return {all(0.0), all(0.0)}; }
  static STRUCTATTN_INLINE Dual one() { return {all(1.0), all(0.0)}; }
  static STRUCTATTN_INLINE Dual weight(Lanes score, Lanes direction) {
    const Lanes value = exp_flushed(score);
    // What is forbidden has no derivative, whatever the direction holds there.
    return {value, value > 0.0 ? value * direction : all(0.0)};
  }
  STRUCTATTN_INLINE void accumulate(const Dual& a, const Dual& b) {
    value += a.value * b.value;
    slope += a.value * b.slope;
    slope += a.slope * b.value;
  }
  STRUCTATTN_INLINE Dual operator+(const Dual& b) const { return {value + b.value, slope + b.slope}; }
  STRUCTATTN_INLINE Dual operator*(const Dual& b) const {
    return {value * b.value, value * b.slope + slope * b.value};
  }
  STRUCTATTN_INLINE Dual where(Bits mask) const { return {mask ? value : all(0.0), mask ? slope : all(0.0)}; }
  STRUCTATTN_INLINE Dual settle() const { return *this; }
  STRUCTATTN_INLINE Dual reciprocal() const {
    const Lanes inverse = value > 0.0 ? 1.0 / value : all(0.0);
    return {inverse, -(slope * inverse) * inverse};
  }
  STRUCTATTN_INLINE Bits trusted() const { return value > kTrusted; }
  STRUCTATTN_INLINE Lanes result() const { return slope; }
  STRUCTATTN_INLINE double log(int lane) const { return std::log(value[lane]); }
};

STRUCTATTN_INLINE Plain scaled(const Plain& a, Lanes factor) { return {a.value * factor}; }
STRUCTATTN_INLINE Dual scaled(const Dual& a, Lanes factor) { return {a.value * factor, a.slope * factor}; }

// A number times 2^exponent, for each sentence. The exponent is a whole double: it may be as large as any score.
template <class Base>
struct Extended {
  static constexpr double counts = 1.0;
  static constexpr bool guarded = false;
  static constexpr bool differentiates = Base::differentiates;
  // Exponent of zero: below every other, and three of it still add up to a finite number.
  static constexpr double nothing = -1e305;
  Base base;
  Lanes exponent;

  static STRUCTATTN_INLINE Extended zero() { return {Base::zero(), all(nothing)}; }
  static STRUCTATTN_INLINE Extended one() { return {Base::one(), all(0.0)}; }
  static STRUCTATTN_INLINE Extended weight(Lanes score, Lanes direction) {
    Lanes fraction, exponent;
    // Beyond 2^49 a double cannot tell neighbouring exponents apart: the score is all exponent.
    const Bits huge = score < -0x1p49;
    split_exp(huge ? all(0.0) : score, &fraction, &exponent);
    exponent = huge ? score * 0x1.71547652b82fep0 : exponent;
    const Bits real = score > -kInfinity;
    Extended number = {Base::weight(all(0.0), direction), real ? exponent : all(nothing)};
    number.base = scaled(number.base, fraction).where(real);
    return number.settle();
  }
  STRUCTATTN_INLINE void accumulate(const Extended& a, const Extended& b) { *this = *this + a * b; }
  STRUCTATTN_INLINE Extended operator+(const Extended& b) const {
    const Lanes top = maximum(exponent, b.exponent);
    return {scaled(base, power_of_two(exponent - top)) + scaled(b.base, power_of_two(b.exponent - top)), top};
  }
  STRUCTATTN_INLINE Extended operator*(const Extended& b) const { return {base * b.base, exponent + b.exponent}; }
  STRUCTATTN_INLINE Extended where(Bits mask) const {
    return {base.where(mask), mask ? exponent : all(nothing)};
  }
  // Bring the value into [1, 2), unless the exponent is too large to take the change up.
  STRUCTATTN_INLINE Extended settle() const {
    const Bits biased = ((Bits)base.value >> 52) & 0x7ff;
    const Lanes wanted = (Lanes)(biased | (Bits)all(0x1p52)) - (0x1p52 + 1023.0);
    const Lanes changed = exponent + wanted;
    const Lanes shift = changed - exponent == wanted ? wanted : all(0.0);
    const Extended number = {scaled(base, power_of_two(-shift)), exponent + shift};
    return number.where(base.value > 0.0);
  }
  STRUCTATTN_INLINE Bits trusted() const { return base.value == base.value; }
  STRUCTATTN_INLINE Extended reciprocal() const {
    const Extended number = {base.reciprocal(), -exponent};
    return number.where(base.value > 0.0).settle();
  }
  STRUCTATTN_INLINE Lanes result() const { return scaled(base, power_of_two(exponent)).result(); }
  STRUCTATTN_INLINE double log(int lane) const {
    return base.value[lane] > 0.0 ? std::log(base.value[lane]) + exponent[lane] * 0x1.62e42fefa39efp-1 : -kInfinity;
  }
};

struct Best {
  static constexpr double counts = 0.0;
  static constexpr bool guarded = false;
  static constexpr bool differentiates = false;
  Lanes value;

  static STRUCTATTN_INLINE Best zero() { return {all(-kInfinity)}; }
  static STRUCTATTN_INLINE Best one() { return {all(0.0)}; }
  static STRUCTATTN_INLINE Best weight(Lanes score, Lanes) { return {score}; }
  STRUCTATTN_INLINE void accumulate(const Best& a, const Best& b) { value = maximum(value, a.value + b.value); }
  STRUCTATTN_INLINE Best operator+(const Best& b) const { return {maximum(value, b.value)}; }
  STRUCTATTN_INLINE Best operator*(const Best& b) const { return {value + b.value}; }
  STRUCTATTN_INLINE Best settle() const { return *this; }
};

// sum over i of a[i] * b[i], in four partial sums that do not wait for each other.
template <class Num>
STRUCTATTN_INLINE Num dot(const Num* a, const Num* b, int64_t count) {
  Num first = Num::zero();
  int64_t i = 0;
  if (count >= 4) {
    Num second = Num::zero(), third = Num::zero(), fourth = Num::zero();
    for (; i + 4 <= count; i += 4) {
      first.accumulate(a[i], b[i]);
      second.accumulate(a[i + 1], b[i + 1]);
      third.accumulate(a[i + 2], b[i + 2]);
      fourth.accumulate(a[i + 3], b[i + 3]);
    }
    first = (first + second) + (third + fourth);
  }
  for (; i < count; ++i) first.accumulate(a[i], b[i]);
  return first;
}

// The largest exponent first, then everything relative to it.
template <class Base>
STRUCTATTN_INLINE Extended<Base> dot(const Extended<Base>* a, const Extended<Base>* b, int64_t count) {
  Lanes top = all(Extended<Base>::nothing);
  for (int64_t i = 0; i < count; ++i) top = maximum(top, a[i].exponent + b[i].exponent);
  Base sum = Base::zero();
  for (int64_t i = 0; i < count; ++i) {
    const Lanes factor = power_of_two(a[i].exponent + b[i].exponent - top);
    sum.accumulate(scaled(a[i].base, factor), b[i].base);
  }
  return {sum, top};
}

template <class Num>
STRUCTATTN_INLINE Num outside_of_all(const Num& total) {
  return total.reciprocal();
}
template <class Base>
STRUCTATTN_INLINE Extended<Base> outside_of_all(const Extended<Base>& total) {
  return {total.base.reciprocal(), total.exponent};
}

template <class Num>
STRUCTATTN_INLINE Num pull(const Num* outside, const Num* other, int64_t count, const Num&) {
  return dot(outside, other, count);
}
template <class Base>
STRUCTATTN_INLINE Extended<Base> pull(const Extended<Base>* outside, const Extended<Base>* other, int64_t count,
                                      const Extended<Base>& child) {
  Base sum = Base::zero();
  for (int64_t i = 0; i < count; ++i) {
    // The sum of exponents is rounded as it was on the way up. What is impossible has a share of zero at any exponent.
    const Lanes share = minimum(child.exponent + other[i].exponent - outside[i].exponent, all(0.0));
    sum.accumulate(scaled(outside[i].base, power_of_two(share)), other[i].base);
  }
  return {sum, child.exponent};
}

template <class Num>
STRUCTATTN_INLINE Num pass(const Num& outside, const Num&, const Num& factor, const Num&) {
  return outside * factor;
}
template <class Base>
STRUCTATTN_INLINE Extended<Base> pass(const Extended<Base>& outside, const Extended<Base>& parent,
                                      const Extended<Base>&, const Extended<Base>& child) {
  return {(outside.base * parent.base) * child.base.reciprocal(), child.exponent};
}

// Outsides of one cell, from different parents.
template <class Num>
STRUCTATTN_INLINE Num both(const Num& a, const Num& b) {
  return a + b;
}
template <class Base>
STRUCTATTN_INLINE Extended<Base> both(const Extended<Base>& a, const Extended<Base>& b) {
  return {a.base + b.base, a.exponent};
}

// The probability of a cell, or its derivative.
template <class Num>
STRUCTATTN_INLINE Lanes probability(const Num& outside, const Num& value) {
  return (outside * value).result();
}
template <class Base>
STRUCTATTN_INLINE Lanes probability(const Extended<Base>& outside, const Extended<Base>& value) {
  return (outside.base * value.base).result();
}

}  // namespace structattn
