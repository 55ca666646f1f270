// Choosing structures from a chart: one of the alternatives of a cell at random, or the k best derivations of the goal.
#pragma once

#include <vector>

#include "batch.hpp"
#include "random.hpp"

namespace structattn {

// The weight of an alternative a * b of one sentence, relative to the largest exponent among its alternatives.
STRUCTATTN_INLINE double exponent_of(const Plain&, const Plain&, int) { return 0.0; }
STRUCTATTN_INLINE double weight_of(const Plain& a, const Plain& b, int lane, double) { return a.value[lane] * b.value[lane]; }
template <class Base>
double exponent_of(const Extended<Base>& a, const Extended<Base>& b, int lane) {
  return a.exponent[lane] + b.exponent[lane];
}
template <class Base>
double weight_of(const Extended<Base>& a, const Extended<Base>& b, int lane, double top) {
  const double exponent = exponent_of(a, b, lane) - top;
  if (exponent < -1100.0) return 0.0;
  return std::ldexp(a.base.value[lane] * b.base.value[lane], static_cast<int>(exponent));
}

// The first i at which the sum of weights up to it exceeds a number times their total; the last one with a weight where
// rounding leaves none, and -1 if there is none at all.
template <class Weight>
int64_t categorical(int64_t count, double number, const Weight& weight) {
  double total = 0.0, sum = 0.0;
  for (int64_t i = 0; i < count; ++i) total += weight(i);
  const double target = number * total;
  int64_t last = -1;
  for (int64_t i = 0; i < count; ++i) {
    const double here = weight(i);
    if (!(here > 0.0)) continue;
    sum += here, last = i;
    if (sum > target) return i;
  }
  return last;
}

// The same for weights a[i * a_step] * b[i * b_step].
template <class Num>
int64_t categorical(const Num* a, int64_t a_step, const Num* b, int64_t b_step, int64_t count, int lane, double number) {
  double top = -kInfinity;
  for (int64_t i = 0; i < count; ++i) top = std::max(top, exponent_of(a[i * a_step], b[i * b_step], lane));
  return categorical(count, number, [&](int64_t i) { return weight_of(a[i * a_step], b[i * b_step], lane, top); });
}

// The k best derivations, found lazily (Huang and Chiang 2005, algorithm 3) above a chart of best values.
//
// `Grammar` has `num_cells()` and `goal()`; `best(cell)`; `num_alternatives(cell)`, zero for a leaf; `left(cell, i)` and
// `right(cell, i)`, the cells below, -1 if there is none on the right; and `value(cell, i, left, right)`, the value of an
// alternative given those of the cells below. Of equal derivations the first alternative comes first, then the better
// left one.
template <class Grammar>
class Derivations {
 public:
  struct Derivation {
    double value;
    int64_t alternative, left_rank, right_rank;
  };

  explicit Derivations(const Grammar& grammar) : grammar_(grammar), slots_(grammar.num_cells(), -1), used_(0) {}

  // Whether there is a derivation of this rank. What it takes from the cells below is found first, off a stack of our
  // own: a sentence may be longer than the call stack is deep.
  bool has(int64_t cell, int64_t rank) {
    wanted_.assign(1, {cell, rank});
    while (!wanted_.empty()) {
      const Node next = wanted_.back();
      if (is_settled(next)) {
        wanted_.pop_back();
        continue;
      }
      Cell& here = cells_[open(next.cell)];
      if (here.expanded < here.found.size() && !expand(next.cell, here)) continue;
      if (here.heap.empty()) continue;
      std::pop_heap(here.heap.begin(), here.heap.end(), worse);
      here.found.push_back(here.heap.back());
      here.heap.pop_back();
    }
    return exists({cell, rank});
  }

  // Calls `visit(cell, alternative)` for every cell of a derivation that there is; a leaf has alternative -1.
  template <class Visit>
  void walk(int64_t cell, int64_t rank, const Visit& visit) {
    waiting_.push_back({cell, rank});
    while (!waiting_.empty()) {
      const auto [here, own_rank] = waiting_.back();
      waiting_.pop_back();
      if (grammar_.num_alternatives(here) == 0) {
        visit(here, -1);
        continue;
      }
      const Derivation found = at(here, own_rank);
      visit(here, found.alternative);
      const int64_t right = grammar_.right(here, found.alternative);
      waiting_.push_back({grammar_.left(here, found.alternative), found.left_rank});
      if (right >= 0) waiting_.push_back({right, found.right_rank});
    }
  }

 private:
  // The best derivations in order, how many of them have put their successors into the heap, and the heap.
  struct Cell {
    std::vector<Derivation> found, heap;
    size_t expanded;
  };
  struct Node {
    int64_t cell, rank;
  };

  // Whether it is known if there is this derivation; where the first one is the best, that is known from the chart.
  bool is_settled(Node node) const {
    if (node.rank == 0 || grammar_.num_alternatives(node.cell) == 0) return true;
    if (slots_[node.cell] < 0) return false;
    const Cell& cell = cells_[slots_[node.cell]];
    const size_t count = cell.found.size();
    return count > static_cast<size_t>(node.rank) || (cell.heap.empty() && cell.expanded == count);
  }

  bool exists(Node node) const {
    if (node.rank == 0) return grammar_.best(node.cell) > -kInfinity;
    return slots_[node.cell] >= 0 && cells_[slots_[node.cell]].found.size() > static_cast<size_t>(node.rank);
  }

  double value(Node node) const {
    return node.rank == 0 ? grammar_.best(node.cell) : cells_[slots_[node.cell]].found[node.rank].value;
  }

  // The derivation of this rank.
  Derivation at(int64_t cell, int64_t rank) const {
    if (slots_[cell] >= 0 && rank < static_cast<int64_t>(cells_[slots_[cell]].found.size())) {
      return cells_[slots_[cell]].found[rank];
    }
    // The best one is found again by its value.
    const double best = grammar_.best(cell);
    int64_t i = 0;
    while (i + 1 < grammar_.num_alternatives(cell) && first_value(cell, i) != best) ++i;
    return {best, i, 0, 0};
  }

  static bool worse(const Derivation& a, const Derivation& b) {
    if (a.value != b.value) return a.value < b.value;
    if (a.alternative != b.alternative) return a.alternative > b.alternative;
    return a.left_rank != b.left_rank ? a.left_rank > b.left_rank : a.right_rank > b.right_rank;
  }

  double first_value(int64_t cell, int64_t i) const {
    const int64_t right = grammar_.right(cell, i);
    return grammar_.value(cell, i, grammar_.best(grammar_.left(cell, i)), right < 0 ? 0.0 : grammar_.best(right));
  }

  int64_t open(int64_t cell) {
    if (slots_[cell] >= 0) return slots_[cell];
    const int64_t slot = used_++;
    slots_[cell] = slot;
    if (slot == static_cast<int64_t>(cells_.size())) cells_.emplace_back();
    auto& heap = cells_[slot].heap;
    cells_[slot].found.clear(), heap.clear(), cells_[slot].expanded = 0;
    for (int64_t i = 0; i < grammar_.num_alternatives(cell); ++i) {
      const double value = first_value(cell, i);
      if (value > -kInfinity) heap.push_back({value, i, 0, 0});
    }
    std::make_heap(heap.begin(), heap.end(), worse);
    return slot;
  }

  // Puts the successors of the last derivation into the heap; false where cells below have to be settled first. Every
  // pair of ranks has one predecessor: the rank on the right grows from zero for each on the left.
  bool expand(int64_t cell, Cell& here) {
    const Derivation last = here.found.back();
    const Node left{grammar_.left(cell, last.alternative), last.left_rank};
    const Node right{grammar_.right(cell, last.alternative), last.right_rank};
    const bool has_right = right.cell >= 0, grows_left = last.right_rank == 0;
    const Node next_left{left.cell, left.rank + 1}, next_right{right.cell, right.rank + 1};
    const size_t before = wanted_.size();
    if (has_right && !is_settled(next_right)) wanted_.push_back(next_right);
    if (grows_left && !is_settled(next_left)) wanted_.push_back(next_left);
    if (wanted_.size() > before) return false;
    if (has_right && exists(next_right)) push(cell, here, last.alternative, left, next_right);
    if (grows_left && exists(next_left)) push(cell, here, last.alternative, next_left, {right.cell, 0});
    ++here.expanded;
    return true;
  }

  void push(int64_t cell, Cell& here, int64_t alternative, Node left, Node right) const {
    const double below = right.cell < 0 ? 0.0 : value(right);
    const double found = grammar_.value(cell, alternative, value(left), below);
    if (!(found > -kInfinity)) return;
    here.heap.push_back({found, alternative, left.rank, right.rank});
    std::push_heap(here.heap.begin(), here.heap.end(), worse);
  }

  const Grammar& grammar_;
  std::vector<int64_t> slots_;
  std::vector<Cell> cells_;
  std::vector<Node> waiting_, wanted_;
  int64_t used_;
};

// The best structures of one sentence; `grammar.mark(cell, alternative, parts)` marks what a cell uses of them and returns
// its score. Where the sentence is empty, so is its only structure.
template <class Call, class Grammar>
void select_first(const Call& call, const Grammar& grammar, bool is_empty, int64_t item) {
  Derivations<Grammar> derivations(grammar);
  for (int64_t rank = 0; rank < call.selection.count; ++rank) {
    auto* parts = call.selected(rank, item);
    double total = 0.0;
    if (is_empty ? rank > 0 : !derivations.has(grammar.goal(), rank)) {
      total = -kInfinity;
    } else if (!is_empty) {
      derivations.walk(grammar.goal(), rank,
                       [&](int64_t cell, int64_t i) { total += grammar.mark(cell, i, parts); });
    }
    call.selection.write(rank * call.batch + item, total);
  }
}

}  // namespace structattn
