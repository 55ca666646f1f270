// The best projective dependency tree: the program of dependency.hpp over max-plus numbers, then its splits.
#include "dependency.hpp"

namespace structattn {
namespace dependency {
namespace {

struct BestArcs {
  static int64_t num_cells(int64_t length) { return Tables<Best>::num_cells(length); }

  template <class Num, class T>
  static unsigned char evaluate(const Call<T>& call, const Group& group, Num* workspace) {
    const Tables<Num> in(workspace, group.longest);
    Shift shifts[kLanes];
    load(call, group, in, shifts);
    inside(in, call.single_root ? 1 : 0);
    for (int lane = 0; lane < kLanes; ++lane) {
      if (group.items[lane] < 0) continue;
      T* parts = call.parts + group.items[lane] * call.num_parts;
      std::memset(parts, 0, call.num_parts * sizeof(T));
      const int64_t length = group.lengths[lane];
      if (length > 0) Descent<T>{in, lane, call.words + 1, parts}.run(length, call.single_root);
    }
    return 0;
  }

  // Splits are found again by their value, instead of being stored by the inner loops.
  template <class T>
  struct Descent {
    const Tables<Best>& in;
    int lane;
    int64_t heads;
    T* parts;

    enum Kind : int64_t { kRight, kLeft };
    struct Span {
      Kind kind;
      int64_t s, t;
    };

    double at(const Best* table, int64_t s, int64_t t) const { return table[s * in.size + t].value[lane]; }

    // The first best position of a range, by the sum of two rows.
    int64_t split(const Best* first, const Best* second, int64_t count) const {
      int64_t found = 0;
      for (int64_t i = 1; i < count; ++i) {
        const double best = first[found].value[lane] + second[found].value[lane];
        if (first[i].value[lane] + second[i].value[lane] > best) found = i;
      }
      return found;
    }

    void run(int64_t length, bool single_root) {
      // Fewer spans wait than there are words; the rows of shifts have room for them.
      Span* const bottom = reinterpret_cast<Span*>(in.left);
      Span* top = bottom;
      const auto push = [&top](Kind kind, int64_t s, int64_t t) {
        if (s < t) *top++ = Span{kind, s, t};
      };
      if (single_root) {
        double best = -kInfinity;
        int64_t root = 0;
        for (int64_t r = 1; r <= length; ++r) {
          const double value = at(in.weights, r, 0) + at(in.CL, 1, r) + at(in.CR, r, length);
          if (value > best) best = value, root = r;
        }
        if (root == 0) return;
        parts[(root - 1) * heads] = 1;
        push(kLeft, 1, root);
        push(kRight, root, length);
      } else {
        if (at(in.CR, 0, length) == -kInfinity) return;
        push(kRight, 0, length);
      }
      while (top != bottom) {
        const Span span = *--top;
        const int64_t s = span.s, t = span.t, row = s * in.size, column = t * in.size;
        int64_t from = s, to = t;
        if (span.kind == kRight) {
          to = s + 1 + split(in.IR + row + s + 1, in.CR + column + s + 1, t - s);
          parts[(to - 1) * heads + s] = 1;
          push(kRight, to, t);
        } else {
          from = s + split(in.CL + row + s, in.IL + column + s, t - s);
          parts[(from - 1) * heads + t] = 1;
          push(kLeft, s, from);
        }
        const int64_t middle = from + split(in.CR + from * in.size + from, in.CL + to * in.size + from + 1, to - from);
        push(kRight, from, middle);
        push(kLeft, middle + 1, to);
      }
    }
  };
};

}  // namespace
}  // namespace dependency
}  // namespace structattn

using structattn::dependency::BestArcs;
using structattn::dependency::call_of;

#define STRUCTATTN_EXPORT_DEPENDENCY_ARGMAX(T, NAME)                                                                  \
  int structattn_dependency_argmax_##NAME(const T* scores, const int64_t* lengths, T* parts, int64_t batch,           \
                                          int64_t words, int64_t single_root) {                                       \
    return structattn::select_all<BestArcs>(                                                                          \
        call_of<T>(scores, lengths, nullptr, nullptr, parts, batch, words, single_root));                             \
  }

extern "C" {
STRUCTATTN_EXPORT_DEPENDENCY_ARGMAX(float, float32)
STRUCTATTN_EXPORT_DEPENDENCY_ARGMAX(double, float64)
}
