// Probabilities of labelled segments, and their derivatives: the program of segments.hpp backwards.
//
// o[s,b] = sum over t > s and labels c of o[t,c] W(s,t,b,c); a segment has the probability beta[s,b] W(s,t,b,c) o[t,c].
#include "segments.hpp"

namespace structattn {
namespace segments {
namespace {

template <class T, class Num>
class Marginals : Forward<T, Num> {
  using Base = Forward<T, Num>;
  using Base::call, Base::C, Base::beta, Base::group, Base::top, Base::scale, Base::total, Base::relative;

 public:
  using Base::work;

  Marginals(const Segments<T>& call, void* memory)
      : Base(call, memory), outside_(static_cast<Num*>(memory) + (call.words + 1) * call.states),
        row_(outside_ + (call.words + 1) * call.states) {}

  static int64_t bytes(const Segments<T>& call, int64_t) {
    return (2 * (call.words + 1) + 1) * call.states * static_cast<int64_t>(sizeof(Num));
  }

  unsigned char run(const Group& sentences) {
    const unsigned char untrusted = this->sum(sentences, row_);
    for (int lane = 0; lane < kLanes; ++lane) {
      expected_[lane] = {top[lane], 0.0, 0.0};
      if (group.items[lane] < 0) continue;
      if (call.log_partition != nullptr) {
        call.log_partition[group.items[lane]] = static_cast<T>(this->log_left(lane) + top[lane]);
      }
      call.clear_parts(group.items[lane]);
    }
    if (call.parts != nullptr || call.entropies.wants_parts()) go_back();
    for (int lane = 0; lane < kLanes && call.entropies.wanted(); ++lane) {
      if (group.items[lane] < 0) continue;
      const int64_t length = group.lengths[lane];
      const bool is_single = length == 0 || (C == 1 && (length == 1 || call.widths == 1));
      expected_[lane].write(call.entropies, group.items[lane], this->log_left(lane), is_single);
    }
    return untrusted;
  }

 private:
  Num *outside_, *row_;
  Expected expected_[kLanes];

  void go_back() {
    const Num start = outside_of_all(total);
    for (int64_t t = 0; t <= group.longest; ++t) {
      for (int64_t c = 0; c < C; ++c) {
        const int64_t cell = t * C + c;
        const Num last = this->last(t, c);
        outside_[cell] = pull(&start, &last, 1, beta[cell]);
        if (!call.entropies.wanted()) continue;
        const Lanes used = probability(outside_[cell], beta[cell]), left = this->last_score(t, c);
        for (int lane = 0; lane < kLanes; ++lane) {
          if (used[lane] != 0.0) expected_[lane].score += used[lane] * left[lane];
        }
      }
    }
    for (int64_t t = group.longest; t >= 1; --t) {
      const Num* after = outside_ + t * C;
      for (int64_t s = call.first_start(t); s < t; ++s) {
        for (int64_t b = 0; b < (s == 0 ? 1 : C); ++b) {
          this->fill_row(s, t, b, row_);
          const int64_t cell = s * C + b;
          outside_[cell] = both(outside_[cell], pull(after, row_, C, beta[cell]));
          for (int64_t c = 0; c < C; ++c) {
            const Num own = pull(after + c, beta + cell, 1, row_[c]);
            write(call.part(s, t, b, c), t, probability(own, row_[c]), relative[c]);
          }
        }
      }
    }
  }

  STRUCTATTN_INLINE void write(int64_t place, int64_t end, Lanes used, Lanes left) {
    for (int lane = 0; lane < kLanes; ++lane) {
      if (group.items[lane] < 0 || end > group.lengths[lane]) continue;
      const int64_t part = group.items[lane] * call.num_parts + place;
      if (call.entropies.wanted()) {
        if (used[lane] != 0.0) expected_[lane].add(call.entropies, used[lane], left[lane], part);
        continue;
      }
      // Rounding may leave 1 + 2e-16; the nearest probability is meant.
      const double value = call.vector != nullptr ? used[lane] * scale[lane] : std::min(used[lane], 1.0);
      call.parts[part] = static_cast<T>(value);
    }
  }
};

template <template <class> class Wider, class Num, class T>
int evaluate(const Segments<T>& call) {
  return sweep_twice<Marginals<T, Num>, Marginals<T, Wider<Num>>>(call);
}

}  // namespace
}  // namespace segments
}  // namespace structattn

using structattn::Dual;
using structattn::Extended;
using structattn::Plain;
using structattn::segments::call_of;
using structattn::segments::evaluate;

#define STRUCTATTN_EXPORT_SEGMENTS(T, NAME)                                                                           \
  int structattn_segments_marginals_##NAME(const T* scores, const int64_t* lengths, T* log_partition, T* parts,       \
                                           int64_t batch, int64_t words, int64_t widths, int64_t states) {            \
    return evaluate<Extended, Plain>(                                                                                 \
        call_of<T>(scores, lengths, nullptr, log_partition, parts, batch, words, widths, states));                    \
  }                                                                                                                   \
  int structattn_segments_hvp_##NAME(const T* scores, const int64_t* lengths, const T* vector, T* product,            \
                                     int64_t batch, int64_t words, int64_t widths, int64_t states) {                  \
    return evaluate<Extended, Dual>(                                                                                  \
        call_of<T>(scores, lengths, vector, nullptr, product, batch, words, widths, states));                         \
  }                                                                                                                   \
  int structattn_segments_entropy_##NAME(const T* scores, const int64_t* lengths, const T* values,                    \
                                         double* log_partition, double* entropy, double* gap, int64_t batch,          \
                                         int64_t words, int64_t widths, int64_t states) {                             \
    auto call = call_of<T>(scores, lengths, nullptr, nullptr, nullptr, batch, words, widths, states);                 \
    call.entropies = {values, log_partition, entropy, gap};                                                           \
    return structattn::finished(evaluate<Extended, Plain>(call), entropy, batch);                                     \
  }

extern "C" {
STRUCTATTN_EXPORT_SEGMENTS(float, float32)
STRUCTATTN_EXPORT_SEGMENTS(double, float64)
}
