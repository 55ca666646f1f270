// Several features of a word side by side: the vectors of kernels that go over features, not over sentences.
#pragma once

#include <cstdint>
#include <cstring>

#include "numbers.hpp"

namespace structattn {

// What an exponential needs to know of a floating-point type.
template <class T>
struct Format;

template <>
struct Format<float> {
  using Integer = int32_t;
  static constexpr float to_whole = 0x1.8p23f;  // adding it leaves a whole number in the low bits
  static constexpr int mantissa_bits = 23;
  static constexpr float product_safe = 60.0f;  // exponents up to here may be added in a product without overflow
  static constexpr float sum_safe = 4.0f;  // exponents up to here leave tangents so far from one that their sum is exact
  static constexpr float largest = 126.0f;
};

template <>
struct Format<double> {
  using Integer = int64_t;
  static constexpr double to_whole = 0x1.8p52;
  static constexpr int mantissa_bits = 52;
  static constexpr double product_safe = 500.0;
  static constexpr double sum_safe = 4.0;
  static constexpr double largest = 1020.0;
};

template <class T>
struct Features {
  static constexpr int kBytes = 32;
  using Integer = typename Format<T>::Integer;
  typedef T Vector __attribute__((vector_size(kBytes)));
  typedef Integer Integers __attribute__((vector_size(kBytes)));
  static constexpr int count = kBytes / static_cast<int>(sizeof(T));

  static STRUCTATTN_INLINE Vector all(T value) { return Vector{} + value; }
  static STRUCTATTN_INLINE Vector load(const T* from) {
    Vector vector;
    std::memcpy(&vector, from, sizeof vector);
    return vector;
  }
  static STRUCTATTN_INLINE void store(T* to, Vector vector) { std::memcpy(to, &vector, sizeof vector); }
  // The last features of a word may be fewer.
  static STRUCTATTN_INLINE Vector load(const T* from, int width) {
    if (width == count) return load(from);
    Vector vector{};
    std::memcpy(&vector, from, width * sizeof(T));
    return vector;
  }
  static STRUCTATTN_INLINE void store(T* to, Vector vector, int width) {
    if (width == count) return store(to, vector);
    std::memcpy(to, &vector, width * sizeof(T));
  }

  // 2^(slope x) for exponents within the range of the type; relative error 2e-9 (float), 3e-18 (double) and rounding.
  static STRUCTATTN_INLINE Vector power(Vector x, Vector slope) {
    const Vector shifted = slope * x + Format<T>::to_whole;
    return raised(slope * x - (shifted - Format<T>::to_whole), shifted);
  }
  // The same for a slope in two parts, as exact for large exponents as for small ones where multiply-adds are fused.
  static STRUCTATTN_INLINE Vector power(Vector x, Vector slope, Vector slope_rest) {
    const Vector shifted = slope * x + Format<T>::to_whole;
    return raised((slope * x - (shifted - Format<T>::to_whole)) + slope_rest * x, shifted);
  }
  // (2^(slope x) - 1) / (2^(slope x) + 1), a hyperbolic tangent; exact for small exponents, too.
  static STRUCTATTN_INLINE Vector tangent(Vector x, Vector slope, Vector slope_rest) {
    const Vector shifted = slope * x + Format<T>::to_whole;
    const Vector fraction = (slope * x - (shifted - Format<T>::to_whole)) + slope_rest * x;
    const Vector whole = (Vector)((Integers)all(T(1)) + ((Integers)shifted << Format<T>::mantissa_bits));
    const Vector less_one = raised_less_one(fraction) * whole + (whole - T(1));
    return less_one / (less_one + T(2));
  }
  // `power` for any exponent; what leaves the range stays at its end.
  static STRUCTATTN_INLINE Vector bounded_power(Vector x, Vector slope) {
    const Vector top = all(Format<T>::largest);
    Vector exponent = slope * x;
    exponent = exponent > top ? top : exponent;
    exponent = exponent < -top ? -top : exponent;
    return power(exponent, all(T(1)));
  }

 private:
  // 2^(fraction + whole), |fraction| <= 1/2.
  static STRUCTATTN_INLINE Vector raised(Vector x, Vector whole) {
    return (Vector)((Integers)(raised_less_one(x) + T(1)) + ((Integers)whole << Format<T>::mantissa_bits));
  }
  // 2^x - 1, |x| <= 1/2; minimax polynomials of the relative error of 2^x.
  static STRUCTATTN_INLINE Vector raised_less_one(Vector x) {
    Vector sum;
    if constexpr (sizeof(T) == sizeof(float)) {
      sum = x * T(1.5345812161e-4) + T(1.3399931177e-3);
      sum = sum * x + T(9.6184889563e-3);
      sum = sum * x + T(5.5503287771e-2);
      sum = sum * x + T(2.4022646891e-1);
      sum = sum * x + T(6.9314720574e-1);
    } else {
      sum = x * T(4.43528270695727715e-10) + T(7.0741056135081428e-9);
      sum = sum * x + T(1.01781980216719308e-7);
      sum = sum * x + T(1.32154330896763992e-6);
      sum = sum * x + T(1.52527334899885256e-5);
      sum = sum * x + T(1.54035304625144321e-4);
      sum = sum * x + T(1.33335581467899217e-3);
      sum = sum * x + T(9.61812910758833524e-3);
      sum = sum * x + T(5.55041086648199216e-2);
      sum = sum * x + T(2.40226506959101562e-1);
      sum = sum * x + T(6.9314718055994533e-1);
    }
    return sum * x;
  }
};

}  // namespace structattn
