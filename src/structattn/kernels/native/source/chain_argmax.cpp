// The best sequence of a linear chain (Viterbi 1967), one sentence at a time.
#include "chain.hpp"

namespace structattn {
namespace {

// A best sequence of one sentence; of equal ones, at each word the first state that may come before.
template <class T>
class Decoder {
 public:
  Decoder(int64_t words, int64_t states) : C(states), best(words * states) {}

  // Marks the states of the sequence, if there is one.
  void run(const Chains<T>& call, int64_t item) {
    const int64_t length = call.length(item);
    double* here = best.data();
    for (int64_t word = 0; word < length; ++word, here += C) {
      const T* u = call.unary(item, word);
      for (int64_t c = 0; c < C; ++c) here[c] = word == 0 ? static_cast<double>(u[c]) : -kInfinity;
      for (int64_t b = 0; b < C && word > 0; ++b) {
        const T* t = call.transition(item, word - 1) + b * C;
        const double before = here[b - C];
        for (int64_t c = 0; c < C; ++c) here[c] = std::max(here[c], before + t[c] + u[c]);
      }
    }
    if (length == 0) return;
    here -= C;
    int64_t state = std::max_element(here, here + C) - here;
    if (here[state] == -kInfinity) return;
    for (int64_t word = length - 1;; --word, here -= C) {
      call.unary_part(item, word)[state] = 1;
      if (word == 0) return;
      // The state before is found again by its value, instead of being stored by the inner loop.
      const T* t = call.transition(item, word - 1) + state;
      const double score = call.unary(item, word)[state];
      int64_t b = 0;
      while (b + 1 < C && here[b - C] + t[b * C] + score != here[state]) ++b;
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
        std::fill_n(call.unary_part(item, 0), call.num_states(), T(0));
        decoder.run(call, item);
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

#define STRUCTATTN_EXPORT_CHAIN_ARGMAX(T, NAME)                                                                        \
  int structattn_chain_argmax_##NAME(const T* unaries, const int64_t* lengths, const T* transitions, T* parts,         \
                                     int64_t batch, int64_t words, int64_t states, int64_t shared) {                   \
    return structattn::argmax(structattn::chains<T>(unaries, lengths, transitions, nullptr, nullptr, nullptr, parts,   \
                                                    nullptr, batch, words, states, shared));                           \
  }

extern "C" {
STRUCTATTN_EXPORT_CHAIN_ARGMAX(float, float32)
STRUCTATTN_EXPORT_CHAIN_ARGMAX(double, float64)
}
