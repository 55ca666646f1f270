// A batch of sentences: who is computed with whom, on which thread, in whose memory, and who must be computed again.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <new>
#include <vector>

#include "numbers.hpp"

namespace structattn {

// What every exported function returns.
constexpr int kDone = 0;
constexpr int kOutOfMemory = 1;
constexpr int kUntrusted = 2;  // some sentences have no answer: the first of their results is nan

// Calls `body(context)` on as many of torch's threads as are worth their while, at most `tasks`.
void run_on_threads(int64_t tasks, void (*body)(void*), void* context);

// Fresh memory comes page by page; many megabytes of it come faster in large pages, where the system has them.
void prefer_large_pages(void* memory, int64_t bytes);

// What `entropy` finds, in doubles: log-partitions A, entropies A - <mu, scores>, and A - <mu, values> for other values.
// What is not wanted is a null pointer. An entropy too small to distinguish from rounding is nan: no answer.
template <class T>
struct Entropies {
  const T* values = nullptr;
  double* log_partition = nullptr;
  double* entropy = nullptr;
  double* gap = nullptr;

  bool wanted() const { return log_partition != nullptr; }
  bool wants_parts() const { return entropy != nullptr; }
};

// Of one sentence: what was taken out of all its scores, the expected scores without that, and the expected values.
struct Expected {
  double taken = 0.0, score = 0.0, value = 0.0;

  template <class T>
  STRUCTATTN_INLINE void add(const Entropies<T>& found, double used, double score_left, int64_t part) {
    score += used * score_left;
    if (found.values != nullptr) value += used * found.values[part];
  }

  // `left` is the log-partition without what was taken out; `is_single` where there is one structure at most.
  template <class T>
  void write(const Entropies<T>& found, int64_t item, double left, bool is_single) const {
    // Rounding of sums over a sentence stays below 1e-13, unless the scores themselves are huge.
    constexpr double kSmallest = 1e-6, kLargest = 1e5;
    const bool empty = left == -kInfinity;
    const double log = left + taken, entropy = left - score;
    found.log_partition[item] = log;
    if (found.entropy == nullptr) return;
    const bool certain = entropy > kSmallest && std::fabs(log) < kLargest;
    found.entropy[item] = empty || is_single ? 0.0 : certain ? entropy : std::nan("");
    if (found.gap != nullptr) found.gap[item] = empty ? 0.0 : log - value;
  }
};

// An array of a batch, and how far apart its sentences are; null if it is not given, or not wanted.
template <class T>
struct Rows {
  T* data;
  int64_t step;
};

// How many structures of each sentence are selected; then parts are `(count, batch, parts)`. The k best have values
// `(count, batch)`, samples the random streams of their sentences.
template <class T>
struct Selection {
  int64_t count = 0;
  const int64_t* streams = nullptr;
  T* values = nullptr;

  void write(int64_t place, double value) const { values[place] = static_cast<T>(value); }
};

// Arguments of one call. Scores, vector and parts are `(batch, parts)`; vector is read by `hvp` only. What is not wanted
// is a null pointer.
template <class T>
struct Call {
  const T* scores;
  const int64_t* lengths;
  const T* vector;
  T* log_partition;
  T* parts;
  int64_t batch, words, num_parts;
  bool single_root;
  Entropies<T> entropies = {};
  Selection<T> selection = {};

  // Lengths are checked above; whatever they are, nothing outside the arrays is touched.
  int64_t length(int64_t item) const { return std::clamp<int64_t>(lengths[item], 0, words); }
  void clear_parts(int64_t item) const {
    if (parts != nullptr) std::fill_n(parts + item * num_parts, num_parts, T(0));
  }
  // The parts of a selected structure, cleared.
  T* selected(int64_t rank, int64_t item) const {
    T* const own = parts + (rank * batch + item) * num_parts;
    std::fill_n(own, num_parts, T(0));
    return own;
  }
};

// Four sentences that are computed together; -1 stands for none.
struct Group {
  int64_t items[kLanes];
  int64_t lengths[kLanes];
  int64_t longest;

  STRUCTATTN_INLINE Bits ends_at(int64_t position) const {
    return Bits{lengths[0], lengths[1], lengths[2], lengths[3]} == position;
  }
  STRUCTATTN_INLINE Bits reaches(int64_t position) const {
    return Bits{lengths[0], lengths[1], lengths[2], lengths[3]} >= position;
  }
};

// Weights of parts of which every structure of a sentence holds the same number may all be multiplied by one factor.
// It is chosen on the way up, from the sums over the first words, where the sum over all would leave the range of
// doubles. Then weights may be above one, and the proof is another: no number is outside 2^-500 .. 2^500, so that no
// product of two is rounded to zero or to infinity.
struct Scaling {
  static constexpr double kRange = 0x1p500;
  static constexpr double kWithin = 250.0;  // half of what is trusted: sums over the first words are an estimate
  Lanes log = all(0.0);                     // of the factor; zero where there is none

  Bits used() const { return log != 0.0; }

  // Takes up the factors that make sums over `parts` parts one, for sentences of `all_parts[lane]`, and returns them;
  // `needed` are the sentences that have to change, whatever the estimate.
  template <class Num>
  Lanes adjust(const Num& sum, double parts, const double* all_parts, Bits needed, bool* changed) {
    Lanes factor = all(1.0);
    for (int lane = 0; lane < kLanes; ++lane) {
      const double rate = sum.log(lane) / parts;
      if (!(std::fabs(rate) < 600.0) || !(needed[lane] || std::fabs(rate * all_parts[lane]) > kWithin)) continue;
      factor[lane] = std::exp(-rate);
      log[lane] += std::log(factor[lane]);
      *changed = true;
    }
    return factor;
  }
};

// The least and the largest of the numbers of each sentence.
struct Bounds {
  Lanes least = all(1.0), largest = all(1.0);

  template <class Num>
  STRUCTATTN_INLINE void take(const Num& number, Bits used) {
    const Lanes value = used ? number.value : all(1.0);
    least = minimum(value, least);
    largest = maximum(value, largest);
  }
  Bits safe() const { return (least > 1.0 / Scaling::kRange) & (largest < Scaling::kRange); }
};

// Memory for all threads together; where sentences are so long that this is too little, fewer threads work.
constexpr int64_t kWorkspaceBytes = int64_t{160} << 20;

// Sentences of one length stand together; within a length in the order of the batch.
template <class Call>
std::vector<int64_t> longest_first(const Call& call) {
  std::vector<int64_t> start(call.words + 2, 0), order(call.batch);
  for (int64_t item = 0; item < call.batch; ++item) ++start[call.words - call.length(item) + 1];
  for (int64_t length = 0; length <= call.words; ++length) start[length + 1] += start[length];
  for (int64_t item = 0; item < call.batch; ++item) order[start[call.words - call.length(item)]++] = item;
  return order;
}

// Run `Worker(call, memory).run(group)` on every four sentences of `order`, with `Worker::bytes(call, longest)` of memory
// for each thread. It returns a mask of the sentences whose numbers cannot be trusted; they are the result.
// `Worker::work(call, longest)` says how much there is to do for a group.
template <class Worker, class Call>
int sweep(const Call& call, const std::vector<int64_t>& order, std::vector<int64_t>* again) {
  struct State {
    const Call& call;
    const std::vector<int64_t>& order;
    int64_t bytes;
    std::vector<unsigned char> untrusted;
    std::atomic<int64_t> next{0};
    std::atomic<bool> out_of_memory{false};
  };
  const int64_t size = static_cast<int64_t>(order.size()), groups = (size + kLanes - 1) / kLanes;
  if (groups == 0) return kDone;
  const int64_t longest = call.length(order[0]), bytes = std::max<int64_t>(1, Worker::bytes(call, longest));
  State state{call, order, bytes, std::vector<unsigned char>(groups, 0)};
  const auto body = [](void* context) {
    State& state = *static_cast<State*>(context);
    const auto aligned = std::align_val_t(64);
    void* memory = operator new(state.bytes, aligned, std::nothrow);
    if (memory == nullptr) {
      state.out_of_memory = true;
      return;
    }
    prefer_large_pages(memory, state.bytes);
    try {
      Worker worker(state.call, memory);
      const int64_t size = static_cast<int64_t>(state.order.size());
      for (int64_t number; (number = state.next.fetch_add(1)) * kLanes < size;) {
        Group group{{-1, -1, -1, -1}, {0, 0, 0, 0}, 0};
        for (int lane = 0; lane < kLanes && number * kLanes + lane < size; ++lane) {
          group.items[lane] = state.order[number * kLanes + lane];
          group.lengths[lane] = state.call.length(group.items[lane]);
          group.longest = std::max(group.longest, group.lengths[lane]);
        }
        state.untrusted[number] = worker.run(group);
      }
    } catch (const std::bad_alloc&) {
      state.out_of_memory = true;
    }
    operator delete(memory, aligned);
  };
  // A thread is worth waking for some ten thousand cells with their splits.
  const int64_t worth = groups * Worker::work(call, longest) / 20000 + 1;
  run_on_threads(std::min({groups, std::max<int64_t>(1, kWorkspaceBytes / bytes), worth}), body, &state);
  if (state.out_of_memory) return kOutOfMemory;
  for (int64_t number = 0; number < groups && again != nullptr; ++number) {
    for (int lane = 0; lane < kLanes; ++lane) {
      if (state.untrusted[number] >> lane & 1) again->push_back(order[number * kLanes + lane]);
    }
  }
  return kDone;
}

// `Program::evaluate` over one kind of number, for a sweep.
template <class Program, class Num, class T>
struct Evaluation {
  const Call<T>& call;
  Num* workspace;

  Evaluation(const Call<T>& call, void* memory) : call(call), workspace(static_cast<Num*>(memory)) {}
  static int64_t bytes(const Call<T>&, int64_t longest) {
    return Program::num_cells(longest) * static_cast<int64_t>(sizeof(Num));
  }
  static int64_t work(const Call<T>& call, int64_t longest) {
    return longest * longest * (longest + 8 + kLanes * call.selection.count);
  }
  unsigned char run(const Group& group) { return Program::template evaluate<Num>(call, group, workspace); }
};

// In doubles first; with exponents of their own where doubles are not proved to be enough.
template <class Fast, class Exact, class Call>
int sweep_twice(const Call& call) {
  try {
    std::vector<int64_t> again;
    const int status = sweep<Fast>(call, longest_first(call), &again);
    return status != kDone || again.empty() ? status : sweep<Exact>(call, again, nullptr);
  } catch (const std::bad_alloc&) {
    return kOutOfMemory;
  }
}

template <class Program, class Num, class T>
int evaluate_all(const Call<T>& call) {
  return sweep_twice<Evaluation<Program, Num, T>, Evaluation<Program, Extended<Num>, T>>(call);
}

// Whether every sentence has an answer.
inline int finished(int status, const double* entropy, int64_t batch) {
  if (status != kDone || entropy == nullptr) return status;
  return std::any_of(entropy, entropy + batch, [](double found) { return std::isnan(found); }) ? kUntrusted : kDone;
}

// Run `Worker(call).run(item)` on every sentence, one at a time; `work` says how much there is to do for one.
template <class Worker, class Call>
int each(const Call& call, int64_t work) {
  struct State {
    const Call& call;
    std::atomic<int64_t> next{0};
    std::atomic<bool> out_of_memory{false};
  };
  State state{call};
  const auto body = [](void* context) {
    State& state = *static_cast<State*>(context);
    try {
      Worker worker(state.call);
      for (int64_t item; (item = state.next.fetch_add(1)) < state.call.batch;) worker.run(item);
    } catch (const std::bad_alloc&) {
      state.out_of_memory = true;
    }
  };
  run_on_threads(std::min(call.batch, call.batch * work / 40000 + 1), body, &state);
  return state.out_of_memory ? kOutOfMemory : kDone;
}

// The same where the program selects structures in doubles.
template <class Program, class T>
int select_best(const Call<T>& call) {
  try {
    return sweep<Evaluation<Program, Best, T>>(call, longest_first(call), nullptr);
  } catch (const std::bad_alloc&) {
    return kOutOfMemory;
  }
}

// Lanes that could not be trusted, as the bits of a byte.
STRUCTATTN_INLINE unsigned char untrusted_lanes(Bits trusted, const Group& group) {
  unsigned char found = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    if (group.items[lane] >= 0 && !trusted[lane]) found |= static_cast<unsigned char>(1u << lane);
  }
  return found;
}

// Largest finite magnitude in a row.
template <class T>
double largest(const T* row, int64_t count) {
  double found = 0.0;
  for (int64_t i = 0; i < count; ++i) {
    const double size = std::fabs(static_cast<double>(row[i]));
    if (size > found && size < kInfinity) found = size;
  }
  return found;
}

// A vector is divided by a power of two near its size, so that neither tiny nor huge gradients leave the range of
// doubles.
inline double power_near(double size) {
  return size > 0.0 ? std::ldexp(1.0, std::max(std::ilogb(size), -1021)) : 1.0;
}

}  // namespace structattn
