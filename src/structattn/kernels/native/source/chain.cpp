// Marginals of linear chains: four sentences on one of torch's threads, first in doubles, then with exponents.
#include <type_traits>

#include "chain_steps.hpp"

namespace structattn {
namespace {

// Fewer states than this leave too many lanes empty when these are states of one sentence.
constexpr int64_t kManyStates = 16;

template <class T, class Num, class Weight, class Exact>
int smooth(const Chains<T>& call) {
  if (call.shared || call.states < kManyStates) return sweep_twice<Smoother<T, Num, Weight>, Exact>(call);
  if (call.transition_parts.data != nullptr) {
    prefer_large_pages(call.transition_parts.data, call.batch * call.num_transitions() * int64_t{sizeof(T)});
  }
  return sweep_twice<StepSmoother<T, Num, Weight>, Exact>(call);
}

template <class T>
int marginals(const Chains<T>& call) {
  if (call.entropies.wanted() && !call.shared && call.states >= kManyStates) {
    using Exact = std::conditional_t<std::is_same_v<T, float>, Precise, double>;
    return sweep_twice<StepSmoother<T, Plain, Plain, Exact>, Smoother<T, Extended<Plain>, Extended<Plain>>>(call);
  }
  return smooth<T, Plain, Plain, Smoother<T, Extended<Plain>, Extended<Plain>>>(call);
}

// Attention asks for the marginals of states only: then nothing comes back for the transitions.
template <class T>
bool only_states(const Chains<T>& call) {
  for (int64_t item = 0; item < call.batch && call.transition_vectors.data != nullptr; ++item) {
    const T *from = call.matrix_vector(item, 0), *to = from + call.num_transitions();
    if (std::any_of(from, to, [](T value) { return value != T(0); })) return false;
  }
  return true;
}

template <class T>
int hvp(const Chains<T>& call) {
  using Exact = Smoother<T, Extended<Dual>, Extended<Dual>>;
  if (only_states(call)) return smooth<T, Dual, Plain, Exact>(call);
  return smooth<T, Dual, Dual, Exact>(call);
}

}  // namespace
}  // namespace structattn

#define STRUCTATTN_EXPORT_CHAIN(T, NAME)                                                                               \
  int structattn_chain_marginals_##NAME(const T* unaries, const int64_t* lengths, const T* transitions,                \
                                        T* log_partition, T* to_states, T* to_transitions, int64_t batch,              \
                                        int64_t words, int64_t states, int64_t shared) {                               \
    return structattn::marginals(structattn::chains<T>(unaries, lengths, transitions, nullptr, nullptr, log_partition, \
                                                       to_states, to_transitions, batch, words, states, shared));      \
  }                                                                                                                    \
  int structattn_chain_hvp_##NAME(const T* unaries, const int64_t* lengths, const T* transitions, const T* to_unaries, \
                                  const T* to_matrices, T* states_product, T* transitions_product, int64_t batch,      \
                                  int64_t words, int64_t states, int64_t shared) {                                     \
    return structattn::hvp(structattn::chains<T>(unaries, lengths, transitions, to_unaries, to_matrices, nullptr,      \
                                                 states_product, transitions_product, batch, words, states, shared));  \
  }                                                                                                                    \
  int structattn_chain_entropy_##NAME(const T* unaries, const int64_t* lengths, const T* transitions,                  \
                                      const T* unary_values, const T* transition_values, double* log_partition,        \
                                      double* entropy, double* gap, int64_t batch, int64_t words, int64_t states,      \
                                      int64_t shared) {                                                                \
    const auto call = structattn::with_entropies<T>(                                                                   \
        structattn::chains<T>(unaries, lengths, transitions, nullptr, nullptr, nullptr, nullptr, nullptr, batch,       \
                              words, states, shared),                                                                  \
        transition_values, {unary_values, log_partition, entropy, gap});                                               \
    return structattn::finished(structattn::marginals(call), entropy, batch);                                          \
  }

extern "C" {
STRUCTATTN_EXPORT_CHAIN(float, float32)
STRUCTATTN_EXPORT_CHAIN(double, float64)
}
