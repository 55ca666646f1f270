// Probabilities of long segmentations and their derivatives, by sums that are rescaled at every word.
//
//   end[t,c] = sum over s of begin[s,c] W(s,t,c);  begin[0,c] = 1, begin[s,c] = sum over b of end[s,b] T[b,c]
//
// The largest number at a position is one; the logarithm of its size stands beside it. So lengths need no exponents.
// What is flushed to zero is below e^-700 of the largest weight at its position, e^-600 of the largest sum; where no
// outside is above e^400, it is below e^-200 of the total. Otherwise, and where a sum that is possible is zero, the
// sentence has no answer, and its results are nan.
// Weights are the same numbers on the way back, so that probabilities add up to one.
#include "long_segments.hpp"
#include "random.hpp"
#include "selection.hpp"

namespace structattn {
namespace long_segments {
namespace {

// Bounds for the sum at a position and for outsides: e^-100 and e^400.
constexpr double kSmallestSum = 3.7e-44, kLargestOutside = 5.2e173;

STRUCTATTN_INLINE Plain spread(const Plain& a, int64_t lane) { return {all(a.value[lane])}; }
STRUCTATTN_INLINE Dual spread(const Dual& a, int64_t lane) { return {all(a.value[lane]), all(a.slope[lane])}; }

template <class T, class Num>
class Smoother {
 public:
  explicit Smoother(const Segments<T>& call)
      : call_(call), C_(call.states), Q_(call.quads()), weights_(C_ * Q_), turned_(C_ * Q_),
        begin_((call.words + 1) * Q_), end_((call.words + 1) * Q_), outside_((call.words + 1) * Q_), here_(Q_),
        log_begin_(call.words + 1), log_end_(call.words + 1), base_(call.words + 1), end_factor_(call.words + 1),
        begin_factor_(call.words + 1),
        sums_(std::min(call.widths, call.words) * Q_), directions_(sums_.size()), scores_(sums_.size()) {}

  void run(int64_t item) {
    const int64_t length = call_.length(item);
    clear(item);
    if (length == 0) {
      for (int64_t sample = 1; sample < call_.selection.count; ++sample) call_.selected(sample, item);
      if (call_.log_partition != nullptr) call_.log_partition[item] = T(0);
      return;
    }
    fill_transitions(item);
    const Values<T> values(call_, item, call_.scores, call_.durations, -kInfinity);
    const Values<T> vectors(call_, item, call_.score_vectors, call_.duration_vectors, 0.0);
    is_trusted_ = true;
    for (int64_t t = 1; t <= length; ++t) go_on(values, vectors, t, t < length);
    Num total = Num::zero();
    for (int64_t c = 0; c < C_; ++c) total = total + spread(end_[length * Q_ + c / kLanes], c % kLanes);
    is_trusted_ = is_trusted_ && total.value[0] > 0.0;
    if (is_trusted_) {
      for (int64_t q = 0; q < Q_; ++q) outside_[length * Q_ + q] = total.reciprocal();
      go_back(item, values, vectors, length);
    }
    if (call_.log_partition != nullptr) {
      call_.log_partition[item] = static_cast<T>(is_trusted_ ? log_end_[length] + total.log(0) : std::nan(""));
    }
    if (!is_trusted_) refuse(item);
    all_trusted = all_trusted && is_trusted_;
    for (int64_t sample = 0; is_trusted_ && sample < call_.selection.count; ++sample) {
      draw(values, Random(call_.selection.streams[item], sample), length, call_.selected(sample, item));
    }
  }

  bool all_trusted = true;

 private:
  const Segments<T>& call_;
  const int64_t C_, Q_;
  std::vector<Num> weights_, turned_;  // of transitions `[before, label]`, and `[label, before]`
  std::vector<Num> begin_, end_, outside_, here_;
  // Logarithms of what sums were divided by; the best score of a segment to each end; the last factors.
  std::vector<double> log_begin_, log_end_, base_, end_factor_, begin_factor_;
  std::vector<Lanes> sums_, directions_, scores_;  // of the segments that are open, or start, at a word
  std::vector<Lanes> further_, widths_, matrix_;   // expected numbers
  std::vector<Lanes> best_;                        // scores of segments to an end
  double scale_ = 1.0, top_ = 0.0;
  const T* from_ = nullptr;
  bool is_trusted_ = true;

  void fill_transitions(int64_t item) {
    const T* from = from_ = call_.transitions.data + item * call_.transitions.step;
    const T* vector = call_.transition_vectors.data;
    if (vector != nullptr) vector += item * call_.transition_vectors.step;
    top_ = -kInfinity;
    for (int64_t i = 0; i < C_ * C_; ++i) top_ = std::max(top_, static_cast<double>(from[i]));
    if (top_ == -kInfinity) top_ = 0.0;
    scale_ = 1.0;
    if (Num::differentiates) {
      double size = vector == nullptr ? 0.0 : largest(vector, C_ * C_);
      for (const Rows<const T>& rows : {call_.score_vectors, call_.duration_vectors}) {
        if (rows.data != nullptr) size = std::max(size, largest(rows.data + item * rows.step, rows.step));
      }
      scale_ = power_near(size);
    }
    for (int64_t b = 0; b < C_; ++b) {
      for (int64_t q = 0; q < Q_; ++q) {
        Lanes score = all(-kInfinity), turned = score, direction = all(0.0), turned_direction = direction;
        for (int64_t lane = 0; lane < kLanes && q * kLanes + lane < C_; ++lane) {
          const int64_t c = q * kLanes + lane;
          score[lane] = from[b * C_ + c] - top_, turned[lane] = from[c * C_ + b] - top_;
          if (vector == nullptr) continue;
          direction[lane] = vector[b * C_ + c] / scale_, turned_direction[lane] = vector[c * C_ + b] / scale_;
        }
        weights_[b * Q_ + q] = Num::weight(score, direction);
        turned_[b * Q_ + q] = Num::weight(turned, turned_direction);
      }
    }
    for (int64_t q = 0; q < Q_; ++q) {
      begin_[q] = Num::one();
      for (int64_t lane = 0; lane < kLanes; ++lane) begin_[q].value[lane] = q * kLanes + lane < C_ ? 1.0 : 0.0;
    }
    log_begin_[0] = 0.0;
  }

  // The sums at the end of t words, and at the beginning of the next one.
  void go_on(const Values<T>& values, const Values<T>& vectors, int64_t t, bool has_next) {
    const int64_t first = std::max<int64_t>(t - call_.widths, 0);
    best_.assign(Q_, all(-kInfinity));
    for (int64_t s = first; s < t; ++s) {
      const int64_t slot = s % call_.widths * Q_;
      for (int64_t q = 0; q < Q_; ++q) {
        const Lanes score = values.next(s, t - s, q, &sums_[slot + q]) + log_begin_[s];
        scores_[slot + q] = begin_[s * Q_ + q].value > 0.0 ? score : all(-kInfinity);
        best_[q] = maximum(best_[q], scores_[slot + q]);
      }
    }
    double base = -kInfinity;
    for (const Lanes& best : best_) base = std::max(base, largest_lane(best));
    Num* end = &end_[t * Q_];
    Num* begin = &begin_[t * Q_];
    for (int64_t q = 0; q < Q_; ++q) end[q] = begin[q] = outside_[t * Q_ + q] = Num::zero();
    log_end_[t] = log_begin_[t] = base_[t] = end_factor_[t] = begin_factor_[t] = 0.0;
    if (base == -kInfinity) return;
    for (int64_t s = first; s < t; ++s) {
      const int64_t slot = s % call_.widths * Q_;
      for (int64_t q = 0; q < Q_; ++q) {
        Lanes direction = all(0.0);
        if (Num::differentiates) direction = vectors.next(s, t - s, q, &directions_[slot + q]) / scale_;
        end[q].accumulate(begin_[s * Q_ + q], Num::weight(scores_[slot + q] - base, direction));
      }
    }
    const double size = rescale(end);
    is_trusted_ = is_trusted_ && size > kSmallestSum;
    for (int64_t c = 0; c < C_; ++c) {
      const bool is_possible = best_[c / kLanes][c % kLanes] > -kInfinity;
      if (is_possible && !(end[c / kLanes].value[c % kLanes] > 0.0)) is_trusted_ = false;
    }
    base_[t] = base, end_factor_[t] = 1.0 / size;
    log_end_[t] = base + std::log(size);
    if (!has_next) return;
    for (int64_t b = 0; b < C_; ++b) {
      const Num before = spread(end[b / kLanes], b % kLanes);
      for (int64_t q = 0; q < Q_; ++q) begin[q].accumulate(before, weights_[b * Q_ + q]);
    }
    const double next = rescale(begin);
    for (int64_t c = 0; c < C_; ++c) {
      if (begin[c / kLanes].value[c % kLanes] > 0.0) continue;
      for (int64_t b = 0; b < C_; ++b) {
        if (end[b / kLanes].value[b % kLanes] > 0.0 && from_[b * C_ + c] > -kInfinity) is_trusted_ = false;
      }
    }
    if (next == 0.0) return;
    is_trusted_ = is_trusted_ && next > kSmallestSum;
    begin_factor_[t] = 1.0 / next;
    log_begin_[t] = log_end_[t] + top_ + std::log(next);
  }

  // Divides numbers by the largest of them, which is returned.
  double rescale(Num* numbers) const {
    Lanes top = all(0.0);
    for (int64_t q = 0; q < Q_; ++q) top = maximum(top, numbers[q].value);
    const double size = largest_lane(top);
    for (int64_t q = 0; q < Q_ && size > 0.0; ++q) numbers[q] = scaled(numbers[q], all(1.0 / size));
    return size;
  }

  void go_back(int64_t item, const Values<T>& values, const Values<T>& vectors, int64_t length) {
    const bool writes = wants_parts(), has_durations = call_.has_durations();
    T* const parts = writes ? call_.parts.data + item * call_.parts.step : nullptr;
    Lanes largest_outside = all(0.0);
    if (writes) {
      matrix_.assign(C_ * Q_, all(0.0));
      if (has_durations) further_.assign(length * Q_, all(0.0)), widths_.assign(call_.widths * Q_, all(0.0));
    }
    for (int64_t s = length - 1; s >= 0; --s) {
      const int64_t count = std::min(call_.widths, length - s);
      const Num* begin = &begin_[s * Q_];
      for (int64_t q = 0; q < Q_; ++q) {
        const Bits allowed = begin[q].value > 0.0;
        Lanes sum, direction_sum;
        Num outside = Num::zero();
        for (int64_t width = 1; width <= count; ++width) {
          Lanes score = values.next(s, width, q, &sum) + log_begin_[s];
          score = allowed ? score - base_[s + width] : all(-kInfinity);
          Lanes direction = all(0.0);
          if (Num::differentiates) direction = vectors.next(s, width, q, &direction_sum) / scale_;
          const Num after = scaled(outside_[(s + width) * Q_ + q], all(end_factor_[s + width]));
          const Num way = Num::weight(score, direction) * after;
          outside = outside + way;
          if (!writes) continue;
          const Lanes used = (way * begin[q]).result();
          if (has_durations) {
            scores_[(width - 1) * Q_ + q] = used;
          } else {
            store(parts + (s * call_.widths + width - 1) * C_, q, used);
          }
        }
        here_[q] = outside;
        largest_outside = maximum(largest_outside, outside.value);
        if (!writes || !has_durations) continue;
        Lanes later = all(0.0);
        for (int64_t width = count; width >= 1; --width) {
          const Lanes used = scores_[(width - 1) * Q_ + q];
          widths_[(width - 1) * Q_ + q] += used;
          later += used;
          if (width > 1) further_[(s + width - 1) * Q_ + q] += later;
        }
        store(parts + 2 * s * C_, q, later);
      }
      if (s > 0) turn_back(s, writes);
      for (int64_t q = 0; q < Q_; ++q) largest_outside = maximum(largest_outside, outside_[s * Q_ + q].value);
    }
    is_trusted_ = largest_lane(largest_outside) < kLargestOutside;
    if (!writes) return;
    for (int64_t q = 0; q < Q_ && has_durations; ++q) {
      for (int64_t word = 1; word < length; ++word) store(parts + (2 * word + 1) * C_, q, further_[word * Q_ + q]);
    }
    write_counts(call_.transition_parts, item, matrix_, C_);
    write_counts(call_.duration_parts, item, widths_, call_.widths);
  }

  // From the beginning of a segment to the ends of those before it.
  void turn_back(int64_t s, bool writes) {
    const Lanes factor = all(begin_factor_[s]);
    Num* const outside = &outside_[s * Q_];
    for (int64_t q = 0; q < Q_; ++q) outside[q] = Num::zero(), here_[q] = scaled(here_[q], factor);
    for (int64_t c = 0; c < C_; ++c) {
      const Num after = spread(here_[c / kLanes], c % kLanes);
      for (int64_t q = 0; q < Q_; ++q) outside[q].accumulate(after, turned_[c * Q_ + q]);
    }
    for (int64_t b = 0; b < C_ && writes; ++b) {
      const Num before = spread(end_[s * Q_ + b / kLanes], b % kLanes);
      for (int64_t q = 0; q < Q_; ++q) matrix_[b * Q_ + q] += (before * weights_[b * Q_ + q] * here_[q]).result();
    }
  }

  // Probabilities, or their derivatives; rounding may leave 1 + 2e-16 of the former, and the nearest one is meant.
  STRUCTATTN_INLINE void store(T* row, int64_t q, Lanes used) const {
    const Lanes result = Num::differentiates ? used * scale_ : minimum(used, all(1.0));
    for (int64_t lane = 0; lane < kLanes && q * kLanes + lane < C_; ++lane) {
      row[q * kLanes + lane] = static_cast<T>(result[lane]);
    }
  }

  // From the last word back, a segment by its share of the ways to its end, and the label before it.
  void draw(const Values<T>& values, const Random& random, int64_t length, T* parts) {
    enum Kind : uint64_t { kPrevious, kLast, kBefore };
    const auto value = [&](const std::vector<Num>& numbers, int64_t t, int64_t c) {
      return numbers[t * Q_ + c / kLanes].value[c % kLanes];
    };
    int64_t c = categorical(C_, random.uniform(place(kLast, 0, length)), [&](int64_t c) { return value(end_, length, c); });
    std::vector<double> ways;
    for (int64_t t = length; t > 0;) {
      const int64_t count = std::min(call_.widths, t);
      ways.assign(count, 0.0);
      Lanes later;
      for (int64_t width = 1; width <= count; ++width) {
        const int64_t s = t - width;
        const double score = values.before(t, width, c / kLanes, &later)[c % kLanes] + log_begin_[s] - log_end_[t];
        const double before = value(begin_, s, c);
        // In the order of the alternatives of the chart.
        if (before > 0.0) ways[call_.has_durations() ? width - 1 : count - width] = before * std::exp(score);
      }
      const int64_t i = categorical(count, random.uniform(place(kPrevious, c, t)), [&](int64_t i) { return ways[i]; });
      const int64_t s = t - (call_.has_durations() ? i + 1 : count - i);
      call_.mark(parts, s, t, c);
      if (s > 0) {
        const double number = random.uniform(place(kBefore, c, s));
        c = categorical(C_, number, [&](int64_t b) { return value(end_, s, b) * value(weights_, b, c); });
      }
      t = s;
    }
  }

  void write_counts(const Rows<T>& to, int64_t item, const std::vector<Lanes>& counts, int64_t rows) const {
    if (to.data == nullptr) return;
    for (int64_t i = 0; i < rows * C_; ++i) {
      to.data[item * to.step + i] = static_cast<T>(counts[i / C_ * Q_ + i % C_ / kLanes][i % C_ % kLanes] * scale_);
    }
  }

  bool wants_parts() const { return call_.parts.data != nullptr && call_.selection.streams == nullptr; }
  void clear(int64_t item) const {
    for (const Rows<T>& rows : {call_.parts, call_.transition_parts, call_.duration_parts}) {
      if (rows.data != nullptr) std::fill_n(rows.data + item * rows.step, rows.step, T(0));
    }
  }
  void refuse(int64_t item) const {
    for (const Rows<T>& rows : {call_.parts, call_.transition_parts, call_.duration_parts}) {
      if (rows.data != nullptr) rows.data[item * rows.step] = static_cast<T>(std::nan(""));
    }
  }
};

// Workers of several threads, and whether each sentence has an answer.
template <class T, class Num>
int smooth(const Segments<T>& call) {
  struct Worker {
    std::atomic<bool>* all_trusted;
    Smoother<T, Num> smoother;
    void run(int64_t item) {
      smoother.run(item);
      if (!smoother.all_trusted) *all_trusted = false;
    }
  };
  struct Shared : Segments<T> {
    std::atomic<bool>* all_trusted;
  };
  std::atomic<bool> all_trusted{true};
  struct Start : Worker {
    explicit Start(const Shared& call) : Worker{call.all_trusted, Smoother<T, Num>(call)} {}
  };
  const int status = each<Start>(Shared{call, &all_trusted}, call.work());
  return status == kDone && !all_trusted ? kUntrusted : status;
}

// A best segmentation; of equal ones, from the last word back that with the first label before, or rather the last
// label; of widths the longest one where segments have scores, the shortest one where these are sums.
template <class T>
class BestSegments {
 public:
  explicit BestSegments(const Segments<T>& call) : call_(call) {}

  void run(int64_t item) {
    const int64_t C = call_.states, Q = call_.quads(), length = call_.length(item);
    T* const parts = call_.selected(0, item);
    if (length == 0) return;
    const Values<T> values(call_, item, call_.scores, call_.durations, -kInfinity);
    const T* transition = call_.transitions.data + item * call_.transitions.step;
    const int64_t size = Q * kLanes;
    std::vector<Lanes> sums(std::min(call_.widths, call_.words) * Q), begin((length + 1) * Q, all(0.0));
    std::vector<double> end(size);
    std::vector<int64_t> start(length * size + size, -1), before(length * size + size, 0);
    for (int64_t t = 1; t <= length; ++t) {
      std::fill(end.begin(), end.end(), -kInfinity);
      for (int64_t s = std::max<int64_t>(t - call_.widths, 0); s < t; ++s) {
        for (int64_t q = 0; q < Q; ++q) {
          const Lanes score = begin[s * Q + q] + values.next(s, t - s, q, &sums[s % call_.widths * Q + q]);
          for (int64_t lane = 0; lane < kLanes; ++lane) {
            double& best = end[q * kLanes + lane];
            const bool is_better = call_.has_durations() ? score[lane] >= best : score[lane] > best;
            if (!is_better || score[lane] == -kInfinity) continue;
            best = score[lane], start[t * size + q * kLanes + lane] = s;
          }
        }
      }
      for (int64_t c = 0; c < C && t < length; ++c) {
        double best = -kInfinity;
        for (int64_t b = 0; b < C; ++b) {
          const double score = end[b] + transition[b * C + c];
          if (score > best) best = score, before[t * size + c] = b;
        }
        begin[t * Q + c / kLanes][c % kLanes] = best;
      }
    }
    int64_t t = length, c = std::max_element(end.begin(), end.begin() + C) - end.begin();
    if (end[c] == -kInfinity) return;
    while (t > 0) {
      const int64_t s = start[t * size + c];
      call_.mark(parts, s, t, c);
      c = before[s * size + c], t = s;
    }
  }

 private:
  const Segments<T>& call_;
};

}  // namespace
}  // namespace long_segments
}  // namespace structattn

using structattn::Dual;
using structattn::Plain;
using structattn::long_segments::BestSegments;
using structattn::long_segments::segments_of;
using structattn::long_segments::smooth;

// `joined` segments have scores of their own, `summed` ones those of words and durations.
#define STRUCTATTN_EXPORT_LONG_SEGMENTS(T, NAME)                                                                       \
  int structattn_joined_segments_marginals_##NAME(                                                                     \
      const T* scores, const int64_t* lengths, const T* transitions, T* log_partition, T* parts, T* transition_parts,  \
      int64_t batch, int64_t words, int64_t widths, int64_t states, int64_t shared) {                                  \
    auto call = segments_of<T>(scores, lengths, transitions, nullptr, batch, words, widths, states, shared, 0);        \
    call.log_partition = log_partition, call.parts.data = parts, call.transition_parts.data = transition_parts;        \
    return smooth<T, Plain>(call);                                                                                     \
  }                                                                                                                    \
  int structattn_joined_segments_hvp_##NAME(const T* scores, const int64_t* lengths, const T* transitions,             \
                                            const T* vector, const T* transition_vector, T* product,                   \
                                            T* transition_product, int64_t batch, int64_t words, int64_t widths,       \
                                            int64_t states, int64_t shared) {                                          \
    auto call = segments_of<T>(scores, lengths, transitions, nullptr, batch, words, widths, states, shared, 0);        \
    call.score_vectors.data = vector, call.transition_vectors.data = transition_vector;                                \
    call.parts.data = product, call.transition_parts.data = transition_product;                                        \
    return smooth<T, Dual>(call);                                                                                      \
  }                                                                                                                    \
  int structattn_joined_segments_argmax_##NAME(const T* scores, const int64_t* lengths, const T* transitions,          \
                                               T* parts, int64_t batch, int64_t words, int64_t widths, int64_t states, \
                                               int64_t shared) {                                                       \
    auto call = segments_of<T>(scores, lengths, transitions, nullptr, batch, words, widths, states, shared, 0);        \
    call.parts.data = parts;                                                                                           \
    return structattn::each<BestSegments<T>>(call, call.work());                                                       \
  }                                                                                                                    \
  int structattn_joined_segments_sample_##NAME(const T* scores, const int64_t* lengths, const T* transitions,          \
                                               const int64_t* streams, T* parts, int64_t batch, int64_t words,         \
                                               int64_t widths, int64_t states, int64_t shared, int64_t count) {        \
    auto call = segments_of<T>(scores, lengths, transitions, nullptr, batch, words, widths, states, shared, 0);        \
    call.parts.data = parts, call.selection = {count, streams, nullptr};                                               \
    return smooth<T, Plain>(call);                                                                                     \
  }                                                                                                                    \
  int structattn_summed_segments_marginals_##NAME(                                                                     \
      const T* scores, const int64_t* lengths, const T* transitions, const T* durations, T* log_partition, T* parts,   \
      T* transition_parts, T* duration_parts, int64_t batch, int64_t words, int64_t widths, int64_t states,            \
      int64_t shared_transition, int64_t shared_duration) {                                                            \
    auto call = segments_of<T>(scores, lengths, transitions, durations, batch, words, widths, states,                  \
                               shared_transition, shared_duration);                                                    \
    call.log_partition = log_partition, call.parts.data = parts;                                                       \
    call.transition_parts.data = transition_parts, call.duration_parts.data = duration_parts;                          \
    return smooth<T, Plain>(call);                                                                                     \
  }                                                                                                                    \
  int structattn_summed_segments_hvp_##NAME(                                                                           \
      const T* scores, const int64_t* lengths, const T* transitions, const T* durations, const T* vector,              \
      const T* transition_vector, const T* duration_vector, T* product, T* transition_product, T* duration_product,    \
      int64_t batch, int64_t words, int64_t widths, int64_t states, int64_t shared_transition,                         \
      int64_t shared_duration) {                                                                                       \
    auto call = segments_of<T>(scores, lengths, transitions, durations, batch, words, widths, states,                  \
                               shared_transition, shared_duration);                                                    \
    call.score_vectors.data = vector, call.transition_vectors.data = transition_vector;                                \
    call.duration_vectors.data = duration_vector, call.parts.data = product;                                           \
    call.transition_parts.data = transition_product, call.duration_parts.data = duration_product;                      \
    return smooth<T, Dual>(call);                                                                                      \
  }                                                                                                                    \
  int structattn_summed_segments_sample_##NAME(const T* scores, const int64_t* lengths, const T* transitions,          \
                                               const T* durations, const int64_t* streams, T* parts, int64_t batch,    \
                                               int64_t words, int64_t widths, int64_t states,                          \
                                               int64_t shared_transition, int64_t shared_duration, int64_t count) {    \
    auto call = segments_of<T>(scores, lengths, transitions, durations, batch, words, widths, states,                  \
                               shared_transition, shared_duration);                                                    \
    call.parts.data = parts, call.selection = {count, streams, nullptr};                                               \
    return smooth<T, Plain>(call);                                                                                     \
  }                                                                                                                    \
  int structattn_summed_segments_argmax_##NAME(const T* scores, const int64_t* lengths, const T* transitions,          \
                                               const T* durations, T* parts, int64_t batch, int64_t words,             \
                                               int64_t widths, int64_t states, int64_t shared_transition,              \
                                               int64_t shared_duration) {                                              \
    auto call = segments_of<T>(scores, lengths, transitions, durations, batch, words, widths, states,                  \
                               shared_transition, shared_duration);                                                    \
    call.parts.data = parts;                                                                                           \
    return structattn::each<BestSegments<T>>(call, call.work());                                                       \
  }

extern "C" {
STRUCTATTN_EXPORT_LONG_SEGMENTS(float, float32)
STRUCTATTN_EXPORT_LONG_SEGMENTS(double, float64)
}
