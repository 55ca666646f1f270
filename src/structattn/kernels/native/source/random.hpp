// Random numbers that are a function of where they are used, as in `kernels/random.py`, bit for bit.
#pragma once

#include <cstdint>

namespace structattn {

constexpr uint64_t kStep = 0x9E3779B97F4A7C15u;

// The finaliser of SplitMix64 (Steele, Lea and Flood 2014).
inline uint64_t mix(uint64_t bits) {
  bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9u;
  bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EBu;
  return bits ^ (bits >> 31);
}

// A kind of choice below 8, and two positions below 2^28.
inline uint64_t place(uint64_t kind, int64_t first, int64_t second) {
  return kind + 8 * static_cast<uint64_t>(first) + (static_cast<uint64_t>(second) << 31);
}

// The numbers of one sample of one sentence.
class Random {
 public:
  Random(int64_t stream, int64_t sample)
      : key_(mix(mix(static_cast<uint64_t>(stream)) + (static_cast<uint64_t>(sample) + 1) * kStep)) {}

  // In [0, 1).
  double uniform(uint64_t place) const {
    return static_cast<double>(mix(key_ + (place + 1) * kStep) >> 11) * 0x1p-53;
  }

 private:
  uint64_t key_;
};

}  // namespace structattn
