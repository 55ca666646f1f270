// Projective dependency trees: weights of arcs, and Eisner's program upwards, over the number types of numbers.hpp.
// What is found with it, probabilities or a best tree, is in two files of its own.
//
// Positions are 0 (root) and 1..n; W[m,h] is the weight of head h for word m. Going up, with s <= u <= t:
//   X[s,t] = sum_u CR[s,u] CL[u+1,t];   IR[s,t] = X[s,t] W[t,s];   IL[s,t] = X[s,t] W[s,t]
//   CR[s,t] = sum_u IR[s,u] CR[u,t];    CL[s,t] = sum_u CL[s,u] IL[u,t]
// Several roots: Z = CR[0,n]. A single root: position 0 is in no span, and Z = sum_r W[r,0] CL[1,r] CR[r,n].
// All tables are kept symmetric, so that both factors of every sum are rows; X waits where oX will be.
//
// Every tree has one head for each word: the best score of a row is taken out, and e^1.9 for each word, because the
// number of trees grows like (27/4)^n (Eisner 2000 counts them; binomial(3n, n) / (2n + 1)).
#pragma once

#include "batch.hpp"
#include "blocks.hpp"

namespace structattn {
namespace dependency {

constexpr double kLogGrowth = 1.9;

template <class Num>
struct Tables {
  int64_t size;
  Num *weights, *CR, *CL, *IR, *IL, *oX, *oCR, *oCL;
  // One for each position r, for a single root: W[r,0] CL[1,r], and CR[r,n].
  Num *left, *right;
  // What was taken out of the scores of each word, and at 0 of those of the root.
  Lanes* taken;

  Tables(Num* workspace, int64_t length) : size(length + 1) {
    Num** tables[] = {&weights, &CR, &CL, &IR, &IL, &oX, &oCR, &oCL};
    for (Num** table : tables) {
      *table = workspace;
      workspace += size * size;
    }
    left = workspace;
    right = workspace + size;
    taken = reinterpret_cast<Lanes*>(workspace + 2 * size);
  }
  static int64_t num_cells(int64_t length) { return 8 * (length + 1) * (length + 1) + 3 * (length + 1); }
  STRUCTATTN_INLINE void put(Num* table, int64_t s, int64_t t, const Num& value) const {
    table[s * size + t] = table[t * size + s] = value;
  }
};

// What was taken out of all scores of a sentence, the number of trees out of their sum, and the unit of the vector.
struct Shift {
  double total = 0.0, growth = 0.0, direction = 1.0;
  Expected expected = {};
};

// Weights of all arcs, relative to the best head of each word.
template <class Num, class T>
void load(const Call<T>& call, const Group& group, const Tables<Num>& in, Shift* shifts) {
  const int64_t size = in.size, heads = call.words + 1;
  Lanes* best = in.taken;
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
    best[0][lane] = root[lane];
    shifts[lane].total += root[lane];
    shifts[lane].growth = static_cast<double>(length) * Num::counts * kLogGrowth;
    shifts[lane].direction = power_near(size_of_vector);
  }
  // One row of each sentence at a time, side by side, in tables that are still empty.
  Lanes* score = reinterpret_cast<Lanes*>(in.oX);
  Lanes* direction = reinterpret_cast<Lanes*>(in.oCR);
  for (int64_t m = 1; m < size; ++m) {
    for (int64_t h = 0; h < size; ++h) score[h] = all(-kInfinity), direction[h] = all(0.0);
    for (int lane = 0; lane < kLanes; ++lane) {
      const int64_t length = group.lengths[lane];
      if (m > length) continue;
      const int64_t offset = group.items[lane] * call.num_parts + (m - 1) * heads;
      const T* row = call.scores + offset;
      const double top = best[m][lane], growth = Num::counts * kLogGrowth;
      score[0][lane] = row[0] - top - root[lane] - growth;
      for (int64_t h = 1; h <= length; ++h) score[h][lane] = row[h] - top - growth;
      score[m][lane] = -kInfinity;
      if (Num::differentiates) {
        const T* vector = call.vector + offset;
        const double middle = centre[m][lane], unit = 1.0 / shifts[lane].direction;
        for (int64_t h = 0; h <= length; ++h) direction[h][lane] = (vector[h] - middle) * unit;
      }
    }
    for (int64_t h = 0; h < size; ++h) in.weights[m * size + h] = Num::weight(score[h], direction[h]);
  }
}

// Spans from s, s-1, ... to t, t+1, ...: first the splits that all have, then the few that each has besides.
template <int R, int C, class Num>
STRUCTATTN_INLINE void fill(const Tables<Num>& in, int64_t s, int64_t t) {
  const int64_t size = in.size, row = s * size, column = t * size, width = t - s;
  const auto X_common = dots<R, C>(in.CR + row + s, -size, in.CL + column + s + 1, size, width);
  const auto CR_common = dots<R, C>(in.IR + row + s + 1, -size, in.CR + column + s + 1, size, width - 1);
  const auto CL_common = dots<R, C>(in.CL + row + s + 1, -size, in.IL + column + s + 1, size, width - 1);
  for (int j = 0; j < C; ++j) {
    for (int i = 0; i < R; ++i) {
      const int64_t start = s - i, end = t + j, from = start * size, to = end * size;
      Num X = X_common.sums[i][j] + dot(in.CR + from + start, in.CL + to + start + 1, i);
      X = (X + dot(in.CR + from + t, in.CL + to + t + 1, j)).settle();
      in.oX[from + end] = X;
      in.put(in.IR, start, end, (X * in.weights[to + start]).settle());
      const Num CR = CR_common.sums[i][j] + dot(in.IR + from + start + 1, in.CR + to + start + 1, i);
      in.put(in.CR, start, end, (CR + dot(in.IR + from + t, in.CR + to + t, j + 1)).settle());
      if (start == 0) continue;
      in.put(in.IL, start, end, (X * in.weights[from + end]).settle());
      const Num CL = CL_common.sums[i][j] + dot(in.CL + from + start, in.IL + to + start, i + 1);
      in.put(in.CL, start, end, (CL + dot(in.CL + from + t, in.IL + to + t, j)).settle());
    }
  }
}

// Columns t, t+1, ... of the tables, from the diagonal upwards.
template <int C, class Num>
void fill_columns(const Tables<Num>& in, int64_t t, int64_t first) {
  constexpr int kRows = kBlock<Num>;
  for (int j = 0; j < C; ++j) {
    in.CR[(t + j) * (in.size + 1)] = in.CL[(t + j) * (in.size + 1)] = Num::one();
    for (int64_t s = t + j - 1; s >= t; --s) fill<1, 1>(in, s, t + j);
  }
  int64_t s = t - 1;
  for (; s - kRows >= 0; s -= kRows) fill<kRows, C>(in, s, t);
  for (; s >= first; --s) fill<1, C>(in, s, t);
}

// Columns `from` .. `to` of the tables, which needs those before.
template <class Num>
void inside(const Tables<Num>& in, int64_t first, int64_t from, int64_t to) {
  constexpr int kColumns = kBlock<Num>;
  int64_t t = from;
  for (; t + kColumns <= to; t += kColumns) fill_columns<kColumns>(in, t, first);
  for (; t < to; ++t) fill_columns<1>(in, t, first);
}

template <class Num>
void inside(const Tables<Num>& in, int64_t first) {
  in.CR[0] = in.CL[0] = Num::one();
  inside(in, first, 1, in.size);
}

// What stands on both sides of a single root.
template <class Num>
void find_halves(const Group& group, const Tables<Num>& in) {
  for (int64_t r = 1; r < in.size; ++r) {
    in.left[r] = (in.weights[r * in.size] * in.CL[in.size + r]).settle();
    in.right[r] = Num::zero();
    for (int64_t t = r; t < in.size; ++t) {
      const Bits ends = group.ends_at(t);
      if (ends[0] | ends[1] | ends[2] | ends[3]) in.right[r] = in.right[r] + in.CR[r * in.size + t].where(ends);
    }
  }
}

// The sum over all trees, after `inside`.
template <class Num>
Num sum_of_trees(const Group& group, const Tables<Num>& in, bool single_root) {
  const Num empty = Num::one().where(group.ends_at(0));
  if (single_root) {
    find_halves(group, in);
    return (empty + dot(in.left + 1, in.right + 1, in.size - 1)).settle();
  }
  Num total = empty;
  for (int64_t t = 1; t < in.size; ++t) total = total + in.CR[t].where(group.ends_at(t));
  return total;
}

// Whether numbers can be trusted, where weights were multiplied: those of all spans and arcs.
template <class Num>
Bits safe_sums(const Group& group, const Tables<Num>& in, const Num& total, bool single_root) {
  Bounds range;
  range.take(total, group.reaches(0));
  for (int64_t t = 1; t < in.size; ++t) {
    const Bits used = group.reaches(t);
    range.take(in.weights[t * in.size], used);
    if (single_root) range.take(in.left[t], used);
    for (int64_t s = single_root ? 1 : 0; s < t; ++s) {
      const int64_t cell = s * in.size + t;
      for (const Num* table : {in.oX, in.CR, in.IR}) range.take(table[cell], used);
      range.take(in.weights[t * in.size + s], used);
      if (s == 0) continue;
      for (const Num* table : {in.weights, in.CL, in.IL}) range.take(table[cell], used);
    }
  }
  return range.safe();
}

// The sum over all trees after `load`, in tables whose weights may be multiplied, and the sentences it is trusted for.
template <class Num>
Num sum_all(const Group& group, const Tables<Num>& in, bool single_root, Shift* shifts, Bits* trusted) {
  const int64_t first = single_root ? 1 : 0;
  if constexpr (!Num::guarded) {
    inside(in, first);
    const Num total = sum_of_trees(group, in, single_root);
    *trusted = total.trusted();
    return total;
  } else {
    Scaling scaling;
    double words[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) words[lane] = static_cast<double>(group.lengths[lane]);
    const auto rescale = [&](const Num& sum, double count, Bits needed) {
      bool changed = false;
      const Lanes factor = scaling.adjust(sum, count, words, needed, &changed);
      for (int64_t cell = 0; cell < in.size * in.size && changed; ++cell) {
        in.weights[cell] = scaled(in.weights[cell], factor);
      }
      return changed;
    };
    in.CR[0] = in.CL[0] = Num::one();
    int64_t done = 1;
    for (int64_t probe = 12; 2 * probe < in.size; probe *= 2) {
      inside(in, first, done, probe + 1);
      done = probe + 1;
      // All trees over the first words, without the root.
      const Num sum = dot(in.CL + in.size + 1, in.CR + probe * in.size + 1, probe);
      if (rescale(sum, static_cast<double>(probe - 1), Bits{0, 0, 0, 0})) inside(in, first, 1, done);
    }
    inside(in, first, done, in.size);
    Num total = sum_of_trees(group, in, single_root);
    const Bits failed = ~(scaling.used() ? safe_sums(group, in, total, single_root) : total.trusted());
    if (rescale(total, static_cast<double>(std::max<int64_t>(group.longest, 1)), failed)) {
      inside(in, first);
      total = sum_of_trees(group, in, single_root);
    }
    const Bits used = scaling.used();
    *trusted = total.trusted();
    if (used[0] | used[1] | used[2] | used[3]) {
      *trusted = used ? safe_sums(group, in, total, single_root) : *trusted;
    }
    for (int lane = 0; lane < kLanes; ++lane) shifts[lane].growth -= words[lane] * scaling.log[lane];
    return total;
  }
}

template <class T>
Call<T> call_of(const T* scores, const int64_t* lengths, const T* vector, T* log_partition, T* parts, int64_t batch,
                int64_t words, int64_t single_root) {
  return {scores, lengths, vector, log_partition, parts, batch, words, words * (words + 1), single_root != 0};
}

}  // namespace dependency
}  // namespace structattn
