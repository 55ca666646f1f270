// Binary phrase trees: weights of spans, and the inside program (CKY), over the number types of numbers.hpp. What is found
// with it, probabilities or single trees, is in two files of its own.
//
// X[i,k] = sum_j B[i,j] B[j,k]; B[i,k] = W[i,k] X[i,k].
// Tables are kept symmetric, so that both factors of every sum are rows; X waits where oX will be.
//
// Every tree holds all words, the whole sentence and n - 2 other phrases: the scores of the former are taken out, and
// the best of the latter from each; a factor 4 for each makes up for the number of trees (Catalan's numbers).
#pragma once

#include "batch.hpp"

namespace structattn {
namespace constituency {

constexpr double kLogGrowth = 1.3862943611198906;

// What is taken out of the scores of a sentence, the number of trees out of their sum, and the unit of the vector.
struct Shift {
  double words, top, phrase, total, growth, direction;
  Expected expected = {};
};

template <class T>
Shift shift_of(const T* scores, const T* vector, int64_t posts, int64_t length, double counts) {
  Shift shift{0.0, 0.0, -kInfinity, 0.0, 0.0, 0.0};
  if (length >= 2) shift.top = scores[length];
  for (int64_t i = 0; i < length; ++i) {
    const T* row = scores + i * posts;
    shift.words += row[i + 1];
    for (int64_t k = i + 2; k <= length; ++k) {
      if (i > 0 || k < length) shift.phrase = std::max(shift.phrase, static_cast<double>(row[k]));
    }
    if (vector != nullptr) {
      shift.direction = std::max(shift.direction, largest(vector + i * posts + i + 1, length - i));
    }
  }
  if (shift.phrase == -kInfinity) shift.phrase = 0.0;
  if (shift.top == -kInfinity) shift.top = 0.0;
  shift.direction = power_near(shift.direction);
  const double others = static_cast<double>(std::max<int64_t>(length - 2, 0));
  shift.total = shift.words + shift.top + others * shift.phrase;
  shift.growth = others * counts * kLogGrowth;
  return shift;
}

// Weights, B, and X or oX.
template <class Num>
struct Tables {
  int64_t size;
  Num *weights, *B, *oX;

  Tables(Num* workspace, int64_t length)
      : size(length + 1), weights(workspace), B(weights + size * size), oX(B + size * size) {}
  static int64_t num_cells(int64_t length) { return 3 * (length + 1) * (length + 1); }
};

// Weights of all spans, `weights[k * size + i]`.
template <class Num, class T>
void load(const Call<T>& call, const Group& group, const Tables<Num>& in, Shift* shifts) {
  const int64_t posts = call.words + 1, size = in.size;
  for (int lane = 0; lane < kLanes; ++lane) {
    const int64_t offset = std::max<int64_t>(group.items[lane], 0) * call.num_parts;
    const T* vector = Num::differentiates ? call.vector + offset : nullptr;
    shifts[lane] = shift_of(call.scores + offset, vector, posts, group.lengths[lane], Num::counts);
  }
  for (int64_t i = 0; i < size; ++i) {
    for (int64_t k = i + 1; k < size; ++k) {
      Lanes score = all(-kInfinity), direction = all(0.0);
      for (int lane = 0; lane < kLanes; ++lane) {
        if (k > group.lengths[lane]) continue;
        const int64_t part = group.items[lane] * call.num_parts + i * posts + k;
        const bool certain = k == i + 1 || k - i == group.lengths[lane];
        const double value = call.scores[part];
        if (value == -kInfinity) continue;
        // A span that every tree has weighs one and, being certain, has no derivative.
        score[lane] = certain ? 0.0 : value - shifts[lane].phrase - Num::counts * kLogGrowth;
        if (Num::differentiates && !certain) direction[lane] = call.vector[part] / shifts[lane].direction;
      }
      in.weights[k * size + i] = Num::weight(score, direction);
    }
  }
}

// Spans that end at `from` .. `to`, which needs those that end before.
template <class Num>
void inside(const Tables<Num>& in, int64_t from, int64_t to) {
  const Num* weights = in.weights;
  Num *B = in.B, *X = in.oX;
  const int64_t size = in.size;
  for (int64_t k = from; k < to; ++k) {
    B[(k - 1) * size + k] = B[k * size + k - 1] = weights[k * size + k - 1];
    for (int64_t i = k - 2; i >= 0; --i) {
      const Num sum = dot(B + i * size + i + 1, B + k * size + i + 1, k - i - 1).settle();
      X[i * size + k] = sum;
      B[i * size + k] = B[k * size + i] = (sum * weights[k * size + i]).settle();
    }
  }
}

template <class Num>
void inside(const Tables<Num>& in) {
  inside(in, 1, in.size);
}

// The sum over all trees, after `inside`.
template <class Num>
Num sum_of_trees(const Group& group, const Tables<Num>& in) {
  Num total = Num::one().where(group.ends_at(0));
  for (int64_t k = 1; k < in.size; ++k) total = total + in.B[k].where(group.ends_at(k));
  return total;
}

// Whether numbers can be trusted, where weights were multiplied: those of all spans.
template <class Num>
Bits safe_sums(const Group& group, const Tables<Num>& in) {
  Bounds range;
  for (int64_t k = 1; k < in.size; ++k) {
    const Bits used = group.reaches(k);
    for (int64_t i = 0; i < k; ++i) {
      range.take(in.weights[k * in.size + i], used);
      range.take(in.B[i * in.size + k], used);
      if (k - i > 1) range.take(in.oX[i * in.size + k], used);
    }
  }
  return range.safe();
}

// The sum over all trees after `load`, in tables whose weights may be multiplied, and the sentences it is trusted for.
template <class Num>
Num sum_all(const Group& group, const Tables<Num>& in, Shift* shifts, Bits* trusted) {
  if constexpr (!Num::guarded) {
    inside(in);
    const Num total = sum_of_trees(group, in);
    *trusted = total.trusted();
    return total;
  } else {
    Scaling scaling;
    double phrases[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) {
      phrases[lane] = static_cast<double>(std::max<int64_t>(group.lengths[lane] - 1, 0));
    }
    const auto rescale = [&](const Num& sum, double count, Bits needed) {
      bool changed = false;
      const Lanes factor = scaling.adjust(sum, count, phrases, needed, &changed);
      for (int64_t k = 2; k < in.size && changed; ++k) {
        for (int64_t i = 0; i + 1 < k; ++i) {
          in.weights[k * in.size + i] = scaled(in.weights[k * in.size + i], factor);
        }
      }
      return changed;
    };
    int64_t done = 1;
    for (int64_t probe = 12; 2 * probe < in.size; probe *= 2) {
      inside(in, done, probe + 1);
      done = probe + 1;
      if (rescale(in.oX[probe], static_cast<double>(probe - 2), Bits{0, 0, 0, 0})) inside(in, 1, done);
    }
    inside(in, done, in.size);
    Num total = sum_of_trees(group, in);
    const Bits failed = ~(scaling.used() ? safe_sums(group, in) : total.trusted());
    if (rescale(total, static_cast<double>(std::max<int64_t>(group.longest - 1, 1)), failed)) {
      inside(in);
      total = sum_of_trees(group, in);
    }
    const Bits used = scaling.used();
    *trusted = total.trusted();
    if (used[0] | used[1] | used[2] | used[3]) *trusted = used ? safe_sums(group, in) : *trusted;
    for (int lane = 0; lane < kLanes; ++lane) shifts[lane].growth -= phrases[lane] * scaling.log[lane];
    return total;
  }
}

template <class T>
Call<T> call_of(const T* scores, const int64_t* lengths, const T* vector, T* log_partition, T* parts, int64_t batch,
                int64_t words) {
  return {scores, lengths, vector, log_partition, parts, batch, words, (words + 1) * (words + 1), false};
}

}  // namespace constituency
}  // namespace structattn
