// Additive scores of pairs of words, s_ij = sum_d w_d tanh(a_id + b_jd), and their gradients (Kim et al. 2017, section
// 4.1). No number is kept for each pair and feature: a tangent is used where it is made, and made again on the way back.
//
// A pair costs one division; see tangents.hpp.
#include <memory>

#include "batch.hpp"
#include "tangents.hpp"

namespace structattn {
namespace {

// Rows of scores that are made by one task, and of gradients that are summed by themselves.
constexpr int64_t kRows = 16;

// `first` is (batch, row, feature), `second` (batch, column, feature), `scores` (batch, row, column); `sizes` says how
// many rows and columns of each count. What stands beyond them is not read, and comes out as zero.
template <class T>
struct Pairs {
  const T *first, *second, *weight;
  const int64_t* sizes;
  T* scores;
  const T* gradient;
  T *of_first, *of_second, *of_weight;  // `of_weight` is (batch, feature)
  int64_t batch, rows, columns, features;
};

// The largest exponents of some words, feature by feature of a block.
template <class T>
typename Features<T>::Vector top_of(const Tangents<T>& tangents, const T* from, int64_t words, int64_t features, int64_t stride) {
  constexpr int kWidth = Features<T>::count;
  typename Features<T>::Vector top{};
  for (int64_t word = 0; word < words; ++word, from += stride) {
    for (int64_t at = 0; at < features; at += kWidth) {
      top = tangents.top(top, Features<T>::load(from + at, static_cast<int>(std::min<int64_t>(kWidth, features - at))));
    }
  }
  return top;
}

// Scores of some rows of a sentence.
template <class T>
class Scoring {
  using F = Features<T>;
  using Vector = typename F::Vector;
  static constexpr int kWidth = F::count;

 public:
  explicit Scoring(const Pairs<T>& pairs)
      : p(pairs), blocks((pairs.features + kWidth - 1) / kWidth),
        memory((pairs.columns + kRows + 2) * blocks * kWidth) {
    void* start = memory.data();
    size_t space = memory.size() * sizeof(T);
    records = static_cast<T*>(std::align(F::kBytes, F::kBytes, start, space));
    std::copy(p.weight, p.weight + p.features, weights());
    for (int64_t feature = 0; feature < p.features; ++feature) all += p.weight[feature];
  }

  void run(int64_t task, int64_t chunks) {
    const int64_t sentence = task / chunks, start = task % chunks * kRows;
    const int64_t stop = std::min(start + kRows, p.rows);
    const int64_t rows = std::min(p.sizes[2 * sentence], stop), columns = p.sizes[2 * sentence + 1];
    T* scores = p.scores + sentence * p.rows * p.columns;
    if (rows <= start || columns == 0) {
      std::fill(scores + start * p.columns, scores + stop * p.columns, T(0));
      return;
    }
    const T* first = p.first + sentence * p.rows * p.features;
    const T* second = p.second + sentence * p.columns * p.features;
    if (sentence != prepared_sentence) {
      // The form is that of the whole sentence, so that it does not depend on how the rows are shared out.
      const Vector top = top_of(tangents, first, p.sizes[2 * sentence], p.features, p.features);
      const Vector other = top_of(tangents, second, columns, p.features, p.features);
      form = Tangents<T>::form_of(other > top ? other : top);
      prepare(second, columns, seconds());
      prepared_sentence = sentence;
    }
    prepare(first + start * p.features, rows - start, firsts());
    for (int64_t row = start; row < rows; ++row) {
      T* out = scores + row * p.columns;
      const T* one = firsts() + (row - start) * blocks * kWidth;
      if (form == Form::kTangents) score<Form::kTangents>(one, columns, out);
      else if (form == Form::kProduct) score<Form::kProduct>(one, columns, out);
      else score<Form::kSum>(one, columns, out);
      std::fill(out + columns, out + p.columns, T(0));
    }
    std::fill(scores + rows * p.columns, scores + stop * p.columns, T(0));
  }

 private:
  const Pairs<T>& p;
  const int64_t blocks;
  const Tangents<T> tangents;
  std::vector<T> memory;
  T* records;
  T all = 0;  // the weights of all features
  Form form = Form::kSum;
  int64_t prepared_sentence = -1;

  T* weights() { return records; }
  T* firsts() { return records + blocks * kWidth; }
  T* seconds() { return firsts() + kRows * blocks * kWidth; }

  void prepare(const T* from, int64_t words, T* to) {
    for (int64_t block = 0; block < blocks; ++block) {
      const int width = static_cast<int>(std::min<int64_t>(kWidth, p.features - block * kWidth));
      for (int64_t word = 0; word < words; ++word) {
        const Vector x = F::load(from + word * p.features + block * kWidth, width);
        F::store(to + (word * blocks + block) * kWidth, tangents.prepared(x, form));
      }
    }
  }

  template <Form kForm>
  STRUCTATTN_INLINE void score(const T* one, int64_t columns, T* out) {
    const T *weight = weights(), *other = seconds();
    for (int64_t column = 0; column < columns; ++column, other += blocks * kWidth) {
      Vector sum{}, more{};
      int64_t at = 0;
      for (; at + 2 * kWidth <= blocks * kWidth; at += 2 * kWidth) {
        sum += F::load(weight + at) * tangents.template bent<kForm>(F::load(one + at), F::load(other + at));
        more += F::load(weight + at + kWidth) *
                tangents.template bent<kForm>(F::load(one + at + kWidth), F::load(other + at + kWidth));
      }
      if (at < blocks * kWidth) sum += F::load(weight + at) * tangents.template bent<kForm>(F::load(one + at), F::load(other + at));
      sum += more;
      T total = 0;
      for (int lane = 0; lane < kWidth; ++lane) total += sum[lane];
      out[column] = kForm == Form::kTangents ? total : all - 2 * total;
    }
  }
};

// Gradients of some features of a sentence: with g that of the scores,
// da_id = w_d sum_j g_ij (1 - tanh^2), db_jd = w_d sum_i g_ij (1 - tanh^2), dw_d = sum_ij g_ij tanh.
template <class T>
class Gradients {
  using F = Features<T>;
  using Vector = typename F::Vector;
  static constexpr int kWidth = F::count;
  // A second word's features, its gradient, and that of some rows.
  static constexpr int64_t kRecord = 3 * kWidth;

 public:
  explicit Gradients(const Pairs<T>& pairs) : p(pairs), memory(pairs.columns * kRecord + kWidth) {
    void* start = memory.data();
    size_t space = memory.size() * sizeof(T);
    records = static_cast<T*>(std::align(F::kBytes, F::kBytes, start, space));
  }

  void run(int64_t task, int64_t blocks) {
    const int64_t sentence = task / blocks, at = task % blocks * kWidth;
    const int width = static_cast<int>(std::min<int64_t>(kWidth, p.features - at));
    const int64_t rows = p.sizes[2 * sentence], columns = p.sizes[2 * sentence + 1];
    const T* first = p.first + sentence * p.rows * p.features + at;
    const T* second = p.second + sentence * p.columns * p.features + at;
    const Vector weight = F::load(p.weight + at, width);
    const Vector top = top_of(tangents, first, rows, width, p.features);
    const Vector other = top_of(tangents, second, columns, width, p.features);
    form = Tangents<T>::form_of(other > top ? other : top);
    for (int64_t column = 0; column < columns; ++column) {
      T* record = records + column * kRecord;
      F::store(record, tangents.prepared(F::load(second + column * p.features, width), form));
      F::store(record + kWidth, Vector{});
      F::store(record + 2 * kWidth, Vector{});
    }
    T* of_first = p.of_first + sentence * p.rows * p.features + at;
    Vector of_weight{};
    for (int64_t row = 0; row < p.rows; ++row) {
      Vector of_row{};
      if (row < rows && columns > 0) {
        const Vector one = tangents.prepared(F::load(first + row * p.features, width), form);
        const T* gradient = p.gradient + (sentence * p.rows + row) * p.columns;
        if (form == Form::kTangents) look<Form::kTangents>(one, gradient, columns, of_row, of_weight);
        else if (form == Form::kProduct) look<Form::kProduct>(one, gradient, columns, of_row, of_weight);
        else look<Form::kSum>(one, gradient, columns, of_row, of_weight);
      }
      F::store(of_first + row * p.features, of_row * weight, width);
      // Sums of sums of few numbers lose fewer digits.
      if (row % kRows == kRows - 1) collect(columns);
    }
    collect(columns);
    T* of_second = p.of_second + sentence * p.columns * p.features + at;
    for (int64_t column = 0; column < p.columns; ++column) {
      const Vector found = column < columns ? F::load(records + column * kRecord + kWidth) * weight : Vector{};
      F::store(of_second + column * p.features, found, width);
    }
    F::store(p.of_weight + sentence * p.features + at, of_weight, width);
  }

 private:
  const Pairs<T>& p;
  const Tangents<T> tangents;
  std::vector<T> memory;
  T* records;
  Form form = Form::kSum;

  void collect(int64_t columns) {
    for (int64_t column = 0; column < columns; ++column) {
      T* record = records + column * kRecord;
      F::store(record + kWidth, F::load(record + kWidth) + F::load(record + 2 * kWidth));
      F::store(record + 2 * kWidth, Vector{});
    }
  }

  template <Form kForm>
  STRUCTATTN_INLINE void look(Vector one, const T* gradient, int64_t columns, Vector& of_row, Vector& of_weight) {
    Vector slopes{}, sum{};
    T all = 0;
    T* record = records;
    for (int64_t column = 0; column < columns; ++column, record += kRecord) {
      const Vector bent = tangents.template bent<kForm>(one, F::load(record));
      // 1 - tanh^2 is 4 y (1 - y).
      const Vector slope = (kForm == Form::kTangents ? T(1) - bent * bent : (bent - bent * bent) * T(4)) * gradient[column];
      slopes += slope;
      sum += bent * gradient[column];
      all += gradient[column];
      F::store(record + 2 * kWidth, F::load(record + 2 * kWidth) + slope);
    }
    of_row = slopes;
    of_weight += kForm == Form::kTangents ? sum : all - sum * T(2);
  }
};

// Share `tasks` out to threads; each has a worker of its own.
template <class Worker, class T>
int run_all(const Pairs<T>& pairs, int64_t tasks, int64_t parts) {
  struct State {
    const Pairs<T>& pairs;
    int64_t tasks, parts;
    std::atomic<int64_t> next{0};
    std::atomic<bool> out_of_memory{false};
  };
  State state{pairs, tasks, parts};
  const auto body = [](void* context) {
    State& state = *static_cast<State*>(context);
    try {
      Worker worker(state.pairs);
      for (int64_t task; (task = state.next.fetch_add(1)) < state.tasks;) worker.run(task, state.parts);
    } catch (const std::bad_alloc&) {
      state.out_of_memory = true;
    }
  };
  // A thread is worth waking for some ten thousand pairs of words and eight features.
  const int64_t work = pairs.batch * pairs.rows * pairs.columns * ((pairs.features + 7) / 8);
  run_on_threads(std::min(tasks, work / 10000 + 1), body, &state);
  return state.out_of_memory ? kOutOfMemory : kDone;
}

template <class T>
int score_all(const Pairs<T>& pairs) {
  const int64_t chunks = (pairs.rows + kRows - 1) / kRows;
  return run_all<Scoring<T>>(pairs, pairs.batch * chunks, chunks);
}

template <class T>
int find_gradients(const Pairs<T>& pairs) {
  const int64_t blocks = (pairs.features + Features<T>::count - 1) / Features<T>::count;
  return run_all<Gradients<T>>(pairs, pairs.batch * blocks, blocks);
}

}  // namespace
}  // namespace structattn

#define STRUCTATTN_EXPORT_ADDITIVE_SCORES(T, NAME)                                                                    \
  int structattn_additive_scores_##NAME(const T* first, const T* second, const T* weight, const int64_t* sizes,       \
                                        T* scores, int64_t batch, int64_t rows, int64_t columns, int64_t features) {  \
    return structattn::score_all<T>({first, second, weight, sizes, scores, nullptr, nullptr, nullptr, nullptr, batch, \
                                     rows, columns, features});                                                       \
  }                                                                                                                   \
  int structattn_additive_scores_backward_##NAME(                                                                     \
      const T* first, const T* second, const T* weight, const int64_t* sizes, const T* gradient, T* of_first,         \
      T* of_second, T* of_weight, int64_t batch, int64_t rows, int64_t columns, int64_t features) {                   \
    return structattn::find_gradients<T>({first, second, weight, sizes, nullptr, gradient, of_first, of_second,       \
                                          of_weight, batch, rows, columns, features});                                \
  }

extern "C" {
STRUCTATTN_EXPORT_ADDITIVE_SCORES(float, float32)
STRUCTATTN_EXPORT_ADDITIVE_SCORES(double, float64)
}
