// Probabilities of the arcs of projective dependency trees, and their derivatives: Eisner's program downwards.
//
// With the names of dependency.hpp, every cell pulls what its possible parents hold; o stands for outside:
//   oCR[a,b] = sum_{t>b} oX[a,t] CL[b+1,t] + sum_{s<a} oCR[s,b] IR[s,a];   oIR[a,b] = sum_{t>=b} oCR[a,t] CR[b,t]
//   oCL[a,b] = sum_{s<a} oX[s,b] CR[s,a-1] + sum_{t>b} oCL[a,t] IL[b,t];   oIL[a,b] = sum_{s<=a} oCL[s,b] CL[s,a]
//   oX[a,b] = oIR[a,b] W[b,a] + oIL[a,b] W[a,b]
#include "dependency.hpp"

namespace structattn {
namespace dependency {
namespace {

struct Arcs {
  static int64_t num_cells(int64_t length) { return Tables<Plain>::num_cells(length); }

  template <class Num, class T>
  static unsigned char evaluate(const Call<T>& call, const Group& group, Num* workspace) {
    const Tables<Num> in(workspace, group.longest);
    Shift shifts[kLanes];
    load(call, group, in, shifts);
    Bits trusted;
    const Num total = sum_all(group, in, call.single_root, shifts, &trusted);
    for (int lane = 0; lane < kLanes; ++lane) {
      if (group.items[lane] < 0) continue;
      if (call.log_partition != nullptr) {
        const double log = total.log(lane), shift = shifts[lane].growth + shifts[lane].total;
        call.log_partition[group.items[lane]] = static_cast<T>(log > -kInfinity ? log + shift : log);
      }
      call.clear_parts(group.items[lane]);
    }
    if (call.parts != nullptr || call.entropies.wants_parts()) {
      Writer<T> writer(call, group, in.taken, shifts);
      outside(group, in, outside_of_all(total), call.single_root, writer);
    }
    for (int lane = 0; lane < kLanes && call.entropies.wanted(); ++lane) {
      if (group.items[lane] < 0) continue;
      shifts[lane].expected.taken = shifts[lane].total;
      const double left = total.log(lane) + shifts[lane].growth;
      shifts[lane].expected.write(call.entropies, group.items[lane], left, group.lengths[lane] < 2);
    }
    return untrusted_lanes(trusted, group);
  }

  // Takes the probability of one arc in four sentences. The type of the scores stays behind it: the program that fills
  // the tables, which takes a compiler long, is made once for both types.
  struct Receiver {
    virtual void write(int64_t word, int64_t head, Lanes used) = 0;

   protected:
    ~Receiver() = default;
  };

  template <class Num>
  static void outside(const Group& group, const Tables<Num>& in, const Num& start, bool single_root,
                      Receiver& receiver) {
    constexpr int kColumns = kBlock<Num>;
    const Downwards<Num> down{group, in, start, receiver, single_root, single_root ? 1 : 0};
    int64_t b = in.size - 1;
    for (; b >= kColumns; b -= kColumns) down.template fill_columns<kColumns>(b);
    for (; b >= 1; --b) down.template fill_columns<1>(b);
  }

  template <class Num>
  struct Downwards {
    const Group& group;
    const Tables<Num>& in;
    const Num& all_trees;
    Receiver& receiver;
    bool single_root;
    int64_t first;

    // Columns b, b-1, ... of the tables, from the top downwards.
    template <int C>
    void fill_columns(int64_t b) const {
      constexpr int kRows = kBlock<Num>;
      const int64_t shared = b - C + 1;
      int64_t a = first;
      if (a == 0 && a < shared) fill<1, C>(a++, b);
      for (; a + kRows <= shared; a += kRows) fill<kRows, C>(a, b);
      for (; a < shared; ++a) fill<1, C>(a, b);
      for (int j = 0; j < C; ++j) {
        for (a = shared; a < b - j; ++a) fill<1, 1>(a, b - j);
        if (single_root) {
          const Num& half = in.left[b - j];
          receiver.write(b - j, 0, probability(pull(&all_trees, in.right + b - j, 1, half), half));
        }
      }
    }

    // Spans from a, a+1, ... to b, b-1, ...: first the parents that all have, then the few that each has besides.
    template <int R, int C>
    STRUCTATTN_INLINE void fill(int64_t a, int64_t b) const {
      const int64_t size = in.size, row = a * size, column = b * size, beyond = size - 1 - b, before = a - first;
      const Num CR0 = in.CR[row + b], CL0 = in.CL[row + b], IR0 = in.IR[row + b], IL0 = in.IL[row + b];
      const Num *oX_up = in.oX + row + b + 1, *oCR_up = in.oCR + row + b + 1, *oCL_up = in.oCL + row + b + 1;
      const Num *oX_down = in.oX + column + first, *oCR_down = in.oCR + column + first, *oCL_down = in.oCL + column + 1;
      const auto CR_right = pulls<R, C>(oX_up, size, in.CL + column + size + b + 1, -size, beyond, CR0);
      const auto CR_left = pulls<C, R>(oCR_down, -size, in.IR + row + first, size, before, CR0);
      const auto IR_right = pulls<R, C>(oCR_up, size, in.CR + column + b + 1, -size, beyond, IR0);
      Block<Num, C, R> CL_left{}, IL_left{};
      Block<Num, R, C> CL_right{};
      if (a > 0) {
        CL_left = pulls<C, R>(oX_down, -size, in.CR + row - size + first, size, before, CL0);
        CL_right = pulls<R, C>(oCL_up, size, in.IL + column + b + 1, -size, beyond, CL0);
        IL_left = pulls<C, R>(oCL_down, -size, in.CL + row + 1, size, a - 1, IL0);
      }
      for (int j = 0; j < C; ++j) {
        for (int i = 0; i < R; ++i) {
          const int64_t s = a + i, t = b - j, from = s * size, to = t * size;
          const Bits ends = group.ends_at(t);
          const Num X = in.oX[from + t], CR = in.CR[from + t], IR = in.IR[from + t];
          Num oCR = both(CR_right.sums[i][j], CR_left.sums[j][i]);
          oCR = both(oCR, pull(in.oX + from + t + 1, in.CL + to + size + t + 1, j, CR));
          oCR = both(oCR, pull(in.oCR + to + a, in.IR + from + a, i, CR));
          if (s == 0) oCR = both(oCR, all_trees.where(ends));
          if (single_root) oCR = both(oCR, pull(&all_trees, in.left + s, 1, CR).where(ends));
          in.put(in.oCR, s, t, oCR);
          const Num oIR = both(IR_right.sums[i][j], pull(in.oCR + from + t, in.CR + to + t, j + 1, IR));
          Num oX = pass(oIR, IR, in.weights[to + s], X);
          receiver.write(t, s, probability(oIR, IR));
          if (s > 0) {
            const Num CL = in.CL[from + t], IL = in.IL[from + t];
            Num oCL = both(CL_left.sums[j][i], CL_right.sums[i][j]);
            oCL = both(oCL, pull(in.oX + to + a, in.CR + from - size + a, i, CL));
            oCL = both(oCL, pull(in.oCL + from + t + 1, in.IL + to + t + 1, j, CL));
            if (single_root && s == 1) {
              oCL = both(oCL, pass(pull(&all_trees, in.right + t, 1, in.left[t]), in.left[t], in.weights[to], CL));
            }
            in.put(in.oCL, s, t, oCL);
            const Num oIL = both(IL_left.sums[j][i], pull(in.oCL + to + a, in.CL + from + a, i + 1, IL));
            oX = both(oX, pass(oIL, IL, in.weights[from + t], X));
            receiver.write(s, t, probability(oIL, IL));
          }
          in.put(in.oX, s, t, oX);
        }
      }
    }
  };

  // Probabilities of arcs go to the array of parts, or into expected scores and values.
  template <class T>
  struct Writer final : Receiver {
    const Call<T>& call;
    const Group& group;
    const Lanes* taken;
    Shift* shifts;

    Writer(const Call<T>& call, const Group& group, const Lanes* taken, Shift* shifts)
        : call(call), group(group), taken(taken), shifts(shifts) {}

    void write(int64_t word, int64_t head, Lanes used) override {
      for (int lane = 0; lane < kLanes; ++lane) {
        if (word > group.lengths[lane] || head > group.lengths[lane]) continue;
        const int64_t part = group.items[lane] * call.num_parts + (word - 1) * (call.words + 1) + head;
        if (call.entropies.wanted()) {
          if (used[lane] == 0.0) continue;
          const double out = taken[word][lane] + (head == 0 ? taken[0][lane] : 0.0);
          shifts[lane].expected.add(call.entropies, used[lane], call.scores[part] - out, part);
          continue;
        }
        // Rounding may leave 1 + 2e-16; the nearest probability is meant.
        const double value = call.vector != nullptr ? used[lane] * shifts[lane].direction : std::min(used[lane], 1.0);
        call.parts[part] = static_cast<T>(value);
      }
    }
  };
};

}  // namespace
}  // namespace dependency
}  // namespace structattn

using structattn::Dual;
using structattn::Plain;
using structattn::dependency::Arcs;
using structattn::dependency::call_of;

#define STRUCTATTN_EXPORT_DEPENDENCY(T, NAME)                                                                         \
  int structattn_dependency_marginals_##NAME(const T* scores, const int64_t* lengths, T* log_partition, T* parts,     \
                                             int64_t batch, int64_t words, int64_t single_root) {                     \
    return structattn::evaluate_all<Arcs, Plain>(                                                                     \
        call_of<T>(scores, lengths, nullptr, log_partition, parts, batch, words, single_root));                       \
  }                                                                                                                   \
  int structattn_dependency_hvp_##NAME(const T* scores, const int64_t* lengths, const T* vector, T* product,          \
                                       int64_t batch, int64_t words, int64_t single_root) {                           \
    return structattn::evaluate_all<Arcs, Dual>(                                                                      \
        call_of<T>(scores, lengths, vector, nullptr, product, batch, words, single_root));                            \
  }                                                                                                                   \
  int structattn_dependency_entropy_##NAME(const T* scores, const int64_t* lengths, const T* values,                  \
                                           double* log_partition, double* entropy, double* gap, int64_t batch,        \
                                           int64_t words, int64_t single_root) {                                      \
    auto call = call_of<T>(scores, lengths, nullptr, nullptr, nullptr, batch, words, single_root);                    \
    call.entropies = {values, log_partition, entropy, gap};                                                           \
    return structattn::finished(structattn::evaluate_all<Arcs, Plain>(call), entropy, batch);                         \
  }

extern "C" {
STRUCTATTN_EXPORT_DEPENDENCY(float, float32)
STRUCTATTN_EXPORT_DEPENDENCY(double, float64)
}
