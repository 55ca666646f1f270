// The best dependency trees: Edmonds' algorithm, all cycles of a sentence contracted in one round.
//
// Each component of words takes its best entering arc; components on a cycle become one. What a component's best arc is
// worth is taken from all its entering arcs: `paid` says how much a word's arcs have lost. A single root is the wish for
// few arcs from the root, compared before the scores: `level` counts them, so that no large constant is added. Among
// equal arcs a word takes the lowest head, and a component the first word.
#include <limits>

#include "batch.hpp"

namespace structattn {
namespace {

template <class T>
class Edmonds {
 public:
  Edmonds(int64_t words, bool single_root)
      : words_(words), single_root_(single_root), paid_(words + 1), level_(words + 1), component_(words + 1),
        head_(words + 1), target_(words + 1), state_(words + 1), name_(words + 1) {}

  // Heads of the words 1..length; returns whether there is a tree.
  bool solve(const T* scores, int64_t length, int64_t* heads) {
    for (int64_t m = 0; m <= length; ++m) paid_[m] = 0.0, level_[m] = 0, component_[m] = head_[m] = m;
    rounds_.clear();
    do {
      if (!enter(scores, length)) return false;
    } while (contract(length));
    undo(length);
    int64_t roots = 0;
    for (int64_t m = 1; m <= length; ++m) {
      heads[m - 1] = rounds_[0].start[m];
      roots += heads[m - 1] == 0;
    }
    return !single_root_ || roots == std::min<int64_t>(length, 1);
  }

  // After `solve`: what the best tree loses at least where a word gets another head than its own. What the components
  // around a word paid for their arcs, as long as the head was not among them, less the score of the arc: no tree is
  // worth more than all payments without the reduced costs of its arcs. Words before `first` are left out.
  void losses(const T* scores, int64_t length, const int64_t* heads, int64_t first, std::vector<double>& found) const {
    found.assign(length, kInfinity);
    const int64_t rounds = static_cast<int64_t>(rounds_.size());
    for (int64_t m = first + 1; m <= length; ++m) {
      const T* row = scores + (m - 1) * (words_ + 1);
      for (int64_t h = 0; h <= length; ++h) {
        if (h == m || h == heads[m - 1] || row[h] == -static_cast<T>(kInfinity)) continue;
        double cost = -static_cast<double>(row[h]);
        int64_t level = single_root_ && h == 0 ? 1 : 0;
        for (int64_t i = 0; i < rounds && rounds_[i].component[h] != rounds_[i].component[m]; ++i) {
          cost += rounds_[i].paid[rounds_[i].component[m]];
          level += rounds_[i].level[rounds_[i].component[m]];
        }
        // No tree of as many root arcs has an arc that costs one more of them.
        if (level == 0) found[m - 1] = std::min(found[m - 1], cost);
      }
    }
  }

 private:
  // Component of each node, and by component the word that its arc enters, the head that it comes from, and what is paid
  // for it.
  struct Round {
    std::vector<int64_t> component, entered, start;
    std::vector<double> paid;
    std::vector<int64_t> level;
  };

  bool enter(const T* scores, int64_t length) {
    const std::vector<int64_t> none(length + 1, 0);
    Round round{component_, none, none, std::vector<double>(length + 1, -kInfinity), none};
    round.component.resize(length + 1);
    std::vector<double>& best = round.paid;
    std::vector<int64_t>& best_level = round.level;
    for (int64_t m = 1; m <= length; ++m) {
      const T* row = scores + (m - 1) * (words_ + 1);
      const int64_t own = component_[m];
      // A word keeps its best head until the two are in one component.
      if (component_[head_[m]] == own) look(row, m, length);
      const int64_t head = head_[m], level = level_[m] - (single_root_ && head == 0);
      const double top = head == m ? -kInfinity : row[head];
      if (top == -kInfinity) continue;
      const double gain = top - paid_[m];
      const bool better =
          round.entered[own] == 0 || level > best_level[own] || (level == best_level[own] && gain > best[own]);
      if (better) best[own] = gain, best_level[own] = level, round.entered[own] = m, round.start[own] = head;
    }
    for (int64_t m = 1; m <= length; ++m) {
      const int64_t own = component_[m];
      if (round.entered[own] == 0) return false;
      paid_[m] += best[own];
      level_[m] -= best_level[own];
      target_[own] = component_[round.start[own]];
    }
    rounds_.push_back(std::move(round));
    return true;
  }

  // The best head of a word outside its component; the word itself if there is none.
  void look(const T* row, int64_t m, int64_t length) {
    double top = -kInfinity;
    int64_t head = m;
    for (int64_t h = single_root_ ? 1 : 0; h <= length; ++h) {
      if (row[h] > top && component_[h] != component_[m]) top = row[h], head = h;
    }
    if (single_root_ && head == m && row[0] > -kInfinity) head = 0;
    head_[m] = head;
  }

  // Components on a cycle take the name of its lowest; returns whether there was one.
  bool contract(int64_t length) {
    for (int64_t m = 0; m <= length; ++m) state_[m] = 0, name_[m] = m;
    state_[0] = -1;
    bool found = false;
    for (int64_t m = 1; m <= length; ++m) {
      int64_t node = component_[m];
      while (state_[node] == 0) state_[node] = m, node = target_[node];
      if (state_[node] == m) {
        found = true;
        int64_t lowest = node;
        for (int64_t other = target_[node]; other != node; other = target_[other]) lowest = std::min(lowest, other);
        int64_t other = node;
        do name_[other] = lowest, other = target_[other];
        while (other != node);
      }
      for (node = component_[m]; state_[node] == m; node = target_[node]) state_[node] = -1;
    }
    for (int64_t m = 1; m <= length; ++m) component_[m] = name_[component_[m]];
    return found;
  }

  // A component keeps its arc unless the arc of a later round enters exactly it.
  void undo(int64_t length) {
    for (size_t i = rounds_.size() - 1; i > 0; --i) {
      const Round& later = rounds_[i];
      Round& earlier = rounds_[i - 1];
      for (int64_t m = 1; m <= length; ++m) {
        const int64_t around = later.component[m], entered = later.entered[around];
        const int64_t own = earlier.component[m];
        if (earlier.component[entered] == own) earlier.entered[own] = entered, earlier.start[own] = later.start[around];
      }
    }
  }

  int64_t words_;
  bool single_root_;
  std::vector<double> paid_;
  std::vector<int64_t> level_, component_, head_, target_, state_, name_;
  std::vector<Round> rounds_;
};

template <class T>
class BestTree {
 public:
  explicit BestTree(const Call<T>& call) : call_(call), edmonds_(call.words, call.single_root), heads_(call.words) {}

  void run(int64_t item) {
    const int64_t length = call_.length(item);
    T* parts = call_.selected(0, item);
    if (!edmonds_.solve(call_.scores + item * call_.num_parts, length, heads_.data())) return;
    for (int64_t m = 0; m < length; ++m) parts[m * (call_.words + 1) + heads_[m]] = 1;
  }

 private:
  const Call<T>& call_;
  Edmonds<T> edmonds_;
  std::vector<int64_t> heads_;
};

// The k best trees, by partition of what is left after each (Lawler 1972): trees that agree with it before some word and
// differ there. How much a tree can lose by another head of a word is bounded by the reduced cost of that arc, so only
// those sets of trees are searched whose bound is among the best.
template <class T>
class FirstTrees {
 public:
  explicit FirstTrees(const Call<T>& call) : call_(call), edmonds_(call.words, call.single_root) {}

  void run(int64_t item) {
    const int64_t length = call_.length(item), heads = call_.words + 1;
    const T* scores = call_.scores + item * call_.num_parts;
    waiting_.clear();
    waiting_.push_back({kInfinity, false, 0, {}, std::vector<int64_t>(length), {}});
    slack_ = 1e-12 * (1.0 + static_cast<double>(length) * largest_score(scores, length));
    for (int64_t rank = 0; rank < call_.selection.count; ++rank) {
      T* parts = call_.selected(rank, item);
      const bool found = next(scores, length);
      double total = found ? 0.0 : -kInfinity;
      for (int64_t m = 0; m < length && found; ++m) {
        const int64_t part = m * heads + best_.heads[m];
        parts[part] = 1;
        total += scores[part];
      }
      call_.selection.write(rank * call_.batch + item, total);
    }
  }

 private:
  // Trees with the heads of `heads` before word `first`, and none of the `banned` ones there. Searched, `heads` are those
  // of the best of them, `value` is its score and `losses` are bounds; before, `value` is a bound.
  struct Trees {
    double value;
    bool is_searched;
    int64_t first;
    std::vector<int64_t> banned, heads;
    std::vector<double> losses;

    bool operator<(const Trees& other) const {
      return value != other.value ? value < other.value : is_searched < other.is_searched;
    }
  };

  double largest_score(const T* scores, int64_t length) const {
    double found = 0.0;
    for (int64_t m = 0; m < length; ++m) found = std::max(found, largest(scores + m * (call_.words + 1), length + 1));
    return found;
  }

  // Moves the next best tree into `best_`; returns whether there is one.
  bool next(const T* scores, int64_t length) {
    while (!waiting_.empty()) {
      std::pop_heap(waiting_.begin(), waiting_.end());
      best_ = std::move(waiting_.back());
      waiting_.pop_back();
      if (best_.is_searched) {
        partition(length);
        return true;
      }
      if (search(scores, length)) push(best_);
    }
    return false;
  }

  void push(const Trees& trees) {
    waiting_.push_back(trees);
    std::push_heap(waiting_.begin(), waiting_.end());
  }

  // Finds the best of `best_`, its score, and what it loses at least by another head of each word.
  bool search(const T* scores, int64_t length) {
    const int64_t heads = call_.words + 1;
    constexpr T nothing = -std::numeric_limits<T>::infinity();
    allowed_.assign(scores, scores + call_.num_parts);
    for (int64_t m = 0; m < best_.first; ++m) {
      T* row = allowed_.data() + m * heads;
      const T kept = row[best_.heads[m]];
      std::fill_n(row, heads, nothing);
      row[best_.heads[m]] = kept;
    }
    for (const int64_t head : best_.banned) allowed_[best_.first * heads + head] = nothing;
    if (!edmonds_.solve(allowed_.data(), length, best_.heads.data())) return false;
    best_.value = 0.0;
    for (int64_t m = 0; m < length; ++m) best_.value += scores[m * heads + best_.heads[m]];
    edmonds_.losses(allowed_.data(), length, best_.heads.data(), best_.first, best_.losses);
    best_.is_searched = true;
    return true;
  }

  void partition(int64_t length) {
    for (int64_t m = best_.first; m < length; ++m) {
      const double bound = best_.value - best_.losses[m] + slack_;
      if (!(bound > -kInfinity)) continue;
      Trees rest{bound, false, m, {}, best_.heads, {}};
      if (m == best_.first) rest.banned = best_.banned;
      rest.banned.push_back(best_.heads[m]);
      push(rest);
    }
  }

  const Call<T>& call_;
  Edmonds<T> edmonds_;
  std::vector<Trees> waiting_;
  Trees best_;
  std::vector<T> allowed_;
  double slack_ = 0.0;
};

template <class T>
Call<T> call_of(const T* scores, const int64_t* lengths, T* parts, int64_t batch, int64_t words, int64_t single_root) {
  return {scores, lengths, nullptr, nullptr, parts, batch, words, words * (words + 1), single_root != 0};
}

}  // namespace
}  // namespace structattn

#define STRUCTATTN_EXPORT_ARBORESCENCE(T, NAME)                                                                        \
  int structattn_spanning_tree_argmax_##NAME(const T* scores, const int64_t* lengths, T* parts, int64_t batch,         \
                                             int64_t words, int64_t single_root) {                                     \
    const auto call = structattn::call_of<T>(scores, lengths, parts, batch, words, single_root);                       \
    return structattn::each<structattn::BestTree<T>>(call, 2 * words * words);                                         \
  }                                                                                                                    \
  int structattn_spanning_tree_topk_##NAME(const T* scores, const int64_t* lengths, T* values, T* parts,               \
                                           int64_t batch, int64_t words, int64_t single_root, int64_t count) {         \
    auto call = structattn::call_of<T>(scores, lengths, parts, batch, words, single_root);                             \
    call.selection = {count, nullptr, values};                                                                         \
    return structattn::each<structattn::FirstTrees<T>>(call, 8 * words * words * count);                               \
  }

extern "C" {
STRUCTATTN_EXPORT_ARBORESCENCE(float, float32)
STRUCTATTN_EXPORT_ARBORESCENCE(double, float64)
}
