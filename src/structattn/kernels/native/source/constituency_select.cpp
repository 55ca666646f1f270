// Binary phrase trees, selected: the best one, the k best, and random ones, from the program of constituency.hpp.
#include "constituency.hpp"
#include "selection.hpp"

namespace structattn {
namespace constituency {
namespace {

struct Span {
  int64_t start, end;
};

// From the whole sentence down, where `split(i, k)` is the first fencepost behind the left half.
template <class T, class Split>
void descend(int64_t length, int64_t posts, T* parts, std::vector<Span>& waiting, const Split& split) {
  waiting.assign(length > 0, {0, length});
  while (!waiting.empty()) {
    const Span span = waiting.back();
    waiting.pop_back();
    parts[span.start * posts + span.end] = 1;
    if (span.end == span.start + 1) continue;
    const int64_t middle = split(span.start, span.end);
    waiting.push_back({span.start, middle});
    waiting.push_back({middle, span.end});
  }
}

struct BestPhrases {
  static int64_t num_cells(int64_t length) { return Tables<Best>::num_cells(length); }

  template <class Num, class T>
  static unsigned char evaluate(const Call<T>& call, const Group& group, Num* workspace) {
    const Tables<Num> in(workspace, group.longest);
    Shift shifts[kLanes];
    load(call, group, in, shifts);
    inside(in);
    std::vector<Span> waiting;
    for (int lane = 0; lane < kLanes; ++lane) {
      if (group.items[lane] < 0) continue;
      T* parts = call.selected(0, group.items[lane]);
      const int64_t length = group.lengths[lane];
      if (length > 0 && in.B[length].value[lane] == -kInfinity) continue;
      descend(length, call.words + 1, parts, waiting, [&](int64_t i, int64_t k) {
        // The split is found again by its value, instead of being stored by the inner loop.
        double best = -kInfinity;
        int64_t found = i + 1;
        for (int64_t j = i + 1; j < k; ++j) {
          const double value = in.B[i * in.size + j].value[lane] + in.B[k * in.size + j].value[lane];
          if (value > best) best = value, found = j;
        }
        return found;
      });
    }
    return 0;
  }
};

struct RandomPhrases {
  static int64_t num_cells(int64_t length) { return Tables<Plain>::num_cells(length); }

  template <class Num, class T>
  static unsigned char evaluate(const Call<T>& call, const Group& group, Num* workspace) {
    const Tables<Num> in(workspace, group.longest);
    Shift shifts[kLanes];
    load(call, group, in, shifts);
    inside(in);
    const Num total = sum_of_trees(group, in);
    const unsigned char untrusted = untrusted_lanes(total.trusted(), group);
    std::vector<Span> waiting;
    for (int lane = 0; lane < kLanes; ++lane) {
      if (group.items[lane] < 0 || (untrusted >> lane & 1)) continue;
      const int64_t item = group.items[lane], length = group.lengths[lane];
      for (int64_t sample = 0; sample < call.selection.count; ++sample) {
        T* parts = call.selected(sample, item);
        if (total.log(lane) == -kInfinity) continue;
        const Random random(call.selection.streams[item], sample);
        descend(length, call.words + 1, parts, waiting, [&](int64_t i, int64_t k) {
          const Num *left = in.B + i * in.size + i + 1, *right = in.B + k * in.size + i + 1;
          return i + 1 + categorical(left, 1, right, 1, k - i - 1, lane, random.uniform(place(0, i, k)));
        });
      }
    }
    return untrusted;
  }
};

// The program of one sentence as a grammar for `Derivations`: a cell is a span.
template <class T>
struct Spans {
  const Call<T>& call;
  const Tables<Best>& in;
  int lane;
  int64_t item, length;

  int64_t goal() const { return length; }
  int64_t num_cells() const { return in.size * in.size; }
  int64_t start(int64_t cell) const { return cell / in.size; }
  int64_t end(int64_t cell) const { return cell % in.size; }
  double best(int64_t cell) const { return in.B[cell].value[lane]; }
  int64_t num_alternatives(int64_t cell) const { return end(cell) - start(cell) - 1; }
  int64_t left(int64_t cell, int64_t i) const { return start(cell) * in.size + start(cell) + 1 + i; }
  int64_t right(int64_t cell, int64_t i) const { return (start(cell) + 1 + i) * in.size + end(cell); }
  double value(int64_t cell, int64_t, double left, double right) const {
    return left + right + in.weights[end(cell) * in.size + start(cell)].value[lane];
  }
  double mark(int64_t cell, int64_t, T* parts) const {
    const int64_t part = start(cell) * (call.words + 1) + end(cell);
    parts[part] = 1;
    return call.scores[item * call.num_parts + part];
  }
};

struct FirstPhrases {
  static int64_t num_cells(int64_t length) { return Tables<Best>::num_cells(length); }

  template <class Num, class T>
  static unsigned char evaluate(const Call<T>& call, const Group& group, Num* workspace) {
    const Tables<Num> in(workspace, group.longest);
    Shift shifts[kLanes];
    load(call, group, in, shifts);
    inside(in);
    for (int lane = 0; lane < kLanes; ++lane) {
      const int64_t item = group.items[lane], length = group.lengths[lane];
      if (item >= 0) select_first(call, Spans<T>{call, in, lane, item, length}, length == 0, item);
    }
    return 0;
  }
};

}  // namespace
}  // namespace constituency
}  // namespace structattn

using structattn::constituency::call_of;

#define STRUCTATTN_EXPORT_CONSTITUENCY_SELECT(T, NAME)                                                                \
  int structattn_constituency_argmax_##NAME(const T* scores, const int64_t* lengths, T* parts, int64_t batch,         \
                                            int64_t words) {                                                          \
    return structattn::select_best<structattn::constituency::BestPhrases>(                                            \
        call_of<T>(scores, lengths, nullptr, nullptr, parts, batch, words));                                          \
  }                                                                                                                   \
  int structattn_constituency_topk_##NAME(const T* scores, const int64_t* lengths, T* values, T* parts,               \
                                          int64_t batch, int64_t words, int64_t count) {                              \
    auto call = call_of<T>(scores, lengths, nullptr, nullptr, parts, batch, words);                                   \
    call.selection = {count, nullptr, values};                                                                        \
    return structattn::select_best<structattn::constituency::FirstPhrases>(call);                                     \
  }                                                                                                                   \
  int structattn_constituency_sample_##NAME(const T* scores, const int64_t* lengths, const int64_t* streams,          \
                                            T* parts, int64_t batch, int64_t words, int64_t count) {                  \
    auto call = call_of<T>(scores, lengths, nullptr, nullptr, parts, batch, words);                                   \
    call.selection = {count, streams, nullptr};                                                                       \
    return structattn::evaluate_all<structattn::constituency::RandomPhrases, structattn::Plain>(call);                \
  }

extern "C" {
STRUCTATTN_EXPORT_CONSTITUENCY_SELECT(float, float32)
STRUCTATTN_EXPORT_CONSTITUENCY_SELECT(double, float64)
}
