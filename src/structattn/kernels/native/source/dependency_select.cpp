// Projective dependency trees, selected: the best one, the k best, and random ones, from the program of dependency.hpp.
#include "dependency.hpp"
#include "selection.hpp"

namespace structattn {
namespace dependency {
namespace {

enum Kind : int64_t { kHalves, kRight, kLeft, kRoot };

// From the whole sentence down, where `chooser` splits spans: `split(kind, s, t, a, b, count)` is the place of one of the
// products a[i] * b[i].
template <class Num, class T, class Chooser>
struct Descent {
  const Tables<Num>& in;
  const Chooser& chooser;
  int64_t heads;
  T* parts;

  struct Span {
    Kind kind;
    int64_t s, t;
  };

  void run(int64_t length, int64_t root, std::vector<Span>& waiting) const {
    waiting.clear();
    const auto push = [&waiting](Kind kind, int64_t s, int64_t t) {
      if (s < t) waiting.push_back({kind, s, t});
    };
    if (root > 0) {
      parts[(root - 1) * heads] = 1;
      push(kLeft, 1, root);
    }
    push(kRight, root, length);
    while (!waiting.empty()) {
      const Span span = waiting.back();
      waiting.pop_back();
      const int64_t s = span.s, t = span.t, row = s * in.size, column = t * in.size;
      int64_t from = s, to = t;
      if (span.kind == kRight) {
        to = s + 1 + chooser.split(kRight, s, t, in.IR + row + s + 1, in.CR + column + s + 1, t - s);
        parts[(to - 1) * heads + s] = 1;
        push(kRight, to, t);
      } else {
        from = s + chooser.split(kLeft, s, t, in.CL + row + s, in.IL + column + s, t - s);
        parts[(from - 1) * heads + t] = 1;
        push(kLeft, s, from);
      }
      const Num *left = in.CR + from * in.size + from, *right = in.CL + to * in.size + from + 1;
      const int64_t middle = from + chooser.split(kHalves, from, to, left, right, to - from);
      push(kRight, from, middle);
      push(kLeft, middle + 1, to);
    }
  }
};

// The first best alternative, found again by its value instead of being stored by the inner loops.
struct FirstBest {
  int lane;

  int64_t split(Kind, int64_t, int64_t, const Best* a, const Best* b, int64_t count) const {
    int64_t found = 0;
    for (int64_t i = 1; i < count; ++i) {
      if (a[i].value[lane] + b[i].value[lane] > a[found].value[lane] + b[found].value[lane]) found = i;
    }
    return found;
  }
};

struct Drawn {
  int lane;
  Random random;

  template <class Num>
  int64_t split(Kind kind, int64_t s, int64_t t, const Num* a, const Num* b, int64_t count) const {
    return categorical(a, 1, b, 1, count, lane, random.uniform(place(kind, s, t)));
  }
};

double at(const Tables<Best>& in, const Best* table, int64_t s, int64_t t, int lane) {
  return table[s * in.size + t].value[lane];
}

double under_root(const Tables<Best>& in, int64_t root, int64_t length, int lane) {
  return at(in, in.weights, root, 0, lane) + at(in, in.CL, 1, root, lane) + at(in, in.CR, root, length, lane);
}

struct BestArcs {
  static int64_t num_cells(int64_t length) { return Tables<Best>::num_cells(length); }

  template <class Num, class T>
  static unsigned char evaluate(const Call<T>& call, const Group& group, Num* workspace) {
    const Tables<Num> in(workspace, group.longest);
    Shift shifts[kLanes];
    load(call, group, in, shifts);
    inside(in, call.single_root ? 1 : 0);
    std::vector<typename Descent<Num, T, FirstBest>::Span> waiting;
    for (int lane = 0; lane < kLanes; ++lane) {
      if (group.items[lane] < 0) continue;
      T* parts = call.selected(0, group.items[lane]);
      const int64_t length = group.lengths[lane];
      int64_t root = 0;
      double best = call.single_root || length == 0 ? -kInfinity : at(in, in.CR, 0, length, lane);
      for (int64_t r = 1; r <= length && call.single_root; ++r) {
        const double value = under_root(in, r, length, lane);
        if (value > best) best = value, root = r;
      }
      if (best == -kInfinity) continue;
      const FirstBest chooser{lane};
      Descent<Num, T, FirstBest>{in, chooser, call.words + 1, parts}.run(length, root, waiting);
    }
    return 0;
  }
};

struct RandomArcs {
  static int64_t num_cells(int64_t length) { return Tables<Plain>::num_cells(length); }

  template <class Num, class T>
  static unsigned char evaluate(const Call<T>& call, const Group& group, Num* workspace) {
    const Tables<Num> in(workspace, group.longest);
    Shift shifts[kLanes];
    load(call, group, in, shifts);
    Bits trusted;
    const Num total = sum_all(group, in, call.single_root, shifts, &trusted);
    const unsigned char untrusted = untrusted_lanes(trusted, group);
    std::vector<typename Descent<Num, T, Drawn>::Span> waiting;
    for (int lane = 0; lane < kLanes; ++lane) {
      if (group.items[lane] < 0 || (untrusted >> lane & 1)) continue;
      const int64_t item = group.items[lane], length = group.lengths[lane];
      for (int64_t sample = 0; sample < call.selection.count; ++sample) {
        T* parts = call.selected(sample, item);
        if (total.log(lane) == -kInfinity || length == 0) continue;
        const Drawn chooser{lane, Random(call.selection.streams[item], sample)};
        int64_t root = 0;
        if (call.single_root) root = 1 + chooser.split(kRoot, 0, length, in.left + 1, in.right + 1, length);
        Descent<Num, T, Drawn>{in, chooser, call.words + 1, parts}.run(length, root, waiting);
      }
    }
    return untrusted;
  }
};

// The program of one sentence as a grammar for `Derivations`: cells X, CR and CL, and the goal of a single root.
template <class T>
struct Spans {
  const Call<T>& call;
  const Tables<Best>& in;
  int lane;
  int64_t item, length;

  int64_t cell(Kind kind, int64_t s, int64_t t) const { return (kind * in.size + s) * in.size + t; }
  int64_t goal() const { return call.single_root ? cell(kRoot, 0, 0) : cell(kRight, 0, length); }
  int64_t num_cells() const { return 3 * in.size * in.size + 1; }
  Kind kind(int64_t cell) const { return static_cast<Kind>(cell / (in.size * in.size)); }
  int64_t start(int64_t cell) const { return cell / in.size % in.size; }
  int64_t end(int64_t cell) const { return cell % in.size; }

  double best(int64_t cell) const {
    const int64_t s = start(cell), t = end(cell);
    switch (kind(cell)) {
      case kHalves: return at(in, in.oX, s, t, lane);
      case kRight: return at(in, in.CR, s, t, lane);
      case kLeft: return at(in, in.CL, s, t, lane);
      default: break;
    }
    double found = -kInfinity;
    for (int64_t r = 1; r <= length; ++r) found = std::max(found, under_root(in, r, length, lane));
    return found;
  }
  int64_t num_alternatives(int64_t cell) const { return kind(cell) == kRoot ? length : end(cell) - start(cell); }
  int64_t left(int64_t cell, int64_t i) const {
    const int64_t s = start(cell);
    switch (kind(cell)) {
      case kHalves: return this->cell(kRight, s, s + i);
      case kRight: return this->cell(kHalves, s, s + 1 + i);
      case kLeft: return this->cell(kLeft, s, s + i);
      default: return this->cell(kLeft, 1, 1 + i);
    }
  }
  int64_t right(int64_t cell, int64_t i) const {
    const int64_t s = start(cell), t = end(cell);
    switch (kind(cell)) {
      case kHalves: return this->cell(kLeft, s + 1 + i, t);
      case kRight: return this->cell(kRight, s + 1 + i, t);
      case kLeft: return this->cell(kHalves, s + i, t);
      default: return this->cell(kRight, 1 + i, length);
    }
  }
  double value(int64_t cell, int64_t i, double left, double right) const {
    const int64_t s = start(cell), t = end(cell);
    switch (kind(cell)) {
      case kHalves: return left + right;
      case kRight: return (left + at(in, in.weights, s + 1 + i, s, lane)) + right;
      case kLeft: return left + (right + at(in, in.weights, s + i, t, lane));
      default: return at(in, in.weights, 1 + i, 0, lane) + left + right;
    }
  }
  // The arc that an alternative adds.
  double mark(int64_t cell, int64_t i, T* parts) const {
    const int64_t s = start(cell);
    if (i < 0 || kind(cell) == kHalves) return 0.0;
    const int64_t word = kind(cell) == kRight ? s + 1 + i : kind(cell) == kLeft ? s + i : 1 + i;
    const int64_t head = kind(cell) == kRight ? s : kind(cell) == kLeft ? end(cell) : 0;
    const int64_t part = (word - 1) * (call.words + 1) + head;
    parts[part] = 1;
    return call.scores[item * call.num_parts + part];
  }
};

struct FirstArcs {
  static int64_t num_cells(int64_t length) { return Tables<Best>::num_cells(length); }

  template <class Num, class T>
  static unsigned char evaluate(const Call<T>& call, const Group& group, Num* workspace) {
    const Tables<Num> in(workspace, group.longest);
    Shift shifts[kLanes];
    load(call, group, in, shifts);
    inside(in, call.single_root ? 1 : 0);
    for (int lane = 0; lane < kLanes; ++lane) {
      const int64_t item = group.items[lane], length = group.lengths[lane];
      if (item >= 0) select_first(call, Spans<T>{call, in, lane, item, length}, length == 0, item);
    }
    return 0;
  }
};

}  // namespace
}  // namespace dependency
}  // namespace structattn

using structattn::dependency::call_of;

#define STRUCTATTN_EXPORT_DEPENDENCY_SELECT(T, NAME)                                                                  \
  int structattn_dependency_argmax_##NAME(const T* scores, const int64_t* lengths, T* parts, int64_t batch,           \
                                          int64_t words, int64_t single_root) {                                       \
    return structattn::select_best<structattn::dependency::BestArcs>(                                                 \
        call_of<T>(scores, lengths, nullptr, nullptr, parts, batch, words, single_root));                             \
  }                                                                                                                   \
  int structattn_dependency_topk_##NAME(const T* scores, const int64_t* lengths, T* values, T* parts, int64_t batch,  \
                                        int64_t words, int64_t single_root, int64_t count) {                          \
    auto call = call_of<T>(scores, lengths, nullptr, nullptr, parts, batch, words, single_root);                      \
    call.selection = {count, nullptr, values};                                                                        \
    return structattn::select_best<structattn::dependency::FirstArcs>(call);                                          \
  }                                                                                                                   \
  int structattn_dependency_sample_##NAME(const T* scores, const int64_t* lengths, const int64_t* streams, T* parts,  \
                                          int64_t batch, int64_t words, int64_t single_root, int64_t count) {         \
    auto call = call_of<T>(scores, lengths, nullptr, nullptr, parts, batch, words, single_root);                      \
    call.selection = {count, streams, nullptr};                                                                       \
    return structattn::evaluate_all<structattn::dependency::RandomArcs, structattn::Plain>(call);                     \
  }

extern "C" {
STRUCTATTN_EXPORT_DEPENDENCY_SELECT(float, float32)
STRUCTATTN_EXPORT_DEPENDENCY_SELECT(double, float64)
}
