// All dependency trees: the matrix-tree theorem by elimination (Grassmann, Taksar and Heyman 1985), and its derivatives.
//
// With A[h,k] the weight of head h for word k, taking k out of the graph takes d = sum_h A[h,k] out of the sum over all
// trees and leaves A[h,m] + A[h,k] A[k,m] / d. Nothing is subtracted, so every digit is kept. With a single root r, d
// sums over words only, s = r[k] + d is taken out, and the root row becomes (d r[m] + r[k] A[k,m]) / s.
//
// G = d log Z / d A follows backwards, from the rows and columns that an elimination leaves untouched: with u[h] =
// sum_m G[h,m] A[k,m] and t = sum_h (A[h,k] / d) u[h], G[h,k] = (1 + u[h] - t) / d and G[k,m] = sum_h G[h,m] A[h,k] / d.
// A marginal is A * G; what is subtracted are expected numbers of arcs, so its error is absolute and negligible.
//
// Weights of a word sum to one. So a sum over trees is below one (with a single root, below their number of words), and
// what doubles flush, less than n^2 e^-700, is beyond its digits where it is above kTrusted.
#include <limits>

#include "batch.hpp"

namespace structattn {
namespace {

STRUCTATTN_INLINE Plain operator-(const Plain& a, const Plain& b) { return {a.value - b.value}; }
STRUCTATTN_INLINE Dual operator-(const Dual& a, const Dual& b) { return {a.value - b.value, a.slope - b.slope}; }

// What is taken out of the scores of a sentence: from each word the logarithm of its summed weights, and with a single
// root the best of what is left of its scores.
template <class T>
double shift_of(const T* scores, int64_t words, int64_t length, bool single_root, double* by_word) {
  double total = 0.0, root = -kInfinity;
  for (int64_t m = 1; m <= length; ++m) {
    const T* row = scores + (m - 1) * (words + 1);
    double best = -kInfinity;
    for (int64_t h = 0; h <= length; ++h) {
      if (h != m) best = std::max(best, static_cast<double>(row[h]));
    }
    double sum = 0.0;
    if (best > -kInfinity) {
      // Any shift will do; float is near enough, and its exponential is cheap.
      for (int64_t h = 0; h <= length; ++h) {
        if (h != m) sum += std::exp(static_cast<float>(row[h] - best));
      }
      best += std::log(sum) + 1e-6;
    }
    by_word[m] = best > -kInfinity ? best : 0.0;
    root = std::max(root, static_cast<double>(row[0]) - by_word[m]);
    total += by_word[m];
  }
  by_word[0] = single_root && root > -kInfinity ? root : 0.0;
  return total + by_word[0];
}

// One node leaves: its in-weight, the factor, and which share of a detour over it starts where.
template <class Num>
struct Leaving {
  Num in, in_inverse, factor, factor_inverse;
};

struct SpanningTrees {
  static int64_t num_cells(int64_t length) { return 4 * (length + 1) * (length + 1) + 2 * (length + 1); }

  template <class Num, class T>
  static void load(const Call<T>& call, const Group& group, const double* shifts, const double* scales, Num* weights) {
    const int64_t size = group.longest + 1, heads = call.words + 1;
    for (int64_t h = 0; h < size; ++h) {
      weights[h * size] = Num::zero();
      for (int64_t m = 1; m < size; ++m) {
        Lanes score = all(-kInfinity), direction = all(0.0);
        for (int lane = 0; lane < kLanes && h != m; ++lane) {
          if (m > group.lengths[lane] || h > group.lengths[lane]) continue;
          const int64_t part = group.items[lane] * call.num_parts + (m - 1) * heads + h;
          const double value = call.scores[part];
          if (value == -kInfinity) continue;
          score[lane] = value - shifts[lane * size + m] - (h == 0 ? shifts[lane * size] : 0.0);
          if (Num::differentiates) direction[lane] = call.vector[part] / scales[lane];
        }
        weights[h * size + m] = Num::weight(score, direction);
      }
    }
  }

  // Needs column k of the graph as it is when k leaves; `share[h]` is filled for the heads of detours.
  template <class Num>
  static Leaving<Num> leave(const Num* graph, int64_t size, int64_t k, bool single_root, Num* share) {
    const int64_t first = single_root ? 1 : 0;
    Num in = Num::zero();
    for (int64_t h = first; h < k; ++h) in = in + graph[h * size + k];
    const Num inverse = in.reciprocal();
    for (int64_t h = first; h < k; ++h) share[h] = graph[h * size + k] * inverse;
    if (!single_root) return {in, inverse, in, inverse};
    if (k > 1) {
      // A node that no word can head hangs from the root; then its in-weights may go to zero together.
      const Num equal = scaled(Num::one(), all(1.0 / static_cast<double>(k - 1))).where(in.value == 0.0);
      for (int64_t h = 1; h < k; ++h) share[h] = share[h] + equal;
    }
    const Num factor = graph[k] + in;
    return {in, inverse, factor, factor.reciprocal()};
  }

  template <class Num>
  static Num eliminate(Num* graph, Num* roots, Num* share, int64_t size, const Group& group, bool single_root) {
    Num total = Num::one();
    for (int64_t k = size - 1; k >= 1; --k) {
      const Bits padding = padded(group, k);
      const Leaving<Num> gone = leave(graph, size, k, single_root, share);
      total = total * (gone.factor.where(~padding) + Num::one().where(padding));
      const Num* row = graph + k * size;
      for (int64_t h = single_root ? 1 : 0; h < k; ++h) {
        const Num start = share[h];
        Num* target = graph + h * size;
        for (int64_t m = 1; m < k; ++m) {
          target[m].accumulate(start, row[m]);
        }
        target[h] = Num::zero();
      }
      if (!single_root) continue;
      const Num stay = gone.in * gone.factor_inverse, go = graph[k] * gone.factor_inverse;
      for (int64_t m = 1; m < k; ++m) {
        roots[k * size + m] = graph[m];
        graph[m] = graph[m].where(padding) + (stay * graph[m] + go * row[m]).where(~padding);
      }
    }
    return total;
  }

  template <class Num>
  static void restore(const Num* graph, const Num* roots, Num* share, Num* used, Num* gradient, int64_t size,
                      const Group& group, bool single_root) {
    for (int64_t i = 0; i < size * size; ++i) gradient[i] = Num::zero();
    for (int64_t k = 1; k < size; ++k) {
      const Bits real = ~padded(group, k);
      const Num *row = graph + k * size, *before = roots + k * size;
      const Leaving<Num> gone = leave(graph, size, k, single_root, share);
      Num* own = gradient + k * size;
      Num expected = Num::zero();
      for (int64_t h = single_root ? 1 : 0; h < k; ++h) {
        const Num start = share[h];
        const Num* above = gradient + h * size;
        Num sum = Num::zero();
        for (int64_t m = 1; m < k; ++m) {
          sum.accumulate(above[m], row[m]);
          own[m].accumulate(above[m], start);
        }
        used[h] = sum;
        expected.accumulate(used[h], start);
      }
      if (!single_root) {
        for (int64_t h = 0; h < k; ++h) {
          gradient[h * size + k] = ((Num::one() + (used[h] - expected)) * gone.in_inverse).where(real);
        }
      } else {
        // The marginals of the root row sum to one, which leaves these terms of the derivative.
        Num stayed = Num::zero(), moved = Num::zero();
        for (int64_t m = 1; m < k; ++m) {
          stayed.accumulate(gradient[m], before[m]);
          moved.accumulate(gradient[m], row[m]);
        }
        if (k == 1) moved = Num::one();
        const Num inverse = gone.factor_inverse, by_root = stayed * inverse;
        for (int64_t h = 1; h < k; ++h) {
          gradient[h * size + k] = ((used[h] - expected) * gone.in_inverse + by_root).where(real);
        }
        const Num stay = gone.in * inverse, go = graph[k] * inverse;
        for (int64_t m = 1; m < k; ++m) {
          own[m].accumulate(gradient[m], go);
          gradient[m] = gradient[m].where(~real) + (gradient[m] * stay).where(real);
        }
        gradient[k] = (moved * inverse).where(real);
      }
      for (int64_t m = 1; m < k; ++m) own[m] = own[m].where(real);
    }
  }

  template <class Num, class T>
  static unsigned char evaluate(const Call<T>& call, const Group& group, Num* workspace) {
    const int64_t size = group.longest + 1, cells = size * size, heads = call.words + 1;
    Num *weights = workspace, *graph = weights + cells, *gradient = graph + cells, *roots = gradient + cells;
    Num *share = roots + cells, *used = share + size;
    std::vector<double> shifts(kLanes * size, 0.0);
    double totals[kLanes] = {0.0, 0.0, 0.0, 0.0}, scales[kLanes] = {1.0, 1.0, 1.0, 1.0};
    for (int lane = 0; lane < kLanes; ++lane) {
      if (group.items[lane] < 0) continue;
      const int64_t offset = group.items[lane] * call.num_parts, length = group.lengths[lane];
      totals[lane] = shift_of(call.scores + offset, call.words, length, call.single_root, shifts.data() + lane * size);
      if (!Num::differentiates) continue;
      double direction = 0.0;
      for (int64_t m = 0; m < length; ++m) {
        direction = std::max(direction, largest(call.vector + offset + m * heads, length + 1));
      }
      scales[lane] = power_near(direction);
    }
    load(call, group, shifts.data(), scales, weights);
    std::memcpy(static_cast<void*>(graph), weights, cells * sizeof(Num));
    const Num total = eliminate(graph, roots, share, size, group, call.single_root);
    const unsigned char untrusted = untrusted_lanes(total.trusted(), group);
    for (int lane = 0; lane < kLanes; ++lane) {
      if (group.items[lane] < 0) continue;
      call.clear_parts(group.items[lane]);
      if (call.log_partition == nullptr) continue;
      call.log_partition[group.items[lane]] = static_cast<T>(std::log(total.value[lane]) + totals[lane]);
    }
    Expected expected[kLanes] = {};
    const auto write_entropies = [&] {
      for (int lane = 0; lane < kLanes && call.entropies.wanted(); ++lane) {
        if (group.items[lane] < 0) continue;
        expected[lane].taken = totals[lane];
        expected[lane].write(call.entropies, group.items[lane], std::log(total.value[lane]), group.lengths[lane] < 2);
      }
    };
    if (call.parts == nullptr && !call.entropies.wants_parts()) {
      write_entropies();
      return untrusted;
    }
    restore(graph, roots, share, used, gradient, size, group, call.single_root);
    for (int64_t h = 0; h < size; ++h) {
      for (int64_t m = 1; m < size; ++m) {
        const Num value = weights[h * size + m] * gradient[h * size + m];
        for (int lane = 0; lane < kLanes; ++lane) {
          if (m > group.lengths[lane] || h > group.lengths[lane]) continue;
          const int64_t part = group.items[lane] * call.num_parts + (m - 1) * heads + h;
          if (!call.entropies.wanted()) {
            call.parts[part] = part_of<T>(value, lane, scales[lane]);
          } else if (value.value[lane] > 0.0) {
            const double *taken = shifts.data() + lane * size, left = call.scores[part] - taken[m] - (h == 0 ? taken[0] : 0.0);
            expected[lane].add(call.entropies, value.value[lane], left, part);
          }
        }
      }
    }
    write_entropies();
    return untrusted;
  }

  // Probabilities were subtracted: rounding may leave -1e-17 or 1 + 2e-16; the nearest probability is meant.
  template <class T>
  static STRUCTATTN_INLINE T part_of(const Plain& used, int lane, double) {
    return static_cast<T>(std::min(std::max(used.value[lane], 0.0), 1.0));
  }
  template <class T>
  static STRUCTATTN_INLINE T part_of(const Dual& used, int lane, double scale) {
    return static_cast<T>(used.slope[lane] * scale);
  }

  static STRUCTATTN_INLINE Bits padded(const Group& group, int64_t k) {
    return Bits{group.lengths[0], group.lengths[1], group.lengths[2], group.lengths[3]} < k;
  }
};

// Where doubles are not proved to be enough, a sentence has no answer.
template <class Num, class T>
int evaluate(const Call<T>& call) {
  try {
    std::vector<int64_t> again;
    const int status = sweep<Evaluation<SpanningTrees, Num, T>>(call, longest_first(call), &again);
    for (const int64_t item : again) {
      if (call.log_partition != nullptr) call.log_partition[item] = std::numeric_limits<T>::quiet_NaN();
      if (call.parts != nullptr) call.parts[item * call.num_parts] = std::numeric_limits<T>::quiet_NaN();
      if (call.entropies.wanted()) call.entropies.log_partition[item] = std::numeric_limits<double>::quiet_NaN();
      if (call.entropies.wants_parts()) call.entropies.entropy[item] = std::numeric_limits<double>::quiet_NaN();
    }
    return status != kDone || again.empty() ? status : kUntrusted;
  } catch (const std::bad_alloc&) {
    return kOutOfMemory;
  }
}

}  // namespace
}  // namespace structattn

#define STRUCTATTN_EXPORT_SPANNING_TREE(T, NAME)                                                                      \
  int structattn_spanning_tree_marginals_##NAME(const T* scores, const int64_t* lengths, T* log_partition, T* parts,  \
                                                int64_t batch, int64_t words, int64_t single_root) {                  \
    return structattn::evaluate<structattn::Plain, T>(                                                                \
        {scores, lengths, nullptr, log_partition, parts, batch, words, words * (words + 1), single_root != 0});       \
  }                                                                                                                   \
  int structattn_spanning_tree_hvp_##NAME(const T* scores, const int64_t* lengths, const T* vector, T* product,       \
                                          int64_t batch, int64_t words, int64_t single_root) {                        \
    return structattn::evaluate<structattn::Dual, T>(                                                                 \
        {scores, lengths, vector, nullptr, product, batch, words, words * (words + 1), single_root != 0});            \
  }                                                                                                                   \
  int structattn_spanning_tree_entropy_##NAME(const T* scores, const int64_t* lengths, const T* values,               \
                                              double* log_partition, double* entropy, double* gap, int64_t batch,     \
                                              int64_t words, int64_t single_root) {                                   \
    structattn::Call<T> call{                                                                                         \
        scores, lengths, nullptr, nullptr, nullptr, batch, words, words * (words + 1), single_root != 0};             \
    call.entropies = {values, log_partition, entropy, gap};                                                           \
    const int status = structattn::evaluate<structattn::Plain, T>(call);                                              \
    return structattn::finished(status, entropy, batch);                                                              \
  }

extern "C" {
STRUCTATTN_EXPORT_SPANNING_TREE(float, float32)
STRUCTATTN_EXPORT_SPANNING_TREE(double, float64)
}
