// What both programs over linear chains are given: scores, lengths, and room for what they find.
#pragma once

#include "batch.hpp"

namespace structattn {

// Scores, vector and parts of a sentence: unaries `[word, state]`, then matrices `[from, to]` of transitions, one for
// all steps or one for each.
template <class T>
struct Chains {
  const T* scores;
  const int64_t* lengths;
  const T* vector;  // for `hvp`
  T* log_partition;
  T* parts;
  int64_t batch, words, states;
  bool shared;

  int64_t square() const { return states * states; }
  int64_t num_matrices() const { return shared ? 1 : std::max<int64_t>(words - 1, 0); }
  int64_t num_parts() const { return words * states + num_matrices() * square(); }
  int64_t unary_at(int64_t item, int64_t word) const { return item * num_parts() + word * states; }
  int64_t transition_at(int64_t item, int64_t step) const {
    return unary_at(item, words) + (shared ? 0 : step * square());
  }
};

}  // namespace structattn
