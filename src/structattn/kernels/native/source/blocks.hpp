// Several sums of products at once: every number that is loaded serves a row and a column of sums.
//
// A single sum needs two loads for each product, and the tables of a long sentence do not fit into the nearest cache; a
// block of two by two sums needs one, of three by three two thirds. Separate from numbers.hpp because a program has to
// be written for it: the cells of a block need each other.
#pragma once

#include "numbers.hpp"

namespace structattn {

// Rows and columns of a block: as many as registers hold sums. Those of `Extended` are relative to one cell each.
template <class Num>
constexpr int kBlock = 2;
template <>
constexpr int kBlock<Plain> = 3;
template <>
constexpr int kBlock<Best> = 3;
template <class Base>
constexpr int kBlock<Extended<Base>> = 1;

template <class Num, int R, int C>
struct Block {
  Num sums[R][C];
};

// sums[i][j] = sum over k < count of a[i * a_step + k] * b[j * b_step + k].
template <int R, int C, class Num>
STRUCTATTN_INLINE Block<Num, R, C> dots(const Num* a, int64_t a_step, const Num* b, int64_t b_step, int64_t count) {
  Block<Num, R, C> block;
  if constexpr (R == 1 && C == 1) {
    block.sums[0][0] = dot(a, b, count);
  } else {
    for (int i = 0; i < R; ++i) {
      for (int j = 0; j < C; ++j) block.sums[i][j] = Num::zero();
    }
    for (int64_t k = 0; k < count; ++k) {
      for (int i = 0; i < R; ++i) {
        for (int j = 0; j < C; ++j) block.sums[i][j].accumulate(a[i * a_step + k], b[j * b_step + k]);
      }
    }
  }
  return block;
}

// The same for outsides: `pull` for a block of children, of which `child` is the only one if the block is one cell.
template <int R, int C, class Num>
STRUCTATTN_INLINE Block<Num, R, C> pulls(const Num* outside, int64_t outside_step, const Num* other, int64_t other_step,
                                         int64_t count, const Num& child) {
  if constexpr (R == 1 && C == 1) {
    return {{{pull(outside, other, count, child)}}};
  } else {
    return dots<R, C>(outside, outside_step, other, other_step, count);
  }
}

}  // namespace structattn
