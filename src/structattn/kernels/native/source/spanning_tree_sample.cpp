// Random dependency trees, by taking back the eliminations of spanning_tree.hpp: see `SpanningTreeSelector.draw`.
//
// Taking back k, an arc h -> m of the reduced graph is an old one, or a detour h -> k -> m. Its weight in the graph
// without k, k+1, ..., n is A[h,m] + sum over j >= k of share_j[h] A_j[j,m], of positive terms that are all still there.
// So for a new arc all terms are found at once, and with them the first node at which it takes a detour, if any.
#include "selection.hpp"
#include "spanning_tree.hpp"

namespace structattn {
namespace spanning_tree {
namespace {

enum Kind : uint64_t { kDetour, kHead };

// Draws trees for one sentence of a group that has been eliminated.
class Backwards {
 public:
  Backwards(const Plain* weights, const Plain* graph, const Plain* roots, int64_t size, int lane, int64_t length,
            bool single_root)
      : weights_(weights), graph_(graph), roots_(roots), size_(size), lane_(lane), length_(length),
        single_root_(single_root), inverse_(length + 1), factor_(length + 1), head_(length + 1), detour_(length + 1),
        via_(length + 1) {
    for (int64_t k = 1; k <= length; ++k) {
      double in = 0.0;
      for (int64_t h = single_root ? 1 : 0; h < k; ++h) in += at(graph, h, k);
      inverse_[k] = in > 0.0 ? 1.0 / in : 0.0;
      factor_[k] = single_root ? at(graph, 0, k) + in : in;
    }
  }

  // Heads of the words, 1 .. length.
  const std::vector<int64_t>& draw(const Random& random) {
    for (int64_t k = 1; k <= length_; ++k) {
      // Words whose arc takes a detour over k become its children; the head of the topmost one becomes its head.
      int64_t top = -1;
      for (int64_t m = 1; m < k; ++m) {
        if (detour_[m] == k && !has_detour_above(m, k)) {
          top = m;
          break;
        }
      }
      head_[k] = top < 0 ? alone(k, random.uniform(place(kHead, 0, k))) : head_[top];
      for (int64_t m = 1; m < k; ++m) {
        if (detour_[m] != k) continue;
        head_[m] = k;
        detour_[m] = next_detour(k, m, k + 1, random);
      }
      detour_[k] = next_detour(head_[k], k, k + 1, random);
    }
    return head_;
  }

 private:
  double at(const Plain* table, int64_t row, int64_t column) const { return table[row * size_ + column].value[lane_]; }

  bool has_detour_above(int64_t word, int64_t k) const {
    for (int64_t node = head_[word]; node > 0; node = head_[node]) {
      if (detour_[node] == k) return true;
    }
    return false;
  }

  // The share of detours over k that start at h.
  double share(int64_t h, int64_t k) const {
    return inverse_[k] > 0.0 ? at(graph_, h, k) * inverse_[k] : 1.0 / static_cast<double>(k - 1);
  }

  // The head of a node over which no arc takes a detour; with a single root another word, if there is one.
  int64_t alone(int64_t k, double number) const {
    const int64_t first = single_root_ && k > 1 ? 1 : 0;
    if (first == 1 && inverse_[k] == 0.0) {
      return first + categorical(k - first, number, [](int64_t) { return 1.0; });
    }
    return first + std::max<int64_t>(categorical(k - first, number, [&](int64_t i) { return at(graph_, first + i, k); }), 0);
  }

  // The first node from `from` on at which the arc takes a detour; beyond the last one if it takes none.
  int64_t next_detour(int64_t h, int64_t m, int64_t from, const Random& random) {
    if (single_root_ && h == 0) return next_detour_from_root(m, from, random);
    // Sums of positive terms from the last one on: nothing is subtracted.
    double sum = at(weights_, h, m);
    for (int64_t j = length_; j >= from; --j) {
      const double term = share(h, j) * at(graph_, j, m);
      sum += term;
      via_[j] = term / sum;
    }
    for (int64_t j = from; j <= length_; ++j) {
      if (random.uniform(place(kDetour, m, j)) < via_[j]) return j;
    }
    return length_ + 1;
  }

  int64_t next_detour_from_root(int64_t m, int64_t from, const Random& random) const {
    for (int64_t j = from; j <= length_; ++j) {
      const double factor = 1.0 / factor_[j], stay = inverse_[j] > 0.0 ? factor / inverse_[j] : 0.0;
      const double direct = stay * at(roots_, j, m), detour = at(graph_, 0, j) * factor * at(graph_, j, m);
      if (random.uniform(place(kDetour, m, j)) < detour / (direct + detour)) return j;
    }
    return length_ + 1;
  }

  const Plain *weights_, *graph_, *roots_;
  int64_t size_;
  int lane_;
  int64_t length_;
  bool single_root_;
  std::vector<double> inverse_, factor_;
  std::vector<int64_t> head_, detour_;
  std::vector<double> via_;  // the share of the detour over each node
};

struct RandomTrees {
  static int64_t num_cells(int64_t length) { return 3 * (length + 1) * (length + 1) + (length + 1); }

  template <class Num, class T>
  static unsigned char evaluate(const Call<T>& call, const Group& group, Num* workspace) {
    const int64_t size = group.longest + 1, cells = size * size, heads = call.words + 1;
    Num *weights = workspace, *graph = weights + cells, *roots = graph + cells, *share = roots + cells;
    std::vector<double> shifts(kLanes * size, 0.0);
    const double scales[kLanes] = {1.0, 1.0, 1.0, 1.0};
    for (int lane = 0; lane < kLanes; ++lane) {
      if (group.items[lane] < 0) continue;
      const T* scores = call.scores + group.items[lane] * call.num_parts;
      shift_of(scores, call.words, group.lengths[lane], call.single_root, shifts.data() + lane * size);
    }
    load(call, group, shifts.data(), scales, weights);
    std::memcpy(static_cast<void*>(graph), weights, cells * sizeof(Num));
    const Num total = eliminate(graph, roots, share, size, group, call.single_root);
    const unsigned char untrusted = untrusted_lanes(total.trusted(), group);
    for (int lane = 0; lane < kLanes; ++lane) {
      if (group.items[lane] < 0 || (untrusted >> lane & 1)) continue;
      const int64_t item = group.items[lane], length = group.lengths[lane];
      Backwards backwards(weights, graph, roots, size, lane, length, call.single_root);
      for (int64_t sample = 0; sample < call.selection.count; ++sample) {
        T* parts = call.selected(sample, item);
        const auto& head = backwards.draw(Random(call.selection.streams[item], sample));
        for (int64_t m = 1; m <= length; ++m) parts[(m - 1) * heads + head[m]] = 1;
      }
    }
    return untrusted;
  }
};

}  // namespace
}  // namespace spanning_tree
}  // namespace structattn

#define STRUCTATTN_EXPORT_SPANNING_TREE_SAMPLE(T, NAME)                                                                \
  int structattn_spanning_tree_sample_##NAME(const T* scores, const int64_t* lengths, const int64_t* streams,          \
                                             T* parts, int64_t batch, int64_t words, int64_t single_root,              \
                                             int64_t count) {                                                          \
    structattn::Call<T> call{                                                                                          \
        scores, lengths, nullptr, nullptr, parts, batch, words, words * (words + 1), single_root != 0};                \
    call.selection = {count, streams, nullptr};                                                                        \
    return structattn::spanning_tree::evaluate<structattn::spanning_tree::RandomTrees, structattn::Plain, T>(call);    \
  }

extern "C" {
STRUCTATTN_EXPORT_SPANNING_TREE_SAMPLE(float, float32)
STRUCTATTN_EXPORT_SPANNING_TREE_SAMPLE(double, float64)
}
