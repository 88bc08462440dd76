// A library that the CUDA driver loads into a process, and that writes down when its kernels ran:
// also those inside recorded graphs. What bench/overlap.py reads.
//
//   CUDA_INJECTION64_PATH=build/bench/libkernel_trace.so KERNEL_TRACE=/tmp/trace build/snug train ...
//
// makes /tmp/trace.RANK (or .PID): a line for each kernel, "BEGIN END STREAM NAME", times in ns.
#include <cupti.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>

#include "hal/library.h"

namespace {

constexpr size_t kBufferBytes = size_t{8} << 20;

struct Cupti {
  snug::Library library{"libcupti.so." + std::to_string(CUDA_VERSION / 1000)};
  decltype(&cuptiActivityRegisterCallbacks) callbacks =
      library.function<decltype(cuptiActivityRegisterCallbacks)>("cuptiActivityRegisterCallbacks");
  decltype(&cuptiActivityEnable) enable =
      library.function<decltype(cuptiActivityEnable)>("cuptiActivityEnable");
  decltype(&cuptiActivityGetNextRecord) next =
      library.function<decltype(cuptiActivityGetNextRecord)>("cuptiActivityGetNextRecord");
  decltype(&cuptiActivityFlushAll) flush =
      library.function<decltype(cuptiActivityFlushAll)>("cuptiActivityFlushAll");

  bool complete() const {
    return callbacks != nullptr && enable != nullptr && next != nullptr && flush != nullptr;
  }
};

const Cupti& cupti() {
  static const Cupti* const loaded = new Cupti;  // needed until the very end of the process
  return *loaded;
}

std::FILE* trace_file() {
  static std::FILE* const file = [] {
    const char* path = std::getenv("KERNEL_TRACE");
    const char* rank = std::getenv("RANK");
    return std::fopen(((path != nullptr ? path : "kernel-trace") + std::string(".") +
                       (rank != nullptr ? rank : std::to_string(getpid())))
                          .c_str(),
                      "w");
  }();
  return file;
}

void give_buffer(uint8_t** buffer, size_t* bytes, size_t* most_records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, kBufferBytes));
  *bytes = kBufferBytes;
  *most_records = 0;  // as many as there is room for
}

void write_down(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  CUpti_Activity* record = nullptr;
  while (trace_file() != nullptr && cupti().next(buffer, valid, &record) == CUPTI_SUCCESS) {
    // Every later version of a kernel's record begins like this one.
    const auto* kernel = reinterpret_cast<const CUpti_ActivityKernel9*>(record);
    std::fprintf(trace_file(), "%llu %llu %u %s\n", static_cast<unsigned long long>(kernel->start),
                 static_cast<unsigned long long>(kernel->end), kernel->streamId, kernel->name);
  }
  std::free(buffer);
}

void finish() {
  cupti().flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  if (trace_file() != nullptr) std::fflush(trace_file());
}

}  // namespace

// Called by the driver when the process first uses it.
extern "C" int InitializeInjection() {
  if (!cupti().complete()) {
    std::fprintf(stderr, "kernel_trace: %s cannot be used: %s\n", cupti().library.file().c_str(),
                 cupti().library.why_not().c_str());
    return 1;
  }
  cupti().callbacks(give_buffer, write_down);
  cupti().enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  std::atexit(finish);
  return 1;
}
