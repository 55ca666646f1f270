// Attention with a distribution over the keys for every feature (Shen et al. 2018, DiSAN, equation 10), forward and
// backward, without a number for every pair of words.
//
// A score c tanh((a + b) / c) costs one division; see tangents.hpp. Bounded as it is, its exponential needs no maximum.
// The inverse of the sum of exponentials is that of exp(score - c).
//
// Features do not know of each other. A task is one sentence and so many features that all its keys stay in the cache;
// it goes over the queries, and a query over the ranges of keys it may look at. What is forbidden is never touched.
#include <memory>

#include "batch.hpp"
#include "tangents.hpp"

namespace structattn {
namespace {

// Bytes of the keys of a task.
constexpr int64_t kCachedBytes = 192 * 1024;
// Queries whose ranges of keys are found together.
constexpr int64_t kQueries = 16;

// The tensors are (batch, query or key, feature), `allowed` is (batch or 1, query, key).
template <class T>
struct Pairs {
  const T *queries, *keys, *values;
  const uint8_t* allowed;
  double scale;
  T *attended, *inverse;  // written by the forward pass, read by the backward pass
  const T* gradient;
  T *of_queries, *of_keys, *of_values;
  int64_t batch, num_queries, num_keys, features, allowed_stride;
};

struct Range {
  int64_t first, last;
};

// The ranges of ones in a row of zeros and ones.
int64_t find_ranges(const uint8_t* row, int64_t size, Range* ranges) {
  constexpr uint64_t kOnes = 0x0101010101010101u;
  const auto skip = [row, size](int64_t at, uint64_t eight) {
    for (uint64_t found; at + 8 <= size; at += 8) {
      std::memcpy(&found, row + at, 8);
      if (found != eight) break;
    }
    while (at < size && row[at] == (eight & 1)) ++at;
    return at;
  };
  int64_t found = 0;
  for (int64_t at = skip(0, 0); at < size; at = skip(at, 0)) {
    ranges[found].first = at;
    at = skip(at, kOnes);
    ranges[found++].last = at;
  }
  return found;
}

// One thread's memory and its work on some features of a sentence.
template <class T, bool kBackward>
class Worker {
  using F = Features<T>;
  using Vector = typename F::Vector;
  static constexpr int kWidth = F::count;
  // A key's score part and value; on the way back also the gradients of both.
  static constexpr int64_t kRecord = (kBackward ? 4 : 2) * kWidth;

 public:
  static int64_t key_bytes(const Pairs<T>& pairs) { return pairs.num_keys * kRecord * int64_t{sizeof(T)}; }

  Worker(const Pairs<T>& pairs, int64_t blocks)
      : p(pairs), ranges_per_query(pairs.num_keys / 2 + 1), memory(blocks * pairs.num_keys * kRecord + kWidth),
        ranges(kQueries * ranges_per_query), num_ranges(kQueries), key_used(pairs.num_keys),
        query_used(pairs.num_queries), forms(blocks), tangents(pairs.scale) {
    height = F::all(static_cast<T>(p.scale * 1.4426950408889634));
    twice = F::all(static_cast<T>(-2.0 * p.scale * 1.4426950408889634));
    lowest = static_cast<T>(std::exp(-p.scale));
    // A vector that crosses from one line of the cache into the next costs two loads.
    void* start = memory.data();
    size_t space = memory.size() * sizeof(T);
    records = static_cast<T*>(std::align(F::kBytes, F::kBytes, start, space));
  }

  void run(int64_t sentence, int64_t first_block, int64_t num_blocks) {
    const uint8_t* allowed = p.allowed + sentence * p.allowed_stride;
    if (allowed != seen) see(allowed);
    const int64_t queries_at = sentence * p.num_queries * p.features + first_block * kWidth;
    const int64_t keys_at = sentence * p.num_keys * p.features + first_block * kWidth;
    const int64_t features = std::min(p.features - first_block * kWidth, num_blocks * kWidth);
    for (int64_t block = 0; block < num_blocks; ++block) {
      const int width = width_of(block, features);
      forms[block] = form_of(queries_at + block * kWidth, keys_at + block * kWidth, width);
      gather(block, keys_at + block * kWidth, width);
    }
    for (int64_t start = 0; start < p.num_queries; start += kQueries) {
      const int64_t stop = std::min(start + kQueries, p.num_queries);
      for (int64_t query = start; query < stop; ++query) {
        Range* found = ranges.data() + (query - start) * ranges_per_query;
        num_ranges[query - start] = find_ranges(allowed + query * p.num_keys, p.num_keys, found);
      }
      for (int64_t block = 0; block < num_blocks; ++block) {
        const int width = width_of(block, features);
        for (int64_t query = start; query < stop; ++query) {
          const int64_t at = queries_at + query * p.features + block * kWidth;
          if (forms[block] == Form::kTangents) look<Form::kTangents>(block, query - start, at, width);
          else if (forms[block] == Form::kProduct) look<Form::kProduct>(block, query - start, at, width);
          else look<Form::kSum>(block, query - start, at, width);
        }
        if (kBackward) scatter(block, keys_at + block * kWidth, width);
      }
    }
  }

 private:
  const Pairs<T>& p;
  const int64_t ranges_per_query;
  std::vector<T> memory;
  T* records;
  std::vector<Range> ranges;
  std::vector<int64_t> num_ranges;
  std::vector<uint8_t> key_used, query_used;
  std::vector<Form> forms;
  const uint8_t* seen = nullptr;
  const Tangents<T> tangents;
  Vector height, twice;
  T lowest;

  static int width_of(int64_t block, int64_t features) {
    return static_cast<int>(std::min<int64_t>(kWidth, features - block * kWidth));
  }

  // What stands at words that take no part must not decide how the others are computed.
  void see(const uint8_t* allowed) {
    std::fill(key_used.begin(), key_used.end(), 0);
    for (int64_t query = 0; query < p.num_queries; ++query) {
      uint8_t any = 0;
      for (int64_t key = 0; key < p.num_keys; ++key) {
        key_used[key] |= allowed[query * p.num_keys + key];
        any |= allowed[query * p.num_keys + key];
      }
      query_used[query] = any;
    }
    seen = allowed;
  }

  // The first form that is exact for all parts of a block.
  Form form_of(int64_t queries_at, int64_t keys_at, int width) const {
    Vector top{};
    for (int64_t key = 0; key < p.num_keys; ++key) {
      if (key_used[key]) top = tangents.top(top, F::load(p.keys + keys_at + key * p.features, width));
    }
    for (int64_t query = 0; query < p.num_queries; ++query) {
      if (query_used[query]) top = tangents.top(top, F::load(p.queries + queries_at + query * p.features, width));
    }
    return Tangents<T>::form_of(top);
  }

  T* keys_of(int64_t block) { return records + block * p.num_keys * kRecord; }

  void gather(int64_t block, int64_t keys_at, int width) {
    T* record = keys_of(block);
    for (int64_t key = 0; key < p.num_keys; ++key, record += kRecord) {
      const Vector x = F::load(p.keys + keys_at + key * p.features, width);
      F::store(record, tangents.prepared(x, forms[block]));
      F::store(record + kWidth, F::load(p.values + keys_at + key * p.features, width));
      if (kBackward) {
        F::store(record + 2 * kWidth, Vector{});
        F::store(record + 3 * kWidth, Vector{});
        F::store(p.of_keys + keys_at + key * p.features, Vector{}, width);
        F::store(p.of_values + keys_at + key * p.features, Vector{}, width);
      }
    }
  }

  // Some queries' part of the gradients of keys and values: sums of sums of few numbers lose fewer digits.
  void scatter(int64_t block, int64_t keys_at, int width) {
    T* record = keys_of(block);
    const T factor = forms[block] == Form::kTangents ? T(1) : T(4);
    for (int64_t key = 0; key < p.num_keys; ++key, record += kRecord) {
      T *of_key = p.of_keys + keys_at + key * p.features, *of_value = p.of_values + keys_at + key * p.features;
      F::store(of_key, F::load(of_key, width) + F::load(record + 2 * kWidth) * factor, width);
      F::store(of_value, F::load(of_value, width) + F::load(record + 3 * kWidth), width);
      F::store(record + 2 * kWidth, Vector{});
      F::store(record + 3 * kWidth, Vector{});
    }
  }

  template <Form kForm>
  STRUCTATTN_INLINE void look(int64_t block, int64_t row, int64_t at, int width) {
    const Vector x = F::load(p.queries + at, width);
    const Vector query = tangents.prepared(x, kForm);
    const Range* range = ranges.data() + row * ranges_per_query;
    const Range* end = range + num_ranges[row];
    if (kBackward) look_back<kForm>(keys_of(block), range, end, query, at, width);
    else look_forward<kForm>(keys_of(block), range, end, query, at, width);
  }

  template <Form kForm>
  STRUCTATTN_INLINE void look_forward(const T* keys, const Range* range, const Range* end, Vector query, int64_t at, int width) {
    Vector total{}, sum{};
    const Vector steepness = kForm == Form::kTangents ? height : twice;
    const bool any = range != end;
    for (; range != end; ++range) {
      const T* last = keys + range->last * kRecord;
      for (const T* record = keys + range->first * kRecord; record != last; record += kRecord) {
        const Vector weight = F::power(tangents.template bent<kForm>(query, F::load(record)), steepness);
        total += weight;
        sum += weight * F::load(record + kWidth);
      }
    }
    const Vector inverse = any ? T(1) / total : Vector{};
    F::store(p.inverse + at, kForm == Form::kTangents ? inverse / lowest : inverse, width);
    F::store(p.attended + at, sum * inverse, width);
  }

  // With g the gradient of s: dv_j = sum_i P_ij g_i, and with eta_ij = P_ij g_i (v_j - s_i) (1 - tanh^2),
  // da_i = sum_j eta_ij and db_j = sum_i eta_ij; the 4 of 4 y (1 - y) waits for the end.
  template <Form kForm>
  STRUCTATTN_INLINE void look_back(T* keys, const Range* range, const Range* end, Vector query, int64_t at, int width) {
    constexpr bool kTangents = kForm == Form::kTangents;
    const Vector steepness = kTangents ? height : twice;
    const Vector incoming = F::load(p.gradient + at, width) * F::load(p.inverse + at, width) * (kTangents ? lowest : T(1));
    const Vector attended = F::load(p.attended + at, width);
    Vector of_query{};
    for (; range != end; ++range) {
      const T* last = keys + range->last * kRecord;
      for (T* record = keys + range->first * kRecord; record != last; record += kRecord) {
        const Vector y = tangents.template bent<kForm>(query, F::load(record));
        const Vector share = F::power(y, steepness) * incoming;
        const Vector derivative = kTangents ? T(1) - y * y : y - y * y;
        const Vector change = share * (F::load(record + kWidth) - attended) * derivative;
        of_query += change;
        F::store(record + 2 * kWidth, F::load(record + 2 * kWidth) + change);
        F::store(record + 3 * kWidth, F::load(record + 3 * kWidth) + share);
      }
    }
    F::store(p.of_queries + at, kTangents ? of_query : of_query * T(4), width);
  }
};

template <class T, bool kBackward>
int run_all(const Pairs<T>& pairs) {
  struct State {
    const Pairs<T>& pairs;
    int64_t blocks, blocks_at_once, chunks;
    std::atomic<int64_t> next{0};
    std::atomic<bool> out_of_memory{false};
  };
  const int64_t width = Features<T>::count, blocks = (pairs.features + width - 1) / width;
  if (pairs.batch == 0 || blocks == 0) return kDone;
  const int64_t bytes = std::max<int64_t>(1, Worker<T, kBackward>::key_bytes(pairs));
  const int64_t chunks = (blocks + std::clamp<int64_t>(kCachedBytes / bytes, 1, blocks) - 1) /
                         std::clamp<int64_t>(kCachedBytes / bytes, 1, blocks);
  State state{pairs, blocks, (blocks + chunks - 1) / chunks, chunks};
  const auto body = [](void* context) {
    State& state = *static_cast<State*>(context);
    try {
      Worker<T, kBackward> worker(state.pairs, state.blocks_at_once);
      const int64_t tasks = state.pairs.batch * state.chunks;
      for (int64_t task; (task = state.next.fetch_add(1)) < tasks;) {
        const int64_t first = task % state.chunks * state.blocks_at_once;
        if (first >= state.blocks) continue;
        worker.run(task / state.chunks, first, std::min(state.blocks_at_once, state.blocks - first));
      }
    } catch (const std::bad_alloc&) {
      state.out_of_memory = true;
    }
  };
  // A thread is worth waking for some ten thousand pairs of words and eight features.
  const int64_t work = pairs.batch * pairs.num_queries * pairs.num_keys * blocks;
  run_on_threads(std::min(pairs.batch * chunks, work / 10000 + 1), body, &state);
  return state.out_of_memory ? kOutOfMemory : kDone;
}

}  // namespace
}  // namespace structattn

#define STRUCTATTN_EXPORT_TOKEN2TOKEN(T, NAME)                                                                         \
  int structattn_token2token_##NAME(const T* queries, const T* keys, const T* values, const uint8_t* allowed,          \
                                    const double* scale, T* attended, T* inverse, int64_t batch, int64_t num_queries,  \
                                    int64_t num_keys, int64_t features, int64_t allowed_stride) {                      \
    return structattn::run_all<T, false>({queries, keys, values, allowed, *scale, attended, inverse, nullptr, nullptr, \
                                          nullptr, nullptr, batch, num_queries, num_keys, features, allowed_stride});  \
  }                                                                                                                    \
  int structattn_token2token_backward_##NAME(                                                                          \
      const T* queries, const T* keys, const T* values, const uint8_t* allowed, const double* scale, T* attended,      \
      T* inverse, const T* gradient, T* of_queries, T* of_keys, T* of_values, int64_t batch, int64_t num_queries,      \
      int64_t num_keys, int64_t features, int64_t allowed_stride) {                                                    \
    return structattn::run_all<T, true>({queries, keys, values, allowed, *scale, attended, inverse, gradient,          \
                                         of_queries, of_keys, of_values, batch, num_queries, num_keys, features,       \
                                         allowed_stride});                                                             \
  }

extern "C" {
STRUCTATTN_EXPORT_TOKEN2TOKEN(float, float32)
STRUCTATTN_EXPORT_TOKEN2TOKEN(double, float64)
}
