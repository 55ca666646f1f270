// tanh((a + b) / c) of pairs of features: the part of a score that a query and a key (or two words) make together.
//
// The parts are prepared before their pairs are met, so that a pair costs one division. With t = tanh(a / c) and
// u = tanh(b / c) the tangent is (t + u) / (1 + t u). Where parts are so large that opposite ones would cancel in
// 1 + t u, E = exp(2 (a + b) / c) is the product of a number per query and a number per key, and the tangent is
// 1 - 2 y with y = 1 / (1 + E); where one of them would leave the range of the type, E is made from the sum.
#pragma once

#include "features.hpp"

namespace structattn {

// How tangents are made from parts. The derivative of a tangent is 1 - t^2 = 4 y (1 - y).
enum class Form : uint8_t { kTangents, kProduct, kSum };

template <class T>
class Tangents {
  using F = Features<T>;
  using Vector = typename F::Vector;

 public:
  explicit Tangents(double scale = 1) {
    const double exact = 2.0 / scale * 1.4426950408889634;
    slope = F::all(static_cast<T>(exact));
    slope_rest = F::all(static_cast<T>(exact - static_cast<T>(exact)));
  }

  // The larger of `top` and the exponents of some features.
  STRUCTATTN_INLINE Vector top(Vector top, Vector x) const {
    const Vector exponent = x * slope, size = exponent < 0 ? -exponent : exponent;
    return size > top ? size : top;
  }

  // The first form that is exact for parts whose largest exponents are `top`.
  static Form form_of(Vector top) {
    Form form = Form::kTangents;
    for (int lane = 0; lane < F::count; ++lane) {
      if (top[lane] > Format<T>::product_safe) return Form::kSum;
      if (top[lane] > Format<T>::sum_safe) form = Form::kProduct;
    }
    return form;
  }

  STRUCTATTN_INLINE Vector prepared(Vector x, Form form) const {
    if (form == Form::kTangents) return F::tangent(x, slope, slope_rest);
    return form == Form::kProduct ? F::power(x, slope, slope_rest) : x;
  }

  // The tangent itself (`kTangents`), or y, of two prepared parts.
  template <Form kForm>
  STRUCTATTN_INLINE Vector bent(Vector one, Vector other) const {
    if constexpr (kForm == Form::kTangents) return (one + other) / (one * other + T(1));
    const Vector power = kForm == Form::kSum ? F::bounded_power(one + other, slope) : one * other;
    return T(1) / (power + T(1));
  }

 private:
  Vector slope, slope_rest;
};

}  // namespace structattn
