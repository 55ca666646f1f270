// Linear chains: filtering forward and smoothing back, over the number types of numbers.hpp, and the best sequence.
//
// Forward, r_i[c] = sum_b p_{i-1}[b] T[b,c], and p_i is U_i * r_i divided by its sum: the probabilities of the states of
// word i given the words up to there, so nothing grows or fades with the length. Back, a state hands its marginal to
// those before it by their shares: with w_i = mu_i / r_i, the marginal of a transition is p_{i-1}[b] T[b,c] w_i[c], and
// mu_{i-1}[b] its sum over c.
//
// Doubles are enough as long as every number that is not exactly zero keeps its distance from the smallest double: what
// underflow takes from a cell is then less than 1e-100 of it. A sentence with a smaller number is computed again, with
// an exponent for each number.
#include "batch.hpp"

namespace structattn {
namespace {

// Weights below e^-700 are zero; a sum that is not below this has lost nothing to them.
constexpr double kNearZero = 1e-200;

// A matrix of transitions stands at `transition + item * transition_stride + step * step_stride`; a stride of zero
// means that all sentences, or all steps, share it. Vectors have the strides of the scores. What is written has a
// matrix for each sentence.
template <class T>
struct Chains {
  int64_t batch, words, states;
  const int64_t* lengths;
  const T *unary, *transition;
  int64_t unary_stride, transition_stride, step_stride;
  const T *unary_vector, *transition_vector;  // for `hvp`; the latter may be missing
  int64_t unary_vector_stride, transition_vector_stride;
  T *log_partition, *of_unary, *of_transition;
  int64_t of_unary_stride, of_transition_stride;

  int64_t square() const { return states * states; }
  int64_t num_matrices() const { return step_stride == 0 ? 1 : std::max<int64_t>(words - 1, 0); }
};

STRUCTATTN_INLINE Lanes size_of(const Plain& number) { return number.value; }
STRUCTATTN_INLINE Lanes size_of(const Dual& number) { return number.value; }
template <class Base>
STRUCTATTN_INLINE Lanes size_of(const Extended<Base>& number) { return number.base.value; }

STRUCTATTN_INLINE Extended<Plain> extended(const Plain& number) { return Extended<Plain>{number, all(0.0)}.settle(); }
STRUCTATTN_INLINE Extended<Plain> extended(const Extended<Plain>& number) { return number; }

// Probabilities need no exponent, whatever the numbers are of which they are shares.
template <class Num>
struct Share {
  using Of = Num;
};
template <class Base>
struct Share<Extended<Base>> {
  using Of = Base;
};
template <class Num>
STRUCTATTN_INLINE Num probability_of(const Num& number) { return number; }
template <class Base>
STRUCTATTN_INLINE Base probability_of(const Extended<Base>& number) {
  return scaled(number.base, power_of_two(number.exponent));
}
STRUCTATTN_INLINE Lanes result_of(const Plain& number) { return number.value; }
STRUCTATTN_INLINE Lanes result_of(const Dual& number) { return number.slope; }

// Weights of transitions are plain where only the states have a direction.
STRUCTATTN_INLINE void accumulate(Dual& sum, const Dual& a, const Plain& b) {
  sum.value += a.value * b.value;
  sum.slope += a.slope * b.value;
}
template <class Num>
STRUCTATTN_INLINE void accumulate(Num& sum, const Num& a, const Num& b) { sum.accumulate(a, b); }

// The probability of a state over the sum of the ways into it. An exponent stands beside the quotient as it was found on
// the way forward, so that terms are compared with their sum as they were there, however coarse large exponents are.
template <class Num>
STRUCTATTN_INLINE Num quotient(const Num& marginal, const Num& ratio) { return marginal * ratio.reciprocal(); }
template <class Base>
STRUCTATTN_INLINE Extended<Base> quotient(const Base& marginal, const Extended<Base>& ratio) {
  return {marginal * ratio.base.reciprocal(), ratio.exponent};
}

// The probability of a transition.
template <class Num>
STRUCTATTN_INLINE Num between(const Num& before, const Num& weight, const Num& after) { return before * after * weight; }
STRUCTATTN_INLINE Dual between(const Dual& before, const Plain& weight, const Dual& after) {
  return scaled(before * after, weight.value);
}
template <class Base>
STRUCTATTN_INLINE Base between(const Extended<Base>& before, const Extended<Base>& weight, const Extended<Base>& after) {
  const Lanes share = before.exponent + weight.exponent - after.exponent;
  return scaled(before.base * weight.base * after.base, power_of_two(share < 0.0 ? share : all(0.0)));
}

// out[j] = sum over k of x[k] M[k * step + j * stride], for four j at once.
template <class Num, class Weight>
STRUCTATTN_INLINE void product(const Num* x, const Weight* M, int64_t step, int64_t stride, int64_t size, Num* out) {
  int64_t j = 0;
  for (; j + 4 <= size; j += 4) {
    Num first = Num::zero(), second = Num::zero(), third = Num::zero(), fourth = Num::zero();
    const Weight* from = M + j * stride;
    for (int64_t k = 0; k < size; ++k, from += step) {
      accumulate(first, x[k], from[0]);
      accumulate(second, x[k], from[stride]);
      accumulate(third, x[k], from[2 * stride]);
      accumulate(fourth, x[k], from[3 * stride]);
    }
    out[j] = first.settle(), out[j + 1] = second.settle(), out[j + 2] = third.settle(), out[j + 3] = fourth.settle();
  }
  for (; j < size; ++j) {
    Num sum = Num::zero();
    for (int64_t k = 0; k < size; ++k) accumulate(sum, x[k], M[k * step + j * stride]);
    out[j] = sum.settle();
  }
}

template <class T>
double highest_of(const T* scores, int64_t count) {
  double found = -kInfinity;
  for (int64_t i = 0; i < count; ++i) found = std::max(found, static_cast<double>(scores[i]));
  return found > -kInfinity ? found : 0.0;
}

// One thread's tables, for four sentences at a time.
template <class T, class Num, class Weight>
class Smoother {
  using Probability = typename Share<Num>::Of;

 public:
  static int64_t bytes(const Chains<T>& call) {
    const int64_t numbers = (2 * call.words + 2) * call.states, weights = call.num_matrices() * call.square();
    const int64_t counts = Num::guarded ? 0 : call.square();
    return (numbers + counts) * int64_t{sizeof(Num)} + weights * int64_t{sizeof(Weight)};
  }

  Smoother(const Chains<T>& call, void* memory)
      : call(call), C(call.states), filtered(static_cast<Num*>(memory)), ratios(filtered + call.words * C),
        sums(ratios + call.words * C), marginals(reinterpret_cast<Probability*>(sums + C)),
        matrices(reinterpret_cast<Weight*>(sums + 2 * C)), counts(reinterpret_cast<Probability*>(matrices + call.num_matrices() * call.square())) {}

  // The sentences whose numbers cannot be trusted, as the bits of a byte.
  unsigned char run(const Group& sentences) {
    group = sentences;
    for (int lane = 0; lane < kLanes; ++lane) {
      item[lane] = std::max<int64_t>(group.items[lane], 0);
      direction[lane] = 1.0;
      offset[lane] = 0.0;
      if (Num::differentiates) direction[lane] = power_near(size_of_vectors(lane));
    }
    raise_transitions();
    raise_states();
    const unsigned char untrusted = go_forward();
    go_back();
    if (call.step_stride == 0) write_counts();
    return untrusted;
  }

 private:
  const Chains<T>& call;
  const int64_t C;
  Num *filtered, *ratios;  // p, at first U; w, at first r
  Num* sums;
  Probability* marginals;
  Weight* matrices;
  Probability* counts;
  Group group;
  int64_t item[kLanes];
  double direction[kLanes], offset[kLanes], shift_of_all = 0.0;
  bool raised_for_all = false;

  bool has(int lane, int64_t word) const { return word < group.lengths[lane]; }
  const T* unary(int lane, int64_t word) const { return call.unary + item[lane] * call.unary_stride + word * C; }
  const T* transition(int lane, int64_t step) const {
    return call.transition + item[lane] * call.transition_stride + step * call.step_stride;
  }
  const T* transition_vector(int lane, int64_t step) const {
    return call.transition_vector + item[lane] * call.transition_vector_stride + step * call.step_stride;
  }
  T* of_transition(int lane) const { return call.of_transition + item[lane] * call.of_transition_stride; }

  double size_of_vectors(int lane) const {
    const int64_t length = group.lengths[lane];
    double size = largest(call.unary_vector + item[lane] * call.unary_vector_stride, length * C);
    if (call.transition_vector != nullptr && length > 1) {
      const int64_t matrices = call.step_stride == 0 ? 1 : length - 1;
      size = std::max(size, largest(transition_vector(lane, 0), matrices * call.square()));
    }
    return size;
  }

  // What the best score of each matrix is goes into the offset; beyond the end of a sentence all weights are one.
  void raise_transitions() {
    const int64_t steps = group.longest - 1;
    if (steps < 1) return;
    const bool same_for_all = call.transition_stride == 0 && call.step_stride == 0;
    for (int64_t step = 0; step < (call.step_stride == 0 ? 1 : steps) && !raised_for_all; ++step) {
      double shift[kLanes];
      for (int lane = 0; lane < kLanes; ++lane) {
        const bool real = same_for_all || has(lane, step + 1);
        shift[lane] = real ? highest_of(transition(lane, step), call.square()) : 0.0;
        if (call.step_stride != 0) offset[lane] += shift[lane];
        else if (!same_for_all && real) offset[lane] += shift[lane] * static_cast<double>(group.lengths[lane] - 1);
      }
      shift_of_all = shift[0];
      for (int64_t k = 0; k < call.square(); ++k) {
        Lanes score = all(0.0), vector = all(0.0);
        for (int lane = 0; lane < kLanes; ++lane) {
          if (!same_for_all && !has(lane, step + 1)) continue;
          score[lane] = transition(lane, step)[k] - shift[lane];
          if (Weight::differentiates && call.transition_vector != nullptr && score[lane] > -kInfinity) {
            vector[lane] = transition_vector(lane, step)[k] / direction[lane];
          }
        }
        matrices[step * call.square() + k] = Weight::weight(score, vector);
      }
    }
    if (same_for_all) {
      raised_for_all = !Weight::differentiates;
      for (int lane = 0; lane < kLanes; ++lane) offset[lane] += shift_of_all * std::max<int64_t>(group.lengths[lane] - 1, 0);
    }
  }

  void raise_states() {
    for (int64_t word = 0; word < group.longest; ++word) {
      double shift[kLanes];
      for (int lane = 0; lane < kLanes; ++lane) {
        shift[lane] = has(lane, word) ? highest_of(unary(lane, word), C) : 0.0;
        offset[lane] += shift[lane];
      }
      for (int64_t c = 0; c < C; ++c) {
        Lanes score = all(0.0), vector = all(0.0);
        for (int lane = 0; lane < kLanes; ++lane) {
          if (!has(lane, word)) continue;
          score[lane] = unary(lane, word)[c] - shift[lane];
          if (Num::differentiates && score[lane] > -kInfinity) {
            vector[lane] = call.unary_vector[item[lane] * call.unary_vector_stride + word * C + c] / direction[lane];
          }
        }
        filtered[word * C + c] = Num::weight(score, vector);
      }
    }
  }

  unsigned char go_forward() {
    Extended<Plain> total = Extended<Plain>::one();
    unsigned char untrusted = 0;
    for (int64_t word = 0; word < group.longest; ++word) {
      Num *here = filtered + word * C, *before = here - C;
      if (word > 0) {
        const Weight* matrix = matrices + (call.step_stride == 0 ? 0 : (word - 1) * call.square());
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
      const Bits real = Bits{group.lengths[0], group.lengths[1], group.lengths[2], group.lengths[3]} > word;
      if constexpr (!Num::differentiates) total = total * (extended(sum).where(real) + Extended<Plain>::one().where(~real));
      total = total.settle();
      const Num inverse = sum.reciprocal();
      for (int64_t c = 0; c < C; ++c) here[c] = (here[c] * inverse).settle();
    }
    for (int lane = 0; lane < kLanes && !Num::differentiates; ++lane) {
      if (group.items[lane] < 0) continue;
      const double log = total.log(lane);
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
    if (unary(lane, word)[state] == -kInfinity) return true;
    if (word == 0) return false;
    for (int64_t b = 0; b < C; ++b) {
      const bool possible = size_of(filtered[(word - 1) * C + b])[lane] > 0.0;
      if (possible && transition(lane, word - 1)[b * C + state] > -kInfinity) return false;
    }
    return true;
  }

  void go_back() {
    for (int lane = 0; lane < kLanes; ++lane) {
      if (group.items[lane] < 0) continue;
      std::fill_n(call.of_unary + item[lane] * call.of_unary_stride, call.words * C, T(0));
      std::fill_n(of_transition(lane), call.num_matrices() * call.square(), T(0));
    }
    for (int64_t c = 0; c < C; ++c) marginals[c] = Probability::zero();
    if (!Num::guarded) std::fill_n(counts, call.square(), Probability::zero());
    for (int64_t word = group.longest - 1; word >= 0; --word) {
      const Num* here = filtered + word * C;
      const Bits end = group.ends_at(word + 1);
      for (int64_t c = 0; c < C; ++c) {
        marginals[c] = marginals[c] + probability_of(here[c]).where(end);
        const Lanes used = result_of(marginals[c]);
        for (int lane = 0; lane < kLanes; ++lane) {
          if (!has(lane, word)) continue;
          call.of_unary[item[lane] * call.of_unary_stride + word * C + c] = output(used[lane], lane);
        }
      }
      if (word == 0) break;
      Num* w = ratios + word * C;
      for (int64_t c = 0; c < C; ++c) {
        // Into a state that its own word forbids a sum may be left that has no inverse.
        w[c] = quotient(marginals[c], w[c]).where(size_of(here[c]) > 0.0);
      }
      const Weight* matrix = matrices + (call.step_stride == 0 ? 0 : (word - 1) * call.square());
      if (call.step_stride != 0) write_transitions(word, matrix);
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

  void write_transitions(int64_t word, const Weight* matrix) {
    const Num *before = filtered + (word - 1) * C, *w = ratios + word * C;
    for (int64_t b = 0; b < C; ++b) {
      for (int64_t c = 0; c < C; ++c) {
        const Lanes used = result_of(between(before[b], matrix[b * C + c], w[c]));
        for (int lane = 0; lane < kLanes; ++lane) {
          if (!has(lane, word)) continue;
          of_transition(lane)[(word - 1) * call.step_stride + b * C + c] = output(used[lane], lane);
        }
      }
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
        of_transition(lane)[b * C + c + k] = static_cast<T>(used[lane] * direction[lane]);
      }
    }
  }

  // Rounding may leave 1 + 2e-16; the nearest probability is meant.
  T output(double used, int lane) const {
    return static_cast<T>(Num::differentiates ? used * direction[lane] : std::min(used, 1.0));
  }
};

// Calls `Worker(call, memory).run(group)` for every four sentences of `order`, on torch's threads.
template <class Worker, class T>
int sweep(const Chains<T>& call, const std::vector<int64_t>& order, std::vector<int64_t>* again) {
  struct State {
    const Chains<T>& call;
    const std::vector<int64_t>& order;
    std::vector<unsigned char> untrusted;
    std::atomic<int64_t> next{0};
    std::atomic<bool> out_of_memory{false};
  };
  const int64_t size = static_cast<int64_t>(order.size()), groups = (size + kLanes - 1) / kLanes;
  if (groups == 0) return kDone;
  State state{call, order, std::vector<unsigned char>(groups, 0)};
  const int64_t affordable = std::max<int64_t>(1, kWorkspaceBytes / std::max<int64_t>(Worker::bytes(call), 1));
  // A thread is worth waking for some ten thousand transitions.
  const int64_t work = groups * call.words * (call.square() + 8 * call.states);
  const auto body = [](void* context) {
    State& state = *static_cast<State*>(context);
    const auto aligned = std::align_val_t(64);
    void* memory = operator new(Worker::bytes(state.call), aligned, std::nothrow);
    if (memory == nullptr) {
      state.out_of_memory = true;
      return;
    }
    Worker worker(state.call, memory);
    const int64_t size = static_cast<int64_t>(state.order.size());
    for (int64_t number; (number = state.next.fetch_add(1)) * kLanes < size;) {
      Group group{{-1, -1, -1, -1}, {0, 0, 0, 0}, 0};
      for (int lane = 0; lane < kLanes && number * kLanes + lane < size; ++lane) {
        group.items[lane] = state.order[number * kLanes + lane];
        group.lengths[lane] = state.call.lengths[group.items[lane]];
        group.longest = std::max(group.longest, group.lengths[lane]);
      }
      state.untrusted[number] = worker.run(group);
    }
    operator delete(memory, aligned);
  };
  run_on_threads(std::min({groups, affordable, work / 20000 + 1}), body, &state);
  if (state.out_of_memory) return kOutOfMemory;
  for (int64_t number = 0; number < groups && again != nullptr; ++number) {
    for (int lane = 0; lane < kLanes; ++lane) {
      if (state.untrusted[number] >> lane & 1) again->push_back(order[number * kLanes + lane]);
    }
  }
  return kDone;
}

template <class Fast, class Exact, class T>
int smooth(const Chains<T>& call) {
  try {
    const Call<T> lengths{nullptr, call.lengths, nullptr, nullptr, nullptr, call.batch, call.words, 0, false};
    std::vector<int64_t> again;
    const int status = sweep<Fast>(call, longest_first(lengths), &again);
    return status != kDone || again.empty() ? status : sweep<Exact>(call, again, nullptr);
  } catch (const std::bad_alloc&) {
    return kOutOfMemory;
  }
}

template <class T>
int marginals(const Chains<T>& call) {
  return smooth<Smoother<T, Plain, Plain>, Smoother<T, Extended<Plain>, Extended<Plain>>>(call);
}

// Attention asks for the marginals of states only: then nothing comes back for the transitions.
template <class T>
bool all_zero(const T* vector, const Chains<T>& call) {
  const int64_t size = vector == nullptr ? 0 : call.num_matrices() * call.square();
  for (int64_t item = 0; item < call.batch; ++item) {
    const T* row = vector + item * call.transition_vector_stride;
    if (std::any_of(row, row + size, [](T value) { return value != T(0); })) return false;
  }
  return true;
}

template <class T>
int hvp(const Chains<T>& call) {
  using Exact = Smoother<T, Extended<Dual>, Extended<Dual>>;
  if (all_zero(call.transition_vector, call)) return smooth<Smoother<T, Dual, Plain>, Exact>(call);
  return smooth<Smoother<T, Dual, Dual>, Exact>(call);
}

// A best sequence of one sentence; of equal ones, at each word the first state that may come before (Viterbi 1967).
template <class T>
class Decoder {
 public:
  Decoder(int64_t words, int64_t states) : C(states), best(words * states) {}

  // Marks the states and transitions of the sequence in `of_unary` and `of_transition`, if there is one.
  void run(const T* unary, const T* transition, int64_t step_stride, int64_t length, T* of_unary, T* of_transition) {
    double* here = best.data();
    for (int64_t word = 0; word < length; ++word, here += C) {
      const T* u = unary + word * C;
      for (int64_t c = 0; c < C; ++c) here[c] = word == 0 ? static_cast<double>(u[c]) : -kInfinity;
      for (int64_t b = 0; b < C && word > 0; ++b) {
        const T* t = transition + (word - 1) * step_stride + b * C;
        const double before = here[b - C];
        for (int64_t c = 0; c < C; ++c) here[c] = std::max(here[c], before + t[c] + u[c]);
      }
    }
    if (length == 0) return;
    here -= C;
    int64_t state = std::max_element(here, here + C) - here;
    if (here[state] == -kInfinity) return;
    for (int64_t word = length - 1;; --word, here -= C) {
      of_unary[word * C + state] = 1;
      if (word == 0) return;
      // The state before is found again by its value, instead of being stored by the inner loop.
      const T* t = transition + (word - 1) * step_stride + state;
      const double score = unary[word * C + state];
      int64_t b = 0;
      while (b + 1 < C && here[b - C] + t[b * C] + score != here[state]) ++b;
      of_transition[(word - 1) * step_stride + b * C + state] = 1;
      state = b;
    }
  }

 private:
  const int64_t C;
  std::vector<double> best;
};

template <class T>
int argmax(const Chains<T>& call) {
  struct State {
    const Chains<T>& call;
    std::atomic<int64_t> next{0};
    std::atomic<bool> out_of_memory{false};
  };
  State state{call};
  const auto body = [](void* context) {
    State& state = *static_cast<State*>(context);
    const Chains<T>& call = state.call;
    try {
      Decoder<T> decoder(call.words, call.states);
      for (int64_t item; (item = state.next.fetch_add(1)) < call.batch;) {
        T* of_unary = call.of_unary + item * call.of_unary_stride;
        T* of_transition = call.of_transition + item * call.of_transition_stride;
        std::fill_n(of_unary, call.words * call.states, T(0));
        std::fill_n(of_transition, call.num_matrices() * call.square(), T(0));
        decoder.run(call.unary + item * call.unary_stride, call.transition + item * call.transition_stride,
                    call.step_stride, call.lengths[item], of_unary, of_transition);
      }
    } catch (const std::bad_alloc&) {
      state.out_of_memory = true;
    }
  };
  run_on_threads(std::min(call.batch, call.batch * call.words * call.square() / 40000 + 1), body, &state);
  return state.out_of_memory ? kOutOfMemory : kDone;
}

}  // namespace
}  // namespace structattn

namespace structattn {
namespace {

// Unaries and transitions of a sentence behind each other, as the operators of every family have them.
template <class T>
Chains<T> packed(const T* scores, const int64_t* lengths, const T* vector, T* log_partition, T* parts, int64_t batch,
                 int64_t words, int64_t states, int64_t shared) {
  const int64_t unary = words * states, square = states * states;
  const int64_t stride = unary + square * (shared ? 1 : std::max<int64_t>(words - 1, 0));
  const T* transition_vector = vector == nullptr ? nullptr : vector + unary;
  return {batch,  words,  states, lengths,           scores, scores + unary, stride,        stride, shared ? 0 : square,
          vector, transition_vector, stride, stride, log_partition, parts, parts + unary, stride, stride};
}

}  // namespace
}  // namespace structattn

#define STRUCTATTN_EXPORT_CHAIN(T, NAME)                                                                               \
  int structattn_chain_marginals_##NAME(const T* scores, const int64_t* lengths, T* log_partition, T* parts,           \
                                        int64_t batch, int64_t words, int64_t states, int64_t shared) {                \
    return structattn::marginals<T>(structattn::packed<T>(scores, lengths, nullptr, log_partition, parts, batch,       \
                                                          words, states, shared));                                     \
  }                                                                                                                    \
  int structattn_chain_hvp_##NAME(const T* scores, const int64_t* lengths, const T* vector, T* product, int64_t batch, \
                                  int64_t words, int64_t states, int64_t shared) {                                     \
    return structattn::hvp<T>(                                                                                         \
        structattn::packed<T>(scores, lengths, vector, nullptr, product, batch, words, states, shared));               \
  }                                                                                                                    \
  int structattn_chain_argmax_##NAME(const T* scores, const int64_t* lengths, T* parts, int64_t batch, int64_t words,  \
                                     int64_t states, int64_t shared) {                                                 \
    return structattn::argmax<T>(                                                                                      \
        structattn::packed<T>(scores, lengths, nullptr, nullptr, parts, batch, words, states, shared));                \
  }

extern "C" {
STRUCTATTN_EXPORT_CHAIN(float, float32)
STRUCTATTN_EXPORT_CHAIN(double, float64)
}
