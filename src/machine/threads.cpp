#include "machine/threads.h"

#include <omp.h>

#include "kernels/cpu/gemm.h"

namespace snug {

ThreadsOfRun::ThreadsOfRun() : before_(omp_get_max_threads()) {}
ThreadsOfRun::~ThreadsOfRun() { use(before_); }

void ThreadsOfRun::use(int64_t asked) const {
  if (asked > 0) ops::use_threads(asked);
}

}  // namespace snug
