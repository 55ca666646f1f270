// Projective dependency trees: Eisner's program upwards and downwards, and the best tree, over the number types of
// numbers.hpp.
//
// Positions are 0 (root) and 1..n; W[m,h] is the weight of head h for word m. Going up, with s <= u <= t:
//   X[s,t] = sum_u CR[s,u] CL[u+1,t];   IR[s,t] = X[s,t] W[t,s];   IL[s,t] = X[s,t] W[s,t]
//   CR[s,t] = sum_u IR[s,u] CR[u,t];    CL[s,t] = sum_u CL[s,u] IL[u,t]
// Several roots: Z = CR[0,n]. A single root: position 0 is in no span, and Z = sum_r W[r,0] CL[1,r] CR[r,n].
// Going down, every cell pulls what its possible parents hold; o stands for outside:
//   oCR[a,b] = sum_{t>b} oX[a,t] CL[b+1,t] + sum_{s<a} oCR[s,b] IR[s,a];   oIR[a,b] = sum_{t>=b} oCR[a,t] CR[b,t]
//   oCL[a,b] = sum_{s<a} oX[s,b] CR[s,a-1] + sum_{t>b} oCL[a,t] IL[b,t];   oIL[a,b] = sum_{s<=a} oCL[s,b] CL[s,a]
//   oX[a,b] = oIR[a,b] W[b,a] + oIL[a,b] W[a,b]
// All tables are kept symmetric, so that both factors of every sum are rows; X waits where oX will be.
//
// Every tree has one head for each word: the best score of a row is taken out, and e^1.9 for each word, because the
// number of trees grows like (27/4)^n (Eisner 2000 counts them; binomial(3n, n) / (2n + 1)).
#include "batch.hpp"

namespace structattn {
namespace {

constexpr double kLogGrowth = 1.9;

template <class Num>
struct Tables {
  int64_t size;
  Num *weights, *CR, *CL, *IR, *IL, *oX, *oCR, *oCL;
  // One for each position r, for a single root: W[r,0] CL[1,r], and CR[r,n].
  Num *left, *right;

  Tables(Num* workspace, int64_t length) : size(length + 1) {
    Num** tables[] = {&weights, &CR, &CL, &IR, &IL, &oX, &oCR, &oCL};
    for (Num** table : tables) {
      *table = workspace;
      workspace += size * size;
    }
    left = workspace;
    right = workspace + size;
  }
  static int64_t num_cells(int64_t length) { return 8 * (length + 1) * (length + 1) + 2 * (length + 1); }
  STRUCTATTN_INLINE void put(Num* table, int64_t s, int64_t t, const Num& value) const {
    table[s * size + t] = table[t * size + s] = value;
  }
};

struct Shift {
  double total = 0.0, direction = 1.0;
};

struct Arcs {
  static int64_t num_cells(int64_t length) { return Tables<Plain>::num_cells(length); }

  // Weights of all arcs, relative to the best head of each word.
  template <class Num, class T>
  static void load(const Call<T>& call, const Group& group, const Tables<Num>& in, Shift* shifts) {
    const int64_t size = in.size, heads = call.words + 1;
    Lanes* best = reinterpret_cast<Lanes*>(in.left);
    Lanes* centre = reinterpret_cast<Lanes*>(in.right);
    double root[kLanes] = {};
    for (int64_t m = 0; m < size; ++m) best[m] = centre[m] = all(0.0);
    for (int lane = 0; lane < kLanes; ++lane) {
      const int64_t length = group.lengths[lane];
      double size_of_vector = 0.0, best_root = -kInfinity;
      for (int64_t m = 1; m <= length; ++m) {
        const int64_t offset = group.items[lane] * call.num_parts + (m - 1) * heads;
        const T* row = call.scores + offset;
        int64_t head = -1;
        for (int64_t h = 0; h <= length; ++h) {
          if (h != m && row[h] > (head < 0 ? -static_cast<T>(kInfinity) : row[head])) head = h;
        }
        if (head < 0) continue;
        best[m][lane] = row[head];
        shifts[lane].total += row[head];
        best_root = std::max(best_root, static_cast<double>(row[0]) - row[head]);
        if (Num::differentiates) {
          // One head for each word: a constant may be taken out of a row of the vector, too. With the best head at
          // zero, nothing cancels where the scores are peaked.
          const T* vector = call.vector + offset;
          centre[m][lane] = vector[head];
          const double width = std::max(largest(vector, m), largest(vector + m + 1, length - m));
          size_of_vector = std::max(size_of_vector, width);
        }
      }
      if (call.single_root && best_root > -kInfinity) root[lane] = best_root;
      shifts[lane].total += root[lane] + static_cast<double>(length) * Num::counts * kLogGrowth;
      shifts[lane].direction = power_near(size_of_vector);
    }
    for (int64_t m = 1; m < size; ++m) {
      for (int64_t h = 0; h < size; ++h) {
        Lanes score = all(-kInfinity), direction = all(0.0);
        for (int lane = 0; lane < kLanes; ++lane) {
          if (m > group.lengths[lane] || h > group.lengths[lane] || h == m) continue;
          const int64_t part = group.items[lane] * call.num_parts + (m - 1) * heads + h;
          const double value = call.scores[part];
          if (value == -kInfinity) continue;
          score[lane] = value - best[m][lane] - (h == 0 ? root[lane] : 0.0) - Num::counts * kLogGrowth;
          if (Num::differentiates) {
            direction[lane] = (call.vector[part] - centre[m][lane]) / shifts[lane].direction;
          }
        }
        in.weights[m * size + h] = Num::weight(score, direction);
      }
    }
  }

  template <class Num>
  static void inside(const Tables<Num>& in, int64_t first) {
    const int64_t size = in.size;
    in.CR[0] = in.CL[0] = Num::one();
    for (int64_t t = 1; t < size; ++t) {
      in.CR[t * size + t] = in.CL[t * size + t] = Num::one();
      for (int64_t s = t - 1; s >= first; --s) {
        const int64_t width = t - s, row = s * size, column = t * size;
        const Num X = dot(in.CR + row + s, in.CL + column + s + 1, width).settle();
        in.oX[row + t] = X;
        in.put(in.IR, s, t, (X * in.weights[column + s]).settle());
        in.put(in.CR, s, t, dot(in.IR + row + s + 1, in.CR + column + s + 1, width).settle());
        if (s == 0) continue;
        in.put(in.IL, s, t, (X * in.weights[row + t]).settle());
        in.put(in.CL, s, t, dot(in.CL + row + s, in.IL + column + s, width).settle());
      }
    }
  }

  // What stands on both sides of a single root.
  template <class Num>
  static void find_halves(const Group& group, const Tables<Num>& in) {
    for (int64_t r = 1; r < in.size; ++r) {
      in.left[r] = (in.weights[r * in.size] * in.CL[in.size + r]).settle();
      in.right[r] = Num::zero();
      for (int64_t t = r; t < in.size; ++t) {
        const Bits ends = group.ends_at(t);
        if (ends[0] | ends[1] | ends[2] | ends[3]) in.right[r] = in.right[r] + in.CR[r * in.size + t].where(ends);
      }
    }
  }

  template <class Num>
  static Num partition(const Group& group, const Tables<Num>& in, bool single_root) {
    const Num empty = Num::one().where(group.ends_at(0));
    if (single_root) return (empty + dot(in.left + 1, in.right + 1, in.size - 1)).settle();
    Num total = empty;
    for (int64_t t = 1; t < in.size; ++t) total = total + in.CR[t].where(group.ends_at(t));
    return total;
  }

  template <class Num, class T>
  static unsigned char evaluate(const Call<T>& call, const Group& group, Num* workspace) {
    const Tables<Num> in(workspace, group.longest);
    Shift shifts[kLanes];
    load(call, group, in, shifts);
    inside(in, call.single_root ? 1 : 0);
    if (call.single_root) find_halves(group, in);
    const Num total = partition(group, in, call.single_root);
    for (int lane = 0; lane < kLanes; ++lane) {
      if (group.items[lane] < 0) continue;
      std::memset(call.parts + group.items[lane] * call.num_parts, 0, call.num_parts * sizeof(T));
      if (!Num::differentiates) {
        const double log = total.log(lane);
        call.log_partition[group.items[lane]] = static_cast<T>(log > -kInfinity ? log + shifts[lane].total : log);
      }
    }
    outside(call, group, in, outside_of_all(total), shifts);
    return untrusted_lanes(total.trusted(), group);
  }

  template <class Num, class T>
  static void outside(const Call<T>& call, const Group& group, const Tables<Num>& in, const Num& start,
                      const Shift* shifts) {
    const int64_t size = in.size, end = size - 1, first = call.single_root ? 1 : 0;
    for (int64_t b = end; b >= 1; --b) {
      const Bits ends = group.ends_at(b);
      const int64_t column = b * size, beyond = end - b;
      for (int64_t a = first; a < b; ++a) {
        const int64_t row = a * size;
        const Num X = in.oX[row + b], CR = in.CR[row + b], IR = in.IR[row + b];
        Num oCR = pull(in.oCR + column + first, in.IR + row + first, a - first, CR);
        if (beyond > 0) oCR = both(oCR, pull(in.oX + row + b + 1, in.CL + column + size + b + 1, beyond, CR));
        if (a == 0) oCR = both(oCR, start.where(ends));
        if (call.single_root) oCR = both(oCR, pull(&start, in.left + a, 1, CR).where(ends));
        in.put(in.oCR, a, b, oCR);
        const Num oIR = pull(in.oCR + row + b, in.CR + column + b, beyond + 1, IR);
        Num oX = pass(oIR, IR, in.weights[column + a], X);
        write(call, group, shifts, b, a, probability(oIR, IR));
        if (a > 0) {
          const Num CL = in.CL[row + b], IL = in.IL[row + b];
          Num oCL = pull(in.oX + column + first, in.CR + row - size + first, a - first, CL);
          if (beyond > 0) oCL = both(oCL, pull(in.oCL + row + b + 1, in.IL + column + b + 1, beyond, CL));
          if (call.single_root && a == 1) {
            oCL = both(oCL, pass(pull(&start, in.right + b, 1, in.left[b]), in.left[b], in.weights[column], CL));
          }
          in.put(in.oCL, a, b, oCL);
          const Num oIL = pull(in.oCL + column + 1, in.CL + row + 1, a, IL);
          oX = both(oX, pass(oIL, IL, in.weights[row + b], X));
          write(call, group, shifts, a, b, probability(oIL, IL));
        }
        in.put(in.oX, a, b, oX);
      }
      if (call.single_root) {
        write(call, group, shifts, b, 0, probability(pull(&start, in.right + b, 1, in.left[b]), in.left[b]));
      }
    }
  }

  template <class T>
  static STRUCTATTN_INLINE void write(const Call<T>& call, const Group& group, const Shift* shifts, int64_t word,
                                      int64_t head, Lanes used) {
    for (int lane = 0; lane < kLanes; ++lane) {
      if (word > group.lengths[lane] || head > group.lengths[lane]) continue;
      const int64_t part = group.items[lane] * call.num_parts + (word - 1) * (call.words + 1) + head;
      // Rounding may leave 1 + 2e-16; the nearest probability is meant.
      const double value = call.vector != nullptr ? used[lane] * shifts[lane].direction : std::min(used[lane], 1.0);
      call.parts[part] = static_cast<T>(value);
    }
  }
};

struct BestArcs {
  static int64_t num_cells(int64_t length) { return Arcs::num_cells(length); }

  template <class Num, class T>
  static unsigned char evaluate(const Call<T>& call, const Group& group, Num* workspace) {
    const Tables<Num> in(workspace, group.longest);
    Shift shifts[kLanes];
    Arcs::load(call, group, in, shifts);
    Arcs::inside(in, call.single_root ? 1 : 0);
    for (int lane = 0; lane < kLanes; ++lane) {
      if (group.items[lane] < 0) continue;
      T* parts = call.parts + group.items[lane] * call.num_parts;
      std::memset(parts, 0, call.num_parts * sizeof(T));
      if (group.lengths[lane] > 0) Descent<T>{in, lane, call.words + 1, parts}.run(group.lengths[lane], call.single_root);
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
        if (first[i].value[lane] + second[i].value[lane] > first[found].value[lane] + second[found].value[lane]) found = i;
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

template <class T>
Call<T> call_of(const T* scores, const int64_t* lengths, const T* vector, T* log_partition, T* parts, int64_t batch,
                int64_t words, int64_t single_root) {
  return {scores, lengths, vector, log_partition, parts, batch, words, words * (words + 1), single_root != 0};
}

}  // namespace
}  // namespace structattn

#define STRUCTATTN_EXPORT_DEPENDENCY(T, NAME)                                                                         \
  int structattn_dependency_marginals_##NAME(const T* scores, const int64_t* lengths, T* log_partition, T* parts,     \
                                             int64_t batch, int64_t words, int64_t single_root) {                     \
    return structattn::evaluate_all<structattn::Arcs, structattn::Plain>(                                             \
        structattn::call_of<T>(scores, lengths, nullptr, log_partition, parts, batch, words, single_root));           \
  }                                                                                                                   \
  int structattn_dependency_hvp_##NAME(const T* scores, const int64_t* lengths, const T* vector, T* product,          \
                                       int64_t batch, int64_t words, int64_t single_root) {                           \
    return structattn::evaluate_all<structattn::Arcs, structattn::Dual>(                                              \
        structattn::call_of<T>(scores, lengths, vector, nullptr, product, batch, words, single_root));                \
  }                                                                                                                   \
  int structattn_dependency_argmax_##NAME(const T* scores, const int64_t* lengths, T* parts, int64_t batch,           \
                                          int64_t words, int64_t single_root) {                                       \
    return structattn::select_all<structattn::BestArcs>(                                                              \
        structattn::call_of<T>(scores, lengths, nullptr, nullptr, parts, batch, words, single_root));                 \
  }

extern "C" {
STRUCTATTN_EXPORT_DEPENDENCY(float, float32)
STRUCTATTN_EXPORT_DEPENDENCY(double, float64)
}
