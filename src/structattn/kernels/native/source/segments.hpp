// Labelled segmentations: scores, best prefixes, and the forward program over the number types of numbers.hpp.
//
// beta[t,c] = sum over s < t and labels b of beta[s,b] W(s,t,b,c), with beta[0,0] = 1.
//
// To the score of a segment the score of the best prefix before it is added, z[s,b], and that of the best prefix with it,
// z[t,c], is taken away. So every beta that is not zero is the number one at least. After each word those of doubles are
// multiplied by a power of two, 2^-e[t], which brings the largest near one; W(s,t,b,c) is multiplied by 2^(e[s] - e[t]).
// Where the others stay above 2^-721, no product has lost anything that its sum would show.
#pragma once

#include <cmath>

#include "batch.hpp"

namespace structattn {
namespace segments {

constexpr double kLog2 = 0x1.62e42fefa39efp-1;

// Scores and parts are `[start, width - 1, label before, label]`.
template <class T>
struct Segments : Call<T> {
  int64_t widths, states;

  int64_t part(int64_t start, int64_t end, int64_t before, int64_t state) const {
    return ((start * widths + end - start - 1) * states + before) * states + state;
  }
  const T* row(int64_t item, int64_t start, int64_t end, int64_t before) const {
    return this->scores + item * this->num_parts + part(start, end, before, 0);
  }
  // Where the longest segment that ends here starts.
  int64_t first_start(int64_t end) const { return std::max<int64_t>(end - widths, 0); }
};

template <class T>
Segments<T> call_of(const T* scores, const int64_t* lengths, const T* vector, T* log_partition, T* parts, int64_t batch,
                    int64_t words, int64_t widths, int64_t states) {
  const int64_t num_parts = words * widths * states * states;
  return {{scores, lengths, vector, log_partition, parts, batch, words, num_parts, false}, widths, states};
}

// The score of the best segmentation of the first t words of a sentence whose last label is c, `[t, c]`.
template <class T>
void fill_prefixes(const Segments<T>& call, int64_t item, int64_t length, std::vector<double>& best) {
  const int64_t C = call.states;
  best.assign((length + 1) * C, -kInfinity);
  best[0] = 0.0;
  for (int64_t s = 0; s < length; ++s) {
    for (int64_t b = 0; b < C; ++b) {
      const double before = best[s * C + b];
      if (before == -kInfinity) continue;
      for (int64_t t = s + 1; t <= std::min(s + call.widths, length); ++t) {
        const T* row = call.row(item, s, t, b);
        double* here = best.data() + t * C;
        for (int64_t c = 0; c < C; ++c) here[c] = std::max(here[c], before + row[c]);
      }
    }
  }
}

// The sums of four sentences at once, forward.
template <class T, class Num>
class Forward {
 public:
  Forward(const Segments<T>& call, void* memory)
      : call(call), C(call.states), beta(static_cast<Num*>(memory)), relative(call.states), direction(call.states) {}

  static int64_t bytes(const Segments<T>& call, int64_t longest) {
    return (longest + 1) * call.states * static_cast<int64_t>(sizeof(Num));
  }
  static int64_t work(const Segments<T>& call, int64_t longest) {
    return longest * std::min(call.widths, longest) * call.states * call.states * 4;
  }

 protected:
  const Segments<T>& call;
  const int64_t C;
  Num* const beta;
  Group group;
  std::vector<double> prefixes[kLanes];
  double top[kLanes];    // the best score of a segmentation, zero if there is none
  double scale[kLanes];  // the unit of the vector
  std::vector<Lanes> exponents;  // e[t]
  Num total;
  // Of the segments that end with each label: scores less prefixes, and the vector.
  std::vector<Lanes> relative, direction;

  // Needs `group`; returns the sentences whose numbers cannot be trusted, as the bits of a byte.
  unsigned char sum(const Group& sentences, Num* row) {
    group = sentences;
    for (int lane = 0; lane < kLanes; ++lane) {
      prefixes[lane].clear();
      top[lane] = 0.0, scale[lane] = 1.0;
      if (group.items[lane] < 0) continue;
      const int64_t length = group.lengths[lane];
      fill_prefixes(call, group.items[lane], length, prefixes[lane]);
      const double* last = prefixes[lane].data() + length * C;
      const double found = *std::max_element(last, last + C);
      if (found > -kInfinity) top[lane] = found;
      if (Num::differentiates) scale[lane] = power_near(largest(call.vector + group.items[lane] * call.num_parts,
                                                                length * call.widths * C * C));
    }
    for (int64_t cell = 0; cell < (group.longest + 1) * C; ++cell) beta[cell] = cell == 0 ? Num::one() : Num::zero();
    exponents.assign(group.longest + 1, all(0.0));
    Bits trusted = all(0.0) == all(0.0);
    for (int64_t t = 1; t <= group.longest; ++t) {
      Num* here = beta + t * C;
      exponents[t] = exponents[t - 1];
      for (int64_t s = call.first_start(t); s < t; ++s) {
        for (int64_t b = 0; b < (s == 0 ? 1 : C); ++b) {
          fill_row(s, t, b, row);
          const Num before = beta[s * C + b];
          for (int64_t c = 0; c < C; ++c) here[c].accumulate(before, row[c]);
        }
      }
      if constexpr (Num::guarded) {
        trusted &= rescale(t, here);
      } else {
        for (int64_t c = 0; c < C; ++c) here[c] = here[c].settle();
      }
    }
    total = Num::zero();
    for (int64_t t = 0; t <= group.longest; ++t) {
      for (int64_t c = 0; c < C; ++c) total.accumulate(beta[t * C + c], last(t, c));
    }
    total = total.settle();
    return untrusted_lanes(total.trusted() & trusted, group);
  }

  // Brings the largest number after a word near one; returns the sentences whose numbers can all be trusted.
  Bits rescale(int64_t t, Num* here) {
    Lanes top = all(0.0);
    for (int64_t c = 0; c < C; ++c) top = maximum(top, here[c].value);
    const Bits biased = ((Bits)top >> 52) & 0x7ff;
    const Lanes change = top > 0.0 ? (Lanes)(biased | (Bits)all(0x1p52)) - (0x1p52 + 1023.0) : all(0.0);
    exponents[t] += change;
    Lanes least = all(1.0);
    for (int64_t c = 0; c < C; ++c) {
      here[c] = scaled(here[c], power_of_two(-change));
      Lanes value = here[c].value;
      for (int lane = 0; lane < kLanes; ++lane) {
        const bool is_used = group.items[lane] >= 0 && t <= group.lengths[lane];
        if (!is_used || prefixes[lane][t * C + c] == -kInfinity) value[lane] = 1.0;
      }
      least = minimum(value, least);
    }
    return least > kTrusted;
  }

  // The weights of the segments s .. t after label b, for each label of their own.
  void fill_row(int64_t s, int64_t t, int64_t b, Num* row) {
    for (int64_t c = 0; c < C; ++c) relative[c] = all(-kInfinity), direction[c] = all(0.0);
    for (int lane = 0; lane < kLanes; ++lane) {
      if (group.items[lane] < 0 || t > group.lengths[lane]) continue;
      const double before = prefixes[lane][s * C + b];
      if (before == -kInfinity) continue;
      const T* scores = call.row(group.items[lane], s, t, b);
      const double* here = prefixes[lane].data() + t * C;
      for (int64_t c = 0; c < C; ++c) {
        if (scores[c] > -kInfinity) relative[c][lane] = before + scores[c] - here[c];
      }
      if (!Num::differentiates) continue;
      const T* vector = call.vector + (scores - call.scores);
      for (int64_t c = 0; c < C; ++c) direction[c][lane] = vector[c] / scale[lane];
    }
    const Lanes taken = (exponents[t] - exponents[s]) * kLog2;
    for (int64_t c = 0; c < C; ++c) row[c] = Num::weight(relative[c] - taken, direction[c]);
  }

  // Of a segmentation of t words whose last label is c, in the sentences that end there: its best score less the best.
  Lanes last_score(int64_t t, int64_t c) const {
    Lanes score = all(-kInfinity);
    for (int lane = 0; lane < kLanes; ++lane) {
      if (group.items[lane] >= 0 && t == group.lengths[lane]) score[lane] = prefixes[lane][t * C + c] - top[lane];
    }
    return score;
  }
  Num last(int64_t t, int64_t c) const { return Num::weight(last_score(t, c), all(0.0)); }

  // Logarithm of the sum over the segmentations of a sentence without `top`.
  double log_left(int lane) const {
    return total.log(lane) + exponents[group.lengths[lane]][lane] * kLog2;
  }
};

}  // namespace segments
}  // namespace structattn
