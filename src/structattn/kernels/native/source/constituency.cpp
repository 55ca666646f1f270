// Binary phrase trees: inside, outside and the best tree (CKY), over the number types of numbers.hpp.
//
// X[i,k] = sum_j B[i,j] B[j,k]; B[i,k] = W[i,k] X[i,k]. Going down, a span pulls what its possible parents hold:
// oB[a,b] = sum_{k>b} oX[a,k] B[b,k] + sum_{i<a} oX[i,b] B[i,a]; oX = oB W.
// Tables are kept symmetric, so that both factors of every sum are rows; X waits where oX will be.
//
// Every tree holds all words, the whole sentence and n - 2 other phrases: the scores of the former are taken out, and
// the best of the latter from each; a factor 4 for each makes up for the number of trees (Catalan's numbers).
#include "batch.hpp"

namespace structattn {
namespace {

constexpr double kLogGrowth = 1.3862943611198906;

// What is taken out of the scores of a sentence, the number of trees out of their sum, and the unit of the vector.
struct Shift {
  double words, top, phrase, total, growth, direction;
  Expected expected = {};
};

template <class T>
Shift shift_of(const T* scores, const T* vector, int64_t fences, int64_t length, double counts) {
  Shift shift{0.0, 0.0, -kInfinity, 0.0, 0.0, 0.0};
  if (length >= 2) shift.top = scores[length];
  for (int64_t i = 0; i < length; ++i) {
    const T* row = scores + i * fences;
    shift.words += row[i + 1];
    for (int64_t k = i + 2; k <= length; ++k) {
      if (i > 0 || k < length) shift.phrase = std::max(shift.phrase, static_cast<double>(row[k]));
    }
    if (vector != nullptr) {
      shift.direction = std::max(shift.direction, largest(vector + i * fences + i + 1, length - i));
    }
  }
  if (shift.phrase == -kInfinity) shift.phrase = 0.0;
  if (shift.top == -kInfinity) shift.top = 0.0;
  shift.direction = power_near(shift.direction);
  const double others = static_cast<double>(std::max<int64_t>(length - 2, 0));
  shift.total = shift.words + shift.top + others * shift.phrase;
  shift.growth = others * counts * kLogGrowth;
  return shift;
}

struct Phrases {
  static int64_t num_cells(int64_t length) { return 3 * (length + 1) * (length + 1); }

  // Weights of all spans, `weights[k * size + i]`.
  template <class Num, class T>
  static void load(const Call<T>& call, const Group& group, Num* weights, Shift* shifts) {
    const int64_t fences = call.words + 1, size = group.longest + 1;
    for (int lane = 0; lane < kLanes; ++lane) {
      const int64_t offset = std::max<int64_t>(group.items[lane], 0) * call.num_parts;
      const T* vector = Num::differentiates ? call.vector + offset : nullptr;
      shifts[lane] = shift_of(call.scores + offset, vector, fences, group.lengths[lane], Num::counts);
    }
    for (int64_t i = 0; i < size; ++i) {
      for (int64_t k = i + 1; k < size; ++k) {
        Lanes score = all(-kInfinity), direction = all(0.0);
        for (int lane = 0; lane < kLanes; ++lane) {
          if (k > group.lengths[lane]) continue;
          const int64_t part = group.items[lane] * call.num_parts + i * fences + k;
          const bool certain = k == i + 1 || k - i == group.lengths[lane];
          const double value = call.scores[part];
          if (value == -kInfinity) continue;
          // A span that every tree has weighs one and, being certain, has no derivative.
          score[lane] = certain ? 0.0 : value - shifts[lane].phrase - Num::counts * kLogGrowth;
          if (Num::differentiates && !certain) direction[lane] = call.vector[part] / shifts[lane].direction;
        }
        weights[k * size + i] = Num::weight(score, direction);
      }
    }
  }

  template <class Num>
  static void inside(const Num* weights, Num* B, Num* X, int64_t size) {
    for (int64_t k = 1; k < size; ++k) {
      B[(k - 1) * size + k] = B[k * size + k - 1] = weights[k * size + k - 1];
      for (int64_t i = k - 2; i >= 0; --i) {
        const Num sum = dot(B + i * size + i + 1, B + k * size + i + 1, k - i - 1).settle();
        X[i * size + k] = sum;
        B[i * size + k] = B[k * size + i] = (sum * weights[k * size + i]).settle();
      }
    }
  }

  template <class Num, class T>
  static unsigned char evaluate(const Call<T>& call, const Group& group, Num* workspace) {
    const int64_t size = group.longest + 1;
    Num *weights = workspace, *B = weights + size * size, *oX = B + size * size;
    Shift shifts[kLanes];
    load(call, group, weights, shifts);
    inside(weights, B, oX, size);
    Num total = Num::one().where(group.ends_at(0));
    for (int64_t k = 1; k < size; ++k) total = total + B[k].where(group.ends_at(k));
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
      return untrusted_lanes(total.trusted(), group);
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
        if (b > a + 1) oX[row + b] = oX[column + a] = pass(outside, value, weights[column + a], oX[row + b]);
      }
    }
    write_entropies(call, group, shifts, total);
    return untrusted_lanes(total.trusted(), group);
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

struct BestPhrases {
  static int64_t num_cells(int64_t length) { return Phrases::num_cells(length); }

  template <class Num, class T>
  static unsigned char evaluate(const Call<T>& call, const Group& group, Num* workspace) {
    const int64_t size = group.longest + 1;
    Num *weights = workspace, *table = weights + size * size;
    Shift shifts[kLanes];
    Phrases::load(call, group, weights, shifts);
    Phrases::inside(weights, table, table + size * size, size);
    for (int lane = 0; lane < kLanes; ++lane) {
      if (group.items[lane] < 0) continue;
      T* parts = call.parts + group.items[lane] * call.num_parts;
      std::memset(parts, 0, call.num_parts * sizeof(T));
      const int64_t length = group.lengths[lane];
      if (length > 0 && table[length].value[lane] > -kInfinity) {
        descend(table, size, lane, 0, length, parts, call.words + 1);
      }
    }
    return 0;
  }

  // The split is found again by its value, instead of being stored by the inner loop.
  template <class T>
  static void descend(const Best* table, int64_t size, int lane, int64_t i, int64_t k, T* parts, int64_t fences) {
    while (true) {
      parts[i * fences + k] = 1;
      if (k == i + 1) return;
      double best = -kInfinity;
      int64_t split = i + 1;
      for (int64_t j = i + 1; j < k; ++j) {
        const double value = table[i * size + j].value[lane] + table[k * size + j].value[lane];
        if (value > best) best = value, split = j;
      }
      // Into the shorter half by recursion, so that the stack stays logarithmic.
      if (split - i < k - split) {
        descend(table, size, lane, i, split, parts, fences);
        i = split;
      } else {
        descend(table, size, lane, split, k, parts, fences);
        k = split;
      }
    }
  }
};

template <class T>
Call<T> call_of(const T* scores, const int64_t* lengths, const T* vector, T* log_partition, T* parts, int64_t batch,
                int64_t words) {
  return {scores, lengths, vector, log_partition, parts, batch, words, (words + 1) * (words + 1), false};
}

}  // namespace
}  // namespace structattn

using structattn::Best;
using structattn::Dual;
using structattn::Plain;

#define STRUCTATTN_EXPORT_CONSTITUENCY(T, NAME)                                                                       \
  int structattn_constituency_marginals_##NAME(const T* scores, const int64_t* lengths, T* log_partition, T* parts,   \
                                               int64_t batch, int64_t words) {                                        \
    return structattn::evaluate_all<structattn::Phrases, Plain>(                                                      \
        structattn::call_of<T>(scores, lengths, nullptr, log_partition, parts, batch, words));                        \
  }                                                                                                                   \
  int structattn_constituency_hvp_##NAME(const T* scores, const int64_t* lengths, const T* vector, T* product,        \
                                         int64_t batch, int64_t words) {                                              \
    return structattn::evaluate_all<structattn::Phrases, Dual>(                                                       \
        structattn::call_of<T>(scores, lengths, vector, nullptr, product, batch, words));                             \
  }                                                                                                                   \
  int structattn_constituency_entropy_##NAME(const T* scores, const int64_t* lengths, const T* values,                \
                                             double* log_partition, double* entropy, double* gap, int64_t batch,      \
                                             int64_t words) {                                                         \
    auto call = structattn::call_of<T>(scores, lengths, nullptr, nullptr, nullptr, batch, words);                     \
    call.entropies = {values, log_partition, entropy, gap};                                                           \
    return structattn::finished(structattn::evaluate_all<structattn::Phrases, Plain>(call), entropy, batch);          \
  }                                                                                                                   \
  int structattn_constituency_argmax_##NAME(const T* scores, const int64_t* lengths, T* parts, int64_t batch,         \
                                            int64_t words) {                                                          \
    return structattn::select_all<structattn::BestPhrases>(                                                           \
        structattn::call_of<T>(scores, lengths, nullptr, nullptr, parts, batch, words));                              \
  }

extern "C" {
STRUCTATTN_EXPORT_CONSTITUENCY(float, float32)
STRUCTATTN_EXPORT_CONSTITUENCY(double, float64)
}
