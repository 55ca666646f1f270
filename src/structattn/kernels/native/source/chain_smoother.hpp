// Linear chains: filtering forward and smoothing back (Baum 1972), over the number types of numbers.hpp.
//
// Forward, r_i[c] = sum_b p_{i-1}[b] T[b,c], and p_i is U_i * r_i divided by its sum: the probabilities of the states of
// word i given the words up to there, so nothing grows or fades with the length. Back, a state hands its marginal to
// those before it by their shares: with w_i = mu_i / r_i, the marginal of a transition is p_{i-1}[b] T[b,c] w_i[c], and
// mu_{i-1}[b] its sum over c.
//
// Doubles are enough as long as every number that is not exactly zero keeps its distance from the smallest double: what
// underflow takes from a cell is then less than 1e-100 of it. A sentence with a smaller number is computed again, with
// an exponent for each number.
#pragma once

#include "chain.hpp"
#include "chain_numbers.hpp"

namespace structattn {

// Weights below e^-700 are zero; a sum that is not below this has lost nothing to them.
constexpr double kNearZero = 1e-200;

// One thread's tables, for four sentences at a time.
template <class T, class Num, class Weight>
class Smoother {
  using Probability = typename Share<Num>::Of;

 public:
  static int64_t bytes(const Chains<T>& call, int64_t) {
    const int64_t numbers = (2 * call.words + 2) * call.states, weights = call.num_matrices() * call.square();
    const int64_t counts = Num::guarded ? 0 : call.square();
    const int64_t lanes = call.states + call.words + std::max<int64_t>(call.num_matrices(), 1);
    return (numbers + counts) * int64_t{sizeof(Num)} + weights * int64_t{sizeof(Weight)} + lanes * int64_t{sizeof(Lanes)};
  }

  Smoother(const Chains<T>& call, void* memory)
      : call(call), C(call.states), filtered(static_cast<Num*>(memory)), ratios(filtered + call.words * C),
        sums(ratios + call.words * C), marginals(reinterpret_cast<Probability*>(sums + C)),
        matrices(reinterpret_cast<Weight*>(sums + 2 * C)),
        row(reinterpret_cast<Lanes*>(matrices + call.num_matrices() * call.square())), taken(row + C),
        counts(reinterpret_cast<Probability*>(taken + call.words + std::max<int64_t>(call.num_matrices(), 1))) {}

  static int64_t work(const Chains<T>& call, int64_t longest) { return longest * (call.square() + 8 * call.states); }

  // The sentences whose numbers cannot be trusted, as the bits of a byte.
  unsigned char run(const Group& sentences) {
    const unsigned char untrusted = filter(sentences);
    if (call.wants_states() || call.wants_transitions()) {
      go_back();
      if (call.shared && call.wants_transitions()) write_counts();
    }
    for (int lane = 0; lane < kLanes && call.entropies.wanted(); ++lane) {
      if (group.items[lane] < 0) continue;
      const Expected expected{offset[lane], expected_scores[lane], expected_values[lane]};
      expected.write(call.entropies, item[lane], logarithm[lane], group.lengths[lane] == 0);
    }
    return untrusted;
  }

 protected:
  // Forward only.
  unsigned char filter(const Group& sentences) {
    group = sentences;
    for (int lane = 0; lane < kLanes; ++lane) {
      item[lane] = std::max<int64_t>(group.items[lane], 0);
      direction[lane] = 1.0;
      offset[lane] = 0.0;
      if (Num::differentiates) direction[lane] = power_near(size_of_vector(lane));
    }
    expected_scores = expected_values = all(0.0);
    raise_states();
    if (call.shared && group.longest > 1) raise_transition(0);
    return go_forward();
  }

  const Chains<T>& call;
  const int64_t C;
  Num *filtered, *ratios;  // p, at first U; w, at first r
  Num* sums;
  Probability* marginals;
  Weight* matrices;
  Lanes* row;    // of the transitions out of one state
  Lanes* taken;  // out of the scores of each word, then out of those of each matrix
  Probability* counts;
  Group group;
  int64_t item[kLanes];
  double direction[kLanes], offset[kLanes], logarithm[kLanes];
  Lanes expected_scores, expected_values;

 private:
  bool has(int lane, int64_t word) const { return word < group.lengths[lane]; }
  Bits exist(int64_t word) const {
    return Bits{group.lengths[0], group.lengths[1], group.lengths[2], group.lengths[3]} > word;
  }
  // `longest_first` has put it first.
  int longest_lane() const { return 0; }

  double size_of_vector(int lane) const {
    const int64_t length = group.lengths[lane];
    const double size = largest(call.unary_vector(item[lane], 0), length * C);
    if (call.transition_vectors.data == nullptr) return size;
    return std::max(size, largest(call.matrix_vector(item[lane], 0), call.num_matrices(length) * call.square()));
  }

  // What the best score of each word is goes into the offset.
  void raise_states() {
    for (int64_t word = 0; word < group.longest; ++word) {
      const T *scores[kLanes], *vectors[kLanes];
      for (int lane = 0; lane < kLanes; ++lane) {
        const int64_t owner = item[has(lane, word) ? lane : longest_lane()];
        scores[lane] = call.unary(owner, word);
        if (Num::differentiates) vectors[lane] = call.unary_vector(owner, word);
      }
      taken[word] = raise(scores, Num::differentiates ? vectors : nullptr, word, false, C, filtered + word * C);
    }
  }

  void raise_transition(int64_t step) {
    const bool has_vector = Weight::differentiates && call.transition_vectors.data != nullptr;
    const T *scores[kLanes], *vectors[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) {
      const int64_t owner = item[has(lane, step + 1) ? lane : longest_lane()];
      scores[lane] = call.transition(owner, step);
      if (has_vector) vectors[lane] = call.matrix_vector(owner, step);
    }
    Weight* to = matrices + (call.shared ? 0 : step * call.square());
    taken[call.words + (call.shared ? 0 : step)] =
        raise(scores, has_vector ? vectors : nullptr, step + 1, call.shared, call.square(), to);
  }

  // Weights of the scores of four sentences, less the best of each sentence, which is returned; one where the sentence
  // has no such word.
  template <class Number>
  Lanes raise(const T* const* scores, const T* const* vectors, int64_t word, bool every_step, int64_t count,
             Number* out) {
    const Bits real = exist(word);
    Lanes best = all(-kInfinity), odd = best;
    for (int64_t k = 0; k + 1 < count; k += 2) {
      best = maximum(best, across(scores, k));
      odd = maximum(odd, across(scores, k + 1));
    }
    best = maximum(maximum(best, odd), across(scores, count - 1));
    best = real & (best > -kInfinity) ? best : all(0.0);
    for (int lane = 0; lane < kLanes; ++lane) {
      offset[lane] += best[lane] * static_cast<double>(every_step ? std::max<int64_t>(group.lengths[lane] - 1, 0) : 1);
    }
    const Lanes unit = Lanes{direction[0], direction[1], direction[2], direction[3]};
    for (int64_t k = 0; k < count; ++k) {
      const Lanes score = real ? across(scores, k) - best : all(0.0);
      Lanes vector = all(0.0);
      if (vectors != nullptr) vector = real & (score > -kInfinity) ? across(vectors, k) / unit : all(0.0);
      out[k] = Number::weight(score, vector);
    }
    return best;
  }

  unsigned char go_forward() {
    Extended<Plain> total = Extended<Plain>::one();
    unsigned char untrusted = 0;
    for (int64_t word = 0; word < group.longest; ++word) {
      Num *here = filtered + word * C, *before = here - C;
      if (word > 0) {
        if (!call.shared) raise_transition(word - 1);
        const Weight* matrix = matrices + (call.shared ? 0 : (word - 1) * call.square());
        product(before, matrix, C, 1, C, ratios + word * C);
        for (int64_t c = 0; c < C; ++c) here[c] = (here[c] * ratios[word * C + c]).settle();
      }
      Num sum = here[0];
      Lanes lowest = size_of(here[0]);
      for (int64_t c = 1; c < C; ++c) {
        sum = sum + here[c];
        const Lanes size = size_of(here[c]);
        lowest = size < lowest ? size : lowest;
      }
      sum = sum.settle();
      if (Num::guarded) untrusted |= lost(lowest, word);
      if constexpr (!Num::differentiates) {
        if (call.log_partition != nullptr || call.entropies.wanted()) {
          const Bits real = exist(word);
          total = (total * (extended(sum).where(real) + Extended<Plain>::one().where(~real))).settle();
        }
      }
      const Num inverse = sum.reciprocal();
      for (int64_t c = 0; c < C; ++c) here[c] = (here[c] * inverse).settle();
    }
    for (int lane = 0; lane < kLanes; ++lane) {
      logarithm[lane] = total.log(lane);
      if (group.items[lane] < 0 || call.log_partition == nullptr) continue;
      const double log = logarithm[lane];
      call.log_partition[item[lane]] = static_cast<T>(log > -kInfinity ? log + offset[lane] : log);
    }
    return untrusted;
  }

  // Whether underflow, not the scores, may have made some number small.
  unsigned char lost(Lanes lowest, int64_t word) const {
    unsigned char found = 0;
    for (int lane = 0; lane < kLanes; ++lane) {
      if (lowest[lane] >= kNearZero || !has(lane, word)) continue;
      for (int64_t c = 0; c < C; ++c) {
        if (size_of(filtered[word * C + c])[lane] < kNearZero && !forbidden(lane, word, c)) found |= 1u << lane;
      }
    }
    return found;
  }

  bool forbidden(int lane, int64_t word, int64_t state) const {
    if (call.unary(item[lane], word)[state] == -kInfinity) return true;
    if (word == 0) return false;
    for (int64_t b = 0; b < C; ++b) {
      const bool possible = size_of(filtered[(word - 1) * C + b])[lane] > 0.0;
      if (possible && call.transition(item[lane], word - 1)[b * C + state] > -kInfinity) return false;
    }
    return true;
  }

  void go_back() {
    if (!call.entropies.wanted()) clear_padding();
    for (int64_t c = 0; c < C; ++c) marginals[c] = Probability::zero();
    if (!Num::guarded) std::fill_n(counts, call.square(), Probability::zero());
    for (int64_t word = group.longest - 1; word >= 0; --word) {
      const Num* here = filtered + word * C;
      const Bits end = group.ends_at(word + 1);
      for (int64_t c = 0; c < C; ++c) {
        marginals[c] = marginals[c] + probability_of(here[c]).where(end);
        row[c] = result_of(marginals[c]);
      }
      if (call.entropies.wanted()) {
        const T *scores[kLanes], *values[kLanes];
        for (int lane = 0; lane < kLanes; ++lane) {
          const int64_t owner = item[has(lane, word) ? lane : longest_lane()];
          scores[lane] = call.unary(owner, word), values[lane] = call.unary_value(owner, word);
        }
        expect(C, scores, values, taken[word]);
      }
      for (int lane = 0; lane < kLanes && !call.entropies.wanted(); ++lane) {
        if (has(lane, word)) write(lane, call.unary_part(item[lane], word));
      }
      if (word == 0) break;
      Num* w = ratios + word * C;
      for (int64_t c = 0; c < C; ++c) {
        // Into a state that its own word forbids a sum may be left that has no inverse.
        w[c] = quotient(marginals[c], w[c]).where(size_of(here[c]) > 0.0);
      }
      const Weight* matrix = matrices + (call.shared ? 0 : (word - 1) * call.square());
      if (!call.shared && call.wants_transitions()) write_transitions(word, matrix);
      if constexpr (Num::guarded) {
        product(w, matrix, 1, C, C, sums);
        for (int64_t b = 0; b < C; ++b) marginals[b] = here[b - C] * sums[b];
      } else {
        for (int64_t b = 0; b < C; ++b) {
          marginals[b] = Probability::zero();
          for (int64_t c = 0; c < C; ++c) {
            const Probability used = between(here[b - C], matrix[b * C + c], w[c]);
            marginals[b] = marginals[b] + used;
            counts[b * C + c] = counts[b * C + c] + used;
          }
        }
      }
    }
  }

  void clear_padding() {
    for (int lane = 0; lane < kLanes; ++lane) {
      if (group.items[lane] < 0) continue;
      const int64_t length = group.lengths[lane], used = call.num_matrices(length);
      std::fill_n(call.unary_part(item[lane], length), (call.words - length) * C, T(0));
      if (call.transition_parts.data == nullptr) continue;
      std::fill_n(call.matrix_part(item[lane], used), (call.num_matrices() - used) * call.square(), T(0));
    }
  }

  void write_transitions(int64_t word, const Weight* matrix) {
    const Num *before = filtered + (word - 1) * C, *w = ratios + word * C;
    for (int64_t b = 0; b < C; ++b) {
      for (int64_t c = 0; c < C; ++c) row[c] = result_of(between(before[b], matrix[b * C + c], w[c]));
      if (call.entropies.wanted()) {
        const T *scores[kLanes], *values[kLanes];
        for (int lane = 0; lane < kLanes; ++lane) {
          const int64_t owner = item[has(lane, word) ? lane : longest_lane()];
          scores[lane] = call.transition(owner, word - 1) + b * C, values[lane] = call.matrix_value(owner, word - 1) + b * C;
        }
        expect(C, scores, values, taken[call.words + word - 1]);
      }
      for (int lane = 0; lane < kLanes && !call.entropies.wanted(); ++lane) {
        if (has(lane, word)) write(lane, call.matrix_part(item[lane], word - 1) + b * C);
      }
    }
  }

  // Adds the expected scores of a row, less what was taken out, and the expected values; a sentence without this word
  // has no probabilities here.
  void expect(int64_t count, const T* const* scores, const T* const* values, Lanes best) {
    const bool with_values = call.entropies.values != nullptr;
    for (int64_t c = 0; c < count; ++c) {
      const Lanes used = row[c];
      const Bits some = used > 0.0;
      expected_scores += some ? used * (across(scores, c) - best) : all(0.0);
      if (with_values) expected_values += some ? used * across(values, c) : all(0.0);
    }
  }

  // Rounding may leave a probability of 1 + 2e-16; the nearest one is meant.
  void write(int lane, T* to) const {
    for (int64_t c = 0; c < C; ++c) {
      const double used = row[c][lane];
      to[c] = static_cast<T>(Num::differentiates ? used * direction[lane] : std::min(used, 1.0));
    }
  }

  // Expected counts; in doubles all words together, as a product of matrices.
  void write_counts() {
    if (group.longest < 2) return;
    for (int64_t b = 0; b < C; ++b) {
      int64_t c = 0;
      for (; c + 4 <= C; c += 4) write_counts<4>(b, c);
      for (; c < C; ++c) write_counts<1>(b, c);
    }
  }

  template <int kCount>
  STRUCTATTN_INLINE void write_counts(int64_t b, int64_t c) {
    Probability sum[kCount];
    if constexpr (Num::guarded) {
      for (int k = 0; k < kCount; ++k) sum[k] = Num::zero();
      for (int64_t word = 1; word < group.longest; ++word) {
        const Num& before = filtered[(word - 1) * C + b];
        for (int k = 0; k < kCount; ++k) sum[k].accumulate(before, ratios[word * C + c + k]);
      }
      for (int k = 0; k < kCount; ++k) sum[k] = between(sum[k], matrices[b * C + c + k], Num::one());
    } else {
      for (int k = 0; k < kCount; ++k) sum[k] = counts[b * C + c + k];
    }
    for (int k = 0; k < kCount; ++k) {
      const Lanes used = result_of(sum[k]);
      for (int lane = 0; lane < kLanes; ++lane) {
        if (!has(lane, 1)) continue;
        if (!call.entropies.wanted()) {
          call.matrix_part(item[lane], 0)[b * C + c + k] = static_cast<T>(used[lane] * direction[lane]);
        } else if (used[lane] > 0.0) {
          const int64_t part = b * C + c + k;
          expected_scores[lane] += used[lane] * (call.transition(item[lane], 0)[part] - taken[call.words][lane]);
          if (call.entropies.values != nullptr) expected_values[lane] += used[lane] * call.matrix_value(item[lane], 0)[part];
        }
      }
    }
  }
};

}  // namespace structattn
