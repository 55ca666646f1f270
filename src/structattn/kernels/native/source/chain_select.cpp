// Sequences of a linear chain, selected: the best one (Viterbi 1967), the k best, and random ones.
#include "chain_smoother.hpp"
#include "selection.hpp"

namespace structattn {
namespace {

// Values of the best ways into each state of each word of one sentence.
template <class T>
class Viterbi {
 public:
  explicit Viterbi(const Chains<T>& call) : call(call), C(call.states), best(call.words * call.states) {}

  void fill(int64_t item, int64_t length) {
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
  }

 protected:
  const Chains<T>& call;
  const int64_t C;
  std::vector<double> best;
};

// A best sequence; of equal ones, at each word the first state that may come before.
template <class T>
class Decoder : Viterbi<T> {
  using Viterbi<T>::call, Viterbi<T>::C, Viterbi<T>::best;

 public:
  using Viterbi<T>::Viterbi;

  void run(int64_t item) {
    const int64_t length = call.length(item);
    T* parts = call.selected(0, item);
    if (length == 0) return;
    this->fill(item, length);
    const double* here = best.data() + (length - 1) * C;
    int64_t state = std::max_element(here, here + C) - here;
    if (here[state] == -kInfinity) return;
    for (int64_t word = length - 1;; --word, here -= C) {
      parts[word * C + state] = 1;
      if (word == 0) return;
      // The state before is found again by its value, instead of being stored by the inner loop.
      const T* t = call.transition(item, word - 1) + state;
      const double score = call.unary(item, word)[state];
      int64_t b = 0;
      while (b + 1 < C && here[b - C] + t[b * C] + score != here[state]) ++b;
      state = b;
    }
  }
};

// The sequences of one sentence as a grammar for `Derivations`: a cell for each state of each word, and the goal.
template <class T>
struct Sequences {
  const Chains<T>& call;
  const std::vector<double>& values;
  int64_t item, length, states;

  int64_t goal() const { return length * states; }
  int64_t num_cells() const { return length * states + 1; }
  double best(int64_t cell) const {
    if (cell != goal()) return values[cell];
    return *std::max_element(values.data() + goal() - states, values.data() + goal());
  }
  int64_t num_alternatives(int64_t cell) const { return cell < states ? 0 : states; }
  int64_t left(int64_t cell, int64_t i) const { return (cell / states - 1) * states + i; }
  int64_t right(int64_t, int64_t) const { return -1; }
  double value(int64_t cell, int64_t i, double left, double) const {
    if (cell == goal()) return left;
    const int64_t word = cell / states, state = cell % states;
    return left + call.transition(item, word - 1)[i * states + state] + call.unary(item, word)[state];
  }
  double mark(int64_t cell, int64_t i, T* parts) const {
    if (cell == goal()) return 0.0;
    const int64_t word = cell / states, state = cell % states;
    parts[cell] = 1;
    const double own = call.unary(item, word)[state];
    return word == 0 ? own : own + call.transition(item, word - 1)[i * states + state];
  }
};

template <class T>
class FirstDecoder : Viterbi<T> {
  using Viterbi<T>::call, Viterbi<T>::C, Viterbi<T>::best;

 public:
  using Viterbi<T>::Viterbi;

  void run(int64_t item) {
    const int64_t length = call.length(item);
    this->fill(item, length);
    select_first(call, Sequences<T>{call, best, item, length, C}, length == 0, item);
  }
};

// Filtering forward, then from the last word back a state by its share of the ways into the next one.
template <class T, class Num>
class Sampler : Smoother<T, Num, Num> {
  using Base = Smoother<T, Num, Num>;
  using Base::call, Base::C, Base::filtered, Base::matrices;
  enum Kind : uint64_t { kBefore, kLast };

 public:
  using Base::Base, Base::bytes;

  static int64_t work(const Chains<T>& call, int64_t longest) {
    return Base::work(call, longest) + kLanes * longest * call.states * call.selection.count;
  }

  unsigned char run(const Group& group) {
    const unsigned char untrusted = this->filter(group);
    for (int lane = 0; lane < kLanes; ++lane) {
      if (group.items[lane] < 0 || (untrusted >> lane & 1)) continue;
      for (int64_t sample = 0; sample < call.selection.count; ++sample) {
        draw(lane, group.lengths[lane], Random(call.selection.streams[group.items[lane]], sample),
             call.selected(sample, group.items[lane]));
      }
    }
    return untrusted;
  }

 private:
  void draw(int lane, int64_t length, const Random& random, T* parts) const {
    if (length == 0) return;
    const Num one = Num::one();
    const double number = random.uniform(place(kLast, 0, length));
    int64_t state = categorical(filtered + (length - 1) * C, 1, &one, 0, C, lane, number);
    if (state < 0) return;  // nothing is allowed
    for (int64_t word = length - 1;; --word) {
      parts[word * C + state] = 1;
      if (word == 0) return;
      const Num* matrix = matrices + (call.shared ? 0 : (word - 1) * call.square()) + state;
      const double next = random.uniform(place(kBefore, state, word));
      state = categorical(filtered + (word - 1) * C, 1, matrix, C, C, lane, next);
    }
  }
};

}  // namespace
}  // namespace structattn

#define STRUCTATTN_EXPORT_CHAIN_SELECT(T, NAME)                                                                        \
  int structattn_chain_argmax_##NAME(const T* unaries, const int64_t* lengths, const T* transitions, T* parts,         \
                                     int64_t batch, int64_t words, int64_t states, int64_t shared) {                   \
    const auto call = structattn::chains<T>(unaries, lengths, transitions, nullptr, nullptr, nullptr, parts, nullptr,  \
                                            batch, words, states, shared);                                             \
    return structattn::each<structattn::Decoder<T>>(call, words * call.square());                                      \
  }                                                                                                                    \
  int structattn_chain_topk_##NAME(const T* unaries, const int64_t* lengths, const T* transitions, T* values,          \
                                   T* parts, int64_t batch, int64_t words, int64_t states, int64_t shared,             \
                                   int64_t count) {                                                                    \
    auto call = structattn::chains<T>(unaries, lengths, transitions, nullptr, nullptr, nullptr, parts, nullptr, batch, \
                                      words, states, shared);                                                          \
    call.selection = {count, nullptr, values};                                                                         \
    return structattn::each<structattn::FirstDecoder<T>>(call, words * (call.square() + 8 * states * count));          \
  }                                                                                                                    \
  int structattn_chain_sample_##NAME(const T* unaries, const int64_t* lengths, const T* transitions,                   \
                                     const int64_t* streams, T* parts, int64_t batch, int64_t words, int64_t states,   \
                                     int64_t shared, int64_t count) {                                                  \
    auto call = structattn::chains<T>(unaries, lengths, transitions, nullptr, nullptr, nullptr, parts, nullptr, batch, \
                                      words, states, shared);                                                          \
    call.selection = {count, streams, nullptr};                                                                        \
    using structattn::Extended, structattn::Plain, structattn::Sampler;                                                \
    return structattn::sweep_twice<Sampler<T, Plain>, Sampler<T, Extended<Plain>>>(call);                              \
  }

extern "C" {
STRUCTATTN_EXPORT_CHAIN_SELECT(float, float32)
STRUCTATTN_EXPORT_CHAIN_SELECT(double, float64)
}
