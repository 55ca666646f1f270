// All dependency trees: weights of arcs, and the elimination of one node after the other (Grassmann, Taksar and Heyman
// 1985). What is found with it, probabilities or random trees, is in two files of its own.
//
// With A[h,k] the weight of head h for word k, taking k out of the graph takes d = sum_h A[h,k] out of the sum over all
// trees and leaves A[h,m] + A[h,k] A[k,m] / d. Nothing is subtracted, so every digit is kept. With a single root r, d
// sums over words only, s = r[k] + d is taken out, and the root row becomes (d r[m] + r[k] A[k,m]) / s.
//
// Weights of a word sum to one. So a sum over trees is below one (with a single root, below their number of words), and
// what doubles flush, less than n^2 e^-700, is beyond its digits where it is above kTrusted.
#pragma once

#include <limits>

#include "batch.hpp"

namespace structattn {
namespace spanning_tree {

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

STRUCTATTN_INLINE Bits padded(const Group& group, int64_t k) {
  return Bits{group.lengths[0], group.lengths[1], group.lengths[2], group.lengths[3]} < k;
}

template <class Num, class T>
void load(const Call<T>& call, const Group& group, const double* shifts, const double* scales, Num* weights) {
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
Leaving<Num> leave(const Num* graph, int64_t size, int64_t k, bool single_root, Num* share) {
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
Num eliminate(Num* graph, Num* roots, Num* share, int64_t size, const Group& group, bool single_root) {
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

// Where doubles are not proved to be enough, a sentence has no answer: the first of its results is nan.
template <class Program, class Num, class T>
int evaluate(const Call<T>& call) {
  try {
    std::vector<int64_t> again;
    const int status = sweep<Evaluation<Program, Num, T>>(call, longest_first(call), &again);
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

}  // namespace spanning_tree
}  // namespace structattn
