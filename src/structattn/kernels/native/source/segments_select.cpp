// Labelled segmentations, selected: the best one, the k best, and random ones, from the program of segments.hpp.
#include "segments.hpp"
#include "selection.hpp"

namespace structattn {
namespace segments {
namespace {

// A best segmentation; of equal ones, from the last word back the longest segment, then the first label before it.
template <class T>
class BestSegments {
 public:
  explicit BestSegments(const Segments<T>& call) : call_(call) {}

  void run(int64_t item) {
    const int64_t C = call_.states, length = call_.length(item);
    T* parts = call_.selected(0, item);
    fill_prefixes(call_, item, length, best_);
    const double* last = best_.data() + length * C;
    int64_t t = length, c = std::max_element(last, last + C) - last;
    if (last[c] == -kInfinity) return;
    while (t > 0) {
      // The way here is found again by its value, instead of being stored by the inner loop.
      const int64_t first = call_.first_start(t), count = (t - first) * C;
      int64_t i = 0;
      while (i + 1 < count && best_[first * C + i] + call_.row(item, first + i / C, t, i % C)[c] != best_[t * C + c]) ++i;
      const int64_t s = first + i / C, b = i % C;
      parts[call_.part(s, t, b, c)] = 1;
      t = s, c = b;
    }
  }

 private:
  const Segments<T>& call_;
  std::vector<double> best_;
};

// The segmentations of one sentence as a grammar for `Derivations`: a cell for each end and label, and the goal.
template <class T>
struct Grammar {
  const Segments<T>& call;
  const std::vector<double>& prefixes;
  int64_t item, length, C;

  int64_t goal() const { return (length + 1) * C; }
  int64_t num_cells() const { return goal() + 1; }
  double best(int64_t cell) const {
    if (cell != goal()) return prefixes[cell];
    return *std::max_element(prefixes.data() + goal() - C, prefixes.data() + goal());
  }
  int64_t num_alternatives(int64_t cell) const {
    if (cell == goal()) return C;
    return (cell / C - call.first_start(cell / C)) * C;
  }
  int64_t left(int64_t cell, int64_t i) const {
    return cell == goal() ? length * C + i : call.first_start(cell / C) * C + i;
  }
  int64_t right(int64_t, int64_t) const { return -1; }
  double value(int64_t cell, int64_t i, double left, double) const {
    return cell == goal() ? left : left + score(cell, i);
  }
  double mark(int64_t cell, int64_t i, T* parts) const {
    if (i < 0 || cell == goal()) return 0.0;
    const int64_t before = left(cell, i);
    parts[call.part(before / C, cell / C, before % C, cell % C)] = 1;
    return score(cell, i);
  }

 private:
  double score(int64_t cell, int64_t i) const {
    const int64_t before = left(cell, i);
    return call.row(item, before / C, cell / C, before % C)[cell % C];
  }
};

template <class T>
class FirstSegments {
 public:
  explicit FirstSegments(const Segments<T>& call) : call_(call) {}

  void run(int64_t item) {
    const int64_t length = call_.length(item);
    fill_prefixes(call_, item, length, best_);
    select_first(call_, Grammar<T>{call_, best_, item, length, call_.states}, length == 0, item);
  }

 private:
  const Segments<T>& call_;
  std::vector<double> best_;
};

// From the last word back, a segment and the label before it by their share of the ways to its end.
template <class T, class Num>
class RandomSegments : Forward<T, Num> {
  using Base = Forward<T, Num>;
  using Base::call, Base::C, Base::beta, Base::group, Base::prefixes, Base::exponents;
  enum Kind : uint64_t { kBefore, kLast };

 public:
  RandomSegments(const Segments<T>& call, void* memory)
      : Base(call, memory), ways_(static_cast<Num*>(memory) + (call.words + 1) * call.states) {}

  static int64_t bytes(const Segments<T>& call, int64_t) {
    const int64_t ways = std::max<int64_t>(std::min(call.widths, call.words), 1);
    return (call.words + 1 + ways) * call.states * static_cast<int64_t>(sizeof(Num));
  }
  static int64_t work(const Segments<T>& call, int64_t longest) {
    return Base::work(call, longest) + kLanes * longest * call.widths * call.states * call.selection.count;
  }

  unsigned char run(const Group& sentences) {
    const unsigned char untrusted = this->sum(sentences, ways_);
    for (int lane = 0; lane < kLanes; ++lane) {
      if (group.items[lane] < 0 || (untrusted >> lane & 1)) continue;
      for (int64_t sample = 0; sample < call.selection.count; ++sample) {
        draw(lane, Random(call.selection.streams[group.items[lane]], sample),
             call.selected(sample, group.items[lane]));
      }
    }
    return untrusted;
  }

 private:
  Num* ways_;

  void draw(int lane, const Random& random, T* parts) {
    int64_t t = group.lengths[lane];
    for (int64_t c = 0; c < C; ++c) ways_[c] = this->last(t, c);
    int64_t c = categorical(beta + t * C, 1, ways_, 1, C, lane, random.uniform(place(kLast, 0, t)));
    if (c < 0) return;  // nothing is allowed
    while (t > 0) {
      const int64_t first = call.first_start(t), count = (t - first) * C;
      for (int64_t i = 0; i < count; ++i) ways_[i] = way(lane, first + i / C, t, i % C, c);
      const double number = random.uniform(place(kBefore, c, t));
      const int64_t i = std::max<int64_t>(categorical(beta + first * C, 1, ways_, 1, count, lane, number), 0);
      parts[call.part(first + i / C, t, i % C, c)] = 1;
      t = first + i / C, c = i % C;
    }
  }

  Num way(int lane, int64_t s, int64_t t, int64_t b, int64_t c) const {
    const double before = prefixes[lane][s * C + b], score = call.row(group.items[lane], s, t, b)[c];
    if (before == -kInfinity || !(score > -kInfinity)) return Num::zero();
    const double left = before + score - prefixes[lane][t * C + c];
    return Num::weight(all(left) - (exponents[t] - exponents[s]) * kLog2, all(0.0));
  }
};

}  // namespace
}  // namespace segments
}  // namespace structattn

#define STRUCTATTN_EXPORT_SEGMENTS_SELECT(T, NAME)                                                                    \
  int structattn_segments_argmax_##NAME(const T* scores, const int64_t* lengths, T* parts, int64_t batch,             \
                                        int64_t words, int64_t widths, int64_t states) {                              \
    const auto call = call_of<T>(scores, lengths, nullptr, nullptr, parts, batch, words, widths, states);             \
    return structattn::each<structattn::segments::BestSegments<T>>(call, call.num_parts);                             \
  }                                                                                                                   \
  int structattn_segments_topk_##NAME(const T* scores, const int64_t* lengths, T* values, T* parts, int64_t batch,    \
                                      int64_t words, int64_t widths, int64_t states, int64_t count) {                 \
    auto call = call_of<T>(scores, lengths, nullptr, nullptr, parts, batch, words, widths, states);                   \
    call.selection = {count, nullptr, values};                                                                        \
    return structattn::each<structattn::segments::FirstSegments<T>>(                                                  \
        call, call.num_parts + 8 * words * widths * states * count);                                                  \
  }                                                                                                                   \
  int structattn_segments_sample_##NAME(const T* scores, const int64_t* lengths, const int64_t* streams, T* parts,    \
                                        int64_t batch, int64_t words, int64_t widths, int64_t states,                 \
                                        int64_t count) {                                                              \
    auto call = call_of<T>(scores, lengths, nullptr, nullptr, parts, batch, words, widths, states);                   \
    call.selection = {count, streams, nullptr};                                                                       \
    using structattn::Extended, structattn::Plain, structattn::segments::RandomSegments;                              \
    return structattn::sweep_twice<RandomSegments<T, Plain>, RandomSegments<T, Extended<Plain>>>(call);               \
  }

using structattn::segments::call_of;

extern "C" {
STRUCTATTN_EXPORT_SEGMENTS_SELECT(float, float32)
STRUCTATTN_EXPORT_SEGMENTS_SELECT(double, float64)
}
