// The best dependency trees: Edmonds' algorithm, all cycles of a sentence contracted in one round.
//
// Each component of words takes its best entering arc; components on a cycle become one. What a component's best arc is
// worth is taken from all its entering arcs: `paid` says how much a word's arcs have lost. A single root is the wish for
// few arcs from the root, compared before the scores: `level` counts them, so that no large constant is added. Among
// equal arcs a word takes the lowest head, and a component the first word.
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

 private:
  // Component of each node, and by component the word that its arc enters and the head that it comes from.
  struct Round {
    std::vector<int64_t> component, entered, start;
  };

  bool enter(const T* scores, int64_t length) {
    Round round{component_, std::vector<int64_t>(length + 1, 0), std::vector<int64_t>(length + 1, 0)};
    round.component.resize(length + 1);
    std::vector<double> best(length + 1, -kInfinity);
    std::vector<int64_t> best_level(length + 1, 0);
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

// Parts `(batch, words, words + 1)` of the best trees; zero beyond the end and where there is none.
template <class T>
int best_trees(const T* scores, const int64_t* lengths, T* parts, int64_t batch, int64_t words, bool single_root) {
  struct State {
    const T* scores;
    const int64_t* lengths;
    T* parts;
    int64_t batch, words;
    bool single_root;
    std::atomic<int64_t> next{0};
    std::atomic<bool> out_of_memory{false};
  } state{scores, lengths, parts, batch, words, single_root};
  constexpr int64_t kTogether = 8;
  const auto body = [](void* context) {
    State& s = *static_cast<State*>(context);
    const int64_t size = s.words * (s.words + 1);
    try {
      Edmonds<T> edmonds(s.words, s.single_root);
      std::vector<int64_t> heads(s.words);
      while (true) {
        const int64_t first = s.next.fetch_add(kTogether);
        if (first >= s.batch) break;
        for (int64_t item = first; item < std::min(first + kTogether, s.batch); ++item) {
          const int64_t length = std::clamp<int64_t>(s.lengths[item], 0, s.words);
          T* own = s.parts + item * size;
          std::fill_n(own, size, T(0));
          if (!edmonds.solve(s.scores + item * size, length, heads.data())) continue;
          for (int64_t m = 0; m < length; ++m) own[m * (s.words + 1) + heads[m]] = T(1);
        }
      }
    } catch (const std::bad_alloc&) {
      s.out_of_memory = true;
    }
  };
  run_on_threads(std::min(batch / kTogether, batch * words * words / 20000) + 1, body, &state);
  return state.out_of_memory ? kOutOfMemory : kDone;
}

}  // namespace
}  // namespace structattn

#define STRUCTATTN_EXPORT_ARBORESCENCE(T, NAME)                                                                        \
  int structattn_spanning_tree_argmax_##NAME(const T* scores, const int64_t* lengths, T* parts, int64_t batch,         \
                                             int64_t words, int64_t single_root) {                                     \
    return structattn::best_trees<T>(scores, lengths, parts, batch, words, single_root != 0);                          \
  }

extern "C" {
STRUCTATTN_EXPORT_ARBORESCENCE(float, float32)
STRUCTATTN_EXPORT_ARBORESCENCE(double, float64)
}
