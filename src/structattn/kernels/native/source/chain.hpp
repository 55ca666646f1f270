// What both programs over linear chains are given: scores, lengths, and room for what they find.
#pragma once

#include "batch.hpp"

namespace structattn {

// Scores of a sentence: unaries `[word, state]`, then matrices `[from, to]` of transitions, one for all steps or one
// for each. Vector and parts are laid out alike; or states and transitions stand in arrays of their own, and where
// there is none for the transitions their vector is zero, their parts not wanted.
template <class T>
struct Chains {
  const T* scores;
  const int64_t* lengths;
  const T* vector;  // for `hvp`
  const T* transition_vector;
  T* log_partition;
  T* parts;
  T* transition_parts;
  int64_t batch, words, states;
  bool shared, packed;

  // Lengths are checked above; whatever they are, nothing outside the arrays is touched.
  int64_t length(int64_t item) const { return std::clamp<int64_t>(lengths[item], 0, words); }
  int64_t square() const { return states * states; }
  int64_t num_states() const { return words * states; }
  int64_t num_matrices() const { return shared ? 1 : std::max<int64_t>(words - 1, 0); }
  int64_t num_transitions() const { return num_matrices() * square(); }
  // How many matrices a sentence of this length reads.
  int64_t num_matrices(int64_t length) const { return length < 2 ? 0 : shared ? 1 : length - 1; }

  const T* unary(int64_t item, int64_t word) const { return scores + scores_of(item) + word * states; }
  const T* transition(int64_t item, int64_t step) const {
    return scores + scores_of(item) + num_states() + matrix(step);
  }
  const T* unary_vector(int64_t item, int64_t word) const { return vector + states_of(item) + word * states; }
  const T* matrix_vector(int64_t item, int64_t step) const {
    return transition_vector + transitions_of(item) + matrix(step);
  }
  T* unary_part(int64_t item, int64_t word) const { return parts + states_of(item) + word * states; }
  T* matrix_part(int64_t item, int64_t step) const { return transition_parts + transitions_of(item) + matrix(step); }

 private:
  int64_t matrix(int64_t step) const { return shared ? 0 : step * square(); }
  int64_t scores_of(int64_t item) const { return item * (num_states() + num_transitions()); }
  int64_t states_of(int64_t item) const { return packed ? scores_of(item) : item * num_states(); }
  int64_t transitions_of(int64_t item) const { return packed ? scores_of(item) : item * num_transitions(); }
};

// Scores, vector and parts in one array each.
template <class T>
Chains<T> packed_chains(const T* scores, const int64_t* lengths, const T* vector, T* log_partition, T* parts,
                        int64_t batch, int64_t words, int64_t states, bool shared) {
  const int64_t split = words * states;
  return {scores, lengths, vector, vector == nullptr ? nullptr : vector + split, log_partition, parts, parts + split,
          batch, words, states, shared, true};
}

}  // namespace structattn
