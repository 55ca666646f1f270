// Linear chains with a matrix for each step: the program of chain_smoother.hpp, for one sentence at a time.
//
// Nearly all that is read here are the matrices, and each of their numbers is used once on the way forward and once
// back. So the four lanes are states of one sentence, which lie side by side in memory; a weight is computed where it is
// used, which is faster than to fetch it from a table as large as all matrices; and the probability of a transition is
// written where it belongs.
#pragma once

#include <limits>

#include "chain_quads.hpp"
#include "chain_smoother.hpp"

namespace structattn {

// One thread's tables, for one sentence. Numbers are `Plain` or `Dual`; exponentials are as exact as those of `Exact`.
template <class T, class Num, class Weight, class Exact = T>
class StepSmoother {
 public:
  static int64_t bytes(const Chains<T>& call, int64_t longest) {
    return (2 * longest + 2) * quads(call) * int64_t{sizeof(Num)} + 2 * (longest + 1) * int64_t{sizeof(double)};
  }

  StepSmoother(const Chains<T>& call, void* memory)
      : call(call), C(call.states), full(C / 4), V(quads(call)), filtered(static_cast<Num*>(memory)) {}

  static int64_t work(const Chains<T>& call, int64_t longest) { return longest * (call.square() + 8 * call.states); }

  // What becomes of the probabilities of transitions.
  enum Use { kIgnored, kStored, kExpected };

  // The sentences whose numbers cannot be trusted, as the bits of a byte.
  unsigned char run(const Group& sentences) {
    ratios = filtered + sentences.longest * V;
    marginals = ratios + sentences.longest * V;
    best = reinterpret_cast<double*>(marginals + 2 * V);
    best_states = best + sentences.longest + 1;
    unsigned char untrusted = 0;
    for (int lane = 0; lane < kLanes; ++lane) {
      if (sentences.items[lane] < 0) continue;
      item = sentences.items[lane];
      length = sentences.lengths[lane];
      direction = Num::differentiates ? power_near(size_of_vector()) : 1.0;
      if (!go_forward()) untrusted |= static_cast<unsigned char>(1u << lane);
      expected_scores = expected_values = all(0.0);
      if (call.wants_states() || call.wants_transitions()) go_back();
      if (!call.entropies.wanted()) continue;
      const Expected expected{shift, sum_of(expected_scores), sum_of(expected_values)};
      expected.write(call.entropies, item, logarithm, length == 0);
    }
    return untrusted;
  }

 private:
  const Chains<T>& call;
  const int64_t C, full, V;  // states, and how many fours of them are full, and are there
  Num* filtered;             // p, at first U
  Num* ratios;               // r, later w
  Num* marginals;
  double *best, *best_states;  // the highest score of each step, and of the states of each word
  int64_t item, length;
  double direction, logarithm, shift;
  Lanes expected_scores, expected_values;

  static int64_t quads(const Chains<T>& call) { return (call.states + 3) / 4; }

  double size_of_vector() const {
    const double size = largest(call.unary_vector(item, 0), length * C);
    if (call.transition_vectors.data == nullptr) return size;
    return std::max(size, largest(call.matrix_vector(item, 0), call.num_matrices(length) * call.square()));
  }

  template <bool kFull>
  STRUCTATTN_INLINE Lanes load(const T* from) const {
    return kFull ? Quad<T>::load(from) : Quad<T>::load(from, C - 4 * full);
  }

  // Nothing beyond the last state: its score is minus infinity.
  template <class Number, bool kFull>
  STRUCTATTN_INLINE Number weight(const T* scores, const T* vectors, int64_t offset, Lanes shift) const {
    const Lanes value = Exponential<Exact>::above(load<kFull>(scores + offset), shift);
    if constexpr (Number::differentiates) {
      if (vectors == nullptr) return {value, all(0.0)};
      // What is forbidden has no derivative, whatever the vector holds there.
      return {value, value > 0.0 ? value * (load<kFull>(vectors + offset) * (1.0 / direction)) : all(0.0)};
    } else {
      return {value};
    }
  }

  // The highest of these scores, or zero if there is none.
  double highest(const T* scores, int64_t count) const {
    typedef T Many __attribute__((vector_size(32)));
    constexpr int64_t kMany = 32 / sizeof(T);
    T found = -std::numeric_limits<T>::infinity();
    int64_t k = 0;
    if (count >= 2 * kMany) {
      Many top[2], next[2];
      std::memcpy(top, scores, sizeof top);
      for (k = 2 * kMany; k + 2 * kMany <= count; k += 2 * kMany) {
        std::memcpy(next, scores + k, sizeof next);
        top[0] = next[0] > top[0] ? next[0] : top[0];
        top[1] = next[1] > top[1] ? next[1] : top[1];
      }
      top[0] = top[1] > top[0] ? top[1] : top[0];
      for (int64_t lane = 0; lane < kMany; ++lane) found = top[0][lane] > found ? top[0][lane] : found;
    }
    for (; k < count; ++k) found = scores[k] > found ? scores[k] : found;
    return found > -std::numeric_limits<T>::infinity() ? found : 0.0;
  }

  const T* vector_of_step(int64_t step) const {
    const bool given = Weight::differentiates && call.transition_vectors.data != nullptr;
    return given ? call.matrix_vector(item, step) : nullptr;
  }

  // Whether doubles were enough.
  bool go_forward() {
    logarithm = shift = 0.0;
    bool trusted = true;
    for (int64_t word = 0; word < length; ++word) {
      Num *here = filtered + word * V, *ratio = ratios + word * V;
      shift += best_states[word] = raise_states(word, here);
      if (word > 0) {
        shift += best[word - 1] = highest(call.transition(item, word - 1), call.square());
        sum_before(word - 1, here - V, ratio);
        for (int64_t v = 0; v < V; ++v) here[v] = here[v] * ratio[v];
      }
      Num sum = Num::zero();
      Lanes lowest = all(kInfinity);
      for (int64_t v = 0; v < V; ++v) {
        sum = sum + here[v];
        lowest = minimum(v < full ? size_of(here[v]) : last_of(size_of(here[v])), lowest);
      }
      sum = in_all_lanes(sum);
      if (std::min(std::min(lowest[0], lowest[1]), std::min(lowest[2], lowest[3])) < kNearZero) {
        trusted = trusted && !lost(word);
      }
      logarithm += sum.log(0);
      const Num inverse = sum.reciprocal();
      for (int64_t v = 0; v < V; ++v) here[v] = here[v] * inverse;
    }
    if (call.log_partition != nullptr) call.log_partition[item] = static_cast<T>(logarithm + shift);
    return trusted;
  }

  STRUCTATTN_INLINE Lanes last_of(Lanes numbers) const {
    for (int64_t k = C - 4 * full; k < 4; ++k) numbers[k] = kInfinity;
    return numbers;
  }

  double raise_states(int64_t word, Num* here) const {
    const T* scores = call.unary(item, word);
    const T* vectors = Num::differentiates ? call.unary_vector(item, word) : nullptr;
    const double top = highest(scores, C);
    const Lanes shift = Exponential<Exact>::shift(top);
    for (int64_t v = 0; v < full; ++v) here[v] = weight<Num, true>(scores, vectors, 4 * v, shift);
    if (full < V) here[full] = weight<Num, false>(scores, vectors, 4 * full, shift);
    return top;
  }

  // r[c] = sum over b of p[b] T[b,c].
  void sum_before(int64_t step, const Num* before, Num* sums) const {
    int64_t v = 0;
    for (; v + 4 <= full; v += 4) sum_before<4, true>(step, before, v, sums);
    for (; v < full; ++v) sum_before<1, true>(step, before, v, sums);
    if (full < V) sum_before<1, false>(step, before, full, sums);
  }

  template <int kCount, bool kFull>
  STRUCTATTN_INLINE void sum_before(int64_t step, const Num* before, int64_t v, Num* sums) const {
    const T *scores = call.transition(item, step), *vectors = vector_of_step(step);
    const Lanes shift = Exponential<Exact>::shift(best[step]);
    Num sum[kCount];
    for (int k = 0; k < kCount; ++k) sum[k] = Num::zero();
    for (int64_t b = 0; b < C; ++b) {
      const Num from = pick(before, b);
      for (int k = 0; k < kCount; ++k) {
        accumulate(sum[k], from, weight<Weight, kFull>(scores, vectors, b * C + 4 * (v + k), shift));
      }
    }
    for (int k = 0; k < kCount; ++k) sums[v + k] = sum[k];
  }

  // Whether underflow, not the scores, may have made some number small.
  bool lost(int64_t word) const {
    for (int64_t c = 0; c < C; ++c) {
      if (value(word, c) < kNearZero && !forbidden(word, c)) return true;
    }
    return false;
  }
  double value(int64_t word, int64_t state) const { return size_of(filtered[word * V + state / 4])[state % 4]; }

  bool forbidden(int64_t word, int64_t state) const {
    if (call.unary(item, word)[state] == -kInfinity) return true;
    if (word == 0) return false;
    const T* transitions = call.transition(item, word - 1) + state;
    for (int64_t b = 0; b < C; ++b) {
      if (value(word - 1, b) > 0.0 && transitions[b * C] > -kInfinity) return false;
    }
    return true;
  }

  void go_back() {
    const int64_t used = call.num_matrices(length);
    const bool stored = !call.entropies.wanted(), wanted = call.wants_transitions();
    if (stored) {
      std::fill_n(call.unary_part(item, length), (call.words - length) * C, T(0));
      if (wanted) std::fill_n(call.matrix_part(item, used), (call.num_matrices() - used) * call.square(), T(0));
    }
    if (length == 0) return;
    std::copy_n(filtered + (length - 1) * V, V, marginals);
    for (int64_t word = length - 1;; --word) {
      if (stored) {
        T* part = call.unary_part(item, word);
        for (int64_t v = 0; v < V; ++v) write(marginals[v], v, part);
      } else {
        const T *scores = call.unary(item, word), *values = call.unary_value(item, word);
        for (int64_t v = 0; v < V; ++v) expect(marginals[v], v, scores, values, best_states[word]);
      }
      if (word == 0) return;
      Num* w = ratios + word * V;
      for (int64_t v = 0; v < V; ++v) {
        // Into a state that its own word forbids a sum may be left that has no inverse.
        w[v] = quotient(marginals[v], w[v]).where(size_of(filtered[word * V + v]) > 0.0);
      }
      if (!stored) pass_back<kExpected>(word - 1, w);
      else if (wanted) pass_back<kStored>(word - 1, w);
      else pass_back<kIgnored>(word - 1, w);
    }
  }

  // mu[b] = p[b] sum over c of T[b,c] w[c].
  template <Use kUse>
  void pass_back(int64_t step, const Num* w) {
    const T *scores = call.transition(item, step), *vectors = vector_of_step(step);
    const Lanes shift = Exponential<Exact>::shift(best[step]);
    T* part = kUse == kStored ? call.matrix_part(item, step) : nullptr;
    const T* values = kUse == kExpected ? call.matrix_value(item, step) : nullptr;
    for (int64_t b = 0; b < C; ++b) {
      const Num before = pick(filtered + step * V, b);
      Num sum = Num::zero();
      for (int64_t v = 0; v < full; ++v) {
        const Num after = times(w[v], weight<Weight, true>(scores, vectors, b * C + 4 * v, shift));
        sum = sum + after;
        if (kUse == kStored) write<true>(before * after, v, part + b * C);
        if (kUse == kExpected) expect(before * after, v, scores + b * C, values + b * C, best[step]);
      }
      if (full < V) {
        const Num after = times(w[full], weight<Weight, false>(scores, vectors, b * C + 4 * full, shift));
        sum = sum + after;
        if (kUse == kStored) write<false>(before * after, full, part + b * C);
        if (kUse == kExpected) expect(before * after, full, scores + b * C, values + b * C, best[step]);
      }
      put(before * in_all_lanes(sum), marginals, b);
    }
  }

  void expect(const Num& number, int64_t v, const T* scores, const T* values, double best_score) {
    v < full ? expect<true>(number, v, scores, values, best_score) : expect<false>(number, v, scores, values, best_score);
  }

  // Adds the expected scores of a row, less what was taken out, and the expected values.
  template <bool kFull>
  STRUCTATTN_INLINE void expect(const Num& number, int64_t v, const T* scores, const T* values, double best_score) {
    const Lanes used = result_of(number);
    const Bits some = used > 0.0;
    expected_scores += some ? used * (load<kFull>(scores + 4 * v) - best_score) : all(0.0);
    if (call.entropies.values != nullptr) expected_values += some ? used * load<kFull>(values + 4 * v) : all(0.0);
  }

  void write(const Num& number, int64_t v, T* row) const {
    v < full ? write<true>(number, v, row) : write<false>(number, v, row);
  }

  // Rounding may leave a probability of 1 + 2e-16; the nearest one is meant.
  template <bool kFull>
  STRUCTATTN_INLINE void write(const Num& number, int64_t v, T* row) const {
    const Lanes found = result_of(number);
    const Lanes kept = Num::differentiates ? found * direction : minimum(found, all(1.0));
    kFull ? Quad<T>::store(row + 4 * v, kept) : Quad<T>::store(row + 4 * v, kept, C - 4 * full);
  }
};

}  // namespace structattn
