// Probabilities of the arcs of all dependency trees, and their derivatives: the elimination of spanning_tree.hpp backwards.
//
// G = d log Z / d A follows from the rows and columns that an elimination leaves untouched: with u[h] = sum_m G[h,m]
// A[k,m] and t = sum_h (A[h,k] / d) u[h], G[h,k] = (1 + u[h] - t) / d and G[k,m] = sum_h G[h,m] A[h,k] / d. A marginal is
// A * G; what is subtracted are expected numbers of arcs, so its error is absolute and negligible.
#include "spanning_tree.hpp"

namespace structattn {
namespace spanning_tree {
namespace {

STRUCTATTN_INLINE Plain operator-(const Plain& a, const Plain& b) { return {a.value - b.value}; }
STRUCTATTN_INLINE Dual operator-(const Dual& a, const Dual& b) { return {a.value - b.value, a.slope - b.slope}; }

struct Arcs {
  static int64_t num_cells(int64_t length) { return 4 * (length + 1) * (length + 1) + 2 * (length + 1); }

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
};

}  // namespace
}  // namespace spanning_tree
}  // namespace structattn

using structattn::spanning_tree::Arcs;

#define STRUCTATTN_EXPORT_SPANNING_TREE(T, NAME)                                                                      \
  int structattn_spanning_tree_marginals_##NAME(const T* scores, const int64_t* lengths, T* log_partition, T* parts,  \
                                                int64_t batch, int64_t words, int64_t single_root) {                  \
    return structattn::spanning_tree::evaluate<Arcs, structattn::Plain, T>(                                                                \
        {scores, lengths, nullptr, log_partition, parts, batch, words, words * (words + 1), single_root != 0});       \
  }                                                                                                                   \
  int structattn_spanning_tree_hvp_##NAME(const T* scores, const int64_t* lengths, const T* vector, T* product,       \
                                          int64_t batch, int64_t words, int64_t single_root) {                        \
    return structattn::spanning_tree::evaluate<Arcs, structattn::Dual, T>(                                                                 \
        {scores, lengths, vector, nullptr, product, batch, words, words * (words + 1), single_root != 0});            \
  }                                                                                                                   \
  int structattn_spanning_tree_entropy_##NAME(const T* scores, const int64_t* lengths, const T* values,               \
                                              double* log_partition, double* entropy, double* gap, int64_t batch,     \
                                              int64_t words, int64_t single_root) {                                   \
    structattn::Call<T> call{                                                                                         \
        scores, lengths, nullptr, nullptr, nullptr, batch, words, words * (words + 1), single_root != 0};             \
    call.entropies = {values, log_partition, entropy, gap};                                                           \
    const int status = structattn::spanning_tree::evaluate<Arcs, structattn::Plain, T>(call);                                              \
    return structattn::finished(status, entropy, batch);                                                              \
  }

extern "C" {
STRUCTATTN_EXPORT_SPANNING_TREE(float, float32)
STRUCTATTN_EXPORT_SPANNING_TREE(double, float64)
}
