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
#include "chain.hpp"
#include "chain_numbers.hpp"

namespace structattn {
namespace {

// Weights below e^-700 are zero; a sum that is not below this has lost nothing to them.
constexpr double kNearZero = 1e-200;

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
        matrices(reinterpret_cast<Weight*>(sums + 2 * C)),
        counts(reinterpret_cast<Probability*>(matrices + call.num_matrices() * call.square())) {}

  // The sentences whose numbers cannot be trusted, as the bits of a byte.
  unsigned char run(const Group& sentences) {
    group = sentences;
    for (int lane = 0; lane < kLanes; ++lane) {
      item[lane] = std::max<int64_t>(group.items[lane], 0);
      direction[lane] = 1.0;
      offset[lane] = 0.0;
      if (Num::differentiates) direction[lane] = power_near(size_of_vector(lane));
    }
    raise_transitions();
    raise_states();
    const unsigned char untrusted = go_forward();
    go_back();
    if (call.shared) write_counts();
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
  double direction[kLanes], offset[kLanes];

  bool has(int lane, int64_t word) const { return word < group.lengths[lane]; }
  const T* unary(int lane, int64_t word) const { return call.scores + call.unary_at(item[lane], word); }
  const T* transition(int lane, int64_t step) const { return call.scores + call.transition_at(item[lane], step); }
  T* of_transition(int lane, int64_t step) const { return call.parts + call.transition_at(item[lane], step); }

  double size_of_vector(int lane) const {
    const int64_t length = group.lengths[lane], matrices = length < 2 ? 0 : call.shared ? 1 : length - 1;
    return std::max(largest(call.vector + call.unary_at(item[lane], 0), length * C),
                    largest(call.vector + call.transition_at(item[lane], 0), matrices * call.square()));
  }

  // What the best score of each matrix is goes into the offset; beyond the end of a sentence all weights are one.
  void raise_transitions() {
    const int64_t matrices_needed = group.longest < 2 ? 0 : call.shared ? 1 : group.longest - 1;
    for (int64_t step = 0; step < matrices_needed; ++step) {
      double shift[kLanes];
      for (int lane = 0; lane < kLanes; ++lane) {
        shift[lane] = has(lane, step + 1) ? highest_of(transition(lane, step), call.square()) : 0.0;
        offset[lane] += shift[lane] * static_cast<double>(call.shared ? group.lengths[lane] - 1 : 1);
      }
      for (int64_t k = 0; k < call.square(); ++k) {
        Lanes score = all(0.0), vector = all(0.0);
        for (int lane = 0; lane < kLanes; ++lane) {
          if (!has(lane, step + 1)) continue;
          score[lane] = transition(lane, step)[k] - shift[lane];
          if (Weight::differentiates && score[lane] > -kInfinity) {
            vector[lane] = call.vector[call.transition_at(item[lane], step) + k] / direction[lane];
          }
        }
        matrices[step * call.square() + k] = Weight::weight(score, vector);
      }
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
            vector[lane] = call.vector[call.unary_at(item[lane], word) + c] / direction[lane];
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
      std::fill_n(call.parts + call.unary_at(item[lane], 0), call.num_parts(), T(0));
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
          call.parts[call.unary_at(item[lane], word) + c] = output(used[lane], lane);
        }
      }
      if (word == 0) break;
      Num* w = ratios + word * C;
      for (int64_t c = 0; c < C; ++c) {
        // Into a state that its own word forbids a sum may be left that has no inverse.
        w[c] = quotient(marginals[c], w[c]).where(size_of(here[c]) > 0.0);
      }
      const Weight* matrix = matrices + (call.shared ? 0 : (word - 1) * call.square());
      if (!call.shared) write_transitions(word, matrix);
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
          of_transition(lane, word - 1)[b * C + c] = output(used[lane], lane);
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
        of_transition(lane, 0)[b * C + c + k] = static_cast<T>(used[lane] * direction[lane]);
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
bool only_states(const Chains<T>& call) {
  for (int64_t item = 0; item < call.batch; ++item) {
    const T *from = call.vector + call.transition_at(item, 0), *to = call.vector + call.unary_at(item + 1, 0);
    if (std::any_of(from, to, [](T value) { return value != T(0); })) return false;
  }
  return true;
}

template <class T>
int hvp(const Chains<T>& call) {
  using Exact = Smoother<T, Extended<Dual>, Extended<Dual>>;
  if (only_states(call)) return smooth<Smoother<T, Dual, Plain>, Exact>(call);
  return smooth<Smoother<T, Dual, Dual>, Exact>(call);
}

}  // namespace
}  // namespace structattn

#define STRUCTATTN_EXPORT_CHAIN(T, NAME)                                                                               \
  int structattn_chain_marginals_##NAME(const T* scores, const int64_t* lengths, T* log_partition, T* parts,           \
                                        int64_t batch, int64_t words, int64_t states, int64_t shared) {                \
    return structattn::marginals<T>(                                                                                   \
        {scores, lengths, nullptr, log_partition, parts, batch, words, states, shared != 0});                          \
  }                                                                                                                    \
  int structattn_chain_hvp_##NAME(const T* scores, const int64_t* lengths, const T* vector, T* product, int64_t batch, \
                                  int64_t words, int64_t states, int64_t shared) {                                     \
    return structattn::hvp<T>({scores, lengths, vector, nullptr, product, batch, words, states, shared != 0});         \
  }

extern "C" {
STRUCTATTN_EXPORT_CHAIN(float, float32)
STRUCTATTN_EXPORT_CHAIN(double, float64)
}
