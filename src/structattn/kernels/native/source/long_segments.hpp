// Long segmentations: what both programs over them are given, and the scores of segments, four labels side by side.
//
// A segment has the score of an array `[start, width - 1, label]`; or, with durations, the sum of those of its words and
// of its width, `[word, first or further, label]` and `[width - 1, label]`. One matrix `[before, label]` serves all
// transitions; the first segment has none.
#pragma once

#include "batch.hpp"

namespace structattn {
namespace long_segments {

template <class T>
struct Segments {
  Rows<const T> scores, transitions, durations;
  const int64_t* lengths;
  Rows<const T> score_vectors, transition_vectors, duration_vectors;
  T* log_partition;
  Rows<T> parts, transition_parts, duration_parts;
  int64_t batch, words, widths, states;
  Selection<T> selection = {};

  bool has_durations() const { return durations.data != nullptr; }
  int64_t length(int64_t item) const { return std::clamp<int64_t>(lengths[item], 0, words); }
  int64_t quads() const { return (states + kLanes - 1) / kLanes; }
  // The parts of a selected structure, cleared.
  T* selected(int64_t rank, int64_t item) const {
    T* const own = parts.data + (rank * batch + item) * parts.step;
    std::fill_n(own, parts.step, T(0));
    return own;
  }
  // The words start .. end - 1, of those parts.
  void mark(T* own, int64_t start, int64_t end, int64_t label) const {
    if (!has_durations()) own[(start * widths + end - start - 1) * states + label] = T(1);
    for (int64_t word = start; word < end && has_durations(); ++word) {
      own[(2 * word + (word > start)) * states + label] = T(1);
    }
  }
  // How many cells the widest segments that end at each word have.
  int64_t work() const { return words * std::min(widths, words) * quads() * kLanes * 2; }
};

// `shared_transition` and `shared_duration` say which arrays the batch shares; vectors and parts are those of each sentence.
template <class T>
Segments<T> segments_of(const T* scores, const int64_t* lengths, const T* transitions, const T* durations, int64_t batch,
                        int64_t words, int64_t widths, int64_t states, int64_t shared_transition,
                        int64_t shared_duration) {
  Segments<T> call{{}, {}, {}, lengths, {}, {}, {}, nullptr, {}, {}, {}, batch, words, widths, states};
  const int64_t per_word = (durations == nullptr ? widths : 2) * states, square = states * states;
  call.scores = call.score_vectors = {scores, words * per_word};
  call.transitions = {transitions, shared_transition ? 0 : square};
  call.durations = {durations, shared_duration ? 0 : widths * states};
  call.score_vectors = {nullptr, words * per_word}, call.transition_vectors = {nullptr, square};
  call.duration_vectors = {nullptr, widths * states};
  call.parts = {nullptr, words * per_word}, call.transition_parts = {nullptr, square};
  call.duration_parts = {nullptr, widths * states};
  return call;
}

// Four numbers of a row, from `quad` on; beyond its end stands `rest`.
template <class T>
STRUCTATTN_INLINE Lanes load(const T* row, int64_t quad, int64_t size, double rest) {
  const int64_t first = quad * kLanes;
  if (first + kLanes <= size) {
    return Lanes{double(row[first]), double(row[first + 1]), double(row[first + 2]), double(row[first + 3])};
  }
  Lanes lanes = all(rest);
  for (int64_t lane = 0; first + lane < size; ++lane) lanes[lane] = static_cast<double>(row[first + lane]);
  return lanes;
}

STRUCTATTN_INLINE double largest_lane(Lanes x) { return std::max(std::max(x[0], x[1]), std::max(x[2], x[3])); }

// Numbers of the segments of one sentence: scores, or a vector, for which `rest` is zero.
template <class T>
class Values {
 public:
  Values(const Segments<T>& call, int64_t item, const Rows<const T>& scores, const Rows<const T>& durations, double rest)
      : C_(call.states), Q_(call.quads()), widths_(call.widths), rest_(rest), has_durations_(call.has_durations()),
        scores_(scores.data == nullptr ? nullptr : scores.data + item * scores.step),
        durations_(durations.data == nullptr ? nullptr : durations.data + item * durations.step) {
    if (!has_durations_) return;
    further_.resize(call.words * Q_, all(rest)), first_ = further_, per_width_.resize(widths_ * Q_, all(rest));
    for (int64_t word = 0; word < call.words && scores_ != nullptr; ++word) {
      for (int64_t q = 0; q < Q_; ++q) {
        first_[word * Q_ + q] = load(scores_ + 2 * word * C_, q, C_, rest);
        further_[word * Q_ + q] = load(scores_ + (2 * word + 1) * C_, q, C_, rest);
      }
    }
    for (int64_t row = 0; row < widths_ && durations_ != nullptr; ++row) {
      for (int64_t q = 0; q < Q_; ++q) per_width_[row * Q_ + q] = load(durations_ + row * C_, q, C_, rest);
    }
  }

  // Of a segment of the words `start .. start + width - 1`. `sum` holds that of its words: it is set where the width is
  // one, and taken on from a width to the next.
  STRUCTATTN_INLINE Lanes next(int64_t start, int64_t width, int64_t q, Lanes* sum) const {
    if (!has_durations_) {
      return scores_ == nullptr ? all(0.0) : load(scores_ + (start * widths_ + width - 1) * C_, q, C_, rest_);
    }
    *sum = width == 1 ? first_[start * Q_ + q] : *sum + further_[(start + width - 1) * Q_ + q];
    return *sum + per_width_[(width - 1) * Q_ + q];
  }

  // The same for segments with one end, from the shortest on: `later` holds the sum of all words but the first.
  STRUCTATTN_INLINE Lanes before(int64_t end, int64_t width, int64_t q, Lanes* later) const {
    const int64_t start = end - width;
    if (!has_durations_) return next(start, width, q, later);
    if (width == 1) *later = all(0.0);
    const Lanes sum = first_[start * Q_ + q] + *later;
    *later += further_[start * Q_ + q];
    return sum + per_width_[(width - 1) * Q_ + q];
  }

 private:
  const int64_t C_, Q_, widths_;
  const double rest_;
  const bool has_durations_;
  const T *scores_, *durations_;
  std::vector<Lanes> first_, further_, per_width_;
};

}  // namespace long_segments
}  // namespace structattn
