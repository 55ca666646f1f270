// What the whole library shares: its version, the processor it runs on, and the threads it borrows from torch.
#include "batch.hpp"

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace {

using Range = void (*)(int64_t begin, int64_t end, void* context);
using ParallelFor = int32_t (*)(int64_t begin, int64_t end, int64_t grain, Range body, void* context);

ParallelFor parallel_for = nullptr;

struct Tasks {
  void (*body)(void*);
  void* context;
};

}  // namespace

namespace structattn {

void run_on_threads(int64_t tasks, void (*body)(void*), void* context) {
  if (tasks <= 1 || parallel_for == nullptr) {
    body(context);
    return;
  }
  Tasks shared{body, context};
  // Tasks take their work from a common counter: a range given to one thread is one call.
  const Range once = [](int64_t, int64_t, void* context) {
    const Tasks& tasks = *static_cast<Tasks*>(context);
    tasks.body(tasks.context);
  };
  parallel_for(0, tasks, 1, once, &shared);
}

void prefer_large_pages(void* memory, int64_t bytes) {
#if defined(__linux__)
  constexpr uintptr_t kLarge = uintptr_t{2} << 20;
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(memory) + kLarge - 1) / kLarge * kLarge;
  const uintptr_t end = (reinterpret_cast<uintptr_t>(memory) + bytes) / kLarge * kLarge;
  // A hint: whether it was taken makes no difference to what is computed.
  if (end > begin) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#else
  (void)memory, (void)bytes;
#endif
}

}  // namespace structattn

extern "C" {

// Changes when a signature does; compared by the loader.
int structattn_version() { return 5; }

// Whether this processor can run the library that was compiled for AVX2.
int structattn_has_avx2() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return 0;
#endif
}

// The address of `torch_parallel_for`, which libtorch exports; without it everything runs on the calling thread.
void structattn_use_threads(void* address) { parallel_for = reinterpret_cast<ParallelFor>(address); }
}
