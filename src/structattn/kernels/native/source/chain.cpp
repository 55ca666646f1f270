// Marginals of linear chains: four sentences at a time on torch's threads, first in doubles, then with exponents.
#include "chain_smoother.hpp"

namespace structattn {
namespace {

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
        group.lengths[lane] = state.call.length(group.items[lane]);
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
  for (int64_t item = 0; item < call.batch && call.transition_vector != nullptr; ++item) {
    const T *from = call.matrix_vector(item, 0), *to = from + call.num_transitions();
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
    return structattn::marginals(structattn::packed_chains<T>(scores, lengths, nullptr, log_partition, parts, batch,   \
                                                              words, states, shared != 0));                            \
  }                                                                                                                    \
  int structattn_chain_hvp_##NAME(const T* scores, const int64_t* lengths, const T* vector, T* product, int64_t batch, \
                                  int64_t words, int64_t states, int64_t shared) {                                     \
    return structattn::hvp(structattn::packed_chains<T>(scores, lengths, vector, nullptr, product, batch, words,       \
                                                        states, shared != 0));                                         \
  }                                                                                                                    \
  int structattn_chain_states_##NAME(const T* scores, const int64_t* lengths, T* states_found, int64_t batch,          \
                                     int64_t words, int64_t states, int64_t shared) {                                  \
    return structattn::marginals<T>({scores, lengths, nullptr, nullptr, nullptr, states_found, nullptr, batch, words,  \
                                     states, shared != 0, false});                                                     \
  }                                                                                                                    \
  int structattn_chain_states_hvp_##NAME(const T* scores, const int64_t* lengths, const T* vector, T* to_states,       \
                                         T* to_transitions, int64_t batch, int64_t words, int64_t states,              \
                                         int64_t shared) {                                                             \
    return structattn::hvp<T>({scores, lengths, vector, nullptr, nullptr, to_states, to_transitions, batch, words,     \
                               states, shared != 0, false});                                                           \
  }

extern "C" {
STRUCTATTN_EXPORT_CHAIN(float, float32)
STRUCTATTN_EXPORT_CHAIN(double, float64)
}
