// Probabilities of the spans of binary phrase trees, and their derivatives: the program of constituency.hpp downwards.
//
// A span pulls what its possible parents hold; o stands for outside:
//   oB[a,b] = sum_{k>b} oX[a,k] B[b,k] + sum_{i<a} oX[i,b] B[i,a];   oX = oB W.
#include "constituency.hpp"

namespace structattn {
namespace constituency {
namespace {

struct Phrases {
  static int64_t num_cells(int64_t length) { return Tables<Plain>::num_cells(length); }

  template <class Num, class T>
  static unsigned char evaluate(const Call<T>& call, const Group& group, Num* workspace) {
    const Tables<Num> in(workspace, group.longest);
    const int64_t size = in.size;
    Num *B = in.B, *oX = in.oX;
    Shift shifts[kLanes];
    load(call, group, in, shifts);
    Bits trusted;
    const Num total = sum_all(group, in, shifts, &trusted);
    for (int lane = 0; lane < kLanes; ++lane) {
      if (group.items[lane] < 0) continue;
      if (call.log_partition != nullptr) {
        const double log = total.log(lane), shift = shifts[lane].growth + shifts[lane].total;
        call.log_partition[group.items[lane]] = static_cast<T>(log > -kInfinity ? log + shift : log);
      }
      call.clear_parts(group.items[lane]);
    }
    if (call.parts == nullptr && !call.entropies.wants_parts()) {
      write_entropies(call, group, shifts, total);
      return untrusted_lanes(trusted, group);
    }
    const Num start = outside_of_all(total);
    for (int64_t b = size - 1; b >= 1; --b) {
      const Bits ends = group.ends_at(b);
      for (int64_t a = 0; a < b; ++a) {
        const int64_t row = a * size, column = b * size;
        const Num value = B[row + b];
        Num outside = both(pull(oX + row + b + 1, B + column + b + 1, size - 1 - b, value),
                           pull(oX + column, B + row, a, value));
        if (a == 0) outside = both(outside, start.where(ends));
        write(call, group, shifts, a, b, probability(outside, value));
        if (b > a + 1) oX[row + b] = oX[column + a] = pass(outside, value, in.weights[column + a], oX[row + b]);
      }
    }
    write_entropies(call, group, shifts, total);
    return untrusted_lanes(trusted, group);
  }

  template <class Num, class T>
  static void write_entropies(const Call<T>& call, const Group& group, Shift* shifts, const Num& total) {
    for (int lane = 0; lane < kLanes && call.entropies.wanted(); ++lane) {
      if (group.items[lane] < 0) continue;
      shifts[lane].expected.taken = shifts[lane].total;
      const double left = total.log(lane) + shifts[lane].growth;
      shifts[lane].expected.write(call.entropies, group.items[lane], left, group.lengths[lane] < 3);
    }
  }

  template <class T>
  static STRUCTATTN_INLINE void write(const Call<T>& call, const Group& group, Shift* shifts, int64_t start,
                                      int64_t end, Lanes used) {
    for (int lane = 0; lane < kLanes; ++lane) {
      if (end > group.lengths[lane]) continue;
      const int64_t part = group.items[lane] * call.num_parts + start * (call.words + 1) + end;
      if (call.entropies.wanted()) {
        if (used[lane] == 0.0) continue;
        const bool certain = end == start + 1 || end - start == group.lengths[lane];
        const double left = certain ? 0.0 : call.scores[part] - shifts[lane].phrase;
        shifts[lane].expected.add(call.entropies, used[lane], left, part);
        continue;
      }
      // Rounding may leave 1 + 2e-16; the nearest probability is meant.
      const double value = call.vector != nullptr ? used[lane] * shifts[lane].direction : std::min(used[lane], 1.0);
      call.parts[part] = static_cast<T>(value);
    }
  }
};

}  // namespace
}  // namespace constituency
}  // namespace structattn

using structattn::Dual;
using structattn::Plain;

#define STRUCTATTN_EXPORT_CONSTITUENCY(T, NAME)                                                                       \
  int structattn_constituency_marginals_##NAME(const T* scores, const int64_t* lengths, T* log_partition, T* parts,   \
                                               int64_t batch, int64_t words) {                                        \
    return structattn::evaluate_all<structattn::constituency::Phrases, Plain>(                                                      \
        structattn::constituency::call_of<T>(scores, lengths, nullptr, log_partition, parts, batch, words));                        \
  }                                                                                                                   \
  int structattn_constituency_hvp_##NAME(const T* scores, const int64_t* lengths, const T* vector, T* product,        \
                                         int64_t batch, int64_t words) {                                              \
    return structattn::evaluate_all<structattn::constituency::Phrases, Dual>(                                                       \
        structattn::constituency::call_of<T>(scores, lengths, vector, nullptr, product, batch, words));                             \
  }                                                                                                                   \
  int structattn_constituency_entropy_##NAME(const T* scores, const int64_t* lengths, const T* values,                \
                                             double* log_partition, double* entropy, double* gap, int64_t batch,      \
                                             int64_t words) {                                                         \
    auto call = structattn::constituency::call_of<T>(scores, lengths, nullptr, nullptr, nullptr, batch, words);                     \
    call.entropies = {values, log_partition, entropy, gap};                                                           \
    return structattn::finished(structattn::evaluate_all<structattn::constituency::Phrases, Plain>(call), entropy, batch);          \
  }

extern "C" {
STRUCTATTN_EXPORT_CONSTITUENCY(float, float32)
STRUCTATTN_EXPORT_CONSTITUENCY(double, float64)
}
