// Four states of one sentence in the lanes: how they are read and written, and their weights.
#pragma once

#include <cstring>

#include "chain_numbers.hpp"

namespace structattn {

// Scores and results of four states that lie side by side.
template <class T>
struct Quad {
  typedef T Vector __attribute__((vector_size(4 * sizeof(T))));

  static STRUCTATTN_INLINE Lanes load(const T* from) {
    return Lanes{double(from[0]), double(from[1]), double(from[2]), double(from[3])};
  }
  static STRUCTATTN_INLINE void store(T* to, Lanes numbers) {
    const Vector vector = __builtin_convertvector(numbers, Vector);
    std::memcpy(to, &vector, sizeof vector);
  }
  // Where fewer than four are left.
  static STRUCTATTN_INLINE Lanes load(const T* from, int64_t count) {
    const double none = -kInfinity, first = from[0];
    if (count == 1) return Lanes{first, none, none, none};
    return Lanes{first, double(from[1]), count == 2 ? none : double(from[2]), none};
  }
  static STRUCTATTN_INLINE void store(T* to, Lanes numbers, int64_t count) {
    for (int64_t k = 0; k < count; ++k) to[k] = static_cast<T>(numbers[k]);
  }
};

// Weights of scores relative to the highest of them.
template <class T>
struct Exponential {
  static STRUCTATTN_INLINE Lanes shift(double highest) { return all(highest); }
  static STRUCTATTN_INLINE Lanes above(Lanes score, Lanes shift) { return exp_flushed(score - shift); }
};
// The same for single scores: 2^r, |r| <= 1/2, by a polynomial that is 1 at zero; so what is below 2^-1023 becomes zero
// without being asked for.
struct SingleScores {
  static constexpr double kBits = 0x1.71547652b82fep0, kWhole = 0x1.8p52;
  static STRUCTATTN_INLINE Lanes shift(double highest) { return all(highest * kBits); }

  template <class Polynomial>
  static STRUCTATTN_INLINE Lanes above(Lanes score, Lanes shift, Polynomial polynomial) {
    const Lanes power = maximum(score * kBits - shift, all(-1023.0)), whole = power + kWhole;
    return (Lanes)((Bits)polynomial(power - (whole - kWhole)) + ((Bits)whole << 52));
  }
};
// To single scores a relative error of 3e-9 is none ...
template <>
struct Exponential<float> : SingleScores {
  static STRUCTATTN_INLINE Lanes above(Lanes score, Lanes shift) {
    return SingleScores::above(score, shift, [](Lanes r) {
      Lanes sum = r * 0x1.470b4ec2259ffp-13 + 0x1.5f727685a2c20p-10;
      sum = sum * r + 0x1.3b270e5cd5089p-7;
      sum = sum * r + 0x1.c6ae72e08d4afp-5;
      sum = sum * r + 0x1.ebfbe2c54b312p-3;
      sum = sum * r + 0x1.62e4311733246p-1;
      return sum * r + 1.0;
    });
  }
};
// ... but to a small entropy it is much; 6e-15 is not.
struct Precise {};
template <>
struct Exponential<Precise> : SingleScores {
  static STRUCTATTN_INLINE Lanes above(Lanes score, Lanes shift) {
    return SingleScores::above(score, shift, [](Lanes r) {
      Lanes sum = r * 0x1.e8cac7351bb22p-32 + 0x1.e4cf5158b8ec7p-28;
      sum = sum * r + 0x1.b5253d395e7c1p-24;
      sum = sum * r + 0x1.62c0223a5c822p-20;
      sum = sum * r + 0x1.ffcbfc588b0c5p-17;
      sum = sum * r + 0x1.430912f86c786p-13;
      sum = sum * r + 0x1.5d87fe78a6730p-10;
      sum = sum * r + 0x1.3b2ab6fba4e77p-7;
      sum = sum * r + 0x1.c6b08d704a0bfp-5;
      sum = sum * r + 0x1.ebfbdff82c58ep-3;
      sum = sum * r + 0x1.62e42fefa39efp-1;
      return sum * r + 1.0;
    });
  }
};

STRUCTATTN_INLINE double sum_of(Lanes lanes) { return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]); }
STRUCTATTN_INLINE Plain in_all_lanes(const Plain& number) { return {all(sum_of(number.value))}; }
STRUCTATTN_INLINE Dual in_all_lanes(const Dual& number) { return {all(sum_of(number.value)), all(sum_of(number.slope))}; }

// The number of one state, in all lanes.
STRUCTATTN_INLINE Plain pick(const Plain* numbers, int64_t state) { return {all(numbers[state / 4].value[state % 4])}; }
STRUCTATTN_INLINE Dual pick(const Dual* numbers, int64_t state) {
  return {all(numbers[state / 4].value[state % 4]), all(numbers[state / 4].slope[state % 4])};
}
STRUCTATTN_INLINE void put(const Plain& number, Plain* numbers, int64_t state) {
  numbers[state / 4].value[state % 4] = number.value[0];
}
STRUCTATTN_INLINE void put(const Dual& number, Dual* numbers, int64_t state) {
  numbers[state / 4].value[state % 4] = number.value[0];
  numbers[state / 4].slope[state % 4] = number.slope[0];
}

}  // namespace structattn
