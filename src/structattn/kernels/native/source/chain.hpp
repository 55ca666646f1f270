// What both programs over linear chains are given: scores, lengths, and room for what they find.
#pragma once

#include "batch.hpp"

namespace structattn {

// Scores of a sentence are unaries `[word, state]` and matrices `[from, to]` of transitions, one for all steps or one for
// each. Vectors, for `hvp`, and parts are laid out alike. Without a vector of the transitions it is zero.
template <class T>
struct Chains {
  Rows<const T> unaries, transitions;
  const int64_t* lengths;
  Rows<const T> unary_vectors, transition_vectors;
  T* log_partition;
  Rows<T> unary_parts, transition_parts;
  int64_t batch, words, states;
  bool shared;
  // The selected structures have parts `(count, batch, words, states)`.
  Selection<T> selection = {};
  // Instead of parts; their values are those of the states, and there are others of the transitions.
  Entropies<T> entropies = {};
  Rows<const T> unary_values = {}, transition_values = {};

  // Lengths are checked above; whatever they are, nothing outside the arrays is touched.
  int64_t length(int64_t item) const { return std::clamp<int64_t>(lengths[item], 0, words); }
  int64_t square() const { return states * states; }
  int64_t num_states() const { return words * states; }
  int64_t num_matrices() const { return shared ? 1 : std::max<int64_t>(words - 1, 0); }
  int64_t num_transitions() const { return num_matrices() * square(); }
  bool wants_states() const { return unary_parts.data != nullptr || entropies.wants_parts(); }
  bool wants_transitions() const { return transition_parts.data != nullptr || entropies.wants_parts(); }
  // How many matrices a sentence of this length reads.
  int64_t num_matrices(int64_t length) const { return length < 2 ? 0 : shared ? 1 : length - 1; }

  const T* unary(int64_t item, int64_t word) const { return at(unaries, item, word * states); }
  const T* transition(int64_t item, int64_t step) const { return at(transitions, item, matrix(step)); }
  const T* unary_vector(int64_t item, int64_t word) const { return at(unary_vectors, item, word * states); }
  const T* matrix_vector(int64_t item, int64_t step) const { return at(transition_vectors, item, matrix(step)); }
  const T* unary_value(int64_t item, int64_t word) const { return at(unary_values, item, word * states); }
  const T* matrix_value(int64_t item, int64_t step) const { return at(transition_values, item, matrix(step)); }
  T* selected(int64_t rank, int64_t item) const {
    T* const own = unary_parts.data + (rank * batch + item) * num_states();
    std::fill_n(own, num_states(), T(0));
    return own;
  }
  T* unary_part(int64_t item, int64_t word) const { return at(unary_parts, item, word * states); }
  T* matrix_part(int64_t item, int64_t step) const { return at(transition_parts, item, matrix(step)); }

 private:
  int64_t matrix(int64_t step) const { return shared ? 0 : step * square(); }
  template <class Number>
  static Number* at(const Rows<Number>& rows, int64_t item, int64_t offset) {
    return rows.data + item * rows.step + offset;
  }
};

// `shared` is 0 for a matrix for each step, 1 for one for each sentence, 2 for one matrix; vectors and parts of the
// transitions are those of each sentence.
template <class T>
Chains<T> chains(const T* unaries, const int64_t* lengths, const T* transitions, const T* unary_vectors,
                 const T* transition_vectors, T* log_partition, T* unary_parts, T* transition_parts, int64_t batch,
                 int64_t words, int64_t states, int64_t shared) {
  Chains<T> call{{}, {}, lengths, {}, {}, log_partition, {}, {}, batch, words, states, shared != 0};
  const int64_t step = call.num_states(), matrices = call.num_transitions();
  call.unaries = {unaries, step}, call.transitions = {transitions, shared == 2 ? 0 : matrices};
  call.unary_vectors = {unary_vectors, step}, call.transition_vectors = {transition_vectors, matrices};
  call.unary_parts = {unary_parts, step}, call.transition_parts = {transition_parts, matrices};
  return call;
}

// The same, but asked for entropies.
template <class T>
Chains<T> with_entropies(Chains<T> call, const T* transition_values, const Entropies<T>& entropies) {
  call.entropies = entropies;
  call.unary_values = {entropies.values, call.num_states()};
  call.transition_values = {transition_values, call.num_transitions()};
  return call;
}

}  // namespace structattn
